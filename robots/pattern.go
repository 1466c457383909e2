package robots

import (
	"encoding/binary"
	"strings"
)

// A pattern is the value of a rule, ready to be compared with paths.
type pattern struct {
	text   string // normalised, without a final $; a byte beyond ASCII stands for its escape
	flags  uint32 // atEnd and high
	length int    // length as it counts in comparisons, of the escaped text with the $
}

// parsePattern parses the value of a rule without its final $; end reports whether it has one.
func parsePattern(value string, end, exact bool) pattern {
	text := value
	escaped := 0
	escapes := strings.Contains(value, "%") // without one, normalisation changes nothing
	if escapes && exact {
		text = string(appendUpper(nil, value))
	} else if escapes {
		text = string(appendNormal(nil, value, true))
		// An escaped star or dollar counts as it is written.
		escaped = strings.Count(text, literalStar) + strings.Count(text, "$") - strings.Count(value, "$")
	}
	p := pattern{text: strings.TrimRight(text, "*"), length: len(text) + 2*(escaped+countHigh(text))}
	if countHigh(p.text) > 0 {
		p.flags |= high
	}
	if end {
		p.length++
	}
	if end && p.text == text { // a final star matches everything, with a $ behind it too
		p.flags |= atEnd
	}
	return p
}

// common returns how many bytes of a pattern, and how many of a path, are the prefix that they
// share.
func common(pattern, path string) (n, pos int) {
	for n < len(pattern) && pos < len(path) {
		c := pattern[n]
		if c == path[pos] {
			pos++
		} else if c >= 0x80 && strings.HasPrefix(path[pos:], escape(c)) {
			pos += 3
		} else {
			break
		}
		n++
	}
	return n, pos
}

// isBeyond reports whether the prefix of a pattern sorts after a path.
func isBeyond(pattern, path string) bool {
	n, pos := common(pattern, path)
	switch {
	case n == len(pattern) || pattern[n] == '*':
		return false // the path begins with the prefix
	case pattern[n] >= 0x80:
		return escape(pattern[n]) > path[pos:] // a path has no bytes beyond ASCII
	}
	return pos == len(path) || pattern[n] > path[pos]
}

// head returns the first eight bytes of s as a number that sorts as they do.
func head(s string) uint64 {
	var b [8]byte
	copy(b[:], s) // a shorter one sorts first, as the rest of b is 0
	return binary.BigEndian.Uint64(b[:])
}

// hash hashes the first four bytes of s.
func hash(s string) uint16 {
	return uint16((uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24) * 0x9e3779b1 >> 16)
}
