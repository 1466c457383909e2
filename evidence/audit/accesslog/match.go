package accesslog

import (
	"cmp"
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

// A page is what both sides have of one URL, in the order of time.
type page struct{ own, site []*request }

// A pageID tells pages apart. A site's request with a query is of two pages, as the query of ours
// may not be known.
type pageID struct {
	path  uint64 // hash of host, method and path
	query uint64 // hash of the query; 0: it isn't known
}

// compare matches the requests of both sides.
func (c *comparer) compare() {
	byTime := func(a, b *request) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Record, b.Record))
	}
	slices.SortFunc(c.own, byTime)
	slices.SortFunc(c.site, byTime)
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
	c.match(pages)

	var last time.Time // end of all of ours
	for _, o := range c.own {
		start, end := c.due(o)
		if end.After(last) {
			last = end
		}
		if o.other == nil {
			if c.hosts[o.Host] && start.After(c.from.Add(inexact)) && end.Before(c.to.Add(-inexact)) {
				c.Evidence++
				c.Unseen.addIf(o.Status != 0, o.Finding)
			}
			continue
		}
		c.Evidence++
		c.Matched++
		both := o.other.Finding
		both.Record, both.Status = o.Record, o.Status
		c.Unsent.addIf(o.unsent, both)
		c.Left.addIf(o.left && both.SiteStatus == 429, both)
		c.Status.addIf(o.Status != 0 && o.Status != both.SiteStatus, both) // without an answer the site may have noted anything
	}
	c.Requests = len(c.site)
	for _, s := range c.site {
		switch o := s.other; {
		case o != nil: // its start, whether the site notes that or a later time
			late := s.Time.Sub(o.Time.Add(c.Offset))
			s.Time = s.Time.Add(-min(max(late, 0), o.took))
		default:
			outside := len(c.own) == 0 || s.Time.Before(c.own[0].Time.Add(c.Offset-inexact)) || s.Time.After(last.Add(inexact))
			c.Outside.addIf(outside, s.Finding)
			c.Missing.addIf(!outside, s.Finding)
		}
	}
	slices.SortFunc(c.site, byTime)
	own := views(c.own)
	for host, v := range views(c.site) {
		v.OwnMinGap = own[host].MinGap
		c.Hosts = append(c.Hosts, v)
	}
	slices.SortFunc(c.Hosts, func(a, b SiteView) int { return cmp.Compare(a.Host, b.Host) })
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

// due returns between which times the site should have noted a request of the evidence, by its own
// clock.
func (c *comparer) due(o *request) (start, end time.Time) {
	start = o.Time.Add(c.Offset)
	return start, start.Add(o.took)
}

// match finds for each of our requests the site's: for the one that ends first the first one.
func (c *comparer) match(pages map[pageID]*page) {
	for _, known := range [...]bool{true, false} { // those of ours whose query isn't known get what is left
		for id, p := range pages {
			if known != (id.query != 0) {
				continue
			}
			slices.SortStableFunc(p.own, func(a, b *request) int { return a.Time.Add(a.took).Compare(b.Time.Add(b.took)) })
			for _, o := range p.own {
				start, end := c.due(o)
				i, _ := slices.BinarySearchFunc(p.site, start.Add(-inexact), func(s *request, t time.Time) int { return s.Time.Compare(t) })
				near := p.site[i:min(i+maxAlike, len(p.site))]
				i = slices.IndexFunc(near, func(s *request) bool { return s.other == nil })
				if i >= 0 && !near[i].Time.After(end.Add(inexact)) {
					o.other, near[i].other = near[i], o
				}
			}
		}
	}
}

// views returns the number of requests to each host and their shortest gap. Requests are in the
// order of time.
func views(requests []*request) map[string]SiteView {
	all, last := map[string]SiteView{}, map[string]time.Time{}
	for _, r := range requests {
		v := all[r.Host]
		if gap := r.Time.Sub(last[r.Host]).Seconds(); v.Requests == 1 || v.Requests > 1 && gap < v.MinGap {
			v.MinGap = gap
		}
		v.Host, v.Requests = r.Host, v.Requests+1
		all[r.Host], last[r.Host] = v, r.Time
	}
	return all
}

// addIf adds x if it is one of f.
func (f *Findings) addIf(is bool, x Finding) {
	if !is {
		return
	}
	if f.N++; len(f.First) == maxFindings {
		return
	}
	for _, text := range [...]*string{&x.Host, &x.Method, &x.Target, &x.Address} {
		*text = printable.Text(*text)
	}
	f.First = append(f.First, x)
}
