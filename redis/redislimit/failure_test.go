package redislimit

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/redistest"
)

// events collects what OnFailure tells.
type events struct {
	mu   sync.Mutex
	list []Event
}

func (e *events) add(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, ev)
}

// await waits for the n-th event.
func (e *events) await(t *testing.T, n int) Event {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		e.mu.Lock()
		if len(e.list) >= n {
			ev := e.list[n-1]
			e.mu.Unlock()
			return ev
		}
		e.mu.Unlock()
	}
	t.Fatalf("event %d never came", n)
	return Event{}
}

func impatient(t *testing.T, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: time.Second, ReadTimeout: time.Second})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestFailClosedRefusesAndComesBack(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	var seen events
	l, err := New(Config{Client: impatient(t, s.Addr), OnFailure: seen.add, Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	acquire(t, l, "a.example", 0).Release()
	held := acquire(t, l, "a.example", 0)
	s.Kill()

	_, err = l.Acquire(t.Context(), "a.example", 0)
	var refused *hostlimit.Error
	var server *ServerError
	switch {
	case !errors.As(err, &refused) || refused.RetryAt.IsZero():
		t.Errorf("err = %#v, want a *hostlimit.Error with RetryAt", err)
	case !errors.As(err, &server) || server.Server != s.Addr || !server.Temporary() || !strings.Contains(err.Error(), s.Addr):
		t.Errorf("err = %v, want a *ServerError that names %s", err, s.Addr)
	case !errors.Is(err, ErrUnavailable) || !errors.Is(err, hostlimit.ErrBusy):
		t.Errorf("err = %v, want one that is ErrUnavailable and ErrBusy", err)
	}
	if _, err := l.Next(t.Context(), "a.example", 0); !errors.Is(err, ErrUnavailable) || !errors.As(err, &refused) || refused.Key != "a.example" {
		t.Errorf("Next: %v", err)
	}
	if ev := seen.await(t, 1); ev.Err == nil || ev.Local || ev.Server != s.Addr || ev.String() == "" {
		t.Errorf("first event %+v", ev)
	}
	held.Release() // the server hears of it when it is back
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if ev := seen.await(t, 2); ev.Err != nil || ev.String() == "" {
		t.Errorf("second event %+v", ev)
	}
	acquire(t, l, "a.example", 0).Release()
}

func TestFailLocalGoesOnAtItsShare(t *testing.T) {
	t.Parallel()
	const delay, processes = 30 * time.Millisecond, 3
	s := ownServer(t)
	var seen events
	l, err := newLimiter(Config{
		Client: impatient(t, s.Addr), Failure: FailLocal, Processes: processes, OnFailure: seen.add,
		Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: delay}},
	}, -1, born())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := acquire(t, l, "a.example", 0)
	a.Observe(hostlimit.Outcome{Status: 200})
	b := acquire(t, l, "blocked.example", 0)
	until := b.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Second}).Until
	b.Release()
	s.Kill()
	free := time.Now().Add(noticed + time.Second/2)
	time.AfterFunc(time.Until(free), func() { a.Release() })

	var last hostlimit.Grant
	for i := range 4 {
		asked := time.Now()
		lease := acquire(t, l, "a.example", 10*time.Millisecond)
		g := lease.Grant
		if took := time.Since(asked); g.WaitDelay > took {
			t.Errorf("local start %d says that it waited for %v of %v", i, g.WaitDelay, took)
		}
		if gap := g.Start.Sub(last.Start); i > 0 && gap < processes*delay {
			t.Errorf("local start %d after %v, want %v", i, gap, processes*delay)
		}
		if g.Start.Before(free) {
			t.Errorf("local start %v before the end of the last shared one", free.Sub(g.Start))
		}
		last = g
		lease.Observe(hostlimit.Outcome{Status: 200})
		lease.Release()
	}
	if ev := seen.await(t, 1); ev.Err == nil || !ev.Local || ev.String() == "" {
		t.Errorf("first event %+v", ev)
	}
	// Blocks hold across the change, and after them one request probes.
	var wg sync.WaitGroup
	var mu sync.Mutex
	flying := 0
	for range 3 {
		wg.Go(func() {
			lease := acquire(t, l, "blocked.example", 0)
			if g := lease.Grant; g.Start.Before(until) {
				t.Errorf("started %v before the block's end", until.Sub(g.Start))
			} else if g.Probe {
				mu.Lock()
				flying++
				mu.Unlock()
			}
			lease.Observe(hostlimit.Outcome{Status: 200})
			lease.Release()
		})
	}
	wg.Wait()
	if flying != 1 {
		t.Errorf("%d probes", flying)
	}
	// What is learned meanwhile is told to the server.
	c := acquire(t, l, "c.example", 0)
	c.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
	open := acquire(t, l, "d.example", 0)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if ev := seen.await(t, 2); ev.Err != nil || !ev.Local {
		t.Errorf("second event %+v", ev)
	}
	other, err := New(Config{Client: newClient(t, s), Limits: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: delay}, MaxWait: 5 * time.Second, SlotTimeout: 100 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Acquire(t.Context(), "c.example", 0); !errors.Is(err, hostlimit.ErrBlocked) {
		t.Errorf("on a host that was blocked in the outage: %v", err)
	}
	if _, err := other.Acquire(t.Context(), "d.example", 0); !errors.Is(err, hostlimit.ErrBusy) {
		t.Errorf("on a host whose only slot was taken in the outage: %v", err)
	}
	open.Release()
	acquire(t, other, "d.example", 0).Release()
	acquire(t, l, "a.example", 0).Release()
}

// TestFailLocalKnowsWhatWasLearned: what a process knew of its hosts holds without the server,
// and what it learns then is told to the server.
func TestFailLocalKnowsWhatWasLearned(t *testing.T) {
	t.Parallel()
	const delay, processes = 20 * time.Millisecond, 2
	s := ownServer(t)
	var seen events
	limits := hostlimit.Config{Delay: hostlimit.Delay{Min: delay}, Backoff: backoff.Doubling{Start: time.Hour}, MaxWait: time.Minute}
	l, err := newLimiter(Config{Client: impatient(t, s.Addr), Failure: FailLocal, Processes: processes, OnFailure: seen.add, Limits: limits}, -1, born())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	say := func(l *Limiter, key string, o hostlimit.Outcome) (hostlimit.Grant, hostlimit.Effect) {
		turn := acquire(t, l, key, 0)
		defer turn.Release()
		return turn.Grant, turn.Observe(o)
	}
	for range 4 {
		say(l, "forbidden.example", hostlimit.Outcome{Status: 403})
	}
	say(l, "taught.example", hostlimit.Outcome{Status: 429, RetryAfter: time.Millisecond})
	say(l, "waiting.example", hostlimit.Outcome{Status: 429, RetryAfter: time.Millisecond})
	s.Kill()
	acquire(t, l, "other.example", 0).Release() // finds out
	seen.await(t, 1)

	for i := range 5 { // without the server a row of 403s begins anew
		if g, e := say(l, "forbidden.example", hostlimit.Outcome{Status: 403}); g.Probe || e.Blocked {
			t.Errorf("403 number %d without the server: probe %t, %+v", i+1, g.Probe, e)
		}
	}
	if g, e := say(l, "forbidden.example", hostlimit.Outcome{Status: 403}); !g.Probe || !e.Blocked || e.Refusals != 1 || time.Until(e.Until) < 59*time.Minute {
		t.Errorf("the sixth 403: probe %t, %+v", g.Probe, e)
	}
	if g, e := say(l, "taught.example", hostlimit.Outcome{Status: 200}); g.Delay < processes*delay*3/2 || g.Delay > 4*processes*delay || g.DelaySource != "learned" || !e.Cleared {
		t.Errorf("%v by %q, effect %+v", g.Delay, g.DelaySource, e)
	}
	if g, e := say(l, "waiting.example", hostlimit.Outcome{Status: 500}); !g.Probe || !e.Blocked || e.Refusals != 2 {
		t.Errorf("a probe that fails: %+v, effect %+v", g, e)
	}
	say(l, "new.example", hostlimit.Outcome{Status: 429, RetryAfter: time.Millisecond})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	seen.await(t, 2)
	other, err := New(Config{Client: newClient(t, s), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Acquire(t.Context(), "forbidden.example", 0); !errors.Is(err, hostlimit.ErrBlocked) {
		t.Errorf("on a host that was blocked in the outage: %v", err)
	}
	if g, _ := say(other, "new.example", hostlimit.Outcome{Status: 200}); g.Delay < delay*3/2 || g.Delay > 4*delay || g.DelaySource != "learned" || !g.Probe {
		t.Errorf("after a refusal in the outage: %v by %q, probe %t", g.Delay, g.DelaySource, g.Probe)
	}
	if g, _ := say(other, "taught.example", hostlimit.Outcome{Status: 200}); g.DelaySource != "learned" || g.Probe {
		t.Errorf("after a success in the outage: %v by %q, probe %t", g.Delay, g.DelaySource, g.Probe)
	}
}

func TestLocalWaitersReturnToTheServer(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	var seen events
	l, err := New(Config{
		Client: impatient(t, s.Addr), Failure: FailLocal, Processes: 1000, OnFailure: seen.add,
		Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	acquire(t, l, "a.example", 0).Release()
	s.Kill()
	acquire(t, l, "b.example", 0).Release() // the next one would wait for 1000 s
	seen.await(t, 1)
	done := make(chan error, 1)
	go func() {
		lease, err := l.Acquire(t.Context(), "b.example", 0)
		if err == nil {
			lease.Release()
		}
		done <- err
	}()
	time.Sleep(50 * time.Millisecond)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	if h := l.hosts["b.example"]; h != nil { // nil: the waiter has had its turn
		h.known.Next, h.known.Gap = 0, 0 // what the local start owes; not what is tested
	}
	l.mu.Unlock()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the waiter stayed in the outage")
	}
}

// TestAnEventSaysWhatThisProcessDoes, in a sentence for a log.
func TestAnEventSaysWhatThisProcessDoes(t *testing.T) {
	err := errors.New("connection refused")
	for want, e := range map[string]Event{
		"limiter server s:1 is lost, nothing starts: connection refused":                         {Server: "s:1", Err: err},
		"limiter server s:1 is lost, this process paces its share by itself: connection refused": {Server: "s:1", Err: err, Local: true},
		"limiter server s:1 is back":                          {Server: "s:1"},
		"limiter server s:1 is back: hosts are shared again":  {Server: "s:1", Local: true},
		"one fleet, different limits: another Delay, 2s here": {Server: "s:1", Differs: "another Delay, 2s here"},
	} {
		if got := e.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestConfigProblemsAreReportedTogether(t *testing.T) {
	_, err := New(Config{Prefix: "a{b}", Failure: FailLocal, Limits: hostlimit.Config{Concurrency: -1}})
	for _, want := range []string{"Client", "Prefix", "Processes", "Concurrency"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v doesn't name %s", err, want)
		}
	}
	_, err = New(Config{Failure: FailLocal, Processes: 2, Limits: hostlimit.Config{Concurrency: -1}})
	if err == nil || strings.Count(err.Error(), "Concurrency") != 1 {
		t.Errorf("one problem is told as %v", err)
	}
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	if _, err := New(Config{Client: ring}); err == nil {
		t.Error("a Ring is accepted")
	}
	if _, err := New(Config{Client: impatient(t, "localhost:1"), Failure: 7}); err == nil {
		t.Error("Failure 7 is accepted")
	}
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	s := ownServer(t)
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	_ = client.Ping(t.Context())
	before := runtime.NumGoroutine()
	l, err := newLimiter(Config{Client: client, Limits: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond}}}, 0, born())
	if err != nil {
		t.Fatal(err)
	}
	held := acquire(t, l, "a.example", 0)
	errs := make(chan error)
	for range 5 {
		go func() {
			_, err := l.Acquire(context.Background(), "a.example", 0)
			errs <- err
		}()
	}
	time.Sleep(20 * time.Millisecond)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := <-errs; !errors.Is(err, ErrClosed) {
			t.Errorf("waiting at Close: %v", err)
		}
	}
	if _, err := l.Acquire(t.Context(), "b.example", 0); !errors.Is(err, ErrClosed) {
		t.Errorf("Acquire after Close: %v", err)
	}
	if _, err := l.Next(t.Context(), "b.example", 0); !errors.Is(err, ErrClosed) || errors.Is(err, ErrUnavailable) || errors.As(err, new(*hostlimit.Error)) {
		t.Errorf("Next after Close: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	held.Observe(hostlimit.Outcome{Status: 200})
	held.Release() // after Close it still frees the slot
	again := newTestPrefix(t, s, defaultPrefix)
	acquire(t, again, "a.example", 0).Release()
	_ = again.Close()

	var after int
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if after = runtime.NumGoroutine(); after <= before+1 { // the second client's pool
			break
		}
	}
	if after > before+1 {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines before, %d after:\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
	}
	_ = client.Close()
}

func newTestPrefix(t *testing.T, s *redistest.Server, prefix string) *Limiter {
	t.Helper()
	l, err := newLimiter(Config{Client: newClient(t, s), Prefix: prefix, Limits: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond}}}, 0, born())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestARefusalWithoutTheServerIsABlock: the server is lost while a host is asked, which refuses. What
// Observe returns is what this process keeps to, and tells the server when it is back.
func TestARefusalWithoutTheServerIsABlock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, answer hostlimit.Outcome
		refusals       int
		least          time.Duration // 0: it sets no block
	}{
		"429":                     {answer: hostlimit.Outcome{Status: 429, RetryAfter: time.Hour}, refusals: 1, least: time.Hour},
		"nothing left of a limit": {answer: hostlimit.Outcome{Status: 200, Reset: time.Hour}, least: time.Hour},
		"an unsure answer":        {answer: hostlimit.Outcome{Status: 500}, refusals: 1, least: time.Second},
		"one 403":                 {answer: hostlimit.Outcome{Status: 403}},
		"one after a refusal":     {before: hostlimit.Outcome{Status: 429, RetryAfter: time.Millisecond}, answer: hostlimit.Outcome{Status: 500}, refusals: 2, least: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := ownServer(t)
			l := newTest(t, server, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}})
			if c.before.Status > 0 {
				turn := acquire(t, l, "a.example", 0)
				turn.Observe(c.before)
				turn.Release()
			}
			turn := acquire(t, l, "a.example", 0)
			defer turn.Release()
			server.Kill()
			asked := time.Now()
			e := turn.Observe(c.answer)
			if e.Blocked != (c.least > 0) || e.Refusals != c.refusals || e.Blocked && e.Until.Before(asked.Add(c.least)) {
				t.Errorf("%+v", e)
			}
		})
	}
}
