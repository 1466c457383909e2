package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
)

// The environment of a crawler, which is a process of its own.
const (
	envDatabase = "PGQUEUE_DATABASE"
	envURLs     = "PGQUEUE_URLS"
)

// crawler writes a row for each page.
func crawler(ctx context.Context, database string, urls []string) (err error) {
	db, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer db.Close()
	q, err := open(ctx, database, "killed", time.Second)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	t, err := politeness.New(politeness.Config{
		UserAgent: "KillTest/1.0 (+https://example.com/bot; bot@example.com)",
		Hosts:     hostlimit.Config{Delay: hostlimit.Delay{Min: 10 * time.Millisecond, Max: 10 * time.Millisecond}},
	})
	if err != nil {
		return err
	}
	c, err := crawl.New(crawl.Config{
		Transport: t,
		Queue:     q,
		Follow:    crawl.SameHost,
		Take: func(p *crawl.Page, l crawl.Link, r *crawl.Request) bool {
			r.Data = p.Data + " > " + l.URL
			return true
		},
		Prepare: func(r crawl.Request, req *http.Request) error {
			req.Header.Set("Referer", r.From)
			return nil
		},
		Visit: func(ctx context.Context, p *crawl.Page) error {
			_, err := db.Exec(ctx, `
				INSERT INTO page (url, data) VALUES ($1, $2)
				ON CONFLICT (url) DO UPDATE SET data = $2`, p.FinalURL, p.Data)
			return err
		},
	})
	if err != nil {
		return err
	}
	summary, err := c.Run(ctx, urls...)
	if err == nil && summary.Outcomes[crawl.Left] > 0 {
		err = fmt.Errorf("URLs were left: %v", summary)
	}
	return err
}

// A tree is a site whose page n leads to 2n and 2n+1.
type tree struct {
	*httptest.Server
	pages int

	mu    sync.Mutex
	asked map[int]int
	done  map[string]bool // URLs that were done at the last kill
	wrong []string        // what was wrong with requests
}

func newTree(t *testing.T, pages int) *tree {
	t.Helper()
	s := &tree{pages: pages, asked: make(map[int]int)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// url returns the URL of a page.
func (s *tree) url(n int) string { return fmt.Sprintf("%s/%d", s.URL, n) }

// dataOf returns the Data with which a page is found: its parent's and its own URL.
func (s *tree) dataOf(n int) string {
	if n <= 1 {
		return ""
	}
	return s.dataOf(n/2) + " > " + s.url(n)
}

// number returns how many pages were asked for.
func (s *tree) number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func (s *tree) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var n int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil || n > s.pages {
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	s.asked[n]++
	parent := s.url(n / 2)
	isProof := r.Header.Get("Cache-Control") == "no-cache" // that the host serves: it is no page of the Queue
	switch {
	case isProof:
	case n > 1 && r.Referer() != parent:
		s.wrong = append(s.wrong, fmt.Sprintf("%s from %q, want %q", r.URL, r.Referer(), parent))
	case s.done[s.url(n)]:
		s.wrong = append(s.wrong, r.URL.Path+" was done at the last kill, and is asked for again")
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/html")
	for _, child := range []int{2 * n, 2*n + 1} {
		if child <= s.pages {
			fmt.Fprintf(w, `<a href="/%d">next</a><a href="/1">first</a>`, child)
		}
	}
}

// TestAKillLosesNoPage: a process that is killed with SIGKILL, again and again, loses no page, and
// each page has the Data and the From with which it was found. No page is asked for that was done at
// the last kill.
func TestAKillLosesNoPage(t *testing.T) {
	const (
		kills = 4
		hosts = 4
		pages = 40
	)
	database, conn := ownTables(t, "killed")
	exec(t.Context(), t, conn, "CREATE TABLE page (url text PRIMARY KEY, data text NOT NULL)")
	var sites []*tree
	var urls []string
	for range hosts {
		s := newTree(t, pages)
		sites = append(sites, s)
		urls = append(urls, s.url(1))
	}
	start := func() *osexec.Cmd {
		cmd := osexec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), envDatabase+"="+database, envURLs+"="+strings.Join(urls, " "))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	asked := func() (n int) {
		for _, s := range sites {
			n += s.number()
		}
		return n
	}
	// What a dead process had sent to the server may be done a moment later, and isn't seen here then.
	noteDone := func() (n int) {
		done := make(map[string]bool)
		rows, err := conn.Query(t.Context(), "SELECT url FROM politeness_url WHERE outcome IS NOT NULL")
		if err != nil {
			t.Fatal(err)
		}
		urls, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		for _, url := range urls {
			done[url] = true
		}
		for _, s := range sites {
			s.mu.Lock()
			s.done = done
			s.mu.Unlock()
		}
		return len(done)
	}
	killed := 0
	done := 0
	for range kills {
		before := asked()
		cmd := start()
		began := time.Now()
		for asked() == before && time.Since(began) < 30*time.Second {
			time.Sleep(5 * time.Millisecond) // until it is at work again
		}
		time.Sleep(rand.N(100 * time.Millisecond))
		_ = cmd.Process.Kill()
		if cmd.Wait() != nil {
			killed++
		}
		done = noteDone()
	}
	if err := start().Wait(); err != nil {
		t.Fatal("the last process, which wasn't killed: ", err)
	}
	for _, s := range sites {
		if len(s.wrong) > 0 {
			t.Errorf("%d wrong requests, the first: %s", len(s.wrong), s.wrong[0])
		}
		for n := 1; n <= pages; n++ {
			var data string
			if err := conn.QueryRow(t.Context(), "SELECT data FROM page WHERE url = $1", s.url(n)).Scan(&data); err != nil {
				t.Errorf("%s: %v", s.url(n), err)
			}
			if data != s.dataOf(n) {
				t.Errorf("%s has the data %q, want %q", s.url(n), data, s.dataOf(n))
			}
		}
	}
	t.Logf("%d kills, %d pages done at the last one", killed, done)
	if killed == 0 {
		t.Error("no process was killed")
	}
}
