package memory

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/internal/list"
)

// places are a number of places for requests in flight: those of MaxInFlight, over all keys, or
// those of PerSite, over the keys of a site. A key whose head lacks only a place joins a line. It
// gets one place and joins at the end again, so no key starves another. The first of the line gets
// a free place immediately, before any key that comes later.
type places struct {
	mu    *sync.Mutex // locked after a shard's, never before one
	max   int
	ttl   time.Duration
	taken int // held by requests in flight, or handed to a key
	line  list.List[spot, *spot]
	due   time.Duration // no lease expires before
}

// A spot is where a key stands with some places. It is guarded by their mutex.
type spot struct {
	list.Linked[spot]
	wake   chan struct{} // of the head of the key's queue when it asked last; nil: it wasn't queued yet
	queued bool          // in places.line
	handed bool          // the head has a place that no request holds yet
}

// take gets a place for s, and reports whether there was one. Otherwise s joins the line, and a
// lease may expire at until. That lease is in flight, or is being granted for a place that its key
// has got. wake wakes the head of the key's queue. It is nil if the head isn't queued yet, and
// looks later anyway. The caller holds mu.
func (p *places) take(s *spot, wake chan struct{}, now time.Duration) (ok bool, until time.Duration) {
	s.wake = wake
	isNext := p.line.First == nil || p.line.First == s
	switch {
	case s.handed:
	case p.taken < p.max && isNext:
		p.leaveLine(s)
		p.taken++
		s.handed = true
	default:
		p.joinLine(s)
		return false, min(p.due, rules.Add(now, p.ttl))
	}
	p.due = min(p.due, rules.Add(now, p.ttl)) // the lease for this place may expire then
	return true, 0
}

// joinLine adds s to the line, unless it is in there or has a place.
func (p *places) joinLine(s *spot) {
	if !s.queued && !s.handed {
		s.queued = true
		p.line.Insert(s, p.line.Last)
	}
}

func (p *places) leaveLine(s *spot) {
	if s.queued {
		s.queued = false
		p.line.Remove(s)
	}
}

// leave removes s from the line, and gives back a place that was handed to it.
func (p *places) leave(s *spot) {
	p.leaveLine(s)
	if s.handed {
		s.handed = false
		p.taken--
		p.hand()
	}
}

// ended frees the place of a lease of s's key. The key joins the line first if it could start
// again: otherwise a key that gets this place, and then wants a further one, may be ahead of it in
// the line.
func (p *places) ended(s *spot, again bool, wake chan struct{}) {
	p.taken--
	if again {
		s.wake = wake
		p.joinLine(s)
	}
	p.hand()
}

// hand gives the free places to the line. The waiter that it wakes may have left its queue. Then it
// has woken the next one, or the key has left the line.
func (p *places) hand() {
	for p.taken < p.max && p.line.First != nil {
		s := p.line.First
		p.leaveLine(s)
		p.taken++
		s.handed = true
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// sites are the places of all sites that have requests in flight, or in a line.
type sites struct {
	seed   maphash.Seed
	max    int
	ttl    time.Duration
	shards [siteShards]siteShard
}

const siteShards = 64 // a power of two

// A siteShard holds a part of the sites. Its mutex is that of their places.
type siteShard struct {
	mu    sync.Mutex
	sites map[string]*site
	spare []*site

	_ [64]byte // keeps the mutexes of neighbours on different cache lines
}

// mostSpare bounds siteShard.spare.
const mostSpare = 64

// A site has the places of its keys. It is in its shard while a place is taken. If no place is
// taken, its line is empty.
type site struct {
	places
	shard *siteShard
	name  string
}

func newSites(most int, ttl time.Duration) *sites {
	s := &sites{seed: maphash.MakeSeed(), max: most, ttl: ttl}
	for i := range s.shards {
		s.shards[i].sites = make(map[string]*site)
	}
	return s
}

// lock returns the site of that name, with its mutex locked.
func (s *sites) lock(name string) *site {
	sh := &s.shards[maphash.String(s.seed, name)&(siteShards-1)]
	sh.mu.Lock()
	of := sh.sites[name]
	if of != nil {
		return of
	}
	if n := len(sh.spare); n > 0 {
		of = sh.spare[n-1]
		sh.spare = sh.spare[:n-1]
	} else {
		of = &site{shard: sh, places: places{mu: &sh.mu, max: s.max, ttl: s.ttl}}
	}
	of.name = name
	of.due = rules.Never
	sh.sites[name] = of
	return of
}

// unlock unlocks the mutex of s, which leaves its shard if it isn't used any more.
func (s *site) unlock() {
	sh := s.shard
	if s.taken == 0 && sh.sites[s.name] == s { // else it has left before
		delete(sh.sites, s.name)
		s.name = "" // a part of a host's key
		if len(sh.spare) < mostSpare {
			sh.spare = append(sh.spare, s)
		}
	}
	sh.mu.Unlock()
}

// takePlaces takes a place of the site and one of MaxInFlight for the head of a, and returns what
// is lacking: site, line, or nothing. A key in the line of MaxInFlight has its site's place
// already, and a key in its site's line has no place. So no two keys wait for each other.
func (a *active) takePlaces(now time.Duration) (lacks waitCause, until time.Duration) {
	m := a.sh.m
	var wake chan struct{}
	if head := a.queue.First; head != nil {
		wake = head.wake
	}
	a.lacks = free
	if m.sites != nil {
		s := m.sites.lock(a.h.site)
		a.site = s
		ok, until := s.take(&a.inSite, wake, now)
		s.unlock()
		if !ok {
			a.lacks = perSite
			return perSite, until
		}
	}
	if p := m.places; p != nil {
		p.mu.Lock()
		ok, until := p.take(&a.inAll, wake, now)
		p.mu.Unlock()
		if !ok {
			a.lacks = line
			return line, until
		}
	}
	// The lease that is granted now has the places. A spot that is out of the line is its key's own.
	a.inSite.handed = false
	a.inAll.handed = false
	return free, now
}

// leavePlaces gives up the places that the head of a has got or waits for.
func (a *active) leavePlaces() {
	if a.lacks == free { // there are none
		return
	}
	a.lacks = free
	if s := a.site; s != nil {
		s.mu.Lock()
		s.leave(&a.inSite)
		s.unlock()
	}
	if p := a.sh.m.places; p != nil {
		p.mu.Lock()
		p.leave(&a.inAll)
		p.mu.Unlock()
	}
}

// freePlaces gives back the places of a lease that has ended.
func (a *active) freePlaces(now time.Duration) {
	m := a.sh.m
	if m.sites == nil && m.places == nil {
		return
	}
	var wake chan struct{}
	again := a.couldStart(now)
	if again {
		wake = a.queue.First.wake
	}
	if s := a.site; s != nil {
		if again {
			a.lacks = perSite
		}
		s.mu.Lock()
		s.ended(&a.inSite, again, wake)
		again = again && a.inSite.handed
		s.unlock()
	}
	if p := m.places; p != nil {
		if again {
			a.lacks = line
		}
		p.mu.Lock()
		p.ended(&a.inAll, again, wake)
		p.mu.Unlock()
	}
}

// lackedPlaces returns the places of which the head of a waits for one.
func (a *active) lackedPlaces() *places {
	if a.lacks == perSite {
		return &a.site.places
	}
	return a.sh.m.places
}
