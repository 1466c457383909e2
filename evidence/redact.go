package evidence

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// RedactURL cuts the userinfo ("user:password@") out of every URL in s, which may be a URL or a
// text that mentions some. It reads URLs as browsers do, which take "https:/user:password@h" for
// one, and finds those that are escaped, as in "?next=https%3A%2F%2Fuser%3Apassword%40h". It
// allocates nothing if there is no userinfo. The sinks of this package apply it to whatever they
// are given; use it in a sink of your own that is called without [Safe].
func RedactURL(s string) string {
	if !mayHoldUserinfo(s) {
		return s
	}
	var out []byte
	kept := 0        // s[:kept] is in out
	word := 0        // where the scheme may begin
	value := 0       // how often the parameter's value is escaped that began at this word; 0: none did
	var clean [8]int // by how often they are escaped: before that no authority has userinfo any more
	for i := 0; i < len(s); {
		c, depth, size := unescape(s[i:])
		at := i + size
		if i == 0 && depth == 0 && isSlash(c) { // a URL may have no scheme, as in Location
			at = 0
		}
		if c == ':' || at == 0 {
			isHTTP := c == ':' && (endsInFold(s[:i], "http") || endsInFold(s[:i], "https"))
			quoted := word > 0 && s[word-1] == '"'
			plain, n, _ := afterSlashes(s, at, depth, false)
			escaped, more, as := afterSlashes(s, at, depth, true)
			// It may be escaped as its colon is, as its slashes are, or as the parameter in which it stands.
			for _, r := range [...]struct{ authority, slashes, as int }{{plain, n, depth}, {escaped, more, as}, {escaped, more, max(as, value)}} {
				authority := max(r.authority, at)
				if at > r.authority { // what was cut out stood before more slashes
					authority, _, as = afterSlashes(s, at, depth, true)
					r.as = max(r.as, as)
				}
				if r.slashes < 2 && !isHTTP || r.as < len(clean) && authority < clean[r.as] {
					continue
				}
				host, end := afterUserinfo(s, authority, r.as, quoted && r.as == 0)
				if host > authority {
					out = append(out, s[kept:authority]...)
					kept, at = host, host
				}
				if r.as < len(clean) {
					clean[r.as] = end
				}
			}
			size = max(at-i, size)
		}
		i += size
		switch {
		case c == '=':
			word, value = i, depth+1
		case !isScheme(c):
			word, value = i, 0
		}
	}
	if kept == 0 {
		return s
	}
	return string(append(out, s[kept:]...))
}

// mayHoldUserinfo is a quick look: where it says no, RedactURL changes nothing.
func mayHoldUserinfo(s string) bool {
	return strings.IndexByte(s, '@') >= 0 || strings.Contains(s, "%") && strings.Contains(s, "40") // "%40", "%2540"
}

func isSlash(c byte) bool { return c == '/' || c == '\\' } // a browser takes both for one

func endsInFold(s, suffix string) bool {
	return len(s) >= len(suffix) && strings.EqualFold(s[len(s)-len(suffix):], suffix)
}

func isScheme(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'
}

// afterSlashes returns where the authority begins behind the n slashes at s[i:], and how often
// these are escaped, or depth if that is more. They may be escaped more often than depth only where
// deeper says so; a slash that is escaped more often than the first is the userinfo's.
func afterSlashes(s string, i, depth int, deeper bool) (authority, n, deepest int) {
	for ; i < len(s); n++ {
		c, d, size := unescape(s[i:])
		if !isSlash(c) || d > depth && (n > 0 || !deeper) {
			break
		}
		i, depth = i+size, max(depth, d)
	}
	return i, n, depth
}

// afterUserinfo returns where the host begins in the authority at s[authority:], which is there if
// it has no userinfo, and where it ends. The URL is escaped depth times: what is escaped more often
// is a part of its data, and what is less often, of the URL around it. An authority of nothing but
// userinfo makes the next one the URL's, as in "//user@//other@host". Where the URL is quoted, as
// in the errors of net/url, userinfo may hold what ends a URL elsewhere.
func afterUserinfo(s string, authority, depth int, quoted bool) (host, end int) {
	host = authority
	for end = authority; end < len(s); {
		c, d, size := unescape(s[end:])
		ends := d == 0 && strings.IndexByte(" \t\r\n\"<>", c) >= 0 || d < depth && strings.IndexByte("&#", c) >= 0 ||
			d <= depth && (isSlash(c) || c == '?' || c == '#')
		if quoted && d == 0 {
			if ends = strings.IndexByte(`"/?#`, c) >= 0; c == '\\' && end+1 < len(s) && strings.IndexByte(`\"`, s[end+1]) >= 0 {
				size = 2
			}
		}
		if ends {
			next, n, _ := afterSlashes(s, end, depth, false)
			if host == authority || host < end || n == 0 {
				break
			}
			end = next
			continue
		}
		if end += size; c == '@' && d <= depth {
			host = end
		}
	}
	return host, end
}

// sanitize cuts credentials out of the fields that may mention URLs, and clips what is too long.
// Every sink calls it; what is clean already it leaves as it is.
func (d *Decision) sanitize() {
	for _, text := range [...]*string{&d.URL, &d.Location, &d.Reason, &d.Err} {
		if mayHoldUserinfo(*text) { // most have none; assigning the same string again costs time
			*text = RedactURL(*text)
		}
	}
	if d.Policy != nil {
		d.Policy = d.Policy.clipped()
	}
	clipStrings(unsafe.Pointer(d), bounded)
}

// clipStrings clips the strings of the struct d, of which table has the members.
func clipStrings(d unsafe.Pointer, table []member) {
	for i := range table {
		m := &table[i]
		if m.most == 0 {
			continue
		}
		if s := in[string](d, m); len(*s) > m.most/maxQuoted {
			if kept := clip(*s, m.most); len(kept) != len(*s) {
				*s = kept
			}
		}
	}
}

// Clipped ends a string of a record that was longer than the record has room for.
const Clipped = "[...]"

// maxQuoted is how many bytes of JSON one byte of a string takes at most: "\u0000".
const maxQuoted = 6

// isPlain reports whether s is its own JSON, but for the quotes.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// clip returns s if its JSON takes at most n bytes, or else as much of its beginning as has room
// with Clipped at its end.
func clip(s string, n int) string {
	if len(s) <= n && isPlain(s) {
		return s
	}
	var quoted [2 + 2*maxQuoted]byte // of one character, at most two surrogates
	room := 0                        // how much of s has room together with Clipped
	for i, used := 0, 0; i < len(s); {
		_, size := utf8.DecodeRuneInString(s[i:])
		used += len(appendQuoted(quoted[:0], s[i:i+size])) - len(`""`)
		if used > n {
			return strings.Clone(s[:room]) + Clipped
		}
		if i += size; used <= n-len(Clipped) {
			room = i
		}
	}
	return s
}

// Redacted stands in a record where the value of a query parameter stood.
const Redacted = "REDACTED"

// Redact returns an Evidence that replaces the values of the named query parameters in every URL by
// [Redacted] and passes the record on to next. Names are compared without regard to case, after
// decoding; a name in brackets, or before them, is one as well: "token" is also what token[],
// token[0] and user[token] are called. Use it when URLs carry session ids, tokens or personal data:
//
//	Evidence: evidence.Redact(log, "token", "session_id", "email")
//
// Userinfo in URLs is removed always, without Redact. An auditor leaves the verdict on a URL open
// that Redact has changed, since robots.txt can't be asked about it.
func Redact(next Evidence, params ...string) Evidence {
	return &redactor{passing{next}, slices.Clone(params)}
}

type redactor struct {
	passing
	params []string
}

// Record implements Evidence.
func (r *redactor) Record(ctx context.Context, d Decision) {
	d.sanitize()
	asked := d.URL
	d.URL = r.replace(asked, "")
	d.Location = r.replace(d.Location, "")
	for _, text := range [...]*string{&d.Reason, &d.Err} {
		if d.URL != asked { // the URL's end is hard to find in a text, unless the URL is known
			*text = strings.ReplaceAll(*text, asked, d.URL)
		}
		*text = r.replace(*text, inText)
	}
	r.next.Record(ctx, d)
}

const (
	// These characters end the value of a parameter. A ";" doesn't, though it may start a parameter:
	// most servers take it for data (URL Standard, section 5.1).
	valueEnds = "&#"
	inText    = " \t\r\n\"<>" // these end a URL in a text
)

// replace replaces the parameters' values in s. A value stands between "name=", which follows one
// of ?, &, ; and # (fragments carry tokens too), and one of valueEnds or ends. A URL in a parameter
// of another has its own parameters, escaped: "?next=%2Fa%3Ftoken%3Dx".
func (r *redactor) replace(s, ends string) string {
	var out []byte
	kept := 0 // s[:kept] is in out
	name := 0 // where the name of a parameter may begin, behind what announces it; 0: nowhere
	for i := 0; i < len(s); {
		c, depth, size := unescape(s[i:])
		switch {
		case c == '?' || c == '&' || c == ';' || c == '#':
			name = i + size
		case c == '=' && name > 0 && r.named(s[name:i]):
			i += size
			if end := i + valueEnd(s[i:], depth, ends); end > i {
				out = append(append(out, s[kept:i]...), Redacted...)
				i, kept = end, end
			}
			size = 0
		case c == '=':
			name = 0
		}
		i += size
	}
	if kept == 0 {
		return s
	}
	return string(append(out, s[kept:]...))
}

// valueEnd returns where a value ends at whose beginning s is, and whose "=" was escaped depth
// times: what is escaped more often than that is a part of the value.
func valueEnd(s string, depth int, ends string) int {
	for i := 0; i < len(s); {
		c, deeper, size := unescape(s[i:])
		if deeper == 0 && strings.IndexByte(ends, c) >= 0 || deeper <= depth && strings.IndexByte(valueEnds, c) >= 0 {
			return i
		}
		i += size
	}
	return len(s)
}

// unescape returns the byte that s begins with, how often it is escaped ("%253D" is a "=" that is
// escaped twice), and how many bytes of s it takes.
func unescape(s string) (c byte, depth, size int) {
	if s[0] != '%' {
		return s[0], 0, 1
	}
	for i := 1; i+2 <= len(s); i += len("25") {
		depth++
		if s[i:i+2] == "25" {
			continue
		}
		if b, err := strconv.ParseUint(s[i:i+2], 16, 8); err == nil {
			return byte(b), depth, i + 2
		}
		break
	}
	return '%', 0, 1
}

func (r *redactor) named(name string) bool {
	for range 4 { // a name in a parameter of a parameter is escaped more than once
		plain, err := url.QueryUnescape(name)
		if err != nil || plain == name {
			break
		}
		name = plain
	}
	names := append(strings.FieldsFunc(name, func(c rune) bool { return c == '[' || c == ']' }), name)
	return slices.ContainsFunc(r.params, func(p string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(p, name) })
	})
}
