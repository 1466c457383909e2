package audit

import (
	"hash/maphash"
	"net/url"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/hostname"
)

// A tripKey is a trip of a Transport and a hash of its URL.
type tripKey struct {
	by        uint32
	trip, url uint64
}

// A trip is what the log says of whether a URL may be fetched, and how often it was.
type trip struct {
	at       place
	time     int64
	allowed  bool
	derived  bool  // whether robots.txt, as logged, gives the verdict too
	floor    int64 // crawl-delay
	asker    asker
	attempt  int // last try that started
	retried  int // last try that another one is to follow
	finished bool
}

// trips are those under way in a log, and the last that were over, in case the records of several
// are mixed up.
type trips struct {
	all  map[tripKey]*trip
	over []tripKey
	some bool // there was a verdict, in this log or in one before
}

// lately is how many trips that are over are remembered.
const lately = 8192

func keyOfTrip(t *transport, d *evidence.Decision) tripKey {
	return tripKey{by: t.index, trip: d.Trip, url: hashOf(d.URL)}
}

// get returns the trip that d is of, nil if there is none.
func (t *trips) get(by *transport, d *evidence.Decision) *trip { return t.all[keyOfTrip(by, d)] }

// put stores the newest verdict on a trip.
func (t *trips) put(by *transport, d *evidence.Decision, v trip) {
	t.some = true
	k := keyOfTrip(by, d)
	if old := t.all[k]; old != nil && old.asker == v.asker {
		v.attempt = old.attempt
	}
	t.all[k] = &v
}

// retry notes that the attempt of d isn't the last one of its trip.
func (t *trips) retry(by *transport, d *evidence.Decision) {
	if trip := t.get(by, d); trip != nil {
		trip.retried = max(trip.retried, d.Attempt)
		trip.finished = false
	}
}

// leave notes that the trip of d is over, but if it is to be tried again.
func (t *trips) leave(by *transport, d *evidence.Decision) {
	k := keyOfTrip(by, d)
	trip := t.all[k]
	if trip == nil || trip.finished || trip.retried >= d.Attempt && d.Attempt > 0 {
		return
	}
	trip.finished = true
	if t.over = append(t.over, k); len(t.over) < 2*lately {
		return
	}
	for _, k := range t.over[:lately] {
		if trip := t.all[k]; trip != nil && trip.finished {
			delete(t.all, k)
		}
	}
	t.over = append(t.over[:0], t.over[lately:]...)
}

// fetchesRobots reports whether d is about a fetch of robots.txt.
func fetchesRobots(d *evidence.Decision) bool { return d.RobotsTxt || namesRobots(d) }

// namesRobots reports whether the URL of d is that of a robots.txt.
func namesRobots(d *evidence.Decision) bool {
	if !strings.Contains(d.URL, "/robots.txt") { // as nearly always
		return false
	}
	_, path := splitURL(d.URL)
	path, _, _ = strings.Cut(path, "?")
	return path == "/robots.txt"
}

// isPage reports whether the start d is one of a page, which needs a verdict, and has that of a
// trip if that isn't nil. A fetch of robots.txt is one of that name, or where an answer to such a
// fetch led.
func (a *auditor) isPage(d *evidence.Decision, of *trip) bool {
	if named := namesRobots(d); of != nil && !named || !d.RobotsTxt {
		return !named
	}
	_, target := splitURL(d.URL)
	r := &a.by.robots
	if a.by.policy != nil && target != "/robots.txt" && !r.anywhere && !r.hops[keyOfURL(d.URL)] && isWhole(d.URL) {
		a.violation(BrokenRobots, d.Host, "marked as a fetch of robots.txt, where none leads: "+d.URL, a.at)
	}
	return false
}

// A redirect is a page that an answer leads to.
type redirect struct {
	trip uint64 // of the answer; 0: the log doesn't say
	url  uint64 // 0: the log doesn't say
}

// costsAPage reports whether the start d of a page costs one of the budget: all hops and tries of a
// navigation are one page, as far as the log holds the redirect and the try before.
func (a *auditor) costsAPage(d *evidence.Decision, of *trip) bool {
	if of != nil {
		before := of.attempt
		of.attempt = d.Attempt
		if d.Attempt > 1 && before == d.Attempt-1 || d.Type == evidence.Resent && before == d.Attempt {
			return false
		}
	}
	if d.Redirects == 0 {
		return true
	}
	led := redirect{d.From, keyOfURL(d.URL)}
	if p := a.by.policy; d.From == 0 && p != nil && p.Limiter != "" {
		return true // a cache around the Transport may have kept the redirect
	}
	switch {
	case a.by.led[led] > 0 || isWhole(d.URL): // the answer that led there may be logged later
		a.by.led[led]--
	default:
		a.openEnded(budgetKept, "a redirect whose URL isn't whole")
	}
	return false
}

// endPages counts, at the end of a log, requests that claim a redirect which no answer gave: each
// is a page.
func (a *auditor) endPages(t *transport) {
	unled := 0
	for led, n := range t.led {
		switch {
		case n >= 0:
		case t.led[redirect{led.trip, 0}] > 0:
			a.openEnded(budgetKept, "a redirect whose URL isn't whole")
		default:
			unled -= n
		}
	}
	if a.by = t; unled > 0 {
		t.budget.pages += unled
		a.proveLimit("pages", "", int64(t.budget.pages))
	}
	t.led = nil
}

// leads takes the end d of an exchange that was sent, for where it leads.
func (a *auditor) leads(d *evidence.Decision) {
	t := a.by
	if d.RobotsTxt && t.policy != nil {
		t.robots.fetched(d)
	}
	if d.Status/100 != 3 || d.Location == "" {
		return
	}
	target, ok := redirectTarget(d)
	of := redirect{url: target}
	if t.policy != nil && t.policy.Limiter != "" {
		of.trip = d.Trip
	}
	switch whole := isWhole(d.Location) && isWhole(d.URL); {
	case d.RobotsTxt && (!ok || !whole):
		t.robots.anywhere = true
	case d.RobotsTxt:
		t.robots.hops[target] = true
	case !whole && of.trip == 0:
	case !whole && strings.HasSuffix(d.Location, evidence.Clipped):
		t.led[redirect{of.trip, 0}]++
	case ok:
		t.led[of]++
		if t.led[of] == 0 {
			delete(t.led, of)
		}
	}
}

// redirectTarget returns the key of the URL to which the answer d leads.
func redirectTarget(d *evidence.Decision) (uint64, bool) {
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
	least, most int64
}

// drift is how far the answers of one host may disagree about its clock: several machines answer
// for it, and each is set now and then.
const drift = 5 * slack

// wrongClock is how far a server's clock may be off for its Date to confirm the log's times.
const wrongClock = 3600 * slack

// dated holds the times of t against the server's Date. A Date that disagrees proves nothing, since
// a cache may have kept the answer: it leaves the time open.
func (a *auditor) dated(h *host, x *exchange, t *try, d *evidence.Decision) {
	if d.ServerDate == "" {
		if p := t.by.policy; p != nil && p.Limiter != "" && d.Status > 0 && !d.NoDate {
			a.openEnded(timesAgree, "an answer without its Date, and no word that the server sent none")
		}
		return
	}
	date, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", d.ServerDate)
	if err != nil {
		return
	}
	a.tallies[timesAgree].tested++
	sent := stamp(date)
	least, most := sent-t.wall-int64(d.Latency), sent+slack-t.wall
	if least > wrongClock || most < -wrongClock {
		a.openEnded(timesAgree, "a server whose Date is more than an hour away from the log's times")
		return
	}
	k := &h.dates
	switch {
	case !k.known:
		*k = dates{true, least, most}
	case most < k.least-drift || least > k.most+drift:
		a.openEnded(timesAgree, "a Date header that disagrees with those before it: a cache, or several machines, or the log's times aren't true")
	default:
		least, most = max(k.least, least), min(k.most, most)
		k.least, k.most = min(least, most), max(least, most) // the other way round where the clocks drift
	}
}
