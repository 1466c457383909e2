package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/lab/benchmarks/internal/plot"
	"github.com/go-politeness/politeness/lab/benchmarks/rivals"
)

// The contenders of whole crawls.
const (
	crawlPackage = "politeness/crawl"
	ourPool      = "politeness, 32 workers"
	diyPool      = "x/time/rate, 32 workers"
	diyMany      = "x/time/rate, 1,000 workers"
	collyPool    = "colly, 32 workers"
)

func crawlsSection() section {
	return section{
		name: "crawls", title: "A thousand hosts at once", run: runCrawls,
		rivals: []string{crawlPackage, ourPool, diyPool, diyMany, collyPool},
	}
}

const (
	crawlDelay = 200 * time.Millisecond
	slowAnswer = 2 * time.Second
)

// A mix is how many of the hosts trouble a crawl: they come first by number.
type mix struct {
	name                         string
	slow, blocked, drip, patient int
}

func (c mix) troubled() int { return c.slow + c.blocked + c.drip + c.patient }

func runCrawls(b *bench) (result, error) {
	mixes := []mix{
		{name: "all quick"},
		{name: "50 slow", slow: b.manyHosts / 20, blocked: b.manyHosts / 100, drip: 1, patient: 1},
		{name: "300 slow", slow: b.manyHosts * 3 / 10, blocked: b.manyHosts / 100, drip: 1, patient: 1},
	}
	r := resultOf("crawls", count(b.manyHosts), crawlDelay, count(b.manyHosts*5), b.crawlFor, slowAnswer)
	t := table{header: []string{"pages a second, by"}}
	bars := plot.Bars{
		Title:    "Pages of quick hosts a second",
		Subtitle: "10 hosts blocked, one that drips and one with a crawl-delay of 30 s but in the first",
		Groups:   make([]plot.Group, len(mixes)),
		Format:   number,
	}
	shares := make(map[string]float64)
	for _, by := range crawlsSection().rivals {
		row := []string{by}
		for i, c := range mixes {
			rate, cpu, err := b.crawlRate(by, c)
			if err != nil {
				return r, fmt.Errorf("%s, %s: %w", by, c.name, err)
			}
			share := rate / float64(5*(b.manyHosts-c.troubled()))
			row = append(row, fmt.Sprintf("%.0f (%.0f %%), %s", rate, 100*share, duration(cpu)))
			bars.Groups[i].Name = c.name
			bars.Groups[i].Bars = append(bars.Groups[i].Bars, plot.Bar{Name: by, Value: rate, Ours: by == crawlPackage})
			if by == crawlPackage {
				shares[c.name] = share
			}
		}
		t.add(row...)
	}
	for _, c := range mixes {
		t.header = append(t.header, c.name)
	}
	goals := newGoals("of politeness/crawl")
	for _, c := range mixes {
		goals.atLeast(
			"share of the possible, "+c.name, shares[c.name], wantOfPossible, perCent,
			"no host is to wait for another one")
	}
	r.tables = []table{t, goals.table}
	r.plots = []figure{{"crawls", "Bars: pages a second by crawler", bars}}
	return r, nil
}

// crawlRate lets by crawl a mix, and returns the pages of quick hosts a second, and the time of
// processors that each took.
func (b *bench) crawlRate(by string, c mix) (rate, cpu float64, err error) {
	var pages atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.serve(w, r, &pages)
	}))
	defer server.Close()
	base := &http.Transport{
		MaxIdleConnsPerHost: 4,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		},
	}
	defer base.CloseIdleConnections()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	urls := b.manyURLs()
	done := make(chan error, 1)
	go func() { done <- b.crawlBy(ctx, by, base, urls) }()
	time.Sleep(b.crawlWarm) //nolint:forbidigo // a measurement takes its time
	before := pages.Load()
	begin := processorTime()
	time.Sleep(b.crawlFor) //nolint:forbidigo // the same
	counted := float64(pages.Load() - before)
	used := processorTime() - begin
	cancel()
	server.CloseClientConnections() // slow answers needn't be waited for
	return counted / b.crawlFor.Seconds(), float64(used) / max(counted, 1), <-done
}

// processorTime is what this process has used of processors.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// manyURLs returns URLs that last for the crawl, in a random order that is always the same.
func (b *bench) manyURLs() (urls []string) {
	for page := range int((b.crawlWarm+b.crawlFor)/crawlDelay) + 1 {
		for host := range b.manyHosts {
			urls = append(urls, fmt.Sprintf("http://h%d.test/%d", host, page))
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	rnd.Shuffle(len(urls), func(i, j int) { urls[i], urls[j] = urls[j], urls[i] })
	return urls
}

// serve answers for all hosts.
func (c mix) serve(w http.ResponseWriter, r *http.Request, pages *atomic.Int64) {
	name, _, _ := strings.Cut(r.Host, ".")
	number, _ := strconv.Atoi(strings.TrimPrefix(name, "h"))
	robots := r.URL.Path == "/robots.txt"
	switch {
	case robots && number == c.slow+c.blocked+c.drip && c.patient > 0:
		fmt.Fprint(w, "User-agent: *\nCrawl-delay: 30\n")
		return
	case robots:
		fmt.Fprint(w, "User-agent: *\nAllow: /\n")
		return
	case number < c.slow:
		wait(r.Context(), slowAnswer)
	case number < c.slow+c.blocked:
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	case number < c.slow+c.blocked+c.drip:
		for r.Context().Err() == nil {
			fmt.Fprint(w, ".")
			_ = http.NewResponseController(w).Flush() // the client may have left
			wait(r.Context(), time.Second)
		}
	case number >= c.troubled():
		pages.Add(1)
	}
	fmt.Fprint(w, "a page")
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// crawlBy crawls until ctx is done.
func (b *bench) crawlBy(ctx context.Context, by string, base http.RoundTripper, urls []string) error {
	terms := rivals.Terms{Delay: crawlDelay, Slots: 2, Plain: true}
	switch by {
	case crawlPackage:
		transport, err := politeness.New(politeness.Config{
			UserAgent: rivals.UserAgent, Base: base,
			Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: crawlDelay, Max: crawlDelay}},
		})
		if err != nil {
			return err
		}
		c, err := crawl.New(crawl.Config{
			Transport: transport, Grace: time.Millisecond,
			Visit: func(context.Context, *crawl.Page) error { return nil },
		})
		if err != nil {
			return err
		}
		_, err = c.Run(ctx, urls...)
		return err
	case ourPool:
		rt, err := rivals.NewPoliteness(base, terms)
		return errors.Join(err, pool(ctx, rivals.Client(rt), 32, urls))
	case diyPool:
		return pool(ctx, rivals.Client(rivals.NewDIY(base, terms)), 32, urls)
	case diyMany:
		return pool(ctx, rivals.Client(rivals.NewDIY(base, terms)), 1000, urls)
	}
	base = &bound{base, ctx} // colly's requests can't be cancelled
	f, err := rivals.NewCollyOf(base, terms, func(i int) string { return fmt.Sprintf("h%d.test", i) }, b.manyHosts)
	if err != nil {
		return err
	}
	return pool(ctx, f, 32, urls)
}

// pool has workers take one URL after the other.
func pool(ctx context.Context, f rivals.Fetcher, workers int, urls []string) error {
	queue := make(chan string, len(urls))
	for _, u := range urls {
		queue <- u
	}
	close(queue)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for u := range queue {
				if ctx.Err() != nil {
					return
				}
				_ = f.Get(ctx, u) // refusals, and what ctx has ended
			}
		})
	}
	group.Wait()
	f.Close()
	return nil
}

// A bound transport ends its requests with ctx.
type bound struct {
	base http.RoundTripper
	ctx  context.Context
}

func (b *bound) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(b.ctx, cancel)
	resp, err := b.base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	resp.Body = &boundBody{resp.Body, func() { stop(); cancel() }}
	return resp, nil
}

type boundBody struct {
	io.ReadCloser
	end func()
}

func (b *boundBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
