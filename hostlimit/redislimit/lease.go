package redislimit

import (
	"context"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A lease is one turn that the server gave.
type lease struct {
	l      *Limiter
	h      *host
	id     string
	limits *hostlimit.Limits
	floor  time.Duration
	delay  time.Duration // drawn, or the floor if that is longer

	// Guarded by l.mu.
	granted    granting              // the last GO of the server
	waited     [3]time.Duration      // in Acquire and Start, by what was waited for
	found      []hostlimit.TakenBack // starts whose slots the server has taken back, for Start to report
	seq        uint64                // number of the start
	at         int64                 // its stamp on the server's clock, as it is recorded; 0: void
	by         int64                 // the latest time that the server's clock may have shown then
	began      time.Duration         // the last start; before the first one, when the turn was had
	renewed    time.Duration
	holds      bool              // a place in MaxInFlight
	asks       int64             // takes of the lease
	had        bool              // the caller has it
	watcher    hostlimit.Watcher // nil: none is called
	started    bool
	waiting    bool // a Start waits for the server: there is nothing to restore or to take back
	lost       bool // a Start has failed: the server has forgotten the lease
	observed   bool
	unanswered bool // there was no answer
	released   bool
	expired    bool
	alone      bool // the server doesn't know of it
}

// Start implements [hostlimit.Lease]. The first one costs nothing where it comes within
// the window that the server granted; a later one, and one outside of it, asks the
// server again, which takes the lease's earlier start back. While the server can't be
// reached, such a Start is refused, with FailLocal as well.
func (t *lease) Start(ctx context.Context) (hostlimit.Grant, error) {
	l, h := t.l, t.h
	l.mu.Lock()
	var err error
	switch {
	case t.released || t.lost || h.leases[t.id] != t:
		err = &hostlimit.Error{Key: h.key, Err: l.rules.Ended()}
	case ctx.Err() != nil:
		err = ctx.Err()
	case l.closed:
		err = ErrClosed
	case l.draining:
		err = drained(h.key)
	}
	if err != nil {
		defer l.mu.Unlock()
		t.at = 0
		return hostlimit.Grant{}, err
	}
	if now := l.now(); !t.started && t.granted.holds(h, now) && now >= max(h.owed, h.presumed) {
		t.stamp(now)
		g := t.grant()
		l.mu.Unlock()
		return g, nil
	}
	w := newWaiter(ctx, t)
	w.rejoin()
	l.mu.Unlock()

	err = w.wait(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	t.waiting, t.lost, t.renewed = false, err != nil, l.now()
	if err != nil {
		return hostlimit.Grant{}, err
	}
	return t.grant(), nil
}

// stamp makes now, which is within the window, the start.
func (t *lease) stamp(now time.Duration) {
	h, g := t.h, &t.granted
	t.started, t.began, t.renewed = true, now, now
	h.seq++
	t.seq = h.seq
	lo, hi := h.p.clock.bounds(now)
	t.at, t.by = max(g.at, int64((now+lo)/time.Microsecond)), int64((now+hi)/time.Microsecond)+1
	h.started, h.gap, h.source = true, g.delay, g.source
	h.last = max(h.last, now)
	h.next = max(h.next, h.p.clock.surely(g.next, now), now+g.delay)
	h.owedBy, h.owed = t, now+g.delay
	send := h.p.addAlong
	if left := duration(g.at + g.guard - t.by); (g.others || len(h.waiters) > 0) && left > g.delay/worth {
		send = h.p.add // others wait that long for nothing
	}
	send(op{name: "started", h: h, args: []any{t.id, g.ask, int64(t.seq), t.by}, owed: true})
}

// worth is which part of a delay is worth a call.
const worth = 64

// grant tells how the start came about.
func (t *lease) grant() hostlimit.Grant {
	g := &t.granted
	takenBack := t.found
	t.found = nil
	restored, stateErr := t.h.takeState()
	return hostlimit.Grant{
		Restored: restored, StateErr: stateErr,
		Seq: t.seq, Start: t.l.base.Add(t.began), At: onServer(t.at), Prev: onServer(g.prev), BlockedUntil: onServer(g.until), Delay: g.delay, DelaySource: g.source, Slot: g.slots, Slots: t.limits.Concurrency, Probe: g.probe,
		WaitSlot: t.waited[slot], WaitDelay: t.waited[delay], WaitBlock: t.waited[block], Own: t.l.rules.Own(t.limits),
		TakenBack: takenBack, ByHand: t.h.takeAct(),
	}
}

// onServer returns a time of the server's clock for a record; zero for 0.
func onServer(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return epoch.Add(time.Duration(us) * time.Microsecond)
}

// epoch is what the server's clock counts from.
var epoch = time.Date(1970, time.January, 1, 0, 0, 0, 0, time.UTC)

// Release implements [hostlimit.Lease]. It doesn't wait for the server, unless the Limiter is
// closed.
func (t *lease) Release() (expired bool) {
	l, h := t.l, t.h
	l.mu.Lock()
	if t.released {
		defer l.mu.Unlock()
		return t.expired
	}
	t.released = true
	for _, w := range h.waiters {
		if w.lease == t {
			w.refuse(&hostlimit.Error{Key: h.key, Err: l.rules.Ended()})
			break
		}
	}
	t.end(l.now())
	expired = t.expired
	if !t.alone {
		var started, at int64
		if t.started { // by a turn that may not be the last one that the server has let go
			started, at = t.granted.ask, t.at
		}
		h.p.add(op{name: "release", h: h, args: []any{t.id, t.limits.Concurrency, !t.started, started, at, t.by}, owed: true})
	}
	closed := l.closed
	l.mu.Unlock()
	if closed {
		h.p.last(false)
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
	if t.started && (t.limits.Delay.FromEnd || t.unanswered) {
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
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	// A quarter leaves time for the server to be away.
	if t.released || l.closed || t.alone || now-t.renewed < l.complete.LeaseTTL/4 || t.h.leases[t.id] != t {
		return
	}
	t.renewed = now
	t.h.p.add(op{name: "renew", h: t.h, args: []any{t.id}, owed: true})
}
