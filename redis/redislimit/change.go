package redislimit

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/internal/contexts"
	"github.com/go-politeness/politeness/redis/redislimit/internal/known"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// newest is Turn.Last: args tells the server to set the number, which is a time.
const newest = math.MaxUint64

// submit sends c after the changes of h before it.
func (h *host) submit(c *change) {
	if c.number == 0 {
		h.l.numbers.changes++
		c.number = h.l.numbers.changes
	}
	h.changes = append(h.changes, c)
	// A change behind others is computed later, from their result.
	if len(h.changes) == 1 {
		h.write(c)
	}
}

// write sends c.
func (h *host) write(c *change) {
	h.p.add(op{h: h, owed: c.lease != nil, build: c.request, done: c.answered})
}

// plain returns the request to the server if no refusals change.
func (c *change) plain() *wire.Outcome {
	request := &wire.Outcome{Adapt: c.adapt, Served: c.served}
	if c.lease != nil && !c.late {
		request.ID = c.lease.id
	}
	return request
}

// request returns the request to the server. One that is sent again is the same, because the server
// may have stored it: only an answer says that it is to be computed anew.
func (c *change) request(now time.Duration) wire.Request {
	if c.stored == nil {
		c.plan(now)
	}
	if c.stored.Stay >= 0 { // counts from now
		c.stored.Stay = max(wire.MicrosOf(c.until-now), 0)
	}
	request := c.plain()
	request.Change = c.stored
	return request
}

// plan computes what the server is to store.
func (c *change) plan(now time.Duration) {
	h := c.h
	before := &h.known.Refusals
	after := *before
	after.Forgive(h.l.rules, now) // as the server does when it reads the host
	c.effect = c.compute(&after, now)
	stay := wire.Micros(-1) // the block ends as before
	if after.Until != before.Until {
		stay = 0 // request sets it
	}
	c.until = after.Until
	ended := false // an attempt, without a response
	delay := time.Duration(0)
	if c.lease != nil && !c.late {
		ended = c.lease.use.unanswered
		delay = c.lease.granted.delay
	}
	c.stored = &wire.Change{
		Number:   c.number,
		Version:  h.known.Version,
		Slots:    c.slots,
		Rest:     known.Rest(after),
		Row:      after.InARow(),
		Alone:    after.Alone,
		Stay:     stay,
		Newly:    after.SetAt == newest,
		Cause:    after.Cause,
		Learned:  wire.MicrosOf(after.Learned),
		Taught:   after.Lessons != before.Lessons,
		Eased:    after.EasedAt != before.EasedAt,
		Blocked:  c.effect.Blocked,
		Cleared:  c.effect.Cleared,
		Act:      int(c.act),
		Ended:    ended,
		EndDelay: wire.MicrosOf(delay),
	}
}

// answered handles the reply of outcome.
func (c *change) answered(at reply) {
	h := c.h
	switch {
	case at.fate == did:
		if !c.learn(at) {
			h.write(c)
			return
		}
	case at.fate != broken && c.lease != nil:
		return // it is sent again
	}
	// An operator's change that has failed is submitted again by await, or its call returns the
	// error.
	h.changes = h.changes[1:]
	if len(h.changes) > 0 {
		h.write(h.changes[0])
	}
	presumed := c.will.Until > 0 && !c.effect.Blocked // a block that the server hasn't set
	if c.act == clears || presumed {
		h.askAgain()
	}
	c.done <- at
}

// learn handles the reply of a server that has run outcome, and reports whether it has stored c. If
// not, h has the server's refusals now, from which c is to be computed anew.
func (c *change) learn(at reply) bool {
	h := c.h
	answer := at.answer.(*wire.Changed)
	h.learn(answer.Host, at)
	c.adapt = nil // the delay by response times has moved, whatever became of the refusals
	if answer.Kind != wire.Stored {
		c.stored = nil
		return false
	}
	c.latest = h.p.clock.Surely(answer.Latest, at.received) // long ago for 0
	h.raise(max(answer.Host.Adaptive, answer.Host.Learned).Duration())
	// Of two blocks the later end holds, and learn has it by the server's clock.
	if c.effect.Blocked || h.known.Refusals.Blocks(at.received) {
		c.effect.Until = h.l.base.Add(h.known.Earliest)
	}
	if c.effect.Blocked {
		h.halt(at.received)
	}
	changed := c.effect.Blocked || c.effect.Cleared
	if c.act != noAct && changed {
		h.note(at, answer.Host.Version, c.act == blocks)
	}
	return true
}

// Observe implements [hostlimit.Lease]. It returns immediately after a success of a host without
// refusals, or a success that ends no block and no row of refusals. Otherwise it waits for the
// server, at most a second: so that no process starts a request to a host that is known to refuse,
// and so that the Effect is known. If the server doesn't answer by then, the Effect is the one that
// this process applies until it has.
func (t *lease) Observe(o hostlimit.Outcome) hostlimit.Effect {
	if t.local != nil {
		effect := t.local.Observe(o)
		effect.StateErr = cmp.Or(effect.StateErr, t.save())
		return effect
	}
	c, effect := t.observe(o)
	return t.awaitEffect(c, effect)
}

// Revise implements [hostlimit.Lease]. It waits for the server as Observe does after a refusal.
func (t *lease) Revise(o hostlimit.Outcome) hostlimit.Effect {
	if t.local != nil {
		effect := t.local.Revise(o)
		effect.StateErr = cmp.Or(effect.StateErr, t.save())
		return effect
	}
	c, effect := t.revise(o)
	return t.awaitEffect(c, effect)
}

// revise sends the change of o, which replaces the outcome of before, as observe does.
func (t *lease) revise(o hostlimit.Outcome) (*change, hostlimit.Effect) {
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if !t.use.observed || t.use.revised || o.Refused == "" {
		return nil, hostlimit.Effect{}
	}
	t.use.revised = true
	h := l.host(t.h.key) // it may have been forgotten since the lease ended
	c := &change{h: h, lease: t, late: true, slots: t.limits.Concurrency, done: make(chan reply, 1)}
	c.compute = func(s *rules.Refusals, now time.Duration) hostlimit.Effect {
		return s.Revise(l.rules, o, t.turn(h, now), t.use.before)
	}
	now := l.now()
	before := h.known.Refusals
	after := before
	after.Forgive(l.rules, now)
	will := c.compute(&after, now)
	if l.closed { // no goroutine is left to send it
		return nil, will
	}
	h.submit(c)
	c.hold(&before, &after, &will, now)
	h.p.flush()
	return c, will
}

// awaitEffect waits until the server has answered the change c, at most a second, and returns its
// effect; c is nil if there is nothing to wait for. effect is what this process knows before.
func (t *lease) awaitEffect(c *change, effect hostlimit.Effect) hostlimit.Effect {
	if c == nil {
		return effect
	}
	timer := time.NewTimer(observing)
	defer timer.Stop()
	last := time.Duration(0)
	select {
	case r := <-c.done:
		if r.fate == did {
			effect = c.effect
			last = c.latest
		}
	case <-timer.C:
		// The change is still sent, and its block holds here until the server has answered.
	}
	effect.StateErr = cmp.Or(effect.StateErr, t.save())
	// Requests that were let go just before start within their window or not at all.
	_ = contexts.Sleep(context.Background(), min(last-t.l.now(), observing))
	return effect
}

// save saves the state of the host, also after Close.
func (t *lease) save() error {
	return t.l.save(context.WithoutCancel(t.l.ctx), t.h.key)
}

// observe sends the change of o. It returns the change to wait for, nil for none, with its Effect
// as far as this process knows.
func (t *lease) observe(o hostlimit.Outcome) (*change, hostlimit.Effect) {
	l, h := t.l, t.h
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.use.observed || t.use.released {
		return nil, hostlimit.Effect{} // a lease has one outcome
	}
	now := l.now()
	meaning := l.rules.Meaning(&o).String()
	t.use.observed = true
	t.use.unanswered = o.Status == 0 && meaning != neutral
	if t.use.unanswered && t.start.take != 0 {
		h.known.Finish(now, t.granted.delay) // for a restore, if the server forgets the end
	}
	c := t.change(o, meaning == serves)
	h.usual = rules.Usual(&o, h.usual)
	longer := false
	if meaning != doubtful {
		longer = c.move(&o)
	}
	before := h.known.Refusals
	after := before
	after.Forgive(l.rules, now)
	var unchanged hostlimit.Effect // an earlier block continues
	if before.Blocks(now) {
		unchanged.Refusals = before.InARow()
		unchanged.Until = l.base.Add(h.known.Earliest)
	}
	quiet := !t.granted.probe && !l.rules.Asks(&o)
	nothingToEnd := c.served && !known.IsLeft(after) && len(h.changes) == 0
	if quiet && (meaning == neutral || nothingToEnd) {
		c.sendPlain(longer)
		return nil, unchanged
	}
	// Before anything is sent: policies are the user's, and may panic.
	will := c.compute(&after, now)
	if meaning == doubtful && after.InARow() > 1 {
		// The first failure may be the page's own, and its time that of a tarpit.
		c.move(&o)
	}
	h.submit(c)
	if c.endsNothing(&before, &after) {
		return nil, unchanged
	}
	c.hold(&before, &after, &will, now)
	if l.closed { // Release sends it
		return nil, will
	}
	h.p.flush()
	return c, will
}

// sendPlain sends an outcome that changes no refusals, and doesn't wait for the reply. longer says
// that it makes the delay longer, which is for the next start.
func (c *change) sendPlain(longer bool) {
	if !c.served && c.adapt == nil {
		return // there is nothing for the server to count or to move
	}
	o := op{h: c.h, owed: true, request: c.plain(), done: c.plainAnswered}
	if longer {
		c.h.p.add(o)
	} else {
		c.h.p.addAlong(o)
	}
}

// plainAnswered handles the reply to an outcome that should change no refusals. If other processes
// have seen refusals since, a success changes them.
func (c *change) plainAnswered(at reply) {
	if at.fate != did {
		return
	}
	answer := at.answer.(*wire.Changed)
	if answer.Kind == wire.Counted {
		return
	}
	c.h.learn(answer.Host, at)
	c.adapt = nil // that is done
	c.h.submit(c)
}

// endsNothing reports whether c, which makes after of before, is a success that ends no block and
// no row of refusals. Its caller needn't wait for the server.
func (c *change) endsNothing(before, after *rules.Refusals) bool {
	if !c.served || c.lease.granted.probe {
		return false
	}
	sameBlock := after.Until == before.Until && !after.Alone
	noRow := before.InARow()+before.Forbidden == 0
	return sameBlock && noRow && after.Lessons == before.Lessons
}

// hold applies the block of c, which makes after of before, until the server has answered. will is
// the Effect of c, and gets the end of the block.
func (c *change) hold(before, after *rules.Refusals, will *hostlimit.Effect, now time.Duration) {
	if after.Blocks(now) {
		will.Until = c.h.l.base.Add(after.Until)
		if will.Blocked {
			c.will = *after
		}
	}
	// Requests that were granted before may not start: one starts alone. If this one started before
	// the last block was seen, they were stopped by that.
	alone := after.Alone && (will.Blocked || !before.Alone)
	if alone && c.lease.start.began > c.h.known.BlockSeen {
		c.h.halt(now)
	}
}

// move moves the delay by response times, and reports whether that makes it longer now.
func (c *change) move(o *hostlimit.Outcome) bool {
	t, h := c.lease, c.h
	d := &t.limits.Delay
	atOnce, halfway, raise, moves := d.Adaptive.Move(h.usual, o)
	if !moves {
		return false
	}
	c.adapt = &wire.Adapt{
		Least:  wire.MicrosOf(d.Min),
		Most:   wire.MicrosOf(d.Ceiling),
		AtOnce: us(atOnce),
		Half:   us(halfway),
		Longer: raise,
	}
	is := rules.Adapt(d, t.granted.report.Adaptive.Duration(), h.usual, o)
	longer := is > max(t.granted.report.Adaptive.Duration(), d.Min)
	if longer {
		// The gap that is running gets longer too, as on the server.
		h.raise(is)
	}
	return longer
}

// change returns the change of o.
func (t *lease) change(o hostlimit.Outcome, served bool) *change {
	h := t.h
	return &change{
		h:      h,
		lease:  t,
		served: served,
		slots:  t.limits.Concurrency,
		done:   make(chan reply, 1),
		compute: func(s *rules.Refusals, now time.Duration) hostlimit.Effect {
			turn := t.turn(h, now)
			if served {
				turn.Served++
			}
			t.use.before = s.Counts()
			return s.Observe(h.l.rules, o, turn)
		},
	}
}

// turn returns the Turn of an outcome of t that is observed now.
func (t *lease) turn(h *host, now time.Duration) rules.Turn {
	return rules.Turn{
		Now:    now,
		Number: uint64(t.granted.heard.server),
		Last:   newest,
		Probe:  t.granted.probe,
		Delay:  &t.limits.Delay,
		Gap:    h.known.Delay,
		Since:  now - h.known.ServedSince,
		Served: h.known.Served,
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
