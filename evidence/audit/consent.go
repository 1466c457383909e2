package audit

import (
	"fmt"
	"strings"

	"github.com/go-politeness/politeness/evidence"
)

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
