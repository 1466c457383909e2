package robots

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// A question asks for the best rule for one path.
type question struct {
	path     string
	best     int        // number of the best matching rule so far; -1 for none
	rank     uint32     // rank of best; unsorted once further searches need suffixes
	searches int        // number of searches in path so far
	scanned  int        // bytes of path that indexSorted has looked at so far; tests bound it
	suffixes []uint32   // offsets of the suffixes of path, sorted; nil until needed
	keys     [16]uint64 // a bit for each key that path has, by key>>6
}

const (
	few         = 256     // so many searches, or bytes of path, do without suffixes
	near        = 64      // so far ahead a search does without suffixes
	sortedBytes = 1024    // suffixes are sorted by so many first bytes
	unsorted    = 1 << 31 // a rank above all others, which ends the walk
)

// match returns the number of the rule that decides for a normalised path, -1 for none.
func (c *compiled) match(path string) int {
	q := question{path: path, best: -1}
	c.walk(&q)
	if q.rank == unsorted {
		// The walk has ended early, at a rule that may match.
		return c.matchSorted(path)
	}
	return q.best
}

// matchSorted is match with suffixes. They bound the cost of thousands of patterns whose stretches
// nearly occur in the path at many places.
//
//go:noinline
func (c *compiled) matchSorted(path string) int {
	var room [usualPath]uint32
	q := question{path: path, best: -1, suffixes: appendSuffixes(room[:0], path)}
	c.walk(&q)
	return q.best
}

// appendSuffixes appends the offsets of path's suffixes, sorted, to dst, which is empty.
func appendSuffixes(dst []uint32, path string) []uint32 {
	for i := range len(path) {
		dst = append(dst, uint32(i))
	}
	// The bound keeps a path of one letter from being compared whole at each step.
	sorted := func(at uint32) string { return path[at:min(len(path), int(at)+sortedBytes)] }
	slices.SortFunc(dst, func(a, b uint32) int { return cmp.Compare(sorted(a), sorted(b)) })
	return dst
}

// walk tries the groups whose prefixes the path may begin with, the longest prefix first.
func (c *compiled) walk(q *question) {
	for path := q.path; c.keyed && len(path) >= 4; path = path[1:] {
		// 1,024 bits are few enough to be cleared for each question. Two keys may share one: then
		// a rule is compared in vain.
		key := hash(path)
		q.keys[key>>12] |= 1 << (key >> 6 & 63)
	}
	// The links lead to shorter prefixes only, and to each of them. A try that can't find a better
	// rule ends at the first one of its group.
	for i := c.search(q.path); i < len(c.rules); i = c.rules[i].next() {
		if c.rules[i].link&indexed != 0 {
			c.lookUp(i, q)
		} else {
			c.try(i, q)
		}
	}
}

// search returns the number of the first rule whose prefix doesn't sort after the path.
func (c *compiled) search(path string) int {
	h := head(path)
	// The heads lie together in memory; a comparison with a rule goes to its text, which mostly
	// isn't in the processor's cache. Heads are in descending order, as prefixes are.
	first := sort.Search(len(c.heads), func(i int) bool { return c.heads[i] <= h })
	behind := sort.Search(len(c.heads), func(i int) bool { return c.heads[i] < h })
	lo := first * headStep
	hi := min(len(c.rules), (behind+1)*headStep)
	return lo + sort.Search(hi-lo, func(i int) bool { return !isBeyond(c.pattern(&c.rules[lo+i]), path) })
}

// lookUp tries the rules of an indexed group whose keys the path has.
func (c *compiled) lookUp(first int, q *question) {
	group := c.rules[first : c.rules[first+1].next()+1]
	// Rules without a key come first, and may match any path.
	if group[0].key == 0 {
		c.try(first, q)
	}
	for i := range max(0, len(q.path)-3) {
		four := q.path[i : i+4]
		key := hash(four)
		n := sort.Search(len(group), func(i int) bool { return group[i].key >= key })
		found := n < len(group) && group[n].key == key
		// Four bytes that the path has had before have been looked up.
		if found && strings.Index(q.path, four) == i {
			c.try(first+n, q)
		}
	}
}

// try tries the rules from number i to the last of their group or key, while they can be better
// than the best.
func (c *compiled) try(i int, q *question) {
	for ; ; i++ {
		r := &c.rules[i]
		rank := r.rank()
		// Those behind it are of no higher rank. While q.rank is unsorted, no rule is.
		if rank < q.rank {
			return
		}
		if q.mayHave(r.key) && q.matches(c.pattern(r), r.link) && c.wins(r, q) {
			q.best = i
			q.rank = rank
		}
		if r.link&last != 0 {
			return
		}
	}
}

// mayHave reports whether the path may have four bytes with this hash. 0 stands for no bytes, which
// each path has.
func (q *question) mayHave(key uint16) bool {
	return key == 0 || q.keys[key>>12]>>(key>>6&63)&1 != 0
}

// wins reports whether a matching rule, whose rank isn't below that of the best, is better.
func (c *compiled) wins(r *rule, q *question) bool {
	// Of equal rules the one that comes first in the file is reported, as Google's matcher does.
	return q.best < 0 || r.rank() > q.rank || c.line(r) < c.line(&c.rules[q.best])
}

// matches reports whether the path matches a pattern with the given flags. It finds the stretches
// between stars in turn, each as early as possible, which leaves the most to the others.
func (q *question) matches(pattern string, flags uint32) bool {
	n, pos := common(pattern, q.path)
	if n == len(pattern) {
		return flags&atEnd == 0 || pos == len(q.path)
	}
	if pattern[n] != '*' {
		return false
	}
	tail := pattern[n:]
	more := true
	for more && pos >= 0 {
		var stretch string
		// Stars in a row are one. A pattern doesn't end with a star, so no stretch is empty.
		stretch, tail, more = strings.Cut(strings.TrimLeft(tail, "*"), "*")
		// With a $ only the last stretch has its place: at the end.
		pos = q.find(stretch, pos, !more && flags&atEnd != 0, flags&high != 0)
	}
	return pos >= 0
}

// find returns where the first occurrence of a stretch at or after pos ends, -1 for none. With end
// the path has to end there, with escape bytes of stretch beyond ASCII stand for their escapes.
func (q *question) find(stretch string, pos int, end, escape bool) int {
	path := q.path[pos:]
	q.searches++
	i := -1
	switch {
	case escape:
		return q.findEscaped(stretch, pos, end)
	case end && strings.HasSuffix(path, stretch):
		return len(q.path)
	case end:
		// Not found: it isn't at the end, and nowhere else would do.
	case q.searches <= few || len(q.path) <= few:
		// Usual files need so few searches that sorting the suffixes would cost more.
		i = strings.Index(path, stretch)
	case q.suffixes == nil:
		// The rank ends the walk, whatever this search would find.
		q.rank = unsorted
	default:
		i = q.indexSorted(stretch, pos)
	}
	if i < 0 {
		return -1
	}
	return pos + i + len(stretch)
}

// findEscaped is find for the escaped stretch.
//
//go:noinline
func (q *question) findEscaped(stretch string, pos int, end bool) int {
	if len(stretch)+2*countHigh(stretch) > len(q.path)-pos {
		return -1 // it has no room there: this keeps stretches of a hostile file from being escaped
	}
	var room [usualPath]byte
	return q.find(view(appendEscaped(room[:0], stretch)), pos, end, false)
}

// indexSorted is strings.Index(q.path[pos:], stretch) by the sorted suffixes.
func (q *question) indexSorted(stretch string, pos int) int {
	path := q.path
	// Most stretches that occur at all are near, and found without a look at the suffixes.
	i := q.index(stretch, pos, min(len(path), pos+len(stretch)+near))
	if i >= 0 {
		return i
	}
	key := stretch[:min(len(stretch), sortedBytes)]
	n := sort.Search(len(q.suffixes), func(i int) bool { return path[q.suffixes[i]:] >= key })
	first := -1
	// The suffixes that begin with key stand together, but not in the order of their offsets: all
	// of them have to be looked at for the first one at or after pos.
	for _, at := range q.suffixes[n:min(len(q.suffixes), n+few)] {
		q.scanned += len(key)
		if !strings.HasPrefix(path[at:], key) {
			return first
		}
		i := int(at) - pos
		isEarlier := i >= 0 && (first < 0 || i < first)
		// Beyond sortedBytes the suffixes aren't sorted, so the rest of the stretch decides.
		if isEarlier && strings.HasPrefix(path[at:], stretch) {
			first = i
		}
	}
	// A stretch that occurs more often is so common that most places have one soon behind them.
	return q.index(stretch, pos, len(path))
}

// index is strings.Index(q.path[pos:end], stretch).
func (q *question) index(stretch string, pos, end int) int {
	i := strings.Index(q.path[pos:end], stretch)
	if i < 0 {
		q.scanned += end - pos
		return -1
	}
	q.scanned += i + len(stretch)
	return i
}
