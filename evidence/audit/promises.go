package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/internal/lines"
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

// String returns p as a line of text.
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
	name, proof string
	kinds       []Kind
}{
	delaysKept:       {"delays kept", "gaps between starts", []Kind{BrokenGap}},
	slotsKept:        {"slots kept", "starts", []Kind{BrokenConcurrency}},
	blocksKept:       {"blocks kept", "refusals", []Kind{BrokenBlock}},
	allowedByRobots:  {"allowed by robots.txt", "starts", []Kind{BrokenRobots}},
	verdictsRight:    {"verdicts right", "verdicts, decided again", []Kind{BrokenVerdict}},
	reservationsKept: {"reservations kept", "verdicts, decided again", []Kind{BrokenConsent}},
	budgetKept:       {"budget kept", "pages", []Kind{BrokenBudget}},
	everyStartEnded:  {"every start ended", "starts", []Kind{MissingEnd}},
	timesAgree:       {"times agree with the servers'", "Date headers", nil},
	logWhole: {
		"log whole", "lines", []Kind{MissingLine, MissingStart, BrokenChain, BrokenSignature, Contradiction, Unreadable},
	},
}

// A tally counts how often a promise was put to the test, and what was open of that, by reason.
type tally struct {
	tested, open int
	why          []string
}

// maxWhy is how many reasons a promise names.
const maxWhy = 8

// openEnded notes that a promise is open for the given reason.
func (a *auditor) openEnded(promise int, why string) {
	t := &a.tallies[promise]
	t.open++
	if len(t.why) != maxWhy && !slices.Contains(t.why, why) {
		t.why = append(t.why, why)
	}
}

// openIf notes the same, if that is so.
func (a *auditor) openIf(is bool, promise int, why string) {
	if is {
		a.openEnded(promise, why)
	}
}

// allOpen notes that every promise is open for the given reason.
func (a *auditor) allOpen(why string) {
	for i := range a.tallies {
		a.openEnded(i, why)
	}
}

// promised returns the promises one by one.
func (a *auditor) promised() (all []Promise) {
	r := &a.report
	a.tallies[logWhole].tested = r.Lines
	for i, about := range aboutPromises {
		t := a.tallies[i]
		p := Promise{Name: about.name, Proof: about.proof, Open: t.open, Why: t.why}
		for _, k := range about.kinds {
			p.Broken += r.Broken[k]
		}
		p.Proved = max(0, t.tested-p.Broken-t.open)
		all = append(all, p)
	}
	switch whole := &all[logWhole].Proof; {
	case r.Signed.Checkpoints > 0:
		*whole += fmt.Sprintf(", %s signed by %s", lines.Count(r.Signed.Records, "record"), cmp.Or(r.Signed.Key, "a key that wasn't given"))
	case r.Chained:
		*whole += ", numbered and chained"
	case r.Numbered:
		*whole += ", numbered, not chained"
	default:
		*whole += ", not numbered"
	}
	return all
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
