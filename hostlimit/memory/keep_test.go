package memory_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"

	"github.com/go-politeness/politeness/hostlimit/memory"
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
	*memory.Limiter
}

func run(t *testing.T, cfg hostlimit.Config) process {
	t.Helper()
	m, err := memory.New(cfg)
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
		updates := store.updates
		for range 100 {
			p.next()
		}
		if n := store.updates - updates; n > 0 {
			t.Errorf("%d updates in the second after one that failed", n)
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
		if n := store.writes - writes; n < 4 || n > 15 || store.debt().Delay != 0 {
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
			time.Sleep(gap) // an earlier process may have started a request just before
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

// TestAnEasedDelayYieldsToWhatOthersHaveLearned at the very Update that would save it.
func TestAnEasedDelayYieldsToWhatOthersHaveLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		p := run(t, hostlimit.Config{Store: store, Concurrency: 1, Delay: hostlimit.Delay{Min: 100 * time.Millisecond}})
		p.fetch(hostlimit.Outcome{Status: 429, RetryAfter: time.Second})
		begin, updates := time.Now(), store.updates
		store.before = func() {
			if time.Since(begin) >= time.Minute {
				store.before = nil
				store.debts[storedKey] = hostlimit.Debt{Delay: 5 * time.Second}
			}
		}
		for store.before != nil {
			p.fetch(ok)
		}
		if d := store.debt().Delay; d != 5*time.Second || store.updates == updates {
			t.Errorf("kept %v", d)
		}
		if g, _ := p.fetch(ok); g.Delay != 5*time.Second {
			t.Errorf("delay %v", g.Delay)
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

// TestABlockForEverHolds that another program has put into the Store.
func TestABlockForEverHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for year := 2200; year < 10_000; year += 100 {
			store := &mapStore{debts: map[string]hostlimit.Debt{storedKey: {
				BlockedUntil: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), BlockedAt: time.Now().Round(0).UTC(), Cause: "by hand: for good",
			}}}
			p := run(t, hostlimit.Config{Store: store})
			if l, err := p.Acquire(t.Context(), storedKey, 0); !errors.Is(err, hostlimit.ErrBlocked) {
				t.Errorf("blocked until %d: %v, %v", year, l, err)
			}
		}
	})
}

// TestClearHoldsOfAHostThatIsPushedOut while the Store is asked for what the host is owed.
func TestClearHoldsOfAHostThatIsPushedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		if err := run(t, hostlimit.Config{Store: store}).Block(t.Context(), storedKey, time.Now().Add(time.Hour), "maintenance"); err != nil {
			t.Fatal(err)
		}
		p := run(t, hostlimit.Config{Store: store, MaxHosts: 1})
		store.before = func() {
			store.before = nil
			if l, err := p.Acquire(context.Background(), "other.example", 0); err == nil {
				l.Release()
			}
		}
		if err := p.Clear(t.Context(), storedKey); err != nil {
			t.Fatal(err)
		}
		if d := store.debt(); !d.BlockedUntil.IsZero() {
			t.Errorf("Clear has returned, and the block stands: %+v", d)
		}
	})
}

// A panickingPolicy is a Policy with a fault.
type panickingPolicy struct{}

func (panickingPolicy) Delay(int) time.Duration { panic("policy") }

// TestFaultsOfPolicyAndStoreAreBothTold.
func TestFaultsOfPolicyAndStoreAreBothTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		p := run(t, hostlimit.Config{Store: store, Backoff: panickingPolicy{}})
		l, _ := p.start(0)
		store.err = errors.New("disk full")
		err := l.Observe(refusal).StateErr
		for _, text := range []string{"policy", "disk full"} {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%v, without %q", err, text)
			}
		}
	})
}
