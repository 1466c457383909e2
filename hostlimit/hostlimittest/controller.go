package hostlimittest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// controls are for steering by an operator: the [hostlimit.Controller], priorities, limits that
// change, and the reports of a [hostlimit.Watcher].
var controls = []scenario{
	{
		"BlockStopsAThousandWaiters", blockStopsAll,
		"All that wait are refused at once with ErrBlocked and RetryAt; no request starts after Block has returned.",
	},
	{
		"BlockRefusesNewcomers", blockRefusesNewcomers,
		"Until its end a turn is refused at once, however short the block; then requests start, without a probe.",
	},
	{
		"BlockHoldsAgainstAnswers", blockHoldsAgainstAnswers,
		"No answer lifts it, and one that asks for longer lengthens it.",
	},
	{
		"BlockStopsAStart", blockStopsAStart,
		"The Start of a lease that is held is refused, and the one that waits for its start as well.",
	},
	{
		"BlockShortensNothing", blockShortensNothing,
		"A block that ends later keeps its end.",
	},
	{
		"ClearLiftsEveryBlock", clearLifts,
		"Clear lifts the block of a person and that of the host, and forgets the refusals.",
	},
	{
		"ClearWakesWhoWaits", clearWakes,
		"Requests that wait for the end of a block start when it is cleared.",
	},
	{
		"ListShowsWhoBlocked", listShows,
		"List shows that a key is blocked by hand, why, and until when.",
	},
	{
		"StateIsThatOfTheList", stateIsListed,
		"State returns the state of one key as List yields it: starts, slots, refusals, block, cause, delays.",
	},
	{
		"StateOfAnUnknownKey", stateOfUnknown,
		"State of a key that the limiter doesn't know has no starts and no block, and doesn't make the key known.",
	},
	{
		"StateEndsWithItsContext", stateEnds,
		"State returns ctx's error when ctx is cancelled.",
	},
	{
		"HandsAreOnRecordOnce", handsAreTold,
		"The next Grant or Error of the key reports the latest act of a person, once.",
	},
	{
		"ActsAreReportedOnce", actsAreReported,
		"With OnAct, Block, Clear and Drain each call one receiver once, before they return; no Grant or Error " +
			"reports the act then. Drain does so before it refuses a request.",
	},
	{
		"BadBlocksAreErrors", badBlocks,
		"A Block that has ended already, or says no reason, is an error and blocks nothing.",
	},
	{
		"DrainWaitsForWhatIsInFlight", drains,
		"Drain returns once nothing is in flight; requests that wait or come are refused with ErrDraining at once.",
	},
	{
		"DrainGivesUpWithItsContext", drainGivesUp,
		"Drain returns when its context ends, and nothing starts all the same.",
	},
	{
		"PriorityGoesFirst", priorities,
		"Of the requests that wait the one with the highest priority starts next; equal ones start in the order " +
			"in which they came.",
	},
	{
		"OverrideHoldsForThoseWaiting", overrides,
		"The limits of Override when a request starts hold for it, however long it has waited.",
	},
	{
		"LongWaitIsTold", tellsWaits,
		"A Watcher receives why its request waits: at once if the wait is known to take longer than a " +
			"second, else after a second.",
	},
	{
		"ShortWaitIsNotTold", tellsNothing,
		"A Watcher hears nothing of a wait that is shorter.",
	},
}

// handOutlives lets a new process begin after every act.
func handOutlives(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	restart := func() { s.limiter = s.newLimiter(s, s.cfg) }
	refused := func(until time.Time, why string) {
		s.Helper()
		_, err := s.try(s.Context(), s.key, 0)
		s.stopped(err, until, why)
		if n := s.next(0); n.Before(until.Add(-tick)) {
			s.Errorf("Next is %v before the end of the block", until.Sub(n))
		}
	}
	until := s.block(age, "the owner has called")
	for range 2 {
		restart()
		refused(until, "the owner has called")
	}
	restart()
	s.block(tick, "and called again") // only the Store knows that there is a longer block
	refused(until, "")                // two blocks were merged: either reason will do
	restart()
	s.clear() // only the Store knows of the block
	t := s.take()
	if t.Probe {
		s.Error("the first request after Clear is a probe")
	}
	restart()
	e := s.answer(s.take(), 429, age)
	if e.Refusals != 1 {
		s.Errorf("after Clear refusals go on being counted: %+v", e)
	}
	restart()
	s.clear()
	restart()
	if t := s.take(); t.Probe {
		s.Error("the first request after Clear is a probe")
	}
}

// block blocks the scene's key.
func (s *scene) block(d time.Duration, why string) (until time.Time) {
	s.Helper()
	until = time.Now().Add(d)
	if err := s.limiter.Block(s.Context(), s.key, until, why); err != nil {
		s.Fatalf("Block: %v", err)
	}
	return until
}

func (s *scene) clear() {
	s.Helper()
	if err := s.limiter.Clear(s.Context(), s.key); err != nil {
		s.Fatalf("Clear: %v", err)
	}
}

// stopped checks the refusal of a turn because of a block by hand.
func (s *scene) stopped(err error, until time.Time, why string) {
	s.Helper()
	var refused *hostlimit.Error
	switch {
	case !errors.As(err, &refused) || !errors.Is(err, hostlimit.ErrBlocked):
		s.Errorf("want a refusal as ErrBlocked, have %v", err)
	case !strings.Contains(err.Error(), "by hand: "+why):
		s.Errorf("the refusal %q doesn't say who blocks, and why", err)
	case refused.RetryAt.Sub(until).Abs() > skew:
		s.Errorf("refused until %v, want %v", refused.RetryAt, until)
	}
}

func blockStopsAll(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, Concurrency: 2})
	var returned atomic.Pointer[time.Time]
	var refused atomic.Int64
	var blockedUntil time.Time
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			t, err := s.try(s.Context(), s.key, 0)
			if err != nil {
				refused.Add(1)
				s.stopped(err, blockedUntil, "the owner has called") // set before Block is called
				return
			}
			if end := returned.Load(); end != nil && t.Start.After(*end) {
				s.Errorf("a request started %v after Block had returned", t.Start.Sub(*end))
			}
			s.done(t)
		})
	}
	time.Sleep(10 * tick)
	begin := time.Now()
	blockedUntil = begin.Add(age)
	if err := s.limiter.Block(s.Context(), s.key, blockedUntil, "the owner has called"); err != nil {
		s.Fatal(err)
	}
	now := time.Now()
	returned.Store(&now)
	wg.Wait()
	if refused.Load() == 0 {
		s.Error("all thousand had started before the block")
	}
	if d := time.Since(begin); d > stuck {
		s.Errorf("those who waited were refused after %v", d)
	}
	s.audit()
}

func blockRefusesNewcomers(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	until := s.block(20*tick, "too much")
	if n := s.next(0); n.Before(until.Add(-tick)) {
		s.Errorf("Next is %v before the end of the block", until.Sub(n))
	}
	_, err := s.try(s.Context(), s.key, 0)
	if time.Now().Before(until) { // else the machine was busy
		s.stopped(err, until, "too much")
	}
	time.Sleep(time.Until(until) + tick)
	t, err := s.try(s.Context(), s.key, 0)
	for err != nil && time.Since(until) < skew {
		s.stopped(err, until, "too much")
		time.Sleep(tick)
		t, err = s.try(s.Context(), s.key, 0)
	}
	if err != nil {
		s.Fatalf("no turn after the block: %v", err)
	}
	if t.Probe {
		s.Error("the first request after a block by hand is a probe")
	}
	s.done(t)
	other, err := s.try(s.Context(), newKey(), 0)
	if err != nil {
		s.Fatalf("another key: %v", err)
	}
	s.done(other)
}

func blockHoldsAgainstAnswers(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 3})
	a := s.take()
	b := s.take()
	c := s.take()
	until := s.block(age, "stop")
	if e := s.answer(a, 200, 0); e.Cleared {
		s.Errorf("a success: %+v", e)
	}
	_, err := s.try(s.Context(), s.key, 0)
	s.stopped(err, until, "stop")
	if e := s.answer(b, 429, tick); e.Until.Before(until.Add(-tick)) {
		s.Errorf("a refusal for a moment: %+v", e)
	}
	before := time.Now()
	s.answer(c, 429, 2*age)
	_, err = s.try(s.Context(), s.key, 0)
	s.stopped(err, before.Add(2*age), "stop")
}

func blockStopsAStart(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: 20 * tick}})
	held, err := s.limiter.Acquire(s.Context(), s.key, 0)
	if err != nil {
		s.Fatal(err)
	}
	defer held.Release()
	until := s.block(age, "stop")
	_, err = held.Start(s.Context())
	s.stopped(err, until, "stop")

	s.key = newKey()
	s.done(s.take())
	gated, err := s.limiter.Acquire(s.Context(), s.key, 0)
	if err != nil {
		s.Fatal(err)
	}
	defer gated.Release()
	if _, err := gated.Start(s.Context()); err != nil {
		s.Fatal(err)
	}
	second, err := s.limiter.Acquire(s.Context(), s.key, 0)
	if err != nil {
		s.Fatal(err)
	}
	defer second.Release()
	ended := make(chan error)
	go func() {
		_, err := gated.Start(s.Context()) // waits, because the last start is the booking of the second request
		ended <- err
	}()
	time.Sleep(5 * tick)
	until = s.block(age, "stop")
	if err := <-ended; err != nil { // else it was late enough to start
		s.stopped(err, until, "stop")
	}
}

func blockShortensNothing(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	e := s.answer(s.take(), 429, age)
	s.block(tick, "for a moment")
	_, err := s.try(s.Context(), s.key, 0)
	s.stopped(err, e.Until, "for a moment")
	until := s.block(2*age, "for longer")
	_, err = s.try(s.Context(), s.key, 0)
	s.stopped(err, until, "for longer")
	s.block(age, "for less")
	_, err = s.try(s.Context(), s.key, 0)
	s.stopped(err, until, "for less")
}

func clearLifts(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	s.block(age, "stop")
	s.clear()
	if t := s.take(); t.Probe {
		s.Error("the first request after Clear is a probe")
	} else if e := s.answer(t, 429, age); e.Refusals != 1 {
		s.Errorf("a first refusal: %+v", e)
	}
	s.clear()
	if t := s.take(); t.Probe {
		s.Error("the first request after Clear is a probe")
	} else if e := s.answer(t, 429, age); e.Refusals != 1 {
		s.Errorf("after Clear refusals go on being counted: %+v", e)
	}
	s.clear()
	s.clear() // a second Clear isn't an error
	s.done(s.take())
}

func clearWakes(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	s.answer(s.take(), 429, age)
	ended := make(chan error)
	go func() {
		t, err := s.try(s.Context(), s.key, 0)
		if err == nil {
			s.done(t)
		}
		ended <- err
	}()
	time.Sleep(5 * tick)
	s.clear()
	if err := <-ended; err != nil { // after a minute, if it isn't woken
		s.Error(err)
	}
}

func listShows(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	until := s.block(age, "the owner has called")
	found := 0
	for h, err := range s.limiter.List(s.Context()) {
		if err != nil {
			s.Fatal(err)
		}
		if h.Key != s.key {
			continue
		}
		found++
		if h.BlockedBy != "by hand: the owner has called" || h.BlockedUntil.Sub(until).Abs() > skew {
			s.Errorf("listed as %+v, blocked until %v", h, until)
		}
	}
	if found != 1 {
		s.Errorf("a blocked key is listed %d times", found)
	}
}

// state returns the limiter's state of key.
func (s *scene) state(key string) hostlimit.HostState {
	s.Helper()
	state, err := s.limiter.State(s.Context(), key)
	if err != nil {
		s.Fatalf("State: %v", err)
	}
	return state
}

// listed returns the state of key by List; ok is false if List doesn't yield it.
func (s *scene) listed(key string) (state hostlimit.HostState, ok bool) {
	s.Helper()
	for h, err := range s.limiter.List(s.Context()) {
		if err != nil {
			s.Fatalf("List: %v", err)
		}
		if h.Key == key {
			state = h
			ok = true
		}
	}
	return state, ok
}

// awaitInFlight waits for a moment until a key has so many requests in flight: a limiter that
// several processes share may hear of the end of one a little later.
func (s *scene) awaitInFlight(key string, want int) {
	for range 200 {
		if s.state(key).InFlight == want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func stateIsListed(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: tick}, Concurrency: 3})
	served := s.key
	refused := newKey()
	blocked := newKey()
	s.answer(s.takeKey(served, 0), 200, 0)
	inFlight := s.takeKey(served, 0)
	defer s.done(inFlight)
	s.answer(s.takeKey(refused, 0), 429, age)
	until := time.Now().Add(age)
	if err := s.limiter.Block(s.Context(), blocked, until, "the owner has called"); err != nil {
		s.Fatalf("Block: %v", err)
	}
	for _, want := range []hostlimit.HostState{
		{Key: served, Starts: 2, InFlight: 1, Slots: 3},
		{Key: refused, Starts: 1, Slots: 3, BlockedUntil: until, BlockedBy: "status 429", Refusals: 1},
		{Key: blocked, Slots: 3, BlockedUntil: until, BlockedBy: "by hand: the owner has called"},
	} {
		s.awaitInFlight(want.Key, want.InFlight)
		state := s.state(want.Key)
		listed, ok := s.listed(want.Key)
		if !ok {
			s.Errorf("List doesn't yield %s", want.Key)
		}
		for from, have := range map[string]hostlimit.HostState{"State": state, "List": listed} {
			off := have.BlockedUntil.Sub(want.BlockedUntil).Abs()
			if off > skew || want.BlockedUntil.IsZero() != have.BlockedUntil.IsZero() {
				s.Errorf("%s: blocked until %v by %s, want %v", want.Key, have.BlockedUntil, from, want.BlockedUntil)
			}
			if have.Next.Before(have.BlockedUntil) {
				s.Errorf("%s: next start at %v by %s, blocked until %v", want.Key, have.Next, from, have.BlockedUntil)
			}
			counts := hostlimit.HostState{
				Key:       have.Key,
				Starts:    have.Starts,
				InFlight:  have.InFlight,
				Slots:     have.Slots,
				BlockedBy: have.BlockedBy,
				Refusals:  have.Refusals,
			}
			counts.BlockedUntil = want.BlockedUntil
			if counts != want {
				s.Errorf("%s by %s:\n%+v, want\n%+v", want.Key, from, counts, want)
			}
		}
		if state.Delay != listed.Delay {
			s.Errorf("%s: delay %v, by List %v", want.Key, state.Delay, listed.Delay)
		}
		if state.Learned != listed.Learned {
			s.Errorf("%s: learned %v, by List %v", want.Key, state.Learned, listed.Learned)
		}
	}
}

func stateOfUnknown(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 3})
	for range 2 {
		state := s.state(s.key)
		if state.Key != s.key || state.Slots != 3 {
			s.Errorf("key %q with %d slots, want %q with 3", state.Key, state.Slots, s.key)
		}
		if state.Starts+uint64(state.InFlight+state.Waiters+state.Refusals) > 0 {
			s.Errorf("the unknown key has a past: %+v", state)
		}
		if state.BlockedBy != "" || !state.BlockedUntil.IsZero() {
			s.Errorf("the unknown key is blocked by %q until %v", state.BlockedBy, state.BlockedUntil)
		}
	}
	if state, ok := s.listed(s.key); ok {
		s.Errorf("State has made the key known: List yields %+v", state)
	}
}

func stateEnds(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := s.limiter.State(ctx, s.key); !errors.Is(err, context.Canceled) {
		s.Errorf("after its context has ended State returns error %v", err)
	}
}

func handsAreTold(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	begin := time.Now()
	until := s.block(age, "stop")
	told := 0
	for range 3 {
		_, err := s.try(s.Context(), s.key, 0)
		var refused *hostlimit.Error
		if !errors.As(err, &refused) {
			s.Fatal(err)
		}
		if act := refused.ByHand; act != nil {
			told++
			inTime := !act.BlockedAt.Before(begin.Add(-skew)) && !act.BlockedAt.After(time.Now().Add(skew))
			if act.Cause != "by hand: stop" || act.BlockedUntil.Sub(until).Abs() > skew || !inTime {
				s.Errorf("the block is told as %+v", act)
			}
		}
	}
	if told != 1 {
		s.Errorf("the block is told %d times", told)
	}
	s.clear()
	told = 0
	for range 3 {
		t := s.take()
		if act := t.ByHand; act != nil {
			told++
			if act.ClearedAt.IsZero() || !act.BlockedUntil.IsZero() {
				s.Errorf("Clear is told as %+v", act)
			}
		}
		s.done(t)
	}
	if told != 1 {
		s.Errorf("Clear is told %d times", told)
	}
}

// An actLog receives the acts of people.
type actLog struct {
	mu   sync.Mutex
	acts []hostlimit.Act
}

// take returns the acts since the last call.
func (a *actLog) take() []hostlimit.Act {
	a.mu.Lock()
	defer a.mu.Unlock()
	acts := a.acts
	a.acts = nil
	return acts
}

func (a *actLog) add(act hostlimit.Act) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acts = append(a.acts, act)
	return true
}

func actsAreReported(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1})
	limiter, ok := s.limiter.(interface {
		OnAct(f func(hostlimit.Act) bool)
	})
	if !ok {
		s.Skip("it has no OnAct: the next Grant or Error reports an act")
	}
	var waits chan error // of a request that waits during Drain
	refusedFirst := false
	log := new(actLog)
	for range 2 { // as two Transports do that share the limiter
		limiter.OnAct(func(a hostlimit.Act) bool {
			if a.Drained {
				time.Sleep(5 * tick)
				refusedFirst = len(waits) > 0
			}
			return log.add(a)
		})
	}

	s.block(age, "stop")
	acts := log.take()
	if len(acts) != 1 || acts[0].Key != s.key || acts[0].ByHand == nil || acts[0].ByHand.Cause != "by hand: stop" {
		s.Errorf("the receivers of a Block got %+v", acts)
	}
	_, err := s.try(s.Context(), s.key, 0)
	var refused *hostlimit.Error
	if !errors.As(err, &refused) || refused.ByHand != nil {
		s.Errorf("the next error reports the Block again: %v", err)
	}
	s.clear()
	acts = log.take()
	if len(acts) != 1 || acts[0].Key != s.key || acts[0].ByHand == nil || acts[0].ByHand.ClearedAt.IsZero() {
		s.Errorf("the receivers of a Clear got %+v", acts)
	}
	flying := s.take()
	if flying.ByHand != nil {
		s.Errorf("the next Grant reports the Clear again: %+v", flying.ByHand)
	}

	waits = make(chan error, 1)
	go func() {
		_, err := s.limiter.Acquire(s.Context(), s.key, 0)
		waits <- err
	}()
	time.Sleep(5 * tick)
	drained := make(chan error, 2)
	for range 2 {
		go func() { drained <- s.limiter.Drain(s.Context()) }()
	}
	if err := <-waits; !errors.Is(err, hostlimit.ErrDraining) {
		s.Errorf("one that waited: %v", err)
	}
	s.done(flying)
	for range 2 {
		if err := <-drained; err != nil {
			s.Error(err)
		}
	}
	acts = log.take()
	if len(acts) != 1 || !acts[0].Drained {
		s.Errorf("the receivers of two Drains got %+v", acts)
	}
	if refusedFirst {
		s.Error("a request was refused before the drain was reported")
	}
}

func badBlocks(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	for name, bad := range map[string]struct {
		in  time.Duration
		why string
	}{
		"until": {-age, "stop"},
		"why":   {age, " "},
		"bytes": {age, strings.Repeat("stop", 1000)},
	} {
		err := s.limiter.Block(s.Context(), s.key, time.Now().Add(bad.in), bad.why)
		if err == nil || !strings.Contains(err.Error(), name) {
			s.Errorf("Block for %v, %.10q: %v", bad.in, bad.why, err)
		}
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if err := s.limiter.Block(ctx, s.key, time.Now().Add(age), "stop"); !errors.Is(err, context.Canceled) {
		s.Errorf("Block with a context that is done: %v", err)
	}
	if err := s.limiter.Clear(ctx, s.key); !errors.Is(err, context.Canceled) {
		s.Errorf("Clear with a context that is done: %v", err)
	}
	s.done(s.take())
}

func drains(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1})
	flying := s.take()
	waits := make(chan error, 1)
	go func() {
		_, err := s.limiter.Acquire(s.Context(), s.key, 0)
		waits <- err
	}()
	time.Sleep(5 * tick)
	drained := make(chan error, 1)
	go func() { drained <- s.limiter.Drain(s.Context()) }()
	if err := <-waits; !errors.Is(err, hostlimit.ErrDraining) {
		s.Errorf("one that waited: %v", err)
	}
	for _, key := range []string{s.key, newKey()} {
		if _, err := s.try(s.Context(), key, 0); !errors.Is(err, hostlimit.ErrDraining) {
			s.Errorf("one that comes: %v", err)
		}
	}
	if _, err := flying.lease.Start(s.Context()); !errors.Is(err, hostlimit.ErrDraining) {
		s.Errorf("a further Start: %v", err)
	}
	select {
	case err := <-drained:
		s.Fatalf("Drain returned with a request in flight: %v", err)
	case <-time.After(5 * tick):
	}
	s.done(flying)
	if err := <-drained; err != nil {
		s.Error(err)
	}
	if err := s.limiter.Drain(s.Context()); err != nil {
		s.Errorf("a second Drain: %v", err)
	}
}

func drainGivesUp(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	flying := s.take()
	defer s.done(flying)
	ctx, cancel := context.WithTimeout(s.Context(), 5*tick)
	defer cancel()
	if err := s.limiter.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("with a request in flight: %v", err)
	}
	if _, err := s.try(s.Context(), s.key, 0); !errors.Is(err, hostlimit.ErrDraining) {
		s.Errorf("one that comes: %v", err)
	}
}
