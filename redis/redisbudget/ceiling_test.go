package redisbudget

import (
	"testing"
	"time"

	"github.com/go-politeness/politeness/budget"
)

// A window that lies centuries ahead, written once by another program, keeps the budget from being
// renewed for a day at most.
func TestAForgedWindowDoesNotStay(t *testing.T) {
	t.Parallel()
	const every = time.Hour
	r := newRig(t, 1, Config{Limits: budget.Limits{Pages: 10, Every: every}})
	b := r.fleet[0]
	if _, err := b.Reserve(t.Context(), "a.example"); err != nil {
		t.Fatal(err)
	}
	key := b.keys[0]
	current := time.Now().UnixMicro() / every.Microseconds()
	if err := b.client.HSet(t.Context(), key, "window", current+285*365*24).Err(); err != nil {
		t.Fatal(err)
	}
	for range 10 { // more than a chunk
		_, _ = b.Reserve(t.Context(), "a.example")
	}
	window, err := b.client.HGet(t.Context(), key, "window").Int64()
	if err != nil || window > current+25 {
		t.Errorf("window %d, %d ahead (%v)", window, window-current, err)
	}
}
