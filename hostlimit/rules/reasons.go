package rules

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-politeness/politeness/internal/statedir"

	"github.com/go-politeness/politeness/hostlimit"
)

// A reason is a limit that was hit, of the given kinds.
type reason struct {
	text  string
	kinds []error
}

func (r *reason) Error() string   { return r.text }
func (r *reason) Unwrap() []error { return r.kinds }

// The texts of the reasons below.
const (
	endedText          = "the lease was released, or taken back after LeaseTTL"
	maxWaitText        = "the wait would exceed MaxWait: raise MaxWait, or come back"
	maxWaitBlockedText = "host blocked for longer than MaxWait"
	lateText           = "can't start before the context's deadline, which counts the wait too: " +
		"allow more time, or come back"
	lateBlockedText = "host blocked until after the context's deadline"
	slotTimeoutText = "timeout waiting for host concurrency slot: all %d are in use, one for %v; " +
		"are the bodies of all responses closed?"
)

var (
	errEnded          error = &reason{endedText, []error{hostlimit.ErrBusy}}
	errMaxWait        error = &reason{maxWaitText, []error{hostlimit.ErrBusy}}
	errMaxWaitBlocked error = &reason{maxWaitBlockedText, []error{hostlimit.ErrBlocked}}
	errLate           error = &reason{lateText, []error{hostlimit.ErrBusy, context.DeadlineExceeded}}
	errLateBlocked    error = &reason{lateBlockedText, []error{hostlimit.ErrBlocked, context.DeadlineExceeded}}
)

// Ended returns the Error.Err for the Start of a lease that has ended.
func (*Rules) Ended() error { return errEnded }

// TooLate returns the Error.Err for a request that can't start before the context's deadline (else
// after MaxWait), because of a block (else for another reason).
func (*Rules) TooLate(byContext, blocked bool) error {
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

// SlotTimeout returns the Error.Err for a request that ends after SlotTimeout. All slots are in
// use, the first for that time.
func (*Rules) SlotTimeout(slots int, held time.Duration) error {
	text := fmt.Sprintf(slotTimeoutText, slots, held.Round(time.Millisecond))
	return &reason{text, []error{hostlimit.ErrBusy}}
}

// BlockedByHand returns the Error.Err for a request that Controller.Block stops, by a block with
// that Refusals.Cause.
func (*Rules) BlockedByHand(cause string) error {
	return &reason{"host blocked " + cause, []error{hostlimit.ErrBlocked}}
}

// handPrefix begins the cause of an operator's block. ByHand and Debt.Merge look for it.
const handPrefix = "by hand: "

// mostWhy bounds an operator's reason for a block, in bytes.
const mostWhy = 300

// CheckBlock returns the Refusals.Cause for a Controller.Block. The error is about its arguments.
func (*Rules) CheckBlock(key string, until, now time.Time, why string) (cause string, err error) {
	bad := func(format string, args ...any) (string, error) {
		return "", fmt.Errorf("hostlimit: Block: "+format, args...)
	}
	switch {
	case key == "":
		return bad("key is empty; Transport.HostKey returns that of a URL")
	case !until.After(now):
		return bad("until %s is not in the future; use Clear to lift a block", until.Format(time.RFC3339))
	case strings.TrimSpace(why) == "":
		return bad("why is empty; say it for those who read the log")
	case len(why) > mostWhy:
		return bad("why is %d bytes long, more than %d", len(why), mostWhy)
	}
	return handPrefix + statedir.Text(why), nil // as a Store can keep it
}
