package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-politeness/politeness/evidence/internal/lines"

	"github.com/go-politeness/politeness/evidence"
)

// A Promise is one of those that a crawl makes, and what the log shows of it.
type Promise struct {
	Name   string   `json:"name"`          // "delays kept"
	Proved int      `json:"proved"`        // how often it was derived from what is in the log that it was kept
	Open   int      `json:"open"`          // how often the log says so without showing it
	Broken int      `json:"broken"`        // how often it was broken
	Why    []string `json:"why,omitempty"` // what is missing, for what is open: the first 8 reasons
	Proof  string   `json:"proof"`         // what was put to the test: "123 gaps between starts"
}

// State sums p up in one word, for showing: "broken", "open", "proved", or "nothing" where there
// was nothing to keep.
func (p Promise) State() string {
	switch {
	case p.Broken > 0:
		return "broken"
	case p.Open > 0:
		return "open"
	case p.Proved > 0:
		return "proved"
	}
	return "nothing"
}

// String returns p as a line of text.
func (p Promise) String() string {
	var parts []string
	if p.Broken > 0 {
		parts = append(parts, fmt.Sprintf("BROKEN %s", times(p.Broken)))
	}
	if p.Open > 0 {
		parts = append(parts, fmt.Sprintf("open %d", p.Open))
	}
	if p.Proved > 0 {
		parts = append(parts, fmt.Sprintf("proved %d", p.Proved))
	}
	if parts == nil {
		return "nothing to keep"
	}
	return strings.Join(parts, ", ")
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
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

// A tally counts how often a promise was put to the test, and what was open of that, by reason.
type tally struct {
	tested, open int
	why          []string
}

// maxWhy is how many reasons a promise names.
const maxWhy = 8

// noPolicy is the reason for what can't be proved because nobody has said what was promised.
const noPolicy = "no policy record says what was promised"

// openEnded notes that a promise is open for the given reason.
func (a *auditor) openEnded(promise int, why string) {
	t := &a.tallies[promise]
	t.open++
	if len(t.why) != maxWhy && !slices.Contains(t.why, why) {
		t.why = append(t.why, why)
	}
}

// promised returns the promises one by one.
func (a *auditor) promised() []Promise {
	r := &a.report
	p := r.Proofs
	promise := func(i int, name string, tested int, proof string, kinds ...Kind) Promise {
		t := a.tallies[i]
		out := Promise{Name: name, Open: t.open, Why: t.why, Proof: proof}
		for _, k := range kinds {
			out.Broken += r.Broken[k]
		}
		out.Proved = max(0, tested-out.Broken-t.open)
		return out
	}
	whole := "lines aren't numbered"
	switch {
	case r.Proofs.Chained:
		whole = "numbered and chained"
	case r.Proofs.Numbered:
		whole = "numbered, not chained"
	}
	if s := r.Signed; s.Checkpoints > 0 {
		if !p.Numbered {
			whole = "a part of it"
		}
		by := ", but no key was given"
		if s.Key != "" {
			by = " by " + s.Key
		}
		whole += fmt.Sprintf(", %s signed%s%s", lines.Count(s.Records, "record"), by, open(s.After, "after the last checkpoint"))
	}
	return []Promise{
		promise(delaysKept, "delays kept", p.Gaps, lines.Count(p.Gaps, "gap")+" between starts", BrokenGap),
		promise(slotsKept, "slots kept", p.Slots, lines.Count(p.Slots, "start"), BrokenConcurrency),
		promise(blocksKept, "blocks kept", p.Refusals, lines.Count(p.Refusals, "refusal")+", "+lines.Count(p.Blocks, "block"), BrokenBlock),
		promise(allowedByRobots, "allowed by robots.txt", p.Verdicts+p.OpenVerdicts,
			lines.Count(p.Verdicts, "start")+open(p.OpenVerdicts, "without a verdict"), BrokenRobots),
		promise(verdictsRight, "verdicts right", p.Robots+p.OpenRobots,
			lines.Count(p.Robots, "verdict")+" decided again"+open(p.OpenRobots, "that couldn't be"), BrokenVerdict),
		promise(reservationsKept, "reservations kept", p.Consent+p.OpenConsent,
			lines.Count(p.Reserved, "page")+" refused, "+lines.Count(p.Consent, "verdict")+" decided again"+open(p.OpenConsent, "that couldn't be"), BrokenConsent),
		promise(budgetKept, "budget kept", a.tallies[budgetKept].tested, a.limitsInWords(), BrokenBudget),
		promise(everyStartEnded, "every start ended", p.Ends, lines.Count(p.Ends, "start"), MissingEnd),
		promise(timesAgree, "times agree with the servers'", a.tallies[timesAgree].tested, lines.Count(a.tallies[timesAgree].tested, "Date header")),
		promise(logWhole, "log whole", r.Lines, whole, MissingLine, MissingStart, BrokenChain, BrokenSignature, Contradiction, Unreadable),
	}
}

// limitsInWords says what the budget was held against.
func (a *auditor) limitsInWords() string {
	n := a.report.Proofs.Budget
	if n == 0 {
		return "no limit was promised"
	}
	return lines.Count(n, "limit") + " held against what was spent"
}

// promisedInWords says what the policies promise, in a line for all Transports that promise the
// same.
func (a *auditor) promisedInWords() (said []string) {
	number := map[string]int{}
	for i := range a.report.Policies {
		words := policyInWords(&a.report.Policies[i])
		if number[words]++; number[words] == 1 {
			said = append(said, words)
		}
	}
	for i, words := range said {
		if n := number[words]; n > 1 {
			said[i] = fmt.Sprintf("%s, %d times: %s", "a Transport", n, words)
		}
	}
	return said
}

// policyInWords says what p promises: "2 slots a host, 500ms or more between starts (Learned),
// ...".
func policyInWords(p *evidence.Policy) string {
	from := "starts"
	if p.FromEnd {
		from = "an end and the next start"
	}
	parts := []string{
		lines.Count(p.Slots, "slot") + " a host",
		fmt.Sprintf("%v or more between %s (%s)", p.DelayMin, from, cmp.Or(p.Adaptive, "a formula that isn't said")),
	}
	add := func(ok bool, format string, values ...any) {
		if ok {
			parts = append(parts, fmt.Sprintf(format, values...))
		}
	}
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
