package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/go-politeness/politeness/internal/localsite"
)

const siteRobots = `User-agent: *
Disallow: /

User-agent: QuickstartBot
Allow: /
Disallow: /private
Allow: /private/press
Crawl-delay: 1

Sitemap: https://example.com/sitemap.xml
`

// sitePaths are the paths that the example fetches, in this order.
var sitePaths = []string{
	"/",              // allowed
	"/private/diary", // disallowed
	"/private/press", // allowed by a longer rule
	"/old",           // redirects to /new
	"/trap",          // redirects to /private/diary: refused at the hop
	"/busy",          // answers 429 with Retry-After: 3, and so holds every request to the host
	"/about",
	"/contact",
}

type site struct {
	*httptest.Server
	robots string
}

// startSite serves a small site on loopback.
func startSite() *site {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /robots.txt", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, siteRobots) })
	mux.Handle("GET /old", http.RedirectHandler("/new", http.StatusMovedPermanently))
	mux.Handle("GET /trap", http.RedirectHandler("/private/diary", http.StatusFound))
	var asked atomic.Int64
	mux.HandleFunc("GET /busy", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.Header().Set("Retry-After", "3")
			http.Error(w, "not so fast", http.StatusTooManyRequests)
			return
		}
		fmt.Fprintln(w, "<h1>Here we are</h1>")
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<title>%s</title><p>A page.</p>\n", r.URL.Path)
	})
	return &site{localsite.Serve(mux), siteRobots}
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}
