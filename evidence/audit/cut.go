package audit

import (
	"fmt"
	"slices"
	"time"
)

// A run is one log, from its first record to its seal or to where it was cut off. A process that is
// killed leaves the beginning of an honest log: the last lines are lost, and those of requests that
// had no answer yet. So what such a log lacks is open, as far as it can have been lost that way: a
// request that isn't known to have ended had its slot until the last records were made.
type run struct {
	begun  bool      // whether a record was taken from it
	sealed bool      // whether the log was closed
	over   bool      // whether no record follows
	last   time.Time // latest record
}

// newRun returns the run of a log that begins.
func (a *auditor) newRun() *run {
	r := new(run)
	a.runs = append(a.runs, r)
	return r
}

// follows reports whether the next record is the first of a log that began after all other logs had
// ended.
func (a *auditor) follows() bool {
	before := false
	for _, o := range a.runs {
		if o.begun && !o.over {
			return false
		}
		before = before || o.begun
	}
	return before
}

// over says that the log r is over.
func (a *auditor) over(r *run) {
	r.over = true
	if r.sealed {
		return
	}
	for _, name := range inOrder(a.hosts) {
		h := a.hosts[name]
		for _, x := range h.underWay() {
			if x.run == r {
				h.cutOff(x)
			}
		}
	}
}

// until returns the time until which a request surely had its slot if a kill has taken its end,
// which is recorded within slack, out of r.
func (r *run) until() time.Time { return r.last.Add(-slack) }

// cutOff takes it that x was under way when its log was cut off.
func (h *hostAudit) cutOff(x *exchange) {
	delete(h.open, x.key)
	x.gone, x.endless = true, true
	h.hurry(x)
	if p := &h.pace; p.blind.IsZero() || x.start.Before(p.blind) {
		p.blind = x.start
	}
	if x.statusAt.line == 0 && x.start.Before(h.run.last) {
		h.run = series{} // its answer may have been a success between the failures
		h.a.openEnded(blocksKept, unknownAnswer)
	}
	if x.expired {
		return
	}
	h.a.openEnded(everyStartEnded, "the log stops while requests are under way, as after a kill, or where bodies are never closed: these have no end")
	if _, ok := x.by.budget.limits["bytes"]; ok {
		h.a.openEnded(budgetKept, "how much was read of a request that has no end")
	}
	later := h.last != nil && h.last.start.After(x.start) || len(h.pending) > 0 && h.pending[len(h.pending)-1].start.After(x.start)
	if later && x.statusAt.line == 0 {
		h.a.openEnded(blocksKept, unknownAnswer)
	}
	x.end = maxTime(x.start, x.run.until())
	h.settle(x)
}

const unknownAnswer = "what a request that has no end was answered"

// underWay returns the exchanges whose end isn't known, in the order of their records.
func (h *hostAudit) underWay() []*exchange {
	if len(h.open) == 0 {
		return nil
	}
	xs := make([]*exchange, 0, len(h.open))
	for _, x := range h.open {
		xs = append(xs, x)
	}
	slices.SortFunc(xs, func(a, b *exchange) int { return comparePlaces(a.at, b.at) })
	return xs
}

// cutRun returns, of the logs that were cut off, the one that was so first, nil if there is none.
// At the end it is known of all logs.
func (a *auditor) cutRun(end bool) (first *run) {
	for _, r := range a.runs {
		if r.begun && !r.sealed && (end || r.over) && (first == nil || r.last.Before(first.last)) {
			first = r
		}
	}
	return first
}

// cutBefore reports whether answers that came before t may be missing, since a log was cut off.
func (a *auditor) cutBefore(t time.Time) bool {
	r := a.cutRun(false)
	return r != nil && r.until().Before(t)
}

// mayLack reports whether an answer before the one at t may be missing, which leaves open what that
// one had to do to the host.
func (h *hostAudit) mayLack(t time.Time) bool {
	if !h.a.cutBefore(t) {
		return false
	}
	h.a.openEnded(blocksKept, "what others were answered before the log of one of them was cut off")
	return true
}

// absence takes it that the starts from the number next to that of x were under way when a log was
// cut off, and reports whether that can be: there were slots for them, and one for x.
func (h *hostAudit) absence(next uint64, x *exchange, end bool) bool {
	r := h.a.cutRun(end)
	if r == nil {
		return false
	}
	from := x.start // the earliest time at which they can have started
	if h.last != nil {
		from = h.last.start
	}
	inside := r.until().After(x.start)
	safe := x.safe()
	if inside && safe > 0 && (h.last == nil || x.start.Sub(from) >= safe) {
		h.a.openEnded(slotsKept, takenByAbsent)
		inside = false
	}
	var absent []*exchange
	for seq := next; inside && seq < x.seq && len(h.inside)+len(absent) < maxOpen; seq++ {
		y := &exchange{at: x.at, run: r, by: x.by, start: from, seq: seq, end: r.until(), absent: true}
		if _, lost := h.leaked[seq]; lost {
			y.end = from.Add(safe)
		}
		if _, unsent := h.givenUp[seq]; unsent || !y.end.After(x.start) {
			continue
		}
		if absent = append(absent, y); len(absent) == x.slots {
			return false
		}
	}
	h.a.openEnded(logWhole, "numbers of starts are missing, as those of requests without an answer are in a log that was cut off")
	h.absent = x.start
	h.inside = append(h.inside, absent...)
	return true
}

// takenByAbsent is the reason where a slot was held for so long that it may have been taken back.
const takenByAbsent = "a slot that a request which isn't in the log may have taken back"

// takenUntold reports whether the slot of y may have been taken back before x started, by one whose
// log was cut off before it told of that, or that isn't in the log at all.
func (a *auditor) takenUntold(y, x *exchange, absent bool) bool {
	safe := y.safe()
	if y.leaked || safe == 0 || x.start.Before(y.start.Add(safe)) {
		return false
	}
	switch {
	case absent:
		a.openEnded(slotsKept, takenByAbsent)
	case y.endless || a.cutBefore(x.start):
		a.openEnded(slotsKept, "a slot that may have been taken back, where the news of that may have been cut off")
	default:
		return false
	}
	return true
}

// gaveWay reports that y wasn't under way until its log was cut off: x couldn't have got a slot
// then.
func (h *hostAudit) gaveWay(y, x *exchange) {
	if y.absent {
		h.violation(MissingStart, fmt.Sprintf("start %d is missing, and its slot was another's before the log stops", y.seq), y.at, x.at)
	} else {
		h.violation(MissingEnd, "a start without an end, and its slot was another's before the log stops", y.at, x.at)
	}
	y.end = y.start
}
