package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-politeness/politeness/backoff"
)

// copies answers from the database if it can. For a fresh page no request is sent. Another page is
// only sent again if it has changed. So the links of known pages are followed too.
type copies struct {
	next    http.RoundTripper
	queue   *queue
	longest time.Duration // wait after which next leaves a request to the crawl
}

// A stored is the copy that a response was made of.
type stored struct {
	page  *page
	fresh bool      // no request was sent
	date  time.Time // of the server's 304
}

type storedKey struct{}

type hashKey struct{}

// hashOf returns the hash of the body that is known of the page of resp, empty if none is.
func hashOf(resp *http.Response) string {
	hash, _ := resp.Request.Context().Value(hashKey{}).(string)
	return hash
}

// copyOf returns the copy that resp was made of, nil if a server has sent resp.
func copyOf(resp *http.Response) *stored {
	s, _ := resp.Request.Context().Value(storedKey{}).(*stored)
	return s
}

// An answeredError is an answer that isn't worth a further try in this run.
type answeredError struct{ status int }

func (e *answeredError) Error() string {
	return fmt.Sprintf("%d %s", e.status, http.StatusText(e.status))
}

// RoundTrip implements http.RoundTripper.
func (c *copies) RoundTrip(req *http.Request) (*http.Response, error) {
	old, err := c.queue.Page(req.Context(), req.URL.String())
	if err != nil {
		return nil, err
	}
	if old == nil || old.Hash == "" || old.Redirects > 0 {
		return c.ask(req)
	}
	if c.queue.fresh(old) {
		return answer(req, &stored{page: old, fresh: true}), nil
	}
	conditional := req.Clone(context.WithValue(req.Context(), hashKey{}, old.Hash))
	if old.ETag != "" {
		conditional.Header.Set("If-None-Match", old.ETag)
	}
	if old.LastModified != "" {
		conditional.Header.Set("If-Modified-Since", old.LastModified)
	}
	resp, err := c.ask(conditional)
	if err != nil || resp.StatusCode != http.StatusNotModified {
		return resp, err
	}
	defer resp.Body.Close()
	return answer(req, &stored{page: old, date: dateOf(resp)}), nil
}

// ask asks the server. The Transport has retried 429 and 503 then, so that the crawl needn't,
// unless the server wants to be left alone for so long that only the crawl can come back.
func (c *copies) ask(req *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return resp, err
	}
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return resp, nil
	}
	asked, _ := backoff.RetryAfter(resp.Header.Get("Retry-After"), resp.Header.Get("Date"), time.Now())
	if asked > c.longest {
		return resp, nil
	}
	resp.Body.Close()
	return nil, &answeredError{resp.StatusCode}
}

// answer is the answer that s was made of.
func answer(req *http.Request, s *stored) *http.Response {
	header := http.Header{"Content-Type": {s.page.ContentType}}
	if s.page.Directives != "" {
		header.Set("X-Robots-Tag", s.page.Directives)
	}
	return &http.Response{
		Status:        "200 OK",
		StatusCode:    http.StatusOK,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        header,
		ContentLength: int64(len(s.page.Body)),
		Body:          io.NopCloser(bytes.NewReader(s.page.Body)),
		Request:       req.WithContext(context.WithValue(req.Context(), storedKey{}, s)),
	}
}
