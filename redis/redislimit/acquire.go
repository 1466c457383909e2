package redislimit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A lease goes through these phases, all under the Limiter's mu:
//
//	phase    event                              next     why
//	-        Acquire                            parked   only the first waiter of a host asks the server
//	parked   first of the host's waiters        asking   a take is sent
//	asking   GO                                 granted  the server has let it go within a window
//	asking   AT, WAIT                           waiting  for a time; a slot, or a probe's answer
//	asking   the call came too late             waiting  the server has done nothing: it asks again
//	asking   LATE, slot timeout, call failed    over     refused, with the time at which to come again
//	waiting  push                               waiting  a slot was handed over, or the start is earlier
//	waiting  shortly before the start, or poll  asking   pushes may be lost, expiries aren't pushed
//	granted  inside the window, has a place     held     begin: the caller has the lease
//	granted  inside the window, no place        inLine   the turn is given back meanwhile
//	granted  after the window                   asking
//	granted  a block was seen since             waiting  the grant proves nothing any more
//	inLine   a place is free                    parked   it asks for another turn, wherever it stands
//	held     Start, inside the window           held     it has started
//	held     Start, not provable in time        waiting  for its own next start, before all that have no lease
//	waiting  the server lost its data           waiting  what was promised before is void: it asks at once;
//	granted  the same                           waiting  so where a person has lifted a block, or pushes were lost
//	held     Release, or LeaseTTL is over       over
//	others   deadline, MaxWait, context, Close  over     refused; what was taken is given back

// A phase is how far a lease has come.
type phase int

const (
	parked  phase = iota // others of this process are ahead
	inLine               // waits for a place in MaxInFlight
	asking               // a call is under way
	waiting              // until next, or for a push
	granted              // may start within a window
	held                 // the caller has it
	over
)

// A granting is a GO of the server.
type granting struct {
	at     int64 // earliest start, on the server's clock
	guard  int64 // and how much later it may be
	delay  time.Duration
	source string // what decided delay
	prev   int64  // stamp of the latest start that had ended, on the server's clock; 0: none is known
	slots  int
	probe  bool
	others bool // others have a place behind it
	hostInfo
	heard reply
	gen   string // generation of the server that granted it
}

// A caller is what the context of an Acquire or a Start says. It is read under no lock: a context
// is any code.
type caller struct {
	arrived   time.Duration
	limit     time.Duration     // latest start
	byContext bool              // limit is the context's deadline
	rank      int64             // priority
	watcher   hostlimit.Watcher // nil: none is called
}

// mostRank is that of a Start, above all others: its lease holds a slot, for which they may be
// waiting.
const mostRank = 1 << 40

// caller returns what ctx says of an Acquire that begins now.
func (l *Limiter) caller(ctx context.Context) caller {
	now := l.now()
	rank := int64(max(min(l.rules.Priority(ctx), 1<<30), -1<<30))
	c := caller{arrived: now, limit: now + min(l.complete.MaxWait, longest), rank: rank, watcher: l.rules.Watcher(ctx)}
	if t, ok := ctx.Deadline(); ok && now+time.Until(t) < c.limit {
		c.limit, c.byContext = max(now+time.Until(t), 1), true
	}
	return c
}

// join enters the queue of this process.
func (t *lease) join() {
	h := t.h
	if len(h.waiters) == 0 {
		h.blame = delay
	}
	h.account(t.arrived, h.blame)
	t.before = h.waited
	i := len(h.waiters)
	for i > 0 && h.waiters[i-1].rank < t.rank {
		i--
	}
	h.waiters = slices.Insert(h.waiters, i, t)
}

// draw draws a delay and names the lease that is asked for.
func (t *lease) draw() {
	t.delay = max(t.limits.Delay.Draw(), t.floor)
	delete(t.l.asked, t.id)
	t.id = t.l.newID()
}

// least is the smallest gap that a request ahead can take.
func (t *lease) least() time.Duration { return max(t.limits.Delay.Min, t.floor) }

// source is what decides the delay of a start at which the server has i.
func (t *lease) source(i hostInfo) string {
	drawn := duration(micros(t.delay)) // as the server counts
	switch {
	case i.learned > max(drawn, i.adaptive):
		return "learned"
	case i.adaptive > drawn:
		return "adaptive"
	case t.delay == t.floor && t.floor > t.limits.Delay.Min:
		return "crawl-delay"
	}
	return "random"
}

// wait waits for the turn in the caller's goroutine, for a signal or until next.
func (t *lease) wait(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer func() { // does something only where an Override or a Watcher of the user's panics
		t.l.mu.Lock()
		defer t.l.mu.Unlock()
		t.refuse(ErrClosed)
	}()
	for {
		limits, err := t.l.rules.Limits(t.h.key)
		t.l.mu.Lock()
		now := t.l.now()
		if err == nil && limits != t.limits { // an error is for the next Acquire
			t.limits, t.delay = limits, max(limits.Delay.Draw(), t.floor)
			t.askAgain()
		}
		t.act(now)
		tell, look := t.waits(now)
		finished, next := t.phase >= held, t.next
		t.l.mu.Unlock()
		if finished {
			return t.err
		}
		if tell != nil {
			tell()
		}
		if look > 0 && (next == 0 || look < next) {
			next = look
		}
		var due <-chan time.Time
		if next > 0 {
			timer.Reset(next - now)
			due = timer.C
		}
		select {
		case <-t.wake:
		case <-due:
		case <-ctx.Done():
			err := ctx.Err()
			t.l.mu.Lock()
			defer t.l.mu.Unlock()
			if now := t.l.now(); errors.Is(err, context.DeadlineExceeded) {
				err = t.refusal(t.retry(now), t.l.rules.TooLate(true, t.h.inTrouble(now)))
			}
			t.refuse(err)
			return t.err
		}
	}
}

// signal wakes the goroutine that waits.
func (t *lease) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// act does what is due. It is the one place that decides when to ask and when to start.
func (t *lease) act(now time.Duration) {
	switch {
	case t.phase == asking || t.phase >= held:
		t.next = 0
	case now >= t.limit && !t.byContext:
		t.refuse(t.refusal(t.retry(now), t.l.rules.TooLate(false, t.h.inTrouble(now))))
	case t.phase == granted:
		t.try(now)
	case t.phase == waiting && now >= t.next, t.phase == parked && (t.h.waiters[0] == t || t.holds):
		t.ask()
	case t.phase != waiting:
		t.next = t.limit
	}
}

// ask calls the server for the start. If that is about to come, the next waiter's question goes
// along: it has its place there before the turn ends.
func (t *lease) ask() {
	h, soon := t.h, t.planned > 0
	t.question()
	if i := slices.Index(h.waiters, t) + 1; soon && i > 0 && i < len(h.waiters) && h.waiters[i].phase == parked {
		h.waiters[i].question()
	}
	h.p.flush()
}

func (t *lease) question() {
	t.phase = asking
	t.next = 0
	t.push = nil
	t.l.asked[t.id] = t
	t.asks++
	t.h.p.add(op{
		name: "take", h: t.h, done: t.answered,
		build: func(now time.Duration) []any {
			return []any{
				t.id, t.asks, t.limits.Concurrency, micros(max(t.limit-now, 0)), micros(t.least()), t.start,
				micros(t.limits.Delay.Ceiling), micros(t.delay), micros(t.floor), t.limits.Delay.FromEnd,
				t.rank, micros(now - t.arrived),
			}
		},
	})
}

// answered takes in the server's reply to a question.
func (t *lease) answered(at reply) {
	if t.phase != asking {
		return // it was given back
	}
	defer t.signal()
	h := t.h
	now := at.received
	a := at.answer
	switch {
	case at.fate == stale:
		t.phase, t.next = waiting, 1
		return
	case at.fate != did:
		t.refuse(unavailable(h.key, at.err))
		return
	}
	what, why := text(a[0]), text(a[2])
	if what != "GO" {
		t.freePlace()
	}
	switch what {
	case "GO":
		i := newHostInfo(a[9:])
		t.granted = granting{
			at: number(a[1]), guard: number(a[2]), delay: duration(a[3]), source: t.source(i), slots: int(number(a[4])), probe: truth(a[5]),
			prev: number(a[7]), others: truth(a[8]), hostInfo: i, heard: at, gen: h.p.gen,
		}
		h.learn(i, at)
		t.phase = granted
		taken, _ := a[6].([]any)
		for _, v := range taken {
			if start, _ := v.([]any); len(start) == 2 { // number 0: the server wasn't sent it
				h.takenBack = append(h.takenBack, hostlimit.TakenBack{Key: h.key, Process: text(start[0]), Seq: uint64(number(start[1]))})
			}
		}
		h.account(now, h.blame)
	case "AT":
		h.learn(newHostInfo(a[3:]), at)
		t.reserve(number(a[1]), at.server, why, now)
	case "LATE":
		h.learn(newHostInfo(a[3:]), at)
		t.phase = parked // the server has forgotten it
		start := h.p.clock.surely(number(a[1]), now)
		if why == "b" {
			start = max(start, h.refusals.Until)
		}
		if h.refusals.Stopped(now) {
			t.refuse(t.stopped())
		} else {
			t.refuse(t.refusal(start, t.l.rules.TooLate(t.byContext, blameOf(why) == block)))
		}
		h.refuseLate()
	case "WAIT":
		t.queue(a, now)
	default: // of something that isn't step.lua
		t.refuse(unavailable(h.key, &ServerError{Server: t.l.server, Err: errMixedUp}))
	}
	if t.push != nil && t.phase == waiting {
		t.push()
	}
}

// Times between questions that only matter if a push got lost, or if nobody listens.
const (
	pollQueue = 5 * time.Second
	pollProbe = 250 * time.Millisecond
	pollDeaf  = 20 * time.Millisecond

	// pollBlock is how often a waiter asks whether a block still holds that a person may have lifted.
	pollBlock = 5 * time.Second
)

// queue notes what t waits for without a known end, the place in the server's queue, since when all
// slots are taken, and the time at which the first of them expires, which nothing pushes.
func (t *lease) queue(a []any, now time.Duration) {
	h, clock := t.h, &t.h.p.clock
	place, full := number(a[1])+1, number(a[3])
	turn := time.Duration(place) * time.Millisecond // those at other places don't ask in the same moment
	t.phase = waiting
	t.planned = 0
	t.why = text(a[2])
	h.account(now, blameOf(t.why))
	h.expiry = max(clock.surely(number(a[4]), now), now)
	poll := pollQueue + turn
	if t.why == "p" {
		poll = pollProbe
	}
	if !t.l.listening {
		poll = min(time.Duration(place)*pollDeaf, time.Second)
	}
	t.next = min(now+poll, h.expiry+turn, t.limit)
	if t.l.complete.SlotTimeout == 0 || full == 0 {
		return
	}
	timeout := max(clock.surely(full, now), t.arrived) + t.l.complete.SlotTimeout
	if t.next = min(t.next, timeout); now >= timeout {
		since := now - clock.surely(number(a[5]), now)
		t.refuse(t.refusal(t.retry(now), t.l.rules.SlotTimeout(t.limits.Concurrency, since)))
	}
}

// reserve notes the time us at which the server, whose clock shows from by now, will let t start.
func (t *lease) reserve(us, from int64, why string, now time.Duration) {
	h := t.h
	due := h.p.clock.surely(us, now)
	switch why {
	case "b":
		due = max(due, h.refusals.Until)
	case "h":
		h.opens = due
	}
	t.phase = waiting
	t.planned = due
	t.why = why
	// The bounds may be from before a step of the server's clock.
	t.next = max(min(due, now+duration(us-from))-h.p.early(), 1)
	if h.refusals.Until > now {
		t.next = min(t.next, now+pollBlock)
	}
	h.account(now, blameOf(why))
	if blameOf(why) == block {
		h.refuseLate()
	}
	// The server hasn't asked whether a better time is good enough, and an answer that came since has
	// refused only those that didn't ask.
	if at, blocked := h.first(); max(at, due) > t.limit {
		t.refuse(t.refusal(max(at, due), t.l.rules.TooLate(t.byContext, blocked)))
	}
}

// pushed takes in that the server, whose clock showed from, gave t a slot, or a better time.
func (t *lease) pushed(us, from int64, why string, now time.Duration) {
	switch t.phase {
	case waiting:
		t.reserve(us, from, why, now)
		t.signal()
	case asking:
		// It overtook the reply that says wait, or is older and does no harm.
		t.push = func() { t.reserve(us, from, why, t.l.now()) }
	}
}

// askAgain makes what the server has promised void.
func (t *lease) askAgain() {
	if t.phase == waiting || t.phase == granted {
		t.phase, t.next = waiting, 1
		t.signal()
	}
}

// window returns when t may start by its grant and by what this process itself owes, and false
// where the grant is void: the server has another generation or another clock, or this process has
// seen the host refuse since t was let go, or in that instant.
func (t *lease) window(now time.Duration) (at time.Duration, valid bool) {
	h, p, g := t.h, t.h.p, &t.granted
	if g.gen != p.gen || p.stepped != 0 || g.heard.received <= h.blocked || h.presumed() > now {
		return 0, false
	}
	at = p.clock.surely(g.at, now)
	if h.started && h.lastBy != t { // else it has kept the gap to the one before already
		at = max(at, h.last+h.gap)
	}
	return at, true
}

// missed reports whether it can't be proved any more that the server's clock is within the window.
func (t *lease) missed(now time.Duration) bool {
	return now-t.h.p.clock.earliest(t.granted.at, now) > time.Duration(t.granted.guard)*time.Microsecond
}

// try ends the wait if it can be proved that the server's clock is within the window.
func (t *lease) try(now time.Duration) {
	p := t.h.p
	at, valid := t.window(now)
	switch {
	case !valid:
		t.phase, t.next = waiting, max(now+linger, t.h.presumed())
		return
	case now < at:
		t.next = at
		return
	}
	p.guard.saw(now - max(at, p.clock.surely(t.granted.heard.server, now)+p.lead))
	if t.missed(now) {
		p.guard.misses++
		t.ask()
	} else if p.guard.misses = 0; t.takePlace() {
		t.begin(now)
	}
}

// begin ends the wait: the caller has the lease and, of an Acquire, until the end of its window to
// start the request.
func (t *lease) begin(now time.Duration) {
	h := t.h
	h.account(now, h.blame)
	for why := range t.waited {
		t.waited[why] += h.waited[why] - t.before[why]
	}
	t.phase = held
	h.leave(t)
	if t.had {
		t.stamp(now)
	} else {
		t.had = true
		t.began = now
		t.renewed = now
		h.leases[t.id] = t
	}
}

// stamp makes now, which is within the window, the start.
func (t *lease) stamp(now time.Duration) {
	h, g := t.h, &t.granted
	h.seq++
	t.start = t.asks
	t.seq = h.seq
	t.began = now
	t.renewed = now
	lo, hi := h.p.clock.bounds(now)
	t.at, t.by = max(g.at, int64((now+lo)/time.Microsecond)), int64((now+hi)/time.Microsecond)+1
	h.started = true
	h.lastBy = t
	h.last = max(h.last, now)
	h.gap = g.delay
	h.source = g.source
	h.next = max(h.next, h.p.clock.surely(g.next, now), now+g.delay)
	send := h.p.addAlong
	if left := duration(g.at + g.guard - t.by); (g.others || len(h.waiters) > 0) && left > g.delay/worth {
		send = h.p.add // others wait that long for nothing
	}
	send(op{name: "started", h: h, args: []any{t.id, t.start, int64(t.seq), t.by}, owed: true})
}

// worth is which part of a delay is worth a call.
const worth = 64

// refusal is the error of a turn that may be had at a later time.
func (t *lease) refusal(retryAt time.Duration, why error) error {
	n := t.h.takeNews()
	return &hostlimit.Error{
		Key: t.h.key, RetryAt: t.l.base.Add(retryAt), Err: why, ByHand: n.byHand, Restored: n.restored, StateErr: n.stateErr,
	}
}

// stopped is the refusal of a turn because a person has blocked the host.
func (t *lease) stopped() error {
	return t.refusal(t.h.refusals.Until, t.l.rules.BlockedByHand(t.h.refusals.Cause))
}

// retry returns when t, which is refused, should come back: the known start time or, if t waited
// for something without a known end, such as a slot, a guess: after as long as it has waited
// already, or once a lease expires.
func (t *lease) retry(now time.Duration) time.Duration {
	if at, _ := t.h.first(); at > now {
		return at
	}
	at := now + (now - t.arrived)
	if t.h.expiry > now {
		at = min(at, t.h.expiry)
	}
	return at
}

// refuse ends a wait with err, and gives back what was taken.
func (t *lease) refuse(err error) {
	switch t.phase {
	case held, over:
		return
	case asking, waiting, granted:
		t.giveBack()
	}
	t.phase, t.err = over, err
	t.freePlace()
	t.h.leave(t)
	t.signal()
}

// giveBack tells the server that the request will not start. No copy of a question that was sent
// before has an effect after it.
func (t *lease) giveBack() {
	undone := t.start == 0 || t.asks != t.start // else the server knows of a start that was one
	t.h.p.add(op{name: "release", h: t.h, owed: true, args: []any{t.id, t.limits.Concurrency, undone, t.start, 0, t.by}})
}

// takePlace takes a place in MaxInFlight and reports whether there was one. Without one t gives its
// turn back and asks for another when it has a place, so that other processes can use the host
// meanwhile.
func (t *lease) takePlace() bool {
	l := t.l
	if !t.holds && !l.isFull() {
		l.inFlight, t.holds = l.inFlight+1, true
	}
	if t.holds {
		return true
	}
	t.giveBack()
	t.draw() // another id, because nothing says that the release arrives before the next question
	t.phase, t.next = inLine, t.limit
	t.h.account(l.now(), slot)
	l.line = append(l.line, t)
	return false
}

// freePlace gives the place of t back, or its place in the line for one. That of a lease which asks
// again stays the lease's.
func (t *lease) freePlace() {
	t.l.line = slices.DeleteFunc(t.l.line, func(o *lease) bool { return o == t })
	if t.holds && !t.had {
		t.holds = false
		t.l.placeFreed()
	}
}

// isFull reports whether no place is free.
func (l *Limiter) isFull() bool {
	return l.complete.MaxInFlight > 0 && (l.inFlight >= l.complete.MaxInFlight || len(l.line) > 0)
}

// placeFreed hands a place that was given back to the lease that has waited longest.
func (l *Limiter) placeFreed() {
	if len(l.line) == 0 {
		l.inFlight--
		return
	}
	t := l.line[0]
	l.line = l.line[1:]
	t.holds, t.phase = true, parked
	t.signal()
}
