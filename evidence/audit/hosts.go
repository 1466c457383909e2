package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/go-politeness/politeness/evidence/internal/lines"
)

// none is the index of no exchange.
const none = ^uint32(0)

// A host is what the records say of one host.
type host struct {
	a         *auditor
	index     uint32
	report    HostReport
	latency   time.Duration // sum of all latencies
	latencies int           // number of them
	latest    uint64        // largest number of a start so far
	xs        []uint32      // its exchanges, in the order of their records
	blocks    []block
	expiries  []expiry
	answers   []answer
	given     map[given]bool         // numbers of starts that were given up
	voids     map[int64]bool         // their stamps, which later starts may name
	own       map[uint32][]ownLimits // limits of this host alone, by Transport and number of the first start
	dates     dates                  // what Date headers say of the server's clock
	lost      int64                  // when a slot was taken back first of which it isn't known whose it was; never: none was
	owed      owed
}

// A given is the number of a start that was given up before anything was sent.
type given struct {
	row uint32
	seq uint64
}

// An expiry is the record of a slot that was taken back.
type expiry struct {
	at   place
	time int64
	row  uint32 // of the start
	seq  uint64 // its number; 0: it isn't known
	own  bool   // whether it names a trip: that of the request that lost its slot, which only knows that it has
}

// An owed is what a host is owed by the limiters before, beyond the ends of their logs.
type owed struct {
	start       *exchange // the last start, if the gap after it is kept over a restart
	from, until int64     // the block
	at          place
	left        bool // whether its refusals may count still
}

// kept is the delay above which a gap is kept over a restart.
const kept = int64(time.Minute) + slack

// A sequence is what one limiter did to one host.
type sequence struct {
	h       *host
	a       *auditor
	limiter *limiter
	xs      []uint32 // in the order of their starts
	first   int64    // the first of these
	standing

	last        *exchange
	active      []*exchange // those that may be in flight
	rows        map[uint32]*numbers
	hidden      int64 // latest time of a start that isn't in the log, which was cut off; 0: there is none
	absent      int   // number of such starts that were surely under way until absentUntil
	absentUntil int64
	lesson      lesson
	forgot      bool  // whether the delay after last is shorter than refusals have taught
	firstEnd    int64 // when the first of its exchanges ended
	overlaps    bool  // whether another limiter was in use at the same time
}

// numbers are those of one row on a host.
type numbers struct {
	next uint64 // number that comes next
	last *exchange
}

// judge judges the exchanges xs of h.
func (h *host) judge(xs []uint32) {
	a := h.a
	slices.SortFunc(xs, func(i, j uint32) int {
		x, y := a.exchanges.at(i), a.exchanges.at(j)
		return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.seq, y.seq), cmp.Compare(i, j))
	})
	by := map[*limiter]*sequence{}
	var all []*sequence
	of := func(t *transport, at int64) *sequence {
		s := by[t.limiter]
		if s == nil {
			s = &sequence{h: h, a: a, limiter: t.limiter, first: at, rows: map[uint32]*numbers{}, firstEnd: never}
			s.late, s.failed, s.unclear = slack, map[uint32]int64{}, true
			by[t.limiter], all = s, append(all, s)
		}
		if t.policy.Process != "" {
			s.late = settling
		}
		s.first = min(s.first, at)
		return s
	}
	troubled := len(h.answers)+len(h.blocks) > 0
	for _, i := range xs {
		x := a.exchanges.at(i)
		s := of(a.named[x.by], x.start)
		s.xs = append(s.xs, i)
		if x.trouble > 0 && h.answers[x.trouble-1].block == 0 || troubled && x.trouble == 0 && x.flags&(serves|again) == serves {
			s.moves = append(s.moves, move{at: x.answered, x: i})
		}
	}
	for i := range h.blocks {
		b := &h.blocks[i]
		m := move{at: b.from, x: none, block: int32(i + 1)}
		if b.x != none && h.answers[a.exchanges.at(b.x).trouble-1].block == i+1 {
			m.x = b.x
		}
		s := of(b.by, b.from)
		s.blocks, s.moves = append(s.blocks, b), append(s.moves, m)
	}
	h.takeBack(xs)
	slices.SortStableFunc(all, func(s, t *sequence) int { return cmp.Compare(s.first, t.first) })
	for i, s := range all {
		if i > 0 && all[i-1].last != nil && all[i-1].last.start+all[i-1].last.delay > s.first {
			s.overlaps = !all[i-1].limiter.before(s.limiter)
		}
		s.judge()
	}
}

// takeBack takes the slots from the exchanges that lost them.
func (h *host) takeBack(xs []uint32) {
	if len(h.expiries) == 0 {
		return
	}
	a := h.a
	bySeq := map[given]*exchange{}
	for _, i := range xs {
		x := a.exchanges.at(i)
		bySeq[given{a.named[x.by].row.index, x.seq}] = x
	}
	for _, e := range h.expiries {
		if e.seq == 0 {
			h.lost = min(h.lost, e.time-slack)
		}
		x := bySeq[given{e.row, e.seq}]
		if e.seq == 0 || x == nil {
			continue
		}
		ttl := a.safe(x)
		if e.time < x.start+ttl-slack {
			a.violation(Contradiction, h.report.Host, fmt.Sprintf("a slot was taken back %v after its start, where it is held for %v at least",
				time.Duration(e.time-x.start), time.Duration(ttl)), e.at, a.place(x))
			continue
		}
		at := max(e.time-slack, x.start+ttl)
		if e.own && x.flags&takenBack == 0 && ttl > 0 {
			at = x.start + ttl // or later: who may have got the slot since is believed to have
		}
		if x.fate != ended || x.end > at { // otherwise it had ended, and nothing was to be taken
			x.end = at
			x.flags |= takenBack
		}
	}
}

// judge judges the sequence.
func (s *sequence) judge() {
	h := s.h
	slices.SortFunc(s.blocks, func(b, c *block) int { return cmp.Compare(b.from, c.from) })
	slices.SortFunc(s.moves, func(m, n move) int {
		return cmp.Or(cmp.Compare(m.at, n.at), cmp.Compare(m.block, n.block), cmp.Compare(m.x, n.x))
	})
	if s.overlaps {
		s.a.openEnded(delaysKept, "a host that two limiters were used for at one time: neither knows of the other's starts (share one, by Config.Hosts)")
	} else {
		s.from, s.until, s.at, s.left = h.owed.from, h.owed.until, h.owed.at, h.owed.left
	}
	for i := range s.xs {
		x := s.a.exchanges.at(s.xs[i])
		limits := h.limits(x)
		s.move(x.start)
		s.number(x)
		s.chain(x)
		s.keepsToLimits(x, limits)
		s.gap(x, limits)
		s.block(x)
		s.slot(x)
		s.endless(x, i)
		if x.fate == ended {
			s.firstEnd = min(s.firstEnd, x.end)
		}
		s.last = x
	}
	s.move(never)
	if s.last != nil && s.last.delay > kept {
		h.owed.start = s.last
	}
	if s.until > h.owed.until || !s.overlaps {
		h.owed.from, h.owed.until, h.owed.at, h.owed.left = s.from, s.until, s.at, s.alone || s.left
	}
}

func (s *sequence) violation(kind Kind, detail string, at ...place) {
	s.a.violation(kind, s.h.report.Host, detail, at...)
}

// number checks that the start x has the number that comes next in its row. One that was given up
// explains one hole.
func (s *sequence) number(x *exchange) {
	r := s.a.named[x.by].row
	n := s.rows[r.index]
	if n == nil {
		n = &numbers{next: 1}
		s.rows[r.index] = n
	}
	last := n.last
	n.last = x
	if s.h.given[given{r.index, x.seq}] && x.seq > 0 {
		s.violation(MissingStart, fmt.Sprintf("start %d was given up", x.seq), s.a.place(x))
	}
	switch {
	case x.seq == 0:
		s.a.openEnded(logWhole, "starts without numbers: whether some are missing isn't known")
		return
	case x.seq == 1 && last != nil: // the limiter had forgotten the host
	case x.seq < n.next:
		s.violation(MissingStart, fmt.Sprintf("start %d comes after start %d", x.seq, n.next-1), s.a.place(last), s.a.place(x))
		return
	}
	lost, from := 0, n.next
	for seq := n.next; seq < x.seq && lost < maxOpen; seq++ {
		if g := (given{r.index, seq}); s.h.given[g] {
			delete(s.h.given, g)
		} else if lost++; lost == 1 {
			from = seq
		}
	}
	n.next = x.seq + 1
	switch cut := r.cutRun(); {
	case lost == 0:
	case last == nil && x.prev != 0 && x.prev < s.limiter.first:
		s.a.openEnded(logWhole, usedBefore)
	case cut != nil: // they were under way then, so there were slots for them
		s.a.openEnded(logWhole, "numbers of starts are missing, as those of requests without an answer are in a log that was cut off")
		if s.hidden = x.start; s.absent == 0 || x.start >= s.absentUntil {
			s.absent, s.absentUntil = 0, cut.until()
		}
		s.absent += lost
		if safe := s.a.safe(x); cut.until() <= x.start || safe > 0 && last == nil {
			s.absent = 0 // they may have ended, or lost their slots, any time
		} else if safe > 0 {
			s.absentUntil = min(s.absentUntil, last.start+safe)
		}
	default:
		s.violation(MissingStart, missing("start", from, x.seq-1), s.a.place(cmp.Or(last, x)), s.a.place(x))
	}
}

// maxOpen is how many exchanges of a host are remembered to be under way beyond its slots.
const maxOpen = 512

// usedBefore is the reason where a limiter knows of starts from before the log.
const usedBefore = "a limiter that was in use before the log begins: the starts before it are in another log"

// chain checks that the start before x, as the limiter has it, is one of the logs.
func (s *sequence) chain(x *exchange) {
	if !s.limiter.named || x.flags&local != 0 {
		return
	}
	switch last := s.last; {
	case x.prev == 0 && (x.seq == 1 || s.firstEnd >= x.start-slack):
	case x.prev == 0: // a limiter of one process numbers all starts in one row, which shows as much
		if p := s.a.named[x.by].policy; p.Process != "" || x.seq == 0 {
			s.a.openEnded(logWhole, "a start that doesn't say which one was before it on its host (prev)")
		}
	case last != nil && x.prev == last.start, x.prev < x.start && s.has(x.prev), s.h.voids[x.prev]:
	case x.prev < s.limiter.first:
		s.a.openEnded(logWhole, usedBefore)
	case s.limiter.cut != never:
		s.a.openEnded(logWhole, "a start that the limiter knew of and no log has, as one that was cut off may have had it")
	default:
		s.violation(MissingStart, fmt.Sprintf("the limiter knew of a start %v before this one, which no log has", time.Duration(x.start-x.prev)), s.a.place(x))
	}
}

// has reports whether a start has the given stamp.
func (s *sequence) has(at int64) bool {
	_, ok := slices.BinarySearchFunc(s.xs, at, func(i uint32, at int64) int { return cmp.Compare(s.a.exchanges.at(i).start, at) })
	return ok
}

// keepsToLimits holds the start x to the limits in force, whatever it says of its turn: where a
// delay or slots were declared away, the starts show whether they were kept all the same.
func (s *sequence) keepsToLimits(x *exchange, limits *hostLimits) {
	x.delay = max(x.delay, int64(limits.DelayMin))
	x.slots = min(cmp.Or(x.slots, uint32(limits.Slots)), uint32(limits.Slots))
}

// gap judges the gap before x.
func (s *sequence) gap(x *exchange, limits *hostLimits) {
	last, short := s.last, s.forgot
	s.forgot = limits != nil && limits.learned && s.forgets(x, limits)
	if last == nil {
		if last = s.h.owed.start; last == nil || s.overlaps || last.start+last.delay <= s.limiter.first {
			return
		}
	}
	s.a.tallies[delaysKept].tested++
	switch {
	case !limits.known:
		s.a.openEnded(delaysKept, "how the delay is moved is believed, not derived")
	case short:
		s.a.openEnded(delaysKept, "a delay that is shorter than refusals have taught, as far as they are in the log")
	}
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
	if limits == nil || !limits.FromEnd || s.last == nil || last.fate != ended || last.flags&(unsent|takenBack|again) != 0 {
		return
	}
	if gap = x.start - last.end; gap < last.delay && (last.end <= last.start+s.a.safe(last) || !s.maybeBack(last, x, delaysKept)) {
		s.violation(BrokenGap, fmt.Sprintf("%v between an end and the next start, delay in force %v", time.Duration(gap), time.Duration(last.delay)),
			s.a.place(last), s.a.place(x))
	}
}

// maybeBack reports whether the slot of y may have been taken back before x started, though no
// record says so, which leaves a promise open.
func (s *sequence) maybeBack(y, x *exchange, promise int) bool {
	lost := x.start >= s.h.lost
	return s.a.maybeBack(y, x, promise, lost || s.hidden != 0 || s.limiter.cut < x.start)
}

func (a *auditor) maybeBack(y, x *exchange, promise int, lacking bool) bool {
	safe := a.safe(y)
	if safe == 0 || x.start < y.start+safe || y.flags&takenBack != 0 || !lacking && y.fate != cutOff {
		return false
	}
	a.openEnded(promise, "a slot that may have been taken back, where the record of that is missing")
	return true
}

// slot counts what is in flight when x starts.
func (s *sequence) slot(x *exchange) {
	s.active = slices.DeleteFunc(s.active, func(y *exchange) bool { return y.heldUntil() <= x.start })
	slots := int(x.slots)
	if slots > 0 && x.flags&local == 0 {
		s.a.tallies[slotsKept].tested++
		switch n, y := inFlight(s.active, func(y *exchange) bool { return s.maybeBack(y, x, slotsKept) }); {
		case n+s.absent < slots:
		case n < slots && x.start >= s.absentUntil:
			s.a.openEnded(slotsKept, "a slot that a request which isn't in the log may have taken back")
			s.absent = 0
		case n < slots:
			s.violation(MissingStart, "starts are missing, and their slots were others' before the log stops", s.a.place(x))
			s.absent = 0
		case y.fate != cutOff:
			s.violation(BrokenConcurrency, fmt.Sprintf("%d in flight on %s", n+1, lines.Count(slots, "slot")), s.a.place(y), s.a.place(x))
		default:
			// It wasn't under way until its log was cut off: x couldn't have got a slot then.
			s.violation(MissingEnd, "a start without an end, and its slot was another's before the log stops", s.a.place(y), s.a.place(x))
			s.active = slices.DeleteFunc(s.active, func(o *exchange) bool { return o == y })
		}
	}
	if x.heldUntil() > x.start && x.flags&local == 0 {
		if len(s.active) >= maxOpen+slots {
			s.active = slices.Delete(s.active, 0, 1)
		}
		s.active = append(s.active, x)
	}
}

// heldUntil returns when the slot of x was free, as far as is known.
func (x *exchange) heldUntil() int64 {
	if x.fate == unknown && x.flags&takenBack == 0 {
		return never
	}
	return x.end
}

// inFlight returns how many of active were surely in flight, and one of them: not those that free
// says may have lost their slots.
func inFlight(active []*exchange, free func(*exchange) bool) (n int, y *exchange) {
	for _, o := range active {
		if free(o) {
			continue
		}
		if n++; y == nil || y.fate != cutOff {
			y = o
		}
	}
	return n, y
}

// endless judges that x, the i-th start, has no end, if it hasn't.
func (s *sequence) endless(x *exchange, i int) {
	if x.flags&takenBack != 0 {
		return
	}
	switch x.fate {
	case unknown:
		s.violation(MissingEnd, "a start without an end", s.a.place(x))
	case cutOff:
		s.a.openEnded(everyStartEnded, "the log stops while requests are under way, as after a kill, or where bodies are never closed: these have no end")
		if _, ok := s.a.named[x.by].budget.limits["bytes"]; ok {
			s.a.openEnded(budgetKept, "how much was read of a request that has no end")
		}
		if i+1 < len(s.xs) && x.trouble == 0 {
			s.a.openEnded(blocksKept, "what a request that has no end was answered")
		}
	}
}

// provePlaces proves that never more requests were in flight through l, on all hosts together, than
// MaxInFlight of the policy.
func (a *auditor) provePlaces(l *limiter) {
	slices.SortFunc(l.exchanges, func(i, j uint32) int {
		return cmp.Or(cmp.Compare(a.exchanges.at(i).start, a.exchanges.at(j).start), cmp.Compare(i, j))
	})
	var active []*exchange
	for _, i := range l.exchanges {
		x := a.exchanges.at(i)
		most := a.named[x.by].policy.MaxInFlight
		active = slices.DeleteFunc(active, func(y *exchange) bool {
			// Another host's request may have got its place long before that was recorded.
			return y.heldUntil() <= x.start || y.flags&takenBack != 0 && x.start >= y.start+a.safe(y)
		})
		if len(active) >= most {
			free := func(y *exchange) bool { return a.maybeBack(y, x, slotsKept, l.cut < x.start) }
			if n, y := inFlight(active, free); n >= most {
				a.violation(BrokenConcurrency, "", fmt.Sprintf("%d in flight on all hosts, %d at most", n+1, most), a.place(y), a.place(x))
			}
			if len(active) >= most+maxOpen {
				active = slices.Delete(active, 0, 1)
			}
		}
		active = append(active, x)
	}
}

// A lesson is what refusals have taught of a host's delay, where the policy says Learned. How long
// the delay is then the records say, since nobody can derive which page's trouble was the host's.
// What is derived is the least that they may say: the first refusal of a series and a ban make the
// delay longer by a factor, and no more than one step each 20 s makes it shorter.
type lesson struct {
	delay float64 // that was taught last; 0: none
	at    int64   // when, or before that
}

// least returns the shortest delay that may be left of the lesson at the given time.
func (l *lesson) least(at int64) float64 {
	least := l.delay
	for i := range min((at-l.at)/(20*slack), 1000) {
		least *= 1 - float64(min(16, 2<<min(i/5, 3)))/100
	}
	return least
}

// forgets reports whether the delay after the start x is shorter than the lesson lets it be, and
// takes a lesson that it shows.
func (s *sequence) forgets(x *exchange, limits *hostLimits) (short bool) {
	l, delay := &s.lesson, float64(x.delay)
	if x.seq == 1 {
		*l = lesson{} // a limiter that knows of no refusal, as far as is known
	}
	least := l.least(x.start)
	switch short = delay+1000 < least && least > float64(limits.DelayMin); {
	case short:
		*l = lesson{delay, x.start}
	case x.flags&learned != 0 && delay > l.delay:
		*l = lesson{delay, cmp.Or(s.last, x).start}
	}
	return short
}

// teach takes the block b that the answer n to x set.
func (s *sequence) teach(x *exchange, n *answer, b *block) {
	limits, factor := s.h.limits(x), 1.5
	if limits == nil || !limits.learned || b.row != 1 || b.kind == unsure || b.kind == refusing && !n.teaches || s.lacks(b.from) {
		return
	}
	if b.kind == forbidden {
		factor = 2
	}
	least := s.lesson.least(b.from)
	s.lesson = lesson{max(least, min(factor*max(float64(limits.DelayMin), least), float64(limits.Ceiling))), b.from}
}
