package publicnet

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// checkLiteral returns an error if a URL is for a proxy, and names an address that isn't public. A
// name is the proxy's to resolve, and an address that is written out needs no resolver: it would
// lead into the network of the proxy.
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
		if !endsInNumber(host) {
			return nil
		}
		var ok bool
		if address, ok = parseIPv4(host); !ok {
			return fmt.Errorf("publicnet: %q is no address: %w", host, ErrPrivate)
		}
	}
	if why := nonPublic(address); why != "" {
		return fmt.Errorf("publicnet: %s is %s: %w", address, why, ErrPrivate)
	}
	return nil
}

// endsInNumber reports whether the last label of a host is a number, so that the host is an IPv4
// address (URL standard, "ends in a number").
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	_, ok := parseNumber(last)
	return ok || (last != "" && strings.Trim(last, "0123456789") == "")
}

// parseIPv4 reads an IPv4 address in any spelling that resolvers know: one to four numbers, each
// decimal, octal or hexadecimal, of which the last fills the rest (URL standard, "IPv4 parser").
func parseIPv4(host string) (netip.Addr, bool) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var address uint64
	for i, part := range parts {
		n, ok := parseNumber(part)
		isLast := i == len(parts)-1
		room := uint64(1) << 8
		if isLast {
			room = 1 << (8 * (5 - len(parts)))
		}
		if !ok || n >= room {
			return netip.Addr{}, false
		}
		if isLast {
			address = address<<(8*(5-len(parts))) + n
		} else {
			address = address<<8 + n
		}
	}
	return netip.AddrFrom4([4]byte{byte(address >> 24), byte(address >> 16), byte(address >> 8), byte(address)}), true
}

// parseNumber reads a decimal, octal or hexadecimal number as C does.
func parseNumber(s string) (uint64, bool) {
	base := 10
	switch {
	case strings.HasPrefix(s, "0x"):
		base = 16
		s = s[2:]
		if s == "" {
			return 0, true // as the URL standard has it
		}
	case len(s) > 1 && s[0] == '0':
		base = 8
		s = s[1:]
	}
	n, err := strconv.ParseUint(s, base, 64)
	return n, err == nil
}
