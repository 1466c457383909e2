// Package localsite is the web site on loopback that the tests of the command crawl, and the
// example programs unless they are given another one. It keeps a record of its own, which knows
// nothing of the crawler's: a test can hold what the crawler says of itself against what the server
// saw, and the site finds by itself what was impolite.
package localsite

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Paths are what the index at "/" links to.
var Paths = []string{
	"/a", "/b", "/c", "/d",
	"/private/diary", // disallowed
	"/moved",         // redirects to /e
	"/trap",          // redirects to /private/diary
	"/busy",          // answers 429 with Retry-After: 1 to the first request
}

// Serve starts a server on a free port of 127.0.0.1. Close it. Package virtual of the examples puts
// a server in memory here.
var Serve = httptest.NewServer

// A Site is a running site. Whatever is neither in Paths nor handled otherwise is a page with a
// link to the index.
type Site struct {
	URL         string // without a final slash
	Certificate string // file with the certificate that a client of an https site has to trust

	server     *httptest.Server
	mux        *http.ServeMux
	crawlDelay time.Duration

	mu           sync.Mutex
	visits       []Visit
	asked        time.Time // when a client was asked to stay away
	blocked      time.Time // until when
	intoBlock    int
	inFlight     int
	mostInFlight int
}

// A Visit is one request as the server saw it.
type Visit struct {
	Time   time.Time // when it arrived
	Method string
	Host   string
	Target string // path and query, as sent
	Header http.Header
}

// Start starts a site. Close it.
func Start() *Site { return newSite(0).start(Serve) }

// New starts a site for a test, whose robots.txt asks for crawlDelay if that isn't 0.
func New(t testing.TB, crawlDelay time.Duration) *Site {
	s := newSite(crawlDelay).start(Serve)
	t.Cleanup(s.Close)
	return s
}

// NewTLS starts a site on https for a test.
func NewTLS(t testing.TB, crawlDelay time.Duration) *Site {
	t.Helper()
	s := newSite(crawlDelay).start(httptest.NewTLSServer)
	t.Cleanup(s.Close)
	s.Certificate = filepath.Join(t.TempDir(), "site.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	if err := os.WriteFile(s.Certificate, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// Closed returns the URL of a site on which nobody listens while the test runs. The port of a
// server that was closed is free, and another program may get it.
func Closed(t testing.TB) (url string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	// The port from which a connection comes is taken until that is closed.
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return "http://" + conn.LocalAddr().String()
}

func (s *Site) start(serve func(http.Handler) *httptest.Server) *Site {
	s.server = serve(http.HandlerFunc(s.serve))
	s.URL = s.server.URL
	return s
}

func newSite(crawlDelay time.Duration) *Site {
	s := &Site{mux: http.NewServeMux(), crawlDelay: crawlDelay}
	s.Handle("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "User-agent: *\nDisallow: /private\n")
		if crawlDelay > 0 {
			fmt.Fprintf(w, "Crawl-delay: %g\n", crawlDelay.Seconds())
		}
	})
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
			s.Block(w, time.Second)
			return
		}
		page(w, "Page /busy", "/")
	})
	return s
}

// Block answers 429 and wants to be left alone for d.
func (s *Site) Block(w http.ResponseWriter, d time.Duration) {
	s.mu.Lock()
	s.asked = time.Now()
	s.blocked = s.asked.Add(d)
	s.mu.Unlock()
	w.Header().Set("Retry-After", strconv.Itoa(int(d.Seconds())))
	http.Error(w, "not so fast", http.StatusTooManyRequests)
}

func page(w http.ResponseWriter, title string, links ...string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!doctype html><title>%s</title>\n", title)
	for _, link := range links {
		fmt.Fprintf(w, "<p><a href=%q>%s</a>\n", link, link)
	}
}

// Handle answers what matches the pattern (see http.ServeMux) by h. Call it before the crawl
// begins.
func (s *Site) Handle(pattern string, h http.HandlerFunc) { s.mux.HandleFunc(pattern, h) }

// URLs returns the URL of the index and of all Paths.
func (s *Site) URLs() []string {
	urls := []string{s.URL + "/"}
	for _, path := range Paths {
		urls = append(urls, s.URL+path)
	}
	return urls
}

// CheckVisits fails t unless one polite crawl of URLs that tries again is all that the site saw.
func (s *Site) CheckVisits(t testing.TB) {
	t.Helper()
	for target, want := range map[string]int{
		"/": 1, "/a": 1, "/b": 1, "/c": 1, "/d": 1, "/e": 1, "/moved": 1, "/trap": 1, "/robots.txt": 1,
		"/busy":     2, // 429, and once more
		"/private*": 0,
	} {
		if got := len(s.Visits(target)); got != want {
			t.Errorf("%s was asked for %d times, not %d", target, got, want)
		}
	}
	if n := s.MostInFlight(); n > 2 {
		t.Errorf("%d requests at once", n)
	}
}

// Close stops the site.
func (s *Site) Close() { s.server.Close() }

// serve counts a request as in flight until its handler has returned. Its client can't know of the
// end before: what a handler writes is sent when it returns, unless that is long or flushed.
func (s *Site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	now := time.Now()
	s.visits = append(s.visits, Visit{now, r.Method, r.Host, r.RequestURI, r.Header.Clone()})
	if now.Before(s.blocked) && now.Sub(s.asked) > s.blocked.Sub(s.asked)/2 { // before that its client may not know
		s.intoBlock++
	}
	s.inFlight++
	s.mostInFlight = max(s.mostInFlight, s.inFlight)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inFlight--
	}()
	s.mux.ServeHTTP(w, r)
}

// Visits returns all requests so far, in the order of their arrival: those to the given targets,
// all if none is given. A target that ends in "*" stands for all targets that begin with what is
// before it.
func (s *Site) Visits(targets ...string) []Visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(targets) == 0 {
		return slices.Clone(s.visits)
	}
	var visits []Visit
	for _, v := range s.visits {
		if slices.ContainsFunc(targets, v.isTo) {
			visits = append(visits, v)
		}
	}
	return visits
}

// isTo reports whether v is to a target, which may end in "*".
func (v Visit) isTo(target string) bool {
	if prefix, all := strings.CutSuffix(target, "*"); all {
		return strings.HasPrefix(v.Target, prefix)
	}
	return v.Target == target
}

// MostInFlight returns how many requests were in flight at the same time, at most.
func (s *Site) MostInFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mostInFlight
}

// Violations returns the violations of the site's wishes: disallowed pages, requests closer than
// crawl-delay, requests while the client was to stay away, more than two at once. A request arrives
// later than it was sent, and a busy machine reads an answer late. So only a gap of less than half
// the crawl-delay counts, and a request in the second half of the time in which the client was to
// stay away.
func (s *Site) Violations() (found []string) {
	visits := s.Visits()
	for i, v := range visits {
		if strings.HasPrefix(v.Target, "/private") {
			found = append(found, "disallowed: "+v.Target)
		}
		if i < 2 {
			continue // the first request is for robots.txt: the delay is known only from then on
		}
		before := visits[i-1]
		gap := v.Time.Sub(before.Time)
		if gap < s.crawlDelay/2 {
			found = append(found, fmt.Sprintf("%s came %v after %s", v.Target, gap, before.Target))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.intoBlock > 0 {
		found = append(found, fmt.Sprintf("%d requests into a block", s.intoBlock))
	}
	if s.mostInFlight > 2 {
		found = append(found, fmt.Sprintf("%d requests at once", s.mostInFlight))
	}
	return found
}
