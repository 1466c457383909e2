package tally_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/tally"
)

func TestSnapshot(t *testing.T) {
	var c tally.Tally
	now := time.Date(2026, 11, 23, 12, 0, 30, 0, time.UTC)
	c.Starts.Add(5)
	c.Answer(200, 2*time.Second, now.Add(-2*time.Hour)) // its place in the ring is used again
	c.Answer(200, time.Second, now)
	c.Answer(204, 3*time.Second, now)
	c.Answer(999, time.Second, now.Add(-time.Minute))
	c.Answer(0, time.Hour, now)
	c.Refuse("budget")
	c.Refuse("budget")
	c.Reach("https://b.example", &tally.Unreachable{Origin: "https://b.example", Reason: "timeout"})
	c.Reach("https://a.example", &tally.Unreachable{Origin: "https://a.example"})
	c.Reach("https://gone.example", &tally.Unreachable{Origin: "https://gone.example"})
	c.Reach("https://gone.example", nil)
	c.Visit("a.example", 2, now)
	c.Visit("a.example", -1, now)
	c.Visit("b.example", 1, now)
	c.Visit("b.example", -1, now)
	s := c.Snapshot(now)
	if s.Starts != 5 || fmt.Sprint(s.Answers) != "map[2xx:3 9xx:1 none:1]" || fmt.Sprint(s.Refusals) != "map[budget:2]" {
		t.Errorf("%d starts, answers %v, refusals %v", s.Starts, s.Answers, s.Refusals)
	}
	if len(s.Unreachable) != 2 || s.Unreachable[0].Origin != "https://a.example" || s.Unreachable[1].Reason != "timeout" {
		t.Errorf("unreachable: %+v", s.Unreachable)
	}
	if len(s.Visitors) != 1 || s.Visitors["a.example"].Waiting != 1 {
		t.Errorf("visitors: %v", s.Visitors)
	}
	if len(s.Latency) != 2 || s.Latency[0].Mean != 1 || s.Latency[1].Answers != 2 || s.Latency[1].Mean != 2 {
		t.Errorf("latency: %+v", s.Latency)
	}
}

func TestALossIsNewByItsInnermostError(t *testing.T) {
	var r tally.Tally
	full := errors.New("no space left")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{fmt.Errorf("a: %w", full), true},
		{fmt.Errorf("b: %w", full), false},
		{errors.Join(full, errors.New("other")), false},
		{errors.New("read-only"), true},
	} {
		if got := r.Lost(c.err); got != c.want {
			t.Errorf("%v: new %t, want %t", c.err, got, c.want)
		}
	}
	if err := r.StateErr(); err == nil || err.Error() != "state: a: no space left (the first of 2 reasons)" {
		t.Errorf("%v", err)
	}
}

// TestTheLastUnreachableOriginsAreShown of more than there is room for.
func TestTheLastUnreachableOriginsAreShown(t *testing.T) {
	var c tally.Tally
	down := func(n int) {
		origin := fmt.Sprintf("https://%04d.example", n)
		c.Reach(origin, &tally.Unreachable{Origin: origin})
	}
	for n := range 1500 {
		down(n)
	}
	down(501)
	down(1500)
	got := c.Snapshot(time.Now()).Unreachable
	if len(got) != 1000 || got[0].Origin != "https://0501.example" || got[1].Origin != "https://0502.example" || got[999].Origin != "https://1500.example" {
		t.Errorf("%d: %v", len(got), got[:2])
	}
}
