package crawl_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
)

// A still web answers at once.
type still struct{}

func (still) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("page")),
	}, nil
}

// BenchmarkPage is what a crawl costs for each page, the Transport and http.Client included.
func BenchmarkPage(b *testing.B) {
	c := crawlStill(b)
	urls := urlsOf(1000, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	summary, err := c.Run(b.Context(), urls...)
	if err != nil || summary.Visited() != b.N {
		b.Fatal(summary, err)
	}
}

// TestAPageCostsLittle: what few crawls need isn't made for each page of all.
func TestAPageCostsLittle(t *testing.T) {
	const pages = 10_000
	c := crawlStill(t)
	urls := urlsOf(20, pages)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	summary, err := c.Run(t.Context(), urls...)
	runtime.ReadMemStats(&after)
	if err != nil || summary.Visited() != pages {
		t.Fatal(summary, err)
	}
	allocations := (after.Mallocs - before.Mallocs) / pages
	bytes := (after.TotalAlloc - before.TotalAlloc) / pages
	t.Logf("%d allocations and %d bytes a page", allocations, bytes)
	if allocations > mostAllocations || bytes > mostBytes {
		t.Errorf("%d allocations and %d bytes a page, want at most %d and %d", allocations, bytes, mostAllocations, mostBytes)
	}
}

const (
	mostAllocations = 68
	mostBytes       = 21_500
)

// crawlStill returns a crawler of a still web without delays.
func crawlStill(b testing.TB) *crawl.Crawler {
	b.Helper()
	transport, err := politeness.New(politeness.Config{
		UserAgent: userAgent, Base: still{}, Hosts: hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}},
	})
	if err != nil {
		b.Fatal(err)
	}
	c, err := crawl.New(crawl.Config{Transport: transport, Visit: func(context.Context, *crawl.Page) error { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// urlsOf returns n URLs of a number of hosts.
func urlsOf(hosts, n int) (urls []string) {
	for i := range n {
		urls = append(urls, fmt.Sprintf("http://h%d.example/%d", i%hosts, i))
	}
	return urls
}
