package politeness

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/idna"
)

// maxHost is the longest name that DNS carries (RFC 1035, section 2.3.4), with
// room for a port. Longer hosts can't be anybody's, and would be kept as keys.
const maxHost = 253 + len(":65535")

// checkURL says what keeps u from being fetched, before anything is sent.
func checkURL(u *url.URL) error {
	switch {
	case u == nil:
		return errors.New("no URL")
	case u.Scheme != "https" && u.Scheme != "http" && !strings.EqualFold(u.Scheme, "http") && !strings.EqualFold(u.Scheme, "https"):
		return fmt.Errorf("scheme %q is neither http nor https", u.Scheme)
	case u.Host == "" || (u.Host[0] == ':' || u.Host[0] == '[') && u.Hostname() == "":
		return fmt.Errorf("URL %q has no host", redact(u))
	case u.Opaque != "" && (u.Opaque[0] != '/' || strings.HasPrefix(u.Opaque, "//")), u.Opaque == "" && u.Path != "" && u.Path != "*" && u.Path[0] != '/':
		return fmt.Errorf("URL %q has no path that begins with a slash", redact(u))
	case len(u.Host) > maxHost:
		return fmt.Errorf("host of %d bytes is longer than the %d that a name may have", len(u.Host), maxHost)
	}
	return nil
}

// clip keeps what an error message quotes readable.
func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}

// byHost is the host key when Config.HostKey is nil: the URL's host in lower
// case, as punycode, without the scheme's default port, without a final dot and
// without leading zeros in the port.
func byHost(u *url.URL) string {
	host := u.Host
	if !plainHost(host) {
		host = normalHost(u)
	}
	switch {
	case strings.HasSuffix(host, ":80") && strings.EqualFold(u.Scheme, "http"):
		host = host[:len(host)-len(":80")]
	case strings.HasSuffix(host, ":443") && strings.EqualFold(u.Scheme, "https"):
		host = host[:len(host)-len(":443")]
	}
	return strings.TrimSuffix(host, ".")
}

// plainHost reports whether host is in lower-case ASCII already, and its port, if
// it has one, without leading zeros, as nearly every host is: then the key costs no
// allocation.
func plainHost(host string) bool {
	colon := false
	for i := range len(host) {
		switch c := host[i]; {
		case c >= 0x80, 'A' <= c && c <= 'Z', c == '%', c == '[':
			return false
		case c == ':':
			colon = true
		}
	}
	return !colon || !strings.HasSuffix(host, ":") && !strings.Contains(host, ".:") && !strings.Contains(host, ":0")
}

func normalHost(u *url.URL) string {
	name, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), strings.TrimLeft(u.Port(), "0")
	// A name that IDNA can't map is kept as it is: DNS decides then.
	if ascii, err := idna.Lookup.ToASCII(name); err == nil {
		name = ascii
	}
	if strings.Contains(name, ":") {
		if ip, err := netip.ParseAddr(name); err == nil {
			name = ip.String() // an IPv6 address has many spellings
		}
		name = "[" + name + "]"
	}
	if port != "" {
		name += ":" + port
	}
	return name
}
