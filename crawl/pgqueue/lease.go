package pgqueue

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// renew renews the lease of this process, which may have lost it.
func (q *Queue) renew(ctx context.Context) error {
	if q.id == 0 || time.Since(q.beat) < q.lease/5 {
		return nil
	}
	_, err := show(ctx, q, false, func(context.Context, pgx.Tx, int64) (struct{}, error) {
		return struct{}{}, nil
	})
	return err
}

// A shown is the result of a transaction of show.
type shown[T any] struct {
	value T
	id    int64     // of this process, by now
	sent  time.Time // when the lease was asked for
}

// show renews the lease of this process in the transaction in which it calls f. If the process has
// lost its lease, f gets the id 0, or a new one with register.
func show[T any](
	ctx context.Context, q *Queue, register bool, f func(ctx context.Context, tx pgx.Tx, id int64) (T, error),
) (T, error) {
	got, err := in(ctx, q, func(ctx context.Context, tx pgx.Tx) (shown[T], error) {
		sent := time.Now() // the lease ends no earlier on the server, by its clock_timestamp()
		id, err := q.extend(ctx, tx, register)
		if err != nil {
			return shown[T]{}, err
		}
		if id != q.id {
			q.lose() // which is safe to do again
		}
		value, err := f(ctx, tx, id)
		return shown[T]{value: value, id: id, sent: sent}, err
	})
	if err != nil {
		return got.value, err
	}
	q.id = got.id
	q.beat = time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	// A tenth less than on the server: the clocks may run at different rates.
	q.until = got.sent.Add(q.lease - q.lease/10)
	return got.value, nil
}

// extend extends the lease of this process. It returns the process's id: 0 if it has lost the
// lease, or a new one with register. The clocks of processes may differ, so the lease counts by the
// server's clock alone.
func (q *Queue) extend(ctx context.Context, tx pgx.Tx, register bool) (id int64, err error) {
	tag, err := tx.Exec(ctx, `
		UPDATE politeness_worker SET until = clock_timestamp() + $2::interval
		WHERE id = $1`, q.id, q.lease)
	if err != nil || tag.RowsAffected() > 0 {
		return q.id, err
	}
	if !register {
		return 0, nil
	}
	err = tx.QueryRow(ctx, `
		INSERT INTO politeness_worker (crawl, until, hosts, room)
		VALUES ($1, clock_timestamp() + $2::interval, 0, true)
		RETURNING id`, q.crawl, q.lease).Scan(&id)
	return id, err
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
	// The monotonic clock stands while a machine sleeps, and the other one may be set back.
	inTime := now.Before(q.until) && now.Round(0).Before(q.until.Round(0))
	return inTime && q.owned[host] && !q.giving[host]
}
