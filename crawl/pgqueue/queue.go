// Package pgqueue keeps the URLs of a crawl in Postgres, for the processes of many machines.
//
//	urls, err := pgqueue.Open(ctx, "postgres://crawler@db.internal/crawls", "news-2026")
//	if err != nil {
//		return err
//	}
//	defer urls.Close()
//	c, err := crawl.New(crawl.Config{Transport: transport, Queue: urls, ...})
//
// Start any number of processes with the same URL, name of the crawl and start URLs; more may join,
// and any may be killed. The name tells several crawls in one database apart. Give the processes
// one limiter, too: redis/redislimit.
//
// A host belongs to one process at a time, for a lease of 10 seconds that each call renews; a
// crawl calls once a second. So pages of a host are asked for by one process, in their order:
//
//	event                                     what becomes of the host
//	a process has room for more hosts         it claims one that no process has, up to its fair part
//	the last lent URL of a host is done       it is free
//	another process has fewer hosts, and room  those beyond the fair part are given back
//	a process is killed                       its hosts are free when its lease ends
//	a process is paused past its lease        its hosts are free; when it goes on, Owns says so, and
//	                                          the crawl asks for nothing of them
//	a process is closed                       its hosts are free at once
//
// What was lent when a process was killed is lent again; at most the pages that were in flight are
// fetched twice. A result that comes late counts, since the page was fetched.
//
// An outage of Postgres of up to a minute delays the crawl, and a longer one is an error, after a
// minute and a half where the network is silent; leases that end meanwhile free their hosts.
// Postgres 13 or later will do. Open makes the tables, whose names begin with politeness_, in the
// schema of the connection. A URL of 60 bytes has 260 there, indexes included, and is written
// twice: when it is added, and when it is done.
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
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-politeness/politeness/crawl"
)

//go:embed schema.sql
var schema string

const (
	defaultLease = 10 * time.Second
	outage       = time.Minute      // that a call outlasts
	longest      = 30 * time.Second // of one try: a network that is silent may have lost the answer
	batch        = 2000             // URLs in one transaction
	claims       = 1000             // most hosts that one call of Hosts claims
)

// A Queue is one process's part of a crawl in Postgres. Its methods are those of crawl.Owner, and
// may be called from one goroutine at a time, as a Crawler does; Owns at any time.
type Queue struct {
	db    *pgxpool.Pool
	crawl int32
	lease time.Duration

	outage, try time.Duration // as the constants outage and longest

	id   int64                      // of this process; 0: it has none yet
	beat time.Time                  // last renewal of the lease
	lent map[string]map[string]bool // URLs by host, also of hosts that were lost

	mu     sync.Mutex
	until  time.Time       // end of the lease, by this machine's clock
	owned  map[string]bool // hosts of this process
	giving map[string]bool // those of them that are to be given back
}

var _ crawl.Owner = (*Queue)(nil)

// Open connects to the database at url, such as postgres://user@host/database, and makes the tables
// if need be. Processes that give the same name share a crawl. Close the Queue.
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
	// A process that is paused in a transaction holds locks no longer than its lease.
	cfg.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = strconv.FormatInt(lease.Milliseconds(), 10)
	db, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("pgqueue: %w", err)
	}
	q := &Queue{db: db, lease: lease, outage: outage, try: longest, lent: make(map[string]map[string]bool), owned: make(map[string]bool), giving: make(map[string]bool)}
	if err := q.prepare(ctx, crawl); err != nil {
		db.Close()
		return nil, fmt.Errorf("pgqueue: %w", err)
	}
	return q, nil
}

// prepare makes the tables, and finds the number of the crawl.
func (q *Queue) prepare(ctx context.Context, name string) error {
	return q.in(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// Two processes that make a table at once would both fail.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext('politeness_crawl'))"); err != nil {
			return err
		}
		var there bool
		if err := tx.QueryRow(ctx, "SELECT to_regclass('politeness_url') IS NOT NULL").Scan(&there); err != nil {
			return err
		}
		if !there {
			if _, err := tx.Exec(ctx, schema); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, "INSERT INTO politeness_crawl (name) VALUES ($1) ON CONFLICT DO NOTHING", name); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT id FROM politeness_crawl WHERE name = $1", name).Scan(&q.crawl)
	})
}

// Close gives back the hosts of this process, so that others may go on with them at once.
func (q *Queue) Close() error {
	defer q.db.Close()
	q.lose()
	if q.id == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), q.lease) // after which they are free in any case
	defer cancel()
	return q.wrap(q.in(ctx, func(ctx context.Context, tx pgx.Tx) error { return free(ctx, tx, []int64{q.id}) }))
}

// free ends processes, and gives back their hosts.
func free(ctx context.Context, tx pgx.Tx, ids []int64) error {
	if _, err := tx.Exec(ctx, "UPDATE politeness_host SET owner = NULL WHERE owner = ANY($1)", ids); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "DELETE FROM politeness_process WHERE id = ANY($1)", ids)
	return err
}

func (q *Queue) wrap(err error) error {
	if err != nil {
		return fmt.Errorf("pgqueue: %w", err)
	}
	return nil
}

// in runs f in a transaction. It runs f again after a deadlock, and while the database is away or
// doesn't answer, and begins no try after a minute; so f mustn't change q.
func (q *Queue) in(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	began := time.Now()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		try, cancel := context.WithTimeout(ctx, q.try)
		err := pgx.BeginFunc(try, q.db, func(tx pgx.Tx) error { return f(try, tx) })
		cancel()
		if err == nil || !passing(err) || ctx.Err() != nil || time.Since(began) > q.outage {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// passing reports whether a further try may succeed after err.
func passing(err error) bool {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		switch answer.Code {
		case "40001", "40P01", // serialization failure, deadlock
			"25P03", "25P04", // a timeout of this session, after a pause
			"57P01", "57P02", "57P03", "57P05", // the server is being stopped or started
			"53300": // too many connections
			return true
		}
		return false
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		pgconn.SafeToRetry(err) || errors.Is(err, net.ErrClosed)
}

// hash returns the key of a URL: a hash that no two URLs share.
func (q *Queue) hash(url string) [16]byte {
	h := sha256.New()
	_ = binary.Write(h, binary.BigEndian, q.crawl)
	_, _ = io.WriteString(h, url)
	return [16]byte(h.Sum(nil))
}

// renew renews the lease of this process, which may have lost it.
func (q *Queue) renew(ctx context.Context) error {
	if q.id == 0 || time.Since(q.beat) < q.lease/5 {
		return nil
	}
	return q.show(ctx, false, func(context.Context, pgx.Tx, int64) error { return nil })
}

// show renews the lease of this process in the transaction in which it calls f. Where the process
// has none any more, its id is 0 there, or a new one with register.
func (q *Queue) show(ctx context.Context, register bool, f func(ctx context.Context, tx pgx.Tx, id int64) error) error {
	var sent time.Time
	var id int64
	err := q.in(ctx, func(ctx context.Context, tx pgx.Tx) error {
		sent, id = time.Now(), q.id // by clock_timestamp() the lease ends no earlier on the server, whose clock may be any
		tag, err := tx.Exec(ctx, "UPDATE politeness_process SET until = clock_timestamp() + $2 WHERE id = $1", id, q.lease)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			id = 0
		}
		if id == 0 && register {
			err := tx.QueryRow(ctx, "INSERT INTO politeness_process (crawl, until, hosts, room) VALUES ($1, clock_timestamp() + $2, 0, true) RETURNING id",
				q.crawl, q.lease).Scan(&id)
			if err != nil {
				return err
			}
		}
		if id != q.id {
			q.lose() // which is safe to do again
		}
		return f(ctx, tx, id)
	})
	if err != nil {
		return err
	}
	q.id, q.beat = id, time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.until = sent.Add(q.lease - q.lease/10)
	return nil
}

// lose forgets the hosts of this process.
func (q *Queue) lose() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.owned)
	clear(q.giving)
}

// Owns implements crawl.Owner.
func (q *Queue) Owns(host string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	inTime := now.Before(q.until) && now.Round(0).Before(q.until.Round(0)) // the monotonic clock stands while a machine sleeps
	return inTime && q.owned[host] && !q.giving[host]
}

// Add implements crawl.Queue. There is room for any number of URLs.
func (q *Queue) Add(ctx context.Context, reqs []crawl.Request) (added, noRoom int, err error) {
	for some := range slices.Chunk(reqs, batch) {
		if err := q.renew(ctx); err != nil {
			return added, 0, q.wrap(err)
		}
		n := 0
		err := q.in(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			n, err = q.add(ctx, tx, some)
			return err
		})
		if err != nil {
			return added, 0, q.wrap(err)
		}
		added += n
	}
	return added, 0, nil
}

// add takes in those of reqs that are new. It locks their hosts first, in the order of their names,
// as release does: a host can't be given back as finished while a URL of it is being added.
func (q *Queue) add(ctx context.Context, tx pgx.Tx, reqs []crawl.Request) (added int, err error) {
	hashes := make([][16]byte, len(reqs))
	for i, r := range reqs {
		hashes[i] = q.hash(r.URL)
	}
	known, err := collect[[16]byte](tx.Query(ctx, "SELECT hash FROM politeness_url WHERE hash = ANY($1)", hashes))
	if err != nil {
		return 0, err
	}
	seen := make(map[[16]byte]bool, len(reqs))
	for _, h := range known {
		seen[h] = true
	}
	var rows [][]any
	names := make(map[string]int64)
	for i, r := range reqs {
		if seen[hashes[i]] {
			continue
		}
		seen[hashes[i]] = true
		names[r.Host] = 0
		rows = append(rows, []any{hashes[i], r.Host, r.Depth, r.Priority, null(int16(min(r.Hops, 1<<15-1))), r.URL, null(r.Via)})
	}
	if len(rows) == 0 {
		return 0, nil
	}
	hosts, err := tx.Query(ctx, `INSERT INTO politeness_host (crawl, name, waiting)
		SELECT $1, name, true FROM unnest($2::text[]) WITH ORDINALITY AS w (name, i) ORDER BY i
		ON CONFLICT (crawl, name) DO UPDATE SET waiting = true RETURNING id, name`, q.crawl, slices.Sorted(maps.Keys(names)))
	if err != nil {
		return 0, err
	}
	var id int64
	var name string
	if _, err := pgx.ForEachRow(hosts, []any{&id, &name}, func() error { names[name] = id; return nil }); err != nil {
		return 0, err
	}
	columns := make([]any, 7)
	columns[0], columns[1] = column[[16]byte](rows, 0), columnOf(rows, func(row []any) int64 { return names[row[1].(string)] })
	columns[2], columns[3] = column[int](rows, 2), column[int](rows, 3)
	columns[4], columns[5], columns[6] = column[*int16](rows, 4), column[string](rows, 5), column[*string](rows, 6)
	tag, err := tx.Exec(ctx, `INSERT INTO politeness_url (hash, host, depth, priority, hops, url, via)
		SELECT hash, host, depth, priority, hops, url, via
		FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::integer[], $5::smallint[], $6::text[], $7::text[])
			WITH ORDINALITY AS w (hash, host, depth, priority, hops, url, via, i) ORDER BY i
		ON CONFLICT (hash) DO NOTHING`, columns...)
	return int(tag.RowsAffected()), err
}

// column returns the values of a column.
func column[T any](rows [][]any, i int) []T {
	return columnOf(rows, func(row []any) T { return row[i].(T) })
}

func columnOf[T any](rows [][]any, value func(row []any) T) []T {
	all := make([]T, len(rows))
	for i, row := range rows {
		all[i] = value(row)
	}
	return all
}

// null is nil for a zero value, which most URLs have.
func null[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// collect returns the rows of a query that has one column.
func collect[T any](rows pgx.Rows, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[T])
}

// Take implements crawl.Queue. A host that this process hasn't claimed by Hosts yields none.
func (q *Queue) Take(ctx context.Context, hosts []string, n int) ([]crawl.Request, error) {
	if err := q.renew(ctx); err != nil {
		return nil, q.wrap(err)
	}
	var names []string
	var limits []int
	for _, host := range hosts {
		if q.Owns(host) {
			names, limits = append(names, host), append(limits, n+len(q.lent[host])) // the lent ones may come first
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	type row struct {
		crawl.Request
		seq int64
	}
	byHost := make(map[string][]row)
	err := q.in(ctx, func(ctx context.Context, tx pgx.Tx) error {
		clear(byHost)
		rows, err := tx.Query(ctx, `SELECT h.name, u.url, u.via, u.hops, u.depth, u.priority, u.seq
			FROM unnest($2::text[], $3::integer[]) AS w (name, n)
			JOIN politeness_host h ON h.crawl = $1 AND h.name = w.name AND h.owner = $4
			CROSS JOIN LATERAL (SELECT url, coalesce(via, '') AS via, coalesce(hops, 0) AS hops, depth, priority, seq FROM politeness_url
				WHERE host = h.id AND outcome IS NULL ORDER BY priority DESC, seq LIMIT w.n) u`, q.crawl, names, limits, q.id)
		if err != nil {
			return err
		}
		var r row
		_, err = pgx.ForEachRow(rows, []any{&r.Host, &r.URL, &r.Via, &r.Hops, &r.Depth, &r.Priority, &r.seq}, func() error {
			byHost[r.Host] = append(byHost[r.Host], r)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, q.wrap(err)
	}
	var taken []crawl.Request
	var idle []string // hosts of which nothing is left
	for _, host := range names {
		reqs := byHost[host]
		slices.SortFunc(reqs, func(a, b row) int { return cmp.Or(b.Priority-a.Priority, cmp.Compare(a.seq, b.seq)) })
		left := n
		for _, r := range reqs {
			if left == 0 || q.lent[host][r.URL] {
				continue
			}
			if q.lent[host] == nil {
				q.lent[host] = make(map[string]bool)
			}
			q.lent[host][r.URL] = true
			taken = append(taken, r.Request)
			left--
		}
		if len(q.lent[host]) == 0 {
			idle = append(idle, host)
		}
	}
	return taken, q.wrap(q.release(ctx, idle))
}

// Done implements crawl.Queue. Results of URLs whose host was lost count as well.
func (q *Queue) Done(ctx context.Context, results []crawl.Result) error {
	for some := range slices.Chunk(results, batch) {
		if err := q.renew(ctx); err != nil {
			return q.wrap(err)
		}
		var hashes [][16]byte
		var outcomes []string
		var statuses []*int16
		for _, r := range some {
			if r.Outcome != crawl.Left {
				hashes, outcomes = append(hashes, q.hash(r.URL)), append(outcomes, string(cmp.Or(r.Outcome, "done")))
				statuses = append(statuses, null(int16(min(max(r.Status, 0), 1<<15-1))))
			}
		}
		err := q.in(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE politeness_url AS u SET outcome = r.outcome, status = r.status
				FROM unnest($1::uuid[], $2::text[], $3::smallint[]) AS r (hash, outcome, status)
				WHERE u.hash = r.hash AND u.outcome IS NULL`, hashes, outcomes, statuses)
			return err
		})
		if err != nil {
			return q.wrap(err)
		}
		var idle []string
		for _, r := range some {
			if delete(q.lent[r.Host], r.URL); len(q.lent[r.Host]) == 0 {
				delete(q.lent, r.Host)
				idle = append(idle, r.Host)
			}
		}
		if err := q.release(ctx, idle); err != nil {
			return q.wrap(err)
		}
	}
	return nil
}

// release gives back those of hosts that are this process's, and of which it has nothing lent.
func (q *Queue) release(ctx context.Context, hosts []string) error {
	q.mu.Lock()
	hosts = slices.DeleteFunc(slices.Clone(hosts), func(host string) bool { return !q.owned[host] || len(q.lent[host]) > 0 })
	q.mu.Unlock()
	if len(hosts) == 0 {
		return nil
	}
	slices.Sort(hosts)
	err := q.in(ctx, func(ctx context.Context, tx pgx.Tx) error {
		ids, err := collect[int64](tx.Query(ctx, `SELECT id FROM politeness_host WHERE crawl = $1 AND name = ANY($2) AND owner = $3
			ORDER BY name COLLATE "C" FOR UPDATE`, q.crawl, hosts, q.id))
		if err != nil {
			return err
		}
		// This statement sees what was added before the hosts were locked.
		_, err = tx.Exec(ctx, `UPDATE politeness_host AS h SET owner = NULL,
			waiting = EXISTS (SELECT 1 FROM politeness_url WHERE host = h.id AND outcome IS NULL) WHERE id = ANY($1)`, ids)
		return err
	})
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, host := range hosts {
		delete(q.owned, host)
		delete(q.giving, host)
	}
	return nil
}

// Hosts implements crawl.Queue. It claims hosts for this process, renews its lease, ends processes
// whose leases are over, and gives back what this process has beyond its part. The Queue is open
// while another process has URLs, or may claim some.
func (q *Queue) Hosts(ctx context.Context, n int) (hosts []string, open bool, err error) {
	var idle, claimed []string
	var f fleet
	tries := 0
	// All is one transaction: a process that has lost its lease claims nothing.
	err = q.show(ctx, true, func(ctx context.Context, tx pgx.Tx, id int64) (err error) {
		if err := q.reap(ctx, tx); err != nil {
			return err
		}
		if tries++; tries > 1 { // the try before may have claimed some, if only its answer was lost
			if err := q.disown(ctx, tx, id); err != nil {
				return err
			}
		}
		idle, f = q.hosts()
		err = tx.QueryRow(ctx, `SELECT count(*), coalesce(sum(hosts), 0), coalesce(min(hosts), 0) FROM politeness_process
			WHERE crawl = $1 AND id <> $2 AND room AND until >= now()`, q.crawl, id).Scan(&f.others, &f.theirs, &f.fewest)
		if err != nil {
			return err
		}
		if claimed, err = q.claim(ctx, tx, id, n-len(idle), &f); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE politeness_process SET hosts = $2, room = $3 WHERE id = $1",
			id, f.mine+len(claimed), n > len(idle)+len(claimed)); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM politeness_host WHERE crawl = $1 AND waiting AND owner IS DISTINCT FROM $2)",
			q.crawl, id).Scan(&open)
	})
	if err != nil {
		return nil, false, q.wrap(err)
	}
	f.free -= len(claimed)
	q.mu.Lock()
	for _, host := range claimed {
		q.owned[host] = true
	}
	q.mu.Unlock()
	hosts = append(idle[:min(n, len(idle))], claimed...)
	return hosts, open, q.wrap(q.release(ctx, q.give(f)))
}

// reap ends processes whose leases are over.
func (q *Queue) reap(ctx context.Context, tx pgx.Tx) error {
	dead, err := collect[int64](tx.Query(ctx, "SELECT id FROM politeness_process WHERE crawl = $1 AND until < now() FOR UPDATE SKIP LOCKED", q.crawl))
	if err != nil || len(dead) == 0 {
		return err
	}
	return free(ctx, tx, dead)
}

// disown frees the hosts that are this process's in the database but not in q.owned.
func (q *Queue) disown(ctx context.Context, tx pgx.Tx, id int64) error {
	q.mu.Lock()
	owned := append([]string{}, slices.Collect(maps.Keys(q.owned))...)
	q.mu.Unlock()
	_, err := tx.Exec(ctx, "UPDATE politeness_host SET owner = NULL WHERE owner = $1 AND name <> ALL($2)", id, owned)
	return err
}

// claim makes free hosts this process's, at most n of them, and no more than its part.
func (q *Queue) claim(ctx context.Context, tx pgx.Tx, id int64, n int, f *fleet) (names []string, err error) {
	rows, err := tx.Query(ctx, `SELECT id, name FROM politeness_host WHERE crawl = $1 AND waiting AND owner IS NULL AND name <> ALL($2)
		LIMIT $3 FOR UPDATE SKIP LOCKED`, q.crawl, q.residue(), min(claims, max(0, n)))
	if err != nil {
		return nil, err
	}
	type host struct {
		ID   int64
		Name string
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[host])
	if err != nil {
		return nil, err
	}
	f.free = len(found)
	var ids []int64
	for _, h := range found[:min(len(found), max(0, f.part()-f.mine))] {
		ids, names = append(ids, h.ID), append(names, h.Name)
	}
	if len(ids) > 0 {
		_, err = tx.Exec(ctx, "UPDATE politeness_host SET owner = $1 WHERE id = ANY($2)", id, ids)
	}
	return names, err
}

// hosts returns the hosts of this process of which nothing is lent, and counts all.
func (q *Queue) hosts() (idle []string, f fleet) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for host := range q.owned {
		if len(q.lent[host]) == 0 && !q.giving[host] {
			idle = append(idle, host)
		}
	}
	return idle, fleet{mine: len(q.owned) - len(q.giving), giving: len(q.giving)}
}

// residue returns the hosts that were lost while URLs were lent that aren't done yet.
func (q *Queue) residue() (hosts []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	hosts = []string{}
	for host := range q.lent {
		if !q.owned[host] {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// A fleet has the numbers by which a process finds its fair part of the hosts. Other processes are
// those with room for more hosts.
type fleet struct {
	mine   int // hosts of this process, without those that it gives back
	free   int // hosts of no process, of those that this call has looked at
	others int // other processes
	theirs int // hosts of the others
	fewest int // hosts of the one with the fewest
	giving int // hosts that this process is to give back
}

// part returns the number of hosts that each process has when they are shared fairly.
func (f fleet) part() int {
	return (f.mine + f.giving + f.free + f.theirs + f.others) / (f.others + 1) // rounded up
}

// give marks the hosts that this process has beyond its part as to be given back, if another one
// has fewer by two or more. It returns those of which nothing is lent.
func (q *Queue) give(f fleet) (now []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f.mine = len(q.owned) - f.giving // with those just claimed
	beyond := f.mine - f.part()
	if f.others == 0 || f.fewest+1 >= f.mine {
		beyond = 0
	}
	for host := range q.owned {
		if beyond > 0 && !q.giving[host] {
			q.giving[host] = true
			beyond--
		}
		if q.giving[host] && len(q.lent[host]) == 0 {
			now = append(now, host)
		}
	}
	return now
}

// Count returns the number of URLs of the whole crawl by their outcome. Those that are waiting or
// lent are Left. It reads all of them.
func (q *Queue) Count(ctx context.Context) (map[crawl.Outcome]int, error) {
	count := make(map[crawl.Outcome]int)
	rows, err := q.db.Query(ctx, `SELECT coalesce(u.outcome, $2), count(*) FROM politeness_url u JOIN politeness_host h ON h.id = u.host
		WHERE h.crawl = $1 GROUP BY 1`, q.crawl, string(crawl.Left))
	if err != nil {
		return nil, q.wrap(err)
	}
	var outcome string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&outcome, &n}, func() error { count[crawl.Outcome(outcome)] = n; return nil })
	return count, q.wrap(err)
}

// Clear forgets all URLs of the crawl, those that are done too: the next one begins anew. No
// process may be crawling.
func (q *Queue) Clear(ctx context.Context) error {
	return q.wrap(pgx.BeginFunc(ctx, q.db, func(tx pgx.Tx) error { // not by in: it may take long
		if _, err := tx.Exec(ctx, "DELETE FROM politeness_url USING politeness_host h WHERE host = h.id AND h.crawl = $1", q.crawl); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM politeness_host WHERE crawl = $1", q.crawl)
		return err
	}))
}
