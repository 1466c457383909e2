package redislimit

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A host is what this process knows of a key, and its waiters here. Only the first of its waiters
// asks the server (and the second when the first is about to start); the others wait for those to
// leave, at no cost. So the server's queue holds a place or two for each process, and processes
// take turns. Its fields and those of its waiters are guarded by the Limiter's mu.
type host struct {
	l   *Limiter
	p   *partition
	key string
	seq uint64 // number of the last start of this process

	waiters []*lease          // first come, first served
	leases  map[string]*lease // that callers have, by id
	debt    hostlimit.Debt    // what is owed in an outage, of FailLocal
	debtOf  *outage

	// All that must outlive a loss of data, on this process's clock.
	next     time.Duration // the next start isn't earlier
	last     time.Duration // the last start wasn't later; only if started
	started  bool
	lastBy   *lease        // which started last here: its own next start owes it nothing
	gap      time.Duration // after the last start here, whatever a server says that has lost the key
	source   string        // what decided gap
	refusals hostlimit.Refusals
	until    int64         // refusals.Until on the server's clock: the same block ends at the same time; 0: not the server's
	earliest time.Duration // lower bound of refusals.Until, as the server's clock is known only within bounds
	version  int64         // of refusals, on the server; -1: this process has changed them
	asOf     int64         // when the server reported the host last
	blocked  time.Duration // when a block became known here: turns granted before are void
	changes  []*change     // of refusals that the server hasn't answered; the first one is under way
	inForce  time.Duration // delay
	served   int           // successes since began
	began    time.Duration // when the counting of successes began

	usual     time.Duration         // how long pages usually take, by the answers that this process had
	news                            // that no Grant or Error has reported
	takenBack []hostlimit.TakenBack // that no Grant has reported
	actAt     int64                 // time of the last news.byHand on the server's clock

	// What the Store has, see keep.go.
	recalled bool
	saved    hostlimit.Refusals
	savedAt  time.Duration
	retryAt  time.Duration // no Update before, but for news, as the last one has failed
	storing  chan struct{} // full while a call of the Store is under way; nil: there is no Store

	opens  time.Duration // no start before, by Config.Windows
	expiry time.Duration // when the server takes a lease back next, as it said last

	// What the waiters wait for, and for how long they did.
	blame  blame
	since  time.Duration
	waited [3]time.Duration
}

// news is what the next Grant or Error of a host reports.
type news struct {
	restored *hostlimit.Restored
	stateErr error
	byHand   *hostlimit.Debt
}

// takeNews returns the news, and forgets them.
func (h *host) takeNews() news {
	n := h.news
	h.news = news{}
	return n
}

type blame int

const (
	slot blame = iota
	delay
	block
)

func blameOf(why string) blame {
	switch why {
	case "s":
		return slot
	case "b", "h", "p":
		return block
	}
	return delay
}

// account books the time that passed to what was waited for, and what is waited for from now on.
func (h *host) account(now time.Duration, next blame) {
	h.waited[h.blame] += now - h.since
	h.since, h.blame = now, next
}

// A hostInfo is the server's report of a host, with each start and each answer.
type hostInfo struct {
	next     int64 // earliest next start
	adaptive time.Duration
	inForce  time.Duration // delay
	served   int           // successes since began
	began    int64         // or now, if it hasn't
	until    int64         // end of the block
	setAt    int64         // when it was set
	cause    string
	alone    bool
	row      int // refusals in a row
	learned  time.Duration
	easedAt  int64
	version  int64  // of all from until on
	rest     string // of hostlimit.Refusals, see change.args; empty: nothing
}

const infoFields = 14

func newHostInfo(a []any) hostInfo {
	return hostInfo{
		next: number(a[0]), adaptive: duration(a[1]), inForce: duration(a[2]), served: int(number(a[3])), began: number(a[4]),
		until: number(a[5]), setAt: number(a[6]), cause: text(a[7]), alone: truth(a[8]), row: int(number(a[9])),
		learned: duration(a[10]), easedAt: number(a[11]), version: number(a[12]), rest: text(a[13]),
	}
}

// learn stores i. What the server reports holds, also where that is less than what was known,
// because a person may have lifted a block; but what it may have lost stays until restore has
// reported it.
func (h *host) learn(i hostInfo, at reply) {
	clock := &h.p.clock
	now := at.received
	s := h.refusals
	was := h.refusals.Until
	restoring := h.p.restoring > 0
	h.asOf = at.server
	if !restoring || i.version > h.version {
		h.inForce, h.served, h.began = i.inForce, i.served, clock.surely(i.began, now)
		if i.version != h.version {
			s = hostlimit.Refusals{}
			_ = json.Unmarshal([]byte(i.rest), &s) // by another version of hostlimit: what can be read holds
			h.version = i.version
		}
		if s.Alone && !i.alone {
			s.Clear(now) // the server has forgiven
		}
		s.SetAt, s.Cause, s.Alone, s.EasedAt = uint64(i.setAt), i.cause, i.alone, clock.surely(i.easedAt, now)
		if s.InARow() == 0 {
			s.Row = i.row // by a Store
		}
		if micros(s.Learned) != micros(i.learned) {
			s.Learned = i.learned
		}
	}
	s.Until = was
	until, lifted := clock.surely(i.until, now), i.until <= at.server
	if (lifted || i.until != h.until) && !(restoring && was > until) {
		h.until, s.Until, h.earliest = i.until, until, clock.earliest(i.until, now)
	}
	h.refusals = s
	if lifted && was > now && !restoring {
		h.askAgain()
	}
}

// host returns the host of key, which is made if need be.
func (l *Limiter) host(key string) *host {
	h := l.hosts[key]
	if h == nil {
		h = &host{l: l, p: l.partition(key), key: key, leases: make(map[string]*lease), since: l.now(), blame: delay}
		h.seq, _ = l.numbers.Peek(key)
		if l.conf.Limits.Store != nil {
			h.storing = make(chan struct{}, 1)
		}
		l.hosts[key] = h
	}
	return h
}

// known is host for callers that don't hold mu.
func (l *Limiter) known(key string) *host {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.host(key)
}

// owes reports whether forgetting h would lose something that the server may ask for.
func (h *host) owes(now time.Duration) bool {
	return len(h.leases) > 0 || len(h.changes) > 0 || max(h.next, h.refusals.Until) > now ||
		isLeft(h.refusals) && now < max(h.refusals.Until, h.last)+h.l.rules.Backoff().Forgive
}

// first is the earliest start of anybody that is known here, and whether that is for a block,
// or for Config.Windows.
func (h *host) first() (at time.Duration, blocked bool) {
	at = max(h.next, h.refusals.Until, h.presumed(), h.opens)
	return at, at > h.next
}

// presumed is the end of the blocks by outcomes of which the server may not know yet; 0: none.
func (h *host) presumed() (until time.Duration) {
	for _, c := range h.changes {
		until = max(until, c.will.Until)
	}
	return until
}

// inTrouble reports whether a block, or the wait for a probe's answer, holds the host.
func (h *host) inTrouble(now time.Duration) bool {
	return h.refusals.Alone || max(h.refusals.Until, h.presumed(), h.opens) > now
}

// halt makes what the server granted before now void, and refuses the waiters that come too late:
// all of them, where a person has blocked the host.
func (h *host) halt(now time.Duration) {
	h.blocked = now
	for _, t := range slices.Clone(h.waiters) {
		if h.refusals.Stopped(now) {
			t.refuse(t.stopped())
		} else if t.phase == granted {
			t.signal()
		}
	}
	h.refuseLate()
}

// refuseLate refuses the waiters that are known to come too late. Where that is for a block that
// the server confirmed more than pollBlock ago, which a person may have lifted, the first one asks.
func (h *host) refuseLate() {
	start, blocked := h.first()
	if now := h.l.now(); start > now && start == h.refusals.Until && h.p.down == nil && now-h.p.clock.surely(h.asOf, now) > pollBlock {
		return
	}
	for i := 0; i < len(h.waiters); i++ {
		t := h.waiters[i]
		if at := start + time.Duration(i)*t.least(); at > t.limit && t.phase != asking && t.phase != granted {
			t.refuse(t.refusal(at, t.l.rules.TooLate(t.byContext, blocked)))
			i-- // it has left
		}
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
	if i == 0 && len(h.waiters) > 0 {
		h.waiters[0].signal()
	}
}

// askAgain makes the waiters ask again: what the server promised them is void, or it knows better.
func (h *host) askAgain() {
	for _, t := range h.waiters {
		t.askAgain()
	}
}

// raise makes the gap to the last start longer: a longer delay holds at once.
func (h *host) raise(d time.Duration) {
	if h.started {
		h.next = max(h.next, h.last+d)
		h.refuseLate()
	}
}

// finished notes the end of a request after which the gap counts from there.
func (h *host) finished(now, delay time.Duration) {
	h.next = max(h.next, now+max(delay, h.next-h.last)) // the gap may have become longer since the start
	h.last = max(h.last, now)
}

// restore tells the server what it may have lost: everything, or the slots and the last start.
func (h *host) restore(now time.Duration, all bool) {
	if !h.owes(now) || !all && len(h.leases) == 0 && h.next <= now {
		return
	}
	h.p.restoring++
	h.p.add(op{
		name: "restore", h: h,
		build: func(now time.Duration) []any {
			last := int64(-1 << 52) // never, on any clock
			if h.started {
				last = micros(h.last - now)
			}
			var leases []any
			for _, t := range h.leases {
				if left := t.renewed + h.l.complete.LeaseTTL - now; left > 0 && t.phase == held {
					t.alone = false
					leases = append(leases, []any{t.id, t.asks, micros(left), micros(max(t.delay, t.granted.delay)), t.limits.Delay.FromEnd})
				}
			}
			s := &h.refusals
			return []any{
				all, micros(h.next - now), last, leases, micros(s.Until - now), s.Cause, s.Alone, s.InARow(),
				micros(s.Learned), micros(s.EasedAt - now), h.version, rest(*s), h.served, micros(h.began - now),
			}
		},
		done: func(r reply) {
			h.p.restoring--
			if r.fate == stale || r.fate == lost {
				h.restore(r.received, all)
			}
		},
	})
}

// newID names a lease: the process, and a number that only grows.
func (l *Limiter) newID() string {
	l.seq++
	return l.proc + "." + strconv.FormatUint(l.seq, 10)
}

// rest returns the JSON of those fields of s that step.lua doesn't know; empty: nothing is left.
func rest(s hostlimit.Refusals) string {
	s.Until = 0
	s.SetAt = 0
	s.Cause = ""
	s.EasedAt = 0
	if !isLeft(s) {
		return ""
	}
	text, _ := json.Marshal(s) // numbers and booleans
	return string(text)
}

// isLeft reports whether anything is left of s but the end of a block.
func isLeft(s hostlimit.Refusals) bool {
	s.Until = 0
	s.SetAt = 0
	s.Cause = ""
	s.EasedAt = 0
	s.Served = 0
	s.Lessons = 0
	return s != (hostlimit.Refusals{})
}

// note stores a Block or Clear by a person until the next Grant or Error of h reports it.
func (h *host) note(at reply, blocked bool) {
	if h.actAt == at.server {
		return // told by the server already, in another way
	}
	h.actAt = at.server
	when := h.l.base.Add(min(h.p.clock.surely(at.server, at.received), at.received))
	h.byHand = &hostlimit.Debt{ClearedAt: when}
	if blocked {
		h.byHand = &hostlimit.Debt{BlockedAt: when, BlockedUntil: h.l.base.Add(h.refusals.Until), Cause: h.refusals.Cause}
	}
}
