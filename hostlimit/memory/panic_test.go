package memory_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// caught returns what f panics with, nil if it doesn't.
func caught(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}

// A panicky function panics where its turn to do so has come: at each call of number at or above it.
type panicky struct{ calls, at atomic.Int64 }

// may panics if it is time.
func (p *panicky) may() {
	if n, at := p.calls.Add(1), p.at.Load(); at > 0 && n >= at {
		panic("boom")
	}
}

// A contextThatPanics panics in one of its methods, from a call on.
type contextThatPanics struct {
	context.Context
	deadline, err, value panicky
}

func (c *contextThatPanics) Deadline() (time.Time, bool) {
	c.deadline.may()
	return c.Context.Deadline()
}
func (c *contextThatPanics) Err() error        { c.err.may(); return c.Context.Err() }
func (c *contextThatPanics) Value(key any) any { c.value.may(); return c.Context.Value(key) }

// A watcher has functions for methods.
type watcher struct {
	waits func(hostlimit.Wait)
	name  func() string
}

func (w *watcher) Waits(wait hostlimit.Wait) {
	if w.waits != nil {
		w.waits(wait)
	}
}

func (w *watcher) String() string {
	if w.name != nil {
		return w.name()
	}
	return "a request"
}

func withWatcher(ctx context.Context, w hostlimit.Watcher) context.Context {
	return context.WithValue(ctx, (*hostlimit.Watcher)(nil), w)
}

// A policyThatPanics is a backoff.Policy.
type policyThatPanics struct{ panicky }

func (p *policyThatPanics) Delay(int) time.Duration { p.may(); return time.Second }

// A storeThatPanics is a Store.
type storeThatPanics struct {
	hostlimit.Store
	panicky
}

func (s *storeThatPanics) Update(ctx context.Context, key string, change func(hostlimit.Debt) hostlimit.Debt) (hostlimit.Debt, error) {
	s.may()
	return s.Store.Update(ctx, key, change)
}

// exchange takes a turn on key, as a careful caller does that may be thrown out of any call.
func exchange(ctx context.Context, m hostlimit.Limiter, key string, o hostlimit.Outcome) error {
	l, err := m.Acquire(ctx, key, 0)
	if err != nil {
		return err
	}
	defer l.Release()
	if _, err := l.Start(ctx); err != nil {
		return err
	}
	l.Observe(o)
	return nil
}

// goesOn reports an error unless every slot of key, and every place, can be had at once.
func goesOn(t *testing.T, m hostlimit.Limiter, keys ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for _, key := range keys {
		var held []hostlimit.Lease
		for range m.Config().WithDefaults().Concurrency {
			l, err := m.Acquire(ctx, key, 0)
			if err != nil {
				t.Errorf("%s, slot %d: %v", key, len(held)+1, err)
				break
			}
			if g, err := l.Start(ctx); err != nil || len(g.TakenBack) > 0 {
				t.Errorf("%s, start %d: %v; %v were lost", key, len(held)+1, err, g.TakenBack)
			}
			l.Observe(hostlimit.Outcome{Status: 200}) // where the key was refused last, the next waits for this answer
			held = append(held, l)
		}
		for _, l := range held {
			l.Release()
		}
	}
	for s, err := range m.List(ctx) {
		if err != nil || s.InFlight != 0 || s.Waiters != 0 || s.Probing {
			t.Errorf("afterwards: %+v, %v", s, err)
		}
	}
}

// TestAPanicGivesItsPlaceBack, whichever function of the caller's panics, and at whichever call: it
// reaches the call that it was made by, and the requests behind go on.
func TestAPanicGivesItsPlaceBack(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   []int64 // calls that panic
		goes bool    // the request goes on
		what func(c *hostlimit.Config, ctx *contextThatPanics) *panicky
	}{
		{"Override", []int64{1, 2, 3}, false, func(c *hostlimit.Config, _ *contextThatPanics) *panicky {
			p := new(panicky)
			c.Override = func(key string) (hostlimit.Limits, bool) {
				if key == "panics.example" {
					p.may()
				}
				return hostlimit.Limits{}, false
			}
			return p
		}},
		{"Policy", []int64{1}, true, func(c *hostlimit.Config, _ *contextThatPanics) *panicky {
			p := new(policyThatPanics)
			c.Backoff = p
			return &p.panicky
		}},
		{"Store", []int64{1, 2, 3}, true, func(c *hostlimit.Config, _ *contextThatPanics) *panicky {
			p := &storeThatPanics{Store: hostlimit.Dir(t.TempDir())}
			c.Store = p
			return &p.panicky
		}},
		{"Context.Err", []int64{1, 2, 3, 4}, false, func(_ *hostlimit.Config, ctx *contextThatPanics) *panicky { return &ctx.err }},
		{"Context.Value", []int64{1, 2, 3}, false, func(_ *hostlimit.Config, ctx *contextThatPanics) *panicky { return &ctx.value }},
		{"Context.Deadline", []int64{1, 2}, false, func(_ *hostlimit.Config, ctx *contextThatPanics) *panicky { return &ctx.deadline }},
	} {
		for _, at := range tt.at {
			t.Run(fmt.Sprint(tt.name, " ", at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := &contextThatPanics{Context: t.Context()}
					cfg := hostlimit.Config{Concurrency: 1, MaxInFlight: 1, Delay: hostlimit.Delay{Min: time.Second}}
					p := tt.what(&cfg, ctx)
					m := newMemory(t, cfg)
					// Somebody has the slot for a minute; the request that panics waits, and others behind it.
					first, err := m.Acquire(t.Context(), "panics.example", 0)
					if err != nil {
						t.Fatal(err)
					}
					p.calls.Store(0)
					p.at.Store(at)
					var all sync.WaitGroup
					all.Go(func() {
						got := caught(func() { _ = exchange(ctx, m, "panics.example", hostlimit.Outcome{Status: 429}) })
						if tt.goes && got != nil || !tt.goes && got != "boom" {
							t.Errorf("panic %v", got)
						}
						p.at.Store(0)
					})
					all.Go(func() {
						time.Sleep(30 * time.Second)
						if p.at.Load() == 0 {
							first.Release()
						}
					})
					all.Go(func() {
						time.Sleep(time.Minute)
						first.Release()
					})
					for range 3 {
						all.Go(func() {
							time.Sleep(time.Minute + time.Second)
							for _, key := range []string{"panics.example", "other.example"} {
								if err := exchange(t.Context(), m, key, hostlimit.Outcome{Status: 200}); err != nil {
									t.Errorf("%s, behind the panic: %v", key, err)
								}
							}
						})
					}
					all.Wait()
					goesOn(t, m, "panics.example", "other.example")
				})
			})
		}
	}
}

// TestAPanicInStartGivesItsPlaceBack: the lease that waits there is the caller's to release.
func TestAPanicInStartGivesItsPlaceBack(t *testing.T) {
	for name, what := range map[string]func(*contextThatPanics) *panicky{
		"Err":      func(c *contextThatPanics) *panicky { return &c.err },
		"Value":    func(c *contextThatPanics) *panicky { return &c.value },
		"Deadline": func(c *contextThatPanics) *panicky { return &c.deadline },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(t, hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: time.Second}})
				ctx := &contextThatPanics{Context: t.Context()}
				what(ctx).at.Store(1)
				first, err := m.Acquire(t.Context(), "example.com", 0)
				if err != nil {
					t.Fatal(err)
				}
				second, err := m.Acquire(t.Context(), "example.com", 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := second.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				// first's booking is over; it waits for the gap to second's start.
				if got := caught(func() { _, _ = first.Start(ctx) }); got != "boom" {
					t.Errorf("panic %v, want boom", got)
				}
				first.Release()
				second.Release()
				goesOn(t, m, "example.com")
			})
		})
	}
}

// TestAWatcherThatPanics is the trouble of its own request: Acquire and Start panic with the same
// value, at once, and give back what they have. One that can't say its name has none that is of use
// to others, who go on.
func TestAWatcherThatPanics(t *testing.T) {
	for _, goexit := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(t, hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: 10 * time.Second}})
			nameless := &watcher{name: func() string { panic("no name") }}
			held, err := m.Acquire(withWatcher(t.Context(), nameless), "example.com", 0)
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			began := time.Now()
			panics := &watcher{waits: func(hostlimit.Wait) {
				time.Sleep(time.Second)
				if goexit {
					runtime.Goexit()
				}
				panic("boom")
			}}
			all.Go(func() {
				ctx, cancel := context.WithTimeout(withWatcher(t.Context(), panics), time.Minute)
				defer cancel()
				got := caught(func() {
					if err := exchange(ctx, m, "example.com", hostlimit.Outcome{Status: 200}); !goexit || err != nil {
						t.Errorf("it returns %v", err)
					}
				})
				if took := time.Since(began); !goexit && (got != "boom" || took != time.Second) {
					t.Errorf("panic %v after %v, want boom after 1 s", got, took)
				}
			})
			var heldBy string
			all.Go(func() {
				time.Sleep(time.Millisecond)
				quiet := &watcher{waits: func(w hostlimit.Wait) { heldBy = w.HeldBy }}
				if err := exchange(withWatcher(t.Context(), quiet), m, "example.com", hostlimit.Outcome{Status: 200}); err != nil {
					t.Errorf("the one behind: %v", err)
				}
			})
			time.Sleep(30 * time.Second)
			for s, err := range m.List(t.Context()) {
				if err != nil || !strings.Contains(s.SilentBy, "no name") {
					t.Errorf("silent by %q, %v", s.SilentBy, err)
				}
			}
			held.Release()
			all.Wait()
			if !strings.Contains(heldBy, "no name") {
				t.Errorf("held by %q", heldBy)
			}
			goesOn(t, m, "example.com")
		})
	}
	for _, leaves := range []time.Duration{time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) { // it leaves, or its turn comes, while Waits is running
			m := newMemory(t, hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: 2 * time.Second}})
			if err := exchange(t.Context(), m, "example.com", hostlimit.Outcome{Status: 200}); err != nil {
				t.Fatal(err)
			}
			panics := &watcher{waits: func(hostlimit.Wait) { time.Sleep(time.Minute); panic("boom") }}
			ctx, cancel := context.WithCancel(withWatcher(t.Context(), panics))
			time.AfterFunc(leaves, cancel)
			got := caught(func() {
				_, err := m.Acquire(ctx, "example.com", 0)
				t.Errorf("Acquire returns %v", err)
			})
			if got != "boom" {
				t.Errorf("panic %v", got)
			}
			goesOn(t, m, "example.com")
		})
	}
}

// TestAPanicOfTheBackoffBlocks: the host has refused, whatever the user's formula does. The panic is
// reported, and so is one of the Store, which stops no request.
func TestAPanicOfTheBackoffBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := policyFunc(func(int) time.Duration { panic("boom") })
		m := newMemory(t, hostlimit.Config{Backoff: panics, Delay: hostlimit.Delay{Min: time.Second}})
		for _, want := range []time.Duration{time.Second, time.Second, 2 * time.Second, 3 * time.Second} { // Fibonacci
			l, err := m.Acquire(t.Context(), "example.com", 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			e := l.Observe(hostlimit.Outcome{Status: 429})
			l.Release()
			if !e.Blocked || time.Until(e.Until) != want || e.StateErr == nil || !strings.Contains(e.StateErr.Error(), "policyFunc: boom") {
				t.Errorf("effect %+v, want a block of %v", e, want)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, hostlimit.Config{Store: storeFunc(func() { panic("boom") })})
		l, err := m.Acquire(t.Context(), "example.com", 0)
		if err != nil {
			t.Fatal(err)
		}
		g, err := l.Start(t.Context())
		e := l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		l.Release()
		if err != nil || g.StateErr == nil || !strings.Contains(g.StateErr.Error(), "storeFunc: boom") || !e.Blocked || time.Until(e.Until) != time.Hour {
			t.Errorf("grant %+v, effect %+v, %v", g, e, err)
		}
	})
}

// TestAThousandPanics: each function of the caller's panics now and then, in all of many requests on
// few hosts at once. No slot and no place is lost.
func TestAThousandPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, panics atomic.Int64
		boom := func() {
			if calls.Add(1)%5 == 0 {
				panics.Add(1)
				panic("boom")
			}
		}
		calm := false
		maybe := func() {
			if !calm {
				boom()
			}
		}
		m := newMemory(t, hostlimit.Config{
			Concurrency: 2, MaxInFlight: 3, Delay: hostlimit.Delay{Min: 100 * time.Millisecond}, MaxWait: 24 * time.Hour,
			Backoff: policyFunc(func(int) time.Duration { maybe(); return time.Second }),
			Override: func(string) (hostlimit.Limits, bool) {
				maybe()
				return hostlimit.Limits{}, false
			},
			Store: storeFunc(func() { maybe() }),
		})
		var all sync.WaitGroup
		for i := range 1500 {
			w := &watcher{waits: func(hostlimit.Wait) { maybe() }, name: func() string { maybe(); return "a request" }}
			all.Go(func() {
				status := 200
				if i%10 == 0 {
					status = 429
				}
				_ = caught(func() {
					ctx, cancel := context.WithTimeout(withWatcher(t.Context(), w), time.Duration(1+i%7)*time.Hour)
					defer cancel()
					if err := exchange(ctx, m, hosts[i%len(hosts)], hostlimit.Outcome{Status: status}); err != nil && !errors.Is(err, hostlimit.ErrBusy) && !errors.Is(err, hostlimit.ErrBlocked) {
						t.Error(err)
					}
				})
			})
			time.Sleep(10 * time.Millisecond)
		}
		all.Wait()
		calm = true
		if panics.Load() < 1000 {
			t.Errorf("%d panics", panics.Load())
		}
		goesOn(t, m, hosts...)
	})
}

var hosts = []string{"a.example", "b.example", "c.example", "d.example"}

type policyFunc func(int) time.Duration

func (f policyFunc) Delay(n int) time.Duration { return f(n) }

// A storeFunc is a Store in which nothing is kept; the function is called first.
type storeFunc func()

func (f storeFunc) Update(_ context.Context, _ string, change func(hostlimit.Debt) hostlimit.Debt) (hostlimit.Debt, error) {
	f()
	return change(hostlimit.Debt{}), nil
}

// A contextThatAsks calls a function in each of its methods but Done.
type contextThatAsks struct {
	context.Context
	ask func()
}

func (c contextThatAsks) Deadline() (time.Time, bool) { c.ask(); return c.Context.Deadline() }
func (c contextThatAsks) Err() error                  { c.ask(); return c.Context.Err() }
func (c contextThatAsks) Value(key any) any           { c.ask(); return c.Context.Value(key) }

// TestContextsAreCalledUnderNoLock: a context may ask the Memory itself.
func TestContextsAreCalledUnderNoLock(t *testing.T) {
	for _, fails := range []bool{false, true} {
		store := storeFunc(func() {
			if fails {
				panic("boom")
			}
		})
		m := newMemory(t, hostlimit.Config{Store: store, Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond}})
		parent, cancel := context.WithCancel(t.Context())
		ctx := contextThatAsks{parent, func() {
			for _, err := range m.List(context.Background()) {
				if err != nil {
					t.Error(err)
				}
			}
		}}
		done := make(chan error, 1)
		go func() {
			l, err := m.Acquire(ctx, "example.com", 0)
			if err == nil {
				_, err = l.Start(ctx)
				time.AfterFunc(5*time.Millisecond, cancel)
				_, late := m.Acquire(ctx, "example.com", 0) // the one slot is held
				err = errors.Join(err, late)
			}
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("the Store fails %t: a lock is held", fails)
		}
		cancel()
	}
}
