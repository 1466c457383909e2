package crawl

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-politeness/politeness/internal/hostname"
)

// Normalize returns rawURL in the one spelling by which a crawl knows it: scheme and host in lower
// case, the host in punycode and without the scheme's own port and a final dot, no userinfo and no
// fragment, no dot segments, escapes in upper case, none where a letter, a digit or one of -._~
// needs none, and one for each byte that needs one. The query's order, and a final slash, are left
// as they are: they make a difference. The error is why rawURL can't be fetched.
func Normalize(rawURL string) (string, error) {
	rawURL = strings.TrimSpace(rawURL)
	u, err := url.Parse(rawURL)
	if err != nil && strings.Contains(rawURL, "://") {
		return "", err
	}
	if err != nil || u.Scheme == "" || isPort(u.Opaque) { // localhost:8080 looks like a scheme
		return "", errors.New("a URL begins with https:// or http://")
	}
	return normal(u)
}

// isPort reports whether the opaque part of a URL begins with a digit.
func isPort(opaque string) bool {
	return opaque != "" && opaque[0] >= '0' && opaque[0] <= '9'
}

// normal is Normalize for a URL that has been parsed.
func normal(u *url.URL) (string, error) {
	scheme := strings.ToLower(u.Scheme)
	host := hostname.Authority(scheme, hostname.ASCII(u.Host))
	switch {
	case scheme != "http" && scheme != "https":
		return "", fmt.Errorf("scheme %q is neither http nor https", u.Scheme)
	case u.Opaque != "" || host == "":
		return "", errors.New("a URL needs a host")
	case strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", fmt.Errorf("%q is no name of a host", host)
	}
	host = strings.ReplaceAll(host, "%", "%25") // in the zone of an IPv6 address
	var b strings.Builder
	// Room for all but escapes: most URLs need none, and are one allocation.
	b.Grow(len(scheme) + len(host) + len(u.Path) + len(u.RawQuery) + 8)
	b.WriteString(scheme)
	b.WriteString("://")
	b.WriteString(host)
	escape(&b, withoutDots(u.EscapedPath()))
	if u.RawQuery != "" {
		b.WriteByte('?')
		escape(&b, u.RawQuery)
	}
	return b.String(), nil
}

// withoutDots removes the dot segments of a path (RFC 3986, section 5.2.4), those that are escaped
// too.
func withoutDots(path string) string {
	if path == "" {
		return "/"
	}
	if !strings.Contains(path, "/.") && !strings.Contains(path, "/%2") {
		return path
	}
	var kept []string
	unescaped := strings.NewReplacer("%2e", ".", "%2E", ".")
	segments := strings.Split(path, "/")[1:]
	for i, s := range segments {
		last := i == len(segments)-1
		switch unescaped.Replace(s) {
		case ".":
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		default:
			kept = append(kept, s)
			continue
		}
		if last {
			kept = append(kept, "") // "/a/.." is a directory: "/"
		}
	}
	return "/" + strings.Join(kept, "/")
}

// escape writes s with an escape for each character that needs one, and for no other. A digit also
// keeps the one that it has where it would make an escape of a percent sign that is none, as in
// "%%632".
func escape(b *strings.Builder, s string) {
	const digits = "0123456789ABCDEF"
	bare := -3 // where the last percent sign that begins no escape was written
	for i := 0; i < len(s); i++ {
		c := s[i]
		isEscaped := needsEscape(c)
		unescaped, ok := unescape(s, i)
		switch {
		case ok:
			// After a bare percent sign, and a digit or none, a digit would end an escape.
			endsEscape := unhex(unescaped) >= 0 && b.Len()-bare <= 2
			isEscaped = !unreserved(unescaped) || endsEscape
			c = unescaped
			i += 2
		case c == '%':
			bare = b.Len()
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

// needsEscape reports whether c mustn't stand in a URL as it is.
func needsEscape(c byte) bool {
	return c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0
}

// unescape returns the byte for which the escape at s[i] stands; ok is false if none begins there.
func unescape(s string, i int) (c byte, ok bool) {
	if s[i] != '%' || i+2 >= len(s) {
		return 0, false
	}
	hi := unhex(s[i+1])
	lo := unhex(s[i+2])
	return byte(hi<<4 | lo), hi >= 0 && lo >= 0
}

// unhex returns the value of a hexadecimal digit; -1: c is none.
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
