package memory

import (
	"time"

	"github.com/go-politeness/politeness/hostlimit/rules"
)

// take takes a place for the head of a, and reports whether there was one. Otherwise a joins the
// line, and a lease may expire at until: one in flight, or one that is granted right now for a
// place that was handed to its key.
func (p *places) take(a *active, now time.Duration) (ok bool, until time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isNext := p.line.First == nil || p.line.First == a
	switch {
	case a.hasPlace: // hand has counted it
		a.hasPlace = false
	case p.taken < p.max && isNext:
		p.leaveLine(a)
		p.taken++
	default:
		p.joinLine(a)
		return false, min(p.due, rules.Add(now, p.ttl))
	}
	p.due = min(p.due, rules.Add(now, p.ttl)) // the lease for this place may expire then
	return true, 0
}

// joinLine adds a to the line, unless it is in there or has a place.
func (p *places) joinLine(a *active) {
	if !a.queued && !a.hasPlace {
		a.queued = true
		p.line.Insert(a, p.line.Last)
	}
}

func (p *places) leaveLine(a *active) {
	if a.queued {
		a.queued = false
		p.line.Remove(a)
	}
}

// leave removes a from the line and gives back a place that was handed to it.
func (p *places) leave(a *active) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaveLine(a)
	if a.hasPlace {
		a.hasPlace = false
		p.taken--
	}
}

// ended frees the place of a lease of a, which joins the line if it could start again.
func (p *places) ended(a *active, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if again {
		p.joinLine(a)
	}
}

// hand gives a free place to the first key of the line, and returns that key's state.
func (p *places) hand() *active {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.line.First
	if a == nil || p.taken >= p.max {
		return nil
	}
	// The place is taken from now on: a key that comes meanwhile doesn't get it.
	p.leaveLine(a)
	a.hasPlace = true
	p.taken++
	return a
}
