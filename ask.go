package politeness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/robots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// ask decides by robots.txt whether the trip's URL may be fetched. A URL that
// may not takes no slot, no page and no wait.
func (trip *trip) ask() error {
	if err := trip.judge(); err != nil {
		return err
	}
	if trip.verdict.Allowed {
		return nil
	}
	return trip.refusal()
}

// refusal is the error of a verdict that doesn't allow.
func (trip *trip) refusal() error {
	if trip.entry.Denied {
		return trip.fail(StageRobots, trip.entry.Expires, &robotsError{why: ": robots.txt can't be had: " + trip.entry.Reason})
	}
	v := trip.verdict
	return trip.fail(StageRobots, time.Time{},
		&robotsError{why: fmt.Sprintf(" by robots.txt, line %d, group %q: %s", v.Line, v.Group, v.Rule)})
}

// judge finds and reports the verdict for the trip's URL, and its crawl-delay,
// fetching robots.txt when it isn't known.
func (trip *trip) judge() error {
	t := trip.t
	if trip.verdict.Allowed || t.slow { // this is another try, or others took their time
		trip.asked = time.Now()
	}
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
		if entry, err = trip.getRobots(); err != nil {
			return trip.noRobots(err)
		}
		trip.asked = time.Now()
	}
	trip.apply(entry)
	trip.recordVerdict()
	return nil
}

// nestedWait bounds how long an Evidence waits for a robots.txt. The fetch that it
// waits for may be the very one that waits for it.
const nestedWait = 10 * time.Second

// getRobots waits for the robots.txt of the trip's origin.
func (trip *trip) getRobots() (*robotscache.Entry, error) {
	ctx := trip.original.Context()
	if trip.nested {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithValue(ctx, nestedKey{}, true), nestedWait)
		defer cancel()
	}
	return trip.t.robots.Get(ctx, trip.req.URL)
}

// noRobots reports that nothing could be decided: the fetch of robots.txt got no
// turn, or the caller left. The fetch's own error says when to come back.
func (trip *trip) noRobots(err error) error {
	var fetch *Error
	if !errors.As(err, &fetch) {
		trip.recordFailure(err)
		return trip.fail(StageRobots, time.Time{}, err)
	}
	if !trip.silent {
		d := trip.decision(evidence.SlotTimeout, time.Now())
		d.Reason, d.RetryAt = "no turn to fetch robots.txt: "+fetch.Err.Error(), fetch.RetryAt
		trip.record(&d)
	}
	return trip.fail(StageRobots, fetch.RetryAt, fetch.Err)
}

// overtaken gives the turn back when a newer robots.txt came in during the wait
// for it, and forbids the request or asks for a longer delay.
func (trip *trip) overtaken() bool {
	if trip.entry == nil || !trip.waited(trip.start) {
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
	trip.verdict, trip.floor = entry.Rules.Test(trip.target()), entry.Rules.Floor(trip.asked)
	trip.verdict.Reason = entry.Reason
}

// A robotsError is ErrDisallowed with the rule that decided.
type robotsError struct{ why string }

func (e *robotsError) Error() string { return ErrDisallowed.Error() + e.why }
func (e *robotsError) Unwrap() error { return ErrDisallowed }

func (trip *trip) recordVerdict() {
	if trip.silent {
		return
	}
	var d evidence.Decision
	trip.describe(&d, evidence.BlockedByRobots, trip.asked)
	if trip.verdict.Allowed {
		d.Type, d.Allowed = evidence.RobotsAllowed, true
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
	trip.record(&d)
}

// robotsTransport is what robots.txt is fetched through: each hop takes a turn
// on its own host and moves that host's state as any request does, but costs no
// budget and asks no robots.txt.
type robotsTransport struct{ t *Transport }

func (rt robotsTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	t := rt.t
	trip := t.begin(req)
	defer trip.end()
	trip.nested = trip.nested || marked(req.Context())
	if err := checkURL(req.URL); err != nil {
		return nil, &Error{Stage: StageRequest, URL: redact(req.URL), Err: err}
	}
	trip.host = t.hostKey(req)
	trip.id = t.trips.Add(1)
	trip.exempt = true
	t.sign(trip)
	if entry, ok := t.robots.PeekStale(req.URL); ok {
		trip.floor = entry.Rules.Floor(trip.asked)
	}
	if err := trip.waitTurn(); err != nil {
		return nil, &robotscache.RefusedError{Err: err}
	}
	if err := trip.depart(); err != nil {
		return nil, &robotscache.RefusedError{Err: err}
	}
	resp, err := trip.send()
	if err := trip.learn(resp, err); err != nil {
		return nil, err
	}
	return trip.handOver(resp)
}

// recordRobots reports a fetch of robots.txt.
func (t *Transport) recordRobots(ctx context.Context, e robotscache.Event) {
	if t.evidence == nil {
		return
	}
	d := evidence.Decision{
		Type: evidence.RobotsFetched, Time: time.Now(), Method: http.MethodGet, URL: e.Origin + "/robots.txt", Agent: t.product,
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
	case e.Restored:
		d.Reason = "restored from the store"
	}
	if e.StoreErr != nil {
		d.Err = e.StoreErr.Error()
	}
	t.evidence.Pass(ctx, &d, t.evidence.Nested() || marked(ctx))
}
