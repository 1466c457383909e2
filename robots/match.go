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
	if c.walk(&q); q.rank == unsorted {
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
	slices.SortFunc(dst, func(a, b uint32) int {
		return cmp.Compare(path[a:min(len(path), int(a)+sortedBytes)], path[b:min(len(path), int(b)+sortedBytes)])
	})
	return dst
}

// walk tries the groups whose prefixes the path may begin with, the longest prefix first.
func (c *compiled) walk(q *question) {
	for path := q.path; c.keyed && len(path) >= 4; path = path[1:] {
		key := hash(path)
		q.keys[key>>12] |= 1 << (key >> 6 & 63)
	}
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
	lo := sort.Search(len(c.heads), func(i int) bool { return c.heads[i] <= h })
	hi := sort.Search(len(c.heads), func(i int) bool { return c.heads[i] < h })
	lo, hi = lo*headStep, min(len(c.rules), (hi+1)*headStep)
	return lo + sort.Search(hi-lo, func(i int) bool { return !isBeyond(c.pattern(&c.rules[lo+i]), path) })
}

// lookUp tries the rules of an indexed group whose keys the path has.
func (c *compiled) lookUp(first int, q *question) {
	group := c.rules[first : c.rules[first+1].next()+1]
	if group[0].key == 0 {
		c.try(first, q)
	}
	for i := range max(0, len(q.path)-3) {
		four := q.path[i : i+4]
		key := hash(four)
		n := sort.Search(len(group), func(i int) bool { return group[i].key >= key })
		if n < len(group) && group[n].key == key && strings.Index(q.path, four) == i {
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
		if rank < q.rank {
			return
		}
		if (r.key == 0 || q.keys[r.key>>12]>>(r.key>>6&63)&1 != 0) && q.matches(c.pattern(r), r.link) &&
			(q.best < 0 || rank > q.rank || c.line(r) < c.line(&c.rules[q.best])) {
			q.best, q.rank = i, rank
		}
		if r.link&last != 0 {
			return
		}
	}
}

// matches reports whether the path matches a pattern with the given flags. It finds the stretches
// between stars in turn, each as early as possible, which leaves the most to the others.
func (q *question) matches(pattern string, flags uint32) bool {
	n, pos := common(pattern, q.path)
	if n == len(pattern) || pattern[n] != '*' {
		return n == len(pattern) && (flags&atEnd == 0 || pos == len(q.path))
	}
	for tail, more := pattern[n:], true; more && pos >= 0; {
		var stretch string
		stretch, tail, more = strings.Cut(strings.TrimLeft(tail, "*"), "*")
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
	case q.searches <= few || len(q.path) <= few:
		i = strings.Index(path, stretch)
	case q.suffixes == nil:
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
		return -1
	}
	var room [usualPath]byte
	return q.find(view(appendEscaped(room[:0], stretch)), pos, end, false)
}

// indexSorted is strings.Index(q.path[pos:], stretch) by the sorted suffixes.
func (q *question) indexSorted(stretch string, pos int) int {
	path := q.path
	if i := strings.Index(path[pos:min(len(path), pos+len(stretch)+near)], stretch); i >= 0 {
		return i
	}
	key := stretch[:min(len(stretch), sortedBytes)]
	n := sort.Search(len(q.suffixes), func(i int) bool { return path[q.suffixes[i]:] >= key })
	first := -1
	for _, at := range q.suffixes[n:min(len(q.suffixes), n+few)] {
		if !strings.HasPrefix(path[at:], key) {
			return first
		}
		if i := int(at) - pos; i >= 0 && (first < 0 || i < first) && strings.HasPrefix(path[at:], stretch) {
			first = i
		}
	}
	return strings.Index(path[pos:], stretch)
}
