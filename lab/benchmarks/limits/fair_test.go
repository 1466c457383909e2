package limits

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
)

const pace = 100 * time.Millisecond

// A waiter comes, and leaves or has a deadline some time later; 0: neither.
type waiter struct{ comes, leaves, deadline time.Duration }

// rounded is what x/time/rate, which counts in floating point, may be off by: it starts a nanosecond
// too early at times.
const rounded = time.Microsecond

// never is the start of a waiter that had none.
const never = time.Duration(-1)

// starts returns when each waiter started.
func starts(t *testing.T, waiters []waiter, wait func(context.Context) error) []time.Duration {
	t.Helper()
	begin := time.Now()
	at := make([]time.Duration, len(waiters))
	var all sync.WaitGroup
	for i, w := range waiters {
		all.Go(func() {
			time.Sleep(w.comes)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if w.leaves > 0 {
				time.AfterFunc(w.leaves, cancel)
			}
			if w.deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, w.deadline)
				defer cancel()
			}
			at[i] = never
			if wait(ctx) == nil {
				at[i] = time.Since(begin)
			}
		})
	}
	all.Wait()
	return at
}

func byHostlimit(t *testing.T, waiters []waiter) []time.Duration {
	t.Helper()
	hosts, err := memory.New(hostlimit.Config{
		Concurrency: len(waiters),
		Delay:       hostlimit.Delay{Min: pace, Max: pace, Adaptive: hostlimit.Fixed},
	})
	if err != nil {
		t.Fatal(err)
	}
	return starts(t, waiters, func(ctx context.Context) error {
		lease, err := hosts.Acquire(ctx, "example.com", 0)
		if err != nil {
			return err
		}
		defer lease.Release()
		_, err = lease.Start(ctx)
		return err
	})
}

func byRate(t *testing.T, waiters []waiter) []time.Duration {
	t.Helper()
	return starts(t, waiters, rate.NewLimiter(rate.Every(pace), 1).Wait)
}

// TestAsFairAsRate holds what x/time/rate's own tests of fairness hold of it: many at once and one
// after the other, for long, with some who leave and some who can't wait. Whoever it lets start, we let
// start no later; but for those who leave, the starts are the same.
func TestAsFairAsRate(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		patient := seed%3 == 0
		var comes time.Duration
		waiters := make([]waiter, 2+rnd.IntN(40))
		for i := range waiters {
			// At least 1 ms: goroutines that come at one instant come in any order.
			comes += time.Duration(1+rnd.IntN(1+rnd.IntN(200))) * time.Millisecond
			waiters[i].comes = comes
			switch {
			case patient:
			case rnd.IntN(4) == 0:
				waiters[i].leaves = time.Duration(rnd.IntN(1000)) * time.Millisecond
			case rnd.IntN(4) == 0:
				waiters[i].deadline = time.Duration(1+rnd.IntN(1000)) * time.Millisecond
			}
		}
		synctest.Test(t, func(t *testing.T) {
			want := byRate(t, waiters)
			got := byHostlimit(t, waiters)
			for i := range waiters {
				late := want[i] != never && (got[i] == never || got[i] > want[i]+rounded)
				other := patient && (got[i]-want[i]).Abs() > rounded
				if late || other {
					t.Errorf("seed %d: waiter %d, %+v, starts at %v, and with x/time/rate at %v",
						seed, i, waiters[i], got[i], want[i])
				}
				for j := range i {
					if got[i] != never && got[j] != never && (got[i]-got[j]).Abs() < pace {
						t.Errorf("seed %d: waiters %d and %d start at %v and %v", seed, j, i, got[j], got[i])
					}
				}
			}
		})
	}
}
