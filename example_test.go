package politeness_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// exampleWeb is what the examples crawl in place of the real web.
func exampleWeb() *politenesstest.Web {
	web := politenesstest.NewWeb()
	web.Site("https://example.com").
		Robots("User-agent: *\nDisallow: /private\nAllow: /private/press/\nCrawl-delay: 10\n").
		Handle("/", politenesstest.Text("hello"))
	web.Site("https://example.org").
		Page("/", "hello")
	return web
}

// One line around a client. The second request is refused before anything is sent.
func ExampleNew() {
	t, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      exampleWeb(), // leave it out for the real web
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: t}

	for _, url := range []string{"https://example.org/", "https://example.com/private/diary"} {
		resp, err := client.Get(url)
		var refused *politeness.Error
		switch {
		case errors.As(err, &refused):
			fmt.Println(refused.Stage, errors.Is(err, politeness.ErrDisallowed))
			fmt.Println(refused)
		case err != nil:
			fmt.Println(err)
		default:
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close() // gives the host's slot back
			fmt.Println(resp.Status, string(body), err)
		}
	}
	// Output:
	// 200 OK hello <nil>
	// robots true
	// politeness: example.com: robots: disallowed by robots.txt, line 2, group "*": Disallow: /private
}

// Everything that is wrong with a Config is said at once.
func ExampleNew_incorrect() {
	_, err := politeness.New(politeness.Config{
		UserAgent: "Mozilla/5.0",                                       // names no crawler that anybody could write to
		From:      "the crawler's owner",                               // is no mail address
		Retry:     politeness.Retry{Max: -1},                           // 0 is never
		Response:  politeness.ResponseLimits{Accept: []string{"html"}}, // text/html
	})
	fmt.Println(err)
	// Output:
	// politeness: Config.UserAgent: "Mozilla/5.0" has no contact: add a URL or a mail address, such as (+https://example.com/bot; bot@example.com)
	// politeness: Config.From: "the crawler's owner" is not a mail address: mail: no angle-addr
	// politeness: Config.Retry: Max is negative: -1
	// politeness: Config.Response: Accept[0]: "html" is not a media type such as text/html, text/* or */*
}

// A program that makes a transport for each proxy, target or worker needs one Transport, and Over
// for each of these: robots.txt is fetched once, and the workers share the delay of the host.
func ExampleTransport_Over() {
	web := exampleWeb()
	t, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for worker := range 2 {
		// In a program: t.Over(&http.Transport{Proxy: http.ProxyURL(proxies[worker])})
		client := &http.Client{Transport: t.Over(web)}
		resp, err := client.Get("https://example.org/")
		if err != nil {
			fmt.Println(worker, err)
			continue
		}
		resp.Body.Close()
		fmt.Println(worker, resp.Status)
	}
	fmt.Println(web.Requests()[0].URL, len(web.Requests()))
	// Output:
	// 0 200 OK
	// 1 200 OK
	// https://example.org/robots.txt 3
}

// Why is a URL skipped? The verdict names the rule, as it is written in robots.txt.
func ExampleTransport_Check() {
	t, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      exampleWeb(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{"/", "/private/diary", "/private/press/2026"} {
		v, err := t.Check(context.Background(), "https://example.com"+path)
		if err != nil {
			fmt.Println(err) // nothing could be decided
			continue
		}
		fmt.Printf("%-20s %-5v %q line %d of group %s\n", path, v.Allowed, v.Rule, v.Line, v.Group)
	}
	// Output:
	// /                    true  "" line 0 of group *
	// /private/diary       false "Disallow: /private" line 2 of group *
	// /private/press/2026  true  "Allow: /private/press/" line 3 of group *
}

// The URLs of a sitemap, before they are queued.
func ExampleTransport_Filter() {
	t, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      exampleWeb(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	allowed, err := t.Filter(context.Background(), []string{
		"https://example.com/a", "https://example.com/private/b", "https://example.org/c", "mailto:bot@example.com",
	})
	fmt.Println(allowed)
	fmt.Println(err) // those about which nothing could be decided
	// Output:
	// [https://example.com/a https://example.org/c]
	// mailto:bot@example.com: politeness: request: unsupported protocol scheme "mailto"
}

// A frontier has many hosts and few workers. It takes up a URL when its host is
// ready, instead of letting a worker wait.
func ExampleTransport_Next() {
	t, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      exampleWeb(),
		Hosts: hostlimit.Config{
			MaxWait: time.Second, // should a worker be too early: refuse it with RetryAt
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if _, err := t.Check(ctx, "https://example.com/"); err != nil { // fetches robots.txt, which is a start, too
		fmt.Println(err)
	}

	for _, url := range []string{"https://example.org/", "https://example.com/", "https://example.com/private/diary"} {
		at, err := t.Next(ctx, url)
		switch {
		case errors.Is(err, politeness.ErrDisallowed):
			fmt.Println(url, "is disallowed")
		case err != nil:
			fmt.Println(err)
		case time.Until(at) > 0:
			fmt.Println(url, "later") // in 10 s, by its Crawl-delay
		default:
			fmt.Println(url, "now")
		}
	}
	// Output:
	// https://example.org/ now
	// https://example.com/ later
	// https://example.com/private/diary is disallowed
}

// A site's owner calls: nothing is sent to the site any more, until it is let go.
func ExampleTransport_Limiter() {
	t, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      exampleWeb(), // leave it out for the real web
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: t}
	ctx := context.Background()
	if err := t.Limiter().Block(ctx, "example.org", time.Now().Add(time.Hour), "the owner has called"); err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Get("https://example.org/")
	if err == nil {
		resp.Body.Close()
	}
	fmt.Println(errors.Is(err, politeness.ErrBlocked))

	if err := t.Limiter().Clear(ctx, "example.org"); err != nil {
		fmt.Println(err)
		return
	}
	resp, err = client.Get("https://example.org/")
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// true
	// 200 OK
}

// A sitemap goes before the pages that wait already.
func Example_priority() {
	ctx := hostlimit.WithPriority(context.Background(), 1)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://example.org/sitemap.xml", http.NoBody)
	fmt.Println(req.URL, err)
	// Output: https://example.org/sitemap.xml <nil>
}

// A crawler that repeats its requests itself, and ends when it is told to, says so with each of
// them. It learns whether the host has refused, and until when.
func ExampleWithCall() {
	web := politenesstest.NewWeb()
	web.Site("https://busy.example").Handle("/", politenesstest.Status(http.StatusTooManyRequests, "Retry-After", "60"))
	t, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      web,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: t}
	ends := make(chan struct{}) // closed when the crawl is to start nothing more

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // for the answer
	defer cancel()
	call := &politeness.Call{Until: ends, Once: true}
	req, err := http.NewRequestWithContext(politeness.WithCall(ctx, call), http.MethodGet, "https://busy.example/", http.NoBody)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	switch {
	case err != nil && call.Excused():
		fmt.Println("not the host's doing:", err)
	case err != nil:
		fmt.Println("the host hasn't answered:", err)
	default:
		resp.Body.Close()
		effect := call.Effect()
		fmt.Println(resp.Status)
		fmt.Println("ask the host again later:", effect.Blocked, time.Until(effect.Until).Round(time.Second))
	}
	// Output:
	// 429 Too Many Requests
	// ask the host again later: true 1m0s
}

// Hosts that are left alone are in a file, which is read again when it changes.
func ExampleRefuseHosts() {
	file, err := os.CreateTemp("", "refuse-*.txt")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString("# whom we leave alone\nexample.com    the owner has asked us to\n.example.net\n")
	if err = errors.Join(err, file.Close()); err != nil {
		fmt.Println(err)
		return
	}

	list, err := politeness.RefuseHosts(file.Name())
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      exampleWeb(), // leave it out for the real web
		Refuse:    list.Refuse,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := (&http.Client{Transport: t}).Get("https://example.com/")
	if err == nil {
		resp.Body.Close()
	}
	fmt.Println(errors.Is(err, politeness.ErrDisallowed), list.Err())
	// Output: true <nil>
}

// What the crawl is doing right now. Package statuspage serves it as a page.
func ExampleTransport_Status() {
	t, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      exampleWeb(),
		Spend:     budget.Limits{Pages: 200},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := (&http.Client{Transport: t}).Get("https://example.org/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close() // until then it holds a slot

	status := t.Status(context.Background())
	for _, h := range status.Hosts {
		fmt.Printf("%s: %d of %d slots\n", h.Key, h.InFlight, h.Slots)
	}
	fmt.Printf("%d of %d pages\n", status.Budget.Pages, status.Budget.Limits.Pages)
	// Output:
	// example.org: 1 of 2 slots
	// 1 of 200 pages
}
