package redisbudget

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/internal/redistest"
	"github.com/go-politeness/politeness/internal/soak"
)

// A rig is a fleet of processes, each behind a network of its own, and the server they spend on.
// What they got is counted here, apart from what they and the server count.
type rig struct {
	t       *testing.T
	server  *redistest.Server
	admin   *redis.Client // past the networks
	proxies []*redistest.Proxy
	fleet   []*Budget
	spent   atomic.Int64
}

func newRig(t *testing.T, n int, c Config, args ...string) *rig {
	t.Helper()
	r := &rig{t: t, server: redistest.New(t, args...)}
	r.admin = newClient(t, r.server)
	c.Name, c.Processes = "rig", n
	for range n {
		proxy, err := redistest.NewProxy(r.server.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		client := redis.NewClient(&redis.Options{Addr: proxy.Addr})
		t.Cleanup(func() { _ = client.Close() })
		c.Client = client
		b, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		r.proxies, r.fleet = append(r.proxies, proxy), append(r.fleet, b)
	}
	return r
}

// spend has a process take up to n pages of a host, and returns how many it got before it was
// refused by the budget.
func (r *rig) spend(process, n int, host string) (got int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
	defer cancel()
	for got < n {
		_, err := r.fleet[process].Reserve(ctx, host)
		switch {
		case err == nil:
			got++
			r.spent.Add(1)
		case errors.Is(err, budget.ErrExceeded):
			return got
		case ctx.Err() != nil:
			r.t.Fatalf("process %d: %v", process, err)
		}
	}
	return got
}

// finish spends what is left, by all processes at once, and holds the total against the limit: it is
// never passed, and by how much it may be reached early the test says.
func (r *rig) finish(limit, early int64, host string) {
	r.t.Helper()
	var wg sync.WaitGroup
	for i := range r.fleet {
		wg.Go(func() { r.spend(i, 1<<30, host) })
	}
	wg.Wait()
	if n := r.spent.Load(); n > limit || n < limit-early {
		r.t.Errorf("%d pages of %d, and at most %d early", n, limit, early)
	} else {
		r.t.Logf("%d pages of %d", n, limit)
	}
}

// save makes the server keep its present data for the next start.
func (r *rig) save() {
	r.t.Helper()
	if err := r.admin.Save(r.t.Context()).Err(); err != nil {
		r.t.Fatal(err)
	}
}

// restart kills the server and starts it on what was saved last.
func (r *rig) restart() {
	r.t.Helper()
	r.server.Kill()
	if err := r.server.Start(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) flush() {
	r.t.Helper()
	if err := r.admin.FlushAll(r.t.Context()).Err(); err != nil {
		r.t.Fatal(err)
	}
}

// await waits until ok, on a machine that is as busy as it may be.
func (r *rig) await(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("never: %s", what)
		}
	}
}

// called waits until every process of the fleet that has called makes another whole call.
func (r *rig) called() {
	r.t.Helper()
	for i, b := range r.fleet {
		before := b.Stats().Calls
		if before == 0 {
			continue // a process that nobody has asked for a page
		}
		// The first one may be under way already.
		r.await(fmt.Sprintf("process %d calls", i), func() bool { return b.Stats().Calls >= before+2 })
	}
}

// settle waits until every process has called, holds nothing any more and has sent what was lost.
func (r *rig) settle() {
	r.t.Helper()
	r.called()
	for i, b := range r.fleet {
		r.await(fmt.Sprintf("process %d has given back what it holds", i), func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			holds := b.pages.unspent
			for _, h := range b.hosts {
				holds += h.unspent
			}
			return holds == 0 && b.pending == nil && len(b.resend) == 0
		})
	}
}

// TestDumpGrantsNothingTwice: a server that is back from an RDB dump knows nothing of what came
// after.
func TestDumpGrantsNothingTwice(t *testing.T) {
	t.Parallel()
	const limit = 1000
	r := newRig(t, 3, Config{Limits: budget.Limits{Pages: limit}})
	r.spend(0, 100, "a.example")
	r.spend(1, 100, "a.example")
	r.spend(2, 1, "a.example")
	r.save()
	r.spend(0, 300, "a.example")
	r.spend(1, 300, "a.example")
	r.settle()
	r.restart()
	r.finish(limit, 0, "a.example")
	for i, b := range r.fleet {
		if s := b.Stats(); s.Losses != 1 || s.Waited == 0 || s.Calls == 0 || s.Took <= 0 || s.Late != 0 {
			t.Errorf("process %d: %+v", i, s)
		}
	}
}

// TestDumpUnderLoad is the same while all spend.
func TestDumpUnderLoad(t *testing.T) {
	t.Parallel()
	const limit = 20_000
	r := newRig(t, 3, Config{Limits: budget.Limits{Pages: limit}})
	r.spend(0, 10, "a.example")
	r.save()
	restarted := make(chan error, 1)
	go func() {
		for r.spent.Load() < limit/2 {
			time.Sleep(time.Millisecond)
		}
		r.server.Kill()
		restarted <- r.server.Start()
	}()
	r.finish(limit, limit, "a.example")
	// The processes may have spent all before Start sees that the server answers.
	if err := <-restarted; err != nil {
		t.Error(err)
	}
}

// TestServerThatGoesBackInTime: the data is old, and the run_id is the same.
func TestServerThatGoesBackInTime(t *testing.T) {
	t.Parallel()
	const limit = 1000
	r := newRig(t, 2, Config{Limits: budget.Limits{Pages: limit}}, "--enable-debug-command", "yes")
	r.spend(0, 100, "a.example")
	r.save()
	r.spend(0, 400, "a.example")
	r.spend(1, 400, "a.example")
	r.settle()
	if err := r.admin.Do(t.Context(), "DEBUG", "RELOAD", "NOSAVE").Err(); err != nil {
		t.Fatal(err)
	}
	r.settle() // by the counter one process sees it, at its next call
	r.finish(limit, 0, "a.example")
}

// TestReplicaThatLags takes over without the last writes.
func TestReplicaThatLags(t *testing.T) {
	t.Parallel()
	const limit = 1000
	r := newRig(t, 3, Config{Limits: budget.Limits{Pages: limit}})
	host, port, _ := strings.Cut(r.server.Addr, ":")
	replica := redistest.New(t)
	on := newClient(t, replica)
	if err := on.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	r.spend(0, 100, "a.example")
	if n, err := r.admin.Wait(t.Context(), 1, 20*time.Second).Result(); n != 1 || err != nil {
		t.Fatalf("%d replicas, %v", n, err)
	}
	if err := on.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil { // from here on it has nothing
		t.Fatal(err)
	}
	r.spend(1, 400, "a.example")
	r.spend(2, 300, "a.example")
	r.settle()
	r.server.Kill()
	for _, proxy := range r.proxies {
		proxy.Lead(replica.Addr)
	}
	r.finish(limit, 0, "a.example")
}

// TestHostsAreRemembered: a server that is emptied learns from idle processes what their hosts have
// spent.
func TestHostsAreRemembered(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, Config{Limits: budget.Limits{PagesPerHost: 20}})
	for h := range 1200 { // more than one call can tell
		r.spend(h%2, 1, fmt.Sprint(h))
	}
	r.spend(0, 20, "a.example")
	r.settle()
	r.flush()
	r.settle()
	if n := r.spend(1, 20, "a.example"); n != 0 {
		t.Errorf("%d more pages of a host that had its 20", n)
	}
	r.spent.Store(0)
	for h := range 1200 {
		if n := r.spend((h+1)%2, 30, fmt.Sprint(h)); n != 19 {
			t.Fatalf("host %d: %d pages after the first, want 19", h, n)
		}
	}
}

// TestLateProcessTells: a process that was cut off through the loss tells when it is back, and what
// it tells adds to what was granted meanwhile.
func TestLateProcessTells(t *testing.T) {
	t.Parallel()
	const limit = 1000
	r := newRig(t, 3, Config{Limits: budget.Limits{Pages: limit, PagesPerHost: 1000}})
	r.spend(0, 200, "a.example")
	r.spend(1, 100, "a.example")
	r.settle()
	r.proxies[0].Hold()
	r.proxies[1].Hold()
	r.flush()
	if n := r.spend(2, 300, "a.example"); n != 300 {
		t.Fatalf("%d pages", n)
	}
	r.proxies[0].Deliver()
	r.proxies[1].Deliver()
	r.settle()
	// Processes 0 and 1 both knew of 300; each may add its own, as the sum of both is what they
	// can't tell.
	r.finish(limit, 300, "a.example")
}

// TestLateCopiesDoNothing delivers every call once more, when others have come after it.
func TestLateCopiesDoNothing(t *testing.T) {
	t.Parallel()
	const limit = 500
	r := newRig(t, 2, Config{Limits: budget.Limits{Pages: limit, PagesPerHost: limit}})
	for range 3 {
		r.spend(0, 40, "a.example")
		r.spend(1, 40, "a.example")
		r.settle() // what is left in hand goes back
	}
	for range 3 {
		for _, proxy := range r.proxies {
			if err := proxy.Replay(); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.finish(limit, 0, "a.example")
}

// TestALostReplyCountsOnce: the server does a call, and its process never reads the reply. Neither a
// grant is lost, nor are pages given back twice.
func TestALostReplyCountsOnce(t *testing.T) {
	t.Parallel()
	const limit = 300
	r := newRig(t, 2, Config{Limits: budget.Limits{Pages: limit, PagesPerHost: limit}})
	for _, b := range r.fleet {
		b.client.(*redis.Client).Options().ReadTimeout = 300 * time.Millisecond
	}
	swallow := func() {
		for i, b := range r.fleet {
			r.proxies[i].Swallow(b.proc)
		}
	}
	for range 3 {
		swallow() // a grant
		r.spend(0, 30, "a.example")
		r.spend(1, 30, "a.example")
		swallow() // what is left in hand goes back
		for _, proxy := range r.proxies {
			r.await("a reply is lost", proxy.HasSwallowed)
		}
		r.settle()
	}
	r.finish(limit, 0, "a.example")
}

// TestCallsHeldByTheNetwork: the client gives up on calls and sends them anew; then all copies
// arrive.
func TestCallsHeldByTheNetwork(t *testing.T) {
	t.Parallel()
	const limit = 2000
	r := newRig(t, 2, Config{Limits: budget.Limits{Pages: limit}})
	r.spend(0, 50, "a.example")
	r.spend(1, 50, "a.example")
	r.proxies[0].Hold() // the give-back of what is left of the chunk is on its way
	time.Sleep(4 * time.Second)
	r.proxies[0].Deliver()
	r.spend(0, 50, "a.example")
	r.settle()
	if err := r.proxies[0].Replay(); err != nil {
		t.Fatal(err)
	}
	r.finish(limit, 0, "a.example")
}

// TestNotAfter runs the script itself: a call that arrives after its time does nothing and says so.
func TestNotAfter(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, Config{Limits: budget.Limits{Pages: 10}})
	r.spend(0, 1, "a.example")
	b := r.fleet[0]
	if err := b.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { <-b.calling }()
	b.mu.Lock()
	defer b.mu.Unlock()
	call := b.request("", 0, false)
	call.backPages = 5
	args := call.args(b, time.Now())
	before := r.admin.HGetAll(t.Context(), b.keys[0]).Val()
	for _, late := range []int64{0, time.Now().Add(-time.Minute).UnixMicro()} {
		args[3] = late
		if reply, err := take.Run(t.Context(), r.admin, b.keys, args...).Slice(); err != nil || text(reply[0]) != "late" {
			t.Errorf("%v, %v", reply, err)
		}
	}
	args[2], args[3] = call.seq-2, time.Now().Add(time.Minute).UnixMicro()
	if reply, err := take.Run(t.Context(), r.admin, b.keys, args...).Slice(); err != nil || text(reply[0]) != "old" {
		t.Errorf("%v, %v", reply, err)
	}
	if after := r.admin.HGetAll(t.Context(), b.keys[0]).Val(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("%v became %v", before, after)
	}
}

// TestNothingGrowsWithProcessesThatWere: fifty processes leave no field behind, and no key that
// stays.
func TestNothingGrowsWithProcessesThatWere(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, Config{Limits: budget.Limits{Pages: 1000, PagesPerHost: 1000, WarnAt: 0.5}})
	r.spend(0, 1, "a.example")
	fields := r.admin.HLen(t.Context(), r.fleet[0].keys[0]).Val()
	for range 50 {
		b, err := New(Config{Client: r.admin, Name: "rig", Limits: r.fleet[0].limits})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Reserve(t.Context(), "a.example"); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.admin.HLen(t.Context(), r.fleet[0].keys[0]).Val(); n != fields {
		t.Errorf("%d fields became %d", fields, n)
	}
	keys := r.admin.Keys(t.Context(), "*").Val()
	for _, key := range keys {
		left := r.admin.TTL(t.Context(), key).Val()
		if left <= 0 || strings.Contains(key, ":last:") && left > 10*time.Minute {
			t.Errorf("%s expires in %v", key, left)
		}
	}
	if len(keys) != 2+51 {
		t.Errorf("keys %q", keys)
	}
}

// TestEveryRenewsTheBudget: each window has its N, whoever holds what at its end.
func TestEveryRenewsTheBudget(t *testing.T) {
	t.Parallel()
	const limit, window = 100, 3 * time.Second
	r := newRig(t, 3, Config{Limits: budget.Limits{Pages: limit, PagesPerHost: limit / 2, Every: window}})
	var mu sync.Mutex
	got := make(map[string]int) // by window and host, of those reserved within one window for sure
	// full is how many windows were spent to the end. Each process may have had a page while the window
	// began. A machine that stands still for a window spends nothing in it.
	full := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for name, pages := range got {
			isHost := strings.Contains(name, " ")
			if !isHost && pages >= limit-len(r.fleet) {
				n++
			}
		}
		return n
	}
	end := time.Now().Add(40 * window)
	var wg sync.WaitGroup
	for _, b := range r.fleet {
		wg.Go(func() {
			for n := 0; full() < 4 && time.Now().Before(end); n++ {
				host := fmt.Sprint(n % 3)
				before := time.Now().UnixMicro() / window.Microseconds()
				_, err := b.Reserve(t.Context(), host)
				after := time.Now().UnixMicro() / window.Microseconds()
				if err != nil {
					if !errors.Is(err, budget.ErrExceeded) {
						t.Error(err)
						return
					}
					time.Sleep(5 * time.Millisecond)
				} else if before == after {
					mu.Lock()
					got[fmt.Sprint(after)]++
					got[fmt.Sprint(after, " ", host)]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for name, n := range got {
		most := limit
		if strings.Contains(name, " ") {
			most = limit / 2
		}
		if n > most {
			t.Errorf("window %s: %d pages of %d", name, n, most)
		}
	}
	if n := full(); n < 4 {
		t.Errorf("%d windows were spent to the end: %v", n, got)
	}
}

// TestPageOfTheWindowBeforeIsNoPageOfThis: one that is given back after midnight would be one more.
func TestPageOfTheWindowBeforeIsNoPageOfThis(t *testing.T) {
	t.Parallel()
	const limit, window = 10, 4 * time.Second
	r := newRig(t, 1, Config{Limits: budget.Limits{Pages: limit, Every: window}})
	reserve := func(n int) time.Time {
		for range n {
			if _, err := r.fleet[0].Reserve(t.Context(), "a.example"); err != nil {
				t.Fatal(err)
			}
		}
		return r.fleet[0].Window()
	}
	// spendNext reserves all pages of the next window.
	spendNext := func() time.Time {
		for {
			next := time.Now().Truncate(window).Add(window)
			time.Sleep(time.Until(next) + 50*time.Millisecond)
			at := reserve(limit)
			if at.Equal(next) {
				return at
			}
			// The machine stood still until the window was over: each of two has some of the pages.
		}
	}
	reserve(1)
	yesterday := spendNext()
	today := spendNext()
	if !today.After(yesterday) {
		t.Errorf("windows of %v and %v", yesterday, today)
	}
	if _, err := r.fleet[0].Reserve(t.Context(), "a.example"); err == nil && time.Now().Before(today.Add(window)) {
		t.Errorf("%d pages of %d", limit+1, limit)
	}
	r.fleet[0].Refund(t.Context(), "a.example")
	reserve(1)
}

func TestAnotherEveryIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, Config{Limits: budget.Limits{Pages: 10}})
	r.spend(0, 1, "a.example")
	b, err := New(Config{Client: r.admin, Name: "rig", Limits: budget.Limits{Pages: 10, Every: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Reserve(t.Context(), "a.example"); err == nil || !strings.Contains(err.Error(), "the same Every") || errors.Is(err, budget.ErrExceeded) {
		t.Errorf("err = %v", err)
	}
}

// TestRandomLosses has four processes spend while a server is emptied, restarted from dumps and cut
// off, and their calls are doubled, at random from a seed.
func TestRandomLosses(t *testing.T) {
	t.Parallel()
	for seed := range soak.Seeds(t, 1, 3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomLosses(t, seed) })
	}
}

func randomLosses(t *testing.T, seed uint64) {
	const limit = 3000
	r := newRig(t, 4, Config{Limits: budget.Limits{Pages: limit, PagesPerHost: limit}})
	random := rand.New(rand.NewPCG(seed, 0))
	var told []string
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range r.fleet {
		wg.Go(func() {
			pause := time.Duration(5+i) * time.Millisecond
			for {
				select {
				case <-stop:
					return
				case <-time.After(pause):
					r.spend(i, 1, "a.example")
				}
			}
		})
	}
	for range 4 {
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
		what := random.IntN(5)
		told = append(told, []string{"flush", "save", "restart", "hold", "replay"}[what])
		switch what {
		case 0:
			r.flush()
		case 1:
			r.save()
		case 2:
			r.restart()
		case 3:
			proxy := r.proxies[random.IntN(len(r.proxies))]
			proxy.Hold()
			time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
			proxy.Deliver()
			r.called() // a loss while it is cut off is another matter
		case 4:
			if err := r.proxies[random.IntN(len(r.proxies))].Replay(); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%s", strings.Join(told, ", "))
	r.finish(limit, limit/2, "a.example")
}

// TestLossIsSeenWithoutInfo: where the server forbids INFO, the counter of calls tells.
func TestLossIsSeenWithoutInfo(t *testing.T) {
	t.Parallel()
	const limit = 1000
	r := newRig(t, 2, Config{Limits: budget.Limits{Pages: limit}})
	if err := r.admin.Do(t.Context(), "ACL", "SETUSER", "default", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	r.spend(0, 100, "a.example")
	r.save()
	r.spend(0, 300, "a.example")
	r.spend(1, 400, "a.example")
	r.settle()
	r.restart()
	if err := r.admin.Do(t.Context(), "ACL", "SETUSER", "default", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	r.settle()
	r.finish(limit, 0, "a.example")
}

// TestKeysThatAreGone: a server that evicts one key only has lost data, too.
func TestKeysThatAreGone(t *testing.T) {
	t.Parallel()
	const limit = 100
	for i := range 3 {
		r := newRig(t, 2, Config{Limits: budget.Limits{PagesPerHost: limit, Pages: 2 * limit}})
		r.spend(0, 40, "a.example")
		r.spend(1, 40, "a.example")
		r.settle()
		if n, err := r.admin.Del(t.Context(), r.fleet[0].keys[i]).Result(); n != 1 || err != nil {
			t.Fatalf("%d keys, %v", n, err)
		}
		// What one gave back the other may not have heard.
		r.finish(limit, 20, "a.example")
	}
}
