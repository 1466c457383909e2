package rules

import (
	"math/rand/v2"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// Draw returns a delay in [Min, Max] of d, picked at random.
func Draw(d *hostlimit.Delay) time.Duration {
	return d.Min + time.Duration(rand.Uint64N(uint64(d.Max-d.Min)+1)) // Max-Min+1 may not fit into an int64
}

// Usual returns the usual response time of a key's pages, after o, given the usual time before. The
// time is 0 if not known. See hostlimit.Slower.
func Usual(o *hostlimit.Outcome, before time.Duration) time.Duration {
	longer := o.Latency - before
	switch {
	case o.Status/100 != 2, o.Aside, o.Latency < 0: // no page, or no time
		return before
	case before == 0:
		return o.Latency
	case longer < 0:
		return before + longer/8
	}
	return before + longer/256 // slowly, so that a host that gets slow doesn't soon count as usual
}

// Adapt returns the delay by response times after o, if it was old before, and pages of the key
// usually take that long, o included (Usual). Without a formula of response times it returns 0,
// since old is a delay of other limits.
func Adapt(d *hostlimit.Delay, old, usual time.Duration, o *hostlimit.Outcome) time.Duration {
	if !d.Adaptive.ByLatency() {
		return 0
	}
	atOnce, halfway, raise, moves := d.Adaptive.Move(usual, o)
	if !moves {
		return old
	}
	next := atOnce
	if halfway >= 0 {
		next = max(next, (float64(max(old, d.Min))+halfway)/2)
	}
	adapted := d.Ceiling
	if next < float64(d.Ceiling) { // only a delay in range is rounded, so nothing overflows
		adapted = max(d.Min, time.Duration(next))
	}
	if raise {
		adapted = max(adapted, old)
	}
	return adapted
}
