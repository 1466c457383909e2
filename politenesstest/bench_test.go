package politenesstest_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/go-politeness/politeness/politenesstest"
)

// One whole exchange with a page, as a test pays for it.
func BenchmarkPage(b *testing.B) {
	web := politenesstest.NewWeb()
	web.Site(site).Page("/", "home")
	b.ReportAllocs()
	for b.Loop() {
		req, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, site, nil)
		resp, err := web.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// The verdict on a crawl of 10,000 requests.
func BenchmarkViolations(b *testing.B) {
	web := politenesstest.NewWeb()
	web.Site(site).Page("/", "home").Robots("User-agent: *\nCrawl-delay: 0.000001\nDisallow: /private\n")
	for range 10_000 {
		req, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, site, nil)
		resp, err := web.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
	b.ReportAllocs()
	for b.Loop() {
		web.Violations(politenesstest.Rules{Delay: time.Nanosecond, Concurrency: 1})
	}
}
