package redislimit

import (
	"slices"
	"time"
)

// A host is what this process knows of a key, and its waiters here. Only
// the first of its waiters asks the server (and the second when the first is about to start);
// the others wait for those to leave, at no cost. So the server's queue holds a
// place or two for each process, and processes take turns. Its fields and those of its waiters are
// guarded by the Limiter's mu.
type host struct {
	l   *Limiter
	p   *partition
	key string

	waiters []*waiter         // first come, first served
	leases  map[string]*lease // in flight, by id
	idle    chan struct{}     // closed when none is in flight; for FailLocal
	probe   chan struct{}     // closed when a probe has its answer; for FailLocal

	// All that must outlive a loss of data, on this process's clock.
	next        time.Duration // the next start isn't earlier
	last        time.Duration // the last start wasn't later; only if started
	started     bool
	until       time.Duration // end of the block
	untilServer int64         // which is that on the server's clock
	untilTold   time.Duration // earliest that this may be: other processes may know the server's clock better
	refusals    int
	blocked     time.Duration // when a block became known here: turns granted before are void

	// What the waiters wait for, and for how long they did.
	blame  blame
	since  time.Duration
	waited [3]time.Duration
}

type blame int

const (
	slot blame = iota
	delay
	block
)

func blameOf(why string) blame {
	switch why {
	case "s":
		return slot
	case "b":
		return block
	}
	return delay
}

// host returns the host of key, which is made if need be.
func (l *Limiter) host(key string) *host {
	h := l.hosts[key]
	if h == nil {
		h = &host{l: l, p: l.partition(key), key: key, leases: make(map[string]*lease), since: l.now(), blame: delay}
		l.hosts[key] = h
	}
	return h
}

// owes reports whether forgetting h would lose something that the server may ask for.
func (h *host) owes(now time.Duration) bool {
	return len(h.leases) > 0 || h.next > now || h.refusals > 0 && now < h.until+h.l.rules.Refusals.Forgive
}

// account books the time that passed to what was waited for, and what is waited
// for from now on.
func (h *host) account(now time.Duration, next blame) {
	h.waited[h.blame] += now - h.since
	h.since, h.blame = now, next
}

// blockedUntil notes the end of a block as the server tells it, and returns it on
// this process's clock: the same for the same block, although the bounds on the
// server's clock move.
func (h *host) blockedUntil(us int64, now time.Duration) time.Duration {
	if us != h.untilServer {
		h.untilServer = us
		h.until = max(h.until, h.p.clock.surely(us, now))
		h.untilTold = h.p.clock.earliest(us, now)
	}
	return h.until
}

// refused notes a block.
func (h *host) refused(now, until time.Duration, refusals int) {
	h.blocked = now
	h.until, h.refusals = max(h.until, until), refusals
	h.weed()
}

// leave takes w out of the queue and lets the next one ask.
func (h *host) leave(w *waiter) {
	i := slices.Index(h.waiters, w)
	if i < 0 {
		return
	}
	h.waiters = slices.Delete(h.waiters, i, i+1)
	delete(h.l.asked, w.id)
	if i == 0 && len(h.waiters) > 0 {
		h.waiters[0].poke()
	}
}

// behind returns the first waiter that hasn't asked, if it is next after w.
func (h *host) behind(w *waiter) *waiter {
	i := slices.Index(h.waiters, w)
	if i < 0 || i+1 >= len(h.waiters) || h.waiters[i+1].phase != parked {
		return nil
	}
	return h.waiters[i+1]
}

// weed refuses the waiters that are known to come too late.
func (h *host) weed() {
	start, blocked := h.next, false
	if h.until > start {
		start, blocked = h.until, true
	}
	for i := 0; i < len(h.waiters); i++ {
		w := h.waiters[i]
		if at := start + time.Duration(i)*w.least; w.limit > 0 && at > w.limit && w.phase != asking && w.phase != granted {
			w.refuse(w.late(at, blocked))
			i-- // it has left
		}
	}
}

// restore tells the server what it may have lost.
func (h *host) restore(now time.Duration) {
	if !h.owes(now) {
		return
	}
	last := int64(-1 << 50)
	if h.started {
		last = micros(h.last - now)
	}
	args := []any{micros(max(h.next-now, 0)), last, micros(max(h.until-now, 0)), h.refusals}
	for id, lease := range h.leases {
		if left := lease.renewed + h.l.rules.LeaseTTL - now; left > 0 && !lease.waiting {
			lease.alone = false
			args = append(args, id, micros(left))
		}
	}
	h.p.add(op{name: "restore", h: h, args: args, owed: true})
}
