package crawl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-politeness/politeness/internal/hostname"
	"github.com/go-politeness/politeness/internal/weblink"
)

// Normalize returns rawURL in the one spelling by which a crawl knows it. Scheme and host are in
// lower case. The host is in punycode, without the scheme's own port and a final dot. There is no
// userinfo, no fragment and no dot segment. Escapes are in upper case. Only a byte that needs an
// escape has one. The query's order, and a final slash, are left as they are, because they make a
// difference. The URL is read as browsers read it, by the URL standard
// (https://url.spec.whatwg.org). The error is why rawURL can't be fetched.
func Normalize(rawURL string) (string, error) {
	u, err := weblink.ParseURL(nil, rawURL)
	other, ok := errors.AsType[*weblink.SchemeError](err)
	if ok && startsWithDigit(other.Rest) { // localhost:8080 looks like a scheme
		err = weblink.ErrRelative
	}
	if err != nil {
		return "", err
	}
	return normal(&u)
}

func startsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// normal is Normalize for a URL that has been parsed.
func normal(u *weblink.URL) (string, error) {
	host := hostname.Authority(u.Scheme, u.Host)
	switch {
	case host == "": // nothing but dots
		return "", errors.New("a URL needs a host")
	case strings.Contains(u.Host, ".."): // an empty label, which no name has
		return "", fmt.Errorf("%q is no name of a host", u.Host)
	}
	host = strings.ReplaceAll(host, "%", "%25") // in the zone of an IPv6 address
	var b strings.Builder
	// Room for all but escapes: most URLs need none, and are one allocation.
	b.Grow(len(u.Scheme) + len(host) + len(u.Path) + len(u.Query) + 8)
	b.WriteString(u.Scheme)
	b.WriteString("://")
	b.WriteString(host)
	escape(&b, u.Path, false)
	if u.Query != "" {
		b.WriteByte('?')
		escape(&b, u.Query, true)
	}
	return b.String(), nil
}

// escape writes a path or a query with an escape for each character that needs one, and for no
// other. A digit also keeps its escape if the bare digit would turn a percent sign that begins no
// escape into one, as in "%%632". In a path such a percent sign is escaped: net/url takes no other.
func escape(b *strings.Builder, s string, isQuery bool) {
	const digits = "0123456789ABCDEF"
	bare := -3 // where the last percent sign that begins no escape was written
	for i := 0; i < len(s); i++ {
		c := s[i]
		isEscaped := weblink.NeedsEscape(c, isQuery)
		unescaped, ok := unescape(s, i)
		switch {
		case ok:
			// After a bare percent sign, and a digit or none, a digit would end an escape.
			endsEscape := unhex(unescaped) >= 0 && b.Len()-bare <= 2
			isEscaped = !unreserved(unescaped) || endsEscape
			c = unescaped
			i += 2
		case c == '%' && isQuery:
			bare = b.Len()
		case c == '%':
			isEscaped = true
		}
		if !isEscaped {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
}

// unescape returns the byte of the escape at s[i]. ok is false if no escape begins there.
func unescape(s string, i int) (c byte, ok bool) {
	if s[i] != '%' || i+2 >= len(s) {
		return 0, false
	}
	hi := unhex(s[i+1])
	lo := unhex(s[i+2])
	return byte(hi<<4 | lo), hi >= 0 && lo >= 0
}

// unhex returns the value of a hexadecimal digit, or -1 if c is none.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c - 'a' + 10)
	case 'A' <= c && c <= 'F':
		return int(c - 'A' + 10)
	}
	return -1
}

// unreserved reports whether c needs no escape anywhere in a URL (RFC 3986, section 2.3).
func unreserved(c byte) bool {
	isLetter := ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z')
	isDigit := '0' <= c && c <= '9'
	return isLetter || isDigit || strings.IndexByte("-._~", c) >= 0
}
