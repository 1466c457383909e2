package sqlitequeue_test

import (
	"database/sql"
	_ "embed"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sqlitequeue"
)

//go:embed testdata/version1.sql
var version1 string

// rowsOf1 are URLs in a file of version 1: some waiting, some done.
const rowsOf1 = `
INSERT INTO host (id, name, waiting) VALUES (1, 'a.example', 3), (2, 'b.example', 0), (3, 'c.example', 1);
INSERT INTO url (hash, url, host, via, hops, depth, priority, outcome, status) VALUES
	(1, 'https://a.example/done', 1, NULL, NULL, 0, 0, 'visited', 200),
	(2, 'https://a.example/1', 1, NULL, NULL, 1, 0, NULL, NULL),
	(3, 'https://a.example/2', 1, 'https://a.example/old', 2, 3, 0, NULL, NULL),
	(4, 'https://a.example/first', 1, NULL, NULL, 2, 5, NULL, NULL),
	(5, 'https://b.example/', 2, NULL, NULL, 0, 0, 'failed', NULL),
	(6, 'https://c.example/', 3, NULL, NULL, 0, -1, NULL, NULL);
`

// fileWith returns a file in which some statements were executed.
func fileWith(t *testing.T, statements ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "urls.db")
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestAFileOfVersion1IsUpgraded: what was waiting waits in its order, and what was done is done.
func TestAFileOfVersion1IsUpgraded(t *testing.T) {
	path := fileWith(t, version1, rowsOf1)
	for range 2 { // the second time it is of version 2
		q, err := sqlitequeue.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := q.Waiting(t.Context()); n != 4 || err != nil {
			t.Errorf("%d URLs are waiting, %v", n, err)
		}
		hosts, _, err := q.Hosts(t.Context(), 10)
		slices.Sort(hosts)
		if !slices.Equal(hosts, []string{"a.example", "c.example"}) || err != nil {
			t.Errorf("hosts %q, %v", hosts, err)
		}
		got, err := q.Take(t.Context(), []string{"a.example", "b.example", "c.example"}, 10)
		want := []crawl.Request{
			{URL: "https://a.example/first", Host: "a.example", Depth: 2, Priority: 5},
			{URL: "https://a.example/1", Host: "a.example", Depth: 1},
			{URL: "https://a.example/2", Host: "a.example", Depth: 3, Via: "https://a.example/old", Hops: 2},
			{URL: "https://c.example/", Host: "c.example", Priority: -1},
		}
		if !slices.Equal(got, want) || err != nil {
			t.Errorf("taken %+v, %v\nwant %+v", got, err, want)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
	q, err := sqlitequeue.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	added := crawl.Request{URL: "https://a.example/new", Host: "a.example", From: "https://a.example/1", Data: "label"}
	if n, _, err := q.Add(t.Context(), []crawl.Request{added}); n != 1 || err != nil {
		t.Errorf("%d added, %v", n, err)
	}
	got, err := q.Take(t.Context(), []string{"a.example"}, 10)
	if len(got) != 4 || got[3] != added || err != nil {
		t.Errorf("taken %+v, %v, want %+v last", got, err, added)
	}
}

// TestAFileOfALaterVersionIsRefused with a word, and left as it is.
func TestAFileOfALaterVersionIsRefused(t *testing.T) {
	path := fileWith(t, version1, "PRAGMA user_version = 3")
	for range 2 {
		_, err := sqlitequeue.Open(path)
		if err == nil || !strings.Contains(err.Error(), "of version 3, which a later version of this package") {
			t.Error(err)
		}
	}
}

// TestAnUpgradeThatFailsChangesNothing: the file is whole for the program that made it.
func TestAnUpgradeThatFailsChangesNothing(t *testing.T) {
	path := fileWith(t, version1, rowsOf1, "ALTER TABLE url ADD COLUMN mark TEXT")
	if _, err := sqlitequeue.Open(path); err == nil || !strings.Contains(err.Error(), "upgrade of a file of version 1") {
		t.Errorf("opened with the error %v", err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var version, waiting int
	err = db.QueryRowContext(t.Context(), `
		SELECT (SELECT user_version FROM pragma_user_version), sum(waiting) FROM host`).Scan(&version, &waiting)
	if version != 1 || waiting != 4 || err != nil {
		t.Errorf("version %d, %d waiting, %v", version, waiting, err)
	}
}
