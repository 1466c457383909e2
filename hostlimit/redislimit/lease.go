package redislimit

import (
	"context"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/internal/kit"
)

// A lease is one turn that the server gave.
type lease struct {
	l      *Limiter
	h      *host
	id     string
	limits *kit.Limits

	// Guarded by l.mu.
	granted  granting         // the last GO of the server
	waited   [3]time.Duration // in Acquire and Start, by what was waited for
	found    int              // leases that the server has taken back, which Start is to tell
	began    time.Duration    // the last start; before the first one, when the turn was had
	renewed  time.Duration
	holds    bool // a place in MaxInFlight
	started  bool
	waiting  bool // a Start waits for the server: there is nothing to restore or to take back
	lost     bool // a Start has failed: the server has forgotten the lease
	observed bool
	released bool
	expired  bool
	alone    bool // the server doesn't know of it
}

// Start implements [hostlimit.Lease]. The first one costs nothing where it comes within
// the window that the server granted; a later one, and one outside of it, asks the
// server again, which takes the lease's earlier start back. While the server can't be
// reached, such a Start is refused, with FailLocal as well.
func (t *lease) Start(ctx context.Context) (hostlimit.Grant, error) {
	l, h := t.l, t.h
	l.mu.Lock()
	switch {
	case t.released || t.lost || h.leases[t.id] != t:
		l.mu.Unlock()
		return hostlimit.Grant{}, &hostlimit.Error{Key: h.key, Err: kit.ErrEnded}
	case ctx.Err() != nil:
		l.mu.Unlock()
		return hostlimit.Grant{}, ctx.Err()
	case l.closed:
		l.mu.Unlock()
		return hostlimit.Grant{}, ErrClosed
	}
	if now := l.now(); !t.started && t.granted.holds(h, now) {
		t.stamp(now)
		g := t.grant()
		l.mu.Unlock()
		return g, nil
	}
	w := newWaiter(ctx, l, t.limits, 0)
	w.rejoin(t)
	l.mu.Unlock()

	_, err := w.wait(ctx)
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
	h.started = true
	h.last = max(h.last, now)
	h.next = max(h.next, h.p.clock.surely(g.next, now), now+g.delay)
}

// grant tells how the start came about.
func (t *lease) grant() hostlimit.Grant {
	g := &t.granted
	var takenBack []string
	for ; t.found > 0; t.found-- {
		takenBack = append(takenBack, t.h.key)
	}
	return hostlimit.Grant{
		Seq: g.seq, Start: t.l.base.Add(t.began), Delay: g.delay, Slot: g.slots, Slots: t.limits.Slots, Probe: g.probe,
		WaitSlot: t.waited[slot], WaitDelay: t.waited[delay], WaitBlock: t.waited[block], TakenBack: takenBack,
	}
}

// observing bounds how long Observe waits for the server.
const observing = time.Second

// Observe implements [hostlimit.Lease]. It returns at once, except after a refusal
// and after a probe's answer: then it waits for the server, at most a second,
// so that no process starts a request to a host that is known to refuse, and
// so that the Effect is known.
func (t *lease) Observe(o hostlimit.Outcome) hostlimit.Effect {
	l, h := t.l, t.h
	l.mu.Lock()
	if t.observed || t.released {
		l.mu.Unlock()
		return hostlimit.Effect{}
	}
	t.observed = true
	g := t.granted
	l.mu.Unlock()

	meaning := l.rules.Refusals.Meaning(kit.Outcome(o))
	refused, ok := meaning == kit.Refused, meaning == kit.Success
	adaptive := int64(-1)
	if a := t.limits.Adapt(g.adaptive, kit.Outcome(o)); a != g.adaptive {
		adaptive = micros(a)
	}
	failed := 0
	if o.Status >= 400 {
		failed = 1
	}
	kind, wait := "neutral", refused || g.probe || ok && g.refusals > 0
	switch {
	case refused:
		kind = "refused"
	case ok:
		kind = "ok"
	}
	var more, first time.Duration
	if refused {
		more, first = l.rules.Refusals.Stay(g.refusals+1, kit.Outcome(o)), l.rules.Refusals.Stay(1, kit.Outcome(o))
	}

	l.mu.Lock()
	var effect hostlimit.Effect
	now := l.now()
	if !wait && h.refusals > 0 && h.until > now {
		effect.Refusals, effect.Until = h.refusals, l.base.Add(h.untilTold)
	}
	if !wait && adaptive < 0 {
		l.mu.Unlock()
		return effect
	}
	if refused && t.began > h.blocked {
		// Waiters of this process that were let go already ask again.
		h.blocked = now
		for _, w := range h.waiters {
			if w.phase == granted {
				w.poke()
			}
		}
	}
	type learned struct {
		effect hostlimit.Effect
		latest time.Duration
	}
	answered := make(chan learned, 1)
	h.p.add(op{
		name: "observe", h: h, owed: true,
		args: []any{t.id, t.limits.Slots, g.heard.server, kind, g.refusals, micros(more), micros(first), adaptive, failed},
		done: func(reply []any, at heard, err error) {
			if err != nil {
				return // the operation is sent again
			}
			e, latest := t.learn(reply, at, kind)
			answered <- learned{e, latest}
		},
	})
	if wait {
		h.p.flush()
	}
	l.mu.Unlock()
	if !wait {
		return effect
	}
	timer := time.NewTimer(observing)
	defer timer.Stop()
	select {
	case a := <-answered:
		// Requests that were let go just before the block start within their window or not at all.
		effect = a.effect
		timer.Reset(min(a.latest-l.now(), observing))
		<-timer.C
	case <-timer.C:
	}
	return effect
}

// learn takes in what an outcome did. No request that was granted before the outcome can
// still start after latest.
func (t *lease) learn(reply []any, at heard, kind string) (effect hostlimit.Effect, latest time.Duration) {
	h, clock := t.h, &t.h.p.clock
	changed, us, refusals := number(reply[0]) == 1, number(reply[1]), int(number(reply[2]))
	effect.Refusals = refusals
	if us > at.server {
		h.blockedUntil(us, at.received)
		effect.Until = t.l.base.Add(h.untilTold)
	}
	h.refusals = refusals
	switch {
	case changed && kind == "refused":
		effect.Blocked = true
		h.refused(at.received, h.until, refusals)
		latest = clock.surely(number(reply[3]), at.received)
	case changed:
		effect.Cleared = true
		h.until = 0
	}
	return effect, latest
}

// Release implements [hostlimit.Lease]. It doesn't wait for the server, unless the
// Limiter is closed.
func (t *lease) Release() (expired bool) {
	l, h := t.l, t.h
	l.mu.Lock()
	if t.released {
		defer l.mu.Unlock()
		return t.expired
	}
	t.released = true
	for _, w := range h.waiters {
		if w.again == t {
			w.refuse(&hostlimit.Error{Key: h.key, Err: kit.ErrEnded})
			break
		}
	}
	t.end(l.now())
	expired = t.expired
	if t.alone {
		l.mu.Unlock()
		return expired
	}
	undone := 1 // the request was never sent
	if t.started {
		undone = 0
	}
	h.p.add(op{name: "release", h: h, args: []any{t.id, t.limits.Slots, undone}, owed: true})
	closed := l.closed
	l.mu.Unlock()
	if closed {
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
	t.expired = now-t.renewed >= t.l.rules.LeaseTTL
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

// Renew implements [hostlimit.Lease].
func (t *lease) Renew() {
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	// A quarter leaves time for the server to be away.
	if t.released || l.closed || t.alone || now-t.renewed < l.rules.LeaseTTL/4 || t.h.leases[t.id] != t {
		return
	}
	t.renewed = now
	t.h.p.add(op{name: "renew", h: t.h, args: []any{t.id}, owed: true})
}
