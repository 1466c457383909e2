package redislimit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/hostlimittest"
	"github.com/go-politeness/politeness/internal/redistest"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

func TestFreeTurnIsOneRoundTrip(t *testing.T) {
	count := new(counter)
	l := newFleet(t, shared, Config{}, 1, count)[0]
	acquire(t, l, "first.example", 0).Release()
	time.Sleep(20 * time.Millisecond)
	// A start that comes too late on a busy machine asks again; not each of ten.
	least := int64(100)
	for i := range 10 {
		count.trips.Store(0)
		lease := acquire(t, l, fmt.Sprintf("%d.example", i), 0)
		least = min(least, count.trips.Load())
		lease.Release()
		time.Sleep(20 * time.Millisecond)
	}
	if least != 1 {
		t.Errorf("%d round trips at best", least)
	}
}

// TestAWarmStartIsTwoScripts counts what a start costs from beginning to end: one script to take
// it, and one after it that tells of the answer and the end. A start that is moved costs one more.
func TestAWarmStartIsTwoScripts(t *testing.T) {
	for name, limits := range map[string]hostlimit.Config{
		"Learned":      {},
		"Proportional": {Delay: hostlimit.Delay{Min: time.Millisecond, Adaptive: hostlimit.Longest(hostlimit.Learned, hostlimit.Proportional(1))}},
		"FromEnd":      {Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond, FromEnd: true}},
	} {
		for _, moved := range []int64{0, 1} {
			count := new(counter)
			l := newFleet(t, shared, Config{Limits: limits}, 1, count)[0]
			acquire(t, l, "first.example", 0).Release()
			settle(t, l, "first.example")
			// The heartbeat, and a busy machine, may change that; not always.
			var all []int64
			for i := range 11 {
				count.calls.Store(0)
				turn := acquire(t, l, fmt.Sprintf("%d.example", i), 0)
				for range moved {
					time.Sleep(5 * time.Millisecond)
					if _, err := turn.lease.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				turn.Observe(hostlimit.Outcome{Status: 200})
				time.Sleep(5 * time.Millisecond) // the body
				turn.Release()
				answered(t, l)
				all = append(all, count.calls.Load())
			}
			slices.Sort(all)
			if usual := all[len(all)/4]; usual != 2+moved {
				t.Errorf("%s, moved %d times: %d scripts usually: %v", name, moved, usual, all)
			}
		}
	}
}

// TestSaturatedHostTakesFewCalls logs what a start costs; polling would take 15
// calls and more.
func TestSaturatedHostTakesFewCalls(t *testing.T) {
	counts := [4]counter{}
	limits := hostlimit.Config{Delay: hostlimit.Delay{Min: 30 * time.Millisecond}}
	fleet := newFleet(t, shared, Config{Limits: limits}, len(counts), &counts[0], &counts[1], &counts[2], &counts[3])
	const each = 4
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			l := fleet[i%len(fleet)]
			for range each {
				lease := acquire(t, l, "a.example", 0)
				time.Sleep(2 * time.Millisecond)
				lease.Observe(hostlimit.Outcome{Status: 200})
				lease.Release()
			}
		})
	}
	wg.Wait()
	calls := int64(0)
	for i := range counts {
		calls += counts[i].calls.Load()
	}
	perStart := float64(calls) / (32 * each)
	t.Logf("%.2f calls a start", perStart)
	if perStart > 6 {
		t.Errorf("%.2f calls a start", perStart)
	}
}

// TestKeysExpireAfterWhatTheyOwe looks at every key on the server.
func TestKeysExpireAfterWhatTheyOwe(t *testing.T) {
	s := ownServer(t)
	l, err := newLimiter(Config{Client: newClient(t, s), Prefix: "p:", Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, LeaseTTL: 400 * time.Second}}, 0, born())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	held := acquire(t, l, "held.example", 0)
	acquire(t, l, "held.example", 0)
	slow := acquire(t, l, "slow.example", 3*time.Hour)
	slow.Release()
	blocked := acquire(t, l, "blocked.example", 0)
	blocked.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 2 * time.Hour})
	blocked.Release()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = l.Acquire(ctx, "held.example", 0) // makes a queue
	}()
	client := newClient(t, s)
	least := map[string]time.Duration{
		"p:{0}gen":                            24 * time.Hour,
		"p:{0}processes":                      23 * time.Hour,
		"p:{0}" + ofHosts + "held.example":    399 * time.Second,
		"p:{0}" + ofHosts + "slow.example":    3*time.Hour - time.Second,
		"p:{0}" + ofHosts + "blocked.example": 2*time.Hour + 29*time.Minute, // and until it is forgiven
	}
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		ttl := client.PTTL(t.Context(), key).Val()
		want, ok := least[key]
		if !ok {
			t.Errorf("unknown key %s", key)
		}
		if ttl < want || ttl < 0 {
			t.Errorf("%s expires in %v, it owes for %v", key, ttl, want)
		}
		delete(least, key)
	}
	for key := range least {
		t.Errorf("no key %s", key)
	}
	cancel()
	<-done
	held.Release()
}

// TestRenewedLeaseOutlivesItsTTL proves nothing on a machine so busy that the lease wasn't renewed
// in time; then it is played again.
func TestRenewedLeaseOutlivesItsTTL(t *testing.T) {
	const ttl = 400 * time.Millisecond
	for try := range 3 {
		l := newTest(t, shared, hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond}, LeaseTTL: ttl})
		held := acquire(t, l, "a.example", 0)
		stop := make(chan struct{})
		var late time.Duration // the longest time without a Renew
		var wg sync.WaitGroup
		wg.Go(func() {
			for last := time.Now(); ; last = time.Now() {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					late = max(late, time.Since(last))
					held.Renew() // as every read of the body does
				}
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*ttl)
		lease, err := l.Acquire(ctx, "a.example", 0)
		cancel()
		close(stop)
		wg.Wait()
		if err == nil {
			lease.Release()
			if late > ttl/4 && try < 2 {
				continue
			}
			t.Errorf("the slot of a renewed lease was given away after %v", time.Since(held.Grant.Start))
		}
		next := acquire(t, l, "a.example", 0) // nobody reads any more
		if len(next.TakenBack) != 1 {
			t.Errorf("Grant = %+v", next.Grant)
		}
		if !held.Release() {
			t.Error("the lease doesn't know that it has expired")
		}
		// The late release harms nobody: the slot is still taken.
		ctx, cancel = context.WithTimeout(t.Context(), ttl/4)
		_, err = l.Acquire(ctx, "a.example", 0)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) && time.Since(next.Start) < ttl {
			t.Errorf("after a late release: %v", err)
		}
		return
	}
}

// TestLossIsMadeGood empties the server under two processes.
func TestLossIsMadeGood(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	fleet := newFleet(t, s, Config{Limits: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond}, SlotTimeout: 500 * time.Millisecond, MaxWait: 10 * time.Second}}, 2)
	for _, l := range fleet {
		l.mu.Lock()
		l.quarantine = quarantine // before its first call
		l.mu.Unlock()
	}
	holds, asks := fleet[0], fleet[1]
	held := acquire(t, holds, "held.example", 0)
	acquire(t, holds, "slow.example", time.Hour).Release()
	blocked := acquire(t, holds, "blocked.example", 0)
	blocked.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
	blocked.Release()
	time.Sleep(50 * time.Millisecond)
	if err := newClient(t, s).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	lost := time.Now()
	if g := acquire(t, asks, "other.example", 0).Grant; g.Start.Sub(lost) < quarantine-100*time.Millisecond {
		t.Errorf("a start %v after the loss", g.Start.Sub(lost))
	}
	if _, err := asks.Acquire(t.Context(), "held.example", 0); !errors.Is(err, hostlimit.ErrBusy) {
		t.Errorf("the slot in use: %v", err)
	}
	var refused *hostlimit.Error
	if _, err := asks.Acquire(t.Context(), "slow.example", 0); !errors.As(err, &refused) || time.Until(refused.RetryAt) < 59*time.Minute {
		t.Errorf("the delay owed: %v", err)
	}
	if _, err := asks.Acquire(t.Context(), "blocked.example", 0); !errors.Is(err, hostlimit.ErrBlocked) {
		t.Errorf("the block: %v", err)
	}
	held.Release()
	acquire(t, asks, "held.example", 0).Release()
}

// TestSteppedServerClockStartsAQuarantine tells the server what a client tells
// that has seen its clock jump.
func TestSteppedServerClockStartsAQuarantine(t *testing.T) {
	t.Parallel()
	fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond}, SlotTimeout: 300 * time.Millisecond}}, 2)
	for _, l := range fleet {
		l.mu.Lock()
		l.quarantine = quarantine
		l.mu.Unlock()
	}
	held := acquire(t, fleet[0], "a.example", 0)
	l := fleet[0]
	l.mu.Lock()
	p := l.parts[0]
	gen := p.gen.name
	// As if all that was known of the server's clock had been an hour less.
	p.clock.Lo -= time.Hour
	p.clock.Hi -= time.Hour
	l.mu.Unlock()
	stepped := time.Now()
	g := acquire(t, l, "b.example", 0).Grant
	l.mu.Lock()
	now := p.gen.name
	l.mu.Unlock()
	if now == gen || !strings.HasPrefix(now, "s") {
		t.Errorf("generation %s after %s", now, gen)
	}
	if d := g.Start.Sub(stepped); d < quarantine-100*time.Millisecond {
		t.Errorf("a start %v after the step", d)
	}
	if _, err := fleet[1].Acquire(t.Context(), "a.example", 0); !errors.Is(err, hostlimit.ErrBusy) {
		t.Errorf("the slot in use: %v", err)
	}
	held.Release()
}

// newCluster starts a Redis Cluster of two nodes, and returns their addresses.
func newCluster(t *testing.T) (nodes []*redistest.Server, addrs []string) {
	t.Helper()
	for range 2 {
		s := ownServer(t, "--cluster-enabled", "yes") // its bus has a port that freeport leaves out
		client := newClient(t, s)
		first, last := 0, 8191
		if len(nodes) > 0 {
			first, last = 8192, 16383
			host, port, _ := net.SplitHostPort(addrs[0])
			if err := client.ClusterMeet(t.Context(), host, port).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := client.ClusterAddSlotsRange(t.Context(), first, last).Err(); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, s)
		addrs = append(addrs, s.Addr)
	}
	for _, s := range nodes {
		client := newClient(t, s)
		for end := time.Now().Add(30 * time.Second); !strings.Contains(client.ClusterInfo(t.Context()).Val(), "cluster_state:ok"); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(client.ClusterInfo(t.Context()).Val())
			}
		}
	}
	return nodes, addrs
}

// TestOnACluster runs the conformance suite on a Redis Cluster, which refuses scripts whose keys are
// on different nodes.
func TestOnACluster(t *testing.T) {
	_, addrs := newCluster(t)
	t.Run("Promises", func(t *testing.T) {
		hostlimittest.Run(t, func(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter {
			client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadTimeout: patience})
			l, err := newLimiter(Config{Client: client, Prefix: fmt.Sprintf("test:%d:", time.Now().UnixNano()), Limits: cfg}, 0, born())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = l.Close()
				_ = client.Close()
			})
			return l
		})
	})
}

// TestTheServerKeepsRecordsAlone: step.lua could write a field that no record has, which nothing would
// read.
func TestTheServerKeepsRecordsAlone(t *testing.T) {
	s := ownServer(t)
	l, err := newLimiter(Config{Client: newClient(t, s), Prefix: "p:", Limits: hostlimit.Config{
		Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond, Adaptive: hostlimit.Throttle(1)}, LeaseTTL: 100 * time.Millisecond,
	}}, 0, born())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := acquire(t, l, "served.example", 0)
	served.Observe(hostlimit.Outcome{Status: 200, Latency: time.Second})
	served.Release()
	acquire(t, l, "leaked.example", 0)
	for _, status := range []int{429, 500, 403} {
		refused := acquire(t, l, fmt.Sprintf("%d.example", status), 3*time.Second)
		refused.Observe(hostlimit.Outcome{Status: status, RetryAfter: time.Hour, Resource: 7})
		refused.Release()
	}
	if err := l.Block(t.Context(), "blocked.example", time.Now().Add(time.Hour), "why"); err != nil {
		t.Fatal(err)
	}
	if err := l.Clear(t.Context(), "429.example"); err != nil {
		t.Fatal(err)
	}
	if err := l.Pause(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	l.ID(t.Context())
	time.Sleep(200 * time.Millisecond) // the slot of the leak is taken back
	acquire(t, l, "leaked.example", 0).Release()
	settle(t, l, "leaked.example")

	client := newClient(t, s)
	kept := make(map[string]string)
	for _, key := range client.Keys(t.Context(), "p:*"+ofHosts+"*").Val() {
		kept[key] = client.Get(t.Context(), key).Val()
	}
	if len(kept) < 6 {
		t.Errorf("%d hosts are kept", len(kept))
	}
	for key, text := range kept {
		isRecord(t, key, text, new(wire.Host))
	}
	isRecord(t, "the generation", client.Get(t.Context(), "p:{0}gen").Val(), new(wire.Generation))
	for id, text := range client.HGetAll(t.Context(), "p:{0}processes").Val() {
		isRecord(t, "process "+id, text, new(wire.Process))
	}
}

// isRecord holds that text is the record, with no field that it doesn't have.
func isRecord(t *testing.T, what, text string, record any) {
	t.Helper()
	decoder := msgpack.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields(true)
	if err := decoder.Decode(record); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}
