package redislimit

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/internal/contexts"
)

// mostHanging bounds the calls of a process to a server that doesn't answer.
const mostHanging = 8

// leastIdle is the shortest time between two beats of an idle process, to whichever node.
const leastIdle = 100 * time.Millisecond

// beat calls the server from time to time while there is something to lose, so
// that a loss of data is noticed within its quarantine, and while it is away.
//
// Where no request of this process waits or is in flight on a partition of a cluster, a beat to any
// partition of its node will do: that a node has lost its data is seen in each (see learn).
func (l *Limiter) beat() {
	for contexts.Sleep(l.ctx, heartbeat/2) == nil {
		nodes := l.nodes()
		l.mu.Lock()
		if !l.closed {
			now := l.now()
			l.sweep(now)
			if l.crawls && l.listening && l.down == 0 && (l.helloed == 0 || now-l.helloed >= greeting) {
				l.helloed = now
				l.parts[0].addAlong(l.hello(l.parts[0], "all", false))
			}
			last := make(map[string]time.Duration) // call to a node
			idle := make(map[string]*partition)    // of a node, the one called longest ago
			for i, p := range l.parts {
				called := max(p.called, p.heard)
				if last[nodes[i]] = max(last[nodes[i]], called); p.calls >= mostHanging {
					continue // one that hangs says nothing about the next one, which may have another connection
				}
				switch busy := p.inUse > 0 || len(p.ops) > 0 || p.down != nil || l.alone; {
				case busy || p.stake > 0 && !l.cluster:
					if now-called >= heartbeat {
						p.send()
					}
				case p.stake > 0 && (idle[nodes[i]] == nil || called < idle[nodes[i]].called):
					idle[nodes[i]] = p
				}
			}
			pace := max(heartbeat, time.Duration(len(last))*leastIdle)
			l.slower = pace - heartbeat
			for node, p := range idle {
				if now-last[node] >= pace {
					p.send()
				}
			}
		}
		l.mu.Unlock()
	}
}

// nodes returns of each partition the address of its node in a cluster, empty where it isn't known.
func (l *Limiter) nodes() []string {
	addrs := make([]string, len(l.parts))
	if c, ok := l.client.(*redis.ClusterClient); ok {
		for i, p := range l.parts {
			if node, err := c.MasterForKey(l.ctx, p.genKey()); err == nil {
				addrs[i] = node.Options().Addr
			}
		}
	}
	return addrs
}

// sweep takes back what leaked and forgets hosts that owe nothing. It counts
// the hosts of each partition that remain, and those of them that are in use.
func (l *Limiter) sweep(now time.Duration) {
	for _, p := range l.parts {
		p.stake, p.inUse = 0, 0
	}
	for key, h := range l.hosts {
		for _, t := range h.leases {
			if !t.waiting && now-t.renewed >= l.complete.LeaseTTL {
				t.end(now)
			}
		}
		switch {
		case len(h.waiters)+len(h.leases)+len(h.changes) > 0:
			h.p.inUse++
			fallthrough
		case h.act != nil, h.owes(now), h.storing != nil, h.unsaved(now):
			h.p.stake++
		default:
			delete(l.hosts, key)
			if h.seq > 0 {
				l.numbers.Add(key, h.seq)
			}
		}
	}
}
