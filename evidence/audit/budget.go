package audit

import (
	"cmp"
	"fmt"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// A window is one of a budget that is renewed, for one host or, with nil, for all.
type window struct {
	from int64
	host *host
}

// A budget holds what one Transport spent against the limits that its policy names.
type budget struct {
	limits   map[string]int64
	pages    map[window]int64
	bytes    int64
	pageFrom int64 // start of the first page
}

// newBudget returns the budget of a policy.
func newBudget(p *evidence.Policy) budget {
	b := budget{limits: map[string]int64{}, pages: map[window]int64{}}
	for name, most := range map[string]int64{
		"pages": p.Pages, "pages_per_host": p.PagesPerHost, "bytes": p.Bytes, "time": int64(p.MaxTime / time.Second),
	} {
		if most > 0 && (p.Every == 0 || name == "pages" || name == "pages_per_host") {
			b.limits[name] = most
		}
	}
	return b
}

// limit takes the record of a limit that is near or reached.
func (a *auditor) limit(d *evidence.Decision) {
	most := a.by.budget.limits[d.Limit]
	if d.Limit != "" && (most != d.Max || most == 0) && (d.Every == 0 || most > 0) {
		a.contradiction(fmt.Sprintf("the limit of %s is %d here and %d in the policy", d.Limit, d.Max, most))
	}
}

// proveLimit reports if more than the named limit was used.
func (a *auditor) proveLimit(name, host string, used int64) {
	if most, ok := a.by.budget.limits[name]; ok && used > most {
		a.violation(BrokenBudget, host, fmt.Sprintf("%d of %d %s", used, most, name), a.at)
	}
}

// spend takes a page of h, the try t.
func (a *auditor) spend(h *host, t *trip) {
	b, p := &a.by.budget, a.by.policy
	b.pageFrom = cmp.Or(b.pageFrom, t.wall)
	switch {
	case p.Every == 0:
		t.window = 0
	case t.window == 0 || p.Bytes > 0 || p.MaxTime > 0:
		a.openEnded(budgetKept, "the budget is renewed, and the log doesn't say in which window a page was reserved")
	case t.window > t.wall:
		a.contradiction("a page of a window that hadn't begun")
	}
	if len(b.limits) > 0 {
		a.tallies[budgetKept].tested++
	}
	if p.Every == 0 || t.window != 0 {
		b.take(h, t, 1)
		a.proveLimit("pages", "", b.pages[window{t.window, nil}])
		a.proveLimit("pages_per_host", h.report.Host, b.pages[window{t.window, h}])
	}
}

// take takes n pages of h, which t costs, from the budget.
func (b *budget) take(h *host, t *trip, n int64) {
	b.pages[window{t.window, nil}] += n
	b.pages[window{t.window, h}] += n
}

// spendMore takes the bytes of an exchange that was sent, and proves that it started within the
// time limit. The crawl looks at the time once more after the start, so x counts only when its end
// shows that it wasn't given up then.
func (a *auditor) spendMore(h *host, x *exchange, t *trip, bytes int64) {
	b := &a.by.budget
	if b.bytes += bytes; bytes > 0 {
		a.proveLimit("bytes", "", b.bytes)
	}
	limit, ok := b.limits["time"]
	if !ok || b.pageFrom == 0 {
		return
	}
	// Records give the time in whole seconds.
	switch late, most := t.wall-b.pageFrom, (limit+1)*slack; {
	case late < most:
	case late-a.run.jumped < most:
		a.openEnded(budgetKept, "the clock was put forward, or the computer slept: the budget's time stands still then")
	default:
		a.violation(BrokenBudget, h.report.Host, fmt.Sprintf("started %v after the first page, of %v", time.Duration(late), time.Duration(limit)*time.Second), a.place(x))
	}
}
