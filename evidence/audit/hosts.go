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

// A host is one host, as all records about it show it.
type host struct {
	a         *auditor
	report    HostReport
	latest    uint64 // largest number of a start so far
	sequences map[*limiter]*sequence
	own       map[uint32][]*limits // limits of this host alone, by the index of the Transport
	takenBack map[startID]int64    // times at which slots were taken back, by the starts that had them
	givenUp   map[startID]bool     // starts that were given up
	givenUpAt map[int64]bool       // their times, which later starts may name as the one before
	clock     clock                // the server's, by its first Date header
	opened    map[openKind]*int    // answers that are open without a slot

	// State that the limiters before leave beyond the ends of their logs: the last start, if the
	// gap after it is kept over a restart, and a block.
	start *exchange
	hold
}

// An openKind is a kind with a separate limit: switched connections of a Transport, or its streams.
type openKind struct {
	by       uint32
	upgraded bool
}

// open returns the count of the responses of t that are open without a slot.
func (h *host) open(t *transport, upgraded bool) *int {
	if h.opened == nil {
		h.opened = map[openKind]*int{}
	}
	kind := openKind{t.index, upgraded}
	if h.opened[kind] == nil {
		h.opened[kind] = new(int)
	}
	return h.opened[kind]
}

// A startID is the number of a start in the numbering of a process, or of a limiter.
type startID struct {
	numbering string
	seq       uint64
}

// A hold is the block of a host, which holds for the processes that come after, too.
type hold struct {
	blockSet   int64 // when the last block was set
	blockEnd   int64 // end of the longest block; 0: there is none
	blockPlace place // of the record of the longest
	carried    bool  // refusals of an earlier process may still count
}

// A sequence is the work of one limiter on one host.
type sequence struct {
	h       *host
	a       *auditor
	limiter *limiter
	xs      []*exchange // in the order of their records, then of their starts
	answers []*answer   // in the order of their records
	first   int64       // the first of their times

	// By the starts before the present one.
	last     *exchange
	newest   map[string]*exchange // start with the highest number of each numbering
	forgot   bool                 // the delay after last is shorter than refusals have taught
	hidden   int64                // latest start before which one is missing, as after a kill; 0: there is none
	firstEnd int64                // when the first of its exchanges ended
	overlaps bool                 // another limiter was in use at the same time
	spans    []span               // blocks that the limiter has set or known

	// carriedGap says that the first gap, which an earlier limiter has left, was checked.
	carriedGap bool
	taught     float64 // delay that a refusal has taught last; 0: none
	taughtAt   int64   // when the refusal taught it, or earlier

	// The responses that may have changed the host's state, by time.
	moves []move
	moved int   // number of moves that were taken
	late  int64 // how long after a response the limiter may learn of it

	// The state of the host by the moves that were taken.
	hold
	inARow     tally
	probing    bool             // requests start one at a time, each a probe, until one is served
	probe      *exchange        // the last one that started as a probe, if no block was set since
	lastServed int64            // last time that the host served us
	failures   map[uint32]int64 // by resource, see fails

	// Answers such as 403, which set no block and count towards a ban.
	lastForbidden int64 // time of the last one
	forbidden     int   // number of them in a row; the smallest one, if the order of answers isn't sure
	unsureUntil   int64 // until then their order isn't sure
	fullAt        int64 // when they reached the number after which a request has to go alone; 0: not yet
}

// host returns the host that d is about.
func (a *auditor) host(d *evidence.Decision) *host {
	h := a.hosts[d.Host]
	if h == nil {
		h = &host{
			a:         a,
			report:    HostReport{Host: strings.Clone(d.Host)},
			sequences: map[*limiter]*sequence{},
			own:       map[uint32][]*limits{},
			takenBack: map[startID]int64{},
			givenUp:   map[startID]bool{},
			givenUpAt: map[int64]bool{},
		}
		a.hosts[h.report.Host] = h
	}
	return h
}

// of returns the work of t's limiter on h.
func (h *host) of(t *transport) *sequence {
	s := h.sequences[t.limiter]
	if s == nil {
		s = &sequence{
			h:        h,
			a:        h.a,
			limiter:  t.limiter,
			newest:   map[string]*exchange{},
			first:    never,
			firstEnd: never,
			late:     slack,
			failures: map[uint32]int64{},
		}
		if t.policy.Process != "" {
			s.late = settling
		}
		h.sequences[t.limiter] = s
	}
	return s
}

// judge checks the work of all limiters on h, one after the other.
func (h *host) judge() {
	// A policy record may be written after starts that it holds for.
	for _, own := range h.own {
		slices.SortStableFunc(own, func(l, m *limits) int { return cmp.Compare(l.from, m.from) })
	}
	var all []*sequence
	for _, s := range h.sequences {
		s.sort()
		all = append(all, s)
	}
	// The state that a limiter leaves is the next one's at the start.
	slices.SortFunc(all, func(s, t *sequence) int {
		return cmp.Or(cmp.Compare(s.first, t.first), cmp.Compare(s.limiter.index, t.limiter.index))
	})
	for i, s := range all {
		if i > 0 {
			s.overlaps = s.isBeside(all[i-1])
		}
		s.judge()
	}
	h.together(all)
	h.revisits(all)
}

// inOrder returns the exchanges of all sequences, in the order of their starts.
func inOrder(all []*sequence) []*exchange {
	if len(all) == 1 {
		return all[0].xs
	}
	var xs []*exchange
	for _, s := range all {
		xs = append(xs, s.xs...)
	}
	slices.SortStableFunc(xs, func(x, y *exchange) int {
		return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.seq, y.seq))
	})
	return xs
}

// isBeside reports whether s began within a delay of the last start of the sequence before, whose
// limiter was still in use.
func (s *sequence) isBeside(before *sequence) bool {
	last := before.last
	if last == nil || last.start+last.delay <= s.first {
		return false
	}
	return before.limiter.last > s.limiter.first
}

// sort puts the starts, answers and blocks in the order of their times.
func (s *sequence) sort() {
	// Records are made a little after their starts, and each process has a separate log. If starts
	// have one time, their numbers give the order.
	slices.SortStableFunc(s.xs, func(x, y *exchange) int {
		return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.seq, y.seq))
	})
	for _, x := range s.xs {
		s.takeBack(x)
		if x.fate == unknown && !x.has(takenBack) { // it holds its slot to the end of the crawl
			x.end = never
		}
		s.first = min(s.first, x.start)
		plain := x.has(serves) && !x.has(resent|kept)
		if plain && len(s.answers) > 0 { // without other answers a success changes nothing
			s.moves = append(s.moves, move{at: x.answered, x: x})
		}
	}
	for _, n := range s.answers {
		at := n.at
		if b := n.block; b != nil {
			at = b.from + 1 // it comes after the starts at its very time
			s.first = min(s.first, b.from)
		}
		s.moves = append(s.moves, move{at, n.x, n})
	}
	slices.SortStableFunc(s.moves, func(m, n move) int { return cmp.Compare(m.at, n.at) })
}

// takeBack ends x at the time at which its slot was taken back, if it was. If the record of that is
// too early to be true, it changes nothing.
func (s *sequence) takeBack(x *exchange) {
	at, ok := s.h.takenBack[startID{s.a.indexed[x.by].numbering, x.seq}]
	earliest := x.start + s.a.safe(x)
	if !ok || at < earliest-slack {
		return
	}
	// The record is made up to slack after the slot was free.
	until := max(at-slack, earliest)
	if x.fate != ended || x.end > until {
		x.end = until
		x.flags |= takenBack
	}
}

// judge checks each start of the sequence, in the order of their times, against everything before
// it.
func (s *sequence) judge() {
	h := s.h
	if !s.overlaps {
		s.hold = h.hold // a block of the limiter before continues
	}
	for i, x := range s.xs {
		// The limits in force apply, whatever delay and slots the record gives.
		limits := h.limits(x)
		slots := uint32(limits.Slots)
		x.delay = max(x.delay, int64(limits.DelayMin))
		x.slots = min(cmp.Or(x.slots, slots), slots)
		// First the state of the host at this start, then the start itself: by its number, by the
		// start before it, by the time since, and by the state.
		s.moveBefore(x)
		s.number(x)
		s.chain(x)
		s.gap(x, limits)
		s.block(x)
		isLast := i+1 == len(s.xs)
		s.ending(x, isLast)
		s.last = x
	}
	s.move(never) // answers after the last start
	s.a.proveInFlight(s.xs, bound{
		promise: slotsKept,
		kind:    BrokenConcurrency,
		host:    h.report.Host,
		most:    s.slots,
		where:   func(most int) string { return lines.Count(most, "slot") },
	})
	if s.last != nil && s.last.delay > lasting { // otherwise it isn't kept over a restart
		h.start = s.last
	}
	// Of two limiters at one time, the longer block holds.
	if s.blockEnd > h.blockEnd || !s.overlaps {
		h.hold = s.hold
		h.carried = s.probing || s.carried
	}
}

// slots returns how many requests may be in flight when x starts; 0: there is no limit.
func (s *sequence) slots(x *exchange) int {
	if x.slots == 0 || x.has(local) {
		return 0
	}
	s.a.tested(slotsKept)
	return int(x.slots)
}

const (
	stopsUnderWay = "the log stops while requests are under way, as after a kill, " +
		"or where bodies are never closed: these have no end"
	bytesUnknown  = "how much was read of a request that has no end"
	answerUnknown = "the response to a request that has no end"
)

// ending checks the end of x.
func (s *sequence) ending(x *exchange, isLast bool) {
	switch {
	case x.fate == ended:
		s.firstEnd = min(s.firstEnd, x.end)
	case x.has(takenBack):
	case x.fate == unknown:
		s.violation(MissingEnd, "a start without an end", s.a.place(x))
	case x.fate == cutOff:
		s.a.openEnded(everyStartEnded, stopsUnderWay)
		s.a.openIf(s.a.indexed[x.by].policy.Bytes > 0, budgetKept, bytesUnknown)
		s.a.openIf(!isLast && !x.has(kept), blocksKept, answerUnknown) // it concerns later starts only
	}
}

const (
	noNumbers   = "starts without numbers: whether some are missing isn't known"
	mayBeCutOff = "numbers of starts are missing, as those of requests without a response are in a log that was cut off"
	usedBefore  = "a limiter that was in use before the log begins: the starts before it are in another log"
)

// number checks that the start x has the number that comes next in its numbering. A start that was
// given up explains one hole.
func (s *sequence) number(x *exchange) {
	if x.seq == 0 {
		s.a.openEnded(logWhole, noNumbers)
		return
	}
	numbering := s.a.indexed[x.by].numbering
	if s.h.givenUp[startID{numbering, x.seq}] {
		s.violation(MissingStart, fmt.Sprintf("start %d was given up", x.seq), s.a.place(x))
	}
	last := s.newest[numbering]
	next := uint64(1)
	if last != nil && x.seq > 1 { // a limiter that forgets a host begins with 1 again
		next = last.seq + 1
	}
	if x.seq < next { // twice the same, or out of order
		detail := fmt.Sprintf("start %d comes after start %d", x.seq, last.seq)
		s.violation(MissingStart, detail, s.a.place(last), s.a.place(x))
		return
	}
	s.newest[numbering] = x
	// The numbers in between may have been given up. Each explains one hole, so it is forgotten
	// then.
	for next < x.seq && s.h.givenUp[startID{numbering, next}] {
		delete(s.h.givenUp, startID{numbering, next})
		next++
	}
	switch {
	case next == x.seq: // there is no hole
	case last == nil && x.prev != 0 && x.prev < s.limiter.first:
		s.a.openEnded(logWhole, usedBefore)
	case s.a.cut[numbering] && s.mayBeLost(x, last):
		s.hidden = x.start
		s.a.openEnded(logWhole, mayBeCutOff)
	default:
		s.violation(MissingStart, missing("start", next, x.seq-1), s.a.place(cmp.Or(last, x)), s.a.place(x))
	}
}

// mayBeLost reports whether the starts that are missing between last and x may have been lost with
// the end of a log that was cut off.
func (s *sequence) mayBeLost(x, last *exchange) bool {
	if x.slots != 1 || last == nil || x.start >= s.limiter.cut {
		return true
	}
	// The host's only slot was that of the missing start until its log was cut off, so x can't have
	// started unless that slot was taken back.
	safe := s.a.safe(x)
	return safe > 0 && x.start >= last.start+safe
}

const (
	noPrev   = "a start that doesn't say which one was before it on its host (prev)"
	prevLost = "a start that the limiter knew of and no log has, as one that was cut off may have had it"
)

// chain checks that the start before x, as the limiter has it, is one of the logs.
func (s *sequence) chain(x *exchange) {
	if s.limiter.policy.Limiter == "" || x.has(local) {
		return
	}
	switch {
	case x.prev == 0 && (x.seq == 1 || s.firstEnd >= x.start-slack): // a limiter names starts that have ended
	case x.prev == 0:
		// A limiter of one process has one numbering for all starts, which shows as much.
		s.a.openIf(s.a.indexed[x.by].policy.Process != "" || x.seq == 0, logWhole, noPrev)
	case s.hasPrev(x):
	case x.prev < s.limiter.first:
		s.a.openEnded(logWhole, usedBefore)
	case s.limiter.cut != never:
		s.a.openEnded(logWhole, prevLost)
	default:
		before := time.Duration(x.start - x.prev)
		detail := fmt.Sprintf("the limiter knew of a start %v before this one, which no log has", before)
		s.violation(MissingStart, detail, s.a.place(x))
	}
}

// hasPrev reports whether a log has the start before x that the limiter names. It may have been
// given up.
func (s *sequence) hasPrev(x *exchange) bool {
	isLast := s.last != nil && x.prev == s.last.start
	if isLast || s.h.givenUpAt[x.prev] {
		return true
	}
	byStart := func(x *exchange, at int64) int { return cmp.Compare(x.start, at) }
	_, ok := slices.BinarySearchFunc(s.xs, x.prev, byStart)
	return ok && x.prev < x.start
}

const (
	ownFormula  = "how the delay is moved is believed, not derived"
	taughtMore  = "a delay that is shorter than refusals have taught, as far as they are in the log"
	mayBeUnused = "a start that may have been given back unused: it has no end"
)

// gap checks the gap before x.
func (s *sequence) gap(x *exchange, limits *limits) {
	short := s.forgot
	s.forgot = limits.learned && s.forgets(x)
	last := s.last
	if last == nil {
		last = s.h.start // of the limiter before
		if last == nil || s.overlaps || last.start+last.delay <= s.limiter.first {
			return
		}
		s.carriedGap = true
	}
	s.a.tested(delaysKept)
	s.a.openIf(!limits.known, delaysKept, ownFormula)
	s.a.openIf(limits.known && short, delaysKept, taughtMore)
	gap := x.start - last.start
	if last.has(local) || x.has(local) {
		return // open since their starts: the limiter's server didn't know of them
	}
	// A start that was given back needn't keep its own crawl-delay, which may have become longer
	// during the wait. Neither needs the first start of a limiter, if the last start was by another
	// one.
	anyFloor := s.last == nil || x.has(unsent)
	switch {
	case gap >= last.delay && (anyFloor || gap >= x.floor):
	case gap >= last.delay && x.fate == cutOff:
		s.a.openEnded(delaysKept, mayBeUnused)
	default:
		delay := time.Duration(max(last.delay, x.floor))
		detail := fmt.Sprintf("%v between two starts, delay in force %v", time.Duration(gap), delay)
		s.violation(BrokenGap, detail, s.a.place(last), s.a.place(x))
	}
	r := &s.h.report
	r.MinGap = min(time.Duration(gap), cmp.Or(r.MinGap, time.Duration(gap)))
	if limits.FromEnd && s.last != nil {
		s.gapFromEnd(x)
	}
}

// gapFromEnd checks the gap between the end of the exchange before x and the start of x.
func (s *sequence) gapFromEnd(x *exchange) {
	last := s.last
	if last.fate != ended || last.has(unsent|resent) {
		return
	}
	// A slot that was taken back, or may have been, freed the host earlier than the end says.
	gap := x.start - last.end
	if gap >= last.delay || last.has(takenBack) || s.a.mayBeBack(last, x, delaysKept) {
		return
	}
	detail := fmt.Sprintf("%v between an end and the next start, delay in force %v",
		time.Duration(gap), time.Duration(last.delay))
	s.violation(BrokenGap, detail, s.a.place(last), s.a.place(x))
}
