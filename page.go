package politeness

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/pagehead"
	"github.com/go-politeness/politeness/robots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A page holds the statements of a site about the URL of a request: in robots.txt, which gives the
// verdict, in the headers of the page, and in the page itself.
type page struct {
	subject  *subject
	purposes []robots.Purpose   // Config.Purposes
	asked    time.Time          // when the verdict was found
	entry    *robotscache.Entry // robots.txt of the origin; nil before it is asked for, and if it is ignored
	verdict  robots.Verdict
	floor    time.Duration  // delay that robots.txt asks for
	head     *pagehead.Head // directives of the page; nil without ResponseLimits.CheckIndexing and Purposes
}

// judge sets the verdict and the floor by the origin's robots.txt. A purpose that robots.txt
// reserves makes the verdict a refusal.
func (p *page) judge(entry *robotscache.Entry) {
	p.entry = entry
	// Without a robots.txt there are no rules to match, only the policy of Config.Robots.
	if entry.Denied {
		p.verdict = robots.Verdict{Reason: entry.Reason}
		p.floor = 0
		return
	}
	path := p.subject.path()
	p.verdict = entry.Rules.TestReadings(path)
	if p.verdict.Allowed && p.subject.target.Opaque != "" {
		// The URL is sent in this spelling, so rules for this spelling apply, too.
		p.verdict = entry.Rules.TestReadings(p.subject.target.RequestURI())
	}
	p.floor = entry.Rules.Floor(p.asked)
	p.verdict.Reason = entry.Reason
	// A path that is disallowed isn't fetched, so the preferences for its use are moot.
	if !p.verdict.Allowed || !p.wantsPreferences() {
		return
	}
	p.verdict.Preferences = entry.Rules.Preferences(path)
	if err := p.reserved(p.verdict.Preferences); err != nil {
		p.verdict.Allowed = false
		p.verdict.Reason = err.Error()
	}
}

// wantsPreferences reports whether anything depends on the preferences of robots.txt for the
// page's use.
func (p *page) wantsPreferences() bool {
	switch {
	case len(p.purposes) > 0:
		return true
	case p.subject.kind == kindInquiry: // Check returns them
		return true
	case p.subject.kind == kindPage:
		return p.subject.recorder != nil || p.head != nil
	}
	return false
}

// lost returns the error of a robots.txt that can't be fetched; nil: it was, or it is ignored.
func (p *page) lost() error {
	e := p.entry
	// A stale copy still applies: only its renewal has failed.
	if e == nil || e.Err == nil || e.Stale {
		return nil
	}
	err := fmt.Errorf("%w: %w", ErrUnreachable, e.Err)
	if e.Denied && !errors.Is(e.Err, robotscache.ErrNoAnswer) {
		err = disallowed{err} // a server is there, and hasn't allowed anything
	}
	return p.subject.fail(StageRobots, e.Expires, err)
}

// refusal returns the error of a verdict that doesn't allow, or of a robots.txt that can't be
// fetched.
func (p *page) refusal() error {
	if err := p.lost(); err != nil {
		return err
	}
	// If the verdict isn't about the page's use, it comes from a rule.
	err := p.reserved(p.verdict.Preferences)
	if err == nil {
		v := p.verdict
		err = fmt.Errorf("%w by robots.txt, line %d, group %q: %s", ErrDisallowed, v.Line, v.Group, v.Rule)
	}
	return p.subject.fail(StageRobots, time.Time{}, err)
}

// hours returns the Visit-time of robots.txt. None: the crawler may come at any time.
func (p *page) hours() []robots.Window {
	if p.entry == nil || p.entry.Denied { // robots.txt is ignored, or can't be fetched
		return nil
	}
	return p.entry.Rules.VisitTime()
}

// opens returns the first moment, at or after t, that is in one of hours. Without hours that is t.
func opens(hours []robots.Window, t time.Time) time.Time {
	first := t
	for i, window := range hours {
		if next := window.Next(t); i == 0 || next.Before(first) {
			first = next
		}
	}
	return first
}

// reserved returns an error if the preferences reserve a purpose of the page.
func (p *page) reserved(stated robots.Preferences) error {
	purpose, refused := stated.Refused(p.purposes)
	if !refused {
		return nil
	}
	return fmt.Errorf("%w: %s: %s", ErrReserved, purpose, stated.For(purpose).Source)
}

// readHeader adds the preferences of the page's headers to those of robots.txt. It refuses the
// page if they reserve one of its purposes.
func (p *page) readHeader(resp *http.Response, product string) error {
	// Without evidence, purposes and CheckIndexing nothing depends on it, and reading costs.
	if p.subject.recorder == nil && p.head == nil {
		return nil
	}
	if stated := robots.HeaderPreferences(resp.Header, product); stated != (robots.Preferences{}) {
		p.verdict.Preferences = p.verdict.Preferences.Merge(stated)
		if err := p.refuseReserved(StageResponse, p.verdict.Preferences, resp.StatusCode); err != nil {
			return err
		}
	}
	if p.head != nil {
		p.head.Begin(resp.Header, product, p.verdict.Preferences)
	}
	return nil
}

// readBody reads <meta> elements in a piece of the body. It refuses the page if they reserve one
// of its purposes: when its head ends, or at the end of a page whose head has no end.
func (p *page) readBody(piece []byte, end bool, status int) (headEnds bool, err error) {
	if p.head == nil {
		return false, nil
	}
	headEnds = p.head.Write(piece)
	if headEnds || end {
		err = p.refuseReserved(StageBody, p.head.Preferences(), status)
	}
	return headEnds, err
}

// refuseReserved records and returns the refusal of a page that was answered, if the preferences
// reserve one of its purposes.
func (p *page) refuseReserved(stage Stage, stated robots.Preferences, status int) error {
	err := p.reserved(stated)
	if err == nil {
		return nil
	}
	p.subject.report(evidence.Reserved, func(d *evidence.Decision) {
		d.Status = status
		d.Reason = err.Error()
		p.describe(d, stated)
	})
	return p.subject.fail(stage, time.Time{}, err)
}

// record records the verdict.
func (p *page) record() {
	s := p.subject
	if s.recorder == nil {
		return
	}
	var d evidence.Decision
	s.describe(&d, evidence.BlockedByRobots, p.asked)
	switch {
	case p.verdict.Allowed:
		d.Type = evidence.RobotsAllowed
		d.Allowed = true
	case p.reserved(p.verdict.Preferences) != nil:
		d.Type = evidence.Reserved
	}
	d.MatchedRule = p.verdict.Rule
	d.Line = p.verdict.Line
	d.Group = p.verdict.Group
	if p.entry == nil {
		d.Reason = "robots.txt is ignored by configuration"
	} else {
		// The crawl-delay is that of robots.txt itself. The delay that applies is on the record of
		// the start.
		d.CrawlDelay, _ = p.entry.Rules.CrawlDelay()
		d.Confidence = p.entry.Confidence
		d.Reason = p.verdict.Reason
		d.Copy = p.entry.Copy()
		if p.entry.Denied {
			d.RetryAt = p.entry.Expires
		}
	}
	p.describe(&d, p.verdict.Preferences)
	s.recorder.Pass(s.ctx, &d)
}

// recordDirectives records directives that keep the page from being indexed, its links from being
// followed, or it or its images from being given to models.
func (p *page) recordDirectives(now time.Time) {
	if p.head == nil {
		return
	}
	tags := p.head.Directives()
	indexes := !tags.NoIndexAt(now) && !tags.NoFollow
	trains := !tags.NoAI && !tags.NoImageAI && !tags.NoML
	if indexes && trains {
		return
	}
	p.subject.report(evidence.NoIndex, func(d *evidence.Decision) {
		d.Time = now
		d.Allowed = true
		d.Directives = tags.String()
	})
}

// preferences returns the preferences for the page's use as far as the page has been read. A body
// may be closed while it is read, so p.head keeps the page's own preferences, under a lock.
func (p *page) preferences() robots.Preferences {
	if p.head == nil {
		return p.verdict.Preferences
	}
	return p.verdict.Preferences.Merge(p.head.Preferences())
}

// describe adds the page's purposes, and the preferences for its use, to a record.
func (p *page) describe(d *evidence.Decision, stated robots.Preferences) {
	if p.subject.kind == kindRobots {
		return
	}
	d.Purposes = p.subject.recorder.Purposes()
	d.Preferences = stated.String()
	// An auditor finds by the hash which robots.txt has stated it.
	if d.Preferences != "" && p.entry != nil {
		d.SHA256 = p.entry.SHA256()
	}
}

// checkPurposes refuses values that are no purposes.
func checkPurposes(purposes []robots.Purpose) error {
	for i, p := range purposes {
		if !p.Valid() {
			return fmt.Errorf("[%d] is %v: use robots.Train, robots.Ground or robots.Search", i, p)
		}
	}
	return nil
}
