package redislimit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/redistest"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// eventually fails the test if ok doesn't become true in time.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// TestABlockOutlivesTheProcessThatSawIt: that process has ended when the server loses its data.
func TestABlockOutlivesTheProcessThatSawIt(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	fleet := newFleet(t, s, Config{Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, MaxWait: 10 * time.Second}}, 3)
	for _, l := range fleet {
		l.mu.Lock()
		l.quarantine = time.Second
		l.mu.Unlock()
		settle(t, l, "other.example")
		eventually(t, time.Minute, "a subscription", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.sub.listening
		})
	}
	saw := acquire(t, fleet[0], "a.example", 0)
	saw.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
	saw.Release()
	cleared := acquire(t, fleet[0], "b.example", 0)
	cleared.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 300 * time.Millisecond})
	cleared.Release()
	probe := acquire(t, fleet[0], "b.example", 0)
	probe.Observe(hostlimit.Outcome{Status: 200})
	probe.Release()
	if err := fleet[0].Close(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if err := newClient(t, s).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := fleet[1].Acquire(t.Context(), "a.example", 0); !errors.Is(err, hostlimit.ErrBlocked) {
		t.Errorf("after the loss, on a host that a process had seen refuse: %v", err)
	}
	eventually(t, time.Minute, "the server knows of the block, and of no delay of years", func() bool {
		state, err := fleet[1].State(t.Context(), "a.example")
		return err == nil && state.Delay < time.Hour && !state.BlockedUntil.IsZero()
	})
	if turn := acquire(t, fleet[2], "b.example", 0); turn.Probe {
		t.Errorf("after the loss, a block that was lifted holds: %+v", turn.Grant)
	}
}

// TestTheQuarantineFollowsTheTimeouts of the client: a process that waits in vain for a reply for as
// long as they let it has time to tell what it holds.
func TestTheQuarantineFollowsTheTimeouts(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]time.Duration{
		0: 6 * time.Second, time.Second: 2 * time.Second, 100 * time.Millisecond: 2 * time.Second, 6 * time.Second: 7 * time.Second, -1: 4 * time.Second,
	} {
		client := redis.NewClient(&redis.Options{Addr: shared.Addr, ReadTimeout: timeout})
		l, err := New(Config{Client: client, Prefix: "quarantine:" + t.Name() + ":"})
		if err != nil {
			t.Fatal(err)
		}
		if l.quarantine != want {
			t.Errorf("ReadTimeout %v: %v, want %v", timeout, l.quarantine, want)
		}
		_ = l.Close()
		_ = client.Close()
	}
}

// TestASlotSurvivesALossWhileItsProcessHangs: the server loses its data while the call of the
// process that holds the slot waits for an answer that doesn't come.
func TestASlotSurvivesALossWhileItsProcessHangs(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	post := new(courier)
	fleet := hastyFleet(t, s, Config{Limits: oneSlot}, 2, post)
	for _, l := range fleet {
		l.mu.Lock()
		l.quarantine = quarantineOf(l.patience)
		l.mu.Unlock()
	}
	held := acquire(t, fleet[0], "a.example", 0)
	defer held.Release()
	hang := time.Now().Add(fleet[0].patience)
	post.set(func(_ string, send func() error) error {
		if wait := time.Until(hang); wait > 0 {
			time.Sleep(wait)
			return errReset
		}
		return send()
	})
	time.Sleep(heartbeat)
	if err := newClient(t, s).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := fleet[1].Acquire(t.Context(), "a.example", 0); !errors.Is(err, hostlimit.ErrBusy) {
		t.Errorf("while the only slot is taken, another process is told %v", err)
	}
}

// TestAFailoverStarvesNobody: a planned one, after which the old master goes on as a replica and
// keeps its connections, subscriptions too. As with Sentinel, and with a managed server whose address
// changes, new connections go to the new one.
func TestAFailoverStarvesNobody(t *testing.T) {
	t.Parallel()
	a, b := ownServer(t), ownServer(t)
	var current atomic.Pointer[string]
	current.Store(&a.Addr)
	clientA, clientB := newClient(t, a), newClient(t, b)
	host, port, _ := net.SplitHostPort(a.Addr)
	if err := clientB.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	var fleet []*Limiter
	for range 4 {
		client := redis.NewClient(&redis.Options{
			ReadTimeout: time.Second,
			Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, *current.Load())
			},
		})
		t.Cleanup(func() { _ = client.Close() })
		l, err := newLimiter(Config{Client: client, Limits: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: 5 * time.Millisecond}}}, 0, born())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		l.mu.Lock()
		l.quarantine = quarantineOf(l.patience)
		l.mu.Unlock()
		fleet = append(fleet, l)
	}
	settle(t, fleet[0], "a.example")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	starts := make([][]time.Time, len(fleet))
	var flying atomic.Int64
	var wg sync.WaitGroup
	for i, l := range fleet {
		wg.Go(func() {
			for ctx.Err() == nil {
				lease, err := l.Acquire(ctx, "a.example", 0)
				if err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				if g, err := lease.Start(ctx); err == nil {
					if flying.Add(1) > 1 {
						t.Error("two requests on one slot")
					}
					mu.Lock()
					starts[i] = append(starts[i], g.Start)
					mu.Unlock()
					time.Sleep(3 * time.Millisecond)
					flying.Add(-1)
				}
				lease.Release()
			}
		})
	}
	time.Sleep(3 * time.Second) // the quarantine of a first use
	eventually(t, 10*time.Second, "replication", func() bool {
		info := clientB.Info(t.Context(), "replication").Val()
		return strings.Contains(info, "master_link_status:up")
	})
	if err := clientB.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	host, port, _ = net.SplitHostPort(b.Addr)
	if err := clientA.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	current.Store(&b.Addr)
	over := time.Now()
	eventually(t, time.Minute, "everybody starts again", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return !slices.ContainsFunc(starts, func(all []time.Time) bool { return len(all) == 0 || !all[len(all)-1].After(over.Add(time.Second)) })
	})
	stop()
	wg.Wait()
	for i, all := range starts {
		first := slices.IndexFunc(all, over.Before)
		if first < 0 {
			t.Errorf("process %d has started nothing since the failover", i)
			continue
		}
		longest := all[first].Sub(over)
		for j := first + 1; j < len(all); j++ {
			longest = max(longest, all[j].Sub(all[j-1]))
		}
		t.Logf("process %d: %d starts, the longest pause since the failover %v", i, len(all), longest)
		if longest > 10*time.Second { // a second and a half, on a machine that has nothing else to do
			t.Errorf("process %d was starved for %v", i, longest)
		}
	}
	if n := clientB.PubSubNumPat(t.Context()).Err(); n != nil {
		t.Error(n)
	}
	for _, l := range fleet {
		if n := clientB.PubSubNumSub(t.Context(), "politeness:push:"+l.proc).Val(); n["politeness:push:"+l.proc] != 1 {
			t.Errorf("subscriptions on the new master: %v", n)
		}
	}
}

// TestABadKeyCostsItsHost and no other one; the error names it.
func TestABadKeyCostsItsHost(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	client := newClient(t, s)
	l := newFleet(t, s, Config{Limits: oneSlot}, 1)[0]
	settle(t, l, "good.example")
	key := func(host string) string { return l.parts[0].hostKey(host) }
	for _, err := range []error{
		client.LPush(t.Context(), key("list.example"), "x").Err(),
		client.Set(t.Context(), key("text.example"), "x", 0).Err(),
		client.Set(t.Context(), key("empty.example"), "", 0).Err(),
		client.Set(t.Context(), key("table.example"), "\x81\xa1b\xa1x", 0).Err(),    // {b: "x"}
		client.Set(t.Context(), key("field.example"), "\x81\xa1k\xa1x", 0).Err(),    // {k: "x"}, which a take doesn't read
		client.HSet(t.Context(), l.conf.Prefix+"{0}host:old.example", "a", 1).Err(), // of another version
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, host := range []string{"list", "text", "empty", "table", "field"} {
		host += ".example"
		_, err := l.Acquire(t.Context(), host, 0)
		var server *ServerError
		if !errors.As(err, &server) || !strings.Contains(err.Error(), key(host)) {
			t.Errorf("%s: %v, want a *ServerError that names the key", host, err)
		}
	}
	for _, host := range []string{"good.example", "old.example"} {
		acquire(t, l, host, 0).Release()
	}
	if l.parts[0].down != nil {
		t.Error("a bad key is taken for an outage:", l.parts[0].down)
	}
}

// TestWhatIsLearnedInAQuarantineIsWaitedFor: a server that has lost its data doesn't know whom it has let
// go before. They start within the quarantine or not at all, so who has met a failure is told of it
// no sooner than that they have, or after a second.
func TestWhatIsLearnedInAQuarantineIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	const quarantine = 600 * time.Millisecond
	l, err := newLimiter(Config{Client: newClient(t, s), Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}}}, quarantine, born())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, answer := range map[string]hostlimit.Outcome{
		"no response": {Err: errors.New("connection refused")},
		"a refusal":   {Status: 429, RetryAfter: time.Second},
	} {
		turn := acquire(t, l, strings.ReplaceAll(name, " ", "-")+".example", 0)
		client := newClient(t, s)
		begin := time.Now() // the heartbeat may find the loss before Observe does
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		turn.Observe(answer)
		if d := time.Since(begin); d < quarantine*9/10 {
			t.Errorf("%s: Observe returned %v after the loss of data, the quarantine is %v", name, d, quarantine)
		}
		turn.Release()
		if err := l.Clear(t.Context(), strings.ReplaceAll(name, " ", "-")+".example"); err != nil {
			t.Error(err)
		}
	}
}

// TestAnotherVersionIsRefused: two versions of this package that share a prefix would share no
// slots, so the second one starts nothing, FailLocal or not.
func TestAnotherVersionIsRefused(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]func(ctx context.Context, client *redis.Client, key string) error{
		"the first version": func(ctx context.Context, client *redis.Client, key string) error {
			return client.HSet(ctx, key, "id", "r1", "run", "x").Err()
		},
		"a later one": func(ctx context.Context, client *redis.Client, key string) error {
			return client.Set(ctx, key, packed(t, wire.Generation{Version: wire.Version + 1}), 0).Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := ownServer(t)
			if err := other(t.Context(), newClient(t, s), "p:{0}gen"); err != nil {
				t.Fatal(err)
			}
			for _, f := range []Failure{FailClosed, FailLocal} {
				l, err := New(Config{Client: newClient(t, s), Prefix: "p:", Failure: f, Processes: 2})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				for range 2 {
					if _, err := l.Acquire(t.Context(), "a.example", 0); err == nil || !strings.Contains(err.Error(), "p:{0}gen") {
						t.Errorf("Failure %d: %v", f, err)
					}
				}
			}
		})
	}
}

// TestDeletingAKeyLiftsABlock: people do that.
func TestDeletingAKeyLiftsABlock(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	fleet := newFleet(t, s, Config{Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, MaxWait: 2 * time.Hour}}, 2)
	turn := acquire(t, fleet[0], "a.example", 0)
	turn.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
	turn.Release()
	settle(t, fleet[0], "a.example")
	var wg sync.WaitGroup
	for _, l := range fleet { // those who wait for its end are told as well
		wg.Go(func() { acquire(t, l, "a.example", 0).Release() })
	}
	time.Sleep(100 * time.Millisecond)
	if err := newClient(t, s).Del(t.Context(), fleet[0].parts[0].hostKey("a.example")).Err(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	wg.Wait()
	if d := time.Since(began); d > 4*pollBlock {
		t.Errorf("the waiters have seen it after %v", d)
	}
	if at, err := fleet[0].Next(t.Context(), "a.example", 0); err != nil || time.Until(at) > time.Minute {
		t.Errorf("Next says %v, %v", at, err)
	}
}

// TestSlotsOfADeadProcessComeBack long before LeaseTTL, and so does a probe, and not those of one that lives.
func TestSlotsOfADeadProcessComeBack(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	fleet := newFleet(t, s, Config{Limits: hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: time.Millisecond}, SlotTimeout: time.Minute}}, 3)
	for _, l := range fleet {
		l.mu.Lock()
		l.deadAfter = 2 * time.Second
		l.mu.Unlock()
	}
	acquire(t, fleet[0], "a.example", 0)
	lives := acquire(t, fleet[1], "a.example", 0)
	refused := acquire(t, fleet[0], "probed.example", 0)
	refused.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 10 * time.Millisecond})
	refused.Release()
	if probe := acquire(t, fleet[0], "probed.example", 0); !probe.Probe {
		t.Errorf("no probe: %+v", probe.Grant)
	}
	fleet[0].mu.Lock()
	fleet[0].closed = true // as if it had been killed: it says nothing any more
	fleet[0].mu.Unlock()
	died := time.Now()
	for _, key := range []string{"a.example", "probed.example"} {
		next := acquire(t, fleet[2], key, 0)
		took := time.Since(died)
		if took < time.Second || took > 20*time.Second || len(next.TakenBack) != 1 || next.Probe != (key == "probed.example") {
			t.Errorf("%s: the slot came back after %v: %+v", key, took, next.Grant)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := fleet[2].Acquire(ctx, "a.example", 0); !errors.Is(err, hostlimit.ErrBusy) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a process that lives has lost its slot: %v", err)
	}
	lives.Release()
	fleet[0].mu.Lock()
	fleet[0].closed = false
	fleet[0].mu.Unlock()
}

// TestAProcessThatWakesStartsNothingOnALostLease: it was paused between Acquire and Start for so
// long that its slot was given away.
func TestAProcessThatWakesStartsNothingOnALostLease(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	post := new(courier)
	fleet := newFleet(t, s, Config{Limits: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond}, SlotTimeout: time.Minute}}, 2, post)
	for _, l := range fleet {
		l.mu.Lock()
		l.deadAfter = time.Second
		l.mu.Unlock()
	}
	lease, err := fleet[0].Acquire(t.Context(), "a.example", 0)
	if err != nil {
		t.Fatal(err)
	}
	var awake atomic.Bool
	post.set(func(_ string, send func() error) error {
		if !awake.Load() {
			return errReset
		}
		return send()
	})
	turn := acquire(t, fleet[1], "a.example", 0)
	awake.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if g, err := lease.Start(ctx); err == nil {
		t.Errorf("a start on a slot that another process has: %+v", g)
	}
	turn.Release()
	lease.Release()
}

// TestFirstComeFirstServedOverProcesses: who waits longest is next, whichever process it is of, and
// however many wait there.
func TestFirstComeFirstServedOverProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "7")
	for name, hold := range map[string]time.Duration{"for the delay": 0, "for a slot": 60 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			limits := hostlimit.Config{Concurrency: 4, Delay: hostlimit.Delay{Min: 60 * time.Millisecond}}
			if hold > 0 {
				limits = hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond}}
			}
			w.reset()
			w.t = t
			synctest.Test(t, func(t *testing.T) { // a busy machine brings the calls of two processes in another order
				fleet := []*Limiter{w.settled(limits), w.settled(limits), w.settled(limits)}
				before := acquire(t, fleet[0], "b.example", 0)
				var mu sync.Mutex
				var order []int
				var wg sync.WaitGroup
				for i, process := range []int{0, 0, 1, 0, 0, 1, 2, 2, 1, 0, 2, 0} {
					wg.Go(func() {
						turn := acquire(t, fleet[process], "b.example", 0)
						mu.Lock()
						order = append(order, i)
						mu.Unlock()
						time.Sleep(hold)
						turn.Release()
					})
					time.Sleep(20 * time.Millisecond)
				}
				before.Release()
				wg.Wait()
				if !slices.IsSorted(order) || len(order) != 12 {
					t.Errorf("served in the order %v", order)
				}
				w.end(name, limits.Concurrency, fleet...)
			})
		})
	}
}

// TestCloseEndsInTime also where the server says nothing.
func TestCloseEndsInTime(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	client := redis.NewClient(&redis.Options{Addr: s.Addr, ReadTimeout: patience})
	defer client.Close()
	l, err := newLimiter(Config{Client: client}, 0, born())
	if err != nil {
		t.Fatal(err)
	}
	acquire(t, l, "a.example", 0)
	if err := redistest.Pause(s.Process()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := l.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(fmt.Sprint(err), s.Addr) {
		t.Errorf("Shutdown: %v", err)
	}
	if d := time.Since(began); d > patience/3 {
		t.Errorf("Shutdown took %v", d)
	}
	_ = l.Close()
	if d := time.Since(began); d > patience/2 {
		t.Errorf("with Close it took %v", d)
	}
	if err := redistest.Resume(s.Process()); err != nil {
		t.Fatal(err)
	}
}

// TestCloseEndsInTimeWithoutASubscription: the server doesn't answer the client that connects for it.
func TestCloseEndsInTimeWithoutASubscription(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	if err := redistest.Pause(s.Process()); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: s.Addr, ReadTimeout: patience})
	defer client.Close()
	l, err := New(Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "it subscribes", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.sub.pubsub != nil
	})
	time.Sleep(100 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_ = l.Shutdown(ctx)
	if d := time.Since(began); d > patience/3 {
		t.Errorf("Shutdown took %v", d)
	}
	if err := redistest.Resume(s.Process()); err != nil {
		t.Fatal(err)
	}
}

// TestNothingGrowsWithProcessesThatWere starts and ends many, most of them as if they were killed.
func TestNothingGrowsWithProcessesThatWere(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	client := newClient(t, s)
	for i := range 30 {
		l, err := newLimiter(Config{Client: client, Prefix: "p:", Limits: oneSlot}, 0, born())
		if err != nil {
			t.Fatal(err)
		}
		acquire(t, l, "a.example", 0).Release()
		settle(t, l, "a.example")
		if i%2 == 0 {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		// Long ago it was killed.
		l.mu.Lock()
		l.closed = true
		l.unsubscribe()
		l.mu.Unlock()
		l.cancel()
		l.wg.Wait() // a heartbeat that is under way would enter it again
		long := packed(t, wire.Process{Seen: 1, Name: "x"})
		if err := client.HSet(t.Context(), "p:{0}processes", l.proc, long).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if n := client.HLen(t.Context(), "p:{0}processes").Val(); n > 2 {
		t.Errorf("%d processes are remembered", n)
	}
	if n := client.DBSize(t.Context()).Val(); n > 3 {
		t.Errorf("%d keys", n)
	}
}

// TestThoseCutOffAndTheRestKeepTheRate: some processes of a fleet under FailLocal can't reach the
// server, others can. Together they start no more than all would with it.
func TestThoseCutOffAndTheRestKeepTheRate(t *testing.T) {
	t.Parallel()
	const delay, long = 50 * time.Millisecond, 5 * time.Second
	s := ownServer(t)
	posts := []*courier{{}, {}, {}, {}}
	fleet := newFleet(t, s, Config{
		Failure: FailLocal, Processes: 4,
		Limits: hostlimit.Config{Concurrency: 8, Delay: hostlimit.Delay{Min: delay, Adaptive: hostlimit.Fixed}},
	}, 4, posts[0], posts[1], posts[2], posts[3])
	for _, l := range fleet {
		settle(t, l, "a.example")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	starts := make([][]time.Time, len(fleet))
	var wg sync.WaitGroup
	for i, l := range fleet {
		for range 3 {
			wg.Go(func() {
				for ctx.Err() == nil {
					lease, err := l.Acquire(ctx, "a.example", 0)
					if err != nil {
						time.Sleep(10 * time.Millisecond)
						continue
					}
					if g, err := lease.Start(ctx); err == nil {
						mu.Lock()
						starts[i] = append(starts[i], g.Start)
						mu.Unlock()
					}
					lease.Release()
				}
			})
		}
	}
	time.Sleep(time.Second)
	for _, post := range posts[:2] {
		post.set(func(string, func() error) error { return errReset })
	}
	cut := time.Now()
	time.Sleep(long)
	end := time.Now()
	stop()
	wg.Wait()
	sum, each := 0, make([]int, len(fleet))
	for i, all := range starts {
		for _, at := range all {
			if at.After(cut) && at.Before(end) {
				each[i]++
				sum++
			}
		}
	}
	most := int(end.Sub(cut)/delay) + 2
	t.Logf("%d starts of %d: %v", sum, most, each)
	if sum > most {
		t.Errorf("%d starts in %v, the rate allows %d: %v", sum, end.Sub(cut), most, each)
	}
	if slices.Min(each) == 0 {
		t.Errorf("somebody has started nothing: %v", each)
	}
}

// TestMaxInFlightHoldsWithoutTheServer: what was in flight when it went away counts.
func TestMaxInFlightHoldsWithoutTheServer(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	post := new(courier)
	l := newFleet(t, s, Config{
		Failure: FailLocal, Processes: 2, Limits: hostlimit.Config{MaxInFlight: 4, Delay: hostlimit.Delay{Min: time.Millisecond}},
	}, 1, post)[0]
	held := []turn{acquire(t, l, "a.example", 0), acquire(t, l, "b.example", 0)}
	post.set(func(string, func() error) error { return errReset })
	for i := range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		lease, err := l.Acquire(ctx, fmt.Sprintf("%d.example", i), 0)
		cancel()
		if i == 0 {
			if err == nil {
				t.Fatal("a third request in flight; the part of this process is two")
			}
			held[0].Release()
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, turn{lease: lease})
		held[i].Release()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.places.taken > 1 {
		t.Errorf("%d places are taken", l.places.taken)
	}
}
