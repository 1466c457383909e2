package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// places proves that never more requests were in flight, on all hosts together, than MaxInFlight of
// the policy. Starts of several hosts aren't numbered in one row, and each is logged once its
// headers are there, so they wait here for those that were earlier.
type places struct {
	pending []*exchange // starts that may have had others before them, in the order of time
	inside  []*exchange // those in flight at the time of the last start that was proved
	last    time.Time   // of that
}

// lagPlaces is how many starts may be logged before one that came earlier.
const lagPlaces = 1 << 13

// mostInFlight returns how many requests may be in flight beside x and with it, 0 where nobody
// says.
func (x *exchange) mostInFlight() int {
	if x.by.policy == nil {
		return 0
	}
	return x.by.policy.MaxInFlight
}

// place takes the start x.
func (a *auditor) place(x *exchange) {
	if x.mostInFlight() == 0 {
		return
	}
	p := &a.places
	if x.start.Before(p.last) {
		a.openEnded(slotsKept, "a start that was logged so late that what was in flight on all hosts then is forgotten")
		return
	}
	i, _ := slices.BinarySearchFunc(p.pending, x, func(a, b *exchange) int {
		return cmp.Or(a.start.Compare(b.start), comparePlaces(a.at, b.at))
	})
	p.pending = slices.Insert(p.pending, i, x)
	a.provePlaces(lagPlaces)
}

// provePlaces proves the earliest starts, but for so many.
func (a *auditor) provePlaces(keep int) {
	p := &a.places
	for len(p.pending) > keep {
		x := p.pending[0]
		p.pending[0] = nil
		p.pending = p.pending[1:]
		p.last = x.start
		p.inside = slices.DeleteFunc(p.inside, func(y *exchange) bool { return !y.end.IsZero() && !y.end.After(x.start) })
		own, all := 1, 1
		var with *exchange
		for _, y := range p.inside {
			if y.leaked && !x.start.Before(y.start.Add(y.safe())) || a.takenUntold(y, x, false) {
				continue // somebody on another host may have got its place long before that was told
			}
			all++
			if y.by.group() == x.by.group() {
				own, with = own+1, y
			}
		}
		switch most := x.mostInFlight(); {
		case own > most:
			a.violation(BrokenConcurrency, "", fmt.Sprintf("%d in flight on all hosts, %d at most", own, most), with.at, x.at)
		case all > most:
			a.openEnded(slotsKept, "more in flight on all hosts together than MaxInFlight, of Transports that may have a limiter each")
		}
		p.inside = append(p.inside, x)
	}
}
