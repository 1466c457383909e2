package redislimit

import (
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// listen keeps the subscription up: the client connects anew if it is lost. Without it, waiters ask
// from time to time.
func (l *Limiter) listen() {
	for {
		sub := l.subscribe()
		if sub == nil {
			return
		}
		_ = sub.Subscribe(l.ctx, l.channel(l.proc), l.channel("all")) // it is tried again below
		// Until unsubscribe closes it. The client connects anew by itself, and subscribes again.
		for message := range sub.ChannelWithSubscriptions() {
			switch m := message.(type) {
			case *redis.Subscription:
				if m.Kind == "subscribe" && m.Count == 2 { // both channels
					l.subscribed()
				}
			case *redis.Message:
				l.heard(m.Payload, m.Channel == l.channel("all"))
			}
		}
	}
}

// subscribe makes a subscription, which connects later; nil: the Limiter is closed.
func (l *Limiter) subscribe() *redis.PubSub {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.sub.pubsub = l.conf.Client.Subscribe(l.ctx)
	l.sub.listening = false
	return l.sub.pubsub
}

// heard handles a message, to all processes or to this one. Anything else that is published, such
// as a message of another version, is ignored.
func (l *Limiter) heard(text string, toAll bool) {
	message, err := wire.ReadMessage(text)
	if err != nil {
		return
	}
	l.mu.Lock()
	switch m := message.(type) {
	case *wire.Hello:
		l.greeted(m, toAll)
	case *wire.Push:
		waiter := l.asked[m.ID]
		if waiter != nil { // else the server has its release
			waiter.pushed(m, l.now())
		}
	case *wire.Verdict:
		l.proclaimed(m)
	case *wire.Paused:
		l.askAgain(nil)
	case *wire.NewGeneration:
		l.generationChanged(m.Key)
	case *wire.Echo: // shows the server that this process listens
	}
	l.mu.Unlock()
	l.reportEvents()
}

// generationChanged calls the partition of a cluster that has another generation, whose key that
// is: nodes share the messages, not the data.
func (l *Limiter) generationChanged(key string) {
	for _, p := range l.parts {
		hasToLose := p.uses.atRisk+p.uses.waiting > 0
		if key == p.genKey() && hasToLose && !l.closed {
			p.send()
		}
	}
}

// subscribed lets all waiters for a push ask again, as pushes may have been lost.
func (l *Limiter) subscribed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sub.listening = true
	l.sub.since = l.now()
	l.askAgain(nil)
}

// proclaimed handles a message to all of a block, or of its end. So more than one process knows
// each block, and a turn that was granted just before isn't used. A process that has never called
// the server, and so doesn't know its clock, gets the block with its first reply.
func (l *Limiter) proclaimed(verdict *wire.Verdict) {
	_, key, found := strings.Cut(verdict.Key, "}"+ofHosts)
	if !found || !l.partition(key).clock.Known {
		return
	}
	report := verdict.Host
	at := reply{server: verdict.Now, received: l.now()}
	blocked := report.Until > at.server
	if l.hosts[key] == nil && !blocked {
		return // nothing is known of the host here, so nothing can be out of date
	}
	h := l.host(key)
	if at.server < h.known.AsOf {
		return // a later report has come
	}
	isNew := report.Until != h.known.ServerUntil
	h.learn(report, at)
	if isNew {
		// The next reply, which narrows the bounds of the server's clock, sets a better end.
		h.known.ServerUntil = 0
	}
	if blocked {
		h.halt(at.received) // earlier grants are void
	}
	act := act(verdict.Act)
	if act > noAct {
		h.note(at, report.Version, act == blocks)
	}
}
