package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// longestBlock bounds an operator's block, so that sums with it don't overflow.
const longestBlock = 100 * 365 * 24 * time.Hour

// Block implements Controller. Processes that share a Store learn of the block within 10 s.
func (m *Limiter) Block(ctx context.Context, key string, until time.Time, why string) error {
	cause, err := m.rules.CheckBlock(key, until, time.Now(), why)
	if err != nil {
		return err
	}
	return m.act(ctx, key, func(h *host, starts uint64, now time.Duration) {
		r := h.changeRefusals()
		// until is a time of the wall's clock, and the block's end one of the Limiter's.
		r.Block(rules.Add(now, min(time.Until(until), longestBlock)), cause, starts)
		r.act = &hostlimit.Debt{BlockedAt: m.at(now), BlockedUntil: m.at(r.Until), Cause: cause}
	})
}

// OnAct makes the Limiter call f when an operator has acted on it. See hostlimit.Acts.
func (m *Limiter) OnAct(f func(hostlimit.Act) bool) {
	// A wrapper that embeds a Limiter may make it at the first request only.
	if m != nil {
		m.acts.Add(f)
	}
}

// Clear implements Controller.
func (m *Limiter) Clear(ctx context.Context, key string) error {
	// Another process may have blocked the key: its block is loaded first.
	lim, _ := m.rules.Limits(key) // Acquire reports the error
	if _, err := m.load(ctx, key, lim, toDecide); err != nil {
		return err
	}
	return m.act(ctx, key, func(h *host, _ uint64, now time.Duration) {
		if r := h.kept; r != nil && r.Clear(now) {
			r.cleared = now
			r.clearings++
			r.freed = r.clearings
			r.act = &hostlimit.Debt{ClearedAt: m.at(now)}
		}
	})
}

// act changes the state of key for an operator, and saves it. change gets the number of starts of
// the shard.
func (m *Limiter) act(ctx context.Context, key string, change func(h *host, starts uint64, now time.Duration)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sh := m.shard(key)
	sh.mu.Lock()
	now := m.now()
	h := sh.get(key, now)
	if h.active != nil {
		h.active.refresh(now) // the time until now belongs to the block before the change
	}
	change(h, sh.starts, now)
	act := h.act() // taken first, because the errors of the requests that it refuses would report it too
	if a := h.active; a != nil {
		a.probe = nil // no request waits for its answer any more
		a.changed(now, false)
	}
	sh.mu.Unlock()
	sh.tell(h, act)
	if m.config.Store == nil {
		return nil
	}
	lim, _ := m.rules.Limits(key)
	if _, err := sh.sync(ctx, h, lim, toUse); err != nil {
		return err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	// A Grant reports a failure once. An operator gets it at each act.
	if s := h.stored; s != nil && s.failure != nil {
		return fmt.Errorf("hostlimit: %s: it applies to this process, but isn't saved: %w", key, s.failure)
	}
	return nil
}

// Drain implements Controller. A lease that is never released is taken back after LeaseTTL.
func (m *Limiter) Drain(ctx context.Context) error {
	// The act is on record before a request is refused for it, which may end the program.
	if m.drain.isFirst() {
		m.acts.Tell(hostlimit.Act{Drained: true})
	}
	m.drain.begin()
	for {
		ended := m.drain.next() // before the count, which may miss an end after it
		inFlight, due := m.refuseWaiters()
		if inFlight == 0 {
			return nil
		}
		select {
		case <-ended:
		case <-time.After(due - m.now()): // a lease may have leaked
		case <-ctx.Done():
			return fmt.Errorf("hostlimit: %d requests still in flight: %w", inFlight, ctx.Err())
		}
	}
}

// refuseWaiters refuses all waiters of all keys, and returns the number of requests in flight and
// the time before which no lease of theirs expires.
func (m *Limiter) refuseWaiters() (inFlight int, due time.Duration) {
	due = rules.Never
	for a, now := range m.actives {
		a.refresh(now)
		a.refuseAll(now)
		inFlight += a.flights.Len
		due = min(due, a.due)
	}
	return inFlight, due
}
