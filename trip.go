package politeness

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/hostname"
	"github.com/go-politeness/politeness/internal/waits"
	"github.com/go-politeness/politeness/robots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A kind says what a trip is for, and so which stages it passes.
type kind uint8

const (
	kindPage     kind = iota // caller's request: it passes every stage
	kindRobots               // hop of a fetch of robots.txt: it spends no budget and isn't repeated
	kindInquiry              // question of Check or Sitemaps: the verdict is recorded, nothing is sent
	kindForecast             // question of Next: nothing is recorded, nothing is sent
)

// A trip is one request on its way through the stages. It knows what is held, and
// end gives that back.
type trip struct {
	t    *Transport
	kind kind
	wait waitContext // bounds every wait before the request is sent

	original *http.Request // the caller's
	req      *http.Request // what is sent: original, or a clone of it
	clone    http.Request  // room for the clone that sign makes of nearly every request
	body     io.Closer     // body of req, which is ours to close until it is sent; then nil

	id      uint64 // number of this trip in evidence
	host    string // key of slots, delays and blocks
	url     string // URL of req as evidence shows it; urlText builds it when it is first needed
	hops    int    // redirects of this navigation before this request
	fare    fare   // how its page is paid for
	attempt int    // number of the try, from 1; 0 where nothing is sent

	schedule cenkalti.BackOff // waits between the tries; nil before the first of them

	asked   time.Time          // when the verdict was found
	entry   *robotscache.Entry // what is known of the origin's robots.txt; nil if that is ignored
	verdict robots.Verdict     // of robots.txt, for req's URL
	floor   time.Duration      // delay that robots.txt asks for
	closed  time.Duration      // time waited for the Visit-time of robots.txt

	waited  bool            // the turn came noticeably later than the verdict, which may not be true any more
	lease   hostlimit.Lease // turn that is held; nil before the turn, and once the body has it
	grant   departure       // start of the try; its Start is zero before
	lost    []departure     // starts of the try whose connections were lost before that
	wire    *wire           // way of the try to the site; nil before it is sent, and once it has ended
	latency time.Duration   // from the start to the response's headers
	status  int             // of the response
	header  http.Header     // of the response
	told    told            // by the response, to the host's state
	index   *indexing       // what the page asks for; nil without ResponseLimits.CheckIndexing and Purposes
}

// told is what a response tells of its host beside its status.
type told struct {
	retryAfter string // the Retry-After that counts
	rateLimit  string // the fields of a rate limit of which nothing is left
	refused    string // why it is a refusal whatever its status is
}

// begin takes charge of req: its body is closed unless it is sent.
func (t *Transport) begin(req *http.Request, k kind) *trip {
	trip := &trip{t: t, kind: k, original: req, req: req, wait: waitContext{Context: req.Context()}}
	var leave <-chan struct{}
	if k == kindPage { // others may wait for a robots.txt as well
		leave = waits.Done(req.Context(), t)
	}
	//lint:ignore SA1019 http.Client's Timeout sets it, and so do old callers
	if cancel := req.Cancel; cancel != nil || leave != nil { //nolint:staticcheck // the same
		trip.wait.cancel = &canceller{cancel: cancel, leave: leave}
	}
	if req.Body != nil {
		trip.body = req.Body
	}
	if k == kindPage || k == kindRobots {
		trip.attempt = 1
	}
	if !trip.silent() {
		trip.wait.watcher = trip
	}
	return trip
}

// end gives back what is still held. After handOver that is nothing, or the slot is
// held by the response's body.
func (trip *trip) end() {
	if trip.lease != nil {
		trip.leave("given up before it was sent")
		trip.unwire()
	}
	trip.refund()
	if trip.body != nil {
		trip.body.Close()
	}
	trip.wait.end()
}

// identify finds the host key, puts the crawler's name on a clone of the request,
// and asks the user's own rules.
func (trip *trip) identify() error {
	t := trip.t
	trip.id = t.trips.Add(1)
	if err := checkURL(trip.req.URL); err != nil {
		if trip.url = redact(trip.req.URL); trip.url != "" {
			trip.host = trip.req.URL.Host
			trip.recordFailure(err)
		}
		return &Error{Stage: StageRequest, URL: trip.url, Err: err}
	}
	trip.host = t.hostKey(trip.req)
	for r := trip.req.Response; r != nil && r.Request != nil; r = r.Request.Response {
		trip.hops++
	}
	trip.sign()
	return trip.permit()
}

// permit asks the user's own rules.
func (trip *trip) permit() error {
	t := trip.t
	if t.refuse == nil || trip.kind != kindPage && trip.kind != kindRobots {
		return nil
	}
	if err := t.refuse(trip.req); err != nil {
		if !trip.silent() {
			d := trip.decision(evidence.BlockedByRule, time.Now())
			d.Reason = err.Error()
			trip.record(&d)
		}
		return trip.fail(StageRule, time.Time{}, &ruleError{err})
	}
	return nil
}

// A ruleError is a refusal by Config.Refuse. It is ErrDisallowed and whatever the
// user's rule returned.
type ruleError struct{ err error }

func (e *ruleError) Error() string   { return "refused by rule: " + e.err.Error() }
func (e *ruleError) Unwrap() []error { return []error{ErrDisallowed, e.err} }

// sign makes the trip's request say who asks. A request that says so already is sent
// as it is. Of any other one a clone is sent, with a header map of its own: many a
// base transport writes to that.
func (trip *trip) sign() {
	t, req := trip.t, trip.req
	ua := req.Header["User-Agent"]
	indexed := (t.response.indexing || len(t.purposes) > 0) && trip.kind == kindPage
	if !indexed && t.from == nil && len(ua) == 1 && ua[0] == t.userAgent[0] && !anyRespelled(req.Header) {
		return
	}
	trip.clone = *req
	if indexed {
		// DirectivesOf and PreferencesOf find their way back through the response's request.
		trip.index = new(indexing)
		trip.clone = *req.WithContext(context.WithValue(req.Context(), indexKey{}, trip.index))
	}
	header := make(http.Header, len(req.Header)+2)
	for k, v := range req.Header {
		if !respelled(k) {
			header[k] = v[:len(v):len(v)]
		}
	}
	header["User-Agent"] = t.userAgent[:1:1]
	if t.from != nil {
		header["From"] = t.from[:1:1]
	}
	trip.clone.Header = header
	trip.req = &trip.clone
}

// respelled reports whether name is User-Agent in another spelling, which would be
// sent beside ours.
func respelled(name string) bool {
	return name != "User-Agent" && strings.EqualFold(name, "User-Agent")
}

func anyRespelled(h http.Header) bool {
	if len(h) == 1 {
		return false // the one that is ours
	}
	for name := range h {
		if respelled(name) {
			return true
		}
	}
	return false
}

// fail makes the trip's error.
func (trip *trip) fail(stage Stage, retryAt time.Time, err error) *Error {
	if trip.kind == kindPage {
		trip.t.tally.refuse(stage, err)
	}
	return &Error{Stage: stage, Host: trip.host, URL: trip.urlText(), RetryAt: retryAt, Err: err}
}

// silent reports whether nothing is recorded of the trip. It is asked before a record is built.
func (trip *trip) silent() bool { return trip.t.evidence == nil || trip.kind == kindForecast }

// decision begins a record about this trip. Reading the clock is the costliest part of
// a record, so callers that have just read it pass the time on.
func (trip *trip) decision(typ evidence.Type, now time.Time) (d evidence.Decision) {
	trip.describe(&d, typ, now)
	return d
}

// describe is decision without a copy, for what is recorded of every request.
func (trip *trip) describe(d *evidence.Decision, typ evidence.Type, now time.Time) {
	d.Type, d.Time = typ, now
	d.Trip, d.Attempt, d.Redirects, d.RobotsTxt = trip.id, trip.attempt, trip.hops, trip.kind == kindRobots
	d.Method, d.URL = trip.req.Method, trip.urlText()
	d.Host = trip.host
}

// record hands d to the evidence. The guard before that recovers its panics.
func (trip *trip) record(d *evidence.Decision) {
	trip.t.evidence.pass(trip.req.Context(), d)
}

// recordFailure reports an attempt that ended before its start.
func (trip *trip) recordFailure(err error) {
	if trip.silent() {
		return
	}
	d := trip.decision(evidence.Failed, time.Now())
	d.Reason, d.Err = "ended before its start", err.Error()
	if trip.grant.Seq == 0 {
		d.Instead = trip.grant.instead // given up at the wire, which the caller left before the next one
	}
	trip.record(&d)
}

// urlText returns the URL without userinfo.
func (trip *trip) urlText() string {
	if trip.url == "" {
		trip.url = urlText(trip.req.URL)
	}
	return trip.url
}

// target returns the path and query of the URL as they are sent, which is what robots.txt is about.
// That is URL.RequestURI, and also the end of the text that evidence is given. OPTIONS * is about the
// whole site, and stands as /* there.
func (trip *trip) target() string {
	if u := trip.req.URL; trip.silent() && u.Path != "*" {
		return u.RequestURI()
	}
	_, rest, _ := strings.Cut(trip.urlText(), "://")
	return rest[strings.IndexByte(rest, '/'):]
}

// urlText is u without userinfo and without fragment: what is asked for, in one allocation. A name
// that isn't ASCII is shown as it is sent, in punycode: one that mixes scripts looks like another.
func urlText(u *url.URL) string {
	if u.Opaque != "" {
		target := u.RequestURI()
		switch {
		case strings.HasPrefix(u.Opaque, "//"): // has the scheme
		case strings.HasPrefix(u.Opaque, "/"):
			target = u.Scheme + "://" + hostname.ASCII(u.Host) + target
		default: // no request to make, but userinfo is found behind a scheme only
			target = u.Scheme + ":" + target
		}
		return target
	}
	path := u.EscapedPath()
	if !strings.HasPrefix(path, "/") { // none, or the asterisk of OPTIONS
		path = "/" + path
	}
	if u.ForceQuery || u.RawQuery != "" {
		return u.Scheme + "://" + hostname.ASCII(u.Host) + path + "?" + u.RawQuery
	}
	return u.Scheme + "://" + hostname.ASCII(u.Host) + path
}

// redact is urlText for URLs that may lack anything.
func redact(u *url.URL) string {
	if u == nil {
		return ""
	}
	return clip(evidence.RedactURL(urlText(u)))
}
