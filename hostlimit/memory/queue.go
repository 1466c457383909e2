package memory

import (
	"fmt"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// A request of a key goes through these states. Everything happens in the goroutine of
// its caller, under the mutex of the shard.
//
//	state     event                       next      why
//	-         Acquire, nothing in the way had       waitCause is free: one lock, no wait
//	-         Acquire, known to be late   refused   the caller can't use a start that comes too late
//	-         Acquire                     queued    behind all that wait already
//	queued    at the head, free           had       grant books the present moment: the gap counts from it
//	queued    too late, MaxWait           refused   Error.RetryAt is the time to come back
//	queued    SlotTimeout at the head     refused   every slot has been occupied for too long
//	queued    deadline passed             refused   with the error of a deadline that was foreseen
//	queued    cancelled                   gone      the gaps of the waiters behind are counted anew
//	had       Start, nothing in the way   started   start moves the booking to the present moment
//	had       Start                       gated     another start or a block came between: no stamp any more
//	started   Start                       started   or gated, as from had: the former stamp is cancelled
//	gated     at the head, free           started   leases are ahead of the queue: they have slots
//	gated     too late, context done      had       without a stamp, so without a gap; refused as from queued
//	had       Release, LeaseTTL           gone      cancelStamp undoes the booking
//	started   Release, LeaseTTL           gone      past keeps the stamp and its gap; FromEnd, or no
//	                                                response, moves the stamp to the end
//
// The states of the key itself are those of Refusals. After a block, active.probe is the next
// request, until its response. Outside of Config.Windows every key counts as blocked.

// signal makes w look again. w may be nil. signal never blocks, and no signal is lost, because w
// looks after each receive.
func (w *waiter) signal() {
	if w == nil {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// leastGap returns a lower bound of the gap between two adjacent starts. It is at most 2 h 26 min,
// so that the sum over a million waiters doesn't overflow.
func leastGap(lim *hostlimit.Limits, floor, before time.Duration) time.Duration {
	return min(max(lim.Delay.Min, floor, before), 1<<43)
}

// gated reports whether a lease waits in Start.
func (a *active) gated() bool { return a.queue.First != nil && a.queue.First.lease != nil }

// behind returns the waiter behind which w belongs, nil for the head of the queue. Waiters with a
// lease come first, then those of higher priority, then those that arrived earlier.
func (a *active) behind(w *waiter) (prev *waiter) {
	prev = a.queue.Last
	for prev != nil && prev.lease == nil && (w.lease != nil || prev.priority < w.priority) {
		prev = prev.Prev
	}
	return prev
}

// join puts w behind prev.
func (a *active) join(w, prev *waiter, now time.Duration) {
	if a.queue.First == nil { // w is the first of a new queue
		a.since = now
		a.soonest = rules.Never
	}
	a.soonest = min(a.soonest, w.latest)
	a.queue.Insert(w, prev)
	a.follow(w)
	if w.Next != nil { // its gap was to prev
		a.follow(w.Next)
	}
	w.a = a
	w.bySlot = a.bySlot
	w.byBlock = a.byBlock
}

// follow sets w.gapBefore by the waiter that is now ahead of w.
func (a *active) follow(w *waiter) {
	a.gaps -= w.gapBefore
	w.gapBefore = 0
	if w.Prev != nil {
		w.gapBefore = leastGap(w.lim, w.floor, w.Prev.floor)
	}
	a.gaps += w.gapBefore
}

// leave takes w out of the queue and lets the next one look.
func (a *active) leave(w *waiter) {
	next := w.Next
	wasHead := w.Prev == nil
	a.queue.Remove(w)
	a.gaps -= w.gapBefore
	if next != nil {
		a.follow(next)
		if wasHead {
			next.signal() // only the head has a timer
		}
	}
	w.a = nil
	if a.queue.First == nil {
		a.leavePlaces()
	}
}

// first returns the earliest known start of a request with this floor at the head of the queue.
func (a *active) first(now, floor time.Duration) time.Duration {
	return a.sh.m.open(a.h.first(now, floor))
}

// bound returns the earliest known start of a request that joins the queue now behind prev.
func (a *active) bound(now time.Duration, lim *hostlimit.Limits, floor time.Duration, prev *waiter) time.Duration {
	if prev == nil {
		return a.first(now, floor)
	}
	// The head starts first, and each waiter behind it keeps the least gap to the one ahead.
	gaps := a.gaps
	for o := prev.Next; o != nil; o = o.Next {
		gaps -= o.gapBefore // o starts later, so its gap doesn't matter
	}
	gaps += leastGap(lim, floor, prev.floor)
	head := a.first(now, a.queue.First.floor)
	return a.sh.m.open(rules.Add(head, gaps))
}

// again returns when w, which is refused, should come back: the known start time or, if w waited
// for something without a known end, such as a slot, a guess: after as long as it has waited
// already, or once a lease expires.
func (a *active) again(w *waiter, now time.Duration) time.Duration {
	if bound := a.bound(now, w.lim, w.floor, w.Prev); bound > now {
		return bound
	}
	// It waits for something without a known end.
	return min(rules.Add(now, now-w.arrived), a.expiry())
}

// blocked reports whether a block, or Config.Windows, forbids a start at t.
func (a *active) blocked(t time.Duration) bool {
	return a.sh.m.open(max(t, a.h.refusals().Until)) != t
}

// refusing reports whether a block, or the wait for a probe's answer, holds the key.
func (a *active) refusing(now time.Duration) bool {
	return a.h.refusals().Alone || a.blocked(now)
}

// account adds the time since the last event to bySlot or byBlock, if a slot or a block held the
// queue. Call it before anything changes.
func (a *active) account(now time.Duration) {
	from := a.since
	a.since = now
	if a.queue.First == nil {
		return
	}
	// A moment counts once. While the key was blocked, was waiting for its probe's answer, or was
	// closed by the hours, a free slot would not have helped: the slots have held the queue in the
	// rest only.
	end := min(now, max(from, a.h.refusals().Until))
	if a.probe != nil { // since the end of the block
		end = now
	}
	a.byBlock += end - from
	from = end
	if hours := a.sh.m.hours; hours != nil {
		closed := hours.Closed(a.sh.m.wall(from), now-from)
		a.byBlock += closed
		from += closed
	}
	if a.gated() {
		return // the head is a lease, which has its slot
	}
	if a.lacks != free || a.flights.Len >= a.queue.First.lim.Concurrency {
		a.bySlot += now - from
	}
}

// refresh brings a and its host up to now: time alone ends leases and forgives refusals.
func (a *active) refresh(now time.Duration) {
	a.account(now)
	a.sh.forgive(a.h, now)
	a.expire(now)
}

// A waitCause is the reason why a request can't start.
type waitCause uint8

const (
	free    waitCause = iota
	blocked           // by a refusal
	probing           // a probe has no response yet
	slots             // every slot is held
	delay             // the gap to the last start isn't over
	perSite           // every place of the key's site is held
	line              // every place of MaxInFlight is held
)

// waitCause returns the reason why a request can't start now, and its latest end if nothing
// happens. l is the lease of the request, or nil if it has none yet. If the cause is free then, the
// request has taken a place of MaxInFlight and one of its site.
func (a *active) waitCause(lim *hostlimit.Limits, floor, now time.Duration, l *lease) (waitCause, time.Duration) {
	m := a.sh.m
	r := a.h.refusals()
	open := m.open(max(now, r.Until))
	ownStamp := l != nil && a.last == l // a lease keeps no distance from its own booking
	switch {
	case open != now:
		return blocked, open
	case a.probe != nil && a.probe != l:
		// The wait ends with the lease of the probe, or once the refusals are too old to need one.
		return probing, min(a.due, rules.Add(r.Until, m.forgive))
	case l == nil && a.flights.Len >= lim.Concurrency:
		return slots, a.due
	case !ownStamp && a.h.earliest(floor) > now:
		return delay, max(a.h.earliest(floor), r.next)
	case r.next > now:
		return delay, r.next
	}
	// The places come last: a key takes one only when nothing else keeps it from starting.
	if l == nil {
		return a.takePlaces(now)
	}
	return free, now
}

// grant makes a lease, and books its start for now.
func (a *active) grant(lim *hostlimit.Limits, floor, now time.Duration, name fmt.Stringer) *lease {
	sh := a.sh
	sh.starts++
	l := sh.newLease()
	l.idle = a.h.idle(now, floor) // before the booking, which is a start to the host
	a.h.book(now, floor, rules.Draw(&lim.Delay))
	l.h = a.h
	l.a = a
	l.lim = lim
	l.floor = floor
	l.ord = sh.starts
	l.stamp = a.h.stamp()
	l.name = name
	l.hear(now)
	a.last = l
	a.flights.Insert(l, a.flights.Last)
	a.due = min(a.due, rules.Add(now, sh.m.leaseTTL))
	l.slot = int32(a.flights.Len)
	l.slots = int32(lim.Concurrency)
	if a.h.refusals().Alone {
		a.probe = l
	}
	return l
}

// start stamps and numbers l, whose request starts now. Its delay is that of the booking, or the
// learned one if that has become longer since.
func (a *active) start(l *lease, now time.Duration) {
	sh := a.sh
	sh.starts++
	a.h.pace(stamp{now, l.stamp.gap, l.stamp.by})
	a.h.count(&l.lim.Delay, now, l.idle)
	l.idle = 0
	l.prev = a.ended
	l.ord = sh.starts
	l.seq = a.h.seq
	l.stamp = a.h.stamp()
	l.started = true
	a.last = l
	l.probe = a.h.refusals().Alone
	if l.probe { // even if the block was set after the grant
		a.probe = l
	}
}

// cancelStamp removes l's stamp. If it was the last of the key, the gap counts from the last of the
// others again.
func (a *active) cancelStamp(l *lease) {
	l.stamp.at = unset
	if a.probe == l { // the next request that starts is the probe
		a.probe = nil
	}
	if a.last != l { // a later stamp paces the key
		return
	}
	a.last = nil
	last := a.past
	for o := a.flights.First; o != nil; o = o.Next {
		if o.stamp.after(last) {
			a.last = o
			last = o.stamp
		}
	}
	a.h.pace(last)
}

// end makes the gap count from the end of l, not from its start.
func (a *active) end(l *lease, now time.Duration) {
	l.stamp.at = now
	if l.expired { // its end is noticed only now
		l.stamp.at = l.expiry()
	}
	since := a.h.stamp()
	if a.last != l && l.stamp.after(since) {
		a.h.pace(l.stamp)
		a.h.raise(rules.Add(since.at, since.gap)-a.h.last, since.by) // a start since then keeps its gap
	}
	// The gap may have become longer since. If an end and a start are at one instant, the end
	// counts, because the lease of that start may start again and must keep the gap from the end.
	if l.stamp.at >= a.h.last {
		a.last = l
		a.h.last = l.stamp.at
	}
}

// release removes l from the requests in flight and wakes the head. Call it after account.
func (a *active) release(l *lease, now time.Duration) {
	a.flights.Remove(l)
	if l.started {
		a.ended = max(a.ended, l.stamp.at)
	}
	if l.countsFromEnd() {
		a.end(l, now)
		a.refuseLate(now)
	}
	switch {
	case !l.started:
		a.cancelStamp(l) // without a start there is no gap to keep
	case a.last == l:
		a.last = nil
		a.past = a.h.stamp()
	case l.stamp.after(a.past):
		a.past = l.stamp
	}
	l.a = nil
	l.name = nil
	a.sh.m.drain.ended()
	if a.probe == l { // the probe had no response that decides, so the next request probes
		a.probe = nil
	}
	a.freePlaces(now)
	a.wakeAfter()
}

// couldStart reports whether the head of the queue lacks nothing but a place.
func (a *active) couldStart(now time.Duration) bool {
	head := a.queue.First
	if head == nil || head.lease != nil { // a lease has its place
		return false
	}
	hasSlot := a.flights.Len < head.lim.Concurrency
	return hasSlot && a.probe == nil && a.first(now, head.floor) == now
}

// wakeAfter wakes the waiters for which the end of a lease may change something.
func (a *active) wakeAfter() {
	head := a.queue.First
	if head == nil {
		a.full = rules.Never // no request waits for a slot
		return
	}
	head.signal()
	for w := head; w != nil && w.lease != nil; w = w.Next {
		w.signal() // the head may wait in the Start of the lease that has ended
	}
}

// expire takes back the leases that were never released.
func (a *active) expire(now time.Duration) {
	if now < a.due {
		return
	}
	a.due = rules.Never
	// A lease that waits in Start doesn't expire, but its wait may end at once, and then it may.
	longest := rules.Add(now, a.sh.m.leaseTTL)
	var next *lease
	for l := a.flights.First; l != nil; l = next {
		next = l.Next // release takes l out of the list
		if end := l.expiry(); end > now {
			a.due = min(a.due, end, longest)
			continue
		}
		l.expired = true
		a.release(l, now)
		a.h.leak(l)
	}
}

// expiry returns when the first lease expires if none is renewed, or never if there is none.
func (a *active) expiry() time.Duration {
	end := rules.Never
	for l := a.flights.First; l != nil; l = l.Next {
		end = min(end, l.expiry())
	}
	return end
}

// longest returns the lease that has occupied a slot for the longest time, and this time; 0: it has
// no stamp.
func (a *active) longest(now time.Duration) (longest *lease, held time.Duration) {
	longest = a.flights.First
	for l := longest; l != nil; l = l.Next {
		if l.ord < longest.ord {
			longest = l
		}
	}
	return longest, longest.held(now)
}

// refuseLate refuses all waiters that can't start in time any more. Call it after the next start
// has moved: by a block, a longer delay, a delay that was drawn, a start that came late.
func (a *active) refuseLate(now time.Duration) {
	if a.queue.First == nil {
		return
	}
	m := a.sh.m
	if m.open(rules.Add(a.first(now, a.queue.First.floor), a.gaps)) <= a.soonest {
		return // not even the last one is late
	}
	a.soonest = rules.Never
	var last time.Duration // bound of the waiter before
	var next *waiter
	for w := a.queue.First; w != nil; w = next {
		next = w.Next // refuse takes w out of the queue
		bound := rules.Add(last, w.gapBefore)
		if w == a.queue.First { // also if the waiters ahead of it were refused just now
			bound = a.first(now, w.floor)
		}
		if start := m.open(bound); start > w.latest {
			a.refuse(w, start, m.rules.TooLate(w.byContext, a.blocked(w.latest)))
			w.signal()
			continue // those behind w come earlier without it
		}
		last = bound
		a.soonest = min(a.soonest, w.latest)
	}
}

// changed brings the queue up to date with the key's block and delay, which have changed. later is
// set if the next start may be later now.
func (a *active) changed(now time.Duration, later bool) {
	if a.h.refusals().Stopped(now) {
		a.refuseAll(now) // an operator's block refuses also those that could wait for its end
	} else if later {
		a.refuseLate(now)
	}
	a.queue.First.signal() // its timer may be too late or too early now
	a.sh.free(a)
}

// limit applies lim to every waiter. None holds a lease: those that do stand at the head.
func (a *active) limit(lim *hostlimit.Limits) {
	for w := a.queue.First; w != nil; w = w.Next {
		w.lim = lim
		a.follow(w)
	}
}

// refuse ends the wait of w with an error.
func (a *active) refuse(w *waiter, retryAt time.Duration, why error) {
	w.err = &hostlimit.Error{Key: a.h.key, RetryAt: a.sh.m.at(retryAt), Err: why, ByHand: a.h.act()}
	a.leave(w)
}

// refuseAll refuses all waiters of a by the error of stop.
func (a *active) refuseAll(now time.Duration) {
	for w := a.queue.First; w != nil; w = a.queue.First {
		w.err = a.sh.stop(a.h, now) // an error for each: the first one reports the act
		a.leave(w)
		w.signal()
	}
}
