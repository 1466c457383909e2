package robotscache

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
)

// shards keep what is known of origins, within a number of bytes that is one for all of them. Each
// has its own lock, so that hits on different origins rarely meet.
type shards struct {
	seed    maphash.Seed
	all     []shard // a power of two
	max     int64
	bytes   atomic.Int64
	origins atomic.Int64
	evicted atomic.Int64
	texts   texts
}

// A shard keeps what is known of its share of the origins, and the flights that are under way for
// them.
type shard struct {
	mu sync.RWMutex
	// known is keyed by a hash of the origin, which is all that a lookup has to compute. In the
	// odd case that two origins have the same one, they displace each other.
	known   map[uint64]*known
	sizes   [sizes]list // by what evicting them gives back, each in the order of use
	exact   bool
	moves   uint64 // times that an origin was moved to the front of its list
	flights map[origin]*flight

	_ [64]byte // the next shard's lock is in another cache line
}

const (
	maxShards = 64
	// minShard is the fewest bytes worth a shard of their own. Fewer than twice as many are in one
	// shard, which keeps the exact order of use.
	minShard = 4 << 20
)

func newShards(maxBytes int64) *shards {
	n := 1
	for n < maxShards && maxBytes/int64(2*n) >= minShard {
		n *= 2
	}
	s := &shards{seed: maphash.MakeSeed(), all: make([]shard, n), max: maxBytes}
	s.texts.known = make(map[[32]byte]*text)
	for i := range s.all {
		s.all[i].known = make(map[uint64]*known)
		s.all[i].exact = n == 1
		s.all[i].flights = make(map[origin]*flight)
	}
	return s
}

// of returns the shard of o, and o's key there.
func (c *shards) of(o origin) (s *shard, key uint64) {
	key = c.keyOf(o)
	return &c.all[key&uint64(len(c.all)-1)], key
}

func (c *shards) keyOf(o origin) uint64 {
	key := maphash.String(c.seed, o.host)
	if o.https {
		key = ^key
	}
	return key
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
	if k := s.known[key]; k != nil && k.origin == o {
		return k
	}
	return nil
}

// use is peek that counts. Most hits change nothing and share the lock: an origin stays where it is
// until half a shard of others has moved since, or a smaller part if it is large. So what was used
// isn't evicted before as many others were.
func (c *shards) use(o origin) *known {
	s, key := c.of(o)
	s.mu.RLock()
	k := s.find(o, key)
	move := k != nil && s.moves != k.moved && (s.exact || s.moves-k.moved >= uint64(len(s.known))/2>>(3*k.size))
	s.mu.RUnlock()
	if move {
		s.mu.Lock()
		if now := s.known[key]; now != nil {
			s.toFront(now)
		}
		s.mu.Unlock()
	}
	return k
}

// toFront makes k the last to go.
func (s *shard) toFront(k *known) {
	s.sizes[k.size].remove(k)
	s.toNew(k)
	k.uses = min(k.uses+1, maxUses)
}

// maxUses bounds what a known's past use counts for.
const maxUses = 15

// toNew is toFront for what isn't in a list.
func (s *shard) toNew(k *known) {
	s.sizes[k.size].push(k)
	s.moves++
	k.moved = s.moves
}

// add keeps k. The caller holds s.mu, and calls evict afterwards.
func (c *shards) add(s *shard, key uint64, k *known) {
	old := s.known[key]
	if old == k {
		return
	}
	c.bytes.Add(c.texts.keep(k))
	k.size = sizeOf(c.texts.worth(k))
	s.known[key] = k
	s.toNew(k)
	if old != nil {
		s.sizes[old.size].remove(old)
		c.bytes.Add(-c.texts.release(old))
	} else {
		c.origins.Add(1)
	}
}

// someShards is how many shards are looked at for what is best forgotten.
const someShards = 4

// evict forgets origins until what is known takes no more bytes than it may, but never the newest
// of s. The caller holds no lock.
func (c *shards) evict(s *shard) {
	for c.bytes.Load() > c.max {
		var from *shard
		var most float64
		next := int(c.evicted.Load())
		for i := range c.all {
			if i >= someShards && from != nil {
				break
			}
			other := &c.all[(next+i)%len(c.all)]
			other.mu.Lock()
			if _, loss := c.victim(other, other == s); loss > most {
				from, most = other, loss
			}
			other.mu.Unlock()
		}
		if from == nil {
			return // the newest alone is too large
		}
		c.forget(from, from == s)
	}
}

// victim returns the origin of s that is best forgotten, and how well: by the bytes that come free
// times the moves since its use, over the square of how often it was moved. So a large one goes
// long before small ones that are as old, but not while it is in use. It returns nil for none, the
// newest left aside where it is spared. The caller holds s.mu.
func (c *shards) victim(s *shard, spareNewest bool) (victim *known, most float64) {
	for i := range s.sizes {
		k := s.sizes[i].oldest
		if k == nil || spareNewest && k.moved == s.moves {
			continue
		}
		age, uses := float64(s.moves-k.moved+1), float64(k.uses)+1
		if loss := age * float64(c.texts.worth(k)) / (uses * uses); loss > most {
			victim, most = k, loss
		}
	}
	return victim, most
}

// forget forgets the victim of s, if there still is one.
func (c *shards) forget(s *shard, spareNewest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, _ := c.victim(s, spareNewest)
	if k == nil {
		return
	}
	key := c.keyOf(k.origin)
	delete(s.known, key)
	s.sizes[k.size].remove(k)
	c.bytes.Add(-c.texts.release(k))
	c.origins.Add(-1)
	c.evicted.Add(1)
}

// sizes is how many classes of size there are.
const sizes = 4

// sizeOf returns the class of what takes so many bytes: the first is below 2 KB, and each further one
// begins at 8 times as many bytes as the one before.
func sizeOf(bytes int64) uint8 {
	return uint8(min((bits.Len64(uint64(bytes)>>11)+2)/3, sizes-1))
}

// A list has origins in the order of their use.
type list struct{ newest, oldest *known }

func (l *list) push(k *known) {
	k.older, k.newer = l.newest, nil
	if l.newest != nil {
		l.newest.newer = k
	} else {
		l.oldest = k
	}
	l.newest = k
}

func (l *list) remove(k *known) {
	if k.newer != nil {
		k.newer.older = k.older
	} else {
		l.newest = k.older
	}
	if k.older != nil {
		k.older.newer = k.newer
	} else {
		l.oldest = k.newer
	}
	k.older, k.newer = nil, nil
}
