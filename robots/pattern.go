package robots

import (
	"cmp"
	"strings"
)

// A pattern is a rule on its way to be compiled. Its strings may be parts of the file's text.
type pattern struct {
	prefix string // what comes before the first star, or all of it
	tail   string // what follows that star; empty if the pattern is a mere prefix
	slash  bool   // prefix is "/" really, which every path has: so that "/*a" and "*b" are found together
	end    bool   // the path must end where the pattern does: a $
	rank   rank
	line   int
	text   string // the rule as written
	value  int    // where in text prefix begins; -1 if normalisation made it another

	// Set by the builder.
	stored uint32 // where in its arena prefix begins
	key    uint32 // see wild
}

// parsePattern compiles the value of a rule.
func parsePattern(l *line, exact bool) pattern {
	p := pattern{text: l.text, line: l.num, value: len(l.text) - len(l.value)}
	norm, end := strings.CutSuffix(l.value, "$")
	length := len(l.value)
	if !isPlain(norm) {
		norm, length = normalPattern(norm, exact)
		p.value = -1
		if end {
			length++
		}
	}
	p.end = end
	p.rank = rankOf(length, l.kind == kindAllow)
	var star bool
	if p.prefix, p.tail, star = strings.Cut(norm, "*"); !star {
		return p
	}
	// A star at the end, with a $ or not, asks for nothing more.
	if p.tail == "" || p.tail[len(p.tail)-1] == '*' {
		p.end = false
	}
	p.tail = dropStars(p.tail)
	if p.prefix == "/" && p.tail != "" {
		p.prefix, p.slash = "", true
	}
	return p
}

// isWild reports whether p asks for more of a path than a prefix.
func (p *pattern) isWild() bool { return p.tail != "" || p.end }

// flags returns those of p as a wild.
func (p *pattern) flags() uint8 {
	var f uint8
	for _, x := range []struct {
		is   bool
		flag uint8
	}{
		{p.end, endsPath},
		{p.slash, afterSlash},
		{p.tail == "" && !p.end, anything},
		{p.tail == "" && p.end, atOnce},
		{strings.Contains(p.tail, "?"), needsQuery},
	} {
		if x.is {
			f |= x.flag
		}
	}
	return f
}

// indexAlternative returns the pattern that an Allow of ".../index.htm..." stands for too: the
// directory alone.
func indexAlternative(l *line, exact bool) (pattern, bool) {
	const index = "/index.htm"
	slash := strings.LastIndexByte(l.value, '/')
	if slash < 0 || len(l.value)-slash < len(index) {
		return pattern{}, false
	}
	name := l.value[slash:]
	if !isPlain(name) && !exact {
		name, _ = normalPattern(name, false)
	}
	if !strings.HasPrefix(name, index) {
		return pattern{}, false
	}
	dir := *l
	dir.value = l.value[:slash+1] + "$"
	p := parsePattern(&dir, exact)
	if p.value >= 0 {
		p.value = len(l.text) - len(l.value)
	}
	return p, true
}

// dropStars drops the stars at both ends of a tail, and makes every run of others one.
func dropStars(s string) string {
	s = strings.Trim(s, "*")
	if !strings.Contains(s, "**") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		if s[i] != '*' || s[i-1] != '*' {
			b = append(b, s[i])
		}
	}
	return string(b)
}

// isPlain reports whether normalisation leaves a pattern as it is.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] == '%' || s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// normalPattern returns a pattern as paths are compared with it, and the length that it counts
// for.
func normalPattern(value string, exact bool) (string, int) {
	b := make([]byte, 0, len(value)+16)
	if exact {
		b = appendEscaped(b, value)
		return string(b), len(b)
	}
	first := true
	for stretch := range strings.SplitSeq(value, "*") {
		if !first {
			b = append(b, '*')
		}
		b = appendNormal(b, stretch)
		first = false
	}
	// An escaped star or dollar counts as it is written.
	norm := string(b)
	escaped := strings.Count(norm, string(literalStar)) + strings.Count(norm, "$") - strings.Count(value, "$")
	return norm, len(norm) + 2*escaped
}

// order sorts patterns by prefix, brings together those that match the same paths, and puts the
// best of them first.
func order(a, b *pattern) int {
	if c := strings.Compare(a.prefix, b.prefix); c != 0 {
		return c
	}
	if c := strings.Compare(a.tail, b.tail); c != 0 {
		return c
	}
	return cmp.Or(compareBool(a.end, b.end), compareBool(a.slash, b.slash),
		cmp.Compare(b.rank, a.rank), cmp.Compare(a.line, b.line))
}

// compareBool sorts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// sameMatches reports whether two patterns match the same paths.
func sameMatches(a, b *pattern) bool {
	return a.end == b.end && a.slash == b.slash && a.prefix == b.prefix && a.tail == b.tail
}
