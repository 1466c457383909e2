package sqlitequeue_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sqlitequeue"
)

// opened opens a file for a test.
func opened(t *testing.T, path string) *sqlitequeue.Queue {
	t.Helper()
	q, err := sqlitequeue.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// taken takes up to n URLs of a.example.
func taken(t *testing.T, q *sqlitequeue.Queue, n int) []crawl.Request {
	t.Helper()
	reqs, err := q.Take(t.Context(), []string{"a.example"}, n)
	if err != nil {
		t.Fatal(err)
	}
	return reqs
}

func add(t *testing.T, q *sqlitequeue.Queue, reqs ...crawl.Request) {
	t.Helper()
	if added, _, err := q.Add(t.Context(), reqs); err != nil || added != len(reqs) {
		t.Fatal(added, err)
	}
}

// numbered returns n requests for a.example.
func numbered(n int) (reqs []crawl.Request) {
	for i := range n {
		reqs = append(reqs, crawl.Request{URL: fmt.Sprintf("https://a.example/%d", i), Host: "a.example"})
	}
	return reqs
}

// TestAgainMakesDueWhatIsDone: of the given outcomes or all, also in a file of version 1, and what
// waits is left alone.
func TestAgainMakesDueWhatIsDone(t *testing.T) {
	q := opened(t, fileWith(t, version1, rowsOf1))
	defer q.Close()
	n, err := q.Again(t.Context(), time.Now(), crawl.Failed, crawl.Refused)
	if n != 1 || err != nil {
		t.Fatalf("%d are due again, %v", n, err)
	}
	if got, err := q.Take(t.Context(), []string{"b.example"}, 10); len(got) != 1 || err != nil {
		t.Errorf("what failed before is lent as %v, %v", got, err)
	}
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	if n, err := q.Again(t.Context(), at); n != 2 || err != nil { // also what is due again by now
		t.Errorf("%d are due again, %v", n, err)
	}
	if got := taken(t, q, 10); len(got) != 3 {
		t.Errorf("%d are lent that had been waiting, of 3", len(got))
	}
	if next, err := q.Next(t.Context()); !next.Equal(at) || err != nil {
		t.Errorf("due next at %v, %v, want %v", next, err, at)
	}
}

// TestManyPrioritiesHideNothing: what is due of each is found, behind many that aren't due.
func TestManyPrioritiesHideNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := opened(t, filepath.Join(t.TempDir(), "urls.db"))
		defer q.Close()
		reqs := numbered(60)
		for i := range reqs {
			reqs[i].Priority = i % 20
		}
		for i := range 20 {
			reqs[i].Data = "soon"
		}
		add(t, q, reqs...)
		now := time.Now()
		var results []crawl.Result
		for _, r := range taken(t, q, len(reqs)) {
			// The first of each Priority is due soon, and that of the lowest last.
			due := now.Add(24 * time.Hour)
			if r.Data == "soon" {
				due = now.Add(time.Duration(60-r.Priority) * time.Second)
			}
			results = append(results, crawl.Result{Request: r, Outcome: crawl.Visited, Again: due})
		}
		if err := q.Done(t.Context(), results); err != nil {
			t.Fatal(err)
		}
		for priority := 19; priority >= 0; priority-- {
			next, err := q.Next(t.Context())
			if want := now.Add(time.Duration(60-priority) * time.Second); !next.Equal(want) || err != nil {
				t.Fatalf("due next at %v, %v, want %v", next, err, want)
			}
			time.Sleep(time.Until(next))
			hosts, _, err := q.Hosts(t.Context(), 10)
			if len(hosts) != 1 || err != nil {
				t.Fatalf("hosts %q, %v", hosts, err)
			}
			got := taken(t, q, 16)
			if len(got) != 1 || got[0].Priority != priority {
				t.Fatalf("taken %v, want the one of priority %d", got, priority)
			}
			due := now.Add(48 * time.Hour)
			if err := q.Done(t.Context(), []crawl.Result{{Request: got[0], Outcome: crawl.Visited, Again: due}}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestAClockThatWasSetBackHidesNothing: a URL that nobody has visited is due, whenever it was added.
func TestAClockThatWasSetBackHidesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "urls.db")
	q := opened(t, path)
	add(t, q, numbered(3)...)
	later := time.Now().Add(time.Hour)
	first := taken(t, q, 1)[0]
	if err := q.Done(t.Context(), []crawl.Result{{Request: first, Outcome: crawl.Visited, Again: later}}); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	// As if they had been added by a clock that was ahead.
	_, err = db.ExecContext(t.Context(), "UPDATE url SET due = due + 7200; UPDATE host SET next = next + 7200")
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	q = opened(t, path)
	defer q.Close()
	hosts, _, err := q.Hosts(t.Context(), 10)
	if len(hosts) != 1 || err != nil {
		t.Errorf("hosts %q, %v", hosts, err)
	}
	if got := taken(t, q, 10); len(got) != 2 {
		t.Errorf("taken %v, want the two that weren't visited", got)
	}
}
