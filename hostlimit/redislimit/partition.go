package redislimit

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed step.lua
var source string

var step = redis.NewScript(source)

// A partition is a set of hosts whose keys share a slot of the cluster: one on a single server,
// where all calls can be taken together. Its methods are called with the Limiter's mu held.
type partition struct {
	l   *Limiter
	tag string // {0}, {1}...: the hash tag of its keys

	ops   []op // to be sent with the next call
	timer *time.Timer

	gen     string        // what the server calls its present state
	genSent time.Duration // when the call was sent that told so
	stepped bool          // tell the server, until it has another generation, that its clock jumped
	clock   serverClock
	guard   guard
	lead    time.Duration // how long a reply is under way
	called  time.Duration // when the last call was sent
	calls   int           // under way
	stake   int           // hosts of which this process knows something
	down    error         // why the server can't be reached; nil: it can
}

// An op is an operation of step.lua on a host.
type op struct {
	name   string
	h      *host
	args   []any
	misses int
	// owed operations are sent again until the server has had them.
	owed bool
	// done, if not nil, gets the reply, under mu.
	done func(reply []any, at heard, err error)
}

// heard is when a reply was made, on the server's clock, and received.
type heard struct {
	server   int64
	received time.Duration
}

// add takes o along with the next call, at the latest after linger.
func (p *partition) add(o op) {
	p.ops = append(p.ops, o)
	if p.timer == nil && !p.l.closed {
		p.timer = time.AfterFunc(linger, func() {
			p.l.mu.Lock()
			defer p.l.mu.Unlock()
			if p.timer != nil {
				p.flush()
			}
		})
	}
}

// addAlong takes o along with the next call, which may be the heartbeat's.
func (p *partition) addAlong(o op) { p.ops = append(p.ops, o) }

// flush sends what is there in a goroutine of its own, so that callers can leave before the answer.
func (p *partition) flush() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if len(p.ops) == 0 || p.l.closed {
		return
	}
	p.send()
}

// most bounds how long one call keeps the server from others.
const most = 128

// send calls even if there is nothing to say but that this process is there.
func (p *partition) send() {
	for {
		ops := p.ops[:min(len(p.ops), most):min(len(p.ops), most)]
		p.ops = p.ops[len(ops):]
		p.called = p.l.now()
		keys, args := p.encode(ops)
		p.calls++
		p.l.wg.Go(func() { p.call(ops, keys, args) })
		if len(p.ops) == 0 {
			p.ops = nil
			return
		}
	}
}

// last sends what is there after Close, in the caller's goroutine and without mu.
func (p *partition) last() {
	p.l.mu.Lock()
	ops := p.ops
	p.ops = nil
	if len(ops) == 0 {
		p.l.mu.Unlock()
		return
	}
	keys, args := p.encode(ops)
	p.calls++
	p.l.mu.Unlock()
	p.call(ops, keys, args)
}

// encode writes a call of step.lua.
func (p *partition) encode(ops []op) (keys []string, args []any) {
	l, now := p.l, p.l.now()
	misses := 0
	for _, o := range ops {
		misses = max(misses, o.misses)
	}
	// The reply will narrow the bounds to its own round trip.
	guard := p.guard.allow(misses, min(p.clock.uncertainty(now), 2*p.lead+time.Millisecond))
	keys = []string{l.prefix + p.tag + "gen"}
	args = []any{
		l.prefix + "push:", bit(!l.cluster), p.gen, bit(p.stepped), micros(l.quarantine),
		micros(guard), micros(p.lead), micros(p.horizon()), micros(claim), micros(l.rules.LeaseTTL), micros(l.rules.Refusals.Forgive),
		l.hours,
	}
	index := make(map[*host]int)
	for _, o := range ops {
		i, ok := index[o.h]
		if !ok {
			i = len(index) + 1
			index[o.h] = i
			keys = append(keys, l.prefix+p.tag+"host:"+o.h.key, l.prefix+p.tag+"queue:"+o.h.key)
		}
		args = append(args, o.name, i, len(o.args))
		args = append(args, o.args...)
	}
	return keys, args
}

// Both are longer where replies take long.
func (p *partition) early() time.Duration   { return min(max(early, 4*p.lead), time.Second) }
func (p *partition) horizon() time.Duration { return p.early() + horizon - early }

// call runs without mu.
func (p *partition) call(ops []op, keys []string, args []any) {
	l := p.l
	ctx := context.WithoutCancel(l.ctx) // the client's timeouts bound it
	sent := l.now()
	reply, err := step.Run(ctx, l.client, keys, args...).Slice()
	received := l.now()
	if err == nil && len(reply) != 3+len(ops) {
		err = fmt.Errorf("redislimit: %d answers to %d operations", len(reply)-3, len(ops))
	}

	l.mu.Lock()
	p.calls--
	if err != nil {
		err = &ServerError{l.server, err}
		p.lost(err)
		for _, o := range ops {
			if o.owed {
				p.ops = append(p.ops, o) // the heartbeat sends it
			}
			if o.done != nil {
				o.done(nil, heard{received: received}, err)
			}
		}
	} else {
		at := heard{number(reply[0]), received}
		current := p.learn(sent, at, text(reply[1]))
		p.back()
		for i, o := range ops {
			if o.done == nil {
				continue
			}
			answer, _ := reply[3+i].([]any)
			if isComplete(o.name, answer) {
				o.done(answer, at, nil)
			} else { // by another version of step.lua, perhaps
				o.done(nil, at, &ServerError{l.server, fmt.Errorf("redislimit: %q is no answer to %s", answer, o.name)})
			}
		}
		if !current {
			p.renounce()
		}
	}
	l.mu.Unlock()
	l.tell()
}

// isComplete reports whether an answer to the operation has all the fields that it is read for.
func isComplete(name string, answer []any) bool {
	if len(answer) == 0 {
		return false
	}
	switch name {
	case "observe":
		return len(answer) >= 4+toldFields
	case "take":
		fields := map[string]int{"GO": 9 + toldFields, "AT": 3, "WAIT": 6, "PROBE": 1, "LATE": 3}
		n, ok := fields[text(answer[0])]
		return ok && len(answer) >= n
	}
	return true
}

// learn takes in the head of a reply: the server's time and generation. It reports whether what the
// reply promises holds: it doesn't if a reply of a later generation has overtaken it, or if the
// server's clock has jumped.
func (p *partition) learn(sent time.Duration, at heard, gen string) bool {
	if gen != p.gen && sent < p.genSent {
		return false
	}
	slip := p.clock.learn(sent, at.received, at.server)
	late := max(p.clock.passed(at.server, at.received), 0)
	p.lead += (min(late, 4*maxGuard) - p.lead) / 8
	switch {
	case gen != p.gen:
		if p.gen != "" {
			p.renounce()
		}
		p.gen, p.genSent, p.stepped = gen, sent, false
		p.restore()
	case slip > slewed || slip < -slewed:
		p.stepped = true
		p.restore()
		return false
	case slip != 0:
		p.restore()
	}
	return true
}

// renounce makes all waiters ask again: what the server promised them is void.
func (p *partition) renounce() {
	for _, h := range p.l.hosts {
		if h.p == p {
			for _, w := range h.waiters {
				w.void()
			}
		}
	}
}

// restore tells the server what this process knows, and waits for nothing.
func (p *partition) restore() {
	now := p.l.now()
	for _, h := range p.l.hosts {
		if h.p == p {
			h.restore(now)
		}
	}
	p.flush()
}

// bit writes b for step.lua.
func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func number(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64) // step.lua writes nothing else
		return n
	}
	return 0
}

// duration reads what micros has written, or step.lua.
func duration(v any) time.Duration { return time.Duration(number(v)) * time.Microsecond }

func text(v any) string {
	s, _ := v.(string)
	return s
}
