package memory

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/backoff"

	"github.com/go-politeness/politeness/hostlimit"
)

func mustNew(t testing.TB, c hostlimit.Config) *Limiter {
	t.Helper()
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A turn is a lease that has started.
type turn struct {
	hostlimit.Grant
	lease hostlimit.Lease
}

func (t turn) Observe(o hostlimit.Outcome) hostlimit.Effect { return t.lease.Observe(o) }
func (t turn) Release() bool                                { return t.lease.Release() }

// acquire fails the test if there is no turn, or if it doesn't start.
func acquire(t testing.TB, m *Limiter, key string, floor time.Duration) turn {
	t.Helper()
	l, err := m.Acquire(t.Context(), key, floor)
	if err != nil {
		t.Fatal(err)
	}
	g, err := l.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return turn{g, l}
}

func TestStartsAreNeverCloserThanTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second}})
		begin := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				l := acquire(t, m, "a", 0)
				l.Observe(hostlimit.Outcome{Status: 200})
				l.Release()
			})
		}
		wg.Wait()
		if d := time.Since(begin); d != 9*time.Second {
			t.Errorf("10 starts took %v, want 9s", d)
		}
	})
}

func TestSlotTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}, SlotTimeout: 10 * time.Second})
		acquire(t, m, "a", 0)
		acquire(t, m, "a", 0)
		time.Sleep(3 * time.Second)
		begin := time.Now()
		_, err := m.Acquire(t.Context(), "a", 0)
		if d := time.Since(begin); d != 10*time.Second || !errors.Is(err, hostlimit.ErrBusy) {
			t.Errorf("after %v: %v", d, err)
		}
	})
}

func TestBlockHoldsWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second}, Backoff: backoff.Fibonacci{Unit: 10 * time.Second}})
		begin := time.Now()
		first := acquire(t, m, "a", 0)
		var wg sync.WaitGroup
		starts := make([]time.Duration, 0, 3)
		var mu sync.Mutex
		for range 3 {
			wg.Go(func() {
				l := acquire(t, m, "a", 0)
				mu.Lock()
				starts = append(starts, l.Grant.Start.Sub(begin))
				t.Logf("%+v", l.Grant)
				mu.Unlock()
				time.Sleep(5 * time.Second)
				l.Observe(hostlimit.Outcome{Status: 200})
				l.Release()
			})
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
			defer cancel()
			_, err := m.Acquire(ctx, "a", 0)
			if !errors.Is(err, hostlimit.ErrBlocked) || time.Since(begin) != 500*time.Millisecond {
				t.Error(time.Since(begin), err)
			}
		})
		time.Sleep(500 * time.Millisecond)
		first.Observe(hostlimit.Outcome{Status: 429})
		first.Release()
		wg.Wait()
		t.Log(starts)
	})
}
