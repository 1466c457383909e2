package hostlimit_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

// A mapStore is a Store in memory that counts, can be slow and can fail.
type mapStore struct {
	mu      sync.Mutex
	debts   map[string]hostlimit.Debt
	updates int
	writes  int
	takes   time.Duration
	err     error
	before  func() // is called in Update, before anything is read
}

func (s *mapStore) Update(_ context.Context, key string, change func(hostlimit.Debt) hostlimit.Debt) (hostlimit.Debt, error) {
	if s.before != nil {
		s.before()
	}
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates++
	old := s.debts[key]
	if s.err != nil {
		return change(hostlimit.Debt{}), s.err
	}
	change(hostlimit.Debt{Refusals: 9, BlockedUntil: time.Now().Add(time.Hour).Round(0).UTC()}) // as Dir may call it
	d := change(old)
	if d != old {
		s.writes++
	}
	if s.debts == nil {
		s.debts = map[string]hostlimit.Debt{}
	}
	if s.debts[key] = d; d == (hostlimit.Debt{}) {
		delete(s.debts, key)
	}
	return d, nil
}

func (s *mapStore) debt() hostlimit.Debt { return s.debts[storedKey] }

const storedKey = "www.example.com"

// A process is a Memory on a Store, as the next run of a crawler has it.
type process struct {
	*testing.T
	*hostlimit.Memory
}

func run(t *testing.T, cfg hostlimit.Config) process {
	t.Helper()
	m, err := hostlimit.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return process{t, m}
}

func (p process) start(floor time.Duration) (hostlimit.Lease, hostlimit.Grant) {
	p.Helper()
	l, err := p.Acquire(p.Context(), storedKey, floor)
	if err != nil {
		p.Fatal(err)
	}
	g, err := l.Start(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return l, g
}

// fetch is a whole exchange.
func (p process) fetch(o hostlimit.Outcome) (hostlimit.Grant, hostlimit.Effect) {
	p.Helper()
	l, g := p.start(0)
	e := l.Observe(o)
	l.Release()
	return g, e
}

func (p process) next() time.Duration {
	p.Helper()
	at, err := p.Next(p.Context(), storedKey, 0)
	if err != nil {
		p.Fatal(err)
	}
	return max(0, time.Until(at))
}

var (
	ok      = hostlimit.Outcome{Status: 200}
	refusal = hostlimit.Outcome{Status: 429}
)

func TestRefusalsCountOnAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		cfg := hostlimit.Config{Store: store, Backoff: backoff.Refusals{Policy: backoff.Doubling{Start: 2 * time.Hour}, Forgive: 100 * time.Hour}, MaxWait: 100 * time.Hour}
		for n, length := range []time.Duration{2 * time.Hour, 4 * time.Hour, 8 * time.Hour} {
			_, e := run(t, cfg).fetch(refusal)
			if e.Refusals != n+1 || time.Until(e.Until) != length {
				t.Errorf("refusal %d: %+v", n+1, e)
			}
			if d := store.debt(); d.Refusals != n+1 || !d.BlockedUntil.Equal(e.Until) || d.Cause != "status 429" || !d.BlockedAt.Equal(time.Now()) {
				t.Errorf("kept: %+v", d)
			}
		}
		// A success clears, and leaves nothing behind but what was learned.
		if _, e := run(t, cfg).fetch(ok); !e.Cleared {
			t.Errorf("success: %+v", e)
		}
		if d := store.debt(); d != (hostlimit.Debt{Delay: d.Delay}) || d.Delay == 0 {
			t.Errorf("kept after a success: %+v", d)
		}
	})
}

func TestOrdinaryStartsCostTheStoreNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		p := run(t, hostlimit.Config{Store: store, Delay: hostlimit.Delay{Min: time.Millisecond}})
		for i := range 2 {
			store.updates = 0
			for range 5000 {
				p.fetch(ok)
			}
			if store.updates != 1 || store.writes != 0 {
				t.Errorf("5,000 starts in 5 s: %d updates, %d writes", store.updates, store.writes)
			}
			for range 5002 {
				p.fetch(ok)
			}
			if store.updates != 2 || store.writes != 0 {
				t.Errorf("after 10 s: %d updates, %d writes", store.updates, store.writes)
			}
			if i == 0 {
				time.Sleep(time.Hour)
			}
		}
	})
}

// TestProcessesSeeEachOthersBlocks within ten seconds of use, and their ends as well.
func TestProcessesSeeEachOthersBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hostlimit.Dir(t.TempDir())
		cfg := hostlimit.Config{Store: store, MaxWait: 100 * time.Hour}
		a, b := run(t, cfg), run(t, cfg)
		a.fetch(ok)
		b.fetch(ok)
		time.Sleep(time.Second)
		_, e := a.fetch(hostlimit.Outcome{Status: 429, RetryAfter: 3 * time.Hour})
		time.Sleep(9 * time.Second)
		begin := time.Now()
		l, g := b.start(0)
		if g.Start.Before(e.Until) || g.Start.Sub(e.Until) > time.Second || !g.Probe || g.WaitBlock < 2*time.Hour {
			t.Errorf("started %v after the end of the block: %+v", g.Start.Sub(e.Until), g)
		}
		if r := g.Restored; r == nil || r.Cause != "status 429" || !r.BlockedUntil.Equal(e.Until) || begin.Sub(r.BlockedAt) != 9*time.Second {
			t.Errorf("restored: %+v", r)
		}
		// The success of one lifts it for the other, who doesn't set it again.
		if e := l.Observe(ok); !e.Cleared {
			t.Errorf("success: %+v", e)
		}
		l.Release()
		time.Sleep(10 * time.Second)
		if g, _ := a.fetch(ok); g.Probe || g.Restored != nil {
			t.Errorf("after the success of another: %+v", g)
		}
		if d, _ := store.Update(t.Context(), storedKey, func(d hostlimit.Debt) hostlimit.Debt { return d }); d.Refusals != 0 || !d.BlockedUntil.IsZero() {
			t.Errorf("set again: %+v", d)
		}
	})
}

// TestStricterDebtHolds where two processes have changed it.
func TestStricterDebtHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, order := range [][2]time.Duration{{time.Hour, 3 * time.Hour}, {3 * time.Hour, time.Hour}} {
			store := new(mapStore)
			cfg := hostlimit.Config{Store: store}
			a, b := run(t, cfg), run(t, cfg)
			la, _ := a.start(0)
			lb, _ := b.start(0)
			la.Observe(hostlimit.Outcome{Status: 429, RetryAfter: order[0]})
			lb.Observe(hostlimit.Outcome{Status: 503, RetryAfter: order[1]})
			want := "status 503"
			if order[0] > order[1] {
				want = "status 429"
			}
			if d := store.debt(); time.Until(d.BlockedUntil) != 3*time.Hour || d.Refusals != 1 || d.Cause != want {
				t.Errorf("%v: %+v", order, d)
			}
			if n := b.next(); n < 3*time.Hour || n > 3*time.Hour+time.Second {
				t.Errorf("%v: next in %v", order, n)
			}
			// Whoever had a success beside the refusal of the other lifts nothing of it.
			c := run(t, cfg)
			time.Sleep(3*time.Hour + time.Second)
			lc, _ := c.start(0)
			la, _ = a.start(0)
			la.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 5 * time.Hour})
			if e := lc.Observe(ok); !e.Cleared {
				t.Errorf("%+v", e)
			}
			if d := store.debt(); time.Until(d.BlockedUntil) != 5*time.Hour || d.Refusals != 2 {
				t.Errorf("%v: lifted by a success that didn't know of it: %+v", order, d)
			}
			if n := c.next(); n < 5*time.Hour {
				t.Errorf("%v: next in %v", order, n)
			}
		}
	})
}

// TestClockSetBackBlocksNoLonger than MaxRetryAfter, or than the block was to be, from the time of
// loading.
func TestClockSetBackBlocksNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name    string
			debt    hostlimit.Debt
			longest time.Duration
		}{
			{"by a day", hostlimit.Debt{BlockedUntil: time.Now().Add(25 * time.Hour), BlockedAt: time.Now().Add(24 * time.Hour), Refusals: 1}, 24 * time.Hour},
			{"by years", hostlimit.Debt{BlockedUntil: time.Now().Add(1e5 * time.Hour), Refusals: 1}, 24 * time.Hour},
			{"a long block", hostlimit.Debt{BlockedUntil: time.Now().Add(1e5 * time.Hour), BlockedAt: time.Now().Add(1e5*time.Hour - 28*time.Hour), Refusals: 1}, 28 * time.Hour},
			{"a start", hostlimit.Debt{NextStart: time.Now().Add(1e5 * time.Hour)}, 24 * time.Hour},
		} {
			store := &mapStore{debts: map[string]hostlimit.Debt{storedKey: c.debt}}
			p := run(t, hostlimit.Config{Store: store, MaxWait: 1e6 * time.Hour})
			if n := p.next(); n < c.longest || n > c.longest+time.Second {
				t.Errorf("set back %s: next in %v, want %v", c.name, n, c.longest)
			}
			time.Sleep(c.longest / 2)
			if n := p.next(); n > c.longest/2+time.Second {
				t.Errorf("set back %s: next in %v after half the time", c.name, n)
			}
			p.fetch(ok)
		}
	})
}

// TestClockSetForwardEndsBlocksEarly, and what is over is removed.
func TestClockSetForwardEndsBlocksEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yesterday := time.Now().Add(-24 * time.Hour)
		store := &mapStore{debts: map[string]hostlimit.Debt{storedKey: {
			BlockedUntil: yesterday, BlockedAt: yesterday.Add(-time.Hour), Refusals: 3, Cause: "status 429", NextStart: yesterday,
		}}}
		p := run(t, hostlimit.Config{Store: store})
		if g, e := p.fetch(refusal); g.Probe || g.Restored != nil || e.Refusals != 1 {
			t.Errorf("%+v, %+v", g, e)
		}
		store.debts[storedKey] = hostlimit.Debt{NextStart: yesterday}
		run(t, hostlimit.Config{Store: store}).next()
		if len(store.debts) != 0 {
			t.Errorf("what owes nothing stays: %+v", store.debts)
		}
	})
}

// TestCounterOfAnEndedBlockIsKept until it is forgiven.
func TestCounterOfAnEndedBlockIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for after, want := range map[time.Duration]int{29 * time.Minute: 4, 31 * time.Minute: 1} {
			end := time.Now().Add(-after)
			store := &mapStore{debts: map[string]hostlimit.Debt{storedKey: {BlockedUntil: end, Refusals: 3}}}
			p := run(t, hostlimit.Config{Store: store})
			if _, e := p.fetch(refusal); e.Refusals != want {
				t.Errorf("%v after the block: %d refusals, want %d", after, e.Refusals, want)
			}
		}
	})
}

// TestNothingIsKeptOfWhatIsOver: of a block without refusals its end, of a refusal that it is forgiven.
func TestNothingIsKeptOfWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			o    hostlimit.Outcome
			over time.Duration
		}{
			{hostlimit.Outcome{Status: 200, Reset: time.Minute}, time.Minute},
			{hostlimit.Outcome{Status: 429, RetryAfter: time.Minute}, 31 * time.Minute},
		} {
			store := new(mapStore)
			cfg := hostlimit.Config{Store: store, Delay: hostlimit.Delay{Adaptive: hostlimit.Fixed}, MaxWait: time.Second}
			run(t, cfg).fetch(c.o)
			time.Sleep(c.over - time.Second)
			run(t, cfg).next()
			if d := store.debt(); d == (hostlimit.Debt{}) {
				t.Errorf("%+v: nothing is kept a second before the end", c.o)
			}
			time.Sleep(2 * time.Second)
			run(t, cfg).next()
			if len(store.debts) != 0 {
				t.Errorf("%+v: %+v stays", c.o, store.debts)
			}
		}
	})
}

// TestFailingStoreStopsNothing and is told once, until it works again.
func TestFailingStoreStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{err: errors.New("no space left on device")}
		p := run(t, hostlimit.Config{Store: store, MaxWait: time.Minute})
		g, e := p.fetch(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		if g.StateErr != store.err || e.StateErr != nil || !e.Blocked { //nolint:errorlint // it is that very one
			t.Errorf("%v, %+v", g.StateErr, e)
		}
		for range 3 {
			time.Sleep(11 * time.Second)
			_, err := p.Acquire(t.Context(), storedKey, 0)
			var refused *hostlimit.Error
			if !errors.As(err, &refused) || !errors.Is(err, hostlimit.ErrBlocked) || refused.StateErr != nil {
				t.Errorf("%v, %+v", err, refused)
			}
		}
		if n := p.next(); n < 59*time.Minute {
			t.Errorf("a Store that has lost the block lifts it: next in %v", n)
		}
		// It is saved once the Store works again.
		store.err = nil
		time.Sleep(11 * time.Second)
		p.next()
		if d := store.debt(); d.Refusals != 1 || d.BlockedUntil.IsZero() {
			t.Errorf("kept: %+v", d)
		}
		store.err = errors.New("read-only file system")
		time.Sleep(11 * time.Second)
		if _, err := p.Acquire(t.Context(), storedKey, 0); !strings.Contains(errOf(err).Error(), "read-only") {
			t.Errorf("the second failure: %v", err)
		}
	})
}

// errOf is the StateErr of a refused turn.
func errOf(err error) error {
	var refused *hostlimit.Error
	if errors.As(err, &refused) && refused.StateErr != nil {
		return refused.StateErr
	}
	return errors.New("none")
}

// TestUpdatesOfAKeyAreCoalesced: one at a time, and those who wait for it find that it has saved
// what they had.
func TestUpdatesOfAKeyAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{takes: time.Second}
		running, most := 0, 0
		var mu sync.Mutex
		store.before = func() {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.AfterFunc(store.takes, func() {
				mu.Lock()
				running--
				mu.Unlock()
			})
		}
		p := run(t, hostlimit.Config{Store: store, Concurrency: 20, Delay: hostlimit.Delay{DangerouslyNone: true}})
		leases := make([]hostlimit.Lease, 20)
		for i := range leases {
			leases[i], _ = p.start(0)
		}
		time.Sleep(time.Second)
		loads := store.updates
		begin := time.Now()
		var wg sync.WaitGroup
		for _, l := range leases {
			wg.Go(func() { l.Observe(refusal) })
		}
		wg.Wait()
		if took := time.Since(begin); loads != 1 || store.updates-loads != 1 || most != 1 || took != time.Second {
			t.Errorf("%d loads; 20 refusals: %d updates, %d at once, in %v", loads, store.updates-loads, most, took)
		}
	})
}

// TestWhoHasNothingToSaveDoesNotWait for an Update of somebody else, however long that takes.
func TestWhoHasNothingToSaveDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		p := run(t, hostlimit.Config{Store: store, Concurrency: 3, Delay: hostlimit.Delay{DangerouslyNone: true}})
		started, _ := p.start(0)
		had, err := p.Acquire(t.Context(), storedKey, 0)
		if err != nil {
			t.Fatal(err)
		}
		store.takes = time.Hour
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			if err := p.Clear(t.Context(), storedKey); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		begin := time.Now()
		waited := func(call string) {
			t.Helper()
			if d := time.Since(begin); d > 0 {
				t.Errorf("%s took %v", call, d)
			}
			begin = time.Now()
		}
		started.Observe(ok)
		waited("Observe")
		started.Release()
		waited("Release")
		p.next()
		waited("Next")
		if _, err := had.Start(t.Context()); err != nil {
			t.Error(err)
		}
		waited("Start")
		l, _ := p.start(0)
		waited("Acquire and Start")
		l.Release()
		had.Release()
	})
}

// TestLearnedDelayIsKept at once where it grows, and once a minute where it shrinks.
func TestLearnedDelayIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		cfg := hostlimit.Config{Store: store, Concurrency: 1, Delay: hostlimit.Delay{Min: 100 * time.Millisecond}}
		p := run(t, cfg)
		p.fetch(hostlimit.Outcome{Status: 429, RetryAfter: time.Second})
		if learned := store.debt().Delay; learned < 150*time.Millisecond {
			t.Fatalf("learned %v", learned)
		}
		store.debts[storedKey] = hostlimit.Debt{Delay: 2 * time.Second}
		time.Sleep(10 * time.Second)
		updates := store.updates
		p.next()
		p.next()
		if n := store.updates - updates; n != 1 {
			t.Errorf("%d updates for what others have learned", n)
		}
		p.fetch(ok)
		writes, begin := store.writes, time.Now()
		for time.Since(begin) < 30*time.Minute+30*time.Second {
			p.fetch(ok)
		}
		if n := store.writes - writes; n < 4 || n > 31 || store.debt().Delay != 0 {
			t.Errorf("%d writes in thirty minutes; %v is left of 2s", n, store.debt().Delay)
		}
		keeps := func(when string) {
			t.Helper()
			for st, err := range p.List(t.Context()) {
				if d := store.debt().Delay; err != nil || d != st.Learned {
					t.Errorf("%s %v is kept, %v holds; %v", when, d, st.Learned, err)
				}
			}
		}
		for range 7 {
			time.Sleep(10 * time.Second)
			p.next()
		}
		keeps("a minute later")
		p.fetch(hostlimit.Outcome{Status: 429, RetryAfter: time.Second})
		keeps("after another refusal")
		store.debts[storedKey] = hostlimit.Debt{Delay: 900 * time.Millisecond}
		p = run(t, cfg)
		if l, g := p.start(0); g.Delay != 900*time.Millisecond || g.DelaySource != "learned" {
			t.Errorf("restored: %v, %s", g.Delay, g.DelaySource)
		} else {
			l.Release()
		}
		// Where nothing is learned any more nothing is taken over, and nothing is lost.
		cfg.Delay.Adaptive = hostlimit.Fixed
		if g, _ := run(t, cfg).fetch(ok); g.Delay != 100*time.Millisecond || store.debt().Delay != 900*time.Millisecond {
			t.Errorf("Fixed: %v, kept %v", g.Delay, store.debt().Delay)
		}
	})
}

// TestFarStartIsKeptBeforeItIsSent, and the stamp isn't older than what it took to keep it.
func TestFarStartIsKeptBeforeItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{takes: 300 * time.Millisecond}
		p := run(t, hostlimit.Config{Store: store, MaxWait: 10 * time.Hour})
		l, g := p.start(time.Hour)
		if g.Seq != 1 || !g.Start.Equal(time.Now()) {
			t.Errorf("number %d, stamped %v ago", g.Seq, time.Since(g.Start))
		}
		if d := store.debt(); d.NextStart.Before(g.Start.Add(time.Hour)) || d.NextStart.After(g.Start.Add(time.Hour+2*time.Second)) {
			t.Errorf("kept: %v after the start", d.NextStart.Sub(g.Start))
		}
		// A start that moves a little is kept already.
		updates := store.updates
		time.Sleep(100 * time.Millisecond)
		if g, err := l.Start(t.Context()); err != nil || g.Seq != 2 || !g.Start.Equal(time.Now()) {
			t.Errorf("again: %+v, %v", g, err)
		}
		if n := store.updates - updates; n > 1 {
			t.Errorf("a start that moved by 100 ms: %d updates", n)
		}
		l.Release()
		if n := run(t, p.Config()).next(); n < 59*time.Minute {
			t.Errorf("next in %v", n)
		}
		// A booking that led to no start isn't owed for.
		other, err := p.Acquire(t.Context(), "other", 2*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		if _, err := p.Next(t.Context(), "other", 0); err != nil {
			t.Error(err)
		}
		other.Release()
		if d := store.debts["other"]; d != (hostlimit.Debt{}) {
			t.Errorf("kept for a booking: %+v", d)
		}
	})
}

// TestAStartAMinuteAwayIsNotKept, and costs the Store nothing; one that is further away is kept.
func TestAStartAMinuteAwayIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for gap, kept := range map[time.Duration]bool{time.Minute: false, time.Minute + 1: true} {
			store := new(mapStore)
			p := run(t, hostlimit.Config{Store: store, Delay: hostlimit.Delay{Min: gap, Adaptive: hostlimit.Fixed}})
			l, _ := p.start(0)
			if costs := store.updates > 1; costs != kept {
				t.Errorf("%d updates for a start that lets the next come after %v", store.updates, gap)
			}
			l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
			if d := store.debt(); d.Refusals != 1 || d.NextStart.IsZero() == kept {
				t.Errorf("kept of a start that lets the next come after %v: %+v", gap, d)
			}
		}
	})
}

// TestAStampStaysBeforeABlock that is set while the start is being kept.
func TestAStampStaysBeforeABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		p := run(t, hostlimit.Config{Store: store, LeaseTTL: 10 * time.Hour})
		before, _ := p.start(0)
		time.Sleep(time.Hour)
		store.takes = time.Second
		begin := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, g := p.start(time.Hour) // Acquire and Start look at the Store, then the start is kept
			if at := g.Start.Sub(begin); at != 2*time.Second {
				t.Errorf("stamped after %v", at)
			}
		})
		time.Sleep(2*time.Second + time.Second/2)
		before.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Minute})
		wg.Wait()
	})
}

// TestStoreIsWaitedForNoLongerThanTheContext.
func TestStoreIsWaitedForNoLongerThanTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{takes: time.Minute}
		p := run(t, hostlimit.Config{Store: store})
		go func() { _, _ = p.Next(context.Background(), storedKey, 0) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := p.Acquire(ctx, storedKey, 0); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		time.Sleep(2 * time.Minute)
		// That it was given up is no fault of the Store.
		ctx, cancel = context.WithCancel(t.Context())
		store.before = func() {
			cancel()
			store.err = ctx.Err()
		}
		if _, err := p.Acquire(ctx, storedKey, 0); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		store.before, store.err = nil, nil
		if g, _ := p.fetch(ok); g.StateErr != nil {
			t.Errorf("told of the Store: %v", g.StateErr)
		}
	})
}

// TestRequestsInFlightDontLiftTheBlocksOfOthers: they started before it was known, and none of them is the
// probe that the others wait for after its end.
func TestRequestsInFlightDontLiftTheBlocksOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		cfg := hostlimit.Config{Store: store, Concurrency: 3, MaxWait: 10 * time.Hour, LeaseTTL: 10 * time.Hour}
		a, b := run(t, cfg), run(t, cfg)
		a.fetch(refusal)
		time.Sleep(2 * time.Second)
		probe, g := b.start(0)
		if !g.Probe {
			t.Fatalf("%+v", g)
		}
		time.Sleep(10 * time.Second)
		a.fetch(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		if n := b.next(); n < 59*time.Minute {
			t.Fatalf("next in %v", n)
		}
		begin := time.Now()
		second, g := b.start(0)
		if took := time.Since(begin); !g.Probe || took < 59*time.Minute || took > 61*time.Minute {
			t.Errorf("after %v: %+v", took, g)
		}
		if e := probe.Observe(ok); e.Cleared || e.Refusals != 2 {
			t.Errorf("a success of before the block: %+v", e)
		}
		if e := second.Observe(ok); !e.Cleared {
			t.Errorf("the probe's success: %+v", e)
		}
	})
}

// TestWaitersHearOfOthers: of their blocks and their longer delays as soon as anybody does.
func TestWaitersHearOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		maxWait, min time.Duration
		debt         hostlimit.Debt
		blocked      time.Duration // of debt
		why          error
	}{
		"block": {maxWait: 10 * time.Minute, min: time.Minute, debt: hostlimit.Debt{Refusals: 1}, blocked: time.Hour, why: hostlimit.ErrBlocked},
		"delay": {maxWait: 30 * time.Second, min: 20 * time.Second, debt: hostlimit.Debt{Delay: 50 * time.Second}, why: hostlimit.ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := new(mapStore)
				b := run(t, hostlimit.Config{Store: store, MaxWait: c.maxWait, Delay: hostlimit.Delay{Min: c.min}})
				b.fetch(ok)
				var waited time.Duration
				var wg sync.WaitGroup
				begin := time.Now()
				wg.Go(func() {
					_, err := b.Acquire(t.Context(), storedKey, 0)
					if waited = time.Since(begin); !errors.Is(err, c.why) {
						t.Error(err)
					}
				})
				synctest.Wait()
				if c.blocked > 0 {
					c.debt.BlockedUntil = time.Now().Add(c.blocked)
				}
				store.debts = map[string]hostlimit.Debt{storedKey: c.debt}
				time.Sleep(11 * time.Second)
				b.next()
				wg.Wait()
				if waited != 11*time.Second {
					t.Errorf("refused after %v", waited)
				}
			})
		})
	}
}

// TestFarStartsOfTwoProcesses: each looks at the Store before its start, however lately it did.
func TestFarStartsOfTwoProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := hostlimit.Config{Store: new(mapStore), MaxWait: time.Minute}
		a, b := run(t, cfg), run(t, cfg)
		other, err := b.Acquire(t.Context(), storedKey, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		a.start(time.Hour)
		if g, err := other.Start(t.Context()); !errors.Is(err, hostlimit.ErrBusy) {
			t.Errorf("%+v, %v", g, err)
		}
	})
}

// TestLongerDelayHolds where two processes have learned one.
func TestLongerDelayHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		p := run(t, hostlimit.Config{Store: store})
		p.fetch(ok)
		store.debts = map[string]hostlimit.Debt{storedKey: {Delay: 50 * time.Second}}
		p.fetch(hostlimit.Outcome{Status: 429, RetryAfter: time.Second})
		if d := store.debt().Delay; d != 50*time.Second {
			t.Errorf("kept %v", d)
		}
		if g, _ := p.fetch(ok); g.Delay != 50*time.Second {
			t.Errorf("delay %v", g.Delay)
		}
	})
}

// TestRefusalDuringAnUpdate isn't overwritten by what that Update brings.
func TestRefusalDuringAnUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{takes: time.Second}
		p := run(t, hostlimit.Config{Store: store, MaxWait: 10 * time.Hour})
		l, _ := p.start(0)
		time.Sleep(11 * time.Second)
		store.debts = map[string]hostlimit.Debt{storedKey: {BlockedUntil: time.Now().Add(time.Hour), Refusals: 2, Cause: "status 503"}}
		go p.Next(context.Background(), storedKey, 0) //nolint:errcheck // it only reads
		time.Sleep(time.Second / 2)
		l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 3 * time.Hour})
		if n := p.next(); n < 3*time.Hour-time.Minute {
			t.Errorf("next in %v", n)
		}
		if d := store.debt(); time.Until(d.BlockedUntil) < 3*time.Hour-time.Minute || d.Refusals != 2 {
			t.Errorf("kept %+v", d)
		}
	})
}

// TestBlockByHandReachesOtherProcesses within ten seconds of use, those who wait there included.
func TestBlockByHandReachesOtherProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := hostlimit.Config{Store: hostlimit.Dir(t.TempDir()), Concurrency: 1, MaxWait: 100 * time.Hour}
		a, b := run(t, cfg), run(t, cfg)
		a.fetch(ok)
		held, _ := b.start(0)
		refused := make(chan error)
		go func() {
			_, err := b.Acquire(t.Context(), storedKey, 0)
			refused <- err
		}()
		synctest.Wait()
		until := time.Now().Add(time.Hour)
		if err := a.Block(t.Context(), storedKey, until, "the owner has called"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		_, err := b.Acquire(t.Context(), storedKey, 0) // looks at the Store
		var e *hostlimit.Error
		if !errors.As(err, &e) || !errors.Is(err, hostlimit.ErrBlocked) || !strings.Contains(err.Error(), "by hand: the owner has called") || e.RetryAt.Before(until) {
			t.Errorf("one that comes: %v", err)
		}
		var waited *hostlimit.Error
		if err := <-refused; !errors.Is(err, hostlimit.ErrBlocked) || !errors.As(err, &waited) {
			t.Fatalf("one that waited: %v", err)
		}
		// Whoever has asked the Store is told, and both do now.
		if r := cmp.Or(e.Restored, waited.Restored); r == nil || r.Cause != "by hand: the owner has called" || e.Restored != nil && waited.Restored != nil {
			t.Errorf("restored: %+v and %+v", e.Restored, waited.Restored)
		}
		held.Release()
		if err := a.Clear(t.Context(), storedKey); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if g, _ := b.fetch(ok); g.Probe {
			t.Errorf("after Clear: %+v", g)
		}
	})
}

// TestBlockByHandHoldsWithoutItsStore, and says that it won't survive the process.
func TestBlockByHandHoldsWithoutItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{err: errors.New("disk full")}
		p := run(t, hostlimit.Config{Store: store})
		for range 2 {
			if err := p.Block(t.Context(), storedKey, time.Now().Add(time.Hour), "stop"); !errors.Is(err, store.err) {
				t.Errorf("Block: %v", err)
			}
		}
		if _, err := p.Acquire(t.Context(), storedKey, 0); !errors.Is(err, hostlimit.ErrBlocked) {
			t.Errorf("Acquire: %v", err)
		}
		if err := p.Clear(t.Context(), storedKey); !errors.Is(err, store.err) {
			t.Errorf("Clear: %v", err)
		}
		p.fetch(ok)
	})
}

// TestRequestsInFlightDontLiftALongerBlockOfOthers: it may count no further refusal.
func TestRequestsInFlightDontLiftALongerBlockOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		b := run(t, hostlimit.Config{Store: store, Concurrency: 3, MaxWait: 10 * time.Hour, LeaseTTL: 10 * time.Hour})
		b.fetch(refusal)
		time.Sleep(2 * time.Second)
		probe, g := b.start(0)
		if !g.Probe {
			t.Fatalf("%+v", g)
		}
		time.Sleep(11 * time.Second)
		// An answer to a request from before has lengthened the block elsewhere.
		d := store.debts[storedKey]
		d.BlockedAt, d.BlockedUntil = time.Now().Round(0).UTC(), time.Now().Add(time.Hour).Round(0).UTC()
		store.debts[storedKey] = d
		if n := b.next(); n < 59*time.Minute {
			t.Fatalf("next in %v", n)
		}
		if e := probe.Observe(ok); e.Cleared {
			t.Errorf("a success of before the block: %+v", e)
		}
		if n := b.next(); n < 59*time.Minute {
			t.Errorf("then the next may come in %v", n)
		}
	})
}

// TestARefusalCountsAfterOthersHaveCleared the block: their success says nothing about the answer to a
// request that was on its way.
func TestARefusalCountsAfterOthersHaveCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		b := run(t, hostlimit.Config{Store: store})
		b.fetch(refusal)
		time.Sleep(2 * time.Second)
		probe, g := b.start(0)
		if !g.Probe {
			t.Fatalf("%+v", g)
		}
		time.Sleep(11 * time.Second)
		delete(store.debts, storedKey)
		if n := b.next(); n != 0 {
			t.Fatalf("next in %v", n)
		}
		if e := probe.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Minute}); !e.Blocked || e.Refusals != 1 {
			t.Errorf("a refusal: %+v", e)
		}
		if n := b.next(); n != time.Minute {
			t.Errorf("the next may come in %v", n)
		}
	})
}

// TestTheCauseOfABlockIsKept: the next run says of it what this one says.
func TestTheCauseOfABlockIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, o := range map[string]hostlimit.Outcome{
			"status 429":    {Status: 429, RetryAfter: time.Hour},
			"status 503":    {Status: 503, RetryAfter: time.Hour},
			"status 599":    {Status: 599, RetryAfter: time.Hour},
			"network error": {Err: errors.New("connection refused")},
			"rate limit":    {Status: 200, Reset: time.Hour},
			"refused":       {Status: 200, Refused: "a challenge", RetryAfter: time.Hour},
		} {
			cfg := hostlimit.Config{
				Store:   new(mapStore),
				Backoff: backoff.Refusals{Policy: backoff.Doubling{}, Network: true, Statuses: []int{599}},
			}
			p := run(t, cfg)
			p.fetch(o)
			again := run(t, cfg)
			again.next() // reads what is kept
			for _, p := range []process{p, again} {
				for st, err := range p.List(t.Context()) {
					if err != nil || st.BlockedBy != want {
						t.Errorf("blocked by %q, want %q; %v", st.BlockedBy, want, err)
					}
				}
			}
		}
	})
}

// TestABlockByHandThatWasLiftedLeavesNothing: the block that another process has set since is the host's.
func TestABlockByHandThatWasLiftedLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		cfg := hostlimit.Config{Store: store, MaxWait: 10 * time.Hour}
		a, b := run(t, cfg), run(t, cfg)
		a.fetch(refusal)
		if err := a.Block(t.Context(), storedKey, time.Now().Add(10*time.Second), "maintenance"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		la, _ := a.start(0)
		lb, _ := b.start(0)
		lb.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		if e := la.Observe(ok); !e.Cleared {
			t.Fatalf("the success of a probe: %+v", e)
		}
		if d := store.debt(); d.Cause != "status 429" || time.Until(d.BlockedUntil) != time.Hour {
			t.Errorf("kept %+v", d)
		}
		if n := a.next(); n < time.Hour {
			t.Errorf("next in %v", n)
		}
	})
}

// TestLargerCounterHolds also where the block that ends later is ours.
func TestLargerCounterHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		p := run(t, hostlimit.Config{Store: store})
		l, _ := p.start(0)
		now := time.Now().Round(0).UTC()
		store.debts = map[string]hostlimit.Debt{storedKey: {Refusals: 4, BlockedAt: now, BlockedUntil: now.Add(time.Minute)}}
		l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		l.Release()
		if d := store.debt(); d.Refusals != 4 || !d.BlockedUntil.Equal(now.Add(time.Hour)) {
			t.Errorf("kept %+v", d)
		}
		for st, err := range p.List(t.Context()) {
			if err != nil || st.Refusals != 4 || !st.BlockedUntil.Equal(now.Add(time.Hour)) {
				t.Errorf("%+v, %v", st, err)
			}
		}
	})
}

// TestAKeptStartIsToldToThoseWhoWait for it.
func TestAKeptStartIsToldToThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().Round(0).UTC()
		store := &mapStore{debts: map[string]hostlimit.Debt{storedKey: {NextStart: now.Add(30 * time.Minute)}}}
		p := run(t, hostlimit.Config{Store: store})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		go func() { _, _ = p.Acquire(ctx, storedKey, 0) }()
		time.Sleep(10 * time.Minute)
		for st, err := range p.List(t.Context()) {
			if err != nil || st.Hold != "delay" || st.Why != "kept delay of 20m0s" {
				t.Errorf("%+v, %v", st, err)
			}
		}
	})
}

// TestALateAnswerIsKept, though its lease was taken back.
func TestALateAnswerIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		p := run(t, hostlimit.Config{Store: store})
		l, _ := p.start(0)
		time.Sleep(6 * time.Minute)
		p.next()
		p.fetch(ok)
		l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		if until := store.debt().BlockedUntil; time.Until(until) != time.Hour || !l.Release() {
			t.Errorf("kept until %v", until)
		}
	})
}

// TestALateRefusalByAForgottenKeyIsKept as any other.
func TestALateRefusalByAForgottenKeyIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		p := run(t, hostlimit.Config{Store: store, MaxHosts: 10})
		l, _ := p.start(0)
		time.Sleep(6 * time.Minute)
		p.fetch(ok) // takes it back
		for i := range 100 {
			other, err := p.Acquire(t.Context(), fmt.Sprint("other-", i), 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := other.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			other.Release()
			time.Sleep(time.Minute)
		}
		for st, err := range p.List(t.Context()) {
			if err != nil || st.Key == storedKey {
				t.Fatal("the key isn't forgotten", err)
			}
		}
		l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		if until := store.debt().BlockedUntil; time.Until(until) != time.Hour || !l.Release() {
			t.Errorf("kept until %v", until)
		}
	})
}

// TestTheLaterOfTwoFarStartsIsKept as it is: the time that it is kept with, to spare, is added for nobody.
func TestTheLaterOfTwoFarStartsIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		p := run(t, hostlimit.Config{Store: store})
		l, err := p.Acquire(t.Context(), storedKey, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		looks := store.updates
		store.before = func() { // another process has started while this one's start is kept
			if looks++; looks == 3 {
				store.debts = map[string]hostlimit.Debt{storedKey: {NextStart: time.Now().Add(30 * time.Minute).Round(0).UTC()}}
			}
		}
		if _, err := l.Start(t.Context()); err != nil || looks != 3 {
			t.Fatalf("%d looks, %v", looks, err)
		}
		if n := p.next(); n != time.Hour {
			t.Errorf("the next start may be in %v", n)
		}
	})
}

// TestBlockByHandKnowsTheKeysOwnLimits: a delay that others have learned is taken over as Override has it.
func TestBlockByHandKnowsTheKeysOwnLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := hostlimit.Limits{Delay: hostlimit.Delay{Min: time.Second, Ceiling: 5 * time.Second}}
		store := &mapStore{debts: map[string]hostlimit.Debt{storedKey: {Delay: 50 * time.Second}}}
		p := run(t, hostlimit.Config{Store: store, Override: func(string) (hostlimit.Limits, bool) { return own, true }})
		if err := p.Block(t.Context(), storedKey, time.Now().Add(time.Second), "maintenance"); err != nil {
			t.Fatal(err)
		}
		for st, err := range p.List(t.Context()) {
			if err != nil || st.Learned != 5*time.Second {
				t.Errorf("%+v, %v", st, err)
			}
		}
	})
}

// TestBlockByHandWhereOverrideMakesNoSense holds and is kept: only a turn needs the limits.
func TestBlockByHandWhereOverrideMakesNoSense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{debts: map[string]hostlimit.Debt{storedKey: {Delay: time.Second}}}
		p := run(t, hostlimit.Config{Store: store, Override: func(string) (hostlimit.Limits, bool) { return hostlimit.Limits{Concurrency: -1}, true }})
		until := time.Now().Add(time.Hour).Round(0).UTC()
		if err := p.Block(t.Context(), storedKey, until, "maintenance"); err != nil {
			t.Fatal(err)
		}
		if d := store.debt(); !d.BlockedUntil.Equal(until) {
			t.Errorf("kept %+v", d)
		}
		if err := p.Clear(t.Context(), storedKey); err != nil || store.debt() != (hostlimit.Debt{Delay: time.Second}) {
			t.Errorf("cleared: %+v, %v", store.debt(), err)
		}
	})
}

// TestADamagedFileIsMended by the next use of a process that knows what was in it.
func TestADamagedFileIsMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		cfg := hostlimit.Config{Store: store, MaxWait: time.Minute}
		p := run(t, cfg)
		p.fetch(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		kept := store.debt()
		store.debts, store.err = nil, errors.New("can't be understood")
		time.Sleep(11 * time.Second)
		p.next()
		store.err = nil
		time.Sleep(11 * time.Second)
		if n := p.next(); n < 59*time.Minute {
			t.Errorf("the block was lifted: next in %v", n)
		}
		if d := store.debt(); d != kept {
			t.Errorf("kept %+v, want %+v", d, kept)
		}
		if n := run(t, cfg).next(); n < 59*time.Minute {
			t.Errorf("in another process: next in %v", n)
		}
	})
}

// TestASuccessLiftsNothingThatCameAfterItsStart: the refusal of another process holds although the
// probe was answered later.
func TestASuccessLiftsNothingThatCameAfterItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		cfg := hostlimit.Config{Store: store, MaxWait: 10 * time.Hour}
		a, b := run(t, cfg), run(t, cfg)
		lb, _ := b.start(0)
		a.fetch(refusal)
		time.Sleep(2 * time.Second)
		probe, g := a.start(0)
		if !g.Probe {
			t.Fatalf("%+v", g)
		}
		time.Sleep(time.Second)
		lb.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		time.Sleep(time.Second)
		if e := probe.Observe(ok); !e.Cleared {
			t.Fatalf("the success of a probe: %+v", e)
		}
		for i, p := range []process{a, b, run(t, cfg)} {
			if n := p.next(); n < time.Hour-2*time.Second {
				t.Errorf("process %d: the next may come in %v", i, n)
			}
		}
	})
}

// TestAClearingComesAfterItsBlock, and a block after the last clearing, although the clock was set
// back in between.
func TestAClearingComesAfterItsBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().Round(0).UTC()
		store := &mapStore{debts: map[string]hostlimit.Debt{storedKey: {
			BlockedUntil: now.Add(2 * time.Hour), BlockedAt: now.Add(time.Hour), Refusals: 3, Cause: "status 429",
		}}}
		cfg := hostlimit.Config{Store: store, Delay: hostlimit.Delay{Adaptive: hostlimit.Fixed}}
		p := run(t, cfg)
		if err := p.Clear(t.Context(), storedKey); err != nil || len(store.debts) != 0 {
			t.Errorf("cleared: %+v, %v", store.debts, err)
		}
		if _, e := p.fetch(refusal); e.Refusals != 1 || store.debt().Refusals != 1 {
			t.Errorf("refused: %+v, kept %+v", e, store.debt())
		}
	})
}
