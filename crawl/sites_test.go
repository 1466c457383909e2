package crawl_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
)

// A wildcard is a web of honest hosts, and of a domain that answers under any name or port. It is an
// http.RoundTripper of few steps.
type wildcard struct {
	honest time.Duration // what an honest host takes
	quick  int           // pages that a name of the domain serves quickly, before it takes its time
	slow   time.Duration // what a name of the domain takes then

	mu     sync.Mutex
	pages  map[string]int // served, by host
	flying map[string]int // by site: "honest" or "hostile"
	most   map[string]int
}

func (w *wildcard) RoundTrip(req *http.Request) (*http.Response, error) {
	host := req.URL.Host
	site := "honest"
	took := w.honest
	w.mu.Lock()
	if strings.Contains(host, "hostile.test") {
		site = "hostile"
		if w.pages[host] >= w.quick && req.URL.Path != "/robots.txt" {
			took = w.slow
		}
	}
	w.flying[site]++
	w.most[site] = max(w.most[site], w.flying[site])
	w.mu.Unlock()
	timer := time.NewTimer(took)
	defer timer.Stop()
	var err error
	select {
	case <-timer.C:
	case <-req.Context().Done():
		err = req.Context().Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flying[site]--
	if err != nil {
		return nil, err
	}
	text := "page"
	if req.URL.Path == "/robots.txt" {
		text = "User-agent: *\nAllow: /\n"
	} else {
		w.pages[host]++
	}
	return &http.Response{
		StatusCode: http.StatusOK, Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader(text)),
	}, nil
}

// crawlWildcard crawls w for d under Bulk, and returns the pages of honest hosts.
func crawlWildcard(t *testing.T, w *wildcard, urls []string, d time.Duration) (honest int) {
	t.Helper()
	w.pages, w.flying, w.most = map[string]int{}, map[string]int{}, map[string]int{}
	cfg := politeness.Bulk(userAgent)
	cfg.Base = w
	transport, err := politeness.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	crawler, err := crawl.New(crawl.Config{
		Transport: transport, Grace: time.Millisecond,
		Visit: func(context.Context, *crawl.Page) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(d, cancel).Stop()
	if _, err := crawler.Run(ctx, urls...); err != nil {
		t.Fatal(err)
	}
	for host, n := range w.pages {
		if !strings.Contains(host, "hostile.test") {
			honest += n
		}
	}
	return honest
}

// pagesOf returns the URLs of n pages of each host.
func pagesOf(n int, hosts ...string) (urls []string) {
	for page := range n {
		for _, host := range hosts {
			urls = append(urls, (&url.URL{Scheme: "http", Host: host, Path: fmt.Sprint("/", page)}).String())
		}
	}
	return urls
}

// Under Bulk fifty honest hosts have nine tenths of their pages, whatever a domain with a thousand
// names does.
func TestNoDomainStarvesTheRest(t *testing.T) {
	var honest, hostile []string
	for i := range 50 {
		honest = append(honest, fmt.Sprintf("h%d.example", i))
	}
	for i := range 1000 {
		hostile = append(hostile, fmt.Sprintf("n%d.hostile.test", i))
	}
	const d = 10 * time.Second // names that begin quickly are slow from the first second on
	for _, takes := range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			urls := pagesOf(350, honest...)
			alone := crawlWildcard(t, &wildcard{honest: takes}, urls, d)
			for _, quick := range []int{0, 3} { // slow from the beginning, and after it has looked quick
				w := &wildcard{honest: takes, quick: quick, slow: 50 * time.Second}
				beside := crawlWildcard(t, w, append(pagesOf(10, hostile...), urls...), d)
				t.Logf("honest hosts take %v, the domain is quick for %d pages: %d pages of %d", takes, quick, beside, alone)
				if beside < alone*9/10 {
					t.Errorf("honest hosts take %v: %d pages, %d without the domain", takes, beside, alone)
				}
				if w.most["hostile"] > 16 {
					t.Errorf("%d requests in flight on the domain", w.most["hostile"])
				}
			}
		})
	}
}

// A page may link to every port of a machine, and to any number of names of a domain: few requests
// are in flight there at once.
func TestAPageOfPortsOrNamesFloodsNobody(t *testing.T) {
	const n = 2000
	floods := map[string]func(i int) string{
		"ports": func(i int) string { return fmt.Sprint("hostile.test:", 1024+i) },
		"names": func(i int) string { return fmt.Sprintf("n%d.hostile.test", i) },
	}
	for name, host := range floods {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hosts []string
				for i := range n {
					hosts = append(hosts, host(i))
				}
				w := &wildcard{slow: 100 * time.Millisecond, honest: 100 * time.Millisecond}
				crawlWildcard(t, w, pagesOf(1, hosts...), time.Hour)
				if w.most["hostile"] != 16 || len(w.pages) != n {
					t.Errorf("%d requests in flight, pages of %d hosts", w.most["hostile"], len(w.pages))
				}
			})
		})
	}
}
