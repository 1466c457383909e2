package robotscache

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// An origin is what one robots.txt binds (RFC 9309, section 2.3): scheme, host
// and port, in one spelling. It is comparable, and made without allocating from
// a URL that is spelled that way already.
type origin struct {
	host  string // lower case, IDN as punycode, no final dot; with the port unless it is the scheme's default
	https bool
}

// maxHost is the longest name that DNS carries (RFC 1035, section 2.3.4) with a
// port. Longer ones can't be anybody's, and would be kept as keys.
const maxHost = 253 + len(":65535")

func (o origin) scheme() string {
	if o.https {
		return "https"
	}
	return "http"
}

func (o origin) String() string { return o.scheme() + "://" + o.host }

// robotsURL is where the origin's rules are (RFC 9309, section 2.3).
func (o origin) robotsURL() *url.URL {
	return &url.URL{Scheme: o.scheme(), Host: o.host, Path: "/robots.txt"}
}

// clone returns o with a host that pins nothing: URL.Host is a part of the URL's
// whole text.
func (o origin) clone() origin {
	o.host = strings.Clone(o.host)
	return o
}

// originOf names the origin of u, which must be http or https and have a host.
func originOf(u *url.URL) (origin, error) {
	if u == nil {
		return origin{}, errors.New("robotscache: no URL")
	}
	if https := u.Scheme == "https"; https || u.Scheme == "http" {
		if host, ok := plainHost(u.Host, https); ok {
			return origin{host, https}, nil
		}
	}
	return normalOrigin(u)
}

// plainHost returns host without a default port, if it is spelled as an origin
// spells it, as nearly every host is.
func plainHost(host string, https bool) (plain string, ok bool) {
	end := len(host) // of the name
	i := 0
	if strings.HasPrefix(host, "[") { // IPv6
		colons := 0
		for i = 1; i < len(host) && host[i] != ']'; i++ {
			if c := host[i]; c == ':' {
				colons++
			} else if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || c == '.') {
				return "", false
			}
		}
		if i++; colons == 0 || i > len(host) || i < len(host) && host[i] != ':' {
			return "", false
		}
	}
	for ; i < len(host); i++ {
		c := host[i]
		if c == ':' {
			end = i
			break
		}
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_') {
			return "", false
		}
	}
	if end == 0 || len(host) > maxHost || host[end-1] == '.' {
		return "", false
	}
	if end == len(host) {
		return host, true
	}
	port := host[end+1:]
	for i := range len(port) {
		if c := port[i]; c < '0' || c > '9' {
			return "", false
		}
	}
	switch {
	case port == defaultPort(https):
		return host[:end], true
	case port == "", port[0] == '0', len(port) > 5, len(port) == 5 && port > "65535":
		return "", false
	}
	return host, true
}

func defaultPort(https bool) string {
	if https {
		return "443"
	}
	return "80"
}

// normalOrigin is originOf for any spelling.
func normalOrigin(u *url.URL) (origin, error) {
	https := strings.EqualFold(u.Scheme, "https")
	if !https && !strings.EqualFold(u.Scheme, "http") {
		return origin{}, fmt.Errorf("robotscache: scheme %q is neither http nor https", clip(u.Scheme))
	}
	name := strings.ToLower(u.Hostname())
	if strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 }) {
		// A name that IDNA can't map is kept as it is: DNS decides then.
		if ascii, err := idna.Lookup.ToASCII(name); err == nil {
			name = ascii
		}
	}
	name = strings.TrimSuffix(name, ".")
	if name == "" {
		return origin{}, fmt.Errorf("robotscache: URL %q has no host", clip(u.Redacted()))
	}
	if strings.HasSuffix(name, ".") || strings.ContainsFunc(name, noHost) {
		return origin{}, fmt.Errorf("robotscache: %q is no host", clip(u.Host))
	}
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if port := strings.TrimLeft(u.Port(), "0"); port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return origin{}, fmt.Errorf("robotscache: %q is no port", clip(port))
		}
		if port != defaultPort(https) {
			name += ":" + port
		}
	}
	if len(name) > maxHost {
		return origin{}, fmt.Errorf("robotscache: host of %d bytes is longer than the %d that a name may have", len(name), maxHost)
	}
	return origin{name, https}, nil
}

// noHost reports whether r would end a host in a URL, or is nothing to be sent.
func noHost(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune(`/?#@\<>[]"`, r)
}

// clip keeps what a message quotes readable.
func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "..."
	}
	return s
}
