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

// A Promise is one promise of a crawl, such as "delays kept". It counts how often the log proves,
// breaks or leaves open the promise.
type Promise struct {
	Name   string   `json:"name"`          // "delays kept"
	Proof  string   `json:"proof"`         // the things that were tested, such as "gaps between starts"
	Proved int      `json:"proved"`        // how often the log proves that it was kept
	Open   int      `json:"open"`          // how often the log claims that it was kept, without a proof
	Broken int      `json:"broken"`        // how often it was broken
	Why    []string `json:"why,omitempty"` // the first 8 reasons why it is open
}

// String returns how often p was kept, without its name, such as "BROKEN 1, open 2, proved 7".
func (p Promise) String() string {
	names := []string{"BROKEN", "open", "proved"}
	return cmp.Or(counts("%[2]s %[1]d", names, p.Broken, p.Open, p.Proved), "nothing to keep")
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
	sitesKept
	blocksKept
	allowedByRobots
	verdictsRight
	reservationsKept
	budgetKept
	everyStartEnded
	timesAgree
	logWhole
	dueKept  // the last one: a report has it only if the promise was made
	promises // number of them
)

// aboutPromises has the name and the proof of each promise, and the kinds of violations that break
// it.
var aboutPromises = [promises]struct {
	Promise
	kinds []Kind
}{
	delaysKept:       {Promise{Name: "delays kept", Proof: "gaps between starts"}, []Kind{BrokenGap}},
	slotsKept:        {Promise{Name: "slots kept", Proof: "starts"}, []Kind{BrokenConcurrency}},
	sitesKept:        {Promise{Name: "sites kept", Proof: "starts, over all ports and names"}, []Kind{BrokenSite}},
	blocksKept:       {Promise{Name: "blocks kept", Proof: "refusals"}, []Kind{BrokenBlock}},
	allowedByRobots:  {Promise{Name: "allowed by robots.txt", Proof: "starts"}, []Kind{BrokenRobots}},
	verdictsRight:    {Promise{Name: "verdicts right", Proof: "decisions, computed again"}, []Kind{BrokenVerdict}},
	reservationsKept: {Promise{Name: "reservations kept", Proof: "decisions, computed again"}, []Kind{BrokenConsent}},
	budgetKept:       {Promise{Name: "budget kept", Proof: "pages"}, []Kind{BrokenBudget}},
	everyStartEnded:  {Promise{Name: "every start ended", Proof: "starts"}, []Kind{MissingEnd}},
	timesAgree:       {Promise{Name: "times agree with the servers'", Proof: "Date headers"}, nil},
	logWhole: {Promise{Name: "log whole", Proof: "lines"}, []Kind{
		MissingLine, MissingStart, BrokenChain, BrokenSignature, Contradiction, Unreadable,
	}},
	dueKept: {
		Promise{Name: "pages asked again only when due", Proof: "requests for pages fetched before"},
		[]Kind{BrokenRevisit},
	},
}

// maxWhy is how many reasons a promise names.
const maxWhy = 8

// tested notes that a promise was put to the test.
func (a *auditor) tested(promise int) { a.report.Promises[promise].Proved++ }

// openEnded notes that a promise is open for the given reason.
func (a *auditor) openEnded(promise int, why string) {
	// Reasons are a few constants, so a list without repetitions stays short.
	p := &a.report.Promises[promise]
	p.Open++
	if len(p.Why) != maxWhy && !slices.Contains(p.Why, why) {
		p.Why = append(p.Why, why)
	}
}

// openIf notes that a promise is open for the given reason, if open is true.
func (a *auditor) openIf(open bool, promise int, why string) {
	if open {
		a.openEnded(promise, why)
	}
}

const (
	noKey         = "the log is signed, but no key was given"
	notYet        = "the records after the last checkpoint aren't signed"
	notChained    = "the lines aren't chained, so the file could be changed"
	nothingSigned = "a key was given, and nothing in the log is signed with it"
)

// prove concludes the promises: a test that is neither open nor broken is a proof.
func (a *auditor) prove() {
	r := &a.report
	a.proveWhole()
	for i := range r.Promises {
		p := &r.Promises[i]
		for _, k := range aboutPromises[i].kinds {
			p.Broken += r.Broken[k]
		}
		// One test may break a promise and leave it open, too.
		p.Proved = max(0, p.Proved-p.Broken-p.Open)
	}
	due := r.Promises[dueKept]
	if due.Proved+due.Open+due.Broken == 0 {
		r.Promises = r.Promises[:dueKept]
	}
}

// proveWhole concludes how far the log is whole, by the signatures, hashes and numbers in it.
func (a *auditor) proveWhole() {
	r := &a.report
	whole := &r.Promises[logWhole]
	signed := r.Signed
	// The strongest proof counts: signatures, then hashes, then numbers.
	switch {
	case signed.Checkpoints > 0:
		records := lines.Count(signed.Records, "record")
		whole.Proof += fmt.Sprintf(", %s signed by %s", records, cmp.Or(signed.Key, "a key that wasn't given"))
		a.openIf(signed.Key == "", logWhole, noKey)
		a.openIf(signed.Key != "" && signed.After > 0, logWhole, notYet)
	case r.Chained:
		whole.Proof += ", numbered and chained"
	default:
		numbered := ", not numbered"
		if r.Numbered {
			numbered = ", numbered, not chained"
		}
		whole.Proof += numbered
		a.openIf(len(r.Records) > 0, logWhole, notChained)
	}
	a.openIf(signed.Key != "" && r.Records[evidence.Checkpoint] == 0, logWhole, nothingSigned)
	whole.Proved = r.Lines
}

// words are parts of a sentence.
type words []string

// addIf adds a part, if it applies.
func (w *words) addIf(applies bool, format string, values ...any) {
	if applies {
		*w = append(*w, fmt.Sprintf(format, values...))
	}
}

// policyInWords returns the promises of p as text: "2 slots a host, 500ms or more between starts,
// longer after refusals, ...".
func policyInWords(p *evidence.Policy) string {
	between := "starts"
	if p.FromEnd {
		between = "an end and the next start"
	}
	longer := longerInWords(p.Adaptive)
	growth := p.Backoff // such as doubling
	if growth == "fibonacci" {
		growth = "growing as 1, 1, 2, 3, 5 and so on"
	}
	var w words
	w.addIf(true, "%s a host", lines.Count(p.Slots, "slot"))
	w.addIf(true, "%v or more between %s", p.DelayMin, between)
	w.addIf(longer != "", "%s", longer)
	w.addIf(p.Overrides, "single hosts may have limits of their own")
	w.addIf(p.MaxInFlight > 0, "%d in flight on all hosts", p.MaxInFlight)
	w.addIf(p.Streams > 0, "%s of events beside them", lines.Count(p.Streams, "stream"))
	w.addIf(p.PerSite > 0, "%d in flight on all ports and names of a site", p.PerSite)
	w.addIf(p.PerSite > 0 && p.Process != "", "each process by itself")
	w.addIf(p.Robots != "", "robots.txt %s", p.Robots)
	w.addIf(p.Robots == "obeyed" && p.Unreachable != "", "%s if robots.txt can't be fetched", p.Unreachable)
	w.addIf(p.Backoff != "", "a refusal blocks the host from %v to %v (%s)", p.BackoffStep, p.BackoffCap, growth)
	w.addIf(p.Purposes != "", "for %s", p.Purposes)
	w.addIf(p.Pages > 0, "%s", lines.Count(int(p.Pages), "page"))
	w.addIf(p.PagesPerHost > 0, "%s a host", lines.Count(int(p.PagesPerHost), "page"))
	w.addIf(p.Bytes > 0, "%s", lines.Count(int(p.Bytes), "byte"))
	w.addIf(p.MaxTime > 0, "%v", p.MaxTime)
	w.addIf(p.Every > 0, "anew each %v", p.Every)
	w.addIf(p.Kept, "of all runs together")
	w.addIf(p.Retries == 1, "1 further try")
	w.addIf(p.Retries > 1, "%d further tries", p.Retries)
	return strings.Join(w, ", ")
}

// longerInWords returns when the delay is longer than its minimum by a formula, which is in the
// words of hostlimit.Adaptive. It is empty if it never is.
func longerInWords(formula string) string {
	if formula == "" {
		return "longer by a formula that isn't said"
	}
	learns := strings.Contains(formula, "Learned")
	byTime := slices.ContainsFunc([]string{"Squared", "Proportional(", "Slower(", "Throttle("}, func(name string) bool {
		return strings.Contains(formula, name)
	})
	switch {
	case learns && byTime:
		return "longer after refusals and slow responses"
	case learns:
		return "longer after refusals"
	case byTime:
		return "longer after slow responses"
	}
	return ""
}

// A place is a line of one of the logs that are checked.
type place struct {
	log  int // number of the log, from 1; 0: there is only one
	line int // number of the line in its log, from 1
}

// String returns "line 7", with the log before it if there are several.
func (p place) String() string {
	if p.log == 0 {
		return fmt.Sprintf("line %d", p.line)
	}
	return fmt.Sprintf("log %d, line %d", p.log, p.line)
}

// place returns the place of the record of the start x.
func (a *auditor) place(x *exchange) place {
	return place{a.indexed[x.by].run.log, int(x.line)}
}

// violation reports that the records at the given places break a promise, or are wrong.
func (a *auditor) violation(kind Kind, host, detail string, at ...place) {
	a.report.Broken[kind]++
	slices.SortFunc(at, func(p, q place) int {
		return cmp.Or(cmp.Compare(p.log, q.log), cmp.Compare(p.line, q.line))
	})
	// The record is read into the same buffer again, so its strings are copied.
	v := Violation{Kind: kind, Host: strings.Clone(host), Detail: printable.Text(detail)}
	for _, p := range slices.Compact(at) {
		v.Lines = append(v.Lines, p.line)
		if p.log > 0 {
			v.Logs = append(v.Logs, p.log)
		}
	}
	a.report.Violations = append(a.report.Violations, v)
	// The first ones by their lines may come last, so more are kept than are shown, but not all.
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

// cannot reports a contradiction, if there is one: the records can't both be true.
func (a *auditor) cannot(contradicts bool, detail string, others ...place) {
	if contradicts {
		a.contradiction(detail, others...)
	}
}

// missing returns that the things with the numbers from first to last are missing: "record 7 is
// missing".
func missing(thing string, first, last uint64) string {
	if first == last {
		return fmt.Sprintf("%s %d is missing", thing, first)
	}
	return fmt.Sprintf("%ss %d to %d are missing", thing, first, last)
}

// stamp returns t in nanoseconds since 1970, from then to 2242, 0 for the zero time.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return min(max(t.Unix(), 1), 1<<33)*int64(time.Second) + int64(t.Nanosecond())
}
