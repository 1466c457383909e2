package audit

import (
	"fmt"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// A window is one of a budget that is renewed, for one host or, with none, for all.
type window struct {
	from int64
	host uint32
}

// A budget holds what one Transport spent against the limits that its policy names.
type budget struct {
	limits   map[string]int64
	pages    int
	bytes    int64
	spent    map[window]int // pages, by host, and in windows
	pageFrom int64          // start of the first page
}

func newBudget() budget { return budget{limits: map[string]int64{}, spent: map[window]int{}} }

// promise takes the limits of a policy.
func (b *budget) promise(p *evidence.Policy) {
	for name, most := range map[string]int64{
		"pages": p.Pages, "pages_per_host": p.PagesPerHost, "bytes": p.Bytes, "time": int64(p.MaxTime / time.Second),
	} {
		if most > 0 && (p.Every == 0 || name == "pages" || name == "pages_per_host") {
			b.limits[name] = most
		}
	}
}

// limit takes the record of a limit that is near or reached.
func (a *auditor) limit(d *evidence.Decision) {
	most, known := a.by.budget.limits[d.Limit]
	switch {
	case a.by.policy == nil || d.Limit == "" || d.Every > 0 && !known:
	case !known:
		a.contradiction("a limit of " + d.Limit + " that the policy doesn't have")
	case most != d.Max:
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
func (a *auditor) spend(h *host, t *try) {
	b, p := &a.by.budget, a.by.policy
	if len(b.limits) > 0 || p == nil {
		a.tallies[budgetKept].tested++
	}
	if p == nil {
		a.openEnded(budgetKept, noPolicy)
	}
	if b.pageFrom == 0 {
		b.pageFrom = t.wall
	}
	b.pages++
	all, ofHost := b.pages, window{t.window, h.index}
	b.spent[ofHost]++
	if p != nil && p.Every > 0 {
		if t.window == 0 || p.Bytes > 0 || p.MaxTime > 0 {
			a.openEnded(budgetKept, "the budget is renewed, and the log doesn't say in which window a page was reserved")
		}
		if t.window == 0 {
			return
		}
		if t.window > t.wall {
			a.contradiction("a page of a window that hadn't begun")
		}
		in := window{t.window, none}
		b.spent[in]++
		all = b.spent[in]
	}
	a.proveLimit("pages", "", int64(all))
	a.proveLimit("pages_per_host", h.report.Host, int64(b.spent[ofHost]))
}

// giveBack takes back the page t of a host, which wasn't sent.
func (b *budget) giveBack(h *host, t *try) {
	b.pages--
	b.spent[window{t.window, h.index}]--
	if t.window != 0 {
		b.spent[window{t.window, none}]--
	}
}

// inTime proves that an exchange that was sent started within the time limit. The crawl looks at
// the time once more after the start, so x counts only when its end shows that it wasn't given up
// then.
func (a *auditor) inTime(h *host, x *exchange, t *try) {
	b := &a.by.budget
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

// spendBytes takes the bytes of a body.
func (a *auditor) spendBytes(n int64) {
	a.by.budget.bytes += n
	if n > 0 {
		a.proveLimit("bytes", "", a.by.budget.bytes)
	}
}
