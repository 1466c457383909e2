package redislimit

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/internal/contexts"
	"github.com/go-politeness/politeness/redis/redislimit/internal/share"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// Block implements [hostlimit.Controller] for all processes.
func (l *Limiter) Block(ctx context.Context, key string, until time.Time, why string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	cause, err := l.rules.CheckBlock(key, until, time.Now(), why)
	if err != nil {
		return err
	}
	cause = strings.ToValidUTF8(cause, "\uFFFD")
	c := &change{h: l.lookUp(key), act: blocks}
	// until is a time of this machine's wall clock, and the block's end one of the server's. So
	// only a duration is sent.
	c.compute = func(s *rules.Refusals, now time.Duration) hostlimit.Effect {
		s.Block(now+min(time.Until(until), share.Longest), cause, newest)
		return hostlimit.Effect{Blocked: true}
	}
	if err := l.act(ctx, c); err != nil {
		return err
	}
	// Requests that were let go just before start within their window or not at all.
	return contexts.Sleep(ctx, min(c.latest-l.now(), observing))
}

// Clear implements [hostlimit.Controller] for all processes.
func (l *Limiter) Clear(ctx context.Context, key string) error {
	limits, _ := l.rules.Limits(key) // Acquire reports the error
	// slots is set so that the server hands out the free slots to the waiters.
	c := &change{h: l.lookUp(key), act: clears, slots: limits.Concurrency}
	c.compute = func(s *rules.Refusals, now time.Duration) hostlimit.Effect {
		return hostlimit.Effect{Cleared: s.Clear(now)}
	}
	return l.act(ctx, c)
}

// act waits until the server, and the Store, have c, a change by an operator.
func (l *Limiter) act(ctx context.Context, c *change) error {
	err := l.await(ctx, c.h, func(answered chan reply) {
		c.done = answered
		c.h.submit(c)
	})
	l.reportEvents() // the act is on record before the call returns
	if err != nil {
		return err
	}
	return l.save(ctx, c.h.key)
}

// OnAct makes the Limiter call f when an operator has acted on it, in this process or another one.
// See [hostlimit.Acts].
func (l *Limiter) OnAct(f func(hostlimit.Act) bool) { l.acts.Add(f) }

// listed is the number of hosts that List asks for at a time.
const listed = 512

// List implements [hostlimit.Controller]. It lists all hosts of the fleet, as [Limiter.State] has
// them.
func (l *Limiter) List(ctx context.Context) iter.Seq2[hostlimit.HostState, error] {
	return func(yield func(hostlimit.HostState, error) bool) {
		keys, err := l.keys(ctx)
		for part := range slices.Chunk(keys, listed) {
			for _, found := range l.statesOf(ctx, part) {
				if !yield(found.state, found.err) || found.err != nil {
					return
				}
			}
		}
		// A node of a cluster can't be asked: the hosts of the others come first.
		if err != nil {
			yield(hostlimit.HostState{}, err)
		}
	}
}

// A stateFound is the result of State.
type stateFound struct {
	state hostlimit.HostState
	err   error
}

// statesOf asks for the states of keys side by side, so that one call asks for many.
func (l *Limiter) statesOf(ctx context.Context, keys []string) []stateFound {
	states := make([]stateFound, len(keys))
	var all sync.WaitGroup
	for i, key := range keys {
		all.Go(func() {
			state, err := l.State(ctx, key)
			states[i] = stateFound{state, err}
		})
	}
	all.Wait()
	return states
}

// globs escapes the characters that SCAN doesn't match as they stand.
var globs = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// keys returns the keys of all hosts.
func (l *Limiter) keys(ctx context.Context) ([]string, error) {
	pattern := globs.Replace(l.conf.Prefix) + "{*}" + ofHosts + "*"
	var found gathered
	err := l.masters(ctx, func(ctx context.Context, node *redis.Client) error {
		names := node.Scan(ctx, 0, pattern, listed).Iterator()
		for names.Next(ctx) {
			_, key, ok := strings.Cut(names.Val(), "}"+ofHosts)
			if ok {
				found.add(key)
			}
		}
		if err := names.Err(); err != nil {
			return &ServerError{Server: l.server, Err: err}
		}
		return nil
	})
	slices.Sort(found.texts)
	return slices.Compact(found.texts), err // SCAN may return a key twice
}

// gathered are the findings of several goroutines.
type gathered struct {
	mu    sync.Mutex
	texts []string
}

func (g *gathered) add(texts ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.texts = append(g.texts, texts...)
}

// State implements [hostlimit.Controller]. It asks the server. Waiters are those that the server
// knows, one or two of each process.
func (l *Limiter) State(ctx context.Context, key string) (hostlimit.HostState, error) {
	limits, _ := l.rules.Limits(key) // Acquire reports the error
	// Not from lookUp: a host that is only looked at isn't kept.
	h := &host{l: l, p: l.partition(key), key: key}
	s := hostlimit.HostState{Key: key, Slots: limits.Concurrency}
	err := l.do(ctx, op{h: h, request: new(wire.GetState)}, func(at reply) { h.readState(&s, at) })
	return s, err
}

// readState reads the reply of state into s.
func (h *host) readState(s *hostlimit.HostState, at reply) {
	state := at.answer.(*wire.State)
	stamp := func(us wire.Micros) time.Time { return h.l.base.Add(h.p.clock.Surely(us, at.received)) }
	s.Starts = uint64(state.Starts)
	s.InFlight = state.InFlight
	s.Waiters = state.Waiting
	s.Next = stamp(state.Next)
	if state.Until > at.server {
		s.BlockedUntil = stamp(state.Until)
		s.BlockedBy = state.Cause
	}
	s.Refusals = state.Refusals
	s.Probing = state.Probing
	s.Delay = state.Delay.Duration()
	s.Adaptive = state.Adaptive.Duration()
	s.Learned = state.Learned.Duration()
	// The source of the last start is known only to its process: the longest delay is the likely
	// one.
	switch {
	case s.Learned > 0 && s.Learned >= s.Delay:
		s.DelaySource = "learned"
	case s.Adaptive > 0 && s.Adaptive >= s.Delay:
		s.DelaySource = "adaptive"
	case s.Starts > 0:
		s.DelaySource = "random"
	}
}

// Drain implements [hostlimit.Controller] for this process. A lease that is never released is taken
// back after LeaseTTL.
func (l *Limiter) Drain(ctx context.Context) error {
	// The act is on record before a request is refused for it, which may end the program.
	if l.drained.CompareAndSwap(false, true) && l.open.Err() == nil {
		l.tell(hostlimit.Act{Drained: true})
	}
	for {
		l.mu.Lock()
		l.drain()
		l.refuseAll(drained)
		flying := l.places.taken
		l.mu.Unlock()
		l.reportEvents()
		if flying == 0 {
			return nil
		}
		if err := contexts.Sleep(ctx, looking); err != nil {
			return fmt.Errorf("redislimit: %d requests still in flight: %w", flying, err)
		}
	}
}

// refuseAll refuses all waiters, each with the error of its host's key.
func (l *Limiter) refuseAll(why func(key string) error) {
	for _, h := range l.hosts {
		for _, t := range slices.Clone(h.waiters) {
			t.refuse(why(h.key))
		}
	}
}
