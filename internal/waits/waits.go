// Package waits ends the waits of a request without ending the request: package crawl starts
// nothing any more once its crawl has ended, and still wants the answers that are under way.
package waits

import "context"

type key struct{}

// Until returns a context under which a Transport waits for turns, and for further tries, only
// until done is closed. What is sent by then is answered as ever.
func Until(ctx context.Context, done <-chan struct{}) context.Context {
	if done == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, done)
}

// Done returns the channel of Until, or nil.
func Done(ctx context.Context) <-chan struct{} {
	done, _ := ctx.Value(key{}).(<-chan struct{})
	return done
}
