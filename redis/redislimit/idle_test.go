package redislimit

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/redislimit/internal/clock"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// idle returns a Limiter without goroutines whose calls reach nobody: its tests call its parts, and
// look at what they would send.
func idle(t *testing.T, c Config) *Limiter {
	t.Helper()
	if c.Client == nil {
		c.Client = redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	}
	nobody := new(courier)
	nobody.set(func(string, func() error) error { return errReset })
	c.Client.AddHook(nobody)
	l, err := idleLimiter(c, 0, born())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.cancel()
		l.wg.Wait()
		_ = c.Client.Close()
	})
	for _, p := range l.parts {
		p.down = errors.New("a test") // the heartbeat would send what is added
	}
	return l
}

// later is an instant on the clock of an idle Limiter; the server's clock is the same.
const later = 2 * time.Hour

// idleHost returns a host of an idle Limiter that knows the server's clock. What is to be sent stays
// where it is.
func idleHost(t *testing.T, c hostlimit.Config) *host {
	t.Helper()
	l := idle(t, Config{Limits: c})
	p := l.parts[0]
	p.clock, p.sent.underWay, p.sent.last = clock.Server{Known: true, At: later}, mostCalls, l.now()+time.Hour
	return l.host("a.example")
}

// waiter adds a request that waits for a turn of h since arrived.
func (h *host) waiter(t *testing.T, arrived time.Duration) *lease {
	t.Helper()
	w := &lease{l: h.l, h: h, id: h.l.newID(), limits: mustLimits(t, h.l, h.key), wait: wait{wake: make(chan struct{}, 1), caller: caller{arrived: arrived, limit: later + time.Hour}}}
	h.waiters = append(h.waiters, w)
	return w
}

// inFlight adds a request that has started.
func (h *host) inFlight(t *testing.T, began time.Duration) *lease {
	t.Helper()
	w := h.waiter(t, began)
	w.granted.delay, w.granted.heard = time.Second, reply{received: began, server: micros(began)}
	w.phase, w.use.had, w.start.began, w.use.renewed, w.start.take, w.asks = held, true, began, began, 1, 1
	h.leases[w.id], h.waiters = w, nil
	return w
}

func mustLimits(t *testing.T, l *Limiter, key string) *hostlimit.Limits {
	t.Helper()
	limits, err := l.rules.Limits(key)
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// renewal is something to tell the server of h.
func renewal(h *host) op { return op{h: h, request: &wire.Renew{ID: "1"}} }

func micros(d time.Duration) wire.Micros { return wire.MicrosOf(d) }
