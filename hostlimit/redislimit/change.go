package redislimit

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
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
	act    int              // 1: a person blocks the host; 2: a person clears it
	slots  int              // number of slots of the host
	tries  int              // number of times that the server has answered
	effect hostlimit.Effect // as computed last
	latest time.Duration    // no request that was granted before the change can start after it
	then   func()           // called under mu when the change is stored; nil: none is
	done   chan error       // receives the error of the change
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
	o := op{name: "write", h: h, owed: c.lease != nil, build: c.args, done: c.answered}
	if h.p.restoring > 0 && c.tries > 0 {
		o.after = h.l.now() + linger // the server is being told what it has lost
	}
	h.p.add(o)
}

// args computes c, and returns the arguments of write.
func (c *change) args(now time.Duration) []any {
	h, s := c.h, c.h.refusals
	s.Forgive(h.l.rules, now)
	c.effect = c.make(&s, now)
	stay := int64(-1)
	if s.Until != h.refusals.Until {
		stay = max(micros(s.Until-now), 0)
	}
	id, ended, delay := "", false, time.Duration(0)
	if t := c.lease; t != nil {
		id, ended, delay = t.id, t.unanswered, t.granted.delay
	}
	return []any{
		id, c.slots, h.version, rest(s), s.InARow(), s.Alone, stay, s.SetAt == newest, s.Cause, micros(s.Learned),
		s.Lessons != h.refusals.Lessons, s.EasedAt != h.refusals.EasedAt, c.served, c.effect.Blocked, c.effect.Cleared, c.act, ended, micros(delay),
	}
}

// rest returns the JSON of those fields of s that step.lua doesn't know; empty: nothing is left.
func rest(s hostlimit.Refusals) string {
	s.Until, s.SetAt, s.Cause, s.EasedAt = 0, 0, "", 0
	if !isLeft(s) {
		return ""
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // numbers and booleans
	}
	return string(text)
}

// isLeft reports whether anything is left of s but the end of a block.
func isLeft(s hostlimit.Refusals) bool {
	s.Until, s.SetAt, s.Cause, s.EasedAt, s.Served, s.Lessons = 0, 0, "", 0, 0, 0
	return s != (hostlimit.Refusals{})
}

// answered handles the reply of write.
func (c *change) answered(reply []any, at heard, err error) {
	h := c.h
	if err != nil && c.lease != nil && (h.p.down != nil || errors.Is(err, errStale) || errors.Is(err, errFull)) {
		return // undone sends it again
	}
	stored := err == nil && number(reply[0]) == 1 // err: the host's state can't be read
	var t told
	if err == nil {
		t = newTold(reply[2:])
		h.keep(t, at)
	}
	switch c.tries++; {
	case stored:
		if last := number(reply[1]); last > 0 {
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
		if c.then != nil {
			c.then()
		}
	case err == nil && c.tries < mostTries:
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
	c.done <- err
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
	case err := <-c.done:
		if err != nil {
			break
		}
		c.effect.StateErr = l.save(context.WithoutCancel(l.ctx), h)
		// Requests that were let go just before start within their window or not at all.
		timer.Reset(min(c.latest-l.now(), observing))
		<-timer.C
		return c.effect
	case <-timer.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case err := <-c.done: // in this very moment
		if err == nil {
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
	if meaning != doubtful {
		t.adapt(&o)
	}
	h.usual = o.Usual(h.usual)
	c := t.change(o, meaning == serves)
	was, s := h.refusals, h.refusals
	s.Forgive(l.rules, now)
	if was.Blocks(now) {
		e.Refusals, e.Until = was.InARow(), l.base.Add(h.untilTold)
	}
	switch quiet := !t.granted.probe && o.Reset <= 0; {
	case quiet && meaning == neutral:
		return nil, e, 0
	case quiet && c.served && !isLeft(s) && len(h.changes) == 0:
		// Other processes may have seen refusals since.
		h.p.addAlong(op{name: "served", h: h, owed: true, args: []any{t.id}, done: func(reply []any, at heard, err error) {
			if err == nil && number(reply[0]) == 1 {
				h.keep(newTold(reply[1:]), at)
				h.submit(c)
			}
		}})
		return nil, e, 0
	}
	will := c.make(&s, now)                    // before anything is sent: it may panic, as policies are the user's
	if meaning == doubtful && s.InARow() > 1 { // else a tarpit's time would be the host's
		t.adapt(&o)
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

// adapt moves the delay by response times.
func (t *lease) adapt(o *hostlimit.Outcome) {
	h, d := t.h, &t.limits.Delay
	atOnce, halfway, raise, moves := d.Adaptive.Move(h.usual, o)
	if !moves {
		return
	}
	send := h.p.addAlong // a shorter delay has time
	if old := t.granted.adaptive; d.Adapt(old, h.usual, *o) > max(old, d.Min) {
		send = h.p.add
		h.raise(d.Adapt(old, h.usual, *o))
	}
	send(op{name: "adapt", h: h, owed: true, args: []any{t.id, micros(d.Min), micros(d.Ceiling), us(atOnce), us(halfway), raise}})
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
		h: h, lease: t, served: served, slots: t.limits.Concurrency, done: make(chan error, 1),
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
