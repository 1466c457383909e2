package redislimit

import (
	"cmp"
	"context"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A lease is one turn, from Acquire on. The goroutine of an Acquire or a Start waits for its wake
// channel and one timer; all the rest happens under l.mu, which guards every field that changes.
type lease struct {
	l      *Limiter
	h      *host
	id     string
	limits *hostlimit.Limits
	floor  time.Duration
	delay  time.Duration // drawn, or the floor if that is longer

	phase   phase
	asks    int64    // questions of the lease
	granted granting // the last GO of the server
	err     error    // of the wait that has ended

	// The wait, of Acquire or Start.
	caller
	wake    chan struct{}
	before  [3]time.Duration // host.waited at arrival
	noticed bool             // the watcher was called
	next    time.Duration    // when to act without being woken; 0: not at all
	planned time.Duration    // earliest start, as the server said last; 0: it isn't known
	why     string           // why not sooner, as step.lua says it
	push    func()           // came while asking

	// Of a lease that the caller has.
	had        bool
	waited     [3]time.Duration // in Acquire and Start, by what was waited for
	start      int64            // number of the question by whose answer it has started; 0: it hasn't
	seq        uint64           // number of the start
	at         int64            // its stamp on the server's clock, as it is recorded; 0: void
	by         int64            // the latest time that the server's clock may have shown then
	began      time.Duration    // the last start; before the first one, when the turn was had
	renewed    time.Duration
	holds      bool // a place in MaxInFlight
	observed   bool
	unanswered bool // there was no answer
	released   bool
	expired    bool
	alone      bool            // the server doesn't know of it
	local      hostlimit.Lease // of FailLocal's Memory; nil: the server gave the turn
}

// Start implements [hostlimit.Lease]. The first one costs nothing where it comes within
// the window that the server granted; a later one, and one outside of it, asks the
// server again, which takes the lease's earlier start back. While the server can't be
// reached, such a Start is refused, with FailLocal as well.
func (t *lease) Start(ctx context.Context) (hostlimit.Grant, error) {
	if t.local != nil {
		return t.startLocal(ctx)
	}
	l, h := t.l, t.h
	c, left := l.caller(ctx), ctx.Err()
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.closes(h.key)
	switch {
	case t.phase != held || h.leases[t.id] != t:
		err = &hostlimit.Error{Key: h.key, Err: l.rules.Ended()}
	case left != nil:
		err = left
	}
	if err != nil {
		t.at = 0
		return hostlimit.Grant{}, err
	}
	now := l.now()
	if at, valid := t.window(now); valid && t.start == 0 && now >= at && !t.missed(now) {
		t.stamp(now)
		return t.grant(), nil
	}
	c.rank, t.caller, t.noticed = mostRank, c, false
	t.at = 0
	t.phase = waiting
	t.next = 1
	t.join()
	func() { // either may panic, as functions of the user's are called
		l.mu.Unlock()
		defer l.mu.Lock()
		err = l.refused(t.wait(ctx))
	}()
	t.renewed = l.now()
	if err != nil {
		return hostlimit.Grant{}, err
	}
	return t.grant(), nil
}

// startLocal is Start of a turn that this process gave itself.
func (t *lease) startLocal(ctx context.Context) (hostlimit.Grant, error) {
	l, h := t.l, t.h
	g, err := t.local.Start(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err = cmp.Or(err, l.closes(h.key)); err != nil {
		return g, err
	}
	now, owed := l.now(), g.Delay/time.Duration(l.conf.Processes) // by the fleet
	h.seq++
	t.asks = 1
	t.start = 1
	t.seq = h.seq
	t.began = now
	t.renewed = now
	t.granted.delay = owed
	h.started = true
	h.lastBy = t
	h.last = now
	h.gap = owed
	h.next = max(h.next, now+owed)
	n := h.takeNews()
	g.Seq = h.seq
	g.Prev = time.Time{}
	g.BlockedUntil = time.Time{}
	g.TakenBack = nil
	g.Restored = n.restored
	g.StateErr = n.stateErr
	g.WaitDelay += t.waited[delay]
	return g, nil
}

// grant describes the start.
func (t *lease) grant() hostlimit.Grant {
	g := &t.granted
	n := t.h.takeNews()
	takenBack := t.h.takenBack
	t.h.takenBack = nil
	return hostlimit.Grant{
		Seq: t.seq, Start: t.l.base.Add(t.began), At: onServer(t.at), Prev: onServer(g.prev), BlockedUntil: onServer(g.until),
		Delay: g.delay, DelaySource: g.source, Slot: g.slots, Slots: t.limits.Concurrency, Probe: g.probe,
		WaitSlot: t.waited[slot], WaitDelay: t.waited[delay], WaitBlock: t.waited[block], Own: t.l.rules.Own(t.limits),
		TakenBack: takenBack, Restored: n.restored, StateErr: n.stateErr, ByHand: n.byHand,
	}
}

// onServer returns a time of the server's clock, which counts from 1970, for a record; zero for 0.
func onServer(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).In(time.UTC)
}

// Release implements [hostlimit.Lease]. It doesn't wait for the server, unless the Limiter is
// closed.
func (t *lease) Release() (expired bool) {
	l, h := t.l, t.h
	if t.local != nil {
		defer func() { expired = t.local.Release() }()
	}
	l.mu.Lock()
	last := l.closed && !t.released
	if !t.released {
		t.refuse(&hostlimit.Error{Key: h.key, Err: l.rules.Ended()}) // a Start that waits
		t.released, t.phase = true, over
		t.end(l.now())
		if !t.alone {
			h.p.add(op{name: "release", h: h, args: []any{t.id, t.limits.Concurrency, t.start == 0, t.start, t.at, t.by}, owed: true})
		}
	}
	expired = t.expired
	l.mu.Unlock()
	if last {
		h.p.last()
	}
	return expired
}

// end takes the lease off the books of this process.
func (t *lease) end(now time.Duration) {
	h := t.h
	if _, ok := h.leases[t.id]; !ok {
		return
	}
	t.expired = now-t.renewed >= t.l.complete.LeaseTTL
	if t.start != 0 && (t.limits.Delay.FromEnd || t.unanswered) {
		h.finished(now, t.granted.delay)
	}
	delete(h.leases, t.id)
	if t.holds {
		t.holds = false
		t.l.placeFreed()
	}
}

// Renew implements [hostlimit.Lease].
func (t *lease) Renew() {
	if t.local != nil {
		t.local.Renew()
	}
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	// A quarter leaves time for the server to be away.
	if l.closed || t.alone || now-t.renewed < l.complete.LeaseTTL/4 || t.h.leases[t.id] != t {
		return
	}
	t.renewed = now
	t.h.p.add(op{name: "renew", h: t.h, args: []any{t.id}, owed: true})
}
