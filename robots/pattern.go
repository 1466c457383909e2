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
	value  string // what of it is the pattern, at its end
	flags  uint8  // of its record
	key    uint32 // three bytes in a row, first lowest, that a matching path must contain; 0: there are none. Set by the builder
}

// shape returns that of p's record.
func (p *pattern) shape() shape {
	return shape{flags: p.flags, value: uint16(len(p.text) - len(p.value))}
}

// parsePattern compiles the value of a rule.
func parsePattern(l *line, exact bool) pattern {
	p := pattern{text: l.text, value: l.value, line: l.num}
	norm, end := strings.CutSuffix(l.value, "$")
	length := len(l.value)
	if !isPlain(norm) {
		written := norm
		norm, length = normalPattern(written, exact)
		if norm != written {
			p.flags |= escaped
		}
		if end {
			length++
		}
	}
	if l.kind == kindAllow {
		p.flags |= allows
	}
	if strings.Contains(norm, "?") {
		p.flags |= needsQuery
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

// indexAlternative returns the pattern that an Allow of ".../index.htm..." stands for too: the
// directory alone.
func indexAlternative(l *line, exact bool) (pattern, bool) {
	slash := strings.LastIndexByte(l.value, '/')
	if slash < 0 {
		return pattern{}, false
	}
	name := l.value[slash:]
	if !isPlain(name) && !exact {
		name, _ = normalPattern(name, false)
	}
	if !strings.HasPrefix(name, "/index.htm") {
		return pattern{}, false
	}
	dir := *l
	dir.value = l.value[:slash+1] + "$"
	p := parsePattern(&dir, exact)
	p.value, p.flags = l.value, p.flags|directoryToo
	return p, true
}

// dropStars drops the stars at both ends of a tail, and makes every run of others one.
func dropStars(s string) string {
	s = strings.Trim(s, "*")
	if strings.Contains(s, "**") {
		s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '*' }), "*")
	}
	return s
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
	norm, length := appendPattern(make([]byte, 0, len(value)+16), value, exact)
	return string(norm), length
}

// appendPattern is normalPattern that appends to dst, which is empty.
func appendPattern(dst []byte, value string, exact bool) ([]byte, int) {
	if exact {
		dst = appendEscaped(dst, value)
		return dst, len(dst)
	}
	dollars := strings.Count(value, "$")
	for {
		star := strings.IndexByte(value, '*')
		if star < 0 {
			break
		}
		dst = append(appendNormal(dst, value[:star]), '*')
		value = value[star+1:]
	}
	dst = appendNormal(dst, value)
	// An escaped star or dollar counts as it is written.
	escaped := -dollars
	for _, c := range dst {
		if c == literalStar || c == '$' {
			escaped++
		}
	}
	return dst, len(dst) + 2*escaped
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
