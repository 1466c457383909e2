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

// Hooks returns the hooks of ctx, with gotConn behind its GotConn.
func Hooks(ctx context.Context, gotConn func(httptrace.GotConnInfo)) httptrace.ClientTrace {
	var hooks httptrace.ClientTrace
	if trace := httptrace.ContextClientTrace(ctx); trace != nil {
		hooks = *trace
	}
	if theirs := hooks.GotConn; theirs != nil {
		hooks.GotConn = func(info httptrace.GotConnInfo) {
			theirs(info)
			gotConn(info)
		}
	} else {
		hooks.GotConn = gotConn
	}
	return hooks
}
