package redislimit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tinylib/msgp/msgp"
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

	clock  serverClock
	guard  guard
	lead   time.Duration // how long a reply is under way
	called time.Duration // when the last call was sent
	beaten time.Duration // when the last one with a sign of life was sent; 0: at once
	heard  time.Duration // when the last one that the server has had was sent
	calls  int           // under way
	stake  int           // hosts of which this process knows something, or that it waits for
	inUse  int           // hosts with requests that wait or are in flight
	down   error         // why the server can't be reached; nil: it can
}

// An op is an operation of step.lua on a host.
type op struct {
	name   string
	h      *host
	args   []any
	build  func(now time.Duration) []any // makes args when the operation is sent; nil: they are made
	misses int
	owed   bool          // it is sent again until the server has had it, or can't read the host
	done   func(r reply) // called under mu; nil: it isn't
}

// A fate is what has become of an operation.
type fate int

const (
	did    fate = iota // the server has done it
	stale              // nothing was done: it came too late, or for a state of the server that is lost
	full               // nothing was done: the server stores nothing more
	broken             // nothing was done: the host's key is no longer one of step.lua's
	lost               // there was no answer: it may have been done
)

// A reply is the answer to an operation.
type reply struct {
	fate     fate
	err      error // why it wasn't done; nil: it was
	answer   []any
	server   int64         // when it was made, on the server's clock
	received time.Duration // and when it came
}

// A call is one run of step.lua.
type call struct {
	number  int64
	ops     []op
	keys    []string
	payload string
	sent    time.Duration
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
	due := p.ops
	p.ops = nil
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
	if p.clock.known {
		_, hi := p.clock.bounds(now)
		notAfter = int64((now + hi + l.patience) / time.Microsecond)
	}
	beat, promise := "", ""
	every := l.dead / 5
	if l.alone {
		every = heartbeat / 2 // others are to notice soon
	}
	switch c.beat = now-p.beaten >= every || p.beaten == 0; {
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
		l.hours, l.proc, beat, micros(l.dead), spread, c.number, promise,
	}
	c.keys = append(make([]string, 0, 2+len(ops)), p.genKey(), l.prefix+p.tag+"processes")
	// By key, as there may be two of a host: one that was forgotten while the server was away, of
	// which there is still something to tell, and one that was met since. Each key is read and written
	// once.
	index := make(map[string]int, len(ops))
	b := msgp.AppendArrayHeader(make([]byte, 0, 256+128*len(ops)), uint32(1+len(ops)))
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
		b = appendValue(b, append([]any{o.name, i}, args...))
	}
	c.payload = string(b)
	return c
}

// genKey is where the server keeps the generation.
func (p *partition) genKey() string { return p.l.prefix + p.tag + "gen" }

// ofHosts is in the names of the keys of hosts. Its number is the version of what step.lua writes
// there.
const ofHosts = "host:4:"

// hostKey is where the server keeps a host.
func (p *partition) hostKey(key string) string { return p.l.prefix + p.tag + ofHosts + key }

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
	answers, err := l.run(ctx, c.keys, c.payload)
	received := l.now()
	switch {
	case err != nil:
	case len(answers) < replyHead || number(answers[2]) == 0 && number(answers[5]) == c.number && len(answers) != replyHead+len(c.ops):
		err = fmt.Errorf("redislimit: %d answers to %d operations", len(answers)-replyHead, len(c.ops))
	case number(answers[5]) != c.number:
		err = errMixedUp
	}

	if errors.Is(err, errMixedUp) { // a client closes a connection on which it reads what is no time
		for range 2 * mostHanging {
			_ = l.client.Time(ctx).Err()
		}
	}
	l.mu.Lock()
	p.calls--
	if r := (reply{received: received}); err != nil {
		p.failed(c, r, &ServerError{Server: l.server, Err: err})
	} else {
		r.server = number(answers[0])
		p.answered(c, r, answers)
	}
	if len(p.ops) > 0 && p.timer != nil && p.down == nil {
		p.flush() // what has come meanwhile
	}
	more := l.closed && err == nil && number(answers[2]) == 0 && len(p.ops) > 0
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

const (
	replyHead  = 6  // values before the answers in a reply
	mostFields = 32 // of an answer, but for one of fleet
)

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
	packed, ok := answer.(string)
	if !ok {
		return nil, fmt.Errorf("%w: a %T", errMixedUp, answer)
	}
	list, err := parse(packed)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errMixedUp, err)
	}
	return list, nil
}

// failed takes in that a call has failed. It may have had its effect, or may still have it.
func (p *partition) failed(c *call, r reply, err error) {
	p.l.stats.Failed++
	r.fate, r.err = lost, err
	if p.heard > c.sent && !p.l.closed {
		r.fate = stale // the server has answered others since: only this call, or its connection, was lost
	} else {
		p.lost(err)
	}
	p.beaten = 0
	p.undone(c.ops, r)
}

// undone tells what has become of operations that weren't done, and sends again what is owed.
func (p *partition) undone(ops []op, r reply) {
	for _, o := range ops {
		if o.done != nil {
			o.done(r)
		}
		if o.owed && r.fate != broken && !(r.fate == full && p.l.closed) {
			p.ops = append(p.ops, o) // the heartbeat sends it, if nothing else
		}
	}
	if len(p.ops) > 0 && p.down == nil && r.fate != full {
		p.wake(linger)
	}
}

// errStale is the error of what the server has refused to do: the call came too late, after a later
// one of this process, or spoke of a state of the server that is lost.
var errStale = fmt.Errorf("redislimit: the call came too late: %w", ErrUnavailable)

// answered takes in the reply to a call.
func (p *partition) answered(c *call, r reply, answers []any) {
	l := p.l
	current := p.learn(c.sent, r, text(answers[1]))
	p.back()
	if number(answers[2]) != 0 {
		l.stats.Stale++
		p.beaten = 0
		r.fate, r.err = stale, errStale
		p.undone(c.ops, r)
		return
	}
	p.heard = max(p.heard, c.sent)
	if c.beat {
		if number(answers[3]) == 0 && !l.cluster && c.sent > l.subscribedAt {
			l.resubscribe() // to the node that answers now
		}
		if number(answers[4]) == 1 {
			p.restore(false) // it has given away what this process held
		}
	}
	for i, o := range c.ops {
		r := r
		r.answer, _ = answers[replyHead+i].([]any)
		r.answer = append(r.answer, make([]any, mostFields)...) // one that is too short reads as zeros
		switch why := text(r.answer[1]); text(r.answer[0]) {
		case "OLD":
			r.fate, r.err = stale, errStale
		case "FULL":
			r.fate, r.err = full, &ServerError{Server: l.server, Err: fmt.Errorf("redislimit: the server stores nothing: %s", why)}
		case "ERR":
			r.fate, r.err = broken, &ServerError{Server: l.server, Err: fmt.Errorf("redislimit: %s", why)}
		}
		if r.fate != did {
			p.undone(c.ops[i:i+1], r)
		} else if o.done != nil {
			o.done(r)
		}
	}
	if !current {
		p.renounce()
	}
}

// learn takes in the head of a reply: the server's time and generation. It reports whether what the
// reply promises holds: it doesn't if a reply of a later generation has overtaken it, or if the
// server's clock has jumped.
func (p *partition) learn(sent time.Duration, r reply, gen string) bool {
	if gen != p.gen && sent < p.genSent {
		return false
	}
	slip := p.clock.learn(sent, r.received, r.server)
	late := max(p.clock.passed(r.server, r.received), 0)
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

// renounce makes all waiters of p ask again.
func (p *partition) renounce() {
	for _, h := range p.l.hosts {
		if h.p == p {
			h.renounce()
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

// isForeign reports whether err says that the keys were written by another version of this package,
// or by something else.
func isForeign(err error) bool {
	return strings.Contains(err.Error(), "BADVERSION ") || strings.Contains(err.Error(), "BADKEY ")
}

func (l *Limiter) partition(key string) *partition {
	if len(l.parts) == 1 {
		return l.parts[0]
	}
	f := fnv.New32a()
	_, _ = f.Write([]byte(key)) // never fails
	return l.parts[f.Sum32()%uint32(len(l.parts))]
}

// do runs one operation, which takes in its reply under mu.
func (l *Limiter) do(ctx context.Context, o op, take func(r reply)) error {
	return l.await(ctx, o.h, func(answered chan reply) {
		o.done = func(r reply) {
			if r.fate == did {
				take(r)
			}
			answered <- r
		}
		o.h.p.add(o)
	})
}

// await waits for the answer to what send sends, under mu: it sends it again where the server has
// lost its data meanwhile.
func (l *Limiter) await(ctx context.Context, h *host, send func(answered chan reply)) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		answered := make(chan reply, 1)
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return ErrClosed
		}
		send(answered)
		h.p.flush()
		l.mu.Unlock()
		select {
		case r := <-answered:
			if r.fate != stale {
				return r.err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lost and back note a change; the caller calls tell after it has left mu.
func (p *partition) lost(err error) {
	l := p.l
	if p.down == nil && !l.closed {
		l.down++
		if l.down == 1 {
			l.events = append(l.events, Event{Time: time.Now(), Server: l.server, Err: err, Local: l.alone})
			if l.alone && !isForeign(err) {
				l.outage = l.newOutage()
			}
		}
	}
	p.down = err
}

func (p *partition) back() {
	if p.down == nil {
		return
	}
	p.down = nil
	l := p.l
	l.down--
	if l.down == 0 {
		if l.outage != nil {
			l.outage.end()
			l.outage = nil
		}
		l.events = append(l.events, Event{Time: time.Now(), Server: l.server, Local: l.alone})
	}
	p.restore(l.alone)
}
