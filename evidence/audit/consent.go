package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/robots"
)

// consent checks that what a site states about the use of a page is what robots.txt says, and that
// no page was fetched or handed over for a purpose that the site reserves. What headers and pages
// state is in the log only as the crawler has recorded it.
func (a *auditor) consent(d *evidence.Decision) {
	attempt := tryKey{a.by.index, d.Trip, d.Attempt}
	if p := a.by.policy; p != nil && (d.Type == evidence.RobotsAllowed || d.Type == evidence.Reserved) && d.Purposes != p.Purposes {
		a.violation(BrokenConsent, d.Host, fmt.Sprintf("a page for %q by a crawler whose pages are for %q", d.Purposes, p.Purposes), a.at)
	}
	switch d.Type {
	case evidence.RobotsAllowed:
		if d.Purposes != "" || d.Preferences != "" {
			a.consentAgain(d)
		}
	case evidence.Reserved:
		a.report.Proofs.Reserved++
		if d.Status == 0 { // by robots.txt: nothing may have been fetched
			a.trips.put(a.by, d, trip{at: a.at, time: stamp(d.Time), asker: askerOf(d)})
			a.trips.leave(a.by, d)
			a.consentAgain(d)
			return
		}
		a.reserved[attempt] = true
	case evidence.Fetched:
		if purpose := reserves(d); purpose != "" && !a.reserved[attempt] {
			a.violation(BrokenConsent, d.Host, fmt.Sprintf("a page handed over to %s: %s", purpose, d.Preferences), a.at)
		}
		delete(a.reserved, attempt)
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
	name, target := splitURL(d.URL)
	var copies []*robotsCopy
	if o := a.by.origins[name]; o != nil {
		copies = slices.DeleteFunc(slices.Clone(o.inForce(stamp(d.Time))), func(c *robotsCopy) bool { return c.kind != asText })
	}
	why := ""
	_, unsure := uncertain(d.URL, target)
	switch {
	case len(copies) == 0:
		why = noText
	case unsure || strings.HasSuffix(d.Preferences, evidence.Clipped):
		why = "a URL, or preferences, that aren't whole in the log"
	case d.Group != "" && d.Group != "*" && !strings.EqualFold(d.Group, d.Agent):
		why = "a group of another name, which only a lenient crawler obeys"
	}
	if why != "" {
		a.report.Proofs.OpenConsent++
		a.openEnded(reservationsKept, why)
		return
	}
	stated := ""
	for _, c := range copies {
		if stated = robots.Parse(c.text).Agent(d.Agent).Preferences(target).String(); stated == d.Preferences {
			break
		}
	}
	a.report.Proofs.Consent++
	purpose, at := reserves(d), copies[0].at
	switch {
	case stated != d.Preferences:
		a.violation(BrokenConsent, d.Host, fmt.Sprintf("robots.txt states %q about %s, not %q", stated, target, d.Preferences), at, a.at)
	case d.Type == evidence.RobotsAllowed && purpose != "":
		a.violation(BrokenConsent, d.Host, fmt.Sprintf("allowed to %s, which robots.txt reserves: %s", purpose, d.Preferences), at, a.at)
	case d.Type == evidence.Reserved && purpose == "":
		a.violation(BrokenConsent, d.Host, fmt.Sprintf("reserved, though robots.txt reserves none of %s", d.Purposes), at, a.at)
	}
}
