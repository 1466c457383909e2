package main

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"
)

// sites are two small sites on loopback that have everything a crawler meets.
type sites struct {
	first, second *httptest.Server
	changed       atomic.Bool // of /page/3 of the first
	busy          atomic.Bool // /busy of the first has answered 429
}

// startSites serves them until they are closed.
func startSites() *sites {
	s := &sites{}
	// The first names an index of two sitemaps in its robots.txt.
	mux := http.NewServeMux()
	s.first = httptest.NewServer(mux)
	mux.HandleFunc("GET /robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "User-agent: *\nDisallow: /private\n\nSitemap: %s/sitemaps.xml\n", s.first.URL)
	})
	mux.HandleFunc("GET /sitemaps.xml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "<sitemapindex><sitemap><loc>%[1]s/one.xml.gz</loc></sitemap><sitemap><loc>%[1]s/two.txt</loc></sitemap></sitemapindex>", s.first.URL)
	})
	mux.HandleFunc("GET /one.xml.gz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/gzip")
		z := gzip.NewWriter(w)
		fmt.Fprint(z, "<urlset>")
		for _, path := range []string{"/", "/page/1", "/page/2", "/page/3", "/private/diary", "/moved"} {
			fmt.Fprintf(z, "<url><loc>%s%s</loc></url>", s.first.URL, path)
		}
		fmt.Fprint(z, "</urlset>")
		_ = z.Close()
	})
	mux.HandleFunc("GET /two.txt", func(w http.ResponseWriter, _ *http.Request) {
		for _, path := range []string{"/busy", "/missing", "/film", "/noindex"} {
			fmt.Fprintln(w, s.first.URL+path)
		}
	})
	mux.HandleFunc("GET /{$}", htmlPage(`<a href="/page/1">one</a> <a href="/page/2#top">two</a> <a rel="nofollow" href="/page/9">nine</a>
		<a href="/private/diary">diary</a> <a href="https://elsewhere.example/">elsewhere</a>`))
	for i := 1; i <= 4; i++ {
		mux.HandleFunc(fmt.Sprintf("GET /page/%d", i), s.numbered(i))
	}
	mux.HandleFunc("GET /copy", htmlPage(`<link rel="canonical" href="/page/2"><a href="/page/8">eight</a>`))
	mux.HandleFunc("GET /closed", htmlPage(`<meta name="robots" content="nofollow"><a href="/page/7">seven</a>`))
	mux.HandleFunc("GET /noindex", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Robots-Tag", "noindex")
		htmlPage("not for you")(w, r)
	})
	mux.Handle("GET /moved", http.RedirectHandler("/moved/again", http.StatusMovedPermanently))
	mux.Handle("GET /moved/again", http.RedirectHandler("/page/1", http.StatusFound))
	mux.HandleFunc("GET /busy", func(w http.ResponseWriter, r *http.Request) {
		if !s.busy.Swap(true) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "not so fast", http.StatusTooManyRequests)
			return
		}
		htmlPage("Here we are.")(w, r)
	})
	mux.HandleFunc("GET /film", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "video/mp4")
		fmt.Fprint(w, strings.Repeat("film", 1000))
	})

	// The second has no robots.txt, and its sitemap where many have it.
	other := http.NewServeMux()
	s.second = httptest.NewServer(other)
	other.HandleFunc("GET /sitemap_index.xml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "<urlset><url><loc>%[1]s/</loc></url><url><loc>%[1]s/about</loc></url><url><loc>%s/page/1</loc></url></urlset>", s.second.URL, s.first.URL)
	})
	other.HandleFunc("GET /{$}", htmlPage(`<a href="about">about</a>`))
	other.HandleFunc("GET /about", htmlPage(`<a href="/">home</a>`))
	return s
}

// numbered is a page that says when it changed, and answers 304 to a client that knows.
func (s *sites) numbered(i int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, at := fmt.Sprintf(`<a href="/page/%d">next</a> <a href="/copy">copy</a> <a href="/closed">closed</a>`, i+1), time.Date(2026, 11, i, 0, 0, 0, 0, time.UTC)
		if i == 3 && s.changed.Load() {
			text, at = text+"changed", at.AddDate(0, 0, 10)
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%d-%d"`, i, at.Unix()))
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		http.ServeContent(w, r, "", at, strings.NewReader(document(text)))
	}
}

func htmlPage(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, document(text))
	}
}

func document(text string) string {
	return "<!doctype html><html><head><title>A page</title></head><body>" + text + "</body></html>"
}

// Change changes a page.
func (s *sites) Change() { s.changed.Store(true) }

// URLs returns the first pages.
func (s *sites) URLs() []string { return []string{s.first.URL + "/", s.second.URL + "/"} }

// Close ends both.
func (s *sites) Close() {
	s.first.Close()
	s.second.Close()
}
