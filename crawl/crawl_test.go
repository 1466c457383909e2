package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/politenesstest"
)

const userAgent = "CrawlTest/1.0 (+https://example.com/bot; bot@example.com)"

// TestCrawlFollowsLinks crawls a site of three pages, of which one is disallowed.
func TestCrawlFollowsLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		page := func(links string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, links)
			}
		}
		web.Site("https://example.com").Robots("User-agent: *\nDisallow: /no\n").
			Handle("/", page(`<a href="/a">a</a> <a href=/no>no</a> <a href="https://other.example/">other</a>`)).
			Handle("/a", page(`<a href="/#top">home</a>`))
		transport, err := politeness.New(politeness.Config{UserAgent: userAgent, Base: web})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var visited []string
		c, err := crawl.New(crawl.Config{Transport: transport, Follow: crawl.SameHost, Visit: func(_ context.Context, p *crawl.Page) error {
			mu.Lock()
			defer mu.Unlock()
			visited = append(visited, p.FinalURL)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		summary, err := c.Run(t.Context(), "HTTPS://EXAMPLE.com:443")
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(visited); got != "[https://example.com/ https://example.com/a]" {
			t.Errorf("visited %s", got)
		}
		if s := summary.Outcomes; s[crawl.Visited] != 2 || s[crawl.Disallowed] != 1 || s[crawl.Duplicate] != 1 {
			t.Errorf("summary: %v", summary)
		}
	})
}
