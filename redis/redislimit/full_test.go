package redislimit

import (
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// TestAFullServerIsGivenRoom: nothing starts on a server that refuses writes, whose error says why;
// with more room all goes on, and no slot is lost, as docs/many-machines.md says.
func TestAFullServerIsGivenRoom(t *testing.T) {
	t.Parallel()
	s := ownServer(t, "--maxmemory-policy", "noeviction")
	client := newClient(t, s)
	l := newFleet(t, s, Config{Limits: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond}, MaxWait: 5 * time.Second}}, 1)[0]
	held := acquire(t, l, "a.example", 0)
	if err := client.ConfigSet(t.Context(), "maxmemory", "1mb").Err(); err != nil { // less than it uses
		t.Fatal(err)
	}
	if lease, err := l.Acquire(t.Context(), "b.example", 0); err == nil {
		lease.Release()
		t.Error("a turn on a full server")
	} else if !strings.Contains(err.Error(), "OOM") {
		t.Errorf("on a full server: %v", err)
	}
	held.Release()
	time.Sleep(2 * heartbeat)
	if err := client.ConfigSet(t.Context(), "maxmemory", "64mb").Err(); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a.example", "b.example"} {
		eventually(t, 10*time.Second, key+" starts", func() bool {
			lease, err := l.Acquire(t.Context(), key, 0)
			if err == nil {
				_, err = lease.Start(t.Context())
				lease.Release()
			}
			return err == nil
		})
	}
}

// TestARestoreThatFailsIsSentWithTheHeartbeat, and not as often as a server that refuses it can be asked.
func TestARestoreThatFailsIsSentWithTheHeartbeat(t *testing.T) {
	t.Parallel()
	post := new(courier)
	l := newFleet(t, shared, Config{Limits: oneSlot}, 1, post)[0]
	turn := acquire(t, l, "a.example", 0)
	defer turn.Release()
	post.set(func(string, func() error) error { return errReset })
	l.mu.Lock()
	l.parts[0].restore(true)
	l.mu.Unlock()
	before := l.Stats().Calls
	time.Sleep(4 * heartbeat)
	if calls := l.Stats().Calls - before; calls > 20 {
		t.Errorf("%d calls in %v", calls, 4*heartbeat)
	}
	post.set(nil)
	eventually(t, 10*time.Second, "the server hears of it when it is back", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		p := l.parts[0]
		return p.down == nil && p.restoring == 0 && len(p.ops) == 0
	})
}
