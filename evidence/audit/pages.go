package audit

import (
	"hash/maphash"
	"net/url"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/hostname"
)

// isPage reports whether the start d is one of a page, which needs a verdict; judged tells whether
// there is one. A fetch of robots.txt is one of that name, or where an answer to such a fetch led.
func (a *auditor) isPage(d *evidence.Decision, judged bool) bool {
	if named := namesRobots(d); judged && !named || !d.RobotsTxt {
		return !named
	}
	_, target := splitURL(d.URL)
	if _, led := a.by.hops.Get(keyOfURL(d.URL)); a.by.policy != nil && target != "/robots.txt" && !a.by.anyHop && !led && isWhole(d.URL) {
		a.violation(BrokenRobots, d.Host, "marked as a fetch of robots.txt, where none leads: "+d.URL, a.at)
	}
	return false
}

// costsAPage reports whether the start d of a page costs one of the budget: all hops and tries of a
// navigation are one page, as far as the log holds the redirect and the try before. What is known
// of its trip is t, if that is judged.
func (a *auditor) costsAPage(d *evidence.Decision, h *hostAudit, t tripAudit, judged bool) bool {
	if judged {
		before := t.attempt
		t.attempt = d.Attempt
		a.trips.set(keyOfTrip(d), t)
		if d.Attempt > 1 && before == d.Attempt-1 || d.Type == evidence.Resent && before == d.Attempt {
			return false
		}
	} else if d.Attempt > 1 || d.Type == evidence.Resent {
		if a.trips.full || !a.trips.some {
			return false // its first try was forgotten
		}
	}
	if d.Redirects == 0 {
		return true
	}
	u := keyOfURL(d.URL)
	switch led, _ := a.by.led.Get(u); {
	case led > 0:
		a.by.led.Add(u, led-1)
	case !isWhole(d.URL):
		a.openEnded(budgetKept, "a redirect whose URL isn't whole")
	case len(a.by.followed) == maxRedirects:
		a.openEnded(budgetKept, "more redirects whose answers aren't in the log than the auditor remembers")
	default:
		a.by.followed[u]++ // the answer that led there may be logged later
	}
	return false
}

// unledPages counts, at the end of a log, requests that claim a redirect which no answer gave: each
// is a page. A cache around the Transport may have kept the redirect, so that by itself is honest.
func (a *auditor) unledPages() {
	for _, n := range a.by.followed {
		a.by.budget.pages += n
	}
	if len(a.by.followed) > 0 {
		a.proveLimit("pages", "", int64(a.by.budget.pages))
	}
}

// answered takes the end d of an exchange that was sent, for where it leads.
func (a *auditor) answered(d *evidence.Decision) {
	if d.RobotsTxt && a.by.policy != nil {
		a.by.answers.Add(keyOfURL(d.URL), robotsAnswer{status: d.Status, end: d.Time})
	}
	if d.Status/100 != 3 || d.Location == "" {
		return
	}
	target, ok := redirectTarget(d)
	switch {
	case d.RobotsTxt && !ok:
		a.by.anyHop = true
	case d.RobotsTxt:
		a.by.hops.Add(target, true)
	case !ok:
	case a.by.followed[target] > 0:
		if a.by.followed[target]--; a.by.followed[target] == 0 {
			delete(a.by.followed, target)
		}
	default:
		led, _ := a.by.led.Get(target)
		a.by.led.Add(target, led+1)
	}
}

// redirectTarget returns the key of the URL to which the answer d leads.
func redirectTarget(d *evidence.Decision) (uint64, bool) {
	if !isWhole(d.Location) || !isWhole(d.URL) {
		return 0, false
	}
	base, err := url.Parse(d.URL)
	if err != nil {
		return 0, false
	}
	u, err := base.Parse(d.Location)
	if err != nil || u.Opaque != "" {
		return 0, false
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	if u.ForceQuery || u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return keyOfURL(u.Scheme + "://" + hostname.ASCII(u.Host) + path), true
}

// keyOfURL is a hash of a URL in one spelling of its origin.
func keyOfURL(u string) uint64 {
	origin, target := splitURL(u)
	return maphash.Comparable(seed, [2]string{origin, target})
}

// A dates is what the Date headers of a host say of its clock: how far it is ahead of ours, at
// least and at most.
type dates struct {
	known       bool
	least, most time.Duration
}

// drift is how far the answers of one host may disagree about its clock: several machines answer
// for it, and each is set now and then.
const drift = 5 * time.Second

// wrongClock is how far a server's clock may be off for its Date to confirm the log's times.
const wrongClock = time.Hour

// dated holds the times of x against the server's Date. A Date that disagrees proves nothing, since
// a cache may have kept the answer: it leaves the time open.
func (h *hostAudit) dated(x *exchange, d *evidence.Decision) {
	if d.ServerDate == "" {
		return
	}
	sent, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", d.ServerDate)
	if err != nil {
		return
	}
	h.a.tallies[timesAgree].tested++
	least, most := sent.Sub(x.start.Add(d.Latency)), sent.Add(time.Second).Sub(x.start)
	if least > wrongClock || most < -wrongClock {
		h.a.openEnded(timesAgree, "a server whose Date is more than an hour away from the log's times")
		return
	}
	k := &h.dates
	if !k.known {
		*k = dates{true, least, most}
		return
	}
	if most < k.least-drift || least > k.most+drift {
		h.a.openEnded(timesAgree, "a Date header that disagrees with those before it: a cache, or several machines, or the log's times aren't true")
		return
	}
	least, most = max(k.least, least), min(k.most, most)
	k.least, k.most = min(least, most), max(least, most) // the other way round where the clocks drift
}

// robotsAnswer is how a fetch of robots.txt ended.
type robotsAnswer struct {
	status int
	end    time.Time
}
