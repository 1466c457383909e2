package rules

import (
	"context"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

func TestAdaptive(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		a                  hostlimit.Adaptive
		old, latency, want time.Duration
	}{
		{hostlimit.Learned, 0, 5 * s, 0},
		{hostlimit.Fixed, 0, 5 * s, 0},
		{hostlimit.Squared, 0, 500 * ms, 250 * ms},
		{hostlimit.Squared, 9 * s, 3 * s, 9 * s},
		{hostlimit.Squared, 9 * s, s, s},
		{hostlimit.Squared, 0, 10 * ms, 200 * ms}, // never below Min
		{hostlimit.Squared, 0, 8 * s, 60 * s},     // never above Ceiling
		{hostlimit.Squared, 0, math.MaxInt64, 60 * s},
		{hostlimit.Squared, 0, -s, 200 * ms},
		{hostlimit.Proportional(5), 4 * s, 0, 2 * s},
		{hostlimit.Proportional(5), 0, s, 2600 * ms},            // half the way from Min up,
		{hostlimit.Proportional(5), 5 * s, 500 * ms, 3750 * ms}, // and down
		{hostlimit.Longest(hostlimit.Squared, hostlimit.Proportional(2)), s, 3 * s, 9 * s},
		{hostlimit.Longest(hostlimit.Squared, hostlimit.Proportional(2)), 9 * s, s, 5500 * ms},
		{hostlimit.Longest(hostlimit.Learned, hostlimit.Proportional(2)), 9 * s, s, 5500 * ms},
		{hostlimit.Proportional(math.MaxFloat64), 0, math.MaxInt64, 60 * s},
		{hostlimit.Throttle(1), 0, 4 * s, 4 * s},       // up at once
		{hostlimit.Throttle(2), 4 * s, 4 * s, 3 * s},   // (4 + 4/2) / 2
		{hostlimit.Throttle(1), 4 * s, s, 2500 * ms},   // down by halves
		{hostlimit.Throttle(1), 0, 300 * ms, 300 * ms}, // an unknown delay is Min
		{hostlimit.Throttle(1), 0, 100 * ms, 200 * ms}, // (0.2 + 0.1) / 2, but never below Min
		{hostlimit.Throttle(math.SmallestNonzeroFloat64), 0, s, 60 * s},
	} {
		l := hostlimit.Delay{Adaptive: c.a, Min: 200 * ms, Ceiling: 60 * s}
		if got := adapt(&l, c.old, 0, hostlimit.Outcome{Status: 200, Latency: c.latency}); got != c.want {
			t.Errorf("%v: %v after %v became %v, want %v", c.a, c.old, c.latency, got, c.want)
		}
	}
}

// TestSlowerCountsWhatIsSlowerThanUsual: as far as it is more than half slower.
func TestSlowerCountsWhatIsSlowerThanUsual(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	l := hostlimit.Delay{Min: 200 * ms, Ceiling: 60 * s, Adaptive: hostlimit.Slower(1)}
	for _, c := range []struct{ usual, latency, want time.Duration }{
		{0, 5 * s, 200 * ms}, // the first one is usual
		{600 * ms, 600 * ms, 200 * ms},
		{600 * ms, 900 * ms, 200 * ms},
		{800 * ms, 1600 * ms, 495312500},
		{800 * ms, 2400 * ms, 1290625 * time.Microsecond}, // the usual time has grown a little
		{800 * ms, 3 * s, 1600 * ms},
		{s, math.MaxInt64, 60 * s},
	} {
		if got := adapt(&l, 0, c.usual, hostlimit.Outcome{Status: 200, Latency: c.latency}); got != c.want {
			t.Errorf("%v, usually %v: delay %v, want %v", c.latency, c.usual, got, c.want)
		}
	}
	if got := adapt(&l, 0, 0, hostlimit.Outcome{Status: 503, Latency: 2 * s}); got != 1100*ms {
		t.Errorf("a host that has served nothing fails in 2 s: delay %v, want 1.1 s", got)
	}
}

// TestUsualFollowsThePagesServed: quickly down, slowly up.
func TestUsualFollowsThePagesServed(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		before time.Duration
		o      hostlimit.Outcome
		want   time.Duration
	}{
		{0, hostlimit.Outcome{Status: 200, Latency: 600 * ms}, 600 * ms},
		{600 * ms, hostlimit.Outcome{Status: 200, Latency: 200 * ms}, 550 * ms},
		{600 * ms, hostlimit.Outcome{Status: 200, Latency: 856 * ms}, 601 * ms},
		{600 * ms, hostlimit.Outcome{Status: 200, Latency: ms, Aside: true}, 600 * ms},
		{600 * ms, hostlimit.Outcome{Status: 404, Latency: ms}, 600 * ms},
		{600 * ms, hostlimit.Outcome{Status: 301, Latency: ms}, 600 * ms},
		{600 * ms, hostlimit.Outcome{Err: io.EOF, Latency: ms}, 600 * ms},
		{600 * ms, hostlimit.Outcome{Status: 200, Latency: -1}, 600 * ms},
	} {
		if got := Usual(&c.o, c.before); got != c.want {
			t.Errorf("%v after %+v: %v, want %v", c.before, c.o, got, c.want)
		}
	}
}

// TestErrorAnswerNeverLowersTheDelay: a host that fails fast isn't asked faster.
func TestErrorAnswerNeverLowersTheDelay(t *testing.T) {
	l := hostlimit.Delay{Min: time.Second, Ceiling: time.Minute, Adaptive: hostlimit.Proportional(5)}
	for _, c := range []struct {
		status  int
		latency time.Duration
		want    time.Duration
	}{
		{200, time.Second, 7500 * time.Millisecond},
		{399, time.Second, 7500 * time.Millisecond},
		{400, time.Second, 10 * time.Second},
		{503, time.Second, 10 * time.Second},
		{503, 4 * time.Second, 15 * time.Second},
	} {
		if got := adapt(&l, 10*time.Second, 0, hostlimit.Outcome{Status: c.status, Latency: c.latency}); got != c.want {
			t.Errorf("status %d in %v: 10s became %v, want %v", c.status, c.latency, got, c.want)
		}
	}
}

// TestTimeWithoutAnAnswerCounts: a server that hangs isn't asked again at once.
func TestTimeWithoutAnAnswerCounts(t *testing.T) {
	l := hostlimit.Delay{Min: time.Second, Ceiling: time.Hour, Adaptive: hostlimit.Squared}
	for _, c := range []struct {
		name    string
		err     error
		latency time.Duration
		want    time.Duration
	}{
		{"no response", io.ErrUnexpectedEOF, 30 * time.Second, 15 * time.Minute},
		{"no response, quickly", io.ErrUnexpectedEOF, time.Second, 10 * time.Second},
		{"the caller's timeout", context.DeadlineExceeded, 30 * time.Second, 15 * time.Minute},
		{"the caller's timeout, quickly", context.DeadlineExceeded, time.Second, 10 * time.Second},
		{"the caller left", fmt.Errorf("get: %w", context.Canceled), 30 * time.Second, 10 * time.Second},
		{"nothing", nil, 30 * time.Second, 10 * time.Second},
	} {
		if got := adapt(&l, 10*time.Second, 0, hostlimit.Outcome{Err: c.err, Latency: c.latency}); got != c.want {
			t.Errorf("%s: 10s became %v, want %v", c.name, got, c.want)
		}
	}
}

// A delay is anything from Min to Max, both included.
func TestDrawnDelays(t *testing.T) {
	l := hostlimit.Delay{Min: 3, Max: 5}
	seen := map[time.Duration]int{}
	for range 1000 {
		seen[Draw(&l)]++
	}
	if len(seen) != 3 || seen[3] == 0 || seen[4] == 0 || seen[5] == 0 {
		t.Errorf("drawn from 3 to 5: %v", seen)
	}
}

// adapt does what a limiter does with o: it learns how long pages usually take, then the delay.
func adapt(d *hostlimit.Delay, old, usual time.Duration, o hostlimit.Outcome) time.Duration {
	return Adapt(d, old, Usual(&o, usual), &o)
}
