package audit

import (
	"cmp"
	"hash/maphash"
	"net/url"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/hostname"
)

// A tripKey is a trip of a Transport and a hash of its request.
type tripKey struct {
	by            uint32
	trip, request uint64
}

// A trip is what the log says of whether a URL may be fetched, and how often it was.
type trip struct {
	at       place
	time     int64
	allowed  bool
	derived  bool  // whether robots.txt, as logged, gives the verdict too
	floor    int64 // crawl-delay
	attempt  int   // last try that started
	finished bool
}

// trips are those under way in a log, and the last that were over: another try may follow yet.
type trips struct {
	all  map[tripKey]*trip
	over []tripKey
}

// lately is how many trips that are over are remembered.
const lately = 8192

func (a *auditor) keyOfTrip(d *evidence.Decision) tripKey {
	return tripKey{a.by.index, d.Trip, a.request}
}

// putTrip stores the newest verdict on a trip.
func (a *auditor) putTrip(d *evidence.Decision, v trip) {
	k := a.keyOfTrip(d)
	if old := a.trips.all[k]; old != nil {
		v.attempt = old.attempt
	}
	a.trips.all[k] = &v
}

// leaveTrip notes that the trip of d is over, but if it is to be tried again.
func (a *auditor) leaveTrip(d *evidence.Decision) {
	t, k := &a.trips, a.keyOfTrip(d)
	trip := t.all[k]
	if trip == nil || trip.finished {
		return
	}
	trip.finished = true
	if t.over = append(t.over, k); len(t.over) > lately {
		if trip := t.all[t.over[0]]; trip != nil && trip.finished {
			delete(t.all, t.over[0])
		}
		t.over = t.over[1:]
	}
}

// namesRobots reports whether the URL of d is that of a robots.txt.
func namesRobots(d *evidence.Decision) bool {
	if !strings.Contains(d.URL, "/robots.txt") { // as nearly always
		return false
	}
	_, path := splitURL(d.URL)
	path, _, _ = strings.Cut(path, "?")
	return path == "/robots.txt"
}

// costsAPage reports whether the start d of a page costs one of the budget: all hops and tries of a
// navigation are one page, as far as the log holds the redirect and the try before. A redirect that
// comes of no trip may be one that a cache around the Transport has kept.
func (a *auditor) costsAPage(d *evidence.Decision, of *trip) bool {
	if of != nil {
		before := of.attempt
		of.attempt = d.Attempt
		if d.Attempt > 1 && before == d.Attempt-1 || d.Type == evidence.Resent && before == d.Attempt {
			return false
		}
	}
	if d.From == 0 {
		return true
	}
	f := follower{d.From, keyOfURL(d.URL)}
	if _, ok := a.by.led[d.From]; !ok { // the answer that led there may be logged later
		a.by.followers = append(a.by.followers, f)
		return false
	}
	return !a.led(f)
}

// A follower is a request that follows a redirect.
type follower struct {
	from uint64 // trip that was redirected
	url  uint64 // hash of where the request goes
}

// led reports whether an answer led to f, and to nothing else before.
func (a *auditor) led(f follower) bool {
	to, ok := a.by.led[f.from]
	delete(a.by.led, f.from)
	if to == anywhere && ok {
		a.openEnded(budgetKept, "a redirect whose URL isn't whole")
	}
	return ok && (to == anywhere || to == f.url)
}

// endPages counts, at the end of a log, requests that claim a redirect which no answer gave: each
// is a page.
func (a *auditor) endPages(t *transport) {
	a.by = t
	for _, f := range t.followers {
		if !a.led(f) {
			t.budget.pages[window{0, none}]++
			a.proveLimit("pages", "", t.budget.pages[window{0, none}])
		}
	}
}

// leads takes the end d of an exchange that was sent, for where it leads.
func (a *auditor) leads(d *evidence.Decision) {
	if d.RobotsTxt {
		a.robotsEnded(d)
	} else if to := redirectTarget(d); to != nowhere {
		a.by.led[d.Trip] = to
	}
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
	base, err := url.Parse(d.URL)
	if err != nil {
		return nowhere
	}
	u, err := base.Parse(d.Location)
	if err != nil || u.Opaque != "" {
		return nowhere
	}
	target := cmp.Or(u.EscapedPath(), "/")
	if u.ForceQuery || u.RawQuery != "" {
		target += "?" + u.RawQuery
	}
	return keyOfURL(u.Scheme + "://" + hostname.ASCII(u.Host) + target)
}

// keyOfURL is a hash of a URL in one spelling of its origin.
func keyOfURL(u string) uint64 {
	origin, target := splitURL(u)
	return maphash.Comparable(seed, [2]string{origin, target})
}

// A dates is what the Date headers of a host say of its clock: how far it is ahead of ours, at
// least and at most.
type dates struct{ least, most int64 }

const (
	// drift is how far the answers of one host may disagree about its clock: several machines answer
	// for it, and each is set now and then.
	drift = 5 * slack
	// wrongClock is how far a server's clock may be off for its Date to confirm the log's times.
	wrongClock = 3600 * slack
)

// dated holds the times of t against the server's Date. A Date that disagrees proves nothing, since
// a cache may have kept the answer: it leaves the time open.
func (a *auditor) dated(h *host, t *try, d *evidence.Decision) {
	date, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", d.ServerDate)
	if err != nil {
		if a.by.policy.Limiter != "" && d.Status > 0 && !d.NoDate && d.ServerDate == "" {
			a.openEnded(timesAgree, "an answer without its Date, and no word that the server sent none")
		}
		return
	}
	a.tallies[timesAgree].tested++
	sent := stamp(date)
	least, most := sent-t.wall-int64(d.Latency), sent+slack-t.wall
	switch k := &h.dates; {
	case least > wrongClock || most < -wrongClock:
		a.openEnded(timesAgree, "a server whose Date is more than an hour away from the log's times")
	case *k == dates{}:
		*k = dates{least, most}
	case most < k.least-drift || least > k.most+drift:
		a.openEnded(timesAgree, "a Date header that disagrees with those before it: a cache, or several machines, or the log's times aren't true")
	default:
		least, most = max(k.least, least), min(k.most, most)
		*k = dates{min(least, most), max(least, most)} // the other way round where the clocks drift
	}
}
