package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// A web is the sites of the example. Page n of a site leads to its pages 2n and 2n+1, and the first
// pages lead to other sites in the same way.
type web struct {
	sites []*httptest.Server
	pages int

	mu  sync.Mutex
	log []entry
}

// connKey is that of a request's connection in its context.
type connKey struct{}

// An entry is one request, as the site saw it.
type entry struct {
	at      time.Time // when it arrived
	site    int
	path    string
	process string // that sent it; empty for robots.txt
}

func startWeb(sites, pages int) *web {
	w := &web{pages: pages}
	for i := range sites {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.serve(rw, r, i)
		}))
		s.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		}
		w.sites = append(w.sites, s)
	}
	for _, s := range w.sites { // none answers before all have an address
		s.Start()
	}
	return w
}

func (w *web) close() {
	for _, s := range w.sites {
		s.CloseClientConnections() // those of a stopped process would stay
		s.Close()
	}
}

func (w *web) serve(rw http.ResponseWriter, r *http.Request, site int) {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	at := arrival(conn)
	w.mu.Lock()
	w.log = append(w.log, entry{at, site, r.URL.Path, r.Header.Get(header)})
	w.mu.Unlock()
	var n int
	_, err := fmt.Sscanf(r.URL.Path, "/%d", &n)
	switch {
	case r.URL.Path == "/robots.txt":
		fmt.Fprintln(rw, "User-agent: *\nDisallow: /private/")
		return
	case err != nil || n < 1 || n > w.pages:
		http.NotFound(rw, r)
		return
	}
	time.Sleep(30 * time.Millisecond)
	rw.Header().Set("Content-Type", "text/html")
	// Pages that differ only in numbers count as equal, and many equal pages look like a ban.
	fmt.Fprintf(rw, "<title>page %c%c of site %d</title>", 'a'+n/26, 'a'+n%26, site)
	for _, next := range []int{2 * n, 2*n + 1} {
		if next <= w.pages {
			fmt.Fprintf(rw, `<a href="/%d">page</a> `, next)
		}
	}
	for _, next := range []int{2*site + 1, 2*site + 2} {
		if n == 1 && next < len(w.sites) {
			fmt.Fprintf(rw, `<a href="%s/1">site</a> `, w.sites[next].URL)
		}
	}
}

// requests returns the log so far, in the order of arrival.
func (w *web) requests() []entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.log, func(a, b entry) int { return a.at.Compare(b.at) })
	return slices.Clone(w.log)
}

// isPage reports whether a request was for a page, and not for robots.txt.
func (e entry) isPage() bool { return !strings.HasSuffix(e.path, "robots.txt") }
