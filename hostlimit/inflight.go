package hostlimit

import (
	"sync"
	"time"
)

// places are the MaxInFlight places for requests over all keys. Keys whose head could start but for
// a place stand in a line; each gets one place and goes to the end again, so no key starves
// another. The mutex is taken after a shard's, never before one.
type places struct {
	max int
	ttl time.Duration

	mu          sync.Mutex
	taken       int   // held by requests in flight, or handed to a key
	first, last *busy // the line
	flying      flights
	swept       []TakenBack // leases that were taken back while no request waited for those keys; the next start tells of them
}

// take takes a place for the head of b. Without one it stands b in the line, and
// says when a lease may expire, also one that is lent in this moment, for a place that is handed already.
func (p *places) take(b *busy, now time.Duration) (ok bool, until time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case b.place:
		b.place = false
		return true, 0
	case p.taken < p.max && (p.first == nil || p.first == b):
		if b.queued {
			p.unlink(b)
		}
		p.taken++
		return true, 0
	}
	p.link(b)
	return false, min(p.flying.due(p.ttl), add(now, p.ttl))
}

// join stands b in the line, unless it stands there already or has a place.
func (p *places) join(b *busy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link(b)
}

func (p *places) link(b *busy) {
	if b.queued || b.place {
		return
	}
	b.queued, b.before, b.after = true, p.last, nil
	if p.last == nil {
		p.first = b
	} else {
		p.last.after = b
	}
	p.last = b
}

// leave takes b out of the line and gives back the place that it was handed.
func (p *places) leave(b *busy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.queued {
		p.unlink(b)
	}
	if b.place {
		b.place = false
		p.taken--
	}
}

func (p *places) unlink(b *busy) {
	if b.before == nil {
		p.first = b.after
	} else {
		b.before.after = b.after
	}
	if b.after == nil {
		p.last = b.before
	} else {
		b.after.before = b.before
	}
	b.queued, b.before, b.after = false, nil, nil
}

// lent notes a lease that has taken its place.
func (p *places) lent(l *lease, now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flying.add(l, now)
}

// ended frees the place of a lease.
func (p *places) ended(l *lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	p.flying.remove(l)
}

// hand gives a free place to the first key in the line, and returns it.
func (p *places) hand() *busy {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.first
	if b == nil || p.taken >= p.max {
		return nil
	}
	p.unlink(b)
	b.place = true
	p.taken++
	return b
}

// expired returns a lease that has expired, or nil.
func (p *places) expired(now time.Duration) *lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flying.expired(now, p.ttl)
}

// tell leaves it to the next start of any key to tell of leases.
func (p *places) tell(leases []TakenBack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swept = append(p.swept, leases...)
}

// told returns the leases of which a start is to tell, once.
func (p *places) told() (leases []TakenBack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	leases, p.swept = p.swept, nil
	return leases
}

// takenBack returns the leases that were taken back since a start told of the last: those
// of h, and those that no start of their own key could tell of.
func (sh *shard) takenBack(h *host) (leases []TakenBack) {
	if p := sh.m.places; p != nil {
		leases = p.told()
	}
	if h.expired {
		leases = append(leases, sh.leaked(h)...)
	}
	return leases
}

// mostLeaks is how many leases of a key are reported at once.
const mostLeaks = 255

// leak leaves it to the next start on h to tell that l was taken back.
func (sh *shard) leak(h *host, l *lease) {
	t := TakenBack{Key: l.key}
	if l.started {
		t.Seq = l.seq
	}
	if sh.leaks == nil {
		sh.leaks = map[string][]TakenBack{}
	}
	if of := sh.leaks[l.key]; len(of) < mostLeaks {
		sh.leaks[l.key] = append(of, t)
	}
	h.expired = true
}

// leaked returns the leases of h that were taken back and not reported yet, once.
func (sh *shard) leaked(h *host) []TakenBack {
	key := string(sh.name(h))
	leases := sh.leaks[key]
	delete(sh.leaks, key)
	h.expired = false
	return leases
}

// handOut hands the free places to the line. Call it, with no lock held,
// whenever a place may have become free.
func (m *Memory) handOut() {
	if m.places == nil {
		return
	}
	for b := m.places.hand(); b != nil; b = m.places.hand() {
		b.sh.mu.Lock()
		if b.head != nil {
			b.head.signal()
		} else {
			m.places.leave(b) // every waiter of the key has left meanwhile
		}
		b.sh.mu.Unlock()
	}
}

// sweep takes back expired leases of all keys. A leaked lease holds a place even where
// no request waits for its key, and so nothing else looks at it.
func (m *Memory) sweep() {
	now := m.now()
	for l := m.places.expired(now); l != nil; l = m.places.expired(now) {
		l.sh.mu.Lock()
		if b := l.b; b != nil {
			h := l.sh.host(b.host)
			b.refresh(h, m.now())
			if h.expired {
				m.places.tell(l.sh.leaked(h))
			}
			l.sh.settle(b)
		}
		l.sh.mu.Unlock()
	}
}
