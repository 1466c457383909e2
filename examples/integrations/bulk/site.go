package main

import (
	"compress/gzip"
	"fmt"
	"io"
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
	first := http.NewServeMux()
	second := http.NewServeMux()
	s.first = httptest.NewServer(first)
	s.second = httptest.NewServer(second)
	s.serveSitemaps(first)
	s.servePages(first)

	// The second has no robots.txt, and its sitemap is at a usual place.
	second.HandleFunc("GET /sitemap_index.xml", func(w http.ResponseWriter, _ *http.Request) {
		writeSitemap(w, s.second.URL+"/", s.second.URL+"/about", s.first.URL+"/page/1")
	})
	second.HandleFunc("GET /{$}", htmlPage(`<a href="about">about</a>`))
	second.HandleFunc("GET /about", htmlPage(`<a href="/">home</a>`))
	return s
}

func writeSitemap(w io.Writer, urls ...string) {
	fmt.Fprint(w, "<urlset>")
	for _, url := range urls {
		fmt.Fprintf(w, "<url><loc>%s</loc></url>", url)
	}
	fmt.Fprint(w, "</urlset>")
}

// serveSitemaps adds the robots.txt of the first site, and the index of two sitemaps that it names.
func (s *sites) serveSitemaps(mux *http.ServeMux) {
	mux.HandleFunc("GET /robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "User-agent: *\nDisallow: /private\n\nSitemap: %s/sitemaps.xml\n", s.first.URL)
	})
	mux.HandleFunc("GET /sitemaps.xml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<sitemapindex>")
		for _, path := range []string{"/one.xml.gz", "/two.txt"} {
			fmt.Fprintf(w, "<sitemap><loc>%s%s</loc></sitemap>", s.first.URL, path)
		}
		fmt.Fprint(w, "</sitemapindex>")
	})
	mux.HandleFunc("GET /one.xml.gz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/gzip")
		var urls []string
		for _, path := range []string{"/", "/page/1", "/page/2", "/page/3", "/private/diary", "/moved"} {
			urls = append(urls, s.first.URL+path)
		}
		z := gzip.NewWriter(w)
		writeSitemap(z, urls...)
		_ = z.Close()
	})
	mux.HandleFunc("GET /two.txt", func(w http.ResponseWriter, _ *http.Request) {
		for _, path := range []string{"/busy", "/missing", "/film", "/noindex"} {
			fmt.Fprintln(w, s.first.URL+path)
		}
	})
}

// servePages adds the pages of the first site.
func (s *sites) servePages(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", htmlPage(`<a href="/page/1">one</a> <a href="/page/2#top">two</a>
		<a rel="nofollow" href="/page/9">nine</a>
		<a href="/private/diary">diary</a> <a href="https://elsewhere.example/">elsewhere</a>`))
	for i := 1; i <= 4; i++ {
		mux.HandleFunc(fmt.Sprintf("GET /page/%d", i), s.numbered(i))
	}
	mux.HandleFunc("GET /copy", pageOf(`<link rel="canonical" href="/page/2">`, `<a href="/page/8">eight</a>`))
	mux.HandleFunc("GET /closed", htmlPage(`<meta name="robots" content="nofollow"><a href="/page/7">seven</a>`))
	mux.HandleFunc("GET /noindex", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Robots-Tag", "noindex")
		htmlPage("not for you")(w, r)
	})
	mux.Handle("GET /moved", http.RedirectHandler("/moved/again", http.StatusMovedPermanently))
	mux.Handle("GET /moved/again", http.RedirectHandler("/page/1", http.StatusFound))
	mux.HandleFunc("GET /busy", func(w http.ResponseWriter, r *http.Request) {
		wasAsked := s.busy.Swap(true)
		if !wasAsked {
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
}

// numbered is a page with the date of its last change. It answers 304 to a client that has this
// date.
func (s *sites) numbered(i int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text := fmt.Sprintf(`<a href="/page/%d">next</a> <a href="/copy">copy</a> <a href="/closed">closed</a>`, i+1)
		at := time.Date(2026, 11, i, 0, 0, 0, 0, time.UTC)
		if i == 3 && s.changed.Load() {
			text += "changed"
			at = at.AddDate(0, 0, 10)
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%d-%d"`, i, at.Unix()))
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		http.ServeContent(w, r, "", at, strings.NewReader(document("", text)))
	}
}

func htmlPage(text string) http.HandlerFunc { return pageOf("", text) }

// pageOf answers with a page of that head and text. A canonical link counts only in the head.
func pageOf(head, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, document(head, text))
	}
}

func document(head, text string) string {
	return "<!doctype html><html><head><title>A page</title>" + head + "</head><body>" + text + "</body></html>"
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
