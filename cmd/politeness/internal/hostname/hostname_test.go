package hostname

import (
	"strings"
	"testing"

	library "github.com/go-politeness/politeness/internal/hostname"
)

// spellings are hosts as they are found in a URL.
var spellings = []string{
	"", ":80", ":443", ".", ".:80", "example.com", "EXAMPLE.com.", "example.com:", "example.com:80", "example.com.:0080",
	"example.com:443", "example.com:0443", "example.com:8080", "example.com:180", "example.com:0", "www.example.com", "badexample.com",
	"a:80", "a:80.", "a:b:80", "bücher.example", "BÜCHER.Example:80", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.", "127.0.0.01",
	"[::1]", "[::1]:80", "[::1]:443", "[::1]:8080", "[0:0::1]:80", "::1", "[fe80::1%25eth0]", "[fe80::1%eth0]:80",
	"[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]:80", "[::FFFF:7f00:1]:8443", "[::ffff:127.0.0.1%eth0]:80", "[example.com]:80", "ex%61mple.com",
	strings.Repeat("a", 300) + ":80", "xn--not punycode!", "Under_\u017fcore.example:80",
}

// TestAsTheLibraryDoes: a host is the same one for the command and for the library's limiter and auditor.
func TestAsTheLibraryDoes(t *testing.T) {
	for _, host := range spellings {
		if got, want := Key(host), library.Key(host); got != want {
			t.Errorf("Key(%q) = %q, want %q", host, got, want)
		}
		for _, scheme := range []string{"http", "https"} {
			if got, want := Authority(scheme, host), library.Authority(scheme, host); got != want {
				t.Errorf("Authority(%s, %q) = %q, want %q", scheme, host, got, want)
			}
		}
		for _, site := range spellings {
			if got, want := Within(host, site), library.Within(host, site); got != want {
				t.Errorf("Within(%q, %q) = %t, want %t", host, site, got, want)
			}
		}
	}
}

func FuzzHostname(f *testing.F) {
	for _, host := range spellings {
		f.Add(host, "example.com")
	}
	f.Fuzz(func(t *testing.T, host, site string) {
		for _, scheme := range []string{"http", "https"} {
			if got, want := Authority(scheme, host), library.Authority(scheme, host); got != want {
				t.Errorf("Authority(%s, %q) = %q, want %q", scheme, host, got, want)
			}
		}
		if got, want := Within(host, site), library.Within(host, site); got != want {
			t.Errorf("Within(%q, %q) = %t, want %t", host, site, got, want)
		}
	})
}
