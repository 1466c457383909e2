// Package sqlitequeue keeps the URLs of a crawl in an SQLite file, so that a crawl that was killed
// continues where it ended.
//
//	urls, err := sqlitequeue.Open("crawl.db")
//	if err != nil {
//		return err
//	}
//	defer urls.Close()
//	c, err := crawl.New(crawl.Config{Queue: urls, ...})
//
// The next Run of a Crawler with the same file fetches the rest. Give it the same URLs. A page's
// links are in the file before the page is done, so a kill at any instant loses no URL. At most the
// pages that were under way are visited twice, so write each page under its URL.
//
// Pages that are asked for again (crawl.Config.Revisit) wait in the file until they are due. Again
// makes URLs due that were done before.
//
// The file has some 80 bytes for each URL beside the URL itself, that of the page with the link to
// it, and its Data. The process has 200 MB of memory, however many there are. Each call of a method
// is one transaction. A change survives a kill immediately, and a power cut once SQLite has synced
// it. After a power cut the crawl continues from a moment before.
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
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // registers "sqlite"

	"github.com/go-politeness/politeness/crawl"
)

// version is that of the tables.
const version = 2

// schema makes the tables. A URL with a due time is waiting; which of these are lent only the Queue
// in memory knows, so they are waiting again for the next one that opens the file. URLs wait in the
// order of their due times, once these have come: of a new one that is when it was added.
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
	db     *sql.DB
	lent   map[string]map[string]struct{} // URLs by host
	opened time.Time
}

var (
	_ crawl.Recurring = (*Queue)(nil)
	_ crawl.Postponer = (*Queue)(nil)
)

// now returns the time in seconds. It doesn't go back while the Queue is open, or URLs that were
// added a moment ago wouldn't be due.
func (q *Queue) now() int64 { return q.opened.Add(time.Since(q.opened)).Unix() }

// roundedUp returns a due time in seconds, never an earlier one.
func roundedUp(t time.Time) int64 {
	seconds := t.Unix()
	if t.Nanosecond() > 0 {
		seconds++
	}
	return seconds
}

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
	queue := &Queue{db: db, lent: make(map[string]map[string]struct{}), opened: time.Now()}
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
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return err
		}
		return q.turnBack(ctx, tx)
	})
}

// turnBack makes URLs due now that weren't visited yet, if the clock was set back since they were
// added: the last ones show that.
func (q *Queue) turnBack(ctx context.Context, tx *sql.Tx) error {
	var ahead bool
	err := tx.QueryRowContext(ctx, `
		SELECT EXISTS (
			SELECT 1 FROM (SELECT outcome, due FROM url ORDER BY id DESC LIMIT 1000)
			WHERE outcome IS NULL AND due > ?)`, q.now()).Scan(&ahead)
	if err != nil || !ahead {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE url SET due = ?1 WHERE outcome IS NULL AND due > ?1;
		UPDATE host SET next = ?1 WHERE next > ?1
			AND EXISTS (SELECT 1 FROM url WHERE host = host.id AND due <= ?1)`, q.now())
	return err
}

// wrap names the package in err.
func wrap(err error) error {
	if err != nil {
		return fmt.Errorf("sqlitequeue: %w", err)
	}
	return nil
}

// Close closes the file. Call it after Run has returned.
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
	a := adding{hosts: make(map[string]int64), found: make(map[int64]bool), now: q.now(), lent: q.lent}
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
	now   int64
	lent  map[string]map[string]struct{}
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
		if !r.Modified.IsZero() {
			if err := a.hint(ctx, tx, &r); err != nil {
				return err
			}
		}
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
			UPDATE host SET next = min(coalesce(next, ?1), ?1)
			WHERE id = ?2`, a.now, host)
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
	now := fmt.Sprint(a.now)
	values := strings.TrimSuffix(strings.Repeat(row, len(a.args)/columns), ", ")
	// The hash finds the row, the URL confirms it: two URLs of one hash are both kept.
	rows, err := tx.QueryContext(ctx, `
		INSERT INTO url (hash, url, host, via, hops, depth, priority, from_url, data, later, mark, due)
		SELECT v.*, `+now+` FROM (VALUES `+values+`) AS v
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

// hint makes a URL that is known due earlier, if it was modified since its last visit. One that is
// lent is being visited.
func (a *adding) hint(ctx context.Context, tx *sql.Tx, r *crawl.Request) error {
	if _, ok := a.lent[r.Host][r.URL]; ok {
		return nil
	}
	var id, host int64
	var due sql.Null[int64]
	var state string
	err := tx.QueryRowContext(ctx, `
		SELECT id, host, due, page FROM url
		WHERE hash = ? AND url = ? AND page IS NOT NULL`, hashOf(r.URL), r.URL).Scan(&id, &host, &due, &state)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	at, ok := crawl.Hinted(state, r.Modified)
	isLater := due.Valid && roundedUp(at) >= due.V
	if !ok || isLater {
		return nil
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE url SET due = ?1 WHERE id = ?2;
		UPDATE host SET next = min(coalesce(next, ?1), ?1) WHERE id = ?3`, roundedUp(at), id, host)
	return err
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
	call := &taking{q: q, number: n, least: least, now: q.now(), crooked: make(map[int64]int64)}
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
	q              *Queue
	number         int             // most requests of a host
	least          int             // Later of those that are taken
	taken          []crawl.Request // lent so far, also before an error
	now            int64
	lower, further *sql.Stmt       // see the constants
	crooked        map[int64]int64 // hashes of URLs by the ids of their rows, which have other ones
}

// Rows of the index of what waits, in its order: those of a lower Priority than the given, or of
// the same one that are postponed further. A row that isn't due yet ends its level, so the next
// level is looked for then, and what isn't due is skipped.
const (
	selectWaiting = `
		SELECT id, hash, url, coalesce(via, ''), coalesce(hops, 0), depth, priority, coalesce(from_url, ''),
			coalesce(data, ''), coalesce(page, ''), coalesce(mark, 0), later, due
		FROM url
		WHERE host = (SELECT id FROM host WHERE name = ?1) AND due IS NOT NULL AND `
	selectLower = selectWaiting + `priority < ?3 AND later >= ?4
		ORDER BY priority DESC, later, due, id
		LIMIT ?2`
	selectFurther = selectWaiting + `priority = ?3 AND later > ?4
		ORDER BY later, due, id
		LIMIT ?2`
)

// aboveAll is more than any Priority.
const aboveAll = math.MaxInt32 + 1

func (t *taking) take(ctx context.Context, tx *sql.Tx, hosts []string) (err error) {
	t.lower, err = tx.PrepareContext(ctx, selectLower)
	if err != nil {
		return err
	}
	defer t.lower.Close()
	t.further, err = tx.PrepareContext(ctx, selectFurther)
	if err != nil {
		return err
	}
	defer t.further.Close()
	for _, host := range hosts {
		if err := t.takeOf(ctx, host); err != nil {
			return err
		}
	}
	return t.straighten(ctx, tx)
}

// straighten gives rows their own hashes. Done would never find one that somebody has put into the
// file with another hash, and its URL would be asked for without end.
func (t *taking) straighten(ctx context.Context, tx *sql.Tx) error {
	for id, hash := range t.crooked {
		if _, err := tx.ExecContext(ctx, "UPDATE url SET hash = ? WHERE id = ?", hash, id); err != nil {
			return err
		}
	}
	return nil
}

// A level is the URLs of a host with one Priority that are postponed alike.
type level struct {
	priority int64 // 32 bits are too few for aboveAll
	later    int
}

// takeOf takes requests of a host.
func (t *taking) takeOf(ctx context.Context, host string) error {
	left := t.number
	query := t.lower
	at := level{priority: aboveAll}
	for {
		met, ok, err := t.read(ctx, query, host, at, &left)
		switch {
		case err != nil, left == 0:
			return err
		case ok:
			at = met
			query = t.further
		case query == t.further:
			query = t.lower
		default:
			return nil
		}
	}
}

// read takes at most left requests of a host that come after the level at, until one isn't due. It
// returns the level of that one. ok is false if there is none.
func (t *taking) read(
	ctx context.Context, query *sql.Stmt, host string, at level, left *int,
) (met level, ok bool, err error) {
	lent := t.q.lent[host]
	// The file doesn't know which are lent. If these come first, the others come after them.
	later := t.least
	if query == t.further {
		later = max(at.later, t.least-1)
	}
	rows, err := query.QueryContext(ctx, host, *left+len(lent), at.priority, later)
	if err != nil {
		return level{}, false, err
	}
	defer rows.Close()
	for *left > 0 && rows.Next() {
		r := crawl.Request{Host: host}
		var id, due int64
		var hash any // whatever a row of somebody else has there
		err := rows.Scan(&id, &hash, &r.URL, &r.Via, &r.Hops, &r.Depth, &r.Priority, &r.From, &r.Data, &r.State,
			&r.Mark, &r.Later, &due)
		switch {
		case err != nil:
			return level{}, false, err
		case due > t.now:
			return level{int64(r.Priority), r.Later}, true, nil
		}
		r.State = crawl.LentState(r.State, time.Unix(due, 0)) // Again may have made it due
		if own := hashOf(r.URL); hash != own {
			t.crooked[id] = own
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
		*left--
	}
	return level{}, false, rows.Err()
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
	err := q.in(ctx, func(tx *sql.Tx) error { return end(ctx, tx, results, q.now()) })
	if err != nil {
		return wrap(err)
	}
	for _, r := range results { // also those that are Left: they wait in the file already
		q.unlend(r.Request)
	}
	return nil
}

// end stores the outcomes of URLs and when they are due again, and how far those that are Left are
// postponed.
func end(ctx context.Context, tx *sql.Tx, results []crawl.Result, now int64) error {
	update, err := tx.PrepareContext(ctx, `
		UPDATE url SET outcome = ?, status = ?, due = ?, page = ?, later = 0
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
		var due sql.Null[int64]
		if !r.Again.IsZero() {
			due = sql.Null[int64]{V: roundedUp(r.Again), Valid: true}
		}
		var host int64
		row := update.QueryRowContext(ctx, outcome, null(r.Status), due, blob(r.State), hashOf(r.URL), r.URL)
		err := row.Scan(&host)
		switch {
		case err == nil:
			hosts[host] = true
		case !errors.Is(err, sql.ErrNoRows): // without a row it has an outcome, or was never added
			return err
		}
	}
	return renew(ctx, tx, hosts, now)
}

// renew sets the first due times of hosts.
func renew(ctx context.Context, tx *sql.Tx, hosts map[int64]bool, now int64) error {
	for host := range hosts {
		if _, err := tx.ExecContext(ctx, renewHost, host, now); err != nil {
			return err
		}
	}
	return nil
}

// renewHost sets the due time of the first URL of a host. If the first one in the order of lending
// is due, its time will do. Else it is the least of the first ones of all levels: first has their
// rows, each found by a seek.
const renewHost = `
	WITH RECURSIVE first(id) AS (
		SELECT (
			SELECT id FROM url
			WHERE host = ?1 AND due IS NOT NULL
			ORDER BY priority DESC, later, due, id
			LIMIT 1)
		UNION ALL
		SELECT coalesce(
			(SELECT id FROM url
			WHERE host = ?1 AND due IS NOT NULL AND priority = f.priority AND later > f.later
			ORDER BY later, due, id
			LIMIT 1),
			(SELECT id FROM url
			WHERE host = ?1 AND due IS NOT NULL AND priority < f.priority
			ORDER BY priority DESC, later, due, id
			LIMIT 1))
		FROM first JOIN url AS f ON f.id = first.id
		WHERE f.due > ?2
	)
	UPDATE host SET next = (SELECT min(due) FROM first JOIN url ON url.id = first.id)
	WHERE id = ?1`

// Hosts implements crawl.Queue. The Queue is never open, because no other program can add to it.
func (q *Queue) Hosts(ctx context.Context, n int) (hosts []string, open bool, err error) {
	if n == 0 {
		return nil, false, nil
	}
	rows, err := q.db.QueryContext(ctx, "SELECT name FROM host WHERE next <= ? ORDER BY next", q.now())
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

// Next implements crawl.Recurring.
func (q *Queue) Next(ctx context.Context) (time.Time, error) {
	var next sql.Null[int64]
	err := q.db.QueryRowContext(ctx, "SELECT min(next) FROM host WHERE next > ?", q.now()).Scan(&next)
	if err != nil || !next.Valid {
		return time.Time{}, wrap(err)
	}
	return time.Unix(next.V, 0), nil
}

// Again makes the URLs due at a time whose last outcome is one of the given, and returns their
// number. Without outcomes it is all that were asked for. Call it between two crawls to fetch URLs
// that Failed again, to begin with revisits in a file of a crawl without them, or if a clock was
// wrong. The memory of a page stays, so that it is fetched conditionally. Minding Schedule.Min is
// left to the crawl.
func (q *Queue) Again(ctx context.Context, at time.Time, outcomes ...crawl.Outcome) (n int, err error) {
	which := "outcome IS NOT NULL"
	args := []any{at.Unix()}
	if len(outcomes) > 0 {
		which = "outcome IN (" + strings.TrimSuffix(strings.Repeat("?, ", len(outcomes)), ", ") + ")"
		for _, o := range outcomes {
			args = append(args, o)
		}
	}
	err = q.in(ctx, func(tx *sql.Tx) error {
		// Not RETURNING host: SQLite would keep all these rows in memory.
		updated, err := tx.ExecContext(ctx, "UPDATE url SET due = ? WHERE "+which, args...)
		if err != nil {
			return err
		}
		number, err := updated.RowsAffected()
		if err != nil {
			return err
		}
		n = int(number)
		rows, err := tx.QueryContext(ctx, "SELECT id FROM host")
		if err != nil {
			return err
		}
		defer rows.Close()
		hosts := make(map[int64]bool)
		for rows.Next() {
			var host int64
			if err := rows.Scan(&host); err != nil {
				return err
			}
			hosts[host] = true
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return renew(ctx, tx, hosts, q.now())
	})
	return n, wrap(err)
}

// Remembers reports whether the file has pages that are to be fetched again, as a crawl with
// crawl.Config.Revisit has left them. Use it to decide between a new crawl and a revisit.
func (q *Queue) Remembers(ctx context.Context) (remembers bool, err error) {
	err = q.db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM url WHERE page IS NOT NULL)").Scan(&remembers)
	return remembers, wrap(err)
}

// Waiting returns the number of URLs that are waiting or lent. After a crawl, these are the URLs
// that it left. URLs that are due at a later time don't count. It reads an index of all of them.
// Use it to decide whether a crawl has to be resumed.
func (q *Queue) Waiting(ctx context.Context) (n int, err error) {
	err = q.db.QueryRowContext(ctx, "SELECT count(*) FROM url WHERE due <= ?", q.now()).Scan(&n)
	return n, wrap(err)
}

// Clear forgets all URLs, even those that are done. The next crawl begins anew. Call it to begin a
// crawl again from its start URLs.
func (q *Queue) Clear(ctx context.Context) error {
	clear(q.lent)
	return wrap(q.in(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM url; DELETE FROM host")
		return err
	}))
}
