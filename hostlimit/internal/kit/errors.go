package kit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// hostlimit exports these and documents them.
var (
	ErrBusy     = errors.New("host busy")
	ErrBlocked  = errors.New("host blocked")
	ErrDraining = errors.New("the limiter was drained by hand: no request starts any more")
)

// handPrefix begins the cause of a block that a person has set.
const handPrefix = "by hand: "

// mostWhy is the length of what a person may say of a block, in bytes.
const mostWhy = 300

// CheckBlock returns what is wrong with the arguments of a Controller's Block.
func CheckBlock(until, now time.Time, why string) error {
	switch {
	case !until.After(now):
		return fmt.Errorf("hostlimit: Block: until %s is not in the future; use Clear to lift a block", until.Format(time.RFC3339))
	case strings.TrimSpace(why) == "":
		return errors.New("hostlimit: Block: why is empty; say it for those who read the log")
	case len(why) > mostWhy:
		return fmt.Errorf("hostlimit: Block: why is %d bytes long, more than %d", len(why), mostWhy)
	}
	return nil
}

// HandCause returns the cause of a block that a person has set and said that of.
func HandCause(why string) string { return handPrefix + why }

// HandWhy returns what a person has said of a block with that cause, if one has set it.
func HandWhy(cause string) (why string, byHand bool) { return strings.CutPrefix(cause, handPrefix) }

// ByHand returns the reason for refusing a turn because of a block that a person has set.
func ByHand(why string) error {
	return &reason{"host blocked " + HandCause(why), []error{ErrBlocked}}
}

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

	errMaxWait        error = &reason{"the wait for a turn would exceed MaxWait: come back at RetryAt, or raise MaxWait", []error{ErrBusy}}
	errMaxWaitBlocked error = &reason{"host blocked for longer than MaxWait: come back at RetryAt", []error{ErrBlocked}}
	errLate           error = &reason{"no turn before the context's deadline, which counts the wait too (as http.Client.Timeout does): allow more time, or come back at RetryAt", []error{ErrBusy, context.DeadlineExceeded}}
	errLateBlocked    error = &reason{"host blocked until after the context's deadline: come back at RetryAt", []error{ErrBlocked, context.DeadlineExceeded}}
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
