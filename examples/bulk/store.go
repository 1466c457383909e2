package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	_ "modernc.org/sqlite" // registers "sqlite"

	"github.com/go-politeness/politeness/robots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

const schema = `
CREATE TABLE IF NOT EXISTS pages (
	url            TEXT PRIMARY KEY,
	surt_key       TEXT NOT NULL,
	http_status    INTEGER,          -- NULL: no answer, see error
	body           BLOB,             -- NULL: none, or not to be kept
	content_type   TEXT,
	crawl_time     TEXT NOT NULL,    -- RFC 3339, UTC
	error          TEXT,             -- NULL: none
	etag           TEXT,
	last_modified  TEXT,
	content_hash   TEXT,             -- SHA-256 of body, hex
	final_url      TEXT,
	redirect_count INTEGER NOT NULL,
	directives     TEXT              -- what the page asks of crawlers: noindex, nofollow
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS pages_by_surt ON pages (surt_key);
CREATE TABLE IF NOT EXISTS robots (origin TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
`

const upsert = `
INSERT INTO pages (url, surt_key, http_status, body, content_type, crawl_time, error,
	etag, last_modified, content_hash, final_url, redirect_count, directives)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (url) DO UPDATE SET surt_key = excluded.surt_key, http_status = excluded.http_status,
	body = excluded.body, content_type = excluded.content_type, crawl_time = excluded.crawl_time,
	error = excluded.error, etag = excluded.etag, last_modified = excluded.last_modified,
	content_hash = excluded.content_hash, final_url = excluded.final_url,
	redirect_count = excluded.redirect_count, directives = excluded.directives`

// A page is a row of the table pages.
type page struct {
	URL          string
	SURT         string
	Status       int // 0: NULL
	Body         []byte
	ContentType  string
	CrawlTime    time.Time
	Error        string
	ETag         string
	LastModified string
	Hash         string
	FinalURL     string
	Redirects    int
	Directives   string
	NoFollow     bool // of Directives
}

// due reports whether p is stale, or a failure that may be over.
func (p *page) due(maxAge time.Duration) bool {
	failed := p.Status == 0 || p.Status == 429 || p.Status >= 500
	return failed || time.Since(p.CrawlTime) >= maxAge
}

// A store is the SQLite file. Its one writer writes whole batches, so that a page
// doesn't cost a sync of the disk.
type store struct {
	db    *sql.DB
	batch int
	queue chan *page
	ended chan struct{}

	mu  sync.Mutex
	err error // the first one; nothing is written after it
}

// openStore opens the file, and makes it if there is none.
func openStore(ctx context.Context, file string, batch int) (*store, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)")
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", file, err), db.Close())
	}
	s := &store{db: db, batch: batch, queue: make(chan *page, batch), ended: make(chan struct{})}
	go s.run()
	return s, nil
}

// Write hands a page to the writer.
func (s *store) Write(p *page) { s.queue <- p }

// Err returns what went wrong in writing, if anything.
func (s *store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// Close writes what is left, and closes the file.
func (s *store) Close() error {
	close(s.queue)
	<-s.ended
	return errors.Join(s.Err(), s.db.Close())
}

// batchWait is how long a result waits for its batch to fill.
const batchWait = time.Second

// run is the writer.
func (s *store) run() {
	defer close(s.ended)
	tick := time.NewTicker(batchWait)
	defer tick.Stop()
	var pages []*page
	flush := func() {
		if len(pages) == 0 || s.Err() != nil {
			return
		}
		if err := s.write(pages); err != nil {
			s.fail(err)
		}
		pages = pages[:0]
	}
	for {
		select {
		case p, ok := <-s.queue:
			if !ok {
				flush()
				return
			}
			if pages = append(pages, p); len(pages) >= s.batch {
				flush()
			}
		case <-tick.C:
			flush()
		}
	}
}

// write writes pages in one transaction. It isn't cut off by the end of a crawl:
// what was fetched is kept.
func (s *store) write(pages []*page) (err error) {
	ctx := context.Background()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	insert, err := tx.PrepareContext(ctx, upsert)
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, p := range pages {
		if _, err := insert.ExecContext(ctx, p.URL, p.SURT, null(p.Status), p.Body, null(p.ContentType),
			p.CrawlTime.UTC().Format(time.RFC3339Nano), null(p.Error), null(p.ETag), null(p.LastModified),
			null(p.Hash), null(p.FinalURL), p.Redirects, null(p.Directives)); err != nil {
			return fmt.Errorf("%s: %w", p.URL, err)
		}
	}
	return tx.Commit()
}

// null is NULL for a zero value.
func null[T comparable](v T) sql.Null[T] { return sql.Null[T]{V: v, Valid: v != *new(T)} }

// Page returns what is known of url, nil if nothing is.
func (s *store) Page(ctx context.Context, url string) (*page, error) {
	p := &page{URL: url}
	var status sql.Null[int]
	var contentType, failure, etag, modified, hash, final, directives sql.Null[string]
	var at string
	err := s.db.QueryRowContext(ctx, `SELECT surt_key, http_status, body, content_type, crawl_time, error,
		etag, last_modified, content_hash, final_url, redirect_count, directives FROM pages WHERE url = ?`, url).
		Scan(&p.SURT, &status, &p.Body, &contentType, &at, &failure, &etag, &modified, &hash, &final, &p.Redirects, &directives)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if p.CrawlTime, err = time.Parse(time.RFC3339Nano, at); err != nil {
		return nil, fmt.Errorf("%s: crawl_time: %w", url, err)
	}
	p.Status, p.ContentType, p.Error, p.ETag, p.LastModified = status.V, contentType.V, failure.V, etag.V, modified.V
	p.Hash, p.FinalURL, p.Directives = hash.V, final.V, directives.V
	p.NoFollow = robots.ParseTags([]string{p.Directives}, "").NoFollow
	return p, nil
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

// show prints what a crawl has left in the file.
func show(ctx context.Context, out io.Writer, file string) (err error) {
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	const query = `SELECT surt_key, coalesce(http_status, '-'), coalesce(length(body), 0), redirect_count,
		coalesce(directives, ''), coalesce(error, '') FROM pages ORDER BY surt_key`
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	fmt.Fprintf(out, "%-40s %6s %6s %4s  %s\n", "surt_key", "status", "bytes", "hops", "directives, error")
	for rows.Next() {
		var key, status, directives, failure string
		var size, hops int
		if err := rows.Scan(&key, &status, &size, &hops, &directives, &failure); err != nil {
			return err
		}
		fmt.Fprintf(out, "%-40s %6s %6d %4d  %s%s\n", key, status, size, hops, directives, failure)
	}
	return rows.Err()
}
