package politeness

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/evidence"
)

// FuzzContentType holds that a media type is one word in lower case that says the same again, and
// that who rejects every type rejects it.
func FuzzContentType(f *testing.F) {
	for _, s := range []string{"", "text/html", "Text/HTML; charset=utf-8", "text/html;;", ";", " /", "a/b/c", "text/\x00\u202e", "text/html; a=\"", "image/*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, contentType string) {
		mediaType := mediaTypeOf(contentType)
		if strings.Contains(mediaType, ";") || mediaType != strings.ToLower(mediaType) || mediaType != strings.TrimSpace(mediaType) {
			t.Errorf("%q is %q", contentType, mediaType)
		}
		if mediaType != "" && mediaTypeOf(mediaType) != mediaType {
			t.Errorf("%q is %q, and that %q", contentType, mediaType, mediaTypeOf(mediaType))
		}
		if !matchesAny([]string{"*/*"}, mediaType) || !matchesAny([]string{mediaType}, mediaType) {
			t.Errorf("%q isn't matched", mediaType)
		}
	})
}

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
		if shown := redact(to); strings.Contains(shown, "S3CRET") {
			t.Errorf("%q: URL %q", location, shown)
		}
		if err := checkURL(to); err != nil && strings.Contains(err.Error(), "S3CRET") {
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
		if err := checkURL(to); err == nil && (to.Host == "" || byHost(&http.Request{URL: to}) == "" || !strings.HasPrefix(strings.ToLower(to.Scheme), "http")) {
			t.Errorf("%q leads to %q", location, to)
		}
		shown := urlText(to) + evidence.RedactURL(location)
		if secret, _ := to.User.Password(); len(secret) > 5 && strings.Contains(shown, secret) && !strings.Contains(to.Host+to.Path+to.RawQuery+to.Fragment+to.User.Username(), secret) {
			t.Errorf("%q is shown as %q", location, shown)
		}
	})
}
