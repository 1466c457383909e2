package audit

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"net/url"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/internal/sites"
	"github.com/go-politeness/politeness/internal/hostname"
)

// A trip is one RoundTrip of a Transport: the newest verdict on its URL, its last try, and where
// its answer leads.
type trip struct {
	id      uint64
	request uint64 // hash of what every record of the trip repeats
	last    place  // of its newest record
	over    bool   // unless it is tried again

	judged   place // of the newest verdict; line 0: there is none
	decided  int64 // when
	allowed  bool
	derived  bool  // whether robots.txt, as logged, gives the verdict too
	floor    int64 // crawl-delay
	reserved bool  // its page was refused for what headers or the page reserve

	x        *exchange // its last try
	answer   *answer   // to that, where its sequence keeps it
	host     *host
	attempt  int   // number of the try
	sends    int   // how often it was sent
	underWay bool  // whether it has no end yet
	wall     int64 // its start by the clock of the records
	window   int64 // of the budget's, that its page is charged to

	status int    // of its answer
	ended  int64  // when
	leads  uint64 // hash of the URL to which the answer leads and no request has gone yet
	origin uint64 // of a fetch of robots.txt: hash of the URL that the fetch began with
	hops   int    // the same: redirects before it
}

// lately is how many trips that are over are remembered: another try may follow yet.
const lately = 8192

// trip returns the trip of d, whose records all have the same request.
func (a *auditor) trip(d *evidence.Decision) *trip {
	request := maphash.Comparable(seed, struct {
		url, host string
		redirects int
		robotsTxt bool
	}{d.URL, d.Host, d.Redirects, d.RobotsTxt})
	t := a.by.trips[d.Trip]
	switch {
	case t == nil || d.Trip == 0: // a question, which is no request
		t = &trip{id: d.Trip, request: request}
		a.by.trips[d.Trip] = t
	case t.request != request:
		a.contradiction("two records of one request give different URLs, hosts, redirects or robotsTxt", t.last)
		t.request, t.judged = request, place{}
	}
	t.last = a.at
	return t
}

// leave notes that t is over, and forgets the one that was over long ago. One that leads somewhere
// is kept until a request has gone there.
func (a *auditor) leave(t *trip) {
	t.over = true
	q := &a.by.over
	if *q = append(*q, t.id); len(*q) <= lately {
		return
	}
	if old := a.by.trips[(*q)[0]]; old != nil && old.over && old.leads == nowhere {
		delete(a.by.trips, old.id)
	}
	*q = (*q)[1:]
}

// costsAPage reports whether the start d of a page costs one of the budget, where before was the
// last try of its trip: all hops and tries of a navigation are one page.
func (a *auditor) costsAPage(d *evidence.Decision, before int) bool {
	if d.Attempt > 1 && before == d.Attempt-1 || d.Type == evidence.Resent && before == d.Attempt {
		return false
	}
	from := a.by.trips[d.From]
	switch {
	case d.From == 0 || from == nil:
		return true
	case from.underWay:
		a.openEnded(budgetKept, "a redirect that isn't in the log before the request that follows it")
		return false
	}
	to := from.leads
	from.leads = nowhere
	a.leave(from)
	a.openIf(to == anywhere, budgetKept, "a redirect whose URL isn't whole")
	return to != anywhere && to != keyOfURL(d.URL)
}

// Hashes that stand for no URL.
const (
	nowhere  = 0 // the answer is no redirect, or to no URL that can be fetched
	anywhere = 1 // where it leads is cut short in the log
)

// redirectTarget returns the hash of the URL to which the answer d leads.
func redirectTarget(d *evidence.Decision) uint64 {
	if d.Status/100 != 3 || d.Location == "" {
		return nowhere
	}
	if strings.HasSuffix(d.Location, evidence.Clipped) || strings.HasSuffix(d.URL, evidence.Clipped) {
		return anywhere
	}
	u, err := url.Parse(d.URL)
	if err == nil {
		u, err = u.Parse(d.Location)
	}
	if err != nil || u.Opaque != "" {
		return nowhere
	}
	return keyOfURL(u.Scheme + "://" + hostname.ASCII(u.Host) + u.RequestURI())
}

// keyOfURL is a hash of a URL in one spelling of its origin.
func keyOfURL(u string) uint64 {
	origin, target := sites.SplitURL(u)
	return maphash.Comparable(seed, [2]string{origin, target})
}

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

const (
	drift      = 5 * slack    // that answers of one host may disagree about its clock: several machines give them
	wrongClock = 3600 * slack // that a server's clock may be off for its Date to confirm the log's times
)

// dated holds the times of t against the server's Date. A Date that disagrees proves nothing, since
// a cache may have kept the answer: it leaves the time open.
func (a *auditor) dated(h *host, t *trip, d *evidence.Decision) {
	date, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", d.ServerDate)
	if err != nil {
		a.openIf(d.Status > 0 && !d.NoDate && d.ServerDate == "", timesAgree, "an answer without its Date, and no word that the server sent none")
		return
	}
	a.tested(timesAgree)
	least := stamp(date) - t.wall - int64(d.Latency)
	most := least + int64(d.Latency) + slack
	may := drift + max(t.wall-h.dates.at, h.dates.at-t.wall)/drifts
	switch {
	case least > wrongClock || most < -wrongClock:
		a.openEnded(timesAgree, "a server whose Date is more than an hour away from the log's times")
	case h.dates.at == 0:
		h.dates.at = t.wall
		h.dates.least = least
		h.dates.most = most
	case most < h.dates.least-may || least > h.dates.most+may:
		a.openEnded(timesAgree, "a Date header that disagrees with those before it: a cache, or several machines, or the log's times aren't true")
	}
}
