package redislimit

import "time"

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
				if p.down != nil && p.calls > 0 {
					continue // that one will tell
				}
				if (p.stake > 0 || len(p.ops) > 0 || p.down != nil) && now-p.called >= heartbeat {
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
			if !t.waiting && now-t.renewed >= l.rules.LeaseTTL {
				t.end(now)
			}
		}
		switch {
		case h.owes(now):
			h.p.stake++
		case len(h.waiters) == 0:
			delete(l.hosts, key)
		}
	}
}
