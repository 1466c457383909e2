// Package audit is the judge of logs that package evidence wrote: [Check] proves again, from what
// is in them, that a crawl kept its promises.
//
// It needs no crawler and no network: a program that imports this package alone can judge the log
// of somebody else.
package audit

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/internal/lines"
	"github.com/go-politeness/politeness/evidence/audit/internal/trees"
	"github.com/go-politeness/politeness/internal/printable"
)

// Check reads what [evidence.JSONLines] wrote and proves again what it claims: that no two starts
// on a host were closer than the delay in force, that never more requests were in flight than the
// host has slots, that none started inside a block, that no disallowed URL was fetched and nothing
// spent past the budget, and that every start ended. Where a log holds robots.txt, the verdicts are
// decided again. Check also tells whether the logs are whole.
//
// A violation is no error: see [Report.OK] and Report.Violations. The error is a reader's, beside a
// Report on what was read before. Memory grows with the number of hosts, not of records.
//
// A file may hold several logs one after the other, as when a crawler is started again, even where
// it was killed in mid-line; each is proved by itself, but for what hosts are owed beyond the end
// of a crawler: a block holds in the logs after the one that tells of it, and so does the gap after
// a start where that is longer than a minute. A crawler that keeps its state
// (politeness.Config.WithState) keeps both. The log of several Transports can be proved if they
// share one limiter and, if they have any, one budget.
//
// Several readers are the logs of a fleet that shares a limiter and a budget: no single one shows
// that its promises were kept, so their records are put in the order of their times and proved as
// one. Each reader should hold one log then, because a budget that began anew isn't told from the
// one before, and the proof is as good as the machines' clocks agree. Logs that begin when all
// others have ended are proved as if they stood in one file.
//
// A process that is killed leaves the beginning of an honest log. What a kill may have taken is
// open: ends, the numbers of starts without an answer, the seal of a chained log, half a line.
//
// A log that is signed needs its key to prove that: see [Trust.Check].
func Check(logs ...io.Reader) (*Report, error) { return Trust{}.Check(logs...) }

func check(k *trees.Known, logs []io.Reader) (*Report, error) {
	a := newAuditor()
	var errs error
	sources := make([]*source, len(logs))
	for i, r := range logs {
		s := &source{a: a, in: lines.NewReader(r), chain: sha256.New()}
		if len(logs) > 1 {
			s.at.log = i + 1
		}
		s.forest = trees.Forest{Known: k, Report: (*trees.Signed)(&a.report.Signed), Broken: func(detail string, at ...int) {
			var places []place
			for _, line := range at {
				places = append(places, place{s.at.log, line})
			}
			a.violation(BrokenSignature, "", detail, places...)
		}}
		sources[i], errs = s, errors.Join(errs, s.advance())
	}
	for s := earliest(sources); s != nil; s = earliest(sources) {
		if a.follows() {
			a.end()
			a.begin()
		}
		d := &s.entry.Decision
		if d.Trip != 0 { // each log numbers its trips by itself
			d.Trip = d.Trip*uint64(len(sources)) + uint64(s.at.log)
		}
		a.jump(s.entry.Jumped)
		a.run = s.run
		a.take(d, s.at)
		if err := s.advance(); err != nil {
			errs = errors.Join(errs, err)
		}
	}
	a.end()
	k.Extended((*trees.Signed)(&a.report.Signed), func(detail string) { a.violation(BrokenSignature, "", detail, a.at) })
	return a.finish(), errs
}

// slack is how long after a start or an end its record may have been made.
const slack = time.Second

// longest is a delay that no request waits for: a limiter needn't count further.
const longest = 10 * 365 * 24 * time.Hour

// tooShort reports whether a delay, if it is known, doesn't keep to a crawl-delay.
func tooShort(delay, floor time.Duration) bool { return delay > 0 && delay < min(floor, longest) }

// An auditor proves records one by one.
type auditor struct {
	report Report
	total  map[string]*hostTotal // by host, over all logs

	// The present record, its line and its log.
	d      *evidence.Decision
	at     place
	run    *run
	runs   []*run // this one, and the others that are merged with it
	wasCut bool   // whether a log before them was cut off
	jumps  []jump // how far clocks have jumped ahead so far

	// What is known of the present log, or of all that are merged.
	hosts    map[string]*hostAudit
	trips    trips
	places   places
	origins  map[originKey]*origin
	purposes map[string]string                    // what the pages of a Transport are for, as its policy has it
	reserved *simplelru.LRU[attemptKey, struct{}] // attempts whose pages were refused for what headers or pages reserve, and have no end yet

	// Transports, over all logs, and the one of the present record.
	transports map[string]*transport
	by         *transport
	byWhom     string

	tallies [promises]tally
}

func newAuditor() *auditor {
	a := &auditor{
		report: Report{Records: map[evidence.Type]int{}, Broken: map[Kind]int{}, Violations: []Violation{}, Hosts: []HostReport{}},
		total:  map[string]*hostTotal{},

		transports: map[string]*transport{},
	}
	a.by = a.byName("")
	a.report.Proofs.Numbered, a.report.Proofs.Chained = true, true
	a.begin()
	return a
}

// A jump is how far a clock has jumped ahead, and the latest time before that.
type jump struct {
	after time.Time
	by    time.Duration
}

// maxJumps is how many jumps are remembered by themselves.
const maxJumps = 1000

// jump takes a jump of the clock.
func (a *auditor) jump(by time.Duration) {
	switch n := len(a.jumps); {
	case by <= 0:
	case n == maxJumps:
		a.jumps[n-1].by += by
	default:
		a.jumps = append(a.jumps, jump{a.report.Last, by})
	}
}

// jumpedSince returns how far clocks have jumped since t. What was logged after a jump may have
// been before it: its time is earlier than the clock has shown since.
func (a *auditor) jumpedSince(t time.Time) (by time.Duration) {
	for _, j := range a.jumps {
		if t.Before(j.after.Add(j.by)) {
			by += j.by
		}
	}
	return by
}

// A hostTotal is a HostReport in the making.
type hostTotal struct {
	HostReport
	latency   time.Duration // sum of all latencies
	banned    bool          // whether there may have been bans: the number of refusals in a row is a sum then
	next      uint64        // number that the next start had, had the logs before gone on; 0: there were none
	latencies int           // number of them
}

// begin starts a log. What hosts were owed at the end of the one before goes on.
func (a *auditor) begin() {
	before := a.hosts
	a.hosts = map[string]*hostAudit{}
	for name, h := range before {
		if next := h.successor(); next != nil {
			a.hosts[name] = next
		}
	}
	a.trips, a.places = newTrips(), places{}
	a.runs = slices.DeleteFunc(a.runs, func(r *run) bool {
		a.wasCut = a.wasCut || r.begun && !r.sealed
		return r.begun && (r.sealed || a.at.log == 0)
	})
	a.reserved, a.purposes = lastOf[attemptKey, struct{}](maxReserved), map[string]string{}
	a.origins = map[originKey]*origin{}
	for _, t := range a.transports {
		t.begin()
	}
}

// end settles what was left open until more would be known, in an order that isn't left to chance.
func (a *auditor) end() {
	for _, name := range inOrder(a.hosts) {
		a.hosts[name].end()
	}
	a.provePlaces(0)
	for _, name := range inOrder(a.transports) {
		a.byWhom, a.by = name, a.transports[name]
		a.unledPages()
	}
}

// inOrder returns the names in m in their order.
func inOrder[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (a *auditor) finish() *Report {
	r := &a.report
	for _, h := range a.total {
		if h.latencies > 0 {
			h.Latency = h.latency / time.Duration(h.latencies)
		}
		r.Hosts = append(r.Hosts, h.HostReport)
	}
	slices.SortFunc(r.Hosts, func(a, b HostReport) int { return cmp.Compare(a.Host, b.Host) })
	slices.SortStableFunc(r.Violations, func(a, b Violation) int { return comparePlaces(a.last(), b.last()) })
	if r.Logs == 0 {
		r.Proofs.Numbered, r.Proofs.Chained = false, false
	}
	if len(r.Records) == 0 {
		for i := range a.tallies {
			a.openEnded(i, "the log holds no record")
		}
	} else if s := r.Signed; s.Checkpoints > 0 {
		switch {
		case s.Key == "":
			a.openEnded(logWhole, "the log is signed, but no key was given")
		case s.After > 0:
			a.openEnded(logWhole, "the records after the last checkpoint aren't signed")
		}
	} else if !r.Proofs.Chained {
		a.openEnded(logWhole, "the lines aren't chained: whoever held the file could change them")
	}
	r.Promises = a.promised()
	return r
}

// violation reports what is wrong with the records at the given places.
func (a *auditor) violation(kind Kind, host, detail string, at ...place) {
	a.report.Broken[kind]++
	if len(a.report.Violations) == maxViolations {
		return
	}
	slices.SortFunc(at, comparePlaces)
	v := Violation{Kind: kind, Host: host, Detail: printable.Text(detail)}
	for _, p := range slices.Compact(at) {
		v.Lines = append(v.Lines, p.line)
		if p.log > 0 {
			v.Logs = append(v.Logs, p.log)
		}
	}
	a.report.Violations = append(a.report.Violations, v)
}

// contradiction reports that the present record can't be true, or not beside those at other places.
func (a *auditor) contradiction(detail string, others ...place) {
	a.violation(Contradiction, a.d.Host, detail, append(others, a.at)...)
}

// otherLog is what is open where a Transport goes on in another log.
const otherLog = "what a Transport did between two logs that it has records in"

// take takes the record d from the line at.
func (a *auditor) take(d *evidence.Decision, at place) {
	a.d, a.at = d, at
	a.run.begun = true
	a.by = a.byName(d.Transport)
	if before := a.by.run; before != nil && before != a.run && a.by.mix != 0 { // a new process has a new name
		a.openEnded(delaysKept, otherLog)
		a.openEnded(slotsKept, otherLog)
	}
	a.by.run = a.run
	if d.Trip != 0 {
		d.Trip ^= a.by.mix // each Transport numbers its trips by itself
	}
	if p := a.by.policy; p != nil && d.Agent == "" {
		d.Agent = p.Product
	}
	if p := a.by.policy; p != nil && p.Process != "" && at.log > 0 {
		d.Seq, d.Instead = 0, 0 // each process of a fleet numbers its own starts
	}
	a.report.Records[d.Type]++
	if !d.Time.IsZero() && d.Type != evidence.LogClosed && d.Type != evidence.Checkpoint { // a log may be closed long after the crawl
		if a.report.First.IsZero() || d.Time.Before(a.report.First) {
			a.report.First = d.Time
		}
		if d.Time.After(a.report.Last) {
			a.report.Last = d.Time
		}
		if d.Time.After(a.run.last) {
			a.run.last = d.Time
		}
	}
	a.consistent(d)
	a.consent(d)
	if d.Instead != 0 {
		a.host(d).giveUpStart(d.Instead, d.Type != evidence.Waiting)
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
		a.trips.retry(d)
	case evidence.SlotTimeout:
		a.trips.leave(d)
	case evidence.LeaseExpired:
		a.leaseExpired(d)
	case evidence.HostBlocked:
		a.host(d).block(d)
	case evidence.HostCleared:
		a.host(d).clear(d)
	case evidence.BudgetWarning, evidence.BudgetExceeded:
		a.limit(d)
	}
}

// consistent checks a record against itself.
func (a *auditor) consistent(d *evidence.Decision) {
	switch d.Type {
	case "":
		a.contradiction("a record without a type")
	case evidence.PolicyStated, evidence.RobotsAllowed, evidence.Started, evidence.Resent, evidence.Fetched, evidence.Retried, evidence.HostCleared,
		evidence.RobotsFetched, evidence.RobotsRevalidated, evidence.BudgetWarning, evidence.NoIndex, evidence.StateLost, evidence.LogClosed,
		evidence.Checkpoint, evidence.Waiting:
		if !d.Allowed {
			a.contradiction(string(d.Type) + " with \"allowed\": false")
		}
	case evidence.BlockedByRobots, evidence.BlockedByRule, evidence.BudgetExceeded, evidence.SlotTimeout,
		evidence.Failed, evidence.HostBlocked, evidence.LeaseExpired, evidence.ResponseRejected, evidence.Reserved:
		if d.Allowed {
			a.contradiction(string(d.Type) + " with \"allowed\": true")
		}
	case evidence.RobotsUnreachable: // what the policy lets then
	default:
		a.openEnded(logWhole, "a record of a type that isn't known here")
	}
	// The rule that decided must be of the right kind. A rule with an empty pattern may be named
	// too, though it decides nothing.
	key, pattern, _ := strings.Cut(d.MatchedRule, ":")
	if strings.TrimSpace(pattern) != "" {
		key = strings.ToLower(strings.TrimSpace(key))
		switch {
		case d.Type == evidence.RobotsAllowed && strings.HasPrefix(key, "dis"):
			a.contradiction("robots_allowed by the rule " + d.MatchedRule)
		case d.Type == evidence.BlockedByRobots && strings.HasPrefix(key, "allow"):
			a.contradiction("blocked_by_robots by the rule " + d.MatchedRule)
		}
	}
	if !d.Start.IsZero() && !d.Time.IsZero() && d.Time.Before(d.Start) {
		a.contradiction(fmt.Sprintf("recorded %v before the start that it tells of", d.Start.Sub(d.Time)))
	}
	if (d.Type == evidence.Started || d.Type == evidence.Resent) && !d.Start.IsZero() && d.Time.Sub(d.Start) > slack {
		a.contradiction(fmt.Sprintf("recorded %v after its start", d.Time.Sub(d.Start)))
	}
	if d.Type == evidence.HostBlocked && !d.RetryAt.IsZero() && !d.RetryAt.Equal(d.Until) {
		a.contradiction("two times for the end of one block")
	}
	if d.Type == evidence.BudgetExceeded && d.Limit != "time" && d.Max > 0 && d.Used > d.Max {
		a.violation(BrokenBudget, d.Host, fmt.Sprintf("%d of %d %s", d.Used, d.Max, d.Limit), a.at)
	}
	if d.Latency > d.Duration {
		a.contradiction("the headers came after the end of the body")
	}
	for _, v := range [...]time.Duration{d.WaitSlot, d.WaitDelay, d.WaitBlock, d.Delay, d.CrawlDelay, d.Latency, d.Duration} {
		if v < 0 {
			a.contradiction("a time below zero")
			break
		}
	}
	if d.Slots > 0 && d.Slot > d.Slots {
		a.violation(BrokenConcurrency, d.Host, fmt.Sprintf("slot %d of %d", d.Slot, d.Slots), a.at)
	}
}

// host returns the state of the host that d is about.
func (a *auditor) host(d *evidence.Decision) *hostAudit {
	h := a.hosts[d.Host]
	if h == nil {
		t := a.total[d.Host]
		if t == nil {
			t = &hostTotal{HostReport: HostReport{Host: d.Host}}
			a.total[t.Host] = t
		}
		h = newHostAudit(a, t)
		a.hosts[t.Host] = h
	}
	return h
}

// seed makes the hashes by which URLs and agents are told apart.
var seed = maphash.MakeSeed()

func hashURL(d *evidence.Decision) uint64 { return maphash.String(seed, d.URL) }

// fetchesRobots reports whether d is about a fetch of robots.txt.
func fetchesRobots(d *evidence.Decision) bool {
	return d.RobotsTxt || namesRobots(d)
}

// namesRobots reports whether the URL of d is that of a robots.txt.
func namesRobots(d *evidence.Decision) bool {
	if !strings.Contains(d.URL, "/robots.txt") { // as nearly always
		return false
	}
	_, path := splitURL(d.URL)
	path, _, _ = strings.Cut(path, "?")
	return path == "/robots.txt"
}

// started takes a start, which needs a verdict, room in the budget, and its turn on the host.
func (a *auditor) started(d *evidence.Decision) {
	h := a.host(d)
	h.report.Starts++
	h.report.Wait += d.WaitSlot + d.WaitDelay + d.WaitBlock
	h.report.MaxDelay = max(h.report.MaxDelay, d.Delay)
	x := &exchange{
		key: keyOf(d), at: a.at, run: a.run, url: hashURL(d), start: d.Start, seq: d.Seq,
		delay: d.Delay, floor: d.CrawlDelay, slots: d.Slots, trip: d.Trip, attempt: d.Attempt, asker: askerOf(d), by: a.by,
		learned: d.DelaySource == "learned",
	}
	_, target := splitURL(d.URL)
	x.resource = maphash.String(seed, target)
	switch fits, known := a.by.keyFits(d); {
	case !known:
		a.openEnded(delaysKept, "a URL that doesn't tell its host")
	case !fits:
		a.contradiction("the URL " + d.URL + " has another host than " + d.Host)
	}
	if x.start.IsZero() {
		x.start = d.Time
	}
	trip, judged := a.trips.get(keyOfTrip(d))
	if a.isPage(d, judged) {
		v := trip.about(d)
		a.allowed(d, v, judged)
		if a.by.mix != 0 {
			x.floor = max(x.floor, v.floor)
		}
		if a.costsAPage(d, h, trip, judged) {
			x.page = true
			h.report.Pages++
			a.spend(h, x.start)
		}
	}
	if d.Type == evidence.Resent {
		if lost := h.sent(d); lost != nil {
			h.finish(lost, x.start) // its connection was lost; the request goes on as x, in the same slot
		}
	}
	h.start(x)
	a.place(x)
}

// ended takes the end of an exchange.
func (a *auditor) ended(d *evidence.Decision) {
	a.trips.leave(d)
	h := a.host(d)
	x := h.open[keyOf(d)]
	if x == nil {
		if d.Type == evidence.Fetched || d.Seq != 0 {
			a.violation(MissingEnd, d.Host, string(d.Type)+" without a start", a.at)
		}
		return
	}
	a.trips.end(d)
	h.movedInTime(x, d)
	if x.statusAt.line != 0 && x.status != d.Status {
		a.contradiction(fmt.Sprintf("status %d here and %d there", d.Status, x.status), x.statusAt)
	}
	h.report.Bytes += d.Bytes
	if d.Latency > 0 && d.Status > 0 {
		h.report.latencies++
		h.report.latency += d.Latency
	}
	if !d.Start.IsZero() && !d.Start.Equal(x.start) {
		a.contradiction("two records give different times to one start", x.at)
	}
	if !x.asker.agrees(d) {
		a.contradiction("two records of one request "+disagree, x.at)
	}
	if hashURL(d) != x.url {
		a.contradiction("two records give different URLs to one request", x.at)
	}
	// The end may look later than it was: time that the computer slept is missing from d.Duration.
	if early := x.start.Add(d.Duration).Sub(d.Time); !d.Time.IsZero() && early > slack {
		a.contradiction(fmt.Sprintf("recorded %v before its end", early), x.at)
	}
	// A turn is given back unused where robots.txt or the budget has changed during the wait.
	sent := d.Type != evidence.Failed || d.Err != "" || d.Status != 0 || d.Latency != 0
	x.unsent = !sent
	if sent && tooShort(x.delay, x.floor) {
		a.contradiction(fmt.Sprintf("a delay of %v under a crawl-delay of %v", x.delay, x.floor), x.at)
	}
	if sent {
		h.answer(x, d)
		h.paceAnswered(x, d)
		h.dated(x, d)
		a.answered(d)
	}
	if !fetchesRobots(d) {
		a.spendBytes(d.Bytes)
		if sent {
			a.inTime(h, x)
		}
	}
	if x.page && !sent {
		h.report.Pages--
		a.by.budget.giveBack(h.name)
	}
	end := x.start.Add(d.Duration)
	if d.Time.After(end) { // the two are one instant, unless the clock has jumped
		end = d.Time
	}
	h.finish(x, end)
	h.settleRun(false)
	h.judgePace(false)
}

// leaseExpired takes the news that a slot was taken back from an exchange that has no end yet. The
// record names that exchange, or, if the limiter doesn't know it, the host: its oldest exchange is
// meant then. The exchange may have ended since: then its own record says only that its slot was
// lost by then, and that of the request that got the slot says when.
func (a *auditor) leaseExpired(d *evidence.Decision) {
	h := a.host(d)
	if x := h.started(d.Seq); x != nil {
		if p := x.by.policy; p != nil && d.Time.Before(x.start.Add(p.LeaseTTL-slack)) {
			a.contradiction(fmt.Sprintf("a slot was taken back %v after its start, where it is held for %v at least", d.Time.Sub(x.start), p.LeaseTTL), x.at)
			return
		}
		at := d.Time
		if d.Trip != 0 && !x.leaked && x.safe() > 0 {
			at = x.start.Add(x.safe()) // or later: who may have got the slot since is believed to have
		}
		h.expire(x, at)
		return
	}
	if a.trips.hasEnded(d) {
		return
	}
	if d.Seq != 0 {
		// It has ended, or its start is logged once its headers are there.
		if d.Seq >= h.next {
			if h.leaked == nil {
				h.leaked = map[uint64]time.Time{}
			}
			if len(h.leaked) < maxOpen {
				h.leaked[d.Seq] = d.Time
			}
		}
		return
	}
	if x := h.oldest(); x != nil {
		h.expire(x, d.Time)
	}
}
