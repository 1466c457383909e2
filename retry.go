package politeness

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/evidence"
)

// Retry repeats requests that a server or the network failed: after 429, 5xx
// and network errors; any other answer is final. Only what is idempotent (RFC
// 9110, section 9.2.2) and can be sent again is repeated: GET, HEAD, OPTIONS,
// TRACE, PUT and DELETE without a body or with Request.GetBody. Each try asks
// robots.txt again and takes a turn of its own; while it waits it holds no slot.
// When the tries run out, the last response is handed over as it is; so it is
// when the next try couldn't start before the context's deadline or within the
// budget's time, when it would have to wait for longer than the MaxWait of a
// hostlimit.Memory, or when Retry-After asks for more than a day. All tries of a
// request are one page of the budget.
type Retry struct {
	// Max is how often a request is repeated at most. 0: never.
	Max int
	// Backoff makes the schedule of waits for one request; any policy of
	// github.com/cenkalti/backoff/v4 fits. A Retry-After that is longer is waited
	// for instead; backoff.Stop ends the tries. Nil: Fibonacci, 1 s to 10 min.
	Backoff func() cenkalti.BackOff
}

func (r Retry) validate() error {
	if r.Max < 0 {
		return fmt.Errorf("Max is negative: %d", r.Max)
	}
	return nil
}

// errAgain tells cenkalti's loop that an answer asks for another try.
var errAgain = errors.New("to be tried again")

// retry makes the trip's tries.
func (trip *trip) retry() (*http.Response, error) {
	r := trip.t.retry
	if r.Max == 0 || !replayable(trip.original) {
		return trip.try()
	}
	schedule := cenkalti.BackOff(backoff.Fibonacci{}.BackOff())
	if r.Backoff != nil {
		schedule = r.Backoff()
	}
	waits := &retryWaits{trip: trip, left: r.Max, schedule: schedule}

	var resp *http.Response
	err := cenkalti.RetryNotifyWithTimer(func() error {
		var err error
		if err = trip.replay(); err == nil {
			resp, err = trip.try() //nolint:bodyclose // handed over or discarded below
		}
		waits.after = 0
		switch {
		case err == nil && !temporary(resp.StatusCode):
			return nil
		case err == nil:
			waits.after = retryAfter(resp)
			return errAgain
		case trip.failedInTransit(err):
			return err
		}
		return cenkalti.Permanent(err)
	}, cenkalti.WithContext(waits, trip.original.Context()), func(err error, wait time.Duration) {
		trip.recordRetry(resp, err, wait)
		if errors.Is(err, errAgain) {
			trip.discard(resp, wait)
			resp = nil
		}
		trip.attempt++
	}, waits)
	switch {
	case errors.Is(err, errAgain):
		return resp, nil
	case err != nil:
		if resp != nil { // the caller left with an answer at hand
			trip.discard(resp, 0)
		}
		var ours *Error
		if !errors.As(err, &ours) { // the caller left during a wait
			trip.recordFailure(err)
			err = trip.fail(StageTurn, time.Time{}, err)
		}
		return nil, err
	}
	return resp, nil
}

// retryWaits is the schedule of one request: the policy's waits, at least
// Retry-After, at most Max of them, and none that can't end well.
type retryWaits struct {
	trip     *trip
	left     int
	schedule cenkalti.BackOff
	after    time.Duration // Retry-After of the answer at hand
	decided  time.Time     // when the last wait was
	timer    *time.Timer   // of the last wait
}

// longestWait bounds what a host may ask of one request. It is what
// backoff.Refusals.MaxRetryAfter is by default.
const longestWait = 24 * time.Hour

// NextBackOff returns the wait before the next try, or Stop.
func (w *retryWaits) NextBackOff() time.Duration {
	if w.left == 0 {
		return cenkalti.Stop
	}
	wait := w.schedule.NextBackOff()
	if wait == cenkalti.Stop || w.after > longestWait {
		return cenkalti.Stop
	}
	w.left--
	wait = max(wait, w.after)
	if most := w.trip.t.maxWait; most > 0 && wait > most {
		return cenkalti.Stop
	}
	w.decided = time.Now()
	if !w.trip.inTime(w.decided.Add(wait)) {
		return cenkalti.Stop
	}
	return wait
}

// Start implements cenkalti.Timer, with C and Stop: a wait counts from when it was
// decided, so that what is done with the answer at hand is a part of it.
func (w *retryWaits) Start(wait time.Duration) {
	w.timer = time.NewTimer(wait - time.Since(w.decided))
}

// C implements cenkalti.Timer.
func (w *retryWaits) C() <-chan time.Time { return w.timer.C }

// Stop implements cenkalti.Timer.
func (w *retryWaits) Stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// inTime reports whether a try that could start at the given time would, so far as
// it is known, start before the context's deadline and within the budget's time.
func (trip *trip) inTime(start time.Time) bool {
	t, ctx := trip.t, trip.original.Context()
	if next, err := t.hosts.Next(ctx, trip.host, trip.floor); err == nil && next.After(start) {
		if t.maxWait > 0 && next.Sub(start) > t.maxWait {
			return false // its turn would be refused
		}
		start = next // a block: others have set it, or the policy
	}
	if deadline, ok := ctx.Deadline(); ok && !start.Before(deadline) {
		return false
	}
	return t.budget == nil || trip.bound(t.budget.Check(ctx, trip.host, start)) == nil
}

// Reset begins the schedule anew.
func (w *retryWaits) Reset() { w.schedule.Reset() }

// replayable reports whether the request may be sent more than once.
func replayable(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
	}
	return false
}

// temporary reports whether an answer may be another one next time.
func temporary(status int) bool { return status == http.StatusTooManyRequests || status >= 500 }

// failedInTransit reports whether err is the network's, and the caller is still there.
func (trip *trip) failedInTransit(err error) bool {
	var ours *Error
	return errors.As(err, &ours) && ours.Stage == StageSend && trip.original.Context().Err() == nil
}

// replay gives a further try a body of its own.
func (trip *trip) replay() error {
	if trip.attempt == 1 || trip.original.Body == nil || trip.original.Body == http.NoBody {
		return nil
	}
	fresh, err := trip.original.GetBody()
	if err != nil {
		trip.recordFailure(err)
		return trip.fail(StageRequest, time.Time{}, fmt.Errorf("body can't be sent again: %w", err))
	}
	// Somebody may still be writing the try before: it keeps its request.
	again := *trip.req
	again.Body = fresh
	trip.req, trip.sent = &again, false
	return nil
}

// discarded is how much of a discarded answer is read so that its connection
// can be used again; a longer one costs less to cut.
const discarded = 64 << 10

// How long that may take: as long as there is to wait anyway, within these bounds.
const (
	minPatience = time.Second
	maxPatience = 5 * time.Second
)

// discard drains and closes an answer that nobody will see, and with it gives
// the slot back.
func (trip *trip) discard(resp *http.Response, wait time.Duration) {
	raw := resp.Body
	resp, err := trip.handOver(resp)
	if err != nil {
		return
	}
	trip.kept = false // nobody else has the body
	defer resp.Body.Close()
	closed := make(chan struct{})
	cut := time.AfterFunc(min(max(wait, minPatience), maxPatience), func() {
		defer close(closed)
		raw.Close()
	})
	defer func() {
		if !cut.Stop() {
			<-closed
		}
	}()
	_, _ = io.CopyN(io.Discard, resp.Body, discarded+1) // the one finds the end of a body that is just as long
}

func (trip *trip) recordRetry(resp *http.Response, err error, wait time.Duration) {
	if trip.silent {
		return
	}
	d := trip.decision(evidence.Retried, time.Now())
	d.Allowed = true
	d.RetryAt = d.Time.Add(wait)
	if errors.Is(err, errAgain) {
		d.Status = resp.StatusCode
	} else {
		d.Err = err.Error()
	}
	trip.record(&d)
}
