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

// A trip is one RoundTrip of a Transport: the newest verdict on its URL, its last try, and the
// target of its answer, if that is a redirect.
type trip struct {
	id      uint64
	request uint64 // hash of the fields that every record of the trip repeats
	last    place  // of its newest record
	over    bool   // unless it is tried again

	judged   place // of the newest verdict; line 0: there is none
	decided  int64 // time of that verdict
	allowed  bool
	derived  bool  // robots.txt, as logged, gives the verdict too
	floor    int64 // crawl-delay
	reserved bool  // its page was refused since headers or the page reserve it

	x        *exchange // its last try
	answer   *answer   // to the last try, if its sequence keeps it
	host     *host
	attempt  int   // number of the try
	sends    int   // how often the try was sent
	underWay bool  // the try has no end yet
	open     int   // status of the response, if that stays open without a slot
	wall     int64 // start of the try by the clock of the records
	window   int64 // window of the budget that its page is charged to

	status int    // of the response
	ended  int64  // time of the end
	leads  uint64 // hash of the URL to which the response leads and no request has gone yet
	origin uint64 // of a fetch of robots.txt: hash of the URL that the fetch began with
	hops   int    // of a fetch of robots.txt: redirects before it
}

// try begins a try of t, the exchange x.
func (t *trip) try(x *exchange, h *host, attempt int) {
	t.x = x
	t.host = h
	t.attempt = attempt
	t.answer = nil
	t.sends = 1
	t.underWay = true
	t.open = 0
	t.window = 0
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
	// Two requests may not share a trip: one of them could go without a verdict, or a page.
	t := a.by.trips[d.Trip]
	switch {
	case t == nil || d.Trip == 0: // a record without a trip asks a question, which is no request
		t = &trip{id: d.Trip, request: request}
		a.by.trips[d.Trip] = t
	case t.request != request:
		a.contradiction("two records of one request give different URLs, hosts, redirects or robotsTxt", t.last)
		t.request = request
		t.judged = place{} // the verdict was on the other URL
	}
	t.last = a.at
	return t
}

// leave notes that t is over, and forgets the trip that was over longest ago. A redirect is kept
// until a request has gone to its target.
func (a *auditor) leave(t *trip) {
	// A record may follow yet, such as Retried, which begins another try: so it stays for a while.
	t.over = true
	a.by.over = append(a.by.over, t.id)
	if len(a.by.over) <= lately {
		return
	}
	// Its id may be that of another trip by now, or it may have begun again.
	old := a.by.trips[a.by.over[0]]
	if old != nil && old.over && old.leads == nowhere {
		delete(a.by.trips, old.id)
	}
	a.by.over = a.by.over[1:]
}

// costsAPage reports whether the start d of a page costs one of the budget. before is the number of
// the last try of its trip. All hops and tries of a navigation are one page.
func (a *auditor) costsAPage(d *evidence.Decision, before int) bool {
	// A further try costs nothing if the log has the one before it.
	next := d.Attempt > 1 && before == d.Attempt-1
	again := d.Type == evidence.Resent && before == d.Attempt
	if next || again {
		return false
	}
	from := a.by.trips[d.From]
	if d.From == 0 || from == nil {
		return true
	}
	if from.underWay { // its end, which is written late, would have the target
		a.openEnded(budgetKept, "a redirect that isn't in the log before the request that follows it")
		return false
	}
	to := from.leads
	from.leads = nowhere // only one request may follow it without costing a page
	a.leave(from)
	a.openIf(to == anywhere, budgetKept, "a redirect whose URL isn't whole")
	return to != anywhere && to != keyOfURL(d.URL)
}

// Hashes that stand for no URL.
const (
	nowhere  = 0 // the response is no redirect, or to no URL that can be fetched
	anywhere = 1 // its target is cut short in the log
)

// redirectTarget returns the hash of the URL to which the response d leads.
func redirectTarget(d *evidence.Decision) uint64 {
	if d.Status/100 != 3 || d.Location == "" {
		return nowhere
	}
	if strings.HasSuffix(d.Location, evidence.Clipped) || strings.HasSuffix(d.URL, evidence.Clipped) {
		return anywhere
	}
	// As net/http resolves it.
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

// A window is one window of a budget, for one host or, with nil, for all. A budget that isn't
// renewed has the window 0 alone.
type window struct {
	from int64
	host *host
}

// proveLimit reports a violation if more was used than there is.
func (a *auditor) proveLimit(name, host string, used, most int64) {
	if most > 0 && used > most {
		a.violation(BrokenBudget, host, fmt.Sprintf("%d of %d %s", used, most, name), a.at)
	}
}

const (
	// budgetSkew is how far the clock of a shared budget's server may be ahead of the log's.
	budgetSkew = 30 * slack

	budgetLost = "a budget that runs spend together, if a process couldn't read or keep it"

	noWindow = "the budget is renewed, and the log doesn't say in which window a page was reserved"
)

// spend takes a page of h, the try t.
func (a *auditor) spend(h *host, t *trip) {
	// The budget's time begins with the first page.
	p := a.by.policy
	a.by.pageFrom = cmp.Or(a.by.pageFrom, t.wall)
	renewed := p.Every != 0
	switch {
	case !renewed:
		t.window = 0
	case t.window == 0 || p.Bytes > 0 || p.MaxTime > 0: // no record gives the window of bytes, or of time
		a.openEnded(budgetKept, noWindow)
	case t.window > t.wall+budgetSkew:
		a.contradiction("a page of a window that hadn't begun")
	}
	if max(p.Pages, p.PagesPerHost, p.Bytes, int64(p.MaxTime)) > 0 {
		a.tested(budgetKept)
	}
	if renewed && t.window == 0 { // pages of unknown windows can't be added up
		return
	}
	all := window{from: t.window}
	own := window{t.window, h}
	a.by.pages[all]++
	a.by.pages[own]++
	most := p.Pages
	ofHost := p.PagesPerHost
	if k := a.by.kept; k != nil {
		most = k.most
		ofHost = k.owned
		if k.lost {
			a.openEnded(budgetKept, budgetLost)
			return
		}
	}
	a.proveLimit("pages", "", a.by.pages[all], most)
	a.proveLimit("pages_per_host", h.report.Host, a.by.pages[own], ofHost)
}

// unspend takes the end of a try that was given back unused, and with it its page.
func (a *auditor) unspend(h *host, t *trip) {
	t.x.flags |= unsent
	if !t.x.has(page) {
		return
	}
	h.report.Pages--
	a.by.pages[window{from: t.window}]--
	a.by.pages[window{t.window, h}]--
}

const clockAhead = "the clock was put forward, or the computer slept: the budget's time stands still then"

// spendMore takes the bytes of a try that was sent, and proves that it started within the time
// limit. The crawl looks at the time once more after the start, so a try counts only if its end
// shows that it wasn't given up then.
func (a *auditor) spendMore(h *host, t *trip, bytes int64) {
	if t.x.has(robotsTxt) {
		return
	}
	p := a.by.policy
	a.by.bytes += bytes
	if bytes > 0 && p.Every == 0 {
		a.proveLimit("bytes", "", a.by.bytes, p.Bytes)
	}
	if p.MaxTime == 0 || p.Every > 0 || a.by.pageFrom == 0 { // no limit, an unknown window, or no page yet
		return
	}
	late := t.wall - a.by.pageFrom
	switch {
	case late-slack < int64(p.MaxTime):
	case late-slack-a.run.jumped < int64(p.MaxTime): // the jumps may have been in between
		a.openEnded(budgetKept, clockAhead)
	default:
		detail := fmt.Sprintf("started %v after the first page, of %v", time.Duration(late), p.MaxTime)
		a.violation(BrokenBudget, h.report.Host, detail, a.place(t.x))
	}
}

const (
	// disagreement is how far the dates of one host may differ: several machines answer for it.
	disagreement = 5 * slack
	// wrongClock is how far the clock of a server may be off for its Date to confirm the log's
	// times.
	wrongClock = 3600 * slack

	noDate    = "a response without its Date, and no record that the server sent none"
	farDate   = "a server whose Date is more than an hour away from the log's times"
	otherDate = "a Date header that disagrees with those before it: " +
		"a cache, or several machines, or the log's times aren't true"
)

// A clock is how far a server's clock is ahead of the log's, as the first Date header of a host
// shows it: at least, and at most.
type clock struct{ at, least, most int64 }

// dated compares the times of t with the server's Date. A Date that disagrees proves nothing, since
// a cache may have kept the response: it leaves the time open.
func (a *auditor) dated(h *host, t *trip, d *evidence.Decision) {
	date, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", d.ServerDate)
	if err != nil {
		a.openIf(d.Status > 0 && !d.NoDate && d.ServerDate == "", timesAgree, noDate)
		return
	}
	a.tested(timesAgree)
	// The server made the response between the start and the headers, and its Date lacks the
	// fraction of a second.
	least := stamp(date) - t.wall - int64(d.Latency)
	most := least + int64(d.Latency) + slack
	// The longer ago the first Date is, the farther a clock may have drifted.
	since := max(t.wall-h.clock.at, h.clock.at-t.wall)
	may := disagreement + since/drifts
	switch {
	case least > wrongClock || most < -wrongClock:
		a.openEnded(timesAgree, farDate)
	case h.clock.at == 0:
		h.clock = clock{t.wall, least, most}
	case most < h.clock.least-may || least > h.clock.most+may:
		a.openEnded(timesAgree, otherDate)
	}
}
