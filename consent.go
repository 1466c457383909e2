package politeness

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/robots"
)

// checkPurposes wants each of the purposes to be one.
func checkPurposes(purposes []robots.Purpose) error {
	for i, p := range purposes {
		if !p.Valid() {
			return fmt.Errorf("[%d] is %v: use robots.Train, robots.Ground or robots.Search", i, p)
		}
	}
	return nil
}

// consult reads what robots.txt states about the use of a page that it allows, where somebody wants
// to know. A purpose that it reserves makes the verdict a refusal.
func (trip *trip) consult(target string) {
	t := trip.t
	told := trip.kind == kindInquiry || trip.kind == kindPage && (!trip.silent() || trip.index != nil)
	if !trip.verdict.Allowed || !told && len(t.purposes) == 0 {
		return
	}
	trip.verdict.Preferences = trip.entry.Rules.Preferences(target)
	if err := trip.reserved(trip.verdict.Preferences); err != nil {
		trip.verdict.Allowed, trip.verdict.Reason = false, err.Error()
	}
}

// reserved returns an error where what is stated reserves what the page is for.
func (trip *trip) reserved(stated robots.Preferences) error {
	purpose, refused := stated.Refused(trip.t.purposes)
	if !refused {
		return nil
	}
	return fmt.Errorf("%w: %s: %s", ErrReserved, purpose, stated.For(purpose).Source)
}

// heed takes in what the headers of a page state about its use, and refuses the page where they
// reserve what it is for.
func (trip *trip) heed(resp *http.Response) error {
	if trip.silent() && trip.index == nil {
		return nil
	}
	stated := robots.HeaderPreferences(resp.Header, trip.t.product)
	if stated == (robots.Preferences{}) {
		return nil
	}
	trip.verdict.Preferences = trip.verdict.Preferences.Merge(stated)
	return trip.refuseReserved(StageResponse, trip.verdict.Preferences)
}

// heedPage is heed for the <meta> elements of a page, as far as it has been read.
func (trip *trip) heedPage() error {
	return trip.refuseReserved(StageBody, trip.index.preferences())
}

// stated returns what is known of a page's preferences once its headers are there. A body may be
// closed while it is read, so that what the page itself states is kept by trip.index.
func (trip *trip) stated() robots.Preferences {
	if trip.index == nil {
		return trip.verdict.Preferences
	}
	return trip.verdict.Preferences.Merge(trip.index.preferences())
}

// refuseReserved reports and returns the refusal of a page that was asked for, if it is one.
func (trip *trip) refuseReserved(stage Stage, stated robots.Preferences) error {
	err := trip.reserved(stated)
	if err == nil {
		return nil
	}
	if !trip.silent() {
		d := trip.decision(evidence.Reserved, time.Now())
		d.Status, d.Reason = trip.status, err.Error()
		trip.describeConsent(&d, stated)
		trip.record(&d)
	}
	return trip.fail(stage, time.Time{}, err)
}

// describeConsent adds to a record what the page is for, and what is stated about its use.
func (trip *trip) describeConsent(d *evidence.Decision, stated robots.Preferences) {
	if trip.kind == kindRobots {
		return
	}
	d.Purposes = trip.t.purposesText
	if d.Preferences = stated.String(); d.Preferences != "" && trip.entry != nil {
		d.SHA256 = trip.entry.SHA256()
	}
}

// purposesText is "train, search".
func purposesText(purposes []robots.Purpose) string {
	names := make([]string, len(purposes))
	for i, p := range purposes {
		names[i] = p.String()
	}
	return strings.Join(names, ", ")
}
