package evidence

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// RedactURL cuts the userinfo ("user:password@") out of every URL in s. The text s is a URL, or
// mentions URLs. politeness.New already does this for Config.Evidence (see [Safe]). Call RedactURL
// only if you call your sink yourself. The sinks of this package apply it to every field that may
// mention a URL.
//
// RedactURL reads URLs as browsers do. For example, "https:/user:password@h" is a URL. It also
// finds escaped URLs, as in "?next=https%3A%2F%2Fuser%3Apassword%40h", escaped up to seven times.
// If s has no "@", or is short and has no userinfo, RedactURL allocates nothing.
func RedactURL(s string) string {
	if !mayHoldUserinfo(s) {
		return s
	}
	var short [128]char // for a short text, so that nothing is allocated
	text := slices.Grow(chars(short[:0]), len(s))
	// Once userinfo is cut out, the text around it may be the beginning of another URL. A second
	// time is rare.
	for range 8 {
		text = decode(text[:0], s)
		deepest := slices.MaxFunc(text, func(a, b char) int { return cmp.Compare(a.depth, b.depth) }).depth
		// The value of a parameter is escaped once more than its "=".
		for depth := range min(deepest+2, maxDepth) {
			text.cutUserinfo(s, depth)
		}
		if !slices.ContainsFunc(text, func(c char) bool { return c.cut }) {
			break
		}
		s = text.left(s)
	}
	return s
}

// mayHoldUserinfo reports whether s holds "@", as it is or escaped: "%40", "%2540".
func mayHoldUserinfo(s string) bool {
	if strings.IndexByte(s, '@') >= 0 {
		return true
	}
	return strings.IndexByte(s, '%') >= 0 && strings.Contains(s, "40")
}

// left returns the text s of the characters t without those that are cut.
func (t chars) left(s string) string {
	var b strings.Builder
	for _, c := range t {
		if !c.cut {
			b.WriteString(s[c.from:c.to])
		}
	}
	return b.String()
}

// A char is one character of a text that mentions URLs.
type char struct {
	c        byte // the character once it is unescaped
	depth    int  // how often it is escaped: "%253D" is a "=" that is escaped twice
	from, to int  // its place in the text
	cut      bool // whether it is userinfo
}

type chars []char

// decode appends the characters of s to t.
func decode(t chars, s string) chars {
	for i := 0; i < len(s); {
		c := char{c: s[i], from: i, to: i + 1}
		// "%2525" is a "%" that is escaped twice, and each "25" more is once more.
		for end := i + len("%40"); c.c == '%' && end <= len(s); end += len("25") {
			b, err := strconv.ParseUint(s[end-2:end], 16, 8)
			if err != nil {
				break
			}
			c = char{c: byte(b), depth: c.depth + 1, from: i, to: end}
		}
		t = append(t, c)
		i = c.to
	}
	return t
}

// in reports whether c is one of set that is escaped at most depth times.
func (c char) in(set string, depth int) bool {
	return c.depth <= depth && strings.IndexByte(set, c.c) >= 0
}

const (
	maxDepth = 8 // depths at which URLs are looked for

	slashes = `/\`          // a browser takes both for one
	inText  = " \t\r\n\"<>" // these end a URL in a text
)

// cutUserinfo cuts the userinfo out of the URLs in t, the characters of s, that are escaped depth
// times: as their colon is or their slashes are, or as the parameter in which they stand.
func (t chars) cutUserinfo(s string, depth int) {
	clean := 0      // no authority that begins before has userinfo any more
	var before char // the last one that can't be of a scheme
	for i, c := range t {
		noScheme := i == 0 && c.in(slashes, 0) // a URL may have none, as in Location
		if noScheme || c.in(":", depth) {
			from := i
			if c.c == ':' {
				from++
			}
			scheme := strings.ToLower(s[before.to:c.from])
			isHTTP := strings.HasSuffix(scheme, "http") || strings.HasSuffix(scheme, "https")
			authority, as := t.afterSlashes(from, c.depth, depth)
			// A browser reads "http:user@host" as a URL, but "mailto:user@host" only with slashes.
			isURL := isHTTP || authority-from >= 2
			inValue := before.c == '=' && before.depth+1 == depth
			here := as == depth || inValue // another depth finds the others
			if isURL && here && authority >= clean {
				quoted := depth == 0 && before.in(`"`, 0)
				clean = t.cutAuthority(authority, depth, quoted)
			}
		}
		if !isScheme(c.c) {
			before = c
		}
	}
}

// isScheme reports whether c may stand in the scheme of a URL.
func isScheme(c byte) bool {
	letter := 'a' <= c|0x20 && c|0x20 <= 'z'
	digit := '0' <= c && c <= '9'
	return letter || digit || strings.IndexByte("+-.", c) >= 0
}

// afterSlashes returns where the authority begins behind the slashes at t[i:], and how often these
// are escaped, at least as often as the colon before them and at most depth times. A slash that is
// escaped more often than the first is the userinfo's.
func (t chars) afterSlashes(i, colon, depth int) (authority, as int) {
	as = colon
	if i < len(t) && t[i].in(slashes, depth) {
		as = max(as, t[i].depth)
	}
	for i < len(t) && t[i].in(slashes, as) {
		i++
	}
	return i, as
}

// cutAuthority cuts the userinfo out of the authority at t[authority:], and returns where that
// ends. A character that is escaped more often than depth is a part of the URL's data, and one that
// is escaped less often belongs to the URL around it. Where the URL is quoted, as in the errors of
// net/url, userinfo may hold characters that end a URL elsewhere.
func (t chars) cutAuthority(authority, depth int, quoted bool) (end int) {
	around := inText         // characters that end the URL
	within := slashes + "?#" // characters that end the authority
	if quoted {
		around = `"`
		within = "/?#"
	}
	host := authority // where the host begins, behind the last "@"
	behind := authority
	for ; behind < len(t); behind++ {
		c := t[behind]
		switch {
		case quoted && t.escapesNext(behind):
			behind++
		case c.in(around, 0) || c.in("&#", depth-1) || c.in(within, depth):
			// An authority of nothing but userinfo makes the next one the URL's, as in
			// "//user@//other@host".
			next, _ := t.afterSlashes(behind, depth, depth)
			if host == authority || host < behind || next == behind {
				t.cutRange(authority, host)
				return behind
			}
			behind = next - 1
		case c.in("@", depth):
			host = behind + 1
		}
	}
	t.cutRange(authority, host)
	return behind
}

// escapesNext reports whether t[i] is the backslash of an escape in a string of Go.
func (t chars) escapesNext(i int) bool {
	return t[i].in(`\`, 0) && i+1 < len(t) && t[i+1].in(`\"`, 0)
}

// cutRange cuts t[from:to].
func (t chars) cutRange(from, to int) {
	for i := from; i < to; i++ {
		t[i].cut = true
	}
}

// sanitize cuts credentials out of the fields that may mention URLs, and clips texts that are too
// long. Every sink calls it. Clean fields stay unchanged.
func (d *Decision) sanitize() {
	for _, text := range [...]*string{&d.URL, &d.Location, &d.Reason, &d.Refused, &d.Err} {
		*text = RedactURL(*text)
	}
	if d.Policy != nil { // which others share
		d.Policy = new(*d.Policy)
		clipStrings(unsafe.Pointer(d.Policy), ofPolicy)
	}
	clipStrings(unsafe.Pointer(d), bounded)
}

// clipStrings clips the strings of the struct at object, of which table has the members.
func clipStrings(object unsafe.Pointer, table []member) {
	for i := range table {
		m := &table[i]
		if m.most == 0 {
			continue
		}
		s := in[string](object, m)
		if len(*s) > m.most/maxQuoted { // a shorter one needs no look at its escapes
			*s = clip(*s, m.most)
		}
	}
}

// Clipped is the end of a string in a record that was cut, because it was too long for its field.
const Clipped = "[...]"

// maxQuoted is how many bytes of JSON one byte of a string takes at most: "\u0000".
const maxQuoted = 6

// clip returns s if its JSON takes at most n bytes, or else as much of its beginning as has room
// with Clipped at its end.
func clip(s string, n int) string {
	var quoted [2 << 10]byte // more than any n
	if len(s) <= n && len(appendQuoted(quoted[:0], s)) <= n+len(`""`) {
		return s
	}
	room := 0 // how much of s has room together with Clipped
	used := 0 // bytes of JSON of s[:i]
	for i := 0; used <= n-len(Clipped); {
		room = i
		_, size := utf8.DecodeRuneInString(s[i:])
		used += len(appendQuoted(quoted[:0], s[i:i+size])) - len(`""`)
		i += size
	}
	return strings.Clone(s[:room]) + Clipped
}

// Redacted stands in a record where the value of a query parameter stood.
const Redacted = "REDACTED"

// Redact returns an Evidence that replaces the values of the named query parameters in every URL by
// [Redacted] and passes the record on to next. Names are compared without regard to case, after
// decoding. A name in brackets, or before them, counts as well. For example, "token" also names
// token[], token[0] and user[token]. Use it when URLs carry session ids, tokens or personal data:
//
//	Evidence: evidence.Redact(log, "token", "session_id", "email")
//
// Userinfo in URLs is removed always, without Redact. If Redact has changed a URL, an auditor can't
// compare the URL with robots.txt. The audit then reports the verdict as open, which is neither
// proved nor broken.
func Redact(next Evidence, params ...string) Evidence {
	return &redactor{next, slices.Clone(params)}
}

type redactor struct {
	next   Evidence
	params []string
}

// Err returns the error of the next sink about the records that it has lost.
func (r *redactor) Err() error { return lost(r.next) }

// Record implements Evidence.
func (r *redactor) Record(ctx context.Context, d Decision) {
	d.sanitize()
	asked := d.URL // as the other fields mention it
	d.URL = r.replace(asked, "")
	d.Location = r.replace(d.Location, "")
	for _, text := range [...]*string{&d.Reason, &d.Refused, &d.Err} {
		// The URL's end is hard to find in a text, unless the URL is known.
		*text = r.replace(strings.ReplaceAll(*text, asked, d.URL), inText)
	}
	r.next.Record(ctx, d)
}

// replace replaces the parameters' values in s. A value begins behind "name=", which follows one of
// ?, &, ; and #, because fragments have tokens too. It ends before &, # or one of ends. Text that
// is escaped more often than its "=" is in the value. So is a ";", which most servers take for data
// (URL Standard, section 5.1). A URL in a parameter of another URL has its own parameters, escaped:
// "?next=%2Fa%3Ftoken%3Dx".
func (r *redactor) replace(s, ends string) string {
	if !strings.ContainsAny(s, "=%") {
		return s
	}
	var b strings.Builder
	t := decode(nil, s)
	name := 0 // where the name of a parameter may begin, behind its separator; 0: nowhere
	for i := 0; i < len(t); i++ {
		c := t[i]
		b.WriteString(s[c.from:c.to])
		switch {
		case strings.IndexByte("?&;#", c.c) >= 0:
			name = i + 1
		case c.c == '=' && name > 0 && r.named(t[name:i]):
			for i+1 < len(t) && !t[i+1].in(ends, 0) && !t[i+1].in("&#", c.depth) {
				i++
			}
			if t[i] != c { // an empty value stays empty
				b.WriteString(Redacted)
			}
		case c.c == '=': // the value of another parameter begins, in which an "=" names nothing
			name = 0
		}
	}
	return b.String()
}

// named reports whether name is one of r's parameters.
func (r *redactor) named(name chars) bool {
	var plain []byte
	for _, c := range name {
		plain = append(plain, c.c)
	}
	whole := withSpaces(string(plain))
	names := append(strings.FieldsFunc(whole, isBracket), whole)
	return slices.ContainsFunc(r.params, func(param string) bool {
		param = withSpaces(param)
		return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(param, name) })
	})
}

func isBracket(c rune) bool { return c == '[' || c == ']' }

// withSpaces returns s with the spaces that a query writes as "+".
func withSpaces(s string) string { return strings.ReplaceAll(s, "+", " ") }
