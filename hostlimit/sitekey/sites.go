package rules

import (
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/go-politeness/politeness/internal/hostname"
)

// Site returns the site of key, whose requests in flight [hostlimit.Config.PerSite] bounds. key is
// the result of Transport.HostKey: a host, perhaps with a port. The site is the registrable domain
// by the public suffix list with its private part, so that two users of github.io have two sites. A
// name without a registrable domain is its own site, and so is an address, in whatever spelling.
// The port makes no difference.
func Site(key string) string {
	if _, err := netip.ParseAddr(key); err == nil { // IPv6 without brackets has no port
		return key
	}
	name := hostname.WithoutPort(key)
	if strings.HasPrefix(name, "[") {
		return name
	}
	if hostname.EndsInNumber(name) {
		if address, ok := hostname.ParseIPv4(name); ok {
			return address.String()
		}
		return name
	}
	site, err := publicsuffix.EffectiveTLDPlusOne(name)
	if err != nil {
		return name
	}
	return site
}
