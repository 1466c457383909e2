// Conservative is a research crawler with the policy politeness.Conservative and an RFC 9111 cache
// around the Transport. A page that the cache answers costs no wait and no page of the budget.
//
//	go run .          # a small site on loopback; takes about 10 s
//	go run . URL...   # real URLs, each requested twice
//	go run . -state DIR -cache DIR URL...   # keeps the state of hosts and the pages for the next run
//
// ROBOTS_TTL_SECONDS, ROBOTS_DENY_TTL_SECONDS and ROBOTS_DEFAULT_DELAY_SECONDS change the policy.
// FETCH_CACHE_TTL_SEC (default: 900) is for how many seconds pages without caching headers are
// kept. Logs hold metadata only, never a body.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bartventer/httpcache"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/examples/internal/reach"
)

const userAgent = "ResearchBot/1.0 (+https://example.com/bot; bot@example.com)"

const usage = `Usage: conservative [flags] [URL...]

Asks for each URL twice; without one, for pages of a site of its own.

`

func main() {
	state := flag.String("state", "", "keep the state of hosts, and robots.txt, in `DIR` for the next run")
	cache := flag.String("cache", "", "keep pages in `DIR` for the next run; without it they are kept in memory")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *state, *cache, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "conservative:", err)
		os.Exit(1)
	}
}

// A crawler fetches through a cache, and prints the cost of each page.
type crawler struct {
	out    io.Writer
	client *http.Client
	pages  *budget.Memory
	turns  atomic.Int64
	began  time.Time

	revalidated chan struct{} // a 304 came
}

func newCrawler(out io.Writer, state, cache string, base http.RoundTripper) (*crawler, error) {
	c := &crawler{out: out, began: time.Now(), revalidated: make(chan struct{}, 1)}
	cfg, err := politeness.Conservative(userAgent).WithEnv()
	if err != nil {
		return nil, err
	}
	c.pages = budget.New(cfg.Spend) // asked for its count below
	cfg.Base = base
	cfg.Budget = c.pages
	cfg.Response.MaxBytes = 10 << 20 // the cache keeps whole bodies
	// The console shows why nothing happens.
	cfg.Evidence = evidence.Multi(evidence.Func(c.record), evidence.Console(os.Stderr))
	polite, err := politeness.New(cfg.WithState(state))
	if err != nil {
		return nil, err
	}
	ttl, err := ttlFromEnv()
	if err != nil {
		return nil, err
	}
	around, err := cached(polite, cache, ttl)
	if err != nil {
		return nil, err
	}
	c.client = &http.Client{Transport: around}
	return c, nil
}

// record counts turns and shows what goes over the network.
func (c *crawler) record(_ context.Context, d evidence.Decision) {
	switch d.Type {
	case evidence.Started:
		c.turns.Add(1)
	case evidence.Fetched:
		c.say("  network: %s, status %d", d.URL, d.Status)
		if d.Status == http.StatusNotModified {
			select {
			case c.revalidated <- struct{}{}:
			default:
			}
		}
	}
}

// fetch gets url, from the cache or else in its turn.
func (c *crawler) fetch(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	asked := time.Now()
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil {
		return err
	}
	usage, err := c.pages.Usage(ctx)
	if err != nil {
		return err
	}
	c.say("%-11s %s, %d bytes after %.2f s; %d turns and %d pages so far",
		resp.Header.Get(httpcache.CacheStatusHeader), url, n, time.Since(asked).Seconds(), c.turns.Load(), usage.Pages)
	return nil
}

func (c *crawler) say(format string, args ...any) {
	fmt.Fprintf(c.out, "%6.2f s  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

func run(ctx context.Context, out io.Writer, state, cache string, urls []string) error {
	c, err := newCrawler(out, state, cache, reach.Base(urls))
	if err != nil {
		return err
	}
	var errs []error
	for _, url := range urls {
		if _, err := crawl.Normalize(url); err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", url, err))
			continue
		}
		for range 2 {
			if err := c.fetch(ctx, url); err != nil {
				errs = append(errs, err)
				break // the other URLs may still succeed
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(urls) > 0 {
		return errors.Join(errs...)
	}
	return c.demo(ctx)
}

// demo fetches two pages of its own site: one without caching headers, and one that is fresh for
// two seconds.
func (c *crawler) demo(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /silent", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "I say nothing of caches.")
	})
	mux.HandleFunc("GET /news", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=2")
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprintln(w, "I am good for two seconds.")
	})
	site := httptest.NewServer(mux)
	defer site.Close()

	for _, path := range []string{"/silent", "/silent", "/silent", "/news"} {
		if err := c.fetch(ctx, site.URL+path); err != nil {
			return err
		}
	}
	time.Sleep(4 * time.Second)
	c.say("4 seconds later: the old copy is shown at once, and revalidated in its turn")
	if err := c.fetch(ctx, site.URL+"/news"); err != nil {
		return err
	}
	select {
	case <-c.revalidated:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
