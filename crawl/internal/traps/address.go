package traps

import (
	"iter"
	"strings"
)

// Bounds of the parts of a URL that are told apart. The rest of a longer one is one part.
const (
	maxSegments   = 16
	maxParameters = 16
	maxWord       = 32 // bytes of a word
	maxSegment    = 24 // bytes of a segment that isn't a slug
)

// An address is a URL in its parts.
type address struct {
	name   string // of its host, with a port: several may share a Host
	path   string
	room   [mostParts]parameter // see query
	number int                  // of parameters
}

// mostParts is the most parameters of an address, the rest included.
const mostParts = maxParameters + 1

// query returns the parameters.
func (a *address) query() []parameter { return a.room[:a.number] }

func (a *address) add(p parameter) {
	a.room[a.number] = p
	a.number++
}

// A parameter is one of a query.
type parameter struct {
	name, value string
	isRest      bool // it is all that follows the first maxParameters
}

// parse returns the parts of a normalised URL. It allocates nothing: it is called for each link.
func parse(url string) (a address) {
	_, rest, hasScheme := strings.Cut(url, "://")
	if !hasScheme {
		rest = url
	}
	path, query, _ := strings.Cut(rest, "?")
	if slash := strings.IndexByte(path, '/'); slash >= 0 {
		a.name = path[:slash]
		a.path = path[slash:]
	}
	for query != "" {
		if a.number == maxParameters {
			a.add(parameter{value: query, isRest: true})
			break
		}
		end := strings.IndexAny(query, "&;")
		if end < 0 {
			end = len(query)
		}
		if end > 0 {
			name, value, _ := strings.Cut(query[:end], "=")
			a.add(parameter{name: name, value: value})
		}
		query = query[min(end+1, len(query)):]
	}
	return a
}

// A kind says which part of a URL a mark is.
type kind uint8

const (
	nameMark   kind = 1 << iota // the name of a parameter
	placeMark                   // the name of a parameter on paths of a form
	valueMark                   // a value that is a word
	prefixMark                  // the word with which a value begins
	formMark                    // the form of the path
	wordMark                    // a segment that is a word
)

// A mark is a part of a URL that others have too.
type mark struct {
	hash  uint32
	kind  kind
	pays  bool // for a page without anything new
	text  string
	value string
}

// String returns the mark for people.
func (m mark) String() string {
	switch m.kind {
	case nameMark, placeMark:
		return "parameter " + m.text
	case valueMark:
		return "parameter " + m.text + "=" + m.value
	case prefixMark:
		return "parameter " + m.text + "=" + m.value + "..."
	case wordMark:
		return "paths with " + m.text
	}
	return "paths like " + m.text
}

// usualMarks is how many marks a URL has at most, but for a few.
const usualMarks = 16

// marksOf adds the marks of a URL to marks. Those of its path pay for it only if it has no
// parameters.
func (h *Host) marksOf(a *address, marks []mark) []mark {
	add := func(m mark) {
		if m.kind&h.drop == 0 {
			marks = append(marks, m)
		}
	}
	form := formOf(a.path)
	for _, p := range a.query() {
		if p.isRest {
			continue
		}
		name := nameOf(p.name)
		add(mark{hash: sum(nameMark, name), kind: nameMark, pays: true, text: p.name})
		add(mark{hash: sum(placeMark, name^hash(form.mixed())), kind: placeMark, pays: true, text: p.name})
		if isWord(p.value) {
			hash := sum(valueMark, name.add('=').addString(p.value))
			add(mark{hash: hash, kind: valueMark, pays: true, text: p.name, value: p.value})
		}
		if end := strings.IndexAny(p.value, ":/"); end > 0 && isWord(p.value[:end]) {
			prefix := p.value[:end+1]
			hash := sum(prefixMark, name.add('=').addString(prefix))
			add(mark{hash: hash, kind: prefixMark, pays: true, text: p.name, value: prefix})
		}
	}
	pays := a.number == 0
	add(mark{hash: sum(formMark, form), kind: formMark, pays: pays, text: a.path})
	for s, isLast := range segments(a.path) {
		if !isWord(s) || strings.Count(s, "-") >= 3 {
			continue
		}
		hash := hashOf(s)
		if isLast { // the same word says something else at the end of a path
			hash = hash.add('$')
		}
		add(mark{hash: sum(wordMark, hash), kind: wordMark, pays: pays, text: s})
	}
	return marks
}

// segments yields the segments of a path without the empty ones at both ends, and whether each is
// the last one. The rest of a longer path is one segment.
func segments(path string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		rest := strings.Trim(path, "/")
		if rest == "" {
			return
		}
		for range maxSegments - 1 {
			segment, after, hasMore := strings.Cut(rest, "/")
			if !yield(segment, !hasMore) || !hasMore {
				return
			}
			rest = after
		}
		yield(rest, true)
	}
}

// isWord reports whether a value is a word, such as an action, and not data.
func isWord(s string) bool {
	if s == "" || len(s) > maxWord {
		return false
	}
	for i := range len(s) {
		c := s[i] | 0x20
		if (c < 'a' || c > 'z') && strings.IndexByte("_./:-", s[i]) < 0 {
			return false
		}
	}
	return true
}
