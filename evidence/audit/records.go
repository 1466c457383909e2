package audit

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/internal/sites"
	"github.com/go-politeness/politeness/evidence/internal/lines"
)

// seed makes the hashes of URLs and requests.
var seed = maphash.MakeSeed()

// take takes the record d from the line at. Records of a Transport before its policy aren't
// checked, because it had promised nothing.
func (a *auditor) take(d *evidence.Decision, at place) {
	a.d = d
	a.at = at
	a.report.Records[d.Type]++
	if d.Type == evidence.LogClosed || d.Type == evidence.Checkpoint {
		return // their times don't count: a log may be closed long after the crawl
	}
	if !d.Time.IsZero() {
		a.seen(d.Time)
	}
	a.consistent(d)
	a.by = a.transportOf(d)
	a.count(d) // figures are of all records, promised or not
	states := d.Type == evidence.PolicyStated && d.Host == ""
	if a.by.policy == nil && !states {
		a.unpromised = true
		return
	}
	if take := recordTypes[d.Type].take; take != nil {
		take(a, d)
	}
	if d.Instead != 0 && d.Type != evidence.Waiting && a.by.policy != nil {
		// Another start took the place of that one, so its number is missing rightly.
		h := a.host(d)
		h.givenUp[startID{a.by.numbering, d.Instead}] = true
		h.givenUpAt[stamp(d.InsteadAt)] = true
	}
}

// seen extends the times of the report and of the present log to that of a record.
func (a *auditor) seen(at time.Time) {
	r := &a.report
	if r.First.IsZero() || at.Before(r.First) {
		r.First = at
	}
	if at.After(r.Last) {
		r.Last = at
	}
	a.run.first = cmp.Or(a.run.first, stamp(at))
	a.run.last = max(a.run.last, stamp(at))
}

// recordTypes has for each type of record the value of Allowed, whether the crawl continues with
// the URL, and the method that takes the record. After RobotsUnreachable the crawl continues if the
// policy lets it.
var recordTypes = map[evidence.Type]struct {
	allowed bool
	take    func(a *auditor, d *evidence.Decision)
}{
	evidence.PolicyStated:      {true, (*auditor).policyStated},
	evidence.RobotsFetched:     {true, (*auditor).robotsFetched},
	evidence.RobotsRevalidated: {true, (*auditor).robotsFetched},
	evidence.RobotsUnreachable: {false, (*auditor).robotsFetched},
	evidence.RobotsAllowed:     {true, (*auditor).decided},
	evidence.BlockedByRobots:   {false, (*auditor).decided},
	evidence.BlockedByRule:     {false, (*auditor).decided},
	evidence.Reserved:          {false, (*auditor).reserved},
	evidence.Waiting:           {true, nil},
	evidence.SlotTimeout:       {false, func(a *auditor, d *evidence.Decision) { a.leave(a.trip(d)) }},
	evidence.Started:           {true, (*auditor).started},
	evidence.Resent:            {true, (*auditor).started},
	evidence.HostBlocked:       {false, (*auditor).moved},
	evidence.HostCleared:       {true, (*auditor).moved},
	evidence.Fetched:           {true, (*auditor).ended},
	evidence.StaysOpen:         {true, (*auditor).staysOpen},
	evidence.Failed:            {false, (*auditor).ended},
	evidence.Retried:           {true, func(a *auditor, d *evidence.Decision) { a.trip(d).over = false }},
	evidence.LeaseExpired:      {false, (*auditor).expired},
	evidence.BudgetWarning:     {true, nil},
	evidence.BudgetExceeded:    {false, nil},
	evidence.ResponseRejected:  {false, nil},
	evidence.NoIndex:           {true, nil},
	evidence.StateLost:         {true, (*auditor).stateLost},
	evidence.StateShared:       {true, func(a *auditor, _ *evidence.Decision) { a.by.limiter.isShared = true }},
	evidence.Drained:           {false, nil},
	evidence.LimitersApart:     {true, nil},
	evidence.LogClosed:         {true, nil},
	evidence.Checkpoint:        {true, nil},
}

// stateLost takes the record that state couldn't be read or kept: the process counts a budget by
// itself then.
func (a *auditor) stateLost(*evidence.Decision) {
	if a.by.kept != nil {
		a.by.kept.lost = true
	}
}

// consistent checks a record against itself.
func (a *auditor) consistent(d *evidence.Decision) {
	// A later version may write types that this one doesn't know: they leave the log open.
	typ, known := recordTypes[d.Type]
	a.openIf(!known && d.Type != "", logWhole, "a record of a type that isn't known here")
	a.cannot(d.Type == "", "a record without a type")
	if known && typ.allowed != d.Allowed && d.Type != evidence.RobotsUnreachable {
		a.contradiction(fmt.Sprintf("%s with \"allowed\": %t", d.Type, d.Allowed))
	}
	if !d.Start.IsZero() && !d.Time.IsZero() {
		// Ends and blocks come any time after their start.
		late := int64(d.Time.Sub(d.Start))
		ofStart := d.Type == evidence.Started || d.Type == evidence.Resent
		a.cannot(late < 0, "recorded before its start")
		a.cannot(late > slack && ofStart, "recorded more than a second after its start")
	}
	// RetryAt is the time for the next try, and Until is the end of the block. After one response they
	// are equal.
	ends := d.Type == evidence.HostBlocked && !d.RetryAt.IsZero()
	a.cannot(ends && !d.RetryAt.Equal(d.Until), "two times for the end of one block")
	a.cannot(d.Latency > d.Duration, "the headers came after the end of the body")
	least := min(d.WaitSlot, d.WaitDelay, d.WaitBlock, d.Delay, d.CrawlDelay, d.Latency, d.Duration, d.Quota)
	a.cannot(least < 0, "a time below zero")
	if d.Type == evidence.BudgetExceeded && d.Limit != "time" {
		a.proveLimit(d.Limit, d.Host, d.Used, d.Max)
	}
	if d.Slots > 0 && d.Slot > d.Slots {
		a.violation(BrokenConcurrency, d.Host, fmt.Sprintf("slot %d of %d", d.Slot, d.Slots), a.at)
	}
}

// count counts the record d for the report's figures.
func (a *auditor) count(d *evidence.Decision) {
	if d.Host == "" {
		return
	}
	r := &a.host(d).report
	switch d.Type {
	case evidence.Started, evidence.Resent:
		r.Starts++
		r.Wait += d.WaitSlot + d.WaitDelay + d.WaitBlock
		r.MaxDelay = max(r.MaxDelay, d.Delay)
	case evidence.Fetched, evidence.Failed:
		// A request that its caller gave up, or that wasn't sent, says nothing about the host. One that
		// ended before its start, such as for a private address, has no number.
		r.Bytes += d.Bytes
		left := d.Status == 0 && d.Left
		started := d.Type == evidence.Fetched || d.Seq != 0 || !d.Start.IsZero()
		if wasSent(d) && started && !left {
			a.countAnswer(r, d)
		}
	}
}

// countAnswer counts the response with which the exchange d ended.
func (a *auditor) countAnswer(r *HostReport, d *evidence.Decision) {
	r.Answers++
	if d.Status > 0 {
		r.Latency += d.Latency
	}
	// A 5xx that the policy takes for a refusal counts as a 5xx.
	switch {
	case d.Status <= 0:
		r.Refused.None++
	case cant(d.Status):
		r.Refused.Failed++
	case forbids(d.Status):
		r.Refused.Forbidden++
	case d.Refused != "" || a.by.blocksAtOnce(d.Status):
		r.Refused.TooMany++
	}
}

// wasSent reports whether the end d is one of a request that was sent: a turn is given back unused
// if robots.txt or the budget has changed during the wait.
func wasSent(d *evidence.Decision) bool {
	return d.Type == evidence.Fetched || d.Err != "" || d.Status != 0 || d.Latency != 0
}

// started takes the start of a try.
func (a *auditor) started(d *evidence.Decision) {
	h := a.host(d)
	t := a.trip(d)
	a.tested(everyStartEnded) // ending checks it, when all ends are known
	h.latest = max(h.latest, d.Seq)
	before := *t // the try before, which the present one replaces
	_, target := sites.SplitURL(d.URL)
	t.wall = cmp.Or(stamp(d.Start), stamp(d.Time))
	a.cannot(t.wall == 0, "a start without its time")
	x := a.exchange(d, t.wall, target)
	t.try(x, h, d.Attempt)
	a.keyFits(d)
	// The limiter's own statement on its block, without the other records.
	if until := stamp(d.BlockedUntil); until > x.start {
		ahead := time.Duration(until - x.start)
		detail := fmt.Sprintf("started %v before the end of a block that its limiter knew", ahead)
		a.violation(BrokenBlock, d.Host, detail, a.at)
	}
	if x.has(local) {
		a.by.limiter.local = min(a.by.limiter.local, x.start)
	}
	switch {
	case d.RobotsTxt:
		a.robotsStarted(d, t, target)
	case !x.has(robotsTxt): // a page needs a verdict, and costs one of the budget
		a.allowed(d, t)
		x.floor = max(x.floor, t.floor)
		if a.costsAPage(d, before.attempt) {
			x.flags |= page
			t.window = stamp(d.Window)
			h.report.Pages++
			a.spend(h, t)
		}
	}
	a.sends(d, t, &before)
	s := h.of(a.by)
	s.xs = append(s.xs, x)
	if a.by.policy.MaxInFlight > 0 { // over all hosts
		a.by.limiter.exchanges = append(a.by.limiter.exchanges, x)
	}
}

// exchange returns the exchange that starts with d, at the time wall of the log's clock.
func (a *auditor) exchange(d *evidence.Decision, wall int64, target string) *exchange {
	x := &exchange{
		start:    a.limiterClock(d, wall),
		delay:    int64(d.Delay),
		floor:    int64(d.CrawlDelay),
		prev:     stamp(d.Prev),
		seq:      d.Seq,
		resource: uint32(maphash.String(seed, target)),
		line:     uint32(a.at.line),
		slots:    uint32(min(max(d.Slots, 0), 1<<30)),
		by:       a.by.index,
	}
	// A fleet's start without a stamp by the limiter's clock was one that its server doesn't know
	// of.
	if a.by.policy.Process != "" && d.At.IsZero() {
		x.flags |= local
	}
	if d.DelaySource == "learned" {
		x.flags |= learned
	}
	path, _, _ := strings.Cut(target, "?")
	if d.RobotsTxt || path == robotsPath {
		x.flags |= robotsTxt
	}
	x.revisit(d)
	return x
}

// robotsPath is the path at which hosts keep their robots.txt. A fetch of it needs no verdict, and
// costs no page.
const robotsPath = "/robots.txt"

// maxSends is how often a try is sent at most: HTTP/2 repeats a request seven times, and HTTP/1 one
// for each connection that it finds dead.
const maxSends = 10

// sends counts the tries of a trip, and how often each was sent. before is the trip before the
// present start.
func (a *auditor) sends(d *evidence.Decision, t, before *trip) {
	if d.Type == evidence.Resent && before.underWay && before.attempt == d.Attempt {
		// The exchange before has lost its connection, or the site wants another signature. The new
		// one continues in its slot, and the old one is no probe from then on.
		y := before.x
		failed := y.start + cmp.Or(int64(d.WaitConnect), t.x.start-y.start)
		y.fate = ended
		y.end = t.x.start
		y.answered = min(t.x.start, failed)
		y.flags |= resent
		t.sends = before.sends + 1
		t.window = before.window
	}
	most := a.by.policy.Retries + 1
	switch {
	case d.Attempt > most && !d.RobotsTxt:
		a.violation(BrokenBudget, d.Host, fmt.Sprintf("try %d of a request, of %d", d.Attempt, most), a.at)
	case t.sends == maxSends+1: // reported once
		detail := fmt.Sprintf("a request that was sent more than %d times in one try", maxSends)
		a.violation(BrokenBudget, d.Host, detail, a.at)
	}
}

const (
	noStamp = "a start of a fleet without its stamp by the limiter's clock (at), " +
		"as while the server can't be reached"
	otherClock = "a stamp by another clock, though no other process shares the limiter"
	clockMoved = "the clock of a limiter that runs otherwise than that of the log"
)

// limiterClock returns the start of d by the clock of its limiter, and notes in its Transport how
// far that clock is ahead of the log's.
func (a *auditor) limiterClock(d *evidence.Decision, wall int64) int64 {
	t := a.by
	fleet := t.policy.Process != ""
	switch {
	case d.At.IsZero():
		a.openIf(fleet, delaysKept, noStamp)
	case !fleet:
		a.contradiction(otherClock)
	default:
		shift := stamp(d.At) - wall
		moved := max(shift-t.shift, t.shift-shift)
		// The log's own clock may have jumped as well.
		a.openIf(t.shift != 0 && moved > slack && a.run.jumped == 0, timesAgree, clockMoved)
		t.shift = shift
	}
	return wall + t.shift
}

// ended takes the end of a try.
func (a *auditor) ended(d *evidence.Decision) {
	h := a.host(d)
	t := a.trip(d)
	if !t.underWay || t.attempt != d.Attempt {
		// A request that was refused before its turn has an end alone, without a number.
		a.leave(t)
		if d.Type == evidence.Fetched || d.Seq != 0 {
			a.violation(MissingEnd, d.Host, string(d.Type)+" without a start", a.at)
		}
		return
	}
	a.endAgrees(d, t)
	a.close(d, t)
	if wasSent(d) { // otherwise the turn was given back, and with it the page
		t.leads = redirectTarget(d)
		a.answer(h, t, d)
		a.dated(h, t, d)
		a.spendMore(h, t, d.Bytes)
	} else {
		a.unspend(h, t)
	}
	a.handedOver(d, t)
	a.leave(t)
}

// switched is the status of a connection that continues in another protocol.
const switched = 101

// staysOpen takes the record that the response of a try continues without a slot. Records of an end
// come before the place is free, so that no order of an honest log has more of them than there are
// places.
func (a *auditor) staysOpen(d *evidence.Decision) {
	t := a.trip(d)
	if !t.underWay || t.attempt != d.Attempt || t.open != 0 {
		a.contradiction("a response stays open that isn't under way, or does already")
		return
	}
	isUpgrade := d.Status == switched
	a.cannot(!isUpgrade && d.Status/100 != 2, "a response of that status stays open")
	most := a.by.policy.Streams
	words := "stream"
	if isUpgrade {
		most = a.by.policy.Upgrades
		words = "switched connection"
	}
	t.open = d.Status
	t.x.end = max(stamp(d.Time)+t.x.start-t.wall, t.x.start)
	if a.by.policy.Process != "" {
		// As at an end: the slot is free at the earliest time that both clocks allow.
		t.x.end -= (t.x.end-t.x.start)/drifts + 1000
	}
	open := t.host.open(a.by, isUpgrade)
	*open++
	if *open > most {
		detail := fmt.Sprintf("%d open without a slot, of %s", *open, lines.Count(most, words))
		a.violation(BrokenConcurrency, d.Host, detail, a.at)
	}
}

// closeOpen takes the end d of a response that stayed open.
func (a *auditor) closeOpen(d *evidence.Decision, t *trip) {
	a.cannot(d.Status != t.open, "a response that stays open has two statuses", a.place(t.x))
	*t.host.open(a.by, t.open == switched)--
}

// close gives the exchange of t the times of its end d.
func (a *auditor) close(d *evidence.Decision, t *trip) {
	x := t.x
	now := stamp(d.Time)
	duration := int64(d.Duration)
	shift := x.start - t.wall
	x.fate = ended
	// Duration lacks the time that the computer slept, so the end may look later than it was.
	freed := x.end // the end of the slot, if that came before the end of the response
	x.end = max(t.wall+duration, now) + shift
	x.answered = x.start + int64(d.Latency)
	if !d.Start.IsZero() && a.by.policy.Process != "" {
		// The limiter's clock may run faster than the process's, and a stamp of one of them is
		// exact to the microsecond only: the slot is free at the earliest end that both allow.
		x.end -= duration/drifts + 1000
	}
	if t.open != 0 {
		x.end = min(x.end, freed)
		a.closeOpen(d, t)
	}
	t.underWay = false
	t.status = d.Status
	t.ended = now
	if d.Type == evidence.Fetched {
		x.learn(d)
	}
}

// endAgrees checks the end d of t against its start and against the block that its answer set.
func (a *auditor) endAgrees(d *evidence.Decision, t *trip) {
	x := t.x
	start := a.place(x)
	now := stamp(d.Time)
	if t.answer != nil {
		a.blockAgrees(d, t)
	}
	otherStart := !d.Start.IsZero() && stamp(d.Start) != t.wall
	otherSeq := d.Seq != x.seq && d.Seq != 0
	a.cannot(otherStart || otherSeq, "two records of one request give different starts or numbers", start)
	// Duration is by a clock that no jump moves.
	end := t.wall + int64(d.Duration)
	if now != 0 && end-now > slack {
		a.contradiction(fmt.Sprintf("recorded %v before its end", time.Duration(end-now)), start)
	}
	// If the delay of a turn is shorter than the crawl-delay, the request must not be sent.
	if wasSent(d) && x.delay > 0 && x.delay < min(x.floor, longest) {
		delay := time.Duration(x.delay)
		floor := time.Duration(x.floor)
		a.contradiction(fmt.Sprintf("a delay of %v under a crawl-delay of %v", delay, floor), start)
	}
}

// blockAgrees checks the end d of t against an earlier record of its answer, that of a block which
// it set or lifted.
func (a *auditor) blockAgrees(d *evidence.Decision, t *trip) {
	n := t.answer
	now := stamp(d.Time)
	moved := n.at - a.by.shift
	// A limiter learns of a response when the headers are there, and not after the end of the body.
	tooEarly := moved < t.wall+int64(d.Latency)-slack
	tooLate := now != 0 && moved > now+settling
	a.cannot(tooEarly || tooLate, "a block was set or lifted at another time than that of the response", a.place(t.x))
	if n.status != d.Status {
		a.contradiction(fmt.Sprintf("status %d here and %d there", d.Status, n.status), n.place)
	}
}

// expired takes the record of a slot that was taken back.
func (a *auditor) expired(d *evidence.Decision) {
	// The slot may be that of any process of a fleet. Without a name it is one of this Transport's.
	of := cmp.Or(d.Of, fmt.Sprint(a.by.numbering, "/", d.Seq))
	id, number, _ := strings.Cut(of, "/")
	seq, _ := strconv.ParseUint(number, 10, 64)
	lost := startID{strings.Clone(id), seq}
	h := a.host(d)
	if d.Trip != 0 || lost.seq == 0 {
		a.lostSlot = true // the request itself doesn't know when it lost its slot
		return
	}
	// Several processes may record it: the first one was there.
	at := stamp(d.Time) + a.by.shift
	h.takenBack[lost] = min(at, cmp.Or(h.takenBack[lost], never))
}

// moved takes the record of a block, or of the end of all blocks before.
func (a *auditor) moved(d *evidence.Decision) {
	h := a.host(d)
	s := h.of(a.by)
	b := &block{
		at:       a.at,
		from:     stamp(d.Time) + a.by.shift,
		until:    stamp(d.Until) + a.by.shift,
		inARow:   d.Refusals,
		hand:     d.Hand,
		restored: d.Restored,
		lifts:    d.Type == evidence.HostCleared,
	}
	if d.Late && !b.lifts {
		// No field of the log has the text of a page.
		b.kind = kinds[d.Kind]
		b.late = true
		s.answers = append(s.answers, &answer{by: a.by, block: b})
		return
	}
	t := a.by.trips[d.Trip]
	if t == nil || !t.underWay || t.attempt != d.Attempt || t.host != h {
		// No running request did it. An operator or an earlier process may have.
		if !b.hand && !b.restored {
			a.contradiction("a block was set or lifted by no request")
		}
		s.answers = append(s.answers, &answer{by: a.by, block: b})
		return
	}
	a.trip(d)
	if t.answer != nil {
		a.contradiction("a response that set or lifted a block twice", t.answer.place)
	}
	// The response of a request that is under way: the record of its end will repeat it.
	n := s.keep(t, a.answerOf(t, d))
	n.cleared = b.lifts
	if !b.lifts {
		b.kind = kinds[d.Kind]
		n.block = b
	}
}
