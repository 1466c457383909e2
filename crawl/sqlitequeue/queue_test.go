package sqlitequeue_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/queuetest"
	"github.com/go-politeness/politeness/crawl/sqlitequeue"
)

// TestQueue holds what every Queue promises. With ten million URLs, the process has no more memory:
//
//	go test -run TestQueue/Many -timeout 0 . -args -queuetest.urls=10000000 -queuetest.mb=300
func TestQueue(t *testing.T) {
	files := make(map[*testing.T]string)
	last := make(map[*testing.T]*sqlitequeue.Queue)
	queuetest.Run(t, func(t *testing.T) crawl.Queue {
		if files[t] == "" {
			files[t] = filepath.Join(t.TempDir(), "urls ?#%.db")
		} else if err := last[t].Close(); err != nil { // which writes nothing: it is as a kill
			t.Fatal(err)
		}
		q, err := sqlitequeue.Open(files[t])
		if err != nil {
			t.Fatal(err)
		}
		last[t] = q
		t.Cleanup(func() { _ = q.Close() })
		return q
	})
}

// TestATakeThatFailsLendsNothing: what it had lent of other hosts waits, in this process too.
func TestATakeThatFailsLendsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "urls.db")
	q, err := sqlitequeue.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	reqs := []crawl.Request{{URL: "https://a.example/", Host: "a.example"}, {URL: "https://b.example/", Host: "b.example"}}
	if n, _, err := q.Add(t.Context(), reqs); err != nil || n != 2 {
		t.Fatalf("%d URLs added (%v)", n, err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE url SET depth = 'deep' WHERE url = 'https://b.example/'"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if q, err = sqlitequeue.Open(path); err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if taken, err := q.Take(t.Context(), []string{"a.example", "b.example"}, 1); err == nil || !strings.HasPrefix(err.Error(), "sqlitequeue: ") || len(taken) > 0 {
		t.Fatalf("a row that can't be read: taken %v (%v)", taken, err)
	}
	if taken, err := q.Take(t.Context(), []string{"a.example"}, 1); err != nil || len(taken) != 1 {
		t.Errorf("of the other host %v is taken (%v)", taken, err)
	}
}
