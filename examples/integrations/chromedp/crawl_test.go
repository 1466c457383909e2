package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/localsite"
)

// startScripted serves a site whose links are made by scripts.
func startScripted() *localsite.Site {
	s := localsite.Start()
	html := func(path, body string) {
		s.Handle(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, body)
		})
	}
	html("GET /{$}", `<!doctype html><title>Home</title><link rel=stylesheet href=/style.css><body><script>
for (const path of ["/list", "/old", "/private/diary", "/away", "/gone", "/file"]) {
	const a = document.createElement("a")
	a.href = path
	document.body.append(a)
}
</script><iframe src=/frame></iframe>`)
	html("GET /list", `<!doctype html><title>List</title><body><script>
fetch("/api/items").then(r => r.text()).then(t => {
	const a = document.createElement("a")
	a.href = "/item/" + t.trim()
	document.body.append(a)
})
</script>`)
	html("GET /item/{n}", `<!doctype html><title>Item</title><body>done`)
	html("GET /frame", `<!doctype html><title>Frame</title><body>framed`)
	html("GET /away", `<!doctype html><title>Away</title><body><script>location = "/target"</script>`)
	html("GET /target", `<!doctype html><title>Target</title><body>reached`)
	s.Handle("GET /style.css", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/css") })
	s.Handle("GET /gone", http.NotFound)
	s.Handle("GET /api/items", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, 42) })
	s.Handle("GET /old", http.RedirectHandler("/trapped", http.StatusFound).ServeHTTP)
	s.Handle("GET /trapped", http.RedirectHandler("/private/secret", http.StatusFound).ServeHTTP)
	s.Handle("GET /file", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, "plain")
	})
	return s
}

// Links that scripts make are followed; what isn't a page has its outcome; every file takes its turn.
func TestCrawlScripts(t *testing.T) {
	t.Parallel()
	s := startScripted()
	defer s.Close()
	var log bytes.Buffer
	proof := evidence.JSONLines(&log)
	transport, err := politeness.New(politeness.Config{UserAgent: userAgent, Evidence: proof})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	visited := make(map[string]string) // bodies by path
	visit := func(p *crawl.Page) {
		mu.Lock()
		defer mu.Unlock()
		visited[strings.TrimPrefix(p.FinalURL, s.URL)] = fmt.Sprint(p.Response.StatusCode, " ", string(p.Body))
	}
	outcomes := make(map[string]crawl.Outcome)
	done := func(r crawl.Result) { outcomes[strings.TrimPrefix(r.URL, s.URL)] = r.Outcome }
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	summary, err := crawlSites(ctx, transport, visit, done, s.URL+"/")
	t.Log(summary)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]crawl.Outcome{
		"/": crawl.Visited, "/list": crawl.Visited, "/item/42": crawl.Visited, "/frame": crawl.Visited,
		"/away": crawl.Visited, "/target": crawl.Visited, "/file": crawl.Visited, "/gone": crawl.Visited,
		"/old": crawl.Redirected, "/trapped": crawl.Redirected,
		"/private/diary": crawl.Disallowed, "/private/secret": crawl.Disallowed,
	} {
		if outcomes[path] != want {
			t.Errorf("%s is %q, not %q", path, outcomes[path], want)
		}
	}
	for path, want := range map[string]string{
		"/item/42": "done", "/target": "reached", "/gone": "404 page not found", "/file": "200 plain",
	} {
		if !strings.Contains(visited[path], want) {
			t.Errorf("%s was visited as %q, without %q", path, visited[path], want)
		}
	}
	for target, want := range map[string]int{
		"/robots.txt": 1, "/": 1, "/style.css": 1, "/api/items": 1, "/item/42": 1, "/target": 1, "/private*": 0,
	} {
		if got := len(s.Visits(target)); got != want {
			t.Errorf("%s was asked for %d times, not %d", target, got, want)
		}
	}
	if err := proof.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := audit.Check(&log) // gaps between the starts, of files as well
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() {
		t.Error(report)
	}
	if logged, seen := report.Records[evidence.Started], len(s.Visits()); logged != seen {
		t.Errorf("the log knows of %d requests, the site of %d", logged, seen)
	}
	if n := s.MostInFlight(); n > 2 {
		t.Errorf("%d requests at once", n)
	}
}
