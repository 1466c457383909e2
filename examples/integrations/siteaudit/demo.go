package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-politeness/politeness/internal/localsite"
)

// A demoRobots is the robots.txt of a demo site.
type demoRobots string

// The robots.txt of the demo sites: %s is the site's origin.
const (
	// fallBack names no crawler, so the group of * applies.
	fallBack demoRobots = "User-agent: *\nDisallow: /admin\nDisallow: /api\n\nSitemap: %s/sitemap.xml\n"
	// ownGroup names the audit, so its group applies, and nothing of *.
	ownGroup demoRobots = "User-agent: *\nDisallow: /\n\n" +
		"User-agent: SiteAudit\nDisallow: /admin\nDisallow: /api\nCrawl-delay: 0.4\n\n" +
		"Sitemap: %s/sitemap.xml\n"
	// broken answers 503.
	broken demoRobots = ""
)

// demoPaths are the pages of a demo site, in the order of its sitemap.
var demoPaths = []string{"/", "/page", "/admin", "/api/users"}

// startDemo serves a site on loopback until it is closed.
func startDemo(robots demoRobots) *httptest.Server {
	mux := http.NewServeMux()
	server := localsite.Serve(mux)
	mux.HandleFunc("GET /robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		if robots == broken {
			http.Error(w, "out of order", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, string(robots), server.URL)
	})
	mux.HandleFunc("GET /sitemap.xml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprintln(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
		for _, path := range demoPaths {
			fmt.Fprintf(w, "<url><loc>%s%s</loc></url>\n", server.URL, path)
		}
		fmt.Fprintln(w, "</urlset>")
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			time.Sleep(800 * time.Millisecond) // long enough for a second slot to be taken
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<title>%s</title><p>A page.</p>\n", r.URL.Path)
	})
	return server
}
