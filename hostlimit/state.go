package hostlimit

import "time"

// A HostState is the state of one key in a limiter, for a status page. Its own JSON has durations
// in nanoseconds, as that of a time.Duration. politeness.Status writes them in seconds.
type HostState struct {
	Key      string `json:"host"`
	Starts   uint64 `json:"starts"`    // requests started since the key's state was made
	InFlight int    `json:"slotsUsed"` // slots in use; that of an expired lease counts until a request needs it
	Slots    int    `json:"slots"`     // number of slots of the key
	Waiters  int    `json:"waiters"`   // requests in the queue
	// Hold is why the first request of the queue waits, as a word of Wait.Hold. It is empty if no
	// request waits.
	Hold string `json:"hold,omitempty"`
	Why  string `json:"why,omitempty"` // that reason, in a sentence

	// Silent is the longest time for which a slot has been in use without a Renew. If Silent is
	// large, a response takes long, or a body is neither read nor closed. Silent is 0 if no slot is
	// in use.
	Silent time.Duration `json:"silent,omitempty"`
	// SilentBy is the name of the request that occupies that slot, as Watcher.String returns it. It
	// is empty if the request has no name.
	SilentBy string `json:"silentBy,omitempty"`

	// Next is the earliest start of the first request in the queue. If the queue is empty, it is that
	// of the next request. If the request could start now, Next is in the past.
	Next         time.Time `json:"nextStart"`
	BlockedUntil time.Time `json:"blockedUntil,omitzero"` // end of the block, zero if the key isn't blocked
	// BlockedBy is the cause of the block, such as "status 429", "network error", "refused"
	// (Outcome.Refused), "rate limit" (Outcome.Reset), "hours" (Config.Windows), or "by hand: " and
	// the reason (Controller.Block). It is empty if the key isn't blocked.
	BlockedBy string `json:"blockedBy,omitempty"`
	// Refusals is the number of refusals in a row, at most 255. The number stays after the end of a
	// block, until a probe succeeds.
	Refusals int  `json:"refusals,omitempty"`
	Probing  bool `json:"probing,omitempty"` // a first request after a block is in flight

	// Delay is the delay in force since the last start, or the floor of the head of the queue if
	// that is longer.
	Delay time.Duration `json:"delay"`
	// DelaySource is the rule that gave Delay, that is "random" (Delay.Min and Max), "crawl-delay"
	// (the caller's floor), "adaptive" (response times) or "learned" (refusals). It is empty before
	// the first start.
	DelaySource string `json:"delaySource"`
	// Adaptive is the delay by response times. It is 0 if Delay.Adaptive doesn't use them.
	Adaptive time.Duration `json:"adaptive,omitempty"`
	Learned  time.Duration `json:"learned,omitempty"` // delay that refusals have taught, 0 if there is none
}
