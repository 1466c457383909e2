package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/examples/internal/reach"
	"github.com/go-politeness/politeness/robots"
)

// fetch asks for raw, by what is known of it where that helps. It returns nil if
// the run was interrupted.
func (c *crawler) fetch(ctx context.Context, raw string, old *page) (got *page, _ outcome) {
	p := &page{URL: raw, SURT: surt(raw)}
	defer func() {
		if got != nil {
			got.CrawlTime = time.Now() // when it was over, not when it got in line
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, raw, nil)
	if err != nil {
		return p.failed(old, err), outcomeFailed
	}
	if old != nil && old.Body != nil { // a 304 would leave nothing else to keep
		if old.ETag != "" {
			req.Header.Set("If-None-Match", old.ETag)
		}
		if old.LastModified != "" {
			req.Header.Set("If-Modified-Since", old.LastModified)
		}
	}
	resp, err := c.get(req)
	if err != nil {
		return c.refused(ctx, p, old, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body) // bounded by Bulk's 10 MiB
	if err != nil {
		return c.refused(ctx, p, old, err)
	}

	p.Status, p.FinalURL = resp.StatusCode, resp.Request.URL.String()
	if final, err := normalize(p.FinalURL); err == nil {
		p.FinalURL = final
	}
	for hop := resp.Request.Response; hop != nil && hop.Request != nil; hop = hop.Request.Response {
		p.Redirects++
	}
	switch {
	case resp.StatusCode == http.StatusNotModified && old != nil:
		confirmed := *old
		confirmed.Error = ""
		return &confirmed, outcomeUnchanged
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		return p.failed(old, errors.New(resp.Status)), outcomeFailed // five retries didn't help
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return p, outcomeMissing // permanent, and the truth about this URL
	}
	p.ContentType, p.ETag, p.LastModified = resp.Header.Get("Content-Type"), resp.Header.Get("Etag"), resp.Header.Get("Last-Modified")
	directives := politeness.DirectivesOf(resp)
	if directives != (robots.Directives{}) {
		p.Directives, p.NoFollow = directives.String(), directives.NoFollow
	}
	if directives.NoIndexAt(time.Now()) {
		return p, outcomeNoIndex // its body isn't kept
	}
	sum := sha256.Sum256(body)
	p.Body, p.Hash = body, hex.EncodeToString(sum[:])
	if old != nil && old.Hash == p.Hash {
		return p, outcomeUnchanged
	}
	return p, outcomeStored
}

// refused tells why there is no answer. A refusal of ours says nothing about the
// page; it is stored all the same, so that the table says why a URL is missing.
func (c *crawler) refused(ctx context.Context, p, old *page, err error) (*page, outcome) {
	switch {
	case ctx.Err() != nil:
		return nil, outcomeFailed
	case errors.Is(err, politeness.ErrDisallowed), errors.Is(err, politeness.ErrContentType), errors.Is(err, politeness.ErrTooLarge):
		p.Error = err.Error()
		return p, outcomeRefused // nothing of it is kept
	}
	return p.failed(old, err), outcomeFailed
}

// failed is what is known of a page after a failure: what was known before, and the error.
func (p *page) failed(old *page, err error) *page {
	kept := *p
	if old != nil {
		kept = *old
	}
	kept.Status, kept.Error = p.Status, err.Error()
	return &kept
}

// maxQueueing is how often a request gets in line again for a slot.
const maxQueueing = 20

// get sends req. A request that waited in vain for a slot on a slow host gets in line again.
func (c *crawler) get(req *http.Request) (*http.Response, error) {
	for i := 1; ; i++ {
		resp, err := c.pages.Do(req)
		if err == nil || !errors.Is(err, politeness.ErrBusy) || i == maxQueueing {
			return resp, err
		}
	}
}

// base returns the transport that speaks HTTP, by the flags.
func (c *crawler) base() http.RoundTripper {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSHandshakeTimeout:   c.timeout,
		ResponseHeaderTimeout: c.timeout,
		DisableKeepAlives:     !c.keepAlive,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   2, // as many as Bulk uses at once
		IdleConnTimeout:       90 * time.Second,
	}
	if c.proxy != nil {
		t.Proxy = http.ProxyURL(c.proxy)
	}
	if !reach.OwnMachine(c.seeds) {
		t = politeness.PublicAddresses(t) // what is linked there is no business of ours
	}
	return exchangeTimeout{t, c.timeout}
}

// errTimeout is the server's fault, not the caller's: it is tried again.
var errTimeout = errors.New("the server took too long")

// An exchangeTimeout bounds an exchange from its start to the end of the body.
// http.Client.Timeout would count the time waited for a turn as well.
type exchangeTimeout struct {
	next    http.RoundTripper
	timeout time.Duration
}

func (t exchangeTimeout) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(req.Context(), t.timeout, errTimeout)
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		if context.Cause(ctx) == errTimeout { //nolint:errorlint // the cause itself
			err = errTimeout
		}
		return nil, err
	}
	resp.Request = req
	resp.Body = cancelBody{resp.Body, cancel}
	return resp, nil
}

type cancelBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b cancelBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
