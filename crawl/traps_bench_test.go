package crawl_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
)

// A large web has pages of some length with links to others, on one host or on many.
type large struct {
	hosts, urls int
	text        string
}

const largeLinks = 100

func newLarge(hosts, urls int) *large {
	var b strings.Builder
	for i := range 150 {
		fmt.Fprintf(&b, "<p class=text>The line %d of a page that has as many of them as others have.</p>\n", i)
	}
	return &large{hosts: hosts, urls: urls, text: b.String()}
}

func (l *large) url(n int) string {
	n %= l.urls
	return fmt.Sprintf("http://h%d.example/section-%d/page/%d?view=%d", n%l.hosts, n%20, n, n%3)
}

func (l *large) RoundTrip(req *http.Request) (*http.Response, error) {
	number, _ := strconv.Atoi(req.URL.Path[strings.LastIndexByte(req.URL.Path, '/')+1:])
	var b strings.Builder
	b.WriteString(l.text)
	fmt.Fprintf(&b, "<p>All about %s", letter(strconv.Itoa(number)))
	for i := range largeLinks {
		fmt.Fprintf(&b, "<a href=%q>x</a>", l.url(number*largeLinks/10+i*l.hosts))
	}
	return &http.Response{
		StatusCode: http.StatusOK, Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(strings.NewReader(b.String())),
	}, nil
}

// BenchmarkTraps is what the rule costs for a page: the processor's time, and the memory at the end,
// beside a crawl without it.
func BenchmarkTraps(b *testing.B) {
	for _, size := range []struct {
		name        string
		hosts, urls int
	}{{"one host", 1, 1_000_000}, {"100,000 hosts", 100_000, 1_000_000}} {
		for name, how := range map[string]crawl.Traps{"last": crawl.TrapsLast, "ignored": crawl.TrapsIgnored} {
			b.Run(size.name+"/"+name, func(b *testing.B) { benchTraps(b, newLarge(size.hosts, size.urls), how) })
		}
	}
}

func benchTraps(b *testing.B, web *large, how crawl.Traps) {
	transport, err := politeness.New(politeness.Config{
		UserAgent: userAgent, Base: web, Hosts: hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}},
	})
	if err != nil {
		b.Fatal(err)
	}
	before := processorTime()
	var peak uint64
	visited := 0
	c, err := crawl.New(crawl.Config{
		Transport: transport, Follow: crawl.Everywhere, Traps: how, MaxPages: b.N,
		Visit: func(context.Context, *crawl.Page) error { return nil },
		Done: func(crawl.Result) {
			visited++
			if visited == b.N*9/10 {
				peak = heapNow()
			}
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	var start []string
	for i := range max(1, min(web.hosts, b.N/2)) {
		start = append(start, web.url(i))
	}
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := c.Run(b.Context(), start...); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/page")
	b.ReportMetric(float64(peak)/1e6, "MB")
}

func heapNow() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
