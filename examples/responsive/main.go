// Responsive is a tutorial crawler of two pages. The second one waits for the longest of a
// random time around the politeness delay, crawl-delay, and the square of the
// time that the first one took.
//
//	go run ./examples/responsive           # two pages of a site of its own, on loopback
//	go run ./examples/responsive URL URL   # two real ones
//
// ROBOTS_DEFAULT_DELAY_SECONDS changes the politeness delay, which is 1 s.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/examples/internal/localsite"
	"github.com/go-politeness/politeness/examples/internal/reach"
)

const userAgent = "TutorialBot/1.0 (+https://github.com/go-politeness/politeness; bot@example.com)"

func main() {
	state := flag.String("state", "", "remember in `DIR` what hosts are owed, and robots.txt, for the next run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *state, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "responsive:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, state string, urls []string) error {
	base := reach.Base(urls)
	if len(urls) == 0 {
		site := startSite()
		defer site.Close()
		urls = []string{site.URL + "/slow", site.URL + "/quick"}
	}
	cfg, err := politeness.Responsive(userAgent).WithEnv()
	if err != nil {
		return err
	}
	cfg.Base = base
	cfg.Evidence = evidence.Func(func(_ context.Context, d evidence.Decision) {
		switch d.Type {
		case evidence.Started:
			fmt.Fprintf(out, "start %s, waited %.2f s, delay %.2f s\n", d.URL, d.WaitDelay.Seconds(), d.Delay.Seconds())
		case evidence.Fetched:
			t := d.Latency.Seconds()
			fmt.Fprintf(out, "end   %s, status %d, response time %.2f s, squared %.2f s\n", d.URL, d.Status, t, t*t)
		}
	})
	transport, err := politeness.New(cfg.WithState(state))
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport}
	for _, url := range urls {
		if err := fetch(ctx, client, url); err != nil {
			return err
		}
	}
	return nil
}

func fetch(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// startSite serves a page that takes 1.6 s, so that the next one waits for 2.56 s,
// and a quick one.
func startSite() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /slow", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(1600 * time.Millisecond)
		fmt.Fprintln(w, "I was busy.")
	})
	mux.HandleFunc("GET /quick", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Here I am.") })
	return localsite.Serve(mux)
}
