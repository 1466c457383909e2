package redislimit

import (
	"slices"
	"strconv"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/sitekey"
	"github.com/go-politeness/politeness/redis/redislimit/internal/known"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// take returns the news, and forgets all that an Error can report.
func (n *news) take() news {
	reported := *n
	n.restored = nil
	n.stateErr = nil
	n.byHand = nil
	return reported
}

// takeTakenBack returns the leases that were taken back, and forgets them.
func (n *news) takeTakenBack() []hostlimit.TakenBack {
	taken := n.takenBack
	n.takenBack = nil
	return taken
}

// The reasons why a turn starts no sooner, in step.lua's letters.
const (
	whySlot  = "s"
	whyBlock = "b"
	whyHours = "h" // Config.Windows
	whyProbe = "p" // the response to a probe is awaited
)

func blameOf(why string) blame {
	switch why {
	case whySlot:
		return slot
	case whyBlock, whyHours, whyProbe:
		return block
	}
	return delay
}

// account books the time since the last call to the reason of then; from now on it is next.
func (w *hostWait) account(now time.Duration, next blame) {
	now = max(now, w.since) // callers read the time before they take the lock
	w.spent[w.blame] += now - w.since
	w.since = now
	w.blame = next
}

// host returns the host of key, which is made if need be.
func (l *Limiter) host(key string) *host {
	h := l.hosts[key]
	if h != nil {
		return h
	}
	h = &host{
		l:      l,
		p:      l.partition(key),
		key:    key,
		site:   sitekey.Of(key),
		leases: make(map[string]*lease),
		wait:   hostWait{blame: delay, since: l.now()},
	}
	// Numbers of starts don't begin anew with a host that was forgotten: an auditor looks for gaps.
	h.seq, _ = l.numbers.starts.Peek(key)
	if l.conf.Limits.Store != nil {
		h.keeping.busy = make(chan struct{}, 1)
	}
	l.hosts[key] = h
	return h
}

// lookUp is host for callers that don't hold mu.
func (l *Limiter) lookUp(key string) *host {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.host(key)
}

// newID names a lease: the process, and a number that only grows.
func (l *Limiter) newID() string {
	l.numbers.leases++
	return l.proc + "." + strconv.FormatUint(l.numbers.leases, 10)
}

// inUse reports whether a request is in flight, or a change of the refusals.
func (h *host) inUse() bool { return len(h.leases)+len(h.changes) > 0 }

// owes reports whether forgetting h would lose something that the server may ask for.
func (h *host) owes(now time.Duration) bool {
	return h.inUse() || h.known.Owes(now, h.l.rules.Backoff().Forgive)
}

// first returns the earliest start, of any process, as far as this one knows, and whether it is
// that late because of a block or Config.Windows.
func (h *host) first() (at time.Duration, blocked bool) {
	at = max(h.known.Next, h.known.Refusals.Until, h.presumed(), h.wait.opens)
	return at, at > h.known.Next
}

// presumed is the end of the blocks by outcomes that the server may not know yet; 0: none.
func (h *host) presumed() time.Duration {
	until := time.Duration(0)
	for _, c := range h.changes {
		until = max(until, c.will.Until)
	}
	return until
}

// inTrouble reports whether a block, or the wait for a probe's response, stops the host's requests.
func (h *host) inTrouble(now time.Duration) bool {
	return h.known.Refusals.Alone || max(h.known.Refusals.Until, h.presumed(), h.wait.opens) > now
}

// learn stores a report of the server, which came with at.
func (h *host) learn(report wire.Report, at reply) {
	lifted := h.known.Learn(report, at.server, at.received, &h.p.clock, h.p.restoring > 0)
	if lifted {
		h.askAgain()
	}
}

// halt makes earlier grants of the server void, and refuses the waiters that come too late:
// all of them if the block is by hand.
func (h *host) halt(now time.Duration) {
	h.known.BlockSeen = now
	for _, t := range slices.Clone(h.waiters) {
		switch {
		case h.known.Refusals.Stopped(now):
			t.refuse(t.stopped())
		case t.phase == granted:
			t.signal() // its goroutine finds the grant void
		}
	}
	h.refuseLate()
}

// refuseLate refuses the waiters that are known to come too late. If that is because of a block
// that the server confirmed more than pollBlock ago, an operator may have lifted it, so the first
// waiter asks instead.
func (h *host) refuseLate() {
	now := h.l.now()
	start, blocked := h.first()
	byBlock := start > now && start == h.known.Refusals.Until
	confirmed := h.p.clock.Surely(h.known.AsOf, now)
	if byBlock && h.p.down == nil && now-confirmed > pollBlock {
		return
	}
	for ahead := 0; ahead < len(h.waiters); {
		t := h.waiters[ahead]
		at := start + time.Duration(ahead)*t.least()
		underWay := t.phase == asking || t.phase == granted // the server's answer decides
		if at <= t.wait.limit || underWay {
			ahead++
			continue
		}
		t.refuse(t.refusal(at, t.l.rules.TooLate(t.wait.byContext, blocked))) // it leaves the queue
	}
}

// leave takes t out of the queue and lets the next one ask.
func (h *host) leave(t *lease) {
	delete(h.l.asked, t.id)
	i := slices.Index(h.waiters, t)
	if i < 0 {
		return
	}
	h.waiters = slices.Delete(h.waiters, i, i+1)
	// Only a new first one has something to do. The others have more ahead of them than before.
	if i == 0 && len(h.waiters) > 0 {
		h.waiters[0].signal()
	}
}

// askAgain makes the waiters ask again, because the server's earlier promises are void or may be
// better by now.
func (h *host) askAgain() {
	for _, t := range h.waiters {
		t.askAgain()
	}
}

// raise makes the gap to the last start longer: a longer delay applies to it immediately.
func (h *host) raise(d time.Duration) {
	if h.known.Raise(d) {
		h.refuseLate()
	}
}

// restore reports to the server what it may have lost: all that is known of h or, if it has lost no
// data, the slots and the last start.
func (h *host) restore(now time.Duration, all bool) {
	if !h.owes(now) {
		return
	}
	// A block is no part of a slot or of a start.
	if !all && len(h.leases) == 0 && h.known.Next <= now {
		return
	}
	h.p.restoring++
	h.p.add(op{
		h:     h,
		build: func(now time.Duration) wire.Request { return h.restoring(now, all) },
		done: func(r reply) {
			h.p.restoring--
			// Computed anew rather than sent again: leases may have ended meanwhile.
			if r.fate == stale || r.fate == lost {
				h.restore(r.received, all)
			}
		},
	})
}

// restoring returns the request of restore, with times counted from now.
func (h *host) restoring(now time.Duration, all bool) *wire.Restore {
	k := &h.known
	last := never // otherwise the server's gap would count from a start that never was
	if k.Started {
		last = wire.MicrosOf(k.Last - now)
	}
	request := &wire.Restore{Next: wire.MicrosOf(k.Next - now), Last: last, Leases: h.restoreLeases(now)}
	if !all {
		return request
	}
	s := &k.Refusals
	request.Lost = &wire.Lost{
		Version: k.Version,
		Until:   wire.MicrosOf(s.Until - now),
		Cause:   s.Cause,
		Alone:   s.Alone,
		Row:     s.InARow(),
		Learned: wire.MicrosOf(s.Learned),
		EasedAt: wire.MicrosOf(s.EasedAt - now),
		Rest:    known.Rest(*s),
		Served:  k.Served,
		Since:   wire.MicrosOf(k.ServedSince - now),
	}
	return request
}

// never is a last start that was so long ago that no clock has shown it.
const never wire.Micros = -1 << 52

// restoreLeases returns the leases that callers have, for restore. From then on the server knows
// them.
func (h *host) restoreLeases(now time.Duration) []wire.Lease {
	var leases []wire.Lease
	for _, t := range h.leases {
		left := t.use.renewed + h.l.limits.LeaseTTL - now
		// A lease whose Start waits has no slot of this generation: its next question asks for one.
		if left <= 0 || t.phase != held {
			continue
		}
		t.use.unshared = false
		leases = append(leases, wire.Lease{
			ID:      t.id,
			Seq:     t.asks,
			Left:    wire.MicrosOf(left),
			Delay:   wire.MicrosOf(max(t.delay, t.granted.delay)),
			FromEnd: t.limits.Delay.FromEnd,
		})
	}
	return leases
}

// note stores a Block or Clear by an operator for reportEvents or, without a receiver of acts,
// until the next Grant or Error of h reports it. version is that of the refusals that it has made.
func (h *host) note(at reply, version int64, blocked bool) {
	// It came already, as the reply or as the message to all. The reply to a copy of the call has
	// another time.
	if h.news.noted && h.news.actOf == version {
		return
	}
	h.news.noted = true
	h.news.actOf = version
	// By the bounds of the server's clock, the act may seem to be in the future.
	when := h.l.base.Add(min(h.p.clock.Surely(at.server, at.received), at.received))
	byHand := &hostlimit.Debt{ClearedAt: when}
	if blocked {
		byHand = &hostlimit.Debt{
			BlockedAt:    when,
			BlockedUntil: h.l.base.Add(h.known.Refusals.Until),
			Cause:        h.known.Refusals.Cause,
		}
	}
	if h.l.acts.Any() {
		h.l.acted = append(h.l.acted, hostlimit.Act{Key: h.key, ByHand: byHand})
		return
	}
	h.news.byHand = byHand
}
