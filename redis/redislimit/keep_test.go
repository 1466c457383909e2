package redislimit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/internal/redistest"
)

// keeper returns a Limiter as of a new process that keeps what it knows in dir, if that isn't empty.
func keeper(t *testing.T, s *redistest.Server, dir string) *Limiter {
	t.Helper()
	limits := hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, MaxWait: time.Minute}
	if dir != "" {
		limits.Store = hostlimit.Dir(dir)
	}
	client := newClient(t, s)
	l, err := newLimiter(Config{Client: client, Limits: limits}, 0, born())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// refused fails the test unless key is blocked, and returns the refusal.
func refused(t *testing.T, l *Limiter, key string) *hostlimit.Error {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key, 0)
	var e *hostlimit.Error
	if !errors.As(err, &e) || !errors.Is(err, hostlimit.ErrBlocked) {
		if lease != nil {
			lease.Release()
		}
		t.Fatalf("%s: %v, not blocked", key, err)
	}
	return e
}

// TestABlockSurvivesTheServersDataAndItsProcess on the disk of that process.
func TestABlockSurvivesTheServersDataAndItsProcess(t *testing.T) {
	t.Parallel()
	s, dir := ownServer(t), t.TempDir()
	first := keeper(t, s, dir)
	turn := acquire(t, first, "a.example", 0)
	end := time.Now().Add(time.Hour)
	if e := turn.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour}); !e.Blocked || e.StateErr != nil {
		t.Fatalf("Effect = %+v", e)
	}
	turn.Release()
	if err := first.Block(t.Context(), "b.example", end, "the owner has called"); err != nil {
		t.Fatal(err)
	}
	if err := first.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := newClient(t, s).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}

	second := keeper(t, s, dir)
	e := refused(t, second, "a.example")
	if off := e.RetryAt.Sub(end).Abs(); off > time.Minute {
		t.Errorf("RetryAt is %v away from the block's end", off)
	}
	if e.Restored == nil || e.Restored.Cause != "status 429" || e.Restored.Refusals != 1 {
		t.Errorf("Restored = %+v", e.Restored)
	}
	if e := refused(t, second, "a.example"); e.Restored != nil {
		t.Error("it was told twice")
	}
	refused(t, second, "b.example")
	// The server knows again, and whoever asks it.
	third := keeper(t, s, "")
	refused(t, third, "a.example")
	for state, err := range third.List(t.Context()) {
		if want := map[string]string{"a.example": "status 429", "b.example": "by hand: the owner has called"}[state.Key]; err != nil || state.BlockedBy != want {
			t.Errorf("%+v, %v", state, err)
		}
	}
}

// TestALiftedBlockStaysLifted although a Store of a process that wasn't there has it still.
func TestALiftedBlockStaysLifted(t *testing.T) {
	t.Parallel()
	s, dir := ownServer(t), t.TempDir()
	first := keeper(t, s, dir)
	if err := first.Block(t.Context(), "a.example", time.Now().Add(time.Hour), "test"); err != nil {
		t.Fatal(err)
	}
	if err := first.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := keeper(t, s, "").Clear(t.Context(), "a.example"); err != nil {
		t.Fatal(err)
	}
	ttl, err := newClient(t, s).TTL(t.Context(), first.parts[0].hostKey("a.example")).Result()
	if err != nil || ttl < time.Hour {
		t.Errorf("that it was lifted is remembered for %v, %v", ttl, err)
	}
	turn := acquire(t, keeper(t, s, dir), "a.example", 0)
	if turn.Grant.Restored != nil {
		t.Errorf("Restored = %+v", turn.Grant.Restored)
	}
	turn.Release()
}

// TestALearnedDelaySurvives what a block survives, where delays are learned.
func TestALearnedDelaySurvives(t *testing.T) {
	t.Parallel()
	s, dir := ownServer(t), t.TempDir()
	_, err := hostlimit.Dir(dir).Update(t.Context(), "a.example", func(d hostlimit.Debt) hostlimit.Debt {
		d.Delay = 300 * time.Millisecond
		return d
	})
	if err != nil {
		t.Fatal(err)
	}
	l := keeper(t, s, dir)
	first := acquire(t, l, "a.example", 0)
	first.Release()
	l.mu.Lock()
	if !l.host("a.example").keeping.recalled {
		t.Error("the Store would be read again")
	}
	l.mu.Unlock()
	second := acquire(t, l, "a.example", 0)
	second.Release()
	if gap := second.Start.Sub(first.Start); gap < 300*time.Millisecond || second.DelaySource != "learned" {
		t.Errorf("a gap of %v, %s", gap, second.DelaySource)
	}
}

// TestWhatOthersHaveSeenIsKeptToo, and forgotten when it is over.
func TestWhatOthersHaveSeenIsKeptToo(t *testing.T) {
	t.Parallel()
	s, dir := ownServer(t), t.TempDir()
	keeps, sees := keeper(t, s, dir), keeper(t, s, "")
	acquire(t, keeps, "a.example", 0).Release()
	debt := func() hostlimit.Debt {
		d, err := hostlimit.Dir(dir).Update(t.Context(), "a.example", func(d hostlimit.Debt) hostlimit.Debt { return d })
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %+v", what, debt())
			}
		}
	}
	turn := acquire(t, sees, "a.example", 0)
	turn.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
	turn.Release()
	until("the block isn't kept", func() bool { return debt().Refusals == 1 && time.Until(debt().BlockedUntil) > 50*time.Minute })
	if err := sees.Clear(t.Context(), "a.example"); err != nil {
		t.Fatal(err)
	}
	until("the block is kept still", func() bool { return debt().Refusals == 0 && debt().BlockedUntil.IsZero() })
}

// TestAStoreThatFailsStopsNothing, and is told of.
func TestAStoreThatFailsStopsNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := keeper(t, ownServer(t), filepath.Join(file, "dir"))
	turn := acquire(t, l, "a.example", 0)
	if e := turn.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour}); !e.Blocked || e.StateErr == nil {
		t.Errorf("Effect = %+v", e)
	}
	turn.Release()
	refused(t, l, "a.example")
}

// A slowStore is a Store that holds what it writes until it may go on.
type slowStore struct {
	hostlimit.Store
	writes, goOn chan struct{}
}

func (s slowStore) Update(ctx context.Context, key string, change func(hostlimit.Debt) hostlimit.Debt) (hostlimit.Debt, error) {
	return s.Store.Update(ctx, key, func(d hostlimit.Debt) hostlimit.Debt {
		is := change(d)
		if is != d {
			s.writes <- struct{}{}
			<-s.goOn
		}
		return is
	})
}

// TestWhatIsBeingSavedIsWaitedFor: a call that finds its change saved by another one returns when that
// has been written.
func TestWhatIsBeingSavedIsWaitedFor(t *testing.T) {
	t.Parallel()
	store := slowStore{hostlimit.Dir(t.TempDir()), make(chan struct{}, 9), make(chan struct{})}
	l := newFleet(t, shared, Config{Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, Store: store}}, 1)[0]
	until := time.Now().Add(time.Hour)
	returned := make(chan error, 2)
	go func() { returned <- l.Block(t.Context(), "a.example", until, "a test") }()
	<-store.writes
	go func() { returned <- l.Block(t.Context(), "a.example", until, "a test") }()
	select {
	case err := <-returned:
		t.Errorf("a block that isn't on the disk yet: %v", err)
		returned <- err
	case <-time.After(2 * heartbeat):
	}
	close(store.goOn)
	for range 2 {
		if err := <-returned; err != nil {
			t.Error(err)
		}
	}
}

// saved returns what a directory has of key.
func saved(t *testing.T, dir, key string) hostlimit.Debt {
	t.Helper()
	d, err := hostlimit.Dir(dir).Update(t.Context(), key, func(d hostlimit.Debt) hostlimit.Debt { return d })
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestABlockIsKeptWithoutTheServer: it is on the disk when Observe returns, also where this process
// goes on by itself.
func TestABlockIsKeptWithoutTheServer(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]Failure{"FailClosed": FailClosed, "FailLocal": FailLocal} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := ownServer(t), t.TempDir()
			l, err := newLimiter(Config{
				Client: impatient(t, s.Addr), Failure: failure, Processes: 1,
				Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, Store: hostlimit.Dir(dir)},
			}, 0, born())
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			turn := acquire(t, l, "a.example", 0)
			s.Kill()
			if failure == FailLocal {
				turn.Release()
				turn = acquire(t, l, "a.example", 0)
			}
			turn.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
			if d := saved(t, dir, "a.example"); time.Until(d.BlockedUntil) < 50*time.Minute || d.Refusals != 1 || d.Cause != "status 429" {
				t.Errorf("on the disk: %+v", d)
			}
			turn.Release()
		})
	}
}

// TestEachChangeOfABlockIsSavedOnce: its end, by the clock on the wall, and its cause; and while
// nothing changes, nothing is written.
func TestEachChangeOfABlockIsSavedOnce(t *testing.T) {
	t.Parallel()
	dir, end := t.TempDir(), time.Now().Add(time.Hour)
	store := slowStore{hostlimit.Dir(dir), make(chan struct{}, 99), make(chan struct{})}
	close(store.goOn)
	l := newFleet(t, shared, Config{Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, Store: store}}, 1)[0]
	quickest := time.Hour
	for i, c := range []struct {
		end   time.Time
		cause string
	}{{end, "a call"}, {end, "another call"}, {end.Add(time.Hour), "another call"}} {
		began := time.Now()
		if err := l.Block(t.Context(), "a.example", c.end, c.cause); err != nil {
			t.Fatal(err)
		}
		quickest = min(quickest, time.Since(began))
		// The server's clock is known to within the time of a reply, which is long on a busy machine.
		known := max(time.Second/4, quickest)
		if d := saved(t, dir, "a.example"); d.BlockedUntil.Sub(c.end).Abs() > known || d.Cause != "by hand: "+c.cause {
			t.Errorf("until %v by %q, want %v by %q", d.BlockedUntil, d.Cause, c.end, c.cause)
		}
		time.Sleep(2 * heartbeat)
		if n := len(store.writes); n != i+1 {
			t.Errorf("block %d: %d writes", i+1, n)
		}
	}
	if quickest >= observing {
		t.Errorf("each took %v or more, and nothing was let go before", quickest)
	}
}

// A faultyStore fails so often.
type faultyStore struct {
	hostlimit.Store
	fails *atomic.Int64
}

func (s faultyStore) Update(ctx context.Context, key string, change func(hostlimit.Debt) hostlimit.Debt) (hostlimit.Debt, error) {
	if s.fails.Add(-1) >= 0 {
		return hostlimit.Debt{}, errors.New("no space left on device")
	}
	return s.Store.Update(ctx, key, change)
}

// always is more often than a test asks a Store.
const always = 1 << 30

// TestAStoreThatFailedIsAskedAgain: what it couldn't save is saved later, and what it couldn't read is
// read later.
func TestAStoreThatFailedIsAskedAgain(t *testing.T) {
	t.Parallel()
	s, dir := ownServer(t), t.TempDir()
	store := faultyStore{hostlimit.Dir(dir), new(atomic.Int64)}
	begin := func(prefix string, store hostlimit.Store) *Limiter {
		l, err := newLimiter(Config{
			Client: newClient(t, s), Prefix: prefix, Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, MaxWait: time.Minute, Store: store},
		}, 0, born())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	first := begin("first:", store)
	turn := acquire(t, first, "a.example", 0)
	store.fails.Store(always) // a heartbeat may save it first, and have the first failure
	if e := turn.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour}); e.StateErr == nil {
		t.Errorf("Effect = %+v", e)
	}
	store.fails.Store(0)
	turn.Release()
	retry := func(l *Limiter) { // as if the pause after a failure were over
		l.mu.Lock()
		defer l.mu.Unlock()
		h := l.host("a.example")
		if h.keeping.retryAt <= l.now() {
			t.Error("a Store that has just failed is asked at once")
		}
		h.keeping.retryAt = 0
	}
	retry(first)
	eventually(t, time.Minute, "the block is on the disk", func() bool {
		return time.Until(saved(t, dir, "a.example").BlockedUntil) > 50*time.Minute
	})

	// A block by another process of which the Store can't be told is told of with the next refusal.
	store.fails.Store(1)
	if err := begin("first:", nil).Block(t.Context(), "c.example", time.Now().Add(time.Hour), "a test"); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the Store is told of the other process's block", func() bool { return store.fails.Load() <= 0 })
	eventually(t, time.Minute, "its error is told", func() bool { return refused(t, first, "c.example").StateErr != nil })

	second := begin("second:", store)
	store.fails.Store(always)
	acquire(t, second, "a.example", 0).Release() // the disk can't be read
	store.fails.Store(0)
	held := acquire(t, second, "b.example", 0) // keeps the process busy
	defer held.Release()
	retry(second)
	refused(t, second, "a.example")
}

// TestABlockForEverHolds that another program has put into the Store, also before the server has
// heard of it.
func TestABlockForEverHolds(t *testing.T) {
	t.Parallel()
	s, dir := ownServer(t), t.TempDir()
	debt := hostlimit.Debt{BlockedUntil: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), BlockedAt: time.Now().Round(0).UTC(), Cause: "by hand: for good"}
	if _, err := hostlimit.Dir(dir).Update(t.Context(), "a.example", func(hostlimit.Debt) hostlimit.Debt { return debt }); err != nil {
		t.Fatal(err)
	}
	l := keeper(t, s, dir)
	refused(t, l, "a.example")
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.host("b.example"); !h.recall(debt, new(hostlimit.Limits)) || !h.known.Refusals.Blocks(l.now()+10*365*24*time.Hour) {
		t.Errorf("%+v of %+v", h.known.Refusals, debt)
	}
}

// TestWhatTheStoreLacks is what a change of a block, or a longer delay, makes at once, and a shorter
// delay after a minute. The end of a block that moves by less than a second is none.
func TestWhatTheStoreLacks(t *testing.T) {
	const now, until = time.Hour, time.Hour + time.Minute
	was := rules.Refusals{Row: 1, Unsure: 1, Bans: 1, Until: until, Cause: "status 429", Learned: time.Second}
	for name, c := range map[string]struct {
		change func(h *host)
		lacks  bool
	}{
		"nothing":                     {func(*host) {}, false},
		"nothing for a minute":        {func(h *host) { h.keeping.savedAt = now - easing }, false},
		"a refusal":                   {func(h *host) { h.known.Refusals.Row++ }, true},
		"an unsure answer":            {func(h *host) { h.known.Refusals.Unsure++ }, true},
		"a ban":                       {func(h *host) { h.known.Refusals.Bans++ }, true},
		"an end a second later":       {func(h *host) { h.known.Refusals.Until += time.Second }, false},
		"an end more than that later": {func(h *host) { h.known.Refusals.Until += time.Second + 1 }, true},
		"a lifted block":              {func(h *host) { h.known.Refusals.Until = 0 }, true},
		"a block of before":           {func(h *host) { h.known.Refusals.Until, h.keeping.saved.Until = now, 0 }, false},
		"another cause":               {func(h *host) { h.known.Refusals.Cause = "by hand" }, true},
		"another cause, over": {func(h *host) {
			h.known.Refusals.Cause, h.known.Refusals.Until, h.keeping.saved.Until = "by hand", now, now
		}, false},
		"a longer delay":                 {func(h *host) { h.known.Refusals.Learned++ }, true},
		"a shorter delay":                {func(h *host) { h.known.Refusals.Learned-- }, false},
		"a shorter delay after a minute": {func(h *host) { h.known.Refusals.Learned--; h.keeping.savedAt = now - easing }, true},
		"a longer block that the server may not know": {func(h *host) {
			h.changes = []*change{{will: rules.Refusals{Row: 2, Until: until + 1}}}
		}, true},
		"a shorter one": {func(h *host) { h.changes = []*change{{will: rules.Refusals{Row: 2, Until: until - 1}}} }, false},
	} {
		l := idle(t, Config{Limits: hostlimit.Config{Store: hostlimit.Dir(t.TempDir())}})
		h := l.host("a.example")
		h.known.Refusals, h.keeping.saved, h.keeping.savedAt = was, was, now-easing+1
		if c.change(h); h.unsaved(now) != c.lacks {
			t.Errorf("%s: the Store lacks something: %t", name, h.unsaved(now))
		}
	}
}

// A debtStore is a Store of one key.
type debtStore struct {
	debt    hostlimit.Debt
	err     error
	calls   int
	between func()
}

func (s *debtStore) Update(_ context.Context, _ string, change func(hostlimit.Debt) hostlimit.Debt) (hostlimit.Debt, error) {
	if s.calls++; s.between != nil {
		s.between()
	}
	if s.err != nil {
		return hostlimit.Debt{}, s.err
	}
	s.debt = change(s.debt)
	return s.debt, nil
}

// TestWhatTheStoreHasIsReadUntilTheServerHasIt: once where it owes nothing, again where the server
// couldn't be told, and ten seconds after a failure.
func TestWhatTheStoreHasIsReadUntilTheServerHasIt(t *testing.T) {
	block := hostlimit.Debt{BlockedUntil: time.Now().Add(time.Hour), BlockedAt: time.Now(), Cause: "by hand: a call"}
	row := block
	row.Refusals, row.Cause = 2, "status 429"
	slow := hostlimit.Debt{Delay: 3 * time.Second}
	for name, c := range map[string]struct {
		store  debtStore
		leaves bool
		calls  int // of two recalls, and one more when the pause is over
	}{
		"nothing":      {debtStore{}, false, 1},
		"a block":      {debtStore{debt: block}, false, 3},
		"refusals":     {debtStore{debt: row}, false, 3},
		"a delay":      {debtStore{debt: slow}, false, 3},
		"a failure":    {debtStore{err: errors.New("no disk")}, false, 2},
		"who has left": {debtStore{debt: block}, true, 3},
	} {
		l := idle(t, Config{Limits: hostlimit.Config{Store: &c.store}})
		h, limits := l.host("a.example"), mustLimits(t, l, "a.example")
		for i := range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			if c.leaves {
				c.store.between = cancel
			}
			if i == 2 {
				h.keeping.retryAt = 0
			}
			if err := l.recall(ctx, h.key, limits); (err != nil) != c.leaves {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
		if c.store.calls != c.calls || l.stats.Calls > 0 {
			t.Errorf("%s: read %d times, want %d; %d calls of a server that is away", name, c.store.calls, c.calls, l.stats.Calls)
		}
		if failed := c.store.err != nil; (h.news.stateErr != nil) != failed || (h.keeping.retryAt > l.now()) != failed {
			t.Errorf("%s: told %v, again in %v", name, h.news.stateErr, h.keeping.retryAt-l.now())
		}
		owed := !c.leaves && c.store.debt != (hostlimit.Debt{})
		if h.known.Refusals.Blocks(l.now()) != (owed && !c.store.debt.BlockedUntil.IsZero()) || h.known.Refusals.Alone != (owed && c.store.debt.Refusals > 0) || owed && (h.known.Version != -1 || h.known.Refusals.Learned != c.store.debt.Delay) {
			t.Errorf("%s: %+v of version %d", name, h.known.Refusals, h.known.Version)
		}
	}
}

// TestAFailedSaveIsMadeTenSecondsLater, and what was saved isn't saved again.
func TestAFailedSaveIsMadeTenSecondsLater(t *testing.T) {
	store := &debtStore{err: errors.New("no disk")}
	l := idle(t, Config{Limits: hostlimit.Config{Store: store}})
	h := l.host("a.example")
	h.known.Refusals = rules.Refusals{Until: l.now() + time.Hour, Row: 1, Cause: "status 429"}
	if err := l.save(t.Context(), h.key); err == nil || h.keeping.retryAt < l.now()+retrying-5*time.Second || h.keeping.saved.Row > 0 {
		t.Errorf("%v, again in %v; saved %+v", err, h.keeping.retryAt-l.now(), h.keeping.saved)
	}
	store.err = nil
	for range 2 {
		if err := l.save(t.Context(), h.key); err != nil || h.keeping.retryAt != 0 || (time.Until(store.debt.BlockedUntil)-time.Hour).Abs() > time.Minute || store.calls != 2 {
			t.Errorf("%v after %d calls, again at %v; saved %+v", err, store.calls, h.keeping.retryAt, store.debt)
		}
	}
}

// TestAHeartbeatLeavesAFailedStoreAlone: it wants to save a block while this process does, whose call
// then fails.
func TestAHeartbeatLeavesAFailedStoreAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := make(chan bool)
		store := &debtStore{err: errors.New("no disk"), between: func() { <-fail }}
		l := idle(t, Config{Limits: hostlimit.Config{Store: store}})
		h := l.host("a.example")
		h.known.Refusals = rules.Refusals{Until: l.now() + time.Hour, Row: 1, Cause: "status 429"}
		saved := make(chan error, 1)
		go func() { saved <- l.save(t.Context(), h.key) }()
		synctest.Wait()
		go l.keepRound(false)
		synctest.Wait() // it waits for that call
		close(fail)
		synctest.Wait()
		if err := <-saved; err == nil || store.calls != 1 {
			t.Errorf("%v, after %d calls", err, store.calls)
		}
	})
}
