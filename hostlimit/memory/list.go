package memory

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// List implements Controller. Its only error is that of ctx.
func (m *Limiter) List(ctx context.Context) iter.Seq2[hostlimit.HostState, error] {
	return func(yield func(hostlimit.HostState, error) bool) {
		for i := range m.shards {
			if !m.shards[i].list(ctx, yield) {
				return
			}
		}
	}
}

// list yields the state of each host of sh, and reports whether the next shard is to follow.
func (sh *shard) list(ctx context.Context, yield func(hostlimit.HostState, error) bool) bool {
	if err := ctx.Err(); err != nil {
		yield(hostlimit.HostState{}, err)
		return false
	}
	sh.mu.Lock()
	for _, h := range sh.hosts { // the map may change while list yields
		s := sh.snapshot(h)
		sh.mu.Unlock() // the caller may do anything with a host, also with this one
		if !yield(s.complete(sh.m), nil) {
			return false
		}
		if err := ctx.Err(); err != nil {
			yield(hostlimit.HostState{}, err)
			return false
		}
		sh.mu.Lock()
	}
	sh.mu.Unlock()
	return true
}

// State implements Controller. Its only error is that of ctx.
func (m *Limiter) State(ctx context.Context, key string) (hostlimit.HostState, error) {
	if err := ctx.Err(); err != nil {
		return hostlimit.HostState{}, err
	}
	sh := m.shard(key)
	sh.mu.Lock()
	h := sh.hosts[key]
	if h == nil {
		h = newHost(key) // not kept: a look makes no host known
	}
	s := sh.snapshot(h)
	sh.mu.Unlock()
	return s.complete(m), nil
}

// A snapshot is the state of a host, as far as it is read under the lock of its shard. Override and
// the Watchers are code of the user's: complete calls them, under no lock.
type snapshot struct {
	hostlimit.HostState
	head   *notice      // reason of the wait of the queue's head; nil: no request waits
	silent fmt.Stringer // of the request for HostState.SilentBy; nil: it has none
}

// complete adds the results of Override and of the Watchers.
func (s *snapshot) complete(m *Limiter) hostlimit.HostState {
	lim, _ := m.rules.Limits(s.Key) // Acquire reports the error
	s.Slots = lim.Concurrency
	s.SilentBy = nameOf(s.silent)
	if s.head != nil {
		s.head.HeldBy = nameOf(s.head.holder)
		s.Hold = s.head.Hold
		s.Why = s.head.String()
	}
	return s.HostState
}

// snapshot returns the state of h.
func (sh *shard) snapshot(h *host) *snapshot {
	m := sh.m
	now := m.now()
	r := h.refusals()
	s := &snapshot{HostState: hostlimit.HostState{
		Key:      h.key,
		Starts:   h.seq,
		Refusals: r.InARow(),
		Adaptive: h.adaptive,
		Learned:  r.Learned,
	}}
	if r.Forgiven(m.rules, now) { // the next request will find that, and reset the counter
		s.Refusals = 0
	}
	floor := time.Duration(0)
	if a := h.active; a != nil {
		if head := a.queue.First; head != nil {
			floor = head.floor
			s.head = a.notice(now)
		}
		for l := a.flights.First; l != nil; l = l.Next {
			// A lease that waits in Start was heard at the end of time: it isn't silent.
			if silent := now - time.Duration(l.heard.Load()); silent > s.Silent {
				s.Silent = silent
				s.silent = l.name
			}
		}
		s.InFlight = a.flights.Len
		s.Waiters = a.queue.Len
		s.Probing = a.probe != nil
	}

	gap, by := h.delay(floor)
	if r.Learned > gap { // by an earlier process: there was no start yet
		gap = r.Learned
		by = byLearned
	}
	s.Delay = gap
	s.DelaySource = by.String()

	next := max(h.earliest(floor), r.next, r.Until)
	if start := max(next, now); m.open(start) > start {
		next = m.open(start) // Config.Windows are closed then
	}
	s.Next = m.at(next)

	if r.Blocks(now) {
		s.BlockedUntil = m.at(r.Until)
		s.BlockedBy = r.Cause
	} else if open := m.open(now); open > now {
		s.BlockedUntil = m.at(open)
		s.BlockedBy = "hours"
	}
	return s
}
