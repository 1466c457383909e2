package redislimit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A request goes through these phases, all under the Limiter's mu:
//
//	phase      event                             next       why
//	-          Acquire                           parked     only the first waiter of a host asks the server
//	-          Start, not provable in time       reserved   the lease is kept; it goes before those that have none
//	parked     first of the host's waiters       asking     a take is sent
//	asking     GO                                granted    the server has let it go within a window
//	asking     AT                                reserved   it has a slot, and a time at which to ask again
//	asking     WAIT                              queued     every slot is taken
//	asking     the call came too late            reserved   the server has done nothing: it asks again
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
	*lease                  // what it waits for
	least     time.Duration // smallest gap that each request ahead can take
	arrived   time.Duration
	before    [3]time.Duration // host.waited at arrival
	limit     time.Duration    // latest start
	byContext bool             // limit is the context's deadline
	wake      chan struct{}

	priority int
	told     bool          // watcher was called
	planned  time.Duration // earliest start, as the server said last; 0: it isn't known

	phase     phase
	next      time.Duration // when to act without being woken
	fullSince time.Duration // when the last free slot was taken; 0 while one is free
	push      func()        // came while asking
	listens   bool          // when it asked last, the server could push to it
	napped    bool          // the last millisecond before this start is over, by nap
	misses    int           // starts that were too late, in a row
	called    bool          // the server was asked
	left      bool          // gone while a call was under way

	start granting // the last GO
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
	others bool  // others have a place behind it
	told
	heard reply
	gen   string // generation of the server that granted it
}

// holds reports whether it can be proved that now is within the window, and that nothing
// has made it void.
func (g *granting) holds(h *host, now time.Duration) bool {
	p := h.p
	return g.gen == p.gen && !p.stepped && g.heard.received > h.blocked &&
		now >= p.clock.surely(g.at, now) && p.clock.passed(g.at, now) <= time.Duration(g.guard)*time.Microsecond
}

func newWaiter(ctx context.Context, t *lease) *waiter {
	w := &waiter{
		lease: t, arrived: t.l.now(), wake: make(chan struct{}, 1),
		least: max(t.limits.Delay.Min, t.floor), priority: t.l.rules.Priority(ctx),
	}
	t.watcher = t.l.rules.Watcher(ctx)
	w.limit, w.byContext = t.l.latest(ctx)
	return w
}

// latest returns the latest start that a caller may wait for, and whether that is its context's
// deadline.
func (l *Limiter) latest(ctx context.Context) (limit time.Duration, byContext bool) {
	now := l.now()
	limit = now + min(l.complete.MaxWait, forever-now)
	if t, ok := ctx.Deadline(); ok && now+time.Until(t) < limit {
		return max(now+time.Until(t), 1), true
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
	for i > 0 && !h.waiters[i-1].had && h.waiters[i-1].priority < w.priority {
		i--
	}
	h.waiters = slices.Insert(h.waiters, i, w)
	h.weed()
}

// draw draws a delay and names the lease that is asked for.
func (w *waiter) draw() {
	w.delay = max(w.limits.Delay.Draw(), w.floor)
	delete(w.l.asked, w.id)
	w.id = w.l.newID()
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
func (w *waiter) rejoin() {
	h := w.h
	w.waiting, w.at = true, 0
	w.phase, w.next = reserved, 1
	h.account(w.arrived, delay)
	w.before = h.waited
	i := 0
	for i < len(h.waiters) && h.waiters[i].had {
		i++
	}
	h.waiters = slices.Insert(h.waiters, i, w)
}

// wait waits for the turn in the caller's goroutine.
func (w *waiter) wait(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer func() { // does something only where an Override or a Watcher of the user's panics
		w.l.mu.Lock()
		defer w.l.mu.Unlock()
		w.refuse(ErrClosed)
	}()
	for {
		limits, err := w.l.rules.Limits(w.h.key)
		w.l.mu.Lock()
		now := w.l.now()
		if err == nil && limits != w.limits { // an error is for the next Acquire
			w.change(limits)
		}
		w.act(now)
		told, look := w.waits(now)
		finished, next := w.phase == done, w.next
		hurried := w.phase == granted && w.start.delay <= hurry && !w.napped
		w.napped = hurried && next-now <= coarse
		w.l.mu.Unlock()
		if finished {
			return w.err
		}
		if told != nil {
			told.give(w.watcher)
		}
		if look > 0 && (next == 0 || look < next) {
			next = look
		}
		if hurried {
			if next -= coarse; next <= now {
				nap(next + coarse - now)
				continue
			}
		}
		var due <-chan time.Time
		if next > 0 {
			timer.Reset(next - now)
			due = timer.C
		}
		select {
		case <-w.wake:
		case <-due:
		case <-ctx.Done():
			return w.leave(ctx.Err())
		}
	}
}

// Timers of Go are as coarse as this, which delays up to hurry would miss.
const (
	coarse = time.Millisecond
	hurry  = 50 * time.Millisecond
)

// leave ends the wait with the error of its context.
func (w *waiter) leave(err error) error {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	now := w.l.now()
	if errors.Is(err, context.DeadlineExceeded) {
		err = w.refusal(w.retry(now), w.l.rules.TooLate(true, w.h.inTrouble(now)))
	}
	w.refuse(err)
	return w.err
}

// change makes limits those of the turn: they have changed since the request came.
func (w *waiter) change(limits *hostlimit.Limits) {
	w.limits, w.least = limits, max(limits.Delay.Min, w.floor)
	w.delay = max(limits.Delay.Draw(), w.floor)
	w.void()
}

// act does what is due. It is the one place that decides when to ask and when to start.
func (w *waiter) act(now time.Duration) {
	if now >= w.limit && !w.byContext && w.phase != asking && w.phase != done {
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

// ask calls the server for the start. If that is about to come, the next waiter's question goes
// along: it has its place there before the turn ends.
func (w *waiter) ask() {
	h, soon := w.h, w.phase == reserved
	w.question()
	if i := slices.Index(h.waiters, w); soon && i >= 0 && i+1 < len(h.waiters) && h.waiters[i+1].phase == parked {
		h.waiters[i+1].question()
	}
	h.p.flush()
}

func (w *waiter) question() {
	w.phase, w.next, w.push, w.called = asking, 0, nil, true
	w.l.asked[w.id] = w
	w.listens = w.l.listening
	w.asks++
	w.h.p.add(op{
		name: "take", h: w.h, misses: w.misses, done: w.answered,
		build: func(now time.Duration) []any {
			return []any{
				w.id, w.asks, w.limits.Concurrency, micros(max(w.limit-now, 0)), micros(w.least), w.listens, w.began(),
				micros(w.limits.Delay.Ceiling), micros(w.delay), micros(w.floor), w.limits.Delay.FromEnd,
				w.rank(), micros(now - w.arrived),
			}
		},
	})
}

// began is the number of the question by whose answer w's lease has started, 0 if it hasn't.
func (w *waiter) began() int64 {
	if w.started {
		return w.granted.ask
	}
	return 0
}

// rank is the priority of w's turn. A lease goes before all that have none: it holds a slot, for
// which they may be waiting.
func (w *waiter) rank() int64 {
	if w.had {
		return 1 << 40
	}
	return int64(max(min(w.priority, 1<<30), -1<<30))
}

// Times between questions that only matter if a push got lost, or if nobody listens.
const (
	pollQueue = 5 * time.Second
	pollProbe = 250 * time.Millisecond
	pollDeaf  = 20 * time.Millisecond
)

// answered takes in the server's reply to a question.
func (w *waiter) answered(at reply) {
	if w.left {
		w.giveBack()
		return
	}
	if w.phase != asking {
		return
	}
	defer w.poke()
	now, clock, reply := at.received, &w.h.p.clock, at.answer
	switch at.fate {
	case did:
	case stale:
		w.phase, w.next = reserved, 1
		return
	default:
		w.phase = reserved // for all that we know
		w.alone = w.l.outage != nil
		w.refuse(unavailable(w.h.key, at.err))
		return
	}
	what := text(reply[0])
	if what != "GO" {
		w.freePlace()
	}
	switch what {
	case "GO":
		w.push = nil
		w.start = granting{
			at: number(reply[1]), guard: number(reply[2]), delay: duration(reply[3]), ask: w.asks,
			slots: int(number(reply[4])), probe: number(reply[5]) == 1, asked: number(reply[7]),
			prev: number(reply[8]), others: number(reply[9]) == 1, told: newTold(reply[10:]), heard: at, gen: w.h.p.gen,
		}
		w.start.source = w.source(w.start.told)
		w.h.keep(w.start.told, at)
		w.phase = granted
		taken, _ := reply[6].([]any)
		for _, v := range taken {
			if start, _ := v.([]any); len(start) == 2 { // number 0: the server wasn't sent it
				w.found = append(w.found, hostlimit.TakenBack{Key: w.h.key, Process: text(start[0]), Seq: uint64(number(start[1]))})
			}
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
	case "WAIT":
		w.phase, w.planned = queued, 0
		w.queue(reply, now)
	case "PROBE":
		w.phase, w.planned = probing, 0
		w.h.account(now, block)
		w.poll(now, pollProbe, 0)
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
	default: // of something that isn't step.lua
		w.phase = reserved
		w.refuse(unavailable(w.h.key, &ServerError{Server: w.l.server, Err: errWire}))
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
		if now >= w.slotTimeout() {
			held := now - clock.surely(number(reply[5]), now)
			w.refuse(w.refusal(w.retry(now), w.l.rules.SlotTimeout(w.limits.Concurrency, held)))
			return
		}
	}
	w.poll(now, pollQueue, place)
	// Nobody tells when a lease expires.
	w.next = min(w.next, h.expiry+time.Duration(place+1)*time.Millisecond)
	if w.fullSince > 0 {
		w.next = min(w.next, w.slotTimeout())
	}
}

// poll makes w, at that place of the server's queue, ask again after d, or soon if nobody listens.
func (w *waiter) poll(now, d time.Duration, place int64) {
	if w.listens {
		d += time.Duration(place) * time.Millisecond
	} else {
		d = pollDeaf + min(time.Duration(place)*pollDeaf, time.Second)
	}
	w.next = min(now+d, w.limit)
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
	if at, blocked := h.first(); max(at, due) > w.limit {
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
		// Since it was let go, or in that instant, this process has seen the host refuse.
		w.phase, w.next = reserved, now+linger
		return
	}
	if w.h.presumed > now {
		w.phase, w.next = reserved, w.h.presumed
		return
	}
	at := clock.surely(g.at, now)
	if w.h.owedBy != w.lease { // else it has kept the gap to the one before already
		at = max(at, w.h.owed)
	}
	if now < at {
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
	t := w.lease
	t.granted = w.start
	for why := range t.waited {
		t.waited[why] += h.waited[why] - w.before[why]
	}
	w.phase = done
	h.leave(w)
	if t.had {
		t.stamp(now)
	} else {
		t.had, t.began, t.renewed = true, now, now
		h.leases[t.id] = t
	}
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

// giveBack tells the server that the request will not start. No copy of a question that was sent
// before has an effect after it.
func (w *waiter) giveBack() {
	undone := !w.started || w.called // else the server knows of a start that was one
	w.h.p.add(op{
		name: "release", h: w.h, owed: true,
		args: []any{w.id, w.limits.Concurrency, undone, w.began(), 0, w.by},
	})
}

// stop is the refusal of a turn because a person has blocked the host.
func (w *waiter) stop() error {
	return w.refusal(w.h.refusals.Until, w.l.rules.BlockedByHand(w.h.refusals.Cause))
}

// halt makes what the server granted before now void, and refuses the waiters that come too late.
func (h *host) halt(now time.Duration) {
	h.blocked = now
	for _, w := range slices.Clone(h.waiters) {
		switch {
		case h.byHand(now):
			w.refuse(w.stop())
		case w.phase == granted:
			w.poke()
		}
	}
	h.weed()
}

// stopped takes in that the host is blocked until then, which others have seen.
func (h *host) stopped(until int64, at reply) {
	now := at.received
	h.confirmed = now
	switch {
	case !h.p.clock.known:
		h.refusals.Until = now + duration(until-at.server)
	case until != h.untilServer || until <= at.server:
		h.blockedUntil(until, at)
	}
	if until > at.server {
		h.halt(now)
	}
}

// weed refuses the waiters that are known to come too late. Where that is for a block that the
// server confirmed more than pollBlock ago, which a person may have lifted, the first one asks.
func (h *host) weed() {
	start, blocked := h.first()
	if now := h.l.now(); start > now && start == h.refusals.Until && h.p.down == nil && now-h.confirmed > pollBlock {
		return
	}
	for i := 0; i < len(h.waiters); i++ {
		w := h.waiters[i]
		if at := start + time.Duration(i)*w.least; at > w.limit && w.phase != asking && w.phase != granted {
			w.refuse(w.refusal(at, w.l.rules.TooLate(w.byContext, blocked)))
			i-- // it has left
		}
	}
}

// leave takes w out of the queue and lets the next one ask.
func (h *host) leave(w *waiter) {
	i := slices.Index(h.waiters, w)
	if i < 0 {
		return
	}
	h.waiters = slices.Delete(h.waiters, i, i+1)
	delete(h.l.asked, w.id)
	if i == 0 && len(h.waiters) > 0 {
		h.waiters[0].poke()
	}
}

// renounce makes the waiters ask again: what the server promised them is void, or it knows better.
func (h *host) renounce() {
	for _, w := range h.waiters {
		w.void()
	}
}

// takePlace takes a place in MaxInFlight and reports whether there was one.
// Without one the waiter gives its turn back and asks for another when it has a place,
// so that other processes can use the host meanwhile.
func (w *waiter) takePlace() bool {
	l := w.l
	if l.complete.MaxInFlight == 0 || w.holds {
		return true
	}
	if !l.isFull() {
		l.inFlight++
		w.holds = true
		return true
	}
	w.giveBack()
	delete(l.asked, w.id)
	// Another id, because nothing says that the release arrives before the next question.
	w.draw()
	w.phase, w.next = pending, 0
	w.h.account(l.now(), slot)
	l.pending = append(l.pending, w)
	return false
}

// freePlace gives the waiter's place back, or its place in the line for one. That of a
// lease which asks again stays the lease's.
func (w *waiter) freePlace() {
	w.l.pending = slices.DeleteFunc(w.l.pending, func(p *waiter) bool { return p == w })
	if w.holds && !w.had {
		w.holds = false
		w.l.placeFreed()
	}
}

// isFull reports whether no place is free.
func (l *Limiter) isFull() bool {
	limit := l.complete.MaxInFlight
	return limit > 0 && (l.inFlight >= limit || len(l.pending) > 0)
}

// placeFreed hands a place that was given back to the waiter that has waited longest.
func (l *Limiter) placeFreed() {
	if len(l.pending) == 0 {
		l.inFlight--
		return
	}
	w := l.pending[0]
	l.pending = l.pending[1:]
	w.holds = true
	w.phase, w.next = reserved, 1
	w.poke()
}
