package audit

import (
	"fmt"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// A limit is one limit of the budget, as the record at a place names it.
type limit struct {
	max int64
	at  place // zero: the policy names it
}

// A budgetAudit holds what one Transport spent against the limits that its policy names, or, where
// it has stated none, those of the records that tell of a limit which is near or reached.
type budgetAudit struct {
	limits   map[string]limit
	pages    int
	bytes    int64
	ofHost   map[string]int // pages
	pageFrom time.Time      // start of the first page
}

func newBudget() budgetAudit {
	return budgetAudit{limits: map[string]limit{}, ofHost: map[string]int{}}
}

// promise takes the limits of a policy. Those of a budget that is renewed can't be held against
// what was spent: in which window a page was reserved isn't in the log.
func (b *budgetAudit) promise(p *evidence.Policy) {
	if p.Every > 0 {
		return
	}
	for name, most := range map[string]int64{
		"pages": p.Pages, "pages_per_host": p.PagesPerHost, "bytes": p.Bytes, "time": int64(p.MaxTime / time.Second),
	} {
		if most > 0 {
			b.limits[name] = limit{max: most}
		}
	}
}

// limit takes a limit of the budget.
func (a *auditor) limit(d *evidence.Decision) {
	if d.Limit == "" || d.Every > 0 {
		return
	}
	b := &a.by.budget
	old, known := b.limits[d.Limit]
	if known {
		switch {
		case old.max == d.Max:
		case old.at == place{}:
			a.contradiction(fmt.Sprintf("the limit of %s is %d here and %d in the policy", d.Limit, d.Max, old.max))
		default:
			a.contradiction(fmt.Sprintf("the limit of %s is %d here and %d there", d.Limit, d.Max, old.max), old.at)
		}
		return
	}
	if a.by.policy != nil {
		a.contradiction("a limit of " + d.Limit + " that the policy doesn't have")
		return
	}
	a.report.Proofs.Budget++
	b.limits[d.Limit] = limit{d.Max, a.at}
	// What was spent before the limit was named.
	switch d.Limit {
	case "pages":
		a.proveLimit(d.Limit, "", int64(b.pages))
	case "bytes":
		a.proveLimit(d.Limit, "", b.bytes)
	case "pages_per_host":
		for _, host := range inOrder(b.ofHost) {
			a.proveLimit(d.Limit, host, int64(b.ofHost[host]))
		}
	}
}

// proveLimit reports if more than the named limit was used.
func (a *auditor) proveLimit(name, host string, used int64) {
	l, ok := a.by.budget.limits[name]
	if !ok || used <= l.max {
		return
	}
	lines := []place{a.at}
	if l.at != (place{}) {
		lines = append(lines, l.at)
	}
	a.violation(BrokenBudget, host, fmt.Sprintf("%d of %d %s", used, l.max, name), lines...)
}

// spend takes a page of h that was sent at start.
func (a *auditor) spend(h *hostAudit, start time.Time) {
	b := &a.by.budget
	b.pages++
	b.ofHost[h.name]++
	if len(b.limits) > 0 || a.by.policy == nil {
		a.tallies[budgetKept].tested++
	}
	if a.by.policy == nil {
		a.openEnded(budgetKept, noPolicy)
	}
	a.proveLimit("pages", "", int64(b.pages))
	a.proveLimit("pages_per_host", h.name, int64(b.ofHost[h.name]))
	if b.pageFrom.IsZero() {
		b.pageFrom = start
	}
}

// giveBack takes back a page of a host that wasn't sent.
func (b *budgetAudit) giveBack(host string) {
	b.pages--
	b.ofHost[host]--
}

// inTime proves that an exchange that was sent started within the time limit. The crawl looks at
// the time once more after the start, so x counts only when its end shows that it wasn't given up
// then.
func (a *auditor) inTime(h *hostAudit, x *exchange) {
	b := &a.by.budget
	l, ok := b.limits["time"]
	if !ok || b.pageFrom.IsZero() {
		return
	}
	// Records give the time in whole seconds.
	switch late, most := x.start.Sub(b.pageFrom), time.Duration(l.max+1)*time.Second; {
	case late < most:
	case late-a.jumpedSince(b.pageFrom) < most:
		a.openEnded(budgetKept, "the clock was put forward, or the computer slept: the budget's time stands still then")
	default:
		at := x.at
		if l.at != (place{}) {
			at = l.at
		}
		a.violation(BrokenBudget, h.name, fmt.Sprintf("started %v after the first page, of %v", late, time.Duration(l.max)*time.Second), at, x.at)
	}
}

// spendBytes takes the bytes of a body.
func (a *auditor) spendBytes(n int64) {
	a.by.budget.bytes += n
	if n > 0 {
		a.proveLimit("bytes", "", a.by.budget.bytes)
	}
}
