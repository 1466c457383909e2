package queuetest

import (
	"slices"

	"github.com/go-politeness/politeness/crawl"
)

// postponer returns q as the crawl.Postponer that it was before.
func (c *check) postponer(q crawl.Queue) crawl.Postponer {
	p, ok := q.(crawl.Postponer)
	if !ok {
		c.failf("the Queue was a crawl.Postponer, and isn't when it is opened again")
	}
	return p
}

// mark is any of a crawl's: each of 32 bits may be set.
const mark = 4_000_000_001

// levels returns requests for a.example that are postponed to 2, 0, 1, 0, 3, 2, and so on.
func levels(n int) []crawl.Request {
	reqs := numbered("a.example", n)
	for i, later := range []int{2, 0, 1, 0, 3, 2}[:n] {
		reqs[i].Later = later
		if later > 0 {
			reqs[i].Mark = mark + uint32(later) //nolint:gosec // 1 to 3
		}
	}
	return reqs
}

// wantsWhole fails unless got are the requests of want, with Later and Mark, in their order.
func (c *check) wantsWhole(what string, got []crawl.Request, want ...crawl.Request) {
	c.wants(what, got, want...)
	for i := range want {
		if got[i].Later != want[i].Later || got[i].Mark != want[i].Mark {
			c.failf("%s: Take returned %s with Later %d and Mark %d, want %d and %d",
				what, got[i].URL, got[i].Later, got[i].Mark, want[i].Later, want[i].Mark)
		}
	}
}

func (c *check) takeLater(q crawl.Queue, least, n int) []crawl.Request {
	reqs, err := c.postponer(q).TakeLater(c.ctx, "a.example", least, n)
	c.must(err)
	return reqs
}

func (c *check) lift(q crawl.Queue, host string, mark uint32, later int) {
	for range 100 {
		more, err := c.postponer(q).Lift(c.ctx, host, mark, later)
		c.must(err)
		if !more {
			return
		}
	}
	c.failf("Lift reports for ever that there are more requests of %s with Mark %d", host, mark)
}

func postpones(c *check) {
	a := levels(6)
	high := url("a.example", 10)
	high.Priority = 1
	high.Later = 3
	marked := url("a.example", 11)
	marked.Mark = 2 // without being postponed
	q := c.fresh(append(a, high, marked)...)
	c.wantsWhole("the highest Priority first", c.take(q, 1, "a.example"), high)
	c.wantsWhole("then the lowest Later, and of one Later the longest waiting first",
		c.take(q, 10, "a.example"), a[1], a[3], marked, a[2], a[0], a[5], a[4])
}

func takesLater(c *check) {
	a := levels(6)
	q := c.fresh(a...)
	c.wantsWhole("the first with Later 1 or more", c.takeLater(q, 1, 1), a[2])
	c.wantsWhole("two with Later 2 or more", c.takeLater(q, 2, 2), a[0], a[5])
	c.wantsWhole("one with Later 3 is left", c.takeLater(q, 1, 5), a[4])
	c.wantsWhole("none is left", c.takeLater(q, 1, 5))
	c.wantsWhole("others wait", c.take(q, 5, "a.example"), a[1], a[3])
	c.done(q, crawl.Visited, a...)
}

func leftPostpones(c *check) {
	a := numbered("a.example", 4)
	q := c.fresh(a...)
	lent := c.take(q, 3, "a.example")
	c.wants("three of four", lent, a[:3]...)
	for i := range 2 {
		lent[i].Later = 2
		lent[i].Mark = mark
	}
	c.done(q, crawl.Left, lent[1])
	c.done(q, crawl.Left, lent[0])
	c.wantsWhole("those that are postponed now wait behind, the longest waiting first",
		c.take(q, 10, "a.example"), a[3], lent[0], lent[1])
	lent[1].Later = 1
	c.done(q, crawl.Left, lent[0], lent[1])
	c.claim(q, 100)
	c.wantsWhole("again", c.take(q, 10, "a.example"), lent[1], lent[0])
}

func lifts(c *check) {
	a := levels(6)
	other := url("b.example", 0)
	other.Later = 2
	other.Mark = a[0].Mark
	q := c.fresh(append(a, other)...)
	c.lift(q, "a.example", a[0].Mark, 1)
	c.lift(q, "a.example", a[2].Mark, 2) // which is further back than it stands
	c.lift(q, "a.example", 12345, 0)     // of no request
	c.lift(q, "c.example", a[4].Mark, 0) // of another host
	a[0].Later = 1
	a[5].Later = 1
	c.wantsWhole("those with the mark come forward, in the order of their waiting",
		c.take(q, 10, "a.example"), a[1], a[3], a[0], a[2], a[5], a[4])
	c.wantsWhole("those of another host stay", c.take(q, 10, "b.example"), other)
	c.done(q, crawl.Left, a[0], a[4])
	c.claim(q, 100)
	c.lift(q, "a.example", a[4].Mark, 0)
	a[4].Later = 0
	c.wantsWhole("one that was lent comes forward", c.take(q, 10, "a.example"), a[4], a[0])
}

func countsPostponed(c *check) {
	a := levels(6)
	b := url("b.example", 0)
	b.Later = 1
	q := c.fresh(append(a, b)...)
	all := c.wantsGroups(q, 10, map[int]int{2: 1, 1: 3})
	if all != 5 {
		c.failf("5 requests are postponed; Postponed returned %d", all)
	}
	c.wantsGroups(q, 1, map[int]int{2: 1})
	c.done(q, crawl.Visited, c.takeLater(q, 1, 10)...)
	c.wantsGroups(q, 10, map[int]int{1: 1})
}

// wantsGroups fails unless Postponed returns groups such as want has: the number of those of a
// size.
func (c *check) wantsGroups(q crawl.Queue, n int, want map[int]int) (all int) {
	groups, all, err := c.postponer(q).Postponed(c.ctx, n)
	c.must(err)
	sizes := make(map[int]int)
	for i, g := range groups {
		sizes[g.Number]++
		if i > 0 && g.Number > groups[i-1].Number {
			c.failf("Postponed returned %+v, want the largest first", groups)
		}
		isOne := slices.ContainsFunc(append(levels(6), url("b.example", 0)), func(r crawl.Request) bool {
			return r.URL == g.URL && r.Host == g.Host && (r.Mark == g.Mark)
		})
		if !isOne {
			c.failf("Postponed returned %+v, which is no request's", g)
		}
	}
	for size, number := range want {
		if sizes[size] != number {
			c.failf("Postponed of %d returned %+v, want %d of %d requests", n, groups, number, size)
		}
	}
	if len(groups) > n {
		c.failf("Postponed of at most %d returned %d groups", n, len(groups))
	}
	return all
}

func postponesOverKill(c *check) {
	a := levels(6)
	q := c.fresh(a...)
	lent := c.take(q, 2, "a.example")
	lent[0].Later = 3
	lent[0].Mark = mark
	c.done(q, crawl.Left, lent[0])
	c.lift(q, "a.example", a[0].Mark, 1)
	q = c.open()
	got := sorted(c.all(q, len(a)))
	a[0].Later = 1
	a[1] = lent[0]
	a[5].Later = 1
	c.wantsWhole("after a kill", got, a...)
}
