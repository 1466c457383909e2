package politeness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/robots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// ask decides by robots.txt whether the trip's URL may be fetched. A URL that may not
// be takes no slot, no page and no wait.
func (trip *trip) ask() error {
	if err := trip.judge(); err != nil {
		return err
	}
	if trip.verdict.Allowed {
		return nil
	}
	return trip.refusal()
}

// refusal is the error of a verdict that doesn't allow, or of a robots.txt that can't be had.
func (trip *trip) refusal() error {
	if e := trip.entry; e.Err != nil && !e.Stale {
		err := fmt.Errorf("%w: %w", ErrUnreachable, e.Err)
		if e.Denied {
			err = fmt.Errorf("%w: %w", ErrDisallowed, err)
		}
		return trip.fail(StageRobots, e.Expires, err)
	}
	if err := trip.reserved(trip.verdict.Preferences); err != nil {
		return trip.fail(StageRobots, time.Time{}, err)
	}
	v := trip.verdict
	return trip.fail(StageRobots, time.Time{},
		fmt.Errorf("%w by robots.txt, line %d, group %q: %s", ErrDisallowed, v.Line, v.Group, v.Rule))
}

// judge finds and reports the verdict for the trip's URL, and its crawl-delay,
// fetching robots.txt when it isn't known.
func (trip *trip) judge() error {
	t := trip.t
	trip.asked = time.Now()
	if t.robots == nil {
		trip.verdict = robots.Verdict{Allowed: true}
		trip.recordVerdict()
		return nil
	}
	entry, ok := t.robots.Hit(trip.req.URL, trip.asked)
	if !ok {
		err := trip.foresee() // its fetch has to wait for the host as well
		if err != nil {
			return err
		}
		if entry, err = t.robots.Get(&trip.wait, trip.req.URL); err != nil {
			return trip.noRobots(err)
		}
		trip.asked = time.Now()
	}
	trip.apply(entry)
	trip.recordVerdict()
	return nil
}

// noRobots reports that nothing could be decided: the fetch of robots.txt got no
// turn, or the caller left. The fetch's own error says when to come back.
func (trip *trip) noRobots(err error) error {
	var fetch *Error
	if !errors.As(err, &fetch) {
		trip.recordFailure(err)
		return trip.fail(StageRobots, time.Time{}, err)
	}
	if err := trip.outlasts(fetch.RetryAt, err); err != nil {
		return err
	}
	if !trip.silent() {
		d := trip.decision(evidence.SlotTimeout, time.Now())
		d.Reason, d.RetryAt = "no turn to fetch robots.txt: "+fetch.Err.Error(), fetch.RetryAt
		trip.record(&d)
	}
	return trip.fail(StageRobots, fetch.RetryAt, fetch.Err)
}

// overtaken gives the turn back when a newer robots.txt came in during a wait for it
// that was noticeable, and forbids the request or asks for a longer delay.
func (trip *trip) overtaken() bool {
	if trip.entry == nil || !trip.waited {
		return false
	}
	entry, ok := trip.t.robots.Peek(trip.req.URL)
	if !ok || entry == trip.entry {
		return false
	}
	floor := trip.floor
	trip.asked = time.Now()
	trip.apply(entry)
	if trip.verdict.Allowed && trip.floor <= floor {
		return false
	}
	trip.leave("robots.txt changed during the wait")
	return true
}

// apply applies what is known of the origin.
func (trip *trip) apply(entry *robotscache.Entry) {
	trip.entry = entry
	if entry.Denied {
		trip.verdict, trip.floor = robots.Verdict{Reason: entry.Reason}, 0
		return
	}
	target := trip.target()
	trip.verdict, trip.floor = entry.Rules.Test(target), entry.Rules.Floor(trip.asked)
	trip.verdict.Reason = entry.Reason
	trip.consult(target)
}

func (trip *trip) recordVerdict() {
	if trip.silent() {
		return
	}
	var d evidence.Decision
	trip.describe(&d, evidence.BlockedByRobots, trip.asked)
	switch {
	case trip.verdict.Allowed:
		d.Type, d.Allowed = evidence.RobotsAllowed, true
	case trip.reserved(trip.verdict.Preferences) != nil:
		d.Type = evidence.Reserved
	}
	d.MatchedRule, d.Line, d.Group = trip.verdict.Rule, trip.verdict.Line, trip.verdict.Group
	switch {
	case trip.t.robots == nil:
		d.Reason = "robots.txt is ignored by configuration"
	default:
		d.CrawlDelay, _ = trip.entry.Rules.CrawlDelay()
		d.Confidence, d.Reason = trip.entry.Confidence, trip.verdict.Reason
		if trip.entry.Denied {
			d.RetryAt = trip.entry.Expires
		}
	}
	trip.describeConsent(&d, trip.verdict.Preferences)
	trip.record(&d)
}

// robotsTransport is what robots.txt is fetched through: each hop takes a turn on its own host and
// moves that host's state as any request does, but costs no budget and asks no robots.txt.
type robotsTransport struct{ t *Transport }

func (rt robotsTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	t := rt.t
	trip := t.begin(req, kindRobots)
	defer trip.end()
	if err := trip.identify(); err != nil {
		return nil, err // the origin's robots.txt can't be had, and that is remembered
	}
	if entry, ok := t.robots.PeekStale(req.URL); ok {
		trip.floor = entry.Rules.Floor(time.Now())
	}
	if err := rt.turn(trip); err != nil {
		return nil, &robotscache.RefusedError{Err: err}
	}
	resp, failure, err := trip.send()
	if err != nil {
		return nil, &robotscache.RefusedError{Err: err}
	}
	trip.learn(resp, failure)
	return trip.handOver(resp, failure)
}

// turn takes the hop's turn. Our own wait isn't the origin's slowness.
func (robotsTransport) turn(trip *trip) error {
	queue, sent := robotscache.Queue(trip.req.Context())
	defer sent()
	trip.wait.Context = queue
	if err := trip.waitTurn(); err != nil {
		return err
	}
	return trip.start()
}

// recordRobots reports a fetch of robots.txt.
func (t *Transport) recordRobots(ctx context.Context, e robotscache.Event) {
	if e.Unreachable {
		t.tally.reach(e.Origin, &UnreachableStatus{Origin: e.Origin, Reason: e.Reason, Until: e.Until, Fallback: e.Stale || t.robotsOpen})
	} else {
		t.tally.reach(e.Origin, nil)
	}
	if t.evidence == nil {
		return
	}
	d := evidence.Decision{
		Type: evidence.RobotsFetched, Time: time.Now(), Method: http.MethodGet, URL: e.Origin + "/robots.txt",
		RobotsTxt: true, Allowed: true, Status: e.Status, Bytes: e.Bytes, Hops: e.Hops, Start: e.Start, Duration: e.Duration,
		TTL: e.TTL, SHA256: e.SHA256, Text: e.Text, Until: e.Until, Reason: e.Reason,
	}
	if req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL, http.NoBody); err == nil {
		d.Host = t.hostKey(req)
	}
	if e.URL != d.URL {
		d.Location = redactLocation(e.URL)
	}
	switch {
	case e.Unreachable:
		d.Type, d.RetryAt = evidence.RobotsUnreachable, e.Until
		d.Allowed = e.Stale || t.robotsOpen
	case e.Revalidated:
		d.Type = evidence.RobotsRevalidated
	}
	if e.Restored {
		d.Restored, d.Reason = true, strings.TrimSuffix("restored from the store: "+e.Reason, ": ")
	}
	if e.StoreErr != nil {
		d.Err = e.StoreErr.Error()
	}
	t.evidence.pass(ctx, &d)
	if e.StoreErr != nil && t.newLoss(e.StoreErr) {
		t.evidence.pass(ctx, &evidence.Decision{
			Type: evidence.StateLost, Time: time.Now(), URL: d.URL, Host: d.Host, Allowed: true, Reason: d.Err,
		})
	}
}
