package audit

import (
	"fmt"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// A limit is one limit of the budget, as the record at a place names it.
type limit struct {
	max int64
	at  place
}

// A budgetAudit holds what was spent against the limits that the log names. A limit is named when
// it is near or reached, which is when it matters.
type budgetAudit struct {
	limits map[string]limit
	pages  int
	bytes  int64
}

// limit takes a limit of the budget.
func (a *auditor) limit(d *evidence.Decision) {
	if d.Limit == "" {
		return
	}
	old, known := a.budget.limits[d.Limit]
	switch {
	case !known:
		a.report.Proofs.Budget++
	case old.max != d.Max:
		a.contradiction(fmt.Sprintf("the limit of %s is %d here and %d there", d.Limit, d.Max, old.max), old.at)
		return
	default:
		return
	}
	l := limit{d.Max, a.at}
	a.budget.limits[d.Limit] = l
	// What was spent before the limit was named.
	switch d.Limit {
	case "pages":
		a.proveLimit(d.Limit, "", int64(a.budget.pages))
	case "bytes":
		a.proveLimit(d.Limit, "", a.budget.bytes)
	case "pages_per_host":
		for _, h := range a.hosts {
			a.proveLimit(d.Limit, h.name, int64(h.pages))
		}
	}
}

// proveLimit reports if more than the named limit was used.
func (a *auditor) proveLimit(name, host string, used int64) {
	if l, ok := a.budget.limits[name]; ok && used > l.max {
		a.violation(BrokenBudget, host, fmt.Sprintf("%d of %d %s", used, l.max, name), l.at, a.at)
	}
}

// spend takes a page of h that was sent at start.
func (a *auditor) spend(h *hostAudit, start time.Time) {
	a.budget.pages++
	h.pages++
	a.proveLimit("pages", "", int64(a.budget.pages))
	a.proveLimit("pages_per_host", h.name, int64(h.pages))
	if a.pageFrom.IsZero() {
		a.pageFrom = start
	}
}

// inTime proves that an exchange that was sent started within the time limit. The crawl looks at
// the time once more after the start, so x counts only when its end shows that it wasn't given up
// then.
func (a *auditor) inTime(h *hostAudit, x *exchange) {
	l, ok := a.budget.limits["time"]
	if !ok || a.pageFrom.IsZero() {
		return
	}
	// Records give the time in whole seconds.
	if late := x.start.Sub(a.pageFrom); late >= time.Duration(l.max+1)*time.Second {
		a.violation(BrokenBudget, h.name, fmt.Sprintf("started %v after the first page, of %v", late, time.Duration(l.max)*time.Second), l.at, x.at)
	}
}

// spendBytes takes the bytes of a body.
func (a *auditor) spendBytes(n int64) {
	a.budget.bytes += n
	if n > 0 {
		a.proveLimit("bytes", "", a.budget.bytes)
	}
}
