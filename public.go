package politeness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/net/idna"
)

// ErrPrivateAddress is the reason of a transport made by [PublicAddresses] for a connection that
// led to an address which isn't a public one. It is found in the errors of the transport by
// errors.Is.
var ErrPrivateAddress = errors.New("not a public address")

// PublicAddresses returns a copy of base that connects to public addresses only. Use it as
// Config.Base of a crawler that follows links of strangers: a page, a redirect or a robots.txt may
// name http://169.254.169.254/, and any name may resolve to an address inside one's own network.
// Each address is looked at after the name was resolved and right before the connection is made,
// for each attempt of a race, so a name that resolves differently the next time gains nothing.
//
// Refused with [ErrPrivateAddress] are loopback, private, link-local, multicast, carrier-grade NAT
// and benchmark addresses, those of the clouds' metadata services, what is reserved or unspecified,
// and all of these inside of IPv6 (mapped, compatible, translated, NAT64, 6to4, Teredo). An address
// that base.Proxy gives is exempt: the proxy decides then.
//
// A nil base is http.DefaultTransport. A base that dials by itself (Dial, DialContext, DialTLS,
// DialTLSContext; http.DefaultTransport's own excepted) can't be made safe: the copy refuses every
// request and says so, as it does for nil where http.DefaultTransport is somebody's wrapper. To
// allow one of one's own machines, use base without PublicAddresses.
func PublicAddresses(base *http.Transport) *http.Transport {
	if base == nil {
		var ok bool
		if base, ok = http.DefaultTransport.(*http.Transport); !ok {
			return &http.Transport{DialContext: refuseDial(errNoDefault)}
		}
	}
	t := base.Clone()
	dialer := publicDialer()
	proxies := &proxies{choose: base.Proxy}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if proxies.has(address) {
			return exemptDialer.DialContext(ctx, network, address)
		}
		return dialer.DialContext(ctx, network, address)
	}
	if base.Proxy != nil {
		t.Proxy = proxies.proxy
	}
	if dialsItself(base) {
		//lint:ignore SA1019 deprecated, and in use
		t.Dial, t.DialTLS, t.DialTLSContext = nil, nil, nil //nolint:staticcheck // deprecated, and in use
		t.DialContext = refuseDial(errDialsItself)
	}
	return t
}

var (
	errDialsItself = errors.New("politeness: PublicAddresses: base has a dial function of its own, whose addresses can't be checked; " +
		"give it none, or check them in its net.Dialer.ControlContext and use base as it is")
	errNoDefault = errors.New("politeness: PublicAddresses: http.DefaultTransport was replaced by one that isn't net/http's, whose addresses " +
		"can't be checked; give it an *http.Transport, and wrap what it returns")
)

func refuseDial(err error) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return nil, err }
}

// The timeout is that of http.DefaultTransport.
var exemptDialer = &net.Dialer{Timeout: 30 * time.Second}

// publicDialer returns a dialer that looks at each address before it connects.
func publicDialer() *net.Dialer {
	d := *exemptDialer
	d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("politeness: %q: %w", address, ErrPrivateAddress)
		}
		if why := nonPublic(ap.Addr()); why != "" {
			return fmt.Errorf("politeness: %s is %s: %w", ap.Addr(), why, ErrPrivateAddress)
		}
		return nil
	}
	return &d
}

// defaultDial is what http.DefaultTransport dials by before anybody has changed it.
var defaultDial = dialOf(http.DefaultTransport)

// dialOf identifies what rt dials by; nil where it isn't net/http's, as a wrapper that somebody has
// put in the place of http.DefaultTransport.
func dialOf(rt http.RoundTripper) unsafe.Pointer {
	if t, ok := rt.(*http.Transport); ok {
		return closure(t.DialContext)
	}
	return nil
}

// closure identifies a function value, as == would if Go compared functions: copies of a transport
// share it.
func closure(f func(context.Context, string, string) (net.Conn, error)) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&f))
}

func dialsItself(t *http.Transport) bool {
	//lint:ignore SA1019 deprecated, and in use
	if t.Dial != nil || t.DialTLS != nil || t.DialTLSContext != nil { //nolint:staticcheck // deprecated, and in use
		return true
	}
	return t.DialContext != nil && closure(t.DialContext) != defaultDial
}

// proxies are the addresses of the proxies that requests were sent to.
type proxies struct {
	choose func(*http.Request) (*url.URL, error)

	mu    sync.RWMutex
	known map[string]struct{}
}

// proxy is an http.Transport's Proxy: it remembers what choose returns. A request that goes
// straight to a proxy's address would be exempt as well, so it is refused.
func (p *proxies) proxy(req *http.Request) (*url.URL, error) {
	u, err := p.choose(req)
	if err != nil {
		return nil, err
	}
	if u == nil {
		if address := dialAddress(req.URL); p.has(address) {
			return nil, fmt.Errorf("politeness: %s is the proxy's own address: %w", address, ErrPrivateAddress)
		}
		return nil, nil
	}
	if address := dialAddress(u); !p.has(address) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.known == nil {
			p.known = make(map[string]struct{})
		}
		p.known[address] = struct{}{}
	}
	return u, nil
}

func (p *proxies) has(address string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	_, ok := p.known[address]
	return ok
}

// dialAddress is the address that an http.Transport dials for u.
func dialAddress(u *url.URL) string {
	host, port := u.Hostname(), u.Port()
	if strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) {
		if ascii, err := idna.Lookup.ToASCII(host); err == nil {
			host = ascii
		}
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(host, port)
}

// A specialNetwork is one whose addresses aren't public, though netip doesn't say so.
type specialNetwork struct {
	network netip.Prefix
	what    string
}

// The networks are from the IANA's special-purpose registries (RFC 6890) and the clouds' own pages.
// Networks for documentation aren't among them: nothing is there.
var specialNetworks = []specialNetwork{
	{netip.MustParsePrefix("0.0.0.0/8"), "this host itself"},
	{netip.MustParsePrefix("100.64.0.0/10"), "behind a carrier's NAT"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a metadata service"}, // Azure's wire server
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"},               // Oracle's metadata among them
	{netip.MustParsePrefix("198.18.0.0/15"), "for benchmarks"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "private (local NAT64)"},
	{netip.MustParsePrefix("100::/64"), "discarded"},
	{netip.MustParsePrefix("2001:2::/48"), "for benchmarks"},
	{netip.MustParsePrefix("5f00::/16"), "inside of a network (segment routing)"},
	{netip.MustParsePrefix("fec0::/10"), "private (site-local)"},
}

// nonPublic says what an address is that isn't public, empty for a public one.
func nonPublic(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid(), a.IsUnspecified():
		return "unspecified"
	case a.IsLoopback():
		return "loopback"
	case a.IsPrivate():
		return "private"
	case a.IsLinkLocalUnicast():
		return "link-local"
	case a.IsMulticast():
		return "multicast"
	}
	for _, r := range specialNetworks {
		if r.network.Contains(a) {
			return r.what
		}
	}
	if inner, ok := embedded(a); ok {
		return nonPublic(inner)
	}
	return ""
}

// The networks whose IPv6 addresses carry an IPv4 address that they lead to.
var (
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291, deprecated
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765, obsolete
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
	teredo     = netip.MustParsePrefix("2001::/32")       // RFC 4380
)

// embedded returns the IPv4 address that an IPv6 address leads to.
func embedded(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case a.Is4():
		return netip.Addr{}, false
	case compatible.Contains(a), translated.Contains(a), nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case teredo.Contains(a): // the client's address, every bit of it inverted
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	}
	return netip.Addr{}, false
}
