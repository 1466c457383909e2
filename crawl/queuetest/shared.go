package queuetest

import (
	"slices"
	"time"

	"github.com/go-politeness/politeness/crawl"
)

// owner opens the Queue for one more process.
func (c *check) owner() crawl.Owner {
	q, ok := c.open().(crawl.Owner)
	if !ok {
		c.failf("the Queue was a crawl.Owner, and isn't when it is opened again")
	}
	return q
}

// isOpen returns what Hosts says of the Queue.
func (c *check) isOpen(q crawl.Queue) bool {
	_, open, err := q.Hosts(c.ctx, 10)
	c.must(err)
	return open
}

// rest waits before the next look.
func (c *check) rest() {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-c.ctx.Done():
		c.failf("the test has ended: %v", c.ctx.Err())
	}
}

// alive waits for d, while the processes show that they are alive as crawls do: once a second, or
// more often.
func (c *check) alive(d time.Duration, processes ...crawl.Owner) {
	for end := time.Now().Add(d); time.Now().Before(end); c.rest() {
		for _, p := range processes {
			c.claim(p, 0)
		}
	}
}

// until calls f, with a while between, until it returns true, or fails.
func (c *check) until(what string, f func() bool) {
	for end := time.Now().Add(patience); !f(); c.rest() {
		if time.Now().After(end) {
			c.failf("%s: not within %v", what, patience)
		}
	}
}

// lease is longer than a process that calls Hosts each second is thought dead after.
const lease = 15 * time.Second

func oneProcess(c *check) {
	one, two := c.owner(), c.owner()
	a := numbered("a.example", 40)
	c.add(one, len(a), a...)
	if hosts := c.claim(one, 10); !slices.Equal(hosts, []string{"a.example"}) {
		c.failf("Hosts returned %q", hosts)
	}
	lent := c.take(one, 16, "a.example")
	c.wants("the first process", lent, a[:16]...)
	for end := time.Now().Add(lease); time.Now().Before(end); c.rest() { // the first one lives
		c.claim(one, 10)
		if hosts := c.claim(two, 10); len(hosts) > 0 {
			c.failf("a live process has a.example, and another one's Hosts returns %q", hosts)
		}
		c.wants("of a host of a live process", c.take(two, 16, "a.example"))
		if !one.Owns("a.example") || two.Owns("a.example") {
			c.failf("the first process has a.example; Owns says %v, and of the second %v", one.Owns("a.example"), two.Owns("a.example"))
		}
	}
	c.done(one, crawl.Visited, lent...)
	c.add(two, 0, a...)
	c.add(two, 1, url("a.example", 99)) // anyone may add
}

func givesBack(c *check) {
	one, two := c.owner(), c.owner()
	a := numbered("a.example", 4)
	c.add(one, 4, a...)
	c.claim(one, 10)
	c.wants("the first process", c.take(one, 3, "a.example"), a[:3]...)
	c.done(one, crawl.Visited, a[0])
	c.done(one, crawl.Left, a[1])
	c.wants("before the first process has done all", c.take(two, 10, "a.example"))
	c.done(one, crawl.Visited, a[2]) // the last one that was lent
	c.until("a host of which nothing is lent goes to the process that asks for it", func() bool { return len(c.claim(two, 10)) > 0 })
	c.wants("the second process", c.take(two, 10, "a.example"), a[1], a[3])
	if one.Owns("a.example") || !two.Owns("a.example") {
		c.failf("the second process has a.example; Owns says %v, and of the first %v", two.Owns("a.example"), one.Owns("a.example"))
	}
}

func staysOpen(c *check) {
	one, two := c.owner(), c.owner()
	c.add(one, 1, url("a.example", 0))
	c.claim(one, 10)
	lent := c.take(one, 1, "a.example")
	if !c.isOpen(two) {
		c.failf("a process has a request, and of the other one Hosts says that the Queue isn't open")
	}
	c.add(one, 1, url("b.example", 0)) // as links of that page
	c.done(one, crawl.Visited, lent...)
	c.until("the other process has what was found", func() bool { return slices.Contains(c.claim(two, 10), "b.example") })
	c.done(two, crawl.Visited, c.take(two, 1, "b.example")...)
	c.until("the Queue is closed for both once all is done", func() bool { return !c.isOpen(one) && !c.isOpen(two) })
}

func countsOthers(c *check) {
	one, two := c.owner(), c.owner()
	c.add(one, 2, numbered("a.example", 2)...)
	c.claim(one, 10)
	c.take(one, 1, "a.example")
	if c.isOpen(one) || !c.isOpen(two) {
		c.failf("one process has all requests; of it Hosts says open: %v, of another one %v", c.isOpen(one), c.isOpen(two))
	}
}

func fences(c *check) {
	one, two := c.owner(), c.owner()
	a := numbered("a.example", 6)
	c.add(one, 6, a...)
	c.claim(one, 10)
	c.wants("the first process", c.take(one, 3, "a.example"), a[:3]...)
	// The first process is paused: it calls nothing.
	c.until("the host of a process that shows no sign of life is free", func() bool { return len(c.claim(two, 10)) > 0 })
	if one.Owns("a.example") {
		c.failf("another process has the host, and Owns of the one that was paused says true")
	}
	c.wants("the second process", c.take(two, 4, "a.example"), a[:4]...)
	// The first one goes on.
	c.wants("of a host that was lost", c.take(one, 10, "a.example"))
	c.done(one, crawl.Left, a[1], a[2]) // must not make them wait: the second one has them
	c.done(one, crawl.Visited, a[0])    // it was in flight
	c.alive(500*time.Millisecond, one, two)
	if one.Owns("a.example") || !two.Owns("a.example") {
		c.failf("the second process has the host; Owns says %v, and of the first, which was paused, %v", two.Owns("a.example"), one.Owns("a.example"))
	}
	c.wants("what the second process hasn't had", c.take(two, 10, "a.example"), a[4:]...)
	c.done(two, crawl.Left, a[1])
	c.done(two, crawl.Visited, a[0], a[2], a[3], a[4], a[5])
	three := c.owner()
	got := []crawl.Request{}
	c.until("what the second process has left goes to another one", func() bool {
		for _, q := range []crawl.Owner{one, two, three} {
			for _, host := range c.claim(q, 10) {
				got = append(got, c.take(q, 10, host)...)
			}
		}
		return len(got) > 0
	})
	c.wants("what is left at last", got, a[1])
}

func shares(c *check) {
	one := c.owner()
	const hosts = 12
	for i := range hosts {
		c.add(one, 10, numbered(string(rune('a'+i))+".example", 10)...)
	}
	held := map[crawl.Owner]map[string][]crawl.Request{one: {}}
	turn := func(q crawl.Owner) { // what a crawl does in a second
		for _, host := range c.claim(q, 1000) {
			held[q][host] = nil
		}
		for host, reqs := range held[q] {
			if len(reqs) > 0 && !q.Owns(host) {
				c.done(q, crawl.Left, reqs...)
				delete(held[q], host)
				continue
			}
			if len(reqs) < 2 {
				held[q][host] = append(reqs, c.take(q, 2, host)...)
			}
			if len(held[q][host]) == 0 {
				delete(held[q], host)
			}
		}
	}
	turn(one)
	if len(held[one]) != hosts {
		c.failf("a process that is alone has %d of %d hosts", len(held[one]), hosts)
	}
	two, three := c.owner(), c.owner()
	held[two], held[three] = map[string][]crawl.Request{}, map[string][]crawl.Request{}
	c.until("three processes have a third of the hosts each", func() bool {
		total := 0
		for _, q := range []crawl.Owner{one, two, three} {
			turn(q)
			total += len(held[q])
		}
		if total > hosts {
			c.failf("%d hosts are with %d processes", hosts, total)
		}
		return len(held[one]) == hosts/3 && len(held[two]) == hosts/3 && len(held[three]) == hosts/3
	})
}

func killedWhileShared(c *check) {
	one, two := c.owner(), c.owner()
	a := numbered("a.example", 5)
	c.add(one, 5, a...)
	c.claim(one, 10)
	c.take(one, 2, "a.example")
	c.done(one, crawl.Visited, a[0])
	// The first process is killed: it calls nothing any more.
	var got []crawl.Request
	c.until("what a killed process had is lent again", func() bool {
		for _, host := range c.claim(two, 10) {
			got = append(got, c.take(two, 10, host)...)
		}
		return len(got) > 0
	})
	c.wants("what a killed process had, and what waited", got, a[1:]...)
}
