package redislimit

import (
	"strings"

	"github.com/redis/go-redis/v9"
)

// listen keeps the subscription up on which the server pushes turns to this process: the client
// connects anew where that is lost. Without it, waiters ask from time to time.
func (l *Limiter) listen() {
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return
		}
		sub := l.conf.Client.Subscribe(l.ctx) // connects below
		l.pubsub, l.listening = sub, false
		l.mu.Unlock()
		_ = sub.Subscribe(l.ctx, l.conf.Prefix+"push:"+l.proc, l.conf.Prefix+"push:all") // it is tried again below
		for message := range sub.ChannelWithSubscriptions() {
			switch m := message.(type) {
			case *redis.Subscription:
				if m.Kind == "subscribe" && m.Count == 2 {
					l.subscribed()
				}
			case *redis.Message:
				l.heard(m.Payload, m.Channel == l.conf.Prefix+"push:all")
			}
		}
	}
}

// heard takes in a message, to all processes or to this one: a hello, a push, or what proclaim
// sends, all of them lists; the name of a generation; or nothing, which tells all that a pause
// begins or ends, and one process that its heartbeat had an echo. A push is {ID, TIME, NOW, WHY}; a
// waiter that has left has told the server so.
func (l *Limiter) heard(message string, toAll bool) {
	f := parse(message)
	l.mu.Lock()
	switch {
	case len(f) == 3:
		l.greeted(f, toAll)
	case len(f) == 4:
		if w := l.asked[text(f[0])]; w != nil {
			w.pushed(number(f[1]), number(f[2]), text(f[3]), l.now())
		}
	case len(f) == 3+infoFields:
		l.proclaimed(f)
	case message == "" && toAll:
		l.askAgain(nil)
	}
	for _, p := range l.parts {
		if message == p.genKey() && p.atRisk+p.waits > 0 && !l.closed {
			p.send() // a partition of a cluster has another generation
		}
	}
	l.mu.Unlock()
	l.tell()
}

// subscribed lets all waiters for a push ask again, as pushes may have been lost.
func (l *Limiter) subscribed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listening, l.subscribedAt = true, l.now()
	l.askAgain(nil)
}

// unsubscribe ends the subscription, so that listen goes on. The client may be waiting for the
// server with the subscription's lock held, for as long as its timeouts. The caller holds mu.
func (l *Limiter) unsubscribe() {
	l.listening = false
	if sub := l.pubsub; sub != nil {
		l.wg.Go(func() { _ = sub.Close() }) // there is nothing to do about an error
	}
}

// proclaimed takes in what the server tells every process: {key, now, act, and what told returns}
// of a block, or that there is none any more. So more than one process knows each block, and a turn
// that was granted just before isn't used. A process that has never called the server, and so
// doesn't know its clock, hears of the block when it does.
func (l *Limiter) proclaimed(f []any) {
	_, key, found := strings.Cut(text(f[0]), "}"+ofHosts)
	if !found || !l.partition(key).clock.known {
		return
	}
	i, at := newHostInfo(f[3:]), reply{server: number(f[1]), received: l.now()}
	h := l.hosts[key]
	if h == nil && i.until <= at.server {
		return
	}
	if h = l.host(key); at.server < h.asOf {
		return // the server has told more since
	}
	known := i.until == h.until
	h.learn(i, at)
	if !known {
		h.until = 0 // a reply, which narrows the bounds of the server's clock, tells it better
	}
	if i.until > at.server {
		h.halt(at.received)
	}
	if act := number(f[2]); act > 0 {
		h.note(at, act == 1)
	}
}
