package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness/crawl"
)

// opened opens the queue of o, as a run does.
func opened(t *testing.T, o options) *queue {
	t.Helper()
	s, err := openStore(t.Context(), o.engine, o.db, o.into)
	if err != nil {
		t.Fatal(err)
	}
	q, err := openQueue(s, o.urlsFile())
	if err != nil {
		t.Fatal(err)
	}
	q.maxAge = o.maxAge
	return q
}

// end closes the files of q, as a kill does.
func (q *queue) end(t *testing.T) {
	t.Helper()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if err := q.store.Close(); err != nil {
		t.Fatal(err)
	}
}

// A kill between the writing of a row and the end of its URL: the next run finds the row fresh, or
// writes it again. What a sitemap says has changed is asked for again, though its row is fresh.
func TestKillBetweenARowAndItsURL(t *testing.T) {
	withEach(t, func(t *testing.T, settings func(...string) options) {
		o := settings("-mode", "direct", "https://site.example/0")
		request := func(i int) crawl.Request {
			return crawl.Request{URL: fmt.Sprintf("https://site.example/%d", i), Host: "site.example"}
		}
		take := func(q *queue, want ...int) []crawl.Request {
			t.Helper()
			got, err := q.Take(t.Context(), []string{"site.example"}, 16)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(want) {
				t.Fatalf("lent %v, want %v", got, want)
			}
			for i, r := range got {
				if r.URL != request(want[i]).URL {
					t.Errorf("lent %v, want %v", got, want)
				}
			}
			return got
		}
		q := opened(t, o)
		q.mark(request(2).URL)
		if added, _, err := q.Add(t.Context(), []crawl.Request{request(0), request(1), request(2)}); err != nil || added != 3 {
			t.Fatalf("%d added (%v)", added, err)
		}
		take(q, 2, 0, 1) // what has changed goes first
		row := func(i int) *page {
			return &page{URL: request(i).URL, SURT: surt(request(i).URL), Status: 200, Body: []byte("text"), Hash: "hash", CrawlTime: time.Now()}
		}
		tx, err := q.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := q.write(t.Context(), tx, []*page{row(0), row(2)}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		q.end(t)

		q = opened(t, o)
		lent := take(q, 2, 1)
		if q.counts[outcomeFresh] != 1 || !q.changed[request(2).URL] {
			t.Errorf("%d rows are fresh, want that of /0; changed: %v", q.counts[outcomeFresh], q.changed)
		}
		for i, r := range lent {
			q.visited(r.URL, &fetched{row(2 - i), outcomeStored})
		}
		if err := q.Done(t.Context(), []crawl.Result{{Request: lent[0], Outcome: crawl.Visited}, {Request: lent[1], Outcome: crawl.Visited}}); err != nil {
			t.Fatal(err)
		}
		if left, err := q.finish(t.Context()); err != nil || left != 0 {
			t.Errorf("%d URLs are left (%v)", left, err)
		}
		q.end(t)
		if n := len(rows(t, o)); n != 3 {
			t.Errorf("%d rows, want 3", n)
		}
	})
}

// Behind more fresh pages than are lent at once the others are found.
func TestFreshPagesHideNoOthers(t *testing.T) {
	withEach(t, func(t *testing.T, settings func(...string) options) {
		q := opened(t, settings("-mode", "direct", "https://site.example/0"))
		defer q.end(t)
		var reqs []crawl.Request
		var fresh []*page
		for i := range 1000 {
			url := fmt.Sprintf("https://site.example/%d", i)
			reqs = append(reqs, crawl.Request{URL: url, Host: "site.example"})
			if i%100 != 99 {
				fresh = append(fresh, &page{URL: url, SURT: surt(url), Status: 200, CrawlTime: time.Now()})
			}
		}
		tx, err := q.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := q.write(t.Context(), tx, fresh); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := q.Add(t.Context(), reqs); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{4, 4, 2, 0} {
			got, err := q.Take(t.Context(), []string{"site.example"}, 4)
			if err != nil || len(got) != n {
				t.Fatalf("lent %v, want %d (%v)", got, n, err)
			}
		}
		if q.counts[outcomeFresh] != 990 {
			t.Errorf("%d are fresh, want 990", q.counts[outcomeFresh])
		}
	})
}

// A crawl that is killed again and again (a hundred times with POLITENESS_LONG=1, and three without)
// has as many rows as the site has pages, by the site's own count.
func TestAsManyRowsAsPages(t *testing.T) {
	kills, pages := 3, 40
	if os.Getenv("POLITENESS_LONG") != "" {
		kills, pages = 100, 1500
	}
	withEach(t, func(t *testing.T, settings func(...string) options) {
		var mu sync.Mutex
		answered, total := make(map[string]int), 0
		answers := make(chan struct{}, 1) // a token when there are more
		s := count(t, func(w http.ResponseWriter, r *http.Request) {
			var n int // page n leads to 2n and 2n+1
			if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil || n < 1 || n > pages {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			for _, child := range []int{2 * n, 2*n + 1} {
				if child <= pages {
					fmt.Fprintf(w, `<a href="/%d">next</a>`, child)
				}
			}
			fmt.Fprintf(w, "page %d", n)
			mu.Lock()
			defer mu.Unlock()
			answered[r.URL.Path]++
			total++
			select {
			case answers <- struct{}{}:
			default:
			}
		})
		now := func() int {
			mu.Lock()
			defer mu.Unlock()
			return total
		}
		o := settings()
		life := func(more int) error { // more: answers until it is killed; 0: it isn't
			crawl := program(t, "-db", o.db, "-mode", "links", "-depth", "30", "-delay", "2ms", s.URL+"/1")
			if err := crawl.Start(); err != nil {
				t.Fatal(err)
			}
			ended, killed := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(killed)
				if more == 0 {
					return
				}
				for goal := now() + more; now() < goal; {
					select {
					case <-answers:
					case <-ended:
						return
					}
				}
				time.Sleep(rand.N(30 * time.Millisecond))
				_ = crawl.Process.Kill()
			}()
			err := crawl.Wait()
			close(ended)
			<-killed
			return err
		}
		killed := 0
		for range kills {
			if life(1+rand.IntN(pages*3/(2*kills))) != nil {
				killed++
			}
		}
		if err := life(0); err != nil {
			t.Fatal("the last run, which isn't killed: ", err)
		}
		stored := rows(t, o)
		t.Logf("%d kills: %d rows of %d pages, for which the site was asked %d times", killed, len(stored), pages, total)
		if len(answered) != pages || len(stored) != pages {
			t.Errorf("%d rows of %d pages answered, want %d", len(stored), len(answered), pages)
		}
		for path, p := range stored {
			if p.Status != 200 || p.Hash == "" || p.Error != "" {
				t.Errorf("%s: %+v", path, p)
			}
		}
		if killed < kills/2 {
			t.Errorf("%d of %d runs were killed", killed, kills)
		}
		if left, err := filepath.Glob(o.urlsFile()); err != nil || len(left) != 1 {
			t.Errorf("files of URLs: %q (%v)", left, err)
		}
	})
}
