package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/politenesstest"
)

// databases are the files of the engines that this build has; tests run with each.
func databases() []string {
	files := []string{"crawl.sqlite"}
	if slices.Contains(sql.Drivers(), string(duckdb)) {
		files = append(files, "crawl.duckdb")
	}
	return files
}

// withEach runs a test with each engine.
func withEach(t *testing.T, test func(t *testing.T, settings func(args ...string) options)) {
	t.Helper()
	t.Parallel()
	for _, file := range databases() {
		t.Run(strings.TrimPrefix(filepath.Ext(file), "."), func(t *testing.T) {
			t.Parallel()
			test(t, func(args ...string) options { return settings(t, file, args...) })
		})
	}
}

// settings are the flags' defaults with a file of their own.
func settings(t *testing.T, file string, args ...string) options {
	t.Helper()
	o, err := parseFlags(append([]string{"-db", filepath.Join(t.TempDir(), file)}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// crawled makes a run and returns all rows by the path of their URL.
func crawled(t *testing.T, o options) map[string]*page {
	t.Helper()
	if err := run(t.Context(), t.Output(), t.Output(), o); err != nil {
		t.Fatal(err)
	}
	return rows(t, o)
}

func rows(t *testing.T, o options) map[string]*page {
	t.Helper()
	s, err := openStore(t.Context(), o.engine, o.db, o.into)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	urls, err := s.query(t.Context(), "SELECT url FROM "+o.into)
	if err != nil {
		t.Fatal(err)
	}
	pages := make(map[string]*page)
	for _, raw := range urls {
		p, err := s.Page(t.Context(), raw)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		pages[u.RequestURI()] = p
	}
	return pages
}

func paths(pages map[string]*page) []string {
	var all []string
	for path := range pages {
		all = append(all, path)
	}
	slices.Sort(all)
	return all
}

func TestSitemapsOfRobotsFillTheTable(t *testing.T) {
	withEach(t, func(t *testing.T, settings func(...string) options) {
		s := startSites()
		defer s.Close()
		pages := crawled(t, settings(s.first.URL))

		want := []string{"/", "/busy", "/film", "/missing", "/moved", "/noindex", "/page/1", "/page/2", "/page/3", "/private/diary"}
		if got := paths(pages); !slices.Equal(got, want) {
			t.Fatalf("rows %q, want %q", got, want)
		}
		one := pages["/page/1"]
		sum := sha256.Sum256(one.Body)
		host := strings.TrimPrefix(s.first.URL, "http://")
		if one.URL != s.first.URL+"/page/1" || one.SURT != host+")/page/1" || one.Status != 200 || !strings.Contains(string(one.Body), "next") ||
			one.ContentType != "text/html; charset=utf-8" || time.Since(one.CrawlTime) > time.Minute || one.Error != "" ||
			one.ETag == "" || one.LastModified != "Sun, 01 Nov 2026 00:00:00 GMT" || one.Hash != hex.EncodeToString(sum[:]) ||
			one.FinalURL != one.URL || one.Redirects != 0 {
			t.Errorf("row %+v", one)
		}
		if p := pages["/moved"]; p.Redirects != 2 || p.FinalURL != one.URL || p.Hash != one.Hash {
			t.Errorf("row %+v, want two redirects to /page/1", p)
		}
		if p := pages["/busy"]; p.Status != 200 || p.Error != "" {
			t.Errorf("row %+v, want the answer of the second try", p)
		}
		if p := pages["/missing"]; p.Status != 404 || p.Body != nil {
			t.Errorf("row %+v", p)
		}
		if p := pages["/noindex"]; p.Status != 200 || p.Body != nil || p.Directives != "noindex" {
			t.Errorf("row %+v, want no body", p)
		}
		for path, reason := range map[string]string{"/private/diary": "Disallow: /private", "/film": "content type not accepted: video/mp4"} {
			if p := pages[path]; p.Status != 0 || p.Body != nil || !strings.Contains(p.Error, reason) {
				t.Errorf("row %+v, want an error that says %s", p, reason)
			}
		}
	})
}

// The columns have the names that others build on, and NULL where there is nothing.
func TestColumns(t *testing.T) {
	withEach(t, func(t *testing.T, settings func(...string) options) {
		s := startSites()
		defer s.Close()
		o := settings("-mode", "direct", s.first.URL+"/page/1", s.first.URL+"/private/diary")
		crawled(t, o)
		db, err := o.engine.open(t.Context(), o.db)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, column := range []string{
			"url", "surt_key", "http_status", "body", "content_type", "crawl_time", "server_date", "error", "etag", "last_modified",
			"content_hash", "final_url", "redirect_count",
		} {
			var filled int
			if err := db.QueryRowContext(t.Context(), "SELECT count("+column+") FROM pages").Scan(&filled); err != nil {
				t.Error(err)
			}
			want := map[string]int{"url": 2, "surt_key": 2, "crawl_time": 2, "redirect_count": 2}[column]
			if want == 0 {
				want = 1
			}
			if filled != want {
				t.Errorf("%s is filled in %d rows, want %d", column, filled, want)
			}
		}
	})
}

// A recordingServer keeps the requests that it was asked.
type recordingServer struct {
	*httptest.Server
	mu    sync.Mutex
	asked []*http.Request
}

func count(t *testing.T, h http.HandlerFunc) *recordingServer {
	t.Helper()
	c := &recordingServer{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.asked = append(c.asked, r)
		c.mu.Unlock()
		h(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

// take returns the paths that were asked for since it was last called, in order.
func (c *recordingServer) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var paths []string
	for _, r := range c.asked {
		paths = append(paths, r.URL.RequestURI())
	}
	c.asked = nil
	return paths
}

func TestSecondRunAsksOnlyForWhatIsStaleAndByWhatItKnows(t *testing.T) {
	withEach(t, func(t *testing.T, settings func(...string) options) {
		var conditional []string
		version := "1"
		c := count(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				http.NotFound(w, r)
				return
			}
			if r.Header.Get("If-None-Match") != "" && r.Header.Get("If-Modified-Since") != "" {
				conditional = append(conditional, r.URL.Path)
			}
			at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
			tag := `"a"`
			if r.URL.Path == "/changing" {
				tag = `"` + version + `"`
			}
			w.Header().Set("ETag", tag)
			w.Header().Set("Content-Type", "text/plain")
			http.ServeContent(w, r, "", at, strings.NewReader(r.URL.Path+version))
		})
		o := settings("-mode", "direct", c.URL+"/a", c.URL+"/changing")
		first := crawled(t, o)
		if got := c.take(); len(got) != 3 {
			t.Fatalf("the first run asked for %q", got)
		}
		crawled(t, o)
		if got := c.take(); len(got) != 0 {
			t.Errorf("the second run asked for %q, though all is fresh", got)
		}
		version = "2"
		o.maxAge = 0
		third := crawled(t, o)
		if got := c.take(); len(got) != 2 { // robots.txt is known
			t.Errorf("the third run asked for %q", got)
		}
		slices.Sort(conditional)
		if !slices.Equal(conditional, []string{"/a", "/changing"}) {
			t.Errorf("asked conditionally for %q", conditional)
		}
		if string(third["/a"].Body) != "/a1" || third["/a"].Hash != first["/a"].Hash || !third["/a"].CrawlTime.After(first["/a"].CrawlTime) {
			t.Errorf("the unchanged page: %+v, %q", third["/a"], third["/a"].Body)
		}
		if string(third["/changing"].Body) != "/changing2" || third["/changing"].Hash == first["/changing"].Hash {
			t.Errorf("the changed page: %+v, %q", third["/changing"], third["/changing"].Body)
		}
	})
}

func TestFailureKeepsWhatWasKnownAndIsTriedInTheNextRun(t *testing.T) {
	withEach(t, func(t *testing.T, settings func(...string) options) {
		broken := false
		c := count(t, func(w http.ResponseWriter, r *http.Request) {
			if broken {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, "text")
		})
		o := settings("-mode", "direct", c.URL+"/a")
		crawled(t, o)
		broken, o.maxAge = true, 0
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, cancel) // among the retries
		if err := run(ctx, t.Output(), t.Output(), o); !errors.Is(err, context.Canceled) {
			t.Errorf("an interrupted run: %v", err)
		}
		if p := rows(t, o)["/a"]; string(p.Body) != "text" || p.Status != 200 || p.Error != "" {
			t.Errorf("after an interrupted run: %+v", p)
		}
		o.retries = 1
		if err := run(t.Context(), t.Output(), t.Output(), o); err != nil {
			t.Error(err)
		}
		if p := rows(t, o)["/a"]; string(p.Body) != "text" || p.Status != 0 || p.Error == "" || !p.failed() {
			t.Errorf("after a failure: %+v", p)
		}
	})
}

const tree = `
/   -> /a /b /nofollow:x
/a  -> /c /b#top
/b  -> /d https://elsewhere.example/e
/c  -> /deep
/d  -> /
`

// links is a handler of pages that link as tree says.
func linked(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	for line := range strings.Lines(tree) {
		page, goals, _ := strings.Cut(line, "->")
		if strings.TrimSpace(page) != r.URL.Path {
			continue
		}
		for _, goal := range strings.Fields(goals) {
			if path, ok := strings.CutPrefix(goal, "/nofollow:"); ok {
				fmt.Fprintf(w, `<a rel="external NoFollow" href="/%s">x</a>`, path)
				continue
			}
			fmt.Fprintf(w, `<a href="%s">x</a>`, goal)
		}
	}
}

func TestLinksAreFollowedBreadthFirstWithLimits(t *testing.T) {
	withEach(t, func(t *testing.T, settings func(...string) options) {
		for _, test := range []struct {
			flags []string
			want  string
		}{
			{[]string{"-depth", "0"}, "/"},
			{[]string{"-depth", "1"}, "/ /a /b"},
			{[]string{"-depth", "2"}, "/ /a /b /c /d"},
			{[]string{"-depth", "9"}, "/ /a /b /c /d /deep"},
			{[]string{"-depth", "9", "-max-pages", "4"}, "/ /a /b /c"},
		} {
			c := count(t, linked)
			o := settings(append(test.flags, "-mode", "links", "-per-host", "1", c.URL)...)
			crawled(t, o)
			got := slices.DeleteFunc(c.take(), func(path string) bool { return path == "/robots.txt" })
			if strings.Join(got, " ") != test.want {
				t.Errorf("%v: asked for %q, want %s", test.flags, got, test.want)
			}
		}
	})
}

func TestLinksOfFreshPagesAreFollowedToo(t *testing.T) {
	withEach(t, func(t *testing.T, settings func(...string) options) {
		c := count(t, linked)
		o := settings("-mode", "links", "-depth", "1", c.URL)
		crawled(t, o)
		c.take()
		o.depth = 2
		crawled(t, o)
		got := c.take()
		slices.Sort(got)
		if strings.Join(got, " ") != "/c /d" {
			t.Errorf("asked for %q, want what is new", got)
		}
	})
}

func TestThirtyTwoWorkersAreAsPoliteAsOne(t *testing.T) {
	withEach(t, func(t *testing.T, settings func(...string) options) {
		s := startSites()
		defer s.Close()
		o := settings("-threads", "32", "-evidence", filepath.Join(t.TempDir(), "evidence.jsonl"), s.first.URL, s.second.URL)
		if pages := crawled(t, o); len(pages) != 11 { // by path, and both have a "/"
			t.Errorf("%d paths, want 11", len(pages))
		}
		f, err := os.Open(o.evidence)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		report, err := audit.Check(f)
		if err != nil || len(report.Violations) > 0 {
			t.Errorf("audit: %v, %v", report.Violations, err)
		}
	})
}

func TestProofOfEarlierRunsIsKept(t *testing.T) {
	t.Parallel()
	s := startSites()
	defer s.Close()
	o := settings(t, "crawl.sqlite", "-mode", "direct", "-max-age", "0", "-evidence", filepath.Join(t.TempDir(), "evidence.jsonl"), s.second.URL+"/")
	crawled(t, o)
	crawled(t, o)
	f, err := os.Open(o.evidence)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	report, err := audit.Check(f)
	if err != nil || report.Logs != 2 || !report.OK() {
		t.Errorf("audit: %v, %v", report, err)
	}
}

func TestLostProofIsAnError(t *testing.T) {
	t.Parallel()
	s := startSites()
	defer s.Close()
	o := settings(t, "crawl.sqlite", "-mode", "direct", "-evidence", "/dev/full", s.second.URL+"/")
	if err := run(t.Context(), t.Output(), t.Output(), o); err == nil || !strings.Contains(err.Error(), o.evidence) {
		t.Errorf("error %v, want one about %s", err, o.evidence)
	}
}

func TestProxyAndKeepAlive(t *testing.T) {
	t.Parallel()
	remotes := make(map[string]bool)
	var mu sync.Mutex
	proxy := count(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		remotes[r.RemoteAddr] = true
		mu.Unlock()
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, r.URL.String()) // a proxy is asked for whole URLs
	})
	urls := []string{"http://site.example/a", "http://site.example/b", "http://site.example/c"}
	for _, keepAlive := range []bool{true, false} {
		clear(remotes)
		o := settings(t, "crawl.sqlite", append([]string{"-mode", "direct", "-proxy", proxy.URL, "-per-host", "1", fmt.Sprintf("-keepalive=%t", keepAlive)}, urls...)...)
		pages := crawled(t, o)
		if p := pages["/a"]; p == nil || string(p.Body) != urls[0] {
			t.Errorf("row %+v, want what the proxy said", p)
		}
		want := 4 // robots.txt, too
		if keepAlive {
			want = 1
		}
		if len(remotes) != want {
			t.Errorf("keep-alive %t: %d connections, want %d", keepAlive, len(remotes), want)
		}
	}
}

func TestTimeoutIsOfTheExchangeNotOfTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = 50 * time.Millisecond
		web := politenesstest.NewWeb()
		web.Site("https://site.example").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/body" {
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}))
		client := &http.Client{Transport: exchangeTimeout{web, timeout}}
		began := time.Now()
		if _, err := client.Get("https://site.example/header"); !errors.Is(err, errTimeout) || time.Since(began) != timeout {
			t.Errorf("no header: %v after %v", err, time.Since(began))
		}
		began = time.Now()
		resp, err := client.Get("https://site.example/body")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadAll(resp.Body); err == nil || time.Since(began) != timeout {
			t.Errorf("a body without end: %v after %v", err, time.Since(began))
		}
	})
}
