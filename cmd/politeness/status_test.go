package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
)

// TestCrawlServesItsStatus: the page of -status has the numbers of the crawl while it runs.
func TestCrawlServesItsStatus(t *testing.T) {
	asked := make(chan struct{})
	release := make(chan struct{})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			w.WriteHeader(http.StatusNotFound)
		case "/held":
			close(asked)
			<-release
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<a href="/held">1</a><a href="/after">2</a>`)
		}
	}))
	defer site.Close()
	cmd := prepare(t, nil, "crawl", "-private", "-agent", agent, "-delay", "1ms", "-per-host", "1", "-status", "localhost:0", site.URL)
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(errs)
	page := ""
	for page == "" && lines.Scan() {
		_, page, _ = strings.Cut(lines.Text(), "status page: ")
	}
	<-asked
	// The crawl reports each second, on a busy machine the first time before it has a page.
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		crawls := statusOf(t, page).Crawls
		if len(crawls) == 1 && crawls[0].Visited == 1 && crawls[0].Left == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", crawls)
		}
	}
	close(release)
	for lines.Scan() { // until it ends
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get(page); err == nil {
		t.Error("the page outlives the crawl")
	}
}

// statusOf returns what a status page says.
func statusOf(t *testing.T, page string) (status politeness.Status) {
	t.Helper()
	resp, err := http.Get(page + "?format=json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	return status
}

// TestStatusIsForThisMachine: nothing is fetched if the page can't be served where it should.
func TestStatusIsForThisMachine(t *testing.T) {
	for addr, want := range map[string]string{
		"0.0.0.0:6060": "no loopback address", ":6060": "no loopback address", "192.0.2.1:80": "no loopback address",
		"localhost": "give a host and a port", "localhost:x": "give a host and a port",
	} {
		out := filepath.Join(t.TempDir(), "out")
		polite(t, nil, "crawl", "-agent", agent, "-status", addr, "-o", out, "http://127.0.0.1:1/").expect(t, 2, "", want)
		if _, err := os.Stat(out); err == nil {
			t.Errorf("-status %s: the crawl has begun", addr)
		}
	}
}
