package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A place that was handed to a waiter who leaves at the same moment goes on. Which of the two the
// waiter sees first is the machine's choice, so there are many waiters.
func TestPlaceOfALeavingWaiterGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			m := mustNew(t, hostlimit.Config{Delay: none, MaxInFlight: 1})
			first := acquire(t, m, "a", 0)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				if l, err := m.Acquire(ctx, "b", 0); err == nil {
					l.Release()
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			synctest.Wait()
			wg.Go(func() { acquire(t, m, "c", 0).Release() })
			synctest.Wait()
			first.Release()
			cancel()
			wg.Wait()
			if m.places.taken != 0 || m.places.line.First != nil {
				t.Fatalf("%d places are lost", m.places.taken)
			}
		}
	})
}

// A key that is paced waits for its delay, not for a place, also before its head has looked again.
func TestAPacedKeyDoesNotWaitForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: 10 * time.Second}, Concurrency: 1, MaxInFlight: 1})
		l := acquire(t, m, "a", 0).lease.(*lease)
		var wg sync.WaitGroup
		wg.Go(func() { acquire(t, m, "a", 0).Release() })
		synctest.Wait()
		func() {
			l.sh.mu.Lock()
			defer l.sh.mu.Unlock()
			a := l.a
			a.release(l, m.now())
			if why := a.why(m.now()); why.Hold != "delay" {
				t.Errorf("it waits for a %s", why.Hold)
			}
		}()
		wg.Wait()
	})
}

// orderOf returns the order in which requests of these keys, which queue up as they stand here, get
// the one place that there is, and hold it.
func orderOf(t *testing.T, hold time.Duration, keys ...string) (order []string) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none, MaxInFlight: 1, Concurrency: 1, SlotTimeout: time.Hour})
		var wg sync.WaitGroup
		first := acquire(t, m, "first", 0)
		for _, k := range keys {
			wg.Go(func() {
				l := acquire(t, m, k, 0)
				order = append(order, k)
				time.Sleep(hold)
				l.Release()
			})
			synctest.Wait()
		}
		first.Release()
		wg.Wait()
	})
	return order
}

// Places go round over the hosts, whoever has the longer queue.
func TestPlacesGoRound(t *testing.T) {
	order := orderOf(t, time.Second, "big", "big", "big", "big", "small", "big", "tiny", "small")
	if got := fmt.Sprint(order); got != "[big small tiny big small big big big]" {
		t.Errorf("order %v", got)
	}
}

// TestPlacesGoRoundAmongTheQuick: a key whose request has just ended stands behind the others, also
// where requests take no time.
func TestPlacesGoRoundAmongTheQuick(t *testing.T) {
	keys := slices.Repeat([]string{"a", "b", "c"}, 50)
	if got := orderOf(t, 0, keys...); !slices.Equal(got, keys) {
		t.Errorf("order %v", got)
	}
}

// A leak on a key that nobody asks for any more is told by the next start of another.
func TestALeakThatHoldsAPlaceIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none, MaxInFlight: 2, LeaseTTL: 5 * time.Second})
		leaked := []turn{acquire(t, m, "leaky", 0), acquire(t, m, "leaky", 0)}
		for i, key := range []string{"a", "b", "leaky"} {
			l := acquire(t, m, key, 0)
			want := "[]"
			if i == 0 {
				want = "[{leaky 1 } {leaky 2 }]"
			}
			if told := fmt.Sprint(l.TakenBack); told != want {
				t.Errorf("%s: taken back: %v, want %v", key, told, want)
			}
			l.Release()
		}
		for _, l := range leaked {
			if !l.Release() {
				t.Error("the leaked lease doesn't say that it has expired")
			}
		}
		// Whoever waits for the key tells it as without MaxInFlight.
		acquire(t, m, "leaky", 0)
		acquire(t, m, "leaky", 0)
		if l := acquire(t, m, "leaky", 0); fmt.Sprint(l.TakenBack) != "[{leaky 4 } {leaky 5 }]" {
			t.Errorf("%+v", l.Grant)
		}
	})
}

// TestLeaksOfAllPlacesEndOneAfterTheOther, also where all who wait look while the place has been
// handed to one of them, who hasn't taken it yet.
func TestLeaksOfAllPlacesEndOneAfterTheOther(t *testing.T) {
	for range 20 { // who looks first is chance
		synctest.Test(t, func(t *testing.T) {
			const ttl = 5 * time.Second
			m := mustNew(t, hostlimit.Config{Delay: none, MaxInFlight: 1, LeaseTTL: ttl})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			begin := time.Now()
			if _, err := m.Acquire(ctx, "first", 0); err != nil {
				t.Fatal(err)
			}
			starts := make(chan time.Duration, 2)
			for i := range cap(starts) {
				go func() {
					_, _ = m.Acquire(ctx, fmt.Sprint(i), 0)
					starts <- time.Since(begin)
				}()
			}
			for n := range cap(starts) {
				if got, want := <-starts, time.Duration(n+1)*ttl; got != want {
					t.Fatalf("the place of leak %d is free after %v, want %v", n+1, got, want)
				}
			}
		})
	}
}

// TestALeakBehindARenewedLeaseEnds when it is due, however long the older lease is renewed.
func TestALeakBehindARenewedLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none, Concurrency: 2, LeaseTTL: time.Minute})
		begin, renewed := time.Now(), acquire(t, m, "a", 0)
		acquire(t, m, "a", 0)
		time.Sleep(50 * time.Second)
		renewed.lease.Renew()
		acquire(t, m, "a", 0)
		if d := time.Since(begin); d != time.Minute {
			t.Errorf("the slot of the leak is free after %v", d)
		}
	})
}

// TestOfTheLeaksOfAKey255AreTold, however many there are.
func TestOfTheLeaksOfAKey255AreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []int{255, 256} {
			m := mustNew(t, hostlimit.Config{Delay: none, Concurrency: n, LeaseTTL: time.Minute})
			for range n {
				acquire(t, m, "a", 0)
			}
			time.Sleep(time.Minute)
			if told := acquire(t, m, "a", 0).TakenBack; len(told) != 255 || told[254].Seq != 255 {
				t.Errorf("of %d leases that were taken back %d are told", n, len(told))
			}
		}
	})
}

// A leaked slot that expires while a block holds the queue is free: the slot clock
// begins anew.
func TestSlotClockStopsWhenALeakExpiresInABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none, Concurrency: 1, LeaseTTL: 10 * time.Second, SlotTimeout: 8 * time.Second})
		l := acquire(t, m, "a", 0)
		l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 13 * time.Second}) // and leaks
		time.Sleep(6 * time.Second)
		var wg sync.WaitGroup
		wg.Go(func() {
			probe := acquire(t, m, "a", 0) // at 13 s
			time.Sleep(5 * time.Second)
			probe.Observe(hostlimit.Outcome{Status: 200})
			probe.Release()
		})
		synctest.Wait()
		// In the queue since 6 s; the slot is held until 10 s, and from 13 s to 18 s.
		acquire(t, m, "a", 0).Release()
		wg.Wait()
	})
}

// TestDrainTakesBackLeasesThatAreNeverReleased, when they are due, whatever else was in flight.
func TestDrainTakesBackLeasesThatAreNeverReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{MaxHosts: 1})
		acquire(t, m, "b", 0).Release()
		time.Sleep(time.Hour)
		b := acquire(t, m, "b", 0)
		acquire(t, m, "a", 0) // and its body is never closed
		b.Release()
		time.Sleep(time.Minute)
		begin := time.Now()
		if err := m.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != 4*time.Minute {
			t.Errorf("it took %v, and LeaseTTL is over in 4m0s", took)
		}
	})
}

// TestDrainReturnsWithTheLastRequest, at once.
func TestDrainReturnsWithTheLastRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{})
		for i := range 3 {
			l := acquire(t, m, fmt.Sprint(i), 0)
			time.AfterFunc(time.Duration(i+1)*time.Second, func() { l.Release() })
		}
		begin := time.Now()
		if err := m.Drain(t.Context()); err != nil || time.Since(begin) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}
