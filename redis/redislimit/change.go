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

	lease  *lease             // nil: a person's
	served bool               // the outcome is a success
	adapt  []any              // arguments of outcome that move the delay by response times; nil: none
	act    int                // 1: a person blocks the host; 2: a person clears it
	slots  int                // number of slots of the host
	will   hostlimit.Refusals // with the block that holds here until the server has answered, if Until > 0
	effect hostlimit.Effect   // as computed last
	latest time.Duration      // no request that was granted before the change can start after it
	done   chan reply         // receives the reply to the change
}

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

// plain returns the arguments of outcome for what changes no refusals.
func (c *change) plain() []any {
	adapt, id := c.adapt, ""
	if adapt == nil {
		adapt = []any{0, 0, 0, 0, false}
	}
	if c.lease != nil {
		id = c.lease.id
	}
	return append(append([]any{id}, adapt...), c.served)
}

// args computes c, and returns the arguments of outcome.
func (c *change) args(now time.Duration) []any {
	h, s := c.h, c.h.refusals
	s.Forgive(h.l.rules, now)
	c.effect = c.make(&s, now)
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

// answered handles the reply of outcome.
func (c *change) answered(at reply) {
	h := c.h
	switch {
	case at.fate == did:
		i := newHostInfo(at.answer[2:])
		h.learn(i, at)
		c.adapt = nil // that is done
		if !truth(at.answer[0]) {
			h.write(c)
			return
		}
		c.latest = h.p.clock.surely(number(at.answer[1]), at.received) // long ago for 0
		h.raise(max(i.adaptive, i.learned))
		if c.effect.Blocked || h.refusals.Blocks(at.received) {
			c.effect.Until = h.l.base.Add(h.earliest)
		}
		if c.effect.Blocked {
			h.halt(at.received)
		}
		if c.act > 0 && (c.effect.Blocked || c.effect.Cleared) {
			h.note(at, c.act == 1)
		}
	case at.fate != broken && c.lease != nil:
		return // it is sent again
	}
	if h.changes = h.changes[1:]; len(h.changes) > 0 {
		h.write(h.changes[0])
	}
	if c.act == 2 || c.will.Until > 0 && !c.effect.Blocked {
		h.askAgain() // nothing holds them any more
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
	if t.local != nil {
		e := t.local.Observe(o)
		e.StateErr = cmp.Or(e.StateErr, t.l.save(context.WithoutCancel(t.l.ctx), t.h.key))
		return e
	}
	c, e := t.observe(o)
	if c == nil {
		return e
	}
	timer, last := time.NewTimer(observing), time.Duration(0)
	defer timer.Stop()
	select {
	case r := <-c.done:
		if r.fate == did {
			e, last = c.effect, c.latest
		}
	case <-timer.C:
	}
	e.StateErr = cmp.Or(e.StateErr, t.l.save(context.WithoutCancel(t.l.ctx), t.h.key))
	// Requests that were let go just before start within their window or not at all.
	_ = contexts.Sleep(context.Background(), min(last-t.l.now(), observing))
	return e
}

// observe sends what o does. It returns the change to wait for, nil for none, with its Effect as
// far as this process knows.
func (t *lease) observe(o hostlimit.Outcome) (wait *change, e hostlimit.Effect) {
	l, h := t.l, t.h
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.observed || t.released {
		return nil, e
	}
	now, meaning := l.now(), l.rules.Meaning(o)
	t.observed, t.unanswered = true, o.Status == 0 && meaning != neutral
	if t.unanswered && t.start != 0 {
		h.finished(now, t.granted.delay) // which a restore tells, if the server forgets it
	}
	c := t.change(o, meaning == serves)
	soon := meaning != doubtful && c.move(&o)
	h.usual = o.Usual(h.usual)
	was, s := h.refusals, h.refusals
	s.Forgive(l.rules, now)
	if was.Blocks(now) {
		e.Refusals, e.Until = was.InARow(), l.base.Add(h.earliest)
	}
	quiet := !t.granted.probe && o.Reset <= 0
	if quiet && (meaning == neutral || c.served && !isLeft(s) && len(h.changes) == 0) {
		send := h.p.addAlong
		if soon {
			send = h.p.add
		}
		if c.served || c.adapt != nil {
			send(op{name: "outcome", h: h, owed: true, args: c.plain(), done: func(r reply) {
				if r.fate == did && !truth(r.answer[0]) { // other processes have seen refusals since
					h.learn(newHostInfo(r.answer[2:]), r)
					c.adapt = nil
					h.submit(c)
				}
			}})
		}
		return nil, e
	}
	will := c.make(&s, now)                    // before anything is sent: it may panic, as policies are the user's
	if meaning == doubtful && s.InARow() > 1 { // else a tarpit's time would be the host's
		c.move(&o)
	}
	h.submit(c)
	if !t.granted.probe && c.served && !s.Alone && s.Until == was.Until && was.InARow()+was.Forbidden == 0 && s.Lessons == was.Lessons {
		return nil, e // it ends no block and no row
	}
	if s.Blocks(now) {
		will.Until = l.base.Add(s.Until)
		if will.Blocked {
			c.will = s
		}
	}
	if s.Alone && (will.Blocked || !was.Alone) && t.began > h.blocked {
		h.halt(now)
	}
	if l.closed { // Release sends it
		return nil, will
	}
	h.p.flush()
	return c, will
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
