package memory

import (
	"sync"
	"time"

	"github.com/go-politeness/politeness/internal/list"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// places are the MaxInFlight places for requests over all keys. A key whose head lacks only a place
// joins a line; it gets one place and joins at the end again, so no key starves another. The mutex
// is locked after a shard's, never before one.
type places struct {
	max int
	ttl time.Duration

	sweeping sync.Mutex // held by sweep; locked before those of shards

	mu    sync.Mutex
	taken int // held by requests in flight, or handed to a key
	line  list.List[active, *active]
	due   time.Duration // no lease expires before
	// swept are the leases that were taken back while no request waited for their keys: the next
	// Grant reports them.
	swept []hostlimit.TakenBack
}

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

// takenBack returns the leases for Grant.TakenBack, once: those of h, and those of other keys that
// sweep has found.
func (sh *shard) takenBack(h *host) (leases []hostlimit.TakenBack) {
	if p := sh.m.places; p != nil {
		p.mu.Lock()
		leases = p.swept
		p.swept = nil
		p.mu.Unlock()
	}
	return append(leases, h.leaked()...)
}

// mostLeaks is how many leases of a key are reported at once.
const mostLeaks = 255

// leak queues l, which was taken back; the next start of h reports it.
func (h *host) leak(l *lease) {
	t := hostlimit.TakenBack{Key: h.key}
	if l.started {
		t.Seq = l.seq
	}
	r := h.changeRefusals()
	if r.takenBack == nil {
		r.takenBack = new([]hostlimit.TakenBack)
	}
	if len(*r.takenBack) < mostLeaks { // a host whose bodies are never closed may leak for ever
		*r.takenBack = append(*r.takenBack, t)
	}
}

// leaked returns the leases that leak has queued, and removes them.
func (h *host) leaked() (leases []hostlimit.TakenBack) {
	r := h.kept
	if r == nil || r.takenBack == nil {
		return nil
	}
	leases = *r.takenBack
	r.takenBack = nil
	return leases
}

// handOut gives the free places to the line. Call it, with no lock held, whenever a place may have
// become free.
func (m *Limiter) handOut() {
	if m.places == nil {
		return
	}
	for a := m.places.hand(); a != nil; a = m.places.hand() {
		a.sh.mu.Lock() // places.mu isn't held here: it is locked after a shard's
		if head := a.queue.First; head != nil {
			head.signal()
		} else {
			m.places.leave(a) // all waiters of the key have left meanwhile
		}
		a.sh.mu.Unlock()
	}
}

// sweep takes back expired leases of all keys, if there may be any. A leaked lease holds a place
// even if no request waits for its key and would take it back.
func (m *Limiter) sweep() {
	p := m.places
	p.sweeping.Lock()
	defer p.sweeping.Unlock()
	p.mu.Lock()
	if p.due > m.now() {
		p.mu.Unlock()
		return // nearly always
	}
	// Leases that are granted during the sweep set due anew. The lock isn't held during it: shards
	// come first.
	p.due = rules.Never
	p.mu.Unlock()
	due := rules.Never
	var swept []hostlimit.TakenBack
	for a, now := range m.actives {
		inFlight := a.flights.Len
		a.refresh(now)
		if a.flights.Len < inFlight {
			swept = append(swept, a.h.leaked()...)
		}
		due = min(due, a.due)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = min(p.due, due) // leases may have been granted meanwhile
	p.swept = append(p.swept, swept...)
}

// actives yields the state of each key that has leases or waiters, under the lock of its shard, and
// the time.
func (m *Limiter) actives(yield func(a *active, now time.Duration) bool) {
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		now := m.now()
		for _, a := range sh.actives {
			if a.h == nil { // spare
				continue
			}
			if !yield(a, now) {
				sh.mu.Unlock()
				return
			}
			sh.free(a) // the last lease may have expired, the last waiter been refused
		}
		sh.mu.Unlock()
	}
}
