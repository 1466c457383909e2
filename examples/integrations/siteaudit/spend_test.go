package main

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-politeness/politeness/budget"
)

// pagesOf serves ten pages that its sitemap lists, and counts the requests for them.
func pagesOf(t *testing.T) (db string, pages *atomic.Int32) {
	t.Helper()
	clearEnv(t)
	pages = new(atomic.Int32)
	list := ""
	for _, path := range strings.Fields("/0 /1 /2 /3 /4 /5 /6 /7 /8 /9") {
		list += "%s" + path + "\n"
	}
	origin, _ := serve(t, "Sitemap: %s/sitemap.xml\n", list, func(http.ResponseWriter, *http.Request) { pages.Add(1) })
	db = filepath.Join(t.TempDir(), "audit.db")
	command(t, "discovery", "-db", db, origin)
	pages.Store(0)
	return db, pages
}

// worker runs one, and returns what main would end with.
func worker(t *testing.T, db string, args ...string) error {
	t.Helper()
	return run(t.Context(), t.Output(), t.Output(), append([]string{"worker", "-db", db}, args...))
}

// MAX_PAGES is of the scan: three workers at once on one database, and three more, fetch two pages.
func TestMAX_PAGESIsPerScanOverWorkersAndRestarts(t *testing.T) {
	db, pages := pagesOf(t)
	t.Setenv("MAX_PAGES", "2")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if err := worker(t, db); !errors.Is(err, budget.ErrExceeded) {
				t.Errorf("a worker ended with %v, want that the budget is spent", err)
			}
		})
	}
	all.Wait()
	for range 2 {
		if err := worker(t, db); !errors.Is(err, budget.ErrExceeded) {
			t.Errorf("a worker that came later ended with %v", err)
		}
	}
	if n := pages.Load(); n != 2 {
		t.Errorf("%d pages were fetched, want 2", n)
	}
	wants(t, command(t, "show", "-db", db), `8 over budget`, `2 visited`)

	t.Setenv("MAX_PAGES", "200")
	if err := worker(t, db); err != nil {
		t.Error(err)
	}
	wants(t, command(t, "show", "-db", db), `total: 10 visited`)
}

// MAX_SCAN_TIME_MINUTES counts from the scan's first page, whoever fetched that.
func TestMAX_SCAN_TIME_MINUTESIsPerScan(t *testing.T) {
	db, pages := pagesOf(t)
	t.Setenv("MAX_PAGES", "1")
	if err := worker(t, db); !errors.Is(err, budget.ErrExceeded) {
		t.Error(err)
	}
	t.Setenv("MAX_PAGES", "")
	t.Setenv("MAX_SCAN_TIME_MINUTES", "0.0001")
	if err := worker(t, db); !errors.Is(err, budget.ErrExceeded) || !strings.Contains(err.Error(), "time") {
		t.Errorf("the time is over: %v", err)
	}
	if n := pages.Load(); n != 1 {
		t.Errorf("%d pages were fetched, want 1", n)
	}
}

// The description's .env has USER_AGENT=AEO-Audit/1.0, which has no contact.
func TestTheContactMayComeByFROM(t *testing.T) {
	db, pages := pagesOf(t)
	t.Setenv("USER_AGENT", "AEO-Audit/1.0")
	t.Setenv("FROM", "")
	if err := worker(t, db); err == nil || !strings.Contains(err.Error(), "-from") || !strings.Contains(err.Error(), "FROM") {
		t.Errorf("%v, want a word of -from and FROM", err)
	}
	if err := worker(t, db, "-from", "audit@example.com"); err != nil {
		t.Error(err)
	}
	if n := pages.Load(); n != 10 {
		t.Errorf("%d pages", n)
	}
	t.Setenv("FROM", "audit@example.com")
	if err := worker(t, db); err != nil {
		t.Error(err)
	}
}
