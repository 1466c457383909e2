package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/internal/printable"
)

// A Promise is one of those that a crawl makes, and what the log shows of it.
type Promise struct {
	Name   string   `json:"name"`          // "delays kept"
	Proof  string   `json:"proof"`         // what was put to the test: "gaps between starts"
	Proved int      `json:"proved"`        // how often it was derived from what is in the log that it was kept
	Open   int      `json:"open"`          // how often the log says so without showing it
	Broken int      `json:"broken"`        // how often it was broken
	Why    []string `json:"why,omitempty"` // what is missing, for what is open: the first 8 reasons
}

// String returns how often p was kept, without its name: "BROKEN 1, open 2, proved 7".
func (p Promise) String() string {
	return cmp.Or(counts("%[2]s %[1]d", []string{"BROKEN", "open", "proved"}, p.Broken, p.Open, p.Proved), "nothing to keep")
}

// counts lists those of some numbers that aren't 0, each formatted with its name.
func counts(format string, names []string, numbers ...int) string {
	var parts []string
	for i, n := range numbers {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, n, names[i]))
		}
	}
	return strings.Join(parts, ", ")
}

// The promises, in the order in which they are shown.
const (
	delaysKept = iota
	slotsKept
	blocksKept
	allowedByRobots
	verdictsRight
	reservationsKept
	budgetKept
	everyStartEnded
	timesAgree
	logWhole
	promises // number of them
)

// aboutPromises says of each promise what is put to the test, and what breaks it.
var aboutPromises = [promises]struct {
	Promise
	kinds []Kind
}{
	delaysKept:       {Promise{Name: "delays kept", Proof: "gaps between starts"}, []Kind{BrokenGap}},
	slotsKept:        {Promise{Name: "slots kept", Proof: "starts"}, []Kind{BrokenConcurrency}},
	blocksKept:       {Promise{Name: "blocks kept", Proof: "refusals"}, []Kind{BrokenBlock}},
	allowedByRobots:  {Promise{Name: "allowed by robots.txt", Proof: "starts"}, []Kind{BrokenRobots}},
	verdictsRight:    {Promise{Name: "verdicts right", Proof: "verdicts, decided again"}, []Kind{BrokenVerdict}},
	reservationsKept: {Promise{Name: "reservations kept", Proof: "verdicts, decided again"}, []Kind{BrokenConsent}},
	budgetKept:       {Promise{Name: "budget kept", Proof: "pages"}, []Kind{BrokenBudget}},
	everyStartEnded:  {Promise{Name: "every start ended", Proof: "starts"}, []Kind{MissingEnd}},
	timesAgree:       {Promise{Name: "times agree with the servers'", Proof: "Date headers"}, nil},
	logWhole:         {Promise{Name: "log whole", Proof: "lines"}, []Kind{MissingLine, MissingStart, BrokenChain, BrokenSignature, Contradiction, Unreadable}},
}

// maxWhy is how many reasons a promise names.
const maxWhy = 8

// tested notes that a promise was put to the test.
func (a *auditor) tested(promise int) { a.report.Promises[promise].Proved++ }

// openEnded notes that a promise is open for the given reason.
func (a *auditor) openEnded(promise int, why string) {
	p := &a.report.Promises[promise]
	p.Open++
	if len(p.Why) != maxWhy && !slices.Contains(p.Why, why) {
		p.Why = append(p.Why, why)
	}
}

// openIf notes the same, if that is so.
func (a *auditor) openIf(is bool, promise int, why string) {
	if is {
		a.openEnded(promise, why)
	}
}

// prove counts what is broken. Proved is what was put to the test and is neither open nor broken.
func (a *auditor) prove() {
	r := &a.report
	whole := &r.Promises[logWhole]
	switch signed := r.Signed; {
	case signed.Checkpoints > 0:
		whole.Proof += fmt.Sprintf(", %s signed by %s", lines.Count(signed.Records, "record"), cmp.Or(signed.Key, "a key that wasn't given"))
		a.openIf(signed.Key == "", logWhole, "the log is signed, but no key was given")
		a.openIf(signed.Key != "" && signed.After > 0, logWhole, "the records after the last checkpoint aren't signed")
	case r.Chained:
		whole.Proof += ", numbered and chained"
	default:
		whole.Proof += map[bool]string{true: ", numbered, not chained", false: ", not numbered"}[r.Numbered]
		a.openIf(len(r.Records) > 0, logWhole, "the lines aren't chained: whoever held the file could change them")
	}
	a.openIf(r.Signed.Key != "" && r.Records[evidence.Checkpoint] == 0, logWhole, "a key was given, and nothing in the log is signed with it")
	whole.Proved = r.Lines
	for i := range r.Promises {
		p := &r.Promises[i]
		for _, k := range aboutPromises[i].kinds {
			p.Broken += r.Broken[k]
		}
		p.Proved = max(0, p.Proved-p.Broken-p.Open)
	}
}

// policyInWords says what p promises: "2 slots a host, 500ms or more between starts (Learned),
// ...".
func policyInWords(p *evidence.Policy) string {
	var parts []string
	add := func(ok bool, format string, values ...any) {
		if ok {
			parts = append(parts, fmt.Sprintf(format, values...))
		}
	}
	add(true, "%s a host", lines.Count(p.Slots, "slot"))
	add(true, "%v or more between %s (%s)", p.DelayMin, map[bool]string{false: "starts", true: "an end and the next start"}[p.FromEnd],
		cmp.Or(p.Adaptive, "a formula that isn't said"))
	add(p.Overrides, "single hosts may have limits of their own")
	add(p.MaxInFlight > 0, "%d in flight on all hosts", p.MaxInFlight)
	add(p.Robots != "", "robots.txt %s", p.Robots)
	add(p.Robots == "obeyed" && p.Unreachable != "", "%s where there is none to be had", p.Unreachable)
	add(p.Backoff != "", "refusals block %s from %v to %v", p.Backoff, p.BackoffStep, p.BackoffCap)
	add(p.Purposes != "", "for %s", p.Purposes)
	add(p.Pages > 0, "%s", lines.Count(int(p.Pages), "page"))
	add(p.PagesPerHost > 0, "%s a host", lines.Count(int(p.PagesPerHost), "page"))
	add(p.Bytes > 0, "%s", lines.Count(int(p.Bytes), "byte"))
	add(p.MaxTime > 0, "%v", p.MaxTime)
	add(p.Every > 0, "anew each %v", p.Every)
	add(p.Retries > 0, "%d further tries", p.Retries)
	return strings.Join(parts, ", ")
}

// A place is a line of one of the logs that are checked.
type place struct {
	log  int // number of the log, from 1; 0 where there is only one
	line int // number of the line in its log, from 1
}

// String returns "line 7", with the log before it where there are several.
func (p place) String() string {
	if p.log == 0 {
		return fmt.Sprintf("line %d", p.line)
	}
	return fmt.Sprintf("log %d, line %d", p.log, p.line)
}

// place returns where the record of the start x stands.
func (a *auditor) place(x *exchange) place { return place{a.named[x.by].run.log, int(x.line)} }

// violation reports what is wrong with the records at the given places.
func (a *auditor) violation(kind Kind, host, detail string, at ...place) {
	a.report.Broken[kind]++
	slices.SortFunc(at, func(p, q place) int { return cmp.Or(cmp.Compare(p.log, q.log), cmp.Compare(p.line, q.line)) })
	v := Violation{Kind: kind, Host: strings.Clone(host), Detail: printable.Text(detail)}
	for _, p := range slices.Compact(at) {
		v.Lines = append(v.Lines, p.line)
		if p.log > 0 {
			v.Logs = append(v.Logs, p.log)
		}
	}
	a.report.Violations = append(a.report.Violations, v)
	if len(a.report.Violations) == 2*maxViolations {
		a.sortViolations()
	}
}

// sortViolations keeps the first violations, in the order of lines.
func (a *auditor) sortViolations() {
	vs := a.report.Violations
	slices.SortStableFunc(vs, func(v, w Violation) int {
		return cmp.Or(slices.Compare(v.Logs, w.Logs), slices.Compare(v.Lines, w.Lines))
	})
	a.report.Violations = vs[:min(len(vs), maxViolations)]
}

// contradiction reports that the present record can't be true, or not beside those at other places.
func (a *auditor) contradiction(detail string, others ...place) {
	a.violation(Contradiction, a.d.Host, detail, append(others, a.at)...)
}

// cannot reports a contradiction, if there is one.
func (a *auditor) cannot(is bool, detail string, others ...place) {
	if is {
		a.contradiction(detail, others...)
	}
}

// missing says that what has the numbers from first to last is missing.
func missing(what string, first, last uint64) string {
	if first == last {
		return fmt.Sprintf("%s %d is missing", what, first)
	}
	return fmt.Sprintf("%ss %d to %d are missing", what, first, last)
}

// stamp returns t in nanoseconds since 1970, from then to 2242, 0 for the zero time.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return min(max(t.Unix(), 1), 1<<33)*int64(time.Second) + int64(t.Nanosecond())
}
