package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/internal/lines"
)

// A host is what the records say of one host.
type host struct {
	a         *auditor
	report    HostReport
	latest    uint64 // largest number of a start so far
	sequences map[*limiter]*sequence
	takenBack map[given]int64      // when slots were taken back, by the starts that had them
	given     map[given]bool       // numbers of starts that were given up
	voids     map[int64]bool       // their stamps, which later starts may name
	own       map[uint32][]*limits // of this host alone, by Transport and number of the first start
	// What the first Date header says: how far the server's clock is ahead of ours, at least and at
	// most.
	dates struct{ at, least, most int64 }

	// What the limiters before leave beyond the ends of their logs: the last start, if the gap
	// after it is kept over a restart, and a block.
	start *exchange
	hold
}

// A given is the number that a start was given.
type given struct {
	row string
	seq uint64
}

// A sequence is what one limiter did to one host.
type sequence struct {
	h       *host
	a       *auditor
	limiter *limiter
	xs      []*exchange // in the order of their records, then of their starts
	answers []*answer   // in the order of their records
	first   int64       // the first of these

	last     *exchange
	rows     map[string]*exchange // start with the highest number in each row
	taught   float64              // delay that a refusal has taught last; 0: none
	taughtAt int64                // when, or before that
	forgot   bool                 // whether the delay after last is shorter than refusals have taught
	hidden   int64                // latest start before which one is missing, as after a kill; 0: there is none
	firstEnd int64                // when the first of its exchanges ended
	overlaps bool                 // whether another limiter was in use at the same time

	// What the host's answers have done to it, as far as that follows from their records.
	moves []move // by time
	moved int    // how many of them were taken
	late  int64  // how long after an answer the limiter may hear of it

	hold
	row    rows      // refusals in a row, by kind
	alone  bool      // requests start one at a time, each a probe, until one is served
	probe  *exchange // the last one that started so
	served int64     // last time that the host served us

	failed map[uint32]int64 // pages that failed: when they failed once more, asked alone; 0: they weren't

	forbade   int64 // last time that an answer such as 403 came
	forbidden int   // number of them in a row, as far as it is sure that nothing was between them
	doubt     int64 // until then that isn't sure
	full      int64 // when they were so many that the next request has to go alone; 0: they aren't
}

// host returns the host that d is about.
func (a *auditor) host(d *evidence.Decision) *host {
	h := a.hosts[d.Host]
	if h == nil {
		h = &host{a: a, report: HostReport{Host: strings.Clone(d.Host)}, given: map[given]bool{}, voids: map[int64]bool{}, takenBack: map[given]int64{}, own: map[uint32][]*limits{}, sequences: map[*limiter]*sequence{}}
		a.hosts[h.report.Host] = h
	}
	return h
}

// of returns what the limiter of t did to h.
func (h *host) of(t *transport) *sequence {
	s := h.sequences[t.limiter]
	if s == nil {
		s = &sequence{h: h, a: h.a, limiter: t.limiter, rows: map[string]*exchange{}, first: never, firstEnd: never, late: slack, failed: map[uint32]int64{}}
		if t.policy.Process != "" {
			s.late = settling
		}
		h.sequences[t.limiter] = s
	}
	return s
}

// judge judges what was done to h.
func (h *host) judge() {
	for _, own := range h.own {
		slices.SortStableFunc(own, func(l, m *limits) int { return cmp.Compare(l.from, m.from) })
	}
	var all []*sequence
	for _, s := range h.sequences {
		s.sort()
		all = append(all, s)
	}
	slices.SortFunc(all, func(s, t *sequence) int {
		return cmp.Or(cmp.Compare(s.first, t.first), cmp.Compare(s.limiter.index, t.limiter.index))
	})
	for i, s := range all {
		if i > 0 && all[i-1].last != nil && all[i-1].last.start+all[i-1].last.delay > s.first {
			s.overlaps = all[i-1].limiter.last > s.limiter.first
		}
		s.judge()
	}
}

// sort puts the starts, answers and blocks in the order of their times.
func (s *sequence) sort() {
	slices.SortStableFunc(s.xs, func(x, y *exchange) int { return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.seq, y.seq)) })
	for _, x := range s.xs {
		if at, ok := s.h.takenBack[given{s.a.named[x.by].row, x.seq}]; ok {
			earliest := x.start + s.a.safe(x)
			if until := max(at-slack, earliest); at >= earliest-slack && (x.fate != ended || x.end > until) {
				x.end, x.flags = until, x.flags|takenBack
			}
		}
		if x.fate == unknown && x.flags&takenBack == 0 {
			x.end = never
		}
		if s.first = min(s.first, x.start); len(s.answers) > 0 && x.flags&(serves|again|kept) == serves {
			s.moves = append(s.moves, move{at: x.answered, x: x})
		}
	}
	for _, n := range s.answers {
		if b := n.block; b != nil {
			s.first, s.moves = min(s.first, b.from), append(s.moves, move{b.from + 1, n.x, n})
		} else {
			s.moves = append(s.moves, move{n.at, n.x, n})
		}
	}
	slices.SortStableFunc(s.moves, func(m, n move) int { return cmp.Compare(m.at, n.at) })
}

// judge judges the sequence.
func (s *sequence) judge() {
	h := s.h
	if s.overlaps {
		s.a.openEnded(delaysKept, "a host that two limiters were used for at one time: neither knows of the other's starts (share one, by Config.Limiter)")
	} else {
		s.hold = h.hold
	}
	for i, x := range s.xs {
		// Whatever it says of its turn, the limits in force hold.
		limits := h.limits(x)
		x.delay = max(x.delay, int64(limits.DelayMin))
		x.slots = min(cmp.Or(x.slots, uint32(limits.Slots)), uint32(limits.Slots))
		s.move(x.start)
		s.number(x)
		s.chain(x)
		s.gap(x, limits)
		s.block(x)
		switch {
		case x.fate == ended:
			s.firstEnd = min(s.firstEnd, x.end)
		case x.flags&takenBack != 0:
		case x.fate == unknown:
			s.violation(MissingEnd, "a start without an end", s.a.place(x))
		case x.fate == cutOff:
			s.a.openEnded(everyStartEnded, "the log stops while requests are under way, as after a kill, or where bodies are never closed: these have no end")
			s.a.openIf(s.a.named[x.by].policy.Bytes > 0, budgetKept, "how much was read of a request that has no end")
			s.a.openIf(i+1 < len(s.xs) && x.flags&kept == 0, blocksKept, "what a request that has no end was answered")
		}
		s.last = x
	}
	s.move(never)
	s.a.provePlaces(h.report.Host, s.xs, func(x *exchange) int {
		if x.slots == 0 || x.flags&local != 0 {
			return 0
		}
		s.a.tested(slotsKept)
		return int(x.slots)
	})
	if s.last != nil && s.last.delay > lasting {
		h.start = s.last
	}
	if s.until > h.until || !s.overlaps {
		h.hold, h.left = s.hold, s.alone || s.left
	}
}

// number checks that the start x has the number that comes next in its row. One that was given up
// explains one hole.
func (s *sequence) number(x *exchange) {
	row := s.a.named[x.by].row
	if x.seq == 0 {
		s.a.openEnded(logWhole, "starts without numbers: whether some are missing isn't known")
		return
	}
	if s.h.given[given{row, x.seq}] {
		s.violation(MissingStart, fmt.Sprintf("start %d was given up", x.seq), s.a.place(x))
	}
	last, next := s.rows[row], uint64(1)
	if last != nil && x.seq > 1 { // otherwise the limiter had forgotten the host
		next = last.seq + 1
	}
	if x.seq < next {
		s.violation(MissingStart, fmt.Sprintf("start %d comes after start %d", x.seq, last.seq), s.a.place(last), s.a.place(x))
		return
	}
	s.rows[row] = x
	for ; next < x.seq && s.h.given[given{row, next}]; next++ {
		delete(s.h.given, given{row, next})
	}
	switch safe := s.a.safe(x); {
	case next == x.seq:
	case last == nil && x.prev != 0 && x.prev < s.limiter.first:
		s.a.openEnded(logWhole, usedBefore)
	case s.a.cut[row] && (x.slots != 1 || last == nil || x.start >= s.limiter.cut || safe > 0 && x.start >= last.start+safe):
		s.hidden = x.start
		s.a.openEnded(logWhole, "numbers of starts are missing, as those of requests without an answer are in a log that was cut off")
	default: // where a log was cut off, too: the only slot was that of the missing start until then
		s.violation(MissingStart, missing("start", next, x.seq-1), s.a.place(cmp.Or(last, x)), s.a.place(x))
	}
}

const (
	maxOpen   = 512     // exchanges of a host that are remembered to be under way beyond its slots
	maxActive = 1 << 13 // exchanges that are remembered in all
)

// usedBefore is the reason where a limiter knows of starts from before the log.
const usedBefore = "a limiter that was in use before the log begins: the starts before it are in another log"

// chain checks that the start before x, as the limiter has it, is one of the logs.
func (s *sequence) chain(x *exchange) {
	if s.limiter.policy.Limiter == "" || x.flags&local != 0 {
		return
	}
	_, has := slices.BinarySearchFunc(s.xs, x.prev, func(x *exchange, at int64) int { return cmp.Compare(x.start, at) })
	switch last := s.last; {
	case x.prev == 0 && (x.seq == 1 || s.firstEnd >= x.start-slack):
	case x.prev == 0: // a limiter of one process numbers all starts in one row, which shows as much
		s.a.openIf(s.a.named[x.by].policy.Process != "" || x.seq == 0, logWhole, "a start that doesn't say which one was before it on its host (prev)")
	case last != nil && x.prev == last.start, has && x.prev < x.start, s.h.voids[x.prev]:
	case x.prev < s.limiter.first:
		s.a.openEnded(logWhole, usedBefore)
	case s.limiter.cut != never:
		s.a.openEnded(logWhole, "a start that the limiter knew of and no log has, as one that was cut off may have had it")
	default:
		s.violation(MissingStart, fmt.Sprintf("the limiter knew of a start %v before this one, which no log has", time.Duration(x.start-x.prev)), s.a.place(x))
	}
}

// gap judges the gap before x.
func (s *sequence) gap(x *exchange, limits *limits) {
	last, short := s.last, s.forgot
	s.forgot = limits.learned && s.forgets(x)
	if last == nil {
		if last = s.h.start; last == nil || s.overlaps || last.start+last.delay <= s.limiter.first {
			return
		}
	}
	s.a.tested(delaysKept)
	s.a.openIf(!limits.known, delaysKept, "how the delay is moved is believed, not derived")
	s.a.openIf(limits.known && short, delaysKept, "a delay that is shorter than refusals have taught, as far as they are in the log")
	gap := x.start - last.start
	if (last.flags|x.flags)&local != 0 {
		return // said already
	}
	switch given := s.last == nil || x.flags&unsent != 0; { // a turn is given back where a longer delay has become known
	case gap >= last.delay && (given || gap >= x.floor):
	case gap >= last.delay && x.fate == cutOff:
		s.a.openEnded(delaysKept, "a start that may have been given back unused: it has no end")
	default:
		s.violation(BrokenGap, fmt.Sprintf("%v between two starts, delay in force %v", time.Duration(gap), time.Duration(max(last.delay, x.floor))),
			s.a.place(last), s.a.place(x))
	}
	r := &s.h.report
	r.MinGap = min(time.Duration(gap), cmp.Or(r.MinGap, time.Duration(gap)))
	if !limits.FromEnd || s.last == nil || last.fate != ended || last.flags&(unsent|again) != 0 {
		return
	}
	if gap = x.start - last.end; gap < last.delay && last.flags&takenBack == 0 && !s.a.maybeBack(last, x, delaysKept) {
		s.violation(BrokenGap, fmt.Sprintf("%v between an end and the next start, delay in force %v", time.Duration(gap), time.Duration(last.delay)),
			s.a.place(last), s.a.place(x))
	}
}

// maybeBack reports whether the slot of y may have been taken back before x started, though there
// is no record of that, which leaves a promise open.
func (a *auditor) maybeBack(y, x *exchange, promise int) bool {
	whole := !a.lost && a.named[x.by].limiter.cut == never
	if safe := a.safe(y); whole || safe == 0 || y.flags&takenBack != 0 || min(x.start, y.end) < y.start+safe {
		return false
	}
	a.openEnded(promise, "a slot that may have been taken back, where the record of that is missing")
	return true
}

// provePlaces proves that never more of some exchanges, in the order of their starts, were in
// flight than there are places for each: slots of a host or, without one, those of MaxInFlight, for
// which those that ended first come first of equal starts. 0 places are no limit.
func (a *auditor) provePlaces(host string, xs []*exchange, places func(x *exchange) int) {
	var active []*exchange
	for _, x := range xs {
		most := places(x)
		if most == 0 {
			continue
		}
		if len(active) >= min(most, maxActive) { // until then it doesn't matter which of them have ended
			active = slices.DeleteFunc(active, func(y *exchange) bool {
				// Another host's request may have got its place long before that was recorded.
				return y.end <= x.start || host == "" && y.flags&takenBack != 0 && x.start >= y.start+a.safe(y)
			})
		}
		if len(active) > maxActive {
			a.openEnded(slotsKept, "more requests in flight than are counted")
			active = nil
		}
		if len(active) >= most {
			active = slices.DeleteFunc(active, func(y *exchange) bool { return a.maybeBack(y, x, slotsKept) })
		}
		if n := len(active); n >= most {
			words := fmt.Sprintf("all hosts, %d at most", most)
			if host != "" {
				words = lines.Count(most, "slot")
			}
			a.violation(BrokenConcurrency, host, fmt.Sprintf("%d in flight on %s", n+1, words), a.place(active[n-1]), a.place(x))
		}
		active = append(active, x)
		active = active[max(0, len(active)-most-maxOpen):]
	}
}

// forgets reports whether the delay after the start x, if the policy says Learned, is shorter than
// it can be. How long it is the records say, since nobody can derive which page's trouble was the
// host's. But a refusal that teaches makes it half as long again, and a ban twice as long.
func (s *sequence) forgets(x *exchange) bool {
	if x.seq == 1 {
		s.taught = 0 // a limiter that knows of no refusal
	}
	delay := float64(x.delay)
	short := delay+1000 < s.taughtUntil(x.start)
	if short || x.flags&learned != 0 && delay > s.taught {
		s.taught, s.taughtAt = delay, cmp.Or(s.last, x).start
	}
	return short
}
