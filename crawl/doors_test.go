package crawl_test

import (
	"fmt"
	"html"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sitemap"
)

// doors are the ways by which a crawl comes to a URL. Each returns the answer of the page
// /dir/start for a reference, as that is written there.
var doors = map[string]func(ref string) http.Handler{
	"a":       inHTML(`<a href="%s">`),
	"area":    inHTML(`<map><area href="%s"></map>`),
	"iframe":  inHTML(`<iframe src="%s"></iframe>`),
	"frame":   inHTML(`<frameset><frame src="%s"></frameset>`),
	"next":    inHTML(`<link rel=next href="%s">`),
	"refresh": inHTML(`<meta http-equiv=refresh content="0; url=%s">`),
	"Refresh": inHeader(http.StatusOK, "Refresh", "0; url=%s"),
	"Link":    inHeader(http.StatusOK, "Link", `<%s>; rel=next`),

	"Location":  inHeader(http.StatusFound, "Location", "%s"),
	"canonical": inHTML(`<head><link rel=canonical href="%s"></head>`),
}

func inHTML(format string) func(string) http.Handler {
	return func(ref string) http.Handler { return page(fmt.Sprintf(format, html.EscapeString(ref))) }
}

func inHeader(status int, name, format string) func(string) http.Handler {
	return func(ref string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(name, fmt.Sprintf(format, ref))
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(status)
		})
	}
}

// readings are references on https://example.com/dir/start, and what Chromium asks for.
var readings = []struct{ ref, want string }{
	{"http:///example.com/", "http://example.com/"},
	{"https:////example.com/a", "https://example.com/a"},
	{"///example.com/p", "https://example.com/p"},
	{`\\example.com\p`, "https://example.com/p"},
	{`/\example.com/p`, "https://example.com/p"},
	{"https:/path", "https://example.com/path"},
	{"https:page.html", "https://example.com/dir/page.html"},
	{"https:", "https://example.com/dir/start"},
	{"http:/example.com/path", "http://example.com/path"},
	{"http:example.com", "http://example.com/"},
	{"/50%-off", "https://example.com/50%25-off"},
	{"/%zz", "https://example.com/%25zz"},
	{"/?100%", "https://example.com/?100%"},
	{"page\tone", "https://example.com/dir/pageone"},
	{"8:30.html", "https://example.com/dir/8:30.html"},
	{"https://example.com:0443/x", "https://example.com/x"},
	{"https://EX%41MPLE.com/x", "https://example.com/x"},
	{"/a/%2e%2E/b/./c", "https://example.com/b/c"},
	{"../../../b", "https://example.com/b"},
	{`/a\b?c\d`, "https://example.com/a/b?c%5Cd"},
	{"https://user:pass@example.com/x", "https://example.com/x"},
	{"/it's?it's", "https://example.com/it's?it%27s"},
}

// unreadable are references that no browser reads, of http and https.
var unreadable = []string{
	"https://[::1/", "https://exa mple.com/", "https://example.com:port/", "https://example.com:99999/", "//", "https://", "https://a%00b/",
	"https://1.2.3.4.5/", "https://a^b/", "https://xn--a/", "https://user@/",
}

// atDoor crawls a site whose page /dir/start has ref at a door, and returns what it asks for beside
// robots.txt, and which results are Invalid.
func atDoor(t *testing.T, door, ref string) (asked map[string]bool, invalid []string) {
	t.Helper()
	r := newRig()
	for _, origin := range []string{"https://example.com", "http://example.com"} {
		r.Site(origin).Handle("/", page(""))
	}
	r.Site("https://example.com").Handle("/dir/start", doors[door](ref))
	r.crawl.Follow = crawl.Everywhere
	r.crawl.Canonical = true
	r.crawl.Done = func(res crawl.Result) {
		if res.Outcome == crawl.Invalid && res.Err != nil {
			invalid = append(invalid, res.URL)
		}
	}
	r.run(t.Context(), t, "https://example.com/dir/start")
	asked = make(map[string]bool)
	for _, req := range r.Requests() {
		if !strings.HasSuffix(req.URL, "/robots.txt") {
			asked[req.URL] = true
		}
	}
	return asked, invalid
}

// TestOneReadingOfURLs at each door: that of browsers.
func TestOneReadingOfURLs(t *testing.T) {
	for door := range doors {
		t.Run(door, func(t *testing.T) {
			for _, tt := range readings {
				synctest.Test(t, func(t *testing.T) {
					if strings.Contains(tt.ref, "\t") && door == "Refresh" {
						return // net/http's server writes a space for it
					}
					asked, invalid := atDoor(t, door, tt.ref)
					if !asked[tt.want] || len(asked) > 2 || len(invalid) > 0 {
						t.Errorf("%q: asked for %v, invalid %q; want %s", tt.ref, asked, invalid, tt.want)
					}
				})
			}
		})
	}
}

// TestUnreadableURLsAreInvalid: none is dropped in silence, at whichever door.
func TestUnreadableURLsAreInvalid(t *testing.T) {
	for door := range doors {
		t.Run(door, func(t *testing.T) {
			for _, ref := range unreadable {
				synctest.Test(t, func(t *testing.T) {
					asked, invalid := atDoor(t, door, ref)
					isTold := len(invalid) == 1 && invalid[0] == ref
					if door == "canonical" { // the page is visited, as if it named none
						isTold = len(invalid) == 0
					}
					if len(asked) != 1 || !isTold {
						t.Errorf("%q: asked for %v, invalid %q", ref, asked, invalid)
					}
				})
			}
		})
	}
}

// TestOtherSchemesAreNoMistake: a link to a mail address is no page, and no Invalid one.
func TestOtherSchemesAreNoMistake(t *testing.T) {
	for _, ref := range []string{"mailto:x@example.com", "javascript:void(0)", "java\nscript:x", "tel:+1", "data:,x", "about:blank", "ftp://example.com/"} {
		synctest.Test(t, func(t *testing.T) {
			if asked, invalid := atDoor(t, "a", ref); len(asked) != 1 || len(invalid) > 0 {
				t.Errorf("%q: asked for %v, invalid %q", ref, asked, invalid)
			}
		})
	}
}

// TestControlCharactersInLinks are escaped, or dropped around a URL, as in Chromium.
func TestControlCharactersInLinks(t *testing.T) {
	for ref, want := range map[string]string{
		"/s\x01oh.html": "/s%01oh.html", "/s\x0boh": "/s%0Boh", "/s\x0coh": "/s%0Coh", "/s\x7foh": "/s%7Foh", "\x01/soh": "/soh", "/soh\x1f ": "/soh",
		"/s&#x1;oh": "/s%01oh", "/s&#10;oh": "/soh", "/s\x00oh": "/s%EF%BF%BDoh",
	} {
		synctest.Test(t, func(t *testing.T) {
			if got := strings.TrimSpace(crawled(t, "text/html; charset=utf-8", `<a href="`+ref+`">`)); got != want {
				t.Errorf("%q: visited %q, want %q", ref, got, want)
			}
		})
	}
}

// TestStartURLsAreReadAsLinks are, and so is what Discover finds in sitemaps.
func TestStartURLsAreReadAsLinks(t *testing.T) {
	for _, tt := range readings {
		if !strings.HasPrefix(tt.ref, "http") || tt.ref == "https:" || strings.HasPrefix(tt.ref, "https:p") || strings.HasPrefix(tt.ref, "https:/p") {
			continue // it needs a page
		}
		if got, err := crawl.Normalize(tt.ref); got != tt.want || err != nil {
			t.Errorf("Normalize(%q) = %q, %v; want %q", tt.ref, got, err, tt.want)
		}
		for entry, err := range sitemap.Read(strings.NewReader("<urlset><url><loc>" + html.EscapeString(tt.ref) + "</loc></url></urlset>")) {
			if got, bad := crawl.Normalize(entry.Loc); got != tt.want || bad != nil || err != nil {
				t.Errorf("a sitemap has %q: %q, %v", tt.ref, entry.Loc, err)
			}
		}
	}
}
