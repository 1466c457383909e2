package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// exampleSite is a site in memory, in place of one on the web.
func exampleSite() http.RoundTripper {
	web := politenesstest.NewWeb()
	web.Site("https://example.com").Robots("User-agent: *\nDisallow: /private\n").
		Handle("/", page(`<a href="/news">news</a> <a href="/private">private</a> <a href="https://other.example/">away</a>`)).
		Handle("/news", page(`<a href="/">home</a>`))
	return web
}

// A crawl of a site from its start page. What robots.txt disallows isn't fetched, and links to
// other hosts aren't followed.
func Example() {
	transport, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      exampleSite(),                                                   // leave it out on the web
		Hosts:     hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}}, // and this
	})
	if err != nil {
		log.Fatal(err)
	}
	c, err := crawl.New(crawl.Config{
		Transport: transport,
		Follow:    crawl.SameHost,
		Visit: func(_ context.Context, p *crawl.Page) error {
			fmt.Println(p.Response.StatusCode, p.FinalURL, len(p.Links), "links")
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	summary, err := c.Run(context.Background(), "https://example.com/")
	if err != nil {
		log.Fatal(err)
	}
	text, _, _ := strings.Cut(summary.String(), " in ")
	fmt.Println(text)
	// Output:
	// 200 https://example.com/ 3 links
	// 200 https://example.com/news 1 links
	// 2 visited, 1 disallowed
}

// ExampleConfig_done writes down what wasn't visited, and why.
func ExampleConfig_done() {
	transport, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      exampleSite(),                                                   // leave it out on the web
		Hosts:     hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}}, // and this
	})
	if err != nil {
		log.Fatal(err)
	}
	c, err := crawl.New(crawl.Config{
		Transport: transport,
		Follow:    crawl.SameHost,
		Visit: func(_ context.Context, p *crawl.Page) error {
			if p.FinalURL == "https://example.com/news" {
				return errors.New("database is locked")
			}
			return nil
		},
		Done: func(r crawl.Result) {
			if r.Outcome != crawl.Visited {
				fmt.Printf("%s, found on %s: %s, status %d\n", r.URL, r.From, r.Outcome, r.Status)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	summary, err := c.Run(context.Background(), "https://example.com/")
	if err != nil {
		log.Fatal(err)
	}
	text, _, _ := strings.Cut(summary.String(), " in ")
	fmt.Println(text)
	// Unordered output:
	// https://example.com/news, found on https://example.com/: visit failed, status 200
	// https://example.com/private, found on https://example.com/: disallowed, status 0
	// 1 visited, 1 visit failed (database is locked), 1 disallowed
}

// A ready line on a terminal, and lines every ten seconds in a log.
func ExampleProgressLine() {
	show := crawl.ProgressLine(os.Stdout) // a Config.Progress
	show(crawl.Progress{Done: true, Summary: crawl.Summary{
		Outcomes: map[crawl.Outcome]int{crawl.Visited: 120, crawl.Disallowed: 3}, Elapsed: 61 * time.Second,
	}})
	// Output: 120 visited, 3 disallowed in 1m1s
}

// ExampleNormalize: what is one URL to a crawl.
func ExampleNormalize() {
	for _, u := range []string{"HTTP://Example.com:80/a/../b%7e?q=1#top", "mailto:bot@example.com"} {
		fmt.Println(crawl.Normalize(u))
	}
	// Output:
	// http://example.com/b~?q=1 <nil>
	//  scheme "mailto" is neither http nor https
}

// A captcha with status 200, which only the text of a page shows: the host is blocked, and the page
// is visited when the site serves it.
func ExampleErrRefused() {
	asked := 0
	web := politenesstest.NewWeb()
	web.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		if asked == 1 {
			fmt.Fprint(w, "Are you a robot?")
			return
		}
		fmt.Fprint(w, "Welcome")
	}))
	transport, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      web,
	})
	if err != nil {
		log.Fatal(err)
	}
	c, err := crawl.New(crawl.Config{
		Transport: transport,
		Visit: func(_ context.Context, p *crawl.Page) error {
			if strings.Contains(string(p.Body), "Are you a robot?") {
				return fmt.Errorf("%w: a captcha", crawl.ErrRefused)
			}
			fmt.Println(string(p.Body))
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Run(context.Background(), "https://example.com/"); err != nil {
		log.Fatal(err)
	}
	// Output: Welcome
}
