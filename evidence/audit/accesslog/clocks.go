package accesslog

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// A sample is one request that both sides may have, and so a guess at how far the site's clock is
// ahead.
type sample struct {
	at    time.Time // by our clock
	ahead time.Duration
}

// clocks tell how far the site's clock is ahead at each time of ours.
type clocks struct {
	nodes  []sample // in the order of time; none: the clocks agree
	usual  time.Duration
	spread time.Duration // mean distance of the samples from the nodes
}

const (
	// fewPairs is how many requests to one URL, of each side, are paired with each other.
	fewPairs = 1000
	// allPairs is how many pairs there are at most.
	allPairs = 1 << 20
	// bin is how finely guesses are counted.
	bin = 2 * time.Second
	// median is how many samples the drift of a clock is followed by.
	median = 15
	// strayed is how many samples that agree with the next one show that a clock was set.
	strayed = 14
)

// pairs returns guesses from requests that look alike, each URL asked for once on both sides if
// there are some of those; whether that is so; and, at the same index, what our side's request
// took.
func (c *comparer) pairs() (all []sample, took []time.Duration, unique bool) {
	type alike struct {
		key, query uint64
		status     int
	}
	own, site := map[alike][]int{}, map[alike][]int{}
	for i, r := range c.own.requests {
		k := alike{r.key, r.query, r.status}
		own[k] = append(own[k], i)
	}
	for i, r := range c.site {
		k := alike{r.key, r.query, r.status}
		if own[k] != nil {
			site[k] = append(site[k], i)
		}
	}
	add := func(i, j int) {
		r := &c.own.requests[i]
		all = append(all, sample{r.time, c.site[j].time.Sub(r.time)})
		took = append(took, r.took)
	}
	for k, theirs := range site {
		if ours := own[k]; len(ours) == 1 && len(theirs) == 1 {
			add(ours[0], theirs[0])
		}
	}
	if len(all) >= 8 {
		return all, took, true
	}
	all, took = nil, nil
	for k, theirs := range site {
		for _, i := range own[k][:min(len(own[k]), fewPairs)] {
			for _, j := range theirs[:min(len(theirs), fewPairs)] {
				if len(all) == allPairs {
					return all, took, false
				}
				add(i, j)
			}
		}
	}
	return all, took, false
}

// setClocks finds out how far the site's clock is ahead, and whether it notes the starts or the
// ends of requests: those are the ones that agree better.
func (c *comparer) setClocks() clocks {
	starts, took, unique := c.pairs()
	ends := slices.Clone(starts)
	for i := range ends {
		ends[i].at = ends[i].at.Add(took[i])
		ends[i].ahead -= took[i]
	}
	byStart, byEnd := follow(starts, unique), follow(ends, unique)
	if len(byEnd.nodes) >= len(byStart.nodes) && byEnd.spread < byStart.spread*9/10 {
		c.result.AtEnd = true
		return byEnd
	}
	return byStart
}

// follow finds the guesses that are right: most agree on one offset for some time, and the offset
// drifts from there.
func follow(samples []sample, unique bool) clocks {
	if len(samples) == 0 {
		return clocks{}
	}
	votes := map[int64]int{}
	for _, s := range samples {
		votes[int64(math.Floor(s.ahead.Seconds()/bin.Seconds()))]++
	}
	agreeing := func(b int64) int { return votes[b] + votes[b+1] }
	// Of offsets that as many agree on, the least one is right, and not one that the order of a map
	// chooses.
	best := slices.MaxFunc(slices.Collect(maps.Keys(votes)), func(a, b int64) int {
		return cmp.Or(cmp.Compare(agreeing(a), agreeing(b)), cmp.Compare(max(b, -b), max(a, -a)), cmp.Compare(a, b))
	})
	usual := time.Duration(best+1) * bin

	slices.SortFunc(samples, func(a, b sample) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.ahead, b.ahead)) })
	var agree []int
	var agreed []time.Duration
	for i, s := range samples {
		if (s.ahead - usual).Abs() <= bin {
			agree, agreed = append(agree, i), append(agreed, s.ahead)
		}
	}
	slices.Sort(agreed)
	// Requests to a URL that is asked for again and again may be paired with their neighbours.
	near := bin
	if unique {
		near = inexact
	}
	c := clocks{usual: agreed[len(agreed)/2]}
	middle := agree[len(agree)/2]
	walk := func(from, to, step int) {
		var recent []time.Duration
		var strays []sample // the last that agree with each other, and not with ahead
		ahead := samples[middle].ahead
		for i := from; i != to; i += step {
			s := samples[i]
			if (s.ahead - ahead).Abs() > near {
				if len(strays) > 0 && (strays[0].ahead-s.ahead).Abs() > bin {
					strays = nil
				}
				if !unique || len(strays) < strayed {
					strays = append(strays, s)
					continue
				}
				recent = nil // so many agree: a clock was set
				c.nodes = append(c.nodes, strays...)
			}
			strays = nil
			if len(recent) == median {
				recent = slices.Delete(recent, 0, 1)
			}
			recent = append(recent, s.ahead)
			sorted := slices.Sorted(slices.Values(recent))
			ahead = sorted[len(sorted)/2]
			c.spread += (s.ahead - ahead).Abs()
			c.nodes = append(c.nodes, sample{s.at, ahead})
		}
	}
	walk(middle, -1, -1)
	slices.Reverse(c.nodes)
	walk(middle+1, len(samples), 1)
	c.spread /= time.Duration(len(c.nodes))
	return c
}

// ahead returns how far the site's clock is ahead at t of ours, as the sample before t has it and
// as the one after.
func (c *clocks) ahead(t time.Time) (before, after time.Duration) {
	if len(c.nodes) == 0 {
		return 0, 0
	}
	i, _ := slices.BinarySearchFunc(c.nodes, t, func(s sample, t time.Time) int { return s.at.Compare(t) })
	return c.nodes[max(i-1, 0)].ahead, c.nodes[min(i, len(c.nodes)-1)].ahead
}

// compare matches the requests of both sides.
func (c *comparer) compare() *Comparison {
	byTime := func(a, b request) int { return cmp.Or(a.time.Compare(b.time), cmp.Compare(a.line, b.line)) }
	slices.SortFunc(c.own.requests, byTime)
	slices.SortFunc(c.site, byTime)
	clock := c.setClocks()
	r := &c.result
	r.Offset = clock.usual
	if n := len(clock.nodes); n > 0 {
		r.Drift = clock.nodes[n-1].ahead - clock.nodes[0].ahead
	}

	// By the site's clock: when it should have noted each of our requests. Where its clock was set,
	// either of two times may be right.
	due, due2 := make([]time.Time, len(c.own.requests)), make([]time.Time, len(c.own.requests))
	for i, o := range c.own.requests {
		t := o.time
		if r.AtEnd {
			t = t.Add(o.took)
		}
		before, after := clock.ahead(t)
		due[i], due2[i] = t.Add(before), t.Add(after)
	}
	for _, wild := range [...]bool{false, true} {
		c.match(due, wild)
		c.match(due2, wild)
	}

	for i := range c.own.requests {
		o := &c.own.requests[i]
		inTime := c.hosts[o.host] && due[i].After(c.from.Add(inexact)) && due[i].Before(c.to.Add(-inexact))
		if o.met || inTime {
			r.Evidence++
		}
		if !o.met && inTime && o.status != 0 {
			r.Unseen.add(Finding{
				Host: o.host, Method: o.method, Target: o.target, Time: o.time, Record: o.line, Status: o.status, Bytes: o.bytes,
			})
		}
	}
	r.Requests = len(c.site)
	for i := range c.site {
		s := &c.site[i]
		if s.met {
			c.differ(&c.own.requests[s.other], s)
			continue
		}
		f := Finding{
			Host: s.host, Method: s.method, Target: s.target, Time: s.time, Line: s.line, Address: s.from, SiteStatus: s.status, SiteBytes: s.bytes,
		}
		ahead, _ := clock.ahead(s.time.Add(-clock.usual))
		if at := s.time.Add(-ahead); at.Before(c.own.first.Add(-inexact)) || at.After(c.own.last.Add(inexact)) {
			r.Outside.add(f)
		} else {
			r.Missing.add(f)
		}
	}
	c.views()
	return r
}

// match finds for each of our requests the site's, in the order of time. With wild it looks at
// those of ours whose query isn't known.
func (c *comparer) match(due []time.Time, wild bool) {
	type alike struct{ key, query uint64 }
	ours := map[alike][]int{}
	for i, o := range c.own.requests {
		if !o.met && wild == (o.query == 0) {
			k := alike{o.key, o.query}
			ours[k] = append(ours[k], i)
		}
	}
	theirs := map[alike][]int{}
	for j, s := range c.site {
		k := alike{s.key, s.query}
		if wild {
			k.query = 0
		}
		if !s.met && ours[k] != nil {
			theirs[k] = append(theirs[k], j)
		}
	}
	for k, is := range ours {
		slices.SortStableFunc(is, func(a, b int) int { return due[a].Compare(due[b]) })
		js := theirs[k]
		for len(is) > 0 && len(js) > 0 {
			switch d := c.site[js[0]].time.Sub(due[is[0]]); {
			case d < -inexact:
				js = js[1:]
			case d > inexact:
				is = is[1:]
			default:
				c.own.requests[is[0]].met = true
				c.site[js[0]].met, c.site[js[0]].other = true, is[0]
				is, js = is[1:], js[1:]
			}
		}
	}
}

// differ compares two records of one request.
func (c *comparer) differ(o, s *request) {
	r := &c.result
	r.Matched++
	f := Finding{
		Host: s.host, Method: s.method, Target: s.target, Time: s.time, Line: s.line, Record: o.line, Address: s.from,
		Status: o.status, SiteStatus: s.status, Bytes: max(o.bytes, 0), SiteBytes: s.bytes,
	}
	switch {
	case o.status == 0: // no answer came: the site may have noted anything
	case o.status != s.status:
		r.Status.add(f)
	case o.bytes >= 0 && o.bytes != s.bytes && o.method != "HEAD":
		r.Bytes.add(f)
	}
}

// views sums up what the site saw on each of its hosts.
func (c *comparer) views() {
	byHost := map[string][]*request{}
	for i := range c.site {
		byHost[c.site[i].host] = append(byHost[c.site[i].host], &c.site[i])
	}
	own := map[string][]time.Time{}
	for _, o := range c.own.requests {
		own[o.host] = append(own[o.host], o.time)
	}
	for host, requests := range byHost {
		v := SiteView{Host: host, Requests: len(requests), First: requests[0].time, Last: requests[len(requests)-1].time}
		var starts []time.Time
		type change struct {
			at time.Time
			by int
		}
		var changes []change
		seconds, minutes := busy{every: time.Second}, busy{every: time.Minute}
		for _, r := range requests {
			seconds.add(r.time)
			minutes.add(r.time)
			start := r.time
			if r.took >= 0 {
				// The time noted is up to a second too early, so the first second may not count.
				end := start.Add(r.took)
				if c.result.AtEnd {
					start, end = start.Add(-r.took), start
				}
				v.InFlight = max(v.InFlight, 1)
				if from := start.Add(time.Second); from.Before(end) {
					changes = append(changes, change{from, 1}, change{end, -1})
				}
			}
			starts = append(starts, start)
		}
		v.BusySecond, v.BusyMinute = seconds.most, minutes.most
		v.MinGap, v.OwnMinGap = minGap(starts), minGap(own[host])
		slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
		n := 0
		for _, x := range changes {
			n += x.by
			v.InFlight = max(v.InFlight, n)
		}
		c.result.Hosts = append(c.result.Hosts, v)
	}
	slices.SortFunc(c.result.Hosts, func(a, b SiteView) int { return cmp.Compare(a.Host, b.Host) })
}

// A busy counts how many times fall into one second, or minute, of the clock.
type busy struct {
	every   time.Duration
	at      time.Time
	n, most int
}

func (r *busy) add(t time.Time) {
	if t = t.Truncate(r.every); !t.Equal(r.at) {
		r.at, r.n = t, 0
	}
	r.n++
	r.most = max(r.most, r.n)
}

// minGap returns the least time between two of the given ones, 0 if there are fewer than two.
func minGap(times []time.Time) time.Duration {
	if len(times) < 2 {
		return 0
	}
	slices.SortFunc(times, time.Time.Compare)
	least := times[1].Sub(times[0])
	for i, t := range times[1:] {
		least = min(least, t.Sub(times[i]))
	}
	return least
}
