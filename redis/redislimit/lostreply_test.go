package redislimit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/redistest"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// An unheard is a process that reaches its server through a network which may swallow a reply.
type unheard struct {
	t       *testing.T
	l       *Limiter
	network *redistest.Proxy
	client  *redis.Client // by another way
}

func newUnheard(t *testing.T) *unheard {
	network, err := redistest.NewProxy(shared.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(network.Close)
	// A call is given up only after Observe has returned: the lease is released by then.
	client := redis.NewClient(&redis.Options{Addr: network.Addr, ReadTimeout: observing + 500*time.Millisecond})
	t.Cleanup(func() { _ = client.Close() })
	l, err := newLimiter(Config{
		Client: client,
		Prefix: "lossy:" + t.Name() + ":",
		Limits: hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: time.Millisecond, Adaptive: hostlimit.Throttle(1)}},
	}, 0, born())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &unheard{t: t, l: l, network: network, client: newClient(t, shared)}
}

// report has a host get the outcome of a request.
func (p *unheard) report(key string, o hostlimit.Outcome) {
	turn := acquire(p.t, p.l, key, 0)
	turn.Observe(o)
	turn.Release()
}

// settle waits until the server has everything.
func (p *unheard) settle() {
	p.t.Helper()
	eventually(p.t, 30*time.Second, "all is settled", func() bool {
		p.l.mu.Lock()
		defer p.l.mu.Unlock()
		part := p.l.parts[0]
		part.flush()
		for _, h := range p.l.hosts {
			if len(h.changes) > 0 {
				return false
			}
		}
		return len(part.ops) == 0 && part.sent.underWay == 0
	})
}

// counts returns all that the server counts for a host.
func (p *unheard) counts(key string) string {
	p.t.Helper()
	p.settle()
	state, err := p.l.State(p.t.Context(), key)
	if err != nil {
		p.t.Fatal(err)
	}
	hostKey := p.l.parts[0].hostKey(key)
	rest := ""
	if text := stored(p.t, p.client, hostKey, "R"); text != "0" {
		rest = text
	}
	s, err := wire.ReadRefusals(rest)
	if err != nil {
		p.t.Fatal(err)
	}
	byHand := strings.HasPrefix(state.BlockedBy, "by hand") // other blocks end meanwhile
	return fmt.Sprintf(
		"%d starts, %d in flight, %d waiting, %s served, delay %v, %d refusals, blocked by hand %t, probing %t; "+
			"row %d, unsure %d, forbidden %d, bans %d, checking %t, steps %d, lessons %d, own %d, refused %d, suspects %v",
		state.Starts, state.InFlight, state.Waiters, stored(p.t, p.client, hostKey, "sv"), state.Adaptive,
		state.Refusals, byHand, state.Probing,
		s.Row, s.Unsure, s.Forbidden, s.Bans, s.Checking, s.Steps, s.Lessons, s.Own, s.Refused, s.Suspects,
	)
}

// TestAReportWhoseReplyIsLostCountsOnce: the server does a call, and the process never reads the reply.
// By the time at which it gives the call up, the request has ended, and the server has forgotten its
// lease. What the server counts then is what it counts for a host of which no reply was lost.
func TestAReportWhoseReplyIsLostCountsOnce(t *testing.T) {
	t.Parallel()
	forbidden := hostlimit.Outcome{Status: 403, Page: true}
	served := hostlimit.Outcome{Status: 200, Latency: 20 * time.Millisecond}
	failed := hostlimit.Outcome{Status: 500, Resource: 7}
	busy := hostlimit.Outcome{Status: 429, RetryAfter: 50 * time.Millisecond}
	silent := hostlimit.Outcome{Err: errors.New("connection reset")}
	outcome := func(o hostlimit.Outcome) func(p *unheard, key string) {
		return func(p *unheard, key string) { p.report(key, o) }
	}
	for name, c := range map[string]struct {
		before []hostlimit.Outcome
		word   string // of the operation whose reply is lost
		report func(p *unheard, key string)
	}{
		"a success":                  {nil, "outcome", outcome(served)},
		"a faster success":           {[]hostlimit.Outcome{{Status: 200, Latency: 200 * time.Millisecond}}, "outcome", outcome(served)},
		"the first forbidden page":   {nil, "outcome", outcome(forbidden)},
		"the third forbidden page":   {[]hostlimit.Outcome{forbidden, forbidden}, "outcome", outcome(forbidden)},
		"the one before a check":     {[]hostlimit.Outcome{forbidden, forbidden, forbidden}, "outcome", outcome(forbidden)},
		"the one that asks a check":  {[]hostlimit.Outcome{forbidden, forbidden, forbidden, forbidden}, "outcome", outcome(forbidden)},
		"a success after forbidden":  {[]hostlimit.Outcome{forbidden, forbidden}, "outcome", outcome(served)},
		"a payment that is required": {nil, "outcome", outcome(hostlimit.Outcome{Status: 402})},
		"an unknown word":            {[]hostlimit.Outcome{{Status: 999}}, "outcome", outcome(hostlimit.Outcome{Status: 999})},
		"a failure":                  {nil, "outcome", outcome(failed)},
		"another failure":            {[]hostlimit.Outcome{failed}, "outcome", outcome(failed)},
		"a refusal":                  {nil, "outcome", outcome(busy)},
		"another refusal":            {[]hostlimit.Outcome{busy}, "outcome", outcome(busy)},
		"the end of a refusal":       {[]hostlimit.Outcome{busy}, "outcome", outcome(served)},
		"no response":                {nil, "outcome", outcome(silent)},
		"a release":                  {nil, "release", outcome(served)},
		"a turn": {nil, "take", func(p *unheard, key string) {
			lease, err := p.l.Acquire(p.t.Context(), key, 0)
			if err == nil { // its question was sent again
				lease.Release()
			}
		}},
		"a lease that is renewed": {nil, "renew", func(p *unheard, key string) {
			turn := acquire(p.t, p.l, key, 0)
			p.l.mu.Lock()
			turn.lease.(*lease).use.renewed -= time.Hour
			p.l.mu.Unlock()
			turn.Renew()
			turn.Release()
		}},
		"what is known after a loss": {[]hostlimit.Outcome{busy}, "restore", func(p *unheard, key string) {
			turn := acquire(p.t, p.l, key, 0)
			p.l.mu.Lock()
			p.l.parts[0].restore(true)
			p.l.mu.Unlock()
			turn.Release()
		}},
		"a block by hand": {nil, "outcome", func(p *unheard, key string) {
			_ = p.l.Block(p.t.Context(), key, time.Now().Add(time.Hour), "a test")
		}},
		"a block that is lifted": {[]hostlimit.Outcome{busy}, "outcome", func(p *unheard, key string) {
			_ = p.l.Clear(p.t.Context(), key)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newUnheard(t)
			settle(t, p.l, "first.example")
			results := make(map[bool]string)
			for _, loses := range []bool{false, true} {
				key := fmt.Sprintf("loses-%t.example", loses)
				for _, o := range c.before {
					p.report(key, o)
				}
				p.settle()
				if loses {
					p.network.Swallow(word(c.word))
				}
				c.report(p, key)
				results[loses] = p.counts(key)
				if !p.network.HasSwallowed() {
					t.Fatalf("no call had %q in it", c.word)
				}
			}
			if results[true] != results[false] {
				t.Errorf("a lost reply:  %s\nno lost reply: %s", results[true], results[false])
			}
		})
	}
}

// word is the name of an operation as a call has it.
func word(name string) string { return string([]byte{0xa0 | byte(len(name))}) + name }
