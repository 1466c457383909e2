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
	// enough is how many pages that were asked for once show the offset.
	enough = 8
	// maxAlike is how many requests of one page are compared with each other.
	maxAlike = 1000
	// closer is how much closer than in the evidence the site may see two requests: most access logs
	// know whole seconds.
	closer = 1500 * time.Millisecond
)

// A page has the requests of both sides for one URL.
type page struct{ own, site []*request }

// pairs is how many pairs of records may be of one request.
func (p *page) pairs() int { return len(p.own) * len(p.site) }

// A pageID is the key of a page. A site's request with a query is of two pages, as the query of
// ours may not be known.
type pageID struct {
	path  uint64 // hash of host, method and path
	query uint64 // hash of the query; 0: it isn't known
}

// compare matches the requests of both sides: ours that ends first with the first one of the site.
func (c *comparer) compare() {
	c.sort()
	pages := c.pages()
	c.setClock(pages) // times of both sides can be compared from here on
	var covered span  // by the evidence, on the site's clock
	for _, o := range c.own {
		o.start = o.Time.Add(c.Offset)
		covered.add(o.start)
		covered.add(o.start.Add(o.took))
		c.match(o, pages[o.page].site)
	}
	c.Requests = len(c.site)
	for _, s := range c.site {
		if s.matched {
			continue
		}
		// Before or after all of the evidence, another log may have it.
		if covered.beyond(s.Time) {
			c.Outside.add(s.Difference)
		} else {
			c.Missing.add(s.Difference)
		}
	}
	c.compareGaps()
}

// sort sorts the requests of both sides by time, those of the evidence by their ends.
func (c *comparer) sort() {
	slices.SortStableFunc(c.site, func(a, b *request) int { return a.Time.Compare(b.Time) })
	slices.SortStableFunc(c.own, func(a, b *request) int {
		// Requests without a query that is known come last: they match any of a path, so they get the
		// site's that are left.
		known := cmp.Compare(min(b.page.query, 1), min(a.page.query, 1))
		return cmp.Or(known, a.Time.Add(a.took).Compare(b.Time.Add(b.took)))
	})
}

// pages returns the pages of the evidence, with the requests of both sides.
func (c *comparer) pages() map[pageID]*page {
	pages := map[pageID]*page{}
	for _, o := range c.own {
		if pages[o.page] == nil {
			pages[o.page] = new(page)
		}
		pages[o.page].own = append(pages[o.page].own, o)
	}
	for _, s := range c.site {
		// A page of the evidence is either with a query that is known, or with any.
		anyQuery := pageID{path: s.page.path}
		for _, id := range [...]pageID{s.page, anyQuery} {
			if p := pages[id]; p != nil {
				p.site = append(p.site, s)
			}
		}
	}
	return pages
}

// match matches o, a request of the evidence, with the site's requests for its page.
func (c *comparer) match(o *request, site []*request) {
	end := o.start.Add(o.took)
	s := firstUnmatched(site, o.start.Add(-inexact))
	if s == nil || s.Time.After(end.Add(inexact)) {
		// The site lacks it. That says something only of a host, and a time, that its log is of.
		if c.hosts[o.Host] && c.covered.around(o.start, end) {
			c.Evidence++
			c.Unseen.addIf(o.Status != 0, o.Difference) // without an answer it may not have got there
		}
		return
	}
	c.Evidence++
	c.Matched++
	// The site notes a request when it starts, or when it ends: it started between o and that.
	ahead := max(s.Time.Sub(o.start), 0)
	s.matched = true
	s.start = s.Time.Add(-min(ahead, o.took))
	both := s.Difference
	both.Record = o.Record
	both.Status = o.Status
	c.Unsent.addIf(o.unsent, both)
	c.Left.addIf(o.left && both.SiteStatus == 429, both)
	// To a request without an answer the site may have noted any status.
	c.Status.addIf(o.Status != 0 && o.Status != both.SiteStatus, both)
}

// firstUnmatched returns the first of the site's requests from a time on that matches none of the
// evidence; nil if there is none.
func firstUnmatched(site []*request, from time.Time) *request {
	byTime := func(s *request, t time.Time) int { return s.Time.Compare(t) }
	first, _ := slices.BinarySearchFunc(site, from, byTime)
	for _, s := range site[first:min(first+maxAlike, len(site))] {
		if !s.matched {
			return s
		}
	}
	return nil
}

// compareGaps finds hosts at which the site saw requests closer together than the evidence has
// them.
func (c *comparer) compareGaps() {
	const sentence = "The site saw requests to %s %.0f s apart, and the evidence has them %.0f s apart at least."
	gaps := shortestGaps(c.site)
	own := shortestGaps(c.own)
	for _, host := range slices.Sorted(maps.Keys(gaps)) {
		if gaps[host] < own[host]-closer {
			name := printable.Text(host)
			c.Closer = append(c.Closer, fmt.Sprintf(sentence, name, gaps[host].Seconds(), own[host].Seconds()))
		}
	}
}

// A mark is where a range of offsets begins, or ends.
type mark struct {
	at   time.Duration
	step int // 1: a range begins; -1: it ends
}

// setClock finds out how far the site's clock is ahead. A site notes a request when it starts
// (Apache) or when it ends (nginx), so two records that may be of one request allow a range of
// offsets. The right one is that which most ranges have in common, the smallest of several.
func (c *comparer) setClock(pages map[pageID]*page) {
	marks := marksOf(pages)
	slices.SortFunc(marks, func(a, b mark) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.step, a.step))
	})
	allowed := 0 // number of ranges that the present offset is in
	most := 0    // the largest such number so far
	for i, m := range marks {
		allowed += m.step
		if m.step < 0 {
			continue // no offset behind it is in more ranges
		}
		middle := m.at + (marks[i+1].at-m.at)/2 // a range that begins ends, too
		smaller := middle.Abs() <= c.Offset.Abs()
		if allowed > most || (allowed == most && smaller) {
			most = allowed
			c.Offset = middle
		}
	}
}

// marksOf returns the ranges of offsets that pairs of records allow: those of the pages that were
// asked for once on both sides or, if there are few of these, of all pairs of a page.
func marksOf(pages map[pageID]*page) []mark {
	// Pages with the fewest pairs come first: a single pair is of one request, if of any. Of equally
	// many, the first one of the evidence comes first, so that one pair of logs gives one offset.
	var marks []mark
	byPairs := func(a, b *page) int {
		return cmp.Or(cmp.Compare(a.pairs(), b.pairs()), cmp.Compare(a.own[0].Record, b.own[0].Record))
	}
	for _, p := range slices.SortedFunc(maps.Values(pages), byPairs) {
		if p.pairs() > 1 && len(marks) >= 2*enough {
			break
		}
		for _, o := range p.own[:min(len(p.own), maxAlike)] {
			for _, s := range p.site[:min(len(p.site), maxAlike)] {
				ahead := s.Time.Sub(o.Time)
				if ahead.Abs() < farthest && o.took < farthest { // longer ones would overflow
					marks = append(marks, mark{ahead - o.took - slack, 1}, mark{ahead + slack, -1})
				}
			}
		}
	}
	return marks
}

// shortestGaps returns the shortest gap between two starts on each host that has several.
func shortestGaps(requests []*request) map[string]time.Duration {
	slices.SortFunc(requests, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), a.start.Compare(b.start))
	})
	gaps := map[string]time.Duration{}
	for i, r := range requests[min(1, len(requests)):] {
		before := requests[i]
		if before.Host == r.Host {
			gap := max(r.start.Sub(before.start), 1) // 0 stands for none
			gaps[r.Host] = min(gap, cmp.Or(gaps[r.Host], gap))
		}
	}
	return gaps
}

// addIf adds x if it is one of these differences.
func (d *Differences) addIf(differs bool, x Difference) {
	if differs {
		d.add(x)
	}
}

// add adds x.
func (d *Differences) add(x Difference) {
	d.N++
	if len(d.First) < maxDifferences {
		d.First = append(d.First, x)
	}
}
