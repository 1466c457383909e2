package redislimit

import (
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A Lease is what Acquire returns, for type assertions: a hostlimit.Lease that tells
// how the turn came about, and that can be renewed.
type Lease interface {
	hostlimit.Lease
	Grant() hostlimit.Grant
	Effect() hostlimit.Effect

	// Renew says that the body is still being read, so that the slot isn't taken
	// back after LeaseTTL. It is cheap: call it at every read.
	Renew()
}

// A lease is one turn that the server gave.
type lease struct {
	l     *Limiter
	h     *host
	id    string
	terms hostlimit.KeyTerms
	grant hostlimit.Grant

	gone     int64 // when the server let it go, on its clock
	refusals int   // that the server knew then
	probe    bool
	adaptive time.Duration // in force then

	// Guarded by l.mu.
	began    time.Duration
	renewed  time.Duration
	holds    bool // a place in MaxInFlight
	observed bool
	released bool
	alone    bool // the server doesn't know of it
	effect   hostlimit.Effect
}

// Grant tells how the turn came about.
func (t *lease) Grant() hostlimit.Grant { return t.grant }

// Effect tells what Observe and Release did.
func (t *lease) Effect() hostlimit.Effect {
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	return t.effect
}

// observing bounds how long Observe waits for the server.
const observing = time.Second

// Observe implements [hostlimit.Lease]. It returns at once, except after a refusal
// and after a probe's answer: then it waits for the server, at most a second,
// so that no process starts a request to a host that is known to refuse, and
// so that Effect is known.
func (t *lease) Observe(o hostlimit.Outcome) {
	l, h := t.l, t.h
	refused, ok := l.terms.Meaning(o)
	adaptive := int64(-1)
	if a := t.terms.Adapt(t.adaptive, o); a != t.adaptive {
		adaptive = micros(a)
	}
	failed := 0
	if o.Status >= 400 {
		failed = 1
	}
	kind, wait := "neutral", refused || t.probe || ok && t.refusals > 0
	switch {
	case refused:
		kind = "refused"
	case ok:
		kind = "ok"
	}
	var more, first time.Duration
	if refused {
		more, first = l.terms.Stay(t.refusals+1, o.RetryAfter), l.terms.Stay(1, o.RetryAfter)
	}

	l.mu.Lock()
	if t.observed || t.released {
		l.mu.Unlock()
		return
	}
	t.observed = true
	if now := l.now(); !wait && h.refusals > 0 && h.until > now {
		t.effect.Refusals, t.effect.Until = h.refusals, l.base.Add(h.untilTold)
	}
	if !wait && adaptive < 0 {
		l.mu.Unlock()
		return
	}
	now := l.now()
	if refused && t.began > h.blocked {
		// Those of this process who were let go already ask again.
		h.blocked = now
		for _, w := range h.waiters {
			if w.phase == granted {
				w.poke()
			}
		}
	}
	answered := make(chan time.Duration, 1)
	h.p.add(op{
		name: "observe", h: h, owed: true,
		args: []any{t.id, t.terms.Slots(), t.gone, kind, t.refusals, micros(more), micros(first), adaptive, failed},
		done: func(reply []any, at heard, err error) {
			if err != nil {
				return // the operation is sent again
			}
			answered <- t.learn(reply, at, kind)
		},
	})
	if wait {
		h.p.flush()
	}
	l.mu.Unlock()
	if !wait {
		return
	}
	timer := time.NewTimer(observing)
	defer timer.Stop()
	select {
	case latest := <-answered:
		// Those who were let go just before the block start within their window or not at all.
		timer.Reset(min(latest-l.now(), observing))
		<-timer.C
	case <-timer.C:
	}
}

// learn takes in what an outcome did. It returns the time after which nobody starts
// on the word of before.
func (t *lease) learn(reply []any, at heard, kind string) (latest time.Duration) {
	h, clock := t.h, &t.h.p.clock
	changed, us, refusals := number(reply[0]) == 1, number(reply[1]), int(number(reply[2]))
	t.effect.Refusals = refusals
	if us > at.server {
		h.blockedUntil(us, at.received)
		t.effect.Until = t.l.base.Add(h.untilTold)
	}
	h.refusals = refusals
	switch {
	case changed && kind == "refused":
		t.effect.Blocked = true
		h.refused(at.received, h.until, refusals)
		return clock.surely(number(reply[3]), at.received)
	case changed:
		t.effect.Cleared = true
		h.until = 0
	}
	return 0
}

// Release implements [hostlimit.Lease]. It doesn't wait for the server, unless the
// Limiter is closed.
func (t *lease) Release() { t.release(0) }

// undo gives the turn back: the request was never sent.
func (t *lease) undo() { t.release(1) }

func (t *lease) release(undone int) {
	l, h := t.l, t.h
	l.mu.Lock()
	if t.released {
		l.mu.Unlock()
		return
	}
	t.released = true
	t.end(l.now())
	if t.alone {
		l.mu.Unlock()
		return
	}
	h.p.add(op{name: "release", h: h, args: []any{t.id, t.terms.Slots(), undone}, owed: true})
	closed := l.closed
	l.mu.Unlock()
	if closed {
		h.p.last()
	}
}

// end takes the lease off the books of this process.
func (t *lease) end(now time.Duration) {
	h := t.h
	if _, ok := h.leases[t.id]; !ok {
		return
	}
	t.effect.Expired = now-t.renewed >= t.l.terms.LeaseTTL()
	delete(h.leases, t.id)
	if len(h.leases) == 0 && h.idle != nil {
		close(h.idle)
		h.idle = nil
	}
	if t.holds {
		t.holds = false
		t.l.placeFreed()
	}
}

// Renew implements [Lease].
func (t *lease) Renew() {
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	// A quarter leaves time for the server to be away.
	if t.released || l.closed || t.alone || now-t.renewed < l.terms.LeaseTTL()/4 || t.h.leases[t.id] != t {
		return
	}
	t.renewed = now
	t.h.p.add(op{name: "renew", h: t.h, args: []any{t.id}, owed: true})
}
