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
	"github.com/go-politeness/politeness/crawl/sqlitequeue"
)

// A queue is the crawl.Queue of a run: the URLs are in a file of package sqlitequeue beside the
// database, and their outcomes are in the database. A row is written before its URL is done, so a
// kill between the two leaves a row whose URL waits. Rows are found by their URL: the next run
// writes that one again, or finds it fresh, and never adds a second one.
//
// When a crawl has come to its end its URLs are forgotten: the next one begins anew, and asks only
// for what is stale.
type queue struct {
	*store
	urls   *sqlitequeue.Queue
	maxAge time.Duration
	anyway bool // fresh pages are visited as well: for their links

	mu      sync.Mutex
	pages   map[string]*fetched // by URL: visited, and not written yet
	changed map[string]bool     // URLs that are due whatever their age, by their sitemap's word
	starts  map[string]bool     // URLs that are visited in any case, for what they lead to
	counts  [outcomes]int
}

// The Priority of a request is why it is due whatever its row says. It is in the file, so the next
// run knows it after a kill.
const (
	isStart   = 1 // see queue.starts
	isChanged = 2 // see queue.changed
)

// A fetched page is to be written. Its row is nil if the one in the database stays as it is.
type fetched struct {
	row     *page
	outcome outcome
}

// openQueue opens the file with the URLs.
func openQueue(s *store, file string) (*queue, error) {
	urls, err := sqlitequeue.Open(file)
	if err != nil {
		return nil, err
	}
	return &queue{
		store:   s,
		urls:    urls,
		pages:   make(map[string]*fetched),
		changed: make(map[string]bool),
		starts:  make(map[string]bool),
	}, nil
}

// Close closes the file with the URLs.
func (q *queue) Close() error { return q.urls.Close() }

// fresh reports whether p needn't be fetched again.
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

// count counts an outcome of n URLs.
func (q *queue) count(o outcome, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counts[o] += n
}

// visited takes the result of the visit of url. Done writes it.
func (q *queue) visited(url string, f *fetched) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pages[url] = f
}

// take returns the result that visited has taken, nil if there was no visit, and forgets the URL.
func (q *queue) take(url string) *fetched {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.pages[url]
	delete(q.pages, url)
	delete(q.changed, url)
	return f
}

// Add implements crawl.Queue. A URL is in the file before the row of the URL that leads to it says
// so: after a kill between the two, that one is fetched again.
func (q *queue) Add(ctx context.Context, reqs []crawl.Request) (added, noRoom int, err error) {
	due := make([]crawl.Request, len(reqs))
	for i, r := range reqs {
		r.Priority = q.why(r.URL)
		due[i] = r
	}
	added, noRoom, err = q.urls.Add(ctx, due)
	if err != nil {
		return 0, 0, err
	}
	err = q.in(ctx, func(ctx context.Context, tx *sql.Tx) error { return q.writeGoals(ctx, tx, reqs) })
	return added, noRoom, err
}

// writeGoals writes where the URLs lead that redirect to those of reqs.
func (q *queue) writeGoals(ctx context.Context, tx *sql.Tx, reqs []crawl.Request) error {
	for _, r := range reqs {
		if r.Via == "" {
			continue
		}
		now := q.engine.timestamp(time.Now())
		_, err := tx.ExecContext(ctx, q.sql(upsertGoal), r.Via, surt(r.Via), now, r.URL, r.Hops)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Via, err)
		}
	}
	return nil
}

// why returns why a URL is due however young its copy is; 0: it isn't.
func (q *queue) why(url string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.changed[url]:
		return isChanged
	case q.starts[url]:
		return isStart
	}
	return 0
}

func affected(r sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	return int(n), err
}

// Take implements crawl.Queue. It ends the requests for fresh pages, and lends the others.
func (q *queue) Take(ctx context.Context, hosts []string, n int) ([]crawl.Request, error) {
	t := &taking{most: n, number: make(map[string]int)}
	for size := n; len(hosts) > 0; size = max(n, chunk) {
		taken, err := q.urls.Take(ctx, hosts, size)
		if err != nil {
			return nil, err
		}
		if err := q.sort(ctx, t, taken); err != nil {
			return nil, err
		}
		hosts = t.unfilled(hosts, taken, size)
	}
	return t.lent, nil
}

// A taking is a call of Take.
type taking struct {
	most   int // requests of a host
	lent   []crawl.Request
	number map[string]int // of these, by host
}

// unfilled returns the hosts that have fewer requests than they may: behind those that were fresh
// others may wait. A host of which fewer than size were taken has no others.
func (t *taking) unfilled(hosts []string, taken []crawl.Request, size int) []string {
	got := make(map[string]int)
	for _, r := range taken {
		got[r.Host]++
	}
	var left []string
	for _, host := range hosts {
		if t.number[host] < t.most && got[host] >= size {
			left = append(left, host)
		}
	}
	return left
}

// sort lends those of taken that t has room for, and ends the others in the file.
func (q *queue) sort(ctx context.Context, t *taking, taken []crawl.Request) error {
	fresh, err := q.ofFresh(ctx, taken)
	if err != nil {
		return err
	}
	var ended []crawl.Result
	for _, r := range taken {
		switch {
		case fresh[r.URL]:
			ended = append(ended, crawl.Result{Request: r, Outcome: crawl.Visited})
		case t.number[r.Host] == t.most:
			ended = append(ended, crawl.Result{Request: r, Outcome: crawl.Left})
		default:
			t.number[r.Host]++
			t.lent = append(t.lent, r)
		}
		if r.Priority == isChanged {
			q.mark(r.URL)
		}
	}
	if err := q.urls.Done(ctx, ended); err != nil {
		return err
	}
	q.count(outcomeFresh, len(fresh))
	return nil
}

// ofFresh returns the URLs of those requests that needn't be visited, since their rows are fresh.
func (q *queue) ofFresh(ctx context.Context, reqs []crawl.Request) (map[string]bool, error) {
	fresh := make(map[string]bool)
	if q.anyway || q.maxAge <= 0 {
		return fresh, nil
	}
	var urls []any
	for _, r := range reqs {
		if r.Priority == 0 {
			urls = append(urls, r.URL)
		}
	}
	oldest := q.engine.timestamp(time.Now().Add(-q.maxAge))
	for some := range slices.Chunk(urls, chunk) {
		query := q.sql(`SELECT url FROM %[1]s WHERE url IN ` + values(1, len(some)) + `
			AND http_status <> 429 AND http_status < 500 AND crawl_time > ?`)
		args := append(slices.Clone(some), oldest)
		found, err := q.strings(ctx, query, args...)
		if err != nil {
			return nil, err
		}
		for _, url := range found {
			fresh[url] = true
		}
	}
	return fresh, nil
}

// Done implements crawl.Queue: it writes the outcomes of the URLs, and then ends them.
func (q *queue) Done(ctx context.Context, results []crawl.Result) error {
	var became []outcome
	err := q.in(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		became, err = q.settleAll(ctx, tx, results)
		return err
	})
	if err != nil {
		return err
	}
	if err := q.urls.Done(ctx, results); err != nil {
		return err
	}
	for _, o := range became {
		q.count(o, 1)
	}
	return nil
}

// settleAll writes the outcomes of the URLs that aren't Left, and returns them.
func (q *queue) settleAll(ctx context.Context, tx *sql.Tx, results []crawl.Result) ([]outcome, error) {
	var rows []*page
	var became []outcome
	for _, r := range results {
		f := q.take(r.Request.URL)
		if r.Outcome == crawl.Left && !isBarred(r) {
			continue
		}
		row, o, err := q.settle(ctx, tx, r, f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Request.URL, err)
		}
		if row != nil {
			rows = append(rows, row)
		}
		became = append(became, o)
	}
	return became, q.write(ctx, tx, rows)
}

// isBarred reports whether r is of a start URL whose host has refused all that was asked of it. The
// URL waits for the next run, and the row says why there is no page yet.
func isBarred(r crawl.Result) bool { return r.Depth == 0 && r.Status >= 400 }

// settle returns the outcome of a URL, with a row that is to be written, or nil if settle has
// written it. f is the result of the visit, nil if there was none.
func (q *queue) settle(ctx context.Context, tx *sql.Tx, r crawl.Result, f *fetched) (*page, outcome, error) {
	row := &page{URL: r.Request.URL, SURT: surt(r.Request.URL), Status: r.Status, CrawlTime: time.Now()}
	if r.Err != nil {
		row.Error = strings.ToValidUTF8(r.Err.Error(), "?")
	}
	switch {
	case r.Outcome == crawl.Redirected || r.Outcome == crawl.NotCanonical:
		url := cmp.Or(r.Request.Via, r.Request.URL)
		now := q.engine.timestamp(time.Now())
		_, err := tx.ExecContext(ctx, q.sql(upsertRedirect),
			url, surt(url), r.Status, now, r.Request.URL, r.Request.Hops)
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
		row.Status = answered.status
		row.Error = answered.Error()
	}
	if row.Error == "" {
		row.Error = string(r.Outcome)
	}
	return nil, outcomeFailed, q.fail(ctx, tx, row)
}

// Hosts implements crawl.Queue.
func (q *queue) Hosts(ctx context.Context, n int) (hosts []string, open bool, err error) {
	return q.urls.Hosts(ctx, n)
}

// A URL that leads to another one gets the rest of its row from there, when both are known.
const (
	shorten = `
		UPDATE %[1]s AS p SET
			final_url = t.final_url,
			redirect_count = p.redirect_count + t.redirect_count
		FROM %[1]s AS t
		WHERE p.final_url = t.url AND p.url <> t.url
			AND p.redirect_count > 0 AND t.redirect_count > 0
			AND t.final_url <> p.url AND t.final_url <> t.url`
	fill = `
		UPDATE %[1]s AS p SET
			http_status = t.http_status, error = t.error, body = t.body, content_type = t.content_type,
			server_date = t.server_date, etag = t.etag, last_modified = t.last_modified,
			content_hash = t.content_hash, directives = t.directives
		FROM %[1]s AS t
		WHERE p.final_url = t.url AND p.url <> t.url
			AND p.redirect_count > 0 AND t.redirect_count = 0
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
	left, err = q.urls.Waiting(ctx)
	if err != nil || left > 0 {
		return left, err
	}
	return 0, q.urls.Clear(ctx)
}
