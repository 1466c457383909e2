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
	// window is how far guesses at the offset of the clocks may be apart and agree.
	window = 4 * time.Second
	// enough is how many pages that were asked for once tell the offset.
	enough = 8
	// maxPairs is how many guesses are taken from pages that were asked for again and again, and
	// maxAlike how many requests of one page.
	maxPairs, maxAlike = 1 << 20, 1000
)

// setClock finds out how far the site's clock is ahead, and whether it notes the starts or the ends
// of requests: those are the ones that agree better. It goes by the pages that were asked for once
// on both sides, or if there are few of those by all pairs that look alike.
func (c *comparer) setClock() {
	type page struct{ own, site []*request }
	pages := map[[3]uint64]*page{}
	of := func(r *request) *page {
		k := [...]uint64{r.key, r.query, uint64(r.Status + r.SiteStatus)} // each side has one status
		if pages[k] == nil {
			pages[k] = new(page)
		}
		return pages[k]
	}
	for _, o := range c.own {
		p := of(o)
		p.own = append(p.own, o)
	}
	for _, s := range c.site {
		p := of(s)
		p.site = append(p.site, s)
	}
	pairs := func(p *page) int { return len(p.own) * len(p.site) }
	var starts, ends []time.Duration
	for _, p := range slices.SortedFunc(maps.Values(pages), func(a, b *page) int { return cmp.Compare(pairs(a), pairs(b)) }) {
		if pairs(p) > 1 && len(starts) >= enough {
			break
		}
		for _, o := range p.own[:min(len(p.own), maxAlike)] {
			for _, s := range p.site[:min(len(p.site), maxAlike, maxPairs-len(starts))] {
				ahead := s.Time.Sub(o.Time)
				starts, ends = append(starts, ahead), append(ends, ahead-o.took)
			}
		}
	}
	byStart, well := agree(starts)
	byEnd, better := agree(ends)
	if c.Offset = byStart; better > well {
		c.Offset, c.AtEnd = byEnd, true
	}
}

// agree returns the offset that most guesses lie around, in one window, and how well these agree.
// Of two such offsets it is the smaller one.
func agree(guesses []time.Duration) (offset, well time.Duration) {
	slices.Sort(guesses)
	var most []time.Duration
	from := 0
	for to, g := range guesses {
		for g-guesses[from] > window {
			from++
		}
		near := guesses[from : to+1]
		if middle := near[len(near)/2]; len(near) > len(most) || len(near) == len(most) && middle.Abs() <= offset.Abs() {
			most, offset = near, middle
		}
	}
	for _, g := range most {
		well += window - (g - offset).Abs()
	}
	return offset, well
}

// compare matches the requests of both sides.
func (c *comparer) compare() {
	byTime := func(a, b *request) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Record, b.Record))
	}
	slices.SortFunc(c.own, byTime)
	slices.SortFunc(c.site, byTime)
	c.setClock()
	c.match()
	for _, o := range c.own {
		due := c.due(o)
		switch inTime := c.hosts[o.Host] && due.After(c.from.Add(inexact)) && due.Before(c.to.Add(-inexact)); {
		case o.other != nil:
			c.Matched++
			c.differ(o, o.other)
		case inTime && o.Status != 0:
			c.Unseen.add(o.Finding)
		case !inTime:
			continue
		}
		c.Evidence++
	}
	c.Requests = len(c.site)
	for _, s := range c.site {
		at := s.Time.Add(-c.Offset)
		switch {
		case s.other != nil && c.AtEnd:
			s.Time = s.Time.Add(-s.other.took) // its start
		case s.other != nil:
		case len(c.own) == 0 || at.Before(c.own[0].Time.Add(-inexact)) || at.After(c.own[len(c.own)-1].Time.Add(inexact)):
			c.Outside.add(s.Finding)
		default:
			c.Missing.add(s.Finding)
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

// due returns when the site should have noted a request of the evidence, by its own clock.
func (c *comparer) due(o *request) time.Time {
	t := o.Time.Add(c.Offset)
	if c.AtEnd {
		t = t.Add(o.took)
	}
	return t
}

// match finds for each of our requests the site's, in the order of time.
func (c *comparer) match() {
	type page struct{ key, query uint64 }
	theirs := map[page][]*request{}
	for _, o := range c.own {
		theirs[page{o.key, o.query}] = nil
	}
	for _, s := range c.site {
		for _, p := range [...]page{{s.key, s.query}, {s.key, 0}} {
			if list, ok := theirs[p]; ok {
				theirs[p] = append(list, s)
			}
		}
	}
	ours := slices.Clone(c.own)
	slices.SortStableFunc(ours, func(a, b *request) int { return c.due(a).Compare(c.due(b)) })
	for _, known := range [...]bool{true, false} { // those of ours whose query isn't known get what is left
		for _, o := range ours {
			if known != (o.query != 0) {
				continue
			}
			p, due := page{o.key, o.query}, c.due(o)
			list := theirs[p]
			for len(list) > 0 && (list[0].other != nil || list[0].Time.Before(due.Add(-inexact))) {
				list = list[1:]
			}
			if len(list) > 0 && !list[0].Time.After(due.Add(inexact)) {
				o.other, list[0].other = list[0], o
			}
			theirs[p] = list
		}
	}
}

// differ compares two records of one request.
func (c *comparer) differ(o, s *request) {
	both := s.Finding
	both.Record, both.Status = o.Record, o.Status
	switch {
	case o.unsent:
		c.Unsent.add(both)
	case o.left && s.SiteStatus == 429:
		c.Left.add(both)
	case o.Status == 0: // no answer came: the site may have noted anything
	case o.Status != s.SiteStatus:
		c.Status.add(both)
	}
}

func (f *Findings) add(x Finding) {
	if f.N++; len(f.First) == maxFindings {
		return
	}
	for _, text := range [...]*string{&x.Host, &x.Method, &x.Target, &x.Address} {
		*text = printable.Text(*text)
	}
	f.First = append(f.First, x)
}
