package traps

import "strings"

// A hash is FNV-1a of 64 bits so far. It is the same in every process: queues keep marks.
type hash uint64

const emptyHash hash = 14695981039346656037

func (h hash) add(c byte) hash { return (h ^ hash(c)) * 1099511628211 }

func (h hash) addString(s string) hash {
	for i := range len(s) {
		h = h.add(s[i])
	}
	return h
}

func hashOf(s string) hash { return emptyHash.addString(s) }

// sum returns the hash of a part of a URL in 32 bits. Parts of two kinds differ; none is 0.
func sum(k kind, h hash) uint32 {
	return uint32(h.add(byte(k)).mixed()>>32) | 1 //nolint:gosec // half of a hash is one
}

// mixed returns h for sums. Without that, FNV-1a gives similar texts similar hashes.
func (h hash) mixed() uint64 {
	h ^= h >> 32
	h *= factor
	h ^= h >> 29
	h *= factor
	return uint64(h ^ h>>32)
}

// factor is an odd number without a pattern.
const factor = 0x9e3779b97f4a7c15

// addFolded adds s with each row of digits as one. Escapes such as %C3 have no digits.
func (h hash) addFolded(s string) hash {
	wasDigit := false
	for i := 0; i < len(s); i++ {
		isDigit := isDigit(s[i])
		switch {
		case s[i] == '%':
			h = h.add('%')
			i += 2
		case !isDigit:
			h = h.add(s[i])
		case !wasDigit:
			h = h.add('0')
		}
		wasDigit = isDigit
	}
	return h
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// hasDigit reports whether s has a digit that isn't part of an escape.
func hasDigit(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] == '%' {
			i += 2
			continue
		}
		if isDigit(s[i]) {
			return true
		}
	}
	return false
}

// nameOf returns the hash of a parameter's name: filter[3] and filter[12] are one.
func nameOf(name string) hash {
	h := emptyHash
	for {
		open := strings.IndexAny(name, "[(")
		if open < 0 {
			return h.addFolded(name)
		}
		h = h.addFolded(name[:open]).add('[')
		end := strings.IndexAny(name[open:], "])")
		if end < 0 {
			return h
		}
		name = name[open+end+1:]
	}
}

// formOf returns the hash of a path in which all is folded that varies from page to page: numbers,
// hashes, slugs, and the last segment.
func formOf(path string) hash {
	h := emptyHash
	for segment, isLast := range segments(path) {
		h = h.add('/').addSegment(segment, isLast)
	}
	if strings.HasSuffix(path, "/") {
		h = h.add('/')
	}
	return h
}

// addSegment adds a segment of a path without what varies.
func (h hash) addSegment(s string, isLast bool) hash {
	dot := strings.LastIndexByte(s, '.')
	hyphens := strings.Count(s, "-")
	isSlug := hyphens+strings.Count(s, "_") >= 2 || len(s) > maxSegment
	stem, _, _ := strings.Cut(s, ".")
	switch {
	case isHex(stem): // with its extension, such as that of a patch
		return h.add('#').addString(s[len(stem):])
	case hasDigit(s) && hyphens < 3:
		return h.addFolded(s)
	case isSlug, isLast && dot < 0:
		return h.add('*')
	case isLast && !isProgram(s[dot:]):
		return h.add('*').addString(s[dot:])
	}
	return h.addString(s)
}

// isHex reports whether a segment is a hash, such as that of a commit.
func isHex(s string) bool {
	if len(s) < 7 || !hasDigit(s) {
		return false
	}
	for i := range len(s) {
		if !isDigit(s[i]) && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}

// isProgram reports whether a file with this extension makes its pages by itself, so that its name
// stands for one kind of page.
func isProgram(extension string) bool {
	switch extension {
	case ".php", ".asp", ".aspx", ".jsp", ".cgi", ".pl", ".cfm", ".do":
		return true
	}
	return false
}
