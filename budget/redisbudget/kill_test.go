package redisbudget

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/internal/redistest"
)

// TestKillsCostLessAndLess: processes of a crawler that is killed and started again, each time after a
// page or two. The first takes a whole chunk along, the later ones less and less; one that was closed
// takes nothing, nor does it make chunks smaller.
func TestKillsCostLessAndLess(t *testing.T) {
	t.Parallel()
	const limit, kills = 1000, 7
	s := ownServer(t)
	process := func() (b *Budget, kill func()) {
		proxy, err := redistest.NewProxy(s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(&redis.Options{Addr: proxy.Addr, MaxRetries: -1, ReadTimeout: time.Second})
		b, err = New(Config{Client: client, Name: "killed", Limits: budget.Limits{Pages: limit}, Processes: 2})
		if err != nil {
			t.Fatal(err)
		}
		b.lostAfter = 2 * time.Second
		if _, err := b.Reserve(t.Context(), "a.example"); err != nil {
			t.Fatal(err)
		}
		return b, func() {
			proxy.Close()
			_ = client.Close()
			_ = b.Close()
		}
	}
	spent := func() int64 {
		t.Helper()
		b, err := New(Config{Client: newClient(t, s), Name: "killed", Limits: budget.Limits{Pages: limit}, Processes: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		u, err := b.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return u.Pages
	}
	for range 3 {
		b, _ := process()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := spent(); n != 3 {
		t.Errorf("%d pages are spent after three, by processes that were closed", n)
	}
	var cost []int64
	for range kills {
		before := spent()
		_, kill := process()
		kill()
		cost = append(cost, spent()-before-1)
		time.Sleep(3 * time.Second)
	}
	t.Logf("kills cost %d pages", cost)
	total := int64(0)
	for _, n := range cost {
		total += n
	}
	if cost[0] != firstPages-1 || cost[1] >= cost[0] || cost[kills-1] > 1 || total > 2*firstPages {
		t.Errorf("kills cost %d pages", cost)
	}
}

// TestACutOffProcessIsntLost: when it calls again, chunks are as large as before.
func TestACutOffProcessIsntLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, Config{Limits: budget.Limits{Pages: 10_000}})
	for _, b := range r.fleet {
		b.lostAfter = 2 * time.Second
	}
	r.spend(0, 1, "a.example")
	r.spend(1, 1, "a.example")
	share := func() int64 {
		r.fleet[1].mu.Lock()
		defer r.fleet[1].mu.Unlock()
		return r.fleet[1].share
	}
	await := func(want int64) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); share() != want; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("chunks are a %d-th, not a %d-th", share(), want)
			}
		}
	}
	await(1)
	r.proxies[0].Lead("127.0.0.1:1")
	await(2)
	r.proxies[0].Lead(r.server.Addr)
	await(1)
}
