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
	mu sync.RWMutex
	// lru is keyed by a hash of the origin, which is all that a lookup has to
	// compute. In the odd case that two origins have the same one, they displace
	// each other.
	lru     *simplelru.LRU[uint64, *known]
	exact   bool
	moves   uint64 // times that an origin was moved to the front
	flights map[origin]*flight

	_ [64]byte // the next shard's lock is in another cache line
}

const (
	maxShards = 64
	// minShard is the fewest origins worth a shard of their own. Fewer than twice
	// as many are in one shard, which keeps the exact order of use.
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
		s.all[i].lru, _ = simplelru.NewLRU[uint64, *known](math.MaxInt, nil)
		s.all[i].exact = n == 1
		s.all[i].flights = make(map[origin]*flight)
	}
	return s
}

// of returns the shard of o, and o's key there.
func (c *shards) of(o origin) (s *shard, key uint64) {
	key = maphash.String(c.seed, o.host)
	if o.https {
		key = ^key
	}
	return &c.all[key&uint64(len(c.all)-1)], key
}

// peek returns what is known of o, or nil, and doesn't count as a use.
func (c *shards) peek(o origin) *known {
	s, key := c.of(o)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.find(o, key)
}

// find is peek for who holds s.mu.
func (s *shard) find(o origin, key uint64) *known {
	if k, ok := s.lru.Peek(key); ok && k.origin == o {
		return k
	}
	return nil
}

// use is peek that counts. Most hits change nothing and share the lock: an
// origin in the newer half of its shard stays where it is, since its distance from
// the front is at most the number of moves since its own. So what was used is not
// evicted before half a shard of others was.
func (c *shards) use(o origin) *known {
	s, key := c.of(o)
	s.mu.RLock()
	k := s.find(o, key)
	move := k != nil && s.moves != k.moved && (s.exact || s.moves-k.moved > uint64(s.lru.Len())/2)
	s.mu.RUnlock()
	if move {
		s.mu.Lock()
		if now, ok := s.lru.Get(key); ok {
			s.moves++
			now.moved = s.moves
		}
		s.mu.Unlock()
	}
	return k
}

// add keeps k, and reports whether there is one more now. The caller holds s.mu,
// and calls evict afterwards if there is.
func (s *shard) add(key uint64, k *known) (added bool) {
	added = !s.lru.Contains(key)
	s.lru.Add(key, k)
	s.moves++
	k.moved = s.moves
	return added
}

// evict forgets the origin longest unused in s, if there are too many now: the
// newest aside, or else one in the shards after it. The caller holds no lock.
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
