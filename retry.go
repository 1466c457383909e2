package politeness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit/hints"
	"github.com/go-politeness/politeness/internal/contexts"
	"github.com/go-politeness/politeness/internal/faults"
)

// Retry repeats requests after 429, 5xx and network errors. Any other response is final. So is an
// error that the next try would meet again, such as a name that doesn't exist, an address that
// isn't public, a certificate that isn't trusted, or a header that can't be sent. Only requests
// that are idempotent (RFC 9110, section 9.2.2) and can be sent again are repeated. These are GET,
// HEAD, OPTIONS, TRACE, PUT and DELETE without a body or with Request.GetBody. Each try checks
// robots.txt again and waits for the host again. While it waits, it occupies no slot. When the
// tries run out, you get the last response as it is. You also get it if the next try can't start
// before the context's deadline or within the budget's time, if it would wait longer than the
// MaxWait of a memory.Limiter, or if Retry-After asks for more than a day. All tries of a request
// are one page of the budget. A crawl.Crawler repeats its requests itself, unless its Tries is 1.
type Retry struct {
	// Max limits how often a request is repeated. If a kept connection was lost, net/http sends the
	// request once more, and this counts too. The default is 0, so that only net/http may repeat a
	// request.
	Max int
	// Backoff returns the schedule of waits for one request. Any policy of
	// github.com/cenkalti/backoff/v4 fits. A longer Retry-After takes the place of a wait. A wait
	// of backoff.Stop ends the tries. The default is Fibonacci, 1 s to 10 min.
	Backoff func() cenkalti.BackOff
}

func (r Retry) validate() error {
	if r.Max < 0 {
		return fmt.Errorf("Max is negative: %d", r.Max)
	}
	return nil
}

// retry reports whether the request is to be tried again, after the wait for that. The error is
// that of a further try which was due and can't be made any more.
func (trip *trip) retry(r result) (again bool, err error) {
	s := &trip.subject
	if !trip.mayRepeat(r) {
		return false, nil
	}
	// A schedule is made for requests that need one, and not for each.
	if trip.schedule == nil {
		trip.schedule = trip.t.cfg.Retry.Backoff()
		trip.schedule.Reset()
	}
	at, ok := trip.nextTry(r.resp)
	if !ok {
		return false, nil
	}
	s.report(evidence.Retried, func(d *evidence.Decision) {
		d.Allowed = true
		d.RetryAt = at
		if r.failure == nil {
			d.Status = r.resp.StatusCode
		} else {
			d.Err = r.failure.Error()
		}
	})
	if r.failure == nil {
		trip.discard(r, time.Until(at))
	}
	s.attempt++
	if trip.isBlockedUntil(at) {
		return true, trip.again() // the wait for the turn is as long, and in the queue of the host
	}
	// The time for discarding the response is a part of the wait.
	if err := contexts.Sleep(&trip.turn.wait, time.Until(at)); err != nil {
		return false, s.giveUp(StageTurn, err, givenUp{})
	}
	return true, trip.again()
}

// mayRepeat reports whether a further try is left, can be sent, and may have another answer.
func (trip *trip) mayRepeat(r result) bool {
	switch {
	case trip.turn.sent > trip.t.cfg.Retry.Max, trip.subject.call.isOnce():
		return false
	case !replayable(trip.req):
		return false
	case trip.answer.effect.Own: // only this page fails
		return false
	}
	return trip.mayChange(r)
}

// isBlockedUntil reports whether the response has blocked the host until the given time or longer,
// so that the turn of the next try comes no earlier. It is false for a response with a Retry-After.
func (trip *trip) isBlockedUntil(at time.Time) bool {
	e := trip.answer.effect
	return e.Blocked && !e.Until.Before(at) &&
		time.Until(e.Until) <= trip.t.maxWait && trip.answer.hints.RetryAfter == ""
}

// longestWait bounds the Retry-After that one request waits for.
var longestWait = backoff.Refusals{}.WithDefaults().MaxRetryAfter

// nextTry returns when the next try is made; ok is false if it can't end well.
func (trip *trip) nextTry(resp *http.Response) (at time.Time, ok bool) {
	wait := trip.schedule.NextBackOff()
	if wait == cenkalti.Stop {
		return at, false
	}
	if resp != nil {
		_, after := hints.RetryAfter(resp.Header)
		// The caller gets the response, and may come back on another day.
		if after > longestWait {
			return at, false
		}
		wait = max(wait, after)
	}
	if wait > trip.t.maxWait { // as the limiter refuses a turn that is as far away
		return at, false
	}
	at = time.Now().Add(wait)
	return at, trip.inTime(at)
}

// inTime reports whether a try that could start at the given time would, so far as it is known,
// start before the context's deadline and within the budget's time.
func (trip *trip) inTime(start time.Time) bool {
	t := trip.t
	ctx := trip.subject.ctx
	if next, err := t.cfg.Limiter.Next(ctx, trip.subject.host, trip.page.floor); err == nil && next.After(start) {
		if next.Sub(start) > t.maxWait {
			return false // its turn would be refused
		}
		start = next // a block by another response, or by the policy
	}
	if deadline, ok := ctx.Deadline(); ok && !start.Before(deadline) {
		return false
	}
	return trip.charge.refusal(start) == nil
}

// replayable reports whether the request may be sent more than once.
func replayable(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
	}
	return false
}

// mayChange reports whether the next try may have another answer, and the caller still waits for
// it.
func (trip *trip) mayChange(r result) bool {
	if trip.turn.wait.Err() != nil {
		return false
	}
	if r.failure == nil {
		return r.resp.StatusCode == http.StatusTooManyRequests || r.resp.StatusCode >= 500
	}
	_, refused := errors.AsType[*Error](r.failure) // by a Transport below this one
	return !refused && !faults.Permanent(r.failure) && !faults.Callers(trip.req, &trip.try.body, r.failure)
}

// again begins a further try, with a separate request and body. Base may still be writing those of
// the previous try.
func (trip *trip) again() error {
	trip.answer = answer{}
	trip.newTry(new(try))
	req := trip.try.clone(trip.req)
	if req.Body != nil && req.Body != http.NoBody {
		fresh, err := req.GetBody()
		if err != nil {
			return trip.subject.giveUp(StageRequest, fmt.Errorf("body can't be sent again: %w", err), givenUp{})
		}
		req.Body = fresh
		trip.held = fresh
	}
	trip.req = req
	return nil
}

// discard drains and closes a response that the caller won't see, which releases its lease. If
// Base's bodies end with the context, that takes no longer than wait, with a minimum of one second
// and a maximum of five. A body of more than 64 KiB is cut, which costs less than to read it.
func (trip *trip) discard(r result, wait time.Duration) {
	trip.retrying = true
	defer func() {
		trip.retrying = false
		trip.answer.handed = false // the caller has no body of it
	}()
	resp, _ := trip.handOver(r) // the caller doesn't see it, so a refusal by its headers doesn't matter
	if resp.Body == nil {
		return
	}
	defer resp.Body.Close()
	ctx := &trip.try.ctx
	most := min(max(wait, time.Second), 5*time.Second)
	defer time.AfterFunc(most, func() { ctx.Cancel(context.Canceled) }).Stop()
	// The one byte more finds the end of a body of exactly 64 KiB.
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10+1)
}
