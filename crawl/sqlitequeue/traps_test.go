package sqlitequeue_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/internal/killtest"
	"github.com/go-politeness/politeness/crawl/sqlitequeue"
	"github.com/go-politeness/politeness/internal/shoptest"
)

// TestRealPagesGoFirst: the pages of a shop come before nearly all of its filters, with the URLs in a
// file as well.
func TestRealPagesGoFirst(t *testing.T) {
	q, err := sqlitequeue.Open(filepath.Join(t.TempDir(), "urls.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	site := new(shoptest.Shop)
	if err := killtest.CrawlShop(t, site, q); err != nil {
		t.Fatal(err)
	}
	first := site.Order[:shoptest.Items*5/4]
	if shoptest.Others(first) > shoptest.Items/4 || len(site.Requests) != shoptest.URLs {
		t.Errorf("%d of the first %d requests weren't for items; %d URLs were asked for: %q",
			shoptest.Others(first), len(first), len(site.Requests), first)
	}
}

// TestAHundredKillsKeepLevels: a crawl of a site with a trap that is killed a hundred times loses no
// URL, postpones in the next process what it had postponed, and asks for real pages first.
func TestAHundredKillsKeepLevels(t *testing.T) {
	const seed = 62
	random := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "urls.db")
	site := new(shoptest.Shop)
	kills := 0
	isOver := false
	for !isOver {
		q, err := sqlitequeue.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		d := &killtest.Queue{Postponer: q, Calls: 1 << 30}
		if kills < 100 {
			d.Calls = 3 + random.IntN(6)
		}
		err = killtest.CrawlShop(t, site, d)
		switch {
		case errors.Is(err, killtest.ErrKilled):
			kills++
		case err != nil:
			t.Fatal(err)
		default:
			isOver = true
		}
		_, before, err := q.Postponed(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		q, err = sqlitequeue.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		_, after, err := q.Postponed(t.Context(), 1)
		if err != nil || after != before {
			t.Errorf("%d URLs were postponed before kill %d, and %d after it (%v)", before, kills, after, err)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
	all := 0
	for _, n := range site.Requests {
		all += n
	}
	if len(site.Requests) != shoptest.URLs {
		t.Errorf("%d of %d URLs were asked for, after %d kills of seed %d", len(site.Requests), shoptest.URLs, kills, seed)
	}
	t.Logf("%d kills: %d requests for %d URLs", kills, all, shoptest.URLs)
}

// TestALargeLiftGoesInSteps: a call writes some thousand URLs at most, and the last one says that all
// came forward.
func TestALargeLiftGoesInSteps(t *testing.T) {
	const (
		number = 4500
		mark   = 7
	)
	q, err := sqlitequeue.Open(filepath.Join(t.TempDir(), "urls.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var reqs []crawl.Request
	for i := range number {
		reqs = append(reqs, crawl.Request{
			URL: fmt.Sprintf("https://a.example/%d", i), Host: "a.example", Later: 1 + i%3, Mark: mark,
		})
	}
	if _, _, err := q.Add(t.Context(), reqs); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{2500, 500, 0, 0} {
		more, err := q.Lift(t.Context(), "a.example", mark, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, left, err := q.Postponed(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if left != want || more != (left > 0) {
			t.Errorf("%d URLs are still postponed, want %d; Lift says that there are more: %v", left, want, more)
		}
	}
}
