package redislimit

import (
	"context"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A listener is a Watcher that passes on what it is told.
type listener struct {
	name string
	told chan hostlimit.Wait
}

func (l listener) Waits(w hostlimit.Wait) { l.told <- w }
func (l listener) String() string         { return l.name }

// named returns a turn of the request of that name.
func named(t *testing.T, l *Limiter, key, name string) hostlimit.Lease {
	t.Helper()
	ctx := context.WithValue(t.Context(), (*hostlimit.Watcher)(nil), listener{name, make(chan hostlimit.Wait, 9)})
	lease, err := l.Acquire(ctx, key, 0)
	if err == nil {
		_, err = lease.Start(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lease.Release() })
	return lease
}

// wait returns what a request that waits is told, and how long after its Acquire. It leaves at the
// end of the test.
func wait(t *testing.T, l *Limiter, floor time.Duration) (hostlimit.Wait, time.Duration) {
	t.Helper()
	me := listener{"me", make(chan hostlimit.Wait, 9)}
	ctx, leave := context.WithCancel(context.WithValue(context.Background(), (*hostlimit.Watcher)(nil), me))
	began, left := time.Now(), make(chan struct{})
	go func() {
		defer close(left)
		if lease, err := l.Acquire(ctx, "a.example", floor); err == nil {
			lease.Release()
		}
	}()
	t.Cleanup(func() { leave(); <-left })
	select {
	case w := <-me.told:
		return w, time.Since(began)
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is told")
		return hostlimit.Wait{}, 0
	}
}

// TestALongWaitIsTold to the request's Watcher: what it waits for, until when, and who holds the
// slot. One that is known to be long is told at once, another one after a second.
func TestALongWaitIsTold(t *testing.T) {
	t.Parallel()
	short, long := hostlimit.Delay{Min: time.Millisecond}, hostlimit.Delay{Min: 20 * time.Second}
	refuses := func(t *testing.T, l *Limiter, after time.Duration) {
		first := named(t, l, "a.example", "first")
		first.Observe(hostlimit.Outcome{Status: 429, RetryAfter: after})
		first.Release()
	}
	for name, c := range map[string]struct {
		limits hostlimit.Config
		floor  time.Duration
		before func(t *testing.T, l *Limiter)
		until  time.Duration // from before on; 0: not known, so that the wait has lasted a second
		want   hostlimit.Wait
	}{
		"a delay, beside a request in flight": {
			hostlimit.Config{Delay: long},
			0,
			func(t *testing.T, l *Limiter) { named(t, l, "a.example", "first") },
			20 * time.Second,
			hostlimit.Wait{Hold: "delay", Cause: "random", Delay: 20 * time.Second, Slots: 2, Held: 1},
		},
		"a delay, behind another request": {
			hostlimit.Config{Delay: long, MaxWait: time.Hour},
			0,
			func(t *testing.T, l *Limiter) {
				named(t, l, "a.example", "first").Release()
				wait(t, l, 0)
			},
			40 * time.Second,
			hostlimit.Wait{Hold: "delay", Cause: "random", Delay: 20 * time.Second, Slots: 2, Ahead: 1},
		},
		"a crawl-delay": {
			hostlimit.Config{Delay: short},
			20 * time.Second,
			func(t *testing.T, l *Limiter) { named(t, l, "a.example", "first").Release() },
			20 * time.Second,
			hostlimit.Wait{Hold: "delay", Cause: "crawl-delay", Delay: 20 * time.Second, Slots: 2},
		},
		"a block": {
			hostlimit.Config{Delay: short, MaxWait: time.Hour},
			0,
			func(t *testing.T, l *Limiter) { refuses(t, l, time.Minute) },
			time.Minute,
			hostlimit.Wait{Hold: "block", Cause: "status 429", Slots: 2},
		},
		"a slot": {
			hostlimit.Config{Delay: short},
			0,
			func(t *testing.T, l *Limiter) {
				named(t, l, "a.example", "first")
				named(t, l, "a.example", "second")
			},
			0,
			hostlimit.Wait{Hold: "slot", Slots: 2, Held: 2, HeldBy: "first"},
		},
		"a slot, behind another request": {
			hostlimit.Config{Concurrency: 1, Delay: short},
			20 * time.Second,
			func(t *testing.T, l *Limiter) {
				named(t, l, "a.example", "first")
				wait(t, l, 20*time.Second)
			},
			0,
			hostlimit.Wait{Hold: "slot", Slots: 1, Held: 1, HeldBy: "first", Ahead: 1},
		},
		"a probe": {
			hostlimit.Config{Delay: short, MaxWait: time.Hour},
			0,
			func(t *testing.T, l *Limiter) {
				refuses(t, l, time.Second)
				named(t, l, "a.example", "the probe")
			},
			0,
			hostlimit.Wait{Hold: "probe", Slots: 2, Held: 1, HeldBy: "the probe"},
		},
		"a place": {
			hostlimit.Config{Delay: short, MaxInFlight: 1},
			0,
			func(t *testing.T, l *Limiter) { named(t, l, "b.example", "first") },
			0,
			hostlimit.Wait{Hold: "place", Slots: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFleet(t, shared, Config{Limits: c.limits}, 1)[0]
			began := time.Now()
			c.before(t, l)
			here := time.Now()
			got, after := wait(t, l, c.floor)
			if c.until == 0 && (!got.Until.IsZero() || after < time.Second) {
				t.Errorf("told after %v: until %v", after, got.Until)
			}
			// A turn is planned with a guard.
			if c.until > 0 && (got.Until.Before(began.Add(c.until)) || got.Until.After(here.Add(c.until+time.Second))) {
				t.Errorf("until %v, want %v later than %v to %v", got.Until, c.until, began, here)
			}
			if got.Since.Before(here) || got.Since.After(time.Now()) || (got.HeldFor > 0) != (c.want.HeldBy != "") {
				t.Errorf("since %v, held for %v", got.Since.Sub(here), got.HeldFor)
			}
			c.want.Key, c.want.Since, c.want.Until, c.want.HeldFor = "a.example", got.Since, got.Until, got.HeldFor
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
