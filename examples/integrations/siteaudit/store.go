package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // registers "sqlite"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/examples/internal/reach"
)

// schema makes the tables. A URL waits for a worker, is lent to one, or is done. The column outcome
// has its result.
const schema = `
CREATE TABLE IF NOT EXISTS audit (id TEXT NOT NULL); -- one row
CREATE TABLE IF NOT EXISTS spent ( -- one row
	pages   INTEGER NOT NULL,
	bytes   INTEGER NOT NULL,
	started INTEGER NOT NULL          -- in microseconds; 0: not yet
);
CREATE TABLE IF NOT EXISTS sites (url TEXT PRIMARY KEY); -- that people named
CREATE TABLE IF NOT EXISTS pages (
	number       INTEGER PRIMARY KEY, -- in which URLs were found
	url          TEXT NOT NULL UNIQUE,
	host         TEXT NOT NULL,       -- key by which its turns are counted
	source       TEXT NOT NULL,       -- sitemap, crawl or redirect
	parent       TEXT NOT NULL,       -- URL of the page with the link here
	data         TEXT NOT NULL,       -- crawl.Request.Data
	via          TEXT NOT NULL,       -- URL that redirects here
	hops         INTEGER NOT NULL,
	state        TEXT NOT NULL,       -- waiting, lent, done, or over budget: it waits for a larger one
	worker       TEXT NOT NULL,       -- that it is lent to, or that has done it
	alive        INTEGER NOT NULL,    -- last sign of that worker, Unix time
	verdict      TEXT,                -- evidence of robots.txt, JSON: written before the fetch
	outcome      TEXT,                -- visited, disallowed, refused, failed ...
	status       INTEGER,             -- of the answer
	bytes        INTEGER,             -- of its body
	content_type TEXT,
	sha256       TEXT,                -- of its body
	title        TEXT,
	directives   TEXT,                -- what the page asks of crawlers: noindex, nofollow
	fetched      TEXT,                -- RFC 3339, UTC
	error        TEXT
);
CREATE INDEX IF NOT EXISTS pages_by_host ON pages (host, state, number);
`

// lost is how long a worker may show no sign of life. After that, the URLs that were lent to it
// wait again.
const lost = time.Minute

// A store is the database of an audit. For a worker it is the crawl.Queue, too: several workers may
// take their URLs from one file.
type store struct {
	db     *sql.DB
	worker string

	mu      sync.Mutex
	results map[string]*result // by URL: visited, and not written yet
	err     error              // why evidence could not be written; nothing is fetched after it
}

// A result has the data of a page that an audit keeps.
type result struct {
	bytes       int
	contentType string
	sha256      string
	title       string
	directives  string
	fetched     time.Time
}

// openStore opens the file. If create is set, it makes one that only its owner can read.
func openStore(ctx context.Context, file string, create bool) (*store, error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(file, flags, 0o600)
	if errors.Is(err, os.ErrNotExist) && !create {
		return nil, fmt.Errorf("-db: %w: run discovery first", err)
	}
	if err != nil {
		return nil, fmt.Errorf("-db: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+file+
		"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	s := &store{db: db, worker: rand.Text()[:12], results: make(map[string]*result)}
	err = s.in(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO spent SELECT 0, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM spent)")
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx,
			"INSERT INTO audit (id) SELECT ? WHERE NOT EXISTS (SELECT 1 FROM audit)", rand.Text())
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", file, err), db.Close())
	}
	return s, nil
}

// Close gives back the URLs that are lent, and closes the file.
func (s *store) Close() error {
	_, err := s.db.ExecContext(context.Background(),
		"UPDATE pages SET state = 'waiting' WHERE state = 'lent' AND worker = ?", s.worker)
	return errors.Join(err, s.db.Close())
}

// in runs f in a transaction.
func (s *store) in(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// in is the method of this name for an f with a result.
func in[T any](ctx context.Context, s *store, f func(tx *sql.Tx) (T, error)) (T, error) {
	var value T
	err := s.in(ctx, func(tx *sql.Tx) (err error) {
		value, err = f(tx)
		return err
	})
	return value, err
}

// budgetLeft makes the URLs wait again that a smaller budget has left; budgetSpent marks the
// waiting URLs as over budget, and returns their number.
func (s *store) budgetLeft(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, "UPDATE pages SET state = 'waiting' WHERE state = 'over budget'")
	return err
}

func (s *store) budgetSpent(ctx context.Context) (int, error) {
	return in(ctx, s, func(tx *sql.Tx) (n int, err error) {
		_, err = tx.ExecContext(ctx, "UPDATE pages SET state = 'over budget' WHERE state = 'waiting'")
		if err != nil {
			return 0, err
		}
		err = tx.QueryRowContext(ctx, "SELECT count(*) FROM pages WHERE state = 'over budget'").Scan(&n)
		return n, err
	})
}

// id names the audit: the workers of one database spend one budget.
func (s *store) id(ctx context.Context) (id string, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT id FROM audit").Scan(&id)
	return id, err
}

// sites notes the sites of the audit.
func (s *store) sites(ctx context.Context, urls []string) error {
	return s.in(ctx, func(tx *sql.Tx) error {
		for _, u := range urls {
			_, err := tx.ExecContext(ctx, "INSERT INTO sites (url) VALUES (?) ON CONFLICT DO NOTHING", u)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// base returns the transport of a worker. It connects to public addresses only, unless the user has
// named a site on a private one.
func (s *store) base(ctx context.Context) (http.RoundTripper, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT url FROM sites")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	urls := []string{"https://example.com"} // no site: nothing is one's own
	for rows.Next() {
		var u string
		if err := rows.Scan(&u); err != nil {
			return nil, err
		}
		urls = append(urls, u)
	}
	return reach.Base(urls), rows.Err()
}

// count returns how many URLs there are that count towards MAX_PAGES: those to which redirects led
// don't, as they are found by the worker.
func count(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) (n int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM pages WHERE source <> 'redirect'").Scan(&n)
	return n, err
}

// An inserted is the result of insert.
type inserted struct {
	added int  // number of URLs that were new
	room  bool // there may be more
}

// insert takes in URLs that aren't known, until there are most of them; 0: any number.
func (s *store) insert(ctx context.Context, source string, reqs []crawl.Request, most int64) (inserted, error) {
	return in(ctx, s, func(tx *sql.Tx) (inserted, error) {
		n, err := count(ctx, tx)
		if err != nil {
			return inserted{}, err
		}
		added := 0
		for _, r := range reqs {
			if most > 0 && n+int64(added) >= most {
				break
			}
			res, err := tx.ExecContext(ctx, `
				INSERT INTO pages (url, host, source, parent, data, via, hops, state, worker, alive)
				VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting', '', 0)
				ON CONFLICT (url) DO NOTHING`, r.URL, r.Host, source, r.From, r.Data, r.Via, r.Hops)
			if err != nil {
				return inserted{}, fmt.Errorf("%s: %w", r.URL, err)
			}
			rows, err := res.RowsAffected()
			if err != nil {
				return inserted{}, err
			}
			added += int(rows)
		}
		return inserted{added: added, room: most == 0 || n+int64(added) < most}, nil
	})
}

// Add implements crawl.Queue: a worker finds redirects only.
func (s *store) Add(ctx context.Context, reqs []crawl.Request) (added, noRoom int, err error) {
	got, err := s.insert(ctx, "redirect", reqs, 0)
	return got.added, 0, err
}

// Take implements crawl.Queue.
func (s *store) Take(ctx context.Context, hosts []string, n int) ([]crawl.Request, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	return in(ctx, s, func(tx *sql.Tx) (taken []crawl.Request, err error) {
		if err := s.reclaim(ctx, tx); err != nil {
			return nil, err
		}
		for _, host := range hosts {
			reqs, err := s.takeOf(ctx, tx, host, n)
			if err != nil {
				return nil, err
			}
			taken = append(taken, reqs...)
		}
		return taken, nil
	})
}

// takeOf lends at most n requests of a host.
func (s *store) takeOf(ctx context.Context, tx *sql.Tx, host string, n int) (taken []crawl.Request, err error) {
	rows, err := tx.QueryContext(ctx, `
		UPDATE pages SET state = 'lent', worker = ?, alive = ?
		WHERE number IN
			(SELECT number FROM pages WHERE host = ? AND state = 'waiting' ORDER BY number LIMIT ?)
		RETURNING url, host, parent, data, via, hops`, s.worker, time.Now().Unix(), host, n)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r crawl.Request
		if err := rows.Scan(&r.URL, &r.Host, &r.From, &r.Data, &r.Via, &r.Hops); err != nil {
			return nil, err
		}
		taken = append(taken, r)
	}
	return taken, rows.Err()
}

// reclaim makes URLs wait again that were lent to workers of which nothing was heard for long.
func (s *store) reclaim(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE pages SET state = 'waiting'
		WHERE state = 'lent' AND worker <> ? AND alive < ?`, s.worker, time.Now().Add(-lost).Unix())
	return err
}

// live shows the other workers that this one is alive, until ctx is done.
func (s *store) live(ctx context.Context) error {
	tick := time.NewTicker(lost / 6)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		_, err := s.db.ExecContext(ctx,
			"UPDATE pages SET alive = ? WHERE state = 'lent' AND worker = ?", time.Now().Unix(), s.worker)
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// visited keeps the result of a visit. Done writes it.
func (s *store) visited(url string, r *result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[url] = r
}

func (s *store) take(url string) *result {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.results[url]
	delete(s.results, url)
	return r
}

// Done implements crawl.Queue. A URL that another worker holds by now is left to that.
func (s *store) Done(ctx context.Context, results []crawl.Result) error {
	if err := s.Err(); err != nil {
		return err // the URLs that were lent wait again
	}
	return s.in(ctx, func(tx *sql.Tx) error {
		for _, r := range results {
			if err := s.end(ctx, tx, r); err != nil {
				return fmt.Errorf("%s: %w", r.Request.URL, err)
			}
		}
		return nil
	})
}

// end writes a result.
func (s *store) end(ctx context.Context, tx *sql.Tx, r crawl.Result) error {
	found := s.take(r.Request.URL)
	if found == nil {
		found = new(result)
	}
	state := "done"
	outcome := null(string(r.Outcome))
	switch r.Outcome {
	case crawl.Left:
		state = "waiting"
		outcome = null("")
	case crawl.OverBudget:
		state = "over budget"
		outcome = null("")
	}
	failure := ""
	if r.Err != nil {
		failure = r.Err.Error()
	}
	fetched := ""
	if !found.fetched.IsZero() {
		fetched = found.fetched.UTC().Format(time.RFC3339Nano)
	}
	size := sql.Null[int]{V: found.bytes, Valid: fetched != ""} // 0 of an empty page
	_, err := tx.ExecContext(ctx, `
		UPDATE pages SET
			state = ?, outcome = ?, status = ?, bytes = ?, content_type = ?,
			sha256 = ?, title = ?, directives = ?, fetched = ?, error = ?
		WHERE url = ? AND state = 'lent' AND worker = ?`,
		state, outcome, null(r.Status), size, null(found.contentType),
		null(found.sha256), null(found.title), null(found.directives), null(fetched), null(failure),
		r.Request.URL, s.worker)
	return err
}

// null is NULL for a zero value.
func null[T comparable](v T) sql.Null[T] { return sql.Null[T]{V: v, Valid: v != *new(T)} }

// Hosts implements crawl.Queue. The URLs of a worker that was killed wait again within a minute.
func (s *store) Hosts(ctx context.Context, n int) (hosts []string, open bool, err error) {
	got, err := in(ctx, s, func(tx *sql.Tx) (waiting, error) { return s.waiting(ctx, tx, n) })
	return got.hosts, got.open, err
}

// A waiting is the answer of Hosts.
type waiting struct {
	hosts []string
	open  bool
}

func (s *store) waiting(ctx context.Context, tx *sql.Tx, n int) (waiting, error) {
	if err := s.reclaim(ctx, tx); err != nil {
		return waiting{}, err
	}
	var lent int // to others
	err := tx.QueryRowContext(ctx,
		"SELECT count(*) FROM pages WHERE state = 'lent' AND worker <> ?", s.worker).Scan(&lent)
	if err != nil {
		return waiting{}, err
	}
	rows, err := tx.QueryContext(ctx, `
		SELECT DISTINCT host FROM pages
		WHERE state = 'waiting' AND host NOT IN (SELECT host FROM pages WHERE state = 'lent' AND worker = ?)
		LIMIT ?`, s.worker, n)
	if err != nil {
		return waiting{}, err
	}
	defer rows.Close()
	got := waiting{open: lent > 0}
	for rows.Next() {
		var host string
		if err := rows.Scan(&host); err != nil {
			return waiting{}, err
		}
		got.hosts = append(got.hosts, host)
	}
	return got, rows.Err()
}

// Record implements evidence.Evidence: the verdict of robots.txt on a page is in the database
// before the page is asked for.
func (s *store) Record(ctx context.Context, d evidence.Decision) {
	isVerdict := d.Type == evidence.RobotsAllowed || d.Type == evidence.BlockedByRobots
	isPage := d.Trip != 0 && !d.RobotsTxt
	if !isVerdict || !isPage {
		return
	}
	_, err := s.db.ExecContext(context.WithoutCancel(ctx),
		"UPDATE pages SET verdict = ? WHERE url = ?", string(d.AppendJSON(nil)), d.URL)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("evidence: %w", err)
	}
}

// Err returns why evidence could not be written, nil if all was.
func (s *store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// show prints the database.
func (s *store) show(ctx context.Context, out io.Writer) error {
	rows, err := s.db.QueryContext(ctx, `
		SELECT url, source, coalesce(outcome, state), coalesce(status, '-'), coalesce(bytes, 0),
			coalesce(title, ''), coalesce(directives, ''), coalesce(error, ''),
			coalesce(verdict ->> 'matchedRule', ''), coalesce(verdict ->> 'line', 0),
			coalesce(verdict ->> 'confidence', '')
		FROM pages
		ORDER BY number`)
	if err != nil {
		return err
	}
	defer rows.Close()
	fmt.Fprintf(out, "%-10s %6s %8s %-8s %s\n", "outcome", "status", "bytes", "source", "url")
	counts := make(map[string]int)
	var order []string
	for rows.Next() {
		var r shown
		err := rows.Scan(&r.url, &r.source, &r.outcome, &r.status, &r.bytes,
			&r.title, &r.directives, &r.failure, &r.rule, &r.line, &r.confidence)
		if err != nil {
			return err
		}
		if counts[r.outcome] == 0 {
			order = append(order, r.outcome)
		}
		counts[r.outcome]++
		r.print(out)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	var totals []string
	for _, outcome := range order {
		totals = append(totals, fmt.Sprintf("%d %s", counts[outcome], outcome))
	}
	_, err = fmt.Fprintln(out, "total:", strings.Join(totals, ", "))
	return err
}

// A shown is a row of show.
type shown struct {
	url        string
	source     string
	outcome    string
	status     string
	bytes      int
	title      string
	directives string
	failure    string
	rule       string // of robots.txt
	line       int    // of the rule
	confidence string
}

func (r shown) print(out io.Writer) {
	fmt.Fprintf(out, "%-10s %6s %8d %-8s %s", r.outcome, r.status, r.bytes, r.source, r.url)
	for _, more := range []struct{ name, value string }{
		{"title", r.title},
		{"directives", r.directives},
		{fmt.Sprintf("robots.txt line %d", r.line), r.rule},
		{"confidence", r.confidence},
		{"error", r.failure},
	} {
		if more.value != "" {
			fmt.Fprintf(out, "  %s: %q", more.name, more.value)
		}
	}
	fmt.Fprintln(out)
}
