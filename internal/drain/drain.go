// Package drain stops further requests, and waits for those in flight.
package drain

import (
	"sync"
	"sync/atomic"
)

// A Drain is the state of a limiter that starts no further request and waits for those in flight.
// The zero Drain hasn't begun.
type Drain struct {
	begun atomic.Bool

	mu   sync.Mutex
	ends chan struct{} // closed when a request in flight has ended; nil: nothing waits
}

// Ended wakes the waiters of Next: a request in flight has ended.
func (d *Drain) Ended() {
	if !d.begun.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ends != nil {
		close(d.ends)
		d.ends = nil
	}
}

// Next returns a channel that is closed when a request ends that is in flight now.
func (d *Drain) Next() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ends == nil {
		d.ends = make(chan struct{})
	}
	return d.ends
}

// Begin begins the drain. The owner of d starts no further request then: see Begun.
func (d *Drain) Begin() { d.begun.Store(true) }

// Begun reports whether Begin was called.
func (d *Drain) Begun() bool { return d.begun.Load() }
