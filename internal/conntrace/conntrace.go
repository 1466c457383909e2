// Package conntrace lets a context have a hook of its own for the moment at which its request gets
// a connection, beside the hooks that a caller has put there by httptrace.
package conntrace

import (
	"context"
	"net/http/httptrace"
)

// Key is the key under which a context has its [httptrace.ClientTrace]. A context whose Value
// returns one itself is spared the cost of httptrace.WithClientTrace, which is eight allocations
// and a call by reflection for each hook, and may have its hook after the caller's instead of
// before it.
var Key = func() (key any) {
	httptrace.ContextClientTrace(keyhole{context.Background(), &key})
	return key
}()

// A keyhole notes the key that it is asked for.
type keyhole struct {
	context.Context
	key *any
}

func (k keyhole) Value(key any) any {
	*k.key = key
	return nil
}

// Hooks returns the hooks of ctx, with getConn behind its GetConn and gotConn behind its GotConn.
// getConn is called when a connection is asked for, and may be nil.
func Hooks(ctx context.Context, getConn func(string), gotConn func(httptrace.GotConnInfo)) httptrace.ClientTrace {
	var hooks httptrace.ClientTrace
	if trace := httptrace.ContextClientTrace(ctx); trace != nil {
		hooks = *trace
	}
	hooks.GetConn = after(hooks.GetConn, getConn)
	hooks.GotConn = after(hooks.GotConn, gotConn)
	return hooks
}

// after returns a function that calls theirs before ours, where there are both.
func after[T any](theirs, ours func(T)) func(T) {
	switch {
	case theirs == nil:
		return ours
	case ours == nil:
		return theirs
	}
	return func(v T) {
		theirs(v)
		ours(v)
	}
}
