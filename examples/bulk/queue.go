package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-politeness/politeness/crawl"
)

// A queue is the crawl.Queue in the database. What became of a URL is written in the same
// transaction as that the URL is done, so a kill leaves both or neither; URLs that were lent to a
// process that was killed are still waiting for the next one. When a crawl has come to its end its
// URLs are forgotten: the next one begins anew, and asks only for what is stale.
type queue struct {
	*store
	maxAge time.Duration
	anyway bool // fresh pages are taken in as well: for their links

	next int64                          // seq of the next URL
	lent map[string]map[string]struct{} // URLs by host

	mu      sync.Mutex
	pages   map[string]*fetched // by URL: visited, and not written yet
	changed map[string]bool     // URLs that are due whatever their age, by their sitemap's word
	starts  map[string]bool     // URLs that are visited in any case, for what they lead to
	counts  [outcomes]int
}

// A fetched page is to be written; its row is nil where that stays as it is.
type fetched struct {
	row     *page
	outcome outcome
}

func newQueue(ctx context.Context, s *store) (*queue, error) {
	q := &queue{
		store: s, lent: make(map[string]map[string]struct{}), pages: make(map[string]*fetched),
		changed: make(map[string]bool), starts: make(map[string]bool),
	}
	err := s.db.QueryRowContext(ctx, s.sql("SELECT coalesce(max(seq), 0) + 1 FROM %[2]s")).Scan(&q.next)
	return q, err
}

// fresh reports whether p needs not be asked for again.
func (q *queue) fresh(p *page) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return p != nil && !p.failed() && !q.changed[p.URL] && time.Since(p.CrawlTime) < q.maxAge
}

// mark notes URLs that are due although their copies are young.
func (q *queue) mark(url string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changed[url] = true
}

// count counts what became of n URLs.
func (q *queue) count(o outcome, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counts[o] += n
}

// visited takes what a visit has made of the page of url; Done writes it.
func (q *queue) visited(url string, f *fetched) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pages[url] = f
}

// take returns what visited has taken, nil if there was no visit.
func (q *queue) take(url string) *fetched {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.pages[url]
	delete(q.pages, url)
	return f
}

// Add implements crawl.Queue.
func (q *queue) Add(ctx context.Context, reqs []crawl.Request) (added, noRoom int, err error) {
	first, fresh := q.next, 0
	err = q.in(ctx, func(ctx context.Context, tx *sql.Tx) error {
		seen := make(map[string]bool)
		var once []crawl.Request
		for _, r := range reqs {
			if !seen[r.URL] {
				seen[r.URL] = true
				once = append(once, r)
			}
			if r.Via == "" {
				continue
			}
			if _, err := tx.ExecContext(ctx, q.sql(upsertGoal), r.Via, surt(r.Via), q.engine.timestamp(time.Now()), r.URL, r.Hops); err != nil {
				return fmt.Errorf("%s: %w", r.Via, err)
			}
		}
		for some := range slices.Chunk(once, chunk) {
			inserted, err := q.insert(ctx, tx, some)
			if err != nil {
				return err
			}
			added += inserted
		}
		if q.anyway || added == 0 {
			return nil
		}
		fresh, err = affected(tx.ExecContext(ctx, q.sql(`UPDATE %[2]s SET done = 1 WHERE seq >= ? AND done = 0 AND url IN
			(SELECT url FROM %[1]s WHERE http_status <> 429 AND http_status < 500 AND crawl_time > ?)`),
			first, q.engine.timestamp(time.Now().Add(-q.maxAge))))
		if err != nil || fresh == 0 {
			return err
		}
		for _, r := range reqs {
			if !q.due(r.URL) {
				continue
			}
			n, err := affected(tx.ExecContext(ctx, q.sql(`UPDATE %[2]s SET done = 0 WHERE seq >= ? AND url = ?`), first, r.URL))
			if err != nil {
				return err
			}
			fresh -= n
		}
		return nil
	})
	if err == nil {
		q.count(outcomeFresh, max(0, fresh))
	}
	return added, 0, err
}

// due reports whether a URL is taken in however young its copy is.
func (q *queue) due(url string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed[url] || q.starts[url]
}

// insert takes in those of reqs that are new.
func (q *queue) insert(ctx context.Context, tx *sql.Tx, reqs []crawl.Request) (int, error) {
	args := make([]any, 0, 8*len(reqs))
	for _, r := range reqs {
		args = append(args, r.URL, r.Host, r.Via, r.Hops, r.Depth, r.Priority, q.next, 0)
		q.next++
	}
	return affected(tx.ExecContext(ctx, q.sql(`INSERT INTO %[2]s (url, host, via, hops, depth, priority, seq, done)
		VALUES `+values(len(reqs), 8)+` ON CONFLICT (url) DO NOTHING`), args...))
}

func affected(r sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	return int(n), err
}

// Take implements crawl.Queue. What is lent is known to this process alone.
func (q *queue) Take(ctx context.Context, hosts []string, n int) (taken []crawl.Request, err error) {
	for _, host := range hosts {
		taken, err = q.takeOf(ctx, taken, host, n)
		if err != nil {
			return nil, err
		}
	}
	return taken, nil
}

func (q *queue) takeOf(ctx context.Context, taken []crawl.Request, host string, n int) ([]crawl.Request, error) {
	lent := q.lent[host]
	if lent == nil {
		lent = make(map[string]struct{})
		q.lent[host] = lent
	}
	rows, err := q.db.QueryContext(ctx, q.sql(`SELECT url, via, hops, depth, priority FROM %[2]s
		WHERE host = ? AND done = 0 ORDER BY priority DESC, seq LIMIT ?`), host, n+len(lent))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for n > 0 && rows.Next() {
		r := crawl.Request{Host: host}
		if err := rows.Scan(&r.URL, &r.Via, &r.Hops, &r.Depth, &r.Priority); err != nil {
			return nil, err
		}
		if _, ok := lent[r.URL]; ok {
			continue
		}
		lent[r.URL] = struct{}{}
		taken = append(taken, r)
		n--
	}
	return taken, rows.Err()
}

// Done implements crawl.Queue: it writes what became of the URLs.
func (q *queue) Done(ctx context.Context, results []crawl.Result) error {
	var became []outcome
	err := q.in(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var rows []*page
		var done []any // URLs
		for _, r := range results {
			f := q.take(r.Request.URL)
			delete(q.lent[r.Request.Host], r.Request.URL)
			if len(q.lent[r.Request.Host]) == 0 {
				delete(q.lent, r.Request.Host)
			}
			if r.Outcome == crawl.Left {
				continue
			}
			row, o, err := q.settle(ctx, tx, r, f)
			if err != nil {
				return fmt.Errorf("%s: %w", r.Request.URL, err)
			}
			if row != nil {
				rows = append(rows, row)
			}
			became, done = append(became, o), append(done, r.Request.URL)
		}
		if err := q.write(ctx, tx, rows); err != nil {
			return err
		}
		for some := range slices.Chunk(done, chunk) {
			if _, err := tx.ExecContext(ctx, q.sql("UPDATE %[2]s SET done = 1 WHERE url IN "+values(1, len(some))), some...); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		for _, o := range became {
			q.count(o, 1)
		}
	}
	return err
}

// settle says what became of a URL: by a row that is to be written, or it has written what is
// known. f is what its visit has made of it, nil if there was none.
func (q *queue) settle(ctx context.Context, tx *sql.Tx, r crawl.Result, f *fetched) (*page, outcome, error) {
	row := &page{URL: r.Request.URL, SURT: surt(r.Request.URL), Status: r.Status, CrawlTime: time.Now()}
	if r.Err != nil {
		row.Error = strings.ToValidUTF8(r.Err.Error(), "?")
	}
	switch {
	case r.Outcome == crawl.Redirected || r.Outcome == crawl.NotCanonical:
		url := cmp.Or(r.Request.Via, r.Request.URL)
		_, err := tx.ExecContext(ctx, q.sql(upsertRedirect), url, surt(url), r.Status, q.engine.timestamp(time.Now()), r.Request.URL, r.Request.Hops)
		if r.Request.Via != "" {
			return nil, outcomeNone, err // it counts once, whatever the number of redirects
		}
		return nil, outcomeRedirected, err
	case f != nil && f.outcome == outcomeFailed:
		return nil, f.outcome, q.fail(ctx, tx, f.row)
	case f != nil:
		return f.row, f.outcome, nil
	case r.Outcome == crawl.Disallowed || r.Outcome == crawl.Rejected:
		return row, outcomeRefused, nil // nothing of it is kept
	}
	var answered *answeredError
	if errors.As(r.Err, &answered) {
		row.Status, row.Error = answered.status, answered.Error()
	}
	if row.Error == "" {
		row.Error = string(r.Outcome)
	}
	return nil, outcomeFailed, q.fail(ctx, tx, row)
}

// Hosts implements crawl.Queue.
func (q *queue) Hosts(ctx context.Context, n int) (hosts []string, open bool, err error) {
	rows, err := q.db.QueryContext(ctx, q.sql("SELECT DISTINCT host FROM %[2]s WHERE done = 0"))
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for len(hosts) < n && rows.Next() {
		var host string
		if err := rows.Scan(&host); err != nil {
			return nil, false, err
		}
		if q.lent[host] == nil {
			hosts = append(hosts, host)
		}
	}
	return hosts, false, rows.Err()
}

// left is how many URLs are still to be fetched.
func (q *queue) left(ctx context.Context) (n int, err error) {
	err = q.db.QueryRowContext(ctx, q.sql("SELECT count(*) FROM %[2]s WHERE done = 0")).Scan(&n)
	return n, err
}

// A URL that leads to another one gets the rest of its row from there, when both are known.
const (
	shorten = `UPDATE %[1]s AS p SET final_url = t.final_url, redirect_count = p.redirect_count + t.redirect_count
		FROM %[1]s AS t WHERE p.final_url = t.url AND p.url <> t.url AND p.redirect_count > 0 AND t.redirect_count > 0
		AND t.final_url <> p.url AND t.final_url <> t.url`
	fill = `UPDATE %[1]s AS p SET http_status = t.http_status, error = t.error, body = t.body, content_type = t.content_type,
		server_date = t.server_date, etag = t.etag, last_modified = t.last_modified, content_hash = t.content_hash, directives = t.directives
		FROM %[1]s AS t WHERE p.final_url = t.url AND p.url <> t.url AND p.redirect_count > 0 AND t.redirect_count = 0
		AND (p.http_status IS DISTINCT FROM t.http_status OR p.content_hash IS DISTINCT FROM t.content_hash)`
)

// finish ends a run: it completes the rows of redirects, and if nothing is left forgets the URLs.
func (q *queue) finish(ctx context.Context) (left int, err error) {
	ctx = context.WithoutCancel(ctx)
	for range 10 {
		n, err := affected(q.db.ExecContext(ctx, q.sql(shorten)))
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break
		}
	}
	if _, err := q.db.ExecContext(ctx, q.sql(fill)); err != nil {
		return 0, err
	}
	if left, err = q.left(ctx); err != nil || left > 0 {
		return left, err
	}
	_, err = q.db.ExecContext(ctx, q.sql("DELETE FROM %[2]s"))
	return 0, err
}
