package redislimit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
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

	gen       string        // what the server calls its present state
	genSince  time.Duration // when that was heard; a reply to a call of before says nothing about it
	stepped   time.Duration // step of its clock, of which the server is told until gen changes
	restoring int           // restore operations that weren't answered

	clock  serverClock
	guard  guard
	lead   time.Duration   // how long a reply is under way
	called time.Duration   // when the last call was sent
	beaten time.Duration   // when the last one with a sign of life was sent; 0: at once
	heard  time.Duration   // when the last one that the server has had was sent
	calls  int             // under way
	atRisk int             // hosts of which this process knows something
	inUse  int             // those of them with requests in flight
	waits  int             // hosts with requests that wait
	down   error           // why the server can't be reached; nil: it can
	over   context.Context // done when it can again, or nothing starts any more; nil: it always could
	end    context.CancelFunc
}

// An op is an operation of step.lua on a host.
type op struct {
	name  string
	h     *host
	args  []any
	build func(now time.Duration) []any // makes args when the operation is sent; nil: they are made
	owed  bool                          // it is sent again until the server has had it, or can't read the host
	done  func(r reply)                 // called under mu; nil: it isn't
}

// A fate is what has become of an operation.
type fate int

const (
	did    fate = iota // the server has done it
	stale              // nothing was done: it came too late, or for a state of the server that is lost
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

// add takes o along with the next call, at the latest after linger, or with the next heartbeat to a
// server that is away.
func (p *partition) add(o op) {
	p.ops = append(p.ops, o)
	p.wake(linger)
}

// addAlong takes o along with the next call, which may be the heartbeat's.
func (p *partition) addAlong(o op) { p.ops = append(p.ops, o) }

// wake flushes after d, unless that is about to happen. While the server is away the heartbeat
// does.
func (p *partition) wake(d time.Duration) {
	if p.timer == nil && p.down == nil && !p.l.closed {
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
	switch {
	case len(p.ops) == 0 || p.l.closed:
	case p.calls >= mostCalls && p.l.now()-p.called < patient:
		p.wake(patient)
	default:
		p.send()
	}
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

// last sends what is there after Close, in the caller's goroutine and without mu, and takes leave
// of the server when no request of this process is in flight.
func (p *partition) last() {
	p.l.mu.Lock()
	ops, bye := p.ops, p.l.inFlight == 0
	p.ops = nil
	if len(ops) == 0 && (!bye || p.l.conf.Operator || p.gen == "" || p.down != nil) {
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
	// The reply will narrow the bounds to its own round trip.
	guard := p.guard.allow(min(p.clock.uncertainty(now), 2*p.lead+time.Millisecond))
	notAfter := int64(0)
	if p.clock.known {
		_, hi := p.clock.bounds(now)
		notAfter = int64((now + hi + l.patience) / time.Microsecond)
	}
	beat := ""
	promise := ""
	every := l.dead / 5
	spread := 0
	if l.alone {
		every, spread = heartbeat/2, l.conf.Processes // others are to notice soon
	}
	if c.beat = !l.conf.Operator && !l.closed && (now-p.beaten >= every || p.beaten == 0); c.beat {
		beat = l.conf.Name
		promise = l.promise
		p.beaten = now
	} else if bye {
		beat = "-"
	}
	list := []any{[]any{
		l.conf.Prefix + "push:", !l.cluster, p.gen, micros(p.stepped), notAfter, micros(l.quarantine),
		micros(guard), micros(p.lead), micros(p.early() + horizon - early), micros(claim), micros(l.complete.LeaseTTL), micros(l.rules.Backoff().Forgive),
		l.hours, l.proc, beat, promise, micros(l.dead), spread, c.number,
	}}
	c.keys = append(make([]string, 0, 2+len(ops)), p.genKey(), l.conf.Prefix+p.tag+"processes")
	// By key, as there may be two of a host: one that was forgotten while the server was away, of
	// which there is still something to tell, and one that was met since. Each key is read and written
	// once.
	index := make(map[string]int, len(ops))
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
		list = append(list, append([]any{o.name, i}, args...))
	}
	c.payload = pack(list...)
	return c
}

// genKey is where the server keeps the generation.
func (p *partition) genKey() string { return p.l.conf.Prefix + p.tag + "gen" }

// ofHosts is in the names of the keys of hosts. Its number is the version of what step.lua writes
// there.
const ofHosts = "host:6:"

// hostKey is where the server keeps a host.
func (p *partition) hostKey(key string) string { return p.l.conf.Prefix + p.tag + ofHosts + key }

// early is the constant of this name, longer where replies take long.
func (p *partition) early() time.Duration { return min(max(early, 4*p.lead), time.Second) }

// call runs c without mu, and then decides what becomes of each operation.
func (p *partition) call(c *call) {
	l := p.l
	// The client's timeouts bound a try, and this what comes after it: the server does nothing for
	// a call that it gets later.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), l.patience)
	defer cancel()
	answers, err := l.run(ctx, c.keys, c.payload)
	received := l.now()
	if err == nil && (number(answers[5]) != c.number || !truth(answers[2]) && len(answers) != replyHead+len(c.ops)) {
		err = errMixedUp
	}
	if errors.Is(err, errMixedUp) { // a client closes a connection on which it reads what is no time
		for range 2 * mostHanging {
			_ = l.conf.Client.Time(ctx).Err()
		}
	}
	l.mu.Lock()
	p.calls--
	r, current := reply{fate: lost, received: received}, true
	if err != nil {
		r.err = &ServerError{Server: l.server, Err: err}
		p.failed(c, &r)
	} else {
		current = p.answered(c, &r, answers)
	}
	for i, o := range c.ops {
		r := r
		if r.fate == did {
			r.read(answers[replyHead+i], l.server)
		}
		if o.done != nil {
			o.done(r)
		}
		if o.owed && r.fate != did && r.fate != broken {
			p.add(o)
		}
	}
	if !current {
		l.askAgain(p)
	}
	if len(p.ops) > 0 && p.timer != nil && p.down == nil {
		p.flush() // what has come meanwhile
	}
	more := l.closed && r.fate == did && len(p.ops) > 0
	l.mu.Unlock()
	l.tell()
	if more {
		p.last() // changes that the server has answered with another version
	}
}

// errMixedUp is the error of a call that got the answer to another one: what a client has left
// unread on a connection is the first that its next user reads. To believe it would be to start on
// a turn of long ago, or of another host, and to take the server's clock for slow.
var errMixedUp = errors.New("redislimit: not the answer to this call")

const (
	replyHead  = 6  // values before the answers in a reply
	mostFields = 32 // of an answer, but for one of fleet
)

// run runs step.lua. It returns at least replyHead values.
func (l *Limiter) run(ctx context.Context, keys []string, payload string) ([]any, error) {
	answer, err := l.script.Run(ctx, l.conf.Client, keys, payload).Result()
	if err != nil {
		return nil, err
	}
	list := parse(text(answer))
	if len(list) < replyHead {
		return nil, errMixedUp
	}
	return list, nil
}

// errStale is the error of what the server has refused to do: the call came too late, after a later
// one of this process, or spoke of a state of the server that is lost.
var errStale = fmt.Errorf("redislimit: the call came too late: %w", ErrUnavailable)

// failed makes r the reply to a call that has failed. It may have had its effect, or may still have
// it.
func (p *partition) failed(c *call, r *reply) {
	p.l.stats.Failed++
	p.beaten = 0
	if p.heard > c.sent && !p.l.closed {
		r.fate = stale // the server has answered others since: only this call, or its connection, was lost
	} else {
		p.lost(r.err)
	}
}

// answered makes r the reply to a call. It reports whether what that promises holds.
func (p *partition) answered(c *call, r *reply, answers []any) (current bool) {
	l := p.l
	r.fate, r.server = did, number(answers[0])
	current = p.learn(c.sent, *r, text(answers[1]))
	p.back()
	if truth(answers[2]) {
		l.stats.Stale++
		p.beaten = 0
		r.fate, r.err = stale, errStale
		return current
	}
	p.heard = max(p.heard, c.sent)
	if c.beat {
		if number(answers[3]) == 0 && !l.cluster && c.sent > l.subscribedAt && l.listening && !l.closed {
			l.unsubscribe() // from a node that isn't the one that pushes, as after a failover; until it listens again, waiters ask
			l.askAgain(nil)
		}
		if truth(answers[4]) {
			p.restore(false) // it has given away what this process held
		}
	}
	return current
}

// read makes r the answer to one operation.
func (r *reply) read(answer any, server string) {
	r.answer, _ = answer.([]any)
	r.answer = append(r.answer, make([]any, mostFields)...) // one that is too short reads as zeros
	switch text(r.answer[0]) {
	case "OLD":
		r.fate, r.err = stale, errStale
	case "ERR":
		r.fate, r.err = broken, &ServerError{Server: server, Err: errors.New("redislimit: " + text(r.answer[1]))}
	}
}

// learn takes in the head of a reply: the server's time and generation. It reports whether what the
// reply promises holds: it doesn't if a reply of a later generation has overtaken it, or if the
// server's clock has jumped.
func (p *partition) learn(sent time.Duration, r reply, gen string) bool {
	if gen != p.gen && sent < p.genSince {
		return false
	}
	slip := p.clock.learn(sent, r.received, r.server)
	late := max(r.received-p.clock.earliest(r.server, r.received), 0)
	p.lead += (min(late, 4*maxGuard) - p.lead) / 8
	first := p.gen == ""
	changed := gen != p.gen
	jumped := slip.Abs() > slewed
	if changed {
		p.gen, p.genSince, p.stepped = gen, p.l.now(), 0
	}
	if jumped && !(changed && strings.HasPrefix(gen, "s")) { // else it was told by another process
		p.stepped += slip // a reply of before may come later
	}
	switch {
	case changed && first && !p.l.alone: // all that is known was told by this server
	case changed:
		if sent > p.l.allCalled { // its node may have lost the other partitions as well
			for _, q := range p.l.parts {
				if q != p && q.atRisk+q.waits > 0 {
					q.send()
				}
			}
			p.l.allCalled = p.l.now()
		}
		if !first {
			p.l.stats.Quarantines++
		}
		p.l.askAgain(p)
		p.restore(true)
	case jumped:
		p.send() // tells the server
		return false
	case slip != 0:
		p.restore(false)
		return false
	}
	return true
}

// askAgain makes all waiters of p ask again; of all partitions, if p is nil.
func (l *Limiter) askAgain(p *partition) {
	for _, h := range l.hosts {
		if p == nil || h.p == p {
			h.askAgain()
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

func (l *Limiter) partition(key string) *partition {
	return l.parts[crc32.ChecksumIEEE([]byte(key))%uint32(len(l.parts))]
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
		case <-l.ended: // nothing sends it any more
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lost and back note a change; the caller calls tell after it has left mu.
func (p *partition) lost(err error) {
	l := p.l
	if p.down == nil {
		p.over, p.end = context.WithCancel(l.open)
		l.down++
		if l.down == 1 && !l.closed {
			l.events = append(l.events, Event{Time: time.Now(), Server: l.server, Err: err, Local: l.alone})
			// Another version of this package, or something else, may have written the keys.
			if why := err.Error(); l.alone && !strings.Contains(why, "BADVERSION ") && !strings.Contains(why, "BADKEY ") {
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
	p.end()
	l := p.l
	l.down--
	if l.down == 0 {
		l.outage = nil
		l.events = append(l.events, Event{Time: time.Now(), Server: l.server, Local: l.alone})
	}
	p.restore(l.alone)
}
