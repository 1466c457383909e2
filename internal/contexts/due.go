package contexts

import (
	"context"
	"time"
)

type dueKey struct{}

// WithDue is hostlimit.WithDue.
func WithDue(ctx context.Context, due time.Time) context.Context {
	return context.WithValue(ctx, dueKey{}, due)
}

// Due returns the time that WithDue has given to ctx, zero if none.
func Due(ctx context.Context) time.Time {
	due, _ := ctx.Value(dueKey{}).(time.Time)
	return due
}
