package redislimit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// TestCloseKeepsTheSlotsOfRequestsInFlight, until they are over; then the process has left the fleet.
func TestCloseKeepsTheSlotsOfRequestsInFlight(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	a, b := newTestPrefix(t, s, "p:"), newTestPrefix(t, s, "p:")
	held := acquire(t, a, "a.example", 0)
	settle(t, a, "a.example")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if lease, err := b.Acquire(ctx, "a.example", 0); err == nil {
		lease.Release()
		t.Error("two in flight on one slot")
	}
	time.Sleep(a.deadAfter / 5) // a sign of life is due
	held.Release()
	acquire(t, b, "a.example", 0).Release()
	fleet, err := b.Fleet(t.Context())
	for _, p := range fleet.Processes {
		if p.ID == a.proc {
			t.Errorf("a closed process is in the fleet: %+v", p)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// TestCloseEndsAClear that waits behind another change of the host, to a server that says nothing.
func TestCloseEndsAClear(t *testing.T) {
	t.Parallel()
	post := new(courier)
	l := newFleet(t, shared, Config{Limits: oneSlot}, 1, post)[0]
	turn := acquire(t, l, "a.example", 0)
	post.set(func(payload string, _ func() error) error {
		if strings.Contains(payload, "outcome") {
			time.Sleep(300 * time.Millisecond)
		}
		return errReset
	})
	go turn.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
	changes := func(n int) func() bool {
		return func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.hosts["a.example"].changes) == n
		}
	}
	eventually(t, time.Minute, "a refusal", changes(1))
	cleared := make(chan error, 1)
	go func() { cleared <- l.Clear(context.Background(), "a.example") }()
	eventually(t, time.Minute, "a clearing", changes(2))
	_ = l.Close()
	select {
	case err := <-cleared:
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it hangs")
	}
}
