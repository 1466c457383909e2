package robots

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"strings"
	"time"
	"unsafe"
)

// Rules are a file's rules for one crawler, compiled. They are immutable and safe for
// concurrent use, and keep neither the File nor the body that it was parsed from. The zero Rules
// allow everything.
type Rules struct {
	compiled
	group    string
	hasDelay bool
	delay    time.Duration
	extras   *extras // nil: all zero
}

// Test returns whether target may be fetched. A target is path and query as they are sent, as
// URL.RequestURI returns them. (URL.Path is decoded.) A fragment is ignored. A target that doesn't
// begin with a slash is a URL, and cut by the function Target. Call it before you fetch a URL.
//
// An empty pattern ("Disallow:") decides nothing. If nothing else matches, Rule and Line are those
// of the empty pattern, and Matched is false, as in Google's matcher.
//
// If target has up to 2,048 bytes, Test doesn't allocate. A byte that isn't ASCII counts as three
// bytes.
func (r *Rules) Test(target string) Verdict {
	target = pathOf(target)
	// Nearly all targets are compared as they are, without a copy.
	if isPlainPath(target) {
		return r.decide(target)
	}
	return r.normalize(cut(target))
}

// usualPath is the length of the longest path for which a check doesn't allocate.
const usualPath = 2048

// normalize decides for the normalised target. The path is on the stack: a Verdict has strings of
// the rules only. It isn't inlined, as plain targets don't need the room.
//
//go:noinline
func (r *Rules) normalize(target string) Verdict {
	var room [3 * usualPath]byte // an escape has three bytes
	return r.decide(view(r.appendPath(room[:0], target)))
}

// appendPath appends a path to dst as it is compared.
func (r *Rules) appendPath(dst []byte, path string) []byte {
	if !r.exact {
		return appendNormal(dst, path, false)
	}
	// Nothing in a pattern stands for a star, or for a byte beyond ASCII that isn't escaped.
	for i := range len(path) {
		c := path[i]
		if c == '*' || c >= 0x80 {
			c = literalStar[0]
		}
		dst = append(dst, c)
	}
	return dst
}

// decide answers for a path as it is compared.
func (r *Rules) decide(path string) Verdict {
	// Its rules can't be obeyed by a crawler that may not read them.
	if path == robotsPath && !r.exact {
		return Verdict{Allowed: true, Group: r.group}
	}
	best := r.match(path)
	if best < 0 {
		// Without a rule that matches everything may be fetched (RFC 9309, section 2.2.2).
		return Verdict{Allowed: true, Group: r.group}
	}
	rule := &r.rules[best]
	text, _, _ := strings.Cut(r.texts[rule.text:], "\n")
	return Verdict{
		// An empty Disallow is there to allow everything, and wins over no other rule.
		Allowed: rule.link&allows != 0 || rule.length == 0,
		Matched: rule.length > 0,
		Rule:    text,
		Line:    r.line(rule),
		Group:   r.group,
	}
}

// Size returns about how many bytes of memory the rules take. That is at most three times the
// length of the file plus 200 bytes. Use it in a cache that is bounded in bytes.
func (r *Rules) Size() int {
	n := int(unsafe.Sizeof(*r)) + len(r.group) + len(r.texts)
	n += int(unsafe.Sizeof(rule{})) * len(r.rules)
	n += 8 * len(r.heads)
	if r.extras != nil {
		n += r.extras.size()
	}
	if n < 32<<10 {
		n += n / 8 // the heap rounds up small sizes
	}
	return n
}

// view returns b as a string, which is valid until b changes.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// pathOf returns the path of a target that is a URL. A target that begins with a slash stays as it
// is.
func pathOf(target string) string {
	if target == "" || target[0] != '/' {
		return Target(target)
	}
	return target
}

// normal returns the path that target is compared as.
func (r *Rules) normal(target string) string {
	return string(r.appendPath(nil, cut(pathOf(target))))
}

// robotsPath is the one path that every crawler may fetch (RFC 9309 section 2.2.2).
const robotsPath = "/robots.txt"

// cut returns the part of a target that Google's matcher sees: up to a fragment or a NUL.
func cut(s string) string {
	s, _, _ = strings.Cut(s, "#")
	s, _, _ = strings.Cut(s, "\x00")
	return s
}

// isPlainPath reports whether neither cutting nor normalisation changes s. It may return false for
// other paths with unusual bytes. It checks eight bytes at a time.
func isPlainPath(s string) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for len(s) >= 8 {
		x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		star := x ^ ones*'*'
		// The high bit of a byte is set where the byte is below '&' (as NUL, #, $ and % are),
		// beyond ASCII, or a star.
		if (x-ones*'&'|x|(star-ones)&^star)&high != 0 {
			return false
		}
		s = s[8:]
	}
	for i := range len(s) {
		c := s[i]
		if c < '&' || c >= 0x80 || c == '*' {
			return false
		}
	}
	return true
}

// extras holds the lines of groups that aren't rules. Most groups have few, so Rules keep a
// pointer. Lines that can be very many are packed as they are, and parsed when needed.
type extras struct {
	rates    packed
	visits   []Window
	usages   packed
	licenses packed
	stated   Preferences // by Content-Signal, and the first of licenses
}

// packed holds lines: the number, the value and a line end of each.
type packed []byte

// add returns p with one more line.
func (p packed) add(l *line) packed {
	return append(append(binary.AppendUvarint(p, uint64(l.num)), l.value...), '\n')
}

// all yields number and value of each line.
func (p packed) all() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		rest := p
		for len(rest) > 0 {
			num, n := binary.Uvarint(rest)
			end := n + bytes.IndexByte(rest[n:], '\n') // add has put it there
			if !yield(int(num), string(rest[n:end])) {
				return
			}
			rest = rest[end+1:]
		}
	}
}

// extra returns r.extras, or empty ones for nil.
func (r *Rules) extra() *extras {
	if r.extras == nil {
		return &noExtras
	}
	return r.extras
}

var noExtras extras

// size returns about how many bytes of memory x takes.
func (x *extras) size() int {
	lines := cap(x.rates) + cap(x.usages) + cap(x.licenses)
	visits := int(unsafe.Sizeof(Window{})) * cap(x.visits)
	p := &x.stated
	stated := len(p.Train.Source) + len(p.Ground.Source) + len(p.Search.Source) + len(p.License)
	return int(unsafe.Sizeof(*x)) + lines + visits + stated
}

// keep returns x for Rules: nil if there is nothing in it.
func (x extras) keep() *extras {
	for _, url := range x.licenses.all() {
		x.stated.License = terms(url) // the first: Preferences have room for one
		break
	}
	noLines := x.rates == nil && x.visits == nil && x.usages == nil && x.licenses == nil
	if noLines && x.stated == (Preferences{}) {
		return nil // as it is for most files, so their Rules are smaller
	}
	return &x
}

// add adds a line of the crawler's groups that isn't a rule.
func (x *extras) add(l *line) {
	switch fieldOf(l.key) {
	case fieldRequestRate:
		if _, ok := parseRate(l.value); ok {
			x.rates = x.rates.add(l)
		}
	case fieldVisitTime:
		if w, ok := parseWindow(l.value); ok {
			x.visits = append(x.visits, w)
		}
	case fieldContentSignal:
		x.stated = x.stated.Merge(signalPreferences(l.value, fmt.Sprintf("Content-Signal, line %d", l.num)))
	case fieldContentUsage:
		x.usages = x.usages.add(l)
	case fieldLicense:
		x.licenses = x.licenses.add(l)
	}
}
