// Package drain ends what has things in flight.
package drain

import (
	"sync"
	"sync/atomic"
)

// A Drain lets nothing begin any more, and waits for what is in flight. The zero Drain hasn't
// begun.
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

// Begin lets nothing begin any more.
func (d *Drain) Begin() { d.begun.Store(true) }

// Begun reports whether Begin was called.
func (d *Drain) Begun() bool { return d.begun.Load() }
