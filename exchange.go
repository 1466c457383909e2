package politeness

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
)

// send hands the request to the base transport.
func (trip *trip) send() (*http.Response, error) {
	trip.page, trip.spent, trip.sent = false, true, true
	resp, err := trip.t.base.RoundTrip(trip.req)
	if resp == nil && err == nil {
		err = errors.New("the transport returned neither a response nor an error")
	}
	return resp, err
}

// learn tells the host's state what the host answered: it blocks, slows down,
// or clears. An error of the base transport ends the attempt.
func (trip *trip) learn(resp *http.Response, err error) error {
	outcome := hostlimit.Outcome{Latency: time.Since(trip.start), Err: err, Aside: trip.exempt}
	now := trip.start.Add(outcome.Latency) // Since and Add cost half as much as Now
	if err == nil {
		outcome.Status = resp.StatusCode
		outcome.RetryAfter = retryAfter(resp)
	} else if cause := trip.req.Context().Err(); cause != nil {
		// The caller left: that says nothing about the host, whatever the
		// transport made of it.
		outcome.Err = cause
	}
	trip.latency = outcome.Latency
	effect, set := trip.lease.Observe(outcome), now
	if effect.Blocked {
		set = time.Now() // a start just before Observe was no start into the block
	}
	trip.recordStart()
	trip.recordEffect(outcome, effect, set)
	if err == nil {
		return nil
	}
	lease := trip.lease
	trip.lease = nil
	lease.Release()
	if !trip.silent {
		d := trip.decision(evidence.Failed, now)
		d.Seq, d.Start, d.Latency, d.Duration, d.Err = trip.grant.Seq, trip.start, trip.latency, trip.latency, err.Error()
		trip.record(&d)
	}
	return trip.fail(StageSend, time.Time{}, err)
}

// retryAfter reads the response's Retry-After (RFC 9110, section 10.2.3).
func retryAfter(resp *http.Response) time.Duration {
	value := first(resp.Header, "Retry-After")
	if value == "" {
		return 0
	}
	d, _ := backoff.RetryAfter(value, first(resp.Header, "Date"), time.Now())
	return d
}

// recordEffect reports what the outcome did to the host.
func (trip *trip) recordEffect(outcome hostlimit.Outcome, effect hostlimit.Effect, now time.Time) {
	if trip.silent || !effect.Blocked && !effect.Cleared {
		return
	}
	d := trip.decision(evidence.HostBlocked, now)
	d.Status, d.Refusals = outcome.Status, effect.Refusals
	if effect.Blocked {
		d.Until, d.RetryAt = effect.Until, effect.Until
		d.Reason = "by the backoff policy"
		if outcome.RetryAfter > 0 && outcome.RetryAfter > effect.Until.Sub(now)-time.Second { // the longer of the two, or the only one
			d.Reason = "by Retry-After"
		}
	} else {
		d.Type, d.Allowed = evidence.HostCleared, true
	}
	trip.record(&d)
}
