package main

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-politeness/politeness/internal/robotsgen"
)

// nineRules is as many as the median site has for everybody, and simple ones.
const nineRules = `User-agent: *
Disallow: /wp-admin/
Allow: /wp-admin/admin-ajax.php
Disallow: /search
Disallow: /cart/
Disallow: /checkout/
Disallow: /account/
Disallow: /*?sort=
Disallow: /cgi-bin/

Sitemap: https://example.com/sitemap.xml
`

const page = "https://example.com/articles/2026/some-page"

// smallFile is the small file of the robots.txt section, without its crawl-delay.
var smallFile = strings.ReplaceAll(string(robotsgen.File(robotsgen.Shapes[0])), "Crawl-delay", "# Crawl-delay")

// instant is a transport that answers at once, from memory, with a body or without.
type instant struct {
	robots string
	body   bool
}

// header is shared by all of instant's responses: nobody in between may write to it.
var header = http.Header{"Content-Type": {"text/html"}}

func (t instant) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Header: header, Body: http.NoBody, Request: req}
	switch {
	case strings.HasSuffix(req.URL.Path, "/robots.txt"):
		resp.Body = io.NopCloser(strings.NewReader(t.robots))
	case t.body:
		resp.Body = io.NopCloser(strings.NewReader("hello"))
	}
	return resp, nil
}

// A site is a transport to one host that notes when requests for pages reach it. It answers after
// latency, with 404 for robots.txt. If blocks is set, its first request opens a window of that
// length, from its answer on, in which everybody is told to stay away with 429 and Retry-After, and
// the first request after the window opens another one.
type site struct {
	latency time.Duration
	blocks  time.Duration

	mu      sync.Mutex
	begin   time.Time
	windows []window
	starts  []start
	closed  bool
}

// A window is a time in which no request should come, from its first refusal on.
type window struct{ from, to time.Time }

type start struct {
	at   time.Time
	into bool // a window
}

func (s *site) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}
	if strings.HasSuffix(req.URL.Path, "/robots.txt") {
		resp.StatusCode = http.StatusNotFound
		return resp, nil
	}
	opens := s.arrive(time.Now)
	if s.latency > 0 {
		t := time.NewTimer(s.latency)
		defer t.Stop()
		select {
		case <-t.C:
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	if s.blocks > 0 {
		resp.StatusCode = http.StatusTooManyRequests
		resp.Header.Set("Retry-After", s.refuse(opens))
	} else {
		resp.Body = io.NopCloser(strings.NewReader("hello"))
	}
	return resp, nil
}

// arrive notes a start, and reports whether its answer opens a window.
func (s *site) arrive(clock func() time.Time) (opens bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock() // in the order of starts
	if s.closed {
		return false
	}
	if s.begin.IsZero() {
		s.begin = now
	}
	into := false
	var last window
	if len(s.windows) > 0 {
		last = s.windows[len(s.windows)-1]
	}
	// A window without an end is one whose first refusal is on its way.
	over := !last.to.IsZero() && now.After(last.to)
	if len(s.windows) == 0 || over {
		s.windows = append(s.windows, window{})
		opens = s.blocks > 0
	} else {
		into = !last.from.IsZero()
	}
	s.starts = append(s.starts, start{now, into && s.blocks > 0})
	return opens
}

// refuse returns the Retry-After of a refusal that is sent now: what is left of the window, in
// whole seconds and never less than it is.
func (s *site) refuse(opens bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	w := &s.windows[len(s.windows)-1]
	if opens {
		w.from = now
		w.to = now.Add(s.blocks)
	}
	left := s.blocks
	if !w.to.IsZero() {
		left = max(0, w.to.Sub(now))
	}
	return strconv.Itoa(int((left + time.Second - 1) / time.Second))
}
