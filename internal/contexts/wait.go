// Package contexts has contexts that are a part of a larger value, so that a request needs no
// allocation for each.
package contexts

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Wait bounds the waits of one request. It is the request's context, and is done as well when
// one of two channels is closed. End ends the waits of one that has such channels.
type Wait struct {
	context.Context
	By time.Time // what Deadline returns, though Done doesn't keep it; zero, or later than the request's: the request's

	ends *ends // nil: Done is the request's
}

// An ends is what else ends a Wait.
type ends struct {
	a, b  <-chan struct{} // nil: none
	once  sync.Once
	done  <-chan struct{} // set by once
	stop  func()          // ends the goroutine that waits for a and b; set by once
	ended atomic.Bool     // End was called; set before done is closed, as contexts made from it rely on
}

// Under makes w a Wait that is done when ctx is, or when a or b is closed; nil channels are none.
func (w *Wait) Under(ctx context.Context, a, b <-chan struct{}) {
	w.Context = ctx
	if a != nil || b != nil {
		w.ends = &ends{a: a, b: b}
	}
}

// Deadline implements context.Context.
func (w *Wait) Deadline() (time.Time, bool) {
	deadline, ok := w.Context.Deadline()
	if !w.By.IsZero() && (!ok || w.By.Before(deadline)) {
		return w.By, true
	}
	return deadline, ok
}

// Done implements context.Context. Only a wait that really begins calls it, so that http.Client's
// Timeout, which sets Request.Cancel, costs other requests no goroutine.
func (w *Wait) Done() <-chan struct{} {
	e := w.ends
	if e == nil {
		return w.Context.Done()
	}
	e.once.Do(func() {
		either, stop := context.WithCancel(w.Context)
		e.done = either.Done()
		e.stop = stop
		go func() {
			select {
			case <-e.a:
				stop()
			case <-e.b:
				stop()
			case <-e.done:
			}
		}()
	})
	return e.done
}

// Err implements context.Context.
func (w *Wait) Err() error {
	e := w.ends
	if err := w.Context.Err(); err != nil || e == nil {
		return err
	}
	select {
	case <-e.a:
		// http.Client closes Request.Cancel at its deadline, maybe before its context ends.
		if deadline, ok := w.Context.Deadline(); ok && !time.Now().Before(deadline) {
			return context.DeadlineExceeded
		}
		return context.Canceled
	case <-e.b:
		return context.Canceled
	default:
	}
	if e.ended.Load() {
		return context.Canceled
	}
	return nil
}

// End ends the goroutine of Done, if there is one, and closes the channel that Done has returned
// then. Without channels of its own w stays what its request is.
func (w *Wait) End() {
	if e := w.ends; e != nil {
		e.once.Do(func() { // no wait has begun
			e.done = w.Context.Done()
			e.stop = func() {}
		})
		e.ended.Store(true)
		e.stop()
	}
}

// Sleep waits for d, or returns the error of ctx where that ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
