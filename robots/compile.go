package robots

import (
	"cmp"
	"slices"
	"strings"
)

// compiled holds rules sorted by prefix. The prefix of a rule is the part of its pattern before the
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
	// Three bytes hold the number of any line: maxBody bounds it.
	b.texts = append(b.texts, byte(l.num), byte(l.num>>8), byte(l.num>>16))
	text := len(b.texts)
	b.texts = append(append(b.texts, l.text...), '\n')
	value, end := strings.CutSuffix(l.value, "$")
	b.addPattern(l, text, value, end)

	slash := strings.LastIndexByte(l.value, '/')
	if l.kind != kindAllow || slash < 0 {
		return
	}
	// Google's matcher takes "Allow: /a/index.html" for "Allow: /a/$" as well: servers send that
	// page for the directory.
	file := parsePattern(l.value[slash:], false, b.exact)
	if strings.HasPrefix(file.text, "/index.htm") {
		b.addPattern(l, text, l.value[:slash+1], true)
	}
}

// addPattern adds a rule for a pattern at the beginning of l's value, without a $.
func (b *builder) addPattern(l *line, text int, value string, end bool) {
	p := parsePattern(value, end, b.exact)
	d := draft{rule: rule{
		text:   uint32(text),
		link:   p.flags,
		at:     uint16(len(l.text) - len(l.value)),
		n:      uint16(len(p.text)),
		length: uint16(p.length),
	}}
	if !strings.HasPrefix(value, p.text) {
		// Normalisation has changed the pattern, so the rule as written doesn't hold it.
		d.at = uint16(len(b.texts) - text)
		b.texts = append(b.texts, p.text...)
	}
	if l.kind == kindAllow {
		d.link |= allows
	}
	d.prefix, d.tail = p.cut()
	if p.text == "" || d.prefix[0] == '/' { // no path begins otherwise
		b.drafts = append(b.drafts, d)
	}
}

// cut divides a pattern before its first star. It returns the prefix as paths have it.
func (p *pattern) cut() (prefix, tail string) {
	prefix, _, _ = strings.Cut(p.text, "*")
	tail = p.text[len(prefix):]
	if prefix == "" && tail != "" {
		return "/", tail // which every path begins with: "*a" joins "/*a"
	}
	if p.flags&high != 0 {
		// Prefixes are compared with each other, and have to sort as paths do: with escapes.
		prefix = string(appendEscaped(nil, prefix))
	}
	return prefix, tail
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
		d := &drafts[i]
		least := ^uint32(0)
		for j := range d.tail {
			key := keyAt(d.tail, j)
			// The fewer tails have a key, the fewer paths do, most likely, and a rule whose key the
			// path doesn't have costs one look at a bit.
			if key != 0 && seen[key>>4] < least {
				d.key = key
				least = seen[key>>4]
			}
		}
	}
}

// keyAt returns the key at i in a tail, 0 if matching paths needn't have those four bytes.
func keyAt(tail string, i int) uint16 {
	if i+4 > len(tail) {
		return 0
	}
	four := tail[i : i+4]
	// A star stands for any bytes, and a byte beyond ASCII for its escape.
	if strings.IndexByte(four, '*') >= 0 || countHigh(four) > 0 {
		return 0
	}
	return hash(four)
}

// order sorts prefixes in descending order, of one prefix the best rule first, duplicates together.
func order(x, y draft) int {
	byPrefix := strings.Compare(y.prefix, x.prefix)
	if byPrefix != 0 {
		return byPrefix // mostly, which spares the other comparisons
	}
	return cmp.Or(
		cmp.Compare(y.rank(), x.rank()),
		cmp.Compare(x.link, y.link),
		cmp.Compare(x.n, y.n),
		strings.Compare(x.tail, y.tail),
		cmp.Compare(x.text, y.text), // of duplicates the first in the file stays
	)
}

// compile compiles all rules that were added.
func (b *builder) compile() compiled {
	chooseKeys(b.drafts)
	slices.SortFunc(b.drafts, order)
	drafts := slices.CompactFunc(b.drafts, func(x, y draft) bool {
		y.text = x.text // lines are duplicates if they differ in nothing else
		return order(x, y) == 0
	})
	c := compiled{
		texts: string(b.texts),
		rules: make([]rule, len(drafts)),
		heads: make([]uint64, len(drafts)/headStep),
		exact: b.exact,
	}
	// From the last group to the first, since a group links to one behind it.
	for end := len(drafts); end > 0; {
		start := end - 1
		for start > 0 && drafts[start-1].prefix == drafts[end-1].prefix {
			start--
		}
		c.addGroup(drafts, start, end)
		end = start
	}
	return c
}

// addGroup sets the rules from start to end, which have one prefix. Those behind them are set.
func (c *compiled) addGroup(drafts []draft, start, end int) {
	prefix := drafts[start].prefix
	// The next shorter prefix is that of the group behind this one, or one that it links to.
	next := end
	// Those passed over sort between the two, and begin otherwise.
	for next < len(drafts) && !strings.HasPrefix(prefix, drafts[next].prefix) {
		next = c.rules[next].next()
	}
	many := end-start > manyRules
	if many {
		// Stable, so that of one key the best rule comes first.
		slices.SortStableFunc(drafts[start:end], func(x, y draft) int { return cmp.Compare(x.key, y.key) })
		drafts[start].link |= indexed
	}
	for i := start; i < end; i++ {
		r := drafts[i].rule
		if i == end-1 || (many && r.key != drafts[i+1].key) {
			r.link |= last
		}
		to := next
		if many && i > start {
			to = end - 1 // lookUp finds the group's end there
		}
		r.link |= uint32(to) << linkShift
		c.rules[i] = r
		c.keyed = c.keyed || r.key != 0
		if (i+1)%headStep == 0 {
			c.heads[i/headStep] = head(prefix)
		}
	}
}
