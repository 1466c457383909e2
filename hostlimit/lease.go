package hostlimit

import (
	"context"
	"math"
	"sync/atomic"
	"time"
	"unsafe"
)

const leaseSize = int(unsafe.Sizeof(lease{}))

// A lease is one turn. Leases are allocated many at a time and never used
// again, so that a call that comes too late, or twice, touches no other turn.
type lease struct {
	sh    *shard
	b     *busy // nil once the slot is free again; guarded, like all below but heard, by sh.mu
	lim   *Limits
	floor time.Duration

	watcher Watcher // names the request while it holds the slot
	key     string  // set when the lease has expired: what to look the host up by

	heard atomic.Int64 // when the lease last showed that it is in use; never: it waits in Start
	onKey link         // in busy.flying
	inAll link         // in places.flying; guarded by places.mu

	ord        uint64 // order of starts in the shard
	seq        uint64
	stamp      stamp         // of the start, until then of the booking
	idle       time.Duration // of the key before the lease; 0 once it has started
	waitSlot   time.Duration
	waitDelay  time.Duration
	waitBlock  time.Duration
	slot       int32
	slots      int32
	probe      bool
	started    bool // seq and stamp are those of a Start
	observed   bool
	unanswered bool // the attempt has failed
	released   bool
	expired    bool
}

func (sh *shard) newLease() *lease {
	if len(sh.chunk) == 0 {
		sh.chunk = make([]lease, leases)
	}
	l := &sh.chunk[0]
	sh.chunk = sh.chunk[1:]
	l.sh = sh
	return l
}

// Start implements Lease.
func (l *lease) Start(ctx context.Context) (Grant, error) {
	k := l.kept()
	if k == nil {
		return l.begin(ctx)
	}
	l.meet(ctx, k)
	g, err := l.begin(ctx)
	if err != nil {
		l.sh.tell(k, err)
		return Grant{}, err
	}
	l.keepStart(context.WithoutCancel(ctx), k, &g)
	g.Restored, g.StateErr = l.sh.news(k)
	return g, nil
}

// begin is Start without a Store. Nearly always it finds the key as Acquire has left it, and
// takes the lock once.
func (l *lease) begin(ctx context.Context) (Grant, error) {
	sh := l.sh
	m := sh.m
	sh.mu.Lock()
	b := l.b
	now := m.now()
	if b == nil {
		defer sh.mu.Unlock()
		return Grant{}, m.refusal(l.key, now, errEnded)
	}
	h := sh.host(b.host)
	l.hear(now)
	b.refresh(h, now)
	err := ctx.Err()
	if err == nil {
		err = sh.stop(h, now)
	}
	if err == nil && !b.gated() {
		if why, _ := b.hold(h, l.lim, l.floor, now, l); why == free {
			before, next := h.last, h.earliest(0)
			b.start(h, l, now)
			if now-before > late {
				b.refuseLate(h, now)
			}
			if b.head != nil && (b.inLine || h.earliest(0) < next) {
				b.head.signal() // it is paced now, and holds no place; or its time comes earlier
			}
			g := l.grant(h)
			sh.mu.Unlock()
			m.handOut()
			return g, nil
		}
	}
	b.void(h, l)
	if b.head != nil {
		b.head.signal() // it may be earlier now
	}
	if err != nil {
		sh.mu.Unlock()
		m.handOut()
		return Grant{}, err
	}
	l.hear(never)
	w := m.newWaiter(ctx, l.lim, l.floor, now)
	w.lease = l
	w.planned = sh.first(h, now, l.floor)
	b.join(w, b.behind(w), now)
	b.refuseLate(h, now)
	sh.mu.Unlock()

	_, err = m.wait(ctx, sh, w, "")
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l.hear(m.now())
	if err == nil && l.b == nil {
		err = m.refusal(l.key, m.now(), errEnded) // released in this very moment
	}
	if err != nil {
		return Grant{}, err
	}
	return l.grant(sh.host(b.host)), nil
}

// grant tells how the start of l came about. h is the state of its key.
func (l *lease) grant(h *host) Grant {
	return Grant{
		Seq:         l.seq,
		Start:       l.sh.m.at(l.stamp.at),
		WaitSlot:    l.waitSlot,
		WaitDelay:   l.waitDelay,
		WaitBlock:   l.waitBlock,
		Delay:       l.stamp.gap,
		DelaySource: l.stamp.by.String(),
		Slot:        int(l.slot),
		Slots:       int(l.slots),
		Probe:       l.probe,
		Own:         l.sh.m.rules.Own(l.lim),
		TakenBack:   l.sh.takenBack(h),
		ByHand:      l.sh.act(h),
	}
}

// Observe implements Lease.
func (l *lease) Observe(o Outcome) Effect {
	e := l.learn(o)
	if k := l.kept(); k != nil {
		l.keep(context.Background(), k)
		e.StateErr = l.sh.failure(k)
	}
	return e
}

// learn is Observe without a Store.
func (l *lease) learn(o Outcome) Effect {
	sh := l.sh
	m := sh.m
	what := m.rules.meaning(&o)

	sh.mu.Lock()
	defer sh.mu.Unlock()
	if l.observed || l.released {
		return Effect{}
	}
	l.observed = true
	l.unanswered = o.Status == 0 && what != silent

	h, b := l.find(what == refused || o.Reset > 0)
	if h == nil {
		return Effect{} // forgotten since the lease expired, and nothing to remember
	}
	// Nearly all answers change the delay at most.
	usual := what == success && o.Reset == 0 && h.trouble == 0 && h.failures == 0
	var now time.Duration
	if !usual || b != nil && b.head != nil {
		now = m.now()
	}
	if b != nil {
		b.account(h, now)
	}
	sh.forgive(h, now)
	h.adaptive = l.lim.Delay.Adapt(h.adaptive, o)
	raised := h.raise(h.adaptive, byAdaptive)
	var e Effect
	if !usual {
		e = l.judge(h, &o, what, now)
	}
	if b != nil {
		if e.Blocked || e.Cleared || b.probe == l {
			b.probe = nil
		}
		if e.Blocked || raised {
			b.refuseLate(h, now)
		}
		if b.head != nil {
			b.head.signal()
		}
		sh.settle(b)
	}
	t := sh.trouble(h)
	e.Refusals = int(t.refusals)
	if t.blocks(now) {
		e.Until = m.at(t.until)
	}
	return e
}

// judge blocks or clears the key of l after an answer.
func (l *lease) judge(h *host, o *Outcome, what meaning, now time.Duration) (e Effect) {
	sh := l.sh
	r := sh.m.rules
	t := sh.trouble(h)
	stopped := sh.stopped(h, now)
	before := l.ord <= t.blockOrd || stopped // a block was set after the start
	switch {
	case what == success:
		h.failures = 0
		e.Cleared = !before && t.clear()
	case what == failed && !before:
		h.failures = min(h.failures, math.MaxUint16-1) + 1
		if int(h.failures) >= r.refusals.InARow || t.refusals > 0 { // while it counts refusals, only probes start
			what = refused
		}
	}
	switch {
	case what == refused && !before:
		h.refuse(sh.inTrouble(h), r, l.lim, now, *o, sh.starts)
		delete(sh.whys, h.trouble)
		e.Blocked = true
	case what == refused, o.Reset > 0:
		// A block has been set since the request started, or the host only tells when it would refuse.
		// Neither counts, but what is asked for is asked now.
		cause := byReset
		if what == refused {
			cause = causeOf(*o)
		}
		if asked := r.Asked(*o); asked > 0 && sh.inTrouble(h).extend(add(now, asked), sh.starts) {
			if !stopped {
				sh.blame(h, cause, "")
			}
			e.Blocked = true
		}
	}
	return e
}

// find returns the state of l's key, which an expired lease has to look up. A state
// that has been forgotten meanwhile is made anew if create, and is nil otherwise.
func (l *lease) find(create bool) (*host, *busy) {
	sh := l.sh
	if l.b != nil {
		return sh.host(l.b.host), l.b
	}
	hash := sh.m.hash(l.key)
	i, ok := sh.find(hash)
	if !ok {
		if !create {
			return nil, nil
		}
		i = sh.get(hash, l.key, sh.m.now())
	}
	h := sh.host(i)
	if h.busy > 0 {
		return h, sh.busy[h.busy-1]
	}
	return h, nil
}

// hear notes that l was in use at t.
func (l *lease) hear(t time.Duration) { l.heard.Store(int64(t)) }

// Renew implements Lease. It takes no lock: the time is noted where the lease is found to be due.
func (l *lease) Renew() {
	if l.heard.Load() != int64(never) {
		l.hear(l.sh.m.now())
	}
}

// Release implements Lease.
func (l *lease) Release() (expired bool) {
	sh := l.sh
	k := l.kept()
	sh.mu.Lock()
	if l.released {
		defer sh.mu.Unlock()
		return l.expired
	}
	l.released = true
	if b := l.b; b != nil {
		h := sh.host(b.host)
		var now time.Duration
		if b.head != nil || l.countsFromEnd() {
			now = sh.m.now()
			b.account(h, now)
		}
		b.free(h, l, now)
		sh.settle(b)
	}
	expired = l.expired
	sh.mu.Unlock()
	sh.m.handOut()
	if k != nil {
		l.keep(context.Background(), k) // the gap may count from the end
	}
	return expired
}

// countsFromEnd reports whether the gap after l counts from its end: by Delay.FromEnd, or because
// there was no answer. An attempt whose connection was refused after ten seconds has reached the
// site then, as far as anybody knows.
func (l *lease) countsFromEnd() bool { return l.started && (l.lim.Delay.FromEnd || l.unanswered) }

// A link is the place of a lease in a list of flights.
type link struct {
	prev, next *lease
	heard      time.Duration // lease.heard, as the list knows it: never later than that
}

// flights is a list of leases, in the order in which each was last heard of. A Renew doesn't move
// its lease; that happens when the lease is looked at because it seems to have expired.
type flights struct {
	oldest, newest *lease
	all            bool // the leases are linked by inAll, not by onKey
}

func (f *flights) link(l *lease) *link {
	if f.all {
		return &l.inAll
	}
	return &l.onKey
}

// add puts l where it belongs, which nearly always is the end.
func (f *flights) add(l *lease, heard time.Duration) {
	prev, next := f.newest, (*lease)(nil)
	for prev != nil && f.link(prev).heard > heard {
		prev, next = f.link(prev).prev, prev
	}
	*f.link(l) = link{prev, next, heard}
	f.connect(prev, l)
	f.connect(l, next)
}

func (f *flights) remove(l *lease) {
	at := f.link(l)
	f.connect(at.prev, at.next)
	at.prev, at.next = nil, nil
}

// connect makes next follow prev; nil is the end of the list.
func (f *flights) connect(prev, next *lease) {
	if prev == nil {
		f.oldest = next
	} else {
		f.link(prev).next = next
	}
	if next == nil {
		f.newest = prev
	} else {
		f.link(next).prev = prev
	}
}

// first is when the first of those leases that have a stamp started; now if none has.
func (f *flights) first(now time.Duration) time.Duration {
	for l := f.oldest; l != nil; l = f.link(l).next {
		if l.stamp.at != void {
			now = min(now, l.stamp.at)
		}
	}
	return now
}

// ends is when the first of the leases expires if none is renewed, or never.
func (f *flights) ends(ttl time.Duration) time.Duration {
	end := never
	for l := f.oldest; l != nil; l = f.link(l).next {
		end = min(end, add(time.Duration(l.heard.Load()), ttl))
	}
	return end
}

// due is when the oldest lease expires at the earliest, or never.
func (f *flights) due(ttl time.Duration) time.Duration {
	if f.oldest == nil {
		return never
	}
	return add(f.link(f.oldest).heard, ttl)
}

// expired returns a lease that wasn't heard of for longer than ttl, or nil.
func (f *flights) expired(now, ttl time.Duration) *lease {
	for f.due(ttl) <= now {
		l := f.oldest
		heard := min(time.Duration(l.heard.Load()), now)
		if add(heard, ttl) <= now {
			return l
		}
		f.remove(l)
		f.add(l, heard)
	}
	return nil
}
