package memory

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

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
// it, and enter alone takes the lock.
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
	// The previous stamp paces no other request: this request wasn't sent.
	a.cancelStamp(l)
	a.queue.First.signal() // the head may start earlier now
	if err != nil {
		return hostlimit.Grant{}, nil, err
	}
	l.hear(rules.Never) // it doesn't expire while it waits
	w := sh.newWaiter(c, l.lim, l.floor, now)
	w.lease = l
	w.planned = a.first(now, l.floor)
	a.join(w, a.behind(w), now)
	a.leavePlaces()   // another waiter was the head, and no longer waits for them
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
	if a.lacks != free || a.h.earliest(0) < next {
		a.queue.First.signal() // the head waits for the delay now and needs no place, or may start earlier
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
	means := m.rules.Meaning(&o) // before the lock, because the policy's list of statuses may be long

	sh.mu.Lock()
	defer sh.mu.Unlock()
	if l.observed || l.released {
		return hostlimit.Effect{}
	}
	l.observed = true
	l.unanswered = o.Status == 0 && means != rules.Silent

	asks := m.rules.Asks(&o)
	isNews := asks || (means != rules.Silent && means != rules.Success)
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
	l.before = h.refusals().Counts()

	// A server that fails may hold the request up, as a tarpit does. That time counts as the host's
	// response time only from the second such answer in a row on.
	isLonger := means != rules.Unsure && h.adapt(l, o)
	var e hostlimit.Effect
	if means != rules.Success || asks || h.kept != nil { // else o changes at most the delay
		e = h.observe(m.rules, l, &o, now, sh.starts)
	}
	if means == rules.Unsure && h.refusals().InARow() > 1 {
		isLonger = h.adapt(l, o)
	}
	if a != nil {
		if e.Blocked || e.Cleared || a.probe == l {
			a.probe = nil // the next request probes, or none needs to
		}
		a.changed(now, e.Blocked || isLonger)
	}
	l.until(h, &e, now)
	return e
}

// until sets the end of the block in force in e, if one holds h.
func (l *lease) until(h *host, e *hostlimit.Effect, now time.Duration) {
	if r := h.refusals(); r.Blocks(now) {
		e.Until = l.sh.m.at(r.Until)
	}
}

// Revise implements Lease.
func (l *lease) Revise(o hostlimit.Outcome) hostlimit.Effect {
	e, h := l.unlearn(o)
	if h == nil {
		return e
	}
	sh := l.sh
	if sh.m.config.Store != nil {
		_, _ = sh.sync(context.Background(), h, l.lim, toSave)
		e.StateErr = errors.Join(e.StateErr, sh.news(h, nil))
	}
	return e
}

// unlearn is Revise without a Store. The host is nil if nothing was done.
func (l *lease) unlearn(o hostlimit.Outcome) (hostlimit.Effect, *host) {
	sh := l.sh
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !l.observed || l.revised || o.Refused == "" {
		return hostlimit.Effect{}, nil
	}
	l.revised = true
	now := sh.m.now()
	h := sh.get(l.h.key, now) // it may have been evicted since
	a := h.active
	if a != nil {
		a.account(now)
	}
	sh.forgive(h, now)
	e := h.change(l, now, sh.starts, func(s *rules.Refusals, t rules.Turn) hostlimit.Effect {
		return s.Revise(sh.m.rules, o, t, l.before)
	})
	if a != nil {
		if e.Blocked {
			a.probe = nil
		}
		a.changed(now, e.Blocked)
	}
	l.until(h, &e, now)
	return e, h
}

// host returns the host of l's key. If it was evicted after l expired, host makes a new one if
// create is set, and otherwise returns nil.
func (l *lease) host(create bool) *host {
	if l.a != nil {
		return l.h
	}
	if create {
		return l.sh.get(l.h.key, l.sh.m.now())
	}
	return l.sh.hosts[l.h.key]
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
	if h != nil {
		_, _ = sh.sync(context.Background(), h, l.lim, toSave) // the gap may count from the end
	}
	return expired
}

// saved returns the host of l's key, whose debt the Store keeps. It returns nil without a Store,
// after Release, and if the key was evicted after l expired.
func (l *lease) saved() *host {
	sh := l.sh
	if sh.m.config.Store == nil {
		return nil
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if l.released {
		return nil
	}
	return l.host(false)
}

// startSaved is Start with a Store. The next start is saved if it is far away.
func (l *lease) startSaved(ctx context.Context, h *host) (hostlimit.Grant, error) {
	sh := l.sh
	why := toUse
	if l.gap() > far {
		// Another process that has read this debt too may have started a request since.
		why = toDecide
	}
	_, _ = sh.sync(ctx, h, l.lim, why) // begin returns ctx's error
	g, err := l.begin(ctx)
	if err != nil {
		sh.addNews(h, err)
		return hostlimit.Grant{}, err
	}
	ctx = context.WithoutCancel(ctx) // the start has to be saved
	for range 3 {                    // more than once if saving takes longer than margin
		if saved, _ := sh.sync(ctx, h, l.lim, toSave); !saved {
			break
		}
		l.restamp(h, &g)
	}
	g.StateErr = sh.news(h, &g.Restored)
	return g, nil
}

// gap returns the gap that must follow the stamp of l.
func (l *lease) gap() time.Duration {
	l.sh.mu.Lock()
	defer l.sh.mu.Unlock()
	return l.stamp.gap
}

// restamp moves the stamp of l, whose start is g, behind the time that saving took. Nothing has
// been sent yet.
func (l *lease) restamp(h *host, g *hostlimit.Grant) {
	sh := l.sh
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a := l.a
	if a == nil { // it has ended meanwhile
		return
	}
	now := sh.m.now()
	if a.last != l || h.refusals().Blocks(now) { // the next start is paced by another one, or by the block
		return
	}
	a.account(now)
	h.last = now
	l.stamp.at = now
	g.Start = sh.m.at(now)
}

// takenBack returns the leases for Grant.TakenBack, once: those of h, and those of other keys that
// sweep has found.
func (sh *shard) takenBack(h *host) []hostlimit.TakenBack {
	return append(sh.m.sweeper.report(), h.leaked()...)
}
