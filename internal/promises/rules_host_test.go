package promises_test

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
)

func TestBySite(t *testing.T) {
	for host, want := range map[string]string{
		"example.com": "example.com", "WWW.Example.COM.": "example.com", "a.b.example.co.uk:8080": "example.co.uk",
		"www.example.com\u3002": "example.com",
		"alice.github.io":       "alice.github.io", "www.alice.github.io": "alice.github.io", "github.io": "github.io", "co.uk": "co.uk",
		"www.bücher.example": "xn--bcher-kva.example", "www.xn--bcher-kva.example": "xn--bcher-kva.example",
		"foo_bar.example.com": "example.com", "localhost": "localhost", "localhost:80": "localhost", "localhost:8080": "localhost",
		"wiki.db.corp": "db.corp", "192.0.2.1": "192.0.2.1", "192.0.2.1:8080": "192.0.2.1",
		"[2001:DB8::1]:443": "[2001:db8::1]", "[2001:DB8::1]:8080": "[2001:db8::1]", "[2001:db8::1]": "[2001:db8::1]",
		"[::ffff:192.0.2.1]": "192.0.2.1", "": "", ":80": "", ":8080": "",
	} {
		if got := politeness.BySite(&http.Request{URL: &url.URL{Scheme: "https", Host: host}}); got != want {
			t.Errorf("BySite(%q) = %q, want %q", host, got, want)
		}
	}
}

// A record of a robots.txt names the host that its fetch was counted by.
func TestHostKeySeesTheRequest(t *testing.T) {
	cfg := politeness.Config{HostKey: func(req *http.Request) string { return req.Method + " " + req.URL.Path }}
	virtually(t, cfg, func(b *bubble) {
		b.site.Robots("User-agent: *\nAllow: /\n").Page("/x", "page")
		b.mustGet("https://example.com/x", 200)
		if _, err := b.t.Next(b.Context(), "https://example.com/x"); err != nil {
			b.Error(err)
		}
		want := map[bool]string{true: "GET /robots.txt", false: "GET /x"}
		for _, d := range b.log.Decisions() {
			if d.Type != evidence.PolicyStated && d.Host != want[d.RobotsTxt] {
				b.Errorf("%s of %s has the key %q, want %q", d.Type, d.URL, d.Host, want[d.RobotsTxt])
			}
		}
	})
}

// What a frontier asks of a Transport: the key by which it is to group, and how many at once.
func TestWhatAFrontierAsks(t *testing.T) {
	transport, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (bot@example.com)", HostKey: politeness.BySite,
		Hosts: hostlimit.Config{MaxInFlight: 7, Override: func(key string) (hostlimit.Limits, bool) {
			return hostlimit.Limits{Concurrency: 5}, key == "example.com"
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if key, err := transport.HostKey("https://www.example.com/a?b"); key != "example.com" || err != nil {
		t.Errorf("HostKey: %q, %v", key, err)
	}
	for _, bad := range []string{"", "example.com", "ftp://example.com/", "http://", "http://a b/"} {
		var refused *politeness.Error
		if key, err := transport.HostKey(bad); !errors.As(err, &refused) {
			t.Errorf("HostKey(%q) = %q, %v", bad, key, err)
		}
	}
	if transport.UserAgent() != "ExampleBot/1.0 (bot@example.com)" || transport.Limiter().Config().MaxInFlight != 7 {
		t.Errorf("%s, %d in flight", transport.UserAgent(), transport.Limiter().Config().MaxInFlight)
	}
	defaults := hostlimit.Delay{Min: 200 * time.Millisecond, Max: 500 * time.Millisecond, Ceiling: time.Minute}
	for key, want := range map[string]hostlimit.Limits{
		"example.com": {Concurrency: 5, Delay: defaults}, "example.org": {Concurrency: 2, Delay: defaults},
	} {
		if got := transport.Limiter().Config().Of(key); got != want {
			t.Errorf("limits of %s: %+v, want %+v", key, got, want)
		}
	}
}
