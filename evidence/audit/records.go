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
)

// seed makes the hashes by which URLs and requests are told apart.
var seed = maphash.MakeSeed()

// take takes the record d from the line at. What a Transport did before it said what it promises
// isn't judged.
func (a *auditor) take(d *evidence.Decision, at place) {
	a.d, a.at = d, at
	a.report.Records[d.Type]++
	if d.Type == evidence.LogClosed || d.Type == evidence.Checkpoint { // a log may be closed long after the crawl
		return
	}
	if r, p := a.run, &a.report; !d.Time.IsZero() {
		if p.First.IsZero() || d.Time.Before(p.First) {
			p.First = d.Time
		}
		if d.Time.After(p.Last) {
			p.Last = d.Time
		}
		r.first, r.last = cmp.Or(r.first, stamp(d.Time)), max(r.last, stamp(d.Time))
	}
	a.consistent(d)
	a.by = a.transportOf(d)
	a.count(d)
	switch takes := recordTypes[d.Type].take; {
	case a.by.policy == nil && (d.Type != evidence.PolicyStated || d.Host != ""):
		a.unsaid = true
	case takes != nil:
		takes(a, d)
	}
	if d.Instead != 0 && d.Type != evidence.Waiting && a.by.policy != nil {
		h := a.host(d)
		h.given[given{a.by.row, d.Instead}], h.voids[stamp(d.InsteadAt)] = true, true
	}
}

// recordTypes says of each type of record whether the crawl goes on with what it is about, and what
// takes it. After RobotsUnreachable the crawl goes on if the policy lets it.
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
	evidence.Failed:            {false, (*auditor).ended},
	evidence.Retried:           {true, func(a *auditor, d *evidence.Decision) { a.trip(d).over = false }},
	evidence.LeaseExpired:      {false, (*auditor).expired},
	evidence.BudgetWarning:     {true, nil},
	evidence.BudgetExceeded:    {false, nil},
	evidence.ResponseRejected:  {false, nil},
	evidence.NoIndex:           {true, nil},
	evidence.StateLost:         {true, nil},
	evidence.LogClosed:         {true, nil},
	evidence.Checkpoint:        {true, nil},
}

// consistent checks a record against itself.
func (a *auditor) consistent(d *evidence.Decision) {
	typ, known := recordTypes[d.Type]
	a.openIf(!known && d.Type != "", logWhole, "a record of a type that isn't known here")
	a.cannot(d.Type == "", "a record without a type")
	if known && typ.allowed != d.Allowed && d.Type != evidence.RobotsUnreachable {
		a.contradiction(fmt.Sprintf("%s with \"allowed\": %t", d.Type, d.Allowed))
	}
	if late := int64(d.Time.Sub(d.Start)); !d.Start.IsZero() && !d.Time.IsZero() {
		a.cannot(late < 0, "recorded before the start that it tells of")
		a.cannot(late > slack && (d.Type == evidence.Started || d.Type == evidence.Resent), "recorded more than a second after its start")
	}
	a.cannot(d.Type == evidence.HostBlocked && !d.RetryAt.IsZero() && !d.RetryAt.Equal(d.Until), "two times for the end of one block")
	a.cannot(d.Latency > d.Duration, "the headers came after the end of the body")
	a.cannot(min(d.WaitSlot, d.WaitDelay, d.WaitBlock, d.Delay, d.CrawlDelay, d.Latency, d.Duration, d.Quota) < 0, "a time below zero")
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
	switch r := &a.host(d).report; d.Type {
	case evidence.Started, evidence.Resent:
		r.Starts++
		r.Wait += d.WaitSlot + d.WaitDelay + d.WaitBlock
		r.MaxDelay = max(r.MaxDelay, d.Delay)
	case evidence.Fetched, evidence.Failed:
		r.Bytes += d.Bytes
		if !wasSent(d) || d.Status == 0 && d.Left {
			return
		}
		r.Answers++
		if d.Status > 0 {
			r.Latency += d.Latency
		}
		switch s := d.Status; {
		case s <= 0:
			r.Refused.None++
		case cant(s):
			r.Refused.Failed++
		case forbids(s):
			r.Refused.Forbidden++
		case d.Refused != "" || a.by.blocksAtOnce(s):
			r.Refused.TooMany++
		}
	}
}

// wasSent reports whether the end d is one of a request that was sent: a turn is given back unused
// where robots.txt or the budget has changed during the wait.
func wasSent(d *evidence.Decision) bool {
	return d.Type == evidence.Fetched || d.Err != "" || d.Status != 0 || d.Latency != 0
}

// started takes the start of a try.
func (a *auditor) started(d *evidence.Decision) {
	h, t := a.host(d), a.trip(d)
	a.tested(everyStartEnded)
	h.latest = max(h.latest, d.Seq)
	_, target := sites.SplitURL(d.URL)
	before := *t
	t.wall = cmp.Or(stamp(d.Start), stamp(d.Time))
	a.cannot(t.wall == 0, "a start without its time")
	x := &exchange{
		start: a.limiterClock(d, t.wall), delay: int64(d.Delay), floor: int64(d.CrawlDelay), prev: stamp(d.Prev), seq: d.Seq,
		line: uint32(a.at.line), resource: uint32(maphash.String(seed, target)), slots: uint32(min(max(d.Slots, 0), 1<<30)),
		by: a.by.index,
	}
	t.x = x
	t.answer = nil
	t.host = h
	t.attempt = d.Attempt
	t.sends = 1
	t.underWay = true
	t.window = 0
	a.keyFits(d)
	if until := stamp(d.BlockedUntil); until > x.start {
		a.violation(BrokenBlock, d.Host, fmt.Sprintf("started %v before the end of a block that its limiter knew", time.Duration(until-x.start)), a.at)
	}
	if a.by.policy.Process != "" && d.At.IsZero() {
		x.flags |= local
		a.by.limiter.local = min(a.by.limiter.local, x.start)
	}
	if d.DelaySource == "learned" {
		x.flags |= learned
	}
	if path, _, _ := strings.Cut(target, "?"); d.RobotsTxt || path == robotsPath {
		x.flags |= robotsTxt
	}
	switch {
	case d.RobotsTxt:
		a.robotsStarted(d, t, target)
	case x.flags&robotsTxt == 0:
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
	if a.by.policy.MaxInFlight > 0 {
		a.by.limiter.exchanges = append(a.by.limiter.exchanges, x)
	}
}

// robotsPath is where hosts keep their robots.txt. Whoever fetches it needs no verdict and no page.
const robotsPath = "/robots.txt"

// maxSends is how often a try is sent at most: HTTP/2 repeats a request seven times, and HTTP/1 one
// for each connection that it finds dead.
const maxSends = 10

// sends counts the tries of a trip, and how often each was sent. What is sent again goes on in the
// slot of the try before, which has lost its connection, and is no probe from then on.
func (a *auditor) sends(d *evidence.Decision, t, before *trip) {
	if d.Type == evidence.Resent && before.underWay && before.attempt == d.Attempt {
		y := before.x
		y.fate = ended
		y.end = t.x.start
		y.answered = min(t.x.start, y.start+cmp.Or(int64(d.WaitConnect), t.x.start-y.start))
		y.flags |= again
		t.sends, t.window = before.sends+1, before.window
	}
	switch most := a.by.policy.Retries + 1; {
	case d.Attempt > most && !d.RobotsTxt:
		a.violation(BrokenBudget, d.Host, fmt.Sprintf("try %d of a request, of %d", d.Attempt, most), a.at)
	case t.sends == maxSends+1:
		a.violation(BrokenBudget, d.Host, fmt.Sprintf("a request that was sent more than %d times in one try", maxSends), a.at)
	}
}

// limiterClock returns the start of d by the clock of its limiter, and notes how far that is ahead.
func (a *auditor) limiterClock(d *evidence.Decision, wall int64) int64 {
	t, fleet := a.by, a.by.policy.Process != ""
	switch shift := stamp(d.At) - wall; {
	case d.At.IsZero():
		a.openIf(fleet, delaysKept, "a start of a fleet without its stamp by the limiter's clock (at), as while the server can't be reached")
	case !fleet:
		a.contradiction("a stamp by another clock, though no other process shares the limiter")
	default:
		moved := max(shift-t.shift, t.shift-shift)
		a.openIf(t.shift != 0 && moved > slack && a.run.jumped == 0, timesAgree, "the clock of a limiter that runs otherwise than that of the log")
		t.shift = shift
	}
	return wall + t.shift
}

// ended takes the end of a try.
func (a *auditor) ended(d *evidence.Decision) {
	h, t := a.host(d), a.trip(d)
	if !t.underWay || t.attempt != d.Attempt {
		if a.leave(t); d.Type == evidence.Fetched || d.Seq != 0 {
			a.violation(MissingEnd, d.Host, string(d.Type)+" without a start", a.at)
		}
		return
	}
	x := t.x
	a.endAgrees(d, t, x)
	// The end may look later than it was: time that the computer slept is missing from d.Duration.
	now := stamp(d.Time)
	duration := int64(d.Duration)
	shift := x.start - t.wall
	x.fate = ended
	x.end = max(t.wall+duration, now) + shift
	x.answered = x.start + int64(d.Latency)
	if !d.Start.IsZero() && a.by.policy.Process != "" {
		x.end -= duration/drifts + 1000 // two clocks, and one of them is exact to the microsecond
	}
	t.underWay = false
	t.status = d.Status
	t.ended = now
	if wasSent(d) {
		t.leads = redirectTarget(d)
		a.answer(h, t, d)
		a.dated(h, t, d)
		a.spendMore(h, x, t, d.Bytes)
	} else if x.flags |= unsent; x.flags&page != 0 {
		h.report.Pages--
		a.by.pages[window{t.window, nil}]--
		a.by.pages[window{t.window, h}]--
	}
	a.handedOver(d, t)
	a.leave(t)
}

// endAgrees checks the end d of t against its start and against the block that its answer set.
func (a *auditor) endAgrees(d *evidence.Decision, t *trip, x *exchange) {
	start := a.place(x)
	now := stamp(d.Time)
	end := t.wall + int64(d.Duration)
	if n := t.answer; n != nil {
		moved := n.at - a.by.shift
		a.cannot(moved < t.wall+int64(d.Latency)-slack || now != 0 && moved > now+settling, "a block was set or lifted at another time than that of the answer", start)
		if n.status != d.Status {
			a.contradiction(fmt.Sprintf("status %d here and %d there", d.Status, n.status), n.place)
		}
	}
	a.cannot(!d.Start.IsZero() && stamp(d.Start) != t.wall || d.Seq != x.seq && d.Seq != 0, "two records of one request give different starts or numbers", start)
	if now != 0 && end-now > slack {
		a.contradiction(fmt.Sprintf("recorded %v before its end", time.Duration(end-now)), start)
	}
	if wasSent(d) && x.delay > 0 && x.delay < min(x.floor, longest) {
		a.contradiction(fmt.Sprintf("a delay of %v under a crawl-delay of %v", time.Duration(x.delay), time.Duration(x.floor)), start)
	}
}

// expired takes the record of a slot that was taken back.
func (a *auditor) expired(d *evidence.Decision) {
	id, number, _ := strings.Cut(cmp.Or(d.Of, fmt.Sprint(a.by.row, "/", d.Seq)), "/") // of any process
	seq, _ := strconv.ParseUint(number, 10, 64)
	h, lost := a.host(d), given{strings.Clone(id), seq}
	if d.Trip != 0 || lost.seq == 0 { // the request itself doesn't know when it lost its slot
		a.lost = true
	} else {
		h.takenBack[lost] = min(stamp(d.Time)+a.by.shift, cmp.Or(h.takenBack[lost], never))
	}
}

// moved takes the record of a block, or that the blocks before it are lifted.
func (a *auditor) moved(d *evidence.Decision) {
	h := a.host(d)
	s, b := h.of(a.by), &block{
		at: a.at, from: stamp(d.Time) + a.by.shift, until: stamp(d.Until) + a.by.shift, row: d.Refusals,
		hand: d.Hand, restored: d.Restored, lifts: d.Type == evidence.HostCleared,
	}
	n := &answer{by: a.by}
	switch t := a.by.trips[d.Trip]; {
	case t != nil && t.underWay && t.attempt == d.Attempt && t.host == h:
		if a.trip(d); t.answer != nil {
			a.contradiction("an answer that set or lifted a block twice", t.answer.place)
		}
		n, b.kind = s.keep(t, a.answerOf(t, d)), kinds[d.Kind]
		if n.cleared = b.lifts; b.lifts {
			return
		}
	case !b.hand && !b.restored:
		a.contradiction("a block was set or lifted by no request")
		fallthrough
	default:
		s.answers = append(s.answers, n)
	}
	n.block = b
}
