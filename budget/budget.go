// Package budget limits the pages, pages per host, bytes, and time of a crawl.
//
// A crawl that spends alone sets politeness.Config.Spend. Give politeness.Config.Budget a [Memory]
// made by [New] to let several Transports spend it together, or to ask it for its [Usage]:
//
//	b := budget.New(budget.Limits{Pages: 200, Duration: time.Hour, WarnAt: 0.8})
//
// This is how requests count:
//
//   - A page is one navigation that was sent. Hops of a redirect are not separate pages,
//     neither is robots.txt, nor a request that was refused before it was sent. With package crawl
//     this is different. There each hop and each try is a separate request, and counts as a page.
//   - Bytes are bytes of response bodies as they are read, after decompression.
//   - Time is counted from the first page or byte. A [Memory] counts it by the monotonic clock of
//     the process. On some systems that clock stands still while the computer sleeps. Time limits
//     starts. A request that was started in time may end later.
//
// A limit of N is reached at N and never passed, for any number of concurrent goroutines. A budget
// is spent once, so for the next crawl make a new one, unless [Limits.Every] renews it.
package budget

import (
	"context"
	"time"
)

// A Budget is spent by one or several Transports. [Memory] implements it for one process.
// Implementations are safe for concurrent use and exact. A limit of N is reached at N, and never
// passed. Each context bounds a call that has to ask another machine. An error that isn't an
// [*Error] means that the budget could not be asked. Nothing was spent then.
type Budget interface {
	// Check returns an *Error if nothing is left for host, or if a request at start would be past
	// the time limit. Call it before a wait, so that no wait is useless. Check spends nothing. If
	// start is zero, it stands for now. If you have just read the clock, pass the time to spare
	// another reading. Time and bytes are checked before pages. So if the error names pages, some
	// time and some bytes are left.
	Check(ctx context.Context, host string, start time.Time) error
	// Reserve takes a page of host, or returns an *Error and takes nothing. The page is spent unless
	// Refund gives it back. It counts in the window that Window returns.
	Reserve(ctx context.Context, host string) ([]Warning, error)
	// Refund gives a reserved page of host back, because its request was never sent. If a new window
	// has begun since the page was reserved, don't call Refund. Such a page stays spent.
	Refund(ctx context.Context, host string)
	// TakeBytes spends up to n bytes and returns how many it has spent. If fewer are left, or fewer
	// can be granted immediately, it spends fewer. If none is left, it returns an *Error. A Transport
	// calls it for the bytes that it has read, before its caller sees them.
	TakeBytes(ctx context.Context, n int64) (taken int64, warnings []Warning, err error)
	// Limits returns the limits of the budget. A zero field is unlimited.
	Limits() Limits
	// Window returns when the present window of Limits.Every began, by the clock of the budget. It
	// is zero if the budget is spent once.
	Window() time.Time
	// Usage returns the spent part of the budget.
	Usage(ctx context.Context) (Usage, error)
}
