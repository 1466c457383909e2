package rules

import (
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

const week = 7 * 24 * time.Hour

// Owed returns the part of d that applies at now, by the wall clock. A block that is over has no
// cause, and none is left of one whose refusals are forgiven. A wait is no longer than it was to be
// when it was set, or than MaxRetryAfter, because the clock may have been set back since. A block
// that no operator has set is no longer than a week, or LongestBlock. One that another program has
// written, centuries ahead, must not stay. A process with other limits may have set one of a day or
// two.
func (r *Rules) Owed(d hostlimit.Debt, now time.Time) hostlimit.Debt {
	d = r.Current(d, now)
	longest := r.refusals.MaxRetryAfter
	d.NextStart = earlier(d.NextStart, now.Add(longest).Round(0))
	if !d.BlockedAt.IsZero() {
		longest = max(longest, d.BlockedUntil.Sub(d.BlockedAt))
	}
	if _, byHand := ByHand(d.Cause); !byHand {
		longest = min(longest, max(week, r.LongestBlock()))
	}
	d.BlockedUntil = earlier(d.BlockedUntil, now.Add(longest).Round(0))
	return d
}

// LongestBlock returns for how long the responses of a host block it at most, by MaxRetryAfter, by
// the policy with its jitter, or by a ban. It is math.MaxInt64 for a policy that isn't of package
// backoff. Use it to bound blocks that are read from where others may write.
func (r *Rules) LongestBlock() time.Duration {
	longest := max(r.refusals.MaxRetryAfter, r.refusals.Longest(), longestBan)
	p, ok := r.refusals.Policy.(backoff.Doubling)
	if !ok {
		return longest
	}
	most := p.WithDefaults().Cap
	jitter := min(p.Jitter[1]*float64(most), float64(Never/2))
	return max(longest, Add(most, time.Duration(jitter)))
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
