package hostlimit

import "time"

// busy is the live state of a key that somebody holds or wants. Everything in
// it but the last four fields is guarded by the shard's mutex.
type busy struct {
	sh   *shard
	host uint32 // its number
	used bool   // not in shard.freeBusy

	inFlight       int
	oldest, newest *lease // in flight, in the order of their starts
	probe          *lease // first request after a block, until its answer

	head, tail *waiter
	waiting    int
	dated      int   // those of them who can come too late
	gaps       int64 // sum of gapBefore over the queue

	// full is since when every slot is held without a pause in which pacing held
	// the queue: the start of the slot clock. It is never while the clock stands.
	full int64

	// What held the queue so far, summed up to since.
	since, bySlot, byBlock int64
	inLine                 bool // the head waits for a place of MaxInFlight

	// Guarded by places.mu.
	queued, place bool // in the line; has been handed a place that the head may take
	before, after *busy
}

// A waiter is a request in the queue of a key. All but wake is guarded by the
// shard's mutex.
type waiter struct {
	wake       chan struct{} // buffered: look again
	b          *busy         // nil when out of the queue
	prev, next *waiter
	lim        *limits
	floor      int64
	gapBefore  int64 // least gap to the start of prev; 0 at the head
	arrived    int64
	latest     int64 // the latest start that is of use; never
	byContext  bool  // latest is the context's
	giveUp     int64 // end of MaxWait; never
	bySlot     int64 // b.bySlot, b.byBlock at arrival
	byBlock    int64
	err        error // refused while it waited
}

// signal makes w look again. It never blocks, and no signal is lost: w looks
// after it took one.
func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// leastGap is the shortest that the gap between two starts next to each other
// can be. It is bounded (by 2 h 26 min) so that the sum over a million waiters
// fits, which keeps it a lower bound.
func leastGap(lim *limits, floor, before int64) int64 {
	return min(max(lim.min, floor, before), 1<<43)
}

// join appends w.
func (b *busy) join(w *waiter, now int64) {
	if b.tail == nil {
		b.head, b.since = w, now
	} else {
		w.prev, b.tail.next = b.tail, w
		w.gapBefore = leastGap(w.lim, w.floor, b.tail.floor)
	}
	b.tail = w
	b.gaps += w.gapBefore
	b.waiting++
	if w.latest != never {
		b.dated++
	}
	w.b, w.bySlot, w.byBlock = b, b.bySlot, b.byBlock
}

// leave takes w out of the queue and lets the next one look.
func (b *busy) leave(w *waiter) {
	b.gaps -= w.gapBefore
	if w.prev == nil {
		b.head = w.next
	} else {
		w.prev.next = w.next
	}
	if next := w.next; next == nil {
		b.tail = w.prev
	} else {
		next.prev = w.prev
		b.gaps -= next.gapBefore
		next.gapBefore = 0
		if w.prev != nil {
			next.gapBefore = leastGap(next.lim, next.floor, w.prev.floor)
		}
		b.gaps += next.gapBefore
		if w.prev == nil {
			next.signal()
		}
	}
	b.waiting--
	if w.latest != never {
		b.dated--
	}
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

// bound is the earliest start of a request that joins the queue now, so far as it is known.
func (b *busy) bound(h *host, now int64, lim *limits, floor int64) int64 {
	if b.head == nil {
		return h.first(now, floor)
	}
	return add(h.first(now, b.head.floor), b.gaps+leastGap(lim, floor, b.tail.floor))
}

// account books the time since the last event to what held the queue in it.
// Call it before anything changes.
func (b *busy) account(h *host, now int64) {
	from := b.since
	b.since = now
	if b.head == nil {
		return
	}
	if h.refusals > 0 {
		end := now
		if b.probe == nil {
			end = min(now, max(from, h.until))
		}
		b.byBlock += end - from
		from = end
	}
	if b.inLine || b.inFlight >= b.head.lim.slots {
		b.bySlot += now - from
	}
}

// refresh brings b and h up to now: what time alone changes. Places may become
// free, so handOut is to be called afterwards.
func (b *busy) refresh(h *host, now int64) {
	b.account(h, now)
	h.forgive(now, b.sh.m.refusals.forgive)
	b.expire(h, now)
}

// A hold is what keeps the head of a queue from starting.
type hold uint8

const (
	free hold = iota
	blocked
	probing
	slots
	delay
	line
)

// hold reports what keeps a request from starting now, and when that ends at the
// latest if nothing happens. If it is free, a place of MaxInFlight has been taken.
func (b *busy) hold(h *host, lim *limits, floor, now int64) (hold, int64) {
	m := b.sh.m
	switch {
	case h.refusals > 0 && now < h.until:
		return blocked, h.until
	case h.refusals > 0 && b.probe != nil:
		return probing, add(b.probe.start, m.leaseTTL)
	case b.inFlight >= lim.slots:
		return slots, add(b.oldest.start, m.leaseTTL)
	case h.earliest(floor) > now:
		return delay, h.earliest(floor)
	}
	if m.places != nil {
		if ok, until := m.places.take(b); !ok {
			return line, until
		}
	}
	return free, now
}

// start lets a request go: now is its stamp.
func (b *busy) start(h *host, lim *limits, floor, now int64) *lease {
	sh := b.sh
	sh.starts++
	h.start(now, floor, lim.draw())
	l := sh.newLease()
	l.b, l.lim, l.ord, l.seq, l.start, l.delay = b, lim, sh.starts, h.seq, now, h.gap
	l.prev = b.newest
	if b.newest == nil {
		b.oldest = l
	} else {
		b.newest.next = l
	}
	b.newest = l
	b.inFlight++
	l.slot, l.slots = int32(b.inFlight), int32(lim.slots)
	if b.inFlight >= lim.slots && b.full == never {
		b.full = now
	}
	if h.refusals > 0 {
		b.probe, l.probe = l, true
	}
	l.found, h.expired = h.expired, 0
	if p := sh.m.places; p != nil {
		p.started(l)
	}
	return l
}

// free takes l from the requests in flight and lets the head look. Call it after
// account.
func (b *busy) free(h *host, l *lease, now int64) {
	if l.prev == nil {
		b.oldest = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		b.newest = l.prev
	} else {
		l.next.prev = l.prev
	}
	l.b, l.prev, l.next = nil, nil, nil
	b.inFlight--
	if b.probe == l {
		b.probe = nil
	}
	if p := b.sh.m.places; p != nil {
		p.ended(l)
	}
	w := b.head
	if w == nil {
		b.full = never
		return
	}
	ready := b.inFlight < w.lim.slots && h.first(now, w.floor) == now && (h.refusals == 0 || b.probe == nil)
	if p := b.sh.m.places; p != nil && ready {
		// Stand in line now: whoever is handed the place of l and comes back for
		// another may wake first.
		p.join(b)
		b.inLine = true
	}
	w.signal()
}

// expire takes back the leases that were never released.
func (b *busy) expire(h *host, now int64) {
	for l := b.oldest; l != nil && now >= add(l.start, b.sh.m.leaseTTL); l = b.oldest {
		l.key, l.expired = string(b.sh.name(h)), true
		l.told.Store(true)
		b.free(h, l, now)
		if h.expired < ^uint8(0) {
			h.expired++
		}
	}
}

// refuseLate refuses, after what moved the next start (a block, a higher delay, a
// drawn one), everybody who then can't start in time.
func (b *busy) refuseLate(h *host, now int64) {
	if b.dated == 0 {
		return // a queue may be long
	}
	var last int64 // bound of the waiter before
	for w, next := b.head, (*waiter)(nil); w != nil; w = next {
		next = w.next
		bound := add(last, w.gapBefore)
		if w == b.head {
			bound = h.first(now, w.floor)
		}
		if bound > w.latest {
			b.refuse(h, w, bound, tooLate(w.byContext, h.until > w.latest))
			w.signal()
			continue
		}
		last = bound
	}
}

// refuse takes w out of the queue. retryAt is never if it isn't known.
func (b *busy) refuse(h *host, w *waiter, retryAt int64, why error) {
	w.err = b.sh.m.refusal(string(b.sh.name(h)), retryAt, why)
	b.leave(w)
}

// look decides about w: it starts, is refused (w.err), or goes on waiting, and then
// until the returned time at the latest.
func (b *busy) look(h *host, w *waiter, now int64) (*lease, int64) {
	if b.head != w {
		return nil, never // the head's timer serves the whole queue
	}
	m := b.sh.m
	why, until := b.hold(h, w.lim, w.floor, now)
	if why == free {
		l := b.start(h, w.lim, w.floor, now)
		l.waitSlot = b.bySlot - w.bySlot
		l.waitBlock = b.byBlock - w.byBlock
		l.waitDelay = now - w.arrived - l.waitSlot - l.waitBlock
		b.leave(w)
		if h.gap > w.lim.min { // those behind have counted on the least
			b.refuseLate(h, now)
		}
		return l, 0
	}
	if why == line {
		b.inLine = true
	} else {
		b.leaveLine() // who is paced or blocked holds no place
	}
	if b.inFlight >= w.lim.slots {
		if b.full == never { // Override has just lowered the number of slots
			b.full = now
		}
		deadline := add(max(w.arrived, b.full), m.slotTimeout)
		if now >= deadline {
			b.refuse(h, w, never, errSlotTimeout)
			return nil, 0
		}
		until = min(until, deadline)
	} else {
		b.full = never
	}
	if first := h.first(now, w.floor); first > w.latest {
		b.refuse(h, w, first, tooLate(w.byContext, h.refusals > 0 && h.until > w.latest))
		return nil, 0
	} else if now >= w.giveUp {
		if first == now {
			first = never // held by what has no known end
		}
		b.refuse(h, w, first, tooLate(false, h.refusals > 0))
		return nil, 0
	}
	if b.oldest != nil {
		// Also while a block holds the queue: a leaked slot is free from its end on,
		// which stops the slot clock.
		until = min(until, add(b.oldest.start, m.leaseTTL))
	}
	return nil, min(until, w.giveUp)
}

// refusal makes the error of a refused turn.
func (m *Memory) refusal(key string, retryAt int64, why error) error {
	e := &Error{Key: key, Err: why}
	if retryAt != never {
		e.RetryAt = m.at(retryAt)
	}
	return e
}

// at is the time of day of t.
func (m *Memory) at(t int64) time.Time { return m.base.Add(time.Duration(t)) }
