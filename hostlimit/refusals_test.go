package hostlimit_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

// TestStatesOfRefusals reads the table of Refusals row by row: in which state an answer leaves a key,
// how many refusals and failures are in a row then, and what the Effect says.
func TestStatesOfRefusals(t *testing.T) {
	const s, now = time.Second, 100 * time.Second
	rules, err := hostlimit.Config{Backoff: backoff.Refusals{Policy: backoff.Doubling{Start: 10 * s}, InARow: 3}}.Rules()
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]hostlimit.Refusals{
		"open":    {},
		"failing": {Failures: 2}, // open, one failure short of a refusal
		"paused":  {Until: now + s, SetAt: 5, Cause: "rate limit"},
		"blocked": {Row: 2, Until: now + s, SetAt: 5, Cause: "status 429"},
		"waiting": {Row: 2, Until: now, SetAt: 5, Cause: "status 429"},
		"stopped": {Until: now + s, SetAt: 5, Cause: "by hand: stop"},
	}
	answers := map[string]hostlimit.Outcome{
		"200": {Status: 200}, "200 aside": {Status: 200, Aside: true}, "407": {Status: 407}, "cancelled": {},
		"403": {Status: 403}, "500": {Status: 500}, "none": {Err: errors.New("connection reset")},
		"429": {Status: 429}, "429 for 30 s": {Status: 429, RetryAfter: 30 * s}, "challenge": {Status: 200, Refused: "a challenge"},
		"reset in 30 s": {Status: 200, Reset: 30 * s},
	}
	const first, probe, earlier = 6, 6, 5 // numbers of requests; the block was set after the fifth
	for _, c := range []struct {
		state, answer string
		request       uint64
		next          string
		row, failures int
		until         time.Duration // from now
		cause         string
		blocked       bool
		cleared       bool
	}{
		{"open", "200", first, "open", 0, 0, -now, "", false, false},
		{"open", "403", first, "open", 0, 1, -now, "", false, false},
		{"open", "429", first, "blocked", 1, 0, 10 * s, "status 429", true, false},
		{"open", "429 for 30 s", first, "blocked", 1, 0, 30 * s, "status 429", true, false},
		{"open", "challenge", first, "blocked", 1, 0, 10 * s, "refused", true, false},
		{"open", "reset in 30 s", first, "paused", 0, 0, 30 * s, "rate limit", true, false},
		{"failing", "200", first, "open", 0, 0, -now, "", false, false},
		{"failing", "200 aside", first, "open", 0, 2, -now, "", false, false},
		{"failing", "407", first, "open", 0, 2, -now, "", false, false},
		{"failing", "cancelled", first, "open", 0, 2, -now, "", false, false},
		{"failing", "403", first, "blocked", 1, 0, 10 * s, "status 403", true, false},
		{"failing", "500", first, "blocked", 1, 0, s, "status 500", true, false},
		{"failing", "none", first, "blocked", 1, 0, s, "network error", true, false},
		{"paused", "403", earlier, "paused", 0, 0, s, "rate limit", false, false},
		{"paused", "429", earlier, "paused", 0, 0, s, "rate limit", false, false},
		{"paused", "429 for 30 s", earlier, "paused", 0, 0, 30 * s, "status 429", true, false},
		{"blocked", "200", earlier, "blocked", 2, 0, s, "status 429", false, false},
		{"blocked", "500", earlier, "blocked", 2, 0, s, "status 429", false, false},
		{"blocked", "429", earlier, "blocked", 2, 0, s, "status 429", false, false},
		{"blocked", "429 for 30 s", earlier, "blocked", 2, 0, 30 * s, "status 429", true, false},
		{"blocked", "reset in 30 s", earlier, "blocked", 2, 0, 30 * s, "rate limit", true, false},
		{"waiting", "200", earlier, "waiting", 2, 0, 0, "status 429", false, false},
		{"waiting", "200", probe, "open", 0, 0, -now, "", false, true},
		{"waiting", "200 aside", probe, "waiting", 2, 0, 0, "status 429", false, false},
		{"waiting", "407", probe, "waiting", 2, 0, 0, "status 429", false, false},
		{"waiting", "cancelled", probe, "waiting", 2, 0, 0, "status 429", false, false},
		{"waiting", "403", probe, "blocked", 3, 0, 40 * s, "status 403", true, false},
		{"waiting", "500", probe, "blocked", 3, 0, 2 * s, "status 500", true, false},
		{"waiting", "429", probe, "blocked", 3, 0, 40 * s, "status 429", true, false},
		{"waiting", "reset in 30 s", probe, "paused", 0, 0, 30 * s, "rate limit", true, true},
		{"stopped", "200", first, "blocked", 0, 0, s, "by hand: stop", false, false},
		{"stopped", "429", first, "blocked", 0, 0, s, "by hand: stop", false, false},
		{"stopped", "429 for 30 s", first, "blocked", 0, 0, 30 * s, "by hand: stop", true, false},
		{"stopped", "reset in 30 s", first, "blocked", 0, 0, 30 * s, "by hand: stop", true, false},
	} {
		r := states[c.state]
		r.Learned = 7
		e := r.Observe(rules, answers[c.answer], now, c.request, 9)
		want := hostlimit.Refusals{Row: c.row, Failures: c.failures, Until: now + c.until, Cause: c.cause, Learned: 7, SetAt: states[c.state].SetAt}
		if c.blocked {
			want.SetAt = 9
		}
		if effect := (hostlimit.Effect{Blocked: c.blocked, Refusals: c.row, Cleared: c.cleared}); r != want || stateOf(&r, now) != c.next || e != effect {
			t.Errorf("%s, %s of request %d: %s, %+v, %+v, want %s, %+v, %+v", c.state, c.answer, c.request, stateOf(&r, now), r, e, c.next, want, effect)
		}
	}
}

// stateOf returns the state of a key by the table of Refusals.
func stateOf(r *hostlimit.Refusals, now time.Duration) string {
	switch blocks := r.Until > now; {
	case blocks && (r.Row > 0 || r.Stopped(now)):
		return "blocked"
	case blocks:
		return "paused"
	case r.Row > 0:
		return "waiting"
	}
	return "open"
}

func TestRefusalsByHand(t *testing.T) {
	rules, err := hostlimit.Config{}.Rules()
	if err != nil {
		t.Fatal(err)
	}
	var r hostlimit.Refusals
	if r.Clear(5) || r.Forgive(rules, math.MaxInt64) {
		t.Errorf("there was nothing to clear: %+v", r)
	}
	r.Block(10, "by hand: stop", 3)
	r.Block(8, "by hand: a while", 4)
	if want := (hostlimit.Refusals{Until: 10, SetAt: 4, Cause: "by hand: a while"}); r != want || !r.Stopped(9) || r.Stopped(10) {
		t.Errorf("%+v, want %+v", r, want)
	}
	if !r.Clear(9) || stateOf(&r, 9) != "open" || r.Clear(9) {
		t.Errorf("cleared: %+v", r)
	}
	r.Observe(rules, hostlimit.Outcome{Status: 429}, 0, 5, 5)
	end := r.Until + 30*time.Minute // Forgive
	if r.Forgive(rules, end-1) || !r.Forgive(rules, end) || stateOf(&r, end) != "open" {
		t.Errorf("forgiven: %+v", r)
	}
}

// The counter is bounded, also that of failures.
func TestRefusalsWithoutEnd(t *testing.T) {
	rules, err := hostlimit.Config{Backoff: backoff.Refusals{InARow: math.MaxUint16}}.Rules()
	if err != nil {
		t.Fatal(err)
	}
	var r hostlimit.Refusals
	for n := range uint64(300) {
		now := r.Until
		r.Observe(rules, hostlimit.Outcome{Status: 429}, now, n+1, n+1)
	}
	if r.Row != 255 {
		t.Errorf("%d refusals in a row", r.Row)
	}
	r = hostlimit.Refusals{}
	for n := range uint64(math.MaxUint16) {
		r.Observe(rules, hostlimit.Outcome{Status: 500}, 0, n+1, n+1)
	}
	if fmt.Sprint(r.Row, r.Failures) != "1 0" {
		t.Errorf("%+v", r)
	}
}

func TestCauseOfABlock(t *testing.T) {
	rules, err := hostlimit.Config{Backoff: backoff.Refusals{Statuses: []int{302, 400, 599, 600, 999}, Network: true}}.Rules()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    hostlimit.Outcome
		want string
	}{
		{hostlimit.Outcome{Status: 429}, "status 429"},
		{hostlimit.Outcome{Status: 400}, "status 400"},
		{hostlimit.Outcome{Status: 599}, "status 599"},
		{hostlimit.Outcome{Err: errors.New("reset")}, "network error"},
		{hostlimit.Outcome{Status: 999}, "refused"},
		{hostlimit.Outcome{Status: 302}, "refused"},
	} {
		var r hostlimit.Refusals
		if r.Observe(rules, c.o, 0, 1, 1); r.Cause != c.want {
			t.Errorf("cause of %+v: %q, want %q", c.o, r.Cause, c.want)
		}
	}
}
