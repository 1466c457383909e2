package robots

import (
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf16"
)

// maxLine is how many bytes of a line are read; the rest of it is ignored. Google's parser
// keeps a buffer of 8 x 2,083 bytes, one of them for the end mark.
const maxLine = 8*2083 - 1

// A kind is the meaning of a line's key to Google's matcher.
type kind uint8

const (
	kindNone kind = iota // blank, comment only, or no "key: value"
	kindUserAgent
	kindAllow
	kindDisallow
	kindSitemap
	kindOther // any other key
)

// A line is one line of the file, taken apart.
type line struct {
	num   int    // from 1
	start int    // where it begins in the text
	next  int    // where the next one begins
	kind  kind   // of key
	text  string // up to a NUL, without comment and surrounding white space: the rule as written
	key   string
	value string // trimmed, not escaped
	over  bool   // longer than maxLine
	colon bool   // key and value are separated by a colon, not by white space
}

// A lexer takes a text apart line by line, in one pass. Lines end with CR, LF or CRLF. The next
// CR and LF are remembered, so that a file of one kind of line ending isn't searched again and
// again for the other.
type lexer struct {
	text   string
	pos    int
	num    int
	lf, cr int  // next of each at or after pos; len(text) for none
	more   bool // whether another line follows; the text after the last line end is a line, even if empty
}

// lex starts a lexer at a line's beginning, start, the line before it being numbered num.
func lex(text string, start, num int) lexer {
	return lexer{text: text, pos: start, num: num, lf: start - 1, cr: start - 1, more: true}
}

// fromUTF16 returns body in UTF-8, also if it begins with a byte order mark or a "<" of UTF-16.
func fromUTF16(body []byte) []byte {
	var order binary.ByteOrder
	switch string(body[:min(2, len(body))]) {
	case "\xfe\xff", "\x00<":
		order = binary.BigEndian
	case "\xff\xfe", "<\x00":
		order = binary.LittleEndian
	default:
		return body
	}
	units := make([]uint16, len(body)/2)
	for i := range units {
		units[i] = order.Uint16(body[2*i:]) // an odd last byte is half a character
	}
	// A byte order mark stays, as one of UTF-8, which the lexer skips.
	return []byte(string(utf16.Decode(units)))
}

// bom returns the length of the byte order mark that Google's parser skips at the beginning of a
// file: any prefix of the mark.
func bom(text string) int {
	const mark = "\xef\xbb\xbf"
	n := 0
	for n < len(mark) && n < len(text) && text[n] == mark[n] {
		n++
	}
	return n
}

// find returns the index of the next c, len(x.text) for none. The one found before was at last.
func (x *lexer) find(c byte, last int) int {
	if last >= x.pos {
		return last // it is still ahead
	}
	i := strings.IndexByte(x.text[x.pos:], c)
	if i < 0 {
		return len(x.text)
	}
	return x.pos + i
}

// next reads one line into l and reports whether there was one.
func (x *lexer) next(l *line) bool {
	if !x.more {
		return false
	}
	x.lf = x.find('\n', x.lf)
	x.cr = x.find('\r', x.cr)
	end := min(x.lf, x.cr)
	next := end + 1
	if x.cr+1 == x.lf {
		next++ // the LF of a CRLF
	}
	x.more = end < len(x.text) // a line end was found, so a line follows
	x.num++
	*l = line{num: x.num, start: x.pos, next: min(next, len(x.text))}
	raw := x.text[x.pos:end]
	x.pos = l.next
	if len(raw) > maxLine {
		raw = raw[:maxLine]
		l.over = true
	}
	l.split(raw)
	return true
}

// split finds key and value in a line without its end.
func (l *line) split(raw string) {
	if len(raw) == 0 {
		return
	}
	raw, _, _ = strings.Cut(raw, "\x00") // Google's parser has C strings, which end there
	raw, _, _ = strings.Cut(raw, "#")
	raw = trim(raw)
	l.text = raw
	key, value, colon := strings.Cut(raw, ":")
	if !colon {
		// A forgotten colon: exactly two words, separated by spaces or tabs. (VT and FF are
		// white space to trim, but don't separate.)
		key = leading(raw, isNoBlank)
		value = strings.TrimLeft(raw[len(key):], " \t")
		if value == "" || strings.ContainsAny(value, " \t") {
			return
		}
	}
	l.colon = colon
	key = trim(key)
	if key == "" {
		return
	}
	l.key = key
	l.value = trim(value)
	l.kind = kindOf(key)
}

// isNoBlank reports whether c is neither a space nor a tab.
func isNoBlank(c byte) bool { return c != ' ' && c != '\t' }

// isSpace reports whether c is ASCII white space, as C's isspace has it.
func isSpace(c byte) bool { return c == ' ' || ('\t' <= c && c <= '\r') }

// trim cuts ASCII white space at both ends; Unicode's stays.
func trim(s string) string {
	for len(s) > 0 && isSpace(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

// kinds are the keys that count, each by prefix: "Allowance" allows. All but the first of a kind
// are typos common enough for Google to read them.
var kinds = []struct {
	kind kind
	keys []string
}{
	{kindDisallow, []string{"disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"}},
	{kindAllow, []string{"allow"}},
	{kindUserAgent, []string{"user-agent", "useragent", "user agent"}},
	{kindSitemap, []string{"sitemap", "site-map"}},
}

// kindOf classifies a key.
func kindOf(key string) kind {
	for _, k := range kinds {
		if hasAnyPrefix(key, k.keys) {
			return k.kind
		}
	}
	return kindOther
}

func hasAnyPrefix(s string, lower []string) bool {
	return slices.ContainsFunc(lower, func(p string) bool { return len(s) >= len(p) && equalFold(s[:len(p)], p) })
}

// equalFold reports whether a and b, one of which is ASCII, are equal but for case: "ſ" isn't "s",
// as it has two bytes.
func equalFold(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }
