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
