package kit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// hostlimit exports these two and documents them.
var (
	ErrBusy    = errors.New("host busy")
	ErrBlocked = errors.New("host blocked")
)

// A reason is a limit that was hit, of the given kinds.
type reason struct {
	text  string
	kinds []error
}

func (r *reason) Error() string   { return r.text }
func (r *reason) Unwrap() []error { return r.kinds }

// SlotTimeout returns the reason for refusing a turn after SlotTimeout: every one of
// that many slots is held, and has been for at most that long.
func SlotTimeout(slots int, held time.Duration) error {
	return &reason{
		fmt.Sprintf("timeout waiting for host concurrency slot: all %d are held, one for %v; are the bodies of all responses closed?",
			slots, held.Round(time.Millisecond)),
		[]error{ErrBusy},
	}
}

var (
	// ErrEnded is the reason for refusing to start a lease that has ended.
	ErrEnded error = &reason{"the lease was released, or taken back after LeaseTTL", []error{ErrBusy}}

	errMaxWait        error = &reason{"the wait for a turn would exceed MaxWait", []error{ErrBusy}}
	errMaxWaitBlocked error = &reason{"host blocked for longer than MaxWait", []error{ErrBlocked}}
	errLate           error = &reason{"no turn before the context's deadline", []error{ErrBusy, context.DeadlineExceeded}}
	errLateBlocked    error = &reason{"host blocked until after the context's deadline", []error{ErrBlocked, context.DeadlineExceeded}}
)

// TooLate returns the reason for refusing a turn that comes after the context's
// deadline (else after MaxWait), because of a block (else because of others).
func TooLate(byContext, blocked bool) error {
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
