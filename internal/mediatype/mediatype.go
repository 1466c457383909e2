// Package mediatype reads media types and matches them (RFC 9110, sections 8.3.1 and 12.5.1).
package mediatype

import (
	"fmt"
	"iter"
	"strings"
)

// Range checks a media type, perhaps with wildcards (RFC 9110, section 12.5.1).
func Range(s string) (string, error) {
	typ, sub, ok := strings.Cut(strings.ToLower(strings.TrimSpace(s)), "/")
	isName := typ != "" && sub != "" && !strings.ContainsAny(typ+sub, " \t;,/")
	isWild := typ == "*" && sub != "*" // */html is no range
	if !ok || !isName || isWild {
		return "", fmt.Errorf("%q is not a media type such as text/html, text/* or */*", s)
	}
	return typ + "/" + sub, nil
}

// Match reports whether one of patterns, each a result of Range, matches mediaType, a result of Of.
func Match(patterns []string, mediaType string) bool {
	typ, _, _ := strings.Cut(mediaType, "/")
	for _, p := range patterns {
		if p == mediaType || p == "*/*" || p == typ+"/*" {
			return true
		}
	}
	return false
}

// Of returns the media type of a Content-Type in lower case, as well as it can be read.
func Of(contentType string) string {
	if contentType == "" {
		return "application/octet-stream"
	}
	mediaType := contentType
	if i := strings.IndexAny(mediaType, ";,"); i >= 0 { // a comma: two fields that became one on the way
		mediaType = mediaType[:i]
	}
	return strings.ToLower(strings.TrimSpace(mediaType))
}

// A Page has what the Content-Type of a page says, as browsers read it (Fetch, section 2.2.2,
// extract a MIME type).
type Page struct {
	Type    string // in lower case, without parameters; empty: none that says something
	Charset string // as written; empty: not stated
}

// OfPage reads the Content-Type fields of a page. Of several types, also in one field, the last one
// counts. It has the charset of an earlier one of the same type if it has none.
func OfPage(fields []string) Page {
	var page Page
	isValid := false
	for part := range elements(strings.Join(fields, ",")) {
		mediaType, charset, ok := parse(part)
		if !ok || mediaType == "*/*" {
			continue
		}
		isValid = true
		if charset == "" && mediaType == page.Type {
			charset = page.Charset
		}
		page = Page{Type: mediaType, Charset: charset}
	}
	if !isValid && len(fields) > 0 {
		// Such as "text/html charset=utf-8", which browsers guess to be HTML.
		page.Type = strings.ToLower(strings.TrimSpace(fields[0]))
		if i := strings.IndexAny(page.Type, ";, \t"); i >= 0 {
			page.Type = page.Type[:i]
		}
		page.Type = strings.TrimPrefix(page.Type, "*/*")
	}
	return page
}

// elements yields the parts of a field between its commas, but for those in quotes.
func elements(field string) iter.Seq[string] {
	return func(yield func(string) bool) {
		isQuoted := false
		start := 0
		for i := range len(field) {
			switch {
			case field[i] == '"' && (i == 0 || field[i-1] != '\\'):
				isQuoted = !isQuoted
			case field[i] == ',' && !isQuoted:
				if !yield(field[start:i]) {
					return
				}
				start = i + 1
			}
		}
		yield(field[start:])
	}
}

// parse reads a media type (MIME Sniffing, section 4.4). Of its parameters the first charset
// counts; what is none is passed over.
func parse(s string) (mediaType, charset string, ok bool) {
	essence, parameters, _ := strings.Cut(s, ";")
	mediaType = strings.ToLower(strings.Trim(essence, " \t\r\n"))
	typ, sub, hasSlash := strings.Cut(mediaType, "/")
	if !hasSlash || !isToken(typ) || !isToken(sub) {
		return "", "", false
	}
	for parameters != "" {
		var name, value string
		name, value, parameters = parameter(parameters)
		if name == "charset" && value != "" {
			return mediaType, value, true
		}
	}
	return mediaType, "", true
}

// parameter cuts the first parameter off, with its name in lower case.
func parameter(s string) (name, value, rest string) {
	s = strings.TrimLeft(s, " \t\r\n")
	end := strings.IndexAny(s, ";=")
	if end < 0 {
		return "", "", ""
	}
	name = strings.ToLower(s[:end])
	if s[end] == ';' {
		return name, "", s[end+1:]
	}
	s = s[end+1:]
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, ";")
		return name, strings.TrimRight(value, " \t\r\n"), rest
	}
	var b strings.Builder
	i := 1
	for ; i < len(s) && s[i] != '"'; i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	_, rest, _ = strings.Cut(s[min(i, len(s)):], ";")
	return name, b.String(), rest
}

// isToken reports whether s is a token (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		isLetter := 'a' <= c|0x20 && c|0x20 <= 'z'
		isDigit := '0' <= c && c <= '9'
		if !isLetter && !isDigit && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
