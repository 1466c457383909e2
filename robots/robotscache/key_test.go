package robotscache

import (
	"net/url"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/hostname"
)

func TestOrigin(t *testing.T) {
	longest := strings.Repeat("a.", hostname.MaxLen/2)[:hostname.MaxLen-len("b:65535")] + "b:65535"
	tests := []struct{ url, origin string }{
		{"https://example.com/a?b", "https://example.com"},
		{"http://example.com", "http://example.com"},
		{"HTTPS://Example.COM/", "https://example.com"},
		{"https://example.com:443/", "https://example.com"},
		{"http://example.com:443/", "http://example.com:443"},
		{"http://example.com:80/", "http://example.com"},
		{"https://example.com:80/", "https://example.com:80"},
		{"https://example.com:8443/", "https://example.com:8443"},
		{"https://example.com:0443/", "https://example.com"},
		{"https://example.com:08443/", "https://example.com:8443"},
		{"https://example.com:/", "https://example.com"},
		{"https://example.com./", "https://example.com"},
		{"https://example.com.:8443/", "https://example.com:8443"},
		{"https://user:secret@example.com/", "https://example.com"},
		{"https://bücher.example/", "https://xn--bcher-kva.example"},
		{"https://BÜCHER.example:443/", "https://xn--bcher-kva.example"},
		{"https://xn--bcher-kva.example/", "https://xn--bcher-kva.example"},
		{"https://b%C3%BCcher.example/", "https://xn--bcher-kva.example"},
		{"https://under_score.example/", "https://under_score.example"},
		{"http://127.0.0.1:8080/", "http://127.0.0.1:8080"},
		{"http://[::1]/", "http://[::1]"},
		{"http://[::1]:80/", "http://[::1]"},
		{"http://[2001:DB8::1]:8080/", "http://[2001:db8::1]:8080"},
		{"http://[::ffff:127.0.0.1]/", "http://[::ffff:127.0.0.1]"},
		{"http://[2001:db8:0::01]/", "http://[2001:db8::1]"},
		{"http://[fe80::1%25en0]/", "http://[fe80::1%25en0]"},
		{"http://example.com\u3002/", "http://example.com"},
		{"http://example.com:0/", "http://example.com:0"},
		{"http://example.com:65535/", "http://example.com:65535"},
		{"http://" + longest + "/", "http://" + longest},
	}
	for _, tt := range tests {
		o, err := originOf(parse(t, tt.url))
		if err != nil || o.String() != tt.origin {
			t.Errorf("originOf(%q) = %v, %v; want %s", tt.url, o, err, tt.origin)
		}
		if got := o.robotsURL().String(); got != tt.origin+"/robots.txt" {
			t.Errorf("robots.txt of %s is at %s", tt.url, got)
		}
	}
}

// A URL that url.Parse hasn't made may have its scheme in any case.
func TestOriginOfASchemeInAnyCase(t *testing.T) {
	for scheme, want := range map[string]string{
		"https": "https://example.com", "HTTPS": "https://example.com", "Https": "https://example.com", "HTTP": "http://example.com",
	} {
		if o, err := originOf(&url.URL{Scheme: scheme, Host: "example.com"}); err != nil || o.String() != want {
			t.Errorf("%s: %v, %v; want %s", scheme, o, err, want)
		}
	}
}

// New refuses a User-Agent that can't be sent.
func TestUserAgentWithControlCharacters(t *testing.T) {
	for agent, valid := range map[string]bool{
		"ExampleBot/1.0 (+https://example.com/bot)": true,
		"ExampleBot/1.0\r\nX-Other: 1":              false,
		"ExampleBot/1.0\x7f":                        false,
		"ExampleBot/1.0\x00":                        false,
		"ExampleBot/1.0 ~":                          true,
		"":                                          false,
	} {
		if err := (&Client{UserAgent: agent}).validate(); (err == nil) != valid {
			t.Errorf("%q: %v", agent, err)
		}
	}
}

func TestOriginRefused(t *testing.T) {
	tests := []*url.URL{
		nil,
		{},
		parse(t, "ftp://example.com/"),
		parse(t, "mailto:bot@example.com"),
		parse(t, "/path"),
		parse(t, "https:///path"),
		parse(t, "https://./"),
		parse(t, "https://:443/"),
		parse(t, "https://example.com:65536/"),
		parse(t, "https://"+strings.Repeat("a.", 2000)+"example/"),
		{Scheme: "https", Host: "exa mple.com"},
		{Scheme: "https", Host: "example.com/path"},
		{Scheme: "https", Host: "example.com\r\nX: y"},
		{Scheme: "https", Host: "[]"},
	}
	for _, u := range tests {
		if o, err := originOf(u); err == nil {
			t.Errorf("originOf(%v) = %v, no error", u, o)
		}
	}
	c := newRig(t, Config{}, broken)
	if _, err := c.Get(t.Context(), parse(t, "ftp://example.com/")); err == nil || len(c.sent()) != 0 {
		t.Errorf("Get of a URL that isn't http: %v, %d requests", err, len(c.sent()))
	}
	if _, ok := c.Peek(parse(t, "ftp://example.com/")); ok {
		t.Error("Peek knows a URL that isn't http")
	}
}

// FuzzOrigin checks that an origin is spelled in one way: its own URL has it.
func FuzzOrigin(f *testing.F) {
	for _, s := range []string{"example.com", "EXAMPLE.com:443", "[::1]:080", "b\u00fccher.example.", "a:b:c", "[", "x:", "\xff", "%41.example"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, host string, https bool) {
		scheme := "http"
		if https {
			scheme = "https"
		}
		o, err := originOf(&url.URL{Scheme: scheme, Host: host})
		if err != nil {
			return
		}
		if o.host == "" || len(o.host) > hostname.MaxLen {
			t.Fatalf("host of %d bytes from %q", len(o.host), host)
		}
		again, err := originOf(&url.URL{Scheme: scheme, Host: o.host})
		if err != nil || again != o {
			t.Fatalf("%q is %v, and that is %v, %v", host, o, again, err)
		}
	})
}

// FuzzRedirect holds that a redirect of robots.txt leads to a web server or nowhere, without
// credentials.
func FuzzRedirect(f *testing.F) {
	for _, s := range []string{"/r", "//u:p@h/", "https:/u:p@h", "http:h", "file:///etc/passwd", "https://[::1%25z]:0443/", "?", "http://\u202e/", "https://h:99999/"} {
		f.Add(s)
	}
	from := &url.URL{Scheme: "https", Host: "example.com", Path: "/robots.txt"}
	f.Fuzz(func(t *testing.T, location string) {
		to := redirect(from, location)
		if to == nil {
			return
		}
		if to.Scheme != "http" && to.Scheme != "https" || to.Host == "" || to.User != nil || to.Opaque != "" || len(to.String()) > maxURL {
			t.Errorf("%q leads to %#v", location, to)
		}
		if _, err := originOf(to); err != nil {
			t.Errorf("%q leads to %q: %v", location, to, err)
		}
	})
}
