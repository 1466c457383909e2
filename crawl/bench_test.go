package crawl_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
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
	var urls []string
	for i := range b.N {
		urls = append(urls, fmt.Sprintf("http://h%d.example/%d", i%1000, i))
	}
	b.ReportAllocs()
	b.ResetTimer()
	summary, err := c.Run(b.Context(), urls...)
	if err != nil || summary.Visited() != b.N {
		b.Fatal(summary, err)
	}
}
