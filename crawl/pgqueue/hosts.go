package pgqueue

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Hosts implements crawl.Queue. It claims hosts for this process, renews its lease, ends processes
// whose leases are over, and gives back the hosts that this process has beyond its part. The Queue
// is open while another process has URLs, or may claim some.
func (q *Queue) Hosts(ctx context.Context, n int) (hosts []string, open bool, err error) {
	// All is one transaction: a process that has lost its lease claims nothing.
	call := &claiming{q: q, room: n}
	got, err := show(ctx, q, true, call.try)
	if err != nil {
		return nil, false, wrap(err)
	}
	q.mu.Lock()
	for _, host := range got.names {
		q.owned[host] = true
	}
	q.mu.Unlock()
	hosts = append(got.idle[:min(n, len(got.idle))], got.names...)
	return hosts, got.open, wrap(q.release(ctx, q.give(got.fleet)))
}

// A claiming is a call of Hosts.
type claiming struct {
	q     *Queue
	room  int // number of hosts that are wanted
	tries int
}

// A claimed is the result of claiming.
type claimed struct {
	idle  []string // hosts of this process of which nothing is lent
	names []string // hosts that this call has claimed
	fleet fleet    // without those in names among the free ones
	open  bool
}

// try is the transaction of a call of Hosts, for the process id.
func (c *claiming) try(ctx context.Context, tx pgx.Tx, id int64) (claimed, error) {
	q := c.q
	if err := q.reap(ctx, tx); err != nil {
		return claimed{}, err
	}
	c.tries++
	if c.tries > 1 { // the try before may have claimed some, if only its answer was lost
		if err := q.disown(ctx, tx, id); err != nil {
			return claimed{}, err
		}
	}
	var got claimed
	got.idle, got.fleet = q.hosts()
	err := q.countOthers(ctx, tx, id, &got.fleet)
	if err != nil {
		return claimed{}, err
	}
	got.names, err = q.claim(ctx, tx, id, c.room-len(got.idle), &got.fleet)
	if err != nil {
		return claimed{}, err
	}
	got.fleet.free -= len(got.names)
	// The others find their fair part by these.
	number := got.fleet.mine + len(got.names)
	hasRoom := c.room > len(got.idle)+len(got.names)
	_, err = tx.Exec(ctx, `
		UPDATE politeness_worker SET hosts = $2, room = $3
		WHERE id = $1`, id, number, hasRoom)
	if err != nil {
		return claimed{}, err
	}
	err = tx.QueryRow(ctx, `
		SELECT EXISTS (
			SELECT 1 FROM politeness_host
			WHERE crawl = $1 AND owner IS NULL AND next <= `+clock+`)
		OR EXISTS (
			SELECT 1 FROM politeness_host
			WHERE crawl = $1 AND owner IS NOT NULL AND owner <> $2 AND next IS NOT NULL)`,
		q.crawl, id).Scan(&got.open)
	return got, err
}

// reap ends processes whose leases are over, except for those that another process is ending.
func (q *Queue) reap(ctx context.Context, tx pgx.Tx) error {
	dead, err := collect[int64](tx.Query(ctx, `
		SELECT id FROM politeness_worker
		WHERE crawl = $1 AND until < now()
		FOR UPDATE SKIP LOCKED`, q.crawl))
	if err != nil || len(dead) == 0 {
		return err
	}
	return free(ctx, tx, dead)
}

// disown frees the hosts that are this process's in the database but not in q.owned.
func (q *Queue) disown(ctx context.Context, tx pgx.Tx, id int64) error {
	q.mu.Lock()
	owned := make([]string, 0, len(q.owned)) // not nil, which is NULL: no name differs from that
	for host := range q.owned {
		owned = append(owned, host)
	}
	q.mu.Unlock()
	_, err := tx.Exec(ctx, "UPDATE politeness_host SET owner = NULL WHERE owner = $1 AND name <> ALL($2)", id, owned)
	return err
}

// countOthers counts the other processes that have room for more hosts, and their hosts.
func (q *Queue) countOthers(ctx context.Context, tx pgx.Tx, id int64, f *fleet) error {
	return tx.QueryRow(ctx, `
		SELECT count(*), coalesce(sum(hosts), 0), coalesce(min(hosts), 0)
		FROM politeness_worker
		WHERE crawl = $1 AND id <> $2 AND room AND until >= now()`,
		q.crawl, id).Scan(&f.others, &f.theirs, &f.fewest)
}

// claim makes free hosts this process's, at most n of them, and no more than its part.
func (q *Queue) claim(ctx context.Context, tx pgx.Tx, id int64, n int, f *fleet) (names []string, err error) {
	// Hosts that another process is claiming are locked: this one takes others, and doesn't wait.
	rows, err := tx.Query(ctx, `
		SELECT id, name FROM politeness_host
		WHERE crawl = $1 AND next <= `+clock+` AND owner IS NULL AND name <> ALL($2)
		ORDER BY next
		LIMIT $3
		FOR UPDATE SKIP LOCKED`, q.crawl, q.residue(), min(claims, max(0, n)))
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[hostRow])
	if err != nil {
		return nil, err
	}
	f.free = len(found)
	most := max(0, f.part()-f.mine)
	var ids []int64
	for _, host := range found[:min(len(found), most)] {
		ids = append(ids, host.ID)
		names = append(names, host.Name)
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
	hosts = []string{} // not nil, see disown
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
	// A difference of one host stays, or it would go to and fro.
	if f.others == 0 || f.fewest+1 >= f.mine {
		beyond = 0
	}
	for host := range q.owned {
		if beyond > 0 && !q.giving[host] {
			q.giving[host] = true
			beyond--
		}
		if q.giving[host] && len(q.lent[host]) == 0 { // Done gives back the others
			now = append(now, host)
		}
	}
	return now
}

// release gives back those of hosts that are this process's, and of which it has nothing lent.
func (q *Queue) release(ctx context.Context, hosts []string) error {
	q.mu.Lock()
	var idle []string
	for _, host := range hosts {
		if q.owned[host] && len(q.lent[host]) == 0 {
			idle = append(idle, host)
		}
	}
	q.mu.Unlock()
	if len(idle) == 0 {
		return nil
	}
	err := q.in(ctx, func(ctx context.Context, tx pgx.Tx) error { return q.disclaim(ctx, tx, idle) })
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, host := range idle {
		delete(q.owned, host)
		delete(q.giving, host)
	}
	return nil
}

// disclaim makes hosts of this process free, and waiting if they have URLs left.
func (q *Queue) disclaim(ctx context.Context, tx pgx.Tx, hosts []string) error {
	// They are locked in the order in which lockHosts does: bytes of their names.
	ids, err := collect[int64](tx.Query(ctx, `
		SELECT id FROM politeness_host
		WHERE crawl = $1 AND name = ANY($2) AND owner = $3
		ORDER BY name COLLATE "C"
		FOR UPDATE`, q.crawl, hosts, q.id))
	if err != nil {
		return err
	}
	// A statement of its own: it sees what was added before the hosts were locked.
	_, err = tx.Exec(ctx, `
		UPDATE politeness_host AS h SET
			owner = NULL,
			next = (
				WITH RECURSIVE level (priority, later, due) AS (`+firstOfLevels+` WHERE level.due > `+clock+`)
				SELECT min(due) FROM level)
		WHERE id = ANY($1)`, ids)
	return err
}
