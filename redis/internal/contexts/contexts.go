// Package contexts has what this module's packages do with contexts.
package contexts

import (
	"context"
	"time"
)

// Sleep waits for d, or returns the error of ctx if that ends before.
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

// Either returns a context that is done when ctx is, or when other is, and a function that must be
// called when it is needed no more.
func Either(ctx, other context.Context) (context.Context, context.CancelFunc) {
	either, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	return either, func() {
		stop()
		cancel()
	}
}
