package audit

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

const (
	// lag is how many starts of a host may be logged before one that came earlier. Starts are
	// numbered and stamped under the limiter's lock, but logged afterwards, each by its own
	// goroutine and once its request is out: one that is answered slowly comes after many that were
	// quick.
	lag = 1 << 14
	// lagUnnumbered is lag where starts aren't numbered: they are put in the order of their stamps,
	// and a hole in them can't be seen.
	lagUnnumbered = 1024
	// lagBack is lag where the numbers have gone back.
	lagBack = 64
	// maxOpen is how many exchanges of a host may be under way, if it doesn't have more slots than
	// that.
	maxOpen = 512
	// maxRecent is how many starts of a host are remembered, in case a block is logged late.
	maxRecent = 16
	// maxBlocks is how many blocks of a host may be in force at once.
	maxBlocks = 64
)

// An exchangeKey tells the exchanges of a host apart: by the number of the start, or, where the
// limiter doesn't number them, by trip and attempt.
type exchangeKey struct {
	seq, trip uint64
	attempt   int
}

func keyOf(d *evidence.Decision) exchangeKey {
	if d.Seq != 0 {
		return exchangeKey{seq: d.Seq}
	}
	return exchangeKey{trip: d.Trip, attempt: d.Attempt}
}

// An asker is what every record of one request repeats: the agent, how many redirects led to the
// request, and whether it is for robots.txt.
type asker struct {
	agent     uint64 // hash of the name; 0 where the record doesn't name it
	redirects int
	robotsTxt bool
}

func askerOf(d *evidence.Decision) asker {
	k := asker{redirects: d.Redirects, robotsTxt: d.RobotsTxt}
	if name := cmp.Or(d.Transport, d.Agent); name != "" {
		k.agent = maphash.String(seed, name)
	}
	return k
}

// disagree is what is wrong with records whose askers differ.
const disagree = "give different agents, redirects or robotsTxt"

// agrees reports whether d may be about the same request. A record needn't name the agent.
func (k asker) agrees(d *evidence.Decision) bool {
	other := askerOf(d)
	if k.agent == 0 || other.agent == 0 {
		k.agent = other.agent
	}
	return k == other
}

// An exchange is one request from its start to its end.
type exchange struct {
	key      exchangeKey
	at       place
	run      *run
	url      uint64 // hash of the URL
	resource uint64 // hash of what it has behind its host
	trip     uint64
	attempt  int
	asker    asker
	seq      uint64
	start    time.Time
	end      time.Time // zero: not known yet
	delay    time.Duration
	floor    time.Duration // the request's own crawl-delay
	slots    int
	page     bool
	moved    time.Time // when its answer moved the host's state
	by       *transport
	status   int       // of its answer, as the record of what that did to the host says
	statusAt place     // of that record; zero: there is none
	set      *past     // block that its answer set
	cleared  bool      // whether its answer lifted a block
	next     *exchange // first start after it, whose gap counts from the end of this one
	expired  bool      // whether its slot was taken back
	leaked   bool      // whether that was so at a time that the log does not tell for sure
	gone     bool      // whether its end is known, or is no longer waited for
	unsent   bool      // whether the turn was given back unused
	endless  bool      // the log was cut off while it was in flight; end is then a lower bound
	absent   bool      // whether no record tells of it: only its number is missing
	unpaced  bool      // whether what its answer does to the delay doesn't count any more
	learned  bool      // whether its delay is one that refusals have taught, as its record says
	forgot   bool      // whether its delay is shorter than they have taught
	hurried  *exchange // the start before, if it was closer than this one's own crawl-delay

	// What is known until it is clear whether there was a slot for this exchange.
	beside  int         // number of others that were surely in flight when it started
	with    *exchange   // one of them
	waiting []*exchange // others that were too, unless they turn out to have ended before
}

type blockAudit struct {
	at          place
	run         *run // log that tells of it
	from, until time.Time
	end         string // what ends it; empty: its own
}

// A hostAudit proves what was done to one host. A start goes through it in three steps: it is
// pending until those before it have been proved, since each goroutine logs for itself; its gap,
// the blocks and its slot are proved then; and it stays open until its end is logged.
type hostAudit struct {
	a      *auditor
	name   string
	report *hostTotal

	pending     []*exchange               // starts whose predecessors haven't been proved, in the order of time
	next        uint64                    // number of the start that comes next; 0: none has come yet, so 1
	missing     uint64                    // number of the start that pending waits for; 0 where it wasn't looked for yet
	givenUp     map[uint64]bool           // numbers of starts that were given up; true: nobody else can have got them
	last        *exchange                 // last exchange whose turn was proved
	earlier     *exchange                 // last start in an earlier log, if the gap after it is kept over a restart
	recent      []*exchange               // last few of those
	inside      []*exchange               // exchanges in flight when last started, as far as is known
	unsure      []*exchange               // exchanges of which it isn't clear yet whether they had a slot
	unclearEnds []*exchange               // exchanges that may have lost their slots before the start after them, if the log tells that yet
	open        map[exchangeKey]*exchange // exchanges whose end hasn't been logged
	blocks      []blockAudit              // blocks in force
	past        []*past                   // last few blocks, in force or not
	run         series                    // answers such as 403 in a row
	forbade     time.Time                 // time of the last of them
	suspects    []*suspect                // pages that were refused last
	served      time.Time                 // last time that the host served us
	accused     []accusation              // what may be wrong with the last answers
	lesson      lesson                    // what refusals have taught of the delay
	pace        pace                      // what response times have made of it

	own    []ownLimits          // limits of this host alone, by number of the first start that they hold for
	leaked map[uint64]time.Time // when starts lost their slots that aren't logged yet, by number
	dates  dates                // what Date headers say of the server's clock
	absent time.Time            // latest time of a start that isn't in the log, which was cut off; zero: there is none
}

// An ownLimits is a policy of one host.
type ownLimits struct {
	seq    uint64 // first start that it holds for; 0: those that come later in the log
	by     *transport
	limits *hostLimits
}

// maxOwn is how many changes of a host's limits are remembered.
const maxOwn = 64

// override takes limits of this host alone, as the present Transport has met them: each tells of
// those of its own starts.
func (h *hostAudit) override(seq uint64, p *evidence.Policy) {
	if seq == 0 {
		seq = h.next
	}
	i, _ := slices.BinarySearchFunc(h.own, seq, func(o ownLimits, seq uint64) int { return cmp.Compare(o.seq, seq) })
	h.own = slices.Insert(h.own, i, ownLimits{seq, h.a.by, newHostLimits(p)})
	if len(h.own) > maxOwn {
		h.forgetOwn()
	}
}

// forgetOwn forgets the oldest limits after which the same Transport has told of others.
func (h *hostAudit) forgetOwn() {
	for i, o := range h.own {
		if slices.ContainsFunc(h.own[i+1:], func(later ownLimits) bool { return later.by == o.by }) {
			h.own = slices.Delete(h.own, i, i+1)
			return
		}
	}
}

// limits returns what limits hold for x, nil where no policy tells.
func (h *hostAudit) limits(x *exchange) *hostLimits {
	for i := len(h.own) - 1; i >= 0; i-- {
		if o := h.own[i]; o.seq <= x.seq && o.by == x.by {
			return o.limits
		}
	}
	return x.by.limits
}

func newHostAudit(a *auditor, report *hostTotal) *hostAudit {
	return &hostAudit{a: a, name: report.Host, report: report, open: map[exchangeKey]*exchange{}}
}

// kept is the delay above which a gap is kept over a restart.
const kept = time.Minute + slack

// successor returns what the next log begins with, nil if nothing is owed.
func (h *hostAudit) successor() *hostAudit {
	next := newHostAudit(h.a, h.report)
	for _, b := range h.blocks {
		if b.until.After(h.a.report.Last) {
			next.blocks = append(next.blocks, b)
		}
	}
	if next.earlier = h.last; h.last == nil {
		next.earlier = h.earlier
	}
	if x := next.earlier; x != nil && (x.delay <= kept || !x.start.Add(x.delay).After(h.a.report.Last)) {
		next.earlier = nil
	}
	if next.earlier == nil && next.blocks == nil {
		return nil
	}
	return next
}

func (h *hostAudit) violation(kind Kind, detail string, at ...place) {
	h.a.violation(kind, h.name, detail, at...)
}

// start takes a start as it is logged.
func (h *hostAudit) start(x *exchange) {
	h.a.report.Proofs.Ends++
	h.lost(h.open[x.key])
	h.open[x.key] = x
	if at, ok := h.leaked[x.seq]; ok {
		delete(h.leaked, x.seq)
		defer h.expire(x, at)
	}
	if len(h.open) > max(maxOpen, x.slots) {
		h.lost(h.oldest())
	}
	i, _ := slices.BinarySearchFunc(h.pending, x, func(a, b *exchange) int {
		return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.seq, b.seq))
	})
	h.pending = slices.Insert(h.pending, i, x)
	if x.seq == h.missing {
		h.missing = 0
	}
	h.release(false)
}

// release proves the pending starts whose predecessors are known, or all of them at the end of the
// log.
func (h *hostAudit) release(all bool) {
	for len(h.pending) > 0 {
		next := max(h.next, 1)
		for ; h.givenUp[next]; next++ {
			delete(h.givenUp, next)
		}
		h.next = next
		i := -1
		if h.missing != next {
			if i = slices.IndexFunc(h.pending, func(x *exchange) bool { return x.seq == next }); i == -1 {
				h.missing = next
			}
		}
		switch first := h.pending[0]; {
		case i == -1 && h.last == nil && h.report.next > 1 && first.seq >= h.report.next:
			// A server that several share numbers on where the log before has ended, unless the first
			// numbers are logged late.
			if !all && len(h.pending) <= lagBack {
				return
			}
			i = 0
			if !h.a.wasCut {
				h.jumped(h.report.next, first, all)
			}
		case h.wentBack(first, next, i):
			// A server that came back with old data numbers on from there. Which start is the first of
			// those shows once the ones that are logged late are there.
			if !all && len(h.pending) <= lagBack {
				return
			}
			i = 0
			h.a.openEnded(logWhole, "the numbers of a host's starts went back, as when a server has lost data: whether starts are missing there isn't known")
		case first.seq == 1 && h.last != nil && first.start.After(h.last.start):
			i = 0 // the limiter had forgotten the host and numbers anew, maybe as far as the next number by now
		case i != -1 && first.seq != 0:
		case !all && (len(h.pending) <= lagUnnumbered || first.seq != 0 && len(h.pending) <= lag):
			return
		case first.seq == 0: // starts aren't numbered: they come as they are stamped
			i = 0
		default:
			i = 0
			h.jumped(next, first, all)
		}
		x := h.pending[i]
		if i == 0 {
			h.pending[0] = nil
			h.pending = h.pending[1:] // as nearly always: nothing to move
		} else {
			h.pending = slices.Delete(h.pending, i, i+1)
		}
		h.prove(x)
	}
}

// wentBack reports whether the numbers went back between the last start and first, the earliest one
// that is pending, or between that and the i-th, which has the next number: it came so much later
// that the number was given once more.
func (h *hostAudit) wentBack(first *exchange, next uint64, i int) bool {
	switch {
	case h.last == nil || first.seq <= 1:
		return false
	case first.seq < next:
		return first.start.After(h.last.start)
	}
	return i != -1 && h.pending[i].start.Sub(first.start) > first.delay+slack
}

// giveUpStart takes the news that the start of that number was given up before anything was sent:
// stamped says whether it had its stamp by then, so that no other start has its number. Otherwise
// that may come yet.
func (h *hostAudit) giveUpStart(seq uint64, stamped bool) {
	if h.givenUp == nil {
		h.givenUp = map[uint64]bool{}
	}
	h.givenUp[seq] = stamped
	h.missing = 0
	h.release(false)
}

// inVain reports whether records declare every number from next to seq-1 unused.
func (h *hostAudit) inVain(next, seq uint64) bool {
	if seq-next > uint64(len(h.givenUp)) {
		return false
	}
	for n := next; n < seq; n++ {
		if _, ok := h.givenUp[n]; !ok {
			return false
		}
	}
	for n := next; n < seq; n++ {
		delete(h.givenUp, n)
	}
	h.a.openEnded(logWhole, "that a turn led to no start, so that its number is missing, is believed, not derived")
	return true
}

// jumped accepts x as the next start although its number isn't next, and reports the numbers in
// between as missing. end says whether all logs have ended.
func (h *hostAudit) jumped(next uint64, x *exchange, end bool) {
	lines := []place{x.at}
	if h.last != nil {
		lines = append(lines, h.last.at)
	}
	switch {
	case x.seq < next:
		h.violation(MissingStart, fmt.Sprintf("start %d comes after start %d", x.seq, next-1), lines...)
	case x.seq == next || h.inVain(next, x.seq) || h.absence(next, x, end):
	case x.seq == next+1:
		h.violation(MissingStart, fmt.Sprintf("start %d is missing", next), lines...)
	default:
		h.violation(MissingStart, fmt.Sprintf("starts %d to %d are missing", next, x.seq-1), lines...)
	}
}

// prove proves that it was x's turn when it started.
func (h *hostAudit) prove(x *exchange) {
	last := h.last
	if last == nil {
		last = h.earlier
	}
	limits := h.limits(x)
	var f formula
	if limits != nil {
		f = limits.formula
	}
	h.keepsToLimits(x, limits)
	// The first start of another process, which was told of long gaps only.
	anew := h.last == nil && (last == nil || x.by.mix == 0 || x.by != last.by) || x.seq == 1 && last.seq > 0 && x.at.log != last.at.log
	if last != nil && anew && last.delay <= kept && x.start.Sub(last.start) < last.delay {
		h.a.openEnded(delaysKept, "a process that began anew came sooner than the delay: a limiter in memory has forgotten the start before")
	}
	if last != nil && (!anew || last.delay > kept) {
		h.a.report.Proofs.Gaps++
		switch {
		case limits == nil:
			h.a.openEnded(delaysKept, noPolicy)
		case !f.known:
			h.a.openEnded(delaysKept, "how the delay is moved is believed, not derived")
		case f.learned && last.forgot:
			h.a.openEnded(delaysKept, "a delay that is shorter than refusals have taught, as far as they are in the log")
		}
		gap := x.start.Sub(last.start)
		switch {
		case gap < last.delay:
			h.tooClose(last, x)
		case gap < x.floor && !anew:
			x.hurried = last
			h.hurry(x)
		}
		h.report.MinGap = min(gap, cmp.Or(h.report.MinGap, gap))
	}
	if f.byLatency() {
		if h.last == nil || x.seq == 1 {
			h.paceBegins(x, limits)
		}
		if last != nil && !anew {
			h.paced(last, x)
		}
	}
	if limits != nil && limits.FromEnd && last != nil && !anew {
		last.next = x
		h.proveFromEnd(last)
	}
	if h.last != nil && x.by != h.last.by && x.seq > 1 && x.seq == h.last.seq+1 {
		x.by.shares(h.last.by)
	}
	h.last, h.next = x, x.seq+1
	delete(h.givenUp, x.seq)

	h.sayBefore(x.start)
	h.blocks = slices.DeleteFunc(h.blocks, func(b blockAudit) bool { return !b.until.After(x.start) })
	for _, b := range h.blocks {
		h.proveBlock(b, x)
	}
	if len(h.recent) == maxRecent {
		h.recent = slices.Delete(h.recent, 0, 1)
	}
	h.recent = append(h.recent, x)

	h.proveSlot(x)
}

// keepsToLimits holds the start x to the limits in force, whatever it says of its turn: where a
// delay or slots were declared away, the starts show whether they were kept all the same.
func (h *hostAudit) keepsToLimits(x *exchange, limits *hostLimits) {
	if limits == nil {
		if x.slots > 0 {
			h.a.openEnded(slotsKept, noPolicy)
		}
		return
	}
	x.forgot = limits.formula.learned && h.lesson.start(x)
	x.delay = max(x.delay, limits.DelayMin)
	x.slots = min(cmp.Or(x.slots, limits.Slots), limits.Slots)
}

// proveFromEnd proves the gap from the end of last to the start after it, once both are known.
func (h *hostAudit) proveFromEnd(last *exchange) {
	x := last.next
	if x == nil || last.end.IsZero() || last.leaked || last.unsent {
		return
	}
	if last.unclear(x.start) && len(h.unclearEnds) < maxOpen {
		h.unclearEnds = append(h.unclearEnds, last)
		return
	}
	h.proveGapFromEnd(last)
}

func (h *hostAudit) proveGapFromEnd(last *exchange) {
	x := last.next
	last.next = nil
	safe := last.safe()
	switch gap := x.start.Sub(last.end); {
	case gap >= last.delay:
	case safe > 0 && last.end.After(last.start.Add(safe)) && h.a.cutBefore(x.start):
		h.a.openEnded(delaysKept, "a gap from an end, where the news that its slot was taken back may have been cut off")
	default:
		h.violation(BrokenGap, fmt.Sprintf("%v between an end and the next start, delay in force %v", gap, last.delay), last.at, x.at)
	}
}

func (h *hostAudit) tooClose(last, x *exchange) {
	detail := fmt.Sprintf("%v between two starts, delay in force %v", x.start.Sub(last.start), max(last.delay, x.floor))
	h.violation(BrokenGap, detail, last.at, x.at)
}

// hurry reports x if it was sent in spite of its crawl-delay. A turn is given back where a longer
// one has become known during the wait for it.
func (h *hostAudit) hurry(x *exchange) {
	if x.hurried == nil || !x.gone {
		return
	}
	switch {
	case x.endless:
		h.a.openEnded(delaysKept, "a start that may have been given back unused: it has no end")
	case !x.unsent:
		h.tooClose(x.hurried, x)
	}
	x.hurried = nil
}

// proveSlot counts what is in flight when x starts. Ends may be logged after later starts, so the
// answer may have to wait for them.
func (h *hostAudit) proveSlot(x *exchange) {
	h.inside = slices.DeleteFunc(h.inside, func(y *exchange) bool {
		return !y.end.IsZero() && !y.end.After(x.start)
	})
	if x.slots > 0 {
		h.a.report.Proofs.Slots++
		for _, y := range h.inside {
			if y.unclear(x.start) {
				x.waiting = append(x.waiting, y)
			} else {
				x.join(y)
			}
		}
		if !h.settled(x) {
			h.unsure = append(h.unsure, x)
		}
		if len(h.unsure) > max(maxOpen, x.slots) {
			h.giveUp(h.unsure[0])
			h.unsure = slices.Delete(h.unsure, 0, 1)
		}
	}
	if x.end.IsZero() || x.end.After(x.start) {
		h.inside = append(h.inside, x)
	}
}

// join counts y, which was surely in flight when x started. One that the log tells too little of is
// named first, if they were too many.
func (x *exchange) join(y *exchange) {
	x.beside++
	if x.with == nil || !x.with.absent && !x.with.endless {
		x.with = y
	}
}

// unclear reports whether the log may yet tell that x held no slot at the given time: its end isn't
// known, or it was then so old that its slot may have been taken back. Of that tells whoever got
// the slot, or is next on any host, but only once its own headers are there.
func (x *exchange) unclear(at time.Time) bool {
	if x.end.IsZero() {
		return true
	}
	safe := x.safe()
	return x.end.After(at) && !x.leaked && safe > 0 && !at.Before(x.start.Add(safe))
}

// safe returns how long x held its slot for sure before it could be taken back, 0 where no policy
// says so.
func (x *exchange) safe() time.Duration {
	if x.by.policy == nil {
		return 0
	}
	return x.by.policy.LeaseTTL
}

// settled reports whether it is known if x had a slot, and reports it if it hadn't.
func (h *hostAudit) settled(x *exchange) bool {
	switch {
	case x.beside >= x.slots && (x.with.absent || x.with.endless):
		h.gaveWay(x.with, x)
	case x.beside >= x.slots:
		h.violation(BrokenConcurrency, fmt.Sprintf("%d in flight on %s", x.beside+1, count(x.slots, "slot")), x.with.at, x.at)
	case x.beside+len(x.waiting) >= x.slots:
		return false
	}
	x.waiting, x.with = nil, nil // which have others in turn
	return true
}

// giveUp settles x without knowing more: as far as the log goes, those without an end were in
// flight.
func (h *hostAudit) giveUp(x *exchange) {
	x.waiting = slices.DeleteFunc(x.waiting, func(y *exchange) bool { return h.a.takenUntold(y, x, !h.absent.IsZero()) })
	for _, y := range x.waiting {
		x.join(y)
	}
	x.waiting = nil
	h.settled(x)
}

// finish takes the end of x.
func (h *hostAudit) finish(x *exchange, end time.Time) {
	delete(h.open, x.key)
	x.gone = true
	h.hurry(x)
	if x.expired {
		return
	}
	x.end = end
	h.proveFromEnd(x)
	h.settle(x)
}

// settle tells those that wait to know how long x held its slot.
func (h *hostAudit) settle(x *exchange) {
	h.unsure = slices.DeleteFunc(h.unsure, func(y *exchange) bool {
		i := slices.Index(y.waiting, x)
		if i < 0 || x.unclear(y.start) {
			return false
		}
		y.waiting = slices.Delete(y.waiting, i, i+1)
		if x.end.After(y.start) {
			y.join(x)
		}
		return h.settled(y)
	})
}

// started returns the start of that number, if it is in flight, among the last, or somebody waits
// to know more of it.
func (h *hostAudit) started(seq uint64) *exchange {
	if seq == 0 {
		return nil
	}
	has := func(xs []*exchange) *exchange {
		if i := slices.IndexFunc(xs, func(x *exchange) bool { return x.seq == seq }); i >= 0 {
			return xs[i]
		}
		return nil
	}
	x := cmp.Or(has(h.pending), has(h.recent), has(h.inside))
	for i := 0; x == nil && i < len(h.unsure); i++ {
		x = has(h.unsure[i].waiting)
	}
	return x
}

// expire takes the slot from x. The record of it may be made a little after another request got the
// slot, and long after x has ended.
func (h *hostAudit) expire(x *exchange, at time.Time) {
	at = maxTime(at.Add(-slack), x.start.Add(x.safe()))
	x.leaked = true
	if x.gone {
		if x.end.After(at) {
			x.end = at
		}
		h.settle(x)
		return
	}
	h.finish(x, at)
	x.expired = true
	h.open[x.key] = x // its end may still come
}

// oldest returns the open exchange that started first and still holds a slot.
func (h *hostAudit) oldest() *exchange {
	var first *exchange
	for _, x := range h.open {
		if !x.expired && (first == nil || x.start.Before(first.start)) {
			first = x
		}
	}
	return first
}

// lost reports that x has no end.
func (h *hostAudit) lost(x *exchange) {
	if x == nil {
		return
	}
	if !x.expired {
		h.violation(MissingEnd, "a start without an end", x.at)
	}
	h.finish(x, x.start)
}

// sent returns the open exchange of the try that d tells of, nil if that can't be told.
func (h *hostAudit) sent(d *evidence.Decision) *exchange {
	var found *exchange
	for _, x := range h.open {
		if x.of(d) {
			if found != nil { // they are of Transports that number their trips alike
				return nil
			}
			found = x
		}
	}
	return found
}

// of reports whether d may be about the same try.
func (x *exchange) of(d *evidence.Decision) bool {
	return x.trip == d.Trip && x.attempt == d.Attempt && x.url == hashURL(d) && x.asker.agrees(d)
}

// mover returns the exchange whose answer moved the host's state as d says, nil if that can't be
// told.
func (h *hostAudit) mover(d *evidence.Decision) *exchange {
	if d.Trip == 0 {
		return nil
	}
	var found *exchange
	several := false // they are of Transports that number their trips alike
	look := func(x *exchange) {
		if x != found && x.of(d) {
			several = several || found != nil
			if found == nil || x.seq > found.seq {
				found = x
			}
		}
	}
	for _, x := range h.open {
		look(x)
	}
	for _, x := range h.recent {
		look(x)
	}
	if several && h.a.by.mix == 0 {
		return nil
	}
	return found
}

// settling is how long a limiter may take to learn from an answer: one that many machines share is
// asked over the network.
const settling = 3 * time.Second

// movedInTime checks the time of the record that x moved the host's state against the end d: that
// record is made after the answer, and before the end is.
func (h *hostAudit) movedInTime(x *exchange, d *evidence.Decision) {
	if x.moved.IsZero() {
		return
	}
	if x.moved.Before(x.start.Add(d.Latency-slack)) || !d.Time.IsZero() && x.moved.After(d.Time.Add(settling)) {
		h.a.contradiction("a block was set or lifted at another time than that of the answer", x.at)
	}
}

// block takes the news d that the host was blocked.
func (h *hostAudit) block(d *evidence.Decision) {
	b := blockAudit{h.a.at, h.a.run, d.Time, d.Until, ""}
	told := &past{from: d.Time, until: d.Until, refusals: d.Refusals}
	if d.Restored || strings.HasPrefix(d.Reason, "restored: ") {
		// Told by the process after the one that was refused, whose own record may be here as well.
		// Where the clock was set back in between, only this end could be kept.
		h.blocks = slices.DeleteFunc(h.blocks, func(o blockAudit) bool { return o.from.After(b.from) && o.run.over })
		h.report.banned = true // for all that is known
		h.remember(told, nil, d)
		if slices.ContainsFunc(h.blocks, func(o blockAudit) bool { return !o.until.Before(b.until) }) {
			return
		}
	}
	h.report.Blocks++
	h.a.report.Proofs.Blocks++
	if d.Hand {
		h.byHand(d.Time)
	}
	x := h.mover(d)
	if x != nil {
		told.by = x
	}
	if !d.Restored {
		h.remember(told, x, d)
	}
	h.lesson.teach(h, told, d)
	if x != nil {
		x.moved = d.Time
		x.set = told
		h.inAnswer(x, d)
		if d.Refusals == 0 { // a success that has used up a rate limit: it ends the block before
			h.lifted(d.Time)
		}
	} else if h.a.by.mix != 0 && !d.Restored && !d.Hand {
		h.a.contradiction("a block was set by no request")
	}
	for _, x := range h.recent {
		h.proveBlock(b, x)
	}
	if len(h.recent) == maxRecent && h.recent[0].start.After(b.from) {
		h.a.openEnded(blocksKept, "a block that was logged so late that the starts after it are forgotten")
	}
	if h.blocks = append(h.blocks, b); len(h.blocks) > maxBlocks {
		h.forgetBlock()
	}
}

// forgetBlock forgets the block that ends first.
func (h *hostAudit) forgetBlock() {
	first := 0
	for i, b := range h.blocks {
		if b.until.Before(h.blocks[first].until) {
			first = i
		}
	}
	h.blocks = slices.Delete(h.blocks, first, first+1)
}

// clear takes the news d that the blocks before it are lifted. A block is lifted only by a request
// that started after it was set.
func (h *hostAudit) clear(d *evidence.Decision) {
	if d.Hand {
		h.byHand(d.Time)
	}
	x := h.mover(d)
	switch {
	case x != nil:
		x.moved, x.cleared = d.Time, true
		h.tells(x)
		h.inAnswer(x, d)
	case h.a.by.mix != 0 && !d.Hand:
		h.a.contradiction("a block was lifted by no answer")
		return
	}
	h.lifted(d.Time)
	for i := range h.blocks {
		b := &h.blocks[i]
		switch {
		case !b.until.After(d.Time) || b.from.After(d.Time):
		case b.from.Equal(d.Time) && x != nil && x.set == nil: // it came after that, and is in another log
		case d.Hand:
			h.a.openEnded(blocksKept, "a block that a person has lifted")
			b.until = d.Time
		case x != nil && !x.start.After(b.from):
			h.a.contradiction("a block was lifted by a request that had started before it", b.at, x.at)
		default:
			b.until = d.Time
		}
	}
}

// lifted notes that the blocks before the given time are lifted, and the count of refusals is 0.
func (h *hostAudit) lifted(at time.Time) {
	for _, b := range h.past {
		if b.cleared.IsZero() && b.from.Before(at) {
			b.cleared = at
		}
	}
	h.run, h.served = series{}, maxTime(h.served, at)
}

// inAnswer notes what the record of a block, or of the end of one, says of the answer to x.
func (h *hostAudit) inAnswer(x *exchange, d *evidence.Decision) {
	if h.a.by.mix != 0 {
		x.status, x.statusAt = d.Status, h.a.at
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// proveBlock reports x if it started during the block b.
func (h *hostAudit) proveBlock(b blockAudit, x *exchange) {
	switch {
	case !x.start.After(b.from) || !x.start.Before(b.until):
	case h.absent.After(b.from) && !x.start.Before(h.absent):
		h.a.openEnded(blocksKept, "whether a block was lifted by a start that isn't in the log, or before it by a person")
	default:
		h.violation(BrokenBlock, fmt.Sprintf("started %v before %s", b.until.Sub(x.start), cmp.Or(b.end, "the end of a block")), b.at, x.at)
	}
}

// end settles what is open at the end of the log.
func (h *hostAudit) end() {
	h.release(true)
	for _, x := range h.unsure {
		h.giveUp(x)
	}
	h.unsure = nil
	for _, x := range h.unclearEnds {
		switch {
		case x.leaked:
		case !h.absent.IsZero():
			h.a.openEnded(delaysKept, takenByAbsent)
		default:
			h.proveGapFromEnd(x)
		}
	}
	h.unclearEnds = nil
	for _, x := range h.underWay() {
		h.lost(x)
	}
	h.settleRun(true)
	h.judgePace(true)
	for _, a := range h.accused {
		if a.run.sealed {
			a.say()
		} else {
			h.a.openEnded(blocksKept, "whether a person has blocked or cleared a host at the end of a log that was cut off")
		}
	}
	h.accused = nil
	if h.last != nil {
		h.report.next = h.next
	}
}
