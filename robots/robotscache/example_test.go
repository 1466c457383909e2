package robotscache_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/go-politeness/politeness/robots/robotscache"
)

// A web is a RoundTripper with one site, so that the examples need no network.
type web struct{}

func (web) RoundTrip(req *http.Request) (*http.Response, error) {
	fmt.Println("GET", req.URL)
	const rules = "User-agent: *\nDisallow: /private\nCrawl-delay: 2\n"
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{"Cache-Control": {"max-age=7200"}},
		Body:       io.NopCloser(strings.NewReader(rules)),
		Request:    req,
	}, nil
}

const userAgent = "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)"

func Example() {
	cache, err := robotscache.New(robotscache.Config{}, robotscache.Client{
		UserAgent: userAgent,
		Transport: web{}, // http.DefaultTransport, or one that takes turns
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, page := range []string{"https://example.com/", "https://EXAMPLE.com:443/private/1"} {
		u, _ := url.Parse(page)
		entry, err := cache.Get(context.Background(), u)
		if err != nil {
			fmt.Println(err)
			return
		}
		if entry.Denied {
			fmt.Println("not before", entry.Expires, "because", entry.Reason)
			return
		}
		verdict := entry.Rules.Test(u.RequestURI())
		fmt.Printf("%s %v %q\n", page, verdict.Allowed, verdict.Rule)
	}
	// Output:
	// GET https://example.com/robots.txt
	// https://example.com/ true ""
	// https://EXAMPLE.com:443/private/1 false "Disallow: /private"
}

// A crawl that is resumed fetches no robots.txt again.
func ExampleDir() {
	dir, err := os.MkdirTemp("", "robots")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	u, _ := url.Parse("https://example.com/private/1")
	for run := 1; run <= 2; run++ {
		cache, err := robotscache.New(robotscache.Config{Store: robotscache.Dir(dir)}, robotscache.Client{
			UserAgent: userAgent,
			Transport: web{},
			Observe: func(_ context.Context, e robotscache.Event) {
				fmt.Println("run", run, "status", e.Status, "restored", e.Restored, "for", e.TTL)
			},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		entry, err := cache.Get(context.Background(), u)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("run", run, "allowed", entry.Rules.Test(u.RequestURI()).Allowed)
	}
	// Output:
	// GET https://example.com/robots.txt
	// run 1 status 200 restored false for 2h0m0s
	// run 1 allowed false
	// run 2 status 200 restored true for 2h0m0s
	// run 2 allowed false
}

// A transport that waits for a turn stops the time limit of the fetch meanwhile, and returns a
// RefusedError if it gets none.
func ExampleQueue() {
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	transport := transportFunc(func(req *http.Request) (*http.Response, error) {
		wait, sent := robotscache.Queue(req.Context())
		defer sent()
		select {
		case <-turn:
			defer func() { turn <- struct{}{} }()
		case <-wait.Done():
			return nil, &robotscache.RefusedError{Err: wait.Err()}
		}
		sent()
		return web{}.RoundTrip(req)
	})
	cache, err := robotscache.New(robotscache.Config{}, robotscache.Client{UserAgent: userAgent, Transport: transport})
	if err != nil {
		fmt.Println(err)
		return
	}
	u, _ := url.Parse("https://example.com/")
	entry, err := cache.Get(context.Background(), u)
	if err != nil {
		fmt.Println(err)
		return
	}
	delay, _ := entry.Rules.CrawlDelay()
	fmt.Println("every", delay)
	// Output:
	// GET https://example.com/robots.txt
	// every 2s
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
