package accesslog

import (
	"cmp"
	"slices"
	"time"
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
)

// A page has the requests of both sides for one URL.
type page struct{ own, site []*request }

// pairs is how many pairs of records may be of one request.
func (p *page) pairs() int { return len(p.own) * len(p.site) }

// A pageID is the key of a page. A request is of several pages: its server, query and status may
// not be known on the other side.
type pageID struct {
	path   uint64 // hash of method and path, with the server or without
	query  uint64 // hash of the query; 0: it isn't known
	status int    // of the response; 0: any
}

// byServer returns the page of r on its server, for answers of a status.
func (r *request) byServer(status int) pageID {
	return pageID{path: r.pages.server, query: r.pages.query, status: status}
}

// anywhere returns the page of r on any server, for answers of a status.
func (r *request) anywhere(status int) pageID {
	return pageID{path: r.pages.any, query: r.pages.query, status: status}
}

// compare finds out which requests of both sides are the same, and in what the sides differ.
func (c *comparer) compare() {
	c.sort()
	pages := c.pages()
	c.setClock(pages) // times of both sides can be compared from here on
	var covered span  // by the evidence, on the site's clock
	for _, o := range c.own {
		o.start = o.Time.Add(c.Offset)
		covered.add(o.start)
		covered.add(o.start.Add(o.took))
	}
	c.match(pages)
	served := c.servedNames()
	for _, o := range c.own {
		c.addOwn(o, served)
	}
	all := len(c.site)
	c.site = slices.DeleteFunc(c.site, func(s *request) bool { return !c.ofServer(s, served) })
	c.Requests = len(c.site)
	c.Elsewhere = all - len(c.site)
	for _, s := range c.site {
		if s.other != nil {
			continue
		}
		c.pairs = append(c.pairs, pair{site: s})
		// Before or after all of the evidence, another log may have it.
		if covered.beyond(s.Time) {
			c.Outside.add(s.Difference)
		} else {
			c.Missing.add(s.Difference)
		}
	}
	c.setSides()
	c.compareGaps()
}

// sort sorts the requests of both sides by time, those of the evidence by their ends.
func (c *comparer) sort() {
	slices.SortStableFunc(c.site, func(a, b *request) int { return a.Time.Compare(b.Time) })
	slices.SortStableFunc(c.own, func(a, b *request) int {
		// Requests without a query that is known come last: they match any of a path, so they get the
		// site's that are left.
		known := cmp.Compare(min(b.pages.query, 1), min(a.pages.query, 1))
		return cmp.Or(known, a.Time.Add(a.took).Compare(b.Time.Add(b.took)))
	})
}

// pages returns the pages of the evidence, with the requests of both sides.
func (c *comparer) pages() map[pageID]*page {
	pages := map[pageID]*page{}
	addOwn := func(id pageID, o *request) {
		if pages[id] == nil {
			pages[id] = new(page)
		}
		pages[id].own = append(pages[id].own, o)
	}
	for _, o := range c.own {
		addOwn(o.byServer(0), o)
		addOwn(o.anywhere(0), o)
		if o.Status != 0 {
			addOwn(o.byServer(o.Status), o)
			addOwn(o.anywhere(o.Status), o)
		}
	}
	addSite := func(id pageID, s *request) {
		// A page of the evidence is either with a query that is known, or with any.
		anyQuery := pageID{path: id.path, status: id.status}
		for _, id := range [...]pageID{id, anyQuery} {
			if p := pages[id]; p != nil {
				p.site = append(p.site, s)
			}
		}
	}
	for _, s := range c.site {
		addSite(s.byServer(0), s)
		addSite(s.anywhere(0), s)
		if s.SiteStatus != 0 {
			addSite(s.byServer(s.SiteStatus), s)
			addSite(s.anywhere(s.SiteStatus), s)
		}
	}
	return pages
}

// match matches the requests of both sides in three rounds, each in the order in which those of the
// evidence end. In the first round server and status have to be the same. In the second, the server
// may be another one, because the site may note any of its names. In the third, the status may be
// another one, so that one difference is reported and not two. For a request without a response,
// the site may have noted any status.
func (c *comparer) match(pages map[pageID]*page) {
	rounds := [...]func(o *request) pageID{
		func(o *request) pageID { return o.byServer(o.Status) },
		func(o *request) pageID { return o.anywhere(o.Status) },
		func(o *request) pageID { return o.byServer(0) },
	}
	for _, pageOf := range rounds {
		for _, o := range c.own {
			if o.other == nil {
				matchOne(o, pages[pageOf(o)].site)
			}
		}
	}
}

// matchOne matches o, a request of the evidence, with the first of the site's requests for its
// page.
func matchOne(o *request, site []*request) {
	end := o.start.Add(o.took)
	s := firstUnmatched(site, o.start.Add(-inexact))
	if s == nil || s.Time.After(end.Add(inexact)) {
		return
	}
	o.other = s
	s.other = o
	// The site notes a request when it starts, or when it ends: it started between o and that.
	ahead := max(s.Time.Sub(o.start), 0)
	s.start = s.Time.Add(-min(ahead, o.took))
}

// servedNames returns the hosts of lines that have a request of the server that the caller names:
// they are names of that server, too.
func (c *comparer) servedNames() map[string]bool {
	served := make(map[string]bool)
	for _, o := range c.own {
		if o.other != nil && c.names.inScope(o.Host, known) {
			served[o.other.Host] = true
		}
	}
	return served
}

// ofServer reports whether s, a request of the site, is one of the server that the caller names.
func (c *comparer) ofServer(s *request, served map[string]bool) bool {
	return c.names.inScope(s.Host, s.named) || served[s.Host]
}

// addOwn adds o, a request of the evidence, to the results.
func (c *comparer) addOwn(o *request, served map[string]bool) {
	s := o.other
	if s == nil {
		// The site lacks it. That says something only of a host, and a time, that its log is of.
		if c.names.hosts[o.Host] && c.names.inScope(o.Host, known) && c.covered.around(o.start, o.start.Add(o.took)) {
			c.Evidence++
			c.pairs = append(c.pairs, pair{own: o})
			c.Unseen.addIf(o.Status != 0, o.Difference) // without a response it may not have got there
		}
		return
	}
	if !c.ofServer(s, served) {
		return
	}
	c.Evidence++
	c.Matched++
	c.pairs = append(c.pairs, pair{own: o, site: s})
	if s.pages.server != o.pages.server {
		c.addAlias(Alias{Log: s.Host, Evidence: o.Host})
	}
	both := s.Difference
	both.Record = o.Record
	both.Status = o.Status
	c.Unsent.addIf(o.unsent, both)
	c.Left.addIf(o.left && both.SiteStatus == 429, both)
	c.Status.addIf(o.Status != 0 && o.Status != both.SiteStatus, both)
}

// addAlias counts a request of two names.
func (c *comparer) addAlias(a Alias) {
	i := slices.IndexFunc(c.Aliases, func(b Alias) bool { return b.Log == a.Log && b.Evidence == a.Evidence })
	if i < 0 {
		if len(c.Aliases) == maxDifferences {
			return
		}
		i = len(c.Aliases)
		c.Aliases = append(c.Aliases, a)
	}
	c.Aliases[i].N++
}

// firstUnmatched returns the first of the site's requests from a time on that matches none of the
// evidence; nil if there is none.
func firstUnmatched(site []*request, from time.Time) *request {
	byTime := func(s *request, t time.Time) int { return s.Time.Compare(t) }
	first, _ := slices.BinarySearchFunc(site, from, byTime)
	for _, s := range site[first:min(first+maxAlike, len(site))] {
		if s.other == nil {
			return s
		}
	}
	return nil
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
	isOnServer := func(id pageID, p *page) bool { return id == p.own[0].byServer(0) }
	marks := marksOf(pages, isOnServer)
	if len(marks) == 0 { // all lines have another name than the evidence
		marks = marksOf(pages, func(id pageID, p *page) bool { return id == p.own[0].anywhere(0) })
	}
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
// asked for once on both sides or, if there are few of these, of all pairs of a page. Only pages
// that are chosen count.
func marksOf(pages map[pageID]*page, isChosen func(pageID, *page) bool) []mark {
	// Pages with the fewest pairs come first: a single pair is of one request, if of any. Of equally
	// many, the first one of the evidence comes first, so that one pair of logs gives one offset.
	var marks []mark
	byPairs := func(a, b *page) int {
		return cmp.Or(cmp.Compare(a.pairs(), b.pairs()), cmp.Compare(a.own[0].Record, b.own[0].Record))
	}
	var chosen []*page
	for id, p := range pages {
		if isChosen(id, p) {
			chosen = append(chosen, p)
		}
	}
	slices.SortFunc(chosen, byPairs)
	for _, p := range chosen {
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
