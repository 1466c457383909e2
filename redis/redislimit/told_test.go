package redislimit

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/redislimit/internal/known"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// TestWhatARestoreTells the server that has lost its data: what is owed, counted from now, with the
// leases that live.
func TestWhatARestoreTells(t *testing.T) {
	h := idleHost(t, hostlimit.Config{LeaseTTL: time.Minute})
	limits := mustLimits(t, h.l, h.key)
	h.restore(later, true)
	if len(h.p.ops) != 0 {
		t.Error("of a host that owes nothing")
	}
	h.known.Next = later + 1
	if h.restore(later, false); len(h.p.ops) != 1 {
		t.Error("not the next start")
	}
	h.known.Next, h.p.ops = later, nil
	h.known.Refusals = rules.Refusals{Until: later + 30*time.Second, Cause: "status 429", Alone: true, Row: 2, Learned: 5 * time.Second}
	h.known.Refusals.EasedAt = later - 7*time.Second
	if h.restore(later, false); len(h.p.ops) != 0 {
		t.Error("a block, to a server that has lost slots alone")
	}
	h.known.Next, h.known.Version, h.known.Served, h.known.ServedSince = later+3*time.Second, 9, 3, later-8*time.Second
	for id, renewed := range map[string]time.Duration{"live": later - 10*time.Second, "expired": later - time.Minute, "parked": later} {
		h.leases[id] = &lease{id: id, limits: limits, phase: held, asks: 4, delay: time.Second, granted: granting{delay: 2 * time.Second}, use: use{renewed: renewed, unshared: true}}
	}
	h.leases["parked"].phase = parked
	for _, last := range []wire.Micros{-1 << 52, -1_000_000} {
		h.p.ops = nil
		h.restore(later, true)
		if len(h.p.ops) != 1 {
			t.Fatalf("%d operations", len(h.p.ops))
		}
		want := &wire.Restore{
			Next: 3_000_000, Last: last, Leases: []wire.Lease{{ID: "live", Seq: 4, Left: 50_000_000, Delay: 2_000_000}},
			Lost: &wire.Lost{
				Version: 9, Until: 30_000_000, Cause: "status 429", Alone: true, Row: 2, Learned: 5_000_000, EasedAt: -7_000_000,
				Rest: known.Rest(h.known.Refusals), Served: 3, Since: -8_000_000,
			},
		}
		if got := h.p.ops[0].build(later); !reflect.DeepEqual(got, want) {
			t.Errorf("told %#v\nwant %#v", got, want)
		}
		h.known.Started, h.known.Last = true, later-time.Second
	}
	if h.leases["live"].use.unshared || !h.leases["expired"].use.unshared {
		t.Error("the server knows of the lease that it was told of, and of no other one")
	}
	for fate, again := range map[fate]int{did: 0, broken: 0, stale: 1, lost: 1} {
		h.p.restoring, h.p.ops = 0, nil
		h.restore(later, true)
		restore := h.p.ops[0]
		h.p.ops = nil
		if restore.done(reply{fate: fate, received: later}); len(h.p.ops) != again || h.p.restoring != again {
			t.Errorf("fate %d: %d operations, %d under way", fate, len(h.p.ops), h.p.restoring)
		}
	}
}

// TestWhatAServerReportsHolds, also where that is less than what was known, but for what it may have
// lost and wasn't told yet.
func TestWhatAServerReportsHolds(t *testing.T) {
	const before = later + 10*time.Second
	for name, c := range map[string]struct {
		until      time.Duration // as reported
		version    int64         // 5 is known
		restoring  bool
		want       time.Duration
		row        int
		asksAgain  bool
		knownUntil time.Duration // 0: before
	}{
		"the same":                  {until: before, version: 5, want: before, row: 1},
		"a shorter block":           {until: before - 1000, version: 6, want: before - 1000, row: 2},
		"a longer one":              {until: before + 1000, version: 6, want: before + 1000, row: 2},
		"a lifted one":              {until: later, version: 6, want: later, row: 2, asksAgain: true},
		"no block, as it is known":  {until: later, version: 6, want: later, row: 2, knownUntil: later},
		"one that ends in a moment": {until: later + 1000, version: 6, want: later + 1000, row: 2},
		"a shorter one, of a server that was reset": {until: before - 1000, version: 5, restoring: true, want: before, row: 1},
		"a longer one, of a server that was reset":  {until: before + 1000, version: 4, restoring: true, want: before + 1000, row: 1},
		"none, of a server that was reset":          {until: later, version: 0, restoring: true, want: before, row: 1},
		"what others have told it since":            {until: before + 1000, version: 6, restoring: true, want: before + 1000, row: 2},
	} {
		h := idleHost(t, hostlimit.Config{})
		if c.knownUntil == 0 {
			c.knownUntil = before
		}
		h.known.Refusals, h.known.ServerUntil, h.known.Version = rules.Refusals{Until: c.knownUntil, Row: 1, Alone: true, Learned: time.Second - 1}, micros(c.knownUntil), 5
		waits := &lease{l: h.l, h: h, phase: waiting, wait: wait{next: before, wake: make(chan struct{}, 1)}}
		h.waiters = []*lease{waits}
		if c.restoring {
			h.p.restoring = 1
		}
		i := wire.Report{Until: micros(c.until), Version: c.version, Alone: true, Rest: known.Rest(rules.Refusals{Row: 2}), Learned: micros(time.Second), Served: 7}
		if c.row == 1 {
			i.Row = 1
		}
		h.learn(i, reply{server: micros(later), received: later})
		if h.known.Refusals.Until != c.want || h.known.Refusals.Row != c.row || (waits.wait.next == 1) != c.asksAgain {
			t.Errorf("%s: until %v, want %v; %d in a row, want %d; waiters ask again: %t", name, h.known.Refusals.Until, c.want, h.known.Refusals.Row, c.row, waits.wait.next == 1)
		}
		if taken := !c.restoring || c.version > 5; (h.known.Served == 7) != taken {
			t.Errorf("%s: %d served", name, h.known.Served)
		}
		if c.version == 5 && h.known.Refusals.Learned != time.Second-1 && !c.restoring {
			t.Errorf("%s: a delay of %v, which is the same in microseconds", name, h.known.Refusals.Learned)
		}
	}
}

// TestTheHostIsInTrouble while a block, or the wait for a probe, holds it.
func TestTheHostIsInTrouble(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(h *host)
		want bool
	}{
		"not":                        {func(*host) {}, false},
		"a probe":                    {func(h *host) { h.known.Refusals.Alone = true }, true},
		"a block":                    {func(h *host) { h.known.Refusals.Until = later + 1 }, true},
		"a block that is over":       {func(h *host) { h.known.Refusals.Until = later }, false},
		"a block that is on its way": {func(h *host) { h.changes = []*change{{will: rules.Refusals{Until: later + 1}}} }, true},
		"the hours":                  {func(h *host) { h.wait.opens = later + 1 }, true},
	} {
		h := idleHost(t, hostlimit.Config{})
		if c.set(h); h.inTrouble(later) != c.want {
			t.Errorf("%s: %t", name, h.inTrouble(later))
		}
	}
}

// TestWaitersThatComeTooLateAreRefused at once, but for a block that a person may have lifted since the
// server told of it: then the first one asks.
func TestWaitersThatComeTooLateAreRefused(t *testing.T) {
	const until = time.Hour
	for name, c := range map[string]struct {
		set    func(h *host, now time.Duration)
		limits [2]time.Duration // latest starts of two waiters, from now
		phase  phase            // of the first one
		want   [2]bool          // they are refused
	}{
		"a block":               {func(h *host, now time.Duration) { h.known.Refusals.Until = now + until }, [2]time.Duration{until - 1, 2 * until}, parked, [2]bool{true, false}},
		"one that ends in time": {func(h *host, now time.Duration) { h.known.Refusals.Until = now + until }, [2]time.Duration{until, until}, parked, [2]bool{false, true}},
		"one behind the other":  {func(h *host, now time.Duration) { h.known.Refusals.Until = now + until }, [2]time.Duration{until, until + time.Second}, parked, [2]bool{false, false}},
		"one that asks":         {func(h *host, now time.Duration) { h.known.Refusals.Until = now + until }, [2]time.Duration{until - 1, until - 1}, asking, [2]bool{false, true}},
		"one that was let go":   {func(h *host, now time.Duration) { h.known.Refusals.Until = now + until }, [2]time.Duration{until - 1, until - 1}, granted, [2]bool{false, true}},
		"a block of old": {func(h *host, now time.Duration) {
			h.known.Refusals.Until, h.known.AsOf = now+until, micros(now-pollBlock)-1000
		}, [2]time.Duration{until - 1, until - 1}, parked, [2]bool{false, false}},
		"the delay, long ago": {func(h *host, now time.Duration) { h.known.Next, h.known.AsOf = now+until, 0 }, [2]time.Duration{until - 1, until - 1}, parked, [2]bool{true, true}},
		"a block of old in an outage": {func(h *host, now time.Duration) {
			h.known.Refusals.Until, h.known.AsOf, h.p.down = now+until, 0, errReset
		}, [2]time.Duration{until - 1, until - 1}, parked, [2]bool{true, true}},
	} {
		h := idleHost(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second, Max: 2 * time.Second}})
		now := h.l.now()
		h.p.down, h.l.closed = nil, true // it sends nothing
		h.p.clock.At, h.known.AsOf = now, micros(now)
		first, second := h.waiter(t, now), h.waiter(t, now)
		first.phase, first.wait.limit, second.wait.limit = c.phase, now+c.limits[0], now+c.limits[1]
		c.set(h, now)
		h.refuseLate()
		if got := [2]bool{first.phase == over, second.phase == over}; got != c.want {
			t.Errorf("%s: refused %v, want %v", name, got, c.want)
		}
	}
}

func TestAllWhoComeTooLateAreRefusedAtOnce(t *testing.T) {
	h := idleHost(t, hostlimit.Config{})
	for range 3 {
		h.waiter(t, later)
	}
	h.known.Next = later + 2*time.Hour
	if h.refuseLate(); len(h.waiters) != 0 {
		t.Errorf("%d wait", len(h.waiters))
	}
}

// TestWhoIsNextIsWoken when the first one leaves, and nobody when another one does.
func TestWhoIsNextIsWoken(t *testing.T) {
	for leaves, woken := range []int{1, 0} {
		h := idleHost(t, hostlimit.Config{})
		waiters := []*lease{h.waiter(t, later), h.waiter(t, later), h.waiter(t, later)}
		h.leave(waiters[leaves])
		if next := waiters[1-leaves]; len(next.wait.wake) != woken || len(waiters[2].wait.wake) != 0 || h.waiters[0] != next {
			t.Errorf("number %d leaves: the first one is woken %d times", leaves, len(next.wait.wake))
		}
		h.leave(waiters[leaves]) // has left
		h.leave(h.waiters[0])
		h.leave(h.waiters[0])
	}
}

// TestAHaltWakesWhoWasLetGo, so that the turn is asked for again.
func TestAHaltWakesWhoWasLetGo(t *testing.T) {
	for phase, woken := range map[phase]int{parked: 0, waiting: 0, granted: 1} {
		h := idleHost(t, hostlimit.Config{})
		w := h.waiter(t, later)
		w.phase = phase
		if h.halt(later); len(w.wait.wake) != woken || h.known.BlockSeen != later {
			t.Errorf("phase %d: woken %d times", phase, len(w.wait.wake))
		}
	}
}

// TestTheGapCountsFromTheEnd where a request asks for that, and is no shorter than it was.
func TestTheGapCountsFromTheEnd(t *testing.T) {
	for _, c := range []struct{ next, last, delay, want time.Duration }{
		{0, 0, time.Second, time.Second}, {later + time.Minute, later - time.Second, time.Second, 61 * time.Second}, {later + time.Second, later - time.Second, 3 * time.Second, 3 * time.Second},
	} {
		h := idleHost(t, hostlimit.Config{})
		h.known.Next, h.known.Last = c.next, c.last
		if h.known.Finish(later, c.delay); h.known.Next != later+c.want || h.known.Last != later {
			t.Errorf("%+v: next in %v, last %v ago", c, h.known.Next-later, later-h.known.Last)
		}
	}
}

func TestALeaseThatWasTakenBackStartsNothing(t *testing.T) {
	h := idleHost(t, hostlimit.Config{})
	w := h.inFlight(t, h.l.now())
	delete(h.leases, w.id)
	if _, err := w.Start(t.Context()); err == nil || err.Error() != (&hostlimit.Error{Key: h.key, Err: h.l.rules.Ended()}).Error() {
		t.Error(err)
	}
}

// TestARenewedLeaseIsTold once a quarter of its life is over, by who has it.
func TestARenewedLeaseIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(w *lease)
		told bool
	}{
		"late":             {func(*lease) {}, true},
		"early":            {func(w *lease) { w.use.renewed = w.l.now() - 10*time.Second }, false},
		"after Close":      {func(w *lease) { w.l.closed = true }, false},
		"of this process":  {func(w *lease) { w.use.unshared = true }, false},
		"that was expired": {func(w *lease) { delete(w.h.leases, w.id) }, false},
	} {
		h := idleHost(t, hostlimit.Config{LeaseTTL: time.Minute})
		w := h.inFlight(t, h.l.now()-15*time.Second)
		c.set(w)
		was := w.use.renewed
		if w.Renew(); (len(h.p.ops) == 1) != c.told || (w.use.renewed > was) != c.told {
			t.Errorf("%s: told %d times", name, len(h.p.ops))
		}
	}
}

// TestWhatAHostOwesIsRemembered until it owes nothing, its refusals until they are forgiven. The number
// of its last start is kept beyond that.
func TestWhatAHostOwesIsRemembered(t *testing.T) {
	const forgive = 30 * time.Minute
	for name, c := range map[string]struct {
		set  func(h *host)
		owes bool
	}{
		"nothing":                  {func(*host) {}, false},
		"the next start":           {func(h *host) { h.known.Next = later + 1 }, true},
		"a start that may be now":  {func(h *host) { h.known.Next = later }, false},
		"a block":                  {func(h *host) { h.known.Refusals.Until = later + 1 }, true},
		"a block that is over":     {func(h *host) { h.known.Refusals.Until = later }, false},
		"refusals since its end":   {func(h *host) { h.known.Refusals.Until, h.known.Refusals.Row = later-forgive+1, 1 }, true},
		"refusals since its start": {func(h *host) { h.known.Last, h.known.Refusals.Row = later-forgive+1, 1 }, true},
		"forgiven refusals": {func(h *host) {
			h.known.Last, h.known.Refusals.Until, h.known.Refusals.Row = later-forgive, later-forgive, 1
		}, false},
		"a change": {func(h *host) { h.changes = []*change{{}} }, true},
		"a lease":  {func(h *host) { h.leases["1"] = &lease{phase: held, use: use{renewed: later - time.Minute + 1}} }, true},
		"a lease that leaked": {func(h *host) {
			h.leases["1"] = &lease{id: "1", h: h, l: h.l, limits: new(hostlimit.Limits), phase: held, use: use{renewed: later - time.Minute}}
		}, false},
	} {
		for seq := range uint64(2) {
			h := idleHost(t, hostlimit.Config{LeaseTTL: time.Minute})
			h.seq = seq
			c.set(h)
			h.l.sweep(later)
			_, kept := h.l.hosts[h.key]
			if inUse := strings.HasPrefix(name, "a lease") && kept || name == "a change"; (h.p.uses.inUse == 1) != inUse {
				t.Errorf("%s: %d in use", name, h.p.uses.inUse)
			}
			if kept != c.owes || h.owes(later) != c.owes || h.p.uses.atRisk == 0 == c.owes || (h.l.numbers.starts.Len() == 1) != (!kept && seq > 0) {
				t.Errorf("%s: kept %t, %d at risk, %d numbers after start %d", name, kept, h.p.uses.atRisk, h.l.numbers.starts.Len(), seq)
			}
		}
	}
}
