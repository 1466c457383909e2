package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "modernc.org/sqlite" // registers "sqlite"
)

// An engine is a kind of database: "sqlite" or "duckdb", which are also the names of their drivers.
type engine string

const (
	sqlite engine = "sqlite"
	duckdb engine = "duckdb"
)

// engineOf returns the engine of a file: by name, or by the file's extension if that is empty.
func engineOf(name, file string) (engine, error) {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".duckdb", ".ddb":
		if name == "" {
			name = string(duckdb)
		}
	}
	e := engine(name)
	if name == "" {
		e = sqlite
	}
	switch {
	case e != sqlite && e != duckdb:
		return "", fmt.Errorf("-engine %q is neither sqlite nor duckdb", name)
	case !slices.Contains(sql.Drivers(), string(e)):
		return "", errors.New("this program has no DuckDB in it: " +
			"build it with cgo, that is with a C compiler and CGO_ENABLED=1, or use SQLite")
	}
	return e, nil
}

// open opens a file, which is made for its owner alone if there is none.
func (e engine) open(ctx context.Context, file string) (*sql.DB, error) {
	dsn := file
	if e == sqlite {
		// full: a row is on the disk before the queue says that its URL is done.
		dsn = "file:" + file + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)"
	}
	db, err := sql.Open(string(e), dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // all access is one after the other
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", file, err), db.Close())
	}
	return db, nil
}

// private makes an empty file that only its owner can read, unless there is one. DuckDB makes its
// file itself, and main's umask makes it private.
func (e engine) private(file string) error {
	if e == duckdb {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// threads is how many the engine works with.
func (e engine) threads(ctx context.Context, db *sql.DB) (int, error) {
	if e == sqlite {
		return 8, nil
	}
	var n int
	err := db.QueryRowContext(ctx, "SELECT current_setting('threads')").Scan(&n)
	return min(max(n, minThreads), maxThreads), err
}

// timestamp is t as a value of a TIMESTAMP column, which is UTC and has microseconds; NULL for the
// zero time.
func (e engine) timestamp(t time.Time) any {
	switch {
	case t.IsZero():
		return nil
	case e == sqlite:
		return t.UTC().Format("2006-01-02 15:04:05.000000")
	}
	return t.UTC()
}

// orNull is NULL for a zero value.
func orNull[T comparable](v T) any {
	if v == *new(T) {
		return nil
	}
	return v
}
