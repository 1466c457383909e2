package robotscache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// A flight is the one fetch of an origin that is under way, and whoever waits for
// it. It has a goroutine of its own, so that everybody can leave at any time, the
// caller who started it too. The last to leave cancels it.
type flight struct {
	origin origin
	memory *memory
	ctx    context.Context
	cancel context.CancelCauseFunc
	clock  *clock // set before the first hop

	// Guarded by memory.mu.
	waiters  int
	latest   time.Time // deadline of the waiter who can wait longest
	patient  bool      // some waiter has no deadline
	deadline bool      // Queue has told the transport about latest
	left     bool      // nobody waits any more; the result is dropped

	// Set before done is closed.
	done   chan struct{}
	known  *known
	err    error
	failed bool // the goroutine didn't return: it panicked, or called runtime.Goexit
	panic  any
}

// errLeft is why a flight was cancelled that nobody waits for.
var errLeft = errors.New("robotscache: nobody waits for this robots.txt any more")

// wait returns what is known of o once that is fresh, and fetches robots.txt if nobody does yet.
func (c *Cache) wait(ctx context.Context, o origin) (*Entry, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, waitError(o, err)
		}
		f, k, place := c.join(ctx, o)
		if k != nil {
			return &k.Entry, nil
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			f.leave()
			return nil, waitError(o, ctx.Err())
		}
		switch {
		case f.failed && place == starter:
			// The panic is for the caller whose fetch it was.
			if f.panic == nil {
				runtime.Goexit()
			}
			panic(f.panic)
		case f.failed, f.err != nil && place == late:
			// Somebody else's panic, or a refusal that was decided by the deadlines
			// of others: no answer for this caller, who takes a turn of its own.
		case f.err != nil:
			return nil, f.err
		default:
			return &f.known.Entry, nil
		}
	}
}

func waitError(o origin, err error) error {
	return fmt.Errorf("robotscache: waiting for robots.txt of %s: %w", o, err)
}

// A place is how a caller came to a flight.
type place int

const (
	starter place = iota // it started the flight
	early                // it joined before the transport asked how long there is to wait
	late                 // it joined after that
)

// join returns what is known of o if that may be used, or else the flight to wait for.
func (c *Cache) join(ctx context.Context, o origin) (*flight, *known, place) {
	m := c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	k, _ := m.known.Peek(o)
	now := time.Now()
	if k != nil && now.Before(k.Expires) {
		return nil, k, 0
	}
	f, place := m.flights[o], early
	switch {
	case f == nil:
		o = o.clone()
		f, place = &flight{origin: o, memory: m, done: make(chan struct{})}, starter
		// The flight outlives the caller if others wait; what the caller's context
		// carries, such as a trace, goes with it.
		f.ctx, f.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), flightKey{}, f))
		m.flights[o] = f
		go c.fly(f, k)
	case k != nil && k.usable(now):
		return nil, k, 0
	case f.deadline:
		place = late
	}
	f.waiters++
	if d, ok := ctx.Deadline(); !ok {
		f.patient = true
	} else if d.After(f.latest) {
		f.latest = d
	}
	return f, nil, place
}

// leave gives up waiting.
func (f *flight) leave() {
	f.memory.mu.Lock()
	f.waiters--
	if last := f.waiters == 0; last && f.memory.flights[f.origin] == f {
		// From here on a new caller starts a new flight.
		f.left = true
		delete(f.memory.flights, f.origin)
	}
	left := f.left
	f.memory.mu.Unlock()
	if left {
		f.cancel(errLeft)
	}
}

// fly is the flight's goroutine.
func (c *Cache) fly(f *flight, prev *known) {
	f.failed = true
	defer func() {
		if f.failed {
			f.panic = recover()
		}
		c.land(f)
	}()
	f.known, f.err = c.refresh(f, prev)
	f.failed = false
}

// land publishes what the flight came to, and lets everybody go.
func (c *Cache) land(f *flight) {
	m := c.memory
	m.mu.Lock()
	if !f.left {
		delete(m.flights, f.origin)
		if f.known != nil {
			m.add(f.origin, f.known)
		}
	}
	m.mu.Unlock()
	if f.clock != nil {
		f.clock.stop()
	}
	f.cancel(nil)
	close(f.done) // nothing comes after: the goroutine ends before its callers' calls do
}

// refresh finds out what holds for the flight's origin now. The error is a
// refusal of the transport, or that everybody left.
func (c *Cache) refresh(f *flight, prev *known) (*known, error) {
	var storeErr error
	if c.cfg.Store != nil {
		var unlock func()
		prev, unlock, storeErr = c.consult(f, prev)
		defer unlock() // after the answer is saved
		if prev != nil && time.Now().Before(prev.Expires) {
			return prev, nil
		}
		if errors.Is(context.Cause(f.ctx), errLeft) {
			return nil, errLeft
		}
	}
	f.clock = startClock(c.cfg.Timeout, f.cancel)
	answer, err := c.fetch(f, prev)
	if err != nil {
		return nil, err
	}
	if errors.Is(context.Cause(f.ctx), errLeft) {
		return nil, errLeft
	}
	now := time.Now()
	k, event := c.decide(f.origin, prev, &answer, now)
	if c.cfg.Store != nil {
		save := c.save
		if !k.answered() {
			save = c.saveSilence
		}
		storeErr = errors.Join(storeErr, save(f, k, &answer, now))
	}
	event.StoreErr = storeErr
	c.count(&event)
	c.observe(f.ctx, event)
	return k, nil
}

func (c *Cache) observe(ctx context.Context, e Event) {
	if c.client.Observe != nil {
		c.client.Observe(ctx, e)
	}
}

type flightKey struct{}

// Queue is for a [Client.Transport] whose hops wait for a turn. ctx is the
// context of the hop's request. The transport waits with the context that Queue
// returns, and calls sent when the hop is let go, or refused:
//
//	wait, sent := robotscache.Queue(req.Context())
//	lease, err := hosts.Acquire(wait, key, floor)
//	sent()
//
// From Queue to sent, Config.Timeout stands still: a host that is blocked for ten minutes by our
// own doing isn't unreachable. And wait has a deadline if everybody who wants this robots.txt has
// one, the latest of theirs, so that a turn known to come too late can be refused at once; it is
// never done before the last of them has left. The hop itself is sent with req's own context.
//
// With any other context Queue returns ctx, and sent does nothing. sent may be
// called more than once, and from any goroutine.
func Queue(ctx context.Context) (wait context.Context, sent func()) {
	f, ok := ctx.Value(flightKey{}).(*flight)
	if !ok || f.clock == nil { // a Store's request isn't a hop
		return ctx, func() {}
	}
	f.memory.mu.Lock()
	f.deadline = true
	deadline, ok := f.latest, !f.patient
	f.memory.mu.Unlock()
	if ok {
		ctx = queueContext{ctx, deadline}
	}
	f.clock.pause()
	return ctx, sync.OnceFunc(f.clock.resume)
}

// A queueContext is a context that tells a deadline and leaves it to others to keep it.
type queueContext struct {
	context.Context
	deadline time.Time
}

func (c queueContext) Deadline() (time.Time, bool) { return c.deadline, true }
