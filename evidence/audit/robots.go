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

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/robots"
)

// maxTrips is how many trips the auditor remembers the verdicts of.
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
}

// maxVerdicts is how many Transports may ask for one URL in trips of one number.
const maxVerdicts = 8

// A tripAudit holds the verdicts on one trip's URL, the newest first: there are several only where
// Transports number their trips alike.
type tripAudit struct {
	verdict
	others []verdict
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

// trips remembers the verdicts on the newest maxTrips trips, and which attempts ended lately.
type trips struct {
	m     map[tripKey]tripAudit
	queue []tripKey           // keys of m in the order in which they came; a ring once it is full
	head  int                 // oldest key of a full queue
	full  bool                // whether a trip was forgotten
	done  map[attemptKey]bool // attempts that ended lately
	older map[attemptKey]bool // those of the generation before
}

func newTrips() trips {
	return trips{m: map[tripKey]tripAudit{}, done: map[attemptKey]bool{}}
}

func (t *trips) put(k tripKey, v verdict) {
	old, ok := t.m[k]
	if !ok {
		if len(t.queue) < maxTrips {
			t.queue = append(t.queue, k)
		} else {
			t.full = true
			delete(t.m, t.queue[t.head])
			t.queue[t.head] = k
			t.head = (t.head + 1) % maxTrips
		}
	}
	now := tripAudit{verdict: v}
	if ok && (old.asker != v.asker || old.others != nil) {
		now.others = slices.DeleteFunc(append([]verdict{old.verdict}, old.others...), func(o verdict) bool { return o.asker == v.asker })
		now.others = now.others[:min(len(now.others), maxVerdicts-1)]
	}
	t.m[k] = now
}

// end remembers that an attempt has ended.
func (t *trips) end(d *evidence.Decision) {
	if len(t.done) == 4096 {
		t.done, t.older = map[attemptKey]bool{}, t.done
	}
	t.done[attemptKey{d.Trip, d.Attempt}] = true
}

// ended reports whether the attempt that d is about has ended lately.
func (t *trips) ended(d *evidence.Decision) bool {
	k := attemptKey{d.Trip, d.Attempt}
	return d.Trip != 0 && (t.done[k] || t.older[k])
}

// An origin is what the log says of one robots.txt.
type origin struct {
	present *robotsCopy // nil: unknown
	// earlier are the copies before it, the latest first. A request goes on with the last one while
	// a new one is fetched, and another Transport with its own until that is out of date.
	earlier     []*robotsCopy
	unreachable bool // whether it once couldn't be had, which decides verdicts too
}

// A robotsCopy is one text, compiled for the last agent that asked.
type robotsCopy struct {
	text  []byte
	at    place     // line that it stands in
	time  time.Time // when it was fetched or confirmed last
	agent string    // agent that rules are for
	rules *robots.Rules
}

const (
	// maxCopies is how many texts of one robots.txt are kept.
	maxCopies = 8
	// maxAge is how long a robots.txt holds without being asked for again (RFC 9309, section 2.4).
	maxAge = 24 * time.Hour
)

// replace makes c the present copy.
func (o *origin) replace(c *robotsCopy) {
	earlier := o.earlier
	if o.present != nil {
		earlier = append([]*robotsCopy{o.present}, earlier...)
	}
	o.present = c
	if c == nil {
		o.earlier = earlier[:min(len(earlier), maxCopies-1)]
		return
	}
	o.earlier = nil
	for i, e := range earlier {
		if i > 0 && c.time.Sub(e.time) > maxAge || len(o.earlier) == maxCopies-1 {
			continue // a Transport that had it has asked again since
		}
		if !bytes.Equal(e.text, c.text) {
			o.earlier = append(o.earlier, e)
		}
	}
}

// confirm takes the news that the text with the given SHA-256 holds again.
func (o *origin) confirm(hash string, at time.Time) {
	for _, c := range append([]*robotsCopy{o.present}, o.earlier...) {
		if c == nil {
			continue
		}
		if sum := sha256.Sum256(c.text); !strings.EqualFold(hex.EncodeToString(sum[:]), hash) {
			continue
		}
		c.time = at
		if o.present == nil {
			o.replace(c)
		}
		return
	}
}

// robotsFetched takes a new copy of a robots.txt.
func (a *auditor) robotsFetched(d *evidence.Decision) {
	if d.Text != "" && d.SHA256 != "" && (d.Bytes == 0 || d.Bytes == int64(len(d.Text))) {
		sum := sha256.Sum256([]byte(d.Text))
		if !strings.EqualFold(hex.EncodeToString(sum[:]), d.SHA256) {
			a.contradiction("the text of robots.txt doesn't have its SHA-256")
		}
	}
	name, _ := splitURL(d.URL)
	o := a.origins[name]
	if o == nil {
		o = &origin{}
		a.origins[name] = o
	}
	o.unreachable = o.unreachable || d.Type == evidence.RobotsUnreachable
	switch {
	case d.Type == evidence.RobotsRevalidated:
		o.confirm(d.SHA256, d.Time)
	case d.Type == evidence.RobotsFetched && (d.Text != "" || allowsAll(d)):
		o.replace(&robotsCopy{text: []byte(d.Text), at: a.at, time: d.Time})
	default:
		o.replace(nil)
	}
}

// noText is the SHA-256 of an empty robots.txt.
var noText = hex.EncodeToString(sha256.New().Sum(nil))

// allowsAll reports whether the robots.txt allows everything, being empty or missing (RFC 9309,
// section 2.3.1.3).
func allowsAll(d *evidence.Decision) bool {
	return strings.EqualFold(d.SHA256, noText) || d.Status >= 300 && d.Status < 500 && d.Status != 429
}

func keyOfTrip(d *evidence.Decision) tripKey {
	return tripKey{d.Trip, hashURL(d)}
}

// decided takes a verdict about a URL.
func (a *auditor) decided(d *evidence.Decision) {
	a.trips.put(keyOfTrip(d), verdict{
		at: a.at, time: d.Time, allowed: d.Type == evidence.RobotsAllowed && d.Allowed, floor: d.CrawlDelay, asker: askerOf(d),
	})
	if d.Type != evidence.RobotsAllowed || !d.Allowed {
		a.host(d).report.Disallowed++
	}
	if d.Type != evidence.BlockedByRule {
		a.decideAgain(d)
	}
}

// allowed checks that a verdict allowed the start d.
func (a *auditor) allowed(d *evidence.Decision) {
	t, ok := a.trips.m[keyOfTrip(d)]
	v := t.about(d)
	switch {
	case ok && v.allowed:
		a.report.Proofs.Verdicts++
		if !v.asker.agrees(d) {
			a.contradiction("a verdict and its start "+disagree, v.at)
		}
		if delay := max(d.Delay, d.CrawlDelay); tooShort(delay, v.floor) {
			a.contradiction(fmt.Sprintf("started with a delay of %v under a crawl-delay of %v", delay, v.floor), v.at)
		}
		if !d.Start.IsZero() && v.time.Sub(d.Start) > slack {
			a.contradiction(fmt.Sprintf("allowed %v after the start", v.time.Sub(d.Start)), v.at)
		}
	case ok:
		a.report.Proofs.Verdicts++
		a.violation(BrokenRobots, d.Host, "fetch of a URL that was refused: "+d.URL, v.at, a.at)
	case len(a.trips.m) == 0, a.trips.full:
		a.report.Proofs.OpenVerdicts++
	default:
		a.report.Proofs.Verdicts++
		a.violation(BrokenRobots, d.Host, "fetch of a URL without a verdict: "+d.URL, a.at)
	}
}

// decideAgain compares a verdict with what robots.txt, as logged, says.
func (a *auditor) decideAgain(d *evidence.Decision) {
	name, target := splitURL(d.URL)
	o := a.origins[name]
	switch {
	case o == nil || o.present == nil || !isWhole(d.URL):
		a.report.Proofs.OpenRobots++
		return
	case (d.Reason != "" || d.Confidence != "") && o.unreachable: // something else than a rule decided
		a.report.Proofs.OpenRobots++
		return
	}
	detail := o.present.refute(d, target)
	for _, c := range o.earlier {
		if detail == "" {
			break
		}
		if c.refute(d, target) == "" {
			detail = ""
		}
	}
	switch {
	case detail == "":
		a.report.Proofs.Robots++
	case d.Group != "" && d.Group != "*" && !strings.EqualFold(d.Group, d.Agent):
		a.report.Proofs.OpenRobots++ // a lenient crawler obeys groups that aren't its own by the standard
	case strings.Contains(target, "://"):
		a.report.Proofs.OpenRobots++ // the target may have held userinfo, which is never logged
	default:
		a.report.Proofs.Robots++
		a.violation(BrokenVerdict, d.Host, detail, o.present.at, a.at)
	}
}

// refute returns how c decides otherwise than d says; "" where it decides the same.
func (c *robotsCopy) refute(d *evidence.Decision, target string) string {
	if c.rules == nil || c.agent != d.Agent {
		c.agent, c.rules = d.Agent, robots.Parse(c.text).Agent(d.Agent)
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
