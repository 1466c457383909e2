package memory

import (
	"math"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// late is how much later than planned a start may be before the queue is searched for
// requests that it makes too late.
const late = time.Millisecond

// A host is the state of a key. Most keys have no lease, no waiter and no refusal: their pointers
// are nil. Its methods are pure steps, as those of Refusals: they neither wait nor read a clock.
type host struct {
	key string

	last     time.Duration // last start, its end with FromEnd, or the booking of one; only if source isn't noStart
	gap      time.Duration // delay in force since last
	adaptive time.Duration // delay by response times
	usual    time.Duration // how long pages usually take, see rules.Usual
	// began is when the counting of served began: at the first start, the last lesson, or the start
	// after an idle time; unset: it hasn't.
	began  time.Duration
	seq    uint64 // requests started
	served uint32 // successes since began
	source source // rule that gave gap; noStart: nothing is owed to a start
	moved  bool   // last is no stamp of a start that has ended
	floor  uint16 // of the last request that knew one, in floorUnits, for those that don't

	fromNew bool // last is no start, but paid from New on: see payFrom

	active *active   // leases and waiters; nil: none
	kept   *refusals // nil: all its fields are zero
	stored *stored   // debt in Config.Store; nil: not read yet
}

// newHost returns a host that was never asked.
func newHost(key string) *host { return &host{key: key, began: unset} }

// refusals are the part of a host that few keys have.
type refusals struct {
	rules.Refusals
	cleared   time.Duration          // start of the request whose success lifted a block last, or when a person did
	clearings uint32                 // number of times that a block was lifted
	freed     uint32                 // clearings after a person lifted a block last
	next      time.Duration          // earliest start by Config.Store; 0: any
	act       *hostlimit.Debt        // last act of a person that no Grant or Error has reported; nil: none
	takenBack *[]hostlimit.TakenBack // leases that were taken back and that no Grant has reported; nil: none
}

// noRefusals are those of all hosts that have none. They don't change.
var noRefusals refusals

// refusals returns those of h, to read.
func (h *host) refusals() *refusals {
	if h.kept == nil {
		return &noRefusals
	}
	return h.kept
}

// changeRefusals returns those of h, to change.
func (h *host) changeRefusals() *refusals {
	if h.kept == nil {
		h.kept = new(refusals)
	}
	return h.kept
}

// A source is the part of the delay that was the longest.
type source uint8

const (
	noStart source = iota
	byRandom
	byFloor
	byAdaptive
	byLearned
)

var sources = [...]string{"", "random", "crawl-delay", "adaptive", "learned"}

func (s source) String() string { return sources[s] }

// earliest returns when the gap after the last start is over for a request with this floor.
func (h *host) earliest(floor time.Duration) time.Duration {
	if h.source == noStart {
		return 0
	}
	return rules.Add(h.last, max(h.gap, floor))
}

// floorUnit is the unit of host.floor, which has room for some 11 minutes, and none for more bytes.
const floorUnit = 10 * time.Millisecond

// known returns floor, and remembers it, or if it is unknown the one that is remembered.
func (h *host) known(floor time.Duration) time.Duration {
	if floor < 0 {
		return time.Duration(h.floor) * floorUnit
	}
	units := (min(floor, math.MaxUint16*floorUnit) + floorUnit - 1) / floorUnit // rounded up
	h.floor = uint16(units)
	return floor
}

// first returns the earliest known start of a request with this floor at the head of the queue,
// Config.Windows aside.
func (h *host) first(now, floor time.Duration) time.Duration {
	r := h.refusals()
	return max(now, h.earliest(floor), r.next, r.Until)
}

// delay returns the gap that a request with this floor waits for, and the rule that gave it.
func (h *host) delay(floor time.Duration) (gap time.Duration, by source) {
	if floor > h.gap {
		return floor, byFloor
	}
	return h.gap, h.source
}

// A stamp is a start, or a booking of one, and the gap that is owed to it.
type stamp struct {
	at, gap time.Duration // at is unset if the start was cancelled
	by      source        // rule that gave gap; noStart: there was no start
}

const unset time.Duration = math.MinInt64

// after reports whether the next start is paced by s rather than o: by the later one or, at the
// same instant, the one with the longer gap.
func (s stamp) after(o stamp) bool {
	switch {
	case s.by == noStart, s.at == unset:
		return false
	case o.by == noStart:
		return true
	case s.at == o.at:
		return s.gap > o.gap
	}
	return s.at > o.at
}

// stamp returns the last start.
func (h *host) stamp() stamp { return stamp{h.last, h.gap, h.source} }

// book makes a start at the time at the last one, with a delay that was drawn at random.
func (h *host) book(at, floor, random time.Duration) {
	if floor > random {
		h.pace(stamp{at, floor, byFloor})
		return
	}
	h.pace(stamp{at, random, byRandom}) // pace takes a longer adaptive or learned delay instead
}

// pace makes s the last start.
func (h *host) pace(s stamp) {
	h.last = s.at
	h.gap = s.gap
	h.source = s.by
	h.fromNew = false
	if s.by != noStart { // else the last stamp was cancelled, and nothing is owed
		h.raise(h.adaptive, byAdaptive)
		h.raise(h.refusals().Learned, byLearned)
	}
}

// raise makes the gap after the last start d if that is longer, and reports whether it is. A
// shorter delay holds from the next start on only: the gap was promised.
func (h *host) raise(d time.Duration, by source) bool {
	if d <= h.gap || h.source == noStart { // nothing is owed to a start that never was
		return false
	}
	h.gap = d
	h.source = by
	return true
}

// idle returns for how long the key could have been used but wasn't, up to a start that is booked
// now.
func (h *host) idle(now, floor time.Duration) time.Duration {
	if h.source == noStart {
		return 0
	}
	return now - h.first(0, floor) // since the earliest start that was possible
}

// count counts a start after an idle time. An idle time longer than any delay begins a new run: the
// rate of a crawler that had nothing to fetch isn't the rate that its host allows.
func (h *host) count(d *hostlimit.Delay, now, idle time.Duration) {
	h.seq++
	isNewRun := h.began == unset || idle > d.Ceiling
	if isNewRun {
		h.countAnew(now)
		if h.kept != nil {
			h.kept.Asked = 0 // the rests that the host asked for before the run
		}
	}
}

// countAnew begins to count the pages served.
func (h *host) countAnew(now time.Duration) {
	h.began = now
	h.served = 0
}

// adapt moves the delay by response times, and reports whether that makes the gap longer.
func (h *host) adapt(l *lease, o hostlimit.Outcome) bool {
	h.usual = rules.Usual(&o, h.usual)
	h.adaptive = rules.Adapt(&l.lim.Delay, h.adaptive, h.usual, &o)
	return h.raise(h.adaptive, byAdaptive)
}

// observe changes h by o, the outcome of l. starts are the shard's.
func (h *host) observe(r *rules.Rules, l *lease, o *hostlimit.Outcome, now time.Duration, starts uint64) hostlimit.Effect {
	s := h.changeRefusals()
	lessons := s.Lessons
	t := rules.Turn{
		Now:    now,
		Number: l.ord,
		Last:   starts,
		Probe:  l.probe,
		Delay:  &l.lim.Delay,
		Gap:    h.gap,
		Served: int(h.served),
	}
	if h.began != unset {
		t.Since = now - h.began
	}
	e := s.Observe(r, *o, t)
	if s.Lessons != lessons {
		h.countAnew(now) // the next lesson takes the time per page since this one
		h.raise(s.Learned, byLearned)
	}
	if e.Cleared {
		s.cleared = l.stamp.at
		s.clearings++
	}
	if *s == noRefusals {
		h.kept = nil // most hosts never need it again
	}
	return e
}

// grace is how long a start is remembered at least. A crawl-delay that becomes known by it, as the
// fetch of robots.txt, is owed by the next start.
const grace = time.Minute

// owes reports whether the eviction of h would break a promise.
func (h *host) owes(r *rules.Rules, now time.Duration) bool {
	s := h.refusals()
	isSyncing := h.stored != nil && h.stored.syncing != nil
	switch {
	case h.active != nil, isSyncing:
		return true
	case h.earliest(grace) > now, max(s.Until, s.next) > now:
		return true
	}
	return s.Alone && !s.Forgiven(r, now) // the next request is to probe
}
