// Package sitekey finds the site of a host, as [hostlimit.Config.PerSite] counts.
//
// It is a separate package, because the public suffix list that it reads depends on net/http. Use
// it in your own limiter, or to count by sites as the limiters here do.
package sitekey

import (
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/go-politeness/politeness/internal/hostname"
)

// Of returns the site of key, whose requests in flight [hostlimit.Config.PerSite] bounds. The key
// is the result of Transport.HostKey, a host with or without a port. The site is the registrable
// domain by the public suffix list with its private part, so that two users of github.io have two
// sites. A name without a registrable domain is its own site, and so is an address, in any
// spelling. The port makes no difference.
func Of(key string) string {
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

// List returns the revision of the public suffix list that [Of] reads, such as "d6c92f1bbb74". Two
// programs with the same list find the same sites. Policy records have it, so that an auditor knows
// whether its own list is the crawler's.
func List() string {
	version := publicsuffix.List.String()
	_, revision, ok := strings.Cut(version, "git revision ")
	if !ok {
		revision = version
	}
	return revision[:min(len(revision), 12)]
}
