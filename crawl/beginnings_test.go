package crawl_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/politenesstest"
)

// A crawl that begins while the site refuses it, as the one after a ban does, comes back when the
// refusal ends, and has all pages.
func TestACrawlThatBeginsInABan(t *testing.T) {
	for _, tt := range []struct {
		status int
		header string // Retry-After
		bans   time.Duration
		most   int // requests
	}{
		{403, "", 50 * time.Second, 1},
		{403, "", 10 * time.Minute, 2},
		{403, "120", 2 * time.Minute, 2},
		{451, "", 50 * time.Second, 1},
		{999, "", 50 * time.Second, 1},
		{429, "", 2 * time.Minute, 11},
		{429, "10", 2 * time.Minute, 12},
		{429, "", 14 * time.Minute, 14},
		{503, "", 2 * time.Minute, 11},
		{503, "30", 2 * time.Minute, 12},
		{500, "", 14 * time.Minute, 16},
	} {
		t.Run(fmt.Sprint(tt.status, tt.header, tt.bans), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.crawl.Follow = crawl.SameHost
				refused := 0
				began := time.Now()
				r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if time.Since(began) < tt.bans {
						refused++
						if tt.header != "" {
							w.Header().Set("Retry-After", tt.header)
						}
						w.WriteHeader(tt.status)
						return
					}
					if req.URL.Path == "/" {
						page(`<a href=/1>1</a><a href=/2>2</a>`)(w, req)
					}
				}))
				sum := r.run(t.Context(), t, "https://example.com/")
				wantOutcomes(t, sum, map[crawl.Outcome]int{crawl.Visited: 3})
				if refused > tt.most || refused == 0 {
					t.Errorf("%d requests into the ban, want at most %d", refused, tt.most)
				}
				if over := sum.Elapsed - tt.bans; over > 10*time.Minute {
					t.Errorf("it took %v longer than the ban", over)
				}
			})
		})
	}
}

// A Queue that lasts keeps the start URL of a host that has refused a whole crawl: the next one asks
// again.
func TestALastingQueueKeepsItsStartURL(t *testing.T) {
	for _, status := range []int{403, 429, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newStore()
				var results []string
				first := newRig()
				first.crawl.Queue = q
				first.crawl.Done = func(res crawl.Result) {
					results = append(results, fmt.Sprint(res.Outcome, res.Status))
				}
				first.Site("https://example.com").Handle("/", politenesstest.Status(status))
				first.Site("https://other.example").Handle("/", page("other"))
				sum := first.run(t.Context(), t, "https://example.com/", "https://other.example/")
				wantOutcomes(t, sum, map[crawl.Outcome]int{crawl.Refused: 1, crawl.Visited: 1})
				if len(results) != 2 || results[1] != fmt.Sprint("refused", status) {
					t.Errorf("Done had %v", results)
				}
				next := newRig()
				next.crawl.Queue = q
				next.Site("https://example.com").Handle("/", page("served"))
				wantOutcomes(t, next.run(t.Context(), t), map[crawl.Outcome]int{crawl.Visited: 1})
				if next.urls() != "https://example.com/" {
					t.Errorf("the next crawl has visited %q", next.urls())
				}
			})
		})
	}
}
