package politeness

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-politeness/politeness/internal/list"
)

// openBodies are the bodies that the callers of a Transport have neither read to their end nor
// closed. Each occupies a slot of its host. A program that forgets a body, or drops it when an
// error occurs, mustn't stop a host. So while a request waits for a slot, the bodies are looked
// through, and unused slots are released:
//
//	the body                              then
//	its context has ended                 it is closed, its slot released. net/http has closed the connection
//	the caller has dropped it unread      it is closed, its slot released
//	short, of known length, on a socket   it is read into memory for the caller, its slot released
//	any other                             the slot stays occupied until its context ends
//
// A body is closed before its slot is released, so that no more requests are in flight than there
// are slots. Nothing is looked through while no request waits.
//
// A short body of known length is read ahead before the caller has it, if all of it has come
// already. If a request waits for the host, the body is read in another goroutine. So a site that
// stalls in a body doesn't stall RoundTrip.
type openBodies struct {
	mu      sync.Mutex
	bodies  list.List[body, *body]
	waiting map[string]int // requests that wait for a turn, by host
	due     time.Time      // of the timer of the next sweep; zero: none has run
	swept   time.Time      // beginning of the last sweep
}

// The times between two sweeps. A body is left alone until a sweep has found it a second time: most
// callers read theirs at once.
const (
	sweepSoon = 100 * time.Millisecond // a body is new
	sweepMost = time.Second
)

// readAheadMost is the length up to which a body is read ahead.
const readAheadMost = 16 << 10

var (
	errDropped  = errors.New("the body was dropped without a Close")
	errForgoing = errors.New("the request's context has ended")
)

// add adds b, a response's of host, which the caller gets.
func (o *openBodies) add(b *body, host string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bodies.Insert(b, o.bodies.Last)
	b.listed = true
	if len(o.waiting) == 0 {
		return
	}
	o.arm(sweepMost)
	if o.waiting[host] > 0 && b.isShort() {
		b.ahead = true
		go b.readBeside()
	}
}

// remove removes b, whose reading has ended.
func (o *openBodies) remove(b *body) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !b.listed {
		return
	}
	b.listed = false
	o.bodies.Remove(b)
	if b.unwatch != nil {
		b.unwatch()
	}
}

// wait counts n more requests that wait for a turn on host.
func (o *openBodies) wait(host string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting == nil {
		o.waiting = map[string]int{}
	}
	o.waiting[host] += n
	if o.waiting[host] == 0 {
		delete(o.waiting, host)
		return
	}
	if o.bodies.Len > 0 {
		o.arm(0)
	}
}

// arm starts the timer of the next sweep, under o.mu, unless one runs that is due as early. Two
// sweeps are sweepSoon apart.
func (o *openBodies) arm(after time.Duration) {
	now := time.Now()
	if rest := sweepSoon - now.Sub(o.swept); rest > after && rest <= sweepSoon {
		after = rest
	}
	// A timer that is due much later, or was due long ago, is of another bubble of testing/synctest.
	if rest := o.due.Sub(now); rest >= 0 && rest <= after {
		return
	}
	due := now.Add(after)
	o.due = due
	time.AfterFunc(after, func() { o.sweep(due) })
}

// sweep looks through the bodies. The timer that is due at due calls it. If another timer has
// replaced this one, sweep does nothing.
func (o *openBodies) sweep(due time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.due.Equal(due) {
		return
	}
	o.due = time.Time{}
	o.swept = time.Now()
	if len(o.waiting) == 0 || o.bodies.Len == 0 {
		return
	}
	again := sweepMost
	for b := o.bodies.First; b != nil; b = b.Next {
		if o.look(b) {
			again = sweepSoon
		}
	}
	o.arm(again)
}

// look handles b by the table, in separate goroutines, because closing or reading a body may take
// long. It reports whether b is new.
func (o *openBodies) look(b *body) (isNew bool) {
	switch {
	case b.leaving:
		return false
	case b.ctx.Err() != nil:
		b.leaving = true
		go b.leave(errForgoing)
		return false
	case b.dropped.Load():
		b.leaving = true
		go b.leave(errDropped)
		return false
	case !b.seen:
		b.seen = true
		return true
	case b.unwatch == nil:
		b.unwatch = context.AfterFunc(b.ctx, func() { b.leave(errForgoing) })
	}
	// A short body is read ahead even if no request waits for its host: it also holds a place of
	// Hosts.MaxInFlight and of its site.
	if !b.ahead && b.isShort() && b.isOnItsWay() {
		b.ahead = true
		go b.readBeside()
	}
	return false
}
