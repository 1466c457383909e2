package politeness

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/go-politeness/politeness/internal/hostname"
)

// BySite is a Config.HostKey that counts by registrable domain of the public suffix list:
// www.example.co.uk and img.example.co.uk share their slots, delay and blocks as example.co.uk,
// while two users of github.io do not. Use it where many names are served by one machine or one
// owner. Ports are left out. An IP address is its own site, and so is a name without a registrable
// domain: localhost, a public suffix itself, a name that no DNS could hold.
func BySite(req *http.Request) string {
	u := url.URL{Host: hostname.Key(req.URL.Host)}
	name := u.Hostname()
	if strings.Contains(name, ":") {
		return "[" + name + "]"
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return name
	}
	if site, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return site
	}
	return name
}

// byHost is the Config.HostKey that nil stands for.
func byHost(req *http.Request) string { return hostname.Key(req.URL.Host) }

// maxTarget bounds the path and query of a URL: a redirect may be megabytes long, and servers take
// no more than 8 to 32 KiB (RFC 9110, section 4.1, asks them to take 8,000 bytes).
const maxTarget = 64 << 10

// checkURL says what keeps u from being fetched, before anything is sent.
func checkURL(u *url.URL) error {
	switch {
	case u == nil:
		return errors.New("no URL")
	case u.Scheme == "":
		return errors.New("a URL begins with https:// or http://")
	case !strings.EqualFold(u.Scheme, "https") && !strings.EqualFold(u.Scheme, "http"):
		return fmt.Errorf("scheme %q is neither http nor https", u.Scheme)
	case len(u.Host) > hostname.MaxLen:
		return fmt.Errorf("host of %d bytes is longer than the %d that a name may have", len(u.Host), hostname.MaxLen)
	case max(len(u.Path), len(u.Opaque))+len(u.RawQuery) > maxTarget:
		return fmt.Errorf("path and query are longer than %d bytes", maxTarget)
	case hostname.Key(u.Host) == "":
		return fmt.Errorf("URL %q has no host", redact(u))
	case u.Opaque != "" && (!strings.HasPrefix(u.Opaque, "/") || strings.HasPrefix(u.Opaque, "//")),
		u.Opaque == "" && !(rooted(u.Path) && rooted(u.RawPath) || u.Path == "*"):
		return fmt.Errorf("URL %q has no path that begins with a slash", redact(u))
	}
	return nil
}

// rooted reports whether path is none, or begins with a slash.
func rooted(path string) bool { return path == "" || path[0] == '/' }

// clip keeps what an error message quotes readable.
func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}
