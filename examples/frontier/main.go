// Frontier compares package crawl with a plain pool of workers. Both fetch 10,000 URLs of 500
// hosts. One of these hosts blocks its visitors for an hour, and another one asks for 30 s between
// two requests.
//
//	go run ./examples/frontier
//
// The web is in memory, the time is real. The program takes 16 s and prints:
//
//	10000 URLs on 500 hosts, 8s each
//
//	                                                crawl  pool of 32
//	      pages of the other 498 hosts, of 9960      9960        1691
//	               these were all fetched after     6.2 s       never
//	  workers still inside a request at the end         0          32
//
// At the full rate, robots.txt and 20 pages of a host take 300 ms each, so 6.0 s are the least
// possible time. The pool's figures depend on the order of the URLs. When all of its 32 workers
// wait for the two hosts, the pool stands still. A crawl has no workers that wait for a host. It
// starts the request of a host when the host's turn comes, and 32 workers visit the fetched pages.
package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

const (
	hosts      = 500
	urlsEach   = 20
	workers    = 32
	delay      = 300 * time.Millisecond
	latency    = 10 * time.Millisecond
	crawlDelay = 30 * time.Second
	block      = time.Hour

	blockedHost = "http://blocked.example"
	slowHost    = "http://slow.example"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	const each = 8 * time.Second
	fmt.Printf("%d URLs on %d hosts, %v each\n\n", hosts*urlsEach, hosts, each)
	var results []result
	for _, way := range []crawler{withCrawl, withPool} {
		r, err := runFor(ctx, each, way)
		if err != nil {
			fmt.Fprintln(os.Stderr, "frontier:", err)
			os.Exit(1)
		}
		results = append(results, r)
	}
	show(os.Stdout, results[0], results[1])
}

// runFor runs a crawler for d. It has no deadline: with one, waits that can't end in time would be
// refused.
func runFor(ctx context.Context, d time.Duration, way crawler) (result, error) {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	time.AfterFunc(d, cancel)
	web, urls := newWeb()
	return run(limited, way, web, nil, urls)
}

// A crawler fetches urls through t until ctx is done or nothing is left.
type crawler func(ctx context.Context, t *politeness.Transport, urls []string, visited func(visit)) error

// withCrawl leaves it to package crawl.
func withCrawl(ctx context.Context, t *politeness.Transport, urls []string, visited func(visit)) error {
	c, err := crawl.New(crawl.Config{
		Transport: t,
		Workers:   workers,
		Visit: func(_ context.Context, p *crawl.Page) error {
			visited(visit{url: p.FinalURL, status: p.Response.StatusCode})
			return nil
		},
	})
	if err != nil {
		return err
	}
	_, err = c.Run(ctx, urls...)
	return err
}

// withPool has workers that take one URL after the other, as in most tutorials.
func withPool(ctx context.Context, t *politeness.Transport, urls []string, visited func(visit)) error {
	client := &http.Client{Transport: t}
	queue := make(chan string, len(urls))
	for _, url := range urls {
		queue <- url
	}
	close(queue)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for url := range queue {
				if ctx.Err() != nil {
					return
				}
				visited(fetch(ctx, client, url))
			}
		})
	}
	group.Wait()
	return nil
}

func newTransport(base http.RoundTripper, proof evidence.Evidence) (*politeness.Transport, error) {
	return politeness.New(politeness.Config{
		UserAgent: "FrontierExample/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      base,
		Hosts:     hostlimit.Config{Delay: hostlimit.Delay{Min: delay, Max: delay}},
		Evidence:  proof,
	})
}

// A visit is a page, or why there is none.
type visit struct {
	url    string
	status int // zero if it was refused or failed
	err    error
}

func fetch(ctx context.Context, client *http.Client, url string) visit {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return visit{url: url, err: err}
	}
	resp, err := client.Do(req)
	if err != nil {
		return visit{url: url, err: err}
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return visit{url: url, status: resp.StatusCode, err: err}
}

// newWeb makes the 500 hosts, and all their URLs in a random order that is always the same.
func newWeb() (web *politenesstest.Web, urls []string) {
	web = politenesstest.NewWeb()
	page := politenesstest.Text("a page")
	for i := range hosts - 2 {
		web.Site("http://"+name(i)).Robots("User-agent: *\nAllow: /\n").Handle("/", page).Latency(latency)
	}
	slow := fmt.Sprintf("User-agent: *\nCrawl-delay: %.0f\n", crawlDelay.Seconds())
	web.Site(slowHost).Robots(slow).Handle("/", page).Latency(latency)
	web.Site(blockedHost).Robots("User-agent: *\nAllow: /\n").Handle("/", refuse(block, page)).Latency(latency)
	for i := range urlsEach {
		path := "/" + strconv.Itoa(i)
		urls = append(urls, slowHost+path, blockedHost+path)
		for i := range hosts - 2 {
			urls = append(urls, "http://"+name(i)+path)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	rnd.Shuffle(len(urls), func(i, j int) { urls[i], urls[j] = urls[j], urls[i] })
	return web, urls
}

func name(i int) string { return fmt.Sprintf("host%03d.example", i) }

// refuse answers 429 for a while from the first request on.
func refuse(d time.Duration, page http.Handler) http.HandlerFunc {
	var until atomic.Pointer[time.Time]
	return func(w http.ResponseWriter, r *http.Request) {
		end := time.Now().Add(d)
		until.CompareAndSwap(nil, &end)
		left := time.Until(*until.Load())
		if left > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int((left+time.Second-1)/time.Second)))
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		page.ServeHTTP(w, r)
	}
}

// ofTheTwo reports whether url is on one of the two hosts that no worker should wait for.
func ofTheTwo(url string) bool {
	return strings.HasPrefix(url, blockedHost) || strings.HasPrefix(url, slowHost)
}

// A result is what a crawl achieved.
type result struct {
	others     int           // pages of the other hosts
	othersDone time.Duration // when the last of these came
	waiting    int           // workers that ctx found inside a request
}

// run crawls web until ctx is done or nothing is left.
func run(
	ctx context.Context, way crawler, web http.RoundTripper, proof evidence.Evidence, urls []string,
) (result, error) {
	t, err := newTransport(web, proof)
	if err != nil {
		return result{}, err
	}
	begin := time.Now()
	var mu sync.Mutex
	var r result
	err = way(ctx, t, urls, func(v visit) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil && v.err != nil {
			r.waiting++
		}
		if !ofTheTwo(v.url) && v.status == http.StatusOK {
			r.others++
			r.othersDone = time.Since(begin)
		}
	})
	return r, err
}

// show prints two results side by side.
func show(out io.Writer, a, b result) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	all := (hosts - 2) * urlsEach
	done := func(r result) string {
		if r.others < all {
			return "never"
		}
		return fmt.Sprintf("%.1f s", r.othersDone.Seconds())
	}
	fmt.Fprintf(w, "\tcrawl\tpool of %d\t\n", workers)
	fmt.Fprintf(w, "pages of the other %d hosts, of %d\t%d\t%d\t\n", hosts-2, all, a.others, b.others)
	fmt.Fprintf(w, "these were all fetched after\t%s\t%s\t\n", done(a), done(b))
	fmt.Fprintf(w, "workers still inside a request at the end\t%d\t%d\t\n", a.waiting, b.waiting)
	w.Flush()
}
