package crawl

import (
	"math"

	"github.com/go-politeness/politeness/hostlimit/sitekey"
)

// A site is the common state of the hosts of a registrable domain or an address. A domain may have
// any number of names, so its share of the connections doesn't grow with them.
type site struct {
	hosts   int     // in the frontier
	flights int     // of all its hosts, as long as a flight is waited for
	demand  float64 // part of frontier.demand
	asleep  int     // requests of all its hosts that sleep because their origin is barred
	parked  []*host // due, but the site has no room: first come, first served
}

// site returns the site of a host's key, and makes it if need be.
func (f *frontier) site(key string) *site {
	if f.sites == nil {
		f.sites = make(map[string]*site)
	}
	name := sitekey.Of(key)
	s := f.sites[name]
	if s == nil {
		s = new(site)
		f.sites[name] = s
	}
	return s
}

// forgetSite drops the site of h, which was forgotten, with its last host.
func (f *frontier) forgetSite(h *host) {
	h.site.hosts--
	h.site.demand -= h.demand
	if h.site.hosts == 0 {
		delete(f.sites, sitekey.Of(h.key))
	}
}

// weight is the number of sites for which a site with many hosts counts. It matters if connections
// are scarce.
const weight = 4

// surveyed is the number of exchanges for each site after which the demand of the quick hosts is
// known.
const surveyed = 4

// roomOf returns the number of connections that the hosts of s may have together: their part of the
// connections, or all that the quick hosts of other sites can spare. The limiter lets no more than
// perSite be in flight, and a flight that waits for it would hold a connection.
func (f *frontier) roomOf(s *site) int {
	most := f.perSite
	if most <= 0 {
		most = math.MaxInt
	}
	sites := len(f.sites)
	if sites <= 1 {
		return most
	}
	room := max(2, f.max*weight/(sites+weight-1))
	if f.samples >= surveyed*sites {
		room = max(room, f.max-2-int(1.25*(f.demand-s.demand)))
	}
	return min(room, most)
}

// park puts h aside, which is due, if its site has no room, and reports whether it did.
func (f *frontier) park(h *host) bool {
	s := h.site
	if s.hosts == 1 || s.flights < f.roomOf(s) { // a single host has its own slots
		return false
	}
	h.place = parked
	s.parked = append(s.parked, h)
	return true
}

// unpark queues hosts that were parked, as many as their site has room for.
func (f *frontier) unpark(s *site) {
	for room := f.roomOf(s) - s.flights; room > 0 && len(s.parked) > 0; {
		h := s.parked[0]
		s.parked[0] = nil // for the garbage collector
		s.parked = s.parked[1:]
		h.place = nowhere
		f.put(h)
		if h.place != nowhere { // else its URLs were given up
			room--
		}
	}
}
