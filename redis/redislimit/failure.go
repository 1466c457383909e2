package redislimit

import (
	"fmt"
	"log"
	"runtime/debug"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// Failure is the conduct of a Limiter while its server can't be reached. Set it in Config.Failure.
type Failure int

const (
	// FailClosed starts no request. The error is a *hostlimit.Error that wraps a [*ServerError]. It
	// is the default, because only it keeps all promises.
	FailClosed Failure = iota
	// FailLocal lets each process continue by itself, with Config.Processes times the delays and
	// crawl-delays and its part of the slots (at least one), until the server is back. So the
	// fleet's mean rate on a host stays the same, also if only some processes are cut off. The
	// processes that reach the server leave the others their share. If fewer processes run than
	// Processes, the rate is as much lower. Single gaps between starts of processes that are cut
	// off may be shorter, and more than Concurrency requests may be in flight if Concurrency is
	// smaller than Processes. Blocks, requests in flight and last starts that this process knows
	// stay in force when it begins to continue by itself, and when the server is back.
	FailLocal
)

// ErrUnavailable matches the refusals of a Limiter whose server can't be
// reached, through errors.Is. They match hostlimit.ErrBusy as well, so that
// callers try again later, as with every busy host.
var ErrUnavailable = fmt.Errorf("redislimit: server unavailable: %w", hostlimit.ErrBusy)

// A ServerError reports that the server can't be reached, or has refused a call.
type ServerError struct {
	Server string // address, as in the client's options
	Err    error  // the client's
}

// Error names the server.
func (e *ServerError) Error() string {
	return fmt.Sprintf("redislimit: server %s: %v", e.Server, e.Err)
}

// Unwrap returns [ErrUnavailable] and the client's error.
func (e *ServerError) Unwrap() []error { return []error{ErrUnavailable, e.Err} }

// Temporary reports true, because the request may start once the server is back.
func (e *ServerError) Temporary() bool { return true }

// unavailable is the refusal of a turn because of a ServerError.
func unavailable(key string, err error) error {
	return &hostlimit.Error{Key: key, RetryAt: time.Now().Add(time.Second), Err: err}
}

// An Event reports that the server was lost, that it is back, that another process differs, or that
// the server's state was begun anew. Config.OnFailure gets it. Use it to alert an operator.
type Event struct {
	Time    time.Time
	Server  string
	Err     error  // why it was lost, nil if it is back
	Local   bool   // this process continues, or continued, by itself (FailLocal)
	Differs string // a sentence about another process with other settings while the server is there, or empty

	// If the server had state of an older version of this package, new state has replaced it.
	// Replaced is the version of the old state. Earlier blocks and learned delays apply only if
	// Limits.Store has them. Such an Event doesn't mean that the server was lost. Replaced is 0 if
	// no state was replaced.
	Replaced int
}

// String is a sentence for a log.
func (e Event) String() string {
	switch {
	case e.Differs != "":
		return "one fleet, different limits: " + e.Differs
	case e.Replaced != 0:
		made := fmt.Sprintf("state made by redislimit of version %d", e.Replaced)
		return fmt.Sprintf("limiter server %s: %s: begun anew", e.Server, made)
	case e.Err == nil && e.Local:
		return fmt.Sprintf("limiter server %s is back: hosts are shared again", e.Server)
	case e.Err == nil:
		return fmt.Sprintf("limiter server %s is back", e.Server)
	case e.Local:
		return fmt.Sprintf("limiter server %s is lost, this process paces its share by itself: %v", e.Server, e.Err)
	}
	return fmt.Sprintf("limiter server %s is lost, nothing starts: %v", e.Server, e.Err)
}

// logPanic logs a panic of a function of the user with its stack, as net/http does. It is deferred
// if there is no caller who could get it.
func logPanic(where string) {
	p := recover()
	if p != nil {
		log.Printf("redislimit: panic in %s: %v\n%s", where, p, debug.Stack()) //nolint:forbidigo // no caller
	}
}

// drained is the refusal of a turn after Drain.
func drained(key string) error { return &hostlimit.Error{Key: key, Err: hostlimit.ErrDraining} }
