package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/politenesstest"
)

// menu is an error page with the relative links of its site, and with all else that may lead on.
func menu(status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Link", `<next>; rel="next", <canon>; rel="canonical"`)
		w.Header().Set("Refresh", "0; url=refreshed")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, `<link rel=canonical href=canonical><link rel=next href=more><meta http-equiv=refresh content="0; url=moved">
<a href="sitemap">a</a> <a href="shop/">a</a> <a href="news/">a</a> <iframe src="frame/"></iframe>`)
	})
}

// TestErrorPagesLeadNowhere: the text of an error page isn't the page, so a crawl of a site whose
// every URL is one has an end.
func TestErrorPagesLeadNowhere(t *testing.T) {
	for _, status := range []int{305, 306, 302, 399, 400, 401, 403, 404, 405, 410, 418, 421, 425, 429, 451, 499, 500, 501, 503, 505, 520, 599, 600, 777, 999} {
		for _, tries := range []int{0, 1} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.Site("https://example.com").Handle("/", menu(status)).Handle("/home.html", page(`<a href="/gone/">gone</a>`))
				r.crawl.Follow = crawl.Everywhere
				r.crawl.Canonical = true
				r.crawl.Tries = tries
				ctx, cancel := context.WithTimeout(t.Context(), 30*24*time.Hour)
				defer cancel()
				s := r.run(ctx, t, "https://example.com/home.html")
				asked := map[string]int{}
				for _, req := range r.Requests() {
					asked[req.URL]++
				}
				if s.Stopped != nil || len(asked) != 3 {
					t.Errorf("status %d, %d tries: %v; asked for %v", status, tries, s, asked)
				}
				for _, p := range r.visited {
					if p.Response.StatusCode == status && (p.Links != nil || p.Canonical != "") {
						t.Errorf("status %d: links %v, canonical %q", status, p.Links, p.Canonical)
					}
				}
			})
		}
	}
}

// TestPagesThatLeadOn are those of every 2xx, known or not, and the choices of a 300.
func TestPagesThatLeadOn(t *testing.T) {
	for _, status := range []int{200, 201, 202, 203, 206, 226, 299, 300} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.Site("https://example.com").Handle("/", page("")).Handle("/home.html", menu(status))
			r.crawl.Follow = func(_ *crawl.Page, l crawl.Link) bool { return l.Element == "a" }
			s := r.run(t.Context(), t, "https://example.com/home.html")
			wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 4})
		})
	}
}

// TestMaxPagesEndsEveryCrawl: whatever a site answers, and whatever Visit returns, MaxPages bounds
// the pages that are asked for.
func TestMaxPagesEndsEveryCrawl(t *testing.T) {
	failing := func(context.Context, *crawl.Page) error { return errors.New("database is locked") }
	for _, tt := range []struct {
		name  string
		pages http.Handler // of every URL beside the start URL's
		visit func(context.Context, *crawl.Page) error
		want  map[crawl.Outcome]int
	}{
		{"served", page(""), nil, map[crawl.Outcome]int{crawl.Visited: 5, crawl.Left: 96}},
		{"missing", politenesstest.Status(http.StatusNotFound), nil, map[crawl.Outcome]int{crawl.Visited: 5, crawl.Left: 96}},
		{"forbidden", politenesstest.Status(http.StatusForbidden), nil, map[crawl.Outcome]int{crawl.Visited: 5, crawl.Left: 96}},
		{"broken", politenesstest.Status(http.StatusInternalServerError), nil, map[crawl.Outcome]int{crawl.Visited: 1, crawl.Refused: 4, crawl.Left: 96}},
		{"limited", politenesstest.Status(http.StatusTooManyRequests), nil, map[crawl.Outcome]int{crawl.Visited: 1, crawl.Refused: 4, crawl.Left: 96}},
		{"visits fail", page(""), failing, map[crawl.Outcome]int{crawl.VisitFailed: 5, crawl.Left: 96}},
	} {
		for _, perHost := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, perHost), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig()
					r.Site("https://example.com").Handle("/", tt.pages).Handle("/start", page(manyLinks(100)))
					r.crawl.Follow = crawl.SameHost
					r.crawl.Tries = 1
					r.crawl.Visit = tt.visit
					want := map[crawl.Outcome]int{}
					for outcome, n := range tt.want {
						want[outcome] = n
					}
					if perHost {
						r.crawl.MaxPagesPerHost = 5
						want[crawl.EnoughOfHost] = want[crawl.Left]
						delete(want, crawl.Left)
					} else {
						r.crawl.MaxPages = 5
					}
					ctx, cancel := context.WithTimeout(t.Context(), 30*24*time.Hour)
					defer cancel()
					summary := r.run(ctx, t, "https://example.com/start")
					wantOutcomes(t, summary, want)
					if !perHost && !errors.Is(summary.Stopped, crawl.ErrMaxPages) {
						t.Errorf("stopped: %v", summary.Stopped)
					}
					// The start URL, which was served, may be asked for again: is it the host that refuses?
					if n := len(r.Requests()); n > 9 {
						t.Errorf("%d requests for 5 pages and robots.txt", n)
					}
				})
			})
		}
	}
}

// TestRefusedHostLeavesMaxPages: URLs of a host that is given up, and that weren't asked for, take
// no page from other hosts.
func TestRefusedHostLeavesMaxPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://bad.example").Handle("/", politenesstest.Status(http.StatusTooManyRequests, "Retry-After", "90000"))
		r.Site("https://good.example").Handle("/", politenesstest.Slow(time.Minute, page("")))
		r.crawl.MaxPages = 20
		r.crawl.Tries = 1
		s := r.run(t.Context(), t, append(numbered("bad.example", 40), numbered("good.example", 10)...)...)
		if s.Visited() != 10 || s.Outcomes[crawl.Refused] != 40 {
			t.Errorf("%v; want 10 visited, 40 refused", s)
		}
	})
}
