// Frontier shows Transport.Next and hostlimit.Config.MaxWait: 32 workers crawl 10,000 URLs
// on 500 hosts, of which one blocks them for an hour and one asks for 30 s between
// two requests. With a frontier (frontier.go, to be copied) no worker is ever parked on
// these two, and the others are crawled at their full rate. A plain pool of 32 workers
// crawls the same web beside it.
//
//	go run ./examples/frontier
//
// The web is in memory, the time is real. It takes 16 s and prints:
//
//	10000 URLs on 500 hosts, 32 workers, 8s each
//
//	                                             frontier  plain pool
//	      pages of the other 498 hosts, of 9960      9960        1691
//	               these were all fetched after     6.2 s       never
//	  workers still inside a request at the end         0          32
//	   worker time in requests to the two hosts    0.03 s     24.80 s
//	                            longest request    0.02 s      5.81 s
//
// The others' full rate is 20 pages and robots.txt at 300 ms each, which is 6.0 s. The pool's
// figures depend on the order of the URLs; once it holds 32 of the two hosts it stands still.
//
// How it works: Next tells when a URL could start, and never blocks; the frontier hands
// out what is due. What Next can't know (robots.txt that nobody has fetched yet, a crawl-delay
// in it, another process) is refused by MaxWait, at once and with Error.RetryAt, and the URL
// goes back. A deadline of the crawl's context refuses likewise what it won't see begin.
//
// What it doesn't do: remember what it has seen (ask a set before Add, also for redirects,
// which are queued as pages of their own), keep URLs on disk, or give up on a URL after so
// many tries.
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
	fmt.Printf("%d URLs on %d hosts, %d workers, %v each\n\n", hosts*urlsEach, hosts, workers, each)
	var results [2]result
	for i, way := range []crawler{withFrontier, withPool} {
		var err error
		// A crawl has no deadline: with one, waits that can't end in time would be refused.
		limited, cancel := context.WithCancel(ctx)
		time.AfterFunc(each, cancel)
		web, urls := newWeb()
		results[i], err = run(limited, way, web, nil, urls)
		cancel()
		if err != nil {
			fmt.Fprintln(os.Stderr, "frontier:", err)
			os.Exit(1)
		}
	}
	show(os.Stdout, results[0], results[1])
}

// A crawler fetches urls until ctx is done or nothing is left.
type crawler func(ctx context.Context, base http.RoundTripper, proof evidence.Evidence, urls []string, visited func(visit)) error

// withFrontier lets workers take URLs whose host can be asked now.
func withFrontier(ctx context.Context, base http.RoundTripper, proof evidence.Evidence, urls []string, visited func(visit)) error {
	t, err := newTransport(base, proof, latency) // what Next couldn't foresee is refused, with RetryAt
	if err != nil {
		return err
	}
	client := &http.Client{
		Transport: t,
		// A redirect may lead to a host that can't be asked now. It is queued as any link.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	f := NewFrontier(t.Next)
	f.Add(urls...)
	work(func() {
		for {
			url, err := f.Take(ctx)
			if err != nil {
				return // everything is done, or ctx is
			}
			v := fetch(ctx, client, url, visited)
			if v.location != "" {
				f.Add(v.location)
			}
			f.Done(ctx, url, Again(v.status, v.err))
		}
	})
	return nil
}

// withPool lets workers take one URL after the other, as every tutorial does.
func withPool(ctx context.Context, base http.RoundTripper, proof evidence.Evidence, urls []string, visited func(visit)) error {
	t, err := newTransport(base, proof, 0)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: t}
	queue := make(chan string, len(urls))
	for _, url := range urls {
		queue <- url
	}
	close(queue)
	work(func() {
		for url := range queue {
			if ctx.Err() != nil {
				return
			}
			fetch(ctx, client, url, visited)
		}
	})
	return nil
}

// newTransport makes a Transport that waits for a turn for maxWait at most; 0: for ever.
func newTransport(base http.RoundTripper, proof evidence.Evidence, maxWait time.Duration) (*politeness.Transport, error) {
	return politeness.New(politeness.Config{
		UserAgent: "FrontierExample/1.0 (+https://github.com/go-politeness/politeness; bot@example.com)",
		Base:      base,
		Limits:    hostlimit.Config{Delay: hostlimit.Delay{Min: delay, Max: delay}, MaxWait: maxWait},
		Evidence:  proof,
	})
}

func work(worker func()) {
	var group sync.WaitGroup
	for range workers {
		group.Go(worker)
	}
	group.Wait()
}

// A visit is one call of http.Client.Do.
type visit struct {
	url        string
	begin, end time.Time
	status     int // zero if it was refused or failed
	location   string
	err        error
}

func fetch(ctx context.Context, client *http.Client, url string, visited func(visit)) (v visit) {
	v = visit{url: url, begin: time.Now()}
	defer func() {
		v.end = time.Now()
		visited(v)
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		v.err = err
		return v
	}
	resp, err := client.Do(req)
	if err != nil {
		v.err = err
		return v
	}
	defer resp.Body.Close()
	v.status = resp.StatusCode
	if to, err := resp.Location(); err == nil {
		v.location = to.String()
	}
	_, v.err = io.Copy(io.Discard, resp.Body)
	return v
}

// newWeb makes the 500 hosts, and all their URLs in a random order that is always the same.
func newWeb() (web *politenesstest.Web, urls []string) {
	web = politenesstest.NewWeb()
	page := politenesstest.Text("a page")
	for i := range hosts - 2 {
		web.Site("http://"+name(i)).Robots("User-agent: *\nAllow: /\n").Handle("/", page).Latency(latency)
	}
	web.Site(slowHost).Robots(fmt.Sprintf("User-agent: *\nCrawl-delay: %.0f\n", crawlDelay.Seconds())).Handle("/", page).Latency(latency)
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
		if left := time.Until(*until.Load()); left > 0 {
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
	onTheTwo   time.Duration // worker time in requests to the two hosts
	longest    time.Duration // time of a worker in one request
}

// run crawls web until ctx is done or nothing is left.
func run(ctx context.Context, crawl crawler, web http.RoundTripper, proof evidence.Evidence, urls []string) (result, error) {
	begin := time.Now()
	var mu sync.Mutex
	var r result
	err := crawl(ctx, web, proof, urls, func(v visit) {
		mu.Lock()
		defer mu.Unlock()
		took := v.end.Sub(v.begin)
		r.longest = max(r.longest, took)
		if ctx.Err() != nil && v.err != nil {
			r.waiting++
		}
		if ofTheTwo(v.url) {
			r.onTheTwo += took
		} else if v.status == http.StatusOK {
			r.others++
			r.othersDone = v.end.Sub(begin)
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
	fmt.Fprintln(w, "\tfrontier\tplain pool\t")
	fmt.Fprintf(w, "pages of the other %d hosts, of %d\t%d\t%d\t\n", hosts-2, all, a.others, b.others)
	fmt.Fprintf(w, "these were all fetched after\t%s\t%s\t\n", done(a), done(b))
	fmt.Fprintf(w, "workers still inside a request at the end\t%d\t%d\t\n", a.waiting, b.waiting)
	fmt.Fprintf(w, "worker time in requests to the two hosts\t%.2f s\t%.2f s\t\n", a.onTheTwo.Seconds(), b.onTheTwo.Seconds())
	fmt.Fprintf(w, "longest request\t%.2f s\t%.2f s\t\n", a.longest.Seconds(), b.longest.Seconds())
	w.Flush()
}
