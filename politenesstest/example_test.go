package politenesstest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/politenesstest"
)

// crawl is the crawler under test. It pauses between its pages, but it has never
// heard of robots.txt, and believes that a 429 is a matter of one URL.
func crawl(ctx context.Context, transport http.RoundTripper, pause time.Duration, urls ...string) {
	client := &http.Client{Transport: transport}
	for _, u := range urls {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
		if err != nil {
			continue
		}
		req.Header.Set("User-Agent", "ExampleBot/1.0 (+https://example.com/bot)")
		if resp, err := client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		time.Sleep(pause)
	}
}

// A crawler is let loose on a fake web, and what was impolite about it is listed.
// In a test, Web.Check fails with these lines instead: see its example.
func ExampleWeb() {
	web := politenesstest.NewWeb()
	web.Site("https://example.com").
		Robots("User-agent: *\nDisallow: /private\n").
		Page("/", "home").
		Page("/private", "private").
		Handle("/busy", politenesstest.Status(429, "Retry-After", "30"))

	crawl(context.Background(), web, time.Millisecond,
		"https://example.com/", "https://example.com/private", "https://example.com/busy", "https://example.com/")

	for _, v := range web.Violations(politenesstest.Rules{Concurrency: 1}) {
		fmt.Println(v.Kind, v.Request.URL)
		fmt.Println("  by", v.Reason)
	}
	// Output:
	// disallowed https://example.com/private
	//   by "Disallow: /private" in line 2 of https://example.com/robots.txt, for *
	// block https://example.com/
	//   by 429 with Retry-After: 30
}

// The test of a crawler, in virtual time: the site is slow, starts to disallow
// its pages after an hour and a half, and has had enough for a minute after two;
// the whole of it takes milliseconds.
func ExampleWeb_Check() {
	var t *testing.T // the parameter of a test function

	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		site := web.Site("https://example.com").
			Robots("User-agent: *\nCrawl-delay: 2\n").
			Handle("/", politenesstest.Text("a page")).
			Latency(800 * time.Millisecond)
		time.AfterFunc(90*time.Minute, func() { site.Robots("User-agent: *\nDisallow: /\n") })
		time.AfterFunc(2*time.Hour, func() { site.Storm(time.Minute) })

		crawl(t.Context(), web, 2*time.Second, "https://example.com/1", "https://example.com/2")

		web.Check(t, politenesstest.Rules{Delay: 500 * time.Millisecond, Concurrency: 2})
	})
}

// Everything that came to the web is on record.
func ExampleWeb_Requests() {
	web := politenesstest.NewWeb()
	web.Site("https://example.com").
		Page("/", "hello").
		Handle("/old", http.RedirectHandler("/", http.StatusMovedPermanently)).
		Sequence("/flaky", 503, 200)

	crawl(context.Background(), web, 0, "https://example.com/old",
		"https://example.com/flaky", "https://example.com/flaky", "https://elsewhere.example/")

	for _, r := range web.Requests() {
		fmt.Println(r.Seq, r.Method, r.URL, r.Status, r.Err)
	}
	// Output:
	// 1 GET https://example.com/old 301 <nil>
	// 2 GET https://example.com/ 200 <nil>
	// 3 GET https://example.com/flaky 503 <nil>
	// 4 GET https://example.com/flaky 200 <nil>
	// 5 GET https://elsewhere.example/ 0 dial tcp: lookup elsewhere.example: no such host
}

// A path that drops the connection, then is overloaded, then answers at last.
func ExampleInTurn() {
	web := politenesstest.NewWeb()
	web.Site("https://example.com").Handle("/", politenesstest.InTurn(
		politenesstest.Drop(),
		politenesstest.Status(503, "Retry-After", "5"),
		politenesstest.Slow(time.Millisecond, politenesstest.Text("hello")),
	))
	client := &http.Client{Transport: web}
	for range 3 {
		resp, err := client.Get("https://example.com/")
		if err != nil {
			fmt.Println(err)
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.Status, resp.Header.Get("Retry-After"))
	}
	// Output:
	// Get "https://example.com/": EOF
	// 503 Service Unavailable 5
	// 200 OK
}
