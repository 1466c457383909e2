package hostlimit

import (
	"errors"
	"fmt"
	"time"
)

// The reasons of a refusal, for errors.Is on an [*Error].
var (
	// ErrBusy means that the request couldn't start within SlotTimeout, MaxWait or the context's
	// deadline.
	ErrBusy = errors.New("host busy")
	// ErrBlocked means that the key is blocked for longer than the caller may wait.
	ErrBlocked = errors.New("host blocked")
	// ErrDraining means that the limiter was ended by Drain. No later request starts either.
	ErrDraining = errors.New("the limiter was drained by hand: no request starts any more")
)

// An Error is returned if a request can't start. It matches ErrBusy, ErrBlocked or ErrDraining. If
// the context's deadline was the limit, it also matches context.DeadlineExceeded, even before the
// deadline has passed. If the request waited for something without a known end, such as a slot,
// another try may succeed at any time. RetryAt is then a guess. It is the present time plus the
// time that the request has waited. If a lease expires sooner (LeaseTTL), RetryAt is the end of
// that lease.
type Error struct {
	Key     string
	RetryAt time.Time // earliest known start, zero with ErrDraining
	Err     error     // limit that was hit, wraps ErrBusy, ErrBlocked or ErrDraining

	Restored *Restored // as in Grant
	StateErr error     // as in Grant
	ByHand   *Debt     // as in Grant
}

// Error names the key and the limit that was hit, in a line for people.
func (e *Error) Error() string {
	return "hostlimit: " + e.Key + ": " + fmt.Sprint(e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }
