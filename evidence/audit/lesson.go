package audit

import (
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// A lesson is what refusals have taught of a host's delay, where the policy says Learned: the first
// one of a series makes the delay in force half as long again, and every twenty starts without one
// shorten it by 2 %. The delay in force is at least what was derived before, so least is a bound
// that holds whatever the log says of its delays.
type lesson struct {
	by     *transport // whose limiter has learned it; nil: nothing was taught
	least  time.Duration
	from   time.Time // when it was taught
	until  time.Time // from then on a limiter may have forgotten the host
	starts int       // since then, or since least became shorter
	series bool      // whether the next refusal belongs to the same series
	beyond bool      // whether something was taught that isn't derived
}

// calm is how many starts make least shorter: fewer than a limiter counts, since it also counts the
// starts that it gives up.
const calm = 18

// teach takes the news d of a block.
func (h *hostAudit) teach(d *evidence.Decision) {
	l := &h.lesson
	if d.Hand || d.Refusals == 0 {
		return
	}
	first := d.Refusals == 1 && !l.series
	l.series = true
	p := h.a.by.policy
	switch {
	case d.Restored, p == nil, p.Overrides, first && (d.Status < 400 || d.Status > 499 || d.Status == 408 || d.Status == 425):
		l.beyond = true
		return
	case !first || !formulaOf(p.Adaptive).learned:
		return
	case h.mayLack(d.Time): // one that is missing may have been the first, and have taught nothing
		l.beyond = true
		return
	case l.by != h.a.by:
		l.beyond = l.beyond || l.by != nil
		l.by, l.least = h.a.by, 0
	}
	l.least = max(l.least, p.DelayMin)
	l.least = min(l.least+l.least/2, p.Ceiling)
	l.from, l.until, l.starts = d.Time, d.Until.Add(p.Forgive), 0
}

// start counts the start x after the one before it, and returns how long the delay after x is at
// least.
func (l *lesson) start(x, before *exchange, limits *hostLimits) time.Duration {
	if l.least == 0 || !x.start.After(l.from) || x.start.After(l.until) {
		return 0
	}
	l.starts++
	if before != nil && limits.Ceiling > 0 { // an idle time counts as a start for each Ceiling in it
		l.starts += int(x.start.Sub(before.start) / limits.Ceiling)
	}
	for ; l.starts >= calm && l.least != 0; l.starts -= calm {
		if l.least -= l.least / 50; l.least <= limits.DelayMin {
			l.least = 0
		}
	}
	if x.by.group() != l.by.group() { // a limiter of its own, as far as is known
		return 0
	}
	return l.least - l.least/50
}

// covers reports whether the delay after the start x was derived.
func (l *lesson) covers(x *exchange) bool {
	return !l.beyond && l.by == x.by && !x.start.After(l.until)
}
