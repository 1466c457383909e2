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
	lifts     []lift
	expiries  []expiry
	answers   []answer
	given     map[given]bool         // numbers of starts that were given up
	own       map[uint32][]ownLimits // limits of this host alone, by Transport and number of the first start
	dates     dates                  // what Date headers say of the server's clock
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
	start  *exchange // the last start, if the gap after it is kept over a restart
	blocks []interval
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
	refusals

	last        *exchange
	active      []*exchange // those that may be in flight
	rows        map[uint32]*numbers
	hidden      int64 // latest time of a start that isn't in the log, which was cut off; 0: there is none
	absent      int   // number of such starts that were surely under way until absentUntil
	voids       int   // stamps that were given up and that a later start may name
	lesson      lesson
	forgot      bool // whether the delay of last is shorter than refusals have taught
	absentUntil int64
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
	of := func(l *limiter, at int64) *sequence {
		s := by[l]
		if s == nil {
			s = &sequence{h: h, a: a, limiter: l, first: at, rows: map[uint32]*numbers{}, firstEnd: never}
			by[l], all = s, append(all, s)
		}
		return s
	}
	for _, i := range xs {
		x := a.exchanges.at(i)
		s := of(a.named[x.by].limiter, x.start)
		s.xs = append(s.xs, i)
	}
	for i := range h.blocks {
		b := &h.blocks[i]
		s := of(b.by.limiter, b.from)
		s.blocks = append(s.blocks, b)
		s.first = min(s.first, b.from)
	}
	for _, l := range h.lifts {
		s := of(l.by.limiter, l.time)
		s.lifts = append(s.lifts, l)
	}
	for i := range h.answers {
		s := by[a.named[a.exchanges.at(h.answers[i].x).by].limiter]
		s.answers = append(s.answers, &h.answers[i])
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
		x := bySeq[given{e.row, e.seq}]
		if e.seq == 0 { // the oldest that had no end by then
			oldest := slices.IndexFunc(xs, func(i uint32) bool {
				y := a.exchanges.at(i)
				return y.flags&(takenBack|again) == 0 && y.start < e.time && (y.fate != ended || y.end > e.time) && a.named[y.by].row.index == e.row
			})
			if x = nil; oldest >= 0 {
				x = a.exchanges.at(xs[oldest])
			}
		}
		if x == nil {
			continue
		}
		ttl := a.safe(x)
		if a.named[x.by].policy != nil && e.time < x.start+ttl-slack {
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
	h, a := s.h, s.a
	if s.overlaps {
		a.openEnded(delaysKept, "a host that two limiters were used for at one time: neither knows of the other's starts (share one, by Config.Hosts)")
	}
	for key := range h.given {
		if len(s.xs) > 0 && a.named[a.exchanges.at(s.xs[0]).by].limiter == s.limiter && key.seq > 0 {
			s.voids++
		}
	}
	s.judgeAnswers()
	for i := range s.xs {
		x := a.exchanges.at(s.xs[i])
		limits := h.limits(x)
		s.number(x)
		s.chain(x)
		forgot := s.forgot
		s.keepsToLimits(x, limits)
		s.gap(x, limits, forgot)
		s.block(x)
		s.slot(x)
		s.endless(x, i)
		if x.fate == ended {
			s.firstEnd = min(s.firstEnd, x.end)
		}
		s.last = x
	}
	if s.last != nil && s.last.delay > kept {
		h.owed.start = s.last
	}
	h.owed.blocks = append(s.inForce, s.intervals...)
}

func (s *sequence) violation(kind Kind, detail string, at ...place) {
	s.a.violation(kind, s.h.report.Host, detail, at...)
}

// number checks that the start x has the number that comes next in its row.
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
		if s.a.named[x.by].policy != nil {
			s.a.openEnded(logWhole, "starts without numbers: whether some are missing isn't known")
		}
		return
	case x.seq == 1 && last != nil: // the limiter had forgotten the host
	case x.seq < n.next:
		s.violation(MissingStart, fmt.Sprintf("start %d comes after start %d", x.seq, n.next-1), s.a.place(last), s.a.place(x))
		return
	case x.seq > n.next:
		s.missing(r, n.next, last, x)
	}
	n.next = x.seq + 1
}

// missing judges that the numbers from next up to that of x are missing, where last is the start
// before them. One that was given up explains one hole.
func (s *sequence) missing(r *row, next uint64, last, x *exchange) {
	lost, from, upTo := 0, next, x.seq
	for seq := next; seq < x.seq && lost < maxOpen; seq++ {
		if n := (given{r.index, seq}); s.h.given[n] {
			delete(s.h.given, n)
			continue
		}
		if lost++; lost == 1 {
			from = seq
		}
		upTo = seq
	}
	if lost == maxOpen {
		upTo = x.seq - 1
	}
	lines := []place{s.a.place(x)}
	if last != nil {
		lines = append(lines, s.a.place(last))
	}
	cut := r.cutRun()
	switch {
	case lost == 0:
	case last == nil && x.prev != 0 && x.prev < s.limiter.first:
		s.a.openEnded(logWhole, "a limiter that was in use before the log begins: the starts before it are in another log")
	case cut != nil && s.absence(cut, lost, last, x):
	default:
		s.violation(MissingStart, missing("start", from, upTo), lines...)
	}
}

// absence takes it that so many starts before x were under way when the log r was cut off, and
// reports whether that can be: there were slots for them, and one for x.
func (s *sequence) absence(r *run, lost int, last, x *exchange) bool {
	until, safe := r.until(), s.a.safe(x)
	switch {
	case until <= x.start:
	case safe > 0 && (last == nil || x.start-last.start >= safe):
		s.a.openEnded(slotsKept, takenByAbsent)
	default:
		if s.absent, s.absentUntil = s.absent+lost, until; safe > 0 {
			s.absentUntil = min(until, last.start+safe)
		}
		if s.absent >= int(x.slots) && int(x.slots) > 0 {
			s.absent = 0
			return false
		}
	}
	s.a.openEnded(logWhole, "numbers of starts are missing, as those of requests without an answer are in a log that was cut off")
	s.hidden = x.start
	return true
}

// maxOpen is how many exchanges of a host are remembered to be under way beyond its slots.
const maxOpen = 512

// takenByAbsent is the reason where a slot was held for so long that it may have been taken back.
const takenByAbsent = "a slot that a request which isn't in the log may have taken back"

// chain checks that the start before x, as the limiter has it, is one of the logs.
func (s *sequence) chain(x *exchange) {
	if !s.limiter.named || x.flags&local != 0 {
		return
	}
	switch last := s.last; {
	case x.prev == 0 && (x.seq == 1 || s.firstEnd >= x.start-slack):
	case x.prev == 0: // a limiter of one process numbers all starts in one row, which shows as much
		if p := s.a.named[x.by].policy; p == nil || p.Process != "" || x.seq == 0 {
			s.a.openEnded(logWhole, "a start that doesn't say which one was before it on its host (prev)")
		}
	case last != nil && x.prev == last.start, x.prev < x.start && s.has(x.prev):
	case x.prev < s.limiter.first:
		if last != nil {
			s.a.openEnded(logWhole, "a limiter that doesn't know of the last start, as one that has lost data")
		} else {
			s.a.openEnded(logWhole, "a limiter that was in use before the log begins: the starts before it are in another log")
		}
	case s.voids > 0:
		s.voids-- // it was given up since
	case s.limiter.cuts != nil:
		s.a.openEnded(logWhole, "a start that the limiter knew of and no log has, as one that was cut off may have had it")
	default:
		s.violation(MissingStart, fmt.Sprintf("the limiter knew of a start %v before this one, which no log has", time.Duration(x.start-x.prev)), s.a.place(x))
	}
}

// has reports whether a start has the given stamp.
func (s *sequence) has(at int64) bool {
	_, ok := slices.BinarySearchFunc(s.xs, at, s.byStart)
	return ok
}

func (s *sequence) byStart(i uint32, at int64) int {
	return cmp.Compare(s.a.exchanges.at(i).start, at)
}

// keepsToLimits holds the start x to the limits in force, whatever it says of its turn: where a
// delay or slots were declared away, the starts show whether they were kept all the same.
func (s *sequence) keepsToLimits(x *exchange, limits *hostLimits) {
	if limits == nil {
		if x.slots > 0 {
			s.a.openEnded(slotsKept, noPolicy)
		}
		return
	}
	s.forgot = limits.learned && s.lesson.start(s, x)
	x.delay = max(x.delay, int64(limits.DelayMin))
	x.slots = min(cmp.Or(x.slots, uint32(limits.Slots)), uint32(limits.Slots))
}

// gap judges the gap before x; forgot says that the delay before it was shorter than refusals have
// taught.
func (s *sequence) gap(x *exchange, limits *hostLimits, forgot bool) {
	last := s.last
	if last == nil {
		if last = s.h.owed.start; last == nil || s.overlaps || last.start+last.delay <= s.limiter.first {
			return
		}
	}
	s.a.tallies[delaysKept].tested++
	switch {
	case limits == nil:
		s.a.openEnded(delaysKept, noPolicy)
	case !limits.known:
		s.a.openEnded(delaysKept, "how the delay is moved is believed, not derived")
	case forgot && s.last != nil:
		s.a.openEnded(delaysKept, "a delay that is shorter than refusals have taught, as far as they are in the log")
	}
	gap := x.start - last.start
	switch {
	case (last.flags|x.flags)&local != 0: // said already
		return
	case gap < last.delay:
		s.tooClose(last, x)
	case gap >= x.floor, s.last == nil, x.flags&unsent != 0: // a turn is given back where a longer delay has become known
	case x.fate == cutOff:
		s.a.openEnded(delaysKept, "a start that may have been given back unused: it has no end")
	default:
		s.tooClose(last, x)
	}
	r := &s.h.report
	r.MinGap = min(time.Duration(gap), cmp.Or(r.MinGap, time.Duration(gap)))
	if limits == nil || !limits.FromEnd || s.last == nil || last.fate != ended || last.flags&(unsent|takenBack|again) != 0 {
		return
	}
	switch gap, safe := x.start-last.end, s.a.safe(last); {
	case gap >= last.delay:
	case s.hidden != 0:
		s.a.openEnded(delaysKept, takenByAbsent)
	case safe > 0 && last.end > last.start+safe && s.limiter.cutBeside(x) < x.start:
		s.a.openEnded(delaysKept, "a gap from an end, where the record that its slot was taken back may have been cut off")
	default:
		s.violation(BrokenGap, fmt.Sprintf("%v between an end and the next start, delay in force %v", time.Duration(gap), time.Duration(last.delay)),
			s.a.place(last), s.a.place(x))
	}
}

func (s *sequence) tooClose(last, x *exchange) {
	detail := fmt.Sprintf("%v between two starts, delay in force %v", time.Duration(x.start-last.start), time.Duration(max(last.delay, x.floor)))
	s.violation(BrokenGap, detail, s.a.place(last), s.a.place(x))
}

// slot counts what is in flight when x starts.
func (s *sequence) slot(x *exchange) {
	s.active = slices.DeleteFunc(s.active, func(y *exchange) bool { return y.heldUntil() <= x.start })
	if s.absent > 0 && x.start >= s.absentUntil {
		if len(s.active)+s.absent >= int(x.slots) && int(x.slots) > 0 {
			s.a.openEnded(slotsKept, takenByAbsent)
		}
		s.absent = 0
	}
	if slots := int(x.slots); slots > 0 && x.flags&local == 0 {
		s.a.tallies[slotsKept].tested++
		for len(s.active)+s.absent >= slots {
			with := s.a.beside(s.active, x, s.limiter, s.hidden != 0)
			y := with.y
			if with.n+s.absent < slots {
				break
			}
			if s.absent > 0 {
				s.violation(MissingStart, "starts are missing, and their slots were others' before the log stops", s.a.place(x))
				s.absent = 0
				continue
			}
			if y.fate != cutOff {
				s.violation(BrokenConcurrency, fmt.Sprintf("%d in flight on %s", with.n+1, lines.Count(slots, "slot")), s.a.place(y), s.a.place(x))
				break
			}
			// It wasn't under way until its log was cut off: x couldn't have got a slot then.
			s.violation(MissingEnd, "a start without an end, and its slot was another's before the log stops", s.a.place(y), s.a.place(x))
			s.active = slices.DeleteFunc(s.active, func(o *exchange) bool { return o == y })
		}
	}
	if x.heldUntil() > x.start && x.flags&local == 0 {
		if len(s.active) >= maxOpen+int(x.slots) {
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

// inFlight is how many were surely in flight beside a start, and one of them.
type inFlight struct {
	n int
	y *exchange
}

// beside counts which of active were surely in flight when x started: not those whose slots may
// have been taken back by one whose log was cut off before it had the record of that.
func (a *auditor) beside(active []*exchange, x *exchange, l *limiter, hidden bool) (in inFlight) {
	for _, y := range active {
		if safe := a.safe(y); y.flags&takenBack == 0 && safe > 0 && x.start >= y.start+safe {
			switch {
			case hidden:
				a.openEnded(slotsKept, takenByAbsent)
				continue
			case y.fate == cutOff || l.cutBeside(x) < x.start:
				a.openEnded(slotsKept, "a slot that may have been taken back, where the record of that may have been cut off")
				continue
			}
		}
		in.n++
		if in.y == nil || in.y.fate != cutOff {
			in.y = y
		}
	}
	return in
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
		if i+1 < len(s.xs) && x.flags&told == 0 {
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
			if in := a.beside(active, x, l, false); in.n >= most {
				a.violation(BrokenConcurrency, "", fmt.Sprintf("%d in flight on all hosts, %d at most", in.n+1, most), a.place(in.y), a.place(x))
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
	least, seen int64 // the delay when it was seen last, and when; 0: none was taught
	eased       int64 // earliest time at which it can have become shorter, or was taught, last
	steps       int   // that may have made it shorter since the last refusal
	taught      int   // number of blocks so far
}

// each is how much time is between two steps that make a learned delay shorter.
const each = 20 * slack

// start takes the start x, and reports whether the delay after it is shorter than it may be.
func (l *lesson) start(s *sequence, x *exchange) (short bool) {
	for ; l.taught < len(s.blocks) && s.blocks[l.taught].from < x.start; l.taught++ {
		l.teach(s, s.blocks[l.taught])
	}
	switch {
	case x.seq == 1:
		*l = lesson{taught: l.taught} // a limiter that knows of no refusal, as far as is known
	case l.least > x.delay:
		least := float64(l.least)
		for range int(min((x.start-l.eased)/each, (x.start-l.seen)/each+1, 1000)) {
			least *= 1 - float64(min(16, int(2)<<min(l.steps/5, 3)))/100
			l.steps++
		}
		short = float64(x.delay+1000) < least && least > float64(s.a.named[x.by].policy.DelayMin)
		l.least, l.eased = 0, l.seen
	}
	if x.flags&learned != 0 && x.delay >= l.least {
		if x.delay > l.least && l.least > 0 || l.eased == 0 {
			l.eased = l.seen
		}
		l.least, l.seen = x.delay, x.start
	}
	return short
}

// teach takes the block b.
func (l *lesson) teach(s *sequence, b *block) {
	if b.x == none || b.kind < unsure || b.extends {
		return
	}
	l.steps = 0
	limits := s.h.limits(s.a.exchanges.at(b.x))
	factor := 1.5
	switch {
	case limits == nil || !limits.learned || b.refusals != 1 || s.lacks(s.a.exchanges.at(b.x), b.from):
		return
	case b.kind == forbidden:
		factor = 2
	case b.kind != refusing || !b.answer.teaches:
		return
	}
	taught := int64(factor * float64(max(int64(limits.DelayMin), l.least)))
	l.least, l.seen, l.eased = max(l.least, min(taught, int64(limits.Ceiling))), b.from, b.from
}
