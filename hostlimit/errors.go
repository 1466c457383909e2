package hostlimit

import (
	"time"

	"github.com/go-politeness/politeness/hostlimit/internal/kit"
)

// The reasons of a refusal, for errors.Is on an [*Error].
var (
	// ErrBusy: no turn was to be had within SlotTimeout, MaxWait or the context's deadline.
	ErrBusy = kit.ErrBusy
	// ErrBlocked: the key is blocked for longer than the caller may wait.
	ErrBlocked = kit.ErrBlocked
	// ErrDraining: a person has ended the limiter by Drain; there is no use in coming back.
	ErrDraining = kit.ErrDraining
)

// An Error is a refused turn. It matches ErrBusy, ErrBlocked or ErrDraining, and
// context.DeadlineExceeded where the context's deadline was the limit, whether that was
// foreseen or has passed. A turn that was held by what has no known end, such as a slot,
// may be had at any time: RetryAt is then as long after the refusal as the request had
// waited, or when the oldest lease expires (LeaseTTL) if that is sooner.
type Error struct {
	Key     string
	RetryAt time.Time // when to ask again: the earliest start that is known; zero with ErrDraining
	Err     error     // what was the limit; wraps ErrBusy, ErrBlocked or ErrDraining

	Restored *Restored // as in Grant
	StateErr error     // as in Grant
	ByHand   *ByHand   // as in Grant
}

func (e *Error) Error() string {
	if e.Key == "" { // of a lease that was released
		return "hostlimit: " + e.Err.Error()
	}
	return "hostlimit: " + e.Key + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }
