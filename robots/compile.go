package robots

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// Compiled rules are a trie over the patterns' literal prefixes, that is over what comes before
// the first star. Test walks it once along the path. Every node knows the best rule among those
// that need no more than the bytes read so far; patterns that go on after a star hang off the
// node of their prefix. All of it is a handful of flat slices of small structs without
// pointers, and one string.
type compiled struct {
	text   string // the rules as written, and where normalisation changes them the patterns
	rules  []rule
	nodes  []node // nodes[0] is the root, whose label is empty
	fans   []fan
	more   []more
	wilds  []wild
	tables []table
	slots  []slot
}

// A rule is what a Verdict reports of a pattern, and what decides between patterns.
type rule struct {
	off    uint32 // its text as written: text[off:][:len]
	line   uint32
	packed uint32 // rank, then fifteen bits of len, which is at most maxLine
}

const lenBits = 15

func (r *rule) rank() rank  { return rank(r.packed >> lenBits) }
func (r *rule) len() uint32 { return r.packed & (1<<lenBits - 1) }

// A rank orders matching rules: the longer pattern wins, then Allow. (Then the earlier line.)
// It is twice the length of the escaped pattern, at most 3 x maxLine, plus 1 for Allow:
// seventeen bits.
type rank uint32

func rankOf(length int, allow bool) rank {
	r := rank(length) << 1
	if allow {
		r |= 1
	}
	return r
}

// allows reports what a rule of this rank decides: an empty pattern forbids nothing.
func (r rank) allows() bool { return r&1 != 0 || r < 2 }

// none is the index that stands for no rule, no node and no more.
const none = hasMore - 1

// better reports whether rule a decides rather than rule b, both of them matching.
func (c *compiled) better(a, b uint32) bool {
	if a == none || b == none {
		return a != none
	}
	x, y := &c.rules[a], &c.rules[b]
	return x.rank() > y.rank() || x.rank() == y.rank() && x.line < y.line
}

// A node of the trie stands for a prefix: its parent's, and its own label.
type node struct {
	label uint32 // text[label:][:len]
	next  uint32 // index of the children, or the info: see n
	len   uint16
	first byte // of the label
	n     uint8
}

// The values of node.n. What a node knows, its info, is the best rule that needs no more than the
// prefix or, with hasMore set, an index into more. A node without an info knows what its parent
// does.
const (
	leaf    = 0 // no children; next is the info
	fewKids = 3 // up to so many children are nodes[next:][:n] and searched one by one
	manyKid = 4 // there are more: fans[next]
	hasInfo = 8 // added where there are children: the info is that of the fan, or nodes[next-1].next
	hasMore = 1 << 31
)

// A more holds the patterns that go on after a node's prefix. Where the prefix by itself is a
// pattern too, that is among them.
type more struct {
	up    uint32 // index of the next more further up; `none` if this is the last
	wilds uint32 // the patterns: compiled.wilds[wilds:][:n], best first
	depth uint16 // length of the prefix
	n     uint8  // hasTable: there are many of them, found by tables[wilds]
}

// hasTable is a more.n that stands for a table.
const hasTable = 255

// A fan finds a child by the first byte of its label. All bytes of a normalised pattern are
// ASCII.
type fan struct {
	has  [2]uint64
	kids uint32
	info uint32
}

// find returns the index of the only child whose label can begin with c, and whether there is
// one. It looks at the lower seven bits of c.
func (f *fan) find(c byte) (uint32, bool) {
	bit := uint64(1) << (c & 63)
	if c&64 == 0 {
		return f.kids + uint32(bits.OnesCount64(f.has[0]&(bit-1))), f.has[0]&bit != 0
	}
	return f.kids + uint32(bits.OnesCount64(f.has[0])+bits.OnesCount64(f.has[1]&(bit-1))), f.has[1]&bit != 0
}

// A wild is what follows a pattern's first star. Its rule has the same index.
type wild struct {
	tail  uint32 // text[tail:][:len], neither with a star at an end, nor with two in a row
	key   uint32 // three bytes, first lowest, that a matching path must contain; 0 if the tail has no three in a row
	len   uint16
	flags uint8
}

const (
	endsPath   = 1 << iota // the path must end where the tail does
	afterSlash             // the tail begins behind the path's slash
	anything               // there is no tail, and nothing is asked of what follows the prefix
	atOnce                 // there is no tail, and nothing may follow the prefix
	needsQuery             // the tail has a question mark
)

// A table finds wilds by what the path contains: by the hash of their key. Those without a key
// come before the others, from and up to keyed, and are tested one by one, best first.
type table struct {
	from  uint32
	keyed uint32
	to    uint32
	top   uint32 // the best rule of all the wilds
	slots uint32 // compiled.slots[slots:], 1<<(32-shift) of them and one for the end
	shift uint8
}

// A slot is a place of a table: its wilds are wilds[start:], up to the next slot's.
type slot struct {
	start uint32
	mask  uint32 // set of the next five bits of their keys' hashes: most look-ups in vain end here
}

// hashKey spreads keys. A slot's number is a hash's upper bits.
func hashKey(key uint32) uint32 { return key * 0x9e3779b1 }

// maskBits is how many bits of a hash, next to a slot's number, choose the bit of its mask.
const maskBits = 5

// fewWilds is the largest number of a prefix's wilds that are searched without a table.
const fewWilds = 6

// A builder compiles patterns.
type builder struct {
	compiled
	arena  []byte
	hung   int // how many wilds there are so far; their rules come before all others
	ps     []pattern
	sorted []sortKey
}

// A sortKey stands for a pattern in a sort. Its head decides most often, without a look at the
// pattern.
type sortKey struct {
	head uint64 // the first bytes of its prefix
	i    uint32
}

// compile compiles patterns, in any order.
func compile(ps []pattern) compiled {
	if len(ps) == 0 {
		return compiled{}
	}
	b := builder{ps: ps, sorted: make([]sortKey, len(ps))}
	size := 0
	for i := range ps {
		b.sorted[i] = sortKey{head: head(ps[i].prefix), i: uint32(i)}
		size += len(ps[i].text)
	}
	slices.SortFunc(b.sorted, func(x, y sortKey) int {
		if x.head != y.head {
			return cmp.Compare(x.head, y.head)
		}
		return order(&ps[x.i], &ps[y.i])
	})
	// Of patterns that match the same paths the best always decides.
	b.sorted = slices.CompactFunc(b.sorted, func(x, y sortKey) bool {
		return x.head == y.head && sameMatches(&ps[x.i], &ps[y.i])
	})
	b.arena = make([]byte, 0, size)
	wilds := 0 // with each pattern that goes on, those of the same prefix count
	for lo, hi := 0, 0; lo < len(b.sorted); lo = hi {
		for hi = lo; hi < len(b.sorted) && b.at(hi).prefix == b.at(lo).prefix; {
			hi++
		}
		if b.at(hi - 1).isWild() {
			wilds += hi - lo
		}
	}
	b.rules = make([]rule, wilds, len(b.sorted))
	b.wilds = make([]wild, wilds)
	b.nodes = make([]node, 1, len(b.sorted)+len(b.sorted)/2+1)
	b.node(0, 0, len(b.sorted), 0, none, none)
	c := b.compiled
	c.text = string(b.arena)
	c.rules, c.nodes, c.fans, c.more = fit(c.rules), fit(c.nodes), fit(c.fans), fit(c.more)
	c.wilds, c.tables, c.slots = fit(c.wilds), fit(c.tables), fit(c.slots)
	return c
}

// fit returns s without spare capacity.
func fit[E any](s []E) []E {
	if cap(s) == len(s) {
		return s
	}
	return append(make([]E, 0, len(s)), s...)
}

// head returns the first eight bytes of s as a number that sorts as they do.
func head(s string) uint64 {
	var h uint64
	for i := range 8 {
		h <<= 8
		if i < len(s) {
			h |= uint64(s[i])
		}
	}
	return h
}

// node makes nodes[at] of sorted[lo:hi], the patterns whose prefixes share more than the depth
// bytes of the parent. best is the parent's best rule, up the more above that has wilds.
func (b *builder) node(at uint32, lo, hi, depth int, best, up uint32) {
	start := lo
	first, last := b.at(lo).prefix, b.at(hi-1).prefix
	var n node
	end := depth
	if at > 0 {
		end += commonPrefix(first[depth:], last[depth:])
		n.first, n.len = first[depth], uint16(end-depth)
	}
	// Patterns whose prefix ends here come first: the mere prefix, that with $, then those with
	// a star.
	kids := lo
	for kids < hi && len(b.at(kids).prefix) == end {
		kids++
	}
	info := best
	if kids > lo && !b.at(kids-1).isWild() {
		// Only the prefix itself.
		if r := b.rule(b.at(lo)); b.better(r, best) {
			best, info = r, r
		}
	} else if kids > lo {
		m := more{up: up, depth: uint16(end)}
		m.wilds, m.n, best = b.hang(lo, kids, best)
		up = uint32(len(b.more))
		info = up | hasMore
		b.more = append(b.more, m)
	}
	b.nodes[at] = n
	b.children(at, kids, hi, end, info, kids > start || at == 0, best, up)
	b.nodes[at].label = b.at(start).stored + uint32(depth) // by now every pattern is stored
}

func (b *builder) at(i int) *pattern { return &b.ps[b.sorted[i].i] }

// children makes the children of nodes[at], one for each byte that follows at depth end in
// sorted[lo:hi], and stores its info, which it can do without if it knows what its parent does.
func (b *builder) children(at uint32, lo, hi, end int, info uint32, own bool, best, up uint32) {
	if lo == hi {
		b.nodes[at].next = info
		return
	}
	var cuts [129]int // where the children begin, and hi
	n := 0
	for i := lo; i < hi; i++ {
		if i == lo || b.at(i).prefix[end] != b.at(i - 1).prefix[end] {
			cuts[n] = i
			n++
		}
	}
	cuts[n] = hi
	if n <= fewKids && own {
		b.nodes = append(b.nodes, node{next: info})
	}
	kids := uint32(len(b.nodes))
	b.nodes = append(b.nodes, make([]node, n)...)
	p := &b.nodes[at]
	p.n, p.next = uint8(n), kids
	if n > fewKids {
		p.n, p.next = manyKid, uint32(len(b.fans))
		f := fan{kids: kids, info: info}
		for _, i := range cuts[:n] {
			c := b.at(i).prefix[end]
			f.has[c>>6] |= 1 << (c & 63)
		}
		b.fans = append(b.fans, f)
	}
	if own {
		p.n |= hasInfo
	}
	for i := range n {
		b.node(kids+uint32(i), cuts[i], cuts[i+1], end, best, up)
	}
}

// commonPrefix returns how many first bytes a and b share.
func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// rule keeps what a Verdict says of p, and stores its prefix.
func (b *builder) rule(p *pattern) uint32 {
	b.rules = append(b.rules, b.makeRule(p))
	return uint32(len(b.rules) - 1)
}

func (b *builder) makeRule(p *pattern) rule {
	text := b.keep(p.text)
	p.stored = text + uint32(p.value)
	if p.value < 0 {
		p.stored = b.keep(p.prefix)
	}
	return rule{off: text, line: uint32(p.line), packed: uint32(p.rank)<<lenBits | uint32(len(p.text))}
}

// tail returns where the tail of p is stored, whose prefix is.
func (b *builder) tail(p *pattern) uint32 {
	at := int(p.stored) + len(p.prefix) + 1
	if p.slash {
		at++
	}
	if end := at + len(p.tail); p.value >= 0 && end <= len(b.arena) && string(b.arena[at:end]) == p.tail {
		return uint32(at)
	}
	return b.keep(p.tail)
}

// keep stores s and returns where.
func (b *builder) keep(s string) uint32 {
	at := uint32(len(b.arena))
	b.arena = append(b.arena, s...)
	return at
}

// hang stores the patterns sorted[lo:hi], which share a prefix and go on after a star, and
// returns what a more has of them, and the better of best and the mere prefix.
func (b *builder) hang(lo, hi int, best uint32) (at uint32, n uint8, _ uint32) {
	from := b.hung
	b.hung += hi - lo
	hung := b.sorted[lo:hi]
	b.chooseKeys(hung)
	size := min(max(1, bits.Len(uint(len(hung)))-1), 27)
	t := table{from: uint32(from), to: uint32(b.hung), slots: uint32(len(b.slots)), shift: uint8(32 - size), top: none}
	// Those without a key come first, best first; the others by slot.
	slices.SortFunc(hung, func(x, y sortKey) int {
		p, q := &b.ps[x.i], &b.ps[y.i]
		if c := compareBool(p.key != 0, q.key != 0); c != 0 {
			return c
		}
		if c := cmp.Compare(hashKey(p.key)>>t.shift, hashKey(q.key)>>t.shift); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(q.rank, p.rank), cmp.Compare(p.line, q.line))
	})
	t.keyed = t.from
	for i, s := range hung {
		p := &b.ps[s.i]
		at := from + i
		b.rules[at] = b.makeRule(p)
		w := wild{tail: b.tail(p), key: p.key, len: uint16(len(p.tail)), flags: p.flags()}
		b.wilds[at] = w
		if w.flags&anything != 0 && b.better(uint32(at), best) {
			best = uint32(at)
		}
		if w.key == 0 {
			t.keyed++
		}
		if b.better(uint32(at), t.top) {
			t.top = uint32(at)
		}
	}
	if len(hung) <= fewWilds {
		return t.from, uint8(len(hung)), best
	}
	i := t.keyed
	for n := range uint32(1 << size) {
		s := slot{start: i}
		for i < t.to && hashKey(b.wilds[i].key)>>t.shift == n {
			s.mask |= 1 << (hashKey(b.wilds[i].key) >> (t.shift - maskBits) & 31)
			i++
		}
		b.slots = append(b.slots, s)
	}
	b.slots = append(b.slots, slot{start: t.to})
	b.tables = append(b.tables, t)
	return uint32(len(b.tables) - 1), hasTable, best
}

// chooseKeys gives each pattern, if they are many, the key that of all in its tail the fewest
// others share.
func (b *builder) chooseKeys(hung []sortKey) {
	if len(hung) <= fewWilds {
		return
	}
	const size = 12
	var seen [1 << size]uint32
	for _, s := range hung {
		for key := range keysOf(b.ps[s.i].tail) {
			seen[hashKey(key)>>(32-size)]++
		}
	}
	for _, s := range hung {
		p, least := &b.ps[s.i], uint32(0)
		for key := range keysOf(p.tail) {
			if n := seen[hashKey(key)>>(32-size)]; p.key == 0 || n < least {
				p.key, least = key, n
			}
		}
	}
}

// keysOf yields every three bytes of tail that a matching path contains in a row.
func keysOf(tail string) func(func(uint32) bool) {
	return func(yield func(uint32) bool) {
		for segment := range strings.SplitSeq(tail, "*") {
			for i := range max(0, len(segment)-2) {
				if !yield(keyAt(segment, i)) {
					return
				}
			}
		}
	}
}

func keyAt(s string, i int) uint32 {
	return uint32(s[i]) | uint32(s[i+1])<<8 | uint32(s[i+2])<<16
}
