package redislimit

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A lease is one turn that the server gave.
type lease struct {
	l      *Limiter
	h      *host
	id     string
	number uint64 // in id
	limits *hostlimit.Limits
	floor  time.Duration
	delay  time.Duration // drawn, or the floor if that is longer

	// Guarded by l.mu.
	granted    granting         // the last GO of the server
	waited     [3]time.Duration // in Acquire and Start, by what was waited for
	found      int              // leases that the server has taken back, which Start is to tell
	began      time.Duration    // the last start; before the first one, when the turn was had
	renewed    time.Duration
	holds      bool  // a place in MaxInFlight
	asks       int64 // takes of the lease
	watcher    hostlimit.Watcher
	restoring  int           // restores under way that tell of it
	wasTold    bool          // a restore has told of it
	doubt      time.Duration // until when a copy of one that has failed may come
	started    bool
	waiting    bool // a Start waits for the server: there is nothing to restore or to take back
	lost       bool // a Start has failed: the server has forgotten the lease
	observed   bool
	unanswered bool // there was no answer
	released   bool
	undone     int // 1: it was released without a start
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
	switch {
	case t.released || t.lost || h.leases[t.id] != t:
		l.mu.Unlock()
		return hostlimit.Grant{}, &hostlimit.Error{Key: h.key, Err: l.rules.Ended()}
	case ctx.Err() != nil:
		l.mu.Unlock()
		return hostlimit.Grant{}, ctx.Err()
	case l.closed:
		l.mu.Unlock()
		return hostlimit.Grant{}, ErrClosed
	case l.draining:
		l.mu.Unlock()
		return hostlimit.Grant{}, drained(h.key)
	}
	if now := l.now(); !t.started && t.granted.holds(h, now) && now >= max(h.owed, h.presumed) {
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
		if h.owedBy == t { // it has no stamp any more
			h.owedBy, h.owed = nil, h.owedBefore
		}
		return hostlimit.Grant{}, err
	}
	return t.grant(), nil
}

// stamp makes now, which is within the window, the start.
func (t *lease) stamp(now time.Duration) {
	h, g := t.h, &t.granted
	t.started, t.began, t.renewed = true, now, now
	h.started, h.gap, h.source = true, g.delay, g.source
	h.last = max(h.last, now)
	h.next = max(h.next, h.p.clock.surely(g.next, now), now+g.delay)
	if h.owedBy != t {
		h.owedBy, h.owedBefore = t, h.owed
	}
	h.owed = now + g.delay
	t.tell(now)
}

// tell tells the server that the request starts now, if anybody waits for the next start: what is
// left of the window would be added to the gap. It costs no call where this process is about to ask
// for that start.
func (t *lease) tell(now time.Duration) {
	p, g := t.h.p, &t.granted
	if g.delay == 0 || t.limits.Delay.FromEnd {
		return
	}
	at := g.at + int64(max(p.clock.passed(g.at, now), 0)/time.Microsecond) + 1
	switch o := (op{name: "begun", h: t.h, args: []any{t.id, t.asks, at}}); {
	case g.awaited:
		p.add(o)
	case len(t.h.waiters) > 0:
		p.addAlong(o)
	}
}

// grant tells how the start came about.
func (t *lease) grant() hostlimit.Grant {
	g := &t.granted
	var takenBack []hostlimit.TakenBack
	for ; t.found > 0; t.found-- {
		takenBack = append(takenBack, hostlimit.TakenBack{Key: t.h.key})
	}
	restored, stateErr := t.h.takeState()
	return hostlimit.Grant{
		Restored: restored, StateErr: stateErr,
		Seq: g.seq, Start: t.l.base.Add(t.began), Delay: g.delay, DelaySource: g.source, Slot: g.slots, Slots: t.limits.Concurrency, Probe: g.probe,
		WaitSlot: t.waited[slot], WaitDelay: t.waited[delay], WaitBlock: t.waited[block], Own: t.l.rules.Own(t.limits),
		TakenBack: takenBack, ByHand: t.h.takeAct(),
	}
}

// observing bounds how long Observe waits for the server.
const observing = time.Second

// Observe implements [hostlimit.Lease]. It returns at once after a success, of a host that has
// served everybody so far. Otherwise it waits for the server, at most a second: so that no process
// starts a request to a host that is known to refuse, and so that the Effect is known. If the
// server doesn't answer by then, the Effect is what this process keeps to until it has.
func (t *lease) Observe(o hostlimit.Outcome) hostlimit.Effect {
	l, h := t.l, t.h
	l.mu.Lock()
	if t.observed || t.released {
		l.mu.Unlock()
		return hostlimit.Effect{}
	}
	t.observed = true
	known := t.granted.told
	l.mu.Unlock()

	f := t.judge(o, known.refusals) // may take a while, or panic: policies are the user's
	l.mu.Lock()
	t.unanswered = o.Status == 0 && (f.kind == fails || f.kind == refuses)
	now := l.now()
	if t.unanswered && t.started {
		h.finished(now, t.granted.delay) // which a restore tells, if the server forgets it
	}
	if f.adapt != nil {
		send := h.p.addAlong // a shorter delay has time
		if d := t.limits.Delay.Adapt(known.adaptive, o); d > max(known.adaptive, t.limits.Delay.Min) {
			send = h.p.add
			h.raise(d)
		}
		send(op{name: "adapt", h: h, owed: true, args: f.adapt})
	}
	switch quiet := !t.granted.probe && !f.asks; {
	case quiet && f.kind == serves && max(known.refusals, known.failures, h.failures) == 0:
		h.p.addAlong(op{name: "served", h: h, owed: true}) // others may have seen failures since
		fallthrough
	case quiet && f.kind == neutral:
		defer l.mu.Unlock()
		return h.effect(now)
	}
	if f.kind == refuses && t.began > h.blocked {
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
	h.unheard++
	h.p.add(op{
		name: "observe", h: h, owed: true,
		args: append([]any{t.id, t.limits.Concurrency, t.granted.heard.server}, f.observe...),
		done: func(reply []any, at heard, err error) {
			if err != nil && (h.p.down != nil || errors.Is(err, errStale)) {
				return // the operation is sent again
			}
			if h.unheard--; h.unheard == 0 {
				h.presumed = 0
			}
			var a learned
			if err == nil { // else the host's state can't be read
				a.effect, a.latest = h.learn(reply, at)
			}
			answered <- a
		},
	})
	if l.closed {
		defer l.mu.Unlock()
		return h.presume(f, known, now) // Release sends it
	}
	h.p.flush()
	l.mu.Unlock()
	timer := time.NewTimer(observing)
	defer timer.Stop()
	select {
	case a := <-answered:
		a.effect.StateErr = l.save(context.WithoutCancel(l.ctx), h)
		// Requests that were let go just before start within their window or not at all.
		timer.Reset(min(a.latest-l.now(), observing))
		<-timer.C
		return a.effect
	case <-timer.C:
		l.mu.Lock()
		defer l.mu.Unlock()
		select {
		case a := <-answered: // in this very moment
			return a.effect
		default:
			return h.presume(f, known, now)
		}
	}
}

// presume is the effect of an outcome at the time at, of which the server may not know yet: this
// process keeps to it already.
func (h *host) presume(f *finding, known told, at time.Duration) hostlimit.Effect {
	stay := f.asked
	if f.kind == refuses || f.kind == fails && (known.refusals > 0 || known.failures+1 >= h.l.backoff.InARow) {
		stay = f.stay
		h.refusals = max(h.refusals, known.refusals+1)
	}
	if stay > 0 {
		h.blocked, h.presumed = max(h.blocked, at), max(h.presumed, at+stay)
		if h.presumed > h.until {
			h.until, h.untilTold = h.presumed, h.presumed
		}
		h.weed()
	}
	e := h.effect(at)
	e.Blocked = stay > 0
	return e
}

// The words of Rules.Meaning, which step.lua shares.
const (
	neutral = "neutral" // says nothing about the host
	serves  = "ok"
	fails   = "failed"
	refuses = "refused"
)

// A finding is what an Outcome says, in the words of step.lua.
type finding struct {
	kind    string
	asks    bool          // that nobody comes for a time, without refusing
	asked   time.Duration // for how long it asks that nobody comes
	stay    time.Duration // how long it blocks, if it is one more refusal in a row
	adapt   []any         // arguments of adapt; nil: the outcome doesn't move the delay by response times
	observe []any         // arguments of observe, from kind on
}

// judge judges o, which comes after that many refusals in a row.
func (t *lease) judge(o hostlimit.Outcome, refusals int) *finding {
	r, limits := t.l.rules, t.limits
	f := &finding{kind: r.Meaning(o), asks: o.Reset > 0}
	if atOnce, halfway, raise, moves := limits.Delay.Adaptive.Move(&o); moves {
		f.adapt = []any{t.id, micros(limits.Delay.Min), micros(limits.Delay.Ceiling), us(atOnce), us(halfway), raise}
	}
	if f.asks || f.kind == refuses {
		f.asked = r.Asked(o)
	}
	f.observe = []any{f.kind, micros(f.asked)}
	if f.kind == neutral || f.kind == serves {
		return f
	}
	cause := strconv.Itoa(o.Status)
	switch {
	case o.Status == 0:
		cause = "network"
	case o.Refused != "":
		cause = "refused"
	}
	ceiling := time.Duration(0)
	if limits.Delay.Adaptive.Learns() && r.Teaches(o) {
		ceiling = limits.Delay.Ceiling
	}
	f.stay = r.Stay(refusals+1, o)
	f.observe = append(f.observe, cause, t.l.backoff.InARow, refusals, micros(f.stay), micros(r.Stay(1, o)),
		micros(limits.Delay.Min), micros(ceiling), micros(t.granted.delay))
	return f
}

// us is a number of nanoseconds for step.lua.
func us(ns float64) float64 { return min(ns/1e3, 1<<50) }

// effect is that of an outcome which changes nothing.
func (h *host) effect(now time.Duration) (e hostlimit.Effect) {
	if h.until > now {
		e.Refusals, e.Until = h.refusals, h.l.base.Add(h.untilTold)
	}
	return e
}

// learn takes in what an outcome did. Where others have to keep away now, by a block or because the
// gap counts from the end, no request that was granted before the outcome can still start after
// latest.
func (h *host) learn(reply []any, at heard) (effect hostlimit.Effect, latest time.Duration) {
	now, clock := at.received, &h.p.clock
	effect.Blocked, effect.Cleared = number(reply[0]) == 1, number(reply[1]) == 1
	t := newTold(reply[4:])
	h.keep(t, at)
	effect.Refusals = t.refusals
	if h.blockedUntil(number(reply[2]), at); h.until > now {
		effect.Until = h.l.base.Add(h.untilTold)
	}
	if effect.Blocked {
		h.blocked = now
	}
	if last := number(reply[3]); last > 0 {
		latest = clock.surely(last, now)
	}
	h.weed()
	h.raise(max(t.adaptive, t.learned))
	return effect, latest
}

// Release implements [hostlimit.Lease]. It doesn't wait for the server, unless the
// Limiter is closed, or the gap counts from now and is longer than a minute.
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
			w.refuse(&hostlimit.Error{Key: h.key, Err: l.rules.Ended()})
			break
		}
	}
	t.end(l.now())
	expired = t.expired
	if t.alone {
		l.mu.Unlock()
		return expired
	}
	t.undone = 1 // the request was never sent
	if t.started {
		t.undone = 0
	} else if seq := t.granted.seq; seq > 0 && t.watcher != nil {
		defer t.watcher.GivesUp(seq)
	}
	var had chan struct{}
	if t.started && (t.limits.Delay.FromEnd || t.unanswered) && t.granted.delay > far {
		had = make(chan struct{})
	}
	if t.restoring == 0 { // else a restore could come after it
		t.giveBack(had)
	} else {
		had = nil
	}
	closed := l.closed
	l.mu.Unlock()
	if closed {
		h.p.last(false)
	}
	if had != nil {
		timer := time.NewTimer(observing)
		defer timer.Stop()
		select {
		case <-had:
		case <-timer.C:
		}
	}
	return expired
}

// far is how long a gap must be for Release to wait until the server knows that it counts from now,
// so that it holds although the process may end.
const far = time.Minute

// giveBack tells the server that the lease has ended, and once more where a copy of a restore may
// come in between. It closes had, if that isn't nil, when the server has had it.
func (t *lease) giveBack(had chan struct{}) {
	var started uint64
	if t.started { // by a turn that may not be the last one that the server has let go
		started = t.granted.seq
	}
	o := op{name: "release", h: t.h, args: []any{t.id, t.limits.Concurrency, t.undone, t.wasTold, int64(started)}, owed: true}
	told := o
	if had != nil {
		told.done = func(_ []any, _ heard, err error) {
			if err == nil {
				close(had)
			}
		}
	}
	t.h.p.add(told)
	if o.after = t.doubt; o.after > t.l.now() {
		t.h.p.add(o)
	}
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
	t.l.hasEnded()
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
	if t.released || l.closed || t.alone || now-t.renewed < l.complete.LeaseTTL/4 || t.h.leases[t.id] != t {
		return
	}
	t.renewed = now
	t.h.p.add(op{name: "renew", h: t.h, args: []any{t.id}, owed: true})
}
