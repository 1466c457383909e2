package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// in is the method of this name for an f with a result.
func in[T any](ctx context.Context, q *Queue, f func(ctx context.Context, tx pgx.Tx) (T, error)) (T, error) {
	var value T
	err := q.in(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		value, err = f(ctx, tx)
		return err
	})
	return value, err
}

// beginWithin returns the statement that begins a transaction of a process with a lease. A process
// that is paused in a transaction holds locks no longer than its lease. The timeout is of the
// transaction alone: pgbouncer refuses it as a parameter of a connection.
func beginWithin(lease time.Duration) string {
	return fmt.Sprintf("BEGIN; SET LOCAL idle_in_transaction_session_timeout = %d", lease.Milliseconds())
}

// in runs f in a transaction. It runs f again after a deadlock, and while the database is away or
// doesn't answer, but begins no try after a minute. So f mustn't change q.
func (q *Queue) in(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	return q.inTries(ctx, q.try, f)
}

// inLong is in for an f that may take any time.
func (q *Queue) inLong(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	return q.inTries(ctx, time.Duration(math.MaxInt64), f)
}

func (q *Queue) inTries(
	ctx context.Context, longest time.Duration, f func(ctx context.Context, tx pgx.Tx) error,
) error {
	began := time.Now()
	wait := 50 * time.Millisecond
	for {
		err := q.tryOnce(ctx, longest, f)
		if err == nil || !passing(err) {
			return err
		}
		if ctx.Err() != nil || time.Since(began) > q.outage {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err // which says more than that of ctx
		}
		wait = min(2*wait, 2*time.Second)
	}
}

// tryOnce runs f in a transaction, for a bounded time.
func (q *Queue) tryOnce(
	ctx context.Context, longest time.Duration, f func(ctx context.Context, tx pgx.Tx) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	conn, err := q.db.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{BeginQuery: q.begin}, func(tx pgx.Tx) error { return f(ctx, tx) })
	switch code := codeOf(err); {
	case code == readOnly:
		// The server has become a standby. A new connection may lead to the one in its place.
		_ = conn.Conn().Close(ctx)
	case noStatement(code) && q.pool.CompareAndSwap(false, true):
		q.db.Reset()
	}
	return err
}

// beforeConnect configures a connection. Statements are prepared once for each connection, unless a
// pool such as pgbouncer's gives each transaction another one to the server.
func (q *Queue) beforeConnect(_ context.Context, c *pgx.ConnConfig) error {
	if q.pool.Load() && c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return nil
}

// noStatement reports whether a connection to the server doesn't have the statements that were
// prepared, or has others: it isn't the one that they were prepared on.
func noStatement(code string) bool { return code == "26000" || code == "42P05" }

// Codes of errors (SQLSTATE), see the appendix of Postgres' manual.
const (
	readOnly        = "25006"
	databaseDropped = "57P04"
)

// codeOf returns the code with which the server has answered, "" if it hasn't.
func codeOf(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

// passing reports whether a further try may succeed after err.
func passing(err error) bool {
	if code := codeOf(err); code != "" {
		return passingCode(code) || noStatement(code)
	}
	var network net.Error
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &connect), errors.As(err, &network), pgconn.SafeToRetry(err):
		return true
	}
	// A connection may end while a statement is at work, perhaps after it has been done. Each
	// transaction may run twice.
	gone := []error{pgconn.ErrConnClosed, net.ErrClosed, io.EOF, io.ErrUnexpectedEOF}
	return slices.ContainsFunc(gone, func(target error) bool { return errors.Is(err, target) })
}

// passingCode reports whether a further try may succeed after a response with that code. Codes that
// Postgres doesn't have today belong to their class.
func passingCode(code string) bool {
	switch code {
	case databaseDropped:
		return false
	case readOnly, // the server has become a standby, or isn't the primary yet
		"25P03", "25P04", // a timeout of this session, after a pause
		"55P03", // a lock that wasn't obtained within lock_timeout
		"72000": // a snapshot that is too old
		return true
	}
	switch code[:min(2, len(code))] {
	case "08", // the connection; pgbouncer's own answers
		"40", // serialization failure, deadlock
		"53", // too many connections, no memory, no room on the disk
		"57", // an operator: the server is being stopped or started, a statement was cancelled
		"58": // the machine
		return true
	}
	return false // all others are errors of this statement, and a further try would have them too
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
