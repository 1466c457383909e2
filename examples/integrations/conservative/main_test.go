package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bartventer/httpcache"

	"github.com/go-politeness/politeness/examples/internal/virtual"
	"github.com/go-politeness/politeness/politenesstest"
)

// virtually runs f with a crawler of a fake web in a synctest bubble.
func virtually(t *testing.T, f func(t *testing.T, c *crawler, web *politenesstest.Web, site *politenesstest.Site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		c, err := newCrawler(t.Output(), "", "", web)
		if err != nil {
			t.Fatal(err)
		}
		f(t, c, web, web.Site("https://example.com"))
		synctest.Wait()
		web.Check(t, politenesstest.Rules{Delay: 3 * time.Second, Concurrency: 1})
	})
}

// get returns what the cache said, and how long it took.
func (c *crawler) get(t *testing.T, url string) (status string, took time.Duration) {
	t.Helper()
	began := time.Now()
	resp, err := c.client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || len(body) == 0 {
		t.Errorf("a body of %d bytes, %v", len(body), err)
	}
	return resp.Header.Get(httpcache.CacheStatusHeader), time.Since(began)
}

func (c *crawler) spent(t *testing.T) (turns, pages int64) {
	t.Helper()
	usage, err := c.pages.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c.turns.Load(), usage.Pages
}

const pageURL = "https://example.com/page"

// Page responses cached for 15 minutes ...
func TestPagesAreCachedFor15MinutesAndHitsCostNoTurnAndNoPage(t *testing.T) {
	virtually(t, func(t *testing.T, c *crawler, web *politenesstest.Web, site *politenesstest.Site) {
		site.Page("/page", "page")
		if status, took := c.get(t, pageURL); status != "MISS" || took < 3*time.Second {
			t.Errorf("first: %s after %v", status, took)
		}
		turns, pages := c.spent(t)
		if turns != 2 || pages != 1 { // robots.txt takes a turn, too
			t.Errorf("%d turns and %d pages for the first", turns, pages)
		}
		for range 14 {
			time.Sleep(time.Minute)
			var group sync.WaitGroup
			for range 10 {
				group.Go(func() {
					if status, took := c.get(t, pageURL); status != "HIT" || took != 0 {
						t.Errorf("%s after %v, want a hit at once", status, took)
					}
				})
			}
			group.Wait()
		}
		if n, m := c.spent(t); n != turns || m != pages {
			t.Errorf("140 hits cost %d turns and %d pages", n-turns, m-pages)
		}
		if n := len(web.Requests()); n != 2 {
			t.Errorf("%d requests were sent, want robots.txt and the page", n)
		}
	})
}

// ... or as Cache-Control says ...
func TestPagesAreCachedAsCacheControlSays(t *testing.T) {
	for control, want := range map[string][3]string{ // at once, after 16 min, and then after 2 h
		"":                                     {"HIT", "STALE", "MISS"},
		"public":                               {"HIT", "STALE", "MISS"}, // for how long it doesn't say
		"max-age=3600":                         {"HIT", "HIT", "MISS"},
		"max-age=3600, must-revalidate":        {"HIT", "HIT", "MISS"},
		"no-store":                             {"MISS", "MISS", "MISS"},
		"no-cache":                             {"MISS", "MISS", "MISS"},
		"max-age=60, must-revalidate":          {"HIT", "MISS", "MISS"},
		"max-age=120":                          {"HIT", "STALE", "MISS"},
		"max-age=60":                           {"HIT", "MISS", "MISS"}, // 15 minutes past it is too old
		"max-age=60, stale-while-revalidate=1": {"HIT", "MISS", "MISS"},
		"max-age=60, stale-while-revalidate=86400": {"HIT", "STALE", "STALE"},
	} {
		virtually(t, func(t *testing.T, c *crawler, _ *politenesstest.Web, site *politenesstest.Site) {
			site.Handle("/page", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if control != "" {
					w.Header().Set("Cache-Control", control)
				}
				fmt.Fprint(w, "page")
			}))
			c.get(t, pageURL)
			for i, later := range []time.Duration{0, 16 * time.Minute, 2 * time.Hour} {
				time.Sleep(later)
				if status, _ := c.get(t, pageURL); status != want[i] {
					t.Errorf("%q: %s after %v, want %s", control, status, later, want[i])
				}
				time.Sleep(10 * time.Second) // what goes on in the background
			}
		})
	}
}

// ... stale while revalidate, revalidations paced.
func TestStalePagesAreShownAtOnceWhileTheyAreRevalidatedInTheirTurn(t *testing.T) {
	virtually(t, func(t *testing.T, c *crawler, web *politenesstest.Web, site *politenesstest.Site) {
		site.Handle("/page", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			if r.Header.Get("If-None-Match") == `"1"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			fmt.Fprint(w, "page")
		}))
		site.Page("/other", "other")
		c.get(t, pageURL)
		time.Sleep(16 * time.Minute)
		c.get(t, "https://example.com/other") // takes the host's turn
		began := time.Now()
		for range 10 { // one revalidation is under way, however often the page is asked for
			if status, took := c.get(t, pageURL); status != "STALE" || took != 0 {
				t.Errorf("%s after %v, want the old copy at once", status, took)
			}
		}
		before := len(web.Requests())
		time.Sleep(20 * time.Second)
		if n := len(web.Requests()) - before; n != 1 {
			t.Errorf("%d revalidations, want 1", n)
		}
		requests := web.Requests()
		last := requests[len(requests)-1]
		if last.URL != pageURL || last.Status != http.StatusNotModified || last.Header.Get("If-None-Match") != `"1"` {
			t.Errorf("the revalidation: %v, status %d, header %v", last, last.Status, last.Header)
		}
		if waited := last.Start.Sub(began); waited != 3*time.Second {
			t.Errorf("the revalidation started after %v, want the host's 3 s", waited)
		}
		time.Sleep(14 * time.Minute)
		if status, took := c.get(t, pageURL); status != "HIT" || took != 0 {
			t.Errorf("after the revalidation: %s after %v", status, took)
		}
	})
}

// A revalidation that fails gives its slot back, and the host's slowdown holds it.
func TestRevalidationThatIsRefusedSlowsTheHostDown(t *testing.T) {
	virtually(t, func(t *testing.T, c *crawler, web *politenesstest.Web, site *politenesstest.Site) {
		site.Page("/page", "page").Sequence("/page", 200, 403, 200)
		c.get(t, pageURL)
		time.Sleep(16 * time.Minute)
		if status, _ := c.get(t, pageURL); status != "STALE" {
			t.Errorf("%s, want STALE", status)
		}
		time.Sleep(5 * time.Second)
		if status, took := c.get(t, pageURL); status != "STALE" || took != 0 {
			t.Errorf("%s after %v, want the old copy", status, took)
		}
		time.Sleep(20 * time.Minute)
		requests := web.Requests()
		if gap := requests[len(requests)-1].Start.Sub(requests[len(requests)-2].Start); gap < 15*time.Minute {
			t.Errorf("asked again %v after the 403", gap)
		}
	})
}

// busyDir returns a directory to which the cache may still write when the test is over: the cache
// renews old copies in the background.
func busyDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "conservative") //nolint:usetesting // t.TempDir fails the test if a file comes while it is removed
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := os.RemoveAll(dir)
		for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); err = os.RemoveAll(dir) {
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestProgram(t *testing.T) {
	t.Setenv("ROBOTS_DEFAULT_DELAY_SECONDS", "0.2")
	var out virtual.Output
	if err := run(t.Context(), &out, busyDir(t), busyDir(t), nil); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		`MISS +http://\S+/silent, 25 bytes after .* 2 turns and 1 pages`,
		`(?s)HIT +http://\S+/silent.*2 turns and 1 pages.*HIT +http://\S+/silent.*2 turns and 1 pages`,
		`STALE +http://\S+/news, 27 bytes`, `network: http://\S+/news, status 304`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("the output has no %s:\n%s", want, text)
		}
	}
}

// TestOneBadURLStopsNoOther: and each is named.
func TestOneBadURLStopsNoOther(t *testing.T) {
	t.Setenv("ROBOTS_DEFAULT_DELAY_SECONDS", "0.1")
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			fmt.Fprint(w, "User-agent: *\nDisallow: /private\n")
			return
		}
		fmt.Fprint(w, "page")
	}))
	defer site.Close()
	var out virtual.Output
	err := run(t.Context(), &out, "", "", []string{"example", site.URL + "/private", site.URL + "/page"})
	if err == nil || !strings.Contains(err.Error(), `"example": a URL begins with https://`) || !strings.Contains(err.Error(), "/private") {
		t.Errorf("error %v", err)
	}
	if text := out.String(); !regexp.MustCompile(`HIT +http://\S+/page`).MatchString(text) {
		t.Errorf("the last page wasn't had:\n%s", text)
	}
}
