package contexts

import (
	"context"
	"reflect"
	"sync"
	"time"
)

// An Exchange is the context of a request that http.Client has given a deadline, by its Timeout.
// The deadline is taken as a length, which counts from Start: the wait before it doesn't count. An
// Exchange has the values of the request's context, and ends
//
//	when the caller's own context ends      the one that http.Client has made its own from
//	when Request.Cancel is closed           before the deadline: later it is http.Client's timer
//	when the request's context ends         before the deadline, or at a deadline of the caller's
//	length after Start                      with context.DeadlineExceeded, times of Pause not counted
//	when End is called
//
// Once http.Client's timer has fired, both its context and Request.Cancel are closed for good, and
// only the caller's own context shows that the caller leaves. A nil *Exchange may be started,
// paused and ended: nothing happens.
type Exchange struct {
	context.Context                         // the request's
	own             context.Context         // what ends the Exchange: made from the caller's context
	cancel          context.CancelCauseFunc // ends own
	left            <-chan struct{}         // Request.Cancel
	canceled        func() error            // cause of an exchange that left ends
	deadline        time.Time               // of Context
	length          time.Duration
	watched         sync.Once // watch was started

	mu    sync.Mutex
	ends  time.Time   // end of the exchange; zero: none runs
	late  bool        // the deadline has passed: an exchange that runs has a timer
	timer *time.Timer // ends own; nil: none was needed
}

// grace is how much later than the deadline Request.Cancel may be closed, on a busy machine, where
// both are http.Client's. A context with a deadline of its own ends that much later.
const grace = 100 * time.Millisecond

// NewExchange returns the Exchange of a request that has the context ctx and the Request.Cancel
// left. length is that of the redirect which the request follows; zero: it is the time until the
// deadline. canceled returns the cause of the end if left is closed while the exchange runs.
// NewExchange returns nil if the deadline isn't http.Client's, if the caller has left, or
// if the caller's own context isn't found: then the deadline is one like any other.
func NewExchange(
	ctx context.Context, left <-chan struct{}, length time.Duration, canceled func() error,
) *Exchange {
	deadline, ok := ctx.Deadline()
	// http.Client sets Request.Cancel beside the deadline; a caller's own deadline comes without.
	if !ok || left == nil {
		return nil
	}
	caller := beneath(ctx, deadline)
	if caller == nil || caller.Err() != nil {
		return nil
	}
	e := &Exchange{Context: ctx, left: left, canceled: canceled, deadline: deadline, length: length}
	if length == 0 {
		e.length = time.Until(deadline)
	}
	if e.length <= 0 || e.gone() != nil {
		return nil
	}
	// A request that follows a redirect may come after the deadline. Its timer has fired, or will at
	// once: if it doesn't, the deadline is the caller's own.
	if ctx.Err() != nil && !e.fired() {
		return nil
	}
	e.own, e.cancel = context.WithCancelCause(caller)
	return e
}

// beneath returns the context from which the one with that deadline was made, in ctx and what it
// was made from. It returns nil if another context between may end before the deadline.
func beneath(ctx context.Context, deadline time.Time) context.Context {
	for {
		parent := parentOf(ctx)
		if parent == nil {
			return nil
		}
		// A context that only adds values ends with the same channel.
		if parent.Done() == ctx.Done() {
			ctx = parent
			continue
		}
		if d, ok := parent.Deadline(); ok && !d.After(deadline) {
			return nil
		}
		// What a context of another package does when it ends isn't known.
		if reflect.TypeOf(ctx).Elem().PkgPath() != "context" {
			return nil
		}
		return parent
	}
}

// parentOf returns the context that ctx has in its exported field Context, as those of package
// context have, and others that embed one; nil: it has none.
func parentOf(ctx context.Context) context.Context {
	v := reflect.ValueOf(ctx)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	v = v.Elem()
	index, ok := fields.Load(v.Type())
	if !ok {
		field, _ := v.Type().FieldByName("Context")
		index, _ = fields.LoadOrStore(v.Type(), field.Index)
	}
	path := index.([]int)
	if len(path) == 0 {
		return nil
	}
	field, err := v.FieldByIndexErr(path)
	if err != nil || !field.CanInterface() {
		return nil
	}
	parent, _ := field.Interface().(context.Context)
	return parent
}

// fields has the index of the field Context of each type of a struct that was asked for one, nil if
// there is none: to find it costs as much as the rest of a request.
var fields sync.Map

// gone returns why the caller has left before the deadline; nil: it hasn't, as far as is known.
func (e *Exchange) gone() error {
	cause := context.Cause(e.Context)
	select {
	case <-e.left:
		if cause == nil && e.Ends().IsZero() {
			cause = context.Canceled
		} else if cause == nil {
			cause = e.canceled()
		}
	default:
	}
	// The time is read last: what ends at the deadline is seen after it.
	if cause == nil || !time.Now().Before(e.deadline) {
		return nil
	}
	return cause
}

// fired waits until http.Client's timer has closed Request.Cancel, the deadline being over. It
// returns false if that doesn't happen: the deadline is the caller's own.
func (e *Exchange) fired() bool {
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-e.left:
		return true
	case <-late.C:
	}
	select {
	case <-e.left:
		return true
	default:
		return false
	}
}

// watch ends e when the caller leaves, up to http.Client's timer.
func (e *Exchange) watch() {
	select {
	case <-e.own.Done():
		return
	case <-e.left:
	case <-e.Context.Done():
	}
	if cause := e.gone(); cause != nil {
		e.cancel(cause)
		return
	}
	if !e.fired() {
		e.cancel(context.DeadlineExceeded)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.late = true
	if !e.ends.IsZero() {
		e.arm()
	}
}

// arm starts the timer of the exchange that runs, under e.mu.
func (e *Exchange) arm() {
	rest := time.Until(e.ends)
	if e.timer != nil {
		e.timer.Reset(rest)
		return
	}
	e.timer = time.AfterFunc(rest, func() { e.cancel(context.DeadlineExceeded) })
}

// Deadline implements context.Context: it returns the caller's own.
func (e *Exchange) Deadline() (time.Time, bool) { return e.own.Deadline() }

// Done implements context.Context. A request for which nobody waits needs no goroutine.
func (e *Exchange) Done() <-chan struct{} {
	e.watched.Do(func() { go e.watch() })
	return e.own.Done()
}

// Err implements context.Context.
func (e *Exchange) Err() error {
	if e.own.Err() == nil {
		cause := e.gone()
		if ends := e.Ends(); !ends.IsZero() && !time.Now().Before(ends) {
			cause = context.DeadlineExceeded
		}
		if cause == nil {
			return nil
		}
		e.cancel(cause)
	}
	if context.Cause(e.own) == context.DeadlineExceeded { //nolint:errorlint // the timer's own
		return context.DeadlineExceeded
	}
	return e.own.Err()
}

// Value implements context.Context. Package context finds by it the context that ends e.
func (e *Exchange) Value(key any) any {
	if key == standardKey {
		return e.own.Value(key)
	}
	return e.Context.Value(key)
}

// standardKey is the key by which package context asks a context for the one of its own that ends
// it.
var standardKey = func() any {
	var s spy
	_ = context.Cause(&s)
	return s.key
}()

// A spy is a context that keeps the last key of Value.
type spy struct {
	context.Context
	key any
}

func (s *spy) Err() error { return context.Canceled }

func (s *spy) Value(key any) any {
	s.key = key
	return nil
}

// Cause returns the error of an exchange that has failed with err: HTTP/2 has the context's error
// for it where HTTP/1 has the cause.
func (e *Exchange) Cause(err error) error {
	if e == nil || err != context.Canceled { //nolint:errorlint // the very error of the context
		return err
	}
	if cause := context.Cause(e.own); cause != nil {
		return cause
	}
	return err
}

// Length returns the length of the exchange, zero if e is nil.
func (e *Exchange) Length() time.Duration {
	if e == nil {
		return 0
	}
	return e.length
}

// Start begins the exchange, or a further try of it: it ends after its length.
func (e *Exchange) Start() {
	if e != nil {
		e.run(e.length)
	}
}

// run lets e end after d. That is no earlier than the deadline: an exchange that is over by then
// needs no timer.
func (e *Exchange) run(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ends = time.Now().Add(d)
	if e.late {
		e.arm()
	}
}

// Pause stops the time of the exchange, and returns the rest of it; zero: none runs.
func (e *Exchange) Pause() time.Duration {
	if e == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	isOver := e.timer != nil && !e.timer.Stop()
	if e.ends.IsZero() || isOver {
		return 0
	}
	left := time.Until(e.ends)
	e.ends = time.Time{}
	return left
}

// Resume continues an exchange of which Pause has returned the rest.
func (e *Exchange) Resume(rest time.Duration) {
	if rest > 0 {
		e.run(rest)
	}
}

// Ends returns when the exchange ends; zero: it isn't known, as none runs.
func (e *Exchange) Ends() time.Time {
	if e == nil {
		return time.Time{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ends
}

// End ends e, and the goroutine of Done if there is one.
func (e *Exchange) End() {
	if e != nil {
		e.Pause()
		e.cancel(context.Canceled)
	}
}
