package memory

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/internal/list"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// A lease is one turn. Leases are allocated many at a time and never reused: a call that comes too
// late, or twice, changes no other turn.
type lease struct {
	list.Linked[lease] // in active.flights
	sh                 *shard
	h                  *host
	a                  *active // of h; nil once the slot is free again; guarded, like all below but heard, by sh.mu
	lim                *hostlimit.Limits
	floor              time.Duration

	watcher hostlimit.Watcher // names the request while it holds the slot

	heard atomic.Int64 // when the lease last showed that it is in use; never: it waits in Start

	ord        uint64 // order of starts in the shard
	seq        uint64
	stamp      stamp         // of the start, until then of the booking
	prev       time.Duration // active.ended at the start
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
		sh.chunk = make([]lease, leasesAtOnce)
	}
	l := &sh.chunk[0]
	sh.chunk = sh.chunk[1:] // the garbage collector frees a chunk once none of its leases is in use
	l.sh = sh
	return l
}

// Start implements Lease.
func (l *lease) Start(ctx context.Context) (hostlimit.Grant, error) {
	if h := l.saved(); h != nil {
		return l.startSaved(ctx, h)
	}
	return l.begin(ctx)
}

// begin is Start without a Store.
func (l *lease) begin(ctx context.Context) (hostlimit.Grant, error) {
	sh := l.sh
	m := sh.m
	c := callerOf(ctx)
	g, w, err := l.enter(&c)
	if w == nil {
		m.handOut()
		return g, err
	}
	defer func() { l.hear(m.now()) }() // LeaseTTL counts from the end of the wait
	if _, err := w.wait(ctx, ""); err != nil {
		return hostlimit.Grant{}, err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if l.a == nil { // released between the end of the wait and the lock
		return hostlimit.Grant{}, &hostlimit.Error{Key: l.h.key, RetryAt: m.at(m.now()), Err: m.rules.Ended()}
	}
	return l.granted(), nil
}

// enter starts l, refuses that, or joins the queue. Nearly always the key is as Acquire has left
// it, and enter alone takes the lock. Places may become free: call handOut afterwards.
func (l *lease) enter(c *caller) (hostlimit.Grant, *waiter, error) {
	sh := l.sh
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a := l.a
	h := l.h
	now := sh.m.now()
	if a == nil {
		return hostlimit.Grant{}, nil, &hostlimit.Error{Key: h.key, RetryAt: sh.m.at(now), Err: sh.m.rules.Ended()}
	}
	l.hear(now)
	a.refresh(now)
	err := c.err
	if err == nil {
		err = sh.stop(h, now)
	}
	if err == nil && !a.gated() { // leases that wait already go first
		if why, _ := a.waitCause(l.lim, l.floor, now, l); why == free {
			a.startNow(l, now)
			return l.granted(), nil, nil
		}
	}
	// The stamp of before paces no other request: this one has not reached the wire.
	a.cancelStamp(l)
	a.queue.First.signal() // it may be earlier now
	if err != nil {
		return hostlimit.Grant{}, nil, err
	}
	l.hear(rules.Never) // it doesn't expire while it waits
	w := sh.newWaiter(c, l.lim, l.floor, now)
	w.lease = l
	w.planned = a.first(now, l.floor)
	a.join(w, a.behind(w), now)
	a.refuseLate(now) // l itself, or a waiter behind it
	return hostlimit.Grant{}, w, nil
}

// startNow starts l, and lets the queue know that the booking has become a start.
func (a *active) startNow(l *lease, now time.Duration) {
	booked := a.h.last
	next := a.h.earliest(0)
	a.start(l, now)
	if now-booked > late {
		a.refuseLate(now)
	}
	if a.inLine || a.h.earliest(0) < next {
		a.queue.First.signal() // it is paced now, and holds no place; or its time comes earlier
	}
}

// granted returns how the start of l came about.
func (l *lease) granted() hostlimit.Grant {
	g := hostlimit.Grant{
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
		TakenBack:   l.sh.takenBack(l.h),
		ByHand:      l.h.act(),
	}
	if l.prev != unset { // an earlier start has ended
		g.Prev = l.sh.m.at(l.prev)
	}
	if until := l.h.refusals().Until; until != 0 {
		g.BlockedUntil = l.sh.m.at(until)
	}
	return g
}

// Observe implements Lease.
func (l *lease) Observe(o hostlimit.Outcome) hostlimit.Effect {
	e := l.learn(o)
	if h := l.saved(); h != nil {
		// The caller has its answer: the block is saved however long that takes.
		_, _ = l.sh.sync(context.Background(), h, l.lim, toSave)
		e.StateErr = errors.Join(e.StateErr, l.sh.news(h, nil))
	}
	return e
}

// learn is Observe without a Store.
func (l *lease) learn(o hostlimit.Outcome) hostlimit.Effect {
	sh := l.sh
	m := sh.m
	means := m.rules.Meaning(&o) // under no lock: the policy's list of statuses may be long

	sh.mu.Lock()
	defer sh.mu.Unlock()
	if l.observed || l.released {
		return hostlimit.Effect{}
	}
	l.observed = true
	l.unanswered = o.Status == 0 && means != rules.Silent

	isNews := o.Reset > 0 || (means != rules.Silent && means != rules.Success)
	h := l.host(isNews)
	if h == nil {
		return hostlimit.Effect{} // evicted since the lease expired, and nothing to remember
	}
	a := h.active
	now := m.now()
	if a != nil {
		a.account(now)
	}
	if means == rules.Success && h.served < math.MaxUint32 {
		h.served++
	}
	sh.forgive(h, now)

	// A server that can't answer may hold the request up, as a tarpit does: that time is the host's
	// only from the second such answer in a row on.
	isLonger := means != rules.Unsure && h.adapt(l, o)
	var e hostlimit.Effect
	if means != rules.Success || o.Reset > 0 || h.kept != nil { // else it changes the delay at most
		e = h.observe(m.rules, l, &o, now, sh.starts)
	}
	if means == rules.Unsure && h.refusals().InARow() > 1 {
		isLonger = h.adapt(l, o)
	}
	if a != nil {
		if e.Blocked || e.Cleared || a.probe == l {
			a.probe = nil // the next request probes, or none has to
		}
		a.changed(now, e.Blocked || isLonger)
	}
	if r := h.refusals(); r.Blocks(now) {
		e.Until = m.at(r.Until)
	}
	return e
}

// host returns the host of l's key, which may have been evicted since l expired. It is made anew if
// create is set; otherwise host returns nil.
func (l *lease) host(create bool) *host {
	if l.a != nil {
		return l.h
	}
	if create {
		return l.sh.get(l.h.key, l.sh.m.now())
	}
	return l.sh.hosts[l.h.key]
}

// hear stores that l was in use at t.
func (l *lease) hear(t time.Duration) { l.heard.Store(int64(t)) }

// held returns for how long l has held its slot; 0: it has no stamp.
func (l *lease) held(now time.Duration) time.Duration {
	if l.stamp.at == unset {
		return 0
	}
	return now - l.stamp.at
}

// expiry returns when l expires if it isn't renewed; never while it waits in Start.
func (l *lease) expiry() time.Duration {
	return rules.Add(time.Duration(l.heard.Load()), l.sh.m.leaseTTL)
}

// Renew implements Lease. It takes no lock: active.expire reads the time when the lease is due.
func (l *lease) Renew() {
	if l.heard.Load() != int64(rules.Never) { // else a wait in Start would begin to expire
		l.hear(l.sh.m.now())
	}
}

// Release implements Lease.
func (l *lease) Release() (expired bool) {
	sh := l.sh
	h := l.saved()
	sh.mu.Lock()
	if l.released {
		defer sh.mu.Unlock()
		return l.expired
	}
	l.released = true
	if a := l.a; a != nil { // else it has expired
		now := sh.m.now()
		a.account(now)
		a.release(l, now)
		sh.free(a)
	}
	expired = l.expired
	sh.mu.Unlock()
	sh.m.handOut() // the place of l is free
	if h != nil {
		_, _ = sh.sync(context.Background(), h, l.lim, toSave) // the gap may count from the end
	}
	return expired
}

// countsFromEnd reports whether the gap after l counts from its end: by Delay.FromEnd, or because
// there was no answer. An attempt whose connection was refused after ten seconds has reached the
// site then, as far as is known.
func (l *lease) countsFromEnd() bool { return l.started && (l.lim.Delay.FromEnd || l.unanswered) }
