package robots

import (
	"cmp"
	"slices"
	"strings"
)

// compiled holds rules sorted by prefix. The prefix of a rule is what its pattern has before the
// first star, and a matching path begins with it. All prefixes of one path are prefixes of the
// longest of them. A binary search finds the longest; each rule links to the next shorter one.
type compiled struct {
	texts string   // for each line its number, the rule as written, \n, and patterns that normalisation changes
	rules []rule   // prefixes in descending order; rules of one prefix, a group, best first
	heads []uint64 // [i]: first bytes of the prefix of rule headStep*(i+1)-1
	keyed bool     // some rule has a key
	exact bool     // Options.GoogleExact
}

// A rule is a pattern of an Allow or Disallow line.
type rule struct {
	text   uint32 // offset in texts of the rule as written
	link   uint32 // flags, and shifted by linkShift the number of another rule: see next
	key    uint16 // hash of four successive bytes of the pattern's tail, the rarest; 0 for none
	at     uint16 // offset of the pattern from text
	n      uint16 // length of the pattern
	length uint16 // length of the pattern as it counts in comparisons
}

// Flags of a rule, and sizes.
const (
	allows    = 1 << iota // Allow
	atEnd                 // $: the path ends where the pattern does
	high                  // the pattern has bytes beyond ASCII
	indexed               // the first rule of a group that is sorted by key
	last                  // the last rule of a group, or of those with one key in an indexed group
	linkShift = iota

	headStep  = 16
	manyRules = 1000 // groups of more rules are indexed
)

// rank orders matching rules: the longer pattern wins, then Allow. (Then the earlier line.)
func (r *rule) rank() uint32 { return uint32(r.length)<<1 | r.link&allows }

// next returns the number of the first rule of the next shorter prefix, len(rules) for none. In an
// indexed group only the first rule has that; the others have the number of the group's last rule.
func (r *rule) next() int { return int(r.link >> linkShift) }

// line returns the number of a rule's line.
func (c *compiled) line(r *rule) int {
	n := c.texts[r.text-3:]
	return int(n[0]) | int(n[1])<<8 | int(n[2])<<16
}

// pattern returns the text of a rule's pattern.
func (c *compiled) pattern(r *rule) string { return c.texts[int(r.text)+int(r.at):][:r.n] }

// A builder compiles rules.
type builder struct {
	exact  bool
	texts  []byte
	drafts []draft
}

// A draft is a rule before compilation, with the two parts of its pattern.
type draft struct {
	rule
	prefix string // with bytes beyond ASCII escaped
	tail   string // from the first star on
}

// add adds the rule of a line. Allow of an index file allows its directory too.
func (b *builder) add(l *line) {
	b.texts = append(b.texts, byte(l.num), byte(l.num>>8), byte(l.num>>16))
	text := len(b.texts)
	b.texts = append(append(b.texts, l.text...), '\n')
	value, end := strings.CutSuffix(l.value, "$")
	b.addPattern(l, text, value, end)
	if slash := strings.LastIndexByte(l.value, '/'); l.kind == kindAllow && slash >= 0 &&
		strings.HasPrefix(parsePattern(l.value[slash:], false, b.exact).text, "/index.htm") {
		b.addPattern(l, text, l.value[:slash+1], true)
	}
}

// addPattern adds a rule for a pattern at the beginning of l's value, without a $.
func (b *builder) addPattern(l *line, text int, value string, end bool) {
	p := parsePattern(value, end, b.exact)
	d := draft{rule: rule{text: uint32(text), link: p.flags, n: uint16(len(p.text)), length: uint16(p.length)}}
	d.at = uint16(len(l.text) - len(l.value))
	if !strings.HasPrefix(value, p.text) {
		d.at = uint16(len(b.texts) - text)
		b.texts = append(b.texts, p.text...)
	}
	if l.kind == kindAllow {
		d.link |= allows
	}
	d.prefix, _, _ = strings.Cut(p.text, "*")
	d.tail = p.text[len(d.prefix):]
	if d.prefix == "" && d.tail != "" {
		d.prefix = "/" // which every path begins with: "*a" joins "/*a"
	} else if p.flags&high != 0 {
		d.prefix = string(appendEscaped(nil, d.prefix))
	}
	if p.text == "" || d.prefix[0] == '/' { // no path begins otherwise
		b.drafts = append(b.drafts, d)
	}
}

// chooseKeys sets the key of each draft to the one that the fewest tails contain.
func chooseKeys(drafts []draft) {
	var seen [1 << 12]uint32 // by the upper bits
	for i := range drafts {
		for j := range drafts[i].tail {
			seen[keyAt(drafts[i].tail, j)>>4]++
		}
	}
	for i := range drafts {
		d, least := &drafts[i], ^uint32(0)
		for j := range d.tail {
			if key := keyAt(d.tail, j); key != 0 && seen[key>>4] < least {
				d.key, least = key, seen[key>>4]
			}
		}
	}
}

// keyAt returns the key at i in a tail, 0 if matching paths needn't have those four bytes.
func keyAt(tail string, i int) uint16 {
	if i+4 > len(tail) || strings.IndexByte(tail[i:i+4], '*') >= 0 || countHigh(tail[i:i+4]) > 0 {
		return 0
	}
	return hash(tail[i:])
}

// order sorts prefixes in descending order, of one prefix the best rule first, duplicates together.
func order(x, y draft) int {
	if n := strings.Compare(y.prefix, x.prefix); n != 0 {
		return n
	}
	return cmp.Or(cmp.Compare(y.rank(), x.rank()), cmp.Compare(x.link, y.link), cmp.Compare(x.n, y.n),
		strings.Compare(x.tail, y.tail), cmp.Compare(x.text, y.text))
}

// compile compiles all rules that were added.
func (b *builder) compile() compiled {
	chooseKeys(b.drafts)
	slices.SortFunc(b.drafts, order)
	ds := slices.CompactFunc(b.drafts, func(x, y draft) bool {
		y.text = x.text
		return order(x, y) == 0
	})
	c := compiled{texts: string(b.texts), rules: make([]rule, len(ds)), heads: make([]uint64, len(ds)/headStep), exact: b.exact}
	for lo, hi := 0, len(ds); hi > 0; hi = lo {
		prefix := ds[hi-1].prefix
		for lo = hi - 1; lo > 0 && ds[lo-1].prefix == prefix; {
			lo--
		}
		// The next shorter prefix is that of the group behind this one, or one that it links to.
		next := hi
		for next < len(ds) && !strings.HasPrefix(prefix, ds[next].prefix) {
			next = c.rules[next].next()
		}
		many := hi-lo > manyRules
		if many {
			slices.SortStableFunc(ds[lo:hi], func(x, y draft) int { return cmp.Compare(x.key, y.key) })
			ds[lo].link |= indexed
		}
		for i := lo; i < hi; i++ {
			r := ds[i].rule
			if i == hi-1 || many && r.key != ds[i+1].key {
				r.link |= last
			}
			if many && i > lo {
				next = hi - 1
			}
			r.link |= uint32(next) << linkShift
			c.rules[i] = r
			c.keyed = c.keyed || r.key != 0
			if (i+1)%headStep == 0 {
				c.heads[i/headStep] = head(prefix)
			}
		}
	}
	return c
}
