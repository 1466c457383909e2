package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/examples/internal/virtual"
	"github.com/go-politeness/politeness/internal/localsite"
	"github.com/go-politeness/politeness/publicnet"
)

// command runs the program and returns what it printed.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), &out, t.Output(), args); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out.String())
	}
	return out.String()
}

func clearEnv(t *testing.T) {
	for _, name := range []string{"MAX_PAGES", "MAX_SCAN_TIME_MINUTES", "USER_AGENT"} {
		t.Setenv(name, "")
	}
}

func wants(t *testing.T, text string, patterns ...string) {
	t.Helper()
	for _, want := range patterns {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("the output has no %s:\n%s", want, text)
		}
	}
}

// A counter counts requests by their path.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) add(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[path]++
}

func (c *counter) of(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[path]
}

// A flow of the whole program: discovery, worker, show.
func TestAuditFromRobotsToResults(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		clearEnv(t)
		wants(t, command(t),
			`/admin +disallowed: line 2, group \*, "Disallow: /admin"`,
			`/api/users +disallowed: line 6, group SiteAudit, "Disallow: /api"`,
			`2 of 4 URLs remain, 2 of them new \(from sitemap\)`,
			`8 URLs in `,
			`budget +0 of 200 pages`,
			`robots +allowed: no rule matches\n`,
			`robots +allowed: no rule matches, confidence low: `,
			`evidence +\{"type":"robots_allowed".*"timestamp":`,
			`slot +1/2, waited`, `delay +waited 0\.`, `fetch +status 200, \d+ bytes`, `slot back +1/2`,
			`spent: 8 of 200 pages`,
			`visited +200 +\d+ sitemap +http://\S+/page  title: "/page"\n`,
			`/admin  title: "/admin"  confidence: "low"\n`, `total: 8 visited`)
	})
}

// Discovery: robots.txt, sitemaps, else a crawl; filtered by the rules, deduplicated, capped.
func TestDiscoveryCrawlsWhereThereIsNoSitemap(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		clearEnv(t)
		site := localsite.Start()
		defer site.Close()
		db := filepath.Join(t.TempDir(), "audit.db")
		wants(t, command(t, "discovery", "-db", db, site.URL), `(?m)^  \S+/private/diary +disallowed: line 2`, `\(from crawl\)`)
		shown := command(t, "show", "-db", db)
		wants(t, shown, `waiting +- +0 crawl +\S+/a\n`, `crawl +\S+/moved\n`)
		if strings.Contains(shown, "/private") {
			t.Errorf("a disallowed URL is in the database:\n%s", shown)
		}
		wants(t, command(t, "worker", "-db", db), `visited`)
		wants(t, command(t, "show", "-db", db), `redirected +\S+ +0 crawl +\S+/moved`,
			`visited +200 +\d+ \w+ +\S+/e  title: "Page /e"`, `disallowed +- +0 redirect \S+/private/diary  robots.txt line 2: "Disallow: /private"`)
		if len(site.Visits("/private*")) != 0 {
			t.Error("a disallowed URL was fetched")
		}
	})
}

// serve returns a site with the given robots.txt and sitemap; both may hold %s for the origin.
func serve(t *testing.T, robots, list string, page http.HandlerFunc) (origin string, asked func(path string) int) {
	t.Helper()
	mux := http.NewServeMux()
	server := localsite.Serve(mux)
	t.Cleanup(server.Close)
	counted := &counter{n: make(map[string]int)}
	mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.ReplaceAll(robots, "%s", server.URL))
	})
	mux.HandleFunc("/sitemap.xml", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.ReplaceAll(list, "%s", server.URL))
	})
	mux.HandleFunc("/sitemap_index.xml", http.NotFound)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		counted.add(r.URL.Path)
		if page != nil {
			page(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>Page %s</title>", r.URL.Path)
	})
	return server.URL, counted.of
}

func TestDiscoveryDeduplicatesAndStopsAtMAX_PAGES(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		clearEnv(t)
		t.Setenv("MAX_PAGES", "3")
		origin, _ := serve(t, "", "%s/1\n%s/1#top\n%s/x/../1\n%s/2\n%s/%33\n%s/4\n%s/5\n", nil)
		db := filepath.Join(t.TempDir(), "audit.db")
		wants(t, command(t, "discovery", "-db", db, origin), `3 URLs in .*, 3 of them new`)
		wants(t, command(t, "discovery", "-db", db, origin), `3 URLs in .*, 0 of them new`)
		wants(t, command(t, "show", "-db", db), `(?s)/1\n.*/2\n.*/3\ntotal: 3 waiting`)
	})
}

// Agents match partially both ways.
func TestAgentsMatchPartiallyBothWays(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		clearEnv(t)
		for robots, group := range map[string]string{
			"User-agent: siteaudit\nDisallow: /no\nUser-agent: site\nAllow: /\n":         "siteaudit", // exact
			"User-agent: audit\nDisallow: /no\nUser-agent: *\nAllow: /\n":                "audit",     // ours holds theirs
			"User-agent: SiteAudit-Images/2.0\nDisallow: /no\nUser-agent: *\nAllow: /\n": "SiteAudit-Images",
			"User-agent: OtherBot\nAllow: /\nUser-agent: *\nDisallow: /no\n":             `\*`,
			"User-agent: SiteAudit-Images\nAllow: /\nUser-agent: audit\nDisallow: /no\n": "audit",
		} {
			origin, _ := serve(t, robots, "%s/no\n%s/yes\n", nil)
			wants(t, command(t, "discovery", "-db", filepath.Join(t.TempDir(), "audit.db"), origin),
				`/no +disallowed: line \d, group `+group+`, "Disallow: /no"`, `1 of 2 URLs remain`)
		}
	})
}

// Evidence before the fetch: the server finds the verdict in the database when it is asked.
func TestTheVerdictIsInTheDatabaseBeforeTheFetch(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		clearEnv(t)
		dir := t.TempDir()
		db, log := filepath.Join(dir, "audit.db"), filepath.Join(dir, "evidence.jsonl")
		reader, err := sql.Open("sqlite", "file:"+db)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		found := make(chan string, 10)
		origin, _ := serve(t, "User-agent: *\nAllow: /\n", "%s/1\n%s/2\n", func(_ http.ResponseWriter, r *http.Request) {
			var verdict sql.Null[string]
			_ = reader.QueryRow("SELECT verdict FROM pages WHERE url = ?", "http://"+r.Host+r.URL.Path).Scan(&verdict)
			found <- verdict.V
		})
		command(t, "discovery", "-db", db, origin)
		command(t, "worker", "-db", db, "-evidence", log)
		close(found)
		n := 0
		for verdict := range found {
			n++
			wants(t, verdict, `"type":"robots_allowed".*"matchedRule":"Allow: /"`)
		}
		if n != 2 {
			t.Errorf("%d pages were asked for, want 2", n)
		}
		for _, file := range []string{db, log} {
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v; want mode 0600", file, info.Mode(), err)
			}
		}
		f, err := os.Open(log)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if report, err := audit.Check(f); err != nil || !report.OK() {
			t.Errorf("the audit of the log: %v, %v", report, err)
		}
	})
}

// Where evidence can't be written, nothing is fetched.
func TestNothingIsFetchedWithoutItsEvidence(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		clearEnv(t)
		origin, asked := serve(t, "", "%s/1\n%s/2\n", nil)
		db := filepath.Join(t.TempDir(), "audit.db")
		command(t, "discovery", "-db", db, origin)
		s, err := openStore(t.Context(), db, false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.db.Exec("CREATE TRIGGER no BEFORE UPDATE OF verdict ON pages BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), t.Output(), t.Output(), []string{"worker", "-db", db}); err == nil || !strings.Contains(err.Error(), "disk is full") {
			t.Errorf("error %v, want one about the evidence", err)
		}
		if n := asked("/1") + asked("/2"); n != 0 {
			t.Errorf("%d pages were fetched", n)
		}
	})
}

// The budget of the environment ends a worker, and the next one goes on where it ended.
func TestWorkersGoOnWhereTheOneBeforeEnded(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		clearEnv(t)
		origin, asked := serve(t, "", "%s/1\n%s/2\n%s/3\n", nil)
		db := filepath.Join(t.TempDir(), "audit.db")
		command(t, "discovery", "-db", db, origin)
		t.Setenv("MAX_PAGES", "2")
		if err := worker(t, db); !errors.Is(err, budget.ErrExceeded) {
			t.Errorf("the first worker ended with %v", err)
		}
		wants(t, command(t, "show", "-db", db), `total: .*1 over budget`)
		t.Setenv("MAX_PAGES", "4") // of the audit, not of the worker
		wants(t, command(t, "worker", "-db", db), `spent: 3 of 4 pages`)
		wants(t, command(t, "show", "-db", db), `total: 3 visited`)
		for _, path := range []string{"/1", "/2", "/3"} {
			if n := asked(path); n != 1 {
				t.Errorf("%s was fetched %d times", path, n)
			}
		}
		t.Setenv("MAX_PAGES", "two")
		if err := run(t.Context(), t.Output(), t.Output(), []string{"worker", "-db", db}); err == nil || !strings.Contains(err.Error(), "MAX_PAGES") {
			t.Errorf("error %v", err)
		}
	})
}

// What a worker that was killed had been lent is the others' after a minute, not before.
func TestAWorkerThatWasKilledIsTakenOver(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		clearEnv(t)
		if time.Now().Year() != 2000 {
			return // a minute of virtual time only
		}
		ctx, file := t.Context(), filepath.Join(t.TempDir(), "audit.db")
		open := func() *store {
			s, err := openStore(ctx, file, true)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		killed := open()
		defer killed.db.Close()
		if _, err := killed.insert(ctx, "sitemap", []crawl.Request{{URL: "http://a/1", Host: "a"}, {URL: "http://a/2", Host: "a"}}, 0); err != nil {
			t.Fatal(err)
		}
		take := func(s *store, want int) {
			t.Helper()
			taken, err := s.Take(ctx, []string{"a"}, 1)
			if err != nil || len(taken) != want {
				t.Errorf("taken %v, %v; want %d", taken, err, want)
			}
		}
		take(killed, 1)
		other := open()
		defer other.Close()
		alive, kill := context.WithCancel(ctx)
		done := make(chan error)
		go func() { done <- killed.live(alive) }()
		take(other, 1)
		time.Sleep(10 * time.Minute)
		take(other, 0) // the first one is alive
		kill()
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(lost + 2*time.Second)
		take(other, 1)
		// Should it come back after all, its result isn't counted.
		if err := killed.Done(ctx, []crawl.Result{{Request: crawl.Request{URL: "http://a/1"}, Outcome: crawl.Visited}}); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := other.show(ctx, &out); err != nil {
			t.Fatal(err)
		}
		wants(t, out.String(), `total: 2 lent`)
	})
}

// TestAPageKeepsItsOriginAndData: in the file too, so that another worker has them.
func TestAPageKeepsItsOriginAndData(t *testing.T) {
	clearEnv(t)
	s, err := openStore(t.Context(), filepath.Join(t.TempDir(), "audit.db"), true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := crawl.Request{URL: "http://a/1", Host: "a", From: "http://a/", Data: "a\x00label"}
	if _, _, err := s.Add(t.Context(), []crawl.Request{want}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Take(t.Context(), []string{"a"}, 1)
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// A worker that finds only what a killed one had been lent waits for that, and says so.
func TestAWorkerWaitsForWhatAKilledOneHad(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		if time.Now().Year() != 2000 {
			return // a minute of virtual time only
		}
		clearEnv(t)
		origin, asked := serve(t, "", "%s/1\n%s/2\n", nil)
		db := filepath.Join(t.TempDir(), "audit.db")
		command(t, "discovery", "-db", db, origin)
		killed, err := openStore(t.Context(), db, false)
		if err != nil {
			t.Fatal(err)
		}
		if taken, err := killed.Take(t.Context(), []string{strings.TrimPrefix(origin, "http://")}, 1); err != nil || len(taken) != 1 {
			t.Fatal(taken, err)
		}
		if err := killed.db.Close(); err != nil {
			t.Fatal(err)
		}
		var log virtual.Output
		if err := run(t.Context(), t.Output(), &log, []string{"worker", "-db", db}); err != nil {
			t.Fatal(err)
		}
		wants(t, log.String(), `the URLs that are left are with other programs`)
		if asked("/1") != 1 || asked("/2") != 1 {
			t.Errorf("/1 was fetched %d times, /2 %d times", asked("/1"), asked("/2"))
		}
	})
}

// A person sees within two seconds why nothing happens.
func TestAPersonSeesWithinTwoSecondsWhyNothingHappens(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		if time.Now().Year() != 2000 {
			return // two seconds of virtual time only: a busy machine may be late
		}
		clearEnv(t)
		busy := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
		}
		for _, c := range []struct {
			robots string
			page   http.HandlerFunc
			want   string
		}{
			{"User-agent: *\nCrawl-delay: 30\n", nil, `waiting for 127\.0\.0\.1:\d+ until .*delay`},
			{"", busy, `waiting for 127\.0\.0\.1:\d+ until .*429`},
		} {
			origin, _ := serve(t, c.robots, "%s/1\n%s/2\n", c.page)
			s, err := openStore(t.Context(), filepath.Join(t.TempDir(), "audit.db"), true)
			if err != nil {
				t.Fatal(err)
			}
			host := strings.TrimPrefix(origin, "http://")
			reqs := []crawl.Request{{URL: origin + "/1", Host: host}, {URL: origin + "/2", Host: host}}
			if _, err := s.insert(t.Context(), "sitemap", reqs, 0); err != nil {
				t.Fatal(err)
			}
			// A person stops the crawl. It would end at once if it knew when.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			defer time.AfterFunc(2*time.Second, cancel).Stop()
			var log virtual.Output
			err = work(ctx, t.Output(), options{log: &log, base: http.DefaultTransport}, s)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want that of the context", err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			wants(t, log.String(), c.want)
		}
	})
}

// Public addresses only, unless a site was named by its address.
func TestWorkersReachPrivateAddressesOnlyIfTheyWereNamed(t *testing.T) {
	origin, _ := serve(t, "", "", nil)
	for site, public := range map[string]bool{"https://example.com": true, origin: false} {
		s, err := openStore(t.Context(), filepath.Join(t.TempDir(), "audit.db"), true)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.sites(t.Context(), []string{site}); err != nil {
			t.Fatal(err)
		}
		base, err := s.base(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: base}).Get(origin)
		if err == nil {
			resp.Body.Close()
		}
		if errors.Is(err, publicnet.ErrPrivate) != public {
			t.Errorf("audit of %s: %v", site, err)
		}
	}
}

// Who asks for help gets it.
func TestHelp(t *testing.T) {
	for _, ask := range []string{"-h", "--help", "help"} {
		var log strings.Builder
		if err := run(t.Context(), t.Output(), &log, []string{ask}); !errors.Is(err, flag.ErrHelp) || !strings.Contains(log.String(), "Usage: siteaudit") {
			t.Errorf("%s: error %v, %q", ask, err, log.String())
		}
	}
}

// Wrong use is told in words that help.
func TestWrongUse(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.db")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"audit"}, "use discovery, worker or show"},
		{[]string{"discovery"}, "name a site"},
		{[]string{"worker", "-db", missing}, "run discovery first"},
		{[]string{"show", "-db", missing}, "run discovery first"},
		{[]string{"worker", "https://example.com"}, "URLs come from the database"},
		{[]string{"discovery", "-db", filepath.Join(t.TempDir(), "a.db"), "-redis", "127.0.0.1:1", "http://127.0.0.1:1/"}, "-redis 127.0.0.1:1: "},
		{[]string{"discovery", "-db", filepath.Join(t.TempDir(), "a.db"), "ftp://example.com"}, "ftp"},
	} {
		if err := run(t.Context(), t.Output(), t.Output(), c.args); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: error %v, want one that says %q", c.args, err, c.says)
		}
	}
}
