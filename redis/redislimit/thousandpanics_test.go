package redislimit

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A watcherThatPanics has functions for methods.
type watcherThatPanics struct{ may func(string) }

func (w watcherThatPanics) Waits(hostlimit.Wait) { w.may("Watcher") }
func (w watcherThatPanics) String() string       { return "a request" }

type policyFunc func()

func (f policyFunc) Delay(int) time.Duration { f(); return 10 * time.Millisecond }

type storeFunc func()

func (f storeFunc) Update(_ context.Context, _ string, change func(hostlimit.Debt) hostlimit.Debt) (hostlimit.Debt, error) {
	f()
	return change(hostlimit.Debt{}), nil
}

// TestAThousandPanics of all functions of the user's, in two processes on one server: no slot and no
// place of the fleet is lost.
func TestAThousandPanics(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	var calm atomic.Bool
	var calls, panics atomic.Int64
	may := func(name string) {
		if !calm.Load() && calls.Add(1)%3 == 0 {
			panics.Add(1)
			panic("boom: " + name)
		}
	}
	const slots, places = 2, 6
	fleet := newFleet(t, s, Config{
		OnFailure: func(Event) { may("OnFailure") },
		Limits: hostlimit.Config{
			Concurrency: slots, MaxInFlight: places, Delay: hostlimit.Delay{Min: time.Millisecond}, MaxWait: 20 * time.Second,
			Backoff:  policyFunc(func() { may("Policy") }),
			Store:    storeFunc(func() { may("Store") }),
			Override: func(string) (hostlimit.Limits, bool) { may("Override"); return hostlimit.Limits{}, false },
		},
	}, 2)
	turn := func(l *Limiter, key string, status int) {
		defer func() {
			if p := recover(); p != nil && fmt.Sprint(p)[:5] != "boom:" {
				t.Errorf("panic %v", p)
			}
		}()
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), (*hostlimit.Watcher)(nil), watcherThatPanics{may}), 20*time.Second)
		defer cancel()
		lease, err := l.Acquire(ctx, key, 0)
		if err != nil {
			if !errors.Is(err, hostlimit.ErrBusy) && !errors.Is(err, hostlimit.ErrBlocked) {
				t.Error(err)
			}
			return
		}
		defer lease.Release()
		if _, err := lease.Start(ctx); err == nil {
			time.Sleep(time.Millisecond)
			lease.Observe(hostlimit.Outcome{Status: status})
		}
	}
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			for i := 0; panics.Load() < 1000; i++ {
				status := 200
				if i%40 == 39 {
					status = 429
				}
				turn(fleet[worker%2], fmt.Sprintf("%c.example", 'a'+i%4), status)
			}
		})
	}
	all.Wait()
	calm.Store(true)
	for key := range 4 { // a policy that panics is replaced by Fibonacci, which may block for minutes
		if err := fleet[0].Clear(t.Context(), fmt.Sprintf("%c.example", 'a'+key)); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range fleet {
		eventually(t, 10*time.Second, "nothing is in flight", func() bool { s := l.Stats(); return s.InFlight == 0 && s.Waiting == 0 })
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for key := range 4 { // every slot of every host
		var held []hostlimit.Lease
		for i := range slots {
			lease, err := fleet[i%2].Acquire(ctx, fmt.Sprintf("%c.example", 'a'+key), 0)
			if err != nil {
				t.Fatalf("host %d, slot %d: %v", key, i+1, err)
			}
			held = append(held, lease)
		}
		for _, lease := range held {
			lease.Release()
		}
	}
	for i := range places { // every place
		lease, err := fleet[i%2].Acquire(ctx, fmt.Sprintf("%c.example", 'a'+i%4), 0)
		if err != nil {
			t.Fatalf("place %d: %v", i+1, err)
		}
		defer lease.Release()
	}
}

// TestAPanicOfOnFailureEndsNoProcess: there is no caller that could recover it. It is logged.
func TestAPanicOfOnFailureEndsNoProcess(t *testing.T) {
	l := newFleet(t, shared, Config{OnFailure: func(Event) { panic("boom") }}, 1)[0]
	var logged strings.Builder
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	l.mu.Lock()
	l.events = append(l.events, Event{})
	l.mu.Unlock()
	l.reportEvents()
	acquire(t, l, "a.example", 0).Release()
	if strings.Count(logged.String(), "panic in Config.OnFailure: boom") != 1 {
		t.Errorf("logged: %s", logged.String())
	}
}

// A contextThat calls a function before each of its methods but Done.
type contextThat struct {
	context.Context
	calls func()
}

func (c contextThat) Err() error                  { c.calls(); return c.Context.Err() }
func (c contextThat) Value(key any) any           { c.calls(); return c.Context.Value(key) }
func (c contextThat) Deadline() (time.Time, bool) { c.calls(); return c.Context.Deadline() }

// TestContextsAreCalledUnderNoLock: a context may ask the Limiter itself, and its panic, wherever that
// comes, leaves no lock held and no turn taken.
func TestContextsAreCalledUnderNoLock(t *testing.T) {
	t.Parallel()
	l := newFleet(t, ownServer(t), Config{
		Limits: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond}, Store: storeFunc(func() {})},
	}, 1)[0]
	turn := func(key string, nth int) (blew bool) {
		defer func() { blew = recover() != nil }()
		parent, cancel := context.WithCancel(t.Context())
		defer cancel()
		ctx := contextThat{parent, func() {
			l.Stats()
			if nth--; nth == 0 {
				panic("boom")
			}
		}}
		lease, err := l.Acquire(ctx, key, 0)
		if err != nil {
			t.Error(err)
			return false
		}
		defer lease.Release()
		for range 2 { // the second one asks the server
			if _, err := lease.Start(ctx); err != nil {
				t.Error(err)
			}
		}
		time.AfterFunc(5*time.Millisecond, cancel)
		if _, err := l.Acquire(ctx, key, 0); !errors.Is(err, context.Canceled) { // the one slot is held
			t.Error(err)
		}
		return false
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for nth, blew := 1, true; blew; nth++ {
			blew = turn(fmt.Sprintf("%d.example", nth), nth)
			acquire(t, l, fmt.Sprintf("%d.example", nth), 0).Release()
		}
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("a lock is held")
	}
}
