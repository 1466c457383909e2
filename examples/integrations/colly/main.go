// Colly makes a colly collector polite. WithTransport is the only call that you need.
//
//	go run -C examples/integrations/colly .          # sixteen small sites on loopback
//	go run -C examples/integrations/colly . URL...   # real sites
//	go run -C examples/integrations/colly . -queue   # colly's queue with 32 threads instead of Async
//
// It prints each page with the time at which it came, and then the findings of audit.Check on the
// crawl's log.
//
// Switch off in colly:
//
//   - Its robots.txt. Keep the default, IgnoreRobotsTxt. Otherwise colly fetches every
//     robots.txt a second time, as a page of the budget, and keeps it until the process ends. It
//     also checks links only, and not the targets of their redirects.
//   - Its LimitRules. All hosts that match a rule share its slots. A request sleeps through the
//     Delay after its response, and occupies its slot meanwhile. With politeness the collector
//     needs no rules: every host has its own slots and its own delay, and
//     hostlimit.Config.MaxInFlight limits the requests to all hosts.
//   - Its own retries (Request.Retry in OnError). With Config.Retry each try waits for its host,
//     and all tries are one page of the budget.
//
// Colly's timeout of 10 s may stay. It begins when a request starts, and doesn't include the wait.
//
// These settings don't work with politeness:
//
//   - SetProxy and SetProxyFunc silently replace any transport that isn't an *http.Transport,
//     politeness included. Set the proxy on Config.Base.
//   - CacheDir: colly keeps a 429 or a 403 for ever, like any page. Put an RFC 9111 cache around
//     the Transport instead. See examples/integrations/conservative.
//   - UserAgent and extensions.RandomUserAgent: the name in Config.UserAgent is sent instead,
//     because robots.txt is checked for that name.
//
// Async starts a goroutine for each link that is found. Its request waits for the host, at some 10
// KB a link. If you have millions of links, use the queue, which has few threads. But a thread that
// waits for a slow host does nothing else meanwhile, and 32 links to a blocked host occupy all 32
// threads. Set MaxWait and queue the link again at Error.RetryAt, or use package crawl, which has
// no such threads.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/gocolly/colly/v2"
	"github.com/gocolly/colly/v2/queue"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/examples/internal/reach"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/localsite"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// threads is how many requests are in flight at most, over all hosts.
const threads = 32

func main() {
	queued := flag.Bool("queue", false, "use colly's queue instead of Async")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	starts := flag.Args()
	if len(starts) == 0 {
		for range threads / 2 { // each host has 2 slots
			s := localsite.Start()
			defer s.Close()
			starts = append(starts, s.URL+"/")
		}
	}
	report, err := crawl(ctx, os.Stdout, *queued, starts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "colly:", err)
		os.Exit(1)
	}
	fmt.Print("\n", report)
}

// crawl visits starts and what they link to on the same hosts, and returns what the
// log of the crawl proves.
func crawl(ctx context.Context, out io.Writer, queued bool, starts []string) (*audit.Report, error) {
	var log bytes.Buffer
	proof := evidence.JSONLines(&log)
	transport, err := politeness.New(politeness.Config{
		UserAgent: "CollyExample/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      reach.Base(starts),
		Hosts:     hostlimit.Config{MaxInFlight: threads},
		Robots:    robotscache.Config{RecordText: true}, // so that the auditor can decide again
		Retry:     politeness.Retry{Max: 3},
		Evidence:  evidence.Multi(proof, evidence.Console(os.Stderr)), // shows why nothing happens
	})
	if err != nil {
		return nil, err
	}

	c := colly.NewCollector(
		colly.StdlibContext(ctx),
		colly.IgnoreRobotsTxt(), // politeness asks robots.txt
		colly.AllowedDomains(domains(starts)...),
		colly.MaxDepth(2),
		colly.Async(!queued),
	)
	c.WithTransport(transport)

	begin := time.Now()
	var mu sync.Mutex
	tell := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, "%5.1f s  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	c.OnResponse(func(r *colly.Response) { tell("%d %s", r.StatusCode, r.Request.URL) })
	c.OnError(func(r *colly.Response, err error) {
		if errors.Is(err, politeness.ErrDisallowed) {
			tell("--- %s: robots.txt says no", r.Request.URL)
			return
		}
		tell("--- %s: %v", r.Request.URL, err)
	})

	if queued {
		err = crawlQueue(c, starts)
	} else {
		err = crawlAsync(c, starts)
	}
	if err := errors.Join(err, proof.Close()); err != nil {
		return nil, err
	}
	return audit.Check(&log)
}

// domains returns the hosts of urls, without ports, as colly compares them.
func domains(urls []string) []string {
	var names []string
	for _, raw := range urls {
		if u, err := url.Parse(raw); err == nil {
			names = append(names, u.Hostname())
		}
	}
	return names
}

// crawlAsync lets colly start a goroutine for each link. The transport decides when each of them
// may send.
func crawlAsync(c *colly.Collector, starts []string) error {
	c.OnHTML("a[href]", func(e *colly.HTMLElement) {
		_ = e.Request.Visit(e.Attr("href")) // visited before, too deep: colly's own filters
	})
	for _, start := range starts {
		if err := c.Visit(start); err != nil {
			return err
		}
	}
	c.Wait()
	return nil
}

// crawlQueue lets threads take links from a queue. They wait for their turns
// themselves.
func crawlQueue(c *colly.Collector, starts []string) error {
	q, err := queue.New(threads, &queue.InMemoryQueueStorage{MaxSize: 100_000})
	if err != nil {
		return err
	}
	c.OnHTML("a[href]", func(e *colly.HTMLElement) {
		link, err := e.Request.New("GET", e.Request.AbsoluteURL(e.Attr("href")), nil)
		if err != nil {
			return // no URL
		}
		link.Depth = e.Request.Depth + 1 // New leaves it at 0
		_ = q.AddRequest(link)           // the queue is full
	})
	for _, start := range starts {
		if err := q.AddURL(start); err != nil {
			return err
		}
	}
	return q.Run(c)
}
