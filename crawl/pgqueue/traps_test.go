package pgqueue

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/internal/killtest"
	"github.com/go-politeness/politeness/internal/shoptest"
)

// A dying queue is a killtest.Queue whose hosts belong to one of several processes.
type dying struct {
	*killtest.Queue

	owner crawl.Owner
}

func (d dying) Owns(host string) bool { return d.owner.Owns(host) }

// TestAHundredKillsKeepLevels: a crawl of a site with a trap that is killed a hundred times loses no
// URL, and asks for real pages first: what a process has postponed is postponed in the next one. The
// lease of a process that was killed is ended at once, which others would wait for.
func TestAHundredKillsKeepLevels(t *testing.T) {
	const (
		kills = 100
		seed  = 62
	)
	random := rand.New(rand.NewPCG(seed, 0))
	database, conn := ownTables(t, "levels")
	site := new(shoptest.Shop)
	killed := 0
	levels := map[string]int{}
	isOver := false
	for !isOver {
		q, err := Open(t.Context(), database, "shop")
		if err != nil {
			t.Fatal(err)
		}
		if now := levelsOf(t, conn); !maps.Equal(now, levels) {
			t.Errorf("after kill %d the levels are %v, want %v", killed, now, levels)
		}
		d := dying{&killtest.Queue{Postponer: q, Calls: 1 << 30}, q}
		if killed < kills {
			d.Calls = 3 + random.IntN(4)
		}
		err = killtest.CrawlShop(t, site, d)
		switch {
		case errors.Is(err, killtest.ErrKilled):
			killed++
		case err != nil:
			t.Fatal(err)
		default:
			isOver = true
		}
		levels = levelsOf(t, conn)
		q.db.Close() // without giving its hosts back
		exec(t.Context(), t, conn, "UPDATE politeness_worker SET until = now() - interval '1 minute'")
	}
	if killed < kills || len(site.Requests) != shoptest.URLs || len(levels) > 0 {
		t.Errorf("%d of %d URLs were asked for, after %d kills of seed %d", len(site.Requests), shoptest.URLs, killed, seed)
	}
	first := site.First[:shoptest.Items*5/4]
	if shoptest.Others(first) > shoptest.Items/4 {
		t.Errorf("%d of the first %d URLs weren't items: %q", shoptest.Others(first), len(first), first)
	}
	all := 0
	for n := range maps.Values(site.Requests) {
		all += n
	}
	t.Logf("%d kills: %d requests for %d URLs", killed, all, shoptest.URLs)
}

// levelsOf returns the levels of the URLs that wait.
func levelsOf(t *testing.T, conn *pgx.Conn) map[string]int {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT url, later FROM politeness_url WHERE due IS NOT NULL")
	if err != nil {
		t.Fatal(err)
	}
	levels := make(map[string]int)
	var url string
	var later int
	_, err = pgx.ForEachRow(rows, []any{&url, &later}, func() error {
		levels[url] = later
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return levels
}

// TestALargeLiftGoesInSteps: a call writes some thousand URLs at most, and the last one says that all
// came forward.
func TestALargeLiftGoesInSteps(t *testing.T) {
	const (
		number = 4500
		mark   = 7
	)
	database, _ := ownTables(t, "lifted")
	q, err := Open(t.Context(), database, "shop")
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
