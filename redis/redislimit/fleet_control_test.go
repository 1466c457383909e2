package redislimit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/redislimit/internal/clock"
)

// TestPauseHoldsTheWholeFleet until it is over, or until somebody ends it.
func TestPauseHoldsTheWholeFleet(t *testing.T) {
	t.Parallel()
	fleet := newFleet(t, ownServer(t), Config{Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, MaxWait: time.Minute}}, 3)
	acquire(t, fleet[0], "a.example", 0).Release()
	began := time.Now()
	if err := fleet[2].Pause(t.Context(), longestPause); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d < horizon+clock.MaxGuard {
		t.Errorf("Pause returned after %v: what was let go before may start", d)
	}
	if _, err := fleet[0].Acquire(t.Context(), "a.example", 0); !errors.Is(err, hostlimit.ErrBusy) {
		t.Errorf("in a pause that is longer than MaxWait: %v", err)
	}
	if f, err := fleet[1].Fleet(t.Context()); err != nil || time.Until(f.PausedUntil) < longestPause-time.Minute {
		t.Errorf("Fleet = %+v, %v", f, err)
	}
	if err := fleet[2].Pause(t.Context(), 30*time.Second); err != nil {
		t.Fatal(err)
	}
	type result struct {
		at  time.Time
		err error
	}
	started := make(chan result, 2)
	for i, key := range []string{"a.example", "new.example"} {
		go func() {
			lease, err := fleet[i].Acquire(context.WithoutCancel(t.Context()), key, 0)
			if err == nil {
				lease.Release()
			}
			started <- result{time.Now(), err}
		}()
	}
	select {
	case r := <-started:
		t.Fatalf("started in a pause: %v", r.err)
	case <-time.After(300 * time.Millisecond):
	}
	ended := time.Now()
	if err := fleet[1].Pause(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := <-started; r.err != nil || r.at.Sub(ended) > 10*time.Second {
			t.Errorf("after the end of the pause: %v, %v", r.at.Sub(ended), r.err)
		}
	}
	for _, d := range []time.Duration{-1, longestPause + 1} {
		if err := fleet[0].Pause(t.Context(), d); err == nil {
			t.Errorf("a pause of %v was accepted", d)
		}
	}
}

// TestWhoOnlyLooksIsNoProcessOfTheFleet: a quarantine doesn't wait for it, and the others don't
// count on it.
func TestWhoOnlyLooksIsNoProcessOfTheFleet(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	c := Config{Name: "crawler", Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}}}
	fleet := newFleet(t, s, c, 1)
	acquire(t, fleet[0], "a.example", 0).Release()
	tool, err := New(Config{Client: newClient(t, s), Prefix: fleet[0].conf.Prefix, Operator: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	fleet = append(fleet, tool)
	for _, err := range fleet[1].List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := fleet[1].Block(t.Context(), "b.example", time.Now().Add(time.Hour), "test"); err != nil {
		t.Fatal(err)
	}
	f, err := fleet[1].Fleet(t.Context())
	if err != nil || len(f.Processes) != 1 || f.Processes[0].ID != fleet[0].proc || f.Processes[0].Name != "crawler" || f.Processes[0].Seen > 5*time.Second {
		t.Errorf("Fleet = %+v, %v", f, err)
	}
	if !f.PausedUntil.IsZero() {
		t.Errorf("nobody has paused it: %v", f.PausedUntil)
	}
}

// TestClearReachesWhoHasOnlyHeardOfTheBlock: a block that was told to all is lifted for all.
func TestClearReachesWhoHasOnlyHeardOfTheBlock(t *testing.T) {
	t.Parallel()
	limits := hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, MaxWait: time.Minute}
	fleet := newFleet(t, ownServer(t), Config{Limits: limits}, 2)
	acquire(t, fleet[0], "a.example", 0).Release()
	until := func(blocked bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			fleet[0].mu.Lock()
			known := fleet[0].host("a.example").known.Refusals.Until > fleet[0].now()
			fleet[0].mu.Unlock()
			if known == blocked {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("blocked = %t after a minute", known)
			}
		}
	}
	if err := fleet[1].Block(t.Context(), "a.example", time.Now().Add(time.Hour), "test"); err != nil {
		t.Fatal(err)
	}
	until(true)
	if err := fleet[1].Clear(t.Context(), "a.example"); err != nil {
		t.Fatal(err)
	}
	until(false)
	acquire(t, fleet[0], "a.example", 0).Release()
}

// TestNobodyStartsAfterABlockByHand: a thousand requests of four processes wait for one host when a
// fifth one blocks it. Each is refused at once, and none has started since Block returned.
func TestNobodyStartsAfterABlockByHand(t *testing.T) {
	t.Parallel()
	limits := hostlimit.Config{Delay: hostlimit.Delay{Min: 5 * time.Millisecond}, Concurrency: 4, MaxWait: time.Hour}
	fleet := newFleet(t, ownServer(t), Config{Limits: limits}, 5)
	const waiters = 1000
	type result struct {
		at  time.Time
		err error
	}
	results := make(chan result, waiters)
	for i := range waiters {
		l := fleet[i%4]
		go func() {
			lease, err := l.Acquire(context.WithoutCancel(t.Context()), "a.example", 0)
			if err != nil {
				results <- result{err: err}
				return
			}
			g, err := lease.Start(t.Context())
			results <- result{g.Start, err}
			lease.Release()
		}()
	}
	started := 0
	for range 20 { // the queue moves
		if r := <-results; r.err == nil {
			started++
		}
	}
	until := time.Now().Add(time.Hour)
	if err := fleet[4].Block(t.Context(), "a.example", until, "the owner has called"); err != nil {
		t.Fatal(err)
	}
	returned := time.Now()
	for range waiters - 20 {
		r := <-results
		if r.err == nil {
			if started++; r.at.After(returned) {
				t.Errorf("a start %v after Block had returned", r.at.Sub(returned))
			}
			continue
		}
		var refused *hostlimit.Error
		if !errors.Is(r.err, hostlimit.ErrBlocked) || !errors.As(r.err, &refused) || refused.RetryAt.Sub(until).Abs() > time.Second {
			t.Fatalf("a waiter: %v", r.err)
		}
	}
	if took := time.Since(returned); took > 30*time.Second {
		t.Errorf("the last waiter was refused after %v", took)
	}
	if started == waiters {
		t.Error("nobody waited")
	}
	t.Logf("%d of %d had started; the last one was refused %v after the block", started, waiters, time.Since(returned))
}

// TestAPersonHearsThatTheServerIsAway: what a person tells the server, or asks of it, is an error then,
// under FailLocal too.
func TestAPersonHearsThatTheServerIsAway(t *testing.T) {
	t.Parallel()
	for _, f := range []Failure{FailClosed, FailLocal} {
		post := new(courier)
		l := newFleet(t, shared, Config{Failure: f, Processes: 2}, 1, post)[0]
		settle(t, l, "a.example")
		post.set(func(string, func() error) error { return errReset })
		for what, act := range map[string]func() error{
			"Block": func() error { return l.Block(t.Context(), "a.example", time.Now().Add(time.Hour), "a test") },
			"Clear": func() error { return l.Clear(t.Context(), "a.example") },
			"Pause": func() error { return l.Pause(t.Context(), time.Minute) },
			"State": func() error {
				_, err := l.State(t.Context(), "a.example")
				return err
			},
			"Fleet": func() error {
				_, err := l.Fleet(t.Context())
				return err
			},
		} {
			if err := act(); !errors.Is(err, ErrUnavailable) {
				t.Errorf("Failure %d: %s: %v", f, what, err)
			}
		}
	}
}

// TestActsAreReportedInEachProcess when they happen, also if it has no request for the host; a
// process without a receiver reports them with its next turn.
func TestActsAreReportedInEachProcess(t *testing.T) {
	t.Parallel()
	fleet := newFleet(t, ownServer(t), Config{Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}}}, 3)
	var mu sync.Mutex
	var acts [2][]hostlimit.Act
	for i := range acts {
		acquire(t, fleet[i], "other.example", 0).Release() // it knows the server's clock
		fleet[i].OnAct(func(a hostlimit.Act) bool {
			mu.Lock()
			defer mu.Unlock()
			acts[i] = append(acts[i], a)
			return true
		})
	}
	acquire(t, fleet[2], "a.example", 0).Release()
	reported := func(n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(acts[0]) == n && len(acts[1]) == n
		}
	}
	until := time.Now().Add(time.Hour)
	if err := fleet[0].Block(t.Context(), "a.example", until, "Ada"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the block is reported in both processes", reported(1))
	var refused *hostlimit.Error
	// The block may reach a process just before the word on who has set it.
	eventually(t, 20*time.Second, "a process without a receiver reports the block with a turn", func() bool {
		_, err := fleet[2].Acquire(t.Context(), "a.example", 0)
		if !errors.As(err, &refused) {
			t.Fatalf("without a receiver: %v", err)
		}
		return refused.ByHand != nil && refused.ByHand.Cause == "by hand: Ada"
	})
	_, err := fleet[0].Acquire(t.Context(), "a.example", 0)
	if !errors.As(err, &refused) || refused.ByHand != nil {
		t.Errorf("reported twice: %v", err)
	}
	if err := fleet[1].Clear(t.Context(), "a.example"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the end of the block is reported", reported(2))
	for range 2 {
		if err := fleet[1].Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for i := range acts {
		blocked := acts[i][0]
		cleared := acts[i][1]
		if blocked.Key != "a.example" || blocked.ByHand.Cause != "by hand: Ada" ||
			blocked.ByHand.BlockedUntil.Sub(until).Abs() > time.Minute || cleared.ByHand.ClearedAt.IsZero() {
			t.Errorf("process %d: %+v", i, acts[i])
		}
	}
	if len(acts[0]) != 2 || len(acts[1]) != 3 || !acts[1][2].Drained {
		t.Errorf("after Drain: %+v", acts)
	}
}
