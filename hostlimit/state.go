package hostlimit

import (
	"context"
	"iter"
	"time"
)

// A HostState is the state of one key in a limiter, for a status page.
type HostState struct {
	Key      string
	Starts   uint64 // requests started since the key's state was made
	InFlight int    // slots in use, including expired leases that no request has taken back yet
	Slots    int    // number of slots of the key
	Waiters  int    // requests in the queue
	Hold     string // what keeps the head of the queue from starting, as in Wait; empty if no request waits
	Why      string // the same, in a sentence

	Silent   time.Duration // longest time for which a slot has been held without a Renew: an answer that takes long, or a body that is neither read nor closed; 0: no slot is held
	SilentBy string        // name of the request that holds it, by its Watcher; empty: it has none

	Next         time.Time // earliest start of the head of the queue, or of the next request; in the past if it could start
	BlockedUntil time.Time // end of the block; zero if the key isn't blocked
	BlockedBy    string    // cause of the block: "status 429", "network error", "refused" (Outcome.Refused), "rate limit" (Outcome.Reset), "hours" (Config.Windows), "by hand: " and why (Controller.Block); empty if the key isn't blocked
	Refusals     int       // refusals in a row, 255 for more; positive after a block's end too, until a probe succeeds
	Probing      bool      // a first request after a block is in flight

	Delay       time.Duration // delay in force since the last start, or the floor of the head of the queue where that is longer
	DelaySource string        // rule that gave it, empty before the first start: "random" (Delay.Min and Max), "crawl-delay" (the caller's floor), "adaptive" (response times) or "learned" (refusals)
	Adaptive    time.Duration // delay by response times; 0 where Delay.Adaptive doesn't use them
	Learned     time.Duration // delay that refusals have taught; 0: none
}

// List implements Controller. Its only error is that of ctx.
func (m *Memory) List(ctx context.Context) iter.Seq2[HostState, error] {
	return func(yield func(HostState, error) bool) {
		cancelled := func() bool {
			err := ctx.Err()
			if err != nil {
				yield(HostState{}, err)
			}
			return err != nil
		}
		for i := range m.shards {
			if cancelled() {
				return
			}
			sh := &m.shards[i]
			sh.mu.Lock()
			for _, h := range sh.hosts { // the map may change while List yields
				st, head, silent := sh.state(h)
				sh.mu.Unlock()
				lim, _ := m.rules.Limits(h.key)
				st.Slots, st.SilentBy = lim.Concurrency, nameOf(silent)
				if head != nil {
					head.HeldBy = nameOf(head.holder)
					st.Hold, st.Why = head.Hold, head.String()
				}
				if !yield(st, nil) || cancelled() {
					return
				}
				sh.mu.Lock()
			}
			sh.mu.Unlock()
		}
	}
}

// state returns the state of h without what is asked under no lock: Override, and the names of its
// requests. head is why the head of its queue waits, nil if there is none.
func (sh *shard) state(h *host) (st HostState, head *notice, silent Watcher) {
	m, t := sh.m, h.refusals()
	now := m.now()
	st = HostState{Key: h.key, Starts: h.seq, Refusals: t.InARow(), Adaptive: h.adaptive, Learned: t.Learned}
	floor := time.Duration(0)
	if a := h.active; a != nil {
		if w := a.queue.First; w != nil {
			floor, head = w.floor, a.notice(now)
		}
		for l := a.flights.First; l != nil; l = l.Next {
			if d := now - time.Duration(l.heard.Load()); d > st.Silent {
				st.Silent, silent = d, l.watcher
			}
		}
		st.InFlight = a.flights.Len
		st.Waiters = a.queue.Len
		st.Probing = a.probe != nil
	}
	gap, by := h.delay(floor)
	st.Delay, st.DelaySource = gap, by.String()
	next := max(h.earliest(floor), t.next, t.Until)
	if at := max(next, now); m.open(at) > at {
		next = m.open(at)
	}
	if t.Blocks(now) {
		st.BlockedUntil, st.BlockedBy = m.at(t.Until), t.Cause
	} else if open := m.open(now); open > now {
		st.BlockedUntil, st.BlockedBy = m.at(open), "hours"
	}
	if t.forgiven(m.rules, now) {
		st.Refusals = 0
	}
	st.Next = m.at(next)
	return st, head, silent
}
