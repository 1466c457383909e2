package hostlimit

import (
	"context"
	"time"
)

// A request of a key goes through these states. Everything happens in the goroutine of
// its caller, under the mutex of the shard.
//
//	state     event                       next      why
//	-         Acquire, hold says free     had       nothing is in the way: one lock, no wait
//	-         Acquire, known to be late   refused   a start that comes too late is no use
//	-         Acquire                     queued    behind all that wait already
//	queued    at the head, free           had       lend books the present moment: the gap counts from it
//	queued    too late, MaxWait           refused   refuse tells when to come back
//	queued    SlotTimeout at the head     refused   every slot has been held for too long
//	queued    deadline passed             refused   as one that was foreseen
//	queued    cancelled                   gone      its place is closed up, those behind count anew
//	had       Start, hold says free       started   start moves the booking to the present moment
//	had       Start                       gated     void: another start or a block came between
//	started   Start                       started   or gated, as from had: the stamp before is void
//	gated     at the head, free           started   leases are ahead of the queue: they hold slots
//	gated     too late, context done      had       without a stamp, so that it owes nothing; refused as from queued
//	had       Release, LeaseTTL           gone      void: the booking is undone
//	started   Release, LeaseTTL           gone      past keeps the stamp, which is owed for; FromEnd, or no answer, moves it to the end
//
// And the key itself, of which trouble.refusals, trouble.until, host.failures and busy.probe
// tell. What an answer is, the comment of Outcome says.
//
//	open      refusal                     blocked   until Retry-After, or as the policy says; the delay learns from it
//	open      failure                     open      counted; InARow of them, without a success between, are a refusal
//	open      Reset                       paused    nothing is left of the host's limit, which it says before it refuses
//	paused    until is over               open      nobody has refused: no probe
//	blocked   refusal from before, Reset  blocked   for longer, if it asks for that; not counted
//	blocked   until is over               waiting   for a request to probe
//	waiting   lend, start                 probed    one request is let go, the others wait for its answer
//	waiting   quiet for long (Forgive)    open      the refusals are too long ago to count
//	probed    success                     open      everybody goes on
//	probed    refusal, failure            blocked   for longer: one more refusal in a row
//	probed    any other end, void         waiting   the next request probes
//
// Outside of Config.Windows every key is held as if it were blocked, whatever its state is,
// which goes on meanwhile.

// busy is the live state of a key that has leases or waiters. Everything in
// it but the last four fields is guarded by the shard's mutex.
type busy struct {
	sh   *shard
	host uint32 // its number
	used bool   // not in shard.freeBusy

	inFlight int
	flying   flights
	probe    *lease // first request after a block, until its answer; nil where there are no refusals

	// last is the lease whose stamp is the host's last start; nil: it has been
	// released. past is the last start of those that have been released, which holds
	// where the stamp of last becomes void.
	last *lease
	past stamp

	head, tail *waiter
	waiting    int
	soonest    time.Duration // no waiter's latest start is earlier
	gaps       time.Duration // sum of gapBefore over the queue

	// full is when the slot clock started: since then every slot has been held, and
	// pacing hasn't held the queue. It is `never` while the clock is stopped.
	full time.Duration

	// What held the queue so far, summed up to since.
	since, bySlot, byBlock time.Duration
	inLine                 bool // the head waits for a place of MaxInFlight

	// Guarded by places.mu.
	queued, place bool // in the line; has been handed a place that the head may take
	before, after *busy
}

// A waiter is a request in the queue of a key: it waits for a lease, or with one for its Start.
// Those with a lease are ahead of the others. All but wake is guarded by the shard's mutex.
type waiter struct {
	lease      *lease        // nil: not had yet
	priority   int           // of those without a lease
	watcher    Watcher       // is told of a long wait; nil: nobody is
	told       bool          // it was
	planned    time.Duration // earliest start, as it was known at arrival
	wake       chan struct{} // buffered: look again
	b          *busy         // nil when out of the queue
	prev, next *waiter
	lim        *Limits
	floor      time.Duration
	gapBefore  time.Duration // least gap to the start of prev; 0 at the head
	arrived    time.Duration
	latest     time.Duration // the latest start that is of use
	byContext  bool          // latest is the context's
	giveUp     time.Duration // end of MaxWait
	bySlot     time.Duration // b.bySlot, b.byBlock at arrival
	byBlock    time.Duration
	err        error // refused while it waited
}

// signal makes w look again. It never blocks, and no signal is lost: w looks after it took one.
func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// leastGap is the shortest that the gap between two starts next to each other can be. It is bounded
// (by 2 h 26 min) so that the sum over a million waiters fits, which keeps it a lower bound.
func leastGap(lim *Limits, floor, before time.Duration) time.Duration {
	return min(max(lim.Delay.Min, floor, before), 1<<43)
}

// newWaiter returns a waiter that has come now, and when its turn is of use to ctx.
func (m *Memory) newWaiter(ctx context.Context, lim *Limits, floor, now time.Duration) *waiter {
	giveUp := add(now, m.rules.config.MaxWait)
	w := &waiter{lim: lim, floor: floor, arrived: now, latest: giveUp, giveUp: giveUp, wake: make(chan struct{}, 1), watcher: m.rules.Watcher(ctx)}
	if t, ok := ctx.Deadline(); ok {
		// A start at the very deadline is of no use.
		if last := add(now, time.Until(t)-1); last < w.latest {
			w.latest, w.byContext = last, true
		}
	}
	return w
}

// gated reports whether a lease waits in Start.
func (b *busy) gated() bool { return b.head != nil && b.head.lease != nil }

// behind returns the waiter behind which w belongs, nil for the head of the queue: first those that
// have a lease, then by priority, then as they came.
func (b *busy) behind(w *waiter) (prev *waiter) {
	if w.lease != nil {
		for next := b.head; next != nil && next.lease != nil; next = next.next {
			prev = next
		}
		return prev
	}
	prev = b.tail
	for prev != nil && prev.lease == nil && prev.priority < w.priority {
		prev = prev.prev
	}
	return prev
}

// join puts w behind prev.
func (b *busy) join(w, prev *waiter, now time.Duration) {
	if b.head == nil {
		b.since, b.soonest = now, never
	}
	b.soonest = min(b.soonest, w.latest)
	next := b.head
	if prev != nil {
		next = prev.next
	}
	b.connect(prev, w)
	b.connect(w, next)
	b.waiting++
	w.b, w.bySlot, w.byBlock = b, b.bySlot, b.byBlock
}

// connect makes next follow prev in the queue; nil is its end.
func (b *busy) connect(prev, next *waiter) {
	if prev == nil {
		b.head = next
	} else {
		prev.next = next
	}
	if next == nil {
		b.tail = prev
		return
	}
	next.prev = prev
	b.gaps -= next.gapBefore
	next.gapBefore = 0
	if prev != nil {
		next.gapBefore = leastGap(next.lim, next.floor, prev.floor)
	}
	b.gaps += next.gapBefore
}

// leave takes w out of the queue and lets the next one look.
func (b *busy) leave(w *waiter) {
	b.gaps -= w.gapBefore
	b.connect(w.prev, w.next)
	if w.prev == nil && w.next != nil {
		w.next.signal()
	}
	b.waiting--
	w.b, w.prev, w.next = nil, nil, nil
	if b.head == nil {
		b.leaveLine()
	}
}

// leaveLine gives up the place of MaxInFlight that the head has or waits for.
func (b *busy) leaveLine() {
	if p := b.sh.m.places; p != nil {
		p.leave(b)
	}
	b.inLine = false
}

// bound is the earliest start of a request that joins the queue now behind prev, so far as it is
// known.
func (b *busy) bound(h *host, now time.Duration, lim *Limits, floor time.Duration, prev *waiter) time.Duration {
	if prev == nil {
		return b.sh.first(h, now, floor)
	}
	gaps := b.gaps
	for o := prev.next; o != nil; o = o.next {
		gaps -= o.gapBefore
	}
	return b.sh.m.open(add(b.sh.first(h, now, b.head.floor), gaps+leastGap(lim, floor, prev.floor)))
}

// again is when a turn may be had by w, which isn't: what is known of it or, where
// w was held by what has no known end, such as a slot, a guess: after as long as it has
// waited already, or once a lease expires.
func (b *busy) again(h *host, w *waiter, now time.Duration) time.Duration {
	bound := b.sh.first(h, now, b.head.floor)
	for o := b.head; o != w; o = o.next {
		bound = add(bound, o.next.gapBefore)
	}
	if bound = b.sh.m.open(bound); bound > now {
		return bound
	}
	return min(add(now, now-w.arrived), b.flying.ends(b.sh.m.rules.config.LeaseTTL))
}

// blocked reports whether a block, or Config.Windows, forbids a start at t.
func (b *busy) blocked(h *host, t time.Duration) bool {
	return b.sh.m.open(max(t, b.sh.trouble(h).until)) != t
}

// inTrouble reports whether a block, or the wait for a probe's answer, holds the key.
func (b *busy) inTrouble(h *host, now time.Duration) bool {
	return b.sh.trouble(h).refusals > 0 || b.blocked(h, now)
}

// account books the time since the last event to what held the queue in it.
// Call it before anything changes.
func (b *busy) account(h *host, now time.Duration) {
	if b.head != nil {
		b.sum(h, b.since, now)
	}
	b.since = now
}

// sum books the time between two events to what held the queue.
func (b *busy) sum(h *host, from, now time.Duration) {
	t := b.sh.trouble(h)
	end := min(now, max(from, t.until))
	if b.probe != nil {
		end = now
	}
	b.byBlock += end - from
	from = end
	if hours := b.sh.m.rules.hours; hours != nil {
		closed := hours.closed(b.sh.m.wall(from), now-from)
		b.byBlock += closed
		from += closed
	}
	if !b.gated() && (b.inLine || b.inFlight >= b.head.lim.Concurrency) {
		b.bySlot += now - from
	}
}

// refresh brings b and h up to now: what time alone changes. Places may become
// free, so handOut is to be called afterwards.
func (b *busy) refresh(h *host, now time.Duration) {
	b.account(h, now)
	b.sh.forgive(h, now)
	b.expire(h, now)
}

// A hold is what keeps a request from starting.
type hold uint8

const (
	free    hold = iota
	blocked      // by a refusal
	probing      // a probe has no answer yet
	slots        // every slot is held
	delay        // the gap to the last start isn't over
	line         // every place of MaxInFlight is held
)

// hold reports what keeps a request from starting now, and when that ends at the
// latest if nothing happens. The request has the lease l or, if that is nil, none yet:
// then a place of MaxInFlight has been taken where it is free.
func (b *busy) hold(h *host, lim *Limits, floor, now time.Duration, l *lease) (hold, time.Duration) {
	m := b.sh.m
	t := b.sh.trouble(h)
	open := m.open(max(now, t.until))
	switch {
	case open != now:
		return blocked, open
	case b.probe != nil && b.probe != l:
		return probing, min(b.flying.due(m.rules.config.LeaseTTL), add(t.until, m.rules.refusals.Forgive))
	case l == nil && b.inFlight >= lim.Concurrency:
		return slots, b.flying.due(m.rules.config.LeaseTTL)
	case (l == nil || b.last != l) && h.earliest(floor) > now:
		return delay, max(h.earliest(floor), t.next)
	case t.next > now:
		return delay, t.next
	}
	if l == nil && m.places != nil {
		if ok, until := m.places.take(b, now); !ok {
			return line, until
		}
	}
	return free, now
}

// lend makes a lease, and books its start for now.
func (b *busy) lend(h *host, lim *Limits, floor, now time.Duration, who Watcher) *lease {
	sh := b.sh
	sh.starts++
	t := sh.trouble(h)
	l := sh.newLease()
	l.idle = h.idle(t, now, floor)
	h.book(t, now, floor, lim.Delay.Draw())
	l.b, l.lim, l.floor, l.ord, l.stamp, l.watcher = b, lim, floor, sh.starts, h.stamp(), who
	l.hear(now)
	b.last = l
	b.flying.add(l, now)
	b.inFlight++
	l.slot, l.slots = int32(b.inFlight), int32(lim.Concurrency)
	if t.refusals > 0 {
		b.probe = l
	}
	if p := sh.m.places; p != nil {
		p.lent(l, now)
	}
	return l
}

// start stamps and numbers l, whose request starts now. Its delay stays that of the booking,
// or what has been learned since if that is longer.
func (b *busy) start(h *host, l *lease, now time.Duration) {
	sh := b.sh
	sh.starts++
	t := sh.trouble(h)
	h.pace(t, stamp{now, l.stamp.gap, l.stamp.by})
	h.count(t, l.lim, now, l.idle)
	l.idle = 0
	b.last = l
	l.ord, l.seq, l.stamp, l.started = sh.starts, h.seq, h.stamp(), true
	l.probe = t.refusals > 0
	if l.probe {
		b.probe = l
	}
}

// void takes l's stamp away. Where it was the last of the key, the gap counts from the
// last of the others again.
func (b *busy) void(h *host, l *lease) {
	l.stamp.at = void
	if b.probe == l {
		b.probe = nil
	}
	if b.last != l {
		return
	}
	b.last = nil
	last := b.past
	for o := b.flying.oldest; o != nil; o = o.onKey.next {
		if o.stamp.after(last) {
			b.last, last = o, o.stamp
		}
	}
	h.pace(b.sh.trouble(h), last)
}

// end makes the end of l, whose lease is over, what the gap counts from.
func (b *busy) end(h *host, l *lease, now time.Duration) {
	l.stamp.at = now
	if l.expired {
		l.stamp.at = add(time.Duration(l.heard.Load()), b.sh.m.rules.config.LeaseTTL)
	}
	if since := h.stamp(); b.last != l && l.stamp.after(since) {
		h.pace(b.sh.trouble(h), l.stamp)
		h.raise(add(since.at, since.gap)-h.last, since.by) // a start since then keeps its gap
	}
	// The gap may have become longer since. Of an end and a start at one instant the end counts: the
	// lease of that start may start again, and owes the gap to the end then.
	if l.stamp.at >= h.last {
		b.last, h.last = l, l.stamp.at
	}
}

// free takes l from the requests in flight and lets the head look. Call it after account.
func (b *busy) free(h *host, l *lease, now time.Duration) {
	b.flying.remove(l)
	ended := l.countsFromEnd()
	if ended {
		b.end(h, l, now)
	}
	switch {
	case !l.started:
		b.void(h, l)
	case b.last == l:
		b.last, b.past = nil, h.stamp()
	case l.stamp.after(b.past):
		b.past = l.stamp
	}
	l.b, l.watcher = nil, nil
	b.inFlight--
	b.sh.m.drain.tell()
	if b.probe == l {
		b.probe = nil
	}
	if p := b.sh.m.places; p != nil {
		p.ended(l)
	}
	if ended {
		b.refuseLate(h, now)
	}
	w := b.head
	if w == nil {
		b.full = never
		return
	}
	ready := w.lease == nil && b.inFlight < w.lim.Concurrency && b.probe == nil && b.sh.first(h, now, w.floor) == now
	if p := b.sh.m.places; p != nil && ready {
		// The key stands in line now: another one that is handed the place of l and comes
		// back for a further place may wake first.
		p.join(b)
		b.inLine = true
	}
	w.signal()
}

// expire takes back the leases that were never released.
func (b *busy) expire(h *host, now time.Duration) {
	ttl := b.sh.m.rules.config.LeaseTTL
	for l := b.flying.expired(now, ttl); l != nil; l = b.flying.expired(now, ttl) {
		l.key, l.expired = string(b.sh.name(h)), true
		b.free(h, l, now)
		b.sh.leak(h, l)
	}
}

// refuseLate refuses, after what moved the next start (a block, a higher delay, a
// drawn one, a start that came late), all waiters that then can't start in time.
func (b *busy) refuseLate(h *host, now time.Duration) {
	if b.head == nil {
		return
	}
	m := b.sh.m
	if m.open(add(b.sh.first(h, now, b.head.floor), b.gaps)) <= b.soonest {
		return // not even the last one is late
	}
	b.soonest = never
	var last time.Duration // bound of the waiter before
	for w, next := b.head, (*waiter)(nil); w != nil; w = next {
		next = w.next
		bound := add(last, w.gapBefore)
		if w == b.head { // also where those ahead of it were refused
			bound = b.sh.first(h, now, w.floor)
		}
		if at := m.open(bound); at > w.latest {
			b.refuse(h, w, at, b.sh.m.rules.TooLate(w.byContext, b.blocked(h, w.latest)))
			w.signal()
			continue
		}
		last, b.soonest = bound, min(b.soonest, w.latest)
	}
}

// limit gives all who wait the limits that Override has just given. The head has no lease, so none has.
func (b *busy) limit(lim *Limits) {
	for o := b.head; o != nil; o = o.next {
		o.lim = lim
		b.connect(o.prev, o)
	}
}

// refuse takes w out of the queue.
func (b *busy) refuse(h *host, w *waiter, retryAt time.Duration, why error) {
	refused := b.sh.m.refusal(string(b.sh.name(h)), retryAt, why)
	refused.ByHand = b.sh.act(h)
	w.err = refused
	b.leave(w)
}

// look decides about w: its wait is over, it is refused (w.err), or it goes on waiting,
// and then until the returned time at the latest.
func (b *busy) look(h *host, w *waiter, now time.Duration) (over bool, until time.Duration) {
	if b.head != w {
		return false, never // the head's timer serves the whole queue
	}
	m := b.sh.m
	if w.lease != nil && w.lease.b == nil {
		b.refuse(h, w, now, errEnded) // released while it waited in Start
		return false, 0
	}
	if m.open(now) != now { // perhaps since this moment
		if b.refuseLate(h, now); w.b == nil {
			return false, 0
		}
	}
	why, until := b.hold(h, w.lim, w.floor, now, w.lease)
	if why == free {
		b.leave(w)
		if w.lease == nil {
			w.lease = b.lend(h, w.lim, w.floor, now, w.watcher)
		} else {
			b.start(h, w.lease, now)
		}
		l, bySlot, byBlock := w.lease, b.bySlot-w.bySlot, b.byBlock-w.byBlock
		l.waitSlot += bySlot
		l.waitBlock += byBlock
		l.waitDelay += now - w.arrived - bySlot - byBlock
		if h.gap > w.lim.Delay.Min { // those behind have counted on the least
			b.refuseLate(h, now)
		}
		return true, 0
	}
	if why == line {
		b.inLine = true
	} else {
		b.leaveLine() // a key that is paced or blocked holds no place
	}
	if b.inFlight >= w.lim.Concurrency {
		if b.full == never {
			b.full = now // the head looks as soon as the last slot is lent
		}
		if w.lease == nil {
			deadline := add(max(w.arrived, b.full), m.slotTimeout)
			if now >= deadline {
				b.refuse(h, w, b.again(h, w, now), b.sh.m.rules.SlotTimeout(w.lim.Concurrency, now-b.flying.first(now)))
				return false, 0
			}
			until = min(until, deadline)
		}
	} else {
		b.full = never
	}
	if first := b.sh.first(h, now, w.floor); first > w.latest {
		b.refuse(h, w, first, b.sh.m.rules.TooLate(w.byContext, b.blocked(h, w.latest)))
		return false, 0
	} else if now >= w.giveUp {
		b.refuse(h, w, b.again(h, w, now), b.sh.m.rules.TooLate(false, b.inTrouble(h, now)))
		return false, 0
	}
	// Also while a block holds the queue: a leaked slot is free from its end on,
	// which stops the slot clock.
	return false, min(until, b.flying.due(m.rules.config.LeaseTTL), w.giveUp, m.closes(now))
}

// refusal makes the error of a refused turn.
func (m *Memory) refusal(key string, retryAt time.Duration, why error) *Error {
	return &Error{Key: key, RetryAt: m.at(retryAt), Err: why}
}

// at is the time of day of t.
func (m *Memory) at(t time.Duration) time.Time { return m.base.Add(t) }
