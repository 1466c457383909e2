package politeness

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/robots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A trip is one RoundTrip on its way through the stages: it knows what is held
// and gives it back. Its memory is used again as soon as nobody can know it any more.
type trip struct {
	t        *Transport
	original *http.Request
	req      *http.Request // what is sent: the original, or clone
	id       uint64
	host     string // key of slots, delays and blocks
	url      string // as evidence shows it; built when it is first needed
	path     int    // where the path begins in url
	attempt  int
	hops     int          // redirects of this navigation before this request
	hop      *atomic.Bool // of the redirect that led here, if it came by way of a Transport and this request is the first to follow it: its page is paid for

	asked   time.Time // when the verdict was found; until then, when the trip began
	entry   *robotscache.Entry
	verdict robots.Verdict
	floor   time.Duration

	lease   hostlimit.Lease // held while not nil
	grant   hostlimit.Grant // of its start
	start   time.Time       // when the request of this attempt went out; until then, when its turn was had
	latency time.Duration   // from start to the response's headers
	page    bool            // a page of the budget is reserved, and not yet spent
	spent   bool            // the page of this navigation is spent
	exempt  bool            // a fetch of robots.txt: costs no budget, isn't repeated
	sent    bool            // the base transport has req.Body and closes it

	silent bool      // nobody is to be told
	nested bool      // an Evidence is asking
	index  *indexing // nil: ResponseLimits.CheckIndexing is off
	kept   bool      // by the body of the response, which the caller has
}

// none is what a trip is between its uses.
var none trip

var trips = sync.Pool{New: func() any { return new(trip) }}

// free gives the trip's memory back.
func (trip *trip) free() {
	*trip = none
	trips.Put(trip)
}

// begin takes charge of req: its body is closed unless it is sent.
func (t *Transport) begin(req *http.Request) *trip {
	trip := trips.Get().(*trip)
	trip.t, trip.original, trip.req, trip.attempt, trip.silent = t, req, req, 1, t.evidence == nil
	trip.asked = time.Now()
	if !trip.silent {
		trip.nested = t.evidence.Nested()
	}
	return trip
}

// end gives back what is still held. After a successful handOver nothing is.
func (trip *trip) end() {
	if trip.lease != nil {
		trip.leave("given up before it was sent")
	}
	trip.refund()
	if trip.hop != nil && !trip.spent {
		trip.hop.Store(false)
	}
	if !trip.sent && trip.req.Body != nil {
		trip.req.Body.Close()
	}
	if !trip.kept {
		trip.free()
	}
}

// identify finds the host key, puts the crawler's name on a clone of the
// request, and asks the user's own rules.
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
	if trip.hops > 0 {
		used, _ := trip.req.Response.Request.Context().Value(paidKey{}).(*atomic.Bool)
		if used != nil && !used.Swap(true) { // whoever sends the hop again pays for it
			trip.hop = used
		}
	}
	t.sign(trip)
	if t.refuse == nil {
		return nil
	}
	if err := t.refuse(trip.req); err != nil {
		if !trip.silent {
			d := trip.decision(evidence.BlockedByRule, time.Now())
			d.Reason = err.Error()
			trip.record(&d)
		}
		return trip.fail(StageRule, time.Time{}, &ruleError{err})
	}
	return nil
}

// A ruleError is a refusal by Config.Refuse. It is ErrDisallowed and whatever
// the user's rule returned.
type ruleError struct{ err error }

func (e *ruleError) Error() string   { return "refused by rule: " + e.err.Error() }
func (e *ruleError) Unwrap() []error { return []error{ErrDisallowed, e.err} }

// sign makes the trip's request say who asks. A request that says so already is
// sent as it is; otherwise a clone is, with a header map of its own.
func (t *Transport) sign(trip *trip) {
	req := trip.req
	ua := req.Header["User-Agent"]
	signed := len(ua) == 1 && ua[0] == t.userAgent[0] && !anyRespelled(req.Header)
	if signed && t.from == nil && !t.response.indexing {
		return
	}
	clone := *req
	if t.response.indexing && !trip.exempt {
		// DirectivesOf finds its way back through the request of the response.
		trip.index = new(indexing)
		clone = *req.WithContext(context.WithValue(req.Context(), indexKey{}, trip.index))
	}
	clone.Header = make(http.Header, len(req.Header)+2)
	for k, v := range req.Header {
		if !respelled(k) {
			clone.Header[k] = v[:len(v):len(v)]
		}
	}
	clone.Header["User-Agent"] = t.userAgent[:1:1]
	if t.from != nil {
		clone.Header["From"] = t.from[:1:1]
	}
	trip.req = &clone
}

// respelled reports whether name is User-Agent in another spelling, which would be
// sent beside ours.
func respelled(name string) bool {
	return len(name) == len("User-Agent") && name != "User-Agent" && strings.EqualFold(name, "User-Agent")
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
	return &Error{Stage: stage, Host: trip.host, URL: trip.urlText(), RetryAt: retryAt, Err: err}
}

// decision begins a record about this trip. The clock is the costliest part of a
// record, so whoever has just looked at it passes the time on.
func (trip *trip) decision(typ evidence.Type, now time.Time) (d evidence.Decision) {
	trip.describe(&d, typ, now)
	return d
}

// describe is decision without a copy, for what is recorded of every request.
func (trip *trip) describe(d *evidence.Decision, typ evidence.Type, now time.Time) {
	d.Type, d.Time = typ, now
	d.Trip, d.Attempt, d.Redirects, d.RobotsTxt = trip.id, trip.attempt, trip.hops, trip.exempt
	d.Method, d.URL = trip.req.Method, trip.urlText()
	d.Host, d.Agent = trip.host, trip.t.product
}

// record hands d to the evidence, which can do no harm: it stands behind a guard.
func (trip *trip) record(d *evidence.Decision) {
	nested := trip.nested
	if trip.kept && !trip.exempt {
		nested = trip.t.evidence.Nested() // who reads the body needn't be who asked for it
	}
	trip.t.evidence.Pass(trip.original.Context(), d, nested)
}

// nestedKey marks the context of what an Evidence has asked for, where that goes
// on in another goroutine.
type nestedKey struct{}

func marked(ctx context.Context) bool { return ctx.Value(nestedKey{}) != nil }

// urlText returns the URL without userinfo.
func (trip *trip) urlText() string {
	if trip.url == "" {
		u := trip.req.URL
		trip.url, trip.path = urlText(u), len(u.Scheme)+len("://")+len(u.Host)
	}
	return trip.url
}

// target returns the path and query of the URL as they are sent, which is what
// robots.txt is about. That is URL.RequestURI, and also the end of the text that
// evidence is given.
func (trip *trip) target() string {
	if u := trip.req.URL; u.Opaque != "" || trip.silent {
		return u.RequestURI()
	}
	return trip.urlText()[trip.path:]
}

// urlText is u without userinfo and without fragment: what is asked for, in one
// allocation.
func urlText(u *url.URL) string {
	if u.Opaque != "" {
		target := u.RequestURI()
		if strings.HasPrefix(u.Opaque, "/") && !strings.HasPrefix(u.Opaque, "//") {
			target = u.Scheme + "://" + u.Host + target
		}
		return target
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	if u.ForceQuery || u.RawQuery != "" {
		return u.Scheme + "://" + u.Host + path + "?" + u.RawQuery
	}
	return u.Scheme + "://" + u.Host + path
}

// redact is urlText for URLs that may lack anything.
func redact(u *url.URL) string {
	if u == nil {
		return ""
	}
	return clip(evidence.RedactURL(urlText(u)))
}
