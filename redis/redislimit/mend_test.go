package redislimit

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// TestABadEntryOfAProcessStopsNobody: one field of the hash of processes was damaged, that of the
// process itself or another one.
func TestABadEntryOfAProcessStopsNobody(t *testing.T) {
	t.Parallel()
	for _, damaged := range []string{"other", "own"} {
		t.Run(damaged, func(t *testing.T) {
			t.Parallel()
			s := ownServer(t)
			client := newClient(t, s)
			l := newFleet(t, s, Config{
				Failure: FailLocal, Processes: 2, // looks at all processes
				Limits: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond}, SlotTimeout: 5 * time.Second},
			}, 1)[0]
			acquire(t, l, "a.example", 0).Release()
			field := "somebody"
			if damaged == "own" {
				field = l.proc
			}
			key := l.conf.Prefix + l.parts[0].tag + "processes"
			for range 3 {
				if err := client.HSet(t.Context(), key, field, "\xc1 no list").Err(); err != nil {
					t.Fatal(err)
				}
				held := acquire(t, l, "a.example", 0)
				waiter := make(chan error, 1)
				go func() { // looks for the process of the turn that it waits for
					lease, err := l.Acquire(t.Context(), "a.example", 0)
					if err == nil {
						lease.Release()
					}
					waiter <- err
				}()
				time.Sleep(heartbeat)
				held.Release()
				if err := <-waiter; err != nil {
					t.Error(err)
				}
			}
			fleet, err := l.Fleet(t.Context())
			if err != nil || len(fleet.Processes) != 1 || fleet.Processes[0].ID != l.proc {
				t.Errorf("%+v, %v", fleet, err)
			}
			if s := l.Stats(); s.Failed > 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A policyThatPanics panics after so many calls.
type policyThatPanics struct{ left *atomic.Int64 }

func (p policyThatPanics) Delay(int) time.Duration {
	if p.left.Add(-1) < 0 {
		panic("the policy panics")
	}
	return time.Second
}

// TestAPolicyThatPanicsBlocks, as with a Memory, also where it panics on what is computed when the call
// is sent, or once more when the server has another version: by a Fibonacci step, and the Effect says
// why.
func TestAPolicyThatPanicsBlocks(t *testing.T) {
	for _, calls := range []int64{0, 1, 2} {
		policy := policyThatPanics{new(atomic.Int64)}
		policy.left.Store(100)
		s := newStage(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, Backoff: policy, MaxWait: 5 * time.Second})
		h := s.host()
		observe := func() hostlimit.Effect {
			turn := acquire(t, s.l, h.key, 0)
			defer turn.Release()
			if policy.left.Load() < 100 {
				s.client.Eval(t.Context(), `
					local h = cmsgpack.unpack(redis.call('GET', KEYS[1]))
					h.v = 1000
					redis.call('SET', KEYS[1], cmsgpack.pack(h), 'PX', 600000)`, []string{s.key(h)}) // somebody has changed it
			}
			return turn.Observe(hostlimit.Outcome{Status: 429})
		}
		policy.left.Store(calls)
		if e := observe(); !e.Blocked || e.Refusals != 1 || e.StateErr == nil && policy.left.Load() < 0 {
			t.Errorf("after %d calls: %+v", calls, e)
		}
		acquire(t, s.l, s.host().key, 0).Release()
		policy.left.Store(100)
		if e := observe(); !e.Blocked || e.Refusals != 2 || e.StateErr != nil {
			t.Errorf("after %d calls, then a refusal: %+v", calls, e)
		}
	}
}

// TestAnOverrideThatPanicsKeepsNobodyWaiting: it is asked again while a request waits.
func TestAnOverrideThatPanicsKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	var panics atomic.Bool
	l := newFleet(t, shared, Config{Limits: hostlimit.Config{
		Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond}, MaxWait: 10 * time.Second,
		Override: func(string) (hostlimit.Limits, bool) {
			if panics.Load() {
				panic("the override panics")
			}
			return hostlimit.Limits{}, false
		},
	}}, 1)[0]
	held := acquire(t, l, "a.example", 0)
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		if lease, err := l.Acquire(t.Context(), "a.example", 0); err == nil {
			lease.Release()
		}
	}()
	eventually(t, 10*time.Second, "it waits", func() bool { return l.Stats().Waiting == 1 })
	time.Sleep(100 * time.Millisecond)
	panics.Store(true)
	held.Release()
	if p := <-panicked; p == nil {
		t.Error("no panic")
	}
	panics.Store(false)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	lease, err := l.Acquire(ctx, "a.example", 0)
	if err != nil {
		t.Fatal(err)
	}
	lease.Release()
}
