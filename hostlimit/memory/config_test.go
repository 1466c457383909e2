package memory

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/backoff"

	"github.com/go-politeness/politeness/hostlimit"
)

var none = hostlimit.Delay{DangerouslyNone: true}

func TestNewNamesEveryWrongField(t *testing.T) {
	_, err := New(hostlimit.Config{
		Concurrency: -1, MaxInFlight: -1, SlotTimeout: -1, LeaseTTL: -1, MaxWait: -1, MaxHosts: -1,
		Delay:   hostlimit.Delay{Min: -1, Max: -1, Ceiling: -1, Adaptive: hostlimit.Proportional(-1)},
		Backoff: backoff.Refusals{MaxRetryAfter: -1},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{
		"Concurrency", "MaxInFlight", "SlotTimeout", "LeaseTTL", "MaxWait", "MaxHosts",
		"Delay.Min", "Delay.Max", "Delay.Ceiling", "Delay.Adaptive", "Backoff: MaxRetryAfter",
	} {
		if !strings.Contains(err.Error(), field+":") {
			t.Errorf("the error doesn't name %s:\n%v", field, err)
		}
	}
	for _, c := range []hostlimit.Config{
		{Delay: hostlimit.Delay{Min: 2 * time.Second, Max: time.Second}},
		{Delay: hostlimit.Delay{Min: 2 * time.Second, Ceiling: time.Second}},
		{Delay: hostlimit.Delay{Min: 2 * time.Second, DangerouslyNone: true}},
		{Delay: hostlimit.Delay{Adaptive: hostlimit.Throttle(0)}},
		{Delay: hostlimit.Delay{FromEnd: true}},
		{Concurrency: 2, Delay: hostlimit.Delay{FromEnd: true}},
		{Concurrency: 5, PerSite: 4},
		{Windows: []hostlimit.Window{{From: time.Hour, To: time.Hour}}},
		{Windows: []hostlimit.Window{{From: 24 * time.Hour, To: time.Hour}}},
		{Windows: []hostlimit.Window{{To: 25 * time.Hour}}},
		{Windows: []hostlimit.Window{{From: -1, To: time.Hour}}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("no error for %+v", c)
		}
	}
	for _, p := range []backoff.Policy{(*backoff.Refusals)(nil), (*backoff.Doubling)(nil), (*backoff.Fibonacci)(nil), backoff.Refusals{Policy: (*backoff.Doubling)(nil)}} {
		if _, err := New(hostlimit.Config{Backoff: p}); err == nil || !strings.Contains(err.Error(), "Backoff:") {
			t.Errorf("nil for a policy, as %#v: %v", p, err)
		}
	}
	for _, c := range []hostlimit.Config{{}, {PerSite: -1}, {Concurrency: 50}, {Concurrency: 4, PerSite: 4}, {Delay: hostlimit.Delay{Min: time.Hour}}, {Delay: hostlimit.Delay{Max: time.Microsecond}}, {Delay: hostlimit.Delay{DangerouslyNone: true, Adaptive: hostlimit.Squared}}} {
		if _, err := New(c); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestNanosecondsAreRefused: who writes Delay{Min: 5} means seconds.
func TestNanosecondsAreRefused(t *testing.T) {
	for want, d := range map[string]hostlimit.Delay{
		"Delay.Min: 5ns are nanoseconds: did you mean 5s?":      {Min: 5},
		"Delay.Max: 10ns are nanoseconds: did you mean 10s?":    {Min: 5, Max: 10},
		"Delay.Ceiling: 60ns are nanoseconds: did you mean 60s": {Ceiling: 60},
	} {
		if _, err := New(hostlimit.Config{Delay: d}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", d, err, want)
		}
		m := mustNew(t, hostlimit.Config{Override: func(string) (hostlimit.Limits, bool) { return hostlimit.Limits{Delay: d}, true }})
		if _, err := m.Acquire(t.Context(), "a", 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v by Override: %v, want %q", d, err, want)
		}
	}
}

// The same with the other times: a LeaseTTL of 300 ns would take back every slot at once.
func TestNanosecondsOfOtherTimesAreRefused(t *testing.T) {
	_, err := New(hostlimit.Config{SlotTimeout: 10, LeaseTTL: 300, MaxWait: 30})
	for _, want := range []string{
		"SlotTimeout: 10ns are nanoseconds: did you mean 10s?", "LeaseTTL: 300ns are nanoseconds: did you mean 300s?",
		"MaxWait: 30ns are nanoseconds: did you mean 30s?",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestOverrideWithoutSenseIsAnError(t *testing.T) {
	m := mustNew(t, hostlimit.Config{
		Concurrency: 1, Delay: hostlimit.Delay{FromEnd: true},
		Override: func(key string) (hostlimit.Limits, bool) { return hostlimit.Limits{Concurrency: len(key) * 2}, true },
	})
	if _, err := m.Acquire(t.Context(), "a", 0); err == nil || !strings.Contains(err.Error(), "FromEnd") {
		t.Errorf("Acquire with two slots, from the end: %v", err)
	}
	m = mustNew(t, hostlimit.Config{Override: func(string) (hostlimit.Limits, bool) { return hostlimit.Limits{Concurrency: -1}, true }})
	if _, err := m.Acquire(t.Context(), "a", 0); err == nil || !strings.Contains(err.Error(), "Concurrency") {
		t.Errorf("Acquire: %v", err)
	}
	if _, err := m.Next(t.Context(), "a", 0); err == nil {
		t.Error("Next: no error")
	}
}

// TestDelayMayBeOfAnyLength: also one whose range is all there is.
func TestDelayMayBeOfAnyLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		longest := hostlimit.Delay{Max: math.MaxInt64}
		for _, c := range []hostlimit.Config{
			{Delay: longest},
			{Override: func(string) (hostlimit.Limits, bool) { return hostlimit.Limits{Delay: longest}, true }},
		} {
			m := mustNew(t, c)
			l := acquire(t, m, "a", 0)
			if g := l.Grant; g.Delay < 0 {
				t.Errorf("%+v", g)
			}
			if _, err := m.Next(t.Context(), "a", 0); err != nil {
				t.Error(err)
			}
			l.Release()
		}
	})
}

func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{})
		for range 50 {
			l := acquire(t, m, "a", 0)
			if g := l.Grant; g.Slots != 2 || g.Delay < 200*time.Millisecond || g.Delay > 500*time.Millisecond {
				t.Fatalf("%+v", g)
			}
			l.Release()
		}
		// A slot is waited for until the leases expire: nothing but MaxWait bounds that.
		acquire(t, m, "a", 0)
		acquire(t, m, "a", 0)
		begin := time.Now()
		l := acquire(t, m, "a", 0)
		if d := time.Since(begin); d < 299*time.Second || d > 300*time.Second || len(l.TakenBack) == 0 {
			t.Errorf("after %v: %+v", d, l.Grant)
		}
		l.Release()
		acquire(t, m, "b", 2*time.Hour).Release()
		begin = time.Now()
		_, err := m.Acquire(t.Context(), "b", 0)
		var e *hostlimit.Error
		if !errors.As(err, &e) || time.Since(begin) != 0 || e.RetryAt.Before(begin.Add(time.Hour)) {
			t.Errorf("a wait of more than an hour: %v", err)
		}
	})
}

// TestOfTellsTheLimitsOfAKey with nothing left to a default, and as a start of the key finds them.
func TestOfTellsTheLimitsOfAKey(t *testing.T) {
	const ms, s, minute = time.Millisecond, time.Second, time.Minute
	unpaced := hostlimit.Delay{DangerouslyNone: true, Ceiling: minute}
	override := func(l hostlimit.Limits) func(string) (hostlimit.Limits, bool) {
		return func(key string) (hostlimit.Limits, bool) { return l, key == "a" }
	}
	for _, c := range []struct {
		c    hostlimit.Config
		want hostlimit.Limits
	}{
		{hostlimit.Config{}, hostlimit.Limits{Concurrency: 2, Delay: hostlimit.Delay{Min: 200 * ms, Max: 500 * ms, Ceiling: minute}}},
		{hostlimit.Config{Concurrency: 7, Delay: hostlimit.Delay{Min: s}}, hostlimit.Limits{Concurrency: 7, Delay: hostlimit.Delay{Min: s, Max: s, Ceiling: minute}}},
		{hostlimit.Config{Delay: hostlimit.Delay{Max: s}}, hostlimit.Limits{Concurrency: 2, Delay: hostlimit.Delay{Max: s, Ceiling: minute}}},
		{hostlimit.Config{Delay: hostlimit.Delay{Min: s, Max: 2 * s}}, hostlimit.Limits{Concurrency: 2, Delay: hostlimit.Delay{Min: s, Max: 2 * s, Ceiling: minute}}},
		{hostlimit.Config{Delay: none}, hostlimit.Limits{Concurrency: 2, Delay: unpaced}},
		{hostlimit.Config{Override: override(hostlimit.Limits{Concurrency: 1})}, hostlimit.Limits{Concurrency: 1, Delay: hostlimit.Delay{Min: 200 * ms, Max: 500 * ms, Ceiling: minute}}},
		{hostlimit.Config{Concurrency: 3, Override: override(hostlimit.Limits{Delay: hostlimit.Delay{Min: s}})}, hostlimit.Limits{Concurrency: 3, Delay: hostlimit.Delay{Min: s, Max: s, Ceiling: minute}}},
		{hostlimit.Config{Delay: hostlimit.Delay{Min: s}, Override: override(hostlimit.Limits{Concurrency: 4, Delay: none})}, hostlimit.Limits{Concurrency: 4, Delay: unpaced}},
		{hostlimit.Config{Delay: hostlimit.Delay{Min: s}, Override: override(hostlimit.Limits{})}, hostlimit.Limits{Concurrency: 2, Delay: hostlimit.Delay{Min: s, Max: s, Ceiling: minute}}},
	} {
		if got := c.c.Of("a"); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.c, got, c.want)
		}
		m := mustNew(t, c.c)
		l := acquire(t, m, "a", 0)
		if l.Slots != c.want.Concurrency || l.Delay < c.want.Delay.Min || l.Delay > c.want.Delay.Max {
			t.Errorf("%+v: a start had %d slots and a delay of %v", c.c, l.Slots, l.Delay)
		}
		l.Release()
	}
	c := hostlimit.Config{Concurrency: 3, Delay: none, Override: override(hostlimit.Limits{Concurrency: 1})}
	if got := c.Of("b"); got != (hostlimit.Limits{Concurrency: 3, Delay: unpaced}) {
		t.Errorf("a key that Override says nothing of: %+v", got)
	}
}
