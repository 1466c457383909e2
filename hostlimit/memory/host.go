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
	if h.origin == ofNew {
		h.origin = ofOther
	}
	if s.by != noStart { // else the last stamp was cancelled, so no gap follows it
		h.raise(h.adaptive, byAdaptive)
		h.raise(h.refusals().Learned, byLearned)
	}
}

// raise makes the gap after the last start d if that is longer, and reports whether it is. A
// shorter delay applies only from the next start on: the gap was promised.
func (h *host) raise(d time.Duration, by source) bool {
	if d <= h.gap || h.source == noStart { // there was no start, so there is no gap
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

// count counts a start after an idle time. An idle time longer than any delay begins a new run,
// because the rate of an idle crawler isn't the rate that the host allows.
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
	return h.change(l, now, starts, func(s *rules.Refusals, t rules.Turn) hostlimit.Effect {
		return s.Observe(r, *o, t)
	})
}

// change changes the refusals of h by step, which gets the Turn of l. starts are the shard's.
func (h *host) change(
	l *lease, now time.Duration, starts uint64, step func(*rules.Refusals, rules.Turn) hostlimit.Effect,
) hostlimit.Effect {
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
	e := step(&s.Refusals, t)
	if s.Lessons != lessons {
		h.countAnew(now) // the next lesson is taught by the time per page since this one
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

// grace is the least time for which a start is remembered. If the start was the fetch of
// robots.txt, the next start must keep the crawl-delay that it brought.
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

// act returns the last act of an operator that no Grant or Error of h has reported, once.
func (h *host) act() (act *hostlimit.Debt) {
	if r := h.kept; r != nil {
		act = r.act
		r.act = nil
	}
	return act
}

// isBooked reports whether the last start of h is a booking.
func (h *host) isBooked() bool {
	a := h.active
	return a != nil && a.last != nil && !a.last.started
}

// owing returns the state of h, so far as a Store keeps it.
func (h *host) owing() refusals {
	o := *h.refusals()
	o.ForgetPages()
	o.takenBack = nil
	if !h.isBooked() {
		// A booking isn't a start yet, so no gap follows it. The gaps of the starts before it are
		// over.
		o.next = max(o.next, h.earliest(0))
	}
	return o
}

// leak queues l, which was taken back. The next start of h reports it.
func (h *host) leak(l *lease) {
	t := hostlimit.TakenBack{Key: h.key}
	if l.started {
		t.Seq = l.seq
	}
	r := h.changeRefusals()
	if r.takenBack == nil {
		r.takenBack = new([]hostlimit.TakenBack)
	}
	if len(*r.takenBack) < mostLeaks { // a host whose bodies are never closed may leak for ever
		*r.takenBack = append(*r.takenBack, t)
	}
}

// leaked returns the leases that leak has queued, and removes them.
func (h *host) leaked() (leases []hostlimit.TakenBack) {
	r := h.kept
	if r == nil || r.takenBack == nil {
		return nil
	}
	leases = *r.takenBack
	r.takenBack = nil
	return leases
}

// forgive resets the counter of h when the host has been quiet for long enough. No request waits
// for the response of a probe then.
func (sh *shard) forgive(h *host, now time.Duration) {
	if h.kept == nil || !h.kept.Forgive(sh.m.rules, now) {
		return
	}
	if h.active != nil {
		h.active.probe = nil
	}
}

// stop returns the error of each request of h while an operator stops them; nil: none does.
func (sh *shard) stop(h *host, now time.Duration) error {
	switch {
	case sh.m.drain.isBegun(): // it never ends, so it goes before a block
		return &hostlimit.Error{Key: h.key, Err: hostlimit.ErrDraining, ByHand: h.act()}
	case h.refusals().Stopped(now):
		r := h.refusals()
		return &hostlimit.Error{Key: h.key, RetryAt: sh.m.at(r.Until), Err: sh.m.rules.BlockedByHand(r.Cause), ByHand: h.act()}
	}
	return nil
}

// mostLeaks is how many leases of a key are reported at once.
const mostLeaks = 255
