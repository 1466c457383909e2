package robotscache

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-politeness/politeness/internal/hostname"
)

// An origin is what one robots.txt binds (RFC 9309, section 2.3): scheme, host
// and port, in one spelling. It is comparable, and made without allocating from
// a URL that is spelled that way already.
type origin struct {
	host  string // with the port unless it is the scheme's default
	https bool
}

func (o origin) scheme() string {
	if o.https {
		return "https"
	}
	return "http"
}

func (o origin) String() string {
	u := url.URL{Scheme: o.scheme(), Host: o.host}
	return u.String() // escapes what is no ASCII, and the percent sign of a zone
}

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
	o := origin{https: u.Scheme == "https" || strings.EqualFold(u.Scheme, "https")}
	switch {
	case !o.https && u.Scheme != "http" && !strings.EqualFold(u.Scheme, "http"):
		return origin{}, fmt.Errorf("robotscache: scheme %q is neither http nor https", clip(u.Scheme))
	case len(u.Host) > hostname.MaxLen:
		return origin{}, fmt.Errorf("robotscache: host of %d bytes is longer than the %d that a name may have", len(u.Host), hostname.MaxLen)
	}
	o.host = hostname.Authority(o.scheme(), u.Host)
	spelled := url.URL{Host: o.host}
	switch port := spelled.Port(); {
	case o.host == "":
		return origin{}, fmt.Errorf("robotscache: URL %q has no host", clip(u.Redacted()))
	case len(o.host) > hostname.MaxLen || !isHost(spelled.Hostname()):
		return origin{}, fmt.Errorf("robotscache: %q is no host", clip(u.Host))
	case len(port) > 5 || len(port) == 5 && port > "65535":
		return origin{}, fmt.Errorf("robotscache: %q is no port", clip(port))
	}
	return o, nil
}

// isHost reports whether name holds nothing that would end a host in a URL, or can't be sent.
func isHost(name string) bool {
	for i := range len(name) {
		switch c := name[i]; c {
		case '/', '?', '#', '@', '\\', '<', '>', '[', ']', '"', 0x7f:
			return false
		default:
			if c <= ' ' {
				return false
			}
		}
	}
	return true
}

// clip keeps what a message quotes readable.
func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "..."
	}
	return s
}
