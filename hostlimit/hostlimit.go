// Package hostlimit decides who may start a request to which host, and when:
// slots, delays and blocks, per host key.
//
// Use it through politeness.New, or by itself wherever work on many keys must
// be paced and a refusal by one key must hold everybody who wants that key.
// [Memory] does it for one process, in about a hundred bytes per host, with no
// goroutine of its own. Whatever implements [Limiter] can be held against the
// same promises by hostlimittest.Run.
//
// What a key promises, whoever asks for it:
//
//   - The starts of two requests are never closer than the delay in force,
//     counted from the moment at which the earlier one really started: a
//     goroutine that wakes late moves the next start, it doesn't shorten the gap.
//   - No more than Concurrency requests are in flight, first come, first served.
//   - After a refusal (status 429, and what [backoff.Refusals] adds) nobody
//     starts until the block ends, also those already waiting. Then one request
//     probes and the rest wait for its answer. Success lifts the block at once.
//   - Whoever leaves, by a cancelled context or a timeout, gives back its place,
//     and nobody else starts later for it.
package hostlimit

import (
	"context"
	"time"
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
// are safe to call more than once and from any goroutine; only the first call
// of each counts, and Observe after Release does nothing.
type Lease interface {
	// Observe tells what the host answered. Call it once, when the response's
	// headers have arrived or the attempt has failed.
	Observe(Outcome)
	// Release gives the slot back. Call it when the response's body has ended.
	// Release without Observe says nothing about the host.
	Release()
}

// An Outcome is what one request told about its host.
//
// A refusal (see [backoff.Refusals]) blocks the key. Any other status below 500
// is a success. Any other outcome, such as a 500 that doesn't count as a
// refusal, neither blocks nor clears.
type Outcome struct {
	// Status is the response's status code, 0 if there was no response.
	Status int
	// Latency is the time from the start to the response's headers.
	Latency time.Duration
	// RetryAfter is how long the host asks to be left alone, counted from now;
	// 0 if it did not say. It matters only where the outcome is a refusal.
	RetryAfter time.Duration
	// Err is the error of an attempt without a response. An outcome whose Err is a
	// context error says nothing about the host.
	Err error
	// Aside is for what hosts serve to whom they refuse their pages, such as
	// robots.txt: its success lifts no block. Its refusal counts as any.
	Aside bool
}

// A Grant tells how a turn came about. Leases of Memory and of redislimit
// implement interface{ Grant() Grant }. The three waits add up to the time
// from the call of Acquire to Start.
//
// Leases of Memory implement interface{ TakenBack() []string } too: the keys of
// leases that were found expired, for want of a place of MaxInFlight, while
// nobody waited for those keys. One start tells of each, whatever its own key.
type Grant struct {
	Seq   uint64    // number of this start on its key since the key's state was made, from 1
	Start time.Time // when the request was let go, stamped as it happened

	WaitSlot  time.Duration // time waited because every slot (of the key, or of MaxInFlight) was taken
	WaitDelay time.Duration // time waited for the gap to the start before
	WaitBlock time.Duration // time waited because the key was blocked, or for the probe's answer

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
