package accesslog

import (
	"cmp"
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

// alike is what the two records of one request have in common. The status is 0 but where clocks are
// set.
type alike struct {
	key, query uint64
	status     int
}

func group(requests []request, key func(r *request) (alike, bool)) map[alike][]int {
	groups := map[alike][]int{}
	for i := range requests {
		if k, ok := key(&requests[i]); ok {
			groups[k] = append(groups[k], i)
		}
	}
	return groups
}

// setClock finds out how far the site's clock is ahead, and whether it notes the starts or the ends
// of requests: those are the ones that agree better. It goes by the pages that were asked for once
// on both sides, or by all pairs that look alike if there are few of those.
func (c *comparer) setClock() {
	of := func(r *request) (alike, bool) { return alike{r.key, r.query, r.Status + r.SiteStatus}, true } // each has one
	own, site := group(c.own, of), group(c.site, of)
	for _, most := range [...]int{1, maxAlike} {
		var starts, ends []time.Duration
		for k, theirs := range site {
			ours := own[k]
			if most == 1 && (len(ours) != 1 || len(theirs) != 1) {
				continue
			}
			for _, i := range ours[:min(len(ours), most)] {
				for _, j := range theirs[:min(len(theirs), most, maxPairs-len(starts))] {
					ahead := c.site[j].Time.Sub(c.own[i].Time)
					starts, ends = append(starts, ahead), append(ends, ahead-c.own[i].took)
				}
			}
		}
		if most > 1 || len(starts) >= enough {
			byStart, byEnd := agree(starts), agree(ends)
			if c.Offset = byStart.offset; byEnd.n >= byStart.n && byEnd.spread < byStart.spread*9/10 {
				c.Offset, c.AtEnd = byEnd.offset, true
			}
			return
		}
	}
}

// An agreement is what most guesses at an offset say.
type agreement struct {
	offset, spread time.Duration // median, and mean distance from it
	n              int           // number of these guesses
}

// agree returns the agreement of most guesses that lie in one window; of two that are as large, the
// one with the smaller offset.
func agree(guesses []time.Duration) (a agreement) {
	slices.Sort(guesses)
	var most []time.Duration
	from := 0
	for to, g := range guesses {
		for g-guesses[from] > window {
			from++
		}
		n := to + 1 - from
		if offset := guesses[from+n/2]; n > a.n || n == a.n && offset.Abs() <= a.offset.Abs() {
			a.n, a.offset, most = n, offset, guesses[from:to+1]
		}
	}
	for _, g := range most {
		a.spread += (g - a.offset).Abs() / time.Duration(a.n)
	}
	return a
}

// compare matches the requests of both sides.
func (c *comparer) compare() {
	byTime := func(a, b request) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Record, b.Record))
	}
	slices.SortFunc(c.own, byTime)
	slices.SortFunc(c.site, byTime)
	c.setClock()
	c.match(false)
	c.match(true)
	for i := range c.own {
		o := &c.own[i]
		due := c.due(o)
		inTime := c.hosts[o.Host] && due.After(c.from.Add(inexact)) && due.Before(c.to.Add(-inexact))
		if o.other != nil || inTime {
			c.Evidence++
		}
		if o.other != nil {
			c.differ(o, o.other)
		} else if inTime && o.Status != 0 {
			c.Unseen.add(o.Finding)
		}
	}
	c.Requests = len(c.site)
	for i := range c.site {
		s := &c.site[i]
		if at := s.Time.Add(-c.Offset); s.other != nil {
			continue
		} else if at.Before(c.first.Add(-inexact)) || at.After(c.last.Add(inexact)) {
			c.Outside.add(s.Finding)
		} else {
			c.Missing.add(s.Finding)
		}
	}
	for i := range c.site {
		if s := &c.site[i]; c.AtEnd && s.other != nil {
			s.Time = s.Time.Add(-s.other.took)
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

// due returns when the site should have noted a request of the evidence, by its own clock.
func (c *comparer) due(o *request) time.Time {
	t := o.Time.Add(c.Offset)
	if c.AtEnd {
		t = t.Add(o.took)
	}
	return t
}

// match finds for each of our requests the site's, in the order of time. With wild it looks at
// those of ours whose query isn't known.
func (c *comparer) match(wild bool) {
	ours := group(c.own, func(o *request) (alike, bool) {
		return alike{key: o.key, query: o.query}, o.other == nil && wild == (o.query == 0)
	})
	theirs := group(c.site, func(s *request) (alike, bool) {
		k := alike{key: s.key, query: s.query}
		if wild {
			k.query = 0
		}
		return k, s.other == nil && ours[k] != nil
	})
	for k, is := range ours {
		slices.SortStableFunc(is, func(a, b int) int { return c.due(&c.own[a]).Compare(c.due(&c.own[b])) })
		for js := theirs[k]; len(is) > 0 && len(js) > 0; {
			o, s := &c.own[is[0]], &c.site[js[0]]
			switch d := s.Time.Sub(c.due(o)); {
			case d < -inexact:
				js = js[1:]
			case d > inexact:
				is = is[1:]
			default:
				o.other, s.other = s, o
				is, js = is[1:], js[1:]
			}
		}
	}
}

// differ compares two records of one request.
func (c *comparer) differ(o, s *request) {
	c.Matched++
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

// views returns the number of requests to each host and their shortest gap. Requests are in the
// order of time.
func views(requests []request) map[string]SiteView {
	all, last := map[string]SiteView{}, map[string]time.Time{}
	for _, r := range requests {
		v := all[r.Host]
		if gap := r.Time.Sub(last[r.Host]).Seconds(); v.Requests == 1 || v.Requests > 1 && gap < v.MinGap {
			v.MinGap = gap
		}
		v.Host = r.Host
		v.Requests++
		all[r.Host], last[r.Host] = v, r.Time
	}
	return all
}
