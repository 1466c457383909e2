package redislimit

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// silence is how long the subscription may bring nothing before it is pinged and, after as long
// again, replaced by a new one.
const silence = 2 * time.Second

// listen keeps the subscription up on which the server pushes turns to this
// process. Without it, waiters ask from time to time.
func (l *Limiter) listen() {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return
		}
		sub := l.client.Subscribe(l.ctx) // connects below
		l.pubsub = sub
		l.mu.Unlock()

		if l.follow(sub) {
			pause = 10 * time.Millisecond
		}
		l.mu.Lock()
		l.listening = false
		l.mu.Unlock()
		_ = sub.Close() // it is of no use any more
		select {
		case <-l.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// follow reads pushes until the subscription breaks. It reports whether it was ever up.
func (l *Limiter) follow(sub *redis.PubSub) (up bool) {
	if err := sub.Subscribe(l.ctx, l.prefix+"push:"+l.proc, l.prefix+"push:all"); err != nil {
		return false
	}
	for asked := false; ; {
		message, err := sub.ReceiveTimeout(l.ctx, silence)
		if err != nil {
			timeout, ok := err.(interface{ Timeout() bool })
			if asked || !ok || !timeout.Timeout() || sub.Ping(l.ctx) != nil {
				return up
			}
			asked = true
			continue
		}
		asked = false
		switch m := message.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" && m.Count == 2 {
				up = true
				l.subscribed()
			}
		case *redis.Message:
			switch toAll := m.Channel == l.prefix+"push:all"; {
			case l.greeted(m.Payload, toAll):
				l.tell()
			case toAll:
				l.proclaimed(m.Payload)
			default:
				l.pushed(m.Payload)
			}
		}
	}
}

// subscribed lets all waiters for a push ask again, as pushes may have been lost.
func (l *Limiter) subscribed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listening, l.subscribedAt = true, l.now()
	for _, w := range l.asked {
		if w.phase == queued || w.phase == probing {
			w.next = 1
			w.poke()
		}
	}
}

// resubscribe ends the subscription, which listen makes anew: the node that it is on isn't the one
// that pushes, as after a failover. Until then waiters ask. The caller holds mu.
func (l *Limiter) resubscribe() {
	if l.listening && l.pubsub != nil {
		l.listening = false
		_ = l.pubsub.Close() // it is of no use any more
		for _, w := range l.asked {
			if w.phase == queued || w.phase == probing {
				w.next = 1
				w.poke()
			}
		}
	}
}

// pushed hands a push, "ID TIME NOW WHY", to its waiter. One that has left has told the
// server so. An empty one is the echo of a heartbeat.
func (l *Limiter) pushed(message string) {
	f := strings.Fields(message)
	if len(f) != 4 {
		return
	}
	due, err := strconv.ParseInt(f[1], 10, 64)
	from, err2 := strconv.ParseInt(f[2], 10, 64)
	if err != nil || err2 != nil {
		return // not ours
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.asked[f[0]]; w != nil {
		w.pushed(due, from, f[3], l.now())
	}
}

// proclaimed takes in what the server tells every process: {key, now, act, and what told returns}
// of a block, or that there is none any more; and nothing, if a quarantine is over. So more than
// one process knows each block, and a turn that was granted just before isn't used.
func (l *Limiter) proclaimed(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if message == "" {
		for _, p := range l.parts {
			p.renounce()
		}
		return
	}
	for _, p := range l.parts {
		if message == p.genKey() && p.stake > 0 && !l.closed {
			p.send() // a partition of a cluster has another generation
		}
	}
	f, err := parse(message)
	if err != nil || len(f) != 3+toldFields {
		return // not ours
	}
	_, key, found := strings.Cut(text(f[0]), "}host:3:")
	if !found || !strings.HasPrefix(text(f[0]), l.prefix+"{") {
		return
	}
	t, at := newTold(f[3:]), heard{server: number(f[1]), received: l.now()}
	h := l.hosts[key]
	if h == nil && t.until <= at.server {
		return
	}
	if h = l.host(key); at.server < h.asOf {
		return // the server has told more since
	}
	h.adopt(t, at.received)
	known := t.until == h.untilServer
	h.stopped(t.until, at)
	if act := number(f[2]); act > 0 {
		h.note(at, act == 1)
	}
	if !known {
		h.untilServer = 0 // a reply, which narrows the bounds of the server's clock, tells it better
	}
}

// stopped takes in that the host is blocked until then, which others have seen.
func (h *host) stopped(until int64, at heard) {
	now := at.received
	h.confirmed = now
	switch {
	case !h.p.clock.known:
		h.refusals.Until = now + duration(until-at.server)
	case until != h.untilServer || until <= at.server:
		h.blockedUntil(until, at)
	}
	if until > at.server {
		h.halt(now)
	}
}

// halt makes what the server granted before now void, and refuses the waiters that come too late.
func (h *host) halt(now time.Duration) {
	h.blocked = now
	for _, w := range slices.Clone(h.waiters) {
		switch {
		case h.byHand(now):
			w.refuse(w.stop())
		case w.phase == granted:
			w.poke()
		}
	}
	h.weed()
}
