package audit

import (
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// A lesson is what refusals have taught of a host's delay, where the policy says Learned. How long
// the delay is then the records say, since nobody can derive which page's trouble was the host's.
// What is derived is the least that they may say: the first refusal of a series and a ban make the
// delay longer by a factor, and no more than one step each 20 s makes it shorter.
type lesson struct {
	by    *transport    // whose limiter has learned it; nil: nothing was taught
	least time.Duration // the delay when it was seen last; 0: none was taught
	seen  time.Time
	eased time.Time // earliest time at which it can have become shorter, or was taught, last
	steps int       // that may have made it shorter since the last refusal
}

// each is how much time is between two steps that make a learned delay shorter.
const each = 20 * time.Second

// teach takes the block p, whose record is d.
func (l *lesson) teach(h *hostAudit, p *past, d *evidence.Decision) {
	if p.by == nil || p.kind < unsure || p.extends {
		return
	}
	l.steps = 0
	x := p.by
	limits := h.limits(x)
	factor := 1.5
	switch {
	case limits == nil || !limits.formula.learned || p.refusals != 1 || h.mayLack(p.from):
		return
	case p.kind == forbidden:
		factor = 2
	case p.kind != refusing || d.Status == 503 && d.Refused == "" && !x.by.statuses[503]:
		return
	}
	if l.by == nil || l.by.group() != x.by.group() {
		*l = lesson{by: x.by}
	}
	taught := time.Duration(factor * float64(max(limits.DelayMin, l.least)))
	l.least, l.seen, l.eased = max(l.least, min(taught, limits.Ceiling)), p.from, p.from
}

// start takes the start x, and reports whether the delay after it is shorter than it may be.
func (l *lesson) start(x *exchange) (short bool) {
	switch {
	case x.seq == 1 || l.by != nil && l.by.group() != x.by.group():
		*l = lesson{} // a limiter that knows of no refusal, as far as is known
	case l.least != 0 && !x.start.After(l.seen):
		return false
	case l.least > x.delay:
		least := float64(l.least)
		steps := min(x.start.Sub(l.eased)/each, x.start.Sub(l.seen)/each+1, 1000)
		for range int(steps) {
			least *= 1 - float64(min(16, int(2)<<min(l.steps/5, 3)))/100
			l.steps++
		}
		short = x.delay+time.Microsecond < time.Duration(least) && time.Duration(least) > x.by.policy.DelayMin
		l.least, l.eased = 0, l.seen
	}
	if x.learned && x.delay >= l.least {
		if x.delay > l.least && l.least > 0 || l.eased.IsZero() {
			l.eased = l.seen
		}
		l.by, l.least, l.seen = x.by, x.delay, x.start
	}
	return short
}
