// Package pgqueue keeps the URLs of a crawl in Postgres, for the processes of many machines.
//
//	urls, err := pgqueue.Open(ctx, "postgres://crawler@db.internal/crawls", "news-2026")
//	if err != nil {
//		return err
//	}
//	defer urls.Close()
//	c, err := crawl.New(crawl.Config{Transport: transport, Queue: urls, ...})
//
// Start any number of processes with the same URL, name of the crawl and start URLs. More may join,
// and any may be killed. The name identifies the crawl among those in one database. Give the
// processes one limiter, too, such as redis/redislimit.
//
// A host belongs to one process at a time, for a lease of 10 seconds that each call renews. A crawl
// calls once a second. So pages of a host are fetched by one process, in their order:
//
//	event                                     effect on the host
//	a process has room for more hosts         it claims one that no process has, up to its fair part
//	the last lent URL of a host is done       it is free
//	another process has fewer hosts and room  hosts beyond the fair part are given back
//	a process is killed                       its hosts are free when its lease ends
//	a process is paused past its lease        its hosts are free; when it continues, Owns returns
//	                                          false, and the crawl fetches none of their URLs
//	a process is closed                       its hosts are free immediately
//
// URLs that were lent when a process was killed are lent again. At most the pages that were in
// flight are fetched twice. A result that comes late counts, since the page was fetched.
//
// An outage of Postgres of up to a minute delays the crawl. Examples are a restart, a read-only
// failover, cancelled statements, and locks that time out. A longer outage is an error, after a
// minute and a half if the network is silent. Leases that end meanwhile free their hosts. Postgres
// 13 or later will do, also behind pgbouncer, in session and in transaction mode. Open makes the
// tables, whose names begin with politeness_, in the schema of the connection. A URL of 58 bytes
// has 360 there, indexes included, and 460 with that of the page with the link to it. Its Data
// comes on top. It is written twice, when it is added, and when it is done.
package pgqueue

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-politeness/politeness/crawl"
)

// version is that of the tables.
const version = 2

//go:embed schema.sql
var schema string

//go:embed upgrade.sql
var upgrade string

const (
	defaultLease = 10 * time.Second
	outage       = time.Minute      // that a call outlasts
	longest      = 30 * time.Second // of one try: a network that is silent may have lost the response
	batch        = 2000             // URLs in one transaction
	claims       = 1000             // most hosts that one call of Hosts claims
)

// A Queue is one process's part of a crawl in Postgres. Its methods are those of crawl.Owner, and
// may be called from one goroutine at a time, as a Crawler does. Owns may be called at any time.
type Queue struct {
	db    *pgxpool.Pool
	begin string      // statement that begins a transaction
	pool  atomic.Bool // transactions of one connection get different connections to the server
	crawl int32
	lease time.Duration

	outage time.Duration // as the constant
	try    time.Duration // as the constant longest

	id   int64                      // of this process; 0: it has none yet
	beat time.Time                  // last renewal of the lease
	lent map[string]map[string]bool // URLs by host, also of hosts that were lost

	mu     sync.Mutex
	until  time.Time       // end of the lease, by this machine's clock
	owned  map[string]bool // hosts of this process
	giving map[string]bool // those of them that are to be given back
}

var (
	_ crawl.Owner     = (*Queue)(nil)
	_ crawl.Postponer = (*Queue)(nil)
	_ crawl.Recurring = (*Queue)(nil)
)

// clock is the time in seconds, by the server: one clock for all processes, so what one of them
// adds is due for the others.
const clock = "extract(epoch FROM now())::bigint"

// Open connects to the database at url, such as postgres://user@host/database, and makes the tables
// if need be. Processes that give the same name share a crawl. Close the Queue. Open waits for a
// database that is away, as all methods do. It also waits for a pool that responds by itself, since
// pgbouncer has one code for a name that it doesn't know and for a server that it can't reach.
func Open(ctx context.Context, url, crawl string) (*Queue, error) {
	return open(ctx, url, crawl, defaultLease)
}

func open(ctx context.Context, url, crawl string, lease time.Duration) (*Queue, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("pgqueue: %w", err) // pgx leaves out the password
	}
	if crawl == "" {
		return nil, errors.New("pgqueue: the crawl needs a name")
	}
	cfg.MaxConns = 2
	q := &Queue{
		begin:  beginWithin(lease),
		lease:  lease,
		outage: outage,
		try:    longest,
		lent:   make(map[string]map[string]bool),
		owned:  make(map[string]bool),
		giving: make(map[string]bool),
	}
	cfg.BeforeConnect = q.beforeConnect
	q.db, err = pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("pgqueue: %w", err)
	}
	if err := q.prepare(ctx, crawl); err != nil {
		q.db.Close()
		return nil, fmt.Errorf("pgqueue: %w", err)
	}
	return q, nil
}

// prepare makes the tables, or those of an older version new, and finds the number of the crawl.
func (q *Queue) prepare(ctx context.Context, name string) error {
	found, err := in(ctx, q, lockedVersion)
	if err != nil {
		return err
	}
	if found < version {
		if err := q.inLong(ctx, makeTables); err != nil {
			return err
		}
	}
	return q.in(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO politeness_crawl (name) VALUES ($1) ON CONFLICT DO NOTHING", name)
		if err != nil {
			return err
		}
		// Without RETURNING, which yields no row for a crawl that is there.
		return tx.QueryRow(ctx, "SELECT id FROM politeness_crawl WHERE name = $1", name).Scan(&q.crawl)
	})
}

// lockedVersion returns the version of the tables, 0 if there are none. Until tx ends no other
// process makes them: two that make a table at once would both fail.
func lockedVersion(ctx context.Context, tx pgx.Tx) (found int, err error) {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext('politeness_crawl'))"); err != nil {
		return 0, err
	}
	var hasURLs, hasVersion bool
	// Not to_regclass, which may not see yet what another process has committed before the lock was
	// had.
	const hasTable = "EXISTS (SELECT 1 FROM pg_class WHERE relname = '%s' AND pg_table_is_visible(oid))"
	query := fmt.Sprintf("SELECT "+hasTable+", "+hasTable, "politeness_url", "politeness_version")
	err = tx.QueryRow(ctx, query).Scan(&hasURLs, &hasVersion)
	switch {
	case err != nil, !hasURLs:
		return 0, err
	case !hasVersion:
		return 1, nil // which had no such table
	}
	err = tx.QueryRow(ctx, "SELECT max(version) FROM politeness_version").Scan(&found)
	if err == nil && found > version {
		err = fmt.Errorf("the tables are of version %d, which a later version of this package has made", found)
	}
	return found, err
}

// makeTables makes the tables, or those of version 1 new.
func makeTables(ctx context.Context, tx pgx.Tx) error {
	found, err := lockedVersion(ctx, tx) // another process may have made them meanwhile
	if err != nil || found == version {
		return err
	}
	if found == 1 {
		if err := upgradeTables(ctx, tx); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, schema)
	return err
}

// upgradeTables makes tables of version 2 of those of version 1, unless a process uses them.
func upgradeTables(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "LOCK TABLE politeness_process IN ACCESS EXCLUSIVE MODE"); err != nil {
		return err
	}
	var alive int
	err := tx.QueryRow(ctx, "SELECT count(*) FROM politeness_process WHERE until >= now()").Scan(&alive)
	if err != nil {
		return err
	}
	if alive > 0 {
		return fmt.Errorf("the tables are of version 1, and processes of the older version use them (%d): "+
			"stop these first, and try again when their leases are over, after %v", alive, defaultLease)
	}
	if _, err := tx.Exec(ctx, upgrade); err != nil {
		return fmt.Errorf("upgrade of tables of version 1: %w", err)
	}
	return nil
}

// Close gives back the hosts of this process, so that others may continue with them immediately.
// Call it after Run has returned.
func (q *Queue) Close() error {
	defer q.db.Close()
	q.lose()
	if q.id == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), q.lease) // after which they are free in any case
	defer cancel()
	err := q.in(ctx, func(ctx context.Context, tx pgx.Tx) error { return free(ctx, tx, []int64{q.id}) })
	return wrap(err)
}

// free ends processes, and gives back their hosts.
func free(ctx context.Context, tx pgx.Tx, ids []int64) error {
	if _, err := tx.Exec(ctx, "UPDATE politeness_host SET owner = NULL WHERE owner = ANY($1)", ids); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "DELETE FROM politeness_worker WHERE id = ANY($1)", ids)
	return err
}

// wrap names the package in err.
func wrap(err error) error {
	if err != nil {
		return fmt.Errorf("pgqueue: %w", err)
	}
	return nil
}

// hash returns the key of a URL: a hash that no two URLs share.
func (q *Queue) hash(url string) pgtype.UUID {
	h := sha256.New()
	_ = binary.Write(h, binary.BigEndian, q.crawl)
	_, _ = io.WriteString(h, url)
	return pgtype.UUID{Bytes: [16]byte(h.Sum(nil)), Valid: true}
}

// Add implements crawl.Queue. There is room for any number of URLs.
func (q *Queue) Add(ctx context.Context, reqs []crawl.Request) (added, noRoom int, err error) {
	for some := range slices.Chunk(reqs, batch) {
		if err := q.renew(ctx); err != nil {
			return added, 0, wrap(err)
		}
		if err := q.hear(ctx, some); err != nil {
			return added, 0, wrap(err)
		}
		n, err := in(ctx, q, func(ctx context.Context, tx pgx.Tx) (int, error) {
			return q.add(ctx, tx, some)
		})
		if err != nil {
			return added, 0, wrap(err)
		}
		added += n
	}
	return added, 0, nil
}

// columns has the values of new URLs, one slice for each column. unnest turns them into rows, so
// one statement inserts any number of URLs.
type columns struct {
	hashes     []pgtype.UUID
	hosts      []string // names
	depths     []int
	priorities []int
	hops       []*int16
	urls       []string
	vias       []*string
	froms      []*string
	datas      [][]byte // nil: it is empty
	laters     []int
	marks      []*int64
}

func (c *columns) append(hash pgtype.UUID, r crawl.Request) {
	hops := int16(min(r.Hops, 1<<15-1))
	c.hashes = append(c.hashes, hash)
	c.hosts = append(c.hosts, r.Host)
	c.depths = append(c.depths, r.Depth)
	c.priorities = append(c.priorities, r.Priority)
	c.hops = append(c.hops, null(hops))
	c.urls = append(c.urls, r.URL)
	c.vias = append(c.vias, null(r.Via))
	c.froms = append(c.froms, null(r.From))
	c.datas = append(c.datas, blob(r.Data))
	c.laters = append(c.laters, r.Later)
	c.marks = append(c.marks, null(int64(r.Mark)))
}

// blob is the bytes of data; nil: it is empty.
func blob(data string) []byte {
	if data == "" {
		return nil
	}
	return []byte(data)
}

// add takes in those of reqs that are new. It locks their hosts first, in the order of their names,
// as release does: a host can't be given back as finished while a URL of it is being added.
func (q *Queue) add(ctx context.Context, tx pgx.Tx, reqs []crawl.Request) (added int, err error) {
	unknown, err := q.unknown(ctx, tx, reqs)
	if err != nil {
		return 0, err
	}
	if len(unknown.urls) == 0 {
		return 0, nil // most links of a page are known, and lock no host then
	}
	ids, err := q.lockHosts(ctx, tx, unknown.hosts)
	if err != nil {
		return 0, err
	}
	hosts := make([]int64, len(unknown.hosts))
	for i, name := range unknown.hosts {
		hosts[i] = ids[name]
	}
	// Another process may have added some since unknown has looked: they are in conflict, and not
	// counted.
	tag, err := tx.Exec(ctx, insertURLs,
		unknown.hashes, hosts, unknown.depths, unknown.priorities, unknown.hops, unknown.urls, unknown.vias,
		unknown.froms, unknown.datas, unknown.laters, unknown.marks)
	return int(tag.RowsAffected()), err
}

// insertURLs inserts URLs in their order, in which they are numbered (seq) and lent.
const insertURLs = `
	INSERT INTO politeness_url (hash, host, depth, priority, hops, url, via, from_url, data, later, mark, due)
	SELECT hash, host, depth, priority, hops, url, via, from_url, data, later, mark, ` + clock + `
	FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::integer[], $5::smallint[], $6::text[], $7::text[],
			$8::text[], $9::bytea[], $10::smallint[], $11::bigint[])
		WITH ORDINALITY AS w (hash, host, depth, priority, hops, url, via, from_url, data, later, mark, i)
	ORDER BY i
	ON CONFLICT (hash) DO NOTHING`

// unknown returns those of reqs that the table doesn't have, each once.
func (q *Queue) unknown(ctx context.Context, tx pgx.Tx, reqs []crawl.Request) (columns, error) {
	hashes := make([]pgtype.UUID, len(reqs))
	for i, r := range reqs {
		hashes[i] = q.hash(r.URL)
	}
	known, err := collect[pgtype.UUID](tx.Query(ctx, `
		SELECT hash FROM politeness_url
		WHERE hash = ANY($1::uuid[])`, hashes))
	if err != nil {
		return columns{}, err
	}
	seen := make(map[pgtype.UUID]bool, len(reqs))
	for _, hash := range known {
		seen[hash] = true
	}
	var unknown columns
	for i, r := range reqs {
		if !seen[hashes[i]] {
			seen[hashes[i]] = true
			unknown.append(hashes[i], r)
		}
	}
	return unknown, nil
}

// lockHosts locks the hosts of these names, which it makes if need be, and marks them as waiting.
// It returns their ids. All processes lock hosts in one order, so there is no deadlock.
func (q *Queue) lockHosts(ctx context.Context, tx pgx.Tx, names []string) (map[string]int64, error) {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	// The update locks a host that is there, and has it returned, even if it is waiting already.
	rows, err := tx.Query(ctx, `
		INSERT INTO politeness_host AS h (crawl, name, next)
		SELECT $1, name, `+clock+` FROM unnest($2::text[]) WITH ORDINALITY AS w (name, i)
		ORDER BY i
		ON CONFLICT (crawl, name) DO UPDATE SET next = least(h.next, excluded.next)
		RETURNING id, name`, q.crawl, slices.Compact(sorted))
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[hostRow])
	if err != nil {
		return nil, err
	}
	ids := make(map[string]int64, len(found))
	for _, host := range found {
		ids[host.Name] = host.ID
	}
	return ids, nil
}

// A hostRow is a host in the table.
type hostRow struct {
	ID   int64
	Name string
}

// Take implements crawl.Queue. A host that this process hasn't claimed by Hosts yields none.
func (q *Queue) Take(ctx context.Context, hosts []string, n int) ([]crawl.Request, error) {
	return q.take(ctx, hosts, 0, n)
}

// TakeLater implements crawl.Postponer.
func (q *Queue) TakeLater(ctx context.Context, host string, least, n int) ([]crawl.Request, error) {
	return q.take(ctx, []string{host}, least, n)
}

// take lends requests whose Later is least or more, at most n of each host.
func (q *Queue) take(ctx context.Context, hosts []string, least, n int) ([]crawl.Request, error) {
	if err := q.renew(ctx); err != nil {
		return nil, wrap(err)
	}
	var names []string
	var limits []int
	for _, host := range hosts {
		if q.Owns(host) {
			names = append(names, host)
			// The table doesn't know which are lent. If these come first, n others come after them.
			limits = append(limits, n+len(q.lent[host]))
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	waiting, err := in(ctx, q, func(ctx context.Context, tx pgx.Tx) (map[string][]waitingURL, error) {
		return q.waiting(ctx, tx, names, limits, least)
	})
	if err != nil {
		return nil, wrap(err)
	}
	var taken []crawl.Request
	var idle []string // hosts of which nothing is left
	for _, host := range names {
		taken = append(taken, q.lend(host, waiting[host], n)...)
		if len(q.lent[host]) == 0 {
			idle = append(idle, host)
		}
	}
	return taken, wrap(q.release(ctx, idle))
}

// lend lends the first n of the waiting requests of a host that aren't lent yet.
func (q *Queue) lend(host string, waiting []waitingURL, n int) []crawl.Request {
	var taken []crawl.Request
	for _, w := range waiting {
		if len(taken) == n {
			break
		}
		if q.lent[host][w.URL] {
			continue
		}
		if q.lent[host] == nil {
			q.lent[host] = make(map[string]bool)
		}
		q.lent[host][w.URL] = true
		taken = append(taken, w.Request)
	}
	return taken
}

// A waitingURL is a request that isn't done.
type waitingURL struct {
	crawl.Request
	due   int64
	isDue bool
	seq   int64
}

// waiting returns the first waiting requests of this process's hosts that are due, by host and in
// their order: at most limits[i] of names[i], whose Later is least or more.
func (q *Queue) waiting(
	ctx context.Context, tx pgx.Tx, names []string, limits []int, least int,
) (map[string][]waitingURL, error) {
	byHost, err := q.query(ctx, tx, selectFirst, names, limits, least)
	if err != nil {
		return nil, err
	}
	// hosts whose due URLs may come after URLs that aren't due yet
	var mixed []string
	var limitsOf []int
	for i, name := range names {
		if slices.ContainsFunc(byHost[name], func(w waitingURL) bool { return !w.isDue }) {
			mixed = append(mixed, name)
			limitsOf = append(limitsOf, limits[i])
			delete(byHost, name)
		}
	}
	if len(mixed) == 0 {
		return byHost, nil
	}
	due, err := q.query(ctx, tx, selectDue, mixed, limitsOf, least)
	maps.Copy(byHost, due)
	return byHost, err
}

// query returns the rows of selectFirst or selectDue, by host and in their order.
func (q *Queue) query(
	ctx context.Context, tx pgx.Tx, statement string, names []string, limits []int, least int,
) (map[string][]waitingURL, error) {
	rows, err := tx.Query(ctx, statement, q.crawl, names, limits, q.id, least)
	if err != nil {
		return nil, err
	}
	byHost := make(map[string][]waitingURL)
	var w waitingURL
	var data, page []byte
	fields := []any{
		&w.Host, &w.URL, &w.Via, &w.Hops, &w.Depth, &w.Priority, &w.From, &data, &page,
		&w.Later, &w.Mark, &w.due, &w.isDue, &w.seq,
	}
	_, err = pgx.ForEachRow(rows, fields, func() error {
		w.Data = string(data)
		w.State = crawl.LentState(string(page), time.Unix(w.due, 0)) // Again may have made it due
		byHost[w.Host] = append(byHost[w.Host], w)
		return nil
	})
	// Postgres keeps no order of a subquery.
	for _, found := range byHost {
		slices.SortFunc(found, func(a, b waitingURL) int {
			return cmp.Or(
				cmp.Compare(b.Priority, a.Priority),
				cmp.Compare(a.Later, b.Later),
				cmp.Compare(a.due, b.due),
				cmp.Compare(a.seq, b.seq),
			)
		})
	}
	return byHost, err
}

// Statements that ask for each host by its own subquery: the index has its waiting URLs in their
// order, so only those that are wanted are read. A host that was lost meanwhile yields none.
// selectFirst has the first ones, due or not, selectDue what is due of each level: of each Priority
// and what is postponed alike.
const (
	selectWaiting = `
	SELECT h.name, u.url, coalesce(u.via, ''), coalesce(u.hops, 0), u.depth, u.priority,
		coalesce(u.from_url, ''), u.data, u.page, u.later, coalesce(u.mark, 0), u.due, u.due <= ` + clock + `, u.seq
	FROM unnest($2::text[], $3::integer[]) AS w (name, n)
	JOIN politeness_host h ON h.crawl = $1 AND h.name = w.name AND h.owner = $4
	CROSS JOIN LATERAL (`
	selectFirst = selectWaiting + `
		SELECT * FROM politeness_url
		WHERE host = h.id AND due IS NOT NULL AND later >= $5
		ORDER BY priority DESC, later, due, seq
		LIMIT w.n
	) u`
	selectDue = selectWaiting + `
		WITH RECURSIVE level (priority, later, due) AS (` + firstOfLevels + `)
		SELECT r.* FROM level CROSS JOIN LATERAL (
			SELECT * FROM politeness_url
			WHERE host = h.id AND priority = level.priority AND later = level.later AND due <= ` + clock + `
			ORDER BY due, seq
			LIMIT w.n
		) r
		WHERE r.later >= $5
		ORDER BY r.priority DESC, r.later, r.due, r.seq
		LIMIT w.n
	) u`
)

// firstOfLevels are the levels of the host h that have something waiting, with the first due time
// of each, by a seek each. The statement around it may end the recursion.
const firstOfLevels = `
	(SELECT priority, later, due FROM politeness_url
	WHERE host = h.id AND due IS NOT NULL
	ORDER BY priority DESC, later, due
	LIMIT 1)
	UNION ALL
	SELECT n.priority, n.later, n.due FROM level CROSS JOIN LATERAL (
		(SELECT priority, later, due FROM politeness_url
		WHERE host = h.id AND due IS NOT NULL AND priority = level.priority AND later > level.later
		ORDER BY later, due
		LIMIT 1)
		UNION ALL
		(SELECT priority, later, due FROM politeness_url
		WHERE host = h.id AND due IS NOT NULL AND priority < level.priority
		ORDER BY priority DESC, later, due
		LIMIT 1)
		ORDER BY priority DESC, later
		LIMIT 1
	) n`

// Done implements crawl.Queue. Results of URLs whose host was lost count as well.
func (q *Queue) Done(ctx context.Context, results []crawl.Result) error {
	for some := range slices.Chunk(results, batch) {
		if err := q.renew(ctx); err != nil {
			return wrap(err)
		}
		if err := q.end(ctx, some); err != nil {
			return wrap(err)
		}
		if err := q.release(ctx, q.unlend(some)); err != nil {
			return wrap(err)
		}
	}
	return nil
}

// end stores the outcomes of URLs and when they are due again, and how far those that are Left are
// postponed.
func (q *Queue) end(ctx context.Context, results []crawl.Result) error {
	var left postponed
	var hashes []pgtype.UUID
	var outcomes []string
	var statuses []*int16
	var dues []*int64
	var pages [][]byte
	for _, r := range results {
		if r.Outcome == crawl.Left {
			if q.Owns(r.Host) { // else another process may have postponed it further
				left.append(q.hash(r.URL), r.Request)
			}
			continue
		}
		status := int16(min(max(r.Status, 0), 1<<15-1))
		hashes = append(hashes, q.hash(r.URL))
		outcomes = append(outcomes, string(cmp.Or(r.Outcome, "done")))
		statuses = append(statuses, null(status))
		dues = append(dues, dueOf(r.Again))
		pages = append(pages, blob(r.State))
	}
	return q.in(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// The first result of a URL counts, because a process that was paused may store another one
		// later. URLs that were lent are due.
		_, err := tx.Exec(ctx, `
			UPDATE politeness_url AS u SET outcome = r.outcome, status = r.status, due = r.due,
				page = r.page, later = 0
			FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::bigint[], $5::bytea[])
				AS r (hash, outcome, status, due, page)
			WHERE u.hash = r.hash AND u.due <= `+clock, hashes, outcomes, statuses, dues, pages)
		if err != nil {
			return err
		}
		return left.store(ctx, tx)
	})
}

// dueOf returns a due time in seconds, never an earlier one; nil: never.
func dueOf(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	seconds := t.Unix()
	if t.Nanosecond() > 0 {
		seconds++
	}
	return &seconds
}

// unlend makes the URLs of results no longer lent. It returns the hosts of which nothing is lent
// then.
func (q *Queue) unlend(results []crawl.Result) (idle []string) {
	for _, r := range results {
		delete(q.lent[r.Host], r.URL)
		if len(q.lent[r.Host]) == 0 {
			delete(q.lent, r.Host)
			idle = append(idle, r.Host)
		}
	}
	return idle
}

// Count returns the number of URLs of the whole crawl by their last outcome. Those that have none
// yet are Left. It reads all of them. Use it for a report, not in a loop.
func (q *Queue) Count(ctx context.Context) (map[crawl.Outcome]int, error) {
	var count map[crawl.Outcome]int
	err := q.inLong(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT coalesce(u.outcome, $2), count(*)
			FROM politeness_url u JOIN politeness_host h ON h.id = u.host
			WHERE h.crawl = $1
			GROUP BY 1`, q.crawl, string(crawl.Left))
		if err != nil {
			return err
		}
		count = make(map[crawl.Outcome]int)
		var outcome crawl.Outcome
		var n int
		_, err = pgx.ForEachRow(rows, []any{(*string)(&outcome), &n}, func() error {
			count[outcome] = n
			return nil
		})
		return err
	})
	return count, wrap(err)
}

// Clear forgets all URLs of the crawl, even those that are done. The next crawl begins anew. No
// process may be crawling. Call it to begin a crawl again from its start URLs.
func (q *Queue) Clear(ctx context.Context) error {
	err := q.inLong(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			DELETE FROM politeness_url USING politeness_host h
			WHERE host = h.id AND h.crawl = $1`, q.crawl)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DELETE FROM politeness_host WHERE crawl = $1", q.crawl)
		return err
	})
	return wrap(err)
}
