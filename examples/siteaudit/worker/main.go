// Worker is the page fetch worker of a site audit with proof: it fetches URLs
// and shows, for each, how it came about: budget, robots, evidence, slot, delay,
// fetch, slot back.
//
//	go run ./examples/siteaudit/worker                # a small site of its own, on loopback
//	go run ./examples/siteaudit/worker URL...         # real URLs
//	go run ./examples/siteaudit/worker -evidence FILE # writes the log as JSON Lines, too
//
// MAX_PAGES, MAX_SCAN_TIME_MINUTES and USER_AGENT change its budget and its name.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/examples/internal/reach"
	"github.com/go-politeness/politeness/examples/siteaudit/internal/demo"
)

const userAgent = "SiteAudit/1.0 (+https://github.com/go-politeness/politeness; bot@example.com)"

func main() {
	file := flag.String("evidence", "", "write the evidence log (JSON Lines) to `FILE`")
	state := flag.String("state", "", "remember in `DIR` what hosts are owed, and robots.txt, for the next run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *file, *state, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, file, state string, urls []string) (err error) {
	base := reach.Base(urls)
	if len(urls) == 0 {
		for _, robots := range []demo.Robots{demo.OwnGroup, demo.Broken} {
			site := demo.Start(robots)
			defer site.Close()
			for _, path := range demo.Paths {
				urls = append(urls, site.URL+path)
			}
		}
	}

	cfg, err := politeness.SiteAudit(userAgent).WithEnv()
	if err != nil {
		return err
	}
	cfg.Base = base
	cfg.Budget = budget.New(cfg.Spend) // asked below what is spent
	show := &flow{out: out, budget: cfg.Budget, trips: make(map[uint64]*trip)}
	cfg.Evidence = show
	if file != "" {
		f, createErr := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if createErr != nil {
			return createErr
		}
		log := evidence.JSONLines(f)
		defer func() { err = errors.Join(err, log.Close(), f.Close()) }()
		cfg.Evidence = evidence.Multi(show, log)
	}
	transport, err := politeness.New(cfg.WithState(state))
	if err != nil {
		return err
	}
	work(ctx, &http.Client{Transport: transport}, urls)

	usage, err := cfg.Budget.Usage(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Done: %d of %d pages, %.1f of %.0f s, %d bytes.\n",
		usage.Pages, usage.Limits.Pages, usage.Elapsed.Seconds(), usage.Limits.Duration.Seconds(), usage.Bytes)
	return nil
}

// workers is how many fetch at once: more than a host has slots.
const workers = 3

// work fetches urls. It knows nothing of politeness.
func work(ctx context.Context, client *http.Client, urls []string) {
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
		fmt.Fprintln(os.Stderr, "worker:", err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		return // refused or failed: the evidence says why
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // an audit would look at the page here
}
