package audit

import (
	"cmp"
	"fmt"
	"time"
)

// A window is one of a budget that is renewed, for one host or, with nil, for all.
type window struct {
	from int64
	host *host
}

// proveLimit reports if more was used than there is.
func (a *auditor) proveLimit(name, host string, used, most int64) {
	if most > 0 && used > most {
		a.violation(BrokenBudget, host, fmt.Sprintf("%d of %d %s", used, most, name), a.at)
	}
}

// spend takes a page of h, the try t.
func (a *auditor) spend(h *host, t *trip) {
	b, p := a.by, a.by.policy
	b.pageFrom = cmp.Or(b.pageFrom, t.wall)
	switch {
	case p.Every == 0:
		t.window = 0
	case t.window == 0 || p.Bytes > 0 || p.MaxTime > 0:
		a.openEnded(budgetKept, "the budget is renewed, and the log doesn't say in which window a page was reserved")
	case t.window > t.wall+30*slack: // a shared budget's server may have another clock
		a.contradiction("a page of a window that hadn't begun")
	}
	if max(p.Pages, p.PagesPerHost, p.Bytes, int64(p.MaxTime)) > 0 {
		a.tested(budgetKept)
	}
	if p.Every == 0 || t.window != 0 {
		all, own := window{t.window, nil}, window{t.window, h}
		b.pages[all]++
		b.pages[own]++
		a.proveLimit("pages", "", b.pages[all], p.Pages)
		a.proveLimit("pages_per_host", h.report.Host, b.pages[own], p.PagesPerHost)
	}
}

// spendMore takes the bytes of an exchange that was sent, and proves that it started within the
// time limit. The crawl looks at the time once more after the start, so x counts only when its end
// shows that it wasn't given up then.
func (a *auditor) spendMore(h *host, x *exchange, t *trip, bytes int64) {
	b, p := a.by, a.by.policy
	if x.flags&robotsTxt != 0 {
		return
	}
	if b.bytes += bytes; bytes > 0 && p.Every == 0 {
		a.proveLimit("bytes", "", b.bytes, p.Bytes)
	}
	switch late := t.wall - b.pageFrom; {
	case p.MaxTime == 0 || p.Every > 0 || b.pageFrom == 0 || late-slack < int64(p.MaxTime):
	case late-slack-a.run.jumped < int64(p.MaxTime):
		a.openEnded(budgetKept, "the clock was put forward, or the computer slept: the budget's time stands still then")
	default:
		a.violation(BrokenBudget, h.report.Host, fmt.Sprintf("started %v after the first page, of %v", time.Duration(late), p.MaxTime), a.place(x))
	}
}
