package weburl_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/hostname"
	"github.com/go-politeness/politeness/internal/weburl"
)

// TestLocationsHideCredentials, those too that browsers find where net/url sees a path or nothing.
func TestLocationsHideCredentials(t *testing.T) {
	base := &url.URL{Scheme: "https", Host: "example.com", Path: "/"}
	for _, location := range []string{
		"https://u:S3CRET@h/", "https:/u:S3CRET@h", "https:u:S3CRET@h", "HTTP:u:S3CRET@h/a", "//u:S3CRET@h", `\\u:S3CRET@h`, `/\u:S3CRET@h`, "http://u:S3CRET@[::1",
	} {
		if shown := evidence.RedactURL(location); strings.Contains(shown, "S3CRET") {
			t.Errorf("%q: Location %q", location, shown)
		}
		to, err := base.Parse(location)
		if err != nil || strings.Contains(to.Path, `\`) {
			continue // it is the path that is asked for
		}
		if shown := weburl.Redacted(to); strings.Contains(shown, "S3CRET") {
			t.Errorf("%q: URL %q", location, shown)
		}
		if err := weburl.Check(to); err != nil && strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%q: %v", location, err)
		}
	}
}

// FuzzLocation holds that whatever a redirect says, http.Client's next request is refused or has a
// host, and that neither its URL in evidence nor the Location there holds a password.
func FuzzLocation(f *testing.F) {
	for _, s := range []string{
		"/a", "//u:S3CRET@h/", "https:/u:S3CRET@h", "https:u:S3CRET@h", `\\u:S3CRET@h`, "http://[::1%25eth0]:080/", "file:///etc/passwd",
		"javascript:alert(1)", "https://\u0430pple.example/\u202e", "?a=b", "#", "https://u:S3CRET@h\\@i/", "http:///u:S3CRET@h",
	} {
		f.Add(s)
	}
	base := &url.URL{Scheme: "https", Host: "example.com", Path: "/"}
	f.Fuzz(func(t *testing.T, location string) {
		to, err := base.Parse(location)
		if err != nil {
			evidence.RedactURL(location)
			return
		}
		if err := weburl.Check(to); err == nil && (to.Host == "" || hostname.Key(to.Host) == "" || !strings.HasPrefix(strings.ToLower(to.Scheme), "http")) {
			t.Errorf("%q leads to %q", location, to)
		}
		shown := weburl.Text(to) + evidence.RedactURL(location)
		if secret, _ := to.User.Password(); len(secret) > 5 && strings.Contains(shown, secret) && !strings.Contains(to.Host+to.Path+to.RawQuery+to.Fragment+to.User.Username(), secret) {
			t.Errorf("%q is shown as %q", location, shown)
		}
	})
}

// TestHash tells pages apart, whatever of their URLs differs, and is the same in every process.
func TestHash(t *testing.T) {
	seen := map[uint64]string{}
	for _, s := range []string{"http://a/", "https://a/", "http://b/", "http://a/b", "http://a/b?c", "http://a/?b", "http://a/%2f", "http://a//", "http://ab/"} {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		h := weburl.Hash(u)
		if other, ok := seen[h]; ok || h == 0 {
			t.Errorf("%s and %s: %d", s, other, h)
		}
		seen[h] = s
	}
	if h := weburl.Hash(&url.URL{Scheme: "http", Host: "a", Path: "/"}); seen[h] != "http://a/" {
		t.Errorf("%d is the hash of %q", h, seen[h])
	}
}
