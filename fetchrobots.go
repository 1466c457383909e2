package politeness

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/tally"
	"github.com/go-politeness/politeness/publicnet"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// robotsTransport sends the requests for robots.txt: each hop takes a turn on its own host and
// moves that host's state as any request does, but costs no budget and asks no robots.txt.
type robotsTransport struct{ t *Transport }

// RoundTrip implements http.RoundTripper.
func (rt robotsTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	over, _ := req.Context().Value(fetchOver{}).(*over)
	trip := rt.t.begin(req, kindRobots, over)
	defer trip.end()
	result, err := trip.sendHop()
	if err != nil {
		refused := &robotscache.RefusedError{Err: err}
		// If the user's own rule refuses, or the URL can't be requested, robotscache needs no
		// second try.
		if e, ok := errors.AsType[*Error](err); ok && (e.Stage == StageRequest || e.Stage == StageRule) {
			refused.Final = e.Err.Error() // also at every later fetch
		}
		return nil, refused
	}
	trip.learn(result)
	// A private address is refused on this machine, and says nothing about the origin's rules.
	if errors.Is(result.failure, publicnet.ErrPrivate) && !robotscache.Redirected(req.Context()) {
		return nil, &robotscache.RefusedError{Err: result.failure} // no site has said anything
	}
	return trip.handOver(result)
}

// sendHop sends a hop of a fetch of robots.txt, in its turn.
func (trip *trip) sendHop() (result, error) {
	ctx := trip.req.Context()
	err := trip.identify()
	// The hop counts as the latest also if it is refused: its record names the one before.
	if hop := robotscache.LatestHop(ctx); hop != nil {
		trip.subject.from = hop.Swap(trip.subject.id)
	}
	if err != nil {
		return result{}, err
	}
	// Until the new robots.txt is there, the crawl-delay of the old one applies.
	entry, known := trip.t.robots.PeekStale(trip.original.URL)
	if known {
		trip.page.floor = entry.Rules.Floor(time.Now())
	} else {
		trip.page.floor = trip.t.kin.floor(trip.original.URL)
		trip.turn.blind = trip.page.floor == 0
	}
	if err := trip.queue(); err != nil {
		return result{}, err
	}
	return trip.send()
}

// queue takes the turn of a hop. Our own wait isn't the origin's slowness.
func (trip *trip) queue() error {
	ctx, sent := robotscache.Queue(trip.subject.ctx)
	defer sent()
	trip.turn.wait.Context = ctx
	if err := trip.waitTurn(); err != nil {
		return err
	}
	if err := trip.turn.begin(); err != nil {
		return trip.noTurn(StageTurn, err)
	}
	return nil
}

// recordRobots records a fetch of robots.txt.
func (t *Transport) recordRobots(ctx context.Context, e robotscache.Event) {
	allowed := !e.Unreachable || e.Stale || t.cfg.Robots.OnUnreachable == robotscache.Allow
	var down *tally.Unreachable // nil: the origin can be reached
	if e.Unreachable {
		down = &tally.Unreachable{Origin: e.Origin, Reason: e.Reason, Until: e.Until, Fallback: allowed}
	}
	t.tally.Reach(e.Origin, down)
	lost := t.tally.Lost(e.StoreErr)
	if t.recorder == nil {
		return
	}
	d := t.describeRobots(ctx, &e)
	d.Allowed = allowed
	t.recorder.Pass(ctx, &d)
	if lost {
		t.recorder.Pass(ctx, &evidence.Decision{
			Type:    evidence.StateLost,
			Time:    time.Now(),
			URL:     d.URL,
			Host:    d.Host,
			Allowed: true,
			Reason:  d.Err,
		})
	}
}

// describeRobots returns the record of a fetch of robots.txt, without the verdict.
func (t *Transport) describeRobots(ctx context.Context, e *robotscache.Event) evidence.Decision {
	d := evidence.Decision{
		Type:      evidence.RobotsFetched,
		Time:      time.Now(),
		Method:    http.MethodGet,
		URL:       e.Origin + "/robots.txt",
		RobotsTxt: true,
		Status:    e.Status,
		Bytes:     e.Bytes,
		Hops:      e.Hops,
		Start:     e.Start,
		Duration:  e.Duration,
		TTL:       e.TTL,
		SHA256:    e.SHA256,
		Text:      e.Text,
		Until:     e.Until,
		Reason:    e.Reason,
	}
	switch {
	case e.Unreachable:
		d.Type = evidence.RobotsUnreachable
		d.RetryAt = e.Until
	case e.Revalidated:
		d.Type = evidence.RobotsRevalidated
	}
	// The host key is found by the user's function, which wants a request.
	if req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL, http.NoBody); err == nil {
		d.Host = t.cfg.HostKey(req)
	}
	if e.URL != d.URL {
		d.Location = evidence.RedactURL(e.URL)
	}
	switch {
	case e.Restored:
		d.Restored = true
		d.Reason = strings.TrimSuffix("restored from the store: "+e.Reason, ": ")
	case e.Shared:
		d.Restored = true
		d.Reason = strings.TrimSuffix("fetched by another Transport with the same limiter: "+e.Reason, ": ")
	default:
		if hop := robotscache.LatestHop(ctx); hop != nil {
			d.Trip = hop.Load() // of the request that had the response
		}
	}
	if e.StoreErr != nil {
		d.Err = e.StoreErr.Error()
	}
	return d
}
