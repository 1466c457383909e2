package robots

import (
	"slices"
	"strings"
)

// TestReadings tests each path that a server may read in target. It returns the first verdict that
// forbids. If no verdict forbids, it returns the verdict of Test. Use it for a request that a
// stranger's link, redirect or program leads to. For example, if /private is disallowed, it also
// forbids /a/%2e%2e/private and //private, because most servers read both as /private. The readings
// are
//
//   - target as it is sent,
//   - with backslashes as slashes and without dot segments, in all their spellings, as browsers and
//     the URL standard read a path,
//   - the same with escapes of printable ASCII decoded, but for those of %, ? and #,
//   - the same with escapes in escapes decoded too, such as %2570 as p,
//   - each of these without the parameters of segments, from a semicolon to the next slash,
//   - each of these with adjacent slashes as one.
//
// A query is compared as it is sent. A target without escapes, dot segments, backslashes,
// semicolons and adjacent slashes costs as much as Test. Any other costs 25 times as much at most.
func (r *Rules) TestReadings(target string) Verdict {
	asSent := r.Test(target)
	target = pathOf(target)
	path, query := splitQuery(cut(target))
	if !asSent.Allowed || !isAmbiguous(path) {
		return asSent
	}
	if v := r.testDecodings([]byte(path), query); !v.Allowed {
		return v
	}
	// A server may also drop parameters first, and decode what is left.
	if strings.Contains(path, ";") {
		if v := r.testDecodings(withoutParameters([]byte(path)), query); !v.Allowed {
			return v
		}
	}
	return asSent
}

// testDecodings is Test of path, with query behind it, in each reading: as it is, decoded, and
// decoded twice. It changes path.
func (r *Rules) testDecodings(path []byte, query string) Verdict {
	var v Verdict
	for decodings := range 3 {
		length := len(path)
		switch decodings {
		case 1:
			path = decode(path)
		case 2:
			path = decode(unnest(path))
		}
		if decodings > 0 && len(path) == length {
			continue // nothing to decode
		}
		v = r.testPlain(slices.Clone(path), query)
		if v.Allowed && slices.Contains(path, ';') {
			v = r.testPlain(withoutParameters(slices.Clone(path)), query)
		}
		if !v.Allowed {
			return v
		}
	}
	return v
}

// testPlain is Test of path, with query behind it, without dot segments: with adjacent slashes as
// they are, and as one. It changes path.
func (r *Rules) testPlain(path []byte, query string) Verdict {
	slashes(path)
	plain := append(withoutDots(slices.Clone(path)), query...)
	v := r.Test(view(plain))
	if !v.Allowed {
		return v
	}
	plain = append(withoutDots(merge(path)), query...)
	return r.Test(view(plain))
}

// splitQuery cuts target where its query begins.
func splitQuery(target string) (path, query string) {
	if i := strings.IndexByte(target, '?'); i >= 0 {
		return target[:i], target[i:]
	}
	return target, ""
}

// isAmbiguous reports whether servers may read a path in several ways.
func isAmbiguous(path string) bool {
	for i := range len(path) {
		rest := path[i+1:]
		switch path[i] {
		case '\\', ';':
			return true
		case '/':
			if rest != "" && (rest[0] == '/' || rest[0] == '.') {
				return true
			}
		case '%':
			if _, ok := printable(rest); ok || isNested(rest) {
				return true
			}
		}
	}
	return false
}

// isNested reports whether s, behind a percent sign, is the escape of one that begins an escape.
func isNested(s string) bool {
	if len(s) < 4 || s[:2] != "25" {
		return false
	}
	_, isHigh := unhex(s[2])
	_, isLow := unhex(s[3])
	return isHigh && isLow
}

// printable returns the character that the two hexadecimal digits at the beginning of s stand for,
// and whether TestReadings decodes it.
func printable(s string) (c byte, ok bool) {
	if len(s) < 2 {
		return 0, false
	}
	high, isHigh := unhex(s[0])
	low, isLow := unhex(s[1])
	c = high<<4 | low
	isPlain := c > ' ' && c < 0x7f && c != '%' && c != '?' && c != '#'
	return c, isHigh && isLow && isPlain
}

// decode decodes the escapes of printable ASCII in path, in place.
func decode(path []byte) []byte {
	decoded := path[:0]
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' {
			if plain, ok := printable(string(path[i+1 : min(i+3, len(path))])); ok {
				c = plain
				i += 2
			}
		}
		decoded = append(decoded, c)
	}
	return decoded
}

// unnest makes escapes of the escapes of escapes in path, in place: %70 of %2570.
func unnest(path []byte) []byte {
	outer := path[:0]
	for i := 0; i < len(path); i++ {
		c := path[i]
		outer = append(outer, c)
		if c == '%' && isNested(string(path[i+1:min(i+5, len(path))])) {
			i += 2
		}
	}
	return outer
}

// withoutParameters drops what is behind a semicolon in each segment of path, in place.
func withoutParameters(path []byte) []byte {
	short := path[:0]
	inParameters := false
	for _, c := range path {
		switch c {
		case '/', '\\':
			inParameters = false
		case ';':
			inParameters = true
		}
		if !inParameters {
			short = append(short, c)
		}
	}
	return short
}

// slashes makes slashes of the backslashes in path.
func slashes(path []byte) {
	for i, c := range path {
		if c == '\\' {
			path[i] = '/'
		}
	}
}

// merge makes one of adjacent slashes in path, in place.
func merge(path []byte) []byte {
	return slices.CompactFunc(path, func(a, b byte) bool { return a == '/' && b == '/' })
}

// withoutDots resolves the dot segments of a path that begins with a slash, in place (URL standard,
// "path state").
func withoutDots(path []byte) []byte {
	resolved := path[:0]
	for i := 0; i < len(path); {
		end := i + 1 // of the segment, whose slash is at i
		for end < len(path) && path[end] != '/' {
			end++
		}
		segment := path[i+1 : end]
		isLast := end == len(path)
		switch dotsOf(segment) {
		case 1:
		case 2:
			resolved = resolved[:max(0, strings.LastIndexByte(view(resolved), '/'))]
		default:
			resolved = append(resolved, path[i:end]...)
			isLast = false
		}
		if isLast { // a dot segment at the end leaves its slash
			resolved = append(resolved, '/')
		}
		i = end
	}
	return resolved
}

// dotsOf returns the number of dots that a dot segment has, 1 or 2; 0: it is no dot segment. A dot
// may be spelled %2e.
func dotsOf(segment []byte) int {
	dots := 0
	for len(segment) > 0 {
		isEscape := len(segment) >= 3 && segment[0] == '%' && segment[1] == '2' && segment[2]|0x20 == 'e'
		switch {
		case dots == 2:
			return 0
		case segment[0] == '.':
			segment = segment[1:]
		case isEscape:
			segment = segment[3:]
		default:
			return 0
		}
		dots++
	}
	return dots
}
