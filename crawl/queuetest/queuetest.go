// Package queuetest tests implementations of crawl.Queue. It tests the promises that a crawl relies
// on. No URL is lost or lent twice, even by a kill, and a host belongs to one process at a time.
//
//	func TestQueue(t *testing.T) {
//		queuetest.Run(t, func(t *testing.T) crawl.Queue {
//			q, err := myqueue.Open(filepath.Join(t.TempDir(), "urls"))
//			...
//			return q
//		})
//	}
package queuetest

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/crawl"
)

var (
	many = flag.Int("queuetest.urls", 0,
		"number of `URLs` of queuetest's large test; 0: 10,000, and 1,000 with -short")
	memory = flag.Int("queuetest.mb", 0, "most `MB` of memory of a process in that test; 0: not tested")
)

// Run tests the Queue that open opens, in a subtest for each promise. A subtest calls open several
// times, with its own t. The first call returns an empty Queue. Each further call opens the same
// Queue again, with its URLs, as another process would. If your Queue can be open in one process
// only, let the second call of open end the first Queue, as a kill would. The subtest doesn't use
// the first Queue after that.
//
// A Queue that implements [crawl.Postponer] is tested as one, too. One that implements
// [crawl.Recurring] is tested with URLs that are due again, for which a subtest waits some seconds.
// One that implements [crawl.Owner] is tested as one of several processes, too. A subtest then
// waits for its leases to end, which may take a minute each.
func Run(t *testing.T, open func(t *testing.T) crawl.Queue) {
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) {
			c := &check{
				ctx:  t.Context(),
				open: func() crawl.Queue { return open(t) },
				urls: howMany(),
				logf: t.Logf,
			}
			problem := c.run(p)
			if problem != "" {
				t.Error(problem)
			}
		})
	}
}

// howMany returns the number of URLs of the large test.
func howMany() int {
	switch {
	case *many != 0:
		return *many
	case testing.Short():
		return 1_000
	}
	return 10_000
}

// A promise of a Queue.
type promise struct {
	name   string
	why    string // what happens to a crawl if it isn't kept
	shared bool   // only a crawl.Owner makes it
	test   func(c *check)

	postpones bool // only a crawl.Postponer makes it
	recurring bool // only a crawl.Recurring makes it
}

var promises = []promise{
	{name: "Add takes in what is new", why: "pages are fetched twice, or lost", test: addsNew},
	{name: "Take keeps the order", why: "pages of a high priority wait for others", test: inOrder},
	{
		name: "Take keeps what a request is",
		why:  "redirects and links are followed without end",
		test: keepsFields,
	},
	{name: "Take lends once", why: "pages are fetched twice", test: lendsOnce},
	{name: "Done ends", why: "pages are fetched again", test: ends},
	{name: "Left waits again", why: "pages are lost", test: leftWaits},
	{
		name: "Hosts lists what can be taken",
		why:  "hosts are left out, or the crawl asks for them in vain",
		test: listsHosts,
	},
	{name: "An empty Queue is closed", why: "the crawl never ends", test: closes},
	{name: "A kill loses nothing", why: "pages are lost", test: survivesKill},
	{
		name: "A kill keeps what a request is",
		why:  "a program's data is lost, or of another URL",
		test: keepsFieldsOverKill,
	},
	{name: "Postponed requests come later", why: traps, test: postpones, postpones: true},
	{name: "TakeLater takes what is postponed", why: starve, test: takesLater, postpones: true},
	{name: "Left may postpone", why: traps, test: leftPostpones, postpones: true},
	{name: "Lift brings forward", why: starve, test: lifts, postpones: true},
	{name: "Postponed counts", why: "nobody sees what is postponed", test: countsPostponed, postpones: true},
	{name: "A kill keeps what is postponed", why: traps, test: postponesOverKill, postpones: true},
	{
		name:      "What is due again waits",
		why:       "pages are asked for too early, or never again",
		test:      waitsUntilDue,
		recurring: true,
	},
	{
		name:      "What is due again keeps its State",
		why:       "pages are sent that haven't changed",
		test:      keepsState,
		recurring: true,
	},
	{
		name:      "Next is when something comes due",
		why:       "the crawl waits for nothing, or ends early",
		test:      saysNext,
		recurring: true,
	},
	{
		name:      "A hint makes due",
		why:       "changes are seen late, or pages are asked for in vain",
		test:      hearsHints,
		recurring: true,
	},
	{
		name:      "What is due for longest goes first",
		why:       "pages are never asked for again",
		test:      ordersByDue,
		recurring: true,
	},
	{name: "Many URLs", why: "the crawl ends for want of memory", test: manyURLs},
	{name: "A host is of one process", why: "pages are fetched twice", shared: true, test: oneProcess},
	{
		name:   "A host that is given back goes to another process",
		why:    "pages are lost",
		shared: true,
		test:   givesBack,
	},
	{
		name:   "A Queue is open while others have URLs",
		why:    "a process ends while there is work",
		shared: true,
		test:   staysOpen,
	},
	{
		name:   "A Queue isn't open for what its own process has",
		why:    "a crawl of dead hosts takes its time",
		shared: true,
		test:   countsOthers,
	},
	{
		name:   "A process that was paused has lost its hosts",
		why:    "pages are fetched twice",
		shared: true,
		test:   fences,
	},
	{name: "Hosts are shared", why: "one process has all the work", shared: true, test: shares},
	{
		name:   "A Queue that is left is given back soon",
		why:    "pages wait",
		shared: true,
		test:   killedWhileShared,
	},
	{
		name:      "What is due again is of one process",
		why:       "pages are asked for twice when they come due",
		shared:    true,
		recurring: true,
		test:      sharesDue,
	},
}

// What happens to a crawl with Config.Traps.
const (
	traps  = "URLs without end go before pages"
	starve = "pages that look like others wait without end"
)

// patience is how long a Queue may take to make waiting what a killed process had.
const patience = time.Minute

// A check is one subtest.
type check struct {
	ctx  context.Context
	open func() crawl.Queue
	urls int // number of those of the large test
	logf func(format string, args ...any)
}

// A failure ends a check.
type failure string

// run returns what is wrong, empty if nothing is.
func (c *check) run(p promise) (problem string) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failure:
			problem = fmt.Sprintf("%s. Where this isn't kept, %s.", string(f), p.why)
		default:
			panic(f)
		}
	}()
	if p.shared {
		if _, ok := c.open().(crawl.Owner); !ok {
			return ""
		}
	}
	if p.recurring {
		if _, ok := c.open().(crawl.Recurring); !ok {
			return ""
		}
	}
	if p.postpones {
		if _, ok := c.open().(crawl.Postponer); !ok {
			return ""
		}
	}
	p.test(c)
	return ""
}

// failf ends the check with a failure.
func (c *check) failf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

// must fails where a method of the Queue has returned an error.
func (c *check) must(err error) {
	if err != nil {
		c.failf("a method returned the error %v", err)
	}
}

// url is the i-th request for host.
func url(host string, i int) crawl.Request {
	return crawl.Request{URL: fmt.Sprintf("https://%s/%d", host, i), Host: host}
}

// numbered returns n requests for host.
func numbered(host string, n int) (reqs []crawl.Request) {
	for i := range n {
		reqs = append(reqs, url(host, i))
	}
	return reqs
}

func (c *check) add(q crawl.Queue, want int, reqs ...crawl.Request) {
	added, noRoom, err := q.Add(c.ctx, reqs)
	c.must(err)
	if added != want || noRoom != 0 {
		c.failf("Add of %d requests, %d of them new, returned %d, without room for %d", len(reqs), want, added, noRoom)
	}
}

// claim calls Hosts, as a crawl does before it takes.
func (c *check) claim(q crawl.Queue, n int) []string {
	hosts, _, err := q.Hosts(c.ctx, n)
	c.must(err)
	return hosts
}

func (c *check) take(q crawl.Queue, n int, hosts ...string) []crawl.Request {
	reqs, err := q.Take(c.ctx, hosts, n)
	c.must(err)
	got := make(map[string]int)
	for _, r := range reqs {
		got[r.Host]++
		if got[r.Host] > n {
			c.failf("Take of at most %d requests of a host returned more of %s", n, r.Host)
		}
		if !slices.Contains(hosts, r.Host) {
			c.failf("Take of %q returned a request of %s", hosts, r.Host)
		}
	}
	return reqs
}

// fresh returns a new Queue with reqs, whose hosts it has claimed.
func (c *check) fresh(reqs ...crawl.Request) crawl.Queue {
	q := c.open()
	c.add(q, len(reqs), reqs...)
	c.claim(q, 100)
	return q
}

func (c *check) done(q crawl.Queue, outcome crawl.Outcome, reqs ...crawl.Request) {
	results := make([]crawl.Result, len(reqs))
	for i, r := range reqs {
		results[i] = crawl.Result{Request: r, Outcome: outcome, Status: 200}
	}
	c.must(q.Done(c.ctx, results))
}

// urls are those of requests.
func urls(reqs []crawl.Request) []string {
	var all []string
	for _, r := range reqs {
		all = append(all, r.URL)
	}
	return all
}

// wants fails unless got are the requests of want, in their order.
func (c *check) wants(what string, got []crawl.Request, want ...crawl.Request) {
	if !slices.Equal(urls(got), urls(want)) {
		c.failf("%s: Take returned %q, want %q", what, urls(got), urls(want))
	}
}

func addsNew(c *check) {
	a := numbered("a.example", 6)
	q := c.fresh(a[:2]...)
	c.add(q, 1, a[0], a[1], a[2])     // known, and waiting
	c.add(q, 1, a[3], a[3])           // twice in a call
	lent := c.take(q, 2, "a.example") // a[0] and a[1]
	c.add(q, 0, lent...)              // known, and lent
	c.done(q, crawl.Visited, lent...) //
	c.add(q, 0, lent...)              // known, and done
	c.add(q, 0)                       // nothing
	c.add(q, 1, url("b.example", 0))  // of another host
	long := crawl.Request{Host: "a.example", URL: "https://a.example/" + strings.Repeat("x", 2000)}
	other := long
	other.URL += "y"
	c.add(q, 2, long, other) // differ in their last byte
	c.claim(q, 100)
	c.wants("after Add of URLs that are known", c.take(q, 10, "a.example"), a[2], a[3], long, other)
	q = c.open()
	c.add(q, 0, lent...)
	c.add(q, 1, a[5])
}

func inOrder(c *check) {
	a := numbered("a.example", 8)
	for i, priority := range []int{0, 5, -3, 0, 5, 1000, 0, -3} {
		a[i].Priority = priority
	}
	q := c.fresh(a[:4]...)
	c.add(q, 4, a[4:]...)
	c.wants("the highest Priority first", c.take(q, 3, "a.example"), a[5], a[1], a[4])
	c.wants("of one Priority the longest waiting first", c.take(q, 3, "a.example"), a[0], a[3], a[6])
	c.wants("negative ones last", c.take(q, 3, "a.example"), a[2], a[7])

	many := append(numbered("b.example", 5), numbered("c.example", 5)...)
	c.add(q, 10, many...)
	c.claim(q, 100)
	got := c.take(q, 2, "unknown.example", "b.example", "c.example")
	slices.SortStableFunc(got, func(x, y crawl.Request) int { return strings.Compare(x.Host, y.Host) })
	c.wants("at most two of each host, also beside a host that isn't known", got, many[0], many[1], many[5], many[6])
}

func keepsFields(c *check) {
	want := crawl.Request{
		URL:      "https://a.example/%E2%82%AC?q='\"&x=a;b--",
		Host:     "a.example",
		From:     "https://c.example/list?page=2",
		Via:      "https://b.example/old",
		Hops:     3,
		Depth:    7,
		Priority: -2,
		Data:     `{"label": "it's a \"test\"\\"}`,
	}
	port := crawl.Request{URL: "http://[::1]:8080/", Host: "[::1]:8080"}
	q := c.fresh(want, port)
	for _, r := range []crawl.Request{want, port} {
		c.takesWhole(q, r)
	}
}

// takesWhole fails unless Take lends want, with all that it is, as the next request of its host.
func (c *check) takesWhole(q crawl.Queue, want crawl.Request) {
	got := c.take(q, 1, want.Host)
	c.wants("one request", got, want)
	kept := got[0]
	kept.Tries = want.Tries // a Queue need not keep them
	if kept.Data != want.Data {
		c.failf("Add of %d bytes of Data, %.100q, and Take returned %d, %.100q",
			len(want.Data), want.Data, len(kept.Data), kept.Data)
	}
	if kept != want {
		c.failf("Add of %+v, and Take returned %+v", want, kept)
	}
}

// keepsFieldsOverKill has a Queue keep Data of any bytes and length, of URLs that wait, and of
// those that were lent, Left, or found again with other Data.
func keepsFieldsOverKill(c *check) {
	a := numbered("a.example", 6)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for i, data := range []string{
		"", "lent", "left", string(every), strings.Repeat("\xff\x00'", crawl.MaxData)[:crawl.MaxData], "né",
	} {
		a[i].Data = data
		a[i].From = fmt.Sprintf("https://a.example/list/%d", i)
		a[i].Depth = i
	}
	q := c.fresh(a...)
	lent := c.take(q, 3, "a.example")
	c.done(q, crawl.Left, lent[2])
	other := a[5]
	other.Data = "of a later page"
	c.add(q, 0, other)
	q = c.open()
	got := sorted(c.all(q, len(a)))
	c.wants("after a kill", got, a...)
	for i := range a {
		if got[i] != a[i] {
			c.failf("Add of %.200q from %s, and Take returned %.200q from %s after a kill",
				a[i].Data, a[i].From, got[i].Data, got[i].From)
		}
	}
}

func lendsOnce(c *check) {
	a := numbered("a.example", 50)
	q := c.fresh(a...)
	var got []crawl.Request
	for range 10 {
		got = append(got, c.take(q, 7, "a.example")...)
	}
	c.wants("all, in sevens", got, a...)
	c.wants("nothing is left", c.take(q, 7, "a.example"))
	c.wants("of a host that isn't known", c.take(q, 7, "unknown.example"))
	c.done(q, crawl.Visited, a[20:30]...) // while others are lent
	c.wants("nothing waits after Done of a part", c.take(q, 7, "a.example"))
}

func ends(c *check) {
	outcomes := []crawl.Outcome{
		crawl.Visited, crawl.VisitFailed, crawl.Redirected, crawl.NotCanonical,
		crawl.Disallowed, crawl.Unreachable, crawl.Refused,
		crawl.OverBudget, crawl.Failed, crawl.Rejected, crawl.EnoughOfHost,
	}
	a := numbered("a.example", len(outcomes))
	q := c.fresh(a...)
	c.take(q, len(a), "a.example")
	for i, o := range outcomes {
		err := q.Done(c.ctx, []crawl.Result{{Request: a[i], Outcome: o, Err: errors.New("a reason"), Status: 500}})
		c.must(err)
	}
	c.claim(q, 100)
	c.wants("after Done", c.take(q, 100, "a.example"))
	c.done(q, crawl.Visited, url("b.example", 1)) // unknown to this Queue: ignored
	q = c.open()
	c.claim(q, 100)
	c.wants("after Done, and opened again", c.take(q, 100, "a.example"))
}

func leftWaits(c *check) {
	a := numbered("a.example", 4)
	a[3].Priority = 1
	q := c.fresh(a...)
	c.wants("all", c.take(q, 4, "a.example"), a[3], a[0], a[1], a[2])
	c.must(q.Done(c.ctx, []crawl.Result{
		{Request: a[0], Outcome: crawl.Visited},
		{Request: a[1], Outcome: crawl.Left},
		{Request: a[3], Outcome: crawl.Left},
	}))
	c.claim(q, 100)
	c.wants("those that were Left", c.take(q, 4, "a.example"), a[3], a[1])
	c.done(q, crawl.Left, a[1:]...)
	c.wants("again", sorted(c.all(q, 3)), a[1:]...)
}

func sorted(reqs []crawl.Request) []crawl.Request {
	slices.SortFunc(reqs, func(a, b crawl.Request) int { return strings.Compare(a.URL, b.URL) })
	return reqs
}

func listsHosts(c *check) {
	q := c.open()
	c.wantHosts(q, 10, 0, "the Queue is empty")
	for i := range 20 {
		c.add(q, 3, numbered(fmt.Sprintf("h%02d.example", i), 3)...)
	}
	c.wantHosts(q, 0, 0, "none are asked for")
	lent := c.takeInThrees(q)
	c.done(q, crawl.Visited, lent[:10]...)
	c.done(q, crawl.Left, lent[10:]...)
	c.wantHosts(q, 100, 20, "all 20 hosts have waiting requests and none is lent")
	for i := range 20 {
		c.done(q, crawl.Visited, c.take(q, 100, fmt.Sprintf("h%02d.example", i))...)
	}
	c.wantHosts(q, 100, 0, "all is done")
}

// wantHosts fails unless Hosts, asked for n, returns that number of hosts.
func (c *check) wantHosts(q crawl.Queue, n, want int, why string) {
	hosts := c.claim(q, n)
	if len(hosts) != want {
		c.failf("%s; Hosts returned %q", why, hosts)
	}
}

// takeInThrees takes one request of each of 20 hosts, which Hosts returns three at a time.
func (c *check) takeInThrees(q crawl.Queue) (lent []crawl.Request) {
	seen := make(map[string]bool)
	for range 20 {
		hosts := c.claim(q, 3)
		if len(hosts) > 3 {
			c.failf("at most 3 hosts: Hosts returned %q", hosts)
		}
		for _, host := range hosts {
			if seen[host] {
				c.failf("Hosts returned %s, of which a request is lent, or twice", host)
			}
			seen[host] = true
			got := c.take(q, 1, host)
			c.wants("of a host that Hosts has returned", got, url(host, 0))
			lent = append(lent, got...)
		}
	}
	if len(seen) != 20 {
		c.failf("three at a time, Hosts returned %d of 20 hosts", len(seen))
	}
	return lent
}

func closes(c *check) {
	q := c.open()
	wantClosed := func(when string) {
		if c.isOpen(q) {
			c.failf("%s, with one process, Hosts says that the Queue is open", when)
		}
	}
	wantClosed("empty")
	c.add(q, 1, url("a.example", 0))
	c.claim(q, 10)
	lent := c.take(q, 1, "a.example")
	c.wants("one request", lent, url("a.example", 0))
	c.done(q, crawl.Visited, lent...)
	wantClosed("all done")
}

// all takes everything that waits. It may take a while until the hosts of a killed process are
// free.
func (c *check) all(q crawl.Queue, n int) (reqs []crawl.Request) {
	began := time.Now()
	for len(reqs) < n && time.Since(began) < patience {
		hosts := c.claim(q, 1000)
		for _, host := range hosts {
			some := c.take(q, 16, host)
			for len(some) > 0 {
				reqs = append(reqs, some...)
				if len(reqs) > n {
					c.failf("of %d requests that wait Take has returned %q", n, urls(reqs))
				}
				some = c.take(q, 16, host)
			}
		}
		if len(hosts) == 0 {
			c.rest()
		}
	}
	return reqs
}

func survivesKill(c *check) {
	a := numbered("a.example", 10)
	b := numbered("b.example", 10)
	q := c.fresh(append(slices.Clone(a), b...)...)
	lent := c.take(q, 5, "a.example", "b.example")
	c.done(q, crawl.Visited, a[0], b[0], b[1])
	c.done(q, crawl.Left, a[1])
	if len(lent) != 10 {
		c.failf("Take of five of two hosts returned %d", len(lent))
	}
	want := slices.Concat(a[1:], b[2:])
	for i := range 3 { // a kill after the other
		q = c.open()
		c.wants(fmt.Sprintf("after kill number %d", i+1), sorted(c.all(q, len(want))), want...)
	}
	c.done(q, crawl.Visited, want...)
	q = c.open()
	c.wantHosts(q, 10, 0, "all is done, and the Queue opened after a kill")
}

// manyURLs adds, takes and ends URLs of a thousand hosts, and looks at the memory of the process.
func manyURLs(c *check) {
	m := &large{check: c, q: c.open()}
	for i := range 1000 {
		m.names = append(m.names, fmt.Sprintf("www.host-%03d.example", i))
	}
	began := time.Now()
	m.add()
	added := time.Since(began)
	began = time.Now()
	taken := m.takeAndEnd()
	took := time.Since(began)
	c.logf("%d URLs added, %.0f a second; %d taken and done, %.0f a second; the process had %d MB at most",
		c.urls, float64(c.urls)/added.Seconds(), taken, float64(taken)/took.Seconds(), m.peak>>20)
	if *memory > 0 && m.peak > uint64(*memory)<<20 {
		c.failf("the process had %d MB with %d URLs, more than %d", m.peak>>20, c.urls, *memory)
	}
}

// A large is a check of many URLs.
type large struct {
	*check
	q     crawl.Queue
	names []string // of the hosts, which the URLs have by turns
	peak  uint64   // most bytes that the process had in memory
}

// add adds all URLs, a tenth of them twice.
func (m *large) add() {
	const batch = 5000
	reqs := make([]crawl.Request, 0, batch)
	for from := 0; from < m.urls; from += batch {
		reqs = reqs[:0]
		for i := from; i < min(m.urls, from+batch); i++ {
			host := m.names[i%len(m.names)]
			reqs = append(reqs, crawl.Request{
				URL:   fmt.Sprintf("https://%s/a/page/of/some/length/%011d.html", host, i),
				Host:  host,
				Depth: i % 7,
			})
		}
		m.check.add(m.q, len(reqs), reqs...)
		m.check.add(m.q, 0, reqs[:len(reqs)/10]...)
		m.peak = max(m.peak, used())
	}
}

// takeAndEnd takes all URLs and ends them, or a part of so many that they would take hours. It
// returns their number.
func (m *large) takeAndEnd() (taken int) {
	began := time.Now()
	for taken < m.urls && time.Since(began) < 2*time.Minute {
		if len(m.claim(m.q, len(m.names))) == 0 {
			m.failf("of %d URLs %d were lent, and Hosts returns none", m.urls, taken)
		}
		for some := range slices.Chunk(m.names, 64) {
			got := m.take(m.q, 16, some...)
			taken += len(got)
			if taken > m.urls {
				m.failf("of %d URLs, %d were lent", m.urls, taken)
			}
			m.end(got)
		}
		m.peak = max(m.peak, used())
	}
	return taken
}

// end ends requests. A Recurring has half of them again, tomorrow.
func (m *large) end(reqs []crawl.Request) {
	if _, ok := m.q.(crawl.Recurring); !ok {
		m.done(m.q, crawl.Visited, reqs...)
		return
	}
	tomorrow := in(24 * 3600)
	results := make([]crawl.Result, len(reqs))
	for i, r := range reqs {
		results[i] = crawl.Result{Request: r, Outcome: crawl.Visited, Status: 200}
		if i%2 == 0 {
			results[i].State = visited(tomorrow, tomorrow)
			results[i].Again = tomorrow
		}
	}
	m.must(m.q.Done(m.ctx, results))
}

// used returns the bytes that the process has in memory: by the kernel where it says so, else by
// the runtime.
func used() uint64 {
	f, err := os.Open("/proc/self/status")
	if err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var kB uint64
			if _, err := fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &kB); err == nil {
				return kB << 10
			}
		}
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Sys
}
