package hostlimit

import "sync"

// places are the MaxInFlight places for requests over all keys. Keys whose
// head could start but for a place stand in a line; each gets one place and
// goes to the end again, so no key starves another. The mutex is taken after a
// shard's, never before one.
type places struct {
	max int
	ttl int64

	mu             sync.Mutex
	taken          int    // held by requests in flight, or handed to a key
	first, last    *busy  // the line
	oldest, newest *lease // in flight, in the order of their starts
	swept          *swept // what the next start tells of
}

// swept is a lease that was taken back and that nobody who waits for its key can
// tell of.
type swept struct {
	key  string
	next *swept
}

// take takes a place for the head of b. Without one it stands b in the line, and
// says when the oldest lease expires.
func (p *places) take(b *busy) (ok bool, until int64) {
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
	if p.oldest == nil {
		return false, never // every place has been handed to somebody who is about to start
	}
	return false, add(p.oldest.start, p.ttl)
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

// started notes a request that took its place.
func (p *places) started(l *lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.older = p.newest
	if p.newest == nil {
		p.oldest = l
	} else {
		p.newest.newer = l
	}
	p.newest = l
	l.swept, p.swept = p.swept, nil
}

// ended frees the place of a request.
func (p *places) ended(l *lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if l.older == nil {
		p.oldest = l.newer
	} else {
		l.older.newer = l.newer
	}
	if l.newer == nil {
		p.newest = l.older
	} else {
		l.newer.older = l.older
	}
	l.older, l.newer = nil, nil
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

// expired returns the oldest lease if it has expired.
func (p *places) expired(now int64) *lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.oldest; l != nil && now >= add(l.start, p.ttl) {
		return l
	}
	return nil
}

// tell leaves it to the next start of any key to tell of n leases of this one.
func (p *places) tell(key string, n *uint8) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; *n > 0; *n-- {
		p.swept = &swept{key, p.swept}
	}
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
			m.places.leave(b) // they all left meanwhile
		}
		b.sh.mu.Unlock()
	}
}

// sweep takes back expired leases of all keys: one that is leaked on a key that
// nobody wants any more holds a place too.
func (m *Memory) sweep() {
	now := m.now()
	for l := m.places.expired(now); l != nil; l = m.places.expired(now) {
		l.sh.mu.Lock()
		if b := l.b; b != nil {
			h := l.sh.host(b.host)
			b.refresh(h, m.now())
			if b.head == nil {
				m.places.tell(l.key, &h.expired)
			}
			l.sh.settle(b)
		}
		l.sh.mu.Unlock()
	}
}
