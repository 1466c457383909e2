package robots

import (
	"math/bits"
	"slices"
	"strings"
	"unsafe"
)

// A decision is the best rule that is known to match.
type decision struct {
	rank rank
	line uint32 // 0: no rule
	off  uint32 // its text: text[off:][:len]
	len  uint16
}

// A question is for the best rule for one path.
type question struct {
	path  string
	start uint64 // its first eight bytes, the first one lowest
	query bool   // whether it has a question mark
	tries int    // number of records that were tried of those that can be many
	many  bool   // whether they are known to be many
	best  decision
}

// A record is a rule as it is packed.
type record struct {
	flags uint8
	value uint16 // where in its text the pattern begins
	size  uint16 // of the pattern, which ends with the text
	off   uint32 // where its text begins; the line number is before it
}

// unpack reads the record at at, no table's, into r and returns where it ends.
func (c *compiled) unpack(at uint32, r *record) uint32 {
	h := c.text[at]
	if h < headLong {
		s := &c.shapes[h>>6]
		r.flags, r.value, r.size = s.flags, s.value, uint16(h&shortMax)
		r.off = at + 1 + uint32(c.wide)
	} else {
		r.flags, r.value, r.size = h&^headLong, c.short(at+1), c.short(at+3)
		r.off = at + longHead + uint32(c.wide)
	}
	return r.off + uint32(r.value) + uint32(r.size)
}

// skip returns where the record at at, no table's, ends.
func (c *compiled) skip(at uint32) uint32 {
	if h := c.text[at]; h < headLong {
		return at + 1 + uint32(c.wide) + uint32(c.shapes[h>>6].value) + uint32(h&shortMax)
	}
	return at + longHead + uint32(c.wide) + uint32(c.short(at+1)) + uint32(c.short(at+3))
}

// short reads two bytes of the text as a number.
func (c *compiled) short(at uint32) uint16 {
	return uint16(c.text[at]) | uint16(c.text[at+1])<<8
}

// long reads four bytes of the text as a number.
func (c *compiled) long(at uint32) uint32 {
	return uint32(c.short(at)) | uint32(c.short(at+2))<<16
}

// lineOf returns a record's line number.
func (c *compiled) lineOf(r *record) uint32 {
	line := uint32(0)
	for i := uint32(1); i <= uint32(c.wide); i++ {
		line = line<<8 | uint32(c.text[r.off-i])
	}
	return line
}

// match returns the rule that decides for a normalised path.
func (c *compiled) match(path string) decision {
	s := question{path: path, start: first8(path), query: strings.Contains(path, "?")}
	if c.matchBy(nil, &s) {
		s.many = true
		if len(path) > maxFinder {
			c.matchBy(nil, &s)
		} else {
			c.matchByFinder(&s)
		}
	}
	return s.best
}

// matchByFinder is matchBy with a finder.
//
//go:noinline
func (c *compiled) matchByFinder(s *question) {
	var f finder
	f.make(s.path)
	c.matchBy(&f, s)
}

// matchBy tries the records that can match, by what f finds, nil for without. It gives up, and says
// so, where they turn out to be many.
func (c *compiled) matchBy(f *finder, s *question) (over bool) {
	x := c.index
	switch {
	case c.form == runs:
		return c.matchRuns(f, s)
	case x == nil:
		return c.scan(0, uint32(len(c.text)), f, s)
	}
	n := x.find(c, s.path)
	at, end := &x.chunks[n], c.end
	if n+1 < len(x.chunks) {
		end = x.chunks[n+1].at
	}
	over = c.scan(at.at, end, f, s)
	for i := at.own; i != none && !over; i = x.owns[i].up {
		over = c.try(x.owns[i].at, f, s)
	}
	return over
}

// find returns the number of the last chunk whose first prefix isn't beyond path.
func (x *index) find(c *compiled, path string) int {
	if !strings.HasPrefix(path, x.common) {
		if path < x.common {
			return 0
		}
		return len(x.heads)
	}
	h := head(path[len(x.common):])
	lo, heads := 0, x.heads // lo is how many heads aren't beyond h
	for n := len(heads); n > 0; {
		half := (n + 1) / 2
		// Arithmetic instead of a branch, which would be mispredicted half of the time.
		_, beyond := bits.Sub64(h, heads[lo+half-1], 0)
		lo += half & int(beyond-1)
		n -= half
	}
	if lo == 0 || x.heads[lo-1] != h {
		return lo
	}
	// Where more than a head is to be compared, it is the prefixes of those that share it.
	low, _ := slices.BinarySearch(heads[:lo], h)
	for low < lo {
		if mid := int(uint(low+lo) >> 1); c.isBeyond(x.chunks[mid+1].at, path) {
			lo = mid
		} else {
			low = mid + 1
		}
	}
	return lo
}

// isBeyond reports whether the prefix of the record at at sorts after path.
func (c *compiled) isBeyond(at uint32, path string) bool {
	if c.text[at] == headTable {
		return c.tablePrefix(at) > path
	}
	var r record
	c.unpack(at, &r)
	pattern, _, _ := c.pattern(&r, r.flags&directoryToo != 0)
	if r.flags&escaped != 0 {
		return c.isBeyondEscaped(pattern, path)
	}
	return prefixOf(pattern) > path
}

// isBeyondEscaped is isBeyond for a pattern that is to be normalised.
//
//go:noinline
func (c *compiled) isBeyondEscaped(pattern, path string) bool {
	var buf [3 * maxLine]byte
	norm, _ := appendPattern(buf[:0], pattern, c.exact)
	return prefixOf(unsafe.String(unsafe.SliceData(norm), len(norm))) > path
}

// prefixOf returns what comes before a normalised pattern's first star. (The "/" of a "/*a", which
// is sorted as if it weren't there, is beyond no path either.)
func prefixOf(pattern string) string {
	prefix, _, _ := strings.Cut(pattern, "*")
	return prefix
}

// tablePrefix returns the prefix of the table whose record is at at.
func (c *compiled) tablePrefix(at uint32) string {
	return c.text[at+tableHead:][:c.short(at+5)]
}

// pattern returns a record's pattern, as written, without a $ at its end; whether it has one;
// and the rank that it has where nothing of it is escaped. directory asks for the directory
// alone.
func (c *compiled) pattern(r *record, directory bool) (pattern string, end bool, _ rank) {
	pattern = c.text[r.off+uint32(r.value):][:r.size]
	length := len(pattern)
	if directory {
		pattern = pattern[:strings.LastIndexByte(pattern, '/')+1]
		end, length = true, len(pattern)+1
	} else if length > 0 && pattern[length-1] == '$' {
		pattern, end = pattern[:length-1], true
	}
	return pattern, end, rankOf(length, r.flags&allows != 0)
}

// scan tries the records from at up to end.
func (c *compiled) scan(at, end uint32, f *finder, s *question) (over bool) {
	var r record
	for at < end {
		next, beyond, differs := c.differs(at, s)
		switch {
		case beyond:
			return false
		case differs:
			at = next
		case c.text[at] == headTable:
			prefix := c.tablePrefix(at)
			if strings.HasPrefix(s.path, prefix) && c.lookUp(&c.index.tables[c.long(at+1)], f, s) {
				return true
			}
			at += uint32(tableHead + len(prefix))
		default:
			at = c.unpack(at, &r)
			if c.tryRecord(&r, f, s) {
				return false
			}
		}
	}
	return false
}

// first8 returns the first eight bytes of s as a number, the first one lowest.
func first8(s string) uint64 {
	if len(s) >= 8 {
		return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	}
	var x uint64
	for i := range len(s) {
		x |= uint64(s[i]) << (8 * i)
	}
	return x
}

// differs reports whether the record at at, which ends at next, can't match a path as its
// first eight bytes tell of most; and if so whether its prefix is beyond the path.
func (c *compiled) differs(at uint32, s *question) (next uint32, beyond, differs bool) {
	h := c.text[at]
	if h >= headLong || c.exact {
		return 0, false, false
	}
	shape := &c.shapes[h>>6]
	if shape.flags&(escaped|directoryToo) != 0 {
		return 0, false, false
	}
	n := uint32(h & shortMax)
	value := at + 1 + uint32(c.wide) + uint32(shape.value)
	if shape.flags&needsQuery != 0 && !s.query {
		return value + n, false, true
	}
	text := c.text[value:]
	i := uint32(bits.TrailingZeros64(first8(text)^s.start) / 8)
	if i >= min(n, 8) {
		return 0, false, false
	}
	// The path has no star, so that the pattern has none before i.
	if b := text[i]; b != '*' && b != '$' {
		return value + n, b > byte(s.start>>(8*i)), true
	}
	return 0, false, false
}

// try tries the one record at at.
func (c *compiled) try(at uint32, f *finder, s *question) (over bool) {
	if c.text[at] == headTable {
		return strings.HasPrefix(s.path, c.tablePrefix(at)) && c.lookUp(&c.index.tables[c.long(at+1)], f, s)
	}
	var r record
	if c.unpack(at, &r); r.isWorth(s) {
		c.tryRecord(&r, f, s)
	}
	return false
}

// manyTries is how many records are tried before it is worth while to make a finder of the path,
// and to leave out what was tried.
const manyTries = 64

// tryOne is tryRecord for one of records that can be many. It gives up, and says so, where they
// turn out to be.
func (c *compiled) tryOne(r *record, f *finder, s *question) (over bool) {
	if s.tries++; s.tries > manyTries && !s.many {
		return true
	}
	c.tryRecord(r, f, s)
	return false
}

// tryRecord makes r the best rule if it matches and is better. It reports whether its prefix,
// and so that of all records after it, is beyond the path. f finds in s.path, nil for without.
func (c *compiled) tryRecord(r *record, f *finder, s *question) (beyond bool) {
	pattern, end, rank := c.pattern(r, r.flags&directoryToo != 0)
	if r.flags&escaped != 0 {
		c.tryEscaped(r, pattern, end, f, s)
		return false
	}
	matched, beyond := matches(pattern, end, c.exact, f, s.path)
	if matched {
		c.propose(r, rank, s)
	}
	return beyond
}

// tryEscaped is tryRecord for a pattern that is to be normalised.
func (c *compiled) tryEscaped(r *record, pattern string, end bool, f *finder, s *question) {
	switch {
	case !mayMatch(pattern, s.path):
	case len(pattern) <= 256:
		c.tryEscapedShort(r, pattern, end, f, s)
	default:
		c.tryEscapedLong(r, pattern, end, f, s)
	}
}

// mayMatch reports whether the beginning of a pattern that is to be normalised, as far as it is
// told without, is that of a path.
func mayMatch(pattern, path string) bool {
	for i := range len(pattern) {
		switch c := pattern[i]; {
		case c == '*' || c == '%':
			return true
		case i == len(path):
			return false
		case c >= 0x80:
			return path[i] == '%'
		case c != path[i]:
			return false
		}
	}
	return true
}

// tryEscapedShort is tryEscaped with little room, on the stack.
//
//go:noinline
func (c *compiled) tryEscapedShort(r *record, pattern string, end bool, f *finder, s *question) {
	var buf [3 * 256]byte
	c.tryNormal(r, buf[:0], pattern, end, f, s)
}

// tryEscapedLong is tryEscaped with room for any pattern, on the stack.
//
//go:noinline
func (c *compiled) tryEscapedLong(r *record, pattern string, end bool, f *finder, s *question) {
	var buf [3 * maxLine]byte
	c.tryNormal(r, buf[:0], pattern, end, f, s)
}

func (c *compiled) tryNormal(r *record, buf []byte, pattern string, end bool, f *finder, s *question) {
	bytes, length := appendPattern(buf, pattern, c.exact)
	norm := unsafe.String(unsafe.SliceData(bytes), len(bytes))
	if end {
		length++
	}
	if matched, _ := matches(norm, end, c.exact, f, s.path); matched {
		c.propose(r, rankOf(length, r.flags&allows != 0), s)
	}
}

// propose makes r, which matches, the best rule if it is better.
func (c *compiled) propose(r *record, rank rank, s *question) {
	if rank < s.best.rank {
		return
	}
	if line := c.lineOf(r); s.best.line == 0 || rank > s.best.rank || line < s.best.line {
		s.best = decision{rank: rank, line: line, off: r.off, len: r.value + r.size}
	}
}

// matchRuns tries all runs.
func (c *compiled) matchRuns(f *finder, s *question) (over bool) {
	end := uint32(len(c.text))
	for at := uint32(0); at < end; {
		r := record{flags: c.text[at] &^ directoryToo, value: c.short(at + 1), size: c.short(at + 3)}
		alone := c.text[at] & directoryToo
		n := c.long(at + 5)
		at += runHead
		step := uint32(c.wide) + uint32(r.value) + uint32(r.size)
		next := at + n*step
		// The runs are in the order of their ranks, unless something is escaped.
		if !r.isBetter(s) {
			at = next
			continue
		}
		for ; at < next; at += step {
			r.off = at + uint32(c.wide)
			r.flags &^= directoryToo
			if c.tryOne(&r, f, s) {
				return true
			}
			if alone != 0 {
				r.flags |= directoryToo
				c.tryRecord(&r, f, s)
			}
		}
	}
	return false
}

// lookUp tries what a table has for s.path, which begins with its prefix.
func (c *compiled) lookUp(t *table, f *finder, s *question) (over bool) {
	if t.top < s.best.rank {
		return false
	}
	if c.tryTagged(t.from, t.keyed, tagOf(hashKey(0)), f, s) {
		return true
	}
	rest := s.path[t.depth:]
	if len(rest) < 3 {
		return false
	}
	slots := c.index.slots[t.slots:][:1<<(32-t.shift)+1]
	shift, bit := t.shift&31, (t.shift-maskBits)&31
	key := uint32(rest[0])<<8 | uint32(rest[1])<<16
	for i := 2; i < len(rest); i++ {
		key = key>>8 | uint32(rest[i])<<16
		hash := hashKey(key)
		n := hash >> shift
		if slots[n].mask>>(hash>>bit&31)&1 == 0 {
			continue
		}
		// The same three bytes further on bring nothing new.
		if s.many && strings.Index(rest, rest[i-2:i+1]) < i-2 {
			continue
		}
		if c.tryTagged(slots[n].start, slots[n+1].start, tagOf(hash), f, s) {
			return true
		}
	}
	return false
}

// tryTagged tries those records of a table from at up to end that have the tag.
func (c *compiled) tryTagged(at, end uint32, tag byte, f *finder, s *question) (over bool) {
	var r record
	for at < end {
		if c.text[at] != tag {
			at = c.skip(at + 1)
			continue
		}
		if at = c.unpack(at+1, &r); r.isWorth(s) && c.tryOne(&r, f, s) {
			return true
		}
	}
	return false
}

// isWorth reports whether r could match and be better than s.best.
func (r *record) isWorth(s *question) bool {
	return (s.query || r.flags&needsQuery == 0) && r.isBetter(s)
}

// isBetter reports whether r could be better than s.best.
func (r *record) isBetter(s *question) bool {
	return r.flags&escaped != 0 || rankOf(int(r.size), true) >= s.best.rank
}

// matches reports whether a pattern, without the $ that end stands for, matches a path, both of
// them normalised; exact, as under Options.GoogleExact. If it doesn't, beyond says whether the
// pattern's prefix sorts after the path.
func matches(pattern string, end, exact bool, f *finder, path string) (matched, beyond bool) {
	i := commonPrefix(pattern, path)
	if exact {
		i = len(prefixOf(pattern[:i])) // what the path has there is a star too
	}
	switch {
	case i == len(pattern):
		return !end || i == len(path), false
	case pattern[i] != '*':
		return false, i == len(path) || pattern[i] > path[i]
	}
	tail, end := tailOf(pattern, i, end)
	return tail == "" || matchTail(f, tail, end, path, i), false
}

// tailOf returns what comes after the star at i, without stars around it, and whether the path has
// to end with it. An empty tail matches everything, whether or not there is a $.
func tailOf(pattern string, i int, end bool) (string, bool) {
	tail := skipStars(pattern[i+1:])
	if tail != "" && tail[len(tail)-1] == '*' {
		return strings.TrimRight(tail, "*"), false
	}
	return tail, end
}

// matchTail reports whether tail, what a pattern has after its first star, neither with a star at
// an end, matches path from pos on: its stretches between stars are found one after the other,
// each as early as can be, which leaves the most to the others.
func matchTail(f *finder, tail string, atEnd bool, path string, pos int) bool {
	tail, end, ok := matchEnd(tail, atEnd, path, pos)
	for ok && tail != "" {
		var stretch string
		if stretch, tail = cutStretch(tail); f != nil && len(stretch) > 1 {
			pos = f.index(path, pos, stretch)
		} else {
			pos = indexFrom(path, pos, stretch)
		}
		pos += len(stretch)
		ok = pos <= end
	}
	return ok
}

// indexFrom returns the first position of s in path at or after from, len(path) for none.
func indexFrom(path string, from int, s string) int {
	if i := strings.Index(path[from:], s); i >= 0 {
		return from + i
	}
	return len(path)
}

// matchEnd matches what a tail has after its last star if the path must end with that. It returns
// the rest of the tail, and where in the path that must end.
func matchEnd(tail string, atEnd bool, path string, pos int) (rest string, end int, ok bool) {
	end = len(path)
	if !atEnd {
		return tail, end, true
	}
	star := strings.LastIndexByte(tail, '*')
	last := tail[star+1:]
	if end -= len(last); end < pos || path[end:] != last {
		return "", 0, false
	}
	return strings.TrimRight(tail[:max(star, 0)], "*"), end, true
}

// cutStretch cuts a tail at its first stars.
func cutStretch(tail string) (stretch, rest string) {
	stretch, rest, _ = strings.Cut(tail, "*")
	return stretch, skipStars(rest)
}

// skipStars returns what follows the stars that s begins with.
func skipStars(s string) string {
	for s != "" && s[0] == '*' {
		s = s[1:]
	}
	return s
}

// matches reports whether p matches a normalised path. Test doesn't use it: it is for the few
// patterns that aren't worth compiling.
func (p *pattern) matches(path string) bool {
	if !strings.HasPrefix(path, p.prefix) {
		return false
	}
	pos := len(p.prefix)
	if p.slash {
		pos = 1
	}
	if p.tail == "" {
		return !p.end || pos == len(path)
	}
	return matchTail(nil, p.tail, p.end, path, pos)
}
