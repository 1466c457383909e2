package robots

import "strings"

// A finder finds strings in a path again and again, faster than by going through it each time:
// it knows where the path has which two, three and eight bytes. It is worth its making only for
// a file and a path that are made to be costly, thousands of patterns of whose stretches the
// path is full, and keeps these from costing the product of their lengths.
type finder struct {
	twos   grams
	threes grams
	eights grams
	sought [64]search // by hash, what the path was gone through for last
}

// A search is what was found in a path: s[:len] stands first at at, of all places from from on. It
// has a copy of what was sought, as a pattern that was normalised is gone when it has been tried.
type search struct {
	s        [64]byte
	len      int
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

// A gram's hash is the upper bits of 64.
const (
	gramBits  = 11
	gramShift = 53
)

// make prepares f for a path of at most maxFinder bytes. f is zero before.
func (f *finder) make(path string) {
	for i := len(path) - 1; i >= 0; i-- {
		f.twos.add(i, hashGram(path[i:], two))
		f.threes.add(i, hashGram(path[i:], three))
		f.eights.add(i, hashGram(path[i:], eight))
	}
}

func (g *grams) add(i int, h uint32) {
	g.next[i] = g.head[h]
	g.head[h] = uint16(i + 1)
	g.count[h]++
}

// Masks of the first bytes of a string as a number.
const (
	two   = 0xffff
	three = 0xffffff
	eight = 0xffff_ffff_ffff_ffff
)

// hashGram hashes those of the first eight bytes of s that the mask tells.
func hashGram(s string, mask uint64) uint32 {
	return uint32(first8(s) & mask * 0x9e3779b97f4a7c15 >> gramShift)
}

// index returns the first position of s in path at or after from, len(path) for none. path is
// what f was made for; f doesn't hold it, so that one on the stack stays there.
func (f *finder) index(path string, from int, s string) int {
	if at, found := f.indexByGrams(path, from, s); found {
		return at
	}
	// Thousands of patterns may have the same stretch: the path isn't gone through for each.
	last := &f.sought[(hashGram(s[len(s)-2:], two)^uint32(len(s)))%64]
	if string(last.s[:last.len]) == s && last.from <= from && from <= last.at {
		return last.at
	}
	at := indexFrom(path, from, s)
	if len(s) <= len(last.s) {
		last.len, last.from, last.at = copy(last.s[:], s), from, at
	}
	return at
}

// indexByGrams is index, unless the path has all that s consists of so often that going through it
// is faster.
func (f *finder) indexByGrams(path string, from int, s string) (at int, found bool) {
	g, size, mask := &f.threes, 3, uint64(three)
	switch {
	case len(s) == 2:
		g, size, mask = &f.twos, 2, two
	case len(s) >= 8:
		g, size, mask = &f.eights, 8, eight
	}
	// Where the rarest of its grams stands in the path, and nowhere else, s can be. To look
	// there is faster than strings.Index unless there are very many such places; how many,
	// depends on how strings.Index goes about it.
	few := uint16(64)
	if len(s) > 63 {
		few = 512
	}
	least, rarest, start := few, 0, uint16(0)
	for i := range len(s) - size + 1 {
		h := hashGram(s[i:], mask)
		if g.count[h] == 0 {
			return len(path), true
		}
		if g.count[h] < least {
			least, rarest, start = g.count[h], i, g.head[h]
		}
	}
	if least == few {
		return 0, false
	}
	for p := start; p != 0; p = g.next[p-1] {
		if i := int(p) - 1 - rarest; i >= from && strings.HasPrefix(path[i:], s) {
			return i, true
		}
	}
	return len(path), true
}
