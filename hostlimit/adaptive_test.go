package hostlimit

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

func TestAdaptive(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		a                  Adaptive
		old, latency, want time.Duration
	}{
		{Learned, 0, 5 * s, 0},
		{Fixed, 0, 5 * s, 0},
		{Squared, 0, 500 * ms, 250 * ms},
		{Squared, 9 * s, 3 * s, 9 * s},
		{Squared, 9 * s, s, s},
		{Squared, 0, 10 * ms, 200 * ms}, // never below Min
		{Squared, 0, 8 * s, 60 * s},     // never above Ceiling
		{Squared, 0, math.MaxInt64, 60 * s},
		{Squared, 0, -s, 200 * ms},
		{Proportional(5), 4 * s, 0, 2 * s},
		{Proportional(5), 0, s, 2600 * ms},            // half the way from Min up,
		{Proportional(5), 5 * s, 500 * ms, 3750 * ms}, // and down
		{Longest(Squared, Proportional(2)), s, 3 * s, 9 * s},
		{Longest(Squared, Proportional(2)), 9 * s, s, 5500 * ms},
		{Longest(Learned, Proportional(2)), 9 * s, s, 5500 * ms},
		{Proportional(math.MaxFloat64), 0, math.MaxInt64, 60 * s},
		{Throttle(1), 0, 4 * s, 4 * s},       // up at once
		{Throttle(2), 4 * s, 4 * s, 3 * s},   // (4 + 4/2) / 2
		{Throttle(1), 4 * s, s, 2500 * ms},   // down by halves
		{Throttle(1), 0, 300 * ms, 300 * ms}, // an unknown delay is Min
		{Throttle(1), 0, 100 * ms, 200 * ms}, // (0.2 + 0.1) / 2, but never below Min
		{Throttle(math.SmallestNonzeroFloat64), 0, s, 60 * s},
	} {
		l := Delay{Adaptive: c.a, Min: 200 * ms, Ceiling: 60 * s}
		if got := l.Adapt(c.old, 0, Outcome{Status: 200, Latency: c.latency}); got != c.want {
			t.Errorf("%v: %v after %v became %v, want %v", c.a, c.old, c.latency, got, c.want)
		}
	}
}

func TestAdaptivePrintsAsItsExpression(t *testing.T) {
	for want, a := range map[string]Adaptive{
		"Learned": {}, "Fixed": Fixed, "Squared": Squared, "Proportional(5)": Proportional(5), "Throttle(1.5)": Throttle(1.5), "Slower(1)": Slower(1),
		"Longest(Learned, Proportional(1))":               Longest(Proportional(1), Learned),
		"Longest(Learned, Longest(Squared, Throttle(2)))": Longest(Longest(Throttle(2), Squared), Longest(Throttle(3), Learned)),
	} {
		if got := fmt.Sprint(a); got != want {
			t.Errorf("printed as %s, want %s", got, want)
		}
	}
}

// TestLongestIsOneValue: however it was put together, it compares equal.
func TestLongestIsOneValue(t *testing.T) {
	for _, c := range []struct{ a, b Adaptive }{
		{Longest(Squared, Throttle(2)), Longest(Throttle(2), Squared)},
		{Longest(Squared, Fixed), Squared},
		{Longest(Fixed, Learned), Learned},
		{Longest(Proportional(1), Proportional(2)), Proportional(2)},
		{Longest(Proportional(2), Proportional(1)), Proportional(2)},
		{Longest(Slower(1), Slower(2)), Slower(2)},
		{Longest(Throttle(1), Throttle(2)), Throttle(1)},
		{Longest(Throttle(2), Throttle(1)), Throttle(1)},
	} {
		if c.a != c.b {
			t.Errorf("%v isn't %v", c.a, c.b)
		}
	}
}

// TestSlowerCountsWhatIsSlowerThanUsual: as far as it is more than half slower.
func TestSlowerCountsWhatIsSlowerThanUsual(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	l := Delay{Min: 200 * ms, Ceiling: 60 * s, Adaptive: Slower(1)}
	for _, c := range []struct{ usual, latency, want time.Duration }{
		{0, 5 * s, 200 * ms}, // the first one is usual
		{600 * ms, 600 * ms, 200 * ms},
		{600 * ms, 900 * ms, 200 * ms},
		{800 * ms, 1600 * ms, 495312500},
		{800 * ms, 2400 * ms, 1290625 * time.Microsecond}, // the usual time has grown a little
		{800 * ms, 3 * s, 1600 * ms},
		{s, math.MaxInt64, 60 * s},
	} {
		if got := l.Adapt(0, c.usual, Outcome{Status: 200, Latency: c.latency}); got != c.want {
			t.Errorf("%v, usually %v: delay %v, want %v", c.latency, c.usual, got, c.want)
		}
	}
	if got := l.Adapt(0, 0, Outcome{Status: 503, Latency: 2 * s}); got != 1100*ms {
		t.Errorf("a host that has served nothing fails in 2 s: delay %v, want 1.1 s", got)
	}
}

// TestUsualFollowsThePagesServed: quickly down, slowly up.
func TestUsualFollowsThePagesServed(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		before time.Duration
		o      Outcome
		want   time.Duration
	}{
		{0, Outcome{Status: 200, Latency: 600 * ms}, 600 * ms},
		{600 * ms, Outcome{Status: 200, Latency: 200 * ms}, 550 * ms},
		{600 * ms, Outcome{Status: 200, Latency: 856 * ms}, 601 * ms},
		{600 * ms, Outcome{Status: 200, Latency: ms, Aside: true}, 600 * ms},
		{600 * ms, Outcome{Status: 404, Latency: ms}, 600 * ms},
		{600 * ms, Outcome{Status: 301, Latency: ms}, 600 * ms},
		{600 * ms, Outcome{Err: io.EOF, Latency: ms}, 600 * ms},
		{600 * ms, Outcome{Status: 200, Latency: -1}, 600 * ms},
	} {
		if got := c.o.Usual(c.before); got != c.want {
			t.Errorf("%v after %+v: %v, want %v", c.before, c.o, got, c.want)
		}
	}
}

// TestErrorAnswerNeverLowersTheDelay: a host that fails fast isn't asked faster.
func TestErrorAnswerNeverLowersTheDelay(t *testing.T) {
	l := Delay{Min: time.Second, Ceiling: time.Minute, Adaptive: Proportional(5)}
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
		if got := l.Adapt(10*time.Second, 0, Outcome{Status: c.status, Latency: c.latency}); got != c.want {
			t.Errorf("status %d in %v: 10s became %v, want %v", c.status, c.latency, got, c.want)
		}
	}
}

// TestTimeWithoutAnAnswerCounts: a server that hangs isn't asked again at once.
func TestTimeWithoutAnAnswerCounts(t *testing.T) {
	l := Delay{Min: time.Second, Ceiling: time.Hour, Adaptive: Squared}
	for _, c := range []struct {
		name    string
		err     error
		latency time.Duration
		want    time.Duration
	}{
		{"no answer", io.ErrUnexpectedEOF, 30 * time.Second, 15 * time.Minute},
		{"no answer, quickly", io.ErrUnexpectedEOF, time.Second, 10 * time.Second},
		{"the caller's timeout", context.DeadlineExceeded, 30 * time.Second, 15 * time.Minute},
		{"the caller's timeout, quickly", context.DeadlineExceeded, time.Second, 10 * time.Second},
		{"the caller left", fmt.Errorf("get: %w", context.Canceled), 30 * time.Second, 10 * time.Second},
		{"nothing", nil, 30 * time.Second, 10 * time.Second},
	} {
		if got := l.Adapt(10*time.Second, 0, Outcome{Err: c.err, Latency: c.latency}); got != c.want {
			t.Errorf("%s: 10s became %v, want %v", c.name, got, c.want)
		}
	}
}

// A window may end or begin at midnight, and go over it; it is a part of a day.
func TestWindowsOfADay(t *testing.T) {
	const h = time.Hour
	for w, valid := range map[Window]bool{
		{0, 24 * h}: true, {0, 1}: true, {h, 24 * h}: true, {22 * h, 0}: true, {24*h - 1, 0}: true, {22 * h, 6 * h}: true,
		{24 * h, h}: false, {h, 24*h + 1}: false, {-1, h}: false, {h, -1}: false, {h, h}: false, {0, 0}: false,
	} {
		err := Config{Windows: []Window{{0, h}, w}}.Validate()
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "Windows[1]") {
			t.Errorf("from %v to %v: %v", w.From, w.To, err)
		}
	}
}

func TestLimitsThatMakeNoSense(t *testing.T) {
	slots := int64(math.MaxInt32)
	for _, c := range []struct {
		own   Limits
		wrong string
	}{
		{Limits{}, ""},
		{Limits{Concurrency: int(slots)}, ""},
		{Limits{Concurrency: int(slots + 1)}, "Concurrency"}, // negative, where an int has 32 bits
		{Limits{Concurrency: -1}, "Concurrency"},
		{Limits{Delay: Delay{Min: 5 * time.Second, Max: 5 * time.Second}}, ""},
		{Limits{Delay: Delay{Min: 5 * time.Second, Max: 4 * time.Second}}, "Delay.Max"},
		{Limits{Delay: Delay{Min: 5 * time.Second, Ceiling: 5 * time.Second}}, ""},
		{Limits{Delay: Delay{Min: 5 * time.Second, Ceiling: 4 * time.Second}}, "Delay.Ceiling"},
		{Limits{Delay: Delay{DangerouslyNone: true}}, ""},
		{Limits{Delay: Delay{DangerouslyNone: true, Min: 1}}, "contradicts"},
		{Limits{Delay: Delay{DangerouslyNone: true, Max: 1}}, "contradicts"},
		{Limits{Concurrency: 1, Delay: Delay{FromEnd: true}}, ""},
		{Limits{Concurrency: 2, Delay: Delay{FromEnd: true}}, "Concurrency 1"},
	} {
		err := Config{Concurrency: c.own.Concurrency, Delay: c.own.Delay}.Validate()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v", c.own, err)
		}
	}
}

// A delay is anything from Min to Max, both included.
func TestDrawnDelays(t *testing.T) {
	l := Delay{Min: 3, Max: 5}
	seen := map[time.Duration]int{}
	for range 1000 {
		seen[l.Draw()]++
	}
	if len(seen) != 3 || seen[3] == 0 || seen[4] == 0 || seen[5] == 0 {
		t.Errorf("drawn from 3 to 5: %v", seen)
	}
}
