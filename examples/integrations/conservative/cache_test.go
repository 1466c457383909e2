package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/politenesstest"
)

// One fetch for any number of callers of a page, whatever the answer is.
func TestManyCallersOfAPageMakeOneFetch(t *testing.T) {
	for name, page := range map[string]http.HandlerFunc{
		"page": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") },
		"no-store": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			_, _ = io.WriteString(w, "page")
		},
		"refusal": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "page", http.StatusForbidden) },
	} {
		virtually(t, func(t *testing.T, c *crawler, web *politenesstest.Web, site *politenesstest.Site) {
			site.Handle("/page", page)
			var group sync.WaitGroup
			for range 20 {
				group.Go(func() { c.get(t, pageURL) })
			}
			group.Wait()
			if n := len(web.Requests()); n != 2 {
				t.Errorf("%s: 20 callers made %d requests, want robots.txt and the page", name, n)
			}
		})
	}
}

// A caller that gives up takes nothing from the others, and the last one takes the fetch along.
func TestCallersThatGiveUpLeaveTheOthersTheirPage(t *testing.T) {
	virtually(t, func(t *testing.T, c *crawler, web *politenesstest.Web, site *politenesstest.Site) {
		site.Page("/page", "page").Page("/unwanted", "page")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ask := func(url string) error {
			req, err := http.NewRequestWithContext(short, http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			resp, err := c.client.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		var group sync.WaitGroup
		for _, page := range []string{pageURL, "https://example.com/unwanted"} {
			group.Go(func() {
				if err := ask(page); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: error %v, want the caller's own", page, err)
				}
			})
		}
		synctest.Wait()
		group.Go(func() { c.get(t, pageURL) })
		group.Wait()
		time.Sleep(time.Minute)
		if n := len(web.Requests()); n != 2 {
			t.Errorf("%d requests, want robots.txt and the one page that somebody waited for", n)
		}
	})
}

// Who asks for a page at the moment in which the last caller gives it up gets a flight that goes on.
func TestAFlightThatIsGivenUpIsJoinedByNobody(t *testing.T) {
	s := &shared{flights: map[string]*flight{}, cache: roundTripper(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	})}
	req := httptest.NewRequest(http.MethodGet, pageURL, nil)
	for range 5_000 {
		key, given := s.join(req)
		var group sync.WaitGroup
		group.Go(func() { s.leave(key, given) })
		_, joined := s.join(req)
		group.Wait()
		select {
		case <-joined.done:
			t.Fatal("a flight that was given up was joined")
		default:
		}
		s.leave(key, joined)
		<-joined.done
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestFETCH_CACHE_TTL_SECSaysHowLongPagesAreKept(t *testing.T) {
	t.Setenv("FETCH_CACHE_TTL_SEC", "60")
	virtually(t, func(t *testing.T, c *crawler, _ *politenesstest.Web, site *politenesstest.Site) {
		site.Page("/page", "page")
		for _, want := range []string{"MISS", "HIT", "STALE"} {
			if status, _ := c.get(t, pageURL); status != want {
				t.Errorf("%s, want %s", status, want)
			}
			time.Sleep(40 * time.Second)
		}
	})
	for _, value := range []string{"soon", "-1", "0", "1e3", "99999999999999999999"} {
		t.Setenv("FETCH_CACHE_TTL_SEC", value)
		if _, err := newCrawler(t.Output(), "", "", nil); err == nil || !strings.Contains(err.Error(), "FETCH_CACHE_TTL_SEC") {
			t.Errorf("%s: error %v, want one that names the variable", value, err)
		}
	}
}

// Pages and slowdown tokens survive the process.
func TestTheNextRunHasThePagesAndKeepsTheSlowdown(t *testing.T) {
	state, cache := t.TempDir(), filepath.Join(t.TempDir(), "pages")
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://example.com").Page("/page", "page").Sequence("/refused", http.StatusForbidden, http.StatusOK)
		run := func() *crawler {
			c, err := newCrawler(t.Output(), state, cache, web)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		first := run()
		first.get(t, pageURL)
		first.get(t, "https://example.com/refused")
		refused := time.Now()
		time.Sleep(5 * time.Minute)

		second := run()
		if status, took := second.get(t, pageURL); status != "HIT" || took != 0 {
			t.Errorf("the page: %s after %v, want a hit at once", status, took)
		}
		second.get(t, "https://example.com/refused")
		if waited := time.Since(refused); waited < 15*time.Minute || waited > 19*time.Minute {
			t.Errorf("the host that said 403 was asked again after %v, want 15 minutes and 10 to 20 %% of it", waited)
		}
		web.Check(t, politenesstest.Rules{Delay: 3 * time.Second, Concurrency: 1})
	})
	infos, err := os.ReadDir(cache)
	if err != nil || len(infos) == 0 {
		t.Fatal(infos, err)
	}
	for _, f := range infos {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v; want one that others can't read", f.Name(), info.Mode(), err)
		}
	}
}

// What a kill or a disk leaves of an entry is no entry: the page is fetched again.
func TestDamagedEntriesAreFetchedAgain(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"empty":   func([]byte) []byte { return nil },
		"cut":     func(b []byte) []byte { return b[:len(b)-1] },
		"flipped": func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
	} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			web := politenesstest.NewWeb()
			web.Site("https://example.com").Page("/page", "page")
			for range 2 {
				c, err := newCrawler(t.Output(), "", dir, web)
				if err != nil {
					t.Fatal(err)
				}
				if status, _ := c.get(t, pageURL); status != "MISS" {
					t.Errorf("%s: %s, want MISS", name, status)
				}
				files, err := filepath.Glob(filepath.Join(dir, "*.page"))
				if err != nil || len(files) == 0 {
					t.Fatal(files, err)
				}
				for _, f := range files {
					text, err := os.ReadFile(f)
					if err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(f, damage(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

func TestAFolderOfPagesIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"old.page", "half.page-new", "new.page", "notes.txt"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := prune(dir, 150); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 || left[0].Name() != "new.page" || left[1].Name() != "notes.txt" {
		t.Errorf("left: %v, %v", left, err)
	}
}
