package robotscache

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// shards of an LRU: each has its own lock, so that hits on different origins
// rarely meet. The bound on the number of origins is one for all of them.
type shards struct {
	seed    maphash.Seed
	all     []shard // a power of two
	max     int64
	origins atomic.Int64
}

// A shard keeps what is known of its share of the origins, in the order of their
// use, and the flights that are under way for them.
type shard struct {
	mu      sync.RWMutex
	lru     *simplelru.LRU[origin, *known]
	moves   uint64 // times that an origin was moved to the front
	flights map[origin]*flight

	_ [64]byte // the next shard's lock is in another cache line
}

const (
	maxShards = 64
	// minShard is the fewest origins worth a shard of their own. Below, one shard
	// keeps the exact order of use.
	minShard = 512
)

func newShards(maxOrigins int) *shards {
	n := 1
	for n < maxShards && maxOrigins/(2*n) >= minShard {
		n *= 2
	}
	s := &shards{seed: maphash.MakeSeed(), all: make([]shard, n), max: int64(maxOrigins)}
	for i := range s.all {
		// The size is never reached: evict keeps the bound, over all shards.
		s.all[i].lru, _ = simplelru.NewLRU[origin, *known](math.MaxInt, nil)
		s.all[i].flights = make(map[origin]*flight)
	}
	return s
}

// of returns the shard of o.
func (s *shards) of(o origin) *shard {
	return &s.all[maphash.String(s.seed, o.host)&uint64(len(s.all)-1)]
}

// peek returns what is known of o, or nil, and doesn't count as a use.
func (s *shard) peek(o origin) *known {
	s.mu.RLock()
	k, _ := s.lru.Peek(o)
	s.mu.RUnlock()
	return k
}

// use is peek that counts. Most hits change nothing and share the lock: an
// origin among the newest eighth of its shard stays where it is. Its distance
// from the front is at most the number of moves since its own. So the order is
// exact in a shard of fewer than eight, and elsewhere nothing is evicted that was
// used since the other seven eighths were.
func (s *shard) use(o origin) *known {
	s.mu.RLock()
	k, ok := s.lru.Peek(o)
	move := ok && s.moves-k.moved > uint64(s.lru.Len()/8)
	s.mu.RUnlock()
	if move {
		s.mu.Lock()
		if now, ok := s.lru.Get(o); ok {
			s.moves++
			now.moved = s.moves
		}
		s.mu.Unlock()
	}
	return k
}

// add keeps k, and reports whether the origin is new. The caller holds s.mu, and
// calls evict afterwards if it is.
func (s *shard) add(o origin, k *known) (added bool) {
	added = !s.lru.Contains(o)
	s.lru.Add(o, k)
	s.moves++
	k.moved = s.moves
	return added
}

// evict forgets the origin longest unused in s, if there are too many now: its
// own new one aside, or else in the shards after it. The caller holds no lock.
func (c *shards) evict(s *shard) {
	if c.origins.Add(1) <= c.max {
		return
	}
	keep, first := 1, 0
	for i := range c.all {
		if &c.all[i] == s {
			first = i
		}
	}
	for i := range c.all {
		next := &c.all[(first+i)%len(c.all)]
		next.mu.Lock()
		full := next.lru.Len() > keep
		if full {
			next.lru.RemoveOldest()
		}
		next.mu.Unlock()
		if full {
			c.origins.Add(-1)
			return
		}
		keep = 0
	}
}
