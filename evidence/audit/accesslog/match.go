package accesslog

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/go-politeness/politeness/internal/printable"
)

const (
	// inexact is how far two records of one request may be apart, once the clocks are set. Access
	// logs know whole seconds.
	inexact = 5 * time.Second
	// bin is how finely guesses at the offset of the clocks are counted.
	bin = 2 * time.Second
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
	of := func(r *request) (alike, bool) { return alike{r.key, r.query, r.status}, true }
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
					ahead := c.site[j].time.Sub(c.own[i].time)
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

func agree(guesses []time.Duration) (a agreement) {
	if len(guesses) == 0 {
		return a
	}
	votes := map[int64]int{}
	for _, g := range guesses {
		votes[int64(math.Floor(g.Seconds()/bin.Seconds()))]++
	}
	of := func(b int64) int { return votes[b] + votes[b+1] }
	// Of offsets that as many agree on, the least one is right, and not one that the order of a map
	// chooses.
	best := slices.MaxFunc(slices.Collect(maps.Keys(votes)), func(a, b int64) int {
		return cmp.Or(cmp.Compare(of(a), of(b)), cmp.Compare(max(b, -b), max(a, -a)), cmp.Compare(a, b))
	})
	middle := time.Duration(best+1) * bin
	guesses = slices.DeleteFunc(guesses, func(g time.Duration) bool { return (g - middle).Abs() > bin })
	slices.Sort(guesses)
	a.n, a.offset = len(guesses), guesses[len(guesses)/2]
	for _, g := range guesses {
		a.spread += (g - a.offset).Abs() / time.Duration(a.n)
	}
	return a
}

// compare matches the requests of both sides.
func (c *comparer) compare() {
	byTime := func(a, b request) int {
		return cmp.Or(a.time.Compare(b.time), cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	}
	slices.SortFunc(c.own, byTime)
	slices.SortFunc(c.site, byTime)
	c.setClock()
	c.match(false)
	c.match(true)
	for i := range c.own {
		o := &c.own[i]
		due := c.due(o)
		inTime := c.hosts[o.host] && due.After(c.from.Add(inexact)) && due.Before(c.to.Add(-inexact))
		if o.met || inTime {
			c.Evidence++
		}
		if !o.met && inTime && o.status != 0 {
			c.Unseen.add(o, nil)
		}
	}
	c.Requests = len(c.site)
	for i := range c.site {
		s := &c.site[i]
		if at := s.time.Add(-c.Offset); s.met {
			continue
		} else if at.Before(c.first.Add(-inexact)) || at.After(c.last.Add(inexact)) {
			c.Outside.add(nil, s)
		} else {
			c.Missing.add(nil, s)
		}
	}
	c.views()
}

// due returns when the site should have noted a request of the evidence, by its own clock.
func (c *comparer) due(o *request) time.Time {
	t := o.time.Add(c.Offset)
	if c.AtEnd {
		t = t.Add(o.took)
	}
	return t
}

// match finds for each of our requests the site's, in the order of time. With wild it looks at
// those of ours whose query isn't known.
func (c *comparer) match(wild bool) {
	ours := group(c.own, func(o *request) (alike, bool) {
		return alike{key: o.key, query: o.query}, !o.met && wild == (o.query == 0)
	})
	theirs := group(c.site, func(s *request) (alike, bool) {
		k := alike{key: s.key, query: s.query}
		if wild {
			k.query = 0
		}
		return k, !s.met && ours[k] != nil
	})
	for k, is := range ours {
		slices.SortStableFunc(is, func(a, b int) int { return c.due(&c.own[a]).Compare(c.due(&c.own[b])) })
		for js := theirs[k]; len(is) > 0 && len(js) > 0; {
			o, s := &c.own[is[0]], &c.site[js[0]]
			switch d := s.time.Sub(c.due(o)); {
			case d < -inexact:
				js = js[1:]
			case d > inexact:
				is = is[1:]
			default:
				o.met, s.met = true, true
				c.differ(o, s)
				is, js = is[1:], js[1:]
			}
		}
	}
	for _, f := range []*Findings{&c.Unsent, &c.Left, &c.Status, &c.Bytes} {
		slices.SortStableFunc(f.First, func(a, b Finding) int {
			return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
		})
	}
}

// differ compares two records of one request. A size may be smaller at the site, which compresses
// bodies, and a little larger, as nginx counts the framing of a body in chunks.
func (c *comparer) differ(o, s *request) {
	c.Matched++
	switch {
	case o.end == unsent:
		c.Unsent.add(o, s)
	case o.end == left && s.status == 429:
		c.Left.add(o, s)
	case o.status == 0: // no answer came: the site may have noted anything
	case o.status != s.status:
		c.Status.add(o, s)
	case o.bytes >= 0 && s.bytes > o.bytes+o.bytes/64+64 && o.method != "HEAD":
		c.Bytes.add(o, s)
	}
}

// add adds a request of the evidence, of the site, or of both.
func (f *Findings) add(o, s *request) {
	if f.N++; len(f.First) == maxFindings {
		return
	}
	var x Finding
	if o != nil {
		x = Finding{Host: o.host, Method: o.method, Target: o.target, Time: o.time, Record: o.line, Status: o.status, Bytes: max(o.bytes, 0)}
	}
	if s != nil {
		x.Host, x.Method, x.Target, x.Time, x.File, x.Line, x.Address = s.host, s.method, s.target, s.time, s.file, s.line, s.from
		x.SiteStatus, x.SiteBytes = s.status, max(s.bytes, 0)
	}
	for _, text := range [...]*string{&x.Host, &x.Method, &x.Target, &x.Address} {
		*text = printable.Text(*text)
	}
	f.First = append(f.First, x)
}

// views sums up what the site saw on each of its hosts.
func (c *comparer) views() {
	byHost, own := map[string][]*request{}, map[string][]time.Time{}
	for i := range c.site {
		byHost[c.site[i].host] = append(byHost[c.site[i].host], &c.site[i])
	}
	for _, o := range c.own {
		own[o.host] = append(own[o.host], o.time)
	}
	for host, requests := range byHost {
		v := SiteView{Host: host, Requests: len(requests), First: requests[0].time, Last: requests[len(requests)-1].time}
		var noted, starts, opens, ends []time.Time
		for _, r := range requests {
			start, end := r.time, r.time.Add(r.took)
			if c.AtEnd {
				start, end = start.Add(-max(r.took, 0)), start
			}
			noted, starts = append(noted, r.time), append(starts, start)
			if r.took >= 0 {
				v.InFlight = 1
			}
			// The time noted is up to a second too early, so the first second may not count.
			if from := start.Add(time.Second); r.took >= 0 && from.Before(end) {
				opens, ends = append(opens, from), append(ends, end)
			}
		}
		v.MinGap, v.OwnMinGap = minGap(starts), minGap(own[host])
		slices.SortFunc(opens, time.Time.Compare)
		slices.SortFunc(ends, time.Time.Compare)
		closed := 0
		for i, t := range opens {
			for !ends[closed].After(t) {
				closed++
			}
			v.InFlight = max(v.InFlight, i+1-closed)
		}
		v.BusySecond, v.BusyMinute = busiest(noted, time.Second), busiest(noted, time.Minute)
		c.Hosts = append(c.Hosts, v)
	}
	slices.SortFunc(c.Hosts, func(a, b SiteView) int { return cmp.Compare(a.Host, b.Host) })
}

// busiest returns the most times, which are in order, within a second or minute of the clock.
func busiest(times []time.Time, every time.Duration) (most int) {
	n := 0
	for i, t := range times {
		if i > 0 && !t.Truncate(every).Equal(times[i-1].Truncate(every)) {
			n = 0
		}
		n++
		most = max(most, n)
	}
	return most
}

// minGap returns the least time between two of the given ones, 0 if there are fewer than two.
func minGap(times []time.Time) time.Duration {
	slices.SortFunc(times, time.Time.Compare)
	least := time.Duration(math.MaxInt64)
	for i := 1; i < len(times); i++ {
		least = min(least, times[i].Sub(times[i-1]))
	}
	if len(times) < 2 {
		return 0
	}
	return least
}
