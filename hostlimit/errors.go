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
)

// An Error is a refused turn. It matches ErrBusy or ErrBlocked, and
// context.DeadlineExceeded where the context's deadline was the limit.
type Error struct {
	Key     string
	RetryAt time.Time // earliest time at which a turn may be had; zero if unknown
	Err     error     // what was the limit; wraps ErrBusy or ErrBlocked
}

func (e *Error) Error() string {
	if e.Key == "" { // of a lease that was released
		return "hostlimit: " + e.Err.Error()
	}
	return "hostlimit: " + e.Key + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }
