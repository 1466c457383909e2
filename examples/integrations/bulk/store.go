package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness/crawl/sitemap"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A page is a row of the table of results.
type page struct {
	URL          string
	SURT         string
	Status       int // 0: NULL
	Body         []byte
	ContentType  string
	CrawlTime    time.Time
	ServerDate   time.Time
	Error        string
	ETag         string
	LastModified string
	Hash         string
	FinalURL     string
	Redirects    int
	Directives   string
}

// The columns of a page; the first five are the same for one that failed.
const columns = `url, surt_key, http_status, crawl_time, error, body, content_type, server_date,
	etag, last_modified, content_hash, final_url, redirect_count, directives`

// schema makes the tables: %[1]s is the table of results, and %[1]s_discovered has what sitemaps
// list.
const schema = `
CREATE TABLE IF NOT EXISTS %[1]s (
	url            TEXT PRIMARY KEY,
	surt_key       TEXT NOT NULL,
	http_status    INTEGER,             -- NULL: no response, see error
	body           BLOB,                -- NULL: none, or not to be kept
	content_type   TEXT,
	crawl_time     TIMESTAMP NOT NULL,  -- UTC, by our clock
	server_date    TIMESTAMP,           -- UTC, by the server's clock
	error          TEXT,                -- NULL: none
	etag           TEXT,
	last_modified  TEXT,
	content_hash   TEXT,                -- SHA-256 of body, hex
	final_url      TEXT,
	redirect_count INTEGER,
	directives     TEXT                 -- what the page asks of crawlers: noindex, nofollow
);
CREATE TABLE IF NOT EXISTS %[1]s_discovered (
	url        TEXT PRIMARY KEY,
	lastmod    TIMESTAMP,          -- UTC, by the sitemap that lists the URL; NULL: it doesn't say
	changefreq TEXT,               -- always, hourly, daily, weekly, monthly, yearly or never; NULL: it doesn't say
	discovered TIMESTAMP NOT NULL  -- UTC, by our clock: when it was listed last
);
CREATE TABLE IF NOT EXISTS robots (origin TEXT PRIMARY KEY, record BLOB NOT NULL);
`

// index is for SQLite only: DuckDB scans columns, and can't change rows in an index twice in a
// transaction.
const index = `CREATE INDEX IF NOT EXISTS %[1]s_by_surt ON %[1]s (surt_key);
`

// upsert replaces rows; %[3]s are their values.
const upsert = `INSERT INTO %[1]s (` + columns + `) VALUES %[3]s
ON CONFLICT (url) DO UPDATE SET http_status = excluded.http_status, crawl_time = excluded.crawl_time,
	error = excluded.error, body = excluded.body, content_type = excluded.content_type,
	server_date = excluded.server_date, etag = excluded.etag, last_modified = excluded.last_modified,
	content_hash = excluded.content_hash, final_url = excluded.final_url,
	redirect_count = excluded.redirect_count, directives = excluded.directives`

// upsertFailure keeps the row's data of earlier runs.
const upsertFailure = `INSERT INTO %[1]s (url, surt_key, http_status, crawl_time, error) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (url) DO UPDATE SET http_status = excluded.http_status, crawl_time = excluded.crawl_time,
	error = excluded.error`

// upsertGoal writes where a URL leads. The page there is written later.
const upsertGoal = `INSERT INTO %[1]s (url, surt_key, crawl_time, final_url, redirect_count) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (url) DO UPDATE SET crawl_time = excluded.crawl_time, error = NULL,
	final_url = excluded.final_url, redirect_count = excluded.redirect_count`

// upsertRedirect writes the response of a URL that redirects.
const upsertRedirect = `INSERT INTO %[1]s (url, surt_key, http_status, crawl_time, final_url, redirect_count)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (url) DO UPDATE SET http_status = excluded.http_status, crawl_time = excluded.crawl_time, error = NULL`

// A store is the database: the results, and robots.txt.
type store struct {
	db     *sql.DB
	engine engine
	into   string // table of results
}

// openStore opens a file, and makes the tables that it lacks.
func openStore(ctx context.Context, e engine, file, into string) (_ *store, err error) {
	if err := e.private(file); err != nil {
		return nil, err
	}
	db, err := e.open(ctx, file)
	if err != nil {
		return nil, err
	}
	s := &store{db: db, engine: e, into: into}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", file, err), db.Close())
		}
	}()
	if err := s.define(ctx, schema); err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, s.sql("SELECT "+columns+" FROM %[1]s LIMIT 0")); err != nil {
		return nil, fmt.Errorf("table %s isn't one of results; name another one by -into: %w", into, err)
	}
	if e == sqlite {
		err = s.define(ctx, index)
	}
	return s, err
}

// define does statements that make something.
func (s *store) define(ctx context.Context, statements string) error {
	for statement := range strings.SplitSeq(strings.TrimSpace(statements), ";\n") {
		if _, err := s.db.ExecContext(ctx, s.sql(statement)); err != nil {
			return err
		}
	}
	return nil
}

// sql puts the name of the table into a statement.
func (s *store) sql(statement string) string {
	return strings.ReplaceAll(statement, "%[1]s", s.into)
}

// strings returns the rows of a query that has one column, of texts.
func (s *store) strings(ctx context.Context, query string, args ...any) (all []string, err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}

// Close closes the file.
func (s *store) Close() error { return s.db.Close() }

// in does f in one transaction. It isn't cut off by the end of a crawl: what was fetched is kept.
func (s *store) in(ctx context.Context, f func(ctx context.Context, tx *sql.Tx) error) error {
	ctx = context.WithoutCancel(ctx)
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(ctx, tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// chunk is how many rows one statement writes at most. For DuckDB a statement is expensive, not a
// row.
const chunk = 200

// values are the places of n rows of some columns in a statement.
func values(n, columns int) string {
	row := "(" + strings.TrimSuffix(strings.Repeat("?, ", columns), ", ") + ")"
	return strings.TrimSuffix(strings.Repeat(row+", ", n), ", ")
}

// write replaces the rows of pages.
func (s *store) write(ctx context.Context, tx *sql.Tx, pages []*page) error {
	for some := range slices.Chunk(pages, chunk) {
		var args []any
		for _, p := range some {
			var body any // NULL, which a nil []byte isn't for DuckDB
			if p.Body != nil {
				body = p.Body
			}
			args = append(args, p.URL, p.SURT, orNull(p.Status), s.engine.timestamp(p.CrawlTime),
				orNull(p.Error), body, orNull(p.ContentType), s.engine.timestamp(p.ServerDate), orNull(p.ETag),
				orNull(p.LastModified), orNull(p.Hash), orNull(p.FinalURL), p.Redirects, orNull(p.Directives))
		}
		statement := strings.ReplaceAll(s.sql(upsert), "%[3]s", values(len(some), 14))
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
			return err
		}
	}
	return nil
}

// discovered writes the entries of sitemaps, whether or not their URLs are fetched.
func (s *store) discovered(ctx context.Context, entries []sitemap.Entry) error {
	last := make(map[string]sitemap.Entry, len(entries)) // a statement can't change a row twice
	for _, e := range entries {
		last[e.Loc] = e
	}
	urls := slices.Sorted(maps.Keys(last))
	now := s.engine.timestamp(time.Now())
	return s.in(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for some := range slices.Chunk(urls, chunk) {
			var args []any
			for _, u := range some {
				args = append(args, u, s.engine.timestamp(last[u].LastMod), orNull(last[u].ChangeFreq), now)
			}
			_, err := tx.ExecContext(ctx, s.sql(`INSERT INTO %[1]s_discovered (url, lastmod, changefreq, discovered)
				VALUES `+values(len(some), 4)+` ON CONFLICT (url) DO UPDATE SET lastmod = excluded.lastmod,
				changefreq = excluded.changefreq, discovered = excluded.discovered`), args...)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// fail writes that a page couldn't be fetched.
func (s *store) fail(ctx context.Context, tx *sql.Tx, p *page) error {
	at := s.engine.timestamp(p.CrawlTime)
	_, err := tx.ExecContext(ctx, s.sql(upsertFailure), p.URL, p.SURT, orNull(p.Status), at, p.Error)
	return err
}

// Page returns the stored page of a URL, nil if there is none.
func (s *store) Page(ctx context.Context, url string) (*page, error) {
	p := new(page)
	var status, redirects sql.Null[int64]
	var contentType, failure, etag, modified, hash, final, directives sql.Null[string]
	var date sql.Null[time.Time]
	err := s.db.QueryRowContext(ctx, s.sql("SELECT "+columns+" FROM %[1]s WHERE url = ?"), url).
		Scan(&p.URL, &p.SURT, &status, &p.CrawlTime, &failure, &p.Body, &contentType, &date,
			&etag, &modified, &hash, &final, &redirects, &directives)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	p.Status = int(status.V)
	p.Redirects = int(redirects.V)
	p.ContentType = contentType.V
	p.Error = failure.V
	p.ETag = etag.V
	p.LastModified = modified.V
	p.Hash = hash.V
	p.FinalURL = final.V
	p.Directives = directives.V
	p.ServerDate = date.V
	return p, nil
}

// last returns the last outcome of a URL, with its time; nil if there is none.
func (s *store) last(ctx context.Context, url string) (*page, error) {
	p := &page{URL: url}
	var status sql.Null[int64]
	query := s.sql("SELECT http_status, crawl_time FROM %[1]s WHERE url = ?")
	err := s.db.QueryRowContext(ctx, query, url).Scan(&status, &p.CrawlTime)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	p.Status = int(status.V)
	return p, err
}

// failed reports whether the last try to get the page failed in a way that may be over.
func (p *page) failed() bool { return p.Status == 0 || p.Status == 429 || p.Status >= 500 }

// query returns the first column of the user's query, and undoes any changes that the query makes.
func (s *store) query(ctx context.Context, query string) (urls []string, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("-query: %w", err)
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("-query: %w", err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, fmt.Errorf("-query: %w", err)
	}
	if len(names) != 1 {
		return nil, fmt.Errorf("-query returns %d columns: select one, of URLs", len(names))
	}
	for rows.Next() {
		var url sql.Null[string]
		if err := rows.Scan(&url); err != nil {
			return nil, fmt.Errorf("-query: %w", err)
		}
		if url.Valid {
			urls = append(urls, url.V)
		}
	}
	return urls, rows.Err()
}

// Load implements robotscache.Store: robots.txt is kept in the same file.
func (s *store) Load(ctx context.Context, origin string) (r robotscache.Record, ok bool, err error) {
	var text []byte
	err = s.db.QueryRowContext(ctx, `SELECT record FROM robots WHERE origin = ?`, origin).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return r, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err == nil, err
}

// Save implements robotscache.Store.
func (s *store) Save(ctx context.Context, origin string, r robotscache.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = s.db.ExecContext(ctx, `INSERT INTO robots (origin, record) VALUES (?, ?)
		ON CONFLICT (origin) DO UPDATE SET record = excluded.record`, origin, text)
	return err
}

// Lock implements robotscache.Store. No other process crawls with this file.
func (s *store) Lock(context.Context, string) (unlock func(), err error) { return func() {}, nil }

// show prints the table after a crawl.
func show(ctx context.Context, out io.Writer, o options) (err error) {
	s, err := openStore(ctx, o.engine, o.db, o.into)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	rows, err := s.db.QueryContext(ctx, s.sql(`
		SELECT surt_key, coalesce(http_status, 0), coalesce(octet_length(body), 0),
			coalesce(redirect_count, 0), coalesce(directives, ''), coalesce(error, '')
		FROM %[1]s
		ORDER BY surt_key`))
	if err != nil {
		return err
	}
	defer rows.Close()
	fmt.Fprintf(out, "%-40s %6s %6s %4s  %s\n", "surt_key", "status", "bytes", "hops", "directives, error")
	for rows.Next() {
		var key, directives, failure string
		var status, size, hops int
		if err := rows.Scan(&key, &status, &size, &hops, &directives, &failure); err != nil {
			return err
		}
		fmt.Fprintf(out, "%-40s %6d %6d %4d  %s%s\n", key, status, size, hops, directives, failure)
	}
	return rows.Err()
}
