package politeness

import (
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

// ByHost is the Config.HostKey that nil stands for: the host of the URL in one spelling, with its
// port unless that is 80 or 443. Use it in a function of your own for the hosts that need no rule,
// and in a program that compares hosts with a limiter's keys.
func ByHost(req *http.Request) string { return hostname.Key(req.URL.Host) }
