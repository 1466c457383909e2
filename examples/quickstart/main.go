// Quickstart crawls a small site through a polite http.Client. It prints each decision of
// politeness with its reason.
//
//	go run ./examples/quickstart                 # a small site on loopback
//	go run ./examples/quickstart URL...          # real URLs
//	go run ./examples/quickstart -evidence FILE  # writes the log as JSON Lines, too
//	go run ./examples/quickstart -state DIR URL  # keeps blocks, delays and robots.txt for the next run
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/examples/internal/reach"
)

// The program ends after this time, or after this number of pages, whatever the sites ask for.
const (
	longest   = 25 * time.Second
	mostPages = 20
)

const userAgent = "QuickstartBot/1.0 (+https://example.com/bot; bot@example.com)"

// options are what the user chose.
type options struct {
	file  string // for the evidence; empty: none is written
	agent string
	state string
}

func main() {
	var o options
	flag.StringVar(&o.file, "evidence", "", "write the evidence log (JSON Lines) to `FILE`")
	flag.StringVar(&o.agent, "agent", userAgent, "User-Agent of the crawler")
	flag.StringVar(&o.state, "state", "", "keep the state of hosts, and robots.txt, in `DIR` for the next run")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()

	if err := checkURLs(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if err := run(ctx, os.Stdout, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// checkURLs returns an error that names all arguments that can't be fetched.
func checkURLs(urls []string) error {
	var errs []error
	for _, raw := range urls {
		if !isURL(raw) {
			errs = append(errs, fmt.Errorf("quickstart: no URL: %s (a URL begins with https:// or http://)", raw))
		}
	}
	return errors.Join(errs...)
}

func isURL(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return false
	}
	return u.Scheme == "http" || u.Scheme == "https"
}

// run crawls, and writes the evidence into a file, too, if there is a name for it.
func run(ctx context.Context, out io.Writer, o options, urls []string) error {
	timeline := newTimeline(out)
	if o.file == "" {
		return show(ctx, out, o, timeline, timeline, urls)
	}
	f, err := os.OpenFile(o.file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	log := evidence.JSONLines(f)
	err = show(ctx, out, o, timeline, evidence.Multi(timeline, log), urls)
	lost := log.Close()
	return cmp.Or(err, lost)
}

// show crawls, and prints what was spent. proof receives the same records as timeline.
func show(
	ctx context.Context, out io.Writer, o options, timeline *timeline, proof evidence.Evidence, urls []string,
) error {
	spent := budget.New(budget.Limits{Pages: mostPages, Duration: longest, WarnAt: 0.8})
	cfg := politeness.Config{
		UserAgent: o.agent,
		Base:      reach.Base(urls), // public addresses only, unless one is named
		Budget:    spent,
		Evidence:  proof,
	}
	transport, err := politeness.New(cfg.WithState(o.state))
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport}

	if len(urls) == 0 {
		s := startSite()
		defer s.Close()
		timeline.origin = s.URL
		fmt.Fprintf(out, "A small site at %s with this robots.txt:\n\n%s\n\n", s.URL, indent(s.robots))
		for _, path := range sitePaths {
			urls = append(urls, s.URL+path)
		}
	}
	fmt.Fprintf(out, "At most 2 requests at once per host, 200 to 500 ms apart or as robots.txt asks; "+
		"it ends after %d pages or %.0f s.\n\n", mostPages, longest.Seconds())
	timeline.begin()
	crawl(ctx, client, urls)
	timeline.end()

	usage, err := spent.Usage(ctx)
	if err != nil {
		return err
	}
	stopped(ctx, out)
	fmt.Fprintf(out, "\nBudget: %d of %d pages, %.1f of %.0f s, %d bytes.\n",
		usage.Pages, usage.Limits.Pages, usage.Elapsed.Seconds(), usage.Limits.Duration.Seconds(), usage.Bytes)
	timeline.summary(out)
	if o.file != "" {
		fmt.Fprintf(out, "The log is in %s; prove it with: politeness audit %s (docs/command.md)\n", o.file, o.file)
	}
	return nil
}

// stopped prints why the crawl has ended early, if it has.
func stopped(ctx context.Context, out io.Writer) {
	err := ctx.Err()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Fprintf(out, "\nStopped: the quickstart ends after %.0f s.\n", longest.Seconds())
	case err != nil:
		fmt.Fprintln(out, "\nStopped: interrupted.")
	}
}

// workers is how many fetch at once: more than a host has slots.
const workers = 4

// crawl is any crawler: it knows nothing of politeness.
func crawl(ctx context.Context, client *http.Client, urls []string) {
	queue := make(chan string)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for url := range queue {
				fetch(ctx, client, url)
			}
		})
	}
	for _, url := range urls {
		queue <- url
	}
	close(queue)
	group.Wait()
}

func fetch(ctx context.Context, client *http.Client, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		return // refused or failed: the evidence has the reason
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
}
