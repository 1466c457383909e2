package redislimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/redislimit/internal/clock"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

var step = redis.NewScript(wire.Source)

// add takes o along with the next call, which is sent after linger at the latest. If the server is
// away, the next heartbeat takes o along.
func (p *partition) add(o op) {
	p.ops = append(p.ops, o)
	p.wake(linger)
}

// dropStarted drops the report of a start of lease id that hasn't been sent yet.
func (p *partition) dropStarted(id string) {
	p.ops = slices.DeleteFunc(p.ops, func(o op) bool {
		started, ok := o.request.(*wire.Started)
		return ok && started.ID == id
	})
}

// addAlong takes o along with the next call, which may be the heartbeat's.
func (p *partition) addAlong(o op) { p.ops = append(p.ops, o) }

// wake flushes after d, unless that is about to happen. While the server is away, the heartbeat
// flushes.
func (p *partition) wake(d time.Duration) {
	if p.timer == nil && p.down == nil && !p.l.closed {
		p.timer = time.AfterFunc(d, p.ring)
	}
}

// ring runs when the timer fires.
func (p *partition) ring() {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	if p.timer == nil {
		return // flush was called in the same moment
	}
	p.timer = nil
	p.flush()
}

// flush sends all operations in a separate goroutine, so that callers can leave before the
// response. While the server has enough to do with calls that were sent a moment ago, later
// operations are collected: the busier the server is, the less a turn costs it.
func (p *partition) flush() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if len(p.ops) == 0 || p.l.closed {
		return
	}
	busy := p.sent.underWay >= mostCalls && p.l.now()-p.sent.last < patient
	if busy {
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

// send calls the server even without operations, to show that this process is there.
func (p *partition) send() {
	due := p.ops
	p.ops = nil
	for { // at least once
		c := p.newCall(due[:min(len(due), most)], false)
		due = due[len(c.ops):]
		p.l.wg.Go(func() { p.call(c) })
		if len(due) == 0 {
			return
		}
	}
}

// last sends the operations left after Close, in the caller's goroutine and without mu, and takes
// leave of the server when no request of this process is in flight.
func (p *partition) last() {
	p.l.mu.Lock()
	ops := p.ops
	p.ops = nil
	bye := p.l.places.taken == 0
	if len(ops) == 0 && !(bye && p.isMember()) {
		p.l.mu.Unlock()
		return
	}
	c := p.newCall(ops, bye)
	p.l.mu.Unlock()
	p.call(c)
}

// isMember reports whether the server lists this process as one of the fleet, and can be reached.
func (p *partition) isMember() bool {
	return !p.l.conf.Operator && p.gen.name != "" && p.down == nil
}

// newCall writes a call of step.lua.
func (p *partition) newCall(ops []op, bye bool) *call {
	l := p.l
	now := l.now()
	p.sent.underWay++
	p.sent.last = now
	l.stats.Calls++
	// The server does nothing for a call that comes after one with a larger number.
	l.numbers.calls++
	c := &call{
		ops:     ops,
		sent:    now,
		request: p.header(now, bye),
		keys:    append(make([]string, 0, 2+len(ops)), p.genKey(), l.conf.Prefix+p.tag+"processes"),
	}
	if c.request.Beat {
		p.sent.beat = now
	}
	// By key, because a host may have two values here. One was forgotten while the server was away,
	// and has operations left. The other one was made since. Each key is read and written once.
	index := make(map[string]int, len(ops))
	for _, o := range ops {
		i, ok := index[o.h.key]
		if !ok {
			i = len(index) + 1
			index[o.h.key] = i
			c.keys = append(c.keys, p.hostKey(o.h.key))
		}
		request := o.request
		if o.build != nil {
			request = o.build(now)
		}
		c.request.Add(request, i, o.tried)
	}
	c.payload = c.request.Pack()
	return c
}

// isBeatDue reports whether the next call shows a sign of life.
func (p *partition) isBeatDue(now time.Duration) bool {
	every := p.l.signOfLife()
	if p.l.failsLocal {
		every = heartbeat / 2 // others are to notice a loss soon
	}
	due := p.sent.beat == 0 || now-p.sent.beat >= every
	return due && !p.l.conf.Operator && !p.l.closed
}

// header returns a call, which is sent now, without operations.
func (p *partition) header(now time.Duration, bye bool) wire.Call {
	l := p.l
	// The reply will narrow the bounds to its own round trip.
	guard := p.guard.Allow(min(p.clock.Uncertainty(now), 2*p.latency+time.Millisecond))
	c := wire.Call{
		Number:     l.numbers.calls,
		Process:    l.proc,
		Generation: p.gen.name,
		Stepped:    wire.MicrosOf(p.gen.stepped),
		Channel:    l.channel(""),
		Alone:      !l.cluster,
		Quarantine: wire.MicrosOf(l.quarantine),
		Window:     wire.MicrosOf(guard),
		Latency:    wire.MicrosOf(p.latency),
		Horizon:    wire.MicrosOf(p.askAhead() + horizon - askAhead),
		Claim:      wire.MicrosOf(claimWithin),
		TTL:        wire.MicrosOf(l.limits.LeaseTTL),
		Forgive:    wire.MicrosOf(l.rules.Backoff().Forgive),
		Most:       wire.MicrosOf(l.rules.LongestBlock()),
		Hours:      l.windows,
		Dead:       wire.MicrosOf(l.deadAfter),
	}
	if p.clock.Known {
		_, hi := p.clock.Bounds(now)
		c.NotAfter = wire.Micros((now + hi + l.patience) / time.Microsecond)
	}
	switch {
	case p.isBeatDue(now):
		c.Beat = true
		c.Name = l.conf.Name
		c.Promise = l.promise
	case bye:
		c.Leave = true
	}
	// The others leave a process that is cut off one share of so many.
	if l.failsLocal {
		c.Spread = l.conf.Processes
	}
	return c
}

// genKey is where the server keeps the generation.
func (p *partition) genKey() string { return p.l.conf.Prefix + p.tag + "gen" }

// ofHosts is in the names of the keys of hosts. Its number is the version of the values that
// step.lua writes there.
var ofHosts = fmt.Sprintf("host:%d:", wire.Version)

// hostKey is where the server keeps a host.
func (p *partition) hostKey(key string) string { return p.l.conf.Prefix + p.tag + ofHosts + key }

// askAhead is the constant of this name, longer if replies take long.
func (p *partition) askAhead() time.Duration { return min(max(askAhead, 4*p.latency), time.Second) }

// call runs c without mu, and then settles each of its operations.
func (p *partition) call(c *call) {
	l := p.l
	answered, received, err := l.exchange(c)
	l.mu.Lock()
	p.sent.underWay--
	r := reply{call: c.request.Number, fate: lost, received: received}
	current := true
	if err != nil {
		r.err = &ServerError{Server: l.server, Err: err}
		p.failed(c, &r)
	} else {
		current = p.answered(c, &r, answered)
	}
	for i, o := range c.ops {
		own := r
		if own.fate == did {
			own.read(answered.Answers[i], c.request.Ops[i], l.server)
		}
		p.settle(o, own)
	}
	if !current {
		l.askAgain(p)
	}
	if len(p.ops) > 0 && p.timer != nil && p.down == nil {
		p.flush() // operations that were added meanwhile
	}
	more := l.closed && r.fate == did && len(p.ops) > 0
	l.mu.Unlock()
	l.reportEvents()
	if more {
		p.last() // changes that the server has answered with another version
	}
}

// settle ends o with its reply, or sends it again.
func (p *partition) settle(o op, r reply) {
	if o.done != nil {
		o.done(r)
	}
	if o.owed && r.fate != did && r.fate != broken {
		// A stale one may have been done as well: the client repeats a call whose reply is lost.
		o.tried = cmp.Or(o.tried, r.call)
		p.add(o)
	}
}

// errMixedUp is the error of a call that got the response to another one: bytes that a client has
// left unread on a connection are the first that its next user reads. If it were believed, a
// request would start by an old grant or by one of another host, and the server's clock would seem
// slow.
var errMixedUp = errors.New("redislimit: not the answer to this call")

// exchange runs step.lua with c. The reply has a response for each operation unless the call was
// stale.
func (l *Limiter) exchange(c *call) (answered wire.Reply, received time.Duration, err error) {
	// The client's timeouts bound each try, and this one the calls after it: the server does
	// nothing for a call that arrives later.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), l.patience)
	defer cancel()
	answered, err = l.run(ctx, c.keys, c.payload)
	received = l.now()
	if err == nil && !c.isAnsweredBy(&answered) {
		err = errMixedUp
	}
	if errors.Is(err, errMixedUp) {
		// Other connections may be as far behind. The client closes one on which the reply to TIME
		// isn't a time.
		for range 2 * mostHanging {
			_ = l.conf.Client.Time(ctx).Err()
		}
	}
	return answered, received, err
}

// isAnsweredBy reports whether answered is the reply to c.
func (c *call) isAnsweredBy(answered *wire.Reply) bool {
	if answered.Call != c.request.Number {
		return false
	}
	return answered.Stale || len(answered.Answers) == len(c.ops) // a stale one has no responses
}

// run runs step.lua.
func (l *Limiter) run(ctx context.Context, keys []string, payload string) (wire.Reply, error) {
	answer, err := l.script.Run(ctx, l.conf.Client, keys, payload).Result()
	if err != nil {
		return wire.Reply{}, err
	}
	text, _ := answer.(string)
	answered, err := wire.ReadReply(text)
	if err != nil {
		return wire.Reply{}, fmt.Errorf("%w: %w", errMixedUp, err)
	}
	return answered, nil
}

// errStale is the error of a call that the server has refused to do: it came too late, after a
// later one of this process, or was about a lost state of the server.
var errStale = fmt.Errorf("redislimit: the call came too late: %w", ErrUnavailable)

// failed makes r the reply to a call that has failed. It may have had its effect, or may still have
// it.
func (p *partition) failed(c *call, r *reply) {
	p.l.stats.Failed++
	p.sent.beat = 0 // it may not have got the sign of life
	// The server has answered a later call, so it was there. After Close there is no other call
	// that could find out that the server is away.
	answeredSince := p.sent.heard > c.sent
	if answeredSince && !p.l.closed {
		r.fate = stale // only this call, or its connection, was lost
		return
	}
	p.lost(r.err)
}

// answered makes r the reply to a call. It reports whether the promises of that reply hold.
func (p *partition) answered(c *call, r *reply, answered wire.Reply) (current bool) {
	l := p.l
	r.fate = did
	r.server = answered.Now
	if answered.Replaced > 0 && p.gen.name == "" {
		l.begunAnew(answered.Replaced)
	}
	current = p.learn(c.sent, *r, answered.Generation)
	p.back() // a server that refuses is there
	if answered.Stale {
		l.stats.Stale++
		p.sent.beat = 0
		r.fate = stale
		r.err = errStale
		return current
	}
	p.sent.heard = max(p.sent.heard, c.sent)
	if !c.request.Beat {
		return current
	}
	listened := l.sub.listening && c.sent > l.sub.since
	if listened && answered.Listeners == 0 && !l.cluster && !l.closed {
		// The subscription is on a node that isn't the one that pushes, as after a failover. Until
		// it is up again, waiters ask. On a cluster the count is that of one node, and proves
		// nothing.
		l.unsubscribe()
		l.askAgain(nil)
	}
	if answered.Lapsed {
		p.restore(false) // the server has given away the slots of this process
	}
	return current
}

// begunAnew reports once that the server's state was made by an older version of this package, of
// which no process lives.
func (l *Limiter) begunAnew(version int) {
	if l.foundOlder {
		return // in another partition
	}
	l.foundOlder = true
	l.events = append(l.events, Event{Time: time.Now(), Server: l.server, Replaced: version})
}

// read makes r the response to one operation. A response that isn't understood in whole isn't used.
func (r *reply) read(raw []byte, request wire.Request, server string) {
	r.answer = request.Answer()
	err := wire.ReadAnswer(raw, r.answer)
	result := r.answer.Result()
	switch {
	case err != nil:
		r.fate = broken
		r.err = &ServerError{Server: server, Err: fmt.Errorf("redislimit: %w", err)}
	case result.Kind == wire.Overtaken:
		r.fate = stale
		r.err = errStale
	case result.Kind == wire.Broken:
		r.fate = broken
		r.err = &ServerError{Server: server, Err: errors.New("redislimit: " + result.Err)}
	}
}

// learn handles the head of a reply: the server's time and generation. It reports whether the
// promises of the reply hold: they don't if a reply of a later generation has overtaken it, or if
// the server's clock has jumped.
func (p *partition) learn(sent time.Duration, r reply, gen string) bool {
	changed := gen != p.gen.name
	if changed && sent < p.gen.since {
		return false
	}
	slip := p.clock.Learn(sent, r.received, r.server)
	// A running average, in which one reply that hung counts for no more than 200 ms.
	late := max(r.received-p.clock.Earliest(r.server, r.received), 0)
	p.latency += (min(late, 4*clock.MaxGuard) - p.latency) / 8
	first := p.gen.name == ""
	jumped := slip.Abs() > clock.Slewed
	if changed {
		p.gen = generation{name: gen, since: p.l.now()}
	}
	byStep := changed && strings.HasPrefix(gen, "s")
	if jumped && !byStep { // else another process has reported the step
		p.gen.stepped += slip // not =: a reply from before the step may follow
	}
	switch {
	case changed && first && !p.l.failsLocal:
		// All that is known here came from this server, so it has lost nothing.
	case changed:
		p.genChanged(sent, first)
	case jumped:
		p.send() // reports the step
		return false
	case slip != 0:
		// The server's times have moved against this process's by a little: what it holds is sent
		// again.
		p.restore(false)
		return false
	}
	return true
}

// genChanged sends all that is known to a server that may have lost it. sent is the time of the
// call that has found this out.
func (p *partition) genChanged(sent time.Duration, first bool) {
	l := p.l
	// The node may have lost its other partitions as well. One round of calls to them is enough for
	// all that find out meanwhile.
	if sent > l.allCalled {
		for _, other := range l.parts {
			if other != p && other.uses.atRisk+other.uses.waiting > 0 {
				other.send()
			}
		}
		l.allCalled = l.now()
	}
	if !first {
		l.stats.Quarantines++
	}
	l.askAgain(p)
	p.restore(true)
}

// askAgain makes all waiters of p ask again; of all partitions, if p is nil.
func (l *Limiter) askAgain(p *partition) {
	for _, h := range l.hosts {
		if p == nil || h.p == p {
			h.askAgain()
		}
	}
}

// restore sends the knowledge of this process to the server, without waiting for the reply. all is
// for a server that may have lost everything.
func (p *partition) restore(all bool) {
	now := p.l.now()
	if all && p == p.l.parts[0] && p.l.id != "" {
		p.add(op{h: &host{l: p.l, p: p}, request: &wire.GetName{Text: p.l.id}})
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

// do runs one operation. take gets its reply under mu, if the server has done it.
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

// await waits for the response to the operation that send adds, under mu: again if the server has
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
			// A stale call came too late or to another generation, which the next one names.
			if r.fate != stale {
				return r.err
			}
		case <-l.ended: // no goroutine sends it any more
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lost notes that the server can't be reached. The caller calls reportEvents after it has left mu.
func (p *partition) lost(err error) {
	l := p.l
	wasDown := p.down != nil
	p.down = err
	if wasDown {
		return
	}
	p.over, p.end = context.WithCancel(l.open)
	l.down.parts++
	if l.down.parts > 1 || l.closed {
		return
	}
	l.events = append(l.events, Event{Time: time.Now(), Server: l.server, Err: err, Local: l.failsLocal})
	if l.failsLocal && !isForeign(err) {
		l.down.outage = l.newOutage()
	}
}

// isForeign reports whether the server is there, but its keys were written by another version of
// this package, or by something else. Then it may still pace the processes of that version.
func isForeign(err error) bool {
	why := err.Error()
	return strings.Contains(why, "BADVERSION ") || strings.Contains(why, "BADKEY ")
}

// back notes that the server is there. The caller calls reportEvents after it has left mu.
func (p *partition) back() {
	if p.down == nil {
		return
	}
	p.down = nil
	p.end() // wakes those that go on by themselves
	l := p.l
	l.down.parts--
	if l.down.parts == 0 {
		l.down.outage = nil
		l.events = append(l.events, Event{Time: time.Now(), Server: l.server, Local: l.failsLocal})
	}
	// Under FailClosed nothing has started meanwhile, so the server may lack slots only.
	p.restore(l.failsLocal)
}

// tell gives a to a receiver or, if there is none, to the next Grant or Error of its host.
func (l *Limiter) tell(a hostlimit.Act) {
	if l.acts.Tell(a) || a.ByHand == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.hosts[a.Key]; h != nil {
		h.news.byHand = a.ByHand
	}
}

// reportEvents calls OnFailure for the events since the last call, and the receiver of acts for the
// acts. The caller doesn't hold mu.
func (l *Limiter) reportEvents() {
	l.mu.Lock()
	events := l.events
	l.events = nil
	acted := l.acted
	l.acted = nil
	l.mu.Unlock()
	for _, a := range acted {
		l.tell(a)
	}
	if l.conf.OnFailure == nil {
		return
	}
	// Outside of mu, because it may call the Limiter.
	defer logPanic("Config.OnFailure")
	for _, e := range events {
		l.conf.OnFailure(e)
	}
}

// unsubscribe ends the subscription, so that listen continues. The client may be waiting for the
// server with the subscription's lock held, for as long as its timeouts. The caller holds mu.
func (l *Limiter) unsubscribe() {
	l.sub.listening = false
	sub := l.sub.pubsub
	if sub != nil {
		l.wg.Go(func() { _ = sub.Close() }) // there is nothing to do about an error
	}
}
