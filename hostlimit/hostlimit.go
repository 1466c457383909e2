// Package hostlimit decides when a request may start on a host. It keeps slots, delays and blocks
// for each host key.
//
// politeness.New uses this package. You can also use it by itself to pace work on many keys. It
// suits any service that can refuse, such as an API with a limit for each customer, if one refusal
// must stop all work for that customer. This package has the interfaces. Package hostlimit/memory
// has a [Limiter] for one process. Package redis/redislimit has a Limiter that many processes
// share.
//
// Terms:
//
//   - A key names a host or another unit that is limited.
//   - A slot is the permission to have one request in flight. A lease is a slot that was given to a
//     request. A place is the permission to be one of the MaxInFlight or PerSite requests in
//     flight.
//   - A start is the moment at which a request goes out on its connection. A booking is the start
//     time that Acquire reserves for a lease. A stamp is the time of a start, as Lease.Start
//     records it.
//   - The delay is the shortest time between two starts. A floor is a lower bound of the delay for
//     which the caller asks, such as a crawl-delay. The delay may change from start to start. The
//     gap is its value between two given starts.
//   - A block is a time in which no request to the key starts. A probe is the first request after a
//     block.
//   - A refusal is a response that blocks the key, such as 429. Refusals in a row are those since
//     the last success.
//   - An unsure response, such as 503 or none at all, sets a short block, which is called a pause.
//   - A ban is a block after several responses such as 403 in a row.
//   - The debt of a key is the part of its state that a Store keeps.
//
// A page may get an unsure response. The probe may then be a request for the same page, and get an
// unsure response too. If the next request, for another page, is served, only the first page fails.
// Then the pause is over, and the delay doesn't grow.
//
// A limiter promises for each key:
//
//   - Two starts are never closer than the delay in force. The delay counts from the moment at
//     which the earlier request really started (see [Lease]).
//   - No more than Concurrency requests are in flight, first come, first served. A request occupies
//     a slot until the body of the response ends. If its lease isn't renewed for LeaseTTL, the
//     request loses the slot.
//   - After a refusal (see [Outcome]) no request starts until the block ends, not even one that
//     waits already. Then one request probes, and the others wait for its response. A success ends
//     the block immediately.
//   - If a waiting request is cancelled or times out, it leaves the queue. The requests behind it
//     start as if it had never been there.
//
// If you write a Limiter, use package hostlimit/rules. It computes delays and blocks from a Config,
// so that every Limiter follows a Config in the same way. Test your Limiter with hostlimittest.Run.
// Package hostlimit/hints reads the headers of a response. The example examples/peraddress combines
// two Limiters to one.
package hostlimit

import (
	"context"
	"iter"
	"time"
)

// A Limiter decides when a request may start on a key. It is the interface of
// politeness.Config.Limiter. Function memory.New makes the Limiter of one process. Implementations
// are safe for concurrent use and pass hostlimittest.Run.
type Limiter interface {
	// Acquire waits for a slot and for the start time of key, and returns once the request may
	// start. It books the start time, so that no other request starts too close to it. Start turns
	// the booking into a start. The floor is the shortest gap that the rules of the key ask for,
	// such as a crawl-delay. Zero means no such gap. FloorUnknown, or any other negative floor,
	// stands for the last known floor of the key. If the request can't start, or the deadline of
	// ctx passes, Acquire returns an *Error. If ctx is cancelled first, Acquire returns the error
	// of ctx.
	Acquire(ctx context.Context, key string, floor time.Duration) (Lease, error)

	// Next returns the earliest time at which a request to key could start, so far as that is
	// known, Windows included. Next reserves nothing, and never waits for the key. A floor below
	// zero counts as none, unlike in Acquire.
	Next(ctx context.Context, key string, floor time.Duration) (time.Time, error)

	// Config returns the Config that the limiter was made of, except for PerSite. PerSite is the bound
	// in force, and 0 or less if the limiter doesn't bound sites. Read PerSite before you call
	// WithDefaults, because WithDefaults replaces 0 by a bound. The defaults of all other fields may
	// be missing, so call WithDefaults before you read them.
	Config() Config

	// ID returns the names of the limiter in evidence, at most 16 characters each. The first result,
	// limiter, is the same for all processes that share the limiter's state. The second result,
	// process, is the name of this process. Grant.Seq counts the starts under that name. If no other
	// process can share the state, process is empty. If the limiter's server doesn't respond, both
	// results are empty.
	ID(ctx context.Context) (limiter, process string)

	// Controller has the operations for an operator. A wrapper that embeds a Limiter has them too.
	Controller
}

// FloorUnknown is the floor for a request whose caller doesn't know the rules of the key. Use it
// for the fetch of robots.txt itself. The limiter then uses the last floor that another request of
// the key gave.
const FloorUnknown time.Duration = -1

// A Lease is a slot that a request occupies until Release. This is the whole contract, so a wrapper
// that forwards these five methods loses nothing. All are safe to call from any goroutine, but only
// one Start may run at a time.
type Lease interface {
	// Start records that the request starts now. Call it right before the request is written to a
	// connection. If you call it before you have a connection, and getting one takes time, call it
	// again when you have it (httptrace.ClientTrace.GotConn). Each call does three things:
	//
	//   - It cancels the booking of Acquire, or the stamp of an earlier Start of this lease.
	//   - It waits until the gap to the last other start of the key has passed, and the key isn't
	//     blocked.
	//   - It stamps the start with the present time, and gives it a new number.
	//
	// A lease that waits in Start goes before all requests that wait in Acquire. Several leases in
	// Start go in the order in which they called it. Each occupies a slot already, so there are
	// never more of them than slots.
	//
	// If the wait would exceed MaxWait from the call, or the deadline of ctx, Start returns an *Error.
	// It also does so if the lease has ended. If ctx is cancelled first, Start returns the error of
	// ctx. After an error the lease has no stamp, but occupies its slot until Release.
	Start(ctx context.Context) (Grant, error)
	// Observe takes the response of the host, and returns its effect on the key. Call it once, when
	// the response's headers have arrived or the attempt has failed. A second call, and one after
	// Release, does nothing and returns the zero Effect.
	Observe(Outcome) Effect
	// Revise reports that the response was a refusal, and returns its effect on the key. Call it if
	// only the body shows the refusal, such as a challenge with status 200. By then Observe has
	// reported a success, which has lifted the block and set the refusals in a row to 0. The
	// Outcome is that of Observe, with the reason in Refused. Without a reason Revise does nothing.
	//
	// The refusal counts as Observe would have counted it. Revise restores the number of refusals
	// in a row from before the success, and adds one. So a second refusal that is found late blocks
	// for longer than the first. If a block was set after the start of the request, the refusal is
	// a part of that block, and isn't counted. If its Retry-After ends later than the block, the
	// block is lengthened. Pages that were served meanwhile change nothing, and a block by an
	// operator stays.
	//
	// Revise may come after Release, and at any later time. The first call counts. A call before
	// Observe, and a second one, do nothing and return the zero Effect.
	Revise(Outcome) Effect
	// Renew reports that the lease is in use. LeaseTTL counts anew. It costs little and never
	// waits, so call it at every read of the response's body.
	Renew()
	// Release gives the slot back. Call it when the response's body has ended. It reports whether the
	// lease had expired before, so that the limiter has already taken the slot back. A further call
	// does nothing. If the lease had no Start, its booking is cancelled.
	Release() (expired bool)
}

// A Controller steers a limiter while it works. An operator can block a host, lift a block, look at
// the hosts, and end the work. It is part of every [Limiter]. See [Acts] for how an act gets on
// record.
type Controller interface {
	// Block lets no request start on key before until. Waiting and new requests of the key, and the
	// Start of a lease, fail immediately with ErrBlocked and RetryAt, even if the block is short. No
	// response lifts the block, only Clear. Requests that have started continue. A request whose start
	// is just being saved continues too. If the key already has a block that ends later, that end
	// stays. List, errors and evidence show the cause as "by hand: " with the text why. A Store, or a
	// server, keeps the block beyond the process. The key is the result of Transport.HostKey for a
	// URL, such as "example.com". A URL, or another spelling, matches no request. Block returns an
	// error if an argument is invalid or the Store fails.
	Block(ctx context.Context, key string, until time.Time, why string) error
	// Clear lifts the block of key, also one that the host has asked for, and forgets its refusals,
	// so that the next request isn't a probe. A learned delay stays. Evidence records the call of
	// Clear.
	Clear(ctx context.Context, key string) error
	// State returns the state of one key, as List yields it. It changes nothing. A key that the
	// limiter doesn't know stays unknown. Its state has no start, no refusal and no block except by
	// Config.Windows. A limiter whose state is on a server asks the server, so bound the wait by ctx.
	State(ctx context.Context, key string) (HostState, error)
	// List yields the state of every known key, in no order. Each state is consistent in itself.
	// The keys may change while they are listed. An error ends the list.
	List(ctx context.Context) iter.Seq2[HostState, error]
	// Drain lets no further request start, refuses all that wait with ErrDraining, and returns when
	// no request is in flight, or with ctx's error before that. It is final. If processes share a
	// limiter, it ends only the part of this process.
	Drain(ctx context.Context) error
}

// An Outcome is the response to one request, or its failure. Pass it to [Lease.Observe] once the
// headers have come, or the request has failed. It has this effect on the key:
//
//	response                                   effect
//	429                                        block for RetryAfter, or by the policy
//	Refused is set                             block for RetryAfter, or by the policy
//	a status that [backoff.Refusals] adds      block for RetryAfter, or by the policy
//	503 with RetryAfter, if the policy is a    block for RetryAfter, or by the policy
//	backoff.Refusals with AtLeast
//	Refused and Banned are set                 a ban: block for a minute, twice as long with each ban in
//	                                           a row up to 10 minutes, later up to 4 h. RetryAfter or the
//	                                           policy count if they are longer
//	a refusal, but the request started before  isn't counted, because it belongs to that block. With
//	the last block was set                     RetryAfter the key is blocked until then, even if that
//	                                           block is over
//	401, 402, 403, 451, an unregistered 4xx,   no effect up to the fifth in a row
//	600 and more, 406 to a GET                 (backoff.Refusals.InARow). Then one request starts alone.
//	                                           If it gets such a response too, the key is banned
//	400, 405, 409 to a GET, if Page is set     as 403
//	408, 425, 5xx, no response                 pause: Fibonacci steps up to 5 minutes, or RetryAfter.
//	                                           Then one request shows whether only this page fails
//	a response of the three rows above to the  a refusal instead: block for RetryAfter, or by the policy,
//	probe after a refusal                      one more in a row
//	404, 410, any status below 400             success: ends the block, and the refusals in a row
//	                                           become 0
//	any other 4xx, 501 to another method       no effect, because it is about the request
//	than GET
//	407, a caller that gave up                 no effect
//	3xx, or 400 and more, with RetryAfter      in addition the key is blocked until then, which isn't
//	                                           counted as a refusal
//	any response with Reset                    the same
//
// backoff.Refusals.MaxRetryAfter caps the wait that a response asks for. rules.Refusals has the
// states of a key, and [Adaptive] has the effect of responses on the delay.
type Outcome struct {
	// Status is the response's status code, 0 if there was no response.
	Status int
	// Latency is the time from the start to the response's headers, or to the failure.
	Latency time.Duration
	// RetryAfter is the wait that the host asks for, counted from now. It is 0 if the host asks for
	// none. If RetryAfter counts, Reset has no effect. RetryAfter doesn't count on a response below
	// 300 that isn't a refusal, because some hosts send it with each page. Leave it out for a
	// redirect to another host, because the wait is then meant for the other host.
	RetryAfter time.Duration
	// Err is the error of an attempt without a response. If Err is an error of a context, only the
	// Latency of the outcome counts.
	Err error
	// Aside is for a resource such as robots.txt. A host often serves it even to a crawler that
	// gets no pages. If such a request succeeds, it lifts no block. If it is refused, the refusal
	// counts as any other.
	Aside bool
	// Refused is the reason why the response is a refusal for any status, such as a challenge
	// instead of a page. If it is empty, the status decides.
	Refused string
	// Banned means that the refusal is a ban. Set Refused to the reason. The host gives the same
	// response to different pages, one of which it served before. The key is blocked for a minute,
	// doubling with each ban in a row. The first of them makes the delay two to four times as long
	// (see Learned). If Banned is false, the policy decides for how long the key is blocked. Banned
	// has no effect without Refused.
	Banned bool
	// Reset is the time until the reset of the host's rate limit, if nothing of it is left. It is 0
	// if something is left, or the response shows no limit.
	Reset time.Duration
	// Resource is a hash of the URL, the method, and whether the request has a condition or range.
	// Use any hash that isn't 0 and is the same for the same request. The limiter recognizes by it
	// that only this page fails. It is 0 if not known.
	Resource uint64
	// Method is that of the request. If it is empty, the method is GET.
	Method string
	// Conditional means that the request had a condition or a range. Then 400, 405, 406 and 409 may
	// be about the condition, and not about the URL.
	Conditional bool
	// Page means that a 400, 405 or 409 to a GET counts as a 403 does. Set it only if the caller
	// checks for a ban. After several such responses in a row it must request a page that the host
	// has served before. Package crawl does. If Page is false, such a response shows only that the
	// request is wrong, as in an API.
	Page bool
}

// A Grant describes a start. The three waits add up to the time spent in Acquire and in the calls
// of Start. If you write a Limiter, fill all fields but those about features that it lacks, such as
// a Store, PerSite, or a clock that processes share. hostlimittest.Run checks them.
type Grant struct {
	// Seq numbers the starts of this process on the key. It begins with 1 when the state of the key is
	// made.
	Seq   uint64
	Start time.Time // stamp of the start, taken as Start returned

	// At is the start by the clock of a limiter that several processes share. Prev and BlockedUntil
	// then use that clock too. If At is zero, both use the process's own clock, as Start does.
	At time.Time
	// Prev is the time of the latest earlier start on the key, in any process, whose request has
	// ended. A start whose lease is still in use doesn't count. Prev is zero if not known.
	Prev time.Time
	// BlockedUntil is the end of the last block of the key. It is zero if no block is known, or if
	// the refusals in a row were reset. A success, an operator, or a quiet time of
	// backoff.Refusals.Forgive resets them.
	BlockedUntil time.Time

	WaitSlot  time.Duration // time waited because every slot (of the key, of PerSite, or of MaxInFlight) was taken
	WaitDelay time.Duration // time waited for the gap to the start before
	WaitBlock time.Duration // time waited because the key was blocked (by Windows too), or for the probe's response

	Delay       time.Duration // delay in force, so that the next start on this key is at Start+Delay or later
	DelaySource string        // rule that gave it, "random", "crawl-delay", "adaptive" or "learned"
	Slot        int           // slots of this key in use at the grant, this one included
	Slots       int           // number of slots of this key
	Probe       bool          // first request after a block

	// Own are the limits that Config.Override gave for this start, completed by the Config's. It is
	// nil if the Config's limits apply.
	Own *Limits

	// TakenBack lists leases that have expired (LeaseTTL), if no earlier Grant reported them. These
	// are leases of this key. If a place of MaxInFlight was needed, they are also leases of other
	// keys. A memory.Limiter reports at most 255 for a key.
	TakenBack []TakenBack

	// Restored is the latest block of the key that was read from Config.Store. An earlier process, or
	// another one, had saved the block. Each block is reported once, by a Grant or an Error. Restored
	// is nil if there is no such block.
	Restored *Restored
	// StateErr is the error, or the panic, of the Store for the key. The debt of the key may be lost
	// when the process ends. The error is reported once, and again only after the Store has worked. It
	// is nil if there is no new error.
	StateErr error
	// ByHand is the latest Block by an operator (BlockedAt, BlockedUntil and Cause), or the latest
	// Clear (ClearedAt), that no earlier Grant or Error reported. It is nil if there is none.
	ByHand *Debt
}

// TakenBack names a lease whose slot was taken back.
type TakenBack struct {
	Key     string
	Seq     uint64 // number of its start, 0 if it hadn't started or if not known
	Process string // process that made the start, as by Limiter.ID, empty for this one
}

// Restored is a block that was read from Config.Store.
type Restored struct {
	// Debt is the block. If the clock was set back since, BlockedUntil is earlier than in the Store.
	// The block then lasts at most as long as when it was set, or MaxRetryAfter if that is longer.
	Debt
	Met time.Time // time of the reading
}

// An Effect is the change of a key by an observed outcome. It is zero if the key has no state and
// hasn't changed. Lease.Observe returns it.
type Effect struct {
	Blocked  bool      // the outcome set or lengthened a block of the key
	Until    time.Time // end of the block, zero if the key isn't blocked
	Kind     string    // counter that grew, "refused", "unsure" or "ban", empty if none grew
	Row      int       // number of that Kind in a row, at most 255, 0 if it wasn't counted
	Refusals int       // refusals, unsure responses and bans in a row, those of one block counted once
	Cleared  bool      // the outcome lifted a block or reset the counter
	Own      bool      // only this page fails, so another request for it is useless
	StateErr error     // as in Grant, or a panic of Config.Backoff; then a step of backoff.Fibonacci blocks the key
}
