package redislimit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
)

// TestARefusalAfterTheOutageHoldsAll: a request that FailLocal let go is answered when the server is
// back. What its Observe learns is told to the server as well.
func TestARefusalAfterTheOutageHoldsAll(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	var seen events
	limits := hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, MaxWait: 10 * time.Second}
	l, err := New(Config{Client: impatient(t, s.Addr), Failure: FailLocal, Processes: 2, OnFailure: seen.add, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	acquire(t, l, "x.example", 0).Release()
	s.Kill()
	turn := acquire(t, l, "a.example", 0)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	seen.await(t, 2)
	time.Sleep(heartbeat) // what was known before is told
	if e := turn.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour}); !e.Blocked {
		t.Errorf("%+v", e)
	}
	turn.Release()
	other, err := New(Config{Client: newClient(t, s), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, l := range []*Limiter{other, l} {
		if _, err := l.Acquire(t.Context(), "a.example", 0); !errors.Is(err, hostlimit.ErrBlocked) {
			t.Error(err)
		}
	}
}

// TestATooLateTurnIsRefusedWithoutTheServer: a block that the server knew and that outlasts MaxWait is
// no wait under FailLocal either.
func TestATooLateTurnIsRefusedWithoutTheServer(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	var seen events
	l, err := New(Config{
		Client: impatient(t, s.Addr), Failure: FailLocal, Processes: 2, OnFailure: seen.add,
		Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, MaxWait: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	turn := acquire(t, l, "a.example", 0)
	turn.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
	turn.Release()
	s.Kill()
	acquire(t, l, "other.example", 0).Release() // finds out
	seen.await(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer time.AfterFunc(30*time.Second, cancel).Stop() // a deadline would refuse it too
	_, err = l.Acquire(ctx, "a.example", 0)
	var e *hostlimit.Error
	if !errors.As(err, &e) || !errors.Is(err, hostlimit.ErrBlocked) || time.Until(e.RetryAt) < 50*time.Minute {
		t.Errorf("on a host that is blocked for an hour: %v, %+v", err, e)
	}
	if _, err = l.Acquire(ctx, "other.example", 40*time.Second); !errors.Is(err, hostlimit.ErrBusy) {
		t.Errorf("with twice a crawl-delay of 40 s to wait: %v", err)
	}
}

// TestDrainStopsFailLocal: what waits for a turn without the server is refused at once, and nothing
// starts any more.
func TestDrainStopsFailLocal(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	l, err := New(Config{
		Client: impatient(t, s.Addr), Failure: FailLocal, Processes: 1000,
		Limits: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: 10 * time.Millisecond}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	acquire(t, l, "x.example", 0).Release()
	s.Kill()
	acquire(t, l, "a.example", 0).Release() // the next one comes 10 s later
	held, err := l.Acquire(t.Context(), "b.example", 0)
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 2)
	for _, key := range []string{"a.example", "b.example"} {
		go func() {
			lease, err := l.Acquire(t.Context(), key, 0)
			if err == nil {
				lease.Release()
			}
			refused <- err
		}()
	}
	time.Sleep(heartbeat)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- l.Drain(ctx) }()
	for range 2 {
		select {
		case err := <-refused:
			if !errors.Is(err, hostlimit.ErrDraining) {
				t.Errorf("it waited: %v", err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("it still waits")
		}
	}
	if _, err := held.Start(t.Context()); !errors.Is(err, hostlimit.ErrDraining) {
		t.Errorf("a start: %v", err)
	}
	held.Release()
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// A cutter is a hook that cuts a process off from some partitions: it gets their generations' keys.
type cutter struct {
	cut atomic.Pointer[func(gen string) bool]
}

func (*cutter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *cutter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if cut := c.cut.Load(); cut != nil && strings.HasPrefix(cmd.Name(), "eval") && (*cut)(fmt.Sprint(args[3])) {
			return errReset
		}
		return next(ctx, cmd)
	}
}

func (*cutter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestAWaiterReturnsToItsPartition: of two partitions that were away one is back. A host of that one
// is paced by the server again, also for those that have waited.
func TestAWaiterReturnsToItsPartition(t *testing.T) {
	t.Parallel()
	_, addrs := newCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, MaxRedirects: -1, ReadTimeout: patience})
	t.Cleanup(func() { _ = client.Close() })
	hook := new(cutter)
	client.AddHook(hook)
	l, err := newLimiter(Config{
		Client: client, Failure: FailLocal, Processes: 1000,
		Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: 20 * time.Millisecond}, MaxWait: time.Minute},
	}, 0, born())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	away := l.partition("away.example")
	back := "0.example"
	for i := 0; l.partition(back) == away; i++ {
		back = fmt.Sprintf("%d.example", i)
	}
	for _, key := range []string{"away.example", back} {
		acquire(t, l, key, 0).Release()
	}
	cut := func(string) bool { return true }
	hook.cut.Store(&cut)
	acquire(t, l, back, 0).Release() // the next one would come 20 s later
	got := make(chan error, 2)
	for _, key := range []string{back, back} { // one in the Memory, one in its queue
		go func() {
			lease, err := l.Acquire(t.Context(), key, 0)
			if err == nil {
				lease.Release()
			}
			got <- err
		}()
	}
	time.Sleep(heartbeat)
	only := func(gen string) bool { return gen == away.genKey() }
	hook.cut.Store(&only)
	for range 2 {
		select {
		case err := <-got:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("it waits for a partition that isn't its own")
		}
	}
}

// TestABadKeyIsNoOutageForNext, with FailLocal.
func TestABadKeyIsNoOutageForNext(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	l := newFleet(t, s, Config{Failure: FailLocal, Processes: 2, Limits: oneSlot}, 1)[0]
	settle(t, l, "good.example")
	if err := newClient(t, s).LPush(t.Context(), l.parts[0].hostKey("bad.example"), "x").Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var server *ServerError
	if _, err := l.Next(ctx, "bad.example", 0); !errors.As(err, &server) {
		t.Error(err)
	}
}
