package hostlimit

import (
	"sync"
	"time"
)

// places are the MaxInFlight places for requests over all keys. A key whose head lacks only a place
// joins a line; it gets one place and joins at the end again, so no key starves another. The mutex
// is locked after a shard's, never before one.
type places struct {
	max int
	ttl time.Duration

	mu    sync.Mutex
	taken int // held by requests in flight, or handed to a key
	line  list[active, *active]
	held  flights
	swept []TakenBack // leases that were taken back while no request waited for those keys; the next Grant reports them
}

// take takes a place for the head of a, and reports whether there was one. Otherwise a joins the
// line, and a lease may expire at until: one in flight, or one that is granted right now for a
// place that was handed to its key.
func (p *places) take(a *active, now time.Duration) (ok bool, until time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case a.hasPlace:
		a.hasPlace = false
		return true, 0
	case p.taken < p.max && (p.line.first == nil || p.line.first == a):
		p.leaveLine(a)
		p.taken++
		return true, 0
	}
	p.joinLine(a)
	return false, min(p.held.due(p.ttl), add(now, p.ttl))
}

// join adds a to the line, unless it is in there or has a place.
func (p *places) join(a *active) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joinLine(a)
}

func (p *places) joinLine(a *active) {
	if !a.queued && !a.hasPlace {
		a.queued = true
		p.line.insert(a, p.line.last)
	}
}

func (p *places) leaveLine(a *active) {
	if a.queued {
		a.queued = false
		p.line.remove(a)
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

// granted adds a lease that has a place.
func (p *places) granted(l *lease, now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held.add(&l.inAll, now)
}

// ended frees the place of a lease.
func (p *places) ended(l *lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	p.held.remove(&l.inAll)
}

// hand gives a free place to the first key of the line, and returns that key's state.
func (p *places) hand() *active {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.line.first
	if a == nil || p.taken >= p.max {
		return nil
	}
	p.leaveLine(a)
	a.hasPlace = true
	p.taken++
	return a
}

// expired returns a lease that has expired, or nil.
func (p *places) expired(now time.Duration) *lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held.expired(now, p.ttl)
}

// report queues leases; the next start of any key reports them (Grant.TakenBack).
func (p *places) report(leases []TakenBack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swept = append(p.swept, leases...)
}

// reported returns the leases that report has queued, and removes them.
func (p *places) reported() (leases []TakenBack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	leases, p.swept = p.swept, nil
	return leases
}

// takenBack returns the leases for Grant.TakenBack, once: those of h, and those of other keys that
// sweep has found.
func (sh *shard) takenBack(h *host) (leases []TakenBack) {
	if p := sh.m.places; p != nil {
		leases = p.reported()
	}
	return append(leases, h.leaked()...)
}

// mostLeaks is how many leases of a key are reported at once.
const mostLeaks = 255

// leak queues l, which was taken back; the next start of h reports it.
func (h *host) leak(l *lease) {
	t := TakenBack{Key: h.key}
	if l.started {
		t.Seq = l.seq
	}
	if h.takenBack == nil {
		h.takenBack = new([]TakenBack)
	}
	if len(*h.takenBack) < mostLeaks {
		*h.takenBack = append(*h.takenBack, t)
	}
}

// leaked returns the leases that leak has queued, and removes them.
func (h *host) leaked() (leases []TakenBack) {
	if h.takenBack != nil {
		leases, h.takenBack = *h.takenBack, nil
	}
	return leases
}

// handOut gives the free places to the line. Call it, with no lock held, whenever a place may have
// become free.
func (m *Memory) handOut() {
	if m.places == nil {
		return
	}
	for a := m.places.hand(); a != nil; a = m.places.hand() {
		a.sh.mu.Lock()
		if head := a.queue.first; head != nil {
			head.signal()
		} else {
			m.places.leave(a) // all waiters of the key have left meanwhile
		}
		a.sh.mu.Unlock()
	}
}

// sweep takes back expired leases of all keys. A leaked lease holds a place even if no request
// waits for its key and would take it back.
func (m *Memory) sweep() {
	now := m.now()
	for l := m.places.expired(now); l != nil; l = m.places.expired(now) {
		l.sh.mu.Lock()
		if a := l.a; a != nil {
			a.refresh(m.now())
			m.places.report(l.h.leaked())
			l.sh.free(a)
		}
		l.sh.mu.Unlock()
	}
}

// A flight is the place of a lease in flights.
type flight struct {
	linked[flight]
	lease *lease
	heard time.Duration // value of lease.heard when the flight was added; it may be later by now
}

// flights are leases by flight.heard. A Renew doesn't move its lease; expired does, when the lease
// is at the front.
type flights struct{ list[flight, *flight] }

// add inserts f by heard: nearly always at the end.
func (s *flights) add(f *flight, heard time.Duration) {
	prev := s.last
	for prev != nil && prev.heard > heard {
		prev = prev.prev
	}
	f.heard = heard
	s.insert(f, prev)
}

// firstStart returns the earliest stamp of the leases; now if none has one.
func (s *flights) firstStart(now time.Duration) time.Duration {
	for f := s.first; f != nil; f = f.next {
		if at := f.lease.stamp.at; at != unset {
			now = min(now, at)
		}
	}
	return now
}

// ends returns when the first of the leases expires if none is renewed; never if there is none.
func (s *flights) ends(ttl time.Duration) time.Duration {
	end := never
	for f := s.first; f != nil; f = f.next {
		end = min(end, add(time.Duration(f.lease.heard.Load()), ttl))
	}
	return end
}

// due returns a time before which no lease expires; never if there is none.
func (s *flights) due(ttl time.Duration) time.Duration {
	if s.first == nil {
		return never
	}
	return add(s.first.heard, ttl)
}

// expired returns a lease that wasn't in use for ttl, or nil.
func (s *flights) expired(now, ttl time.Duration) *lease {
	for s.due(ttl) <= now {
		f := s.first
		heard := min(time.Duration(f.lease.heard.Load()), now)
		if add(heard, ttl) <= now {
			return f.lease
		}
		s.remove(f)
		s.add(f, heard)
	}
	return nil
}
