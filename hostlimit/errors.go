package hostlimit

import (
	"context"
	"errors"
	"time"
)

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

func (e *Error) Error() string {
	if e.Key == "" { // of a lease that was released
		return "hostlimit: " + e.Err.Error()
	}
	return "hostlimit: " + e.Key + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// A reason is a limit that was hit, of the given kinds.
type reason struct {
	text  string
	kinds []error
}

func (r *reason) Error() string   { return r.text }
func (r *reason) Unwrap() []error { return r.kinds }

var (
	errSlotTimeout    error = &reason{"timeout waiting for host concurrency slot", []error{ErrBusy}}
	errEnded          error = &reason{"the lease was released, or taken back after LeaseTTL", []error{ErrBusy}}
	errMaxWait        error = &reason{"the wait for a turn would exceed MaxWait", []error{ErrBusy}}
	errMaxWaitBlocked error = &reason{"host blocked for longer than MaxWait", []error{ErrBlocked}}
	errLate           error = &reason{"no turn before the context's deadline", []error{ErrBusy, context.DeadlineExceeded}}
	errLateBlocked    error = &reason{"host blocked until after the context's deadline", []error{ErrBlocked, context.DeadlineExceeded}}
)

// tooLate picks the reason for a turn that comes after a limit.
func tooLate(byContext, blocked bool) error {
	switch {
	case byContext && blocked:
		return errLateBlocked
	case byContext:
		return errLate
	case blocked:
		return errMaxWaitBlocked
	}
	return errMaxWait
}
