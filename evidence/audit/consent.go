package audit

import (
	"fmt"
	"strings"

	"github.com/go-politeness/politeness/evidence"
)

// consent checks that what a site states about the use of a page is what robots.txt says, and that
// no page was fetched or handed over for a purpose that the site reserves. What headers and pages
// state is in the log only as the crawler has recorded it.
func (a *auditor) consent(d *evidence.Decision) {
	if p := a.by.policy; (d.Type == evidence.RobotsAllowed || d.Type == evidence.Reserved) && d.Purposes != p.Purposes {
		a.violation(BrokenConsent, d.Host, fmt.Sprintf("a page for %q by a crawler whose pages are for %q", d.Purposes, p.Purposes), a.at)
	}
	key := keyOfTry(a.by, d)
	switch d.Type {
	case evidence.RobotsAllowed:
		if d.Purposes != "" || d.Preferences != "" {
			a.consentAgain(d)
		}
	case evidence.Reserved:
		if d.Status != 0 {
			a.reserved[key] = true
			return
		}
		a.putTrip(d, trip{at: a.at, time: stamp(d.Time)}) // by robots.txt: nothing may have been fetched
		a.leaveTrip(d)
		a.consentAgain(d)
	case evidence.Fetched:
		if purpose := reserves(d); purpose != "" && !a.reserved[key] {
			a.violation(BrokenConsent, d.Host, fmt.Sprintf("a page handed over to %s: %s", purpose, d.Preferences), a.at)
		}
		delete(a.reserved, key)
	}
}

// reserves returns the first purpose of a record that the preferences in it refuse, "" for none.
func reserves(d *evidence.Decision) string {
	for purpose := range strings.SplitSeq(d.Purposes, ", ") {
		if purpose != "" && strings.Contains(", "+d.Preferences, ", "+purpose+" refused") {
			return purpose
		}
	}
	return ""
}

// consentAgain compares the preferences on record with those that robots.txt, as logged, states.
func (a *auditor) consentAgain(d *evidence.Decision) {
	a.tallies[reservationsKept].tested++
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
