package redislimit

import (
	"encoding/json"
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

	waiters []*waiter         // first come, first served
	leases  map[string]*lease // in flight, by id
	debt    hostlimit.Debt    // what is owed in an outage, of FailLocal
	debtOf  *outage

	// All that must outlive a loss of data, on this process's clock.
	next        time.Duration // the next start isn't earlier
	last        time.Duration // the last start wasn't later; only if started
	started     bool
	refusals    hostlimit.Refusals
	version     int64         // of refusals, on the server; -1: this process has changed them
	untilServer int64         // refusals.Until on the server's clock
	untilTold   time.Duration // lower bound of refusals.Until, as the server's clock is known only within bounds
	asOf        int64         // when the server told so last
	confirmed   time.Duration // the same on this process's clock
	blocked     time.Duration // when a block became known here: turns granted before are void
	presumed    time.Duration // end of a block of which the server may not know yet
	changes     []*change     // of refusals that the server hasn't answered; the first one is under way
	inForce     time.Duration // delay
	served      int           // successes since began
	began       time.Duration // when the counting of successes began

	// What this process itself owes holds, whatever a server says that has lost the key.
	owed   time.Duration // the last start of this process and its delay
	owedBy *lease        // which started then

	usual  time.Duration   // how long pages usually take, by the answers that this process had
	gap    time.Duration   // after the last start
	source string          // what decided gap
	act    *hostlimit.Debt // Block or Clear by a person that no Grant or Error has reported
	actAt  int64           // its time on the server's clock

	// What the Store has, see keep.go.
	recalled bool
	saved    hostlimit.Refusals
	savedAt  time.Duration
	storing  chan struct{} // closed when the Store's present call is over; nil: there is none
	restored *hostlimit.Restored
	stateErr error

	opens  time.Duration // no start before, by Config.Windows
	expiry time.Duration // when the server takes a lease back next, as it said last

	// What the waiters wait for, and for how long they did.
	blame  blame
	since  time.Duration
	waited [3]time.Duration
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
	case "b", "h":
		return block
	}
	return delay
}

// A told is what the server tells of a host with each start and each answer.
type told struct {
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

const toldFields = 14

func newTold(reply []any) told {
	return told{
		next: number(reply[0]), adaptive: duration(reply[1]), inForce: duration(reply[2]), served: int(number(reply[3])), began: number(reply[4]),
		until: number(reply[5]), setAt: number(reply[6]), cause: text(reply[7]), alone: number(reply[8]) == 1, row: int(number(reply[9])),
		learned: duration(reply[10]), easedAt: number(reply[11]), version: number(reply[12]), rest: text(reply[13]),
	}
}

// keep stores t, but not in place of what the server may have lost until restore has told it.
func (h *host) keep(t told, at reply) {
	clock, now := &h.p.clock, at.received
	if h.p.restoring == 0 || t.version > h.version {
		h.inForce, h.served, h.began = t.inForce, t.served, clock.surely(t.began, now)
		h.adopt(t, now)
	}
	h.blockedUntil(t.until, at)
}

// adopt makes the refusals of t those of h; blockedUntil sets the end of a block that lasts.
func (h *host) adopt(t told, now time.Duration) {
	clock, s := &h.p.clock, h.refusals
	if t.version != h.version {
		s = hostlimit.Refusals{Until: s.Until}
		_ = json.Unmarshal([]byte(t.rest), &s) // by another version of hostlimit: what can be read holds
		h.version = t.version
	}
	if s.Alone && !t.alone {
		s.Clear(now) // the server has forgiven
	}
	s.SetAt, s.Cause, s.Alone, s.EasedAt = uint64(t.setAt), t.cause, t.alone, clock.surely(t.easedAt, now)
	if s.InARow() == 0 {
		s.Row = t.row // told by a Store
	}
	if micros(s.Learned) != micros(t.learned) {
		s.Learned = t.learned
	}
	if over := clock.surely(t.until, now); over < now {
		s.Until = over
	}
	h.refusals = s
}

// host returns the host of key, which is made if need be.
func (l *Limiter) host(key string) *host {
	h := l.hosts[key]
	if h == nil {
		h = &host{l: l, p: l.partition(key), key: key, leases: make(map[string]*lease), since: l.now(), blame: delay}
		h.seq, _ = l.numbers.Peek(key)
		l.hosts[key] = h
	}
	return h
}

// owes reports whether forgetting h would lose something that the server may ask for.
func (h *host) owes(now time.Duration) bool {
	return len(h.leases) > 0 || len(h.changes) > 0 || max(h.next, h.refusals.Until) > now ||
		isLeft(h.refusals) && now < max(h.refusals.Until, h.last)+h.l.backoff.Forgive
}

// first is the earliest start of anybody that is known here, and whether that is for a block,
// or for Config.Windows.
func (h *host) first() (at time.Duration, blocked bool) {
	at = max(h.next, h.refusals.Until, h.presumed, h.opens)
	return at, at > h.next
}

// inTrouble reports whether a block, or the wait for a probe's answer, holds the host.
func (h *host) inTrouble(now time.Duration) bool {
	return h.refusals.Alone || max(h.refusals.Until, h.presumed, h.opens) > now
}

// account books the time that passed to what was waited for, and what is waited for from now on.
func (h *host) account(now time.Duration, next blame) {
	h.waited[h.blame] += now - h.since
	h.since, h.blame = now, next
}

// blockedUntil notes the end of the block as the server tells it: the same on this process's clock
// for the same block, although the bounds on the server's clock move. What the server tells holds,
// also where that is less than what was known, because a person may have lifted the block; but not
// before it was told again what it may have lost.
func (h *host) blockedUntil(us int64, at reply) {
	h.asOf, h.confirmed = at.server, at.received
	now, lifted := at.received, us <= at.server
	switch {
	case lifted && h.refusals.Until > now && h.p.restoring == 0:
		h.refusals.Until, h.untilServer = 0, 0
		h.renounce()
	case !lifted && us != h.untilServer:
		until := h.p.clock.surely(us, now)
		if h.p.restoring > 0 {
			until = max(until, h.refusals.Until)
		}
		h.untilServer, h.refusals.Until, h.untilTold = us, until, h.p.clock.earliest(us, now)
	}
}

// raise makes the gap to the last start longer: a longer delay holds at once.
func (h *host) raise(d time.Duration) {
	if h.started {
		h.next = max(h.next, h.last+d)
		h.weed()
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
			last := int64(-1 << 50) // never
			if h.started {
				last = micros(h.last - now)
			}
			var leases []any
			for _, t := range h.leases {
				if left := t.renewed + h.l.complete.LeaseTTL - now; left > 0 && !t.waiting {
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
	s.Until, s.SetAt, s.Cause, s.EasedAt = 0, 0, "", 0
	if !isLeft(s) {
		return ""
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // numbers and booleans
	}
	return string(text)
}

// isLeft reports whether anything is left of s but the end of a block.
func isLeft(s hostlimit.Refusals) bool {
	s.Until, s.SetAt, s.Cause, s.EasedAt, s.Served, s.Lessons = 0, 0, "", 0, 0, 0
	return s != (hostlimit.Refusals{})
}

// byHand reports whether a person has blocked the host.
func (h *host) byHand(now time.Duration) bool {
	return h.refusals.Stopped(now)
}

// note stores a Block or Clear by a person until the next Grant or Error of h reports it.
func (h *host) note(at reply, blocked bool) {
	if h.actAt == at.server {
		return // told by the server already, in another way
	}
	h.actAt = at.server
	when := h.l.base.Add(min(h.p.clock.surely(at.server, at.received), at.received))
	h.act = &hostlimit.Debt{ClearedAt: when}
	if blocked {
		h.act = &hostlimit.Debt{BlockedAt: when, BlockedUntil: h.l.base.Add(h.refusals.Until), Cause: h.refusals.Cause}
	}
}

// takeAct returns the Block or Clear by a person that no Grant or Error has reported yet, and
// forgets it.
func (h *host) takeAct() *hostlimit.Debt {
	act := h.act
	h.act = nil
	return act
}

// takeState takes what is to be told of the Store.
func (h *host) takeState() (restored *hostlimit.Restored, err error) {
	restored, err = h.restored, h.stateErr
	h.restored, h.stateErr = nil, nil
	return restored, err
}

// known returns the host of key, which is made if need be.
func (l *Limiter) known(key string) *host {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.host(key)
}
