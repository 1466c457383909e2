// Package hostname compares hosts as a limiter and an auditor do: by their key, politeness.ByHost.
package hostname

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/go-politeness/politeness"
)

// Key returns the key of host, which is a URL.Host.
func Key(host string) string {
	return politeness.ByHost(&http.Request{URL: &url.URL{Host: host}})
}

// Within reports whether host, a URL.Host, is the given site or a name below it. A site without a
// port has every port.
func Within(host, site string) bool {
	site = Key(site)
	if site == "" {
		return false
	}
	key := Key(host)
	// The key is compared too, for a site with a port.
	return isOrBelow(key, site) || isOrBelow(withoutPort(key), site)
}

// isOrBelow reports whether name is site or a name below it.
func isOrBelow(name, site string) bool {
	rest, ok := strings.CutSuffix(name, site)
	return ok && (rest == "" || strings.HasSuffix(rest, "."))
}

// withoutPort returns the name of a host that is spelled as a key.
func withoutPort(key string) string {
	colon := strings.LastIndexByte(key, ':')
	if colon < 0 || strings.HasSuffix(key, "]") { // the colons in brackets are those of an IPv6 address
		return key
	}
	return key[:colon]
}

// Authority returns host, a URL.Host, as it stands in the URLs of a site with the given scheme: in
// one spelling, with the port unless that is 443 for https and 80 for http.
func Authority(scheme, host string) string {
	key := Key(host)
	if key == "" {
		return ""
	}
	u := url.URL{Host: host}
	// A key has the IPv4 address for one that is mapped to IPv6, which is another Host header.
	mapped, err := netip.ParseAddr(u.Hostname())
	if err == nil && mapped.Is4In6() && mapped.Zone() == "" {
		key = "[" + mapped.String() + "]" + strings.TrimPrefix(key, mapped.Unmap().String())
	}
	// A key has neither of the two ports, and only one of them is the scheme's own.
	other := "80"
	if scheme == "http" {
		other = "443"
	}
	if strings.TrimLeft(u.Port(), "0") == other {
		key += ":" + other
	}
	return key
}
