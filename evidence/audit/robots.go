package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/robots"
)

// maxTrips is how many trips under way the auditor remembers the verdicts of.
const maxTrips = 1 << 18

// A tripKey is a trip and a hash of its URL: several Transports may number their trips alike.
type tripKey struct{ trip, url uint64 }

// An attemptKey is one try of a trip.
type attemptKey struct {
	trip    uint64
	attempt int
}

// A verdict is what the log says of whether a trip's URL may be fetched.
type verdict struct {
	at      place
	time    time.Time
	allowed bool
	floor   time.Duration // crawl-delay
	asker   asker
	derived bool // whether robots.txt, as logged, gives it too
}

// maxOthers is how many other Transports may ask for one URL in trips of one number.
const maxOthers = 7

// A tripAudit holds the verdicts on one trip's URL, the newest first: there are several only where
// Transports number their trips alike.
type tripAudit struct {
	verdict
	others  []verdict
	attempt int // last try that started
	retried int // last try that another one is to follow
}

// about returns the verdict that the start d relies on: the newest that the same asker was given,
// otherwise the newest of all.
func (t *tripAudit) about(d *evidence.Decision) *verdict {
	if !t.asker.agrees(d) {
		if i := slices.IndexFunc(t.others, func(v verdict) bool { return v.asker.agrees(d) }); i >= 0 {
			return &t.others[i]
		}
	}
	return &t.verdict
}

// trips holds the verdicts on the last maxTrips trips under way, and on the last that were over, in
// case the records of several are mixed up; and which attempts ended lately.
type trips struct {
	open  *simplelru.LRU[tripKey, tripAudit] // under way
	over  *simplelru.LRU[tripKey, tripAudit] // over lately
	ended *simplelru.LRU[attemptKey, struct{}]
	full  bool // a trip under way was removed from open
	some  bool // there was a verdict
}

// lately is how many trips and attempts that are over are remembered.
const lately = 8192

func newTrips() trips {
	return trips{
		open: lastOf[tripKey, tripAudit](maxTrips), over: lastOf[tripKey, tripAudit](lately),
		ended: lastOf[attemptKey, struct{}](lately),
	}
}

// lastOf returns a list of the n most recently used keys.
func lastOf[K comparable, V any](n int) *simplelru.LRU[K, V] {
	l, _ := simplelru.NewLRU[K, V](n, nil) // an error is for 0 and less
	return l
}

// get returns the audit of a trip.
func (t *trips) get(k tripKey) (tripAudit, bool) {
	if trip, ok := t.open.Peek(k); ok {
		return trip, true
	}
	return t.over.Peek(k)
}

// set stores the audit of a trip, which is under way.
func (t *trips) set(k tripKey, now tripAudit) {
	t.over.Remove(k)
	if t.open.Add(k, now) {
		t.full = true
	}
}

// put notes the newest verdict on a trip.
func (t *trips) put(k tripKey, v verdict) {
	t.some = true
	old, ok := t.get(k)
	now := tripAudit{verdict: v, attempt: old.attempt}
	if ok && (old.asker != v.asker || old.others != nil) {
		now.others = slices.DeleteFunc(append([]verdict{old.verdict}, old.others...), func(o verdict) bool { return o.asker == v.asker })
		now.others = now.others[:min(len(now.others), maxOthers)]
	}
	t.set(k, now)
}

// retry notes that the attempt of d isn't the last one of its trip.
func (t *trips) retry(d *evidence.Decision) {
	k := keyOfTrip(d)
	if now, ok := t.get(k); ok {
		now.retried = max(now.retried, d.Attempt)
		t.set(k, now)
	}
}

// leave notes that the trip of d is over, but if it is to be tried again.
func (t *trips) leave(d *evidence.Decision) {
	k := keyOfTrip(d)
	trip, ok := t.open.Peek(k)
	if !ok || trip.retried >= d.Attempt && d.Attempt > 0 {
		return
	}
	t.open.Remove(k)
	t.over.Add(k, trip)
}

// end remembers that an attempt has ended.
func (t *trips) end(d *evidence.Decision) {
	t.ended.Add(attemptKey{d.Trip, d.Attempt}, struct{}{})
}

// hasEnded reports whether the attempt that d is about has ended lately.
func (t *trips) hasEnded(d *evidence.Decision) bool {
	return d.Trip != 0 && t.ended.Contains(attemptKey{d.Trip, d.Attempt})
}

// An originKey is one robots.txt, as one Transport knows it.
type originKey struct {
	by   *transport
	name string
}

// An origin is what the log says of one robots.txt, the newest first. A request goes on with the
// last copy while a new one is fetched, and where the log doesn't name Transports, another one with
// its own until that is out of date.
type origin struct {
	copies []*robotsCopy
}

// A copyKind says what a robotsCopy decides.
type copyKind uint8

const (
	asText   copyKind = iota // its text decides
	unknown                  // a text that the log doesn't hold
	denying                  // it can't be had, and nothing may be fetched
	allowing                 // it can't be had, and everything may be fetched
)

// A robotsCopy is what holds from one record on, compiled for the last reader that asked.
type robotsCopy struct {
	kind   copyKind
	text   []byte
	sum    string        // SHA-256 of the text, hex
	at     place         // line that it stands in
	from   time.Time     // when it was fetched or confirmed last
	until  time.Time     // when it is asked for again; zero: the log doesn't say
	reader reader        // whom rules are for
	rules  *robots.Rules // nil: for nobody yet
}

// A reader is a crawler as robots.txt knows it.
type reader struct {
	agent   string
	lenient bool // whether it is one of robots.Options.LenientAgents
}

const (
	// maxCopies is how many texts of one robots.txt are kept.
	maxCopies = 8
	// maxAge is how long a robots.txt holds without being asked for again (RFC 9309, section 2.4).
	maxAge = 24 * time.Hour
)

// put makes c the newest copy.
func (o *origin) put(c *robotsCopy) {
	copies := []*robotsCopy{c}
	for i, e := range o.copies {
		old := i > 0 && c.from.Sub(e.from) > maxAge // a Transport that had it has asked again since
		same := c.kind == asText && e.kind == asText && bytes.Equal(e.text, c.text)
		if !old && !same {
			copies = append(copies, e)
		}
	}
	o.copies = copies[:min(len(copies), maxCopies)]
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
func (o *origin) inForce(at time.Time, named bool) []*robotsCopy {
	if !named {
		return o.copies
	}
	for i, c := range o.copies {
		if !at.Before(c.from.Add(slack)) {
			return o.copies[:i+1]
		}
	}
	return o.copies
}

// robotsFetched takes a new copy of a robots.txt.
func (a *auditor) robotsFetched(d *evidence.Decision) {
	sum := sha256.Sum256([]byte(d.Text))
	c := &robotsCopy{at: a.at, from: d.Time, text: []byte(d.Text), sum: hex.EncodeToString(sum[:])}
	if ttl := d.TTL; ttl > 0 {
		if a.by.policy != nil && d.Type != evidence.RobotsUnreachable {
			ttl = min(ttl, a.by.policy.RobotsTTL)
		}
		c.until = d.Time.Add(ttl)
	}
	if d.Text != "" && d.SHA256 != "" && (d.Bytes == 0 || d.Bytes == int64(len(d.Text))) && !strings.EqualFold(c.sum, d.SHA256) {
		a.contradiction("the text of robots.txt doesn't have its SHA-256")
	}
	a.robotsAnswered(d)
	name, _ := splitURL(d.URL)
	key := originKey{a.by, name}
	o := a.origins[key]
	if o == nil {
		o = &origin{}
		a.origins[key] = o
	}
	p := a.by.policy
	switch {
	case d.Type == evidence.RobotsRevalidated || d.Type == evidence.RobotsUnreachable && d.SHA256 != "":
		if p != nil && d.Type == evidence.RobotsUnreachable && !p.ServeStale {
			a.contradiction("an old copy of robots.txt is used, which the policy doesn't let")
		}
		if old := o.find(d.SHA256); old != nil {
			again := *old
			again.from, again.until = d.Time, c.until
			c = &again
		} else {
			c.kind = unknown
		}
	case d.Type == evidence.RobotsUnreachable:
		c.kind = unknown // without a policy
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
		c.kind = unknown
	}
	o.put(c)
}

// robotsAnswered proves that a copy of robots.txt came of an exchange.
func (a *auditor) robotsAnswered(d *evidence.Decision) {
	if a.by.policy == nil {
		return
	}
	if d.Restored {
		a.openEnded(verdictsRight, "a robots.txt that an earlier process fetched")
		return
	}
	first, ok := a.by.answers.Get(keyOfURL(d.URL))
	last := first
	if d.Hops > 0 && d.Location != "" {
		switch {
		case ok && first.status/100 != 3:
			a.contradiction("a robots.txt by a redirect, where the origin gave none")
			return
		case !isWhole(d.Location):
			a.openEnded(verdictsRight, "a robots.txt by a redirect whose URL isn't whole")
			return
		}
		last, ok = a.by.answers.Get(keyOfURL(d.Location))
	}
	switch {
	case ok && last.status == d.Status && !d.Time.Before(last.end.Add(-slack)):
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

func keyOfTrip(d *evidence.Decision) tripKey {
	return tripKey{d.Trip, hashURL(d)}
}

// decided takes a verdict about a URL.
func (a *auditor) decided(d *evidence.Decision) {
	v := verdict{
		at: a.at, time: d.Time, allowed: d.Type == evidence.RobotsAllowed && d.Allowed, floor: d.CrawlDelay, asker: askerOf(d),
	}
	if d.Type != evidence.BlockedByRule {
		var floor time.Duration
		v.derived, floor = a.decideAgain(d)
		v.floor = max(v.floor, floor)
	}
	a.trips.put(keyOfTrip(d), v)
	if !v.allowed {
		a.trips.leave(d)
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

// allowed checks that the verdict v, if the start d is judged, allowed it.
func (a *auditor) allowed(d *evidence.Decision, v *verdict, judged bool) {
	switch {
	case judged && v.allowed:
		a.report.Proofs.Verdicts++
		if !v.derived {
			a.openEnded(allowedByRobots, a.whyOpen())
		}
		if !v.asker.agrees(d) {
			a.contradiction("a verdict and its start "+disagree, v.at)
		}
		if delay := max(d.Delay, d.CrawlDelay); tooShort(delay, v.floor) {
			a.contradiction(fmt.Sprintf("started with a delay of %v under a crawl-delay of %v", delay, v.floor), v.at)
		}
		if !d.Start.IsZero() && v.time.Sub(d.Start) > slack {
			a.contradiction(fmt.Sprintf("allowed %v after the start", v.time.Sub(d.Start)), v.at)
		}
	case judged:
		a.report.Proofs.Verdicts++
		a.violation(BrokenRobots, d.Host, "fetch of a URL that was refused: "+d.URL, v.at, a.at)
	case a.by.policy == nil && !a.trips.some, a.trips.full:
		a.report.Proofs.OpenVerdicts++
		a.openEnded(allowedByRobots, "the log holds no verdict")
	default:
		a.report.Proofs.Verdicts++
		a.violation(BrokenRobots, d.Host, "fetch of a URL without a verdict: "+d.URL, a.at)
	}
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
	o := a.origins[originKey{a.by, name}]
	if o == nil {
		return open(noText)
	}
	lenient := p != nil && p.Lenient
	detail, at := "", place{}
	for i, c := range o.inForce(d.Time, a.by.mix != 0) {
		why := ""
		switch c.kind {
		case unknown:
			if i > 0 && a.by.mix == 0 {
				continue
			}
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
			why = c.refute(d, target, lenient)
			if why == "" && a.by.mix != 0 {
				floor = c.rules.Floor(d.Time)
			}
		}
		from, unsure := uncertain(d.URL, target)
		if why == "" { // and it is a text, if it allows the URL
			if d.Allowed && unsure && c.mayDecideBeyond("dis", from) {
				return open("a URL that isn't whole in the log")
			}
			if c.kind == asText && a.by.mix != 0 && d.Time.Sub(c.from) > maxAge+slack {
				return open("a robots.txt that is older than a day")
			}
			if d.Allowed && !c.until.IsZero() && d.Time.Sub(c.until) > a.by.longestWait()+slack+a.jumpedSince(c.from) {
				return open("a robots.txt that was used for longer than the policy says (the server's Cache-Control isn't in the log)")
			}
			a.report.Proofs.Robots++
			return true, floor
		}
		if detail == "" {
			detail, at = why, c.at
		}
		if c.kind == asText && p == nil && d.Group != "" && d.Group != "*" && !strings.EqualFold(d.Group, d.Agent) && c.names(d.Group) {
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

// names reports whether the text has a group of that name.
func (c *robotsCopy) names(group string) bool {
	for line := range bytes.Lines(bytes.ReplaceAll(c.text, []byte("\r"), []byte("\n"))) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		value, _, _ = bytes.Cut(value, []byte("#"))
		if bytes.HasPrefix(bytes.ToLower(bytes.TrimSpace(key)), []byte("user")) && strings.EqualFold(string(bytes.TrimSpace(value)), group) {
			return true
		}
	}
	return false
}

// refute returns how c decides otherwise than d says; "" where it decides the same.
func (c *robotsCopy) refute(d *evidence.Decision, target string, lenient bool) string {
	if as := (reader{d.Agent, lenient}); c.rules == nil || c.reader != as {
		c.reader = as
		c.rules = robots.ParseWith(c.text, robots.Options{LenientAgents: lenient}).Agent(d.Agent)
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
