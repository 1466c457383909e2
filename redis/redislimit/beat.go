package redislimit

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-politeness/politeness/internal/contexts"
)

// mostHanging bounds the calls of a process to a server that doesn't answer.
const mostHanging = 8

// mostIdle bounds the beats to idle partitions of a cluster at a time.
const mostIdle = 2

// beat calls the server from time to time while there is something to lose, so that a loss of data
// is noticed within its quarantine, and while it is away. Partitions of a cluster of which no
// request of this process is in flight are called in turn: that a node has lost its data is seen in
// each (see learn). A place in a queue is no loss within a quarantine, so a process that only waits
// shows that it lives, and no more.
func (l *Limiter) beat() {
	for contexts.Sleep(l.ctx, heartbeat/2) == nil {
		l.mu.Lock()
		l.callWhatIsDue(l.now())
		l.mu.Unlock()
	}
}

// callWhatIsDue is one round of beat. The caller holds mu.
func (l *Limiter) callWhatIsDue(now time.Duration) {
	l.sweep(now)
	if !l.conf.Operator && l.listening && l.down == 0 && (l.helloed == 0 || now-l.helloed >= greeting) {
		l.helloed = now
		l.before = l.others
		l.others = make(map[string]string)
		l.parts[0].addAlong(l.hello(l.parts[0], "all", false))
	}
	var idle []*partition
	for _, p := range l.parts {
		busy := p.inUse > 0 || len(p.ops) > 0 || p.down != nil || l.alone
		// One that hangs says nothing about the next one, which may have another connection.
		switch since := now - max(p.called, p.heard); {
		case since < heartbeat || p.calls >= mostHanging || l.closed:
		case busy || p.waits > 0 && since >= l.dead/5:
			p.send()
		case p.atRisk > 0:
			idle = append(idle, p)
		}
	}
	slices.SortFunc(idle, func(a, b *partition) int { return cmp.Compare(a.called, b.called) })
	for _, p := range idle[:min(len(idle), mostIdle)] {
		p.send()
	}
}

// sweep takes back what leaked and forgets hosts that owe nothing. It counts the hosts of each
// partition by what this process has there.
func (l *Limiter) sweep(now time.Duration) {
	for _, p := range l.parts {
		p.atRisk = 0
		p.inUse = 0
		p.waits = 0
	}
	for key, h := range l.hosts {
		for _, t := range h.leases {
			if t.phase >= held && now-t.renewed >= l.complete.LeaseTTL {
				t.end(now)
			}
		}
		if len(h.waiters) > 0 {
			h.p.waits++
		}
		switch {
		case len(h.leases)+len(h.changes) > 0:
			h.p.inUse++
			fallthrough
		case h.byHand != nil, h.owes(now), len(h.storing) > 0, h.unsaved(now):
			h.p.atRisk++
		case len(h.waiters) == 0:
			delete(l.hosts, key)
			if h.seq > 0 {
				l.numbers.Add(key, h.seq)
			}
		}
	}
}
