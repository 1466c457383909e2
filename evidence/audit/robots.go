package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/robots"
)

// An origin is what the log says of one robots.txt, the newest first. A request goes on with the
// last copy while a new one is fetched.
type origin struct {
	copies []*robotsCopy
}

// A copyKind says what a robotsCopy decides.
type copyKind uint8

const (
	asText   copyKind = iota // its text decides
	noCopy                   // a text that the log doesn't hold
	denying                  // it can't be had, and nothing may be fetched
	allowing                 // it can't be had, and everything may be fetched
)

// A robotsCopy is what holds from one record on, compiled for the last reader that asked.
type robotsCopy struct {
	kind   copyKind
	text   []byte
	sum    string        // SHA-256 of the text, hex
	at     place         // line that it stands in
	from   int64         // when it was fetched or confirmed last
	until  int64         // when it is asked for again; 0: the log doesn't say
	reader reader        // whom rules are for
	rules  *robots.Rules // nil: for nobody yet
}

// A reader is a crawler as robots.txt knows it.
type reader struct {
	agent   string
	options robots.Options // how loosely a group may name it
}

const (
	// maxCopies is how many copies of one robots.txt are kept.
	maxCopies = 8
	// maxAge is how long a robots.txt holds without being asked for again (RFC 9309, section 2.4).
	maxAge = 24 * 3600 * slack
)

// put makes c the newest copy.
func (o *origin) put(c *robotsCopy) {
	o.copies = append([]*robotsCopy{c}, o.copies[:min(len(o.copies), maxCopies-1)]...)
}

// find returns the copy with the given SHA-256, nil if there is none.
func (o *origin) find(hash string) *robotsCopy {
	for _, c := range o.copies {
		if c.kind == asText && strings.EqualFold(c.sum, hash) {
			return c
		}
	}
	return nil
}

// inForce returns the copies that a verdict at the given time may have been decided by.
func (o *origin) inForce(at int64) []*robotsCopy {
	for i, c := range o.copies {
		if at >= c.from+slack {
			return o.copies[:i+1]
		}
	}
	return o.copies
}

// An unheard is a verdict before which no record tells of its robots.txt, though each is recorded.
type unheard struct {
	origin, host string
	at           place
}

// endRobots reports, at the end of a log, the verdicts by a robots.txt that it never tells of: the
// record of one may be made a little after the verdict.
func (a *auditor) endRobots(t *transport) {
	for _, v := range t.unheard {
		if t.origins[v.origin] == nil {
			a.violation(BrokenVerdict, v.host, "a verdict by no robots.txt, where each is recorded: "+v.origin, v.at)
		}
	}
	t.unheard = nil
}

// decidedBy returns the copies that may have decided d: that which it names, if that was in force
// then.
func (o *origin) decidedBy(d *evidence.Decision) []*robotsCopy {
	copies := o.inForce(stamp(d.Time))
	if i := slices.IndexFunc(copies, func(c *robotsCopy) bool { return d.Copy != "" && strings.HasPrefix(c.sum, d.Copy) }); i >= 0 {
		return copies[i : i+1]
	}
	return copies
}

// robotsFetched takes a new copy of a robots.txt.
func (a *auditor) robotsFetched(d *evidence.Decision) {
	sum := sha256.Sum256([]byte(d.Text))
	c := &robotsCopy{at: a.at, from: stamp(d.Time), text: []byte(d.Text), sum: hex.EncodeToString(sum[:])}
	if d.Restored && !d.Start.IsZero() {
		c.from = min(c.from, stamp(d.Start))
	}
	if ttl := d.TTL; ttl > 0 {
		if a.by.policy != nil && d.Type != evidence.RobotsUnreachable {
			ttl = min(ttl, a.by.policy.RobotsTTL)
		}
		c.until = c.from + int64(ttl)
	}
	if d.Text != "" && d.SHA256 != "" && (d.Bytes == 0 || d.Bytes == int64(len(d.Text))) && !strings.EqualFold(c.sum, d.SHA256) {
		a.contradiction("the text of robots.txt doesn't have its SHA-256")
	}
	a.robotsAnswered(d)
	name, _ := splitURL(d.URL)
	o := a.by.origins[name]
	if o == nil {
		o = &origin{}
		a.by.origins[strings.Clone(name)] = o
	}
	p := a.by.policy
	switch {
	case d.Type == evidence.RobotsRevalidated || d.Type == evidence.RobotsUnreachable && d.SHA256 != "":
		if p != nil && d.Type == evidence.RobotsUnreachable && !p.ServeStale {
			a.contradiction("an old copy of robots.txt is used, which the policy doesn't let")
		}
		if old := o.find(d.SHA256); old != nil {
			again := *old
			again.from, again.until = c.from, c.until
			c = &again
		} else {
			c.kind = noCopy
		}
	case d.Type == evidence.RobotsUnreachable:
		c.kind = noCopy // without a policy
		switch {
		case p == nil:
		case p.Unreachable == "allow":
			c.kind = allowing
		default:
			c.kind = denying
			if d.Allowed {
				a.contradiction("robots.txt can't be had and nothing may be fetched, by the policy, but the record lets it")
			}
		}
	case d.Text == "" && !allowsAll(d):
		c.kind = noCopy
	}
	o.put(c)
}

// robotsFetches are the answers to fetches of robots.txt of one Transport.
type robotsFetches struct {
	answers  map[redirect]robotsAnswer // by trip and URL, until a copy came of them
	latest   map[uint64]uint64         // trip that asked last, by URL
	hops     map[uint64]bool           // where redirects lead
	anywhere bool                      // whether one leads to where the log doesn't say
}

// A robotsAnswer is how a fetch of robots.txt ended.
type robotsAnswer struct {
	status int
	end    int64
}

// fetched takes the end d of a fetch.
func (r *robotsFetches) fetched(d *evidence.Decision) {
	u := keyOfURL(d.URL)
	r.answers[redirect{d.Trip, u}] = robotsAnswer{d.Status, stamp(d.Time)}
	r.latest[u] = d.Trip
}

// take returns the answer of a trip, 0 for the last one, to a fetch of a URL. No other copy can
// come of it then.
func (r *robotsFetches) take(trip uint64, u string) (robotsAnswer, bool) {
	key := redirect{trip, keyOfURL(u)}
	if trip == 0 {
		key.trip = r.latest[key.url]
	}
	answer, ok := r.answers[key]
	delete(r.answers, key)
	delete(r.latest, key.url)
	return answer, ok
}

// robotsAnswered proves that a copy of robots.txt came of an exchange.
func (a *auditor) robotsAnswered(d *evidence.Decision) {
	if a.by.policy == nil {
		return
	}
	copied := d.URL + " " + cmp.Or(d.SHA256, fmt.Sprint(d.Status))
	if d.Restored && d.Type != evidence.RobotsUnreachable {
		if at, ok := a.proved[copied]; !ok || at < stamp(d.Start)-slack {
			a.openEnded(verdictsRight, "a robots.txt that an earlier process fetched, whose log isn't here")
		}
		return
	}
	trip := d.Trip
	redirected := d.Hops > 0 && d.Location != ""
	if redirected { // the trip is that of the last hop
		trip = 0
	}
	last, ok := a.by.robots.take(trip, d.URL)
	if redirected {
		switch {
		case !ok || last.status/100 != 3:
			a.contradiction("a robots.txt by a redirect, where the origin gave none")
			return
		case !isWhole(d.Location):
			a.openEnded(verdictsRight, "a robots.txt by a redirect whose URL isn't whole")
			return
		}
		last, ok = a.by.robots.take(d.Trip, d.Location)
	}
	switch {
	case ok && last.status == d.Status && stamp(d.Time) >= last.end-slack:
		a.proved[strings.Clone(copied)] = stamp(d.Time)
	case d.Status == 0 && d.Type == evidence.RobotsUnreachable:
		if a.by.policy.Unreachable == "allow" && !ok {
			a.openEnded(verdictsRight, "a robots.txt that couldn't be asked for")
		}
	case !ok:
		a.violation(BrokenVerdict, d.Host, string(d.Type)+" without the exchange that it came of", a.at)
	default:
		a.violation(BrokenVerdict, d.Host, fmt.Sprintf("%s of status %d, where the exchange gave %d", d.Type, d.Status, last.status), a.at)
	}
}

// emptySum is the SHA-256 of an empty robots.txt.
var emptySum = hex.EncodeToString(sha256.New().Sum(nil))

// allowsAll reports whether the robots.txt allows everything, being empty or missing (RFC 9309,
// section 2.3.1.3).
func allowsAll(d *evidence.Decision) bool {
	return strings.EqualFold(d.SHA256, emptySum) || d.Status >= 300 && d.Status < 500 && d.Status != 429
}

// decided takes a verdict about a URL.
func (a *auditor) decided(d *evidence.Decision) {
	v := trip{at: a.at, time: stamp(d.Time), allowed: d.Type == evidence.RobotsAllowed && d.Allowed, floor: int64(d.CrawlDelay), asker: askerOf(d)}
	if d.Type != evidence.BlockedByRule {
		var floor time.Duration
		v.derived, floor = a.decideAgain(d)
		v.floor = max(v.floor, int64(floor))
	}
	a.trips.put(a.by, d, v)
	if !v.allowed {
		a.trips.leave(a.by, d)
		a.host(d).report.Disallowed++
	}
}

// whyOpen says why an allowed start isn't proved to be allowed.
func (a *auditor) whyOpen() string {
	if p := a.by.policy; p != nil && p.Robots == "ignored" {
		return "robots.txt is ignored, by the policy"
	}
	return "the verdict can't be decided again"
}

// allowed checks that the verdict v, if there is one, allowed the start d.
func (a *auditor) allowed(d *evidence.Decision, v *trip) {
	switch {
	case v == nil && a.by.policy == nil && !a.trips.some:
		a.report.Proofs.OpenVerdicts++
		a.openEnded(allowedByRobots, "the log holds no verdict")
		return
	case v == nil:
		a.violation(BrokenRobots, d.Host, "fetch of a URL without a verdict: "+d.URL, a.at)
	case !v.allowed:
		a.violation(BrokenRobots, d.Host, "fetch of a URL that was refused: "+d.URL, v.at, a.at)
	default:
		if !v.derived {
			a.openEnded(allowedByRobots, a.whyOpen())
		}
		if v.asker != askerOf(d) {
			a.contradiction("a verdict and its start "+disagree, v.at)
		}
		if delay := int64(max(d.Delay, d.CrawlDelay)); tooShort(delay, v.floor) {
			a.contradiction(fmt.Sprintf("started with a delay of %v under a crawl-delay of %v", time.Duration(delay), time.Duration(v.floor)), v.at)
		}
		if late := v.time - stamp(d.Start); !d.Start.IsZero() && late > slack {
			a.contradiction(fmt.Sprintf("allowed %v after the start", time.Duration(late)), v.at)
		}
	}
	a.report.Proofs.Verdicts++
}

// decideAgain compares a verdict with what robots.txt, as logged, says. It reports whether the log
// gives the same verdict, and the crawl-delay that goes with it.
func (a *auditor) decideAgain(d *evidence.Decision) (derived bool, floor time.Duration) {
	open := func(why string) (bool, time.Duration) {
		a.report.Proofs.OpenRobots++
		a.openEnded(verdictsRight, why)
		return false, 0
	}
	p := a.by.policy
	if p != nil && p.Robots == "ignored" {
		return open("robots.txt is ignored, by the policy")
	}
	name, target := splitURL(d.URL)
	o := a.by.origins[name]
	if o == nil {
		if p != nil && p.RobotsText && isWhole(d.URL) {
			if u, err := url.Parse("//" + name[strings.Index(name, "//")+2:]); err == nil && u.Host != "" && !strings.Contains(d.URL, "%") {
				a.by.unheard = append(a.by.unheard, unheard{name, strings.Clone(d.Host), a.at})
			}
		}
		return open(noText)
	}
	now := stamp(d.Time)
	var options robots.Options
	if p != nil {
		options.LenientAgents, options.AgentPatterns = p.Lenient, p.Patterns
	}
	detail, at := "", place{}
	for _, c := range o.decidedBy(d) {
		why := ""
		switch c.kind {
		case noCopy:
			return open(noText)
		case allowing:
			if d.Allowed {
				return open("robots.txt couldn't be had, and the policy lets everything then")
			}
			why = "robots.txt can't be had, and everything is allowed"
		case denying:
			if d.Allowed {
				why = "robots.txt can't be had, and nothing is allowed"
			}
		default:
			why = c.refute(d, target, options)
			if why == "" && p != nil {
				floor = c.rules.Floor(d.Time)
			}
		}
		from, unsure := uncertain(d.URL, target)
		if why == "" { // and it is a text, if it allows the URL
			if d.Allowed && unsure && c.mayDecideBeyond("dis", from) {
				return open("a URL that isn't whole in the log")
			}
			if c.kind == asText && p != nil && now-c.from > maxAge+slack {
				return open("a robots.txt that is older than a day")
			}
			wait := slack // while a request waits to ask for robots.txt again, the others go on by the copy that is out of date
			if p != nil {
				wait += int64(p.MaxWait)
			}
			if d.Allowed && c.until != 0 && now-c.until > wait+a.run.jumpedSince(c.from) {
				return open("a robots.txt that was used for longer than the policy says (the server's Cache-Control isn't in the log)")
			}
			a.report.Proofs.Robots++
			return true, floor
		}
		if detail == "" {
			detail, at = why, c.at
		}
		if p == nil && d.Group != "*" && d.Group != "" && !strings.EqualFold(d.Group, d.Agent) {
			return open("a group of another name, which only a lenient crawler obeys")
		}
		if c.kind == asText && unsure && (!d.Allowed || c.mayDecideBeyond("allow", from)) {
			return open("a URL that isn't whole in the log")
		}
	}
	a.report.Proofs.Robots++
	a.violation(BrokenVerdict, d.Host, detail, at, a.at)
	return false, 0
}

const noText = "the log doesn't hold the text of robots.txt (robotscache.Config.RecordText)"

// uncertain reports whether the target may have been another than the log says, and from where on:
// a value that Redact replaced, an end that was clipped, or userinfo in a URL within the URL.
func uncertain(u, target string) (from int, unsure bool) {
	from = len(target)
	for _, mark := range [...]string{evidence.Redacted, "://"} {
		if before, _, found := strings.Cut(target, mark); found {
			from, unsure = min(from, len(before)), true
		}
	}
	if strings.HasSuffix(u, evidence.Clipped) {
		from, unsure = max(0, min(from, len(target)-len(evidence.Clipped))), true
	}
	return from, unsure
}

// mayDecideBeyond reports whether a rule of that kind might decide what a target was, if it was
// another from the given index on: one that says something of what comes there.
func (c *robotsCopy) mayDecideBeyond(kind string, cut int) bool {
	for line := range bytes.Lines(bytes.ReplaceAll(c.text, []byte("\r"), []byte("\n"))) {
		line, _, _ = bytes.Cut(line, []byte("#"))
		key, pattern, _ := bytes.Cut(line, []byte(":"))
		if !bytes.HasPrefix(bytes.ToLower(bytes.TrimSpace(key)), []byte(kind)) {
			continue
		}
		if pattern = bytes.TrimSpace(pattern); len(pattern) > cut || bytes.ContainsAny(pattern, "*$%") {
			return true
		}
	}
	return false
}

// refute returns how c decides otherwise than d says; "" where it decides the same.
func (c *robotsCopy) refute(d *evidence.Decision, target string, options robots.Options) string {
	if as := (reader{d.Agent, options}); c.rules == nil || c.reader != as {
		c.reader = as
		c.rules = robots.ParseWith(c.text, options).Agent(d.Agent)
	}
	v := c.rules.Test(target)
	rule := cmp.Or(v.Rule, "no rule")
	switch {
	case v.Allowed && !d.Allowed:
		return fmt.Sprintf("robots.txt allows %s (%s)", target, rule)
	case !v.Allowed && d.Allowed:
		return fmt.Sprintf("robots.txt refuses %s (%s)", target, rule)
	case d.Line != 0 && v.Line != d.Line:
		return fmt.Sprintf("robots.txt decides %s on line %d, not %d", target, v.Line, d.Line)
	}
	return ""
}

// isWhole reports whether u is the URL that was asked for: Redact has cut nothing out of it, and it
// was short enough for its record.
func isWhole(u string) bool {
	return !strings.Contains(u, evidence.Redacted) && !strings.HasSuffix(u, evidence.Clipped)
}
