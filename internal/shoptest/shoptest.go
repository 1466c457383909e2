// Package shoptest has a site with a trap, for the tests of Queues.
package shoptest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Items is the number of a shop's pages beside the first one.
const Items = 40

// values is the number of values of each of two filters.
const values = 14

// URLs is the number of a shop's URLs, with robots.txt.
const URLs = 1 + Items + values*values + 1

// A Shop has pages, and filters that show nothing new. They combine. Read its fields when no crawl
// of it runs.
type Shop struct {
	Requests map[string]int // number of requests by path and query
	Order    []string       // of all requests
	First    []string       // of the first request for each URL

	mu sync.Mutex
}

// RoundTrip implements [http.RoundTripper].
func (s *Shop) RoundTrip(req *http.Request) (*http.Response, error) {
	s.count(req.URL.RequestURI())
	var body strings.Builder
	body.WriteString("<p>Shop")
	item, isItem := strings.CutPrefix(req.URL.Path, "/item/")
	if isItem {
		name := strings.Map(func(r rune) rune { return r - '0' + 'a' }, item) // in lines all digits are one
		fmt.Fprintf(&body, "<p>All about %s", name)
	} else {
		for i := range Items {
			fmt.Fprintf(&body, "<a href=/item/%d>x</a>", i)
		}
		for i := range values * values {
			fmt.Fprintf(&body, `<a href="/?color=%d&amp;size=%d">y</a>`, i%values, i/values)
		}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(strings.NewReader(body.String())),
	}, nil
}

func (s *Shop) count(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Requests == nil {
		s.Requests = make(map[string]int)
	}
	if s.Requests[uri] == 0 {
		s.First = append(s.First, uri)
	}
	s.Requests[uri]++
	s.Order = append(s.Order, uri)
}

// Others returns how many of uris aren't those of items.
func Others(uris []string) int {
	n := 0
	for _, uri := range uris {
		if !strings.HasPrefix(uri, "/item/") {
			n++
		}
	}
	return n
}
