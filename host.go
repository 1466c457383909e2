package politeness

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/go-politeness/politeness/internal/hostname"
)

// BySite is a Config.HostKey that counts by registrable domain of the public suffix list. For
// example, www.example.co.uk and img.example.co.uk share the slots, delay and blocks of
// example.co.uk. Two users of github.io don't share theirs. Use it if many names are served by one
// machine or one owner. Ports are left out. An IP address is its own site. So is a name without a
// registrable domain, such as localhost, a public suffix itself, or a name that no DNS could have.
func BySite(req *http.Request) string {
	u := url.URL{Host: hostname.Key(req.URL.Host)}
	name := u.Hostname()
	if strings.Contains(name, ":") {
		return "[" + name + "]"
	}
	// Package publicsuffix takes the last numbers of an address for a domain.
	if _, err := netip.ParseAddr(name); err == nil {
		return name
	}
	site, err := publicsuffix.EffectiveTLDPlusOne(name)
	if err != nil {
		return name
	}
	return site
}

// ByHost is the default of Config.HostKey. It returns the host of the URL in one spelling, with its
// port unless the port is 80 or 443. If you write a Config.HostKey, call ByHost for the hosts that
// you don't treat specially. Call it also to compare a host with the keys of a limiter.
func ByHost(req *http.Request) string { return hostname.Key(req.URL.Host) }
