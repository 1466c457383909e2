package robots

import "strings"

// Target returns the path and query of a whole URL for Test, as Google's matcher cuts it. Scheme,
// host and fragment are removed, and nothing is decoded or cleaned ("/a/../b" stays). A URL without
// a path has "/". For a *url.URL use its RequestURI method.
func Target(rawURL string) string {
	rest, _, _ := strings.Cut(strings.TrimPrefix(rawURL, "//"), "#")
	// A "://" behind the beginning of the path is part of it: "/login?to=http://a".
	if scheme, after, ok := strings.Cut(rest, "://"); ok && !strings.ContainsAny(scheme, "/?;") {
		rest = after
	}
	path := strings.IndexAny(rest, "/?;")
	if path < 0 {
		return "/"
	}
	if rest[path] != '/' {
		return "/" + rest[path:]
	}
	return rest[path:]
}

const upperHex = "0123456789ABCDEF"

// unhex returns the value of a hex digit, and whether c is one.
func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// isEscape reports whether s begins with a valid escape: % and two hex digits.
func isEscape(s string) bool {
	if len(s) < 3 || s[0] != '%' {
		return false
	}
	_, ok1 := unhex(s[1])
	_, ok2 := unhex(s[2])
	return ok1 && ok2
}

// isUnreserved reports whether c is an unreserved character of RFC 3986 section 2.3.
func isUnreserved(c byte) bool {
	return isNameChar(c) || isDigit(c) || c == '.' || c == '~'
}

// appendUpper appends a pattern to dst as Google's matcher compares it: valid escapes in upper
// case, nothing decoded.
func appendUpper(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if isEscape(s[i:]) {
			dst = append(dst, strings.ToUpper(s[i:i+3])...)
			i += 2
		} else {
			dst = append(dst, s[i])
		}
	}
	return dst
}

// appendEscaped appends s to dst, bytes beyond ASCII escaped.
func appendEscaped(dst []byte, s string) []byte {
	for i := range len(s) {
		if s[i] >= 0x80 {
			dst = append(dst, escape(s[i])...)
		} else {
			dst = append(dst, s[i])
		}
	}
	return dst
}

// countHigh returns how many bytes of s are beyond ASCII.
func countHigh(s string) (n int) {
	for i := range len(s) {
		n += int(s[i] >> 7) // without a branch, as this goes over whole patterns
	}
	return n
}

// escapes holds the escapes of all bytes beyond ASCII.
var escapes = func() (all string) {
	for c := 0x80; c < 0x100; c++ {
		all += string([]byte{'%', upperHex[c>>4], upperHex[c&15]})
	}
	return all
}()

// escape returns the escape of a byte beyond ASCII.
func escape(c byte) string { return escapes[3*int(c-0x80):][:3] }

// literalStar stands for a star that isn't a wildcard: a star or %2A in a path, %2A in a pattern.
// No line, and so no pattern, contains this byte.
const literalStar = "\n"

// appendNormal appends a path or a pattern to dst as RFC 9309 section 2.2.2 compares them: valid
// escapes in upper case, unreserved ASCII decoded. So are %2A and %24, by which section 2.2.3
// writes a literal star and dollar: "Disallow: /a%2A" stops "/a*" as well as "/a%2A". In a path,
// bytes beyond ASCII are escaped and stars are literal.
//
// The result is decoded again ("%%361" is "%61" is "a"), so that to normalise it changes nothing.
func appendNormal(dst []byte, s string, pattern bool) []byte {
	base := len(dst)
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 0x80 && !pattern:
			dst = append(dst, escape(c)...)
		case c == '*' && !pattern:
			// In a path a star is a character like any other, in a pattern it isn't.
			dst = append(dst, literalStar...)
		default:
			dst = append(dst, c)
		}
		if n := len(dst) - 3; n >= base && dst[n] == '%' {
			dst = resolve(dst, base)
		}
	}
	return dst
}

// resolve resolves an escape at the end of dst[base:]: it decodes one that stands for a byte which
// appendNormal decodes, and puts another one into upper case.
func resolve(dst []byte, base int) []byte {
	// Each turn resolves an escape that the last byte completes; a decoded byte can complete
	// another.
	for n := len(dst) - 3; n >= base && dst[n] == '%'; n = len(dst) - 3 {
		hi, ok1 := unhex(dst[n+1])
		lo, ok2 := unhex(dst[n+2])
		if !ok1 || !ok2 {
			break // no escape, now or later: the text continues behind it
		}
		c := hi<<4 | lo
		if c == '*' {
			c = literalStar[0]
		} else if !isUnreserved(c) && c != '$' {
			// An escaped "/" or "?" isn't the character itself.
			dst[n+1] = upperHex[hi]
			dst[n+2] = upperHex[lo]
			break
		}
		dst = append(dst[:n], c)
	}
	return dst
}
