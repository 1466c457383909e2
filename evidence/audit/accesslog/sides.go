package accesslog

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// A HostSides is a host as each of the two logs has it. All times are on the site's clock.
type HostSides struct {
	Host     string // name in the evidence, or in the access log if the evidence lacks the host
	Matched  int    // requests that both logs have
	Evidence Side
	Site     Side
}

// A Side is the requests to a host in one of the two logs.
type Side struct {
	N           int           // number of requests
	First, Last time.Time     // zero without requests
	MinGap      time.Duration // shortest time between two requests, 0 if fewer than two
}

// A Pair is a request as each of the two logs has it. If both have the request, Record, Line,
// Status and SiteStatus are all set.
type Pair struct {
	Difference
	Started time.Time // start by the evidence, on the site's clock, zero if the evidence lacks it
	Noted   time.Time // time in the access log, zero if the access log lacks it
}

// maxPairs is how many pairs a Comparison names one by one.
const maxPairs = 1000

// A pair has the records of a request, of which one may be nil.
type pair struct{ own, site *request }

// at returns when the request was made.
func (p pair) at() time.Time {
	if p.own != nil {
		return p.own.start
	}
	return p.site.Time
}

// host returns the host that was asked for.
func (p pair) host() string {
	if p.own != nil {
		return p.own.Host
	}
	return p.site.Host
}

// shown returns the pair as a Comparison names it.
func (p pair) shown() Pair {
	switch {
	case p.site == nil:
		return Pair{Difference: p.own.Difference, Started: p.own.start}
	case p.own == nil:
		return Pair{Difference: p.site.Difference, Noted: p.site.Time}
	}
	shown := Pair{Difference: p.site.Difference, Started: p.own.start, Noted: p.site.Time}
	shown.Host = p.own.Host
	shown.Record = p.own.Record
	shown.Status = p.own.Status
	return shown
}

// setSides sets the fields that show the logs side by side.
func (c *comparer) setSides() {
	slices.SortStableFunc(c.pairs, func(a, b pair) int { return a.at().Compare(b.at()) })
	for _, p := range c.pairs[:min(len(c.pairs), maxPairs)] {
		c.Pairs = append(c.Pairs, p.shown())
	}
	hosts := make(map[string]*HostSides)
	own := make(map[string][]time.Time)
	site := make(map[string][]time.Time)
	for _, p := range c.pairs {
		host := p.host()
		if hosts[host] == nil {
			hosts[host] = &HostSides{Host: host}
		}
		if p.own != nil {
			own[host] = append(own[host], p.own.start)
		}
		if p.site != nil {
			site[host] = append(site[host], p.site.Time)
		}
		if p.own != nil && p.site != nil {
			hosts[host].Matched++
		}
	}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		h := hosts[host]
		h.Evidence = sideOf(own[host])
		h.Site = sideOf(site[host])
		c.Hosts = append(c.Hosts, *h)
	}
	// The hosts with the most requests come first.
	slices.SortStableFunc(c.Hosts, func(a, b HostSides) int {
		return cmp.Compare(max(b.Evidence.N, b.Site.N), max(a.Evidence.N, a.Site.N))
	})
}

// sideOf returns the Side with the requests of these times.
func sideOf(times []time.Time) Side {
	if len(times) == 0 {
		return Side{}
	}
	slices.SortFunc(times, time.Time.Compare)
	s := Side{N: len(times), First: times[0], Last: times[len(times)-1]}
	for i := range times[1:] {
		gap := times[i+1].Sub(times[i])
		if i == 0 || gap < s.MinGap {
			s.MinGap = gap
		}
	}
	return s
}
