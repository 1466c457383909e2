package promises_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/internal/soak"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A wildcardDomain answers under every name, with one robots.txt of 4 KB; every tenth name refuses.
type wildcardDomain struct {
	robots         string
	fetches, pages atomic.Int64
}

func (w *wildcardDomain) RoundTrip(req *http.Request) (*http.Response, error) {
	status, body, n := 200, "<p>a page</p>", &w.pages
	if req.URL.Path == "/robots.txt" {
		body, n = w.robots, &w.fetches
	} else if strings.Contains(req.URL.Host, "0.") {
		status = 429
	}
	n.Add(1)
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// TestManyNames crawls through very many names of one wildcard domain, a page of each: what the
// Transport, its limiter, its budget and its log keep is bounded by what the guide says. It is
// 20,000 names, and in make soak as many as there is time for, up to ten million, where all bounds are
// the defaults.
func TestManyNames(t *testing.T) {
	most := soak.Size(20_000, 20_000, 10_000_000)
	robotsBytes, hosts := int64(soak.Size(1<<20, 1<<20, 256<<20)), soak.Size(5_000, 5_000, 1_000_000)
	over := soak.Over(t)
	var rules strings.Builder
	rules.WriteString("User-agent: *\n")
	for i := range 150 {
		fmt.Fprintf(&rules, "Disallow: /private/%d/*.pdf\n", i)
	}
	synctest.Test(t, func(t *testing.T) {
		domain := &wildcardDomain{robots: rules.String()}
		spend := budget.New(budget.Limits{PagesPerHost: 5})
		log := logtest.New(t, io.Discard, evidence.LogConfig{Chained: true})
		before := heapInUse()
		tr := mustNew(t, politeness.Config{
			UserAgent: agent, Base: domain, Budget: spend, Evidence: log,
			Robots: robotscache.Config{MaxBytes: robotsBytes},
			Hosts:  hostlimit.Config{MaxHosts: hosts, MaxWait: 10 * time.Second},
		})
		var next, crawled atomic.Int64
		var crawl sync.WaitGroup
		for range 200 {
			crawl.Go(func() {
				for i := next.Add(1); i <= int64(most) && !over(); i = next.Add(1) {
					req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("https://name-%08d.wild.example/page", i), nil)
					if err != nil {
						t.Error(err)
						return
					}
					resp, err := tr.RoundTrip(req)
					if err != nil {
						t.Error(err)
						return
					}
					resp.Body.Close()
					crawled.Add(1)
				}
			})
		}
		crawl.Wait()
		names := crawled.Load()
		kept := heapInUse() - before
		// Fetches of robots.txt take a turn as well, so each name is known for a minute after its page;
		// every tenth is blocked, which is kept for as long as it may count against the next answer.
		refused := names / 10
		limits := (int64(hosts)+refused+200*90)*180 + refused*160
		bound := robotsBytes*5/4 + limits + names*40 + 2<<20
		t.Logf("soak: %d names, %d MB kept, bound %d MB: %.0f bytes a name; %v", names, kept>>20, bound>>20, float64(kept)/float64(names), log.Err())
		if kept > bound {
			t.Errorf("%d MB kept, more than %d", kept>>20, bound>>20)
		}
		if got := domain.pages.Load(); got != names || domain.fetches.Load() != names {
			t.Errorf("%d pages and %d fetches of robots.txt of %d names", got, domain.fetches.Load(), names)
		}
		runtime.KeepAlive(tr)
	})
}

// heapInUse is what is live, garbage aside.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
