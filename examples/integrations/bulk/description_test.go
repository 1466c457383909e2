package main

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
)

// URLs come from a query on the database, and results go into a table of choice.
func TestURLsFromAQueryIntoATableOfChoice(t *testing.T) {
	withEach(t, func(t *testing.T, settings func(...string) options) {
		c := count(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, r.URL.Path)
		})
		o := settings("-query", "SELECT url FROM candidates WHERE wanted = 1", "-into", "answers")
		o.ownMachine = true // as if a loopback URL had been given
		db, err := o.engine.open(t.Context(), o.db)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, db, "CREATE TABLE candidates (url TEXT, wanted INTEGER)")
		mustExec(t, db, "INSERT INTO candidates VALUES (?, 1), (?, 1), (?, 0), (NULL, 1), ('no URL', 1)", c.URL+"/a", c.URL+"/b", c.URL+"/c")
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if got := paths(crawled(t, o)); !slices.Equal(got, []string{"/a", "/b"}) {
			t.Errorf("rows %q", got)
		}
		o.query = "SELECT url, wanted FROM candidates"
		if err := run(t.Context(), t.Output(), t.Output(), o); err == nil || !strings.Contains(err.Error(), "-query") {
			t.Errorf("two columns: error %v", err)
		}
		o.query = "DROP TABLE candidates"
		if err := run(t.Context(), t.Output(), t.Output(), o); err == nil {
			t.Error("no query: no error")
		}
		o.into, o.query = "candidates", "" // they are still there
		if err := run(t.Context(), t.Output(), t.Output(), o); err == nil || !strings.Contains(err.Error(), "-into") {
			t.Errorf("a table of others: error %v", err)
		}
	})
}

func mustExec(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// Stale updates: a page whose lastmod is newer is fetched again, one that is older isn't; without
// lastmod changefreq counts, without both -max-age.
func TestStaleUpdatesByLastModAndChangeFreq(t *testing.T) {
	withEach(t, func(t *testing.T, settings func(...string) options) {
		var list atomic.Value
		var c *recordingServer
		c = count(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/robots.txt":
				fmt.Fprintf(w, "Sitemap: %s/sitemap.xml\n", c.URL)
			case "/sitemap.xml":
				fmt.Fprintf(w, "<urlset>%s</urlset>", strings.ReplaceAll(list.Load().(string), "SITE", c.URL))
			default:
				w.Header().Set("Content-Type", "text/plain")
				fmt.Fprint(w, r.URL.Path)
			}
		})
		entry := func(path, rest string) string { return "<url><loc>SITE" + path + "</loc>" + rest + "</url>" }
		list.Store(entry("/newer", "") + entry("/older", "") + entry("/never", "") + entry("/always", "") + entry("/plain", ""))
		o := settings(c.URL + "/")
		crawled(t, o)
		c.take()

		time.Sleep(10 * time.Millisecond)
		list.Store(entry("/newer", "<lastmod>"+time.Now().UTC().Format(time.RFC3339Nano)+"</lastmod>") +
			entry("/older", "<lastmod>2020-01-01</lastmod>") + entry("/never", "<changefreq>never</changefreq>") +
			entry("/always", "<changefreq>always</changefreq>") + entry("/plain", ""))
		for _, test := range []struct {
			maxAge time.Duration
			want   string
		}{
			{24 * time.Hour, "/always /newer /sitemap.xml"},
			{0, "/ /always /plain /sitemap.xml"}, // by now the copy of /newer is newer
		} {
			o.maxAge = test.maxAge
			crawled(t, o)
			got := c.take()
			slices.Sort(got)
			if strings.Join(got, " ") != test.want {
				t.Errorf("-max-age %v: asked for %q, want %s", test.maxAge, got, test.want)
			}
		}
	})
}

// Tables have lastmod and changefreq of the URLs that were discovered, fetched or not.
func TestLastModAndChangeFreqOfDiscoveredURLsAreInATable(t *testing.T) {
	withEach(t, func(t *testing.T, settings func(...string) options) {
		var c *recordingServer
		c = count(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/robots.txt":
				fmt.Fprintf(w, "User-agent: *\nDisallow: /private\nSitemap: %s/sitemap.xml\n", c.URL)
			case "/sitemap.xml":
				fmt.Fprint(w, "<urlset>"+strings.ReplaceAll(`<url><loc>SITE/plain</loc></url>
					<url><loc>SITE/private</loc><lastmod>2024-02-03</lastmod></url>
					<url><loc>SITE/twice</loc></url>
					<url><loc>SITE/twice</loc><lastmod>2025-06-07T08:09:10+02:00</lastmod><changefreq>daily</changefreq></url>`, "SITE", c.URL)+"</urlset>")
			default:
				w.Header().Set("Content-Type", "text/plain")
				fmt.Fprint(w, r.URL.Path)
			}
		})
		o := settings(c.URL + "/")
		for range 2 { // the second run lists them again
			crawled(t, o)
		}
		s, err := openStore(t.Context(), o.engine, o.db, o.into)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		rows, err := s.db.QueryContext(t.Context(), s.sql("SELECT url, lastmod, changefreq FROM %[1]s_discovered ORDER BY url"))
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var got []string
		for rows.Next() {
			var url string
			var modified sql.Null[time.Time]
			var frequency sql.Null[string]
			if err := rows.Scan(&url, &modified, &frequency); err != nil {
				t.Fatal(err)
			}
			line := strings.TrimPrefix(url, c.URL)
			if modified.Valid {
				line += " " + modified.V.UTC().Format(time.RFC3339)
			}
			got = append(got, strings.TrimSpace(line+" "+frequency.V))
		}
		if want := []string{"/plain", "/private 2024-02-03T00:00:00Z", "/twice 2025-06-07T06:09:10Z daily"}; rows.Err() != nil || !slices.Equal(got, want) {
			t.Errorf("rows %q, %v, want %q", got, rows.Err(), want)
		}
	})
}

// The longest time between retries caps those, whatever the status, as well as the blocks.
func TestBackoffCapHoldsForRetries(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			c := count(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					http.NotFound(w, r)
					return
				}
				w.WriteHeader(status)
			})
			log := filepath.Join(t.TempDir(), "log.jsonl")
			crawled(t, settings(t, "crawl.sqlite", "-mode", "direct", "-backoff-cap", "1s", "-delay", "1ms", "-evidence", log, c.URL+"/busy"))
			text, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			retries := 0
			for line := range strings.Lines(string(text)) {
				var d struct {
					Type      evidence.Type
					Timestamp time.Time
					RetryAt   time.Time
					Until     time.Time
				}
				if err := json.Unmarshal([]byte(line), &d); err != nil {
					t.Fatal(err)
				}
				if d.Type == evidence.Retried {
					retries++
				}
				if d.RetryAt.Sub(d.Timestamp) > 1100*time.Millisecond || d.Type == evidence.HostBlocked && d.Until.Sub(d.Timestamp) > 1100*time.Millisecond {
					t.Errorf("after try %d: %s until %v and %v", retries+1, d.Type, d.RetryAt.Sub(d.Timestamp), d.Until.Sub(d.Timestamp))
				}
			}
			if retries != 5 {
				t.Errorf("%d retries", retries)
			}
			if report, err := audit.Check(bytes.NewReader(text)); err != nil || !report.OK() {
				t.Errorf("the log doesn't prove itself: %v\n%v", err, report)
			}
		})
	}
}

// The program's help says which of DuckDB's settings can't be read.
func TestHelpSaysWhichSettingsCannotBeRead(t *testing.T) {
	t.Parallel()
	var help bytes.Buffer
	if _, err := parseFlags([]string{"-h"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, want := range []string{"threads", "http_timeout", "http_proxy", "-timeout", "-proxy"} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("no word of %s in the help", want)
		}
	}
}

// A redirect of the start URL to www is followed by the crawl, and so is what www lists and links.
func TestRedirectOfTheStartURLToWWWIsFollowed(t *testing.T) {
	t.Parallel()
	proxy := count(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Host + r.URL.Path {
		case "site.example/robots.txt", "www.site.example/robots.txt":
			http.NotFound(w, r)
		case "www.site.example/sitemap.xml":
			fmt.Fprint(w, "<urlset><url><loc>http://www.site.example/listed</loc></url></urlset>")
		case "www.site.example/":
			htmlPage(`<a href="/linked">linked</a>`)(w, r)
		case "www.site.example/listed", "www.site.example/linked":
			htmlPage("a page")(w, r)
		default:
			http.Redirect(w, r, "http://www.site.example"+r.URL.Path, http.StatusMovedPermanently)
		}
	})
	for mode, want := range map[string]string{"sitemap": "http://www.site.example/listed", "links": "http://www.site.example/linked"} {
		o := settings(t, "crawl.sqlite", "-mode", mode, "-proxy", proxy.URL, "http://site.example/")
		crawled(t, o)
		s, err := openStore(t.Context(), o.engine, o.db, o.into)
		if err != nil {
			t.Fatal(err)
		}
		start, err := s.Page(t.Context(), "http://site.example/")
		if err != nil || start == nil || start.FinalURL != "http://www.site.example/" || start.Status != 200 || len(start.Body) == 0 {
			t.Errorf("-mode %s: the start URL is %+v, %v", mode, start, err)
		}
		if p, err := s.Page(t.Context(), want); err != nil || p == nil || p.Status != 200 {
			t.Errorf("-mode %s: %s is %+v, %v", mode, want, p, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Five retries on 429, 5xx and network errors, or as many as are asked for; the crawl adds none.
func TestRetriesAreAsManyAsAskedFor(t *testing.T) {
	t.Parallel()
	for path, status := range map[string]int{"/429": 429, "/500": 500, "/503": 503} {
		c := count(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				http.NotFound(w, r)
				return
			}
			w.WriteHeader(status)
		})
		o := settings(t, "crawl.sqlite", "-mode", "direct", "-retries", "1", c.URL+path)
		p := crawled(t, o)[path]
		if p == nil || p.Status != status || p.Error == "" {
			t.Errorf("row %+v, want status %d and an error", p, status)
		}
		if got := c.take(); len(got) != 3 { // robots.txt, too
			t.Errorf("asked for %q, want one retry", got)
		}
	}
}

// The server's Date is in the row.
func TestServersDateIsInTheRow(t *testing.T) {
	withEach(t, func(t *testing.T, settings func(...string) options) {
		at := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC) // its clock is wrong, and that is to be seen
		c := count(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", at.Format(http.TimeFormat))
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, r.URL.Path)
		})
		p := crawled(t, settings("-mode", "direct", c.URL+"/a"))["/a"]
		if !p.ServerDate.Equal(at) || time.Since(p.CrawlTime) > time.Minute || time.Since(p.CrawlTime) < 0 {
			t.Errorf("dates %v and %v, want %v and now", p.ServerDate, p.CrawlTime, at)
		}
	})
}

// gzip and deflate, in both of the forms that servers send, and none where that is asked for.
func TestCompression(t *testing.T) {
	t.Parallel()
	const body = "the page, the page, the page"
	squeeze := func(open func(io.Writer) io.WriteCloser) []byte {
		var b bytes.Buffer
		w := open(&b)
		_, _ = io.WriteString(w, body)
		_ = w.Close()
		return b.Bytes()
	}
	bodies := map[string][]byte{
		"/gzip":    squeeze(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }),
		"/deflate": squeeze(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
		"/deflate/bare": squeeze(func(w io.Writer) io.WriteCloser {
			f, _ := flate.NewWriter(w, 9)
			return f
		}),
		"/plain": []byte(body),
	}
	c := count(t, func(w http.ResponseWriter, r *http.Request) {
		asked := r.Header.Get("Accept-Encoding")
		w.Header().Set("Content-Type", "text/plain")
		if path := r.URL.Path; bodies[path] != nil && path != "/plain" && asked != "" {
			w.Header().Set("Content-Encoding", strings.Split(path, "/")[1])
			_, _ = w.Write(bodies[path])
			return
		}
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, body)
	})
	var urls []string
	for path := range bodies {
		urls = append(urls, c.URL+path)
	}
	for _, flags := range [][]string{{}, {"-compression=false"}} {
		pages := crawled(t, settings(t, "crawl.sqlite", slices.Concat([]string{"-mode", "direct"}, flags, urls)...))
		for path := range bodies {
			if p := pages[path]; p == nil || string(p.Body) != body {
				t.Errorf("%v %s: row %+v", flags, path, p)
			}
		}
	}
}

// The limit of bytes is one of what comes out.
func TestBytesAreCountedDecompressed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(make([]byte, 100_000))
		_ = z.Close()
	}))
	defer server.Close()
	p := crawled(t, settings(t, "crawl.sqlite", "-mode", "direct", "-bytes", "50000", "-retries", "0", server.URL+"/bomb"))["/bomb"]
	if p.Body != nil || !strings.Contains(p.Error, "too large") {
		t.Errorf("status %d, %d bytes, error %q, want none of it", p.Status, len(p.Body), p.Error)
	}
}

// Links that are marked nofollow, and canonical pages, are obeyed unless that is switched off.
func TestNofollowAndCanonicalAreAChoice(t *testing.T) {
	t.Parallel()
	c := count(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			http.NotFound(w, r)
		case "/":
			htmlPage(`<a href="/copy">copy</a> <a rel="nofollow" href="/marked">marked</a>`)(w, r)
		case "/copy":
			pageOf(`<link rel="canonical" href="/original">`, `<a href="/behind">behind</a>`)(w, r)
		default:
			htmlPage("a page")(w, r)
		}
	})
	for flags, want := range map[string]string{
		"-nofollow=true":                   "/ /behind /copy /original /robots.txt",
		"-canonical=false":                 "/ /behind /copy /robots.txt",
		"-nofollow=false -canonical=false": "/ /behind /copy /marked /robots.txt",
	} {
		crawled(t, settings(t, "crawl.sqlite", append(strings.Fields(flags), "-mode", "links", c.URL)...))
		got := c.take()
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: asked for %q, want %s", flags, got, want)
		}
	}
}

// Workers are by default as many as DuckDB has threads.
func TestThreadsAreDuckDBsByDefault(t *testing.T) {
	t.Parallel()
	if !slices.Contains(databases(), "crawl.duckdb") {
		t.Log("no DuckDB in this build")
		return
	}
	db, err := duckdb.open(t.Context(), filepath.Join(t.TempDir(), "threads.duckdb"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for set, want := range map[int]int{1: 1, 3: 3, 32: 32, 64: 32} {
		mustExec(t, db, fmt.Sprintf("SET threads = %d", set))
		if n, err := duckdb.threads(t.Context(), db); err != nil || n != want {
			t.Errorf("%d threads, %v, want %d", n, err, want)
		}
	}
}

// What a page leads to outside, and addresses that nobody gave, aren't connected to.
func TestAddressesThatWereNotGivenAreRefused(t *testing.T) {
	t.Parallel()
	c := count(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret") })
	o := settings(t, "crawl.sqlite", "-query", "SELECT '"+c.URL+"/secret'")
	p := crawled(t, o)["/secret"]
	if p == nil || p.Body != nil || !strings.Contains(p.Error, "not a public address") || strings.Contains(p.Error, "robots.txt can't be fetched") || len(c.take()) > 0 {
		t.Errorf("row %+v, want an error and no request", p)
	}
}

// Every setting of the description is a flag, and reaches the policy.
func TestSettingsReachThePolicy(t *testing.T) {
	t.Parallel()
	o := settings(t, "crawl.sqlite", "-connections", "7", "-per-host", "3", "-delay", "90ms", "-backoff-cap", "1m", "https://site.example/")
	s, err := openStore(t.Context(), o.engine, o.db, o.into)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := &bulk{options: o, out: t.Output(), errs: t.Output(), sites: make(map[string]bool)}
	if b.queue, err = openQueue(s, o.urlsFile()); err != nil {
		t.Fatal(err)
	}
	defer b.queue.Close()
	if _, err := b.crawler(t.Context(), evidence.Console(t.Output())); err != nil {
		t.Fatal(err)
	}
	limits := b.finder.Transport.Limiter().Config()
	if limits.MaxInFlight != 7 || limits.Concurrency != 3 || limits.Delay.Min != 90*time.Millisecond || limits.Delay.Max != 90*time.Millisecond {
		t.Errorf("limits %+v", limits)
	}
	if f, ok := limits.Backoff.(backoff.Fibonacci); !ok || f.Cap != time.Minute {
		t.Errorf("backoff %+v", limits.Backoff)
	}
}
