package redislimit

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-politeness/politeness/redis/internal/contexts"
)

// mostIdle bounds the beats to idle partitions of a cluster at a time.
const mostIdle = 2

// beat calls the server from time to time while there is something to lose, so that a loss of data
// is noticed within its quarantine, and while it is away. Partitions of a cluster of which no
// request of this process is in flight are called in turn: a node that has lost its data shows that
// in each (see learn). A place in a queue is no loss within a quarantine, so a process that only
// waits shows that it lives, and no more.
func (l *Limiter) beat() {
	for contexts.Sleep(l.ctx, heartbeat/2) == nil {
		l.mu.Lock()
		l.callIfDue(l.now())
		l.mu.Unlock()
	}
}

// callIfDue is one round of beat. The caller holds mu.
func (l *Limiter) callIfDue(now time.Duration) {
	l.sweep(now)
	// The others answer by the subscription.
	canGreet := !l.conf.Operator && l.sub.listening && l.down.parts == 0
	if canGreet && l.peers.isDue(now) {
		l.peers.greet(now)
		l.parts[0].addAlong(l.hello(l.parts[0], "all", false))
	}
	var idle []*partition
	for _, p := range l.parts {
		since := now - max(p.sent.last, p.sent.heard)
		// A call that hangs says nothing about the next one, which may have another connection.
		hangs := p.sent.underWay >= mostHanging
		if since < heartbeat || hangs || l.closed {
			continue
		}
		mustShow := p.uses.waiting > 0 && since >= l.signOfLife()
		switch {
		case p.isBusy() || mustShow:
			p.send()
		case p.uses.atRisk > 0:
			idle = append(idle, p)
		}
	}
	// In turn: those that were called the longest ago.
	slices.SortFunc(idle, func(a, b *partition) int { return cmp.Compare(a.sent.last, b.sent.last) })
	for _, p := range idle[:min(len(idle), mostIdle)] {
		p.send()
	}
}

// isBusy reports whether p is called at each heartbeat.
func (p *partition) isBusy() bool {
	hasWork := p.uses.inUse > 0 || len(p.ops) > 0
	return hasWork || p.down != nil || p.l.failsLocal
}

// sweep takes back the leases that leaked and forgets hosts that owe nothing. It counts the hosts
// of each partition by their use in this process.
func (l *Limiter) sweep(now time.Duration) {
	for _, p := range l.parts {
		p.uses = uses{}
	}
	for key, h := range l.hosts {
		for _, t := range h.leases {
			// A Start that waits is no leak.
			if t.phase >= held && t.use.isExpired(now, l.limits.LeaseTTL) {
				t.end(now)
			}
		}
		uses := &h.p.uses
		if len(h.waiters) > 0 {
			uses.waiting++
		}
		if h.inUse() {
			uses.inUse++
		}
		switch {
		case h.isAtRisk(now):
			uses.atRisk++
		case len(h.waiters) == 0:
			// The server has the rest, and keys without requests don't fill the memory.
			delete(l.hosts, key)
			if h.seq > 0 {
				l.numbers.starts.Add(key, h.seq) // the next start continues from it
			}
		}
	}
}

// isAtRisk reports whether something would be lost with h: to the server, a caller or the Store.
func (h *host) isAtRisk(now time.Duration) bool {
	unreported := h.news.byHand != nil
	saving := len(h.keeping.busy) > 0
	return h.owes(now) || unreported || saving || h.unsaved(now)
}
