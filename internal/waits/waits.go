// Package waits has the values by which package crawl and its Transport inform each other of a
// request: that its waits end with the crawl, that the crawl repeats it, that it has reached the
// Transport, and that its failure isn't the host's. A crawl that has ended starts nothing any more,
// and still wants the answers that are under way.
package waits

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
)

type key struct{}

// A mark is what a context carries.
type mark struct {
	done      <-chan struct{}
	transport any // that the request is to reach
	probe     bool
	once      bool
	reached   atomic.Bool
	excused   atomic.Bool
}

// Until returns a context under which a Transport waits for turns, and for further tries, only
// until done is closed. What is sent by then is answered as ever.
func Until(ctx context.Context, done <-chan struct{}) context.Context {
	return context.WithValue(ctx, key{}, &mark{done: done})
}

// Once makes ctx, which is from Until, that of a request that is sent once: the caller repeats it.
// The deadline of ctx is how long the host may take, so where it passes the host hasn't answered.
func Once(ctx context.Context) { ctx.Value(key{}).(*mark).once = true }

// Cause returns what err, the error of ctx, means for the host: see Once.
func Cause(ctx context.Context, err error) error {
	if IsOnce(ctx) && errors.Is(err, context.DeadlineExceeded) {
		return os.ErrDeadlineExceeded
	}
	return err
}

// Excuse notes that a request with ctx has failed for a reason that says nothing about its host.
func Excuse(ctx context.Context) {
	if m, ok := ctx.Value(key{}).(*mark); ok {
		m.excused.Store(true)
	}
}

// IsExcused reports whether Excuse was called for ctx, which is from Until.
func IsExcused(ctx context.Context) bool { return ctx.Value(key{}).(*mark).excused.Load() }

// IsOnce reports whether Once was called for ctx.
func IsOnce(ctx context.Context) bool {
	m, ok := ctx.Value(key{}).(*mark)
	return ok && m.once
}

// Expect returns a function that reports whether a request with ctx, which is from Until, has
// reached transport. Call it before the request is sent.
func Expect(ctx context.Context, transport any) (reached func() bool) {
	m := ctx.Value(key{}).(*mark)
	m.transport = transport
	return m.reached.Load
}

// Probe returns a context for a request that is to reach transport and no site, and a function that
// reports whether it has.
func Probe(ctx context.Context, transport any) (_ context.Context, reached func() bool) {
	m := &mark{transport: transport, probe: true}
	return context.WithValue(ctx, key{}, m), m.reached.Load
}

// IsProbe reports whether ctx is from Probe.
func IsProbe(ctx context.Context) bool {
	m, ok := ctx.Value(key{}).(*mark)
	return ok && m.probe
}

// Done returns the channel of Until, or nil, and notes that a request with ctx has reached
// transport.
func Done(ctx context.Context, transport any) <-chan struct{} {
	m, ok := ctx.Value(key{}).(*mark)
	if !ok {
		return nil
	}
	if m.transport == transport {
		m.reached.Store(true)
	}
	return m.done
}
