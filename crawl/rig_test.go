package crawl_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// A rig crawls a fake web in virtual time.
type rig struct {
	*politenesstest.Web
	politeness politeness.Config
	crawl      crawl.Config

	mu      sync.Mutex
	visited []*crawl.Page
}

func newRig() *rig {
	r := &rig{Web: politenesstest.NewWeb()}
	r.politeness = politeness.Config{
		UserAgent: userAgent, Base: r.Web, Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: 100 * time.Millisecond}},
	}
	return r
}

func mustTransport(t *testing.T, cfg politeness.Config) *politeness.Transport {
	t.Helper()
	transport, err := politeness.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

// run crawls and returns the summary.
func (r *rig) run(ctx context.Context, t *testing.T, urls ...string) crawl.Summary {
	t.Helper()
	r.crawl.Transport = mustTransport(t, r.politeness)
	cfg := r.crawl
	cfg.Visit = func(ctx context.Context, p *crawl.Page) error {
		r.mu.Lock()
		r.visited = append(r.visited, p)
		r.mu.Unlock()
		if r.crawl.Visit != nil {
			return r.crawl.Visit(ctx, p)
		}
		return nil
	}
	c, err := crawl.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	summary, err := c.Run(ctx, urls...)
	if err != nil {
		t.Fatal(err)
	}
	return summary
}

// urls are those of the pages that were visited, sorted.
func (r *rig) urls() string {
	var urls []string
	for _, p := range r.visited {
		urls = append(urls, p.FinalURL)
	}
	slices.Sort(urls)
	return strings.Join(urls, " ")
}

// page answers with HTML.
func page(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, body)
	}
}

func wantOutcomes(t *testing.T, s crawl.Summary, want map[crawl.Outcome]int) {
	t.Helper()
	got := maps.Clone(s.Outcomes)
	maps.DeleteFunc(got, func(_ crawl.Outcome, n int) bool { return n == 0 })
	if !maps.Equal(got, want) {
		t.Errorf("outcomes: %v, want %v", got, want)
	}
}

// A roundTripper is a web in a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// listed makes a Config.Discover of a function that finds everything before it returns.
func listed(find func(ctx context.Context, url string) []crawl.Request) func(context.Context, string) iter.Seq[crawl.Request] {
	return func(ctx context.Context, url string) iter.Seq[crawl.Request] {
		return func(yield func(crawl.Request) bool) {
			for _, r := range find(ctx, url) {
				if !yield(r) {
					return
				}
			}
		}
	}
}
