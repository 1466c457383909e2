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
	s := redistest.New(t)
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
		b.callNever()
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

// callNever keeps b from calling by itself: on a machine that stands still for a second, b would give
// its pages back before it is killed.
func (b *Budget) callNever() {
	b.timerCalls.Add(1)
	b.timer = time.AfterFunc(time.Hour, func() { panic("an hour is over") })
}

// TestACutOffProcessIsntLost: when it calls again, chunks are as large as before.
func TestACutOffProcessIsntLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, Config{Limits: budget.Limits{Pages: 10_000}})
	r.lose(0)
	r.proxies[0].Lead(r.server.Addr)
	r.awaitShare(1)
}

// TestALostProcessIsForgotten: an hour after its last call chunks are as large as before.
func TestALostProcessIsForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, Config{Limits: budget.Limits{Pages: 10_000}})
	for _, b := range r.fleet {
		b.lostFor = 15 * time.Second
	}
	r.lose(0)
	r.awaitShare(1)
}

// lose cuts a process of two off until the other one's chunks are smaller.
func (r *rig) lose(process int) {
	r.t.Helper()
	for i, b := range r.fleet {
		b.lostAfter = 2 * time.Second
		r.spend(i, 1, "a.example")
	}
	r.awaitShare(1)
	r.proxies[process].Lead("127.0.0.1:1")
	r.awaitShare(2)
}

// awaitShare waits until the chunks of the last process are smaller by want.
func (r *rig) awaitShare(want int64) {
	r.t.Helper()
	b := r.fleet[len(r.fleet)-1]
	share := func() int64 {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.divisor
	}
	for end := time.Now().Add(2 * time.Minute); share() != want; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("chunks are a %d-th, not a %d-th", share(), want)
		}
	}
}
