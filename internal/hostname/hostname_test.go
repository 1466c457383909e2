package hostname_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/cputime"
	"github.com/go-politeness/politeness/internal/hostname"
)

// spellings are hosts as they are found in a URL, with their key and their authority for http.
var spellings = []struct{ host, key, authority string }{
	{"example.com", "example.com", "example.com"},
	{"EXAMPLE.com", "example.com", "example.com"},
	{"example.com.", "example.com", "example.com"},
	{"example.com..", "example.com", "example.com"},
	{"example.com.:8080", "example.com:8080", "example.com:8080"},
	{"example.com:", "example.com", "example.com"},
	{"example.com:80", "example.com", "example.com"},
	{"example.com:443", "example.com", "example.com:443"},
	{"example.com:0080", "example.com", "example.com"},
	{"example.com:08080", "example.com:8080", "example.com:8080"},
	{"example.com:0", "example.com:0", "example.com:0"},
	{"example.com:00", "example.com:0", "example.com:0"},
	{"example.com:99999", "example.com:99999", "example.com:99999"},
	{"example.com:8080", "example.com:8080", "example.com:8080"},
	{"example.com:180", "example.com:180", "example.com:180"},
	{"a:80.", "[a:80.]", "[a:80.]"},

	// IDNA, as net/http uses it.
	{"example.com\u3002", "example.com", "example.com"},
	{"example\u3002com", "example.com", "example.com"},
	{"example\uff0ecom\uff61:8080", "example.com:8080", "example.com:8080"},
	{"\uff45xample.com", "example.com", "example.com"},
	{"ex\u00adample.com", "example.com", "example.com"},
	{"bücher.example", "xn--bcher-kva.example", "xn--bcher-kva.example"},
	{"BÜCHER.Example:80", "xn--bcher-kva.example", "xn--bcher-kva.example"},
	{"XN--Bcher-KVA.example", "xn--bcher-kva.example", "xn--bcher-kva.example"},
	{"xn--not punycode!", "xn--not punycode!", "xn--not punycode!"},
	{"straße.example", "xn--strae-oqa.example", "xn--strae-oqa.example"},
	{"under_score.example", "under_score.example", "under_score.example"},
	{"Under_ſcore.example", "under_ſcore.example", "under_ſcore.example"}, // refused: stays as it is
	{"ex%61mple.com", "ex%61mple.com", "ex%61mple.com"},                   // net/http decodes nothing either

	// Addresses.
	{"127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1:8080"},
	{"127.0.0.1.", "127.0.0.1", "127.0.0.1"},
	{"127.0.0.01", "127.0.0.01", "127.0.0.01"}, // a name for net/http
	{"\uff11\uff12\uff17.\uff10.\uff10.\uff11", "127.0.0.1", "127.0.0.1"},
	{"[::1]", "[::1]", "[::1]"},
	{"[::1]:80", "[::1]", "[::1]"},
	{"[::1]:8080", "[::1]:8080", "[::1]:8080"},
	{"[2001:DB8:0::01]:443", "[2001:db8::1]", "[2001:db8::1]:443"},
	{"[fe80::80]", "[fe80::80]", "[fe80::80]"},
	{"[fe80:0::1%en0]", "[fe80::1%en0]", "[fe80::1%en0]"},
	{"[fe80::1%EN0]", "[fe80::1%EN0]", "[fe80::1%EN0]"},
	{"[fe80::1%.]", "[fe80::1%.]", "[fe80::1%.]"},
	{"[::ffff:127.0.0.1]", "127.0.0.1", "[::ffff:127.0.0.1]"},
	{"[::ffff:7f00:1]:8080", "127.0.0.1:8080", "[::ffff:127.0.0.1]:8080"},
	{"[::ffff:1:2:3]", "[::ffff:1:2:3]", "[::ffff:1:2:3]"},

	// What no URL that was parsed has.
	{"", "", ""},
	{":8080", "", ""},
	{".", "", ""},
	{"\u00ad", "", ""},
	{"[]:8080", "", ""},
	{"[Example.com]", "example.com", "example.com"},
	{"[[a]]", "[[a]]", "[[a]]"},
	{"a:b:c", "[a:b:c]", "[a:b:c]"},
	{"a b/c", "a b/c", "a b/c"},
}

func TestSpellings(t *testing.T) {
	for _, tt := range spellings {
		if got := hostname.Key(tt.host); got != tt.key {
			t.Errorf("Key(%q) = %q, want %q", tt.host, got, tt.key)
		}
		if got := hostname.Authority("HTTP", tt.host); got != tt.authority {
			t.Errorf("Authority(HTTP, %q) = %q, want %q", tt.host, got, tt.authority)
		}
	}
	for host, want := range map[string]string{"a:443": "a", "a:80": "a:80", "[::1]:0443": "[::1]"} {
		if got := hostname.Authority("https", host); got != want {
			t.Errorf("Authority(https, %q) = %q, want %q", host, got, want)
		}
	}
}

func TestOneSpellingCostsNoAllocation(t *testing.T) {
	for _, host := range []string{
		"example.com", "www.under_score-1.example.com:8080", "example.com:80", "example.com:443", "xn--bcher-kva.example",
		"127.0.0.1", "127.0.0.1:8080", "[2001:db8::1]", "[::1]:8080",
	} {
		if n := testing.AllocsPerRun(100, func() {
			hostname.Key(host)
			hostname.Authority("https", host)
		}); n != 0 {
			t.Errorf("%s: %v allocations", host, n)
		}
	}
}

// TestWithin: a site with a port has the names below it on that port only.
func TestWithin(t *testing.T) {
	for _, tt := range []struct {
		host, site string
		want       bool
	}{
		{"example.com", "example.com", true},
		{"WWW.example.com:8080", "Example.com.", true},
		{"www.example.com:8080", "example.com:8080", true},
		{"www.example.com:9090", "example.com:8080", false},
		{"www.example.com", "example.com:8080", false},
		{"www.example.com:443", "example.com:80", true},
		{"notexample.com", "example.com", false},
		{"notexample.com:8080", "example.com:8080", false},
		{"example.com", "www.example.com", false},
		{"[::1]:8080", "[::1]", true},
		{"[::1]:8080", "[::1]:8080", true},
		{"example.com", "", false},
	} {
		if got := hostname.Within(tt.host, tt.site); got != tt.want {
			t.Errorf("%q is within %q: %t", tt.host, tt.site, got)
		}
	}
}

// TestHostsThatAreTooLongAreReadOnce: IDNA would take half a minute for one of 630 KB.
func TestHostsThatAreTooLongAreReadOnce(t *testing.T) {
	var b strings.Builder
	for i := range 210_000 {
		b.WriteRune(rune('\u4e00' + i%20_900))
	}
	host := b.String()
	var results map[string]string
	took := cputime.Of(func() {
		results = map[string]string{
			"Key": hostname.Key(host), "Authority": hostname.Authority("http", host), "ASCII": hostname.ASCII(host),
		}
	})
	for name, got := range results {
		if got != host {
			t.Errorf("%s returns %d other bytes for %d", name, len(got), len(host))
		}
	}
	if took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// FuzzKey holds keys against net/http: two URLs have one key if and only if net/http dials them as
// one address, where the ports of http and https count as one and so does what the dialer reads
// alike.
func FuzzKey(f *testing.F) {
	for _, tt := range spellings {
		f.Add(tt.host, false)
		f.Add(tt.host, true)
	}
	f.Fuzz(func(t *testing.T, host string, https bool) {
		scheme := "http"
		if https {
			scheme = "https"
		}
		if len(host) > hostname.MaxLen {
			return
		}
		key, authority := hostname.Key(host), hostname.Authority(scheme, host)
		address := dialed(&url.URL{Scheme: scheme, Host: host, Path: "/"})
		if address == "" { // it sends nothing
			return
		}
		if want := machine(address); key != want {
			t.Errorf("%q has the key %q, but is dialed as %q, which is %q", host, key, address, want)
		}
		if again := hostname.Key(key); again != key {
			t.Errorf("%q has the key %q, and that has %q", host, key, again)
		}
		if again := hostname.Authority(scheme, authority); again != authority {
			t.Errorf("%q has the authority %q, and that has %q", host, authority, again)
		}
		if of := hostname.Key(authority); of != key {
			t.Errorf("%q has the key %q, and its authority %q has %q", host, key, authority, of)
		}
	})
}

// dialed returns the address that net/http dials for u; "" if it doesn't get that far.
func dialed(u *url.URL) (address string) {
	dial := func(_ context.Context, _, addr string) (net.Conn, error) {
		address = addr
		return nil, errors.New("dialed")
	}
	transport := &http.Transport{DialContext: dial, DialTLSContext: dial}
	resp, err := transport.RoundTrip(&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}})
	if err == nil {
		resp.Body.Close()
	}
	return address
}

// machine reads an address of net/http as net.Dialer and the DNS do, and writes it as a key.
func machine(address string) string {
	colon := strings.LastIndexByte(address, ':')
	name, port := address[:colon], address[colon:]
	if strings.Contains(name, ":") { // in the brackets of net.JoinHostPort
		name = name[1 : len(name)-1]
	} else {
		name = strings.TrimRight(name, ".")
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		name = ip.String()
		if v4 := ip.Unmap(); ip.Zone() == "" {
			name = v4.String()
		}
	} else {
		ascii := []byte(name)
		for i, c := range ascii {
			if strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZ", c) >= 0 {
				ascii[i] = c - 'A' + 'a'
			}
		}
		name = string(ascii)
	}
	if n, err := strconv.Atoi(port[1:]); err == nil {
		port = fmt.Sprintf(":%d", n)
	} else { // more digits than an int has
		port = ":" + strings.TrimLeft(port[1:], "0")
	}
	switch {
	case name == "":
		return ""
	case strings.Contains(name, ":") || strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]"):
		name = "[" + name + "]"
	}
	if port == ":80" || port == ":443" {
		port = ""
	}
	return name + port
}
