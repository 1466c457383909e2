package redislimit

import (
	"fmt"
	"log"
	"runtime/debug"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// Failure is what a Limiter does while its server can't be reached.
type Failure int

const (
	// FailClosed refuses every turn: the error is a *hostlimit.Error that wraps a
	// [*ServerError]. It is the default, because only it keeps all promises.
	FailClosed Failure = iota
	// FailLocal lets each process go on by itself, with Config.Processes times the delays and
	// crawl-delays and its part of the slots (at least one), until the server is back. The fleet's
	// mean rate on a host is kept so, also where only some are cut off: those that reach the server
	// leave the others their share. While fewer processes run than Processes says, the rate is as much
	// lower. The single gaps between starts of processes that are cut off are not kept, nor is
	// Concurrency where it is smaller than Processes. What this process knows (blocks, its own
	// requests in flight, its last starts) holds across both changes.
	FailLocal
)

// ErrUnavailable matches the refusals of a Limiter whose server can't be
// reached, through errors.Is. They match hostlimit.ErrBusy as well, so that
// callers try again later, as with every busy host.
var ErrUnavailable = fmt.Errorf("redislimit: server unavailable: %w", hostlimit.ErrBusy)

// A ServerError says that the server didn't do what was asked of it.
type ServerError struct {
	Server string // address, as in the client's options
	Err    error  // what the client said
}

// Error names the server.
func (e *ServerError) Error() string {
	return fmt.Sprintf("redislimit: server %s: %v", e.Server, e.Err)
}

// Unwrap returns [ErrUnavailable] and what the client said.
func (e *ServerError) Unwrap() []error { return []error{ErrUnavailable, e.Err} }

// Temporary reports true: the turn may be had once the server is back.
func (e *ServerError) Temporary() bool { return true }

// unavailable is the refusal of a turn because of a ServerError.
func unavailable(key string, err error) error {
	return &hostlimit.Error{Key: key, RetryAt: time.Now().Add(time.Second), Err: err}
}

// An Event reports that the server was lost, that it is back, or that another process differs.
type Event struct {
	Time    time.Time
	Server  string
	Err     error  // why it was lost; nil: it is back
	Local   bool   // this process goes on, or went on, by itself (FailLocal)
	Differs string // what another process has, and this one hasn't, the server is fine; empty: nothing
}

// String is a sentence for a log.
func (e Event) String() string {
	switch {
	case e.Differs != "":
		return "one fleet, different limits: " + e.Differs
	case e.Err == nil && e.Local:
		return fmt.Sprintf("limiter server %s is back: hosts are shared again", e.Server)
	case e.Err == nil:
		return fmt.Sprintf("limiter server %s is back", e.Server)
	case e.Local:
		return fmt.Sprintf("limiter server %s is lost, this process paces its share by itself: %v", e.Server, e.Err)
	}
	return fmt.Sprintf("limiter server %s is lost, nothing starts: %v", e.Server, e.Err)
}

// tell hands the events to the user, outside of mu. A panic is logged with its stack, as by
// net/http.
func (l *Limiter) tell() {
	l.mu.Lock()
	events := l.events
	l.events = nil
	l.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			log.Printf("redislimit: panic in Config.OnFailure: %v\n%s", p, debug.Stack()) //nolint:forbidigo // there is no caller
		}
	}()
	if l.conf.OnFailure != nil {
		for _, e := range events {
			l.conf.OnFailure(e)
		}
	}
}

func drained(key string) error { return &hostlimit.Error{Key: key, Err: hostlimit.ErrDraining} }
