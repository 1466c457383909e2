package crawl_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness/crawl"
)

// form makes the request for a start URL a search.
func form(r crawl.Request, req *http.Request) error {
	if r.Depth > 0 || r.Via != "" {
		return nil
	}
	const body = "q=gopher"
	req.Method = http.MethodPost
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Body = io.NopCloser(strings.NewReader(body))
	req.ContentLength = int64(len(body))
	return nil
}

// methods returns the methods and paths that the site was asked for, but for robots.txt.
func (r *rig) methods() (asked []string) {
	for _, req := range r.Requests() {
		path := strings.TrimPrefix(req.URL, "https://example.com")
		if path != "/robots.txt" {
			asked = append(asked, req.Method+" "+path)
		}
	}
	return asked
}

// TestPrepareMayPost: a search form has its body in each try, the pages that it finds are crawled by
// GET, and so is where it redirects.
func TestPrepareMayPost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		tries := 0
		var bodies []string
		r.Site("https://example.com").
			Handle("/search", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				body, err := io.ReadAll(req.Body)
				if err != nil {
					t.Error(err)
				}
				bodies = append(bodies, string(body))
				tries++
				if tries == 1 {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				page(`<a href="/found">found</a>`)(w, req)
			})).
			Handle("/found", page("")).
			Handle("/form", http.RedirectHandler("/results", http.StatusSeeOther)).
			Handle("/results", page(""))
		r.crawl.Follow = crawl.SameHost
		r.crawl.Prepare = form
		summary := r.run(t.Context(), t, "https://example.com/search", "https://example.com/form")
		wantOutcomes(t, summary, map[crawl.Outcome]int{crawl.Visited: 3, crawl.Redirected: 1})
		if want := []string{"q=gopher", "q=gopher"}; !slices.Equal(bodies, want) {
			t.Errorf("bodies %q, want %q", bodies, want)
		}
		asked := r.methods()
		slices.Sort(asked)
		want := []string{"GET /found", "GET /results", "POST /form", "POST /search", "POST /search"}
		if !slices.Equal(asked, want) {
			t.Errorf("asked for %q, want %q", asked, want)
		}
	})
}

// TestAPostIsNoProof that a host serves: it isn't sent again when other pages are refused.
func TestAPostIsNoProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.politeness.Hosts.Concurrency = 1
		r.Site("https://example.com").
			Handle("/search", page(`<a href="/broken">found</a>`)).
			Handle("/broken", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
		r.crawl.Follow = crawl.SameHost
		r.crawl.Prepare = form
		r.run(t.Context(), t, "https://example.com/search")
		posts := 0
		for _, asked := range r.methods() {
			if strings.HasPrefix(asked, "POST") {
				posts++
			}
		}
		if posts != 1 {
			t.Errorf("the form was sent %d times", posts)
		}
	})
}

// TestPrepareMayAskForHeads: a link checker needs no bodies. Each answer has its status, also where
// the headers speak of a body.
func TestPrepareMayAskForHeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		long := strings.Repeat("text ", 1000)
		r.Site("https://example.com").
			Page("/plain", long).
			Handle("/gzip", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				w.Header().Set("Content-Length", "1234")
			}))
		r.crawl.Prepare = func(_ crawl.Request, req *http.Request) error {
			req.Method = http.MethodHead
			return nil
		}
		r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
			if len(p.Body) > 0 || p.Truncated {
				t.Errorf("%s: %d bytes, truncated %t", p.URL, len(p.Body), p.Truncated)
			}
			return p.StatusErr()
		}
		summary := r.run(t.Context(), t,
			"https://example.com/plain", "https://example.com/gzip", "https://example.com/gone")
		wantOutcomes(t, summary, map[crawl.Outcome]int{crawl.Visited: 2, crawl.VisitFailed: 1})
		for _, asked := range r.methods() {
			if !strings.HasPrefix(asked, "HEAD /") {
				t.Errorf("asked for %s", asked)
			}
		}
	})
}

// TestPrepareMayNotChangeTheURL: it is what the crawl paces, asks robots.txt about, and knows.
func TestPrepareMayNotChangeTheURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Page("/a", "text").Page("/b", "text")
		r.crawl.Prepare = func(r crawl.Request, req *http.Request) error {
			switch {
			case strings.HasSuffix(r.URL, "/a"):
				req.URL.RawQuery = "key=1"
			case strings.HasSuffix(r.URL, "/b"):
				req.URL = nil
			default:
				return errors.New("no")
			}
			return nil
		}
		summary := r.run(t.Context(), t, "https://example.com/a", "https://example.com/b", "https://example.com/c")
		wantOutcomes(t, summary, map[crawl.Outcome]int{crawl.Failed: 3})
		if asked := r.methods(); len(asked) > 0 {
			t.Errorf("asked for %q", asked)
		}
	})
}
