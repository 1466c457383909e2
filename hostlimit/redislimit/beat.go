package redislimit

import "time"

// mostHanging bounds the calls of a process to a server that doesn't answer.
const mostHanging = 8

// beat calls the server from time to time while there is something to lose, so
// that a loss of data is noticed within its quarantine, and while it is away.
func (l *Limiter) beat() {
	ticker := time.NewTicker(heartbeat / 2)
	defer ticker.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-ticker.C:
		}
		l.mu.Lock()
		if !l.closed {
			now := l.now()
			l.sweep(now)
			for _, p := range l.parts {
				due := p.stake > 0 || len(p.ops) > 0 || p.down != nil || l.alone
				// A call that hangs says nothing about the next one, which may have another connection.
				if due && now-max(p.called, p.heard) >= heartbeat && p.calls < mostHanging {
					p.send()
				}
			}
		}
		l.mu.Unlock()
	}
}

// sweep takes back what leaked and forgets hosts that owe nothing. It counts
// the hosts of each partition that remain.
func (l *Limiter) sweep(now time.Duration) {
	for _, p := range l.parts {
		p.stake = 0
	}
	for key, h := range l.hosts {
		for _, t := range h.leases {
			if !t.waiting && now-t.renewed >= l.complete.LeaseTTL {
				t.end(now)
			}
		}
		switch {
		case len(h.waiters) > 0, h.act != nil, h.owes(now), h.storing != nil, h.unsaved(now):
			h.p.stake++
		default:
			delete(l.hosts, key)
		}
	}
}
