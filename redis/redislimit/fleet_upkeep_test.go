package redislimit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
)

// TestManyTurnsOfAHostAreToldAgain: a server that has lost its data learns of every request in
// flight, however many there are on one host.
func TestManyTurnsOfAHostAreToldAgain(t *testing.T) {
	t.Parallel()
	const turns = 1700
	s := ownServer(t)
	limits := hostlimit.Config{Concurrency: 2 * turns, Delay: hostlimit.Delay{DangerouslyNone: true, Adaptive: hostlimit.Fixed}}
	fleet := newFleet(t, s, Config{Limits: limits}, 2)
	first := acquire(t, fleet[0], "a.example", 0).lease.(*lease)
	fleet[0].mu.Lock()
	for range turns - 1 { // as if each had asked the server
		other := *first
		other.id = fleet[0].newID()
		first.h.leases[other.id] = &other
	}
	fleet[0].mu.Unlock()
	if err := newClient(t, s).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the server knows every turn again", func() bool {
		state, err := fleet[1].State(t.Context(), "a.example")
		return err == nil && state.InFlight == turns
	})
}

// TestAnOlderVersionThatNobodyUsesIsTakenOver: while a process of the older version shows signs of
// life, and for dead after that, the newer version starts nothing; then it goes on by itself.
func TestAnOlderVersionThatNobodyUsesIsTakenOver(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	client := newClient(t, s)
	alive := func() {
		t.Helper()
		err := client.Eval(t.Context(), `
			local time = redis.call('TIME')
			redis.call('SET', KEYS[1], cmsgpack.pack({v = 2, id = 'r1', run = 'x'}))
			redis.call('HSET', KEYS[2], 'old', cmsgpack.pack({time[1] * 1000000 + time[2], 'r1', 'an old crawler'}))`,
			[]string{"p:{0}gen", "p:{0}processes"}).Err()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	alive()
	l, err := newLimiter(Config{Client: client, Prefix: "p:", Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}}}, 100*time.Millisecond, born())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.mu.Lock()
	l.deadAfter = 4 * time.Second
	l.mu.Unlock()
	var died time.Time // when the older version showed the last sign of life
	for range 12 {
		if _, err := l.Acquire(t.Context(), "a.example", 0); err == nil || !strings.Contains(err.Error(), "version 2") {
			t.Fatalf("beside a process of version 2: %v", err)
		}
		died = time.Now()
		alive()
		time.Sleep(l.deadAfter / 10)
	}
	eventually(t, 10*time.Second, "the newer version starts", func() bool {
		lease, err := l.Acquire(t.Context(), "a.example", 0)
		if err == nil {
			lease.Release()
		}
		return err == nil
	})
	if d := time.Since(died); d < l.deadAfter-l.deadAfter/4 {
		t.Errorf("it was taken over %v after the last sign of life, not %v", d, l.deadAfter)
	}
}

// TestARefusalByAnOldBlockAsksTheServer: a person has deleted the key of a blocked host. No process
// that refuses a wait for the block's end does so on what it heard more than pollBlock ago.
func TestARefusalByAnOldBlockAsksTheServer(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	fleet := newFleet(t, s, Config{Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, MaxWait: time.Minute}}, 2)
	turn := acquire(t, fleet[0], "a.example", 0)
	turn.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
	turn.Release()
	refused := func(l *Limiter) error {
		_, err := l.Acquire(t.Context(), "a.example", 0)
		return err
	}
	for _, l := range fleet {
		if err := refused(l); !errors.Is(err, hostlimit.ErrBlocked) {
			t.Fatalf("a blocked host: %v", err)
		}
	}
	time.Sleep(pollBlock + 100*time.Millisecond)
	before := fleet[0].Stats().Calls
	if err := refused(fleet[0]); !errors.Is(err, hostlimit.ErrBlocked) || fleet[0].Stats().Calls == before {
		t.Errorf("%v, after %d calls", err, fleet[0].Stats().Calls-before)
	}
	if err := newClient(t, s).Del(t.Context(), fleet[0].parts[0].hostKey("a.example")).Err(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(pollBlock + 100*time.Millisecond)
	for _, l := range fleet {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		lease, err := l.Acquire(ctx, "a.example", 0)
		if err != nil {
			t.Fatalf("after its key was deleted: %v", err)
		}
		lease.Release()
	}
}

// TestAnIdleProcessOfAClusterCallsSeldom: it knows something of hosts in every partition, none of
// which is in use. It calls at most ten times a second, and still tells a node that has lost its
// data what it knows before the quarantine is over.
func TestAnIdleProcessOfAClusterCallsSeldom(t *testing.T) {
	t.Parallel()
	nodes, addrs := newCluster(t)
	fleet := func() *Limiter {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadTimeout: patience})
		t.Cleanup(func() { _ = client.Close() })
		l, err := newLimiter(Config{Client: client, Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, MaxWait: time.Minute}}, quarantine, born())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	idle, other := fleet(), fleet()
	keys := map[*partition]string{}
	var wg sync.WaitGroup
	for i := 0; len(keys) < clusterPartitions; i++ {
		key := fmt.Sprintf("%d.example", i)
		if p := idle.partition(key); keys[p] == "" {
			keys[p] = key
			wg.Go(func() {
				turn := acquire(t, idle, key, 0)
				turn.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
				turn.Release()
			})
		}
	}
	wg.Wait()
	time.Sleep(2 * heartbeat)
	before := idle.Stats().Calls
	const seconds = 5
	time.Sleep(seconds * time.Second)
	calls := idle.Stats().Calls - before
	t.Logf("%d calls in %d s", calls, seconds)
	if calls > 10*seconds || calls < seconds {
		t.Errorf("%d calls in %d s", calls, seconds)
	}
	if err := newClient(t, nodes[1]).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		wg.Go(func() {
			if _, err := other.Acquire(t.Context(), key, 0); !errors.Is(err, hostlimit.ErrBlocked) {
				t.Errorf("%s was blocked before the loss: %v", key, err)
			}
		})
	}
	wg.Wait()
}

// TestAProcessThatOnlyWaitsCallsSeldom: it shows that it lives, and gets its turn all the same.
func TestAProcessThatOnlyWaitsCallsSeldom(t *testing.T) {
	t.Parallel()
	fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond}, MaxWait: time.Minute}}, 2)
	turn := acquire(t, fleet[0], "a.example", 0)
	got := make(chan error, 1)
	go func() {
		lease, err := fleet[1].Acquire(t.Context(), "a.example", 0)
		if err == nil {
			lease.Release()
		}
		got <- err
	}()
	eventually(t, 10*time.Second, "the other one waits", func() bool {
		state, err := fleet[0].State(t.Context(), "a.example")
		return err == nil && state.Waiters == 1
	})
	before := fleet[1].Stats().Calls
	const seconds = 4
	time.Sleep(seconds * time.Second)
	if calls := fleet[1].Stats().Calls - before; calls < 1 || calls > seconds {
		t.Errorf("%d calls in %d s", calls, seconds)
	}
	turn.Release()
	if err := <-got; err != nil {
		t.Error(err)
	}
}
