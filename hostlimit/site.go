package hostlimit

import (
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// BySite returns the registrable domain of u's host by the public suffix list,
// for politeness.Config.HostKey: www.example.co.uk and img.example.co.uk share
// their slots, delay and blocks as example.co.uk, while two users of github.io
// do not. Use it where many names are served by one machine or one owner. See
// [Site] for what has no registrable domain.
func BySite(u *url.URL) string { return Site(u.Host) }

// Site is BySite for a host or a host key, with or without a port, which is
// dropped. Names are lower-cased and given as punycode. An IP address is its own
// site, and so is a name without a registrable domain: localhost, a public suffix
// itself, a name that no DNS could hold.
func Site(host string) string {
	name := host
	if i := strings.LastIndexByte(name, ':'); i >= 0 && strings.Trim(name[i+1:], "0123456789") == "" &&
		(strings.HasSuffix(name[:i], "]") || strings.IndexByte(name, ':') == i) {
		name = name[:i]
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if ip, err := netip.ParseAddr(bare); err == nil {
		if ip = ip.Unmap(); ip.Is6() {
			return "[" + ip.String() + "]"
		}
		return ip.String()
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if ascii, err := idna.Lookup.ToASCII(name); err == nil {
		name = ascii
	}
	if site, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return site
	}
	return name
}
