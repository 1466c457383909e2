// Package sqlitequeue keeps the URLs of a crawl in an SQLite file, so that a crawl that was killed
// goes on where it ended.
//
//	urls, err := sqlitequeue.Open("crawl.db")
//	if err != nil {
//		return err
//	}
//	defer urls.Close()
//	c, err := crawl.New(crawl.Config{Queue: urls, ...})
//
// The next Run of a Crawler with the same file asks for what is left; give it the same URLs. What a
// page has led to is in the file before the page is done, so a kill at any instant loses no URL,
// and at most the pages that were under way are visited twice: write a page under its URL, not a
// further time.
//
// The file has some 80 bytes for each URL beside the URL itself, that of the page with the link to
// it, and its Data. The process has 200 MB of memory, however many there are. Each call of a method
// is one transaction. It outlives the process at once, and the machine's power once SQLite has
// synced it: after a power cut the crawl goes on from a moment before.
//
// One process may have a file open at a time. For several processes there is package pgqueue. It
// needs no C compiler.
package sqlitequeue

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // registers "sqlite"

	"github.com/go-politeness/politeness/crawl"
)

// version is that of the tables.
const version = 2

// schema makes the tables. A URL with a due time is waiting; which of these are lent only the Queue
// in memory knows, so they are waiting again for the next one that opens the file. URLs wait in the
// order of their due times: of a new one that is when it was added, and each is due as soon as it
// is there. The column page has no use yet.
//
// A URL is found by its hash: an index of whole URLs would be larger than the table.
const schema = `
CREATE TABLE IF NOT EXISTS host (
	id   INTEGER PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	next INTEGER                  -- due time of the first of its URLs; NULL: none is waiting
);
CREATE INDEX IF NOT EXISTS host_next ON host (next) WHERE next IS NOT NULL;
CREATE TABLE IF NOT EXISTS url (
	id       INTEGER PRIMARY KEY, -- in the order in which they were added
	hash     INTEGER NOT NULL,
	url      TEXT NOT NULL,
	host     INTEGER NOT NULL REFERENCES host,
	via      TEXT,
	hops     INTEGER,
	depth    INTEGER NOT NULL,
	priority INTEGER NOT NULL,
	outcome  TEXT,                -- crawl.Outcome
	status   INTEGER,             -- of the last answer
	due      INTEGER,             -- in seconds since 1970; NULL: the URL is done
	later    INTEGER NOT NULL DEFAULT 0, -- how far it is postponed, 0 to 3
	mark     INTEGER,             -- hash of what has postponed it
	from_url TEXT,
	data     BLOB,
	page     BLOB                 -- what is remembered of its page
);
CREATE INDEX IF NOT EXISTS url_hash ON url (hash);
CREATE INDEX IF NOT EXISTS url_due ON url (host, priority DESC, later, due, id) WHERE due IS NOT NULL;
CREATE INDEX IF NOT EXISTS url_mark ON url (host, mark) WHERE later > 0;
PRAGMA user_version = 2;
`

// upgrade makes tables of version 2 of those of version 1, in which a URL without an outcome was
// waiting. schema makes the indexes afterwards.
const upgrade = `
DROP INDEX host_waiting;
DROP INDEX url_waiting;
ALTER TABLE host ADD COLUMN next INTEGER;
UPDATE host SET next = 0 WHERE waiting > 0;
ALTER TABLE host DROP COLUMN waiting;
ALTER TABLE url ADD COLUMN due INTEGER;
ALTER TABLE url ADD COLUMN later INTEGER NOT NULL DEFAULT 0;
ALTER TABLE url ADD COLUMN mark INTEGER;
ALTER TABLE url ADD COLUMN from_url TEXT;
ALTER TABLE url ADD COLUMN data BLOB;
ALTER TABLE url ADD COLUMN page BLOB;
UPDATE url SET due = 0 WHERE outcome IS NULL;
`

// pragmas: nothing but this process reads the file (locking_mode), which a second one finds out at
// once; 64 MB of pages are kept in memory. The log may have 128 MB: hashes are added all over their
// index, and with SQLite's 4 MB each of its pages would be written to the file again and again.
const pragmas = "?_txlock=immediate" +
	"&_pragma=busy_timeout(500)" +
	"&_pragma=locking_mode(exclusive)" +
	"&_pragma=journal_mode(wal)" +
	"&_pragma=synchronous(normal)" +
	"&_pragma=cache_size(-65536)" +
	"&_pragma=wal_autocheckpoint(32768)" +
	"&_pragma=temp_store(memory)"

// A Queue keeps the URLs of a crawl in a file. Its methods are those of crawl.Queue, and may be
// called from one goroutine at a time, as a Crawler does.
type Queue struct {
	db   *sql.DB
	lent map[string]map[string]struct{} // URLs by host
}

var _ crawl.Postponer = (*Queue)(nil)

// Open opens the file, and makes it, for its owner's eyes only, if it isn't there. It fails if
// another process has the file open. Close the Queue.
func Open(path string) (*Queue, error) {
	q, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("sqlitequeue: %s: %w", path, err)
	}
	return q, nil
}

func open(path string) (*Queue, error) {
	address, err := addressOf(path)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", address)
	if err != nil {
		return nil, err
	}
	// One connection, which is kept: a further one would find the file locked.
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	queue := &Queue{db: db, lent: make(map[string]map[string]struct{})}
	err = queue.prepare()
	if err == nil {
		return queue, nil
	}
	if strings.Contains(err.Error(), "SQLITE_BUSY") {
		err = fmt.Errorf("another process has the file open: %w", err)
	}
	return nil, errors.Join(err, db.Close())
}

// addressOf makes the file, if it isn't there, and returns its URL for SQLite.
func addressOf(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // SQLite would let all read it
	if err != nil {
		return "", errors.Unwrap(err) // which names the file
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	name := filepath.ToSlash(abs)
	if !strings.HasPrefix(name, "/") { // C:/...
		name = "/" + name
	}
	address := url.URL{Scheme: "file", Path: name}
	return address.String() + pragmas, nil
}

// prepare makes the tables, and those of an older version new. It fails if the file is of another
// program or of a later version.
func (q *Queue) prepare() error {
	ctx := context.Background()
	return q.in(ctx, func(tx *sql.Tx) error {
		var found, tables int
		err := tx.QueryRowContext(ctx, `
			SELECT user_version, (SELECT count(*) FROM sqlite_schema)
			FROM pragma_user_version`).Scan(&found, &tables)
		switch {
		case err != nil:
			return err
		case found > version:
			return fmt.Errorf("the file is of version %d, which a later version of this package has made", found)
		case found == 0 && tables > 0:
			return errors.New("the file is a database of another program")
		case found == 1:
			if _, err := tx.ExecContext(ctx, upgrade); err != nil {
				return fmt.Errorf("upgrade of a file of version 1: %w", err)
			}
		}
		_, err = tx.ExecContext(ctx, schema)
		return err
	})
}

// wrap names the package in err.
func wrap(err error) error {
	if err != nil {
		return fmt.Errorf("sqlitequeue: %w", err)
	}
	return nil
}

// Close closes the file.
func (q *Queue) Close() error { return q.db.Close() }

// in runs f in a transaction.
func (q *Queue) in(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// hashOf returns the hash by which a URL is found.
func hashOf(url string) int64 {
	sum := sha256.Sum256([]byte(url))
	return int64(binary.LittleEndian.Uint64(sum[:])) // any 64 bits will do
}

// Add implements crawl.Queue. There is room for any number of URLs.
func (q *Queue) Add(ctx context.Context, reqs []crawl.Request) (added, noRoom int, err error) {
	a := adding{hosts: make(map[string]int64), found: make(map[int64]bool)}
	err = q.in(ctx, func(tx *sql.Tx) error { return a.add(ctx, tx, reqs) })
	if err != nil {
		return 0, 0, wrap(err)
	}
	return a.added, 0, nil
}

// An adding is a call of Add.
type adding struct {
	hosts map[string]int64 // ids by name
	found map[int64]bool   // ids of the hosts of new URLs
	added int              // number of new URLs
	args  []any            // of the next statement, columns for each URL
}

// columns is the number of columns of a URL that is added.
const columns = 11

func (a *adding) add(ctx context.Context, tx *sql.Tx, reqs []crawl.Request) error {
	seen := make(map[string]bool, len(reqs))
	for _, r := range reqs {
		if seen[r.URL] {
			continue // insert can't see that a URL is twice in a statement
		}
		seen[r.URL] = true
		host, err := a.hostOf(ctx, tx, r.Host)
		if err != nil {
			return err
		}
		a.args = append(a.args, hashOf(r.URL), r.URL, host, null(r.Via), null(r.Hops), r.Depth, r.Priority,
			null(r.From), blob(r.Data), r.Later, null(r.Mark))
		if len(a.args) < columns*atOnce {
			continue
		}
		if err := a.insert(ctx, tx); err != nil {
			return err
		}
	}
	if err := a.insert(ctx, tx); err != nil {
		return err
	}
	for host := range a.found {
		_, err := tx.ExecContext(ctx, `
			UPDATE host SET next = min(coalesce(next, unixepoch()), unixepoch())
			WHERE id = ?`, host)
		if err != nil {
			return err
		}
	}
	return nil
}

// atOnce is the number of URLs in one statement.
const atOnce = 100

// insert inserts those URLs of a.args that are new, all of them different, and counts them by host.
func (a *adding) insert(ctx context.Context, tx *sql.Tx) error {
	if len(a.args) == 0 {
		return nil
	}
	row := "(" + strings.TrimSuffix(strings.Repeat("?, ", columns), ", ") + "), "
	values := strings.TrimSuffix(strings.Repeat(row, len(a.args)/columns), ", ")
	// The hash finds the row, the URL confirms it: two URLs of one hash are both kept.
	rows, err := tx.QueryContext(ctx, `
		INSERT INTO url (hash, url, host, via, hops, depth, priority, from_url, data, later, mark, due)
		SELECT v.*, unixepoch() FROM (VALUES `+values+`) AS v
		WHERE NOT EXISTS (SELECT 1 FROM url WHERE hash = v.column1 AND url = v.column2)
		RETURNING host`, a.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var host int64
		if err := rows.Scan(&host); err != nil {
			return err
		}
		a.found[host] = true
		a.added++
	}
	a.args = a.args[:0]
	return rows.Err()
}

// hostOf returns the id of a host, which it makes if need be.
func (a *adding) hostOf(ctx context.Context, tx *sql.Tx, name string) (int64, error) {
	if id, ok := a.hosts[name]; ok {
		return id, nil
	}
	var id int64
	err := tx.QueryRowContext(ctx, "SELECT id FROM host WHERE name = ?", name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = tx.QueryRowContext(ctx, "INSERT INTO host (name) VALUES (?) RETURNING id", name).Scan(&id)
	}
	if err != nil {
		return 0, err
	}
	a.hosts[name] = id
	return id, nil
}

// null is NULL for a zero value, which most URLs have.
func null[T comparable](v T) sql.Null[T] { return sql.Null[T]{V: v, Valid: v != *new(T)} }

// blob is the bytes of data, which may be no text; NULL: it is empty.
func blob(data string) any {
	if data == "" {
		return nil
	}
	return []byte(data)
}

// Take implements crawl.Queue.
func (q *Queue) Take(ctx context.Context, hosts []string, n int) ([]crawl.Request, error) {
	return q.take(ctx, hosts, 0, n)
}

// TakeLater implements crawl.Postponer.
func (q *Queue) TakeLater(ctx context.Context, host string, least, n int) ([]crawl.Request, error) {
	return q.take(ctx, []string{host}, least, n)
}

func (q *Queue) take(ctx context.Context, hosts []string, least, n int) ([]crawl.Request, error) {
	call := &taking{q: q, number: n, least: least}
	err := q.in(ctx, func(tx *sql.Tx) error { return call.take(ctx, tx, hosts) })
	if err != nil {
		for _, r := range call.taken {
			q.unlend(r)
		}
		return nil, wrap(err)
	}
	return call.taken, nil
}

// A taking is a call of Take or TakeLater.
type taking struct {
	q      *Queue
	number int             // most requests of a host
	least  int             // Later of those that are taken
	taken  []crawl.Request // lent so far, also before an error
}

func (t *taking) take(ctx context.Context, tx *sql.Tx, hosts []string) error {
	query, err := tx.PrepareContext(ctx, `
		SELECT url, coalesce(via, ''), coalesce(hops, 0), depth, priority, coalesce(from_url, ''),
			coalesce(data, ''), later, coalesce(mark, 0)
		FROM url
		WHERE host = (SELECT id FROM host WHERE name = ?) AND due IS NOT NULL AND later >= ?
		ORDER BY priority DESC, later, due, id
		LIMIT ?`)
	if err != nil {
		return err
	}
	defer query.Close()
	for _, host := range hosts {
		if err := t.takeOf(ctx, query, host); err != nil {
			return err
		}
	}
	return nil
}

// takeOf takes requests of a host.
func (t *taking) takeOf(ctx context.Context, query *sql.Stmt, host string) error {
	lent := t.q.lent[host]
	// The file doesn't know which are lent. If these come first, the others come after them.
	rows, err := query.QueryContext(ctx, host, t.least, t.number+len(lent))
	if err != nil {
		return err
	}
	defer rows.Close()
	left := t.number
	for left > 0 && rows.Next() {
		r := crawl.Request{Host: host}
		err := rows.Scan(&r.URL, &r.Via, &r.Hops, &r.Depth, &r.Priority, &r.From, &r.Data, &r.Later, &r.Mark)
		if err != nil {
			return err
		}
		if _, ok := lent[r.URL]; ok {
			continue
		}
		if lent == nil {
			lent = make(map[string]struct{})
			t.q.lent[host] = lent
		}
		lent[r.URL] = struct{}{}
		t.taken = append(t.taken, r)
		left--
	}
	return rows.Err()
}

// unlend makes r no longer lent.
func (q *Queue) unlend(r crawl.Request) {
	delete(q.lent[r.Host], r.URL)
	if len(q.lent[r.Host]) == 0 {
		delete(q.lent, r.Host)
	}
}

// Done implements crawl.Queue.
func (q *Queue) Done(ctx context.Context, results []crawl.Result) error {
	err := q.in(ctx, func(tx *sql.Tx) error { return end(ctx, tx, results) })
	if err != nil {
		return wrap(err)
	}
	for _, r := range results { // also those that are Left: they wait in the file already
		q.unlend(r.Request)
	}
	return nil
}

// end stores the outcomes of URLs, and how far those that are Left are postponed.
func end(ctx context.Context, tx *sql.Tx, results []crawl.Result) error {
	update, err := tx.PrepareContext(ctx, `
		UPDATE url SET outcome = ?, status = ?, due = NULL, later = 0
		WHERE hash = ? AND url = ? AND due IS NOT NULL
		RETURNING host`)
	if err != nil {
		return err
	}
	defer update.Close()
	// Only a URL that changes is written.
	postpone, err := tx.PrepareContext(ctx, `
		UPDATE url SET later = ?1, mark = ?2
		WHERE hash = ?3 AND url = ?4 AND due IS NOT NULL AND (later <> ?1 OR mark IS NOT ?2)`)
	if err != nil {
		return err
	}
	defer postpone.Close()
	hosts := make(map[int64]bool) // ids
	for _, r := range results {
		if r.Outcome == crawl.Left {
			if _, err := postpone.ExecContext(ctx, r.Later, null(r.Mark), hashOf(r.URL), r.URL); err != nil {
				return err
			}
			continue
		}
		outcome := cmp.Or(r.Outcome, "done")
		var host int64
		err := update.QueryRowContext(ctx, outcome, null(r.Status), hashOf(r.URL), r.URL).Scan(&host)
		switch {
		case err == nil:
			hosts[host] = true
		case !errors.Is(err, sql.ErrNoRows): // without a row it has an outcome, or was never added
			return err
		}
	}
	for host := range hosts {
		_, err := tx.ExecContext(ctx, `
			UPDATE host SET next = (
				SELECT due FROM url
				WHERE host = ?1 AND due IS NOT NULL
				ORDER BY priority DESC, later, due, id
				LIMIT 1)
			WHERE id = ?1`, host)
		if err != nil {
			return err
		}
	}
	return nil
}

// Hosts implements crawl.Queue. The Queue is never open: no other program can add to it.
func (q *Queue) Hosts(ctx context.Context, n int) (hosts []string, open bool, err error) {
	if n == 0 {
		return nil, false, nil
	}
	rows, err := q.db.QueryContext(ctx, "SELECT name FROM host WHERE next IS NOT NULL")
	if err != nil {
		return nil, false, wrap(err)
	}
	defer rows.Close()
	for len(hosts) < n && rows.Next() {
		var host string
		if err := rows.Scan(&host); err != nil {
			return nil, false, wrap(err)
		}
		if len(q.lent[host]) == 0 {
			hosts = append(hosts, host)
		}
	}
	return hosts, false, wrap(rows.Err())
}

// Waiting returns the number of URLs that are waiting or lent: after a crawl, of those that it
// left. It reads an index of all of them.
func (q *Queue) Waiting(ctx context.Context) (n int, err error) {
	err = q.db.QueryRowContext(ctx, "SELECT count(*) FROM url WHERE due IS NOT NULL").Scan(&n)
	return n, wrap(err)
}

// Clear forgets all URLs, those that are done too: the next crawl begins anew.
func (q *Queue) Clear(ctx context.Context) error {
	clear(q.lent)
	return wrap(q.in(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM url; DELETE FROM host")
		return err
	}))
}
