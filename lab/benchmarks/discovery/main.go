// Command discovery compares the pages that package crawl and wget find on the same site: a
// directory of HTML files, served on this machine. It needs wget.
//
//	go run ./discovery -dir /usr/share/doc/python3-doc/html
//
// A page is a response with status 200 and type text/html. The server states no charset, so each
// page must name its own.
//
// On Debian 12, both found the same pages in the documentation of Python (526), PostgreSQL (1,169)
// and Apache (2,657), and in the Debian handbook (127). In BIND's documentation package crawl found
// 16 of 18 pages. The other two are named only by link rel="index" and rel="search".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
)

// A site serves a directory, and notes which pages each crawler is sent.
type site struct {
	files http.Handler

	mu    sync.Mutex
	sent  map[string]map[string]bool // paths by product of the User-Agent
	asked map[string]int             // requests by product of the User-Agent
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	product, _, _ := strings.Cut(r.UserAgent(), "/")
	s.mu.Lock()
	s.asked[product]++
	s.mu.Unlock()
	s.files.ServeHTTP(&watcher{ResponseWriter: w, wrote: func() {
		switch path.Ext(r.URL.Path) {
		case ".html", ".htm", ".xhtml":
		default:
			if !strings.HasSuffix(r.URL.Path, "/") {
				return
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.sent[product] == nil {
			s.sent[product] = make(map[string]bool)
		}
		s.sent[product][r.URL.Path] = true
	}}, r)
}

// A watcher calls wrote for a page, and takes the charset out of its type.
type watcher struct {
	http.ResponseWriter
	wrote func()
}

func (w *watcher) WriteHeader(status int) {
	kind := w.Header().Get("Content-Type")
	if status == http.StatusOK && strings.HasPrefix(kind, "text/html") {
		w.Header().Set("Content-Type", "text/html")
		w.wrote()
	}
	w.ResponseWriter.WriteHeader(status)
}

func main() {
	dir := flag.String("dir", "", "directory of the HTML files")
	start := flag.String("start", "/", "path of the first page")
	flag.Parse()
	if err := compare(context.Background(), os.Stdout, *dir, *start); err != nil {
		fmt.Fprintln(os.Stderr, "discovery:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, out io.Writer, dir, start string) error {
	if dir == "" {
		return errors.New("-dir is required")
	}
	s := &site{
		files: http.FileServer(http.Dir(dir)),
		sent:  make(map[string]map[string]bool),
		asked: make(map[string]int),
	}
	server := httptest.NewServer(s)
	defer server.Close()
	if err := byCrawl(ctx, out, server.URL+start); err != nil {
		return err
	}
	if err := byWget(ctx, out, server.URL+start); err != nil {
		return err
	}
	ours := s.sent["DiscoveryBench"]
	theirs := s.sent["Wget"]
	fmt.Fprintf(out, "crawl found %d pages with %d requests, wget %d with %d\n",
		len(ours), s.asked["DiscoveryBench"], len(theirs), s.asked["Wget"])
	missing(out, ours, theirs, "only wget")
	missing(out, theirs, ours, "only crawl")
	return nil
}

// missing prints the paths of which that have lacks.
func missing(out io.Writer, have, which map[string]bool, who string) {
	for _, page := range slices.Sorted(maps.Keys(which)) {
		if !have[page] {
			fmt.Fprintf(out, "%s: %s\n", who, page)
		}
	}
}

func byCrawl(ctx context.Context, out io.Writer, url string) error {
	transport, err := politeness.New(politeness.Config{
		UserAgent: "DiscoveryBench/1.0 (+https://example.com/bot)",
		Hosts:     hostlimit.Config{Concurrency: 8, Delay: hostlimit.Delay{DangerouslyNone: true}},
	})
	if err != nil {
		return err
	}
	c, err := crawl.New(crawl.Config{
		Transport: transport, Follow: crawl.SameHost,
		Visit: func(context.Context, *crawl.Page) error { return nil },
	})
	if err != nil {
		return err
	}
	summary, err := c.Run(ctx, url)
	fmt.Fprintln(out, "crawl:", summary)
	return err
}

func byWget(ctx context.Context, out io.Writer, url string) error {
	room, err := os.MkdirTemp("", "discovery")
	if err != nil {
		return err
	}
	defer os.RemoveAll(room)
	began := time.Now()
	cmd := exec.CommandContext(ctx, "wget", "--quiet", "--recursive", "--level=inf", "--no-parent",
		"--delete-after", "--directory-prefix="+room, url)
	err = cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) { // some links lead to nothing
		err = nil
	}
	fmt.Fprintf(out, "wget: %v in %v\n", cmd.ProcessState, time.Since(began).Round(100*time.Millisecond))
	return err
}
