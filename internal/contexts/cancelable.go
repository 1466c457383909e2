package contexts

import (
	"context"
	"sync"
)

// A Cancelable is context.WithCancelCause as part of a larger value, which costs nothing until its
// Done is called, or Value after Cancel. These make a standard context then: a channel and an
// AfterFunc method of its own were measured to cost more, since neither c could register with its
// parent as cheaply, nor net/http's contexts with c.
type Cancelable struct {
	context.Context // the parent

	mu     sync.Mutex
	made   context.Context         // what standard made; nil before
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
	return c.standard().Done()
}

// standard makes the standard context, under c.mu.
func (c *Cancelable) standard() context.Context {
	if c.made != nil {
		return c.made
	}
	parent := c.Context
	if c.cause != nil { // whatever the parent has become since
		parent = context.WithoutCancel(parent)
	}
	c.made, c.cancel = context.WithCancelCause(parent)
	if c.cause != nil {
		c.cancel(c.cause)
	}
	return c.made
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

// Value implements context.Context. Package context finds by it the standard context, registers
// contexts that are made from c there, and has the cause from it.
func (c *Cancelable) Value(key any) any {
	c.mu.Lock()
	ctx := c.Context
	if c.made != nil || c.cause != nil {
		ctx = c.standard()
	}
	c.mu.Unlock()
	return ctx.Value(key)
}
