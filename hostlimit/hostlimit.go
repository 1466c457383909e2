// Package hostlimit decides which request may start on which host, and when:
// slots, delays and blocks, per host key.
//
// Use it through politeness.New, or by itself wherever work on many keys must be paced and a
// refusal by one key must hold everybody who wants that key. [Memory] does it for one process, in
// about a hundred bytes per host, with no goroutine of its own. Whatever implements [Limiter] can
// be held against the same promises by hostlimittest.Run.
//
// What a key promises, whoever asks for it:
//
//   - The starts of two requests are never closer than the delay in force,
//     counted from the moment at which the earlier one really started (see
//     [Lease]): a goroutine that wakes late moves the next start, it doesn't
//     shorten the gap.
//   - No more than Concurrency requests are in flight, first come, first served.
//   - After a refusal (see [Outcome]) nobody starts until the block ends, also those
//     already waiting. Then one request probes and the rest wait for its answer. Success
//     lifts the block at once.
//   - A request that leaves, by a cancelled context or a timeout, gives back its
//     place, and no other starts later for it. Neither does one whose turn led to
//     no start.
//   - A body that is read keeps its slot; one that nobody reads or closes loses it
//     after LeaseTTL.
package hostlimit

import (
	"context"
	"iter"
	"time"
)

// A Limiter hands out turns on keys. It is the interface that politeness.Config.Hosts
// takes; [Memory] implements it for one process. Implementations are safe for
// concurrent use and pass hostlimittest.Run.
type Limiter interface {
	// Acquire waits for a slot and for the start time of key, and returns once the request may
	// start. It books that instant provisionally, so that nobody else starts within the gap to it;
	// Start makes it a start. floor is the shortest gap that the key's own rules ask for
	// (robots.txt crawl-delay), zero for none. It returns an *Error when the turn is refused, which
	// is so too when ctx's deadline passes, and ctx's error when ctx is cancelled first.
	Acquire(ctx context.Context, key string, floor time.Duration) (Lease, error)

	// Next reports the earliest time at which a request to key could start, so far as
	// that is known: Windows are counted in. It takes no place and never blocks on the key.
	Next(ctx context.Context, key string, floor time.Duration) (time.Time, error)

	// Config returns what the limiter was made of: the limits that it promises, MaxWait
	// and LeaseTTL. A zero field means what it means in Config.
	Config() Config

	// What a person may ask of it. A wrapper that embeds a Limiter has all of this too.
	Controller
}

// A Lease is one taken turn: a slot that is held until Release. This is the whole
// contract; a wrapper that forwards these four methods loses nothing. All are safe
// to call from any goroutine, but only one Start may run at a time.
type Lease interface {
	// Start makes the turn a start. Call it right before the request is sent, and again whenever
	// the request reaches the wire later than that. Each call voids the lease's own stamp (the
	// booking of Acquire, or that of the Start before), waits until the gap to the last other start
	// of the key has passed and no block holds the key, then stamps the present moment and gives
	// the start a number of its own. Leases in Start go before requests that wait in Acquire, first
	// come, first served: each holds a slot already, so there are never more of them than slots.
	//
	// The error is an *Error if the wait exceeds, or is known to exceed, MaxWait, counted from the
	// call, or ctx's deadline, or if the lease has ended; it is ctx's error if ctx is cancelled
	// first. After an error the lease has no stamp, but holds its slot until Release.
	Start(ctx context.Context) (Grant, error)
	// Observe tells what the host answered, and returns what that did to the key. Call it once,
	// when the response's headers have arrived or the attempt has failed. A second call, and one
	// after Release, does nothing and returns the zero Effect.
	Observe(Outcome) Effect
	// Renew says that the lease is in use: LeaseTTL is counted anew. It costs little
	// and never waits; call it at every read of the response's body.
	Renew()
	// Release gives the slot back, and reports whether the lease had expired, so that
	// its slot had been taken back already. Call it when the response's body has
	// ended; a further call does nothing. Without a Start the lease owes the host
	// nothing: its booking is undone, and no number is used up of which the
	// [Watcher] isn't told.
	Release() (expired bool)
}

// A Controller is what a person may do to a limiter while it works: leave a host alone, lift a
// block, look, and come to an end. It is part of every [Limiter].
type Controller interface {
	// Block lets no request start on key before until. Whoever waits for the key, or asks for it
	// meanwhile, is refused at once with ErrBlocked and RetryAt, however short the block is, and
	// so is the Start of a lease that is held; no answer lifts the block, only Clear. Requests that
	// have started go on. A block that ends later already keeps its end. why is what List, errors
	// and evidence say: "by hand: " and why. A Store, or a server, keeps the block beyond the
	// process; the error says what was wrong with the arguments, or that it couldn't be kept there.
	Block(ctx context.Context, key string, until time.Time, why string) error
	// Clear lifts the block of key, whoever has set it, and forgets its refusals: the next request
	// isn't a probe. What was learned of its delay stays. A block that the host has asked for is
	// lifted as well; evidence tells of it.
	Clear(ctx context.Context, key string) error
	// List yields the state of every key that is known, in no order. Each state is
	// true for itself; the keys go on while they are listed. An error ends the list.
	List(ctx context.Context) iter.Seq2[HostState, error]
	// Drain lets no further request start, refuses all that wait with ErrDraining, and returns
	// when nothing is in flight, or with ctx's error before that. It is final: what has been
	// drained stays so. Where processes share a limiter it ends the part of this one.
	Drain(ctx context.Context) error
}

// ByHand is what a person has done to a key by its [Controller].
type ByHand struct {
	At    time.Time // when it was done
	Until time.Time // end of the block; zero: the key was cleared
	Why   string    // what was said of the block
}

// An Outcome is what one request told about its host:
//
//	answer                                     what it does to the key
//	429, 503 with RetryAfter, Refused set,     blocks it: RetryAfter, or as long as the policy says
//	what [backoff.Refusals] adds
//	such a one, of a request that started      blocks until RetryAfter as well, also where that block
//	before the block was set                   is over by now; it isn't counted
//	401, 402, 403, 451                         clears nothing; the fifth failure in a row (InARow)
//	                                           blocks as a refusal does
//	408, 425, 5xx, none                        the same, but for Fibonacci steps of up to 10 minutes
//	any of these to a probe                    blocks, counted as one more in a row
//	any other below 500                        success: clears block and counter
//	407; a caller that gave up                 nothing
//	Reset set, with any answer                 blocks until then as well; it isn't counted
//
// What an answer asks for is capped by MaxRetryAfter. What it does to the delay, see [Adaptive].
type Outcome struct {
	// Status is the response's status code, 0 if there was no response.
	Status int
	// Latency is the time from the start to the response's headers, or to the failure.
	Latency time.Duration
	// RetryAfter is how long the host asks to be left alone, counted from now; 0 if it did not say.
	// It matters only where the outcome is a refusal, and beside Reset, which it replaces.
	RetryAfter time.Duration
	// Err is the error of an attempt without a response. An outcome whose Err is a
	// context error says nothing about the host but how long it took.
	Err error
	// Aside is for what hosts serve to whom they refuse their pages, such as
	// robots.txt: its success lifts no block. Its refusal counts as any.
	Aside bool
	// Refused says why the answer is a refusal whatever its status is, such as a challenge
	// instead of a page; empty: the status decides.
	Refused string
	// Reset is how long it takes until the host's rate limit, of which nothing is left, is
	// reset; 0 if there is something left, or nothing was said.
	Reset time.Duration
}

// Left reports whether the caller gave the request up, so that o says nothing about the host.
func (o Outcome) Left() bool { return o.Status == 0 && o.Err != nil && callerLeft(o.Err) }

// A Grant tells how a start came about. The three waits add up to the time spent in
// Acquire and in the calls of Start.
type Grant struct {
	Seq   uint64    // number of this start on its key since the key's state was made, from 1
	Start time.Time // when Start let the request go, stamped as it happened

	WaitSlot  time.Duration // time waited because every slot (of the key, or of MaxInFlight) was taken
	WaitDelay time.Duration // time waited for the gap to the start before
	WaitBlock time.Duration // time waited because the key was blocked (by Windows too), or for the probe's answer

	Delay       time.Duration // delay in force: the next start on this key is not earlier than Start+Delay
	DelaySource string        // what decided it: "random", "crawl-delay", "adaptive" or "learned"
	Slot        int           // slots of this key in use at the grant, this one included
	Slots       int           // slots that this key has
	Probe       bool          // first request after a block

	// Own are the limits that Config.Override gave for this start, with what it left to the Config
	// filled in; nil where those of the Config hold.
	Own *Limits

	// TakenBack names each lease that was found expired (LeaseTTL) since a Start told of the last:
	// leases of this key, and those of others that were found for want of a place of MaxInFlight.
	// Memory tells of 255 of a key at most.
	TakenBack []TakenBack

	// Restored is the block that an earlier process, or another one, has left for the key in
	// Config.Store, where it was met since a Grant or an Error of the key told of the last one;
	// nil: none.
	Restored *Restored
	// StateErr is why the Store has failed for the key: what the key owes may be forgotten when the
	// process ends. It is told once, until the Store works again; nil: nothing new.
	StateErr error
	// ByHand is the last that a person has done to the key since a Grant or an Error of the key
	// told of it; nil: nothing.
	ByHand *ByHand
}

// TakenBack is a lease whose slot was taken back.
type TakenBack struct {
	Key string
	Seq uint64 // number of its start; 0: it hadn't started, or the limiter doesn't know
}

// Restored is a block that Config.Store had.
type Restored struct {
	Debt           // BlockedUntil is the end that holds here, also where the clock has been set back
	Met  time.Time // when it was read
}

// An Effect tells what an observed outcome did to its key. It is zero where the key
// owes nothing and nothing has changed.
type Effect struct {
	Blocked  bool      // the outcome set or lengthened a block of the key
	Until    time.Time // end of the block in force; zero if the key isn't blocked
	Refusals int       // refusals in a row, counted once a block
	Cleared  bool      // the outcome lifted a block or reset the counter
	StateErr error     // as in Grant
}
