package servers

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
)

// A Crawler is a column of the table.
type Crawler struct {
	Name  string
	Slots int           // requests that it may have in flight; 0: it isn't ours, and has promised nothing
	Delay time.Duration // least time between two starts; 0 if Slots is
	Rate  float64       // requests a second that its own delays allow, if answers take no time
	Again bool          // it asks again for pages that were refused
	After bool          // its delays count from the end of a request
	Waits bool          // after a refusal it stays away for longer than a cell lasts

	program string // that it needs; empty: it is Go
	run     func(context.Context, task) error
}

// A task is a site to crawl, until ctx is done or nothing is left.
type task struct {
	root string // URL
	site Site   // for crawlers that are given a list of its pages
	from net.IP // source address of the requests
	dir  string // for files
	lost func() // called for each page that the crawler gives up while ctx isn't done
}

const userAgent = "ServersBot/1.0 (+https://bot.example.com; bot@example.com)"

// giveUp is how long every crawler waits for an answer: longer than a tarpit lasts.
const giveUp = 15 * time.Second

// Crawlers are the columns: the zero value and the presets by package crawl, the zero value under
// eight workers that fetch a list of the pages, each once, the zero value with a longer delay, and
// strangers for comparison.
var Crawlers = []*Crawler{
	{
		Name: "zero value", Slots: 2, Delay: 200 * time.Millisecond, Rate: 1 / 0.35, Again: true,
		run: crawled(politeness.Config{UserAgent: userAgent}),
	},
	{
		Name: "Bulk", Slots: 2, Delay: 200 * time.Millisecond, Rate: 5, Again: true,
		run: crawled(politeness.Bulk(userAgent)),
	},
	{
		Name: "SiteAudit", Slots: 2, Delay: 200 * time.Millisecond, Rate: 1 / 0.35, Again: true,
		run: crawled(politeness.SiteAudit(userAgent)),
	},
	{
		Name: "Responsive", Slots: 1, Delay: 500 * time.Millisecond, Rate: 1, Again: true, After: true,
		run: crawled(politeness.Responsive(userAgent)),
	},
	{
		Name: "Conservative", Slots: 1, Delay: 3 * time.Second, Rate: 1. / 3, Again: true, After: true, Waits: true,
		run: crawled(politeness.Conservative(userAgent)),
	},
	{
		Name: "8 workers", Slots: 2, Delay: 200 * time.Millisecond, Rate: 1 / 0.35,
		run: pooled(politeness.Config{UserAgent: userAgent}),
	},
	{
		Name: "1.1 s apart", Slots: 2, Delay: 1100 * time.Millisecond, Rate: 1 / 1.1, Again: true,
		run: crawled(apart(1100 * time.Millisecond)),
	},
	{Name: "loop 1/s", Rate: 1, After: true, run: looped},
	{Name: "wget -w 1", Rate: 1, After: true, program: "wget", run: wget},
}

// apart is the zero value for sites whose limit is known.
func apart(delay time.Duration) politeness.Config {
	cfg := politeness.Config{UserAgent: userAgent}
	cfg.Hosts.Delay = hostlimit.Delay{Min: delay} // learned from there on
	return cfg
}

// base returns a transport whose connections come from an address.
func base(from net.IP) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	t.ResponseHeaderTimeout = giveUp
	t.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}).DialContext
	return t
}

func crawled(cfg politeness.Config) func(context.Context, task) error {
	return func(ctx context.Context, t task) error {
		b := base(t.from)
		defer b.CloseIdleConnections()
		cfg := cfg
		cfg.Base = b
		cfg.Spend = budget.Limits{} // a budget of 200 pages would end the comparison
		transport, err := politeness.New(cfg)
		if err != nil {
			return err
		}
		c, err := crawl.New(crawl.Config{
			Transport: transport,
			Follow:    crawl.SameHost,
			Visit:     func(context.Context, *crawl.Page) error { return nil },
			Done: func(r crawl.Result) {
				if ctx.Err() == nil && isLost(r) {
					t.lost()
				}
			},
			Timeout: giveUp,
			Grace:   time.Second,
		})
		if err != nil {
			return err
		}
		_, err = c.Run(ctx, t.root)
		return err
	}
}

// isLost reports whether a page ended as something else than a page: given up, or handed to the
// user with the answer of a limiter. Every page of a Site exists, and redirects nowhere.
func isLost(r crawl.Result) bool {
	switch r.Outcome {
	case crawl.Visited:
		return r.Status != http.StatusOK
	case crawl.Disallowed, crawl.Duplicate, crawl.Left:
		return false
	default:
		return true
	}
}

func pooled(cfg politeness.Config) func(context.Context, task) error {
	return func(ctx context.Context, t task) error {
		b := base(t.from)
		defer b.CloseIdleConnections()
		cfg := cfg
		cfg.Base = b
		transport, err := politeness.New(cfg)
		if err != nil {
			return err
		}
		Pool(ctx, &http.Client{Transport: transport}, t.root, t.site.Paths(), 8, 0)
		return nil
	}
}

func looped(ctx context.Context, t task) error {
	b := base(t.from)
	defer b.CloseIdleConnections()
	Pool(ctx, &http.Client{Transport: b}, t.root, t.site.Paths(), 1, time.Second)
	return nil
}

// wget follows robots.txt by itself.
func wget(ctx context.Context, t task) error {
	work, err := os.MkdirTemp(t.dir, "wget")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "wget", "--recursive", "--level=inf", "--wait=1", "--tries=2", "--timeout=15",
		"--no-verbose", "--bind-address="+t.from.String(), "--directory-prefix="+work, t.root)
	cmd.Dir = work
	cmd.WaitDelay = time.Second
	bind(cmd)
	err = cmd.Run()
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		return nil // it had an answer that wasn't 200, or the end of the cell ended it
	}
	return err
}

// Pool fetches each of the paths below root once, with a number of workers that pause after each
// page, until ctx is done.
func Pool(ctx context.Context, client *http.Client, root string, paths []string, workers int, pause time.Duration) {
	next := make(chan string)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for path := range next {
				fetch(ctx, client, root+path)
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	for _, path := range paths {
		select {
		case next <- strings.TrimPrefix(path, "/"):
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
}

// fetch fetches a page. The server's log has the answer.
func fetch(ctx context.Context, client *http.Client, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// Rude returns a crawler that knows nothing of politeness, and says that it is one of ours: workers
// fetch all pages of a site, the private ones too, with a pause between two pages. None fetch
// nothing.
func Rude(name string, workers int, pause time.Duration) *Crawler {
	run := func(ctx context.Context, t task) error {
		if workers == 0 {
			return nil
		}
		b := base(t.from)
		defer b.CloseIdleConnections()
		paths := t.site.Paths()
		for section := range t.site.Sections {
			paths = append(paths, privatePath(section))
		}
		slices.Reverse(paths) // the private ones first, as a cell is short
		Pool(ctx, &http.Client{Transport: b}, t.root, paths, workers, pause)
		return nil
	}
	return &Crawler{
		Name:  name,
		Slots: 2,
		Delay: 200 * time.Millisecond,
		Rate:  5,
		Again: true,
		run:   run,
	}
}

// Missing reports whether the program that c needs isn't installed.
func (c *Crawler) Missing() bool { return c.program != "" && program(c.program) == "" }
