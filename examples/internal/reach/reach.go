// Package reach keeps the examples away from private networks if their URLs come from people.
package reach

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/go-politeness/politeness/publicnet"
)

// Base returns the Config.Base of a crawl that begins at the given URLs. It connects to public
// addresses only, wherever links, redirects and names lead, unless a URL names localhost or an IP
// address itself: then somebody means a machine of their own. Without URLs an example crawls a
// site of its own, which is on loopback.
func Base(urls []string) http.RoundTripper {
	if len(urls) == 0 || OwnMachine(urls) {
		return http.DefaultTransport
	}
	return publicnet.Transport(nil)
}

// OwnMachine reports whether one of the URLs names localhost or an IP address itself.
func OwnMachine(urls []string) bool { return slices.ContainsFunc(urls, isLiteral) }

// isLiteral reports whether a URL names localhost or an IP address.
func isLiteral(rawURL string) bool {
	u, err := url.Parse(rawURL)
	if err != nil {
		return false
	}
	host := u.Hostname()
	_, err = netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost")
}
