package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// flood asks once for each of n keys at the same time, and returns the most requests that were in
// flight together, and for how long the last one waited.
func flood(t *testing.T, m *Limiter, n int, key func(i int) string) (most int, took time.Duration) {
	t.Helper()
	began := time.Now()
	var mu sync.Mutex
	var inFlight int
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			l := acquire(t, m, key(i), 0)
			mu.Lock()
			inFlight++
			most = max(most, inFlight)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			inFlight--
			mu.Unlock()
			l.Release()
		})
	}
	wg.Wait()
	return most, time.Since(began)
}

// One page may link to every port of a machine, and to any number of names of a domain.
func TestAFloodOfPortsOrNamesIsBounded(t *testing.T) {
	floods := []struct {
		name string
		n    int
		key  func(i int) string
	}{
		{"ports of a name", 20_000, func(i int) string { return fmt.Sprint("victim.example:", 1+i) }},
		{"names of a domain", 10_000, func(i int) string { return fmt.Sprint("n", i, ".victim.co.uk") }},
		{"ports of an address", 2_000, func(i int) string { return fmt.Sprint("[2001:db8::1]:", 1+i) }},
		{"spellings of an address", 2_000, func(i int) string { return fmt.Sprintf("0%0*o.0.2.1", 3+i%100, 192) }},
	}
	for _, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mustNew(t, hostlimit.Config{MaxWait: 100 * time.Hour, LeaseTTL: 100 * time.Hour})
				most, took := flood(t, m, f.n, f.key)
				if most != 16 {
					t.Errorf("%d in flight at once", most)
				}
				if want := time.Duration((f.n+15)/16) * time.Second; took < want {
					t.Errorf("it took %v", took)
				}
				noPlaceIsLost(t, m)
			})
		})
	}
}

// noPlaceIsLost fails if a place is still taken.
func noPlaceIsLost(t *testing.T, m *Limiter) {
	t.Helper()
	if p := m.places; p != nil && (p.taken != 0 || p.line.First != nil) {
		t.Errorf("%d places of MaxInFlight are lost", p.taken)
	}
	for i := range m.sites.shards {
		for name, s := range m.sites.shards[i].sites {
			t.Errorf("%d places of %s are lost, %d wait", s.taken, name, s.line.Len)
		}
	}
}

// A key that waits for a place of its site holds up no other site, and no place of MaxInFlight.
func TestAFullSiteHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none, PerSite: 2, MaxInFlight: 4})
		a := acquire(t, m, "a.full.example", 0)
		b := acquire(t, m, "b.full.example", 0)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() { acquire(t, m, fmt.Sprint("n", i, ".full.example"), 0).Release() })
		}
		synctest.Wait()
		began := time.Now()
		other := acquire(t, m, "other.example", 0)
		another := acquire(t, m, "another.example", 0)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("other sites waited for %v", waited)
		}
		st, err := m.State(t.Context(), "n1.full.example")
		if err != nil || st.Hold != "site" {
			t.Errorf("%q (%s), %v", st.Hold, st.Why, err)
		}
		time.Sleep(time.Second)
		for _, l := range []interface{ Release() bool }{a, b, other, another} {
			l.Release()
		}
		wg.Wait()
		noPlaceIsLost(t, m)
	})
}

// Keys of a site take its places in turn: one with many requests has no more turns than others.
func TestPlacesOfASiteGoRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none, PerSite: 2})
		var order []string
		var mu sync.Mutex
		var wg sync.WaitGroup
		ask := func(key string) {
			wg.Go(func() {
				l := acquire(t, m, key, 0)
				mu.Lock()
				order = append(order, key)
				mu.Unlock()
				time.Sleep(time.Second)
				l.Release()
			})
			synctest.Wait()
		}
		for range 10 {
			ask("many.site.example")
		}
		ask("one.site.example")
		ask("two.site.example")
		wg.Wait()
		for i, key := range order {
			if key == "two.site.example" && i > 6 {
				t.Errorf("the last key came as number %d: %v", i+1, order)
			}
		}
		noPlaceIsLost(t, m)
	})
}

// A place that a leaked lease holds comes back after LeaseTTL, though no request waits for its key.
func TestALeakedLeaseHoldsNoPlaceOfASite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none, Concurrency: 1, PerSite: 1, LeaseTTL: time.Minute})
		acquire(t, m, "leaks.site.example", 0)
		began := time.Now()
		l := acquire(t, m, "waits.site.example", 0)
		if waited := time.Since(began); waited != time.Minute {
			t.Errorf("it waited for %v", waited)
		}
		l.Release()
		noPlaceIsLost(t, m)
	})
}

// Requests that leave while they wait, start, are refused, leak and end lose no place.
func TestNoPlaceOfASiteIsLost(t *testing.T) {
	for _, places := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			m := mustNew(t, hostlimit.Config{
				Delay:       hostlimit.Delay{Min: time.Millisecond, Max: 3 * time.Millisecond},
				PerSite:     2,
				MaxInFlight: places,
				LeaseTTL:    50 * time.Millisecond,
				MaxWait:     200 * time.Millisecond,
			})
			var inFlight [3]atomic.Int64
			var wg sync.WaitGroup
			for worker := range 60 {
				r := rand.New(rand.NewPCG(uint64(worker), 7))
				wg.Go(func() {
					for range 60 {
						site := r.IntN(len(inFlight))
						key := fmt.Sprintf("n%d.site%d.example:%d", r.IntN(4), site, 80+r.IntN(2))
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(60))*time.Millisecond)
						ctx = hostlimit.WithPriority(ctx, r.IntN(2))
						l, err := m.Acquire(ctx, key, 0)
						if err == nil {
							if n := inFlight[site].Add(1); n > 2 {
								t.Errorf("%d in flight", n)
							}
							if _, err = l.Start(ctx); err == nil && r.IntN(20) == 0 {
								l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 5 * time.Millisecond})
							}
							time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
							inFlight[site].Add(-1)
							l.Release()
						}
						var refused *hostlimit.Error
						if err != nil && !errors.As(err, &refused) && !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
						cancel()
					}
				})
			}
			wg.Wait()
			noPlaceIsLost(t, m)
		})
	}
}
