package audit

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// seed makes the hashes by which URLs and requests are told apart.
var seed = maphash.MakeSeed()

// A request is what every record of one request repeats.
type request struct {
	url, host string
	redirects int
	robotsTxt bool
}

// requestOf returns a hash of the request that d is about.
func requestOf(d *evidence.Decision) uint64 {
	return maphash.Comparable(seed, request{d.URL, d.Host, d.Redirects, d.RobotsTxt})
}

// A tryKey is one try of a trip; in a log without trips, one start.
type tryKey struct {
	by      uint32
	trip    uint64
	attempt int
}

func keyOfTry(by *transport, d *evidence.Decision) tryKey {
	return tryKey{by.index, cmp.Or(d.Trip, d.Seq), d.Attempt}
}

// A try is an exchange under way.
type try struct {
	x          uint32
	by         *transport
	request    uint64 // hash of it
	wall       int64  // its start by the clock of the records
	window     int64  // of the budget's, that its page is charged to
	moved      int64  // when its answer moved the host's state
	status     int    // of its answer, as the record of what that did to the host has it
	statusLine int    // of that record; 0: there is none
	sends      int    // how often the request was sent
}

// tryOf returns the try under way that d is about, nil if that can't be told.
func (a *auditor) tryOf(d *evidence.Decision) *try {
	if t := a.open[keyOfTry(a.by, d)]; t != nil && t.request == a.request {
		return t
	}
	return nil
}

// contradiction reports that the present record can't be true, or not beside those at other places.
func (a *auditor) contradiction(detail string, others ...place) {
	a.violation(Contradiction, a.d.Host, detail, append(others, a.at)...)
}

// take takes the record d from the line at. What a Transport did before it said what it promises
// isn't judged.
func (a *auditor) take(d *evidence.Decision, at place) {
	a.d, a.at = d, at
	a.report.Records[d.Type]++
	if d.Type == evidence.LogClosed || d.Type == evidence.Checkpoint { // a log may be closed long after the crawl
		return
	}
	if r := a.run; !d.Time.IsZero() {
		if a.report.First.IsZero() || d.Time.Before(a.report.First) {
			a.report.First = d.Time
		}
		if d.Time.After(a.report.Last) {
			a.report.Last = d.Time
		}
		now := stamp(d.Time)
		r.first, r.last = min(cmp.Or(r.first, now), now), max(r.last, now)
	}
	a.consistent(d)
	a.by = a.transportOf(d)
	a.count(d)
	if a.by.policy == nil && (d.Type != evidence.PolicyStated || d.Host != "") {
		a.unsaid = true
		return
	}
	if p := a.by.policy; p != nil {
		d.Agent = cmp.Or(d.Agent, p.Product)
	}
	a.request = requestOf(d)
	a.consent(d)
	if d.Instead != 0 && d.Type != evidence.Waiting {
		h := a.host(d)
		h.given[given{a.by.row.index, d.Instead}], h.voids[stamp(d.InsteadAt)] = true, true
	}
	switch d.Type {
	case evidence.PolicyStated:
		a.policyStated(d)
	case evidence.RobotsFetched, evidence.RobotsRevalidated, evidence.RobotsUnreachable:
		a.robotsFetched(d)
	case evidence.RobotsAllowed, evidence.BlockedByRobots, evidence.BlockedByRule:
		a.decided(d)
	case evidence.Started, evidence.Resent:
		a.started(d)
	case evidence.Fetched, evidence.Failed:
		a.ended(d)
	case evidence.Retried:
		if trip := a.trips.all[a.keyOfTrip(d)]; trip != nil {
			trip.finished = false
		}
	case evidence.SlotTimeout:
		a.leaveTrip(d)
	case evidence.LeaseExpired:
		h := a.host(d)
		e := expiry{at: a.at, time: stamp(d.Time) + a.by.shift, row: a.by.row.index, seq: d.Seq, own: d.Trip != 0}
		if id, number, ok := strings.Cut(d.Of, "/"); ok { // of any process
			e.row = a.row(id).index
			e.seq, _ = strconv.ParseUint(number, 10, 64)
		}
		h.expiries = append(h.expiries, e)
	case evidence.HostBlocked:
		a.blocked(d)
	case evidence.HostCleared:
		a.cleared(d)
	case evidence.BudgetWarning, evidence.BudgetExceeded:
		a.limit(d)
	}
}

// allows tells, by the type of a record, whether the crawl goes on with what it is about. After
// RobotsUnreachable that is what the policy lets.
var allows = map[evidence.Type]bool{
	evidence.PolicyStated: true, evidence.RobotsAllowed: true, evidence.Started: true, evidence.Resent: true, evidence.Fetched: true,
	evidence.Retried: true, evidence.HostCleared: true, evidence.RobotsFetched: true, evidence.RobotsRevalidated: true,
	evidence.BudgetWarning: true, evidence.NoIndex: true, evidence.StateLost: true, evidence.LogClosed: true, evidence.Checkpoint: true,
	evidence.Waiting: true,

	evidence.BlockedByRobots: false, evidence.BlockedByRule: false, evidence.BudgetExceeded: false, evidence.SlotTimeout: false,
	evidence.Failed: false, evidence.HostBlocked: false, evidence.LeaseExpired: false, evidence.ResponseRejected: false,
	evidence.Reserved: false,
}

// ruleKind finds the kind of a rule that has a pattern.
var ruleKind = regexp.MustCompile(`(?i)^\s*(dis|allow)[^:]*:\s*\S`)

// consistent checks a record against itself.
func (a *auditor) consistent(d *evidence.Decision) {
	cannot := func(is bool, detail string) {
		if is {
			a.contradiction(detail)
		}
	}
	allowed, known := allows[d.Type]
	if !known && d.Type != evidence.RobotsUnreachable && d.Type != "" {
		a.openEnded(logWhole, "a record of a type that isn't known here")
	}
	cannot(d.Type == "", "a record without a type")
	if known && allowed != d.Allowed {
		a.contradiction(fmt.Sprintf("%s with \"allowed\": %t", d.Type, d.Allowed))
	}
	if rule := ruleKind.FindStringSubmatch(d.MatchedRule); rule != nil && (d.Type == evidence.RobotsAllowed || d.Type == evidence.BlockedByRobots) {
		cannot(strings.EqualFold(rule[1], "dis") == allowed, string(d.Type)+" by the rule "+d.MatchedRule)
	}
	if !d.Start.IsZero() && !d.Time.IsZero() {
		late := int64(d.Time.Sub(d.Start))
		cannot(late < 0, "recorded before the start that it tells of")
		cannot(late > slack && (d.Type == evidence.Started || d.Type == evidence.Resent), "recorded more than a second after its start")
	}
	cannot(d.Type == evidence.HostBlocked && !d.RetryAt.IsZero() && !d.RetryAt.Equal(d.Until), "two times for the end of one block")
	cannot(d.Latency > d.Duration, "the headers came after the end of the body")
	cannot(min(d.WaitSlot, d.WaitDelay, d.WaitBlock, d.Delay, d.CrawlDelay, d.Latency, d.Duration, d.Quota) < 0, "a time below zero")
	if d.Type == evidence.BudgetExceeded && d.Limit != "time" && d.Max > 0 && d.Used > d.Max {
		a.violation(BrokenBudget, d.Host, fmt.Sprintf("%d of %d %s", d.Used, d.Max, d.Limit), a.at)
	}
	if d.Slots > 0 && d.Slot > d.Slots {
		a.violation(BrokenConcurrency, d.Host, fmt.Sprintf("slot %d of %d", d.Slot, d.Slots), a.at)
	}
}

// host returns the host that d is about.
func (a *auditor) host(d *evidence.Decision) *host {
	h := a.hosts[d.Host]
	if h == nil {
		name := strings.Clone(d.Host)
		h = &host{a: a, index: uint32(len(a.inOrder)), report: HostReport{Host: name}, given: map[given]bool{}, voids: map[int64]bool{}, own: map[uint32][]ownLimits{}, lost: never}
		a.hosts[name], a.inOrder = h, append(a.inOrder, h)
	}
	return h
}

// count counts the record d for the report's figures.
func (a *auditor) count(d *evidence.Decision) {
	if d.Host == "" {
		return
	}
	h := a.host(d)
	switch r := &h.report; d.Type {
	case evidence.Started, evidence.Resent:
		r.Starts++
		r.Wait += d.WaitSlot + d.WaitDelay + d.WaitBlock
		r.MaxDelay = max(r.MaxDelay, d.Delay)
	case evidence.Fetched, evidence.Failed:
		r.Bytes += d.Bytes
		if d.Latency > 0 && d.Status > 0 {
			h.latencies++
			h.latency += d.Latency
		}
		if wasSent(d) {
			h.countAnswer(a.by, d)
		}
	}
}

// wasSent reports whether the end d is one of a request that was sent: a turn is given back unused
// where robots.txt or the budget has changed during the wait.
func wasSent(d *evidence.Decision) bool {
	return d.Type == evidence.Fetched || d.Err != "" || d.Status != 0 || d.Latency != 0
}

// started takes a start, which needs a verdict and room in the budget.
func (a *auditor) started(d *evidence.Decision) {
	h := a.host(d)
	a.tallies[everyStartEnded].tested++
	h.latest = max(h.latest, d.Seq)
	_, target := splitURL(d.URL)
	t := &try{by: a.by, request: a.request, wall: cmp.Or(stamp(d.Start), stamp(d.Time)), sends: 1}
	x := exchange{
		start: a.limiterClock(d, t.wall), delay: int64(d.Delay), floor: int64(d.CrawlDelay), prev: stamp(d.Prev), seq: d.Seq,
		line: uint32(a.at.line), resource: uint32(maphash.String(seed, target)), slots: uint32(min(max(d.Slots, 0), 1<<30)), host: h.index, by: a.by.index, run: a.run.index,
	}
	if d.RobotsTxt {
		x.flags |= robotsTxt
	}
	if p := a.by.policy; p.Process != "" && d.At.IsZero() {
		x.flags |= local
		a.by.limiter.local = min(a.by.limiter.local, x.start)
	}
	if d.DelaySource == "learned" {
		x.flags |= learned
	}
	if until := stamp(d.BlockedUntil); until > x.start {
		a.violation(BrokenBlock, d.Host, fmt.Sprintf("started %v before the end of a block that its limiter knew", time.Duration(until-x.start)), a.at)
	}
	switch fits, known := a.by.keyFits(d); {
	case !known:
		a.openEnded(delaysKept, "a URL that doesn't tell its host")
	case !fits:
		a.contradiction("the URL " + d.URL + " has another host than " + d.Host)
	}
	trip := a.trips.all[a.keyOfTrip(d)]
	switch named := namesRobots(d); {
	case d.RobotsTxt && (named || trip == nil):
		a.robotsStarted(d)
	case named:
	default:
		a.allowed(d, trip)
		if trip != nil {
			x.floor = max(x.floor, trip.floor)
		}
		if a.costsAPage(d, trip) {
			x.flags |= page
			t.window = stamp(d.Window)
			h.report.Pages++
			a.spend(h, t)
		}
	}
	if lost := a.tryOf(d); d.Type == evidence.Resent && lost != nil {
		y := a.exchanges.at(lost.x) // its connection was lost, and it goes on as x, in the same slot
		y.fate, y.end, y.answered = ended, x.start, x.start
		y.flags |= again
		t.sends, t.window = lost.sends+1, lost.window
	}
	switch most := a.by.policy.Retries + 1; {
	case d.Attempt > most && !d.RobotsTxt:
		a.violation(BrokenBudget, d.Host, fmt.Sprintf("try %d of a request, of %d", d.Attempt, most), a.at)
	case t.sends == maxSends+1:
		a.violation(BrokenBudget, d.Host, fmt.Sprintf("a request that was sent more than %d times in one try", maxSends), a.at)
	}
	t.x = a.exchanges.add(x)
	h.xs = append(h.xs, t.x)
	a.open[keyOfTry(a.by, d)] = t
	if a.by.policy.MaxInFlight > 0 {
		a.by.limiter.exchanges = append(a.by.limiter.exchanges, t.x)
	}
}

// maxSends is how often a try is sent at most: HTTP/2 repeats a request seven times, and HTTP/1 one
// for each connection that it finds dead.
const maxSends = 10

// limiterClock returns the start of d by the clock of its limiter, and notes how far that is ahead.
func (a *auditor) limiterClock(d *evidence.Decision, wall int64) int64 {
	t := a.by
	if d.At.IsZero() {
		if t.policy.Process != "" {
			a.openEnded(delaysKept, "a start of a fleet without its stamp by the limiter's clock (at), as while the server can't be reached")
		}
		return wall + t.shift
	}
	shift := stamp(d.At) - wall
	switch moved := shift - t.shift; {
	case a.by.policy.Process == "":
		a.contradiction("a stamp by another clock, though no other process shares the limiter")
		return wall
	case t.shifted && max(moved, -moved) > slack && a.run.jumped == 0:
		a.openEnded(timesAgree, "the clock of a limiter that runs otherwise than that of the log")
	}
	t.shift, t.shifted, a.run.shift = shift, true, shift
	return wall + shift
}

// drifts is the part of a time by which two clocks may run apart in it.
const drifts = 5000

// settling is how long a limiter may take to learn from an answer: one that many machines share is
// asked over the network.
const settling = 3 * slack

// ended takes the end of an exchange.
func (a *auditor) ended(d *evidence.Decision) {
	a.leaveTrip(d)
	h, key := a.host(d), keyOfTry(a.by, d)
	t := a.open[key]
	if t == nil {
		if d.Type == evidence.Fetched || d.Seq != 0 {
			a.violation(MissingEnd, d.Host, string(d.Type)+" without a start", a.at)
		}
		return
	}
	delete(a.open, key)
	x := a.exchanges.at(t.x)
	start := a.place(x)
	now, latency, duration := stamp(d.Time), int64(d.Latency), int64(d.Duration)
	if t.moved != 0 && (t.moved < t.wall+latency-slack || now != 0 && t.moved > now+settling) {
		a.contradiction("a block was set or lifted at another time than that of the answer", start)
	}
	if t.statusLine != 0 && t.status != d.Status {
		a.contradiction(fmt.Sprintf("status %d here and %d there", d.Status, t.status), place{a.at.log, t.statusLine})
	}
	if t.request != a.request || !d.Start.IsZero() && stamp(d.Start) != t.wall || d.Seq != x.seq && d.Seq != 0 {
		a.contradiction("two records of one request give different URLs, hosts, redirects, robotsTxt, starts or numbers", start)
	}
	// The end may look later than it was: time that the computer slept is missing from d.Duration.
	end := t.wall + duration
	if now != 0 && end-now > slack {
		a.contradiction(fmt.Sprintf("recorded %v before its end", time.Duration(end-now)), start)
	}
	sent := wasSent(d)
	if sent && tooShort(x.delay, x.floor) {
		a.contradiction(fmt.Sprintf("a delay of %v under a crawl-delay of %v", time.Duration(x.delay), time.Duration(x.floor)), start)
	}
	shift := x.start - t.wall
	x.fate, x.end, x.answered = ended, max(end, now)+shift, x.start+latency // end and now are one instant, unless the clock has jumped
	if !d.Start.IsZero() && t.by.policy.Process != "" {
		x.end -= duration/drifts + 1000 // two clocks, and one of them is exact to the microsecond
	}
	if !sent {
		x.flags |= unsent
	} else {
		a.answer(h, x, t, d, shift)
		a.dated(h, t, d)
		a.leads(d)
	}
	if !d.RobotsTxt && !namesRobots(d) {
		a.spendBytes(d.Bytes)
		if sent {
			a.inTime(h, x, t)
		}
	}
	if x.flags&page != 0 && !sent {
		h.report.Pages--
		t.by.budget.take(h, t, -1)
	}
}

// blocked takes the record of a block.
func (a *auditor) blocked(d *evidence.Decision) {
	h := a.host(d)
	b := block{
		at: a.at, by: a.by, from: stamp(d.Time) + a.by.shift, until: stamp(d.Until) + a.by.shift, x: none, row: d.Refusals,
		hand: d.Hand, restored: d.Restored,
	}
	if n := a.moves(h, d, d.Hand || d.Restored); n != nil {
		b.x, b.kind = n.x, kinds[d.Kind]
		n.block = len(h.blocks) + 1
	}
	h.blocks = append(h.blocks, b)
}

// cleared takes the record that the blocks before it are lifted.
func (a *auditor) cleared(d *evidence.Decision) {
	h := a.host(d)
	if n := a.moves(h, d, d.Hand); n != nil {
		n.cleared = true
	} else if d.Hand {
		h.blocks = append(h.blocks, block{at: a.at, by: a.by, from: stamp(d.Time) + a.by.shift, x: none, hand: true, lifts: true})
	}
}

// moves returns the answer that set or lifted a block, as the record d of that says. Unless by is
// true, where others may have done it, there must be one.
func (a *auditor) moves(h *host, d *evidence.Decision, by bool) *answer {
	t := a.tryOf(d)
	if t == nil {
		if !by {
			a.contradiction("a block was set or lifted by no request")
		}
		return nil
	}
	t.status, t.statusLine, t.moved = d.Status, a.at.line, stamp(d.Time)
	return h.keep(a.exchanges.at(t.x), a.answerOf(t, d))
}
