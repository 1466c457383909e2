package pgqueue

import (
	"context"
	"errors"
	"io"
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

// in runs f in a transaction. It runs f again after a deadlock, and while the database is away or
// doesn't answer, and begins no try after a minute; so f mustn't change q.
func (q *Queue) in(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	began := time.Now()
	wait := 50 * time.Millisecond
	for {
		try, cancel := context.WithTimeout(ctx, q.try)
		err := pgx.BeginFunc(try, q.db, func(tx pgx.Tx) error { return f(try, tx) })
		cancel()
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
		return false // all others are answers to this statement, and stay
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
