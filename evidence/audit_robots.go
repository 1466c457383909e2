package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// A RobotsCompiler compiles the text of a robots.txt for a crawler with the
// given product tokens, to a function that decides about a target (path and
// query as sent) and names the rule and its line; 0 if there was none.
type RobotsCompiler func(text []byte, products []string) func(target string) (allowed bool, rule string, line int)

var robotsCompiler atomic.Pointer[RobotsCompiler]

// RegisterRobots makes Audit decide verdicts again through c, in the manner of
// crypto.RegisterHash: this package imports no parser. Importing package
// politeness registers package robots; only a program that does without needs
// to call it.
func RegisterRobots(c RobotsCompiler) { robotsCompiler.Store(&c) }

// maxTrips is how many trips Audit remembers the verdicts of.
const maxTrips = 1 << 18

// A tripKey is a trip and a hash of its URL: several Transports may number their
// trips alike.
type tripKey struct{ trip, url uint64 }

// An attemptKey is one try of a trip.
type attemptKey struct {
	trip    uint64
	attempt int
}

type tripAudit struct {
	line    int
	time    time.Time
	allowed bool
}

// trips remembers verdicts until it has too many, the oldest of which it forgets.
type trips struct {
	m     map[tripKey]tripAudit
	queue []tripKey // of those in m, a ring once it is full
	head  int
	full  bool
	done  map[attemptKey]bool // attempts that ended of late, two generations
	older map[attemptKey]bool
}

func newTrips() trips {
	return trips{m: map[tripKey]tripAudit{}, done: map[attemptKey]bool{}}
}

func (t *trips) put(k tripKey, v tripAudit) {
	if _, ok := t.m[k]; !ok {
		if len(t.queue) < maxTrips {
			t.queue = append(t.queue, k)
		} else {
			t.full = true
			delete(t.m, t.queue[t.head])
			t.queue[t.head] = k
			t.head = (t.head + 1) % maxTrips
		}
	}
	t.m[k] = v
}

// end remembers that an attempt has ended.
func (t *trips) end(d *Decision) {
	if len(t.done) == 4096 {
		t.done, t.older = map[attemptKey]bool{}, t.done
	}
	t.done[attemptKey{d.Trip, d.Attempt}] = true
}

// ended reports whether the attempt that d is about has ended, of late.
func (t *trips) ended(d *Decision) bool {
	k := attemptKey{d.Trip, d.Attempt}
	return d.Trip != 0 && (t.done[k] || t.older[k])
}

// An origin is what the log says of one robots.txt. The copy before the present
// one is kept, because requests go on with it while a new one is fetched.
type origin struct {
	copies      [2]*robotsCopy // present, previous; nil: unknown
	unreachable bool           // at times, so that verdicts may have other reasons
}

// A robotsCopy is one text, compiled for the last agent that asked.
type robotsCopy struct {
	text  []byte
	line  int // of the log
	agent string
	test  func(target string) (bool, string, int)
}

// robotsFetched takes a new copy of a robots.txt.
func (a *auditor) robotsFetched(d *Decision) {
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
	o.unreachable = o.unreachable || d.Type == RobotsUnreachable
	switch {
	case d.Type == RobotsRevalidated: // the present copy stays
	case d.Type == RobotsFetched && (d.Text != "" || allowsAll(d)):
		o.copies = [2]*robotsCopy{{text: []byte(d.Text), line: a.at}, o.copies[0]}
	default:
		o.copies = [2]*robotsCopy{nil, o.copies[0]}
	}
}

// noText is the SHA-256 of an empty robots.txt.
var noText = hex.EncodeToString(sha256.New().Sum(nil))

// allowsAll reports whether the robots.txt was empty or isn't there (RFC 9309,
// section 2.3.1.3), which come to the same.
func allowsAll(d *Decision) bool {
	return strings.EqualFold(d.SHA256, noText) || d.Status >= 300 && d.Status < 500 && d.Status != 429
}

func (a *auditor) keyOfTrip(d *Decision) tripKey {
	return tripKey{d.Trip, hashURL(d)}
}

// decided takes a verdict about a URL.
func (a *auditor) decided(d *Decision) {
	a.trips.put(a.keyOfTrip(d), tripAudit{line: a.at, time: d.Time, allowed: d.Type == RobotsAllowed && d.Allowed})
	if d.Type != RobotsAllowed || !d.Allowed {
		a.host(d).report.Disallowed++
	}
	if d.Type != BlockedByRule {
		a.decideAgain(d)
	}
}

// allowed checks that a verdict allowed the start d.
func (a *auditor) allowed(d *Decision) {
	v, ok := a.trips.m[a.keyOfTrip(d)]
	switch {
	case ok && v.allowed:
		a.report.Proofs.Verdicts++
		if !d.Start.IsZero() && v.time.Sub(d.Start) > slack {
			a.contradiction(fmt.Sprintf("allowed %v after the start", v.time.Sub(d.Start)), v.line)
		}
	case ok:
		a.report.Proofs.Verdicts++
		a.violation(BrokenRobots, d.Host, "fetch of a URL that was refused: "+d.URL, v.line, a.at)
	case len(a.trips.m) == 0, a.trips.full:
		a.report.Proofs.OpenVerdicts++
	default:
		a.report.Proofs.Verdicts++
		a.violation(BrokenRobots, d.Host, "fetch of a URL without a verdict: "+d.URL, a.at)
	}
}

// decideAgain compares a verdict with what robots.txt, as logged, says.
func (a *auditor) decideAgain(d *Decision) {
	name, target := splitURL(d.URL)
	o, compile := a.origins[name], robotsCompiler.Load()
	switch {
	case o == nil || compile == nil || o.copies[0] == nil || wasRedacted(d.URL):
		a.report.Proofs.OpenRobots++
		return
	case (d.Reason != "" || d.Confidence != "") && o.unreachable: // then no rule decided
		a.report.Proofs.OpenRobots++
		return
	}
	a.report.Proofs.Robots++
	detail := ""
	for _, c := range o.copies {
		if c == nil {
			continue
		}
		if c.test == nil || c.agent != d.Agent {
			c.agent, c.test = d.Agent, (*compile)(c.text, []string{d.Agent})
		}
		allowed, rule, line := c.test(target)
		switch {
		case allowed != d.Allowed:
			verb := "refuses"
			if allowed {
				verb = "allows"
			}
			if rule == "" {
				rule = "no rule"
			}
			if detail == "" {
				detail = fmt.Sprintf("robots.txt %s %s (%s)", verb, target, rule)
			}
		case d.Line != 0 && line != d.Line:
			if detail == "" {
				detail = fmt.Sprintf("robots.txt decides %s on line %d, not %d", target, line, d.Line)
			}
		default:
			return
		}
	}
	a.violation(BrokenVerdict, d.Host, detail, o.copies[0].line, a.at)
}

// wasRedacted reports whether Redact has changed u.
func wasRedacted(u string) bool { return strings.Contains(u, "="+Redacted) }
