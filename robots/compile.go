package robots

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"unsafe"
)

// Compiled rules are the rules as written, packed into one string of records and sorted by what
// comes before a pattern's first star, its prefix. A record costs its text, its line number and
// a byte; what finds it costs another byte or so. That is little more than the lines had in the
// file, however short they are.
//
// The records are cut into chunks. Of the records whose prefix begins a path, the path's chunk
// (the last one whose first prefix isn't beyond the path) has those that it has, and all others
// are prefixes of the chunk's first prefix too, so that each chunk has a list of these.
//
// Patterns with a star of which many share a prefix aren't tried one by one: a table finds them
// by three bytes that a matching path must contain.
type compiled struct {
	text   string   // the records
	shapes [3]shape // the commonest ones
	wide   uint8    // bytes of a record's line number
	form   form
	exact  bool   // see Options.GoogleExact
	end    uint32 // where the last chunk ends, and the tables' records begin
	index  *index // nil for a single chunk without tables
}

// A form tells how records are ordered.
type form uint8

const (
	sorted form = iota // by prefix, in chunks
	runs               // by shape, in runs that share a head: the least room, and each check reads all
)

// A shape is what records share that differ in value and line only.
type shape struct {
	flags uint8
	value uint16 // length of what comes before the value
}

// Flags of a record.
const (
	allows       = 1 << iota // Allow
	escaped                  // normalisation changes the value
	needsQuery               // the pattern has a question mark
	directoryToo             // the pattern is the value's directory alone: see indexAlternative. In a run: that too
)

// Heads of records. One below headLong has a shape in its upper two bits and the length of the
// value in the others.
const (
	headLong  = 0xc0 // and flags: two bytes for the length of what comes before the value, two for the value's
	headTable = 0xff // no rule but a table: its number in four bytes, the length of the prefix in two, the prefix
	longHead  = 5
	tableHead = 7
	shortMax  = 63 // the longest value of a record with a short head
	runHead   = 9  // flags, two bytes each as in headLong, how many records in four
)

// An index finds records.
type index struct {
	common string   // what the first prefixes of all chunks but the first begin with
	heads  []uint64 // of these chunks: what follows in their first prefixes
	chunks []chunk
	owns   []own
	tables []table
	slots  []slot
}

// A chunk is a stretch of records.
type chunk struct {
	at  uint32 // where it begins; it ends where the next does
	own uint32 // the longest of the earlier records that is a prefix of its first; none for none
}

// An own is a record that is a prefix of chunks after its own.
type own struct {
	at uint32
	up uint32 // the next shorter one; none for none
}

// none is the index of nothing.
const none = 1<<32 - 1

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

// A table finds records by what the path contains: by the hash of their key. Those without a
// key come before the others, from and up to keyed, and are tried one by one, best first. Each
// of a table's records has one byte more, before it: a part of the key's hash.
type table struct {
	from  uint32
	keyed uint32
	to    uint32
	top   rank   // the highest of all the records
	slots uint32 // index.slots[slots:], 1<<(32-shift) of them and one for the end
	depth uint16 // length of the prefix
	shift uint8
}

// A slot is a place of a table: its records begin at start, and end where the next slot's do.
type slot struct {
	start uint32
	mask  uint32 // what the next five bits of their keys' hashes are, bit by bit, so that few look further in vain
}

// hashKey spreads keys. A slot's number is a hash's upper bits.
func hashKey(key uint32) uint32 { return key * 0x9e3779b1 }

// maskBits is how many bits of a hash, next to a slot's number, choose the bit of its mask.
const maskBits = 5

// tagOf returns the byte of a hash that stands before a record.
func tagOf(hash uint32) byte { return byte(hash >> 8) }

// fewWilds is how many patterns with a star that share a prefix do without a table.
const fewWilds = 4

// fewRecords is how many records do without chunks.
const fewRecords = 16

// A density tells how much is spent on finding records.
type density struct {
	chunk  int // records a chunk
	sparse int // a table has so many times fewer slots than records, as a power of two
}

// densities are tried one after the other, until what is compiled is small enough.
var densities = []density{{4, 0}, {6, 0}, {8, 0}, {12, 0}, {12, 1}, {24, 3}, {96, 5}}

// slack is what small files may cost beyond the bound: they are many, and quick to search.
const slack = 2 << 10

// A builder compiles patterns.
type builder struct {
	compiled
	index  index
	arena  []byte
	ps     []pattern
	sorted []sortKey
	density
}

// A sortKey stands for a pattern and sorts, most often without a look at it.
type sortKey struct {
	head uint64 // the first bytes of its prefix
	i    uint32
}

// compile compiles patterns, in any order, to at most 1.18 times the length of the text that they
// come from, but for slack: with what the heap rounds up that is less than 1.2 times.
func compile(ps []pattern, exact bool, length int) compiled {
	if len(ps) == 0 {
		return compiled{exact: exact}
	}
	b := newBuilder(ps, exact)
	bound := length + length*18/100 + slack
	for _, d := range densities {
		if len(b.sorted) <= fewRecords {
			d.chunk = fewRecords
		}
		if b.leastSize(d) <= bound {
			if c := b.inOrder(d); c.size() <= bound {
				return c
			}
		}
	}
	return b.inRuns()
}

// newBuilder sorts patterns, in any order.
func newBuilder(ps []pattern, exact bool) *builder {
	b := &builder{compiled: compiled{exact: exact}, ps: ps, sorted: make([]sortKey, len(ps))}
	last := 0
	for i := range ps {
		b.sorted[i] = sortKey{head: head(ps[i].prefix), i: uint32(i)}
		last = max(last, ps[i].line)
	}
	b.wide = uint8(max(1, (bits.Len(uint(last))+7)/8))
	slices.SortFunc(b.sorted, func(x, y sortKey) int {
		if x.head != y.head {
			return cmp.Compare(x.head, y.head)
		}
		return order(&ps[x.i], &ps[y.i])
	})
	// Of patterns that match the same paths the best always decides.
	b.sorted = slices.CompactFunc(b.sorted, func(x, y sortKey) bool {
		return sameMatches(&ps[x.i], &ps[y.i])
	})
	b.chooseShapes()
	return b
}

func (b *builder) at(i int) *pattern { return &b.ps[b.sorted[i].i] }

// leastHead is what a record takes at least beside its text: a head and its line, of two bytes in
// all but the shortest files.
const leastHead = 3

// leastSize returns about what the patterns take in order, at least.
func (b *builder) leastSize(d density) int {
	size := 16 * len(b.sorted) / d.chunk
	for i := range b.sorted {
		size += len(b.at(i).text) + leastHead
	}
	return size
}

// chooseShapes finds the commonest shapes of the patterns.
func (b *builder) chooseShapes() {
	count := make(map[shape]int)
	for i := range b.sorted {
		count[b.at(i).shape()]++
	}
	for i := range b.shapes {
		best := 0
		for s, n := range count {
			if n > best {
				best, b.shapes[i] = n, s
			}
		}
		delete(count, b.shapes[i])
	}
}

// done returns what was built, where it takes no more room than it needs.
func (b *builder) done() compiled {
	c := b.compiled
	c.text = string(b.arena)
	if x := &b.index; len(x.chunks)+len(x.tables) > 1 {
		c.index = &index{
			common: strings.Clone(x.common), heads: fit(x.heads), chunks: fit(x.chunks), owns: fit(x.owns),
			tables: fit(x.tables), slots: fit(x.slots),
		}
	}
	return c
}

// fit returns s where it takes no more room than it needs.
func fit[E any](s []E) []E {
	if cap(s) == len(s) {
		return s
	}
	return append(make([]E, 0, len(s)), s...)
}

// size returns how many bytes c takes beside itself.
func (c *compiled) size() int {
	n := len(c.text)
	if x := c.index; x != nil {
		n += int(unsafe.Sizeof(*x)) + len(x.common) + 8*len(x.heads) + 8*len(x.chunks) + 8*len(x.owns) +
			int(unsafe.Sizeof(table{}))*len(x.tables) + 8*len(x.slots)
	}
	return n
}

// head returns the first eight bytes of s as a number that sorts as they do.
func head(s string) uint64 { return bits.ReverseBytes64(first8(s)) }

// inRuns packs the patterns in runs, those with the longest values first. It is the last thing that
// is done with them.
func (b *builder) inRuns() compiled {
	b.form, b.arena, b.index = runs, b.arena[:0], index{}
	// A rule that stands for a directory too is one record for both.
	both := make(map[int]bool) // lines of such rules
	for i := range b.sorted {
		if p := b.at(i); p.flags&directoryToo != 0 {
			both[p.line] = true
			p.flags |= parsePattern(&line{kind: kindAllow, text: p.text, value: p.value}, b.exact).flags
		}
	}
	b.sorted = slices.DeleteFunc(b.sorted, func(k sortKey) bool {
		p := &b.ps[k.i]
		return p.flags&directoryToo == 0 && both[p.line]
	})
	slices.SortFunc(b.sorted, func(x, y sortKey) int {
		p, q := &b.ps[x.i], &b.ps[y.i]
		return cmp.Or(cmp.Compare(len(q.value), len(p.value)), cmp.Compare(p.flags, q.flags),
			cmp.Compare(len(p.text), len(q.text)), cmp.Compare(p.line, q.line))
	})
	var run int // where the run's count is
	for i := range b.sorted {
		p := b.at(i)
		if i == 0 || b.at(i-1).shape() != p.shape() || len(b.at(i-1).value) != len(p.value) {
			b.arena = append(b.arena, p.flags)
			b.arena = binary.LittleEndian.AppendUint16(b.arena, p.shape().value)
			b.arena = binary.LittleEndian.AppendUint16(b.arena, uint16(len(p.value)))
			run = len(b.arena)
			b.arena = append(b.arena, 0, 0, 0, 0)
		}
		binary.LittleEndian.PutUint32(b.arena[run:], binary.LittleEndian.Uint32(b.arena[run:])+1)
		b.body(p)
	}
	return b.done()
}

// body stores what all records end with.
func (b *builder) body(p *pattern) {
	for i := range b.wide {
		b.arena = append(b.arena, byte(p.line>>(8*i)))
	}
	b.arena = append(b.arena, p.text...)
}

// record stores a record and returns where.
func (b *builder) record(p *pattern) uint32 {
	at := uint32(len(b.arena))
	s := p.shape()
	if i := slices.Index(b.shapes[:], s); i >= 0 && len(p.value) <= shortMax {
		b.arena = append(b.arena, byte(i<<6|len(p.value)))
	} else {
		b.arena = append(b.arena, headLong|s.flags)
		b.arena = binary.LittleEndian.AppendUint16(b.arena, s.value)
		b.arena = binary.LittleEndian.AppendUint16(b.arena, uint16(len(p.value)))
	}
	b.body(p)
	return at
}

// An ancestor is a record whose prefix begins what comes after it.
type ancestor struct {
	prefix string
	at     uint32
	own    uint32 // its number; none until a chunk needs it
}

// inOrder packs the patterns in their order.
func (b *builder) inOrder(d density) compiled {
	b.form, b.arena, b.index, b.density = sorted, make([]byte, 0, b.leastSize(d)), index{}, d
	hung := slices.Clone(b.sorted) // a table orders its own
	x := &b.index
	var before []ancestor
	var firsts []string // the first prefixes of all chunks
	inChunk := b.chunk
	for lo, hi := 0, 0; lo < len(b.sorted); lo = hi {
		prefix := b.at(lo).prefix
		for hi = lo + 1; hi < len(b.sorted) && b.at(hi).prefix == prefix; {
			hi++
		}
		for n := len(before); n > 0 && !strings.HasPrefix(prefix, before[n-1].prefix); n = len(before) {
			before = before[:n-1]
		}
		if inChunk == b.chunk {
			x.chunks = append(x.chunks, chunk{at: uint32(len(b.arena)), own: x.ownsOf(before)})
			firsts = append(firsts, prefix)
			inChunk = 0
		}
		inChunk++
		at := uint32(len(b.arena))
		if hi-lo > fewWilds {
			b.arena = append(b.arena, headTable)
			b.arena = binary.LittleEndian.AppendUint32(b.arena, uint32(len(x.tables)))
			b.arena = binary.LittleEndian.AppendUint16(b.arena, uint16(len(prefix)))
			b.arena = append(b.arena, prefix...)
			x.tables = append(x.tables, table{from: uint32(lo), to: uint32(hi), depth: uint16(len(prefix))})
		} else {
			hi = lo + 1
			b.record(b.at(lo))
		}
		before = append(before, ancestor{prefix, at, none})
	}
	b.end = uint32(len(b.arena))
	if firsts = firsts[1:]; len(firsts) > 0 {
		x.common = firsts[0][:commonPrefix(firsts[0], firsts[len(firsts)-1])]
	}
	for _, first := range firsts {
		x.heads = append(x.heads, head(first[len(x.common):]))
	}
	for i := range x.tables {
		t := &x.tables[i]
		b.fill(t, hung[t.from:t.to])
	}
	return b.done()
}

// ownsOf returns the number of the last of before, which a chunk begins after.
func (x *index) ownsOf(before []ancestor) uint32 {
	up := uint32(none)
	for i := range before {
		a := &before[i]
		if a.own == none {
			a.own = uint32(len(x.owns))
			x.owns = append(x.owns, own{at: a.at, up: up})
		}
		up = a.own
	}
	return up
}

// commonPrefix returns how many first bytes a and b share.
func commonPrefix(a, b string) int {
	n, end := 0, min(len(a), len(b))
	for ; n+8 <= end; n += 8 {
		if x := first8(a[n:]) ^ first8(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
	}
	for n < end && a[n] == b[n] {
		n++
	}
	return n
}

// fill stores the records of a table, the patterns hung.
func (b *builder) fill(t *table, hung []sortKey) {
	b.chooseKeys(hung)
	size := min(max(1, bits.Len(uint(len(hung)))-1-b.sparse), 27)
	t.shift, t.slots = uint8(32-size), uint32(len(b.index.slots))
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
	t.from = uint32(len(b.arena))
	i := 0
	store := func(p *pattern) {
		b.arena = append(b.arena, tagOf(hashKey(p.key)))
		b.record(p)
		t.top = max(t.top, p.rank)
		i++
	}
	for i < len(hung) && b.ps[hung[i].i].key == 0 {
		store(&b.ps[hung[i].i])
	}
	t.keyed = uint32(len(b.arena))
	for n := range uint32(1 << size) {
		s := slot{start: uint32(len(b.arena))}
		for i < len(hung) && hashKey(b.ps[hung[i].i].key)>>t.shift == n {
			p := &b.ps[hung[i].i]
			s.mask |= 1 << (hashKey(p.key) >> (t.shift - maskBits) & 31)
			store(p)
		}
		b.index.slots = append(b.index.slots, s)
	}
	b.index.slots = append(b.index.slots, slot{start: uint32(len(b.arena))})
	t.to = uint32(len(b.arena))
}

// chooseKeys gives each pattern the key that of all in its tail the fewest others share.
func (b *builder) chooseKeys(hung []sortKey) {
	const shift = 20         // of a hash
	var seen [1 << 12]uint32 // by the other bits
	for _, s := range hung {
		for key := range keysOf(b.ps[s.i].tail) {
			seen[hashKey(key)>>shift]++
		}
	}
	for _, s := range hung {
		p, least := &b.ps[s.i], uint32(0)
		p.key = 0
		for key := range keysOf(p.tail) {
			if n := seen[hashKey(key)>>shift]; p.key == 0 || n < least {
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
