package crawl

import (
	"context"
	"fmt"
	"time"

	"github.com/go-politeness/politeness/internal/printable"
)

// endWaits ends waits that can lead to no page, if nothing else is left to do. The URLs of dead
// hosts are given up: nothing but their next try would keep the crawl. If all the others can't be
// asked before the deadline of the crawl's context, or within the budget's time, the crawl ends.
// While the Queue is open the crawl continues in any case.
func (r *run) endWaits(now time.Time) {
	if r.stopped || r.open || r.underWay() {
		return
	}
	deadline, hasDeadline := r.ctx.Deadline()
	dead := make(map[*host]time.Time)
	var overBudget error
	var late []*host
	for _, h := range r.frontier.hosts {
		at := h.earliest(now)
		switch {
		case h.isAside():
		case h.tooLate != nil:
			overBudget = h.tooLate
		case hasDeadline && !at.Before(deadline):
			late = append(late, h)
		case r.isDead(h) || h.refusals.dead(now) || h.refusals.closed(at, r.c.cfg.Patience, r.c.cfg.Tries):
			dead[h] = now
		default:
			return // this one keeps the crawl, and the others have another try meanwhile
		}
	}
	isOver := len(dead) == 0 && (len(late) > 0 || overBudget != nil)
	if isOver && r.startAsking(true) {
		return // a rule may have changed, and let something pass that can start
	}
	switch {
	case len(dead) > 0:
		r.giveUpDead(dead, now)
	case len(late) > 0:
		r.stop(r.lateError(late, now))
	case overBudget != nil:
		r.stop(overBudget)
	}
}

// isDead reports whether h has only URLs of origins that haven't answered.
func (r *run) isDead(h *host) bool {
	if h.refusals.size() > 0 {
		return false // a page waits whose origin has answered
	}
	hasURL := false
	for i := range h.urls {
		if !h.isOfDead(&h.urls[i]) {
			return false
		}
		hasURL = true
	}
	for i := range r.asleep {
		req := &r.asleep[i].request
		if req.Host != h.key {
			continue
		}
		if !h.isOfDead(req) {
			return false
		}
		hasURL = true
	}
	return hasURL
}

// giveUpDead moves dead hosts up to now: the next step of each gives its URLs up.
func (r *run) giveUpDead(dead map[*host]time.Time, now time.Time) {
	for h := range dead {
		if r.isDead(h) {
			h.giveUpDead(r.c.cfg.Tries) // for putOff
		} else {
			h.close() // for tooLong
		}
	}
	// Sleepers are in r.asleep and not at their hosts. A host whose URLs all sleep would have no
	// next step without them.
	asleep := r.asleep
	r.asleep = nil
	for _, s := range asleep {
		h := r.host(s.request.Host)
		_, isDead := dead[h]
		if isDead && (h.closed != nil || h.isOfDead(&s.request)) {
			r.awake(s)
			continue
		}
		r.asleep.push(s)
	}
	r.frontier.moveUp(dead)
}

// earliest returns the earliest time, now or later, at which a URL of h may be asked for.
func (h *host) earliest(now time.Time) time.Time {
	at := h.at
	_, hasNext := h.next()
	if !hasNext && h.wakes.After(at) {
		at = h.wakes // all its URLs sleep
	}
	if at.Before(now) {
		return now
	}
	return at
}

// A lateError is why a crawl ends before the deadline of its context: no host may be asked before.
type lateError struct {
	deadline time.Time
	hosts    int         // that have URLs left
	first    WaitingHost // that may be asked first
}

// lateError returns why the crawl ends, if only the given hosts are left.
func (r *run) lateError(hosts []*host, now time.Time) *lateError {
	deadline, _ := r.ctx.Deadline()
	e := &lateError{deadline: deadline, hosts: len(hosts)}
	for _, h := range hosts {
		w, ok := r.waitOf(h, now)
		isFirst := e.first.Until.IsZero() || w.Until.Before(e.first.Until)
		if ok && isFirst {
			e.first = w
		}
	}
	e.first.Why = r.nextWhy(e.first.Host, e.first.Why)
	return e
}

// Error returns the deadline, the number of hosts that wait, and the first of them with its time
// and its reason.
func (e *lateError) Error() string {
	return fmt.Sprintf("crawl: nothing can start before the deadline, %s: %s left, the first is %s, "+
		"which waits until %s: %s",
		e.deadline.Format(time.DateTime), hosts(e.hosts), printable.Text(e.first.Host),
		e.first.Until.Format(time.DateTime), printable.Clipped(e.first.Why, 200))
}

// Unwrap returns context.DeadlineExceeded, for errors.Is.
func (e *lateError) Unwrap() error { return context.DeadlineExceeded }
