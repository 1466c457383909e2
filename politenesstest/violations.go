package politenesstest

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/internal/printable"
)

// A Kind of [Violation].
type Kind string

// The kinds of violations.
const (
	// Gap means that the request started too soon after the previous start on the host.
	Gap Kind = "gap"
	// Concurrency means that the request started while too many were in flight on the host.
	Concurrency Kind = "concurrency"
	// PerSite means that the request started while too many were in flight over the names and ports
	// of its site.
	PerSite Kind = "site"
	// Block means that the request started before the end of a known Retry-After, or while the host
	// should pause.
	Block Kind = "block"
	// Disallowed means that the request was for a URL that robots.txt disallows.
	Disallowed Kind = "disallowed"
)

// A Violation is one request that broke the [Rules] in one way.
type Violation struct {
	Kind Kind
	// Request is the one that should not have started, or not then.
	Request Request
	// Earlier is the request that it is measured by. For Gap it is the start before on the host.
	// For Concurrency and PerSite it is the longest of those in flight. For Block it is the
	// refusal. For Disallowed it is the fetch of robots.txt, zero if the crawler had never fetched
	// it.
	Earlier Request
	// Want is the time that was asked for, and Got the time that was kept. For Gap it is the time
	// between the two starts, and for Block the time between the refusal and the start. For
	// Concurrency and PerSite it is zero.
	Want, Got time.Duration
	// Reason names the broken rule, for people.
	Reason string
}

// String returns the violation in one line that names both requests. Characters that can't be
// printed are escaped as by %q.
func (v Violation) String() string { return printable.Text(v.text()) }

func (v Violation) text() string {
	switch v.Kind {
	case Gap:
		return fmt.Sprintf("gap: %v started %v after %v: %s", v.Request, v.Got, v.Earlier, v.Reason)
	case Block:
		return fmt.Sprintf("block: %v started %v after the answer to %v: %s", v.Request, v.Got, v.Earlier, v.Reason)
	case Concurrency, PerSite:
		return fmt.Sprintf("concurrency: %v started during %v: %s", v.Request, v.Earlier, v.Reason)
	default:
		if v.Earlier.Seq == 0 {
			return fmt.Sprintf("disallowed: %v: %s; its robots.txt was never asked for", v.Request, v.Reason)
		}
		return fmt.Sprintf("disallowed: %v: %s; its robots.txt was last asked for by %v",
			v.Request, v.Reason, v.Earlier)
	}
}

// Violations returns the impolite requests so far, in the order of their starts:
//
//   - gaps between two starts on a host that are shorter than Rules.Delay or than
//     the crawl-delay and request-rate of robots.txt;
//   - starts while Rules.Concurrency requests were in flight on the host;
//   - starts while Rules.PerSite requests were in flight on its site;
//   - starts after a response from 400 on with Retry-After, before its time was over. Retry-After
//     is in whole seconds. So the refusals of requests in flight together may name ends that differ
//     by less than a second. Such a difference doesn't lengthen a block;
//   - starts within Rules.Rest of a 5xx, 408, 425 or no response. In a row the pause grows in
//     Fibonacci steps, to at most five minutes. After a pause only one start at a time is polite,
//     until a success of another page than robots.txt. If a page fails again, and the page after
//     it is served, only the page that failed is at fault, and no pause is needed;
//   - more than one start at a time after five responses in a row of 401, 402, 403 and 451, until a
//     success. A further such response is a ban. Then nothing may start for 60 s, doubling to 10
//     minutes;
//   - fetches that robots.txt disallows. Fetches of robots.txt itself, and of the targets of its
//     redirects, are exempt from this check, and from no other.
//
// The robots.txt in force is the copy that the crawler has fetched last before the start, for as
// long as Rules.RobotsMaxAge. If the crawler has fetched none, it is the text of the site, unless a
// Handle or Sequence serves robots.txt. By RFC 9309, a 4xx other than 429 allows everything. More
// than five redirects allow everything too. If a crawler doesn't follow the first five, it may
// fetch nothing, because it can't know the rules. If a new robots.txt has a longer crawl-delay,
// this applies from the second start after that fetch.
//
// If two events have the same time, so that their order can't be known, there is no violation. A
// start at the very time of a refusal doesn't count as a start during the block.
func (w *Web) Violations(r Rules) []Violation {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := checker{
		rules:  r,
		web:    w,
		hosts:  make(map[string]*host),
		sites:  make(map[string][]*exchange),
		robots: w.readRobots(),
	}
	for _, x := range w.log {
		c.note(x)
	}
	for _, h := range c.hosts {
		slices.SortFunc(h.refused, func(a, b *exchange) int { return cmp.Compare(a.answered, b.answered) })
	}
	c.rests = c.findRests()
	for _, x := range w.log {
		c.check(x)
	}
	return c.found
}

// A checker walks through the requests in the order of their starts.
type checker struct {
	rules  Rules
	web    *Web
	hosts  map[string]*host
	sites  map[string][]*exchange // what may still be in flight on a site, in the order of the starts
	robots *robotsLog
	rests  map[*exchange]Violation // by the request that broke one
	found  []Violation
}

// A host is the checker's state of a host key.
type host struct {
	last  *exchange   // the start before
	open  []*exchange // may still be in flight, in the order of their starts
	asked []*exchange // exchanges with a Retry-After: refusals, and those that may become one

	refused []*exchange // exchanges whose answer asked to leave the host alone, in the order of the responses
}

// host returns the state of x's host key.
func (c *checker) host(x *exchange) *host {
	key := c.rules.hostKey(x)
	h := c.hosts[key]
	if h == nil {
		h = new(host)
		c.hosts[key] = h
	}
	return h
}

// asks reports whether x's answer asked to be left alone for a time.
func (c *checker) asks(x *exchange) bool {
	isError := x.record.Status >= 400 && c.rules.Refusals == nil
	mayAsk := isError || c.rules.refusal(x.record.Status)
	return mayAsk && x.record.Response.Get("Retry-After") != ""
}

// note adds x to the refusals of its host if its answer asked to be left alone.
func (c *checker) note(x *exchange) {
	if c.asks(x) {
		h := c.host(x)
		h.refused = append(h.refused, x)
	}
}

// adds reports whether x's refusal adds a block: not if one that was set while x
// was in flight lasts as long, but for the fraction of a second that x rounds up.
func (h *host) adds(x *exchange) bool {
	i := sort.Search(len(h.refused), func(i int) bool { return h.refused[i].answered >= x.started })
	for ; i < len(h.refused) && h.refused[i].answered < x.answered; i++ {
		if x.leaveUntil().Before(h.refused[i].leaveUntil().Add(time.Second)) {
			return false
		}
	}
	return true
}

// leaveUntil is the time until which x's answer asked to be left alone.
func (x *exchange) leaveUntil() time.Time { return x.record.Answered.Add(retryAfter(x.record)) }

func (c *checker) check(x *exchange) {
	h := c.host(x)
	if !c.rules.IgnoreRobots {
		c.checkDisallowed(x)
	}
	c.checkGap(h, x)
	c.checkConcurrency(h, x)
	c.checkPerSite(x)
	c.checkBlock(h, x)

	h.last = x
	if c.asks(x) && h.adds(x) {
		h.asked = append(h.asked, x)
	}
}

func (c *checker) report(v Violation, x, earlier *exchange) {
	v.Request = x.snapshot()
	if earlier != nil {
		v.Earlier = earlier.snapshot()
	}
	c.found = append(c.found, v)
}

func (c *checker) checkGap(h *host, x *exchange) {
	if h.last == nil {
		return
	}
	want := c.rules.Delay
	by := ""
	if !c.rules.IgnoreRobots {
		floor := c.floor(h.last, x)
		if floor > want {
			want = floor
			by = " by " + x.origin + robotsPath
		}
	}
	reason := fmt.Sprintf("at least %v apart%s", want, by)
	got := x.record.Start.Sub(h.last.record.Start)
	if got+c.rules.Slack < want {
		c.report(Violation{Kind: Gap, Want: want, Got: got, Reason: reason}, x, h.last)
	}
}

// floor is the gap that robots.txt asked for between the starts of two requests.
// While it changes, the shorter one: the turn may have been booked before.
func (c *checker) floor(before, x *exchange) time.Duration {
	agent := c.agent(x)
	now := c.robots.inForce(x, c.rules)
	if now.fetch == nil && c.robots.fetches[x] {
		return 0 // it is just being asked for
	}
	floor := now.floor(agent, x.record.Start)
	then := c.robots.inForceAt(x.origin, before, c.rules)
	if then.fetch != nil {
		floor = min(floor, then.floor(agent, before.record.Start))
	}
	return floor
}

func (c *checker) checkConcurrency(h *host, x *exchange) {
	if c.rules.Concurrency <= 0 {
		return
	}
	open := inFlight(h.open, x)
	if len(open) >= c.rules.Concurrency {
		c.report(Violation{
			Kind:   Concurrency,
			Reason: fmt.Sprintf("%d in flight already, at most %d allowed", len(open), c.rules.Concurrency),
		}, x, open[0])
	}
	h.open = append(open, x)
}

func (c *checker) checkPerSite(x *exchange) {
	if c.rules.PerSite <= 0 {
		return
	}
	site := siteOf(x.url)
	open := inFlight(c.sites[site], x)
	if len(open) >= c.rules.PerSite {
		c.report(Violation{
			Kind:   PerSite,
			Reason: fmt.Sprintf("%d in flight on %s already, at most %d allowed", len(open), site, c.rules.PerSite),
		}, x, open[0])
	}
	c.sites[site] = append(open, x)
}

// inFlight returns those of open that are still in flight when x starts, in open's memory.
func inFlight(open []*exchange, x *exchange) []*exchange {
	left := open[:0]
	for _, o := range open {
		if o.ended == 0 || o.ended > x.started {
			left = append(left, o)
		}
	}
	return left
}

// checkBlock reports a start into the block that lasts longest of those known.
func (c *checker) checkBlock(h *host, x *exchange) {
	var refusal *exchange
	var until time.Time
	left := h.asked[:0]
	for _, o := range h.asked {
		end := o.leaveUntil().Add(-c.rules.Slack)
		if !x.record.Start.Before(end) {
			continue // over, for all later starts too
		}
		left = append(left, o)
		if x.record.Start.After(o.record.Answered) && end.After(until) {
			refusal = o
			until = end
		}
	}
	h.asked = left
	if refusal == nil {
		if v, ok := c.rests[x]; ok {
			c.found = append(c.found, v)
		}
		return
	}
	c.report(Violation{
		Kind: Block,
		Want: retryAfter(refusal.record),
		Got:  x.record.Start.Sub(refusal.record.Answered),
		Reason: fmt.Sprintf("%d with Retry-After: %s", refusal.record.Status,
			refusal.record.Response.Get("Retry-After")),
	}, x, refusal)
}

// retryAfter is how long r's answer asks to be left alone (RFC 9110, section 10.2.3): seconds, a
// Unix time, or a date that is read by the response's own clock. Of a list the longest counts.
// Forms that no RFC has are read as docs/429.md has them.
func retryAfter(r Request) time.Duration {
	now, err := http.ParseTime(r.Response.Get("Date"))
	if err != nil {
		now = r.Answered
	}
	field := strings.TrimSpace(r.Response.Get("Retry-After"))
	if until, ok := parseDate(field); ok {
		return max(until.Sub(now), 0)
	}
	longest := time.Duration(0)
	for value := range strings.SplitSeq(field, ",") {
		longest = max(longest, parseWait(strings.TrimSpace(value), now))
	}
	return longest
}

// parseWait reads a number, as of seconds or of a Unix time, or one with units.
func parseWait(value string, now time.Time) time.Duration {
	const most = 1 << 31 // seconds; before multiplying
	n, err := strconv.ParseFloat(value, 64)
	switch {
	case strings.Trim(value, "0123456789.") != "":
		return parseUnits(value)
	case err != nil && !math.IsInf(n, 1):
		return 0
	case n >= 1e12 && n < 1e15: // milliseconds
		n = n/1000 - float64(now.Unix())
	case n >= 1e9 && n < 1e12:
		n -= float64(now.Unix())
	}
	return time.Duration(math.Ceil(min(max(n, 0), most))) * time.Second
}

// words are the words for units of time, and those of package time for them.
var words = strings.NewReplacer(" ", "", "pt", "", "milliseconds", "ms", "seconds", "s", "second", "s", "secs", "s",
	"sec", "s", "minutes", "m", "minute", "m", "mins", "m", "min", "m", "hours", "h", "hour", "h")

// parseUnits reads a length such as "60s", "5 minutes", "PT1M30S" and "00:01:30", rounded up to
// seconds.
func parseUnits(value string) time.Duration {
	if strings.Count(value, ":") == 2 {
		value = strings.Replace(value, ":", "h", 1)
		value = strings.Replace(value, ":", "m", 1) + "s"
	}
	d, err := time.ParseDuration(words.Replace(strings.ToLower(value)))
	if err != nil || d < 0 {
		return 0
	}
	return (d + time.Second - 1).Truncate(time.Second)
}

// dateLayouts are the forms of dates beside those of RFC 9110.
var dateLayouts = []string{
	time.RFC1123Z, "Mon, 02 Jan 2006 15:04:05", "Mon Jan 02 2006 15:04:05 GMT-0700",
	time.RFC3339, "2006-01-02T15:04:05", time.DateTime, "2006-01-02 15:04:05Z07:00",
}

// zoneNames are the zones of RFC 5322 that package time doesn't know by name.
var zoneNames = strings.NewReplacer(" UTC", " +0000", " GMT", " +0000", " EST", " -0500", " EDT", " -0400",
	" CST", " -0600", " CDT", " -0500", " MST", " -0700", " MDT", " -0600", " PST", " -0800", " PDT", " -0700")

func parseDate(value string) (time.Time, bool) {
	value, _, _ = strings.Cut(value, " (")
	at, err := http.ParseTime(value)
	if err == nil {
		return at, true
	}
	for _, layout := range dateLayouts {
		for _, text := range []string{value, zoneNames.Replace(value)} {
			at, err = time.Parse(layout, text)
			if err == nil {
				return at, true
			}
		}
	}
	return time.Time{}, false
}

func (c *checker) checkDisallowed(x *exchange) {
	if c.robots.fetches[x] {
		return
	}
	now := c.robots.inForce(x, c.rules)
	if now.denied {
		c.report(Violation{Kind: Disallowed, Reason: now.reason}, x, now.fetch)
		return
	}
	verdict := now.rules(c.agent(x)).Test(x.url.RequestURI())
	if !verdict.Allowed {
		reason := fmt.Sprintf("%q in line %d of %s%s, for %s",
			verdict.Rule, verdict.Line, x.origin, robotsPath, verdict.Group)
		c.report(Violation{Kind: Disallowed, Reason: reason}, x, now.fetch)
	}
}

// agent is the name that x's robots.txt is read for.
func (c *checker) agent(x *exchange) string {
	if c.rules.Agent != "" {
		return c.rules.Agent
	}
	return x.record.Header.Get("User-Agent")
}
