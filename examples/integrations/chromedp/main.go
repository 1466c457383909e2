// Chromedp makes a headless Chromium polite. The browser pauses every request of the tab (DevTools
// domain Fetch). A polite http.Client sends it, and the page gets the response.
//
//	go run -C examples/integrations/chromedp .          # a small site on loopback
//	go run -C examples/integrations/chromedp . URL...   # real pages
//	go run -C examples/integrations/chromedp . -crawl URL...   # follow links, also those made by scripts
//
// It needs Chromium or Chrome. It prints the text of each page after its scripts have run, and then
// the findings of audit.Check on the log. Copy intercept.go. For crawls of such pages by package
// crawl, copy crawl.go, too. Redirects and refusals then have their usual outcomes, and the files
// of a page are paced, too.
//
// These requests go through politeness, over http and https: documents and frames, also those of
// other sites, scripts, styles, images, fonts, fetch and XMLHttpRequest, workers, prefetches,
// beacons and pings. Each hop of a redirect is a separate request. The browser keeps the cookies.
// robots.txt is fetched without them.
//
// All other requests fail, since the browser's proxy doesn't exist: service workers, WebSocket and
// WebRTC, pop-ups (attach an interceptor to each tab), and the browser's own requests, such as
// updates.
//
// Differences to a browser without politeness:
//
//   - Each file of a page waits for its host, and counts as a page of the budget. In
//     interceptor.answer, fail the files that you don't need by their ResourceType: images,
//     fonts, media.
//   - Loading takes as long as is polite. Give the context a deadline of minutes.
//   - A URL that robots.txt disallows fails as net::ERR_BLOCKED_BY_CLIENT. Scripts see a network
//     error.
//   - A response is handed over as a whole, so a stream of events never arrives. Set
//     Config.Response.MaxBytes, and don't open downloads.
//   - The browser keeps the body of an upload from a file. Such a request fails.
//
// With "politeness proxy -ca DIR" (cmd/politeness) any browser is polite without DevTools, if it
// trusts the proxy's certificate authority. Start the browser with
// --proxy-server=http://127.0.0.1:8118 --proxy-bypass-list="<-loopback>".
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"

	"github.com/chromedp/chromedp"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/examples/internal/reach"
	"github.com/go-politeness/politeness/robots/robotscache"
)

const userAgent = "BrowserExample/1.0 (+https://example.com/bot; bot@example.com)"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	if len(os.Args) > 2 && os.Args[1] == "-crawl" {
		if err := crawlAndPrint(ctx, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "chromedp:", err)
			os.Exit(1)
		}
		return
	}
	var pages []page
	for _, url := range os.Args[1:] {
		pages = append(pages, page{url, "body"})
	}
	if len(pages) == 0 {
		s := startSite()
		defer s.Close()
		pages = sitePages(s.URL)
	}
	report, err := browse(ctx, os.Stdout, reach.Base(os.Args[1:]), pages)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chromedp:", err)
		os.Exit(1)
	}
	fmt.Print("\n", report)
}

// A page is to be read once something matches the selector.
type page struct{ url, selector string }

// browse opens pages in a browser, one after the other, prints their text, and returns what
// the log of it proves.
func browse(ctx context.Context, out io.Writer, base http.RoundTripper, pages []page) (*audit.Report, error) {
	var log bytes.Buffer
	proof := evidence.JSONLines(&log)
	transport, err := politeness.New(politeness.Config{
		UserAgent: userAgent,
		Base:      base,                                               // public addresses only, unless one is named
		Robots:    robotscache.Config{RecordText: true},               // so that the auditor can decide again
		Evidence:  evidence.Multi(proof, evidence.Console(os.Stderr)), // shows why nothing happens
	})
	if err != nil {
		return nil, err
	}
	tab, closeBrowser := newTab(ctx)
	defer closeBrowser()
	requests := newInterceptor(transport)
	if err := requests.attach(tab); err != nil {
		return nil, err
	}
	for _, p := range pages {
		text, err := textOf(tab, p)
		if err != nil {
			fmt.Fprintf(out, "%s: %v\n", p.url, err)
			continue
		}
		fmt.Fprintf(out, "%s: %q\n", p.url, text)
	}
	closeBrowser()
	requests.wait()
	if err := proof.Close(); err != nil {
		return nil, err
	}
	return audit.Check(&log)
}

// textOf opens a page and returns its text. It waits until everything is loaded, at the polite
// pace.
func textOf(tab context.Context, p page) (string, error) {
	if err := chromedp.Do(tab, chromedp.Navigate(p.url), chromedp.WaitReady(p.selector)); err != nil {
		return "", err
	}
	return chromedp.Run(tab, chromedp.Text("body"))
}

// newTab starts a headless browser with a fresh profile. Requests outside of the tab's pages
// (updates, service workers, sockets) go to a proxy that doesn't exist.
func newTab(ctx context.Context) (tab context.Context, closeBrowser context.CancelFunc) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.UserAgent(userAgent), // what scripts see, too
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.ProxyServer("http://127.0.0.1:9"),
		chromedp.Flag("proxy-bypass-list", "<-loopback>"),
	)
	allocated, closeAllocator := chromedp.NewExecAllocator(ctx, options...)
	tab, closeTab := chromedp.NewContext(allocated)
	return tab, func() {
		closeTab()
		closeAllocator()
	}
}
