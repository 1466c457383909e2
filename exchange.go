package politeness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
)

// send hands the request to the base transport, and returns what that does. An err is our own
// refusal: the start that the request needed once it had its connection wasn't to be had.
func (trip *trip) send() (resp *http.Response, failure, err error) {
	trip.body = nil
	fare := trip.fare
	if fare != fareUnpaid {
		trip.fare = fareSpent
	}
	w := trip.newWire()
	trip.wire = w
	sent := trip.req.WithContext(w)
	resp, failure = trip.t.base.RoundTrip(sent)
	w.close(failure == nil)
	if resp != nil && resp.Request == sent {
		resp.Request = trip.req
	}
	trip.grant, trip.lost = w.last, w.earlier
	switch {
	case w.refused != nil:
		if resp != nil && resp.Body != nil {
			resp.Body.Close()
		}
		if w.sent {
			trip.learn(nil, context.Canceled) // of what was sent before the connection was lost
		} else {
			trip.fare = fare // nothing has reached the site
			trip.recordLeaks(&w.last)
			trip.recordState(w.last.Restored, w.last.StateErr, w.last.ByHand)
			trip.grant = departure{instead: w.last.Seq}
		}
		return nil, nil, trip.noTurn(w.refused)
	case resp == nil && failure == nil:
		failure = fmt.Errorf("politeness: Base (%T) returned neither a response nor an error", trip.t.base)
	}
	return resp, failure, nil
}

// unwire ends the request's context: the exchange is over.
func (trip *trip) unwire() {
	if trip.wire != nil {
		trip.wire.cancel(context.Canceled)
		trip.wire = nil
	}
}

// learn tells the host's state what the host answered: it blocks, slows down, or
// clears. Without an answer the attempt has ended.
func (trip *trip) learn(resp *http.Response, err error) {
	trip.latency = time.Since(trip.grant.Start)
	now := trip.grant.Start.Add(trip.latency) // Since and Add cost half as much as Now
	outcome := hostlimit.Outcome{Err: err}
	trip.status, trip.header, trip.told = 0, nil, told{}
	if err == nil {
		trip.status, trip.header = resp.StatusCode, resp.Header
		outcome = trip.outcome(resp)
	} else if cause := trip.wait.Err(); cause != nil {
		// The caller left: that says nothing about the host, whatever the base transport
		// made of it.
		outcome.Err = cause
	}
	trip.t.tally.answer(outcome.Status, trip.latency, now)
	outcome.Latency, outcome.Aside = trip.latency, trip.kind == kindRobots
	effect, set := trip.lease.Observe(outcome), now
	if effect.Blocked {
		set = time.Now() // a start just before Observe doesn't count as a start during the block
	}
	trip.recordStart()
	trip.recordEffect(outcome, effect, set)
	trip.recordState(nil, effect.StateErr, nil)
	if err == nil {
		return
	}
	trip.release()
	trip.unwire()
	if !trip.silent() {
		d := trip.decision(evidence.Failed, now)
		d.Seq, d.Start, d.Latency, d.Duration, d.Err = trip.grant.Seq, trip.grant.Start, trip.latency, trip.latency, err.Error()
		d.Left = outcome.Left()
		trip.record(&d)
	}
}

// recordEffect reports what the outcome did to the host.
func (trip *trip) recordEffect(outcome hostlimit.Outcome, effect hostlimit.Effect, now time.Time) {
	if trip.silent() || !effect.Blocked && !effect.Cleared {
		return
	}
	d := trip.decision(evidence.HostBlocked, now)
	d.Status, d.Refusals = outcome.Status, effect.Refusals
	trip.describeAnswer(&d)
	if effect.Blocked {
		d.Until, d.RetryAt = effect.Until, effect.Until
		d.Reason = blockedBy(outcome, effect.Until.Sub(now))
	} else {
		d.Type, d.Allowed = evidence.HostCleared, true
	}
	trip.record(&d)
}

// blockedBy says what decided the length of a block.
func blockedBy(o hostlimit.Outcome, length time.Duration) string {
	by := "by the backoff policy"
	switch longest := length - time.Second; { // the longer of two, or the only one
	case o.RetryAfter > 0 && o.RetryAfter > longest:
		by = "by Retry-After"
	case o.Reset > 0 && o.Reset > longest:
		by = "by RateLimit, which has nothing left"
	}
	if o.Refused != "" {
		by += ": " + o.Refused
	}
	return by
}

// handOver passes on what the base transport returned, an error as it is. The slot is
// held until the response's body ends.
func (trip *trip) handOver(resp *http.Response, err error) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	empty := bodiless(trip.req, resp)
	if err := trip.guard(resp, empty); err != nil {
		if resp.Body != nil {
			resp.Body.Close() // before the slot is somebody else's
		}
		trip.ended(trip.giveLease(), 0, err)
		return nil, err
	}
	if resp.Request == trip.req && trip.index == nil {
		resp.Request = trip.original
	}
	trip.issue(resp)
	if empty {
		trip.ended(trip.giveLease(), 0, nil)
		return resp, nil
	}
	b := &body{ReadCloser: resp.Body, lease: trip.giveLease(), reader: trip}
	if trip.kind == kindPage && success(resp) {
		b.limit = trip.t.response.maxBytes
	}
	resp.Body = b.wrap()
	return resp, nil
}

// bodiless reports whether resp ended with its headers, so that nothing is left to be
// read or closed. A ContentLength of 0 alone doesn't say so: many a RoundTripper
// leaves it unset, and in HTTP/2 trailers may follow.
func bodiless(req *http.Request, resp *http.Response) bool {
	if resp.Body == nil || resp.Body == http.NoBody {
		return true
	}
	// A server may switch protocols only where it was asked to (RFC 9110, section 7.8), and the
	// body of such an answer would outlive the request's context.
	if resp.StatusCode == http.StatusSwitchingProtocols && first(req.Header, "Upgrade") == "" {
		resp.Body.Close()
		resp.Body = http.NoBody
		return true
	}
	// The body that HTTP/2 has for none is of a type without fields.
	if resp.ProtoMajor == 2 && (resp.ContentLength == 0 || req.Method == http.MethodHead) && reflect.TypeOf(resp.Body).Size() == 0 {
		resp.Body = http.NoBody
		return true
	}
	return false
}

// ended implements bodyReader: it gives the slot back and reports the end of the exchange. The end is
// stamped before the slot is somebody else's, or the log would show one request too many in flight.
func (trip *trip) ended(lease hostlimit.Lease, read int64, err error) {
	silent := trip.silent()
	var took time.Duration
	if !silent {
		took = time.Since(trip.grant.Start)
	}
	expired := lease.Release()
	trip.unwire()
	if silent {
		return
	}
	now := trip.grant.Start.Add(took)
	if trip.index != nil {
		trip.recordIndexing(now)
	}
	var d evidence.Decision
	trip.describe(&d, evidence.Fetched, now)
	d.Allowed, d.Status, d.Bytes = true, trip.status, read
	d.Seq, d.Start, d.Latency, d.Duration = trip.grant.Seq, trip.grant.Start, trip.latency, took
	d.ContentType, d.ETag = first(trip.header, "Content-Type"), first(trip.header, "Etag")
	d.LastModified = first(trip.header, "Last-Modified")
	trip.describeAnswer(&d)
	d.Location = redactLocation(first(trip.header, "Location"))
	if trip.status/100 == 2 {
		trip.describeConsent(&d, trip.stated())
	}
	if err != nil && err != io.EOF { //nolint:errorlint // a Reader's end is io.EOF itself
		d.Err = err.Error()
	}
	trip.record(&d)
	if expired {
		d := trip.decision(evidence.LeaseExpired, now)
		d.Seq, d.Reason = trip.grant.Seq, "the body was held for longer than LeaseTTL; its slot had been taken back"
		trip.record(&d)
	}
}

// describeAnswer fills in what of the answer may move the host.
func (trip *trip) describeAnswer(d *evidence.Decision) {
	d.ServerDate, d.RetryAfter = first(trip.header, "Date"), trip.told.retryAfter
	d.RateLimit, d.Refused = trip.told.rateLimit, trip.told.refused
}

// first is Header.Get for a name that is canonical already.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}
