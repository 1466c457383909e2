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

// A robotsCopy is the state of one robots.txt from a record on.
type robotsCopy struct {
	at    place  // of that record
	sum   string // SHA-256 of the text, hex; "": there is none
	text  []byte
	open  string // why its verdicts can't be decided again; "": they can
	from  int64  // when it was fetched or confirmed
	until int64  // when it has to be fetched again

	rules    *robots.Rules // for the agent that asked last; nil: for none yet
	agent    string
	agents   int        // how often it was read, each time for another agent
	patterns [][][]byte // the first ones, as pattern finds them
}

const (
	// maxCopies is how many copies of one robots.txt are kept, and how often each is read.
	maxCopies = 8
	// maxPatterns is how many patterns of one copy are compared with a target that isn't whole.
	maxPatterns = 10_000
	// maxAge is how long a copy holds without being asked for again (RFC 9309, section 2.4).
	maxAge = 24 * time.Hour
	// nothingAllowed holds if robots.txt can't be fetched and the policy denies everything then.
	nothingAllowed = "User-agent: *\nDisallow: /\n"
)

// Reasons and violations of this file.
const (
	noText      = "the log doesn't have the text of robots.txt (robotscache.Config.RecordText)"
	staleCopy   = "an old copy of robots.txt is used, which the policy doesn't let"
	allIsOpen   = "robots.txt couldn't be fetched, and the policy allows everything then"
	allIsClosed = "robots.txt can't be fetched and nothing may be fetched, by the policy, but the record allows it"
	outOfDate   = "a robots.txt that was used for longer than the policy, or RFC 9309, says " +
		"(the server's Cache-Control isn't in the log)"
)

// robotsFetched takes a new copy of a robots.txt. The copies before it stay: a request continues
// with an older one while a new one is fetched.
func (a *auditor) robotsFetched(d *evidence.Decision) {
	c := a.newCopy(d)
	sum := fmt.Sprintf("%x", sha256.Sum256(c.text))
	// The text of the record may be the beginning of the file alone, which is shorter.
	partly := d.Text != "" && d.SHA256 != "" && c.sum != sum
	sameLength := d.Bytes == 0 || d.Bytes == int64(len(d.Text))
	a.cannot(partly && sameLength, "the text of robots.txt doesn't have its SHA-256")
	a.robotsAnswered(d)
	name, _ := sites.SplitURL(d.URL)
	copies := a.by.origins[name]
	switch {
	case d.Type == evidence.RobotsFetched:
		// Rules can be decided again from a whole text only. Without a hash the text is believed.
		leftOut := d.Text == "" && c.sum != sum && !isMissing(d.Status)
		if partly || leftOut {
			c.open = noText
		}
	case d.Type == evidence.RobotsRevalidated || d.SHA256 != "": // an old copy holds again, or longer
		unreachable := d.Type == evidence.RobotsUnreachable
		a.cannot(unreachable && !a.by.policy.ServeStale, staleCopy)
		c.takeOver(copies)
	// Otherwise the policy decides.
	case a.by.policy.Unreachable == "allow":
		c.open = allIsOpen
	default:
		c.text = []byte(nothingAllowed)
		a.cannot(d.Allowed, allIsClosed)
	}
	// The newest copy comes first, and the oldest is forgotten.
	copies = copies[:min(len(copies), maxCopies-1)]
	a.by.origins[strings.Clone(name)] = append([]*robotsCopy{c}, copies...)
}

// newCopy returns the copy of robots.txt that the record d holds, with the time for which it holds.
func (a *auditor) newCopy(d *evidence.Decision) *robotsCopy {
	c := &robotsCopy{
		at:   a.at,
		from: stamp(d.Time),
		text: []byte(d.Text),
		sum:  strings.ToLower(d.SHA256),
	}
	if d.Restored && !d.Start.IsZero() {
		c.from = min(c.from, stamp(d.Start)) // another process fetched it then
	}
	ttl := cmp.Or(d.TTL, maxAge)
	if most := a.by.policy.RobotsTTL; most > 0 && d.Type != evidence.RobotsUnreachable {
		ttl = min(ttl, most)
	}
	// Cache-Control may make it shorter, and never longer than RFC 9309 lets.
	c.until = c.from + int64(min(ttl, maxAge))
	return c
}

// isMissing reports whether a response of that status means that there is no robots.txt, which
// allows everything as an empty one does (RFC 9309, section 2.3.1.3).
func isMissing(status int) bool {
	return status >= 300 && status < 500 && status != 429
}

// takeOver fills c from the copy with its SHA-256, and leaves its times.
func (c *robotsCopy) takeOver(copies []*robotsCopy) {
	c.open = noText
	i := slices.IndexFunc(copies, func(old *robotsCopy) bool { return old.sum == c.sum })
	if i < 0 {
		return
	}
	// Rules that were read for an agent are taken over as well.
	from := c.from
	until := c.until
	*c = *copies[i]
	c.from = from
	c.until = until
}

// robotsStarted takes the start d of t, a request for robots.txt or for the target of a redirect
// from there.
func (a *auditor) robotsStarted(d *evidence.Decision, t *trip, target string) {
	t.origin = keyOfURL(d.URL)
	t.hops = 0
	from := a.by.trips[d.From]
	// A fetch follows redirects, each a separate trip. The last trip's record of robots.txt has the
	// number of hops.
	ofRobots := d.From != 0 && from != nil && from.origin != 0
	switch {
	case ofRobots && (from.leads == anywhere || from.leads == t.origin):
		t.origin = from.origin
		t.hops = from.hops + 1
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
		// Its exchange may be in the log of another process, which may be read later.
		a.restored[copied] = append(a.restored[copied], stamp(d.Start))
		return
	}
	// The trip of the last hop has the URL that the fetch began with.
	t := a.by.trips[d.Trip]
	ok := t != nil && t.origin == keyOfURL(d.URL) && t.hops == d.Hops
	delete(a.by.trips, d.Trip) // no other copy can come of it
	switch {
	case ok && t.status == d.Status && stamp(d.Time) >= t.ended-slack:
		a.fetches[copied] = append(a.fetches[copied], stamp(d.Time))
	case d.Status == 0 && d.Type == evidence.RobotsUnreachable: // no request could be sent
	case !ok:
		a.violation(BrokenVerdict, d.Host, string(d.Type)+" without the exchange that it came of", a.at)
	default:
		detail := fmt.Sprintf("%s of status %d, where the exchange gave %d", d.Type, d.Status, t.status)
		a.violation(BrokenVerdict, d.Host, detail, a.at)
	}
}

// copyOf returns the copy of robots.txt by which d was decided, with its rules for the agent of d,
// and the target that they decide. If the verdict can't be decided again, why is the reason.
func (a *auditor) copyOf(d *evidence.Decision) (c *robotsCopy, target, why string) {
	name, target := sites.SplitURL(d.URL)
	copies := a.by.origins[name]
	switch {
	case a.by.policy.Robots == "ignored":
		return nil, target, "robots.txt is ignored, by the policy"
	case len(copies) == 0:
		return nil, target, noText
	}
	c = inForce(copies, d)
	if c.open != "" {
		return c, target, c.open
	}
	// Nearly all verdicts are for the one agent of the policy, so the rules of one are kept.
	agent := cmp.Or(d.Agent, a.by.policy.Product)
	if c.rules != nil && c.agent == agent {
		return c, target, ""
	}
	c.agents++
	if c.agents > maxCopies { // reading it for each verdict anew would take too long
		return c, target, "a robots.txt by which verdicts for several agents were made in turn"
	}
	c.read(agent, a.by.policy)
	return c, target, ""
}

// inForce returns the copy by which d was decided: the copy that d names, if that was replaced
// within the last second, or else the newest.
func inForce(copies []*robotsCopy, d *evidence.Decision) *robotsCopy {
	for _, c := range copies {
		if c.sum[:min(len(c.sum), 8)] == d.Copy {
			return c
		}
		if stamp(d.Time) >= c.from+slack {
			break // all copies behind it were replaced longer ago
		}
	}
	return copies[0]
}

// read reads c for an agent.
func (c *robotsCopy) read(agent string, p *evidence.Policy) {
	options := robots.Options{LenientAgents: p.Lenient, AgentPatterns: p.Patterns}
	c.agent = strings.Clone(agent)
	c.rules = robots.ParseWith(c.text, options).Agent(c.agent)
	c.patterns = pattern.FindAllSubmatch(c.text, maxPatterns)
}

// decideAgain compares the verdict d on t with the verdict by the logged robots.txt. If they are
// equal, t gets the crawl-delay of that robots.txt.
func (a *auditor) decideAgain(d *evidence.Decision, t *trip) {
	a.tested(verdictsRight)
	c, target, why := a.copyOf(d)
	if why != "" {
		a.openEnded(verdictsRight, why)
		return
	}
	// The verdict on a target that isn't whole holds if no pattern reaches behind its sure
	// beginning.
	v := c.rules.TestReadings(target)
	sure := certain(target)
	if sure != target && c.reaches(sure) {
		a.openEnded(verdictsRight, "a URL that isn't whole in the log")
		return
	}
	if detail := contradicts(d, v, target); detail != "" {
		a.violation(BrokenVerdict, d.Host, detail, c.at, a.at)
		return
	}
	// While one request waits to fetch robots.txt again, the others continue with the copy that is
	// out of date.
	overdue := stamp(d.Time) - c.until - slack - a.run.jumped
	if d.Allowed && overdue > int64(a.by.policy.MaxWait) {
		a.openEnded(verdictsRight, outOfDate)
		return
	}
	// Only from here on the verdict is proved. The record's crawl-delay counts if it is longer.
	t.derived = true
	t.floor = max(t.floor, int64(c.rules.Floor(d.Time)))
}

// contradicts returns how the verdict v of robots.txt on a target contradicts the record d of it;
// "": it doesn't.
func contradicts(d *evidence.Decision, v robots.Verdict, target string) string {
	rule := cmp.Or(v.Rule, "no rule")
	switch {
	case v.Allowed != d.Allowed && v.Allowed:
		return fmt.Sprintf("robots.txt allows %s (%s)", target, rule)
	case v.Allowed != d.Allowed:
		return fmt.Sprintf("robots.txt refuses %s (%s)", target, rule)
	// An equal verdict with another reason: the record was changed, or the matcher is wrong.
	case d.Line != 0 && v.Line != d.Line:
		return fmt.Sprintf("robots.txt decides %s on line %d, not %d", target, v.Line, d.Line)
	case d.MatchedRule != "" && d.MatchedRule != v.Rule && isWhole(d.MatchedRule):
		return fmt.Sprintf("robots.txt decides %s by %s, not %s", target, rule, d.MatchedRule)
	}
	return ""
}

// decided takes a verdict on a URL.
func (a *auditor) decided(d *evidence.Decision) {
	t := a.trip(d)
	byRobots := d.Type == evidence.RobotsAllowed
	stated := byRobots && d.Purposes+d.Preferences != ""
	// The newest verdict counts: a request that waits is decided again when robots.txt has changed.
	t.judged = a.at
	t.decided = stamp(d.Time)
	t.allowed = byRobots && d.Allowed
	t.derived = false
	t.floor = int64(d.CrawlDelay)
	if byRobots || d.Type == evidence.BlockedByRobots {
		a.decideAgain(d, t)
	}
	if byRobots {
		a.fits(d)
	}
	if d.Type == evidence.Reserved || stated {
		a.consentAgain(d)
	}
	if !t.allowed { // no start follows
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
	case t.derived: // proved
	case a.by.policy.Robots == "ignored":
		a.openEnded(allowedByRobots, "robots.txt is ignored, by the policy")
	default:
		a.openEnded(allowedByRobots, "the verdict can't be decided again")
	}
	late := t.decided - stamp(d.Start)
	if !d.Start.IsZero() && late > slack {
		a.contradiction(fmt.Sprintf("allowed %v after the start", time.Duration(late)), t.judged)
	}
}

// certain returns the beginning of a target that certainly was in the request, up to an escape. It
// is all of the target if the record is whole. Redact may have replaced a value, a long URL is
// clipped, and a URL in the URL may have lost its userinfo.
func certain(target string) string {
	sure, _, _ := strings.Cut(strings.TrimSuffix(target, evidence.Clipped), evidence.Redacted)
	if strings.Contains(sure, ":") { // a search that is faster than embedded's, and fails for most
		sure = embedded.Split(sure, 2)[0]
	}
	if sure != target {
		sure, _, _ = strings.Cut(sure, "%") // the rest of an escape may be missing
	}
	return sure
}

// embedded finds the beginning of a URL in another one, as evidence.RedactURL does.
var embedded = regexp.MustCompile(`(?i)https?:|:[/\\]{2}`)

// isWhole reports whether a text of a record is whole: Redact has replaced no part of it, and it
// was short enough for its record.
func isWhole(text string) bool {
	return !strings.Contains(text, evidence.Redacted) && !strings.HasSuffix(text, evidence.Clipped)
}

// pattern finds the patterns of a robots.txt, behind keys that may lack their colon.
var pattern = regexp.MustCompile(`(?i)(?:^|[\r\n])[ \t]*(?:allow|dis)[^:\s]*(?:[ \t]*:|[ \t])[ \t]*([^#\r\n]*)`)

// reaches reports whether a pattern of c may match more of a target than the beginning that is
// sure.
func (c *robotsCopy) reaches(sure string) bool {
	if len(c.patterns) == maxPatterns {
		return true // there may be more
	}
	return slices.ContainsFunc(c.patterns, func(match [][]byte) bool {
		p := strings.TrimSpace(string(match[1]))
		literal := p[:strings.IndexAny(p+"$", "*$%")]
		goesOn := len(literal) < len(p) || len(p) > len(sure)
		n := min(len(literal), len(sure))
		return goesOn && literal[:n] == sure[:n]
	})
}

// reserved takes the record of a page that isn't fetched, or isn't handed over, since the site
// reserves it. Preferences in headers and pages are in the log only as the crawler has recorded
// them.
func (a *auditor) reserved(d *evidence.Decision) {
	a.fits(d)
	if d.Status == 0 { // by robots.txt: nothing may have been fetched
		a.decided(d)
		return
	}
	a.trip(d).reserved = true
}

// fits checks that the verdict d is about the purposes that the policy states.
func (a *auditor) fits(d *evidence.Decision) {
	if stated := a.by.policy.Purposes; d.Purposes != stated {
		detail := fmt.Sprintf("a page for %q by a crawler whose pages are for %q", d.Purposes, stated)
		a.violation(BrokenConsent, d.Host, detail, a.at)
	}
}

// handedOver checks that the page of t, which has ended with d, wasn't handed over for a purpose
// that the site reserves.
func (a *auditor) handedOver(d *evidence.Decision, t *trip) {
	purpose := reserves(d)
	if d.Type == evidence.Fetched && purpose != "" && !t.reserved {
		a.violation(BrokenConsent, d.Host, fmt.Sprintf("a page handed over to %s: %s", purpose, d.Preferences), a.at)
	}
	t.reserved = false // the next try has to be refused again
}

// maxPurposes is how many bytes of a record's purposes are read: no log has longer ones.
const maxPurposes = 48

// reserves returns the first purpose of a record that the preferences in it refuse, "" for none.
func reserves(d *evidence.Decision) string {
	// The license at their end is in the site's words, which may look like a preference.
	stated, _, _ := strings.Cut(", "+d.Preferences, ", license ")
	purposes := d.Purposes[:min(len(d.Purposes), maxPurposes)]
	for purpose := range strings.SplitSeq(purposes, ", ") {
		if purpose != "" && strings.Contains(stated, ", "+purpose+" refused") {
			return purpose
		}
	}
	return ""
}

// consentAgain compares the preferences on record with those that the logged robots.txt states.
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
	// First the preferences on record, then the verdict that follows from them.
	stated := c.rules.Preferences(target).String()
	purpose := reserves(d)
	detail := ""
	switch {
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
