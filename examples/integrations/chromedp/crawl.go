package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/examples/internal/reach"
)

// mostTabs is how many pages are open at once.
const mostTabs = 4

// crawlSites crawls sites with a browser. The pages that visit receives are as scripts have made
// them, and so are their links.
func crawlSites(
	ctx context.Context, transport *politeness.Transport,
	visit func(*crawl.Page), done func(crawl.Result), urls ...string,
) (crawl.Summary, error) {
	browser, closeBrowser := newTab(ctx)
	defer closeBrowser()
	if err := chromedp.Do(browser); err != nil { // starts it
		return crawl.Summary{}, err
	}
	pages := &tabs{browser: browser, over: transport, free: make(chan struct{}, mostTabs)}
	c, err := crawl.New(crawl.Config{
		Transport: transport,
		Client:    &http.Client{Transport: pages},
		Timeout:   10 * time.Minute, // all files of a page take their turns meanwhile
		Follow:    crawl.SameHost,
		Visit: func(_ context.Context, p *crawl.Page) error {
			visit(p)
			return nil
		},
		Done: done,
	})
	if err != nil {
		return crawl.Summary{}, err
	}
	return c.Run(ctx, urls...)
}

// tabs is the http.RoundTripper of a crawl that opens each page of HTML in a tab of a browser. The
// page is fetched with the context of the crawl's request, so the crawl paces it and knows its
// outcome. The files of the page wait for their own turns.
type tabs struct {
	browser context.Context
	over    http.RoundTripper // the Transport
	free    chan struct{}     // has an element for each open tab
}

// RoundTrip implements http.RoundTripper. Redirects, refusals and all other responses that aren't
// HTML are handed to the crawl unchanged.
func (t *tabs) RoundTrip(req *http.Request) (*http.Response, error) {
	select {
	case t.free <- struct{}{}:
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
	defer func() { <-t.free }()
	tab, closeTab := chromedp.NewContext(t.browser)
	defer closeTab()
	defer context.AfterFunc(req.Context(), closeTab)()
	page := &opened{req: req, over: t.over}
	requests := newInterceptor(t.over)
	requests.document = page.answer
	if err := requests.attach(tab); err != nil {
		return nil, err
	}
	text, err := read(tab, requests, req.URL.String())
	closeTab()
	requests.wait()
	return page.response(text, err)
}

// A page is taken as it is once it has loaded and its scripts have asked for nothing for quiet, or
// after longest, if its scripts continue.
const (
	quiet   = 500 * time.Millisecond
	longest = 2 * time.Minute
)

// read opens a page, and returns it as scripts have made it.
func read(tab context.Context, requests *interceptor, url string) (html string, err error) {
	loading, cancel := context.WithTimeout(tab, longest)
	defer cancel()
	err = chromedp.Do(loading, chromedp.Navigate(url), chromedp.WaitReady("html"))
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return "", err
	}
	requests.idle(loading, quiet)
	return chromedp.Run(tab, chromedp.OuterHTML("html"))
}

// An opened is a page that a tab opens for the crawl.
type opened struct {
	req  *http.Request
	over http.RoundTripper

	mu      sync.Mutex
	asked   bool // the first request of the tab, which is the crawl's
	frame   cdp.FrameID
	resp    *http.Response
	err     error  // why resp is nil
	isHTML  bool   // resp has been read, and the tab shows it
	further string // where a script has sent the tab
}

// answer answers the tab's request for its page. A request for another page in its place isn't
// made: the crawl is told of the URL. The page of a frame is a file like others.
func (p *opened) answer(tab context.Context, paused *fetch.EventRequestPaused) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked && paused.FrameID != p.frame {
		return false
	}
	if p.asked {
		p.further = paused.Request.URL
		fail(tab, paused, network.ErrorReasonAborted)
		return true
	}
	p.asked = true
	p.frame = paused.FrameID
	req := p.req.Clone(p.req.Context())
	for name, value := range paused.Request.Headers {
		if req.Header.Get(name) == "" { // a field that Prepare has set stays
			req.Header.Set(name, fmt.Sprint(value))
		}
	}
	req.Header.Del("Accept-Encoding")     // http.Transport adds it, and decodes the body
	p.resp, p.err = p.over.RoundTrip(req) //nolint:bodyclose // handedOver closes it, or the crawl
	if p.err != nil {
		fail(tab, paused, reason(p.err))
		return true
	}
	kind, _, _ := mime.ParseMediaType(p.resp.Header.Get("Content-Type"))
	leads := p.resp.StatusCode/100 == 3
	if leads || kind != "text/html" && kind != "application/xhtml+xml" {
		fail(tab, paused, network.ErrorReasonAborted)
		return true
	}
	p.isHTML = true
	page, err := handedOver(paused.RequestID, p.resp)
	if err != nil {
		p.err = err
		fail(tab, paused, network.ErrorReasonFailed)
		return true
	}
	_, _ = chromedp.Call(tab, fetch.FulfillRequest, page)
	return true
}

// errNotAsked is why a page has no response if its tab hasn't requested it.
var errNotAsked = errors.New("the tab hasn't asked for its page")

// response returns the answer for the crawl. text is what the tab shows, err why it shows nothing.
func (p *opened) response(text string, err error) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.err != nil:
		return nil, p.err
	case p.resp == nil && err != nil:
		return nil, err
	case p.resp == nil:
		return nil, errNotAsked
	case !p.isHTML:
		return p.resp, nil
	case err != nil && p.further == "":
		return nil, fmt.Errorf("open the page: %w", err)
	}
	resp := *p.resp
	resp.Header = p.resp.Header.Clone()
	resp.Header.Set("Content-Type", "text/html; charset=utf-8") // as the browser writes it
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.Body = io.NopCloser(strings.NewReader(text))
	resp.ContentLength = int64(len(text))
	if p.further != "" {
		resp.Header.Set("Refresh", "0; url="+p.further) // the crawl follows it as a link
	}
	return &resp, nil
}

// crawlAndPrint prints the URL and the length of each page, as scripts have made it, and what
// became of all other URLs.
func crawlAndPrint(ctx context.Context, urls []string) error {
	transport, err := politeness.New(politeness.Config{
		UserAgent: userAgent,
		Base:      reach.Base(urls),
		Evidence:  evidence.Console(os.Stderr),
	})
	if err != nil {
		return err
	}
	visit := func(p *crawl.Page) { fmt.Println(p.Response.StatusCode, p.FinalURL, len(p.Body)) }
	done := func(r crawl.Result) {
		if r.Outcome != crawl.Visited {
			fmt.Println(r.Outcome, r.URL, r.Err)
		}
	}
	summary, err := crawlSites(ctx, transport, visit, done, urls...)
	fmt.Fprintln(os.Stderr, summary)
	return err
}
