package redislimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// TestATurnAfterABlockOfTheSameInstant: a start that was granted at the instant of a block is asked
// for again a moment later, not for ever at that instant.
func TestATurnAfterABlockOfTheSameInstant(t *testing.T) {
	w := newWorld(t, "15")
	w.reset()
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		w.fate = func(int) (callFate, time.Duration) { return fine, 0 } // no time passes during a call
		l := w.settled(hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: 40 * time.Millisecond, Adaptive: hostlimit.Fixed}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		other := w.settled(hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: 40 * time.Millisecond, Adaptive: hostlimit.Fixed}})
		w.fetch(ctx, l, 0, hostlimit.Outcome{Status: 200}, false)
		time.Sleep(time.Second)
		if err := other.Block(ctx, "a.example", time.Now().Add(time.Hour), "by hand"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := l.Clear(ctx, "a.example"); err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		calls := w.calls
		w.mu.Unlock()
		lease, err := w.acquire(ctx, l)
		if err != nil {
			t.Fatal(err)
		}
		lease.Release()
		w.mu.Lock()
		calls = w.calls - calls
		w.mu.Unlock()
		if calls > 5 {
			t.Errorf("%d calls for a turn", calls)
		}
		_ = l.Close()
		_ = other.Close()
		_ = other.conf.Client.Close()
		_ = l.conf.Client.Close()
		time.Sleep(5 * time.Second) // what is still under way
	})
}
