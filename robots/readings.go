package robots

import (
	"slices"
	"strings"
)

// TestReadings is Test for each path that a server may take target for, and returns the first
// verdict that forbids; if none does, it returns that of Test. Use it for a request that a
// stranger's link, redirect or program leads to: with "Disallow: /private" it forbids
// /a/%2e%2e/private and //private too, which most servers read as /private. The readings are
//
//   - target as it is sent,
//   - with backslashes as slashes and without dot segments, in all their spellings, as browsers and
//     the URL standard read a path,
//   - the same with escapes of printable ASCII decoded, but for those of %, ? and #,
//   - the same with adjacent slashes as one.
//
// A query is compared as it is sent. A target without escapes, dot segments, backslashes and
// adjacent slashes costs what it costs Test.
func (r *Rules) TestReadings(target string) Verdict {
	asSent := r.Test(target)
	target = pathOf(target)
	path, query := splitQuery(cut(target))
	if !asSent.Allowed || !isAmbiguous(path) {
		return asSent
	}
	var buf [usualPath]byte
	read := append(buf[:0], path...)
	for _, decoded := range []bool{false, true} {
		if decoded {
			read = decode(append(buf[:0], path...))
		}
		slashes(read)
		for _, merged := range []bool{false, true} {
			if merged {
				read = merge(read)
			}
			plain := append(withoutDots(slices.Clone(read)), query...)
			if v := r.Test(view(plain)); !v.Allowed {
				return v
			}
		}
	}
	return asSent
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
		case '\\':
			return true
		case '/':
			if rest != "" && (rest[0] == '/' || rest[0] == '.') {
				return true
			}
		case '%':
			if _, ok := printable(rest); ok {
				return true
			}
		}
	}
	return false
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
