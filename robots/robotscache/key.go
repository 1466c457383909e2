package robotscache

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-politeness/politeness/internal/hostname"
)

// An origin is the scheme, host and port that one robots.txt binds (RFC 9309, section 2.3), in one
// spelling. originOf allocates nothing for a URL that is spelled that way already.
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
	return u.String() // escapes the percent sign of a zone, and bytes that aren't ASCII
}

// robotsURL returns the URL of the origin's robots.txt (RFC 9309, section 2.3).
func (o origin) robotsURL() *url.URL {
	return &url.URL{Scheme: o.scheme(), Host: o.host, Path: "/robots.txt"}
}

// originOf returns the origin of u, which must be http or https and have a host.
func originOf(u *url.URL) (origin, error) {
	if u == nil {
		return origin{}, errors.New("robotscache: no URL")
	}
	// The comparison with == is the quick one, and nearly always decides.
	o := origin{https: u.Scheme == "https" || strings.EqualFold(u.Scheme, "https")}
	switch {
	case !o.https && u.Scheme != "http" && !strings.EqualFold(u.Scheme, "http"):
		return origin{}, fmt.Errorf("robotscache: scheme %.200q is neither http nor https", u.Scheme)
	case len(u.Host) > hostname.MaxLen:
		// Before the host is brought into its one spelling, which takes time by its length.
		const text = "robotscache: host of %d bytes is longer than the %d that a name may have"
		return origin{}, fmt.Errorf(text, len(u.Host), hostname.MaxLen)
	}
	o.host = hostname.Authority(o.scheme(), u.Host)
	switch {
	case o.host == "":
		return origin{}, fmt.Errorf("robotscache: URL %.200q has no host", u.Redacted())
	case len(o.host) > hostname.MaxLen || !canBeSent(o.host):
		return origin{}, fmt.Errorf("robotscache: %.200q is no host", u.Host)
	}
	return o, nil
}

// canBeSent reports whether a host, in its one spelling, can stand in a URL, and whether its port
// is at most 65535.
func canBeSent(host string) bool {
	name := hostname.WithoutPort(host)
	port := host[len(name):] // with the colon
	// The brackets of an IPv6 address are no part of it.
	if name[0] == '[' && name[len(name)-1] == ']' {
		name = name[1 : len(name)-1]
	}
	for i := range len(name) {
		if name[i] <= ' ' {
			return false
		}
		switch name[i] {
		case '/', '?', '#', '@', '\\', '<', '>', '[', ']', '"', 0x7f: // they would end it
			return false
		}
	}
	// Of five digits the order as text is that of the numbers.
	return len(port) < 6 || (len(port) == 6 && port <= ":65535")
}
