package publicnet

import (
	"net/netip"
	"net/url"
	"testing"
)

// FuzzNonPublic: what package netip knows for an address of no public network isn't public, nor is an
// IPv4 address more public in one of the spellings that IPv6 has for it.
func FuzzNonPublic(f *testing.F) {
	for _, address := range []string{"127.0.0.1", "10.1.2.3", "8.8.8.8", "169.254.169.254", "::1", "fe80::1", "64:ff9b::7f00:1", "2002:a9fe:a9fe::", "ff02::1"} {
		f.Add(netip.MustParseAddr(address).AsSlice())
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		isSpecial := func(a netip.Addr) bool {
			return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified()
		}
		why := nonPublic(a)
		if why == "" && (isSpecial(a) || isSpecial(a.Unmap())) {
			t.Errorf("%v is public", a)
		}
		if !a.Is4() {
			return
		}
		b := a.As4()
		for _, in := range [][16]byte{
			{10: 0xff, 11: 0xff, 12: b[0], 13: b[1], 14: b[2], 15: b[3]},
			{0: 0x00, 1: 0x64, 2: 0xff, 3: 0x9b, 12: b[0], 13: b[1], 14: b[2], 15: b[3]},
			{0: 0x20, 1: 0x02, 2: b[0], 3: b[1], 4: b[2], 5: b[3]},
		} {
			if spelled := netip.AddrFrom16(in); why != "" && nonPublic(spelled) == "" {
				t.Errorf("%v, which is %v, is public", spelled, a)
			}
		}
	})
}

// FuzzCheckLiteral: a URL whose host Go reads as an address that isn't public is refused before a
// proxy is asked.
func FuzzCheckLiteral(f *testing.F) {
	for _, host := range []string{"127.0.0.1", "0x7f.1", "[::1]", "[fe80::1%25eth0]", "localhost", "LOCALHOST.", "example.com", "１２７.0.0.1", "017700000001"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		u, err := url.Parse("http://" + host + "/")
		if err != nil {
			return
		}
		checked := checkLiteral(u)
		if a, err := netip.ParseAddr(u.Hostname()); err == nil && nonPublic(a) != "" && checked == nil {
			t.Errorf("%q goes to the proxy", host)
		}
	})
}
