package robotscache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A fetch is the running fetch of an origin's robots.txt, and its callers. It has a separate
// goroutine, so that each caller can leave at any time, even its starter. The last caller to leave
// cancels it.
type fetch struct {
	origin    origin
	memory    *memory
	ctx       context.Context // done when all callers have left; memory.mu is held then
	cancel    context.CancelCauseFunc
	stopwatch *stopwatch // set before the first hop
	depth     int        // fetches that wait for this one, each for a redirect to its site, when it began
	latestHop atomic.Uint64

	// Guarded by memory.mu.
	waiters    int
	latest     time.Time // latest deadline of a waiter
	noDeadline bool      // a waiter has no deadline
	queued     bool      // deadline has returned latest
	needs      origin    // whose robots.txt this fetch waits for, see awaits; zero: none

	// Set before done is closed.
	done       chan struct{}
	state      *state
	err        error
	failed     bool // the goroutine panicked or called runtime.Goexit
	panicValue any  // nil after runtime.Goexit
}

// errAbandoned cancels a fetch whose callers have all left.
var errAbandoned = errors.New("robotscache: no request waits for this robots.txt any more")

// wait returns the state of o once it is fresh, and fetches robots.txt if no other call does.
func (c *Cache) wait(ctx context.Context, o origin) (*state, error) {
	for {
		// A caller that has left must not start a fetch.
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("robotscache: waiting for robots.txt of %s: %w", o, err)
		}
		f, s, role := c.join(ctx, o)
		if s != nil {
			return s, nil
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			f.leave()
			return nil, fmt.Errorf("robotscache: waiting for robots.txt of %s: %w", o, ctx.Err())
		}
		if f.failed {
			if role == starter {
				f.repanic()
			}
			continue // the starter gets the panic, and this caller fetches again
		}
		if f.err == nil {
			return f.state, nil
		}
		if role != late {
			return nil, f.err
		}
		// The transport refused the hop because of a deadline that doesn't take this caller's into
		// account. Fetch anew.
	}
}

// repanic ends the starter's call as the user's function ended the goroutine of f.
func (f *fetch) repanic() {
	if f.panicValue == nil {
		runtime.Goexit()
	}
	panic(f.panicValue)
}

// A role is how a caller came to a fetch.
type role int

const (
	starter role = iota // it started the fetch
	early               // it joined before the transport called Queue
	late                // it joined after that
)

// join returns the state of o if that may be used, or else the fetch to wait for.
func (c *Cache) join(ctx context.Context, o origin) (*fetch, *state, role) {
	m := c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	s, _ := m.states.Peek(o)
	if s.fresh() {
		return nil, s, 0
	}
	f := m.fetches[o]
	as := early
	switch {
	case f == nil:
		f = newFetch(ctx, o, m)
		as = starter
		m.fetches[f.origin] = f
		go c.run(f, s)
	case s != nil && s.usable(time.Now()):
		// Only the starter waits for a revalidation: a slow origin doesn't stop the others.
		return nil, s, 0
	case f.queued:
		as = late
	}
	f.waiters++
	deadline, ok := ctx.Deadline()
	if !ok {
		f.noDeadline = true
	} else if deadline.After(f.latest) {
		f.latest = deadline
	}
	return f, nil, as
}

// newFetch returns a fetch of o's robots.txt with the values of its starter's ctx.
func newFetch(ctx context.Context, o origin, m *memory) *fetch {
	o.host = strings.Clone(o.host) // which may be a part of the URL's text
	f := &fetch{
		origin: o,
		memory: m,
		done:   make(chan struct{}),
	}
	// The fetch outlives its starter if others wait. It keeps the values of the starter's context,
	// such as a trace.
	values := context.WithoutCancel(ctx)
	f.ctx, f.cancel = context.WithCancelCause(context.WithValue(values, fetchKey{}, f))
	if above, ok := ctx.Value(fetchKey{}).(*fetch); ok {
		f.depth = above.depth + 1
	}
	return f
}

// leave ends the wait of one caller.
func (f *fetch) leave() {
	f.memory.mu.Lock()
	defer f.memory.mu.Unlock()
	f.waiters--
	// A fetch that is published is in the map no more, and another may be.
	if f.waiters == 0 && f.memory.fetches[f.origin] == f {
		delete(f.memory.fetches, f.origin) // the next caller starts a new fetch
		f.cancel(errAbandoned)
	}
}

// run is the goroutine of f.
func (c *Cache) run(f *fetch, prev *state) {
	f.failed = true // until refresh has returned
	defer func() {
		if f.failed {
			f.panicValue = recover() // nil after runtime.Goexit, which can't be recovered from
		}
		f.publish()
	}()
	f.err = c.refresh(f, prev)
	f.failed = false
}

// publish stores the state that f has found, and wakes its callers.
func (f *fetch) publish() {
	f.memory.mu.Lock()
	// After the last caller has left, the origin's fetch and state are those of a later call.
	if f.ctx.Err() == nil {
		delete(f.memory.fetches, f.origin)
		if f.state != nil {
			f.memory.add(f.origin, f.state)
		}
	}
	f.memory.mu.Unlock()
	if f.stopwatch != nil {
		f.stopwatch.stop() // again after a complete fetch; a panic leaves it running
	}
	f.cancel(nil)
	close(f.done) // last: the goroutine ends before its callers' calls do
}

// refresh sets f.state after a fetch, or from the Store. Then it calls functions of the user with
// the state, which may panic. prev is the former state, or nil. The error is a refusal of the
// transport, or errAbandoned.
func (c *Cache) refresh(f *fetch, prev *state) error {
	var storeErr error
	if c.cfg.Store != nil {
		if prev == nil {
			prev, storeErr = c.load(f, nil, nil)
			if f.state != nil {
				return nil // a fresh copy needs no lock
			}
		}
		unlock, err := c.cfg.Store.Lock(f.ctx, f.origin.String())
		if err != nil {
			storeErr = errors.Join(storeErr, err)
		} else {
			defer unlock() // after the response is saved
			// Another process may have fetched while this one waited for the lock.
			prev, err = c.load(f, prev, storeErr)
			if f.state != nil {
				return nil
			}
			storeErr = cmp.Or(storeErr, err) // of two loads the first one's
		}
		// The lock may have taken long. Don't send a hop that no caller waits for.
		if err := context.Cause(f.ctx); err != nil {
			return err
		}
	}
	hops, cancel := context.WithCancelCause(f.ctx) // Timeout ends the hops, and no call of the Store
	f.stopwatch = startStopwatch(c.cfg.Timeout, cancel)
	answer, err := c.download(hops, f, prev)
	// A fetch that was abandoned says nothing about the origin.
	err = cmp.Or(context.Cause(f.ctx), err)
	if err != nil {
		return err
	}
	now := time.Now()
	var event Event
	f.state, event = c.decide(f.origin, prev, &answer, now)
	f.state.by = c.number
	if c.cfg.Store != nil {
		storeErr = errors.Join(storeErr, c.save(f, &answer, now))
	}
	event.StoreErr = storeErr
	c.report(f.ctx, event)
	return nil
}

// report counts e and calls Observe.
func (c *Cache) report(ctx context.Context, e Event) {
	switch {
	case e.Restored:
		c.restored.Add(1)
	case e.Unreachable:
		c.unreachable.Add(1)
	case e.Revalidated:
		c.revalidated.Add(1)
	default:
		c.fetched.Add(1)
	}
	if c.client.Observe != nil {
		c.client.Observe(ctx, e)
	}
}

type fetchKey struct{}

// Queue is for a [Client.Transport] whose hops wait for their hosts. ctx is the context of the
// hop's request. The transport waits with the context that Queue returns, and calls sent when the
// hop is sent, or refused:
//
//	wait, sent := robotscache.Queue(req.Context())
//	lease, err := hosts.Acquire(wait, key, floor)
//	sent()
//
// The time from Queue to sent doesn't count for Config.Timeout. The request waits there for our own
// limits, which says nothing about the host. If every caller of this robots.txt has a deadline,
// wait has the latest of them, so that a request that would start too late can fail immediately.
// The context wait is never done before the last caller has left. The hop itself is sent with req's
// own context.
//
// With any other context Queue returns ctx, and sent does nothing. sent may be called more than
// once, and from any goroutine.
func Queue(ctx context.Context) (wait context.Context, sent func()) {
	f, ok := ctx.Value(fetchKey{}).(*fetch)
	if !ok || f.stopwatch == nil { // a Store's request isn't a hop
		return ctx, func() {}
	}
	ctx = f.deadline(ctx)
	f.stopwatch.pause()
	return ctx, sync.OnceFunc(f.stopwatch.resume)
}

// Redirected reports whether a redirect has led to the hop whose request has the context ctx. This
// is true if the hop follows a redirect, or fetches the robots.txt that decides whether a redirect
// may be followed.
func Redirected(ctx context.Context) bool {
	f, ok := ctx.Value(fetchKey{}).(*fetch)
	return ok && f.stopwatch != nil && (f.depth > 0 || f.stopwatch.redirects > 0)
}

// LatestHop returns a variable of the fetch that ctx belongs to. A [Client.Transport] may store a
// number in it, such as the id of its latest hop, and read it at the next hop. It is 0 at the first
// hop of a fetch, and when the fetch begins anew. The context of Observe has it as well. The result
// is nil if ctx isn't that of a fetch.
func LatestHop(ctx context.Context) *atomic.Uint64 {
	f, ok := ctx.Value(fetchKey{}).(*fetch)
	if !ok {
		return nil
	}
	return &f.latestHop
}

// A queueContext has a deadline, and isn't done when that has passed.
type queueContext struct {
	context.Context
	deadline time.Time
}

func (c queueContext) Deadline() (time.Time, bool) { return c.deadline, true }
