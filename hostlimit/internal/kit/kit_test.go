package kit

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func TestAdaptive(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		a                  Adaptive
		old, latency, want time.Duration
	}{
		{Adaptive{}, 5 * s, 5 * s, 0},
		{Squared, 0, 500 * ms, 250 * ms},
		{Squared, 9 * s, 3 * s, 9 * s},
		{Squared, 9 * s, s, s},
		{Squared, 0, 10 * ms, 200 * ms}, // never below Min
		{Squared, 0, 8 * s, 60 * s},     // never above Ceiling
		{Squared, 0, math.MaxInt64, 60 * s},
		{Squared, 0, -s, 200 * ms},
		{Proportional(5), 0, s, 5 * s},
		{Proportional(5), 5 * s, 500 * ms, 2500 * ms},
		{Proportional(math.MaxFloat64), 0, math.MaxInt64, 60 * s},
		{Throttle(1), 0, 4 * s, 4 * s},       // up at once
		{Throttle(2), 4 * s, 4 * s, 3 * s},   // (4 + 4/2) / 2
		{Throttle(1), 4 * s, s, 2500 * ms},   // down by halves
		{Throttle(1), 0, 300 * ms, 300 * ms}, // an unknown delay is Min
		{Throttle(1), 0, 100 * ms, 200 * ms}, // (0.2 + 0.1) / 2, but never below Min
		{Throttle(math.SmallestNonzeroFloat64), 0, s, 60 * s},
	} {
		if got := c.a.next(c.old, c.latency, 200*ms, 60*s); got != c.want {
			t.Errorf("%v: %v after %v became %v, want %v", c.a, c.old, c.latency, got, c.want)
		}
	}
	if got := fmt.Sprint(Squared, Proportional(5), Throttle(1.5), Adaptive{}); got != "Squared Proportional(5) Throttle(1.5) none" {
		t.Errorf("printed as %s", got)
	}
}

// TestErrorAnswerNeverLowersTheDelay: a host that fails fast isn't asked faster.
func TestErrorAnswerNeverLowersTheDelay(t *testing.T) {
	l := &Limits{Min: time.Second, Ceiling: time.Minute, Adaptive: Proportional(5)}
	for _, c := range []struct {
		status  int
		latency time.Duration
		want    time.Duration
	}{
		{200, time.Second, 5 * time.Second},
		{399, time.Second, 5 * time.Second},
		{400, time.Second, 10 * time.Second},
		{503, time.Second, 10 * time.Second},
		{503, 4 * time.Second, 20 * time.Second},
		{0, 4 * time.Second, 10 * time.Second},
	} {
		if got := l.Adapt(10*time.Second, Outcome{Status: c.status, Latency: c.latency}); got != c.want {
			t.Errorf("status %d in %v: 10s became %v, want %v", c.status, c.latency, got, c.want)
		}
	}
}

func TestShareOfTheLimits(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		own   Own
		n     int
		whole bool
		want  Own
	}{
		{Own{}, 2, true, Own{1, Delay{Min: 400 * ms, Max: time.Second, Ceiling: 2 * time.Minute}}},
		{Own{Concurrency: 7}, 3, true, Own{2, Delay{Min: 600 * ms, Max: 1500 * ms, Ceiling: 3 * time.Minute}}},
		{Own{Concurrency: 2, Delay: Delay{Min: 2 * time.Minute}}, 4, true, Own{1, Delay{Min: 8 * time.Minute, Max: 8 * time.Minute, Ceiling: 8 * time.Minute}}},
		{Own{Delay: Delay{DangerouslyNone: true}}, 4, true, Own{1, Delay{DangerouslyNone: true, Ceiling: 4 * time.Minute}}},
		{Own{}, 4, false, Own{}},
		{Own{Concurrency: 8}, 4, false, Own{Concurrency: 2}},
		{Own{Concurrency: -1}, 4, false, Own{Concurrency: -1}},
		{Own{Delay: Delay{Min: math.MaxInt64}}, 4, false, Own{0, Delay{Min: 1 << 61, Max: 1 << 61, Ceiling: 1 << 61}}},
	} {
		if got := c.own.Share(c.n, c.whole); got != c.want {
			t.Errorf("a share of %d of %+v: %+v, want %+v", c.n, c.own, got, c.want)
		}
	}
}
