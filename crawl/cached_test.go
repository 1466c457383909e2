package crawl_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
)

// A cache answers by itself for the URLs that it has, and asks next for the others.
type cache struct {
	next http.RoundTripper
	has  func(url string) bool

	mu   sync.Mutex
	hits int
}

func (c *cache) RoundTrip(req *http.Request) (*http.Response, error) {
	isPage := strings.HasPrefix(req.URL.String(), "https://example.com/") // else no cache has it
	if !isPage || !c.has(req.URL.String()) || req.Header.Get("Cache-Control") == "no-cache" {
		return c.next.RoundTrip(req)
	}
	c.mu.Lock()
	c.hits++
	c.mu.Unlock()
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{"Content-Type": {"text/html"}},
		Body:       io.NopCloser(bytes.NewReader([]byte("from the cache"))),
		Request:    req,
	}, nil
}

// crawlWithCache crawls n pages of a site with a delay of 200 ms through a cache. It returns the time
// that it took.
func crawlWithCache(t *testing.T, r *rig, c *cache, n int) time.Duration {
	t.Helper()
	r.politeness.Hosts.Delay = hostlimit.Delay{Min: 200 * time.Millisecond, Max: 200 * time.Millisecond}
	site := r.Site("https://example.com")
	for i := range n {
		site.Handle(fmt.Sprintf("/%d", i), page(""))
	}
	site.Handle("/", page(""))
	transport := mustTransport(t, r.politeness)
	c.next = transport
	visited := 0
	var mu sync.Mutex
	crawler, err := crawl.New(crawl.Config{
		Transport: transport,
		Client:    &http.Client{Transport: c},
		Visit: func(_ context.Context, p *crawl.Page) error {
			mu.Lock()
			visited++
			mu.Unlock()
			if p.FinalURL == "https://example.com/" {
				for i := range n {
					p.Add(fmt.Sprint(i))
				}
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := crawler.Run(t.Context(), "https://example.com/"); err != nil {
		t.Fatal(err)
	}
	if visited != n+1 {
		t.Errorf("%d of %d pages visited", visited, n+1)
	}
	return time.Since(began)
}

// TestAnswersFromACacheCostNoGap: a thousand pages that a cache has don't wait for the site's delay,
// which is 200 s for all of them.
func TestAnswersFromACacheCostNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		c := &cache{has: func(string) bool { return true }}
		took := crawlWithCache(t, r, c, 1000)
		if took > 2*time.Second || c.hits != 1001 {
			t.Errorf("%d answers of the cache in %v", c.hits, took)
		}
		if asked := len(r.Requests()); asked != 1 { // robots.txt
			t.Errorf("the site was asked %d times", asked)
		}
	})
}

// TestGapsBetweenAnswersOfACacheAreExact: requests that reach the site keep its delay, whatever the
// cache answers between them, and don't wait for longer.
func TestGapsBetweenAnswersOfACacheAreExact(t *testing.T) {
	for name, isMissing := range map[string]func(i int) bool{
		"each tenth":       func(i int) bool { return i%10 == 0 },
		"nine of ten":      func(i int) bool { return i%10 != 0 },
		"first half":       func(i int) bool { return i < 50 },
		"last half":        func(i int) bool { return i >= 50 },
		"each second":      func(i int) bool { return i%2 == 0 },
		"in pairs, of six": func(i int) bool { return i%6 < 2 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				const n = 100
				missing := 0
				for i := range n {
					if isMissing(i) {
						missing++
					}
				}
				c := &cache{has: func(url string) bool {
					var i int
					_, err := fmt.Sscanf(strings.TrimPrefix(url, "https://example.com/"), "%d", &i)
					return err != nil || !isMissing(i)
				}}
				took := crawlWithCache(t, r, c, n)
				requests := r.Requests()
				if len(requests) != 1+missing {
					t.Errorf("the site was asked %d times, want %d", len(requests), 1+missing)
				}
				for i := 1; i < len(requests); i++ {
					gap := requests[i].Start.Sub(requests[i-1].Start)
					if gap < 200*time.Millisecond {
						t.Errorf("the gap before %s is %v", requests[i].URL, gap)
					}
				}
				// A page that the cache has may stand behind one that waits for the site, so a gap is
				// sometimes waited for twice.
				if most := time.Duration(missing+2) * 200 * time.Millisecond; took > most {
					t.Errorf("it took %v, %v more than the gaps", took, took-most)
				}
			})
		})
	}
}

// TestACacheProvesNothingOfAHost: its answers end no trouble of the site.
func TestACacheProvesNothingOfAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.politeness.Hosts.Delay = hostlimit.Delay{Min: 200 * time.Millisecond}
		down := time.Now().Add(8 * time.Second)
		r.Site("https://example.com").Handle("/page", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if time.Now().Before(down) {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		transport := mustTransport(t, r.politeness)
		c := &cache{next: transport, has: func(url string) bool { return !strings.HasSuffix(url, "/page") }}
		statuses := make(map[string]int)
		var mu sync.Mutex
		crawler, err := crawl.New(crawl.Config{
			Transport: transport,
			Client:    &http.Client{Transport: c},
			Visit: func(_ context.Context, p *crawl.Page) error {
				mu.Lock()
				defer mu.Unlock()
				statuses[p.FinalURL] = p.Response.StatusCode
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		urls := []string{"https://example.com/page"}
		for i := range 50 {
			urls = append(urls, fmt.Sprintf("https://example.com/%d", i))
		}
		if _, err := crawler.Run(t.Context(), urls...); err != nil {
			t.Fatal(err)
		}
		if len(statuses) != 51 || statuses["https://example.com/page"] != http.StatusOK {
			t.Errorf("%d pages, that of the site with status %d", len(statuses), statuses["https://example.com/page"])
		}
	})
}

// A keepingCache keeps each page that was served, and answers for it from then on. It ignores
// Cache-Control, as simple caches do.
type keepingCache struct {
	next http.RoundTripper
	stop func() // ends the crawl

	mu   sync.Mutex
	kept map[string][]byte
	hits int
}

func (c *keepingCache) RoundTrip(req *http.Request) (*http.Response, error) {
	url := req.URL.String()
	c.mu.Lock()
	body, has := c.kept[url]
	if has {
		c.hits++
	}
	if c.hits > 1000 {
		c.stop()
	}
	c.mu.Unlock()
	if has {
		header := http.Header{"Content-Type": {"text/html"}}
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(bytes.NewReader(body)), Request: req}, nil
	}
	resp, err := c.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(url, "https://") {
		return resp, err
	}
	body, err = io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[url] = body
	return resp, err
}

// TestACacheIsAskedForNoProofAgainAndAgain: a page that was served before, and that a cache has since,
// proves nothing. The crawl goes on without it.
func TestACacheIsAskedForNoProofAgainAndAgain(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"broken pages":    wallOf(http.StatusInternalServerError),
		"forbidden pages": wallOf(http.StatusForbidden),
		"one status":      wallOf(http.StatusAccepted),
		"one text":        page("nothing found"),
		"one redirect":    wallOf(http.StatusFound, "Location", "https://login.example/"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pages = 60
				r := newRig()
				r.Site("https://login.example").Handle("/", page("log in"))
				r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if len(req.URL.Path) > len("/9") { // from 10 on
						answer(w, req)
						return
					}
					page("page "+inLetters(req.URL.Path))(w, req)
				}))
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				transport := mustTransport(t, r.politeness)
				c := &keepingCache{next: transport, stop: stop, kept: map[string][]byte{}}
				crawler, err := crawl.New(crawl.Config{
					Transport: transport,
					Client:    &http.Client{Transport: c},
					Visit:     func(context.Context, *crawl.Page) error { return nil },
				})
				if err != nil {
					t.Fatal(err)
				}
				sum, err := crawler.Run(ctx, numbered("example.com", pages)...)
				if err != nil {
					t.Fatal(err)
				}
				if sum.Outcomes[crawl.Left] > 0 || c.hits > pages {
					t.Errorf("the cache was asked %d times again: %v", c.hits, sum)
				}
				t.Logf("%d hits, %d requests, %v", c.hits, len(r.Requests()), sum)
			})
		})
	}
}
