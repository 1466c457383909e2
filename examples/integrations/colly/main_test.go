package main

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gocolly/colly/v2"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/internal/localsite"
)

// Both ways to crawl fetch all that may be fetched, each page once, and are found
// polite by the log as well as by the servers.
func TestCrawl(t *testing.T) {
	for _, test := range []struct {
		name   string
		queued bool
		sites  int
	}{
		{"async", false, threads/2 + 4}, // more slots than may be in flight
		{"queue", true, threads / 4},    // more threads than slots
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var sites []*localsite.Site
			var starts []string
			for range test.sites {
				s := localsite.Start()
				defer s.Close()
				sites = append(sites, s)
				starts = append(starts, s.URL+"/")
			}
			report, err := crawl(t.Context(), t.Output(), test.queued, starts)
			if err != nil {
				t.Fatal(err)
			}
			if !report.OK() || report.Promise("verdicts right").Proved == 0 {
				t.Error(report)
			}
			seen := 0
			for _, s := range sites {
				seen += len(s.Visits())
				for target, want := range map[string]int{
					"/": 1, "/a": 1, "/b": 1, "/c": 1, "/d": 1, "/e": 1, "/moved": 1, "/trap": 1, "/robots.txt": 1,
					"/busy":     2, // 429, and once more
					"/private*": 0,
				} {
					if got := len(s.Visits(target)); got != want {
						t.Errorf("%s%s was asked for %d times, not %d", s.URL, target, got, want)
					}
				}
				for _, v := range s.Visits() {
					if ua := v.Header.Get("User-Agent"); !strings.HasPrefix(ua, "CollyExample/") {
						t.Errorf("%s was asked for by %q", v.Target, ua)
					}
				}
				if n := s.MostInFlight(); n > 2 {
					t.Errorf("%d requests at once on %s", n, s.URL)
				}
			}
			if logged := report.Records["started"]; logged != seen {
				t.Errorf("the log knows of %d requests, the servers of %d", logged, seen)
			}
		})
	}
}

// countingTransport counts the requests that pass it.
type countingTransport struct {
	next  http.RoundTripper
	count atomic.Int64
}

func (c *countingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	c.count.Add(1)
	return c.next.RoundTrip(req)
}

// polite returns a collector, and what counts the requests that go through its Transport.
func polite(t *testing.T) (*colly.Collector, *countingTransport) {
	t.Helper()
	transport, err := politeness.New(politeness.Config{
		UserAgent: "CollyExample/1.0 (+https://example.com/bot; bot@example.com)",
	})
	if err != nil {
		t.Fatal(err)
	}
	counted := &countingTransport{next: transport}
	c := colly.NewCollector()
	c.WithTransport(counted)
	return c, counted
}

// What the package's comment warns of: after SetProxy nothing is polite any more.
func TestSetProxyReplacesTheTransport(t *testing.T) {
	s := localsite.Start() // takes what a proxy would
	defer s.Close()
	c, counted := polite(t)
	if err := c.SetProxy(s.URL); err != nil {
		t.Fatal(err)
	}
	if err := c.Visit("http://site.example/private/diary"); err != nil {
		t.Fatal(err)
	}
	if n := counted.count.Load(); n != 0 {
		t.Errorf("%d requests went through politeness: the warning is out of date", n)
	}
}

// The other warning: what colly's cache has, it has for ever, refusals included.
func TestCacheDirKeepsRefusals(t *testing.T) {
	s := localsite.Start()
	defer s.Close()
	c, counted := polite(t)
	c.AllowURLRevisit = true
	c.CacheDir = t.TempDir()
	for range 2 {
		if err := c.Visit(s.URL + "/busy"); err == nil || err.Error() != http.StatusText(http.StatusTooManyRequests) {
			t.Errorf("error is %v, not that of a 429: the warning is out of date", err)
		}
	}
	if n := counted.count.Load(); n != 1 {
		t.Errorf("%d requests, not 1: the warning is out of date", n)
	}
}
