package hostlimit

import (
	"errors"
	"fmt"
	"time"
)

// The reasons of a refusal, for errors.Is on an [*Error].
var (
	// ErrBusy means that no turn was free within SlotTimeout, MaxWait or the context's deadline.
	ErrBusy = errors.New("host busy")
	// ErrBlocked means that the key is blocked for longer than the caller may wait.
	ErrBlocked = errors.New("host blocked")
	// ErrDraining means that the limiter was ended by Drain: no later request starts either.
	ErrDraining = errors.New("the limiter was drained by hand: no request starts any more")
)

// An Error is a refused turn. It matches ErrBusy, ErrBlocked or ErrDraining, and
// context.DeadlineExceeded if the context's deadline was the limit, whether the deadline was
// foreseen or has passed. A turn that waited for something without a known end, such as a slot, may
// become free at any time: RetryAt is then as long after the refusal as the request had waited, or
// when the oldest lease expires (LeaseTTL) if that is sooner.
type Error struct {
	Key     string
	RetryAt time.Time // when to ask again: the earliest start that is known; zero with ErrDraining
	Err     error     // limit that was hit; wraps ErrBusy, ErrBlocked or ErrDraining

	Restored *Restored // as in Grant
	StateErr error     // as in Grant
	ByHand   *Debt     // as in Grant
}

func (e *Error) Error() string {
	return "hostlimit: " + e.Key + ": " + fmt.Sprint(e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }
