package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

const robots = "User-agent: *\nCrawl-delay: 0.5\n"

// refused is the number of the request that the site answers with 429.
const refused = 12

// A site is the web of the example.
type site struct {
	*httptest.Server

	mu       sync.Mutex
	arrivals int
	asked    int // for robots.txt
}

func startSite() *site {
	s := new(site)
	s.Server = httptest.NewServer(s)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.arrivals++
	n := s.arrivals
	if r.URL.Path == "/robots.txt" {
		s.asked++
	}
	s.mu.Unlock()

	time.Sleep(30 * time.Millisecond)
	switch {
	case r.URL.Path == "/robots.txt":
		fmt.Fprint(w, robots)
	case n == refused:
		w.Header().Set("Retry-After", "2")
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	default:
		fmt.Fprintf(w, "<title>%s</title>", r.URL.Path)
	}
}

// requests returns how many requests arrived.
func (s *site) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrivals
}

// robots returns how many requests were for robots.txt.
func (s *site) robots() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
}
