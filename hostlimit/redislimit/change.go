package redislimit

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/contexts"
)

// A change is what the outcome of a lease, or a person, does to the refusals of a host. This
// process computes it, and the server stores the result if its refusals are of the version that the
// change was computed from. Otherwise the server returns its own, and the change is computed anew.
// A process makes the changes of a host one by one.
type change struct {
	h    *host
	make func(s *hostlimit.Refusals, now time.Duration) hostlimit.Effect

	lease  *lease           // nil: a person's
	served bool             // the outcome is a success
	adapt  []any            // arguments of outcome that move the delay by response times
	act    int              // 1: a person blocks the host; 2: a person clears it
	slots  int              // number of slots of the host
	tries  int              // number of times that the server has answered
	effect hostlimit.Effect // as computed last
	latest time.Duration    // no request that was granted before the change can start after it
	done   chan reply       // receives the reply to the change
}

// mostTries bounds how often a change is computed. Each time but the last another one was stored.
const mostTries = 256

// newest is Turn.Last: what args returns tells the server to set the number, which is a time.
const newest = math.MaxUint64

// submit sends c after the changes of h before it.
func (h *host) submit(c *change) {
	if h.changes = append(h.changes, c); len(h.changes) == 1 {
		h.write(c)
	}
}

// write sends c.
func (h *host) write(c *change) {
	h.p.add(op{name: "outcome", h: h, owed: c.lease != nil, build: c.args, done: c.answered})
}

// still are the arguments of outcome that don't move the delay by response times.
var still = []any{0, 0, 0, -1, false}

// plain returns the arguments of outcome for what changes no refusals.
func (c *change) plain() []any {
	adapt := c.adapt
	if adapt == nil || c.tries > 0 {
		adapt = still
	}
	id := ""
	if c.lease != nil {
		id = c.lease.id
	}
	return append(append([]any{id}, adapt...), c.served)
}

// args computes c, and returns the arguments of outcome.
func (c *change) args(now time.Duration) []any {
	h, s := c.h, c.compute(now)
	stay := int64(-1)
	if s.Until != h.refusals.Until {
		stay = max(micros(s.Until-now), 0)
	}
	ended, delay := false, time.Duration(0)
	if t := c.lease; t != nil {
		ended, delay = t.unanswered, t.granted.delay
	}
	return append(c.plain(),
		h.version, c.slots, rest(s), s.InARow(), s.Alone, stay, s.SetAt == newest, s.Cause, micros(s.Learned),
		s.Lessons != h.refusals.Lessons, s.EasedAt != h.refusals.EasedAt, c.effect.Blocked, c.effect.Cleared, c.act, ended, micros(delay),
	)
}

// compute returns the refusals that c leads to.
func (c *change) compute(now time.Duration) hostlimit.Refusals {
	s := c.h.refusals
	s.Forgive(c.h.l.rules, now)
	c.effect = c.make(&s, now)
	return s
}

// answered handles the reply of outcome.
func (c *change) answered(at reply) {
	h := c.h
	if at.fate != did && at.fate != broken && c.lease != nil {
		return // it is sent again
	}
	var t told
	if at.fate == did {
		t = newTold(at.answer[2:])
		h.keep(t, at)
	}
	switch c.tries++; {
	case at.fate == did && number(at.answer[0]) == 1:
		if last := number(at.answer[1]); last > 0 {
			c.latest = h.p.clock.surely(last, at.received)
		}
		h.raise(max(t.adaptive, t.learned))
		if c.effect.Blocked {
			h.stopped(t.until, at)
		}
		if h.refusals.Blocks(at.received) {
			c.effect.Until = h.l.base.Add(h.untilTold)
		}
		if c.act > 0 && (c.effect.Blocked || c.effect.Cleared) {
			h.note(at, c.act == 1)
		}
		if c.act == 2 {
			h.renounce()
		}
	case at.fate == did && c.tries < mostTries:
		h.write(c)
		return
	default:
		c.effect = hostlimit.Effect{}
	}
	if h.changes = h.changes[1:]; len(h.changes) > 0 {
		h.write(h.changes[0])
	} else {
		h.presumed = 0
	}
	c.done <- at
}

// observing bounds how long Observe waits for the server.
const observing = time.Second

// Observe implements [hostlimit.Lease]. It returns at once after a success of a host without
// refusals, or a success that ends no block and no row of refusals. Otherwise it waits for the
// server, at most a second: so that no process starts a request to a host that is known to refuse,
// and so that the Effect is known. If the server doesn't answer by then, the Effect is what this
// process keeps to until it has.
func (t *lease) Observe(o hostlimit.Outcome) hostlimit.Effect {
	l, h := t.l, t.h
	c, presumed, until := t.observe(o)
	if c == nil {
		return presumed
	}
	timer := time.NewTimer(observing)
	defer timer.Stop()
	select {
	case r := <-c.done:
		if r.fate != did {
			break
		}
		c.effect.StateErr = cmp.Or(c.effect.StateErr, l.save(context.WithoutCancel(l.ctx), h.key))
		// Requests that were let go just before start within their window or not at all.
		_ = contexts.Sleep(context.Background(), min(c.latest-l.now(), observing))
		return c.effect
	case <-timer.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case r := <-c.done: // in this very moment
		if r.fate == did {
			return c.effect
		}
	default:
	}
	h.presume(until)
	return presumed
}

// observe sends what o does. It returns the change to wait for, nil for none, with its Effect and
// the end of the block as far as this process knows.
func (t *lease) observe(o hostlimit.Outcome) (wait *change, e hostlimit.Effect, until time.Duration) {
	l, h := t.l, t.h
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.observed || t.released {
		return nil, e, 0
	}
	now, meaning := l.now(), l.rules.Meaning(o)
	t.observed, t.unanswered = true, o.Status == 0 && meaning != neutral
	if t.unanswered && t.started {
		h.finished(now, t.granted.delay) // which a restore tells, if the server forgets it
	}
	c := t.change(o, meaning == serves)
	soon := meaning != doubtful && c.move(&o)
	h.usual = o.Usual(h.usual)
	was, s := h.refusals, h.refusals
	s.Forgive(l.rules, now)
	if was.Blocks(now) {
		e.Refusals, e.Until = was.InARow(), l.base.Add(h.untilTold)
	}
	quiet := !t.granted.probe && o.Reset <= 0
	if quiet && (meaning == neutral || c.served && !isLeft(s) && len(h.changes) == 0) {
		send := h.p.addAlong
		if soon {
			send = h.p.add
		}
		if c.served || c.adapt != nil {
			send(op{name: "outcome", h: h, owed: true, args: c.plain(), done: func(r reply) {
				if r.fate == did && number(r.answer[0]) == 0 { // other processes have seen refusals since
					h.keep(newTold(r.answer[2:]), r)
					c.tries++
					h.submit(c)
				}
			}})
		}
		return nil, e, 0
	}
	will := c.make(&s, now)                    // before anything is sent: it may panic, as policies are the user's
	if meaning == doubtful && s.InARow() > 1 { // else a tarpit's time would be the host's
		c.move(&o)
	}
	h.submit(c)
	if !t.granted.probe && c.served && !s.Alone && s.Until == was.Until && was.InARow()+was.Forbidden == 0 && s.Lessons == was.Lessons {
		return nil, e, 0 // it ends no block and no row
	}
	if s.Alone && (will.Blocked || !was.Alone) && t.began > h.blocked {
		h.halt(now)
	}
	if s.Blocks(now) {
		will.Until = l.base.Add(s.Until)
	}
	if l.closed { // Release sends it
		h.presume(s.Until)
		return nil, will, 0
	}
	h.p.flush()
	return c, will, s.Until
}

// move moves the delay by response times, and reports whether that makes it longer now.
func (c *change) move(o *hostlimit.Outcome) (longer bool) {
	t, h := c.lease, c.h
	d := &t.limits.Delay
	atOnce, halfway, raise, moves := d.Adaptive.Move(h.usual, o)
	if !moves {
		return false
	}
	c.adapt = []any{micros(d.Min), micros(d.Ceiling), us(atOnce), us(halfway), raise}
	is := d.Adapt(t.granted.adaptive, h.usual, *o)
	if longer = is > max(t.granted.adaptive, d.Min); longer {
		h.raise(is)
	}
	return longer
}

// presume makes this process keep to a block of which the server may not know yet.
func (h *host) presume(until time.Duration) {
	if now := h.l.now(); until > now {
		h.presumed = max(h.presumed, until)
		h.halt(now)
	}
}

// change returns the change of o.
func (t *lease) change(o hostlimit.Outcome, served bool) *change {
	h := t.h
	return &change{
		h: h, lease: t, served: served, slots: t.limits.Concurrency, done: make(chan reply, 1),
		make: func(s *hostlimit.Refusals, now time.Duration) hostlimit.Effect {
			turn := hostlimit.Turn{
				Now: now, Number: uint64(t.granted.heard.server), Last: newest, Probe: t.granted.probe,
				Delay: &t.limits.Delay, Gap: h.inForce, Since: now - h.began, Served: h.served,
			}
			if served {
				turn.Served++
			}
			return s.Observe(h.l.rules, o, turn)
		},
	}
}

// The meanings of an outcome that matter here, as Rules.Meaning names them.
const (
	neutral  = "neutral"
	serves   = "ok"
	doubtful = "unsure"
)

// us returns nanoseconds as microseconds for step.lua.
func us(ns float64) float64 { return min(ns/1e3, 1<<50) }
