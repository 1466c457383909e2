// Package publicnet connects an http.Transport to public addresses only. No link, redirect or DNS
// response of a stranger leads a crawler into its own network.
package publicnet

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

// ErrPrivate is the reason for which a transport made by [Transport] makes no connection. The
// address isn't a public one, or can't be checked. Find it by errors.Is. Use it to tell such a
// refusal from a host that is down.
var ErrPrivate = errors.New("not a public address")

// Transport returns a copy of base that connects to public addresses only. Use it as
// politeness.Config.Base of a crawler that follows links of strangers. A page, a redirect or a
// robots.txt may name http://169.254.169.254/, and any name may resolve to an address inside your
// own network. Each address is checked after the name was resolved, right before each attempt to
// connect. So a name that resolves differently the next time gains nothing. If several addresses
// are tried at once, each is checked.
//
// Refused with [ErrPrivate] are loopback, private, link-local, multicast, carrier-grade NAT and
// benchmark addresses, those of the clouds' metadata services, reserved and unspecified ones, and
// all of these inside of IPv6 (mapped, compatible, translated, NAT64, 6to4, Teredo). An address
// that base.Proxy returns is exempt, since the proxy then resolves names and decides. Even with a
// proxy, localhost and a non-public address that is written in the URL are refused. If your network
// has a NAT64 with a prefix of its own (RFC 6052, section 2.2), Transport can't see which IPv4
// address is meant. Then only the NAT64 decides. Configure the NAT64 to block private addresses.
//
// The header of a response has 256 KiB at most, unless base.MaxResponseHeaderBytes is set. The
// bound of net/http would be 10 MB for each connection.
//
// A nil base is http.DefaultTransport. A base that dials by itself (Dial, DialContext, DialTLS or
// DialTLSContext, except those of http.DefaultTransport) can't be made safe. The copy then returns
// an error for every request. If base is nil, and http.DefaultTransport isn't an *http.Transport,
// the copy returns this error as well. To allow an address of your own network, use base without
// Transport.
func Transport(base *http.Transport) *http.Transport {
	if base == nil {
		var ok bool
		if base, ok = http.DefaultTransport.(*http.Transport); !ok {
			return &http.Transport{DialContext: refuseDial(errNoDefault)}
		}
	}
	t := base.Clone()
	if t.MaxResponseHeaderBytes == 0 {
		t.MaxResponseHeaderBytes = maxHeader
	}
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
		t.Dial = nil //nolint:staticcheck // deprecated, and in use
		//lint:ignore SA1019 deprecated, and in use
		t.DialTLS = nil //nolint:staticcheck // deprecated, and in use
		t.DialTLSContext = nil
		t.DialContext = refuseDial(errDialsItself)
	}
	return t
}

// maxHeader is how much of a header browsers take.
const maxHeader = 256 << 10

// An uncheckedError is why no address of a base can be checked. It is an ErrPrivate: the next try
// would meet it again.
type uncheckedError string

func (e uncheckedError) Error() string { return "publicnet: " + string(e) }

// Is reports whether target is ErrPrivate.
func (e uncheckedError) Is(target error) bool { return target == ErrPrivate }

const (
	errDialsItself uncheckedError = "base has its own dial function, whose addresses can't be checked; " +
		"give it none, or check them in its net.Dialer.ControlContext and use base as it is"
	errNoDefault uncheckedError = "http.DefaultTransport was replaced by one that isn't net/http's, whose addresses " +
		"can't be checked; give Transport an *http.Transport, and wrap what it returns"
)

func refuseDial(err error) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return nil, err }
}

// exemptDialer dials proxies. Its timeout is that of http.DefaultTransport.
var exemptDialer = &net.Dialer{Timeout: 30 * time.Second}

// publicDialer returns a dialer that checks each address before it connects.
func publicDialer() *net.Dialer {
	d := *exemptDialer
	d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("publicnet: %q: %w", address, ErrPrivate)
		}
		why := nonPublic(ap.Addr())
		if why != "" {
			return fmt.Errorf("publicnet: %s is %s: %w", ap.Addr(), why, ErrPrivate)
		}
		return nil
	}
	return &d
}

// defaultDial is the dial function that net/http gives http.DefaultTransport.
var defaultDial = dialOf(http.DefaultTransport)

// dialOf identifies the DialContext of rt. It returns nil if rt isn't an *http.Transport, for
// example if a tracer has replaced http.DefaultTransport.
func dialOf(rt http.RoundTripper) unsafe.Pointer {
	if t, ok := rt.(*http.Transport); ok {
		return closure(t.DialContext)
	}
	return nil
}

// closure identifies a function value, as == would if Go compared functions: copies of a transport
// share it. reflect.Value.Pointer doesn't: it is the same for DialContext of every net.Dialer.
func closure(f func(context.Context, string, string) (net.Conn, error)) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&f))
}

// dialsItself reports whether t has a dial function that isn't http.DefaultTransport's.
func dialsItself(t *http.Transport) bool {
	//lint:ignore SA1019 deprecated, and in use
	if t.Dial != nil || t.DialTLS != nil || t.DialTLSContext != nil { //nolint:staticcheck // deprecated, and in use
		return true
	}
	return t.DialContext != nil && closure(t.DialContext) != defaultDial
}

// proxies holds the addresses of the proxies that choose has returned.
type proxies struct {
	choose func(*http.Request) (*url.URL, error)

	mu    sync.RWMutex
	known map[string]struct{} // by what an http.Transport dials
}

// proxy is an http.Transport's Proxy: it adds the result of choose to known. A direct request to a
// proxy's own address would be exempt as well, so proxy refuses it.
func (p *proxies) proxy(req *http.Request) (*url.URL, error) {
	u, err := p.choose(req)
	if err != nil {
		return nil, err
	}
	if u == nil {
		address := dialAddress(req.URL)
		if p.has(address) {
			return nil, fmt.Errorf("publicnet: %s is the proxy's own address: %w", address, ErrPrivate)
		}
		return nil, nil
	}
	if err := checkLiteral(req.URL); err != nil {
		return nil, err
	}
	p.add(dialAddress(u))
	return u, nil
}

// add makes address a proxy's.
func (p *proxies) add(address string) {
	// Nearly always it is known already, and a read lock is enough.
	if p.has(address) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = make(map[string]struct{})
	}
	p.known[address] = struct{}{}
}

// has reports whether address is a proxy's.
func (p *proxies) has(address string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	_, ok := p.known[address]
	return ok
}

// dialAddress returns the address that an http.Transport dials for u.
func dialAddress(u *url.URL) string {
	host := u.Hostname()
	port := u.Port()
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

// A specialNetwork is a network without public addresses that no method of netip.Addr knows.
type specialNetwork struct {
	network netip.Prefix
	what    string // for an error: "is reserved"
}

// specialNetworks are from the IANA's special-purpose registries (RFC 6890) and the clouds' own
// pages. Networks for documentation aren't among them: they have no machines.
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

// nonPublic returns why a isn't public, as the rest of "a is ..."; empty if it is.
func nonPublic(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid() || a.IsUnspecified():
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
	// A translator on the way would connect to the inner address.
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

// embedded returns the IPv4 address inside an IPv6 address of one of these networks.
func embedded(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case a.Is4():
		return netip.Addr{}, false
	case compatible.Contains(a) || translated.Contains(a) || nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case teredo.Contains(a): // the client's address, every bit of it inverted
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	}
	return netip.Addr{}, false
}
