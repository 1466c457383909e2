package audit

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/internal/sites"
	"github.com/go-politeness/politeness/robots"
)

// A robotsCopy is what holds of one robots.txt from a record on.
type robotsCopy struct {
	at          place  // line that it stands in
	sum         string // SHA-256 of the text, hex; "" where there is none
	text        []byte
	open        string // why its verdicts can't be decided again; "": they can
	from, until int64  // when it was fetched or confirmed, and when it is to be asked for again

	rules    *robots.Rules // for the agent that asked last; nil: for none yet
	agent    string
	agents   int        // how often it was read, each time for another agent
	patterns [][][]byte // the first ones, as pattern finds them
}

const (
	maxCopies      = 8                              // copies of one robots.txt that are kept, and readings of each
	maxPatterns    = 10_000                         // patterns of one that are compared with a target that isn't whole
	maxAge         = 24 * time.Hour                 // that one holds without being asked for again (RFC 9309, section 2.4)
	nothingAllowed = "User-agent: *\nDisallow: /\n" // holds where robots.txt can't be had and the policy denies then

	noText = "the log doesn't hold the text of robots.txt (robotscache.Config.RecordText)"
)

// robotsFetched takes a new copy of a robots.txt. A request goes on with the copy before while a
// new one is fetched.
func (a *auditor) robotsFetched(d *evidence.Decision) {
	p := a.by.policy
	c := &robotsCopy{at: a.at, from: stamp(d.Time), text: []byte(d.Text), sum: strings.ToLower(d.SHA256)}
	if d.Restored && !d.Start.IsZero() {
		c.from = min(c.from, stamp(d.Start))
	}
	ttl := cmp.Or(d.TTL, maxAge)
	if p.RobotsTTL > 0 && d.Type != evidence.RobotsUnreachable {
		ttl = min(ttl, p.RobotsTTL)
	}
	c.until = c.from + int64(min(ttl, maxAge))
	sum := fmt.Sprintf("%x", sha256.Sum256(c.text))
	other := d.Text != "" && d.SHA256 != "" && c.sum != sum // than what was fetched: its beginning, for instance
	a.cannot(other && (d.Bytes == 0 || d.Bytes == int64(len(d.Text))), "the text of robots.txt doesn't have its SHA-256")
	a.robotsAnswered(d)
	name, _ := sites.SplitURL(d.URL)
	copies := a.by.origins[name]
	switch {
	case d.Type == evidence.RobotsFetched: // an empty one, or one that is missing, allows everything (RFC 9309, section 2.3.1.3)
		if other || d.Text == "" && c.sum != sum && (d.Status < 300 || d.Status >= 500 || d.Status == 429) {
			c.open = noText
		}
	case d.Type == evidence.RobotsRevalidated || d.SHA256 != "": // an old copy holds again, or on
		a.cannot(d.Type == evidence.RobotsUnreachable && !p.ServeStale, "an old copy of robots.txt is used, which the policy doesn't let")
		c.open = noText
		if i := slices.IndexFunc(copies, func(old *robotsCopy) bool { return old.sum == c.sum }); i >= 0 {
			from, until := c.from, c.until
			*c = *copies[i]
			c.from, c.until = from, until
		}
	case p.Unreachable == "allow":
		c.open = "robots.txt couldn't be had, and the policy lets everything then"
	default:
		c.text = []byte(nothingAllowed)
		a.cannot(d.Allowed, "robots.txt can't be had and nothing may be fetched, by the policy, but the record lets it")
	}
	a.by.origins[strings.Clone(name)] = append([]*robotsCopy{c}, copies[:min(len(copies), maxCopies-1)]...)
}

// robotsStarted takes the start d of t, a request for robots.txt or for where an answer to one led.
func (a *auditor) robotsStarted(d *evidence.Decision, t *trip, target string) {
	t.origin, t.hops = keyOfURL(d.URL), 0
	from := a.by.trips[d.From]
	switch {
	case d.From != 0 && from != nil && from.origin != 0 && (from.leads == anywhere || from.leads == t.origin):
		t.origin, t.hops = from.origin, from.hops+1
		delete(a.by.trips, d.From)
	case target != robotsPath && (d.From == 0 || isWhole(d.URL)):
		a.violation(BrokenRobots, d.Host, "marked as a fetch of robots.txt, where none leads: "+d.URL, a.at)
	case target != robotsPath:
		a.openEnded(allowedByRobots, "a fetch of robots.txt whose URL isn't whole in the log")
	}
}

// robotsAnswered proves that a copy of robots.txt came of an exchange.
func (a *auditor) robotsAnswered(d *evidence.Decision) {
	copied := d.URL + " " + cmp.Or(d.SHA256, fmt.Sprint(d.Status))
	if d.Restored && d.Type != evidence.RobotsUnreachable {
		a.restored[copied] = append(a.restored[copied], stamp(d.Start))
		return
	}
	t := a.by.trips[d.Trip]
	ok := t != nil && t.origin == keyOfURL(d.URL) && t.hops == d.Hops
	delete(a.by.trips, d.Trip) // no other copy can come of it
	switch {
	case ok && t.status == d.Status && stamp(d.Time) >= t.ended-slack:
		a.proved[copied] = append(a.proved[copied], stamp(d.Time))
	case d.Status == 0 && d.Type == evidence.RobotsUnreachable: // it couldn't be asked for
	case !ok:
		a.violation(BrokenVerdict, d.Host, string(d.Type)+" without the exchange that it came of", a.at)
	default:
		a.violation(BrokenVerdict, d.Host, fmt.Sprintf("%s of status %d, where the exchange gave %d", d.Type, d.Status, t.status), a.at)
	}
}

// copyOf returns the copy of robots.txt by which d was decided, with its rules for the agent of d,
// and what they have to decide: the copy that d names, which may have been replaced within the last
// second, or else the newest. Where that can't be told why isn't empty.
func (a *auditor) copyOf(d *evidence.Decision) (c *robotsCopy, target, why string) {
	p := a.by.policy
	name, target := sites.SplitURL(d.URL)
	copies := a.by.origins[name]
	switch {
	case p.Robots == "ignored":
		return nil, target, "robots.txt is ignored, by the policy"
	case len(copies) == 0:
		return nil, target, noText
	}
	c = copies[0]
	named := func(o *robotsCopy) bool { return o.sum[:min(len(o.sum), 8)] == d.Copy }
	if i := slices.IndexFunc(copies, func(o *robotsCopy) bool { return named(o) || stamp(d.Time) >= o.from+slack }); i >= 0 && named(copies[i]) {
		c = copies[i]
	}
	if c.open != "" {
		return c, target, c.open
	}
	if agent := cmp.Or(d.Agent, p.Product); c.rules == nil || c.agent != agent {
		if c.agents++; c.agents > maxCopies {
			return c, target, "a robots.txt by which verdicts for several agents were made in turn"
		}
		c.agent = strings.Clone(agent)
		c.rules = robots.ParseWith(c.text, robots.Options{LenientAgents: p.Lenient, AgentPatterns: p.Patterns}).Agent(c.agent)
		c.patterns = pattern.FindAllSubmatch(c.text, maxPatterns)
	}
	return c, target, ""
}

// decideAgain compares the verdict d on t with what robots.txt, as logged, says. Where the log
// gives the same verdict, t has the crawl-delay that goes with it.
func (a *auditor) decideAgain(d *evidence.Decision, t *trip) {
	a.tested(verdictsRight)
	c, target, why := a.copyOf(d)
	if why != "" {
		a.openEnded(verdictsRight, why)
		return
	}
	v, wrong := c.rules.Test(target), ""
	switch sure := certain(target); {
	case sure != target && c.reaches(sure):
		a.openEnded(verdictsRight, "a URL that isn't whole in the log")
	case v.Allowed != d.Allowed:
		wrong = fmt.Sprintf("robots.txt %s %s (%s)", map[bool]string{true: "allows", false: "refuses"}[v.Allowed], target, cmp.Or(v.Rule, "no rule"))
	case d.Line != 0 && v.Line != d.Line:
		wrong = fmt.Sprintf("robots.txt decides %s on line %d, not %d", target, v.Line, d.Line)
	case d.MatchedRule != "" && d.MatchedRule != v.Rule && isWhole(d.MatchedRule):
		wrong = fmt.Sprintf("robots.txt decides %s by %s, not %s", target, cmp.Or(v.Rule, "no rule"), d.MatchedRule)
	// While a request waits to ask for robots.txt again, the others go on by the copy that is out of
	// date.
	case d.Allowed && stamp(d.Time)-c.until-slack-a.run.jumped > int64(a.by.policy.MaxWait):
		a.openEnded(verdictsRight, "a robots.txt that was used for longer than the policy, or RFC 9309, says (the server's Cache-Control isn't in the log)")
	default:
		t.derived, t.floor = true, max(t.floor, int64(c.rules.Floor(d.Time)))
	}
	if wrong != "" {
		a.violation(BrokenVerdict, d.Host, wrong, c.at, a.at)
	}
}

// decided takes a verdict about a URL.
func (a *auditor) decided(d *evidence.Decision) {
	t := a.trip(d)
	t.judged = a.at
	t.decided = stamp(d.Time)
	t.allowed = d.Type == evidence.RobotsAllowed && d.Allowed
	t.derived = false
	t.floor = int64(d.CrawlDelay)
	if d.Type == evidence.RobotsAllowed || d.Type == evidence.BlockedByRobots {
		a.decideAgain(d, t)
	}
	if d.Type == evidence.RobotsAllowed {
		a.fits(d)
	}
	if d.Type == evidence.Reserved || d.Type == evidence.RobotsAllowed && d.Purposes+d.Preferences != "" {
		a.consentAgain(d)
	}
	if !t.allowed {
		a.leave(t)
		a.host(d).report.Disallowed++
	}
}

// allowed checks that a verdict allowed the start d of t.
func (a *auditor) allowed(d *evidence.Decision, t *trip) {
	a.tested(allowedByRobots)
	switch {
	case t.judged.line == 0:
		a.violation(BrokenRobots, d.Host, "fetch of a URL without a verdict: "+d.URL, a.at)
		return
	case !t.allowed:
		a.violation(BrokenRobots, d.Host, "fetch of a URL that was refused: "+d.URL, t.judged, a.at)
		return
	case t.derived:
	case a.by.policy.Robots == "ignored":
		a.openEnded(allowedByRobots, "robots.txt is ignored, by the policy")
	default:
		a.openEnded(allowedByRobots, "the verdict can't be decided again")
	}
	if late := t.decided - stamp(d.Start); !d.Start.IsZero() && late > slack {
		a.contradiction(fmt.Sprintf("allowed %v after the start", time.Duration(late)), t.judged)
	}
}

// certain returns the beginning of a target that is sure to be what was asked for, up to an
// escape; all of it where that is. Redact may have replaced a value, a long URL is clipped, and a
// URL in the URL may have lost its userinfo.
func certain(target string) string {
	sure, _, _ := strings.Cut(strings.TrimSuffix(target, evidence.Clipped), evidence.Redacted)
	if strings.Contains(sure, ":") { // most have none, which is seen sooner
		sure = embedded.Split(sure, 2)[0]
	}
	if sure != target {
		sure, _, _ = strings.Cut(sure, "%")
	}
	return sure
}

// embedded finds where a URL begins in another one, as evidence.RedactURL does.
var embedded = regexp.MustCompile(`(?i)https?:|:[/\\]{2}`)

// isWhole reports whether u is what was asked for: Redact has cut nothing out of it, and it was
// short enough for its record.
func isWhole(u string) bool {
	return !strings.Contains(u, evidence.Redacted) && !strings.HasSuffix(u, evidence.Clipped)
}

// pattern finds the patterns of a robots.txt, behind keys that may lack their colon.
var pattern = regexp.MustCompile(`(?i)(?:^|[\r\n])[ \t]*(?:allow|dis)[^:\s]*(?:[ \t]*:|[ \t])[ \t]*([^#\r\n]*)`)

// reaches reports whether a pattern of c may match more of a target than the beginning that is
// sure.
func (c *robotsCopy) reaches(sure string) bool {
	return len(c.patterns) == maxPatterns || slices.ContainsFunc(c.patterns, func(m [][]byte) bool {
		p := strings.TrimSpace(string(m[1]))
		literal := p[:strings.IndexAny(p+"$", "*$%")]
		n := min(len(literal), len(sure))
		return (len(literal) < len(p) || len(p) > len(sure)) && literal[:n] == sure[:n]
	})
}

// reserved takes the record of a page that isn't fetched, or isn't handed over, since the site
// reserves it. What headers and pages state is in the log only as the crawler has recorded it.
func (a *auditor) reserved(d *evidence.Decision) {
	if a.fits(d); d.Status == 0 { // by robots.txt: nothing may have been fetched
		a.decided(d)
	} else {
		a.trip(d).reserved = true
	}
}

// fits checks that the verdict d is about the purposes that the policy states.
func (a *auditor) fits(d *evidence.Decision) {
	if d.Purposes != a.by.policy.Purposes {
		a.violation(BrokenConsent, d.Host, fmt.Sprintf("a page for %q by a crawler whose pages are for %q", d.Purposes, a.by.policy.Purposes), a.at)
	}
}

// handedOver checks that the page of t, which has ended with d, wasn't handed over for a purpose
// that the site reserves.
func (a *auditor) handedOver(d *evidence.Decision, t *trip) {
	if purpose := reserves(d); d.Type == evidence.Fetched && purpose != "" && !t.reserved {
		a.violation(BrokenConsent, d.Host, fmt.Sprintf("a page handed over to %s: %s", purpose, d.Preferences), a.at)
	}
	t.reserved = false
}

// reserves returns the first purpose of a record that the preferences in it refuse, "" for none.
// The license at their end is in the site's words.
func reserves(d *evidence.Decision) string {
	stated, _, _ := strings.Cut(", "+d.Preferences, ", license ")
	for purpose := range strings.SplitSeq(d.Purposes[:min(len(d.Purposes), 48)], ", ") { // no log has longer ones
		if purpose != "" && strings.Contains(stated, ", "+purpose+" refused") {
			return purpose
		}
	}
	return ""
}

// consentAgain compares the preferences on record with those that robots.txt, as logged, states.
func (a *auditor) consentAgain(d *evidence.Decision) {
	a.tested(reservationsKept)
	c, target, why := a.copyOf(d)
	if !isWhole(d.URL) || !isWhole(d.Preferences) {
		why = "a URL, or preferences, that aren't whole in the log"
	}
	if why != "" {
		a.openEnded(reservationsKept, why)
		return
	}
	detail := ""
	switch stated, purpose := c.rules.Preferences(target).String(), reserves(d); {
	case stated != d.Preferences:
		detail = fmt.Sprintf("robots.txt states %q about %s, not %q", stated, target, d.Preferences)
	case d.Type == evidence.RobotsAllowed && purpose != "":
		detail = fmt.Sprintf("allowed to %s, which robots.txt reserves: %s", purpose, d.Preferences)
	case d.Type == evidence.Reserved && purpose == "":
		detail = "reserved, though robots.txt reserves none of " + d.Purposes
	default:
		return
	}
	a.violation(BrokenConsent, d.Host, detail, c.at, a.at)
}
