package rules

import (
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// Owed returns the part of d that applies at now, by the wall clock. A block that is over has no
// cause, and none is left of one whose refusals are forgiven. A wait is no longer than it was to be
// when it was set, or than MaxRetryAfter, because the clock may have been set back since.
func (r *Rules) Owed(d hostlimit.Debt, now time.Time) hostlimit.Debt {
	d = r.Current(d, now)
	longest := r.refusals.MaxRetryAfter
	d.NextStart = earlier(d.NextStart, now.Add(longest).Round(0))
	if !d.BlockedAt.IsZero() {
		// An operator may have blocked the key for longer than any host may ask for.
		longest = max(longest, d.BlockedUntil.Sub(d.BlockedAt))
	}
	d.BlockedUntil = earlier(d.BlockedUntil, now.Add(longest).Round(0))
	return d
}

// Current returns d without the parts that are over at now.
func (r *Rules) Current(d hostlimit.Debt, now time.Time) hostlimit.Debt {
	if isOver := !d.BlockedUntil.After(now); isOver {
		d.Cause = ""
		// A block that is over leaves its counters: they are forgiven later.
		forgiven := !d.BlockedUntil.Add(r.refusals.Forgive).After(now)
		if InARow(&d) == 0 || forgiven {
			d = unblocked(d)
		}
	}
	if !d.NextStart.After(now) {
		d.NextStart = time.Time{}
	}
	return d
}

// unblocked returns d without the block.
func unblocked(d hostlimit.Debt) hostlimit.Debt {
	return hostlimit.Debt{
		NextStart: d.NextStart,
		Delay:     d.Delay,
		Slow:      d.Slow,
		Adaptive:  d.Adaptive,
		ClearedAt: d.ClearedAt,
		FreedAt:   d.FreedAt,
	}
}

// earlier returns the earlier one of two times.
func earlier(t, o time.Time) time.Time {
	if t.After(o) {
		return o
	}
	return t
}
