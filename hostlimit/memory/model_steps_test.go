package memory_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

func (m *model) observe(h *modelHost, w *modelTurn, e *event) error {
	o, d := e.req.outcome(), h.limits.Delay
	left := o.Status == 0 && (o.Err == nil || m.p.left(o)) && o.Refused == ""
	w.unanswered = o.Status == 0 && !left
	raised := false
	if o.Status/100 == 2 && !o.Aside {
		switch {
		case h.usual == 0:
			h.usual = o.Latency
		case o.Latency < h.usual:
			h.usual -= (h.usual - o.Latency) / 8
		default:
			h.usual += (o.Latency - h.usual) / 256
		}
	}
	adapt := func() {
		if next, ok := m.p.adapt(h.adaptive, h.usual, o, d); ok {
			h.adaptive = next
			raised = h.raise(next, "adaptive")
		}
	}
	if left || !m.p.cannot(o) {
		adapt()
	}
	asked, _ := m.p.lasting(o, 1)
	a := &answered{
		Outcome: o, now: m.now, gap: h.gap, since: m.now - h.began, served: h.answers, earlier: w.beforeBlock, probe: w.probe,
		delay: d, inARow: m.p.inARow(), asked: asked,
		heeds:    o.RetryAfter > 0 && (o.Status >= 300 || m.p.refuses(o)),
		outlasts: m.p.mayOutlast(o),
		stay:     func(n int) time.Duration { _, set := m.p.lasting(o, n); return set },
	}
	var want hostlimit.Effect
	lessons := h.lessons
	block := func() {
		h.met = true
		for _, t := range m.turns {
			if t.req.host == h.id && t.granted {
				t.beforeBlock = true
			}
		}
	}
	extend := func() {
		if asked > 0 && m.now+asked > h.until {
			h.until, want.Blocked = m.now+asked, true
		}
	}
	refuses, doubts, forbids := m.p.refuses(o), m.p.cannot(o) && !left, m.p.forbids(o)
	if h.inARow() == 0 && (refuses || doubts || forbids) {
		h.rested = 0
	}
	switch {
	case refuses && (!w.beforeBlock || h.alone && h.refusals == 0 && h.bans == 0), (doubts || forbids) && h.refusals > 0 && !w.beforeBlock:
		maintenance := o.Status == 503 && o.Refused == "" && !slices.Contains(m.p.refusals.Statuses, 503)
		want.Blocked = h.refuse(a, refuses && !maintenance)
		want.Kind, want.Row = "refused", h.refusals
		refuses = true
	case refuses:
		extend()
	case doubts:
		if want.Blocked, want.Own = h.doubt(a); want.Blocked {
			want.Kind, want.Row = "unsure", h.unsure
		}
	case forbids && !w.beforeBlock:
		if want.Blocked = h.forbid(a); want.Blocked {
			want.Kind, want.Row = "ban", h.bans
		}
		if h.checking && !want.Blocked && h.forbidden == 0 {
			block() // the answer that tells is one of a request to come
		}
	case forbids:
	case o.Status > 0 && !m.p.asksWrongly(o) && !o.Aside:
		h.answers++
		a.served++
		want.Cleared = h.serve(a)
	}
	if !refuses {
		extend()
	}
	if !left && m.p.cannot(o) && h.inARow() > 1 {
		adapt() // a refusal alone says nothing about the time that pages take
	}
	if want.Blocked {
		block()
	}
	if h.lessons != lessons {
		h.began, h.answers = m.now, 0
		h.raise(h.learned, "learned")
	}
	if want.Blocked || want.Cleared || h.probe == w {
		h.probe = nil
	}
	want.Refusals = h.inARow()
	if h.until > m.now {
		want.Until = m.base.Add(h.until)
	}
	if want != e.effect {
		return fmt.Errorf("%v, want %+v", e, want)
	}
	if want.Blocked || raised {
		return m.refuseLate(h)
	}
	return nil
}

// refuseLate refuses everybody whom a new block or a higher delay keeps until it is too late.
func (m *model) refuseLate(h *modelHost) error {
	var stay []*modelTurn
	var bound time.Duration
	for _, w := range slices.Concat(h.gate, h.queue) {
		at := m.first(h, w.req.floor)
		if n := len(stay); n > 0 {
			at = bound + m.leastGap(h, w.req.floor, stay[n-1].req.floor)
		}
		if latest, _ := m.latest(w); m.open(at) > latest {
			if err := m.refuse(h, w, m.open(at), m.late(h, w)); err != nil {
				return err
			}
			continue
		}
		stay, bound = append(stay, w), at
	}
	return nil
}

// late is what a turn is refused with that comes too late.
func (m *model) late(h *modelHost, w *modelTurn) []error {
	latest, byContext := m.latest(w)
	kinds := []error{hostlimit.ErrBusy}
	if m.closed(h, latest) {
		kinds[0] = hostlimit.ErrBlocked
	}
	if byContext {
		kinds = append(kinds, context.DeadlineExceeded)
	}
	return kinds
}

// refuse predicts a refusal.
func (m *model) refuse(h *modelHost, w *modelTurn, retryAt time.Duration, kinds []error) error {
	h.leave(w, m.now)
	e := m.output(w, refusedTurn)
	if e == nil {
		return fmt.Errorf("%v: request %d should be refused as %v, RetryAt %v", m.now, w.req.id, kinds, retryAt)
	}
	var err *hostlimit.Error
	if !errors.As(e.err, &err) {
		return fmt.Errorf("%v, which is no *Error", e)
	}
	for _, kind := range []error{hostlimit.ErrBusy, hostlimit.ErrBlocked, context.DeadlineExceeded} {
		if errors.Is(err, kind) != slices.Contains(kinds, kind) {
			return fmt.Errorf("%v, want %v", e, kinds)
		}
	}
	if !err.RetryAt.Equal(m.base.Add(retryAt)) {
		return fmt.Errorf("%v, RetryAt %v, want %v", e, err.RetryAt.Sub(m.base), retryAt)
	}
	return nil
}

// leave takes w out of the queue, or out of those that wait in Start.
func (h *modelHost) leave(w *modelTurn, now time.Duration) {
	h.queue = slices.DeleteFunc(h.queue, func(o *modelTurn) bool { return o == w })
	if i := slices.Index(h.gate, w); i >= 0 {
		h.gate = slices.Delete(h.gate, i, i+1)
		w.heard = now
	}
}

// output returns the next thing that the limiter did to w at this instant, if it is of
// that kind.
func (m *model) output(w *modelTurn, kind eventKind) *event {
	es := m.outputs[w.req]
	if len(es) == 0 || es[0].kind != kind {
		return nil
	}
	if len(es) == 1 {
		delete(m.outputs, w.req)
	} else {
		m.outputs[w.req] = es[1:]
	}
	return es[0]
}

// goes is a call of Start.
func (m *model) goes(h *modelHost, w *modelTurn) error {
	w.heard = m.now
	if w.req.gone() != forever && m.now >= w.came+w.req.gone() {
		h.void(w)
		w.arrived = m.now
		return nil // it leaves
	}
	if len(h.gate) == 0 && m.passes(h, w) {
		before := h.last
		if err := m.start(h, w); err != nil {
			return err
		}
		if m.now-before > time.Millisecond {
			return m.refuseLate(h)
		}
		return nil
	}
	h.void(w)
	w.arrived, w.heard = m.now, forever
	h.gate = append(h.gate, w)
	return m.refuseLate(h)
}

// settle lets everything happen that can at this instant.
func (m *model) settle(touched []*modelHost) error {
	for _, h := range touched {
		m.tidy(h)
		for late := true; late; {
			var err error
			if late, err = m.overdue(h); err != nil {
				return err
			}
		}
		if h.ended || m.open(m.now) > m.now {
			h.ended = false
			if err := m.refuseLate(h); err != nil {
				return err
			}
		}
	}
	for _, h := range touched {
		// Who can start from now on stands in line before those who get this
		// instant's places and come back for more.
		m.standInLine(h)
	}
	for again := true; again; {
		again = false
		m.line = slices.DeleteFunc(m.line, func(h *modelHost) bool { return !m.ready(h) })
		var goes []*modelHost
		goes = append(goes, m.line...)
		for _, h := range touched {
			if !slices.Contains(goes, h) {
				goes = append(goes, h)
			}
		}
		for _, h := range goes {
			if len(h.gate) > 0 {
				w := h.gate[0]
				if m.passes(h, w) {
					if err := m.start(h, w); err != nil {
						return err
					}
					if h.gap > h.limits.Delay.Min {
						if err := m.refuseLate(h); err != nil {
							return err
						}
					}
					again = true
					break
				}
				gone, err := m.giveUp(h, w)
				if err != nil {
					return err
				}
				if gone {
					again = true
					break
				}
				continue
			}
			if len(h.queue) == 0 {
				continue
			}
			if m.ready(h) {
				m.standInLine(h)
				if m.hasPlace(h) {
					m.line = slices.DeleteFunc(m.line, func(o *modelHost) bool { return o == h })
					if err := m.grant(h); err != nil {
						return err
					}
					again = true
					break
				}
			}
			gone, err := m.giveUp(h, h.queue[0])
			if err != nil {
				return err
			}
			if gone {
				again = true
				break
			}
		}
	}
	// Those that start at once do so in an order of their own, which the numbers tell.
	slices.SortStableFunc(m.going, func(a, b *modelTurn) int { return cmp.Compare(m.number(a), m.number(b)) })
	for _, w := range m.going {
		if err := m.goes(m.host(w.req.host), w); err != nil {
			return err
		}
	}
	m.going = nil
	for _, h := range touched {
		switch {
		case !h.isFull():
			h.full = forever
		case h.full == forever:
			h.full = m.now
		}
	}
	return nil
}

// standInLine puts h in the line for one of the places in common, if nothing else keeps its head.
func (m *model) standInLine(h *modelHost) {
	if m.p.most() > 0 && m.ready(h) && !slices.Contains(m.line, h) {
		h.lined, m.line = m.now, append(m.line, h)
	}
}

// hasPlace reports whether h, whose head lacks only a place, gets one.
func (m *model) hasPlace(h *modelHost) bool {
	most := m.p.most()
	return most == 0 || m.flying[m.p.party(h)] < most && m.firstInLine(m.p.party(h)) == h
}

// firstInLine is the host that has the next place of a party. Those that came at the same instant
// stand in an order of the limiter's own, which the log tells.
func (m *model) firstInLine(party int) *modelHost {
	var first *modelHost
	for _, h := range m.line {
		if m.p.party(h) != party {
			continue
		}
		if first == nil {
			first = h
		}
		if es := m.outputs[h.queue[0].req]; h.lined == first.lined && len(es) > 0 && es[0].kind == granted {
			return h
		}
	}
	return first
}

// number is that of the start of w at this instant.
func (m *model) number(w *modelTurn) uint64 {
	if es := m.outputs[w.req]; len(es) > 0 {
		return es[0].grant.Seq
	}
	return 0
}

// grant predicts that the head of h's queue has its turn.
func (m *model) grant(h *modelHost) error {
	w := h.queue[0]
	h.queue = h.queue[1:]
	e := m.output(w, granted)
	if e == nil {
		return fmt.Errorf("%v: request %d should have its turn: %v; %v in flight, in line: %v", m.now, w.req.id, h, m.flying, m.line)
	}
	d, floor := h.limits.Delay, w.req.floor
	random, own := d.Min, max(floor, h.adaptive, h.learned)
	if es := m.outputs[w.req]; len(es) > 0 && es[0].kind == started {
		gap := es[0].grant.Delay // where it is random, the turn starts at once
		if least, most := max(d.Min, own), max(d.Min, d.Max, own); gap < least || gap > most {
			return fmt.Errorf("%v, want a delay of %v to %v", es[0], least, most)
		}
		if gap > own {
			random = gap
		}
	}
	if h.last >= 0 {
		w.idle = m.now - max(h.earliest(floor), h.until)
	}
	w.granted, w.beforeBlock, w.heard = true, false, m.now
	w.stamp = modelStamp{m.now, random, "random"}
	if floor > random {
		w.stamp = modelStamp{m.now, floor, "crawl-delay"}
	}
	h.pace(w.stamp, w)
	w.stamp.gap, w.stamp.by = h.gap, h.by
	h.flying = append(h.flying, w)
	m.flying[m.p.party(h)]++
	w.place = len(h.flying)
	if h.alone {
		h.probe = w
	}
	if w.req.dawdle == 0 && !w.req.unsent {
		m.going = append(m.going, w)
	}
	if h.gap > h.limits.Delay.Min {
		return m.refuseLate(h)
	}
	return nil
}

// start predicts a start.
func (m *model) start(h *modelHost, w *modelTurn) error {
	h.leave(w, m.now)
	e := m.output(w, started)
	if e == nil {
		return fmt.Errorf("%v: request %d should start: %v; %v in flight, in line: %v", m.now, w.req.id, h, m.flying, m.line)
	}
	g := e.grant
	forgotten := g.Seq == 1 && h.seq > 0 && m.p.cfg.MaxHosts < 1000
	if forgotten {
		// Forgotten to make room, which it may be if it owed nothing.
		if !h.idle {
			return fmt.Errorf("%v: the host was forgotten, with %+v owed", e, *h)
		}
		h.seq, w.idle, h.modelTrouble, h.prior = 0, 0, modelTrouble{}, modelTime{}
	}
	told := 0
	for _, k := range g.TakenBack {
		if k.Key == key(h.id) {
			told++
			continue
		}
		o := m.host(number(k.Key))
		m.tidy(o) // somebody may have looked at it since
		if o.untold == 0 {
			return fmt.Errorf("%v tells of a lease of %s that had not expired, or had been told of", e, k.Key)
		}
		o.untold--
	}
	if forgotten {
		h.untold = told
	}
	others := m.toldByOthers(h)
	if told != min(h.untold-others, math.MaxUint8) {
		return fmt.Errorf("%v tells of %d expired leases of its host, want %d", e, told, h.untold-others)
	}
	h.untold, h.idle = others, false
	h.seq++
	w.stamp.at = m.now
	w.started, w.beforeBlock = true, false
	h.pace(w.stamp, w)
	w.stamp.gap, w.stamp.by = h.gap, h.by
	d := h.limits.Delay
	if h.seq == 1 || w.idle > d.Ceiling {
		h.began, h.answers, h.waited = m.now, 0, 0
	}
	w.idle = 0
	want := hostlimit.Grant{
		Seq: uint64(h.seq), Start: m.base.Add(m.now),
		WaitSlot: w.slot, WaitDelay: w.wait, WaitBlock: w.hold,
		Delay: w.stamp.gap, DelaySource: w.stamp.by, Slot: w.place, Slots: h.limits.Concurrency,
		Probe: h.alone, Own: g.Own, TakenBack: g.TakenBack,
		Prev: m.of(h.prior), BlockedUntil: m.of(modelTime{h.until != 0, h.until}),
	}
	if w.probe = want.Probe; want.Probe {
		h.probe = w
	}
	if !g.Start.Equal(want.Start) {
		return fmt.Errorf("%v, stamped %v", e, g.Start.Sub(m.base))
	}
	if g.Prev.IsZero() && h.fromEnds { // it is forgotten where nobody waits, and the delay counts from an end
		want.Prev = g.Prev
	}
	if !g.Prev.Equal(want.Prev) || !g.BlockedUntil.Equal(want.BlockedUntil) {
		return fmt.Errorf("%v, want the start before at %v, blocked until %v", e, want.Prev, want.BlockedUntil)
	}
	g.Start, g.Prev, g.BlockedUntil = want.Start, want.Prev, want.BlockedUntil
	if !reflect.DeepEqual(g, want) {
		return fmt.Errorf("%v, want %+v", e, want)
	}
	return nil
}

// toldByOthers is how many expired leases of h the starts of this instant tell of that aren't predicted
// yet, and are on other hosts: any of them may tell.
func (m *model) toldByOthers(h *modelHost) (n int) {
	for r, events := range m.outputs {
		for _, e := range events {
			for _, k := range e.grant.TakenBack {
				n += one(r.host != h.id && k.Key == key(h.id))
			}
		}
	}
	return n
}

// overdue predicts whether somebody who waits on h has come to the deadline.
func (m *model) overdue(h *modelHost) (bool, error) {
	for _, w := range slices.Concat(h.gate, h.queue) {
		if d := w.req.deadline; d > 0 && m.now >= w.came+d {
			return true, m.refuse(h, w, m.again(h, w), []error{m.reason(h), context.DeadlineExceeded})
		}
	}
	return false, nil
}

// reason is the kind of refusal where nothing is known of the end.
func (m *model) reason(h *modelHost) error {
	if h.alone || m.closed(h, m.now) {
		return hostlimit.ErrBlocked
	}
	return hostlimit.ErrBusy
}

// giveUp predicts whether w, who is next on h, is refused.
func (m *model) giveUp(h *modelHost, w *modelTurn) (bool, error) {
	if limit := m.p.cfg.SlotTimeout; limit > 0 && len(h.gate) == 0 && h.isFull() && h.full != forever && m.now >= max(w.arrived, h.full)+limit {
		return true, m.refuse(h, w, m.again(h, w), []error{hostlimit.ErrBusy})
	}
	latest, _ := m.latest(w)
	es := m.outputs[w.req]
	looks := len(es) > 0 && es[0].kind == refusedTurn
	// A start that comes less than a millisecond after its booking wakes nobody: who is late by that is
	// told at its next look.
	if late := m.first(h, w.req.floor) - latest; late > time.Millisecond || late > 0 && looks {
		return true, m.refuse(h, w, m.first(h, w.req.floor), m.late(h, w))
	}
	if m.now >= w.arrived+m.p.maxWait() {
		return true, m.refuse(h, w, m.again(h, w), []error{m.reason(h)})
	}
	return false, nil
}

// learns reports whether refusals move a delay.
func learns(a hostlimit.Adaptive) bool {
	return a == hostlimit.Learned || a == hostlimit.Longest(hostlimit.Learned, hostlimit.Proportional(5)) ||
		a == hostlimit.Longest(hostlimit.Learned, hostlimit.Slower(2))
}

// adapt is the formula of the delay's kind, for what is an answer or took its time.
func (p *program) adapt(old, usual time.Duration, o hostlimit.Outcome, d hostlimit.Delay) (time.Duration, bool) {
	if o.Status == 0 && o.Err == context.Canceled { //nolint:errorlint // the program's own
		return 0, false
	}
	l, was := float64(o.Latency), float64(max(old, d.Min))
	var next float64
	switch d.Adaptive {
	case hostlimit.Learned, hostlimit.Fixed:
		return 0, false
	case hostlimit.Squared:
		next = l * (l / 1e9)
	case hostlimit.Proportional(5), hostlimit.Longest(hostlimit.Learned, hostlimit.Proportional(5)):
		next = (was + l*5) / 2
	case hostlimit.Longest(hostlimit.Learned, hostlimit.Slower(2)):
		excess := 0.0 // from half more than usual on; all of it is three times as much
		if l > 1.5*float64(usual) {
			excess = min(l, 2*(l-1.5*float64(usual)))
		}
		next = (was + 2*excess) / 2
	case hostlimit.Throttle(2):
		next = max(l/2, (was+l/2)/2)
	default:
		panic("a formula that the model doesn't know")
	}
	delay := min(max(time.Duration(next), d.Min), d.Ceiling)
	return delay, delay >= old || o.Status > 0 && o.Status < 400
}
