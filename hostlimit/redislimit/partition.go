package redislimit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed step.lua
var source string

var (
	step  = redis.NewScript(source)
	plain = redis.NewScript(strings.TrimPrefix(source, "#!lua\n")) // for servers older than Redis 7
)

// A partition is a set of hosts whose keys share a slot of the cluster: one on a single server,
// where all calls can be taken together. Its methods are called with the Limiter's mu held.
type partition struct {
	l   *Limiter
	tag string // {0}, {1}...: the hash tag of its keys

	ops   []op // to be sent with the next call
	timer *time.Timer

	gen       string        // what the server calls its present state
	genSent   time.Duration // when the call was sent that told so
	stepped   bool          // tell the server, until it has another generation, that its clock jumped
	restoring int           // restore operations that weren't answered

	quarantined bool // when the server answered last
	clock       serverClock
	guard       guard
	lead        time.Duration // how long a reply is under way
	called      time.Duration // when the last call was sent
	beaten      time.Duration // when the last one with a sign of life was sent; 0: at once
	heard       time.Duration // when the last one that the server has had was sent
	calls       int           // under way
	stake       int           // hosts of which this process knows something, or that it waits for
	inUse       int           // hosts with requests that wait or are in flight
	down        error         // why the server can't be reached; nil: it can
}

// An op is an operation of step.lua on a host.
type op struct {
	name   string
	h      *host
	args   []any
	build  func(now time.Duration) []any // makes args when the operation is sent; nil: they are made
	misses int
	after  time.Duration // not to be sent before
	// owed operations are sent again until the server has had them.
	owed bool
	// done, if not nil, gets the reply, under mu.
	done func(reply []any, at heard, err error)
}

// heard is when a reply was made, on the server's clock, and received.
type heard struct {
	server   int64
	received time.Duration
	over     time.Duration // no copy of the call can have an effect any more
}

// A call is one run of step.lua.
type call struct {
	number  int64
	ops     []op
	keys    []string
	payload string
	sent    time.Duration
	over    time.Duration
	beat    bool
}

// add takes o along with the next call, at the latest after linger.
func (p *partition) add(o op) {
	p.ops = append(p.ops, o)
	p.wake(linger)
}

// addAlong takes o along with the next call, which may be the heartbeat's.
func (p *partition) addAlong(o op) { p.ops = append(p.ops, o) }

// wake flushes after d, unless that is about to happen.
func (p *partition) wake(d time.Duration) {
	if p.timer == nil && !p.l.closed {
		p.timer = time.AfterFunc(d, func() {
			p.l.mu.Lock()
			defer p.l.mu.Unlock()
			if p.timer != nil {
				p.timer = nil
				p.flush()
			}
		})
	}
}

// flush sends what is there in a goroutine of its own, so that callers can leave before the answer.
// While the server has enough to do with calls that were sent a moment ago, what comes meanwhile is
// taken together: the busier the server is, the less a turn costs it.
func (p *partition) flush() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if len(p.ops) == 0 || p.l.closed {
		return
	}
	if p.calls >= mostCalls && p.l.now()-p.called < patient {
		p.wake(patient)
		return
	}
	p.send()
}

const (
	// most bounds how long one call keeps the server from others.
	most = 128
	// mostCalls are under way at a time, unless they take longer than patient.
	mostCalls = 2
	patient   = 10 * time.Millisecond
)

// send calls even if there is nothing to say but that this process is there.
func (p *partition) send() {
	now := p.l.now()
	var due, later []op
	for _, o := range p.ops {
		if o.after > now {
			later = append(later, o)
		} else {
			due = append(due, o)
		}
	}
	p.ops = later
	for {
		c := p.newCall(due[:min(len(due), most)], false)
		due = due[len(c.ops):]
		p.l.wg.Go(func() { p.call(c) })
		if len(due) == 0 {
			return
		}
	}
}

// last sends what is there after Close, in the caller's goroutine and without mu.
func (p *partition) last(bye bool) {
	p.l.mu.Lock()
	ops := p.ops
	p.ops = nil
	if len(ops) == 0 && (!bye || !p.l.crawls || p.gen == "" || p.down != nil) {
		p.l.mu.Unlock()
		return
	}
	c := p.newCall(ops, bye)
	p.l.mu.Unlock()
	p.call(c)
}

// newCall writes a call of step.lua.
func (p *partition) newCall(ops []op, bye bool) *call {
	l, now := p.l, p.l.now()
	p.calls++
	l.stats.Calls++
	p.called = now
	l.number++
	c := &call{ops: ops, sent: now, number: l.number}
	misses := 0
	for _, o := range ops {
		misses = max(misses, o.misses)
	}
	// The reply will narrow the bounds to its own round trip.
	guard := p.guard.allow(misses, min(p.clock.uncertainty(now), 2*p.lead+time.Millisecond))
	notAfter := int64(0)
	c.over = now + l.patience
	if p.clock.known {
		_, hi := p.clock.bounds(now)
		notAfter = int64((now + hi + l.patience) / time.Microsecond)
		c.over = p.clock.surely(notAfter+1, now)
	}
	beat, promise := "", ""
	switch c.beat = now-p.beaten >= heartbeat/2 || p.beaten == 0; {
	case bye:
		beat = "-"
	case !l.crawls:
		c.beat = false
	case c.beat:
		beat, promise = l.name, l.promise
		p.beaten = now
	}
	spread := 0
	if l.alone {
		spread = l.processes
	}
	head := []any{
		l.prefix + "push:", !l.cluster, p.gen, p.stepped, notAfter, micros(l.quarantine + l.slower),
		micros(guard), micros(p.lead), micros(p.horizon()), micros(claim), micros(l.complete.LeaseTTL), micros(l.backoff.Forgive),
		l.hours, l.proc, beat, p.restoring == 0, micros(l.dead), spread, c.number, promise,
	}
	c.keys = append(make([]string, 0, 2+len(ops)), p.genKey(), l.prefix+p.tag+"processes")
	// By key, as there may be two of a host: one that was forgotten while the server was away, of
	// which there is still something to tell, and one that was met since. Each key is read and written
	// once.
	index := make(map[string]int, len(ops))
	b := appendList(make([]byte, 0, 256+128*len(ops)), 1+len(ops))
	b = appendValue(b, head)
	for _, o := range ops {
		i, ok := index[o.h.key]
		if !ok {
			i = len(index) + 1
			index[o.h.key] = i
			c.keys = append(c.keys, p.hostKey(o.h.key))
		}
		args := o.args
		if o.build != nil {
			args = o.build(now)
		}
		b = appendList(b, 2+len(args))
		b = appendString(b, o.name)
		b = appendInt(b, int64(i))
		for _, a := range args {
			b = appendValue(b, a)
		}
	}
	c.payload = string(b)
	return c
}

// genKey is where the server keeps the generation.
func (p *partition) genKey() string { return p.l.prefix + p.tag + "gen" }

// hostKey is where the server keeps a host. Its 3 is the version of what step.lua writes there.
func (p *partition) hostKey(key string) string { return p.l.prefix + p.tag + "host:3:" + key }

// early is the constant of this name, longer where replies take long.
func (p *partition) early() time.Duration { return min(max(early, 4*p.lead), time.Second) }

// horizon is the constant of this name, longer where replies take long.
func (p *partition) horizon() time.Duration { return p.early() + horizon - early }

// call runs without mu.
func (p *partition) call(c *call) {
	l := p.l
	// The client's timeouts bound a try, and this what comes after it: the server does nothing for
	// a call that it gets later.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), l.patience)
	defer cancel()
	reply, err := l.run(ctx, c.keys, c.payload)
	received := l.now()
	switch {
	case err != nil:
	case len(reply) < replyHead || number(reply[2]) == 0 && number(reply[6]) == c.number && len(reply) != replyHead+len(c.ops):
		err = fmt.Errorf("redislimit: %d answers to %d operations", len(reply)-replyHead, len(c.ops))
	case number(reply[6]) != c.number:
		err = errMixedUp
	}

	l.mu.Lock()
	p.calls--
	if errors.Is(err, errMixedUp) && !l.closed {
		l.wg.Go(l.purge)
	}
	at := heard{received: received, over: c.over}
	if err != nil {
		p.failed(c, at, &ServerError{Server: l.server, Err: err})
	} else {
		at.server = number(reply[0])
		p.answered(c, at, reply)
	}
	if len(p.ops) > 0 && p.timer != nil && p.down == nil {
		p.flush() // what has come meanwhile
	}
	more := l.closed && err == nil && number(reply[2]) == 0 && len(p.ops) > 0
	l.mu.Unlock()
	l.tell()
	if more {
		p.last(false) // changes that the server has answered with another version
	}
}

// errMixedUp is told of a call that got the answer to another one: what a client has left unread on
// a connection is the first that its next user reads. To believe it would be to start on a turn of
// long ago, or of another host, and to take the server's clock for slow.
var errMixedUp = errors.New("redislimit: the connection has given the answer to another call")

// purge gets rid of a connection that gives each caller the answer of the one before: a client
// closes one on which it reads what it can't have asked for. It ends when the client gives proper
// answers.
func (l *Limiter) purge() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), l.patience)
	defer cancel()
	look := func(ctx context.Context, node redis.Cmdable) error {
		for i := range 2 * mostHanging {
			// Answers of step.lua are no time, and a time is no echo.
			_, err := node.Time(ctx).Result()
			word := strconv.Itoa(i)
			if echo, err2 := node.Echo(ctx, word).Result(); err == nil && err2 == nil && echo == word || ctx.Err() != nil {
				break
			}
		}
		return nil
	}
	if c, ok := l.client.(*redis.ClusterClient); ok {
		_ = c.ForEachShard(ctx, func(ctx context.Context, node *redis.Client) error { return look(ctx, node) })
		return
	}
	_ = look(ctx, l.client)
}

// replyHead is the number of values before the answers in a reply.
const replyHead = 7

// run runs step.lua.
func (l *Limiter) run(ctx context.Context, keys []string, payload string) ([]any, error) {
	script := l.script
	if l.plain.Load() {
		script = plain
	}
	answer, err := script.Run(ctx, l.client, keys, payload).Result()
	if err != nil && script != plain && strings.Contains(err.Error(), "near '#'") {
		l.plain.Store(true)
		return l.run(ctx, keys, payload)
	}
	if err != nil {
		return nil, err
	}
	reply, ok := answer.(string)
	if !ok {
		return nil, fmt.Errorf("%w: a %T", errMixedUp, answer)
	}
	list, err := parse(reply)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errMixedUp, err)
	}
	return list, nil
}

// failed takes in that a call has failed. It may have had its effect, or may still have it.
func (p *partition) failed(c *call, at heard, err error) {
	p.l.stats.Failed++
	if p.heard > c.sent && !p.l.closed {
		// The server has answered others since: only this call, or its connection, was lost.
		err = fmt.Errorf("%w: %w", errStale, err)
	} else {
		p.lost(err)
	}
	p.beaten = 0
	p.undone(c, at, err)
	if p.down == nil && len(p.ops) > 0 {
		p.wake(linger)
	}
}

// undone sends again what is owed of a call, and tells the rest why it wasn't done.
func (p *partition) undone(c *call, at heard, err error) {
	for i := range c.ops {
		p.undo(&c.ops[i], at, err)
	}
}

// undo reports why o was not done, and sends it again if it is owed.
func (p *partition) undo(o *op, at heard, err error) {
	if o.done != nil {
		o.done(nil, at, err)
	}
	if o.owed {
		p.ops = append(p.ops, *o) // the heartbeat sends it, if nothing else
	}
}

// errFull is the error of operations whose result the server refused to store.
var errFull = errors.New("redislimit: the server stores nothing")

// errStale is told of operations that the server has refused to do: the call came too late, or
// spoke of a state of the server that is lost.
var errStale = fmt.Errorf("redislimit: the call came too late: %w", ErrUnavailable)

func isStale(err error) bool { return errors.Is(err, errStale) }

// answered takes in the reply to a call.
func (p *partition) answered(c *call, at heard, reply []any) {
	l := p.l
	current := p.learn(c.sent, at, text(reply[1]))
	if number(reply[2]) != 0 {
		l.stats.Stale++
		p.beaten = 0
		p.back()
		p.undone(c, at, errStale)
		if len(p.ops) > 0 {
			p.wake(linger)
		}
		return
	}
	p.heard = max(p.heard, c.sent)
	p.back()
	// That a quarantine is over is pushed, but perhaps while this process had no subscription.
	quarantined := number(reply[3]) > 0
	if p.quarantined && !quarantined {
		for _, h := range l.hosts {
			if h.p == p {
				h.wakeFirst()
			}
		}
	}
	p.quarantined = quarantined
	if c.beat {
		if number(reply[4]) == 0 && !l.cluster && c.sent > l.subscribedAt {
			l.resubscribe() // to the node that answers now
		}
		if number(reply[5]) == 1 {
			p.restore(false) // it has given away what this process held
		}
	}
	for i, o := range c.ops {
		answer, _ := reply[replyHead+i].([]any)
		switch {
		case len(answer) == 2 && text(answer[0]) == "FULL":
			p.undo(&c.ops[i], at, &ServerError{Server: l.server, Err: fmt.Errorf("%w: %s", errFull, text(answer[1]))})
		case o.done == nil:
		case len(answer) == 2 && text(answer[0]) == "ERR":
			o.done(nil, at, &ServerError{Server: l.server, Err: fmt.Errorf("redislimit: %s", text(answer[1]))})
		case isComplete(o.name, answer):
			o.done(answer, at, nil)
		default: // by something that isn't step.lua
			o.done(nil, at, &ServerError{Server: l.server, Err: fmt.Errorf("redislimit: %q is no answer to %s", answer, o.name)})
		}
	}
	if !current {
		p.renounce()
	}
}

// isComplete reports whether an answer to the operation has all the fields that it is read for.
func isComplete(name string, answer []any) bool {
	if len(answer) == 0 {
		return false
	}
	switch name {
	case "write":
		return len(answer) >= 2+toldFields
	case "served":
		return number(answer[0]) == 0 || len(answer) >= 1+toldFields
	case "recall":
		return len(answer) >= toldFields
	case "peek":
		return len(answer) >= 2
	case "take":
		fields := map[string]int{"GO": 10 + toldFields, "AT": 4, "WAIT": 6, "PROBE": 1, "LATE": 4, "HAND": 3, "OLD": 1, "NEW": 1}
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
		first := p.gen == ""
		p.gen, p.genSent, p.stepped = gen, p.l.now(), false
		if first && !p.l.alone {
			break // all that is known was told by this server
		}
		if sent > p.l.allCalled { // its node may have lost the other partitions as well
			for _, q := range p.l.parts {
				if q != p && q.stake > 0 {
					q.send()
				}
			}
			p.l.allCalled = p.l.now()
		}
		p.l.stats.Quarantines++
		p.renounce()
		p.restore(true)
	case slip > slewed || slip < -slewed:
		p.stepped = true
		p.send() // tells the server
		return false
	case slip != 0:
		p.restore(false)
		return false
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

// restore tells the server what this process knows, and waits for nothing. all is for a server
// that may have lost everything.
func (p *partition) restore(all bool) {
	now := p.l.now()
	if all && p == p.l.parts[0] && p.l.id != "" {
		p.add(op{name: "limiter", h: &host{l: p.l, p: p}, args: []any{p.l.id}})
	}
	for _, h := range p.l.hosts {
		if h.p == p {
			h.restore(now, all)
		}
	}
	if len(p.ops) > 0 {
		p.send()
	}
}

func number(v any) int64 {
	n, _ := v.(int64)
	return n
}

// duration reads a number of microseconds.
func duration(v any) time.Duration {
	const longest = int64(1 << 52)
	return time.Duration(min(max(number(v), -longest), longest)) * time.Microsecond
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// isForeign reports whether err says that the keys were written by another version of this package,
// or by something else.
func isForeign(err error) bool {
	return strings.Contains(err.Error(), "BADVERSION ") || strings.Contains(err.Error(), "BADKEY ")
}
