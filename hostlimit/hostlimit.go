// Package hostlimit decides who may start a request to which host, and when:
// slots, delays and blocks, per host key.
//
// Use it through politeness.New, or by itself wherever work on many keys must
// be paced and a refusal by one key must hold everybody who wants that key.
package hostlimit

import (
	"context"
	"errors"
	"time"

	"github.com/go-politeness/politeness/backoff"
)

// A Limiter hands out turns on keys. It is the interface that politeness.Config.Hosts
// takes; [Memory] implements it for one process. Implementations are safe for
// concurrent use and pass hostlimittest.Run.
type Limiter interface {
	// Acquire waits for a slot and for the start time of key, and returns once
	// the request may start. floor is the shortest gap that the key's own rules
	// ask for (robots.txt crawl-delay), zero for none. It returns an *Error when
	// the turn is refused, and ctx's error when ctx is done first.
	Acquire(ctx context.Context, key string, floor time.Duration) (Lease, error)

	// Next reports the earliest time at which a request to key could start. It
	// takes no place and never blocks on the key.
	Next(ctx context.Context, key string, floor time.Duration) (time.Time, error)
}

// A Lease is one taken turn: a slot that is held until Release. Both methods
// are safe to call more than once and from any goroutine; only the first call of each counts.
type Lease interface {
	// Observe tells what the host answered. Call it once, when the response's
	// headers have arrived or the attempt has failed.
	Observe(Outcome)
	// Release gives the slot back. Call it when the response's body has ended.
	// Release without Observe says nothing about the host.
	Release()
}

// An Outcome is what one request told about its host.
type Outcome struct {
	// Status is the response's status code, 0 if there was no response.
	Status int
	// Latency is the time from the start to the response's headers.
	Latency time.Duration
	// RetryAfter is how long the host asks to be left alone, counted from now;
	// 0 if it did not say.
	RetryAfter time.Duration
	// Err is the error of an attempt without a response. An outcome whose Err is a
	// context error says nothing about the host.
	Err error
}

// A Grant tells how a turn came about. Leases of Memory and of redislimit
// implement interface{ Grant() Grant }.
type Grant struct {
	Seq   uint64    // number of this start on its key since the key's state was made, from 1
	Start time.Time // when the request was let go, stamped as it happened

	WaitSlot  time.Duration // time waited because every slot was taken
	WaitDelay time.Duration // time waited for the gap to the start before
	WaitBlock time.Duration // time waited because the key was blocked

	Delay   time.Duration // delay in force: the next start on this key is not earlier than Start+Delay
	Slot    int           // slots of this key in use, this one included
	Slots   int           // slots that this key has
	Probe   bool          // first request after a block
	Expired int           // leases of this key found expired (LeaseTTL) and taken back by this turn
}

// An Effect tells what an observed outcome did to its key. Leases of Memory
// and of redislimit implement interface{ Effect() Effect }; it is zero before Observe.
type Effect struct {
	Blocked  bool      // the outcome set or lengthened a block of the key
	Until    time.Time // end of the block in force; zero if the key isn't blocked
	Refusals int       // refusals in a row, counted once a block
	Cleared  bool      // the outcome lifted a block or reset the counter
	Expired  bool      // the lease had expired (LeaseTTL) before Release
}

// The reasons of a refusal, for errors.Is on an [*Error].
var (
	// ErrBusy: no turn was to be had within SlotTimeout, MaxWait or the context's deadline.
	ErrBusy = errors.New("host busy")
	// ErrBlocked: the key is blocked for longer than the caller may wait.
	ErrBlocked = errors.New("host blocked")
)

// An Error is a refused turn. It matches ErrBusy or ErrBlocked, and
// context.DeadlineExceeded where the context's deadline was the limit.
type Error struct {
	Key     string
	RetryAt time.Time // earliest time at which a turn may be had; zero if unknown
	Err     error     // what was the limit; wraps ErrBusy or ErrBlocked
}

func (e *Error) Error() string { return "hostlimit: " + e.Key + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Config of a Memory. The zero value is 2 requests a host, 200 to 500 ms apart.
type Config struct {
	Concurrency int                             // slots per key; 0: 2
	MaxInFlight int                             // requests in flight over all keys; 0: unlimited
	Delay       Delay                           // gap between starts on a key
	SlotTimeout time.Duration                   // longest wait for a slot; 0: 10 s
	LeaseTTL    time.Duration                   // after which a lease that was never released is taken back; 0: 300 s
	MaxWait     time.Duration                   // longest wait for a turn; 0: as long as the context allows
	Backoff     backoff.Policy                  // nil: backoff.Fibonacci{}
	MaxHosts    int                             // idle keys kept; 0: 1,000,000
	Override    func(key string) (Limits, bool) // limits of single keys; nil: none
}

// Delay is the gap between two starts on a key.
type Delay struct {
	Min, Max        time.Duration // random within; both 0: 200 to 500 ms; Max 0: Min
	Adaptive        Adaptive      // zero: none; Squared, Proportional, Throttle
	Ceiling         time.Duration // upper bound of the adaptive delay; 0: 60 s
	DangerouslyNone bool          // no delay of our own; crawl-delay and blocks still hold
}

// Limits replace Concurrency and Delay for one key; zero fields keep the Config's.
type Limits struct {
	Concurrency int
	Delay       Delay
}

// Adaptive moves the delay with the host's response times: Squared, Proportional(f), Throttle(target).
type Adaptive struct {
	next func(old, latency time.Duration) time.Duration
}
