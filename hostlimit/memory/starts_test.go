package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/backoff"

	"github.com/go-politeness/politeness/hostlimit"
)

// Release is safe to call from any goroutine, also while the lease waits in Start.
func TestReleaseEndsAStartThatWaits(t *testing.T) {
	for _, behind := range []bool{false, true} { // another one that waits in Start
		synctest.Test(t, func(t *testing.T) {
			m := mustNew(t, hostlimit.Config{Delay: none, Concurrency: 3})
			first, released, other := acquire(t, m, "a", 0), acquire(t, m, "a", 0), acquire(t, m, "a", 0)
			first.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
			first.Release()
			began := time.Now()
			var wg sync.WaitGroup
			ends := func() {
				if _, err := released.lease.Start(t.Context()); !errors.Is(err, hostlimit.ErrBusy) || time.Since(began) != time.Minute {
					t.Errorf("released while it waited: %v after %v", err, time.Since(began))
				}
			}
			starts := func() {
				g, err := other.lease.Start(t.Context())
				if err != nil || !g.Probe || time.Since(began) != time.Hour {
					t.Errorf("the other one: %+v, %v after %v", g, err, time.Since(began))
				}
				other.Release()
			}
			calls := [2]func(){ends, starts}
			if behind {
				calls = [2]func(){starts, ends}
			}
			wg.Go(calls[0])
			synctest.Wait()
			wg.Go(calls[1])
			time.Sleep(time.Minute)
			released.Release()
			wg.Wait()
			for st := range states(t, m) {
				if st.InFlight != 0 || st.Waiters != 0 {
					t.Errorf("in the end: %+v", st)
				}
			}
		})
	}
}

// TestAnEndShortensNoGap: an attempt without an answer is counted from its end, but a start since then
// may be owed a longer gap.
func TestAnEndShortensNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second, Max: time.Second, Adaptive: hostlimit.Fixed}, Concurrency: 3})
		began := time.Now()
		first := acquire(t, m, "a", 0)
		second := acquire(t, m, "a", 10*time.Second) // starts after 10 s, and is owed as much
		time.Sleep(time.Second)
		first.Observe(hostlimit.Outcome{Err: errors.New("connection reset")})
		first.Release()
		third := acquire(t, m, "a", 0)
		if at := third.Start.Sub(began); at != 20*time.Second {
			t.Errorf("started after %v", at)
		}
		second.Release()
		third.Release()
	})
}

// TestWhatNeverStartedOwesNothing, whether it was given up in Start or before it.
func TestWhatNeverStartedOwesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Minute}})
		begin := time.Now()
		gone, leave := context.WithCancel(t.Context())
		leave()
		var leases []hostlimit.Lease
		for range 2 {
			l, err := m.Acquire(t.Context(), "a", 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Start(gone); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			leases = append(leases, l)
		}
		leases[1].Release()
		if l := acquire(t, m, "a", 0); l.Start.After(begin) {
			t.Errorf("started after %v", l.Start.Sub(begin))
		}
	})
}

// TestAnEndCountsBeforeAStartOfTheSameInstant, which the request may yet give up for a later one.
func TestAnEndCountsBeforeAStartOfTheSameInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: 10 * time.Second}})
		first := acquire(t, m, "a", 0)
		second := acquire(t, m, "a", 0)
		ended := time.Now()
		first.Observe(hostlimit.Outcome{Err: errors.New("connection reset")})
		first.Release()
		if g, err := second.lease.Start(t.Context()); err != nil || g.Start.Sub(ended) != 10*time.Second {
			t.Errorf("started anew %v after the end; %v", g.Start.Sub(ended), err)
		}
		second.Release()
	})
}

// TestAnEndIsOwedTheGapInForce: one that a slow answer has made longer, whatever was answered since.
func TestAnEndIsOwedTheGapInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second, Adaptive: hostlimit.Squared}, Concurrency: 3})
		slow, quick, last := acquire(t, m, "a", 0), acquire(t, m, "a", 0), acquire(t, m, "a", 0)
		slow.Observe(hostlimit.Outcome{Status: 200, Latency: 4 * time.Second})
		quick.Observe(hostlimit.Outcome{Status: 200, Latency: 100 * time.Millisecond})
		time.Sleep(time.Second)
		last.Observe(hostlimit.Outcome{Err: errors.New("connection reset")})
		ended := time.Now()
		last.Release()
		next := acquire(t, m, "a", 0)
		if gap := next.Start.Sub(ended); gap != 16*time.Second {
			t.Errorf("the next one starts %v after the end", gap)
		}
		for _, l := range []turn{slow, quick, next} {
			l.Release()
		}
	})
}

// TestAnEndAtTheInstantOfAStartIsOwedTheLongerGap of the two.
func TestAnEndAtTheInstantOfAStartIsOwedTheLongerGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second, Adaptive: hostlimit.Fixed}, Concurrency: 3})
		first := acquire(t, m, "a", 5*time.Second)
		time.Sleep(10 * time.Second)
		second := acquire(t, m, "a", 0)
		first.Observe(hostlimit.Outcome{Err: errors.New("connection reset")})
		first.Release()
		if next := acquire(t, m, "a", 0); next.Start.Sub(second.Start) != 5*time.Second {
			t.Errorf("the next one starts %v after both", next.Start.Sub(second.Start))
		}
	})
}

// TestNothingIsLost lets goroutines do everything at once in real time, and finds
// every slot, place and turn given back.
func TestNothingIsLost(t *testing.T) {
	m := mustNew(t, hostlimit.Config{
		Delay: hostlimit.Delay{Max: 200 * time.Microsecond}, Concurrency: 3, MaxInFlight: 5, MaxHosts: 3,
		SlotTimeout: 3 * time.Millisecond, LeaseTTL: 20 * time.Millisecond,
		Backoff: backoff.Fibonacci{Unit: 100 * time.Microsecond, Cap: time.Millisecond},
	})
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(5000))*time.Microsecond)
				l, err := m.Acquire(ctx, fmt.Sprint("host-", r.IntN(8)), time.Duration(r.IntN(100))*time.Microsecond)
				cancel()
				if err != nil {
					continue
				}
				for range r.IntN(3) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(5000))*time.Microsecond)
					_, _ = l.Start(ctx)
					cancel()
				}
				if r.IntN(8) > 0 {
					l.Observe(hostlimit.Outcome{Status: []int{200, 429, 500}[r.IntN(3)]})
				}
				switch r.IntN(50) {
				case 0: // leaked
				case 1:
					wg.Go(func() { l.Release() })
					fallthrough
				default:
					l.Release()
				}
			}
		})
	}
	wg.Wait()
	time.Sleep(25 * time.Millisecond)
	m.sweep(m.places)
	if m.places.taken != 0 || m.places.line.First != nil {
		t.Errorf("%d places are lost", m.places.taken)
	}
	for st := range states(t, m) {
		if st.InFlight != 0 || st.Waiters != 0 {
			t.Errorf("%+v", st)
		}
	}
}
