package redislimit

import (
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Silence on the subscription for so long is answered by a ping, and silence
// after that by a new subscription.
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
	if err := sub.Subscribe(l.ctx, l.prefix+"push:"+l.proc); err != nil {
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
			if m.Kind == "subscribe" {
				up = true
				l.subscribed()
			}
		case *redis.Message:
			l.pushed(m.Payload)
		}
	}
}

// subscribed lets all waiters for a push ask again, as pushes may have been lost.
func (l *Limiter) subscribed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listening = true
	for _, w := range l.asked {
		if w.phase == queued || w.phase == probing {
			w.next = 1
			w.poke()
		}
	}
}

// pushed hands a push, "ID TIME WHY", to its waiter. One that has left has told the server so.
func (l *Limiter) pushed(message string) {
	id, rest, _ := strings.Cut(message, " ")
	due, why, _ := strings.Cut(rest, " ")
	us, err := strconv.ParseInt(due, 10, 64)
	if err != nil {
		return // not ours
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.asked[id]; w != nil {
		w.pushed(us, why, l.now())
	}
}
