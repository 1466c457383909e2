package crawl_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness/crawl"
)

// TestLinkHeader names the canonical page and the next one (RFC 8288): of any media type, relative to
// the page and not to its <base>, but not where the link is about another page.
func TestLinkHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		site := r.Site("https://example.com")
		with := func(link, contentType, body string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Link", link)
				w.Header().Set("Content-Type", contentType)
				_, _ = fmt.Fprint(w, body)
			})
		}
		site.Handle("/list/1", with(`<style.css>; rel=preload, <2>; title="a, <b>; rel=canonical" ; rel="Next"`, "text/html", `<base href=/elsewhere/><a href="/list/2">2</a>`)).
			Handle("/list/2", with(`<3>; rel="alternate next"; hreflang=de, <4>; rel=next; anchor="/other"`, "application/pdf", "%PDF")).
			Handle("/list/3", with(`</list/3-whole>; rel="canonical"`, "text/plain", "text")).
			Handle("/list/3-whole", page("whole"))
		var pages []string
		r.crawl.Canonical, r.crawl.Follow = true, func(p *crawl.Page, l crawl.Link) bool {
			pages = append(pages, p.URL[len("https://example.com"):]+" "+l.Element+" "+l.URL[len("https://example.com"):])
			return true
		}
		s := r.run(t.Context(), t, "https://example.com/list/1")
		want := []string{"/list/1 a /list/2", "/list/2 header /list/3", "/list/3 link /list/3-whole"}
		if got := r.urls(); !slices.Equal(pages, want) || got != "https://example.com/list/1 https://example.com/list/2 https://example.com/list/3-whole" {
			t.Errorf("links %q, visited %s, %v", pages, got, s)
		}
	})
}
