package hostlimit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// longestBlock bounds a block that a person sets: sums with it don't overflow.
const longestBlock = 100 * 365 * 24 * time.Hour

// Block implements Controller. Processes that share a Store learn of the block within 10 s.
func (m *Memory) Block(ctx context.Context, key string, until time.Time, why string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := m.rules.CheckBlock(until, time.Now(), why); err != nil {
		return err
	}
	m.now() // begins the count
	return m.act(ctx, key, func(sh *shard, h *host, now time.Duration) {
		t := sh.inTrouble(h)
		t.until = max(t.until, add(now, min(time.Until(until), longestBlock)))
		t.blockOrd = sh.starts
		sh.blame(h, byPerson, text(why))
		sh.note(h, &ByHand{At: m.at(now), Until: m.at(t.until), Why: text(why)})
	})
}

// Clear implements Controller.
func (m *Memory) Clear(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.config.Store != nil {
		// What is to be cleared may be known to the Store alone.
		hash := m.hash(key)
		sh := m.shard(hash)
		if _, err := sh.met(ctx, key, hash, m.limits(key), true); err != nil {
			return err
		}
	}
	return m.act(ctx, key, func(sh *shard, h *host, now time.Duration) {
		h.failures = 0
		t := sh.trouble(h)
		if t.refusals == 0 && !t.blocks(now) {
			return
		}
		t.until, t.refusals = 0, 0
		sh.blame(h, byOther, "")
		sh.note(h, &ByHand{At: m.at(now)})
	})
}

// act does what a person asks for to the state of key, and keeps it.
func (m *Memory) act(ctx context.Context, key string, change func(*shard, *host, time.Duration)) error {
	hash := m.hash(key)
	sh := m.shard(hash)
	sh.mu.Lock()
	now := m.now()
	h := sh.host(sh.get(hash, key, now))
	if h.busy > 0 {
		sh.busy[h.busy-1].refresh(h, now)
	}
	change(sh, h, now)
	if h.busy > 0 {
		b := sh.busy[h.busy-1]
		b.probe = nil
		if sh.stopped(h, now) {
			b.refuseAll(h, now)
		} else if b.head != nil {
			b.head.signal()
		}
		sh.settle(b)
	}
	var k *kept
	if m.config.Store != nil {
		k = sh.keptOf(key, hash)
	}
	sh.mu.Unlock()
	m.handOut()
	if k == nil {
		return nil
	}
	if err := sh.sync(ctx, k, m.limits(key), false); err != nil {
		return err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if k.failure != nil {
		return fmt.Errorf("hostlimit: %s: it holds for this process, but isn't kept: %w", key, k.failure)
	}
	return nil
}

// limits returns the limits of key; those of the Config where Override makes no sense, which
// Acquire reports.
func (m *Memory) limits(key string) *Limits {
	lim, _ := m.rules.Limits(key)
	return lim
}

// forgive resets the counter of h when the host has been quiet for long enough. No answer of a probe
// is waited for then.
func (sh *shard) forgive(h *host, now time.Duration) {
	t := sh.trouble(h)
	if t.refusals == 0 || !t.forgiven(now, sh.m.rules.refusals.Forgive) {
		return
	}
	t.refusals, t.until = 0, 0
	if h.busy > 0 {
		sh.busy[h.busy-1].probe = nil
	}
}

// blame notes what has set the block of h.
func (sh *shard) blame(h *host, c cause, why string) {
	t := sh.inTrouble(h)
	t.cause = c
	if c != byPerson {
		delete(sh.whys, h.trouble)
		return
	}
	if sh.whys == nil {
		sh.whys = map[uint32]string{}
	}
	sh.whys[h.trouble] = why
}

// why is what a person has said of the block of h.
func (sh *shard) why(h *host) string { return sh.whys[h.trouble] }

// causeOf is what has set the block of h, for people.
func (sh *shard) causeOf(h *host) string {
	if t := sh.trouble(h); t.cause != byPerson {
		return t.cause.String()
	}
	return ByHand{Why: sh.why(h)}.Cause()
}

// note leaves it to the next Grant or Error of h to tell what a person has done.
func (sh *shard) note(h *host, act *ByHand) {
	sh.inTrouble(h)
	if sh.acts == nil {
		sh.acts = map[uint32]*ByHand{}
	}
	sh.acts[h.trouble] = act
}

// act takes what is to be told of what a person has done to h.
func (sh *shard) act(h *host) *ByHand {
	act := sh.acts[h.trouble]
	if act != nil {
		delete(sh.acts, h.trouble)
	}
	return act
}

// stopped reports whether a person has blocked h.
func (sh *shard) stopped(h *host, now time.Duration) bool {
	t := sh.trouble(h)
	return t.cause == byPerson && t.blocks(now)
}

// stop is why no request of h starts, nor waits, because a person says so; nil: it may.
func (sh *shard) stop(h *host, now time.Duration) error {
	key := func() string { return string(sh.name(h)) }
	switch {
	case sh.m.drain.begun.Load():
		return &Error{Key: key(), Err: ErrDraining, ByHand: sh.act(h)}
	case sh.stopped(h, now):
		return &Error{Key: key(), RetryAt: sh.m.at(sh.trouble(h).until), Err: sh.m.rules.BlockedByHand(sh.why(h)), ByHand: sh.act(h)}
	}
	return nil
}

// refuseAll refuses all who wait for h, because a person says so.
func (b *busy) refuseAll(h *host, now time.Duration) {
	for w := b.head; w != nil; w = b.head {
		w.err = b.sh.stop(h, now)
		b.leave(w)
		w.signal()
	}
}

// A drain is the end of a Memory.
type drain struct {
	begun atomic.Bool

	mu   sync.Mutex
	ends chan struct{} // closed when a request in flight has ended; nil while nobody waits for that
}

// tell says that a request in flight has ended.
func (d *drain) tell() {
	if !d.begun.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ends != nil {
		close(d.ends)
		d.ends = nil
	}
}

// next returns a channel that is closed when a request ends that is in flight now.
func (d *drain) next() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ends == nil {
		d.ends = make(chan struct{})
	}
	return d.ends
}

// Drain implements Controller. A lease that is never released is taken back after LeaseTTL.
func (m *Memory) Drain(ctx context.Context) error {
	m.drain.begun.Store(true)
	for {
		ended := m.drain.next()
		inFlight, due := m.flights()
		if inFlight == 0 {
			return nil
		}
		timer := time.NewTimer(due - m.now())
		select {
		case <-ended:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("hostlimit: %d requests still in flight: %w", inFlight, ctx.Err())
		}
		timer.Stop()
	}
}

// flights refuses all who wait for a key, takes back what has expired, and returns the number of
// requests in flight and when the next of them expires, at the earliest.
func (m *Memory) flights() (inFlight int, due time.Duration) {
	due = never
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		now := m.now()
		for _, b := range sh.busy {
			if !b.used {
				continue
			}
			h := sh.host(b.host)
			b.refresh(h, now)
			b.refuseAll(h, now)
			inFlight += b.inFlight
			due = min(due, b.flying.due(m.rules.config.LeaseTTL))
			sh.settle(b)
		}
		sh.mu.Unlock()
	}
	m.handOut()
	return inFlight, due
}
