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
	"github.com/go-politeness/politeness/internal/contexts"
)

// Block implements [hostlimit.Controller]: for all processes.
func (l *Limiter) Block(ctx context.Context, key string, until time.Time, why string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	cause, err := l.rules.CheckBlock(key, until, time.Now(), why)
	if err != nil {
		return err
	}
	cause = strings.ToValidUTF8(cause, "\uFFFD")
	c := &change{h: l.known(key), act: 1, make: func(s *hostlimit.Refusals, now time.Duration) hostlimit.Effect {
		s.Block(now+min(time.Until(until), longest), cause, newest)
		return hostlimit.Effect{Blocked: true}
	}}
	if err := l.act(ctx, c); err != nil {
		return err
	}
	// Requests that were let go just before start within their window or not at all.
	return contexts.Sleep(ctx, min(c.latest-l.now(), observing))
}

// Clear implements [hostlimit.Controller]: for all processes.
func (l *Limiter) Clear(ctx context.Context, key string) error {
	limits, _ := l.rules.Limits(key) // Acquire reports the error
	return l.act(ctx, &change{h: l.known(key), act: 2, slots: limits.Concurrency, make: func(s *hostlimit.Refusals, now time.Duration) hostlimit.Effect {
		return hostlimit.Effect{Cleared: s.Clear(now)}
	}})
}

// act waits until the server, and the Store, have c, a change by a person.
func (l *Limiter) act(ctx context.Context, c *change) error {
	err := l.await(ctx, c.h, func(answered chan reply) {
		c.done = answered
		c.h.submit(c)
	})
	if err != nil {
		return err
	}
	return l.save(ctx, c.h.key)
}

// longest bounds a wait, and a block that a person sets: sums with it don't overflow.
const longest = 20 * 365 * 24 * time.Hour

// listed is the number of hosts that List asks for at a time.
const listed = 512

// List implements [hostlimit.Controller]. It lists all hosts of the fleet, as [Limiter.State] has
// them.
func (l *Limiter) List(ctx context.Context) iter.Seq2[hostlimit.HostState, error] {
	return func(yield func(hostlimit.HostState, error) bool) {
		keys, err := l.keys(ctx)
		for part := range slices.Chunk(keys, listed) {
			states, errs := make([]hostlimit.HostState, len(part)), make([]error, len(part))
			var wg sync.WaitGroup
			for i, key := range part { // together, so that one call asks for many
				wg.Go(func() { states[i], errs[i] = l.State(ctx, key) })
			}
			wg.Wait()
			for i, state := range states {
				if !yield(state, errs[i]) || errs[i] != nil {
					return
				}
			}
		}
		if err != nil {
			yield(hostlimit.HostState{}, err)
		}
	}
}

// keys returns the keys of all hosts.
func (l *Limiter) keys(ctx context.Context) (keys []string, err error) {
	pattern := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(l.conf.Prefix) + "{*}" + ofHosts + "*"
	err = l.masters(ctx, func(ctx context.Context, node *redis.Client) error {
		names := node.Scan(ctx, 0, pattern, 512).Iterator()
		for names.Next(ctx) {
			if _, key, ok := strings.Cut(names.Val(), "}"+ofHosts); ok {
				l.mu.Lock()
				keys = append(keys, key)
				l.mu.Unlock()
			}
		}
		if err := names.Err(); err != nil {
			return &ServerError{Server: l.server, Err: err}
		}
		return nil
	})
	slices.Sort(keys)
	return slices.Compact(keys), err // SCAN may return a key twice
}

// State implements [hostlimit.Controller]: it asks the server. Waiters are those that the server
// knows, one or two of each process.
func (l *Limiter) State(ctx context.Context, key string) (s hostlimit.HostState, err error) {
	limits, _ := l.rules.Limits(key) // Acquire reports the error
	h := &host{l: l, p: l.partition(key), key: key}
	s = hostlimit.HostState{Key: key, Slots: limits.Concurrency}
	err = l.do(ctx, op{name: "state", h: h}, func(at reply) {
		reply := at.answer
		stamp := func(us int64) time.Time { return l.base.Add(h.p.clock.surely(us, at.received)) }
		s.Starts = uint64(number(reply[0]))
		s.InFlight = int(number(reply[1]))
		s.Waiters = int(number(reply[2]))
		s.Next = stamp(number(reply[3]))
		if until := number(reply[4]); until > at.server {
			s.BlockedUntil, s.BlockedBy = stamp(until), text(reply[5])
		}
		s.Refusals, s.Probing = int(number(reply[6])), truth(reply[7])
		s.Delay = duration(reply[8])
		s.Adaptive = duration(reply[9])
		s.Learned = duration(reply[10])
		switch {
		case s.Learned > 0 && s.Learned >= s.Delay:
			s.DelaySource = "learned"
		case s.Adaptive > 0 && s.Adaptive >= s.Delay:
			s.DelaySource = "adaptive"
		case s.Starts > 0:
			s.DelaySource = "random"
		}
	})
	return s, err
}

// Drain implements [hostlimit.Controller]: for this process. A lease that is never released is
// taken back after LeaseTTL.
func (l *Limiter) Drain(ctx context.Context) error {
	for {
		l.mu.Lock()
		l.drain()
		for _, h := range l.hosts {
			for _, w := range slices.Clone(h.waiters) {
				w.refuse(drained(h.key))
			}
		}
		flying := l.inFlight
		l.mu.Unlock()
		if flying == 0 {
			return nil
		}
		if err := contexts.Sleep(ctx, looking); err != nil {
			return fmt.Errorf("redislimit: %d requests still in flight: %w", flying, err)
		}
	}
}
