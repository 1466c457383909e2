package contexts

import (
	"context"
	"sync"
)

// A Cancelable is context.WithCancelCause as part of a larger value, which costs nothing until its
// Done is called. Done makes a standard context then: a channel and an AfterFunc method of its own
// were measured to cost more, since neither c could register with its parent as cheaply, nor
// net/http's contexts with c.
type Cancelable struct {
	context.Context // the parent

	mu     sync.Mutex
	made   context.Context         // what Done made; nil before
	cancel context.CancelCauseFunc // cancels made
	cause  error                   // of the first Cancel; nil before
}

// Cancel makes c done, with the cause that context.Cause returns.
func (c *Cancelable) Cancel(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	cancel := c.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// Done implements context.Context.
func (c *Cancelable) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		c.made, c.cancel = context.WithCancelCause(c.Context)
		if c.cause != nil {
			c.cancel(c.cause)
		}
	}
	return c.made.Done()
}

// Err implements context.Context.
func (c *Cancelable) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.made != nil:
		return c.made.Err()
	case c.cause != nil:
		return context.Canceled
	}
	return c.Context.Err()
}

// Value implements context.Context. Package context finds by it what Done has made, and registers
// contexts that are made from c there.
func (c *Cancelable) Value(key any) any {
	c.mu.Lock()
	ctx := c.made
	c.mu.Unlock()
	if ctx == nil {
		ctx = c.Context
	}
	return ctx.Value(key)
}
