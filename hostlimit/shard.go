package hostlimit

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"
)

const (
	slabSize = 64               // number of hosts that are allocated at once: 4 KB
	unused   = ^uint32(0)       // host.busy of an entry that holds no host
	sample   = 16               // number of hosts that forget compares
	reach    = 16               // number of entries that it looks through for each: after a peak many are unused
	leases   = 4096 / leaseSize // number of leases that are allocated at once
)

// A shard holds the hosts of a part of the keys under one mutex, which is never held across a wait.
// It is built for millions of idle hosts: the hosts lie in slabs, their names one after the other
// in an arena, and an open-addressed index of hash tags leads to them, so the garbage collector has
// next to nothing to follow.
type shard struct {
	mu sync.Mutex
	m  *Memory

	// index is a hash table with linear probing. An entry is the upper half of the key's
	// hash, then 1 + the number of the host; 0 is an empty entry.
	index []uint64
	hosts int // entries in use

	slabs []*[slabSize]host
	made  uint32 // hosts ever taken from the slabs
	free  uint32 // 1 + number of the first free host
	names []byte
	waste int    // bytes in names of hosts that are gone
	hand  uint32 // entry that the last search for a host to forget came to

	busy     []*busy
	freeBusy []uint32 // places in busy that are free

	troubles     []trouble // the first one is zero, for all hosts that have none
	freeTroubles []uint32  // places in troubles that are free

	// What persons have done, by host.trouble: what they said of the blocks that they have set,
	// and what no Grant or Error has told of yet.
	whys map[uint32]string
	acts map[uint32]*ByHand

	kept map[string]*kept // what the Store knows, by key; nil without one

	leaks map[string][]TakenBack // leases that were taken back and not reported yet, by key

	chunk  []lease // leases to hand out
	starts uint64  // bookings and starts ever made: gives starts an order

	_ [64]byte // keeps the mutexes of neighbours on different cache lines
}

func (sh *shard) host(i uint32) *host { return &sh.slabs[i/slabSize][i%slabSize] }

// trouble returns that of h, to read and to change where h.trouble isn't 0.
func (sh *shard) trouble(h *host) *trouble { return &sh.troubles[h.trouble] }

// inTrouble returns the trouble of h, and makes it if there is none. Those that were
// returned before are void.
func (sh *shard) inTrouble(h *host) *trouble {
	if h.trouble == 0 {
		if n := len(sh.freeTroubles); n > 0 {
			h.trouble = sh.freeTroubles[n-1]
			sh.freeTroubles = sh.freeTroubles[:n-1]
		} else {
			h.trouble = uint32(len(sh.troubles))
			sh.troubles = append(sh.troubles, trouble{})
		}
	}
	return sh.trouble(h)
}

// first is when a request with this floor could start at the head of the queue,
// so far as it is known.
func (sh *shard) first(h *host, now, floor time.Duration) time.Duration {
	return sh.m.open(h.first(sh.trouble(h), now, floor))
}

// name of h: in the arena, behind its length.
func (sh *shard) name(h *host) []byte {
	n, size := binary.Uvarint(sh.names[h.name:])
	return sh.names[h.name:][size:][:n]
}

// find returns the number of the host whose key has this hash. Keys with the same 64 bits would
// share a host; the hash is seeded at random, so over a million keys that happens once in 37
// million runs, cannot be brought about, and only makes the two more polite.
func (sh *shard) find(hash uint64) (uint32, bool) {
	if sh.hosts == 0 {
		return 0, false
	}
	tag, mask := hash>>32, uint64(len(sh.index)-1)
	for pos := tag & mask; sh.index[pos] != 0; pos = (pos + 1) & mask {
		if e := sh.index[pos]; e>>32 == tag {
			if i := uint32(e) - 1; sh.host(i).check == uint32(hash) {
				return i, true
			}
		}
	}
	return 0, false
}

// get returns the number of key's host, and makes it if there is none.
func (sh *shard) get(hash uint64, key string, now time.Duration) uint32 {
	i, ok := sh.find(hash)
	if ok {
		return i
	}
	if sh.hosts >= sh.m.hostsPerShard {
		sh.forget(now)
	}
	if sh.free > 0 {
		i = sh.free - 1
		sh.free = sh.host(i).name
	} else {
		if sh.made%slabSize == 0 {
			sh.slabs = append(sh.slabs, new([slabSize]host))
		}
		i = sh.made
		sh.made++
	}
	*sh.host(i) = host{name: uint32(len(sh.names)), check: uint32(hash), began: void}
	sh.names = binary.AppendUvarint(sh.names, uint64(len(key)))
	sh.names = append(sh.names, key...)
	sh.hosts++
	if sh.hosts*4 > len(sh.index)*3 {
		sh.grow()
	}
	sh.put(hash>>32<<32 | uint64(i+1))
	return i
}

func (sh *shard) put(entry uint64) {
	mask := uint64(len(sh.index) - 1)
	pos := entry >> 32 & mask
	for sh.index[pos] != 0 {
		pos = (pos + 1) & mask
	}
	sh.index[pos] = entry
}

func (sh *shard) grow() {
	old := sh.index
	sh.index = make([]uint64, max(8, 2*len(old)))
	for _, e := range old {
		if e != 0 {
			sh.put(e)
		}
	}
}

// forget drops, of the next few hosts that owe nothing, the one that started its last request the
// longest ago; and all of them while the shard is above its bound, as after a time of many debts.
func (sh *shard) forget(now time.Duration) {
	var oldest *host
	var number uint32
	for range sample {
		h := sh.advance()
		switch {
		case h == nil || h.owes(sh.trouble(h), now, sh.m.rules.refusals.Forgive):
		case sh.hosts > sh.m.hostsPerShard:
			sh.remove(sh.hand, h)
		case oldest == nil || h.last < oldest.last:
			oldest, number = h, sh.hand
		}
	}
	if oldest != nil {
		sh.remove(number, oldest)
	}
}

// advance moves the hand to the next host and returns it, nil where none is within reach.
func (sh *shard) advance() *host {
	for range reach {
		sh.hand++
		if sh.hand >= sh.made {
			sh.hand = 0
		}
		if h := sh.host(sh.hand); h.busy != unused {
			return h
		}
	}
	return nil
}

func (sh *shard) remove(i uint32, h *host) {
	if h.expired {
		sh.leaked(h)
	}
	mask := uint64(len(sh.index) - 1)
	pos := maphash.Bytes(sh.m.seed, sh.name(h)) >> 32 & mask
	for uint32(sh.index[pos]) != i+1 {
		pos = (pos + 1) & mask
	}
	// Close the gap: move back every later entry of the run that may lie here.
	for next := (pos + 1) & mask; sh.index[next] != 0; next = (next + 1) & mask {
		home := sh.index[next] >> 32 & mask
		if (next-home)&mask >= (next-pos)&mask {
			sh.index[pos] = sh.index[next]
			pos = next
		}
	}
	sh.index[pos] = 0
	sh.hosts--

	if h.trouble > 0 {
		delete(sh.whys, h.trouble)
		delete(sh.acts, h.trouble)
		*sh.trouble(h) = trouble{}
		sh.freeTroubles = append(sh.freeTroubles, h.trouble)
	}
	delete(sh.kept, string(sh.name(h)))
	sh.waste += len(sh.name(h))
	*h = host{name: sh.free, busy: unused}
	sh.free = i + 1
	if sh.waste > len(sh.names)/2 {
		sh.compact()
	}
}

// compact copies the names in use to a new arena.
func (sh *shard) compact() {
	var names []byte
	for i := range sh.made {
		if h := sh.host(i); h.busy != unused {
			name := sh.name(h)
			h.name = uint32(len(names))
			names = append(binary.AppendUvarint(names, uint64(len(name))), name...)
		}
	}
	sh.names, sh.waste = names, 0
}

// busyOf returns the live state of host i, and makes it if there is none.
func (sh *shard) busyOf(i uint32, h *host) *busy {
	if h.busy > 0 {
		return sh.busy[h.busy-1]
	}
	var at uint32
	if n := len(sh.freeBusy); n > 0 {
		at = sh.freeBusy[n-1]
		sh.freeBusy = sh.freeBusy[:n-1]
	} else {
		at = uint32(len(sh.busy))
		sh.busy = append(sh.busy, &busy{sh: sh})
	}
	b := sh.busy[at]
	b.host, b.used, b.full = i, true, never
	b.past = h.stamp()
	h.busy = at + 1
	return b
}

// settle frees b when its key has neither leases nor waiters any more.
func (sh *shard) settle(b *busy) {
	if !b.used || b.inFlight > 0 || b.head != nil {
		return
	}
	if p := sh.m.places; p != nil {
		p.leave(b)
	}
	h := sh.host(b.host)
	sh.freeBusy = append(sh.freeBusy, h.busy-1)
	h.busy = 0
	b.used, b.inLine, b.probe, b.last = false, false, nil, nil
}
