package rules

import (
	"math"
	"testing"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

// No block that a policy sets is longer than the longest, its jitter included.
func TestNoBlockIsLongerThanTheLongest(t *testing.T) {
	for _, c := range []struct {
		policy backoff.Policy
		want   time.Duration
	}{
		{nil, 24 * time.Hour},
		{backoff.Fibonacci{Cap: 48 * time.Hour}, 48 * time.Hour},
		{backoff.Doubling{}, 24 * time.Hour},
		{backoff.Doubling{Start: 15 * time.Minute, Cap: 24 * time.Hour, Jitter: [2]float64{0.1, 0.2}}, 28*time.Hour + 48*time.Minute},
		{backoff.Doubling{Start: time.Hour, Cap: math.MaxInt64, Jitter: [2]float64{0, 1}}, math.MaxInt64},
	} {
		r, err := New(hostlimit.Config{Backoff: backoff.Refusals{Policy: c.policy}})
		if err != nil {
			t.Fatal(err)
		}
		longest := r.LongestBlock()
		if longest != c.want {
			t.Errorf("%+v: %v, want %v", c.policy, longest, c.want)
		}
		for n := range 1000 {
			if d := r.Backoff().Delay(n); d > longest {
				t.Errorf("%+v: refusal %d blocks for %v", c.policy, n, d)
			}
		}
	}
}

// A debt that somebody has written, with a block of centuries, holds a host for a week at most. What
// a person has ordered holds as ordered.
func TestAForgedDebtDoesNotStay(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const centuries = 285 * 365 * 24 * time.Hour
	r, err := New(hostlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{{}, now, now.Add(-centuries), now.Add(centuries)} {
		d := hostlimit.Debt{BlockedAt: at, BlockedUntil: now.Add(centuries), Cause: "refused", Refusals: 3, NextStart: now.Add(centuries)}
		owed := r.Owed(d, now)
		if held := max(owed.BlockedUntil.Sub(now), owed.NextStart.Sub(now)); held > week {
			t.Errorf("blocked at %v: the host is held for %v", at, held)
		}
	}
	d := hostlimit.Debt{BlockedAt: now, BlockedUntil: now.Add(centuries), Cause: handPrefix + "for good"}
	if owed := r.Owed(d, now); !owed.BlockedUntil.Equal(d.BlockedUntil) {
		t.Errorf("a person's block ends at %v", owed.BlockedUntil)
	}
}
