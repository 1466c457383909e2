package redislimit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/redislimit/internal/share"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
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
//	inLine   a place is free                    parked   it asks for another turn, even behind others
//	held     Start, inside the window           held     it has started
//	held     Start, not provable in time        waiting  for its own next start, before all that have no lease
//	waiting  the server lost its data           waiting  earlier promises are void: it asks at once;
//	granted  the same                           waiting  also if an operator lifted a block, or pushes were lost
//	held     Release, or LeaseTTL is over       over
//	others   deadline, MaxWait, context, Close  over     refused; its slot or place is given back

// askNow is a wait.next that is in the past: the waiting goroutine asks as soon as it runs.
const askNow time.Duration = 1

const (
	// mostRank is the rank of a Start, above all others: its lease holds a slot, for which they may
	// be waiting.
	mostRank = 1 << 40

	// mostPriority bounds the priority of an Acquire, in both directions.
	mostPriority = 1 << 30
)

// caller reads ctx for an Acquire or a Start that begins now.
func (l *Limiter) caller(ctx context.Context) caller {
	now := l.now()
	priority := max(min(hostlimit.Priority(ctx), mostPriority), -mostPriority)
	read := caller{
		arrived: now,
		limit:   now + min(l.limits.MaxWait, share.Longest),
		rank:    int64(priority),
		watcher: rules.Watcher(ctx),
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return read
	}
	end := now + time.Until(deadline)
	if end < read.limit {
		read.limit = max(end, 1) // as a wait.next, 0 would never come
		read.byContext = true
	}
	return read
}

// join enters the queue of this process, behind all of its own rank.
func (t *lease) join() {
	h := t.h
	if len(h.waiters) == 0 {
		h.wait.blame = delay // until the server says otherwise
	}
	h.wait.account(t.wait.arrived, h.wait.blame)
	t.wait.before = h.wait.spent
	i := len(h.waiters)
	for i > 0 && h.waiters[i-1].wait.rank < t.wait.rank {
		i--
	}
	h.waiters = slices.Insert(h.waiters, i, t)
}

// draw draws a delay, and gives the lease a new id.
func (t *lease) draw() {
	t.delay = max(rules.Draw(&t.limits.Delay), t.floor)
	// A push for the old id is for a turn that was given back.
	delete(t.l.asked, t.id)
	t.id = t.l.newID()
}

// least is the smallest gap that a request ahead can take.
func (t *lease) least() time.Duration { return max(t.limits.Delay.Min, t.floor) }

// source names the longest of the delays of a start: that of the lease, and those that report has.
func (t *lease) source(report wire.Report) string {
	drawn := wire.MicrosOf(t.delay) // as the server counts
	// If delays are equal, the one that the user has set is named.
	switch {
	case report.Learned > max(drawn, report.Adaptive):
		return "learned"
	case report.Adaptive > drawn:
		return "adaptive"
	case t.delay == t.floor && t.floor > t.limits.Delay.Min:
		return "crawl-delay"
	}
	return "random"
}

// await waits for the turn in the caller's goroutine. It wakes at a signal and at wait.next.
func (t *lease) await(ctx context.Context) error {
	timer := time.NewTimer(time.Hour) // one for the whole wait, set before each select
	defer timer.Stop()
	defer t.abandon() // does something only if an Override or a Watcher of the user panics
	for {
		step := t.step()
		if step.ended {
			return t.wait.err
		}
		// The Watcher is any code, so it is called without mu.
		if step.notify != nil {
			step.notify()
		}
		var due <-chan time.Time // nil: only a signal or ctx ends the select
		if step.next > 0 {
			timer.Reset(step.next - step.now)
			due = timer.C
		}
		select {
		case <-t.wait.wake:
		case <-due:
		case <-ctx.Done():
			return t.leave(ctx.Err())
		}
	}
}

// A waitStep is one look at a lease that waits.
type waitStep struct {
	now    time.Duration
	ended  bool
	next   time.Duration // when to look again without being woken; 0: not at all
	notify func()        // calls the Watcher; nil: it isn't due
}

// step does what is due for t, and returns what its goroutine does next.
func (t *lease) step() waitStep {
	limits, err := t.l.rules.Limits(t.h.key) // Override is any code
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	now := t.l.now()
	// An error of Override is for the next Acquire: this one continues with the limits that it has.
	if err == nil && limits != t.limits {
		t.limits = limits
		t.delay = max(rules.Draw(&limits.Delay), t.floor)
		t.askAgain()
	}
	t.act(now)
	notify, look := t.notice(now)
	// Whichever is earlier: its own next step, or the call of the Watcher.
	next := t.wait.next
	if look > 0 && (next == 0 || look < next) {
		next = look
	}
	return waitStep{now: now, ended: t.phase >= held, next: next, notify: notify}
}

// leave ends the wait because the context has ended with err.
func (t *lease) leave(err error) error {
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	if errors.Is(err, context.DeadlineExceeded) {
		now := t.l.now()
		err = t.refusal(t.retry(now), t.l.rules.TooLate(true, t.h.inTrouble(now)))
	}
	t.refuse(err)
	return t.wait.err
}

// abandon ends a wait whose goroutine panics.
func (t *lease) abandon() {
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	t.refuse(ErrClosed)
}

// signal wakes the goroutine that waits.
func (t *lease) signal() {
	select {
	case t.wait.wake <- struct{}{}:
	default: // it is to wake already
	}
}

// act does what is due. It is the one place that decides when to ask and when to start.
func (t *lease) act(now time.Duration) {
	switch {
	case t.phase == asking || t.phase >= held:
		t.wait.next = 0 // the reply wakes it
	case now >= t.wait.limit && !t.wait.byContext:
		// The end of the context comes to the goroutine's select, which knows whether it was
		// cancelled.
		t.refuse(t.refusal(t.retry(now), t.l.rules.TooLate(false, t.h.inTrouble(now))))
	case t.phase == granted:
		t.try(now)
	case t.phase == waiting && now >= t.wait.next:
		t.ask()
	case t.phase == parked && t.mayAsk():
		t.ask()
	case t.phase != waiting:
		t.wait.next = t.wait.limit
	}
}

// mayAsk reports whether t, which is parked, may ask the server: as the first waiter of its host
// or, wherever it stands, with a place in MaxInFlight, which others wait for.
func (t *lease) mayAsk() bool {
	return t.hasPlace || t.h.waiters[0] == t
}

// ask calls the server for the start. If the start is about to come, the question of the next
// waiter goes along, so that the waiter has its place on the server before the turn ends.
func (t *lease) ask() {
	aboutToStart := t.wait.planned > 0
	t.question()
	next := t.h.behind(t)
	if aboutToStart && next != nil && next.phase == parked {
		next.question()
	}
	t.h.p.flush()
}

// behind returns the waiter behind t; nil: there is none, or t isn't in the queue.
func (h *host) behind(t *lease) *lease {
	i := slices.Index(h.waiters, t)
	if i < 0 || i+1 == len(h.waiters) {
		return nil
	}
	return h.waiters[i+1]
}

// question adds a take for t to the next call.
func (t *lease) question() {
	t.phase = asking
	t.wait.next = 0
	t.wait.push = nil // of an earlier question
	t.l.asked[t.id] = t
	t.asks++ // for the server, which knows copies of earlier takes by it
	t.h.p.add(op{
		h:    t.h,
		done: t.answered,
		// The operation may wait for the call, so its times are computed when the call is made.
		build: func(now time.Duration) wire.Request { return t.take(now) },
	})
}

// take returns the question for a turn, which is sent now.
func (t *lease) take(now time.Duration) *wire.Take {
	return &wire.Take{
		ID:      t.id,
		Seq:     t.asks,
		Started: t.start.take,
		Slots:   t.limits.Concurrency,
		Longest: wire.MicrosOf(max(t.wait.limit-now, 0)),
		Least:   wire.MicrosOf(t.least()),
		Ceiling: wire.MicrosOf(t.limits.Delay.Ceiling),
		Delay:   wire.MicrosOf(t.delay),
		Floor:   wire.MicrosOf(t.floor),
		Blind:   t.blind,
		FromEnd: t.limits.Delay.FromEnd,
		Rank:    t.wait.rank,
		Ago:     wire.MicrosOf(now - t.wait.arrived),
	}
}

// answered moves t on by the server's reply to its question.
func (t *lease) answered(at reply) {
	if t.phase != asking {
		return // it was given back meanwhile
	}
	defer t.signal()
	switch at.fate {
	case did:
	case stale:
		t.phase = waiting
		t.wait.next = askNow
		return
	default:
		// Whether the server has let it go isn't known. The release that refuse adds is right
		// either way.
		t.refuse(unavailable(t.h.key, at.err))
		return
	}
	turn := at.answer.(*wire.Turn)
	if turn.Kind != wire.Go {
		// It doesn't start soon: meanwhile another host's request may use the place.
		t.freePlace()
	}
	switch turn.Kind {
	case wire.Go:
		t.letGo(turn, at)
	case wire.Wait:
		t.h.learn(turn.Host, at)
		t.reserve(turn.At, at.server, turn.Why, at.received)
	case wire.Late:
		t.tooLate(turn, at)
	case wire.Full:
		t.queue(turn, at)
	}
	pushed := t.wait.push
	if pushed != nil && t.phase == waiting {
		t.reserve(pushed.Due, pushed.Now, pushed.Why, t.l.now())
	}
}

// letGo stores the grant in a Go.
func (t *lease) letGo(turn *wire.Turn, at reply) {
	h := t.h
	t.granted = granting{
		at:     turn.At,
		guard:  turn.Guard,
		delay:  turn.Delay.Duration(),
		source: t.source(turn.Host),
		slots:  turn.Slots,
		probe:  turn.Probe,
		prev:   turn.Prev,
		others: turn.Others,
		report: turn.Host,
		heard:  at,
		gen:    h.p.gen.name,
	}
	h.learn(turn.Host, at)
	t.phase = granted
	// The server reports each slot that it took back once, with the next Go of any process.
	for _, gone := range turn.TakenBack {
		h.news.takenBack = append(h.news.takenBack, hostlimit.TakenBack{
			Key:     h.key,
			Process: gone.Process,
			Seq:     uint64(gone.Number), // 0: the server wasn't sent it
		})
	}
	// Until the start, the wait is still for the same reason.
	h.wait.account(at.received, h.wait.blame)
}

// tooLate refuses t because of a Late: its start would be later than it may wait, or the host is
// blocked by hand.
func (t *lease) tooLate(turn *wire.Turn, at reply) {
	h := t.h
	now := at.received
	h.learn(turn.Host, at)
	t.phase = parked // the server has dropped its turn, so there is nothing to give back
	start := h.p.clock.Surely(turn.At, now)
	if turn.Why == whyBlock {
		start = max(start, h.known.Refusals.Until)
	}
	if h.known.Refusals.Stopped(now) {
		t.refuse(t.stopped())
	} else {
		t.refuse(t.refusal(start, t.l.rules.TooLate(t.wait.byContext, blameOf(turn.Why) == block)))
	}
	h.refuseLate()
}

// queue stores the response Full: t waits for something without a known end.
func (t *lease) queue(turn *wire.Turn, at reply) {
	h := t.h
	now := at.received
	clock := &h.p.clock
	place := turn.Place + 1 // in the server's queue
	apart := time.Duration(place) * pollApart
	t.phase = waiting
	t.wait.planned = 0
	t.wait.why = turn.Why
	h.wait.account(now, blameOf(t.wait.why))
	// There is no push when a lease expires.
	h.wait.expiry = max(clock.Surely(turn.Expiry, now), now)
	// A push makes it ask. The polls are for a push that was lost.
	poll := pollQueue + apart
	if t.wait.why == whyProbe {
		poll = pollProbe
	}
	if !t.l.sub.listening {
		poll = min(time.Duration(place)*pollDeaf, time.Second)
	}
	t.wait.next = min(now+poll, h.wait.expiry+apart, t.wait.limit)
	if t.l.limits.SlotTimeout == 0 || turn.FullSince == 0 { // a slot is free
		return
	}
	// The slots may have been full before t came, but it has a whole SlotTimeout of its own.
	timeout := rules.Add(max(clock.Surely(turn.FullSince, now), t.wait.arrived), t.l.limits.SlotTimeout)
	t.wait.next = min(t.wait.next, timeout)
	if now >= timeout {
		oldest := now - clock.Surely(turn.First, now)
		t.refuse(t.refusal(t.retry(now), t.l.rules.SlotTimeout(t.limits.Concurrency, oldest)))
	}
}

// reserve stores the time us at which the server, whose clock shows from by now, will let t start.
func (t *lease) reserve(us, from wire.Micros, why string, now time.Duration) {
	h := t.h
	due := h.p.clock.Surely(us, now)
	switch why {
	case whyBlock:
		due = max(due, h.known.Refusals.Until)
	case whyHours:
		h.wait.opens = due
	}
	t.phase = waiting
	t.wait.planned = due
	t.wait.why = why
	// The bounds of the clock may be from before a step of it; a difference of two of its times
	// isn't.
	inTime := min(due, now+(us-from).Duration())
	t.wait.next = max(inTime-h.p.askAhead(), askNow)
	// An operator who lifts a block may be waiting, so a lost push costs seconds at most.
	if h.known.Refusals.Until > now {
		t.wait.next = min(t.wait.next, now+pollBlock)
	}
	h.wait.account(now, blameOf(why))
	if blameOf(why) == block {
		h.refuseLate()
	}
	// A push is sent for every better time, also for one that is still too late for t. And a block
	// that was seen while t asked has refused only the waiters that didn't ask.
	earliest, blocked := h.first()
	if max(earliest, due) > t.wait.limit {
		t.refuse(t.refusal(max(earliest, due), t.l.rules.TooLate(t.wait.byContext, blocked)))
	}
}

// pushed moves t on by a push.
func (t *lease) pushed(p *wire.Push, now time.Duration) {
	switch t.phase {
	case waiting:
		t.reserve(p.Due, p.Now, p.Why, now)
		t.signal()
	case asking:
		// It overtook the reply that says wait, or is older and does no harm.
		t.wait.push = p
	}
}

// askAgain makes t ask again, if it has asked: the server's earlier promise is void.
func (t *lease) askAgain() {
	if t.phase == waiting || t.phase == granted {
		t.phase = waiting
		t.wait.next = askNow
		t.signal()
	}
}

// window returns when t may start by its grant and by the starts of this process, and false if the
// grant is void: the server has another generation or another clock, or this process has seen the
// host refuse since t was let go, or in that instant.
func (t *lease) window(now time.Duration) (at time.Duration, valid bool) {
	h, p := t.h, t.h.p
	sameServer := t.granted.gen == p.gen.name && p.gen.stepped == 0
	// A grant that came in the instant of a block may have been made before it.
	blockedSince := t.granted.heard.received <= h.known.BlockSeen || h.presumed() > now
	if !sameServer || blockedSince {
		return 0, false
	}
	at = p.clock.Surely(t.granted.at, now)
	// The gap to its own last start is in the grant already.
	if h.known.Started && h.known.LastBy != t {
		at = max(at, h.known.Last+h.known.Gap)
	}
	return at, true
}

// missed reports whether it can't be proved any more that the server's clock is within the window.
func (t *lease) missed(now time.Duration) bool {
	late := now - t.h.p.clock.Earliest(t.granted.at, now)
	return late > t.granted.guard.Duration()
}

// try ends the wait if it can be proved that the server's clock is within the window.
func (t *lease) try(now time.Duration) {
	p := t.h.p
	at, valid := t.window(now)
	if !valid {
		t.phase = waiting
		// It asks again, after the block if there is one. linger keeps it from asking in a circle.
		t.wait.next = max(now+linger, t.h.presumed())
		return
	}
	if now < at {
		t.wait.next = at
		return
	}
	// The time for which the GO was under way isn't a delay of this process.
	arrival := p.clock.Surely(t.granted.heard.server, now) + p.latency
	p.guard.Saw(now - max(at, arrival))
	if t.missed(now) {
		// To start now would shorten the gap to the next start. Each miss doubles the guard.
		p.guard.Misses++
		t.ask()
		return
	}
	p.guard.Misses = 0
	if t.takePlace() {
		t.begin(now)
	}
}

// begin ends the wait: the caller has the lease and, after an Acquire, until the end of its window
// to start the request.
func (t *lease) begin(now time.Duration) {
	h := t.h
	h.wait.account(now, h.wait.blame)
	// The sums of the host are for all of its waiters. The part of t is their growth during its
	// wait.
	for why := range t.use.waited {
		t.use.waited[why] += h.wait.spent[why] - t.wait.before[why]
	}
	t.phase = held
	h.leave(t)
	if t.use.had { // this was a Start
		t.stamp(now)
		return
	}
	t.use.had = true
	t.start.began = now
	t.use.renewed = now
	h.leases[t.id] = t
}

// stamp makes now, which is within the window, the start.
func (t *lease) stamp(now time.Duration) {
	h, granted := t.h, &t.granted
	h.seq++
	lo, hi := h.p.clock.Bounds(now)
	t.start = start{
		take: t.asks,
		seq:  h.seq,
		// The server's clock shows at least the granted time, although its bounds here may be
		// wider.
		stamp: max(granted.at, wire.Micros((now+lo)/time.Microsecond)),
		by:    wire.Micros((now+hi)/time.Microsecond) + 1,
		began: now,
	}
	t.use.renewed = now
	h.known.Begin(t, now, granted.delay)
	h.known.Source = granted.source
	h.known.Next = max(h.known.Next, h.p.clock.Surely(granted.report.Next, now))
	started := &wire.Started{ID: t.id, Seq: t.start.take, Number: int64(t.start.seq), By: t.start.by}
	o := op{h: h, request: started, owed: true}
	// Until the server has it, the next start on the host keeps its distance from the window's end.
	left := (granted.at + granted.guard - t.start.by).Duration()
	othersWait := granted.others || len(h.waiters) > 0
	if othersWait && left > granted.delay/worth {
		h.p.add(o)
	} else {
		h.p.addAlong(o)
	}
}

// worth is the part of a delay that is worth a call.
const worth = 64

// refusal is the error of a turn that may be had at a later time.
func (t *lease) refusal(retryAt time.Duration, why error) error {
	reported := t.h.news.take()
	return &hostlimit.Error{
		Key:      t.h.key,
		RetryAt:  t.l.base.Add(retryAt),
		Err:      why,
		ByHand:   reported.byHand,
		Restored: reported.restored,
		StateErr: reported.stateErr,
	}
}

// stopped is the refusal of a turn because an operator has blocked the host.
func (t *lease) stopped() error {
	refusals := &t.h.known.Refusals
	return t.refusal(refusals.Until, t.l.rules.BlockedByHand(refusals.Cause))
}

// retry returns when t, which is refused, should come back: the known start time or, if t waited
// for something without a known end, such as a slot, a guess: after as long as it has waited
// already, or once a lease expires.
func (t *lease) retry(now time.Duration) time.Duration {
	start, _ := t.h.first()
	if start > now {
		return start
	}
	at := now + (now - t.wait.arrived)
	if t.h.wait.expiry > now {
		at = min(at, t.h.wait.expiry)
	}
	return at
}

// refuse ends a wait with err, and gives back the slot and the place of t.
func (t *lease) refuse(err error) {
	switch t.phase {
	case held, over:
		return // the wait has ended already
	case asking, waiting, granted:
		t.giveBack() // the others have no turn on the server
	}
	t.phase = over
	t.wait.err = err
	t.freePlace()
	t.h.leave(t)
	t.signal()
}

// giveBack releases the turn that the server holds for t, whose request will not start. No copy of
// an earlier question has an effect after it.
func (t *lease) giveBack() {
	started := t.start.take != 0 && t.asks == t.start.take // no question has followed its last start
	t.h.p.add(t.releaseOp(!started, 0))
}
