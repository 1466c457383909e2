// Package budget counts what a crawl may spend: pages, bytes, wall time, and
// pages per host.
package budget

import (
	"context"
	"errors"
	"time"
)

// A Budget is spent by one or several Transports. [Memory] implements it for
// one process. Implementations are safe for concurrent use and exact: a limit
// of N is reached at N, never passed.
type Budget interface {
	// Check returns an *Error when nothing is left for host, or when a request
	// that starts at the given time would start past the time limit. It spends nothing.
	Check(ctx context.Context, host string, start time.Time) error
	// Reserve takes a page of host. The page is spent unless Refund gives it back.
	Reserve(ctx context.Context, host string) ([]Warning, error)
	// Refund gives a reserved page of host back: the request was never sent.
	Refund(ctx context.Context, host string)
	// TakeBytes takes up to n bytes and reports how many were left to take; with
	// none left it returns an *Error.
	TakeBytes(ctx context.Context, n int64) (int64, []Warning, error)
	// GiveBytes gives back n taken bytes that were not read.
	GiveBytes(ctx context.Context, n int64)
	// Usage reports what has been spent.
	Usage(ctx context.Context) (Usage, error)
}

// The names of the limits, in errors and in warnings.
const (
	Pages        = "pages"
	PagesPerHost = "pages_per_host"
	Bytes        = "bytes"
	Time         = "time"
)

// ErrExceeded matches every refusal by a budget, through errors.Is.
var ErrExceeded = errors.New("budget exceeded")

// An Error says which limit refused, and by how much. Time is in whole seconds, rounded down.
type Error struct {
	Limit string // Pages, PagesPerHost, Bytes or Time
	Host  string // for PagesPerHost
	Used  int64  // spent so far
	Want  int64  // what was asked for on top
	Max   int64  // the limit
}

// A Warning says that a limit is nearly reached. Each limit (and each host, for
// PagesPerHost) warns once.
type Warning struct {
	Limit string
	Host  string
	Used  int64
	Max   int64
}

// Usage is a snapshot of what has been spent.
type Usage struct {
	Limits  Limits
	Pages   int64
	Bytes   int64
	Started time.Time     // first use; zero before
	Elapsed time.Duration // since Started
}

// Limits are the limits of a budget. A zero field is unlimited.
type Limits struct {
	Pages        int64         // pages in all
	PagesPerHost int64         // pages of one host
	Bytes        int64         // bytes of bodies, as read
	Duration     time.Duration // wall time from the first use
	WarnAt       float64       // share of a limit at which it warns, 0 < WarnAt < 1; 0: no warnings
}
