package politenesstest

import (
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// The library has a package that spells hosts. It isn't used here: if the limiter took two
// spellings of a host for two hosts, a checker with the same code would do so too, and find nothing
// wrong. What follows is written from what net/http dials and the DNS compares.

// originOf returns the origin of u in one spelling: without the port of its scheme.
func originOf(u *url.URL) string {
	name, port := nameAndPort(u)
	if port == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		port = ""
	}
	return u.Scheme + "://" + join(name, port)
}

// machineOf returns the host of u in one spelling, by which requests are one machine's: http and
// https are, and so are an IPv4 address and the IPv6 address that it is mapped to.
func machineOf(u *url.URL) string {
	name, port := nameAndPort(u)
	if ip, err := netip.ParseAddr(name); err == nil && ip.Zone() == "" {
		name = ip.Unmap().String()
	}
	if port == "80" || port == "443" {
		port = ""
	}
	return join(name, port)
}

// siteOf returns the registrable domain of the host of u, by the public suffix list with its
// private part. An address is its own site, and so is a name without a registrable domain.
func siteOf(u *url.URL) string {
	name, _ := nameAndPort(u)
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.Unmap().String()
	}
	site, err := publicsuffix.EffectiveTLDPlusOne(name)
	if err != nil {
		return name
	}
	return site
}

// targetOf returns the origin and the target of a request for u, in one spelling.
func targetOf(u *url.URL) string { return originOf(u) + u.RequestURI() }

// nameAndPort splits the host of u. Names are in punycode and lower case, without the final dot of
// the DNS; addresses are as RFC 5952 writes them; ports have no leading zeros.
func nameAndPort(u *url.URL) (name, port string) {
	name = u.Hostname()
	port = strings.TrimLeft(u.Port(), "0")
	if port == "" && u.Port() != "" { // nothing but zeros
		port = "0"
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		if ascii, err := idna.Lookup.ToASCII(name); err == nil {
			name = ascii // where there is none, net/http sends the name as it is
		}
	}
	if ip, err := netip.ParseAddr(name); err == nil && ip.Is6() {
		return ip.String(), port
	}
	lower := strings.Map(func(r rune) rune { // the DNS knows no case but that of ASCII
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, name)
	return strings.TrimRight(lower, "."), port
}

// join puts together what nameAndPort has split.
func join(name, port string) string {
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if port != "" {
		name += ":" + port
	}
	return name
}
