// Responsive is a small crawler with the policy politeness.Responsive. It follows the links of a
// site from a start URL, also canonical ones, and skips URLs that robots.txt disallows. If
// robots.txt can't be fetched, it fetches no page. After each page it waits for the longest of
// three times: a random time around the politeness delay, the crawl-delay, and the square of the
// seconds that the page took. After a page of 20 s these are 6 min 40 s.
//
//	go run ./examples/responsive                 # a small site on loopback
//	go run ./examples/responsive -delay 2s URL   # a real one
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/examples/internal/reach"
	"github.com/go-politeness/politeness/internal/localsite"
)

const userAgent = "TutorialBot/1.0 (+https://example.com/bot; bot@example.com)"

const usage = `Usage: responsive [flags] [URL...]

Follows the links from each URL. Without a URL, it crawls a small site on loopback.

`

func main() {
	var o options
	flag.DurationVar(&o.delay, "delay", 0, "mean delay between two requests; 0: ROBOTS_DEFAULT_DELAY_SECONDS, or 1s")
	flag.IntVar(&o.depth, "depth", 10, "most links from a start URL")
	flag.IntVar(&o.pages, "pages", 100, "most pages")
	flag.StringVar(&o.state, "state", "", "keep the state of hosts, and robots.txt, in `DIR` for the next run")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "responsive:", err)
		os.Exit(1)
	}
}

// options are what the user chose.
type options struct {
	delay time.Duration // 0: as the environment says
	depth int
	pages int
	state string
}

func run(ctx context.Context, out io.Writer, o options, roots []string) error {
	if o.delay < 0 || o.depth < 1 || o.pages < 1 {
		return fmt.Errorf("-delay %v must not be negative, -depth %d and -pages %d must be 1 at least",
			o.delay, o.depth, o.pages)
	}
	base := reach.Base(roots)
	if len(roots) == 0 {
		site := startSite()
		defer site.Close()
		roots = []string{site.URL + "/"}
	}
	cfg, err := politeness.Responsive(userAgent).WithEnv()
	if err != nil {
		return err
	}
	if o.delay > 0 {
		cfg.Hosts.Delay.Min = o.delay / 2 // as in the preset: from half of it to one and a half times
		cfg.Hosts.Delay.Max = o.delay * 3 / 2
	}
	cfg.Base = base
	told := &pace{out: out, ends: make(map[string]time.Time)}
	cfg.Evidence = evidence.Multi(told, evidence.Console(os.Stderr)) // shows why nothing happens
	transport, err := politeness.New(cfg.WithState(o.state))
	if err != nil {
		return err
	}
	crawler, err := crawl.New(crawl.Config{
		Transport: transport,
		Follow:    crawl.SameHost,
		MaxDepth:  o.depth,
		MaxPages:  o.pages,
		Progress:  crawl.ProgressLine(told), // the hosts that wait, and the end
		Visit: func(_ context.Context, p *crawl.Page) error {
			told.tell("page  %s, %d bytes, %d links", p.FinalURL, len(p.Body), len(p.Links))
			canonical := crawl.Link{URL: p.Canonical, Element: "link", Rel: "canonical"}
			if p.Canonical != "" && !p.Directives.NoFollow && crawl.SameHost(p, canonical) {
				p.Add(p.Canonical) // a link as any: the page itself is kept
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	_, err = crawler.Run(ctx, roots...)
	return err
}

// A pace prints what happens. It is Evidence, too, and prints the time between two pages of each
// host.
type pace struct {
	mu   sync.Mutex
	out  io.Writer
	ends map[string]time.Time // by host: of its last page
}

func (p *pace) tell(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// Write implements io.Writer.
func (p *pace) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(line)
}

// Record implements evidence.Evidence.
func (p *pace) Record(_ context.Context, d evidence.Decision) {
	switch d.Type {
	case evidence.Started:
		p.tell("start %s, waited %.2f s", d.URL, p.since(d).Seconds())
	case evidence.Fetched:
		p.mu.Lock()
		p.ends[d.Host] = d.Time
		p.mu.Unlock()
		t := d.Latency.Seconds()
		p.tell("end   %s, status %d, response time %.2f s, squared %.2f s", d.URL, d.Status, t, t*t)
	case evidence.BlockedByRobots:
		p.tell("skip  %s, %s", d.URL, cmp.Or(d.MatchedRule, d.Reason))
	}
}

// since is the time since the last page of d's host.
func (p *pace) since(d evidence.Decision) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if end, ok := p.ends[d.Host]; ok {
		return d.Start.Sub(end)
	}
	return 0
}

// startSite serves a page that takes 1.6 s, so that the next one waits for 2.56 s, one that is
// disallowed, and a quick one.
func startSite() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "User-agent: *\nDisallow: /private/\n")
	})
	mux.HandleFunc("GET /{$}", page(
		`<a href="/slow">slow</a> <a href="/private/diary">diary</a> <a href="/quick">quick</a>`))
	mux.HandleFunc("GET /slow", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(1600 * time.Millisecond)
		page("I was busy.")(w, r)
	})
	mux.HandleFunc("GET /private/diary", page("Not for robots."))
	mux.HandleFunc("GET /quick", page(`Here I am. <a href="/">home</a>`))
	return localsite.Serve(mux)
}

func page(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!doctype html><title>A page</title><p>%s</p>", text)
	}
}
