package redislimit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// Acquire implements [hostlimit.Limiter].
func (l *Limiter) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limits, err := l.rules.Limits(key)
	if err != nil {
		return nil, err
	}
	w := newWaiter(ctx, l, limits, floor)
	if l.limits.Store != nil {
		if err := l.recall(ctx, key, limits); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	l.crawls = true
	switch {
	case l.closed:
		l.mu.Unlock()
		return nil, ErrClosed
	case l.draining:
		l.mu.Unlock()
		return nil, drained(key)
	case l.partition(key).down != nil:
		// The heartbeat finds out when the server is back.
		err, alone := l.partition(key).down, l.outage != nil
		l.mu.Unlock()
		if alone {
			return l.acquireLocal(ctx, limits, key, floor)
		}
		return nil, unavailable(key, err)
	}
	w.join(l.host(key))
	l.mu.Unlock()

	lease, err := w.wait(ctx)
	if err != nil && w.alone {
		return l.acquireLocal(ctx, limits, key, floor)
	}
	return lease, err
}

// A request goes through these phases, all under the Limiter's mu:
//
//	phase      event                             next       why
//	-          Acquire                           parked     only the first waiter of a host asks the server
//	-          Start, not provable in time       reserved   the lease is kept; it goes before those that have none
//	parked     first of the host's waiters       asking     a take is sent
//	parked     the one before starts             asking     its take goes along, to be there in time
//	asking     GO                                granted    the server has let it go within a window
//	asking     AT                                reserved   it has a slot, and a time at which to ask again
//	asking     WAIT                              queued     every slot is taken
//	asking     the call came too late, OLD, NEW  reserved   the server has done nothing: it asks again
//	asking     PROBE                             probing    another request probes after a block
//	asking     LATE, slot timeout, call failed   done       refused, with the time at which to come again
//	queued     push                              reserved   a slot was handed over
//	queued     poll is due, lease expires        asking     pushes may be lost, expiries aren't pushed
//	reserved   shortly before the time           asking
//	probing    push, poll                        reserved, asking
//	granted    inside the window, has a place    done       begin: the caller has the lease
//	granted    inside the window, no place       pending    the turn is given back meanwhile
//	granted    after the window, block seen      asking     the grant proves nothing any more
//	granted    block that the server may not know reserved  its own word holds until the server has it
//	pending    a place is free                   reserved   it asks for another turn
//	any        the server lost its data          reserved   renounce, void: promises of before don't hold
//	any        deadline, MaxWait                 done       refused, as by LATE; what was taken is given back
//	any        context cancelled, Close          done       the same, with the context's error or ErrClosed
//
// A lease that it ends with is let go (alone, if the server doesn't know of it), started by
// Start, and ends by Release, or by sweep after LeaseTTL; see [lease].

// A phase is how far a waiter has come.
type phase int

const (
	parked   phase = iota // others of this process are ahead
	asking                // a call is under way
	queued                // on the server: every slot is taken
	reserved              // has a slot and a time at which to ask for the start
	probing               // on the server: waits for a probe's answer
	granted               // may start within a window
	pending               // waits for a place in MaxInFlight
	done
)

// A waiter is one Acquire, or one Start that asks the server. Its goroutine waits for its
// wake channel and one timer; all the rest happens under mu.
type waiter struct {
	l         *Limiter
	h         *host
	id        string
	number    uint64 // in id
	limits    *hostlimit.Limits
	floor     time.Duration
	delay     time.Duration // drawn, or the floor if that is longer
	least     time.Duration // smallest gap that each request ahead can take
	arrived   time.Duration
	before    [3]time.Duration // host.waited at arrival
	limit     time.Duration    // latest start; 0: none
	byContext bool             // limit is the context's deadline
	wake      chan struct{}
	again     *lease // of a Start that asks again; nil: none is had yet

	priority int
	watcher  hostlimit.Watcher // nil: none is called
	told     bool              // watcher was called
	planned  time.Duration     // earliest start, as the server said last; 0: it isn't known

	phase     phase
	next      time.Duration // when to act without being woken
	fullSince time.Duration // when the last free slot was taken; 0 while one is free
	timeup    bool          // the slot timeout is over unless the server says otherwise
	push      func()        // came while asking
	listens   bool          // when it asked last, the server could push to it
	misses    int           // starts that were too late, in a row
	holds     bool          // a place in MaxInFlight
	expired   []string      // starts whose slots were taken back, as step.lua names them
	called    bool          // the server was asked
	asks      int64         // how often; a lease that asks again goes on counting
	cameGen   string        // generation of the server whose clock came is on
	came      int64         // arrival on the server's clock
	left      bool          // gone while a call was under way
	napped    bool          // has slept the rest of its wait

	start granting // the last GO
	lease *lease
	err   error
	alone bool // the server is lost, go on with FailLocal
}

// A granting is a GO of the server.
type granting struct {
	at     int64 // earliest start, on the server's clock
	guard  int64 // and how much later it may be
	delay  time.Duration
	source string // what decided delay
	ask    int64  // number of the question
	prev   int64  // stamp of the latest start that had ended, on the server's clock; 0: none is known
	slots  int
	probe  bool
	asked  int64 // the guard that was asked for

	awaited bool // other processes wait for the host
	told
	heard heard
	gen   string // generation of the server that granted it
}

// holds reports whether it can be proved that now is within the window, and that nothing
// has made it void.
func (g *granting) holds(h *host, now time.Duration) bool {
	p := h.p
	return g.gen == p.gen && !p.stepped && g.heard.received > h.blocked &&
		now >= p.clock.surely(g.at, now) && p.clock.passed(g.at, now) <= time.Duration(g.guard)*time.Microsecond
}

func newWaiter(ctx context.Context, l *Limiter, limits *hostlimit.Limits, floor time.Duration) *waiter {
	w := &waiter{
		l: l, limits: limits, floor: max(floor, 0), arrived: l.now(), wake: make(chan struct{}, 1),
		least: max(limits.Delay.Min, floor), priority: l.rules.Priority(ctx), watcher: l.rules.Watcher(ctx),
	}
	w.limit, w.byContext = l.latest(ctx)
	return w
}

// latest returns the latest start that a caller may wait for, 0 if there is
// none, and whether that is its context's deadline.
func (l *Limiter) latest(ctx context.Context) (limit time.Duration, byContext bool) {
	now := l.now()
	if d := l.complete.MaxWait; d != forever {
		limit = now + d
	}
	if t, ok := ctx.Deadline(); ok {
		if d := max(now+time.Until(t), 1); limit == 0 || d < limit {
			return d, true
		}
	}
	return limit, false
}

// poke wakes the waiter's goroutine.
func (w *waiter) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// join enters the queue of this process.
func (w *waiter) join(h *host) {
	w.h = h
	w.draw()
	if len(h.waiters) == 0 {
		h.account(w.arrived, delay)
	} else {
		h.account(w.arrived, h.blame)
	}
	w.before = h.waited
	i := len(h.waiters)
	for i > 0 && h.waiters[i-1].again == nil && h.waiters[i-1].priority < w.priority {
		i--
	}
	h.waiters = slices.Insert(h.waiters, i, w)
	h.weed()
}

// draw draws a delay and names the lease that is asked for.
func (w *waiter) draw() {
	w.delay = max(w.limits.Delay.Draw(), w.floor)
	w.rename()
}

// rename gives the turn that is asked for a new name.
func (w *waiter) rename() {
	delete(w.l.asked, w.id)
	w.id, w.number = w.l.newID()
	if t := w.again; t != nil {
		delete(w.h.leases, t.id)
		t.id, t.number = w.id, w.number
		w.h.leases[t.id] = t
	}
}

// source is what decides the delay of a start after which the server has told t.
func (w *waiter) source(t told) string {
	drawn := duration(micros(w.delay)) // as the server counts
	switch {
	case t.learned > max(drawn, t.adaptive):
		return "learned"
	case t.adaptive > drawn:
		return "adaptive"
	case w.delay == w.floor && w.floor > w.limits.Delay.Min:
		return "crawl-delay"
	}
	return "random"
}

// rejoin asks for the start of a lease anew. It goes before the waiters without a lease:
// it holds a slot, for which they may be waiting.
func (w *waiter) rejoin(t *lease) {
	h := t.h
	t.waiting, t.at = true, 0
	w.h, w.id, w.number, w.floor, w.delay, w.again, w.phase, w.next, w.asks = h, t.id, t.number, t.floor, t.delay, t, reserved, 1, t.asks
	h.account(w.arrived, delay)
	w.before = h.waited
	i := 0
	for i < len(h.waiters) && h.waiters[i].again != nil {
		i++
	}
	h.waiters = slices.Insert(h.waiters, i, w)
}

// The runtime's timers fire up to coarse late, which comes on top of the gap. Where that is a part
// of it that counts, a start isn't left to them: the rest is slept in a system call.
const (
	coarse  = time.Millisecond
	hurried = 200 * time.Millisecond
)

// wait waits for the turn in the caller's goroutine.
func (w *waiter) wait(ctx context.Context) (*lease, error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var limits *hostlimit.Limits
		if w.l.limits.Override != nil {
			if now, err := w.l.rules.Limits(w.h.key); err == nil { // else the next Acquire reports it
				limits = now
			}
		}
		w.l.mu.Lock()
		now := w.l.now()
		w.change(limits)
		w.act(now)
		told, look := w.waits(now)
		finished, next := w.phase == done, w.next
		exact := w.phase == granted && w.l.naps && !w.napped && w.start.delay <= hurried && w.start.delay > 0
		w.l.mu.Unlock()
		if finished {
			return w.lease, w.err
		}
		if told != nil {
			told.give(w.watcher)
		}
		if look > 0 && (next == 0 || look < next) {
			next = look
		}
		var due <-chan time.Time
		if next > 0 {
			left := next - now
			switch {
			case !exact:
			case left > coarse:
				left -= coarse
			default:
				w.napped = true
				nap(left)
				continue
			}
			timer.Reset(left)
			due = timer.C
		}
		select {
		case <-w.wake:
		case <-due:
		case <-ctx.Done():
			w.l.mu.Lock()
			defer w.l.mu.Unlock()
			now, err := w.l.now(), ctx.Err()
			if errors.Is(err, context.DeadlineExceeded) {
				err = w.refusal(w.retry(now), w.l.rules.TooLate(true, w.h.inTrouble(now)))
			}
			if w.phase == done && w.err == nil {
				// Let go in this very moment; the caller will not start it.
				w.giveBack()
				w.lease.end(now)
				w.lease.released = true
				return nil, err
			}
			w.refuse(err)
			return nil, w.err
		}
	}
}

// change makes limits, if they aren't nil, those of the turn: they may have changed since the
// request came.
func (w *waiter) change(limits *hostlimit.Limits) {
	if limits == nil || limits == w.limits {
		return
	}
	w.limits, w.least = limits, max(limits.Delay.Min, w.floor)
	w.delay = max(limits.Delay.Draw(), w.floor)
	if w.again != nil {
		w.again.limits, w.again.delay = limits, w.delay
	}
	w.void()
}

// act does what is due. It is the one place that decides when to ask and when to start.
func (w *waiter) act(now time.Duration) {
	if w.limit > 0 && now >= w.limit && !w.byContext && w.phase != asking && w.phase != done {
		w.refuse(w.refusal(w.retry(now), w.l.rules.TooLate(false, w.h.inTrouble(now))))
	}
	switch w.phase {
	case parked:
		w.next = w.limit
		if w.h.waiters[0] == w {
			w.ask()
		}
	case queued, reserved, probing:
		if now >= w.next {
			w.timeup = w.phase == queued && w.fullSince > 0 && now >= w.slotTimeout()
			w.ask()
		}
	case granted:
		w.try(now)
	case pending:
		w.next = w.limit
	case asking, done:
		w.next = 0
	}
}

// slotTimeout is when the wait for a slot has been too long.
func (w *waiter) slotTimeout() time.Duration {
	if w.l.complete.SlotTimeout == 0 {
		return forever
	}
	return max(w.fullSince, w.arrived) + w.l.complete.SlotTimeout
}

// ask calls the server for the start. If that is about to come, the next waiter's
// question goes along.
func (w *waiter) ask() {
	behind := w.phase == reserved
	w.question(0)
	if behind {
		if b := w.h.behind(w); b != nil {
			b.question(1)
		}
	}
	w.h.p.flush()
}

func (w *waiter) question(ahead int) {
	w.phase, w.next, w.push, w.called = asking, 0, nil, true
	w.l.asked[w.id] = w
	w.listens = w.l.listening
	w.asks++
	if w.again != nil {
		w.again.asks = w.asks
	}
	w.h.p.add(op{
		name: "take", h: w.h, misses: w.misses, done: w.answered,
		build: func(now time.Duration) []any {
			wait := int64(-1)
			if w.limit > 0 {
				wait = max(int64((w.limit-now)/time.Microsecond), 0)
			}
			return []any{
				w.id, int64(w.number), w.asks, w.limits.Concurrency, wait, ahead, micros(w.least), w.listens, w.began(),
				micros(w.limits.Delay.Ceiling), micros(w.delay), micros(w.floor), w.limits.Delay.FromEnd,
				w.rank(), w.arrival(now),
			}
		},
	})
}

// began is the number of the question by whose answer w's lease has started, 0 if it hasn't.
func (w *waiter) began() int64 {
	if t := w.again; t != nil && t.started {
		return t.granted.ask
	}
	return 0
}

// rank is the priority of w's turn. A lease goes before all that have none: it holds a slot, for
// which they may be waiting.
func (w *waiter) rank() int64 {
	if w.again != nil {
		return 1 << 40
	}
	return int64(max(min(w.priority, 1<<30), -1<<30))
}

// arrival is when w came, on the server's clock: the same at each question, although the bounds on
// that clock move.
func (w *waiter) arrival(now time.Duration) int64 {
	if p := w.h.p; w.cameGen != p.gen {
		lo, _ := p.clock.bounds(now)
		w.cameGen, w.came = p.gen, int64((w.arrived+lo)/time.Microsecond)
	}
	return w.came
}

// Times between questions that only matter if a push got lost, or if nobody listens.
const (
	pollQueue = 5 * time.Second
	pollProbe = 250 * time.Millisecond
	pollDeaf  = 20 * time.Millisecond
)

// answered takes in the server's reply to a question.
func (w *waiter) answered(reply []any, at heard, err error) {
	if err != nil && !errors.Is(err, errStale) {
		// A copy of the question may still be under way, and have its effect after a release that
		// overtakes it. No copy has one after that time.
		defer w.giveBackAfter(at.over)
	}
	if w.left {
		// Only now is it sure that nothing overtakes the question.
		w.giveBack()
		return
	}
	if w.phase != asking {
		return
	}
	defer w.poke()
	now, clock := at.received, &w.h.p.clock
	switch {
	case errors.Is(err, errStale):
		w.phase, w.next = reserved, 1
		return
	case err != nil:
		w.phase = reserved // for all that we know
		w.alone = w.l.outage != nil
		w.refuse(unavailable(w.h.key, err))
		return
	}
	what := text(reply[0])
	if what != "GO" {
		w.freePlace()
	}
	switch what {
	case "GO":
		w.push = nil
		w.phase, w.napped = granted, false
		w.start = granting{
			at: number(reply[1]), guard: number(reply[2]), delay: duration(reply[3]), ask: w.asks,
			slots: int(number(reply[4])), probe: number(reply[5]) == 1, asked: number(reply[7]), awaited: number(reply[8]) == 1,
			prev: number(reply[9]), told: newTold(reply[10:]), heard: at, gen: w.h.p.gen,
		}
		w.start.source = w.source(w.start.told)
		w.h.keep(w.start.told, at)
		taken, _ := reply[6].([]any)
		for _, start := range taken {
			w.expired = append(w.expired, text(start))
		}
		w.h.account(now, w.h.blame)
	case "AT":
		w.h.blockedUntil(number(reply[3]), at)
		w.reserve(number(reply[1]), at.server, text(reply[2]), now)
	case "HAND":
		w.push = nil
		w.phase = parked // the server has forgotten it
		w.h.refusals.Cause = text(reply[2])
		w.h.blockedUntil(number(reply[1]), at)
		w.refuse(w.stop())
	case "OLD":
		w.phase, w.next = reserved, 1
	case "NEW":
		w.rename()
		w.phase, w.next = reserved, 1
	case "WAIT":
		w.phase, w.planned = queued, 0
		w.queue(reply, now)
	case "PROBE":
		w.phase, w.planned = probing, 0
		w.h.account(now, block)
		w.next = now + pollProbe
		if !w.listens {
			w.next = now + pollDeaf
		}
		if w.limit > 0 {
			w.next = min(w.next, w.limit)
		}
	case "LATE":
		w.push = nil
		w.phase = parked // the server has forgotten it
		w.h.blockedUntil(number(reply[3]), at)
		start, why := clock.surely(number(reply[1]), now), text(reply[2])
		if why == "b" {
			start = max(start, w.h.refusals.Until)
		}
		w.refuse(w.refusal(start, w.l.rules.TooLate(w.byContext, blameOf(why) == block)))
		w.h.weed()
	}
	if w.push != nil && w.phase != done {
		w.push()
	}
}

// queue notes the place in the server's queue, since when all slots are taken,
// and the time at which the first of them expires.
func (w *waiter) queue(reply []any, now time.Duration) {
	h, clock := w.h, &w.h.p.clock
	place, busy := number(reply[1]), number(reply[2])
	h.account(now, blameOf(text(reply[3])))
	h.expiry = max(clock.surely(number(reply[4]), now), now)
	w.fullSince = 0
	if busy > 0 {
		w.fullSince = max(clock.surely(busy, now), 1)
		if w.timeup && now >= w.slotTimeout() {
			held := now - clock.surely(number(reply[5]), now)
			w.refuse(w.refusal(w.retry(now), w.l.rules.SlotTimeout(w.limits.Concurrency, held)))
			return
		}
	}
	w.timeup = false
	w.next = now + pollQueue + time.Duration(place)*time.Millisecond
	if !w.listens {
		w.next = now + pollDeaf + min(time.Duration(place)*pollDeaf, time.Second)
	}
	// Nobody tells when a lease expires.
	w.next = min(w.next, h.expiry+time.Duration(place+1)*time.Millisecond)
	if w.limit > 0 {
		w.next = min(w.next, w.limit)
	}
	if w.fullSince > 0 {
		w.next = min(w.next, w.slotTimeout())
	}
}

// pollBlock is how often a waiter asks whether a block still holds that a person may have lifted.
const pollBlock = 5 * time.Second

// reserve notes the time us at which the server, whose clock shows from by now, will let the waiter
// start.
func (w *waiter) reserve(us, from int64, why string, now time.Duration) {
	h := w.h
	w.phase = reserved
	due := h.p.clock.surely(us, now)
	switch why {
	case "b":
		due = max(due, h.refusals.Until)
	case "h":
		h.opens = due
	}
	w.planned = due
	// The bounds may be from before a step of the server's clock.
	w.next = max(min(due, now+duration(us-from))-h.p.early(), 1)
	if h.refusals.Until > now {
		w.next = min(w.next, now+pollBlock)
	}
	h.account(now, blameOf(why))
	if blameOf(why) == block {
		h.weed()
	}
	// The server hasn't asked whether a better time is good enough, and an answer that came since has
	// weeded only those that didn't ask.
	if at, blocked := h.first(); w.limit > 0 && max(at, due) > w.limit {
		w.refuse(w.refusal(max(at, due), w.l.rules.TooLate(w.byContext, blocked)))
	}
}

// pushed takes in that the server, whose clock showed from, gave the waiter a slot, or a better
// time.
func (w *waiter) pushed(us, from int64, why string, now time.Duration) {
	switch w.phase {
	case queued, reserved, probing:
		w.reserve(us, from, why, now)
		w.poke()
	case asking:
		// It overtook the reply that says wait, or is older and does no harm.
		w.push = func() { w.reserve(us, from, why, w.l.now()) }
	}
}

// void makes the waiter ask again.
func (w *waiter) void() {
	switch w.phase {
	case queued, reserved, probing, granted:
		w.phase, w.next = reserved, 1
		w.poke()
	}
}

// try starts the request if it can be proved that the server's clock is within the window.
func (w *waiter) try(now time.Duration) {
	g, clock := &w.start, &w.h.p.clock
	if g.heard.received <= w.h.blocked {
		// Since it was let go, this process has seen the host refuse.
		w.phase = reserved
		w.ask()
		return
	}
	if w.h.presumed > now {
		w.phase, w.next = reserved, w.h.presumed
		return
	}
	if at := max(clock.surely(g.at, now), w.h.owedTo(w.again)); now < at {
		w.next = at
		return
	}
	late := clock.passed(g.at, now)
	w.h.p.guard.saw(late - clock.uncertainty(now) - time.Duration(g.guard-g.asked)*time.Microsecond)
	if late > time.Duration(g.guard)*time.Microsecond {
		w.misses++
		w.phase = reserved
		w.ask()
		return
	}
	if w.takePlace() {
		w.begin(now)
	}
}

// begin ends the wait: the caller has the lease, and until the end of its window to
// start the request.
func (w *waiter) begin(now time.Duration) {
	h := w.h
	h.account(now, h.blame)
	t := w.again
	if t == nil {
		t = &lease{
			l: w.l, h: h, id: w.id, number: w.number, limits: w.limits, floor: w.floor, delay: w.delay, holds: w.holds, began: now, renewed: now, asks: w.asks,
			watcher: w.watcher,
		}
		h.leases[w.id] = t
	}
	t.granted = w.start
	t.found = append(t.found, w.expired...)
	for why := range t.waited {
		t.waited[why] += h.waited[why] - w.before[why]
	}
	if w.again != nil {
		t.stamp(now)
	}
	w.lease = t
	w.phase = done
	h.leave(w)
}

// refusal is the error of a turn that may be had at a later time.
func (w *waiter) refusal(retryAt time.Duration, why error) error {
	restored, stateErr := w.h.takeState()
	return &hostlimit.Error{
		Key: w.h.key, RetryAt: w.l.base.Add(retryAt), Err: why, ByHand: w.h.takeAct(), Restored: restored, StateErr: stateErr,
	}
}

// retry returns when w, which is refused, should come back: the known start time or, if w waited
// for something without a known end, such as a slot, a guess: after as long as it has waited
// already, or once a lease expires.
func (w *waiter) retry(now time.Duration) time.Duration {
	if at, _ := w.h.first(); at > now {
		return at
	}
	at := now + (now - w.arrived)
	if w.h.expiry > now {
		at = min(at, w.h.expiry)
	}
	return at
}

// refuse ends the wait with err, and gives back what was taken.
func (w *waiter) refuse(err error) {
	if w.phase == done {
		return
	}
	switch w.phase {
	case asking:
		w.left = true
	case queued, reserved, probing, granted:
		w.giveBack()
	}
	w.err = err
	w.l.countRefusal(err)
	w.phase = done
	w.freePlace()
	w.h.leave(w)
	w.poke()
}

// giveBack tells the server that the request will not start.
func (w *waiter) giveBack() { w.giveBackAfter(0) }

// giveBackAfter does so, but not before at.
func (w *waiter) giveBackAfter(at time.Duration) {
	undone := 1
	if w.again != nil && w.again.started && !w.called {
		undone = 0 // what the server knows of is a start that was one
	}
	w.h.p.add(op{
		name: "release", h: w.h, after: at, owed: true,
		args: []any{w.id, w.limits.Concurrency, undone, w.again != nil && w.again.wasTold, w.began(), 0},
	})
}
