package sqlitequeue_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sqlitequeue"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/revisit"
)

// The environment of a crawler, which is a process of its own.
const (
	envDir   = "SQLITEQUEUE_DIR"
	envURLs  = "SQLITEQUEUE_URLS"
	envAgain = "SQLITEQUEUE_AGAIN" // pages are asked for again after an hour
)

// killDelay is the delay of a crawler between two requests to a host.
const killDelay = 10 * time.Millisecond

func TestMain(m *testing.M) {
	if os.Getenv(envDir) == "" {
		os.Exit(m.Run())
	}
	if err := crawler(context.Background(), os.Getenv(envDir), strings.Fields(os.Getenv(envURLs))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// crawler writes a row for each page.
func crawler(ctx context.Context, dir string, urls []string) (err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(dir)+"/rows.db?_pragma=journal_mode(wal)&_pragma=synchronous(normal)&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1) // on a busy machine several would keep each other out for longer than busy_timeout
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS page (url TEXT PRIMARY KEY, data TEXT NOT NULL)"); err != nil {
		return err
	}
	q, err := sqlitequeue.Open(filepath.Join(dir, "urls.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	t, err := politeness.New(politeness.Config{
		UserAgent: "KillTest/1.0 (+https://example.com/bot; bot@example.com)",
		Hosts:     hostlimit.Config{Delay: hostlimit.Delay{Min: killDelay, Max: killDelay}},
	})
	if err != nil {
		return err
	}
	var schedule revisit.Schedule
	if os.Getenv(envAgain) != "" {
		schedule.Min = time.Hour
	}
	c, err := crawl.New(crawl.Config{
		Revisit:   schedule,
		Transport: t, Queue: q, Follow: crawl.SameHost,
		Take: func(p *crawl.Page, l crawl.Link, r *crawl.Request) bool {
			r.Data = p.Data + " > " + l.URL
			return true
		},
		Prepare: func(r crawl.Request, req *http.Request) error {
			req.Header.Set("Referer", r.From)
			return nil
		},
		Visit: func(ctx context.Context, p *crawl.Page) error {
			_, err := db.ExecContext(ctx, "INSERT OR REPLACE INTO page (url, data) VALUES (?, ?)", p.FinalURL, p.Data)
			return err
		},
	})
	if err != nil {
		return err
	}
	summary, err := c.Run(ctx, urls...)
	fmt.Println(summary)
	if err == nil && summary.Outcomes[crawl.Left] > 0 {
		err = errors.New("URLs were left")
	}
	return err
}

// A tree is a site whose page n leads to 2n and 2n+1. It remembers what it was asked for.
type tree struct {
	*httptest.Server
	pages int

	mu       sync.Mutex
	conns    int // open connections
	asked    map[string]int
	wrong    []string        // what was wrong with requests
	first    chan struct{}   // closed at the next request
	begun    map[string]bool // paths that were asked for since the last kill
	answered map[string]bool // those of begun that were answered
	done     map[string]bool // paths that the file had as done at the last kill
}

func newTree(t *testing.T, pages int) *tree {
	s := &tree{pages: pages, asked: make(map[string]int)}
	s.kill(nil)
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ConnState = s.count
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// count counts the open connections.
func (s *tree) count(_ net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.conns++
	case http.StateClosed, http.StateHijacked:
		s.conns--
	case http.StateActive, http.StateIdle:
	}
}

// settle waits until all is served that a dead process has sent. A busy machine would take it for
// requests of the next process.
func (s *tree) settle(t *testing.T) {
	t.Helper()
	// Connections are accepted in their order, so those of before are counted when this one has an answer.
	last := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := last.Get(s.URL + "/none")
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	open := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.conns
	}
	for end := time.Now().Add(time.Minute); open() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("a dead process has %d connections", open())
		}
	}
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

func (s *tree) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var n int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil || n > s.pages {
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	isProof := r.Header.Get("Cache-Control") == "no-cache" // that the host serves: it is no page of the Queue
	if !isProof {
		s.note(r, n)
	}
	if s.first != nil {
		close(s.first)
		s.first = nil
	}
	s.mu.Unlock()
	time.Sleep(5 * time.Millisecond)
	w.Header().Set("Content-Type", "text/html")
	for _, child := range []int{2 * n, 2*n + 1} {
		if child <= s.pages {
			fmt.Fprintf(w, `<a href="/%d">next</a><a href="/1">first</a>`, child)
		}
	}
	_ = http.NewResponseController(w).Flush()
	s.mu.Lock()
	s.answered[r.URL.Path] = r.Context().Err() == nil // else the process is dead
	s.mu.Unlock()
}

// note notes a request for page n. It is wrong to ask for what was done at the last kill, and to ask
// twice between two kills.
func (s *tree) note(r *http.Request, n int) {
	path := r.URL.Path
	s.asked[path]++
	parent := s.url(n / 2)
	switch {
	case n > 1 && r.Referer() != parent:
		s.wrong = append(s.wrong, fmt.Sprintf("%s from %q, want %q", path, r.Referer(), parent))
	case s.done[path]:
		s.wrong = append(s.wrong, path+" was done at the last kill, and is asked for again")
	case s.begun[path]:
		s.wrong = append(s.wrong, path+" is asked for twice by one process")
	}
	s.begun[path] = true
}

// kill notes that the process was killed whose file had these URLs as done. It returns the numbers of
// pages that were in flight then, and of those that were answered and not yet done.
func (s *tree) kill(done map[string]bool) (inFlight, undone int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range s.begun {
		switch {
		case !s.answered[path]:
			inFlight++
		case !done[s.URL+path]:
			undone++
		}
	}
	s.begun = make(map[string]bool)
	s.answered = make(map[string]bool)
	s.done = make(map[string]bool)
	for url := range done {
		if path, ok := strings.CutPrefix(url, s.URL); ok {
			s.done[path] = true
		}
	}
	return inFlight, undone
}

// doneIn returns the URLs that the file of a Queue has as done.
func doneIn(t *testing.T, path string) map[string]bool {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	done := make(map[string]bool)
	rows, err := db.QueryContext(t.Context(), "SELECT url FROM url WHERE outcome IS NOT NULL")
	if err != nil {
		return done // the process was killed before it had made the tables
	}
	defer rows.Close()
	for rows.Next() {
		var url string
		if err := rows.Scan(&url); err != nil {
			t.Fatal(err)
		}
		done[url] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return done
}

// TestAKillLosesNoPage: of a crawl that is killed again and again (a hundred times with
// POLITENESS_LONG=1, and ten without) there are as many rows as pages in the end. No page is asked for
// that the file had as done at the last kill, and none twice between two kills. So what was asked for
// twice was under way at a kill. Each page has the Data and the From with which it was found. Where
// pages are asked for again, none is within the hour for which it isn't due.
func TestAKillLosesNoPage(t *testing.T) {
	t.Run("pages that are asked for once", func(t *testing.T) { killLosesNoPage(t, "") })
	t.Run("pages that are asked for again", func(t *testing.T) { killLosesNoPage(t, envAgain+"=1") })
}

func killLosesNoPage(t *testing.T, env string) {
	t.Helper()
	kills, hosts, pages := 10, 8, 60
	if os.Getenv("POLITENESS_LONG") != "" {
		kills, pages = 100, 600
	}
	dir := t.TempDir()
	var sites []*tree
	var urls []string
	for range hosts {
		s := newTree(t, pages)
		sites = append(sites, s)
		urls = append(urls, s.URL+"/1")
	}
	life := func(longest time.Duration) error {
		first := make(chan struct{})
		for _, s := range sites {
			s.mu.Lock()
			s.first = nil
			s.mu.Unlock()
		}
		begun := sites[rand.IntN(len(sites))]
		begun.mu.Lock()
		begun.first = first
		begun.mu.Unlock()
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), envDir+"="+dir, envURLs+"="+strings.Join(urls, " "), env)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		if longest > 0 {
			go func() {
				select {
				case <-first:
				case <-time.After(2 * time.Second): // all pages of that site may be done
				case <-ended:
				}
				select {
				case <-time.After(rand.N(longest)):
				case <-ended:
				}
				_ = cmd.Process.Kill()
			}()
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			t.Log(lines.Text())
		}
		err = cmd.Wait()
		close(ended)
		return err
	}
	const longest = 250 * time.Millisecond // of a life, from a first request on
	killed := 0
	inFlight := 0
	undone := 0
	for range kills {
		if life(longest) != nil {
			killed++
		}
		for _, s := range sites {
			s.settle(t)
		}
		done := doneIn(t, filepath.Join(dir, "urls.db"))
		for _, s := range sites {
			flying, rest := s.kill(done)
			inFlight += flying
			undone += rest
		}
	}
	if err := life(0); err != nil {
		t.Fatal("the last crawl, which wasn't killed: ", err)
	}
	again := 0
	for _, s := range sites {
		s.settle(t)
		if len(s.asked) != pages {
			t.Errorf("%d of %d pages were asked for", len(s.asked), pages)
		}
		for _, n := range s.asked {
			again += n - 1
		}
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(dir)+"/rows.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows := 0
	for _, s := range sites {
		if len(s.wrong) > 0 {
			t.Errorf("%d wrong requests, the first: %s", len(s.wrong), s.wrong[0])
		}
		for n := 1; n <= pages; n++ {
			var data string
			err := db.QueryRowContext(t.Context(), "SELECT data FROM page WHERE url = ?", s.url(n)).Scan(&data)
			if err != nil {
				t.Errorf("%s: %v", s.url(n), err)
				continue
			}
			rows++
			if data != s.dataOf(n) {
				t.Errorf("%s has the data %q, want %q", s.url(n), data, s.dataOf(n))
			}
		}
	}
	t.Logf("%d kills: %d rows of %d pages; %d were in flight at a kill, %d answered and not done; %d were asked for again",
		killed, rows, hosts*pages, inFlight, undone, again)
	if rows != hosts*pages {
		t.Errorf("%d rows of %d pages", rows, hosts*pages)
	}
	// The quicker the machine is, the more is answered in a life and not yet done.
	mostOfHost := int(longest/killDelay) + 2
	if again > killed*hosts*mostOfHost {
		t.Errorf("%d pages were asked for again, after %d kills", again, killed)
	}
	if killed < kills/2 {
		t.Errorf("%d of %d crawls were killed", killed, kills)
	}
}

// TestOneProcessAtATime: a second one is refused, until the first one is closed or killed.
func TestOneProcessAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "urls.db")
	q, err := sqlitequeue.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlitequeue.Open(path); err == nil || !strings.Contains(err.Error(), "another process has the file open") {
		t.Errorf("a file that is open was opened again: %v", err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if q, err = sqlitequeue.Open(path); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOtherFilesAreRefused: and left as they are.
func TestOtherFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(dir)+"/other.db")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE url (x)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte(strings.Repeat("some notes\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"other.db": "another program", "text": "not a database", "no/such/dir": "no such file"} {
		_, err := sqlitequeue.Open(filepath.Join(dir, name))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestClear: a crawl begins anew.
func TestClear(t *testing.T) {
	q, err := sqlitequeue.Open(filepath.Join(t.TempDir(), "urls.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	req := crawl.Request{URL: "https://example.com/", Host: "example.com"}
	for range 2 {
		if added, _, err := q.Add(t.Context(), []crawl.Request{req}); err != nil || added != 1 {
			t.Fatalf("%d URLs added (%v)", added, err)
		}
		if n, err := q.Waiting(t.Context()); err != nil || n != 1 {
			t.Errorf("%d URLs are waiting (%v)", n, err)
		}
		if got, err := q.Take(t.Context(), []string{"example.com"}, 1); err != nil || len(got) != 1 {
			t.Errorf("taken: %v (%v)", got, err)
		}
		if err := q.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
