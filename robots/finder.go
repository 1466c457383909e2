package robots

import "strings"

// A finder finds many strings in one path. It indexes the positions of every two, three and eight
// bytes of the path, so that the path isn't scanned again for each string. Making one pays only for
// hostile input: thousands of patterns whose stretches the path is full of, which would otherwise
// cost the product of their lengths.
type finder struct {
	twos   grams
	threes grams
	eights grams
	sought [64]search // the latest searches, by hash of what was sought
}

// A search is what was found in a path.
type search struct {
	s        string
	from, at int
}

// maxFinder is the length of the longest path that a finder is made for.
const maxFinder = 4096

// grams are the positions of all stretches of some length of a path, by hash.
type grams struct {
	head  [1 << gramBits]uint16 // the first position, plus one
	count [1 << gramBits]uint16
	next  [maxFinder]uint16 // the next position of the same hash, plus one
}

const gramBits = 11

// make prepares f for a path of at most maxFinder bytes. f is zero before.
func (f *finder) make(path string) {
	for i := len(path) - 2; i >= 0; i-- {
		f.twos.add(i, hash2(path, i))
		if i+3 <= len(path) {
			f.threes.add(i, hash3(path, i))
		}
		if i+8 <= len(path) {
			f.eights.add(i, hash8(path, i))
		}
	}
}

func (g *grams) add(i int, h uint32) {
	g.next[i] = g.head[h]
	g.head[h] = uint16(i + 1)
	g.count[h]++
}

func hash2(s string, i int) uint32 {
	return hashKey(uint32(s[i])|uint32(s[i+1])<<8) >> (32 - gramBits)
}

func hash3(s string, i int) uint32 { return hashKey(keyAt(s, i)) >> (32 - gramBits) }

func hash8(s string, i int) uint32 {
	s = s[i : i+8]
	x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	return uint32(x * 0x9e3779b97f4a7c15 >> (64 - gramBits))
}

// index returns the first position of s in path at or after from, -1 for none. path is what f
// was made for; f doesn't hold it, so that one on the stack stays there.
func (f *finder) index(path string, from int, s string) int {
	g, hash, size := &f.threes, hash3, 3
	switch {
	case len(s) == 2:
		g, hash, size = &f.twos, hash2, 2
	case len(s) >= 8:
		g, hash, size = &f.eights, hash8, 8
	}
	// s can only be where the rarest of its grams is. Looking there is faster than strings.Index
	// unless there are very many such places; how many depends on how strings.Index works.
	few := uint16(64)
	if len(s) > 63 {
		few = 512
	}
	least, at, start := few, -1, uint16(0)
	for i := range len(s) - size + 1 {
		h := hash(s, i)
		if g.count[h] == 0 {
			return -1
		}
		if g.count[h] < least {
			least, at, start = g.count[h], i, g.head[h]
		}
	}
	if at < 0 {
		// Thousands of patterns may have the same stretch: the path is scanned once for all of
		// them.
		last := &f.sought[(hash(s, len(s)-size)+uint32(len(s)))%64]
		if last.s != s || from < last.from || last.at >= 0 && last.at < from {
			*last = search{s, from, strings.Index(path[from:], s)}
			if last.at >= 0 {
				last.at += from
			}
		}
		return last.at
	}
	for p := start; p != 0; p = g.next[p-1] {
		if i := int(p) - 1 - at; i >= from && strings.HasPrefix(path[i:], s) {
			return i
		}
	}
	return -1
}
