package redislimit

import (
	"context"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// TestNoSlotLeaksWhenTheServerIsFull: it refuses to store that slots are free, and is sent that again.
func TestNoSlotLeaksWhenTheServerIsFull(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	l := newFleet(t, s, Config{Limits: hostlimit.Config{Concurrency: 6, Delay: hostlimit.Delay{Min: time.Microsecond}}}, 1)[0]
	admin := newClient(t, s)
	limit := func(bytes string) {
		t.Helper()
		if err := admin.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 5 {
		var held []hostlimit.Lease
		for i := range 6 {
			lease, err := l.Acquire(ctx, "a.example", 0)
			for err != nil && ctx.Err() == nil { // the server may count as lost for a moment
				time.Sleep(10 * time.Millisecond)
				lease, err = l.Acquire(ctx, "a.example", 0)
			}
			if err != nil {
				t.Fatalf("slot %d never came back: %v", i+1, err)
			}
			held = append(held, lease)
		}
		limit("100kb")
		for _, lease := range held {
			lease.Release()
			time.Sleep(2 * time.Millisecond) // each in a call of its own
		}
		time.Sleep(heartbeat / 5)
		limit("0")
	}
}
