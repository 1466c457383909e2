package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-politeness/politeness/internal/hostname"
)

// A bound is a largest number of requests in flight that was promised: on a host, on a site, or on
// all hosts.
type bound struct {
	promise int
	kind    Kind   // of its violations
	host    string // "": it is over several hosts
	site    string // for violations; "": it is of no site

	// most returns how many may be in flight when x starts; 0: there is no limit.
	most func(x *exchange) int
	// open, if set, is the reason why the promise is open, and not broken, if there were more.
	open string
	// where returns the end of a violation's text: "2 slots".
	where func(most int) string
}

// mayBeBack reports whether the slot of y may have been taken back before x started, without a
// record of that. This leaves the promise open.
func (a *auditor) mayBeBack(y, x *exchange, promise int) bool {
	// In logs that are whole, each slot that was taken back has its record.
	whole := !a.lostSlot && a.indexed[x.by].limiter.cut == never
	safe := a.safe(y)
	if whole || safe == 0 || y.has(takenBack) {
		return false
	}
	if min(x.start, y.end) < y.start+safe { // its time wasn't over
		return false
	}
	a.openEnded(promise, "a slot that may have been taken back, without a record of that")
	return true
}

const (
	maxOpen   = 512     // exchanges that are remembered to be under way beyond a bound
	maxActive = 1 << 13 // exchanges that are remembered in all
)

// proveInFlight proves of some exchanges, in the order of their starts, that at the start of each
// no more were in flight than b allows.
func (a *auditor) proveInFlight(xs []*exchange, b bound) {
	var active []*exchange
	for _, x := range xs {
		most := b.most(x)
		if most == 0 {
			continue
		}
		if len(active) >= min(most, maxActive) { // below that the ended ones do no harm
			active = slices.DeleteFunc(active, func(y *exchange) bool { return a.isOver(y, x, b) })
		}
		if len(active) > maxActive { // only a log made for that has so many
			a.openEnded(b.promise, "more requests in flight than are counted")
			active = nil
		}
		if len(active) >= most { // only now, since it leaves the promise open
			active = slices.DeleteFunc(active, func(y *exchange) bool {
				return a.mayBeBack(y, x, b.promise) || a.mayBeOver(y, x, b)
			})
		}
		n := len(active)
		switch {
		case n < most: // kept
		case b.open != "":
			a.openEnded(b.promise, b.open)
		default:
			detail := fmt.Sprintf("%d in flight on %s", n+1, b.where(most))
			a.violation(b.kind, cmp.Or(b.host, b.site), detail, a.place(active[n-1]), a.place(x))
		}
		// After a violation more than most may be under way. Of a long row of them the latest are
		// enough.
		active = append(active, x)
		active = active[max(0, len(active)-most-maxOpen):]
	}
}

// isOver reports whether y was over, or its place free, when x started.
func (a *auditor) isOver(y, x *exchange, b bound) bool {
	if y.end <= x.start {
		return true
	}
	// A request to another host may have got the place of y long before it was recorded that y's
	// slot was taken back.
	return b.host == "" && y.has(takenBack) && x.start >= y.start+a.safe(y)
}

const twoClocks = "a place that a process of a fleet counts by its own clock, which isn't that of the starts"

// mayBeOver reports whether y may have ended before x started, against the log's times. This leaves
// the promise open. A process of a fleet counts its own requests in flight over several hosts. Its
// starts are stamped by the server's clock, and its ends aren't.
func (a *auditor) mayBeOver(y, x *exchange, b bound) bool {
	if b.host != "" || a.indexed[x.by].policy.Process == "" || y.end > x.start+settling {
		return false
	}
	a.openEnded(b.promise, twoClocks)
	return true
}

// byProcess returns exchanges by the process that counts them, in the order of their starts. The
// processes of a fleet share slots, delays and blocks. Limits over several hosts apply to each
// process alone.
func (a *auditor) byProcess(xs []*exchange) map[string][]*exchange {
	counted := make(map[string][]*exchange)
	for _, x := range xs {
		counter := a.indexed[x.by].numbering
		counted[counter] = append(counted[counter], x)
	}
	for _, own := range counted {
		slices.SortFunc(own, func(x, y *exchange) int {
			// Of equal starts, those that ended first come first.
			first := cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.end, y.end))
			// Equal ones stay in the order of their records, so that one log gives one report.
			return cmp.Or(first, cmp.Compare(x.by, y.by), cmp.Compare(x.line, y.line))
		})
	}
	return counted
}

// provePlaces proves of the exchanges of one limiter that no more than MaxInFlight were in flight.
func (a *auditor) provePlaces(xs []*exchange) {
	a.proveByProcess(xs, bound{
		promise: slotsKept,
		kind:    BrokenConcurrency,
		most:    func(x *exchange) int { return a.indexed[x.by].policy.MaxInFlight },
		where:   func(most int) string { return fmt.Sprintf("all hosts, %d at most", most) },
	})
}

const otherList = "names that may be one site, " +
	"which the crawler's public suffix list decides (Trust.Site, Trust.SiteList)"

// proveSites proves that no more than PerSite requests were in flight over all ports and names of
// each site.
func (a *auditor) proveSites() {
	byDomain := make(map[string][]*host)
	for _, name := range slices.Sorted(maps.Keys(a.hosts)) {
		domain := widestSite(name)
		byDomain[domain] = append(byDomain[domain], a.hosts[name])
	}
	for _, domain := range slices.Sorted(maps.Keys(byDomain)) {
		a.proveDomain(byDomain[domain])
	}
}

// widestSite returns the largest domain that the host of that key may share its site with, or its
// address. A registrable domain has two labels at least, whatever the public suffix list says.
func widestSite(key string) string {
	name := hostname.WithoutPort(key)
	if strings.HasPrefix(name, "[") || hostname.EndsInNumber(name) { // an address
		return name
	}
	last := strings.LastIndexByte(name, '.')
	if last < 0 {
		return name
	}
	return name[strings.LastIndexByte(name[:last], '.')+1:]
}

// proveDomain proves that no more than PerSite were in flight on each site of a domain. hosts are
// those below it.
func (a *auditor) proveDomain(hosts []*host) {
	bySite := make(map[string][]*exchange)
	var unsure []*exchange // of names that may be one site or several
	names := make(map[string]bool)
	for _, h := range hosts {
		name := hostname.WithoutPort(h.report.Host)
		for _, x := range h.promisedPerSite() {
			site := name
			if a.knowsSites(x) {
				site = a.trust.Site(h.report.Host)
			} else {
				unsure = append(unsure, x)
				names[name] = true
			}
			bySite[site] = append(bySite[site], x)
		}
	}
	for _, site := range slices.Sorted(maps.Keys(bySite)) {
		a.proveByProcess(bySite[site], bound{
			promise: sitesKept,
			kind:    BrokenSite,
			site:    site,
			most: func(x *exchange) int {
				a.tested(sitesKept)
				return a.indexed[x.by].policy.PerSite
			},
			where: func(most int) string {
				return fmt.Sprintf("all ports and names of a site, %d at most", most)
			},
		})
	}
	// If no more were in flight on all names of the domain together, the list makes no difference.
	if len(names) > 1 {
		a.proveByProcess(unsure, bound{
			promise: sitesKept,
			most:    func(x *exchange) int { return a.indexed[x.by].policy.PerSite },
			open:    otherList,
		})
	}
}

// knowsSites reports whether the reader's public suffix list is that of the crawler which made x.
func (a *auditor) knowsSites(x *exchange) bool {
	list := a.indexed[x.by].policy.SiteList
	return a.trust.Site != nil && list != "" && list == a.trust.SiteList
}

// promisedPerSite returns the exchanges of h that a bound of its site holds for.
func (h *host) promisedPerSite() []*exchange {
	var xs []*exchange
	for _, s := range h.sequences {
		for _, x := range s.xs {
			if h.a.indexed[x.by].policy.PerSite > 0 {
				xs = append(xs, x)
			}
		}
	}
	return xs
}

// proveByProcess proves that the processes kept b, each by itself.
func (a *auditor) proveByProcess(xs []*exchange, b bound) {
	counted := a.byProcess(xs)
	for _, process := range slices.Sorted(maps.Keys(counted)) {
		a.proveInFlight(counted[process], b)
	}
}
