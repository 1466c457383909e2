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

// lease is longer than the time after which a Queue takes a silent process for dead.
const lease = 15 * time.Second

// wantOwner fails unless a.example is owner's by Owns, and not the other's.
func (c *check) wantOwner(owner, other crawl.Owner) {
	mine := owner.Owns("a.example")
	theirs := other.Owns("a.example")
	if !mine || theirs {
		c.failf("a process has a.example; Owns returns %v for it, and %v for another one", mine, theirs)
	}
}

func oneProcess(c *check) {
	one := c.owner()
	two := c.owner()
	a := numbered("a.example", 40)
	c.add(one, len(a), a...)
	hosts := c.claim(one, 10)
	if !slices.Equal(hosts, []string{"a.example"}) {
		c.failf("Hosts returned %q", hosts)
	}
	lent := c.take(one, 16, "a.example")
	c.wants("the first process", lent, a[:16]...)
	for end := time.Now().Add(lease); time.Now().Before(end); c.rest() { // the first one lives
		c.claim(one, 10)
		c.wantHosts(two, 10, 0, "a live process has a.example, and another one asks")
		c.wants("of a host of a live process", c.take(two, 16, "a.example"))
		c.wantOwner(one, two)
	}
	c.done(one, crawl.Visited, lent...)
	c.add(two, 0, a...)
	c.add(two, 1, url("a.example", 99)) // anyone may add
}

func givesBack(c *check) {
	one := c.owner()
	two := c.owner()
	a := numbered("a.example", 4)
	c.add(one, 4, a...)
	c.claim(one, 10)
	c.wants("the first process", c.take(one, 3, "a.example"), a[:3]...)
	c.done(one, crawl.Visited, a[0])
	c.done(one, crawl.Left, a[1])
	c.wants("before the first process has done all", c.take(two, 10, "a.example"))
	c.done(one, crawl.Visited, a[2]) // the last one that was lent
	c.until("a host of which nothing is lent goes to the process that asks for it", func() bool {
		return len(c.claim(two, 10)) > 0
	})
	c.wants("the second process", c.take(two, 10, "a.example"), a[1], a[3])
	c.wantOwner(two, one)
}

func staysOpen(c *check) {
	one := c.owner()
	two := c.owner()
	c.add(one, 1, url("a.example", 0))
	c.claim(one, 10)
	lent := c.take(one, 1, "a.example")
	if !c.isOpen(two) {
		c.failf("a process has a request, and of the other one Hosts says that the Queue isn't open")
	}
	c.add(one, 1, url("b.example", 0)) // as links of that page
	c.done(one, crawl.Visited, lent...)
	c.until("the other process has what was found", func() bool {
		return slices.Contains(c.claim(two, 10), "b.example")
	})
	c.done(two, crawl.Visited, c.take(two, 1, "b.example")...)
	c.until("the Queue is closed for both once all is done", func() bool {
		return !c.isOpen(one) && !c.isOpen(two)
	})
}

func countsOthers(c *check) {
	one := c.owner()
	two := c.owner()
	c.add(one, 2, numbered("a.example", 2)...)
	c.claim(one, 10)
	c.take(one, 1, "a.example")
	forOne := c.isOpen(one)
	forTwo := c.isOpen(two)
	if forOne || !forTwo {
		c.failf("one process has all requests; Hosts returns open %v for it, and %v for another one", forOne, forTwo)
	}
}

func fences(c *check) {
	one := c.owner()
	two := c.owner()
	reqs := numbered("a.example", 6)
	c.add(one, 6, reqs...)
	c.claim(one, 10)
	c.wants("the first process", c.take(one, 3, "a.example"), reqs[:3]...)
	// The first process is paused: it calls nothing.
	c.until("the host of a process that shows no sign of life is free", func() bool {
		return len(c.claim(two, 10)) > 0
	})
	if one.Owns("a.example") {
		c.failf("another process has the host, and Owns of the one that was paused says true")
	}
	c.wants("the second process", c.take(two, 4, "a.example"), reqs[:4]...)
	// The first one continues.
	c.wants("of a host that was lost", c.take(one, 10, "a.example"))
	c.done(one, crawl.Left, reqs[1], reqs[2]) // must not make them wait: the second one has them
	c.done(one, crawl.Visited, reqs[0])       // it was in flight
	c.alive(500*time.Millisecond, one, two)
	c.wantOwner(two, one)
	c.wants("what the second process hasn't had", c.take(two, 10, "a.example"), reqs[4:]...)
	c.done(two, crawl.Left, reqs[1])
	c.done(two, crawl.Visited, reqs[0], reqs[2], reqs[3], reqs[4], reqs[5])
	got := c.untilLent("what the second process has left goes to another one", one, two, c.owner())
	c.wants("what is left at last", got, reqs[1])
}

// untilLent lets processes claim and take, until they have something, and returns that.
func (c *check) untilLent(what string, processes ...crawl.Owner) []crawl.Request {
	for end := time.Now().Add(patience); time.Now().Before(end); c.rest() {
		var got []crawl.Request
		for _, q := range processes {
			for _, host := range c.claim(q, 10) {
				got = append(got, c.take(q, 10, host)...)
			}
		}
		if len(got) > 0 {
			return got
		}
	}
	c.failf("%s: not within %v", what, patience)
	return nil
}

func shares(c *check) {
	one := c.owner()
	const hosts = 12
	for i := range hosts {
		c.add(one, 10, numbered(string(rune('a'+i))+".example", 10)...)
	}
	held := holding{one: {}}
	held.turn(c, one)
	if len(held[one]) != hosts {
		c.failf("a process that is alone has %d of %d hosts", len(held[one]), hosts)
	}
	processes := []crawl.Owner{one, c.owner(), c.owner()}
	held[processes[1]] = map[string][]crawl.Request{}
	held[processes[2]] = map[string][]crawl.Request{}
	c.until("three processes have a third of the hosts each", func() bool {
		total := 0
		fair := true
		for _, q := range processes {
			held.turn(c, q)
			total += len(held[q])
		}
		if total > hosts {
			c.failf("%d hosts are with %d processes", hosts, total)
		}
		for _, q := range processes {
			fair = fair && len(held[q]) == hosts/3
		}
		return fair
	})
}

// A holding has the requests that each process holds, by host.
type holding map[crawl.Owner]map[string][]crawl.Request

// turn does what a crawl does in a second: it claims hosts, gives back those that it has lost, and
// holds two requests of each host or, at the end of a host, those that are left.
func (h holding) turn(c *check, q crawl.Owner) {
	held := h[q]
	for _, host := range c.claim(q, 1000) {
		held[host] = nil
	}
	for host, reqs := range held {
		if len(reqs) > 0 && !q.Owns(host) {
			c.done(q, crawl.Left, reqs...)
			delete(held, host)
			continue
		}
		if len(reqs) < 2 {
			held[host] = append(reqs, c.take(q, 2, host)...)
		}
		if len(held[host]) == 0 {
			delete(held, host)
		}
	}
}

func killedWhileShared(c *check) {
	one := c.owner()
	two := c.owner()
	reqs := numbered("a.example", 5)
	c.add(one, 5, reqs...)
	c.claim(one, 10)
	c.take(one, 2, "a.example")
	c.done(one, crawl.Visited, reqs[0])
	// The first process is killed: it calls nothing any more.
	got := c.untilLent("what a killed process had is lent again", two)
	c.wants("what a killed process had, and what waited", got, reqs[1:]...)
}

func sharesDue(c *check) {
	one := c.owner()
	two := c.owner()
	a := numbered("a.example", 3)
	c.add(one, 3, a...)
	c.claim(one, 10)
	c.take(one, 3, "a.example")
	soon := in(2)
	c.again(one, a[0], soon)
	c.again(one, a[1], soon)
	c.done(one, crawl.Visited, a[2])
	for time.Now().Before(soon) {
		c.alive(100*time.Millisecond, one, two)
	}
	c.until("a process has the host when it is due again", func() bool { return len(c.claim(two, 10)) > 0 })
	lent := c.take(two, 1, "a.example")
	c.wants("the process that asked first", lent, a[0])
	c.wantHosts(one, 10, 0, "another process has a.example, which is due again")
	c.wants("of another process's host", c.take(one, 10, "a.example"))
	// The second process is killed.
	got := c.untilLent("what came due at a killed process is lent again", one)
	c.wants("what came due at a killed process", sorted(got), a[:2]...)
}
