package publicnet

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func TestPublicAddresses(t *testing.T) {
	for _, c := range []struct {
		addresses string
		public    bool
	}{
		{"8.8.8.8 93.184.216.34 1.1.1.1 172.15.255.255 172.32.0.0 100.63.255.255 100.128.0.0 198.17.255.255 198.20.0.0 223.255.255.255", true},
		{"2001:4860:4860::8888 2606:2800:220:1::1 64:ff9b::808:808 2002:808:808::1 ::ffff:8.8.8.8 ::ffff:0:8.8.8.8", true},
		{"127.0.0.1 127.255.255.254 ::1", false},
		{"10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 fc00::1 fdff::1", false},
		{"169.254.0.1 169.254.169.254 fe80::1 fe80::1%eth0 febf::1", false},
		{"224.0.0.1 239.255.255.255 ff02::1", false},
		{"100.64.0.1 100.127.255.255 100.100.100.200", false},
		{"198.18.0.1 198.19.255.255 2001:2::1", false},
		{"168.63.129.16 192.0.0.192 fd00:ec2::254", false},
		{"0.0.0.0 0.1.2.3 :: 255.255.255.255 240.0.0.1 fec0::1 5f00::1", false},
		{"::ffff:100.64.0.1 ::ffff:168.63.129.16 fec0::1%eth0 64:ff9b::a00:1%eth0", false},
		{"::ffff:127.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 ::10.0.0.1 ::ffff:0:127.0.0.1", false},
		{"64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 2002:7f00:1::1 2002:a9fe:a9fe:: 2002:c0a8:1::1", false},
		{"2001:0:808:808:0:0:80ff:fffe", false}, // Teredo: 127.0.0.1, inverted
	} {
		for _, text := range strings.Fields(c.addresses) {
			if why := nonPublic(netip.MustParseAddr(text)); (why == "") != c.public {
				t.Errorf("%s: public %v, because %q", text, why == "", why)
			}
		}
	}
	if nonPublic(netip.Addr{}) == "" {
		t.Error("no address at all is public")
	}
}

func fetch(t *testing.T, transport http.RoundTripper, rawURL string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, rawURL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

func TestTransportRefusesAtTheDial(t *testing.T) {
	var reached atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for _, base := range []*http.Transport{nil, new(http.Transport), http.DefaultTransport.(*http.Transport).Clone()} {
		transport := Transport(base)
		for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"} {
			err := fetch(t, transport, "http://"+host+":"+port)
			if !errors.Is(err, ErrPrivate) {
				t.Errorf("%s: %v", host, err)
			}
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d requests reached the server", n)
	}
}

// A rebinder is a DNS server that gives a public address first and a private one ever after.
func rebinder(t *testing.T, answers ...netip.Addr) *net.Resolver {
	var asked atomic.Int32
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		packet := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(packet[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				at := min(int(asked.Add(1)), len(answers)) - 1
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET},
					Body:   &dnsmessage.AResource{A: answers[at].As4()},
				}}
			}
			if reply, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// TestTransportHoldsAgainstRebinding: the name is public when it is looked up beforehand, and private
// when it is dialed.
func TestTransportHoldsAgainstRebinding(t *testing.T) {
	dialer := publicDialer()
	dialer.Resolver = rebinder(t, netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("127.0.0.1"))
	dialer.Timeout = 30 * time.Second
	first, err := dialer.Resolver.LookupNetIP(t.Context(), "ip4", "rebind.example")
	if err != nil || len(first) != 1 || nonPublic(first[0]) != "" {
		t.Fatalf("%v, %v: want a public address at first", first, err)
	}
	conn, err := dialer.DialContext(t.Context(), "tcp", "rebind.example:80")
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, ErrPrivate) {
		t.Errorf("%v", err)
	}
}

func TestTransportLetsAProxyBe(t *testing.T) {
	var asked atomic.Value
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked.Store(r.URL.String()) }))
	defer proxy.Close()
	address, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := Transport(&http.Transport{Proxy: func(req *http.Request) (*url.URL, error) {
		if req.URL.Hostname() == "direct.example" || req.URL.Hostname() == address.Hostname() {
			return nil, nil
		}
		return address, nil
	}})
	defer transport.CloseIdleConnections()
	if err := fetch(t, transport, "http://example.com/page"); err != nil || asked.Load() != "http://example.com/page" {
		t.Errorf("through the proxy: %v, which was asked for %v", err, asked.Load())
	}
	if err := fetch(t, transport, proxy.URL+"/admin"); !errors.Is(err, ErrPrivate) {
		t.Errorf("straight to the proxy's own address: %v", err)
	}
}

func TestTransportRefusesWhatItCanNotCheck(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	dial := new(net.Dialer).DialContext
	for name, base := range map[string]*http.Transport{
		"DialContext":    {DialContext: dial},
		"DialTLSContext": {DialTLSContext: dial},
		"Dial":           {Dial: net.Dial},
		"DialTLS":        {DialTLS: net.Dial},
	} {
		for _, target := range []string{server.URL, "https://" + server.Listener.Addr().String()} {
			if err := fetch(t, Transport(base), target); !errors.Is(err, errDialsItself) || !errors.Is(err, ErrPrivate) {
				t.Errorf("%s, %s: %v", name, target, err)
			}
		}
	}
}

// TestTransportOfAnotherDefaultTransport: tools that trace put a transport of their own in the place
// of http.DefaultTransport, some before this package is initialised.
func TestTransportOfAnotherDefaultTransport(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	type tracer struct{ http.RoundTripper }
	defer func(original http.RoundTripper) { http.DefaultTransport = original }(http.DefaultTransport)
	http.DefaultTransport = tracer{http.DefaultTransport}
	if dialOf(http.DefaultTransport) != nil {
		t.Error("a transport that isn't net/http's has a dial function")
	}
	err := fetch(t, Transport(nil), server.URL)
	if !errors.Is(err, errNoDefault) || !errors.Is(err, ErrPrivate) || !strings.Contains(err.Error(), "*http.Transport") {
		t.Errorf("%v", err)
	}
	if err := fetch(t, Transport(new(http.Transport)), server.URL); !errors.Is(err, ErrPrivate) {
		t.Errorf("%v", err)
	}
}

func TestTransportLeavesBaseAlone(t *testing.T) {
	base := &http.Transport{MaxConnsPerHost: 3}
	if made := Transport(base); made == base || base.DialContext != nil || made.MaxConnsPerHost != 3 {
		t.Errorf("base %p with a dial %v, copy %p", base, base.DialContext != nil, made)
	}
}

// TestProxiesAreExemptHoweverTheyAreSpelled: what is exempt is what an http.Transport dials for the
// proxy, and nothing else.
func TestProxiesAreExemptHoweverTheyAreSpelled(t *testing.T) {
	for _, proxy := range []string{
		"http://proxy.example:3128", "http://PROXY.example", "https://proxy_1.example", "socks5://[2001:db8::1]", "socks5h://proxy.example",
		"http://b\u00fccher.example:3128", "https://B\u00dcCHER.example", "http://a b\u00fc.example",
	} {
		scheme, host, _ := strings.Cut(proxy, "://")
		u := &url.URL{Scheme: scheme, Host: host}
		var dialed string
		transport := &http.Transport{Proxy: http.ProxyURL(u), DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			dialed = address
			return nil, ErrPrivate
		}}
		_ = fetch(t, transport, "http://example.com/")
		if got := dialAddress(u); got != dialed {
			t.Errorf("%s: %q, and net/http dials %q", proxy, got, dialed)
		}
	}
	control := publicDialer().ControlContext
	for address, want := range map[string]error{
		"93.184.216.34:80": nil, "[2606:2800:220:1::1]:443": nil, "10.0.0.1:80": ErrPrivate, "somewhere": ErrPrivate,
	} {
		if err := control(t.Context(), "tcp", address, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestAnAddressInAURLIsCheckedBeforeAProxy: the proxy resolves names, and an address that is written out
// needs no resolver. It is refused in every spelling that a resolver may read.
func TestAnAddressInAURLIsCheckedBeforeAProxy(t *testing.T) {
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer proxy.Close()
	address, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := Transport(&http.Transport{Proxy: http.ProxyURL(address)})
	defer transport.CloseIdleConnections()
	for _, host := range []string{
		"169.254.169.254", "169.254.169.254.", "2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE", "0251.0376.0251.0376", "169.254.43518", "169.16689662",
		"127.0.0.1", "127.1", "0x7f.1", "017700000001", "2130706433", "0", "0x", "10.1.2.3:8080", "192.168.0.1", "100.64.0.1", "168.63.129.16",
		"１２７.0.0.1", "127。0。0。1", "[::1]", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "[fd00::1]", "[fe80::1%25eth0]",
		"localhost", "LOCALHOST.", "a.localhost:8080", "1.2.3.256", "1.2.3.08", "1.2.3.4.5", "4294967296",
	} {
		for _, scheme := range []string{"http://", "https://"} {
			if err := fetch(t, transport, scheme+host+"/latest/meta-data/"); !errors.Is(err, ErrPrivate) {
				t.Errorf("%s%s: %v", scheme, host, err)
			}
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the proxy was asked %d times", n)
	}
	for _, host := range []string{"93.184.216.34", "0x5d.0xb8.0xd8.0x22", "[2606:2800:220:1::1]", "example.com", "1.example", "a0x7f.example", "10.0.0.1.example", "0x7f.example", "localhost.example"} {
		if err := fetch(t, transport, "http://"+host+"/"); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if n := asked.Load(); n != 9 {
		t.Errorf("the proxy was asked %d times", n)
	}
}
