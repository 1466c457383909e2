package evidence

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness/internal/hostname"
)

// maxLine is the longest line that Audit reads: a robots.txt of 500 KiB in
// which each byte is escaped, and more.
const maxLine = 16 << 20

// Audit reads a log that JSONLines wrote and proves again what it claims: that
// no two starts on a host were closer than the delay in force, never more
// requests in flight than the host has slots, no start inside a block, no fetch
// of a disallowed URL, nothing past the budget, and every start ended. Where the
// log holds robots.txt, the verdicts are decided again (see [RegisterRobots]).
// It also tells whether the log is whole.
//
// A violation is not an error: see [Report.OK] and Report.Violations. The error
// is the reader's, with a Report on what was read before.
//
// The log is read once; memory grows with the number of hosts, not of records. A
// file may hold several logs one after the other, as when a crawler is started
// again, and also where it was killed in mid-line; each is proved by itself. The
// log of several Transports can be proved if they share one limiter and, if they
// have any, one budget.
func Audit(r io.Reader) (Report, error) {
	a := newAuditor()
	in := bufio.NewReaderSize(r, 64<<10)
	var buf []byte
	var err error
	for err == nil {
		var text []byte
		text, err = readLine(in, &buf)
		if len(text) == 0 && err != nil {
			break
		}
		a.report.Lines++
		if text = bytes.TrimRight(text, "\r\n"); len(bytes.TrimSpace(text)) > 0 {
			a.read(text)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	a.end()
	return a.finish(), err
}

// readLine returns the next line with its end. Of a line longer than maxLine it
// returns the beginning, which is no record then.
func readLine(in *bufio.Reader, buf *[]byte) ([]byte, error) {
	part, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return part, err
	}
	*buf = (*buf)[:0]
	for {
		if len(*buf) < maxLine {
			*buf = append(*buf, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return *buf, err
		}
		part, err = in.ReadSlice('\n')
	}
}

// slack is how long after a start or an end its record may have been made.
const slack = time.Second

// longest is a delay that nobody waits for: a limiter needn't count further.
const longest = 10 * 365 * 24 * time.Hour

// tooShort reports whether a delay, if it is known, doesn't keep to a crawl-delay.
func tooShort(delay, floor time.Duration) bool { return delay > 0 && delay < min(floor, longest) }

// An auditor proves logs line by line.
type auditor struct {
	report Report
	total  map[string]*hostTotal // over all logs of the file

	// Of the present log.
	line     line   // the present line, and
	at       int    // its number in the file
	lines    int    // read so far
	next     uint64 // number that the next line should have; 0: lines aren't numbered
	chained  bool
	sealed   int // line of the seal; 0: none
	hash     [sha256.Size]byte
	hosts    map[string]*hostAudit
	trips    trips
	origins  map[string]*origin
	budget   budgetAudit
	pageFrom time.Time // start of the first page
}

func newAuditor() *auditor {
	a := &auditor{
		report: Report{Records: map[Type]int{}, Broken: map[Kind]int{}, Violations: []Violation{}, Hosts: []HostReport{}},
		total:  map[string]*hostTotal{},
	}
	a.report.Proofs.Numbered, a.report.Proofs.Chained = true, true
	a.begin()
	return a
}

// A hostTotal is a HostReport in the making.
type hostTotal struct {
	HostReport
	latency   time.Duration // sum of
	latencies int
}

// begin starts a log.
func (a *auditor) begin() {
	a.next, a.lines = 0, 0
	a.chained, a.sealed = false, 0
	a.hash = [sha256.Size]byte{}
	a.hosts = map[string]*hostAudit{}
	a.trips = newTrips()
	a.origins = map[string]*origin{}
	a.budget = budgetAudit{limits: map[string]limit{}}
	a.pageFrom = time.Time{}
}

// end ends a log: whatever was left open until more is known is settled.
func (a *auditor) end() {
	if a.lines == 0 {
		return
	}
	a.report.Logs++
	for _, h := range a.hosts {
		h.end()
	}
	if a.chained && a.sealed == 0 {
		a.violation(BrokenChain, "", "the log is chained but not sealed: its end was cut off, or Close never called", a.at)
	}
	if a.next == 0 {
		a.report.Proofs.Numbered = false
	}
	if !a.chained {
		a.report.Proofs.Chained = false
	}
}

func (a *auditor) finish() Report {
	r := &a.report
	for _, h := range a.total {
		if h.latencies > 0 {
			h.Latency = h.latency / time.Duration(h.latencies)
		}
		r.Hosts = append(r.Hosts, h.HostReport)
	}
	slices.SortFunc(r.Hosts, func(a, b HostReport) int { return cmp.Compare(a.Host, b.Host) })
	slices.SortStableFunc(r.Violations, func(a, b Violation) int {
		return cmp.Compare(a.Lines[len(a.Lines)-1], b.Lines[len(b.Lines)-1])
	})
	if r.Logs == 0 {
		r.Proofs.Numbered, r.Proofs.Chained = false, false
	}
	return *r
}

// violation reports what is wrong with the records on the given lines.
func (a *auditor) violation(kind Kind, host, detail string, lines ...int) {
	a.report.Broken[kind]++
	if len(a.report.Violations) < maxViolations {
		slices.Sort(lines)
		a.report.Violations = append(a.report.Violations, Violation{kind, host, slices.Compact(lines), detail})
	}
}

// contradiction reports that the present record can't be true.
func (a *auditor) contradiction(detail string, lines ...int) {
	a.violation(Contradiction, a.line.Host, detail, append(lines, a.at)...)
}

// read takes one line.
func (a *auditor) read(text []byte) {
	a.at = a.report.Lines
	if err := a.line.parse(text); err != nil {
		detail := strings.TrimPrefix(err.Error(), "evidence: ")
		// A crawler that is killed leaves half a line, behind which the next one goes on.
		if text = a.firstOfAnother(text); text == nil {
			a.violation(Unreadable, "", detail, a.at)
			a.lines++
			if a.next > 0 {
				a.next++ // so that the lines after it aren't reported too
			}
			return
		}
		a.violation(Unreadable, "", "a line that was cut off, with the first line of another log behind it", a.at)
	}
	d := &a.line.Decision
	if a.line.n == 1 && a.lines > 0 && (a.next > 1 || a.sealed > 0) {
		a.end()
		a.begin()
	}
	a.lines++
	a.whole(text)

	a.report.Records[d.Type]++
	if !d.Time.IsZero() && d.Type != LogClosed { // which may come long after the crawl
		if a.report.First.IsZero() || d.Time.Before(a.report.First) {
			a.report.First = d.Time
		}
		if d.Time.After(a.report.Last) {
			a.report.Last = d.Time
		}
	}
	a.consistent(d)
	switch d.Type {
	case RobotsFetched, RobotsRevalidated, RobotsUnreachable:
		a.robotsFetched(d)
	case RobotsAllowed, BlockedByRobots, BlockedByRule:
		a.decided(d)
	case Started:
		a.started(d)
	case Fetched, Failed:
		a.ended(d)
	case LeaseExpired:
		a.leaseExpired(d)
	case HostBlocked:
		a.host(d).block(d)
	case HostCleared:
		a.host(d).clear(d)
	case BudgetWarning, BudgetExceeded:
		a.limit(d)
	case LogClosed:
		a.sealed = a.at
	}
}

// firstOfAnother reads the first line of a log behind the half of another line, and
// returns it; nil if there is none.
func (a *auditor) firstOfAnother(text []byte) []byte {
	i := bytes.LastIndex(text, []byte(`{"type":"`)) // quotes in strings are escaped
	if i <= 0 || a.line.parse(text[i:]) != nil || a.line.n != 1 {
		return nil
	}
	return text[i:]
}

// whole checks the number and the hash of the present line.
func (a *auditor) whole(text []byte) {
	l := &a.line
	switch {
	case a.sealed > 0:
		a.violation(BrokenChain, "", "a line after the end of the log", a.sealed, a.at)
	case a.lines == 1:
		a.chained = l.hash != ""
		a.next = 1
		if l.n == 0 {
			a.next = 0 // written by something else than JSONLines
		}
	}
	switch {
	case l.n == a.next:
	case a.next == 0 || l.n == 0:
		a.violation(MissingLine, "", "some lines have a number and some haven't", a.at)
	case l.n > a.next:
		missing := fmt.Sprintf("records %d to %d are missing", a.next, l.n-1)
		if l.n-1 == a.next {
			missing = fmt.Sprintf("record %d is missing", a.next)
		}
		if a.lines == 1 {
			a.violation(MissingLine, "", missing, a.at)
		} else {
			a.violation(MissingLine, "", missing, a.at-1, a.at)
		}
	default:
		a.violation(MissingLine, "", fmt.Sprintf("record %d comes after record %d", l.n, a.next-1), a.at-1, a.at)
	}
	if a.next > 0 {
		a.next = max(a.next, l.n+1)
	}

	if !a.chained {
		if l.hash != "" {
			a.violation(BrokenChain, "", "a hash in a log that isn't chained", a.at)
		}
		return
	}
	end := []byte(`,"hash":"` + l.hash + `"}`)
	body, ok := bytes.CutSuffix(text, end)
	if !ok || l.hash == "" {
		a.violation(BrokenChain, "", "the line doesn't end with its hash", a.at)
		return
	}
	sum := chain(a.hash, body)
	if hex.EncodeToString(sum[:]) != l.hash {
		if a.lines == 1 {
			a.violation(BrokenChain, "", "the line isn't what was hashed", a.at)
		} else {
			a.violation(BrokenChain, "", "the line isn't what was hashed, or doesn't follow the line before it", a.at-1, a.at)
		}
	}
	// Go on from the hash that the line claims, so that one change is reported once.
	a.hash = [sha256.Size]byte{}
	_, _ = hex.Decode(a.hash[:], []byte(l.hash[:min(len(l.hash), 2*sha256.Size)]))
}

// consistent checks a record against itself.
func (a *auditor) consistent(d *Decision) {
	switch d.Type {
	case "":
		a.contradiction("a record without a type")
	case RobotsAllowed, Started, Fetched, Retried, HostCleared, RobotsFetched, RobotsRevalidated, BudgetWarning, NoIndex, LogClosed:
		if !d.Allowed {
			a.contradiction(string(d.Type) + " with \"allowed\": false")
		}
	case BlockedByRobots, BlockedByRule, BudgetExceeded, SlotTimeout, Failed, HostBlocked, LeaseExpired, ResponseRejected:
		if d.Allowed {
			a.contradiction(string(d.Type) + " with \"allowed\": true")
		}
	}
	// The rule that decided must have been of the right kind. An empty pattern
	// decides nothing, but may be the rule that is named.
	key, pattern, _ := strings.Cut(d.MatchedRule, ":")
	if strings.TrimSpace(pattern) != "" {
		key = strings.ToLower(strings.TrimSpace(key))
		switch {
		case d.Type == RobotsAllowed && strings.HasPrefix(key, "dis"):
			a.contradiction("robots_allowed by the rule " + d.MatchedRule)
		case d.Type == BlockedByRobots && strings.HasPrefix(key, "allow"):
			a.contradiction("blocked_by_robots by the rule " + d.MatchedRule)
		}
	}
	if !d.Start.IsZero() && !d.Time.IsZero() && d.Time.Before(d.Start) {
		a.contradiction(fmt.Sprintf("recorded %v before the start that it tells of", d.Start.Sub(d.Time)))
	}
	if d.Type == Started && !d.Start.IsZero() && d.Time.Sub(d.Start) > slack {
		a.contradiction(fmt.Sprintf("recorded %v after its start", d.Time.Sub(d.Start)))
	}
	if d.Type == HostBlocked && !d.RetryAt.IsZero() && !d.RetryAt.Equal(d.Until) {
		a.contradiction("two times for the end of one block")
	}
	if d.Type == BudgetExceeded && d.Limit != "time" && d.Max > 0 && d.Used > d.Max {
		a.violation(BrokenBudget, d.Host, fmt.Sprintf("%d of %d %s", d.Used, d.Max, d.Limit), a.at)
	}
	if d.Latency > d.Duration && d.Duration > 0 {
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
func (a *auditor) host(d *Decision) *hostAudit {
	h := a.hosts[d.Host]
	if h == nil {
		t := a.total[d.Host]
		if t == nil {
			t = &hostTotal{HostReport: HostReport{Host: d.Host}}
			a.total[t.Host] = t
		}
		h = &hostAudit{a: a, name: t.Host, report: t, open: map[exchangeKey]*exchange{}}
		a.hosts[t.Host] = h
	}
	return h
}

// seed makes the hashes by which URLs are told apart.
var seed = maphash.MakeSeed()

func hashURL(d *Decision) uint64 { return maphash.String(seed, d.URL) }

// fetchesRobots reports whether d is about a fetch of robots.txt.
func fetchesRobots(d *Decision) bool {
	return d.RobotsTxt || namesRobots(d)
}

// namesRobots reports whether the URL of d is that of a robots.txt.
func namesRobots(d *Decision) bool {
	_, path := splitURL(d.URL)
	path, _, _ = strings.Cut(path, "?")
	return path == "/robots.txt"
}

// judged reports whether a verdict was given on the start d, though it says that it
// fetches a robots.txt, which needs none.
func (a *auditor) judged(d *Decision) bool {
	_, ok := a.trips.m[keyOfTrip(d)]
	return ok && !namesRobots(d)
}

// splitURL splits a URL into its origin and what is asked of it, path and query
// as they were sent.
func splitURL(u string) (origin, target string) {
	u, _, _ = strings.Cut(u, "#")
	i := strings.Index(u, "://")
	if i < 0 {
		return "", u
	}
	scheme, rest := strings.ToLower(u[:i]), u[i+len("://"):]
	authority := rest
	if j := strings.IndexAny(rest, "/?"); j >= 0 {
		authority, target = rest[:j], rest[j:]
	}
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	return scheme + "://" + plainAuthority(scheme, authority), target
}

// plainAuthority spells an authority as origins are spelled. In a URL that was parsed and printed
// it is escaped.
func plainAuthority(scheme, authority string) string {
	if strings.Contains(authority, "%") {
		if u, err := url.Parse("//" + authority); err == nil {
			authority = u.Host
		}
	}
	return hostname.Authority(scheme, authority)
}

// started takes a start: was there a verdict for it, does the budget allow it,
// and was it the host's turn?
func (a *auditor) started(d *Decision) {
	h := a.host(d)
	h.report.Starts++
	h.report.Wait += d.WaitSlot + d.WaitDelay + d.WaitBlock
	h.report.MaxDelay = max(h.report.MaxDelay, d.Delay)
	x := &exchange{
		key: keyOf(d), line: a.at, url: hashURL(d), start: d.Start, seq: d.Seq,
		delay: d.Delay, floor: d.CrawlDelay, slots: d.Slots, trip: d.Trip, attempt: d.Attempt, asker: askerOf(d),
	}
	if x.start.IsZero() {
		x.start = d.Time
	}
	if !fetchesRobots(d) || a.judged(d) {
		a.allowed(d)
		if d.Redirects == 0 && d.Attempt <= 1 {
			x.page = true
			h.report.Pages++
			a.spend(h, x.start)
		}
	}
	h.start(x)
}

// ended takes the end of an exchange.
func (a *auditor) ended(d *Decision) {
	h := a.host(d)
	x := h.open[keyOf(d)]
	if x == nil {
		if d.Type == Fetched || d.Seq != 0 {
			a.violation(MissingEnd, d.Host, string(d.Type)+" without a start", a.at)
		}
		return
	}
	a.trips.end(d)
	h.movedInTime(x, d)
	h.report.Bytes += d.Bytes
	if d.Latency > 0 && d.Status > 0 {
		h.report.latencies++
		h.report.latency += d.Latency
	}
	if !d.Start.IsZero() && !d.Start.Equal(x.start) {
		a.contradiction("two records give different times to one start", x.line)
	}
	if !x.asker.agrees(d) {
		a.contradiction("two records of one request "+disagree, x.line)
	}
	if hashURL(d) != x.url {
		a.contradiction("two records give different URLs to one request", x.line)
	}
	// It may look later than it was: computers sleep, and durations don't know it.
	if early := x.start.Add(d.Duration).Sub(d.Time); !d.Time.IsZero() && early > slack {
		a.contradiction(fmt.Sprintf("recorded %v before its end", early), x.line)
	}
	// Given up between the turn and the sending, as when robots.txt or the budget
	// changed its mind during the wait?
	sent := d.Type != Failed || d.Err != "" || d.Status != 0 || d.Latency != 0
	x.unsent = !sent
	if sent && tooShort(x.delay, x.floor) {
		a.contradiction(fmt.Sprintf("a delay of %v under a crawl-delay of %v", x.delay, x.floor), x.line)
	}
	if !fetchesRobots(d) {
		a.spendBytes(d.Bytes)
		if sent {
			a.inTime(h, x)
		}
	}
	if x.page && !sent {
		h.report.Pages--
		h.pages--
		a.budget.pages--
	}
	end := x.start.Add(d.Duration)
	if d.Time.After(end) { // the two are one instant, unless the clock has jumped
		end = d.Time
	}
	h.finish(x, end)
}

// leaseExpired takes the news that a slot was taken back from an exchange that
// doesn't end. The record is about that exchange, or, made by the request that
// got the slot, about the host's oldest; made after the exchange has ended, it
// tells nothing new.
func (a *auditor) leaseExpired(d *Decision) {
	h := a.host(d)
	if x := h.open[keyOf(d)]; x != nil && d.Seq != 0 {
		h.expire(x, d.Time)
		return
	}
	if a.trips.ended(d) {
		return
	}
	if x := h.oldest(); x != nil {
		h.expire(x, d.Time)
	}
}
