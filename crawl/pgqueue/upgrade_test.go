package pgqueue

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/go-politeness/politeness/crawl"
)

//go:embed testdata/version1.sql
var version1 string

// ownTables returns a URL of a part of the database with tables of its own, and a connection there.
func ownTables(t *testing.T, name string) (string, *pgx.Conn) {
	t.Helper()
	url := server.URL + "&search_path=" + name
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		exec(ctx, t, conn, "DROP SCHEMA "+name+" CASCADE")
		_ = conn.Close(ctx)
	})
	exec(t.Context(), t, conn, "CREATE SCHEMA "+name)
	return url, conn
}

// rowsOf1 returns statements that fill tables of version 1.
func rowsOf1(t *testing.T) string {
	t.Helper()
	q := &Queue{crawl: 1}
	hash := func(url string) string { return fmt.Sprintf("'%x'", q.hash(url).Bytes) }
	return `
		INSERT INTO politeness_crawl (name) VALUES ('news');
		INSERT INTO politeness_host (crawl, waiting, name) VALUES
			(1, true, 'a.example'), (1, false, 'b.example'), (1, true, 'c.example');
		INSERT INTO politeness_url (hash, host, depth, priority, status, hops, url, via, outcome) VALUES
			(` + hash("https://a.example/done") + `, 1, 0, 0, 200, NULL, 'https://a.example/done', NULL, 'visited'),
			(` + hash("https://a.example/1") + `, 1, 1, 0, NULL, NULL, 'https://a.example/1', NULL, NULL),
			(` + hash("https://a.example/2") + `, 1, 3, 0, NULL, 2, 'https://a.example/2', 'https://a.example/old', NULL),
			(` + hash("https://a.example/first") + `, 1, 2, 5, NULL, NULL, 'https://a.example/first', NULL, NULL),
			(` + hash("https://b.example/") + `, 2, 0, 0, NULL, NULL, 'https://b.example/', NULL, 'failed'),
			(` + hash("https://c.example/") + `, 3, 0, -1, NULL, NULL, 'https://c.example/', NULL, NULL);`
}

// TestTablesOfVersion1AreUpgraded: what was waiting waits in its order, and what was done is done.
func TestTablesOfVersion1AreUpgraded(t *testing.T) {
	url, conn := ownTables(t, "upgraded")
	exec(t.Context(), t, conn, version1)
	exec(t.Context(), t, conn, rowsOf1(t))
	// Hosts that a dead process had.
	exec(t.Context(), t, conn,
		"INSERT INTO politeness_process (crawl, until, hosts, room) VALUES (1, now() - interval '1 s', 1, true)")
	exec(t.Context(), t, conn, "UPDATE politeness_host SET owner = 1 WHERE name = 'c.example'")
	want := []crawl.Request{
		{URL: "https://a.example/first", Host: "a.example", Depth: 2, Priority: 5},
		{URL: "https://a.example/1", Host: "a.example", Depth: 1},
		{URL: "https://a.example/2", Host: "a.example", Depth: 3, Via: "https://a.example/old", Hops: 2},
		{URL: "https://c.example/", Host: "c.example", Priority: -1},
	}
	for range 2 { // the second time they are of version 2
		q, err := Open(t.Context(), url, "news")
		if err != nil {
			t.Fatal(err)
		}
		count, err := q.Count(t.Context())
		if count[crawl.Left] != 4 || count[crawl.Visited] != 1 || count[crawl.Failed] != 1 || err != nil {
			t.Errorf("count %v, %v", count, err)
		}
		if n, _, err := q.Add(t.Context(), []crawl.Request{{URL: "https://a.example/done", Host: "a.example"}}); n != 0 || err != nil {
			t.Errorf("%d added that were known, %v", n, err)
		}
		hosts, _, err := q.Hosts(t.Context(), 10)
		slices.Sort(hosts)
		if !slices.Equal(hosts, []string{"a.example", "c.example"}) || err != nil {
			t.Errorf("hosts %q, %v", hosts, err)
		}
		got, err := q.Take(t.Context(), []string{"a.example", "b.example", "c.example"}, 10)
		slices.SortStableFunc(got, func(a, b crawl.Request) int { return strings.Compare(a.Host, b.Host) })
		if !slices.Equal(got, want) || err != nil {
			t.Errorf("taken %+v, %v\nwant %+v", got, err, want)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTablesInUseArentUpgraded: a process of the older version would go on with the old ones.
func TestTablesInUseArentUpgraded(t *testing.T) {
	url, conn := ownTables(t, "in_use")
	exec(t.Context(), t, conn, version1)
	exec(t.Context(), t, conn, rowsOf1(t))
	exec(t.Context(), t, conn,
		"INSERT INTO politeness_process (crawl, until, hosts, room) VALUES (1, now() + interval '1 h', 1, true)")
	_, err := Open(t.Context(), url, "news")
	if err == nil || !strings.Contains(err.Error(), "processes of the older version use them (1): stop these first") {
		t.Errorf("opened with the error %v", err)
	}
	exec(t.Context(), t, conn, "UPDATE politeness_process SET until = now() - interval '1 s'")
	q, err := Open(t.Context(), url, "news")
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	// The statements with which the older version shows that it is alive, and takes URLs in.
	for statement, word := range map[string]string{
		"UPDATE politeness_process SET until = now() WHERE id = 1":                         "politeness_process",
		"INSERT INTO politeness_host (crawl, name, waiting) VALUES (1, 'd.example', true)": "waiting",
	} {
		_, err := conn.Exec(t.Context(), statement)
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("a process of the older version goes on: %v", err)
		}
	}
}

// TestTablesOfALaterVersionAreRefused with a word.
func TestTablesOfALaterVersionAreRefused(t *testing.T) {
	url, conn := ownTables(t, "later")
	exec(t.Context(), t, conn, schema)
	exec(t.Context(), t, conn, "UPDATE politeness_version SET version = 3")
	_, err := Open(t.Context(), url, "news")
	if err == nil || !strings.Contains(err.Error(), "of version 3, which a later version of this package") {
		t.Errorf("opened with the error %v", err)
	}
}

// TestManyOpenNewTablesAtOnce, and old ones: one of them makes them.
func TestManyOpenNewTablesAtOnce(t *testing.T) {
	for _, old := range []bool{false, true} {
		url, conn := ownTables(t, fmt.Sprintf("at_once_%t", old))
		if old {
			exec(t.Context(), t, conn, version1)
			exec(t.Context(), t, conn, rowsOf1(t))
		}
		const processes = 8
		errs := make(chan error, processes)
		for range processes {
			go func() {
				q, err := Open(t.Context(), url, "news")
				if err == nil {
					err = q.Close()
				}
				errs <- err
			}()
		}
		var all error
		for range processes {
			all = errors.Join(all, <-errs)
		}
		if all != nil {
			t.Errorf("old tables %t: %v", old, all)
		}
	}
}
