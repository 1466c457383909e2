package redislimit

import (
	"cmp"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/redislimit/internal/clock"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// TestWhatAQuestionSays: times are counted from now.
func TestWhatAQuestionSays(t *testing.T) {
	h := idleHost(t, hostlimit.Config{Concurrency: 3, Delay: hostlimit.Delay{Min: time.Second, Max: 2 * time.Second, Ceiling: 9 * time.Second}})
	w := h.waiter(t, later-4*time.Second)
	w.floor, w.delay, w.start.take, w.wait.rank = 1500*time.Millisecond, 1700*time.Millisecond, 7, 5
	for asks := range int64(2) {
		w.question()
		want := &wire.Take{
			ID: w.id, Seq: asks + 1, Started: 7, Slots: 3, Longest: micros(time.Hour), Least: 1_500_000, Ceiling: 9_000_000,
			Delay: 1_700_000, Floor: 1_500_000, Rank: 5, Ago: 4_000_000,
		}
		if got := h.p.ops[asks].build(later); !reflect.DeepEqual(got, want) {
			t.Errorf("%#v\nwant %#v", got, want)
		}
	}
}

// TestTheNextWaiterAsksAlong where the first one is about to start, and only then.
func TestTheNextWaiterAsksAlong(t *testing.T) {
	for _, c := range []struct {
		planned time.Duration
		second  phase
		want    phase
	}{{1, parked, asking}, {0, parked, parked}, {1, inLine, inLine}} {
		h := idleHost(t, hostlimit.Config{})
		first, second := h.waiter(t, later), h.waiter(t, later)
		first.wait.planned, second.phase = c.planned, c.second
		if first.ask(); second.phase != c.want || first.phase != asking {
			t.Errorf("%+v: %d and %d", c, first.phase, second.phase)
		}
		h.waiters = h.waiters[:1]
		first.ask() // nobody is next
	}
}

// TestTheDelayHasASource, which names what is longest.
func TestTheDelayHasASource(t *testing.T) {
	for _, c := range []struct {
		learned, adaptive, delay, floor time.Duration
		want                            string
	}{
		{delay: 1000, want: "random"},
		{delay: 3000, floor: 3000, want: "crawl-delay"},
		{delay: 1000, floor: 1000, want: "random"}, // it is the least delay anyway
		{delay: 3000, floor: 2000, want: "random"},
		{delay: 3000, adaptive: 4000, want: "adaptive"},
		{delay: 3000, adaptive: 3000, want: "random"},
		{delay: 3000, adaptive: 4000, learned: 5000, want: "learned"},
		{delay: 3000, adaptive: 4000, learned: 4000, want: "adaptive"},
		{delay: 3000, floor: 3000, learned: 3000, want: "crawl-delay"},
	} {
		w := &lease{limits: &hostlimit.Limits{Delay: hostlimit.Delay{Min: 1000}}, delay: c.delay, floor: c.floor}
		if got := w.source(wire.Report{Learned: micros(c.learned), Adaptive: micros(c.adaptive)}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestWhatMakesAGrantVoid: another state or clock of the server, and a block that was seen since, in
// that very instant, or is under way.
func TestWhatMakesAGrantVoid(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(h *host, w *lease)
		at    time.Duration
		valid bool
	}{
		"nothing":                     {func(*host, *lease) {}, later + time.Second, true},
		"another generation":          {func(h *host, _ *lease) { h.p.gen.name = "2" }, 0, false},
		"a step of the clock":         {func(h *host, _ *lease) { h.p.gen.stepped = -time.Second }, 0, false},
		"a block since":               {func(h *host, _ *lease) { h.known.BlockSeen = later }, 0, false},
		"a block at that instant":     {func(h *host, _ *lease) { h.known.BlockSeen = later - time.Second }, 0, false},
		"a block before":              {func(h *host, _ *lease) { h.known.BlockSeen = later - time.Second - 1 }, later + time.Second, true},
		"a block that is on its way":  {func(h *host, _ *lease) { h.changes = []*change{{will: rules.Refusals{Until: later + 1}}} }, 0, false},
		"one that is over":            {func(h *host, _ *lease) { h.changes = []*change{{will: rules.Refusals{Until: later}}} }, later + time.Second, true},
		"a gap to another start here": {func(h *host, _ *lease) { h.known.Started, h.known.Last, h.known.Gap = true, later, 3*time.Second }, later + 3*time.Second, true},
		"a shorter gap":               {func(h *host, _ *lease) { h.known.Started, h.known.Last, h.known.Gap = true, later, time.Second/2 }, later + time.Second, true},
		"a gap to its own start": {func(h *host, w *lease) {
			h.known.Started, h.known.Last, h.known.Gap, h.known.LastBy = true, later, 3*time.Second, w
		}, later + time.Second, true},
		"no start here": {func(h *host, _ *lease) { h.known.Last, h.known.Gap = later, 3*time.Second }, later + time.Second, true},
	} {
		h := idleHost(t, hostlimit.Config{})
		w := h.waiter(t, later)
		h.p.gen.name, w.granted = "1", granting{at: micros(later + time.Second), gen: "1", heard: reply{received: later - time.Second}}
		c.set(h, w)
		if at, valid := w.window(later); at != c.at || valid != c.valid {
			t.Errorf("%s: at %v, valid %t", name, at, valid)
		}
	}
}

// TestWhatAStartOwes: its delay to the next one here, whatever the server says of others, and its
// time on the server's clock, as late as that may be.
func TestWhatAStartOwes(t *testing.T) {
	for _, c := range []struct{ next, g, want time.Duration }{
		{0, 0, later + time.Second}, {later + 2*time.Second, 0, later + 2*time.Second}, {0, later + 3*time.Second + time.Millisecond, later + 3*time.Second},
	} {
		h := idleHost(t, hostlimit.Config{})
		h.p.clock.Lo, h.p.clock.Hi = time.Millisecond, 5*time.Millisecond
		w := h.waiter(t, later)
		w.asks, h.known.Next, w.granted = 4, c.next, granting{at: micros(later - time.Second), delay: time.Second, source: "random", report: wire.Report{Next: micros(c.g)}}
		w.stamp(later)
		if h.known.Next != c.want || h.known.Gap != time.Second || h.known.Source != "random" || h.known.Last != later || h.known.LastBy != w || w.start.seq != 1 || w.start.take != 4 {
			t.Errorf("%+v: next %v, gap %v by %s; start %d of question %d", c, h.known.Next, h.known.Gap, h.known.Source, w.start.seq, w.start.take)
		}
		if w.start.stamp != micros(later+time.Millisecond) || w.start.by != micros(later+5*time.Millisecond)+1 || w.start.began != later {
			t.Errorf("at %d, by %d, began %v", w.start.stamp, w.start.by, w.start.began)
		}
		w.granted.at += micros(2 * time.Second)
		if w.stamp(later); w.start.stamp != micros(later+time.Second) {
			t.Errorf("a start that the server's clock shows no earlier: at %d", w.start.stamp)
		}
	}
}

// TestAStartIsToldAtOnceWhereOthersWait for longer than a call is worth; else with the next call.
func TestAStartIsToldAtOnceWhereOthersWait(t *testing.T) {
	const delay = 64 * time.Millisecond
	for _, c := range []struct {
		left             time.Duration // of the room for a late start
		others, together bool
		atOnce           bool
	}{
		{time.Second, false, false, false}, {time.Second, true, false, true}, {time.Second, false, true, true}, {delay / worth, true, true, false},
	} {
		h := idleHost(t, hostlimit.Config{})
		w := h.waiter(t, later)
		if !c.together {
			h.waiters = nil
		}
		h.l.mu.Lock()
		h.p.down = nil
		w.granted = granting{at: micros(later), guard: micros(c.left) + 1, delay: delay, others: c.others}
		w.stamp(later)
		atOnce := h.p.timer != nil
		if atOnce {
			h.p.timer.Stop()
		}
		h.p.ops, h.p.timer = nil, nil
		h.l.mu.Unlock()
		if atOnce != c.atOnce {
			t.Errorf("%+v: at once: %t", c, atOnce)
		}
	}
}

// TestWhenARefusedTurnMayComeBack: when the host is free, or else after as long as it has waited, or
// once a lease expires.
func TestWhenARefusedTurnMayComeBack(t *testing.T) {
	for _, c := range []struct{ next, expiry, want time.Duration }{
		{later + time.Minute, later + 1, later + time.Minute},
		{later, 0, later + 3*time.Second},
		{0, later + time.Second, later + time.Second},
		{0, later + 4*time.Second, later + 3*time.Second},
		{0, later, later + 3*time.Second},
	} {
		h := idleHost(t, hostlimit.Config{})
		w := h.waiter(t, later-3*time.Second)
		h.known.Next, h.wait.expiry = c.next, c.expiry
		if got := w.retry(later); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestWhatIsGivenBack: a turn, or only the question of a lease that has started by an earlier one.
func TestWhatIsGivenBack(t *testing.T) {
	for _, c := range []struct {
		asks, start int64
		undone      bool
	}{{3, 0, true}, {3, 3, false}, {4, 3, true}} {
		h := idleHost(t, hostlimit.Config{Concurrency: 2})
		w, other := h.waiter(t, later), h.waiter(t, later)
		w.asks, w.start.take, w.start.by, w.phase = c.asks, c.start, 9, waiting
		h.l.places.line = []*lease{other, w}
		w.refuse(errors.New("it has left"))
		if got, want := h.p.ops[0].request, (&wire.Release{ID: w.id, Slots: 2, Undone: c.undone, Started: c.start, By: 9}); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %v", c, got)
		}
		if !reflect.DeepEqual(h.l.places.line, []*lease{other}) || !reflect.DeepEqual(h.waiters, []*lease{other}) {
			t.Errorf("the line, and the waiters: %v, %v", h.l.places.line, h.waiters)
		}
	}
}

// TestWhenAQueuedTurnAsksAgain: a push tells it of its turn, and what isn't pushed it finds out: that a
// lease has expired, how a probe has ended, or all, where nobody listens.
func TestWhenAQueuedTurnAsksAgain(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		place        int
		why          string
		expiry, full time.Duration // from later
		deaf         bool
		want         time.Duration // from later; 0: it is refused
		retryAt      time.Duration
		waited       time.Duration // 0: a minute
	}{
		"for a slot":                    {place: 0, why: "s", expiry: time.Hour, want: pollQueue + ms},
		"at another place":              {place: 4, why: "s", expiry: time.Hour, want: pollQueue + 5*ms},
		"once a lease has expired":      {place: 1, why: "s", expiry: time.Second, want: time.Second + 2*ms},
		"of one that should have":       {place: 1, why: "s", expiry: -time.Second, want: 2 * ms},
		"for a probe":                   {place: 2, why: "p", expiry: time.Hour, want: pollProbe},
		"deaf":                          {place: 2, why: "s", expiry: time.Hour, deaf: true, want: 3 * pollDeaf},
		"deaf, far behind":              {place: 200, why: "s", expiry: time.Hour, deaf: true, want: time.Second},
		"until the slots' time is over": {place: 0, why: "s", expiry: time.Hour, full: -9 * time.Second, want: time.Second},
		"all slots for too long":        {place: 0, why: "s", expiry: time.Second / 2, full: -10 * time.Second, retryAt: time.Second / 2},
		"longer than it has waited":     {place: 0, why: "s", expiry: time.Hour, full: -time.Hour, want: 4 * time.Second, waited: 6 * time.Second},
	} {
		h := idleHost(t, hostlimit.Config{SlotTimeout: 10 * time.Second})
		w := h.waiter(t, later-cmp.Or(c.waited, time.Minute))
		w.phase, w.wait.planned, h.l.sub.listening = asking, 1, !c.deaf
		full := wire.Micros(0)
		if c.full != 0 {
			full = micros(later + c.full)
		}
		w.answered(reply{received: later, server: micros(later), answer: &wire.Turn{
			Head: wire.Head{Kind: wire.Full}, Place: c.place, Why: c.why, FullSince: full, Expiry: micros(later + c.expiry), First: micros(later - 77*time.Second),
		}})
		refused, _ := errors.AsType[*hostlimit.Error](w.wait.err)
		switch {
		case c.want == 0 && (refused == nil || refused.RetryAt != h.l.base.Add(later+c.retryAt) || !strings.Contains(w.wait.err.Error(), "1m17s")):
			t.Errorf("%s: %v", name, w.wait.err)
		case c.want > 0 && (w.phase != waiting || w.wait.next != later+c.want || w.wait.planned != 0):
			t.Errorf("%s: phase %d, again in %v, %v", name, w.phase, w.wait.next-later, w.wait.err)
		}
	}
}

// TestWhenAPlannedTurnAsks: a moment before its start, and from time to time where a block may be lifted.
func TestWhenAPlannedTurnAsks(t *testing.T) {
	for name, c := range map[string]struct {
		in, from     time.Duration // the start, and the server's clock, from later
		why          string
		until, opens time.Duration // of the block that is known, and of the hours, from later
		next         time.Duration // from later; 0: it is refused
	}{
		"a delay":                             {in: 2 * time.Second, why: "d", next: 2*time.Second - askAhead},
		"by a clock that may have been slow":  {in: 2 * time.Second, from: time.Second, why: "d", next: time.Second - askAhead},
		"a block":                             {in: 2 * time.Second, why: "b", until: 3 * time.Second, next: 2*time.Second - askAhead},
		"a long block":                        {in: time.Minute, why: "b", until: time.Minute, next: pollBlock},
		"a block that is over":                {in: 6 * time.Second, why: "d", until: 0, next: 6*time.Second - askAhead},
		"the hours":                           {in: time.Minute, why: "h", opens: time.Minute, next: time.Minute - askAhead},
		"at the latest time":                  {in: time.Hour, why: "d", next: time.Hour - askAhead},
		"too late":                            {in: time.Hour + time.Microsecond, why: "d"},
		"too late for the end of the block":   {in: time.Minute, why: "b", until: time.Hour + 1},
		"too late for a start that is before": {in: time.Minute, why: "d", opens: time.Hour + 1},
	} {
		h := idleHost(t, hostlimit.Config{})
		w := h.waiter(t, later)
		w.phase, h.known.Refusals.Until, h.wait.opens, h.known.AsOf = waiting, later+c.until, later+c.opens, micros(later)
		w.pushed(&wire.Push{Due: micros(later + c.in), Now: micros(later + c.from), Why: c.why}, later)
		refused := c.next == 0
		if due := later + max(c.in, c.until); !refused && (w.wait.next != later+c.next || c.why == "b" && w.wait.planned != due) || refused != (w.phase == over) {
			t.Errorf("%s: phase %d, planned in %v, asks in %v, %v", name, w.phase, w.wait.planned-later, w.wait.next-later, w.wait.err)
		}
		if c.why == "h" && h.wait.opens != later+c.in {
			t.Errorf("%s: the hours begin in %v", name, h.wait.opens-later)
		}
	}
}

// TestATurnThatComesTooLateMayComeBack at the start that the server names, or at the end of the block
// that is known here.
func TestATurnThatComesTooLateMayComeBack(t *testing.T) {
	for why, want := range map[string]time.Duration{"d": time.Minute, "b": time.Hour} {
		h := idleHost(t, hostlimit.Config{})
		w := h.waiter(t, later)
		w.phase, h.known.Refusals.Until, h.known.ServerUntil = asking, later+time.Hour, micros(later+time.Hour)
		w.answered(reply{received: later, server: micros(later), answer: &wire.Turn{
			Head: wire.Head{Kind: wire.Late}, At: micros(later + time.Minute), Why: why, Host: wire.Report{Until: micros(later + time.Hour)},
		}})
		if refused, _ := errors.AsType[*hostlimit.Error](w.wait.err); refused == nil || refused.RetryAt != h.l.base.Add(later+want) || errors.Is(w.wait.err, hostlimit.ErrBlocked) != (why == "b") {
			t.Errorf("%s: %v", why, w.wait.err)
		}
	}
}

// TestAWaitIsForTheDelayFirst, where nobody waited before; who joins others waits for the same.
func TestAWaitIsForTheDelayFirst(t *testing.T) {
	h := idleHost(t, hostlimit.Config{})
	h.wait.blame, h.wait.since = block, later-time.Minute // of before
	for _, want := range []blame{delay, slot} {
		w := &lease{l: h.l, h: h, wait: wait{caller: caller{arrived: later}}}
		if w.join(); h.wait.blame != want {
			t.Errorf("it waits for %d, want %d", h.wait.blame, want)
		}
		h.wait.blame = slot
	}
	h.wait.account(later+time.Second, delay)
	if waited := h.waiters[0].wait.before; h.wait.spent[slot]-waited[slot] != time.Second || h.wait.spent[delay] != waited[delay] {
		t.Errorf("waited %v, before that %v", h.wait.spent, waited)
	}
}

// TestTheGuardSeesHowLateATurnIsTaken: after its time, or after the answer that names it could be here.
func TestTheGuardSeesHowLateATurnIsTaken(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ at, heard, lead, late time.Duration }{{-3 * ms, -9 * ms, ms, 3 * ms}, {-9 * ms, -6 * ms, 3 * ms, 3 * ms}, {-time.Second, -2 * ms, ms, ms}, {-3 * ms, -5 * ms, 4 * ms, ms}} {
		h := idleHost(t, hostlimit.Config{})
		w := h.waiter(t, later-time.Second)
		w.phase, h.p.latency, h.p.guard = granted, c.lead, clock.Guard{Late: c.late, Misses: 2}
		w.granted = granting{at: micros(later + c.at), guard: micros(time.Second), heard: reply{server: micros(later + c.heard), received: later}}
		if w.try(later); w.phase != held || h.p.guard.Late != c.late || h.p.guard.Misses != 0 || h.l.places.taken != 1 {
			t.Errorf("%+v: phase %d, the guard is for %v after %d misses", c, w.phase, h.p.guard.Late, h.p.guard.Misses)
		}
	}
	h := idleHost(t, hostlimit.Config{})
	w := h.waiter(t, later-time.Second)
	w.phase, w.granted = granted, granting{at: micros(later - time.Second), guard: micros(time.Second) - 1, heard: reply{received: later}}
	if w.try(later); w.phase != asking || h.p.guard.Misses != 1 {
		t.Errorf("after its window: phase %d, %d misses", w.phase, h.p.guard.Misses)
	}
	w.phase, w.granted.guard, w.granted.at = granted, micros(time.Second), micros(later+ms)
	if w.try(later); w.phase != granted || w.wait.next != later+ms {
		t.Errorf("before its window: phase %d, next in %v", w.phase, w.wait.next-later)
	}
}

// TestABlockThatIsToldRefusesWhoComesTooLate behind the one that is told of it; a delay does so later.
func TestABlockThatIsToldRefusesWhoComesTooLate(t *testing.T) {
	for why, refused := range map[string]bool{"b": true, "h": true, "d": false} {
		h := idleHost(t, hostlimit.Config{})
		first, second := h.waiter(t, later), h.waiter(t, later)
		first.phase, second.wait.limit, h.known.Refusals.Until = waiting, later+30*time.Second, later+time.Minute
		if h.known.AsOf = micros(h.l.now()); why == "h" {
			h.known.Refusals.Until = 0
		}
		if first.reserve(micros(later+time.Minute), micros(later), why, later); (second.phase == over) != refused || first.phase != waiting {
			t.Errorf("%s: the second one is refused: %t; the first one's phase is %d", why, second.phase == over, first.phase)
		}
	}
}

// TestAWaitIsOverAtItsLimit, the context's by the context, and while a question is under way by its answer.
func TestAWaitIsOverAtItsLimit(t *testing.T) {
	for name, c := range map[string]struct {
		phase     phase
		limit     time.Duration // from later
		byContext bool
		over      bool
		next      time.Duration
	}{
		"it waits":               {phase: waiting, next: later + time.Minute},
		"the time is over":       {phase: waiting, limit: 1, over: true, next: later + time.Minute},
		"the context's":          {phase: waiting, limit: 1, byContext: true, next: later + time.Minute},
		"it asks":                {phase: asking, limit: 1},
		"it stands in line":      {phase: inLine, next: later + time.Hour},
		"it has got its turn":    {phase: held, limit: 1},
		"it is over already":     {phase: over, limit: 1, over: true},
		"others are ahead of it": {phase: parked, next: later + time.Hour},
	} {
		h := idleHost(t, hostlimit.Config{})
		h.waiter(t, later)
		w := h.waiter(t, later)
		if w.phase, w.wait.next, w.wait.byContext = c.phase, later+time.Minute, c.byContext; c.limit > 0 {
			w.wait.limit = later
		}
		if w.act(later); (w.phase == over) != c.over || w.wait.next != c.next {
			t.Errorf("%s: phase %d, next in %v", name, w.phase, w.wait.next-later)
		}
	}
}

// TestAPushThatOvertakesTheAnswer holds where that says wait, and is older than any other one.
func TestAPushThatOvertakesTheAnswer(t *testing.T) {
	for what, c := range map[string]struct {
		answer  *wire.Turn
		phase   phase
		planned time.Duration
	}{
		"WAIT": {&wire.Turn{Head: wire.Head{Kind: wire.Full}, Why: "s", Expiry: micros(later + time.Hour), First: micros(later)}, waiting, later + 2*time.Second},
		"GO":   {&wire.Turn{Head: wire.Head{Kind: wire.Go}, At: micros(later), Guard: 1000, Delay: 1000, Slots: 1, TakenBack: []wire.Gone{{Process: "p", Number: 3}}}, granted, 1},
	} {
		h := idleHost(t, hostlimit.Config{})
		w := h.waiter(t, later)
		w.phase, w.wait.planned, h.l.sub.listening, h.p.clock.At = asking, 1, true, h.l.now()
		w.pushed(&wire.Push{Due: micros(later + 2*time.Second), Now: micros(later), Why: "d"}, later)
		if w.phase != asking || w.wait.planned != 1 {
			t.Errorf("%s: the push holds before the answer", what)
		}
		w.answered(reply{received: later, server: micros(later), answer: c.answer})
		if w.phase != c.phase || (w.wait.planned-c.planned).Abs() > time.Millisecond || len(h.news.takenBack) != map[string]int{"GO": 1}[what] {
			t.Errorf("%s: phase %d, planned in %v, taken back: %v", what, w.phase, w.wait.planned-later, h.news.takenBack)
		}
	}
}

// TestNoWaitIsBelowZero, although callers take their times before they have the lock.
func TestNoWaitIsBelowZero(t *testing.T) {
	var w hostWait
	w.account(2*time.Second, slot)
	w.account(time.Second, delay)
	w.account(3*time.Second, slot)
	if w.spent[slot] < 0 || w.spent[delay] != time.Second {
		t.Errorf("%v", w.spent)
	}
}
