package accesslog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-politeness/politeness/internal/printable"
)

const (
	// inexact is how far two records of one request may be apart, once the clocks are set. Access
	// logs know whole seconds.
	inexact = 5 * time.Second
	// slack is how far a guess at the offset of the clocks may be wrong.
	slack = 2 * time.Second
	// farthest is how far the clocks may be apart, and how long a request may take.
	farthest = 100 * 365 * 24 * time.Hour
	// enough is how many pages that were asked for once tell the offset.
	enough = 8
	// maxAlike is how many requests of one page are compared with each other.
	maxAlike = 1000
)

// A page is what both sides have of one URL.
type page struct{ own, site []*request }

// A pageID tells pages apart. A site's request with a query is of two pages, as the query of ours
// may not be known.
type pageID struct {
	path  uint64 // hash of host, method and path
	query uint64 // hash of the query; 0: it isn't known
}

// compare matches the requests of both sides: ours that ends first with the first one of the site.
func (c *comparer) compare() {
	slices.SortStableFunc(c.site, func(a, b *request) int { return a.Time.Compare(b.Time) })
	slices.SortStableFunc(c.own, func(a, b *request) int {
		// Those of ours whose query isn't known get what is left.
		return cmp.Or(cmp.Compare(min(b.page.query, 1), min(a.page.query, 1)), a.Time.Add(a.took).Compare(b.Time.Add(b.took)))
	})
	pages := map[pageID]*page{}
	for _, o := range c.own {
		if pages[o.page] == nil {
			pages[o.page] = new(page)
		}
		pages[o.page].own = append(pages[o.page].own, o)
	}
	for _, s := range c.site {
		for _, id := range [...]pageID{s.page, {s.page.path, 0}} {
			if p := pages[id]; p != nil {
				p.site = append(p.site, s)
			}
		}
	}
	c.setClock(pages)

	var covered span // by the evidence, on the site's clock
	for _, o := range c.own {
		o.start = o.Time.Add(c.Offset)
		end := o.start.Add(o.took)
		covered.add(o.start)
		covered.add(end)
		near := pages[o.page].site
		i, _ := slices.BinarySearchFunc(near, o.start.Add(-inexact), func(s *request, t time.Time) int { return s.Time.Compare(t) })
		near = near[i:min(i+maxAlike, len(near))]
		i = slices.IndexFunc(near, func(s *request) bool { return !s.matched })
		if i < 0 || near[i].Time.After(end.Add(inexact)) { // the site has none
			if c.hosts[o.Host] && o.start.After(c.covered.from.Add(inexact)) && end.Before(c.covered.to.Add(-inexact)) {
				c.Evidence++
				c.Unseen.addIf(o.Status != 0, o.Finding)
			}
			continue
		}
		c.Evidence++
		c.Matched++
		s := near[i]
		s.matched, s.start = true, s.Time.Add(-min(max(s.Time.Sub(o.start), 0), o.took))
		both := s.Finding
		both.Record, both.Status = o.Record, o.Status
		c.Unsent.addIf(o.unsent, both)
		c.Left.addIf(o.left && both.SiteStatus == 429, both)
		c.Status.addIf(o.Status != 0 && o.Status != both.SiteStatus, both) // without an answer the site may have noted anything
	}
	c.Requests = len(c.site)
	for _, s := range c.site {
		outside := s.Time.Before(covered.from.Add(-inexact)) || s.Time.After(covered.to.Add(inexact))
		c.Outside.addIf(!s.matched && outside, s.Finding)
		c.Missing.addIf(!s.matched && !outside, s.Finding)
	}
	gaps, own := shortestGaps(c.site), shortestGaps(c.own)
	for _, host := range slices.Sorted(maps.Keys(gaps)) {
		if gaps[host] < own[host]-1500*time.Millisecond { // most access logs know whole seconds
			c.Closer = append(c.Closer, fmt.Sprintf("The site saw requests to %s %.0f s apart, and the evidence has them %.0f s apart at least.",
				printable.Text(host), gaps[host].Seconds(), own[host].Seconds()))
		}
	}
}

// setClock finds out how far the site's clock is ahead. A site notes a request when it starts
// (Apache) or when it ends (nginx), so two records that may be of one request allow a range of
// offsets: the right one is what most of them allow, the smallest of several. They are those of the
// pages that were asked for once on both sides, or if there are few of these all pairs of a page.
func (c *comparer) setClock(pages map[pageID]*page) {
	type mark struct {
		at   time.Duration
		step int // 1 where a range begins, -1 where it ends
	}
	var marks []mark
	pairs := func(p *page) int { return len(p.own) * len(p.site) }
	for _, p := range slices.SortedFunc(maps.Values(pages), func(a, b *page) int { return cmp.Compare(pairs(a), pairs(b)) }) {
		if pairs(p) > 1 && len(marks) >= 2*enough {
			break
		}
		for _, o := range p.own[:min(len(p.own), maxAlike)] {
			for _, s := range p.site[:min(len(p.site), maxAlike)] {
				if ahead := s.Time.Sub(o.Time); ahead.Abs() < farthest && o.took < farthest {
					marks = append(marks, mark{ahead - o.took - slack, 1}, mark{ahead + slack, -1})
				}
			}
		}
	}
	slices.SortFunc(marks, func(a, b mark) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.step, a.step)) })
	allowed, most := 0, 0 // number of pairs that allow an offset
	for i, m := range marks {
		if allowed += m.step; m.step < 0 {
			continue
		}
		middle := m.at + (marks[i+1].at-m.at)/2
		if allowed > most || allowed == most && middle.Abs() <= c.Offset.Abs() {
			most, c.Offset = allowed, middle
		}
	}
}

// shortestGaps returns the shortest gap between two starts on each host that has several.
func shortestGaps(requests []*request) map[string]time.Duration {
	slices.SortFunc(requests, func(a, b *request) int { return cmp.Or(cmp.Compare(a.Host, b.Host), a.start.Compare(b.start)) })
	gaps := map[string]time.Duration{}
	for i, r := range requests[min(1, len(requests)):] {
		if before := requests[i]; before.Host == r.Host {
			gap := max(r.start.Sub(before.start), 1)
			gaps[r.Host] = min(gap, cmp.Or(gaps[r.Host], gap))
		}
	}
	return gaps
}

// addIf adds x if it is one of f.
func (f *Findings) addIf(is bool, x Finding) {
	if !is {
		return
	}
	if f.N++; len(f.First) < maxFindings {
		f.First = append(f.First, x)
	}
}
