package publicnet

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/idna"

	"github.com/go-politeness/politeness/internal/hostname"
)

// checkLiteral returns an error if a URL is for a proxy, and names an address that isn't public.
// Such an address would lead into the proxy's network. A name isn't checked, because the proxy
// resolves it.
func checkLiteral(u *url.URL) error {
	host := u.Hostname()
	// A resolver may read any spelling, such as full-width digits.
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		host = ascii
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return fmt.Errorf("publicnet: %s is loopback: %w", host, ErrPrivate)
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		if !hostname.EndsInNumber(host) {
			return nil
		}
		var ok bool
		if address, ok = hostname.ParseIPv4(host); !ok {
			return fmt.Errorf("publicnet: %q is no address: %w", host, ErrPrivate)
		}
	}
	if why := nonPublic(address); why != "" {
		return fmt.Errorf("publicnet: %s is %s: %w", address, why, ErrPrivate)
	}
	return nil
}
