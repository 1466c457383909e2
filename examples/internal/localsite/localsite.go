// Package localsite is the web site on loopback that the example programs crawl
// unless they are given another one. It keeps a record of its own, so that a test
// can hold what the crawler says of itself against what the server saw.
package localsite

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Robots is the site's robots.txt.
const Robots = `User-agent: *
Disallow: /private
`

// Paths are what the index at "/" links to.
var Paths = []string{
	"/a", "/b", "/c", "/d",
	"/private/diary", // disallowed
	"/moved",         // redirects to /e
	"/trap",          // redirects to /private/diary
	"/busy",          // answers 429 with Retry-After: 1 to the first request
}

// Serve starts a server on a free port of 127.0.0.1. Close it. Package virtual puts a
// server in memory here.
var Serve = httptest.NewServer

// A Site is a running site. Whatever is neither in Paths nor handled otherwise is
// a page with a link to the index.
type Site struct {
	URL string // without a final slash

	server *httptest.Server
	mux    *http.ServeMux

	mu           sync.Mutex
	visits       []Visit
	inFlight     int
	mostInFlight int
}

// A Visit is one request as the server saw it.
type Visit struct {
	Time   time.Time // when it arrived
	Method string
	Target string // path and query, as sent
	Header http.Header
}

// Start starts a site on a free port of 127.0.0.1. Close it.
func Start() *Site {
	s := &Site{mux: http.NewServeMux()}
	s.Handle("/robots.txt", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, Robots) })
	s.Handle("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			page(w, "Index", Paths...)
			return
		}
		page(w, "Page "+r.URL.Path, "/")
	})
	s.Handle("/moved", http.RedirectHandler("/e", http.StatusMovedPermanently).ServeHTTP)
	s.Handle("/trap", http.RedirectHandler("/private/diary", http.StatusFound).ServeHTTP)
	var once sync.Once
	s.Handle("/busy", func(w http.ResponseWriter, _ *http.Request) {
		busy := false
		once.Do(func() { busy = true })
		if busy {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "not so fast", http.StatusTooManyRequests)
			return
		}
		page(w, "Page /busy", "/")
	})
	s.server = Serve(http.HandlerFunc(s.serve))
	s.URL = s.server.URL
	return s
}

func page(w http.ResponseWriter, title string, links ...string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!doctype html><title>%s</title>\n", title)
	for _, link := range links {
		fmt.Fprintf(w, "<p><a href=%q>%s</a>\n", link, link)
	}
}

// Handle answers what matches the pattern (see http.ServeMux) by h. Call it before
// the crawl begins.
func (s *Site) Handle(pattern string, h http.HandlerFunc) { s.mux.HandleFunc(pattern, h) }

// Close stops the site.
func (s *Site) Close() { s.server.Close() }

func (s *Site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.visits = append(s.visits, Visit{Time: time.Now(), Method: r.Method, Target: r.RequestURI, Header: r.Header.Clone()})
	s.inFlight++
	s.mostInFlight = max(s.mostInFlight, s.inFlight)
	s.mu.Unlock()

	// The client knows of the end of an exchange before the handler has returned, so
	// an exchange counts as in flight until its answer begins, and never for too long.
	answer := &answering{ResponseWriter: w, begins: sync.OnceFunc(func() {
		s.mu.Lock()
		s.inFlight--
		s.mu.Unlock()
	})}
	defer answer.begins()
	s.mux.ServeHTTP(answer, r)
}

// answering tells when an answer begins.
type answering struct {
	http.ResponseWriter
	begins func()
}

func (w *answering) WriteHeader(status int) {
	w.begins()
	w.ResponseWriter.WriteHeader(status)
}

func (w *answering) Write(p []byte) (int, error) {
	w.begins()
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *answering) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Visits returns all requests so far, in the order of their arrival: those to the
// given targets, all if none is given. A target that ends in "*" stands for all targets
// that begin with what is before it.
func (s *Site) Visits(targets ...string) []Visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(targets) == 0 {
		return slices.Clone(s.visits)
	}
	var visits []Visit
	for _, v := range s.visits {
		if slices.ContainsFunc(targets, func(target string) bool {
			prefix, all := strings.CutSuffix(target, "*")
			return v.Target == target || all && strings.HasPrefix(v.Target, prefix)
		}) {
			visits = append(visits, v)
		}
	}
	return visits
}

// MostInFlight returns how many requests were waiting for their answer at the same
// time, at most.
func (s *Site) MostInFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mostInFlight
}
