package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A move is a response that may have changed the state of its host, or a block that no response
// set. The moves of a sequence, by time, change that state so:
//
//	move                             the host afterwards
//	block of a response, counted     blocked until its end, then probing; its row is the record's
//	block of a response for a quota  blocked until its end; rows and probing stay
//	block found late, in a body      as its record alone states, which is open
//	block by an operator             blocked until its end; no rows, no probing
//	block of an earlier process      as by an operator; refusals of that process may count (carried)
//	end of blocks by an operator     not blocked; no rows, no probing
//	end of blocks by a response      as by an operator, if the request is newer (lift)
//	plain success                    rows of 403 and the like end, and the failures of its page
//	response without a block         unchanged: checked by uncounted and obeyed
//	no refusal for Forgive           no rows, no probing (forgiven)
type move struct {
	at int64
	x  *exchange // nil: no exchange of the log made it
	n  *answer   // nil: it is a plain success
}

// A tally is how many refusals in a row there were, by kind.
type tally [refusing + 1]int

// maxTally is the largest number of a row in records.
const maxTally = 255

// move takes the moves up to the given time.
func (s *sequence) move(until int64) {
	for s.moved < len(s.moves) && s.moves[s.moved].at <= until {
		s.step()
	}
}

// moveBefore takes the moves before the start x. A block or a response at the exact time of x comes
// after x. If an operator lifted a block at that time, and its record is before that of x in the
// log, all moves up to the lifting come before x.
func (s *sequence) moveBefore(x *exchange) {
	s.move(x.start)
	at := s.a.place(x)
	sameTime := s.moves[s.moved:min(len(s.moves), s.moved+maxOpen)]
	before := 0
	for i, m := range sameTime {
		if m.at > x.start+1 {
			break
		}
		if m.liftsByHand() && m.n.block.at.log == at.log && m.n.block.at.line < at.line {
			before = i + 1
		}
	}
	for range before {
		s.step()
	}
}

// liftsByHand reports whether an operator lifts a block by the move m.
func (m move) liftsByHand() bool {
	return m.x == nil && m.n != nil && m.n.block.hand && m.n.block.lifts
}

// step takes the next move.
func (s *sequence) step() {
	m := s.moves[s.moved]
	s.moved++ // forbid looks at the moves after it
	if m.n == nil {
		s.servedBy(m.x)
		return
	}
	if m.x != nil { // first by the state before its own block
		s.answered(m.n)
	}
	if m.n.block != nil {
		s.set(m.n.block)
	}
}

// set takes the block b.
func (s *sequence) set(b *block) {
	s.mark(b)
	if b.restored && s.blockSet > b.from {
		// The clock was set back between the processes: only the end that was restored was kept.
		s.blockEnd = 0
	}
	longer := b.until > s.blockEnd
	if !b.lifts && (longer || !b.restored) { // a shorter one that was restored is no news
		s.h.report.Blocks++
	}
	s.a.openIf(b.late, blocksKept, foundLate)
	switch {
	case b.late:
		s.inARow[b.kind] = max(s.inARow[b.kind], b.inARow) // nothing shows that it became less
		s.probing = s.probing || b.kind > silent
	case b.kind > silent:
		// The row continues from the record, which count has checked. So one mistake is reported once.
		s.inARow[b.kind] = b.inARow
		if b.kind == refusing {
			s.inARow[unsure] = 0 // a pause before it is over
		}
		s.probing = true
	case b.hand || b.restored:
		s.forgetRows(b)
	}
	if b.until > s.blockEnd { // a shorter block ends with the longer one before it
		s.blockEnd = b.until
		s.blockPlace = b.at
	}
	s.probe = nil // the block is newer than the probe
	s.blockSet = b.from
	if b.kind > silent || b.hand {
		// The limiter counts answers such as 403 from here on, and may learn late of those just
		// before it.
		s.forbidden = 0
		s.fullAt = 0
		s.unsureUntil = max(s.unsureUntil, b.from+s.late)
	}
}

const foundLate = "a refusal that the crawl has found in the body of a response"

const rowsUnknown = "the effect of an operator, or of an earlier process, on a host that had refused: " +
	"its record doesn't have the count of refusals"

// forgetRows ends the rows of refusals at the block b of an operator or an earlier process.
func (s *sequence) forgetRows(b *block) {
	liftsBlock := b.lifts && s.blockEnd > b.from
	s.a.openIf(s.probing || liftsBlock, blocksKept, rowsUnknown)
	s.inARow = tally{}
	s.probing = false
	if b.lifts {
		s.blockEnd = 0
	}
}

// lift ends the blocks, and the rows of refusals.
func (s *sequence) lift() {
	s.blockEnd = 0
	s.inARow = tally{}
	s.probing = false
	s.carried = false
	s.probe = nil
}

// block checks that x didn't start during a block or beside a probe, and notes whether x is a
// probe.
func (s *sequence) block(x *exchange) {
	s.duringBlock(x)
	s.besideProbe(x)
	s.probe = nil // one mistake is reported once
	if s.isProbe(x) {
		s.probe = x
	}
	unanswered := x.fate == cutOff && !x.has(kept)
	if x.has(undated) || unanswered {
		// At any time it may have been served, or have failed: from here on no order is sure.
		s.unsureUntil = never
		s.lastForbidden = max(s.lastForbidden, x.end)
		s.failures[x.resource] = max(0, s.failures[x.resource]) // an entry, if there is none
	}
}

const mayBeLifted = "whether a block was lifted by a start that isn't in the log, or before it by an operator"

// duringBlock checks that x didn't start during a block.
func (s *sequence) duringBlock(x *exchange) {
	switch {
	case s.blockEnd <= x.start:
	case s.hidden > s.blockSet || s.limiter.local <= x.start:
		s.a.openEnded(blocksKept, mayBeLifted)
	default:
		early := time.Duration(s.blockEnd - x.start)
		detail := fmt.Sprintf("started %v before the end of a block", early)
		s.violation(BrokenBlock, detail, s.blockPlace, s.a.place(x))
	}
}

// besideProbe checks that x didn't start before the response to the probe before it.
func (s *sequence) besideProbe(x *exchange) {
	p := s.probe
	if p == nil || x.start >= p.answered-leeway || !s.isAlone(p) {
		return
	}
	if s.lacks(p.answered) { // an operator may have lifted the block meanwhile
		return
	}
	early := time.Duration(p.answered - leeway - x.start)
	detail := fmt.Sprintf("started %v before the response to a probe", early)
	s.violation(BrokenBlock, detail, s.a.place(p), s.a.place(x))
}

// isProbe reports whether the next start after x has to wait for the response to x.
func (s *sequence) isProbe(x *exchange) bool {
	afterBlock := s.probing && !s.forgiven(x, x.start)
	afterRow := s.fullAt != 0 && x.start > s.fullAt+leeway
	return afterBlock || afterRow
}

// isAlone reports whether the probe p was alone until its answer: its slot can't have been taken
// back before, and the time of that answer is known.
func (s *sequence) isAlone(p *exchange) bool {
	if p.fate != ended || p.has(undated) {
		return false
	}
	safe := s.a.safe(p)
	return safe == 0 || p.answered-p.start <= safe-slack
}

// forgiven reports whether the refusals before x may be too long ago to count at the given time.
func (s *sequence) forgiven(x *exchange, at int64) bool {
	return at-s.blockEnd >= int64(s.a.indexed[x.by].policy.Forgive)-slack
}

// lacks reports whether records before the given time may be missing, such as a response or an
// operator's act. Then the right effect of the next response on the host is open.
func (s *sequence) lacks(at int64) bool {
	if s.limiter.cut >= at {
		return false
	}
	s.a.openEnded(blocksKept, "responses to others, or acts of an operator, before a log was cut off")
	return true
}

// answered compares the effect of the response n on the host with the right effect.
func (s *sequence) answered(n *answer) {
	// The limiter forgives when it looks at the host: at the latest, for this answer.
	if s.probing && s.forgiven(n.x, n.at) {
		s.inARow = tally{}
		s.probing = false
		s.forbidden = 0
		s.fullAt = 0
	}
	if n.cleared {
		s.cleared(n)
	}
	m := s.countsAs(n)
	if m == served {
		s.servedBy(n.x)
		if n.block != nil && s.isNewer(n.x) {
			s.lift() // the record of the block for the quota replaces the one of the lifting
		}
	}
	// An empty quota, or Retry-After, sets a block beside any answer. Such a block is no refusal.
	forQuota := (n.quota || n.after) && !n.counted()
	if n.block != nil && m <= served && !forQuota {
		s.wrong(Contradiction, n, "a block was set by a response that asks for none")
	}
	if m <= served && !n.quota && !n.rests {
		return
	}
	s.a.tested(blocksKept)
	own, before := s.fails(n, m)
	if n.counted() {
		s.count(n, m)
		return
	}
	// It set no block that counts. It was a part of another block, or only the page fails.
	until, beside := s.beside(n)
	ownTrouble := m == unsure && own
	if m > served && !beside && !ownTrouble {
		s.uncounted(n, m, before)
	}
	mustRest := n.rests
	if m == refusing {
		mustRest = beside
	}
	s.obeyed(n, mustRest, until)
}

// isNewer reports whether x started after the last block was set. The response to an older request
// belongs to that block.
func (s *sequence) isNewer(x *exchange) bool { return x.start > s.blockSet }

// cleared checks that the response n was right to lift the blocks, and lifts them.
func (s *sequence) cleared(n *answer) {
	switch {
	case n.meaning != served:
		s.wrong(Contradiction, n, "a block was lifted by a response that isn't a success")
	case s.blockEnd > n.at && !s.isNewer(n.x):
		const detail = "a block was lifted by a request that had started before it"
		s.violation(Contradiction, detail, cmp.Or(s.blockPlace, n.place), s.a.place(n.x), n.place)
	default:
		s.lift()
	}
}

// countsAs returns the meaning of n in the present state of the host.
func (s *sequence) countsAs(n *answer) meaning {
	if n.meaning > served && s.isNewer(n.x) && s.inARow[refusing] > 0 {
		// While refusals count, only probes start, and each answer to one that isn't a success is a
		// further refusal.
		return refusing
	}
	return n.meaning
}

// fails is about the response n, if that is a failure. own is whether only its page may fail, and
// before is whether the page had failed before.
//
// s.failures has the pages that failed, each with 0 or with the time at which a probe of it failed.
// From that time on, only the page may fail. Later this stays so if the host has served another
// page since the probe.
func (s *sequence) fails(n *answer, m meaning) (own, before bool) {
	x := n.x
	// Without a probe of its page (0) any success of the host is later.
	probed, before := s.failures[x.resource]
	servedSince := probed <= s.lastServed
	own = before && servedSince && (probed > 0 || x == s.probe)
	if m == unsure {
		s.failures[x.resource] = probed
		if own && probed == 0 && !n.counted() { // the probe's failure, which blocked nothing
			s.failures[x.resource] = n.at
		}
	}
	return own, before
}

const (
	besideBan  = "whether a request was in flight while responses such as 403 were checked for a ban"
	failsAgain = "whether a failure of a page that had failed before is only that page's"
)

// uncounted checks the response n, which counts as m. n set no block that counts, and was no part
// of one. before says that its page had failed before:
//
//	m          and                                        verdict
//	forbidden                                             one more of a row, see forbid
//	unsure     a request may have gone alone, after 403s  open
//	unsure     its page had failed before                 open
//	any        a log was cut off before                   open
//	unsure     otherwise                                  broken: the host had to rest for a second
//	refusing   otherwise                                  broken: the host had to be blocked
func (s *sequence) uncounted(n *answer, m meaning, before bool) {
	switch {
	case m == forbidden: // mostly only this page is forbidden: only a row of them shows a ban
		s.forbid(n)
	case m == unsure && s.lastForbidden >= n.x.start:
		s.a.openEnded(blocksKept, besideBan)
	case m == unsure && before:
		s.a.openEnded(blocksKept, failsAgain)
	case s.lacks(n.at):
	case m == unsure:
		s.wrong(BrokenBlock, n, n.words()+", after which a host rests for a second, set no block")
	default:
		s.wrong(BrokenBlock, n, n.words()+", which is a refusal here, set no block")
	}
}

// obeyed checks that the host got no request for as long as the response n asks. until is the end
// of the longest block beside it. A response in another block makes that block longer. An empty
// quota or a Retry-After always blocks.
func (s *sequence) obeyed(n *answer, mustRest bool, until int64) {
	blocks := n.quota || mustRest
	if !blocks || n.wish <= 0 {
		return
	}
	// The longest of the blocks counts, its own included.
	until = max(until, s.blockEnd)
	if n.block != nil {
		until = max(until, n.block.until)
	}
	if until >= n.at+n.wish-min(n.early, n.wish) || s.lacks(n.at) {
		return
	}
	wish := time.Duration(n.wish)
	detail := fmt.Sprintf("the host asked to be left alone for %v and wasn't blocked for so long", wish)
	s.wrong(BrokenBlock, n, detail)
}

// beside reports whether another response or an operator has set a block while the request of the
// response n was in flight. It returns the end of the longest such block.
func (s *sequence) beside(n *answer) (until int64, ok bool) {
	// From the start of n's request to n itself, and as long after that as the limiter may have
	// needed to learn of n.
	byTime := func(m move, at int64) int { return cmp.Compare(m.at, at) }
	from, _ := slices.BinarySearchFunc(s.moves, n.x.start+1, byTime)
	for i, m := range s.moves[from:] {
		if m.at > n.at+s.late+1 {
			break
		}
		if i == 2*maxOpen { // a search on would take too long in a log made for that
			s.a.openEnded(blocksKept, "the effect of a response on a host beside a thousand others")
			return never, true
		}
		if m.n == nil || m.n == n || !m.setsBefore(n) {
			continue
		}
		until = max(until, m.n.block.until)
		ok = true
		s.a.openIf(m.n.block.hand, blocksKept, "the effect of a response on a host beside a person")
	}
	return until, ok
}

// setsBefore reports whether the move is an operator's block, or one by the response to a request
// that had started before n came.
func (m move) setsBefore(n *answer) bool {
	if m.n.block == nil {
		return false
	}
	return m.x == nil || m.x.start <= n.at+leeway
}

// count checks the block that the response n set and its limiter counted: kind, number in a row and
// length. m is the right kind.
func (s *sequence) count(n *answer, m meaning) {
	b := n.block
	switch {
	case b.kind == m:
	case b.kind == refusing && s.mayRefuse(n):
	case b.kind == refusing && b.inARow > 1: // a server may have come back with old data
		const detail = "a block that counts as one more refusal after some that aren't in the log"
		s.a.openEnded(blocksKept, detail)
	case !s.lacks(n.at):
		s.wrong(Contradiction, n, n.words()+" was counted as another kind of refusal than it is")
	}
	inARow := 1
	if s.isNewer(n.x) {
		inARow = min(s.inARow[b.kind]+1, maxTally)
	}
	if b.inARow < inARow && !s.lacks(n.at) { // a larger number only blocks for longer
		s.wrong(Contradiction, n, fmt.Sprintf("refusal %d in a row, after %d", b.inARow, inARow-1))
	}
	// A longer block than that is the crawler's own choice.
	least, known := n.least()
	s.a.openIf(!known, blocksKept, "how long a refusal blocks is a policy of the user's")
	if b.until < n.at+least-min(n.early, least) {
		length := time.Duration(b.until - n.at)
		detail := fmt.Sprintf("a refusal that blocks for %v set a block of %v", time.Duration(least), length)
		s.wrong(BrokenBlock, n, detail)
	}
	s.teach(n)
}

// mayRefuse reports whether the response n may count as a refusal, whatever it means by itself: as
// one more in a row, which an earlier process may have begun, or as a 503 whose Retry-After the
// crawl may have read in another way.
func (s *sequence) mayRefuse(n *answer) bool {
	asks := n.after && n.status == 503
	return s.inARow[refusing] > 0 || s.carried || asks
}

// servedBy takes the success of x.
func (s *sequence) servedBy(x *exchange) {
	if _, ok := s.failures[x.resource]; ok {
		s.failures[x.resource] = 0
	}
	s.lastServed = x.answered
	s.forbidden = 0
	s.fullAt = 0
}

// maxForbidden is how many answers such as 403 in a row are no ban yet, if the policy doesn't say.
const maxForbidden = 5

// forbid counts the response n, such as a 403, that set no block. After a full row the next request
// goes alone. If it gets such a response too, this is a ban. If the log doesn't show the order of
// responses, the row is the shortest possible one.
func (s *sequence) forbid(n *answer) {
	p := n.by.policy
	if n.at-s.lastForbidden >= int64(p.Forgive)-slack {
		s.forbidden = 0
		s.fullAt = 0
	}
	s.lastForbidden = max(s.lastForbidden, n.at)
	older := s.fullAt != 0 && n.x.start <= s.fullAt+leeway // than the end of the row
	switch {
	case n.at <= max(s.unsureUntil, s.lastServed+s.late): // a block or a success may have come after it
	case older: // it was in flight beside the others of the row
	case s.isServedSoon(n.at): // a success may have come before it
	case s.fullAt == 0:
		s.forbidden++
		if s.forbidden == cmp.Or(p.InARow, maxForbidden) {
			s.fullAt = n.at
		}
	case !s.lacks(n.at):
		detail := fmt.Sprintf("%d responses such as 403 in a row set no block", s.forbidden+1)
		s.violation(BrokenBlock, detail, s.a.place(n.x))
		// A new row begins, so that each ban that is missing is reported once.
		s.forbidden = 0
		s.fullAt = 0
	}
}

// isServedSoon reports whether a success comes so soon after the given time that the limiter may
// have learned of it before.
func (s *sequence) isServedSoon(at int64) bool {
	next := s.moves[s.moved:min(len(s.moves), s.moved+maxOpen)]
	return slices.ContainsFunc(next, func(m move) bool {
		return m.at <= at+s.late && m.x != nil && m.x.has(serves)
	})
}

// wrong reports a wrong effect, or a missing one, of the response n on the host.
func (s *sequence) wrong(kind Kind, n *answer, detail string) {
	s.violation(kind, detail, s.a.place(n.x), n.place)
}

// violation reports a violation on the host of s.
func (s *sequence) violation(kind Kind, detail string, at ...place) {
	s.a.violation(kind, s.h.report.Host, detail, at...)
}
