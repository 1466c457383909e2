package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/revisit"
)

// recurring opens the Queue, with reqs, for one that lends again what is due.
func (c *check) recurring(reqs ...crawl.Request) crawl.Recurring {
	return c.asRecurring(c.fresh(reqs...))
}

// asRecurring returns q as a crawl.Recurring, which the Queue was when the check began.
func (c *check) asRecurring(q crawl.Queue) crawl.Recurring {
	r, ok := q.(crawl.Recurring)
	if !ok {
		c.failf("the Queue was a crawl.Recurring, and isn't when it is opened again")
	}
	return r
}

// in returns the time in so many seconds, a whole one: Queues keep no parts.
func in(seconds int) time.Time {
	return time.Now().Truncate(time.Second).Add(time.Duration(seconds) * time.Second)
}

// sleepUntil waits for a time.
func (c *check) sleepUntil(at time.Time) {
	select {
	case <-time.After(time.Until(at)):
	case <-c.ctx.Done():
		c.failf("the test has ended: %v", c.ctx.Err())
	}
}

// again ends a request that is due again.
func (c *check) again(q crawl.Queue, r crawl.Request, at time.Time) {
	c.must(q.Done(c.ctx, []crawl.Result{{Request: r, Outcome: crawl.Visited, Status: 200, Again: at}}))
}

// visited returns the State of a page that was visited an hour ago, may be asked for from earliest
// on, and is due then.
func visited(earliest, due time.Time) string {
	p := revisit.Page{
		ETag:     `"version 1"`,
		Visited:  time.Now().Add(-time.Hour),
		Whole:    time.Now().Add(-time.Hour),
		Changed:  time.Now().Add(-24 * time.Hour),
		Earliest: earliest,
		Due:      due,
	}
	state, _ := p.AppendBinary(nil) // the error is always nil
	return string(state)
}

func waitsUntilDue(c *check) {
	a := numbered("a.example", 3)
	q := c.recurring(a...)
	c.take(q, 3, "a.example")
	c.again(q, a[0], in(3600))
	soon := in(3)
	c.again(q, a[1], soon)
	c.done(q, crawl.Visited, a[2])
	c.wantHosts(q, 10, 0, "all is done, and nothing is due again yet")
	if c.isOpen(q) {
		c.failf("nothing is due yet, and Hosts says that the Queue is open")
	}
	c.wants("before it is due", c.take(q, 10, "a.example"))
	c.add(q, 0, a...)
	c.wants("before it is due, and found again", c.take(q, 10, "a.example"))
	c.sleepUntil(soon)
	c.wantHosts(q, 10, 1, "a URL is due again")
	c.wants("when it is due", c.take(q, 10, "a.example"), a[1])
	c.done(q, crawl.Visited, a[1])
	c.wantHosts(q, 10, 0, "its second visit was the last one")
}

func keepsState(c *check) {
	a := numbered("a.example", 3)
	for i := range a {
		a[i].Data = fmt.Sprintf("label %d", i)
		a[i].From = "https://a.example/list"
		a[i].Depth = i
	}
	q := c.recurring(a...)
	c.take(q, 3, "a.example")
	soon := in(2)
	for i := range a {
		a[i].State = visited(soon, soon) + string([]byte{byte(i), 0, 0xff})
		c.again(q, a[i], soon)
	}
	c.sleepUntil(soon)
	c.claim(q, 10)
	for _, want := range a[:2] {
		c.takesWhole(q, want)
	}
	soon = in(2)
	a[0].State = "another"
	c.again(q, a[0], soon)
	c.sleepUntil(soon)
	r := c.asRecurring(c.open())
	got := sorted(c.all(r, 3))
	c.wants("after a kill", got, a...)
	for i := range a {
		if got[i] != a[i] {
			c.failf("Done with %+v, and Take returned %+v after a kill", a[i], got[i])
		}
	}
	c.done(r, crawl.Left, got[1])
	got = sorted(c.all(c.asRecurring(c.open()), 3))
	c.wants("after a second kill", got, a...)
	if got[1] != a[1] {
		c.failf("Left with %+v, and Take returned %+v", a[1], got[1])
	}
}

func saysNext(c *check) {
	a := append(numbered("a.example", 4), url("b.example", 0))
	q := c.recurring(a...)
	wantNext := func(why string, want time.Time) {
		next, err := q.Next(c.ctx)
		c.must(err)
		if !next.Equal(want) {
			c.failf("%s: Next returned %v, want %v", why, next, want)
		}
	}
	wantNext("what waits is due already", time.Time{})
	c.take(q, 4, "a.example", "b.example")
	wantNext("all is lent", time.Time{})
	c.again(q, a[0], in(7200))
	soon := in(2)
	later := in(3600)
	c.again(q, a[4], soon)
	c.again(q, a[1], later)
	a[2].Priority = 7
	c.again(q, a[2], in(4000))
	c.done(q, crawl.Visited, a[3])
	wantNext("of two hosts", soon)
	c.sleepUntil(soon)
	wantNext("the first one is due", later)
	c.claim(q, 10)
	c.done(q, crawl.Visited, c.take(q, 1, "b.example")...)
	wantNext("the first one is done", later)
}

func hearsHints(c *check) {
	a := numbered("a.example", 5)
	q := c.recurring(a...)
	c.take(q, 5, "a.example")
	past := in(-1800)
	soon := in(3)
	far := in(3600)
	a[0].State = visited(past, far)
	c.again(q, a[0], far)
	a[1].State = visited(soon, far)
	c.again(q, a[1], far)
	a[2].State = visited(past, time.Time{})
	c.again(q, a[2], time.Time{}) // never, but for a hint
	a[3].State = visited(past, far)
	c.again(q, a[3], far)
	c.done(q, crawl.Visited, a[4]) // nothing is remembered of it
	hinted := slices.Clone(a)
	for i := range hinted {
		hinted[i].State = ""
		hinted[i].Modified = time.Now()
	}
	hinted[3].Modified = time.Now().Add(-2 * time.Hour) // before its visit
	c.add(q, 0, hinted...)
	c.wantHosts(q, 10, 1, "a hint was given")
	got := sorted(c.take(q, 10, "a.example"))
	c.wants("what was modified since its visit, and may be asked for", got, a[0], a[2])
	if got[0].State != a[0].State {
		c.failf("a hint has changed the State of a URL")
	}
	c.add(q, 0, hinted...)
	c.wants("hinted again while it is lent", c.take(q, 10, "a.example"))
	for _, r := range []*crawl.Request{&a[0], &a[2]} {
		p := revisit.Page{Visited: time.Now().Add(time.Minute), Earliest: far, Due: far}
		state, _ := p.AppendBinary(nil)
		r.State = string(state)
		c.again(q, *r, far)
	}
	c.add(q, 0, hinted...)
	c.sleepUntil(soon)
	c.claim(q, 10)
	c.wants("a hint that came early; the others count once", c.take(q, 10, "a.example"), a[1])
}

func ordersByDue(c *check) {
	a := numbered("a.example", 5)
	a[3].Priority = 5
	q := c.recurring(a[:4]...)
	c.take(q, 4, "a.example")
	due := in(2)
	c.again(q, a[1], due)
	c.again(q, a[0], due.Add(time.Second))
	c.again(q, a[2], in(3600))
	c.again(q, a[3], due.Add(time.Second))
	c.sleepUntil(due.Add(2 * time.Second))
	c.add(q, 1, a[4])
	c.claim(q, 10)
	want := []crawl.Request{a[3], a[1], a[0], a[4]}
	c.wants("the highest Priority first, then what is due for longest", c.take(q, 2, "a.example"), want[:2]...)
	c.wants("and so on", c.take(q, 10, "a.example"), want[2:]...)
}
