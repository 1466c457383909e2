package politeness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/alarm"
	"github.com/go-politeness/politeness/internal/faults"
	"github.com/go-politeness/politeness/internal/hostname"
	"github.com/go-politeness/politeness/internal/pagehead"
	"github.com/go-politeness/politeness/internal/tally"
	"github.com/go-politeness/politeness/internal/useragent"
	"github.com/go-politeness/politeness/internal/weburl"
	"github.com/go-politeness/politeness/robots"
)

// A trip is one request on its way through the stages, in one allocation: four values, which know
// nothing of it, and what its methods, the stages, pass from one to the other. end gives back what
// is held.
type trip struct {
	t       *Transport
	subject subject
	page    page
	charge  charge
	turn    turn
	answer  answer

	original *http.Request    // the caller's
	req      *http.Request    // what Config.Refuse sees: original, or the request of the try
	held     io.Closer        // what end closes: the body of req until it is sent, that of the answer until it is handed over; may be nil
	schedule cenkalti.BackOff // waits between the tries; nil before the first of them
	try      *try
	first    try
	slow     alarm.Alarm // rings when Base takes longer than a second
	body     body        // of the response that is handed over
}

// A try is a request that is sent. Base may hold on to it after it has returned, so no other try
// has the same one.
type try struct {
	ctx     sendContext
	request http.Request
	body    faults.Body // of request
}

// begin takes charge of req: its body is closed unless it is sent.
func (t *Transport) begin(req *http.Request, k kind) *trip {
	ctx := req.Context()
	trip := &trip{t: t, original: req, req: req}
	s := &trip.subject
	*s = subject{tally: &t.tally, ctx: ctx, call: callOf(ctx), kind: k, method: req.Method, target: req.URL}
	trip.page.subject, trip.page.purposes = s, t.cfg.Purposes
	trip.charge.subject, trip.charge.end = s, &t.budgetEnd
	trip.turn.subject, trip.turn.wait.turn, s.waits = s, &trip.turn, &trip.turn.wait
	var leave <-chan struct{}
	switch k {
	case kindPage:
		s.recorder = t.recorder
		s.attempt = 1
		trip.charge.budget = t.cfg.Budget
		if t.cfg.Retry.Max > 0 {
			trip.turn.most = 1 + t.cfg.Retry.Max
		}
		leave = s.call.reach(t) // others may wait for a robots.txt as well
	case kindRobots:
		s.recorder, s.attempt = t.recorder, 1
	case kindInquiry:
		s.recorder = t.recorder
	case kindForecast:
		trip.charge.budget = t.cfg.Budget
	}
	//lint:ignore SA1019 http.Client's Timeout sets it, and so do old callers
	trip.turn.wait.Under(ctx, req.Cancel, leave) //nolint:staticcheck // the same
	if req.Body != nil {
		trip.held = req.Body
	}
	trip.newTry(&trip.first)
	return trip
}

// end gives back what is still held, each part whatever a function of the user does. After handOver
// that is nothing, or the slot is held by the response's body.
func (trip *trip) end() {
	trip.subject.waits = trip.subject.ctx
	defer trip.turn.wait.End()
	defer func() {
		if trip.held != nil {
			trip.held.Close()
		}
	}()
	defer trip.charge.refund()
	if trip.turn.lease == nil {
		if !trip.answer.handed { // nothing was sent, or it has ended
			trip.try.ctx.Cancel(context.Canceled)
		}
		return
	}
	trip.try.ctx.close(false) // Base has panicked, or wasn't called
	defer trip.try.ctx.Cancel(context.Canceled)
	if trip.answer.status == 0 {
		trip.turn.leave("given up before it was sent")
		return
	}
	trip.turn.recordStart()
	trip.ended(trip.turn.giveLease(), 0, errors.New("given up before it was handed over"))
}

func (trip *trip) newTry(next *try) {
	trip.try = next
	next.ctx.Context = trip.subject.ctx
	next.ctx.turn = &trip.turn
	next.ctx.head = trip.page.head
	next.ctx.rules = trip
}

// clone makes the request of the try of req.
func (try *try) clone(req *http.Request) *http.Request {
	try.request = *req.WithContext(&try.ctx)
	return &try.request
}

// identify finds the host key, puts the crawler's name on a clone of the request, and asks the
// user's own rules.
func (trip *trip) identify() error {
	t, s := trip.t, &trip.subject
	s.id = t.trips.Add(1)
	if err := weburl.Check(s.target); err != nil {
		refused := &Error{Stage: StageRequest, URL: weburl.Redacted(s.target), Err: err}
		if s.url = refused.URL; s.url != "" && !s.call.isProbe() {
			s.host = s.target.Host
			_ = s.giveUp(StageRequest, err, givenUp{})
		}
		return refused
	}
	trip.spell()
	for r := trip.req.Response; r != nil && r.Request != nil; r = r.Request.Response {
		s.redirects++
	}
	trip.charge.follow(trip.req)
	if s.kind == kindPage && (t.cfg.Response.CheckIndexing || len(t.cfg.Purposes) > 0) {
		trip.page.head = new(pagehead.Head)
		trip.try.ctx.head = trip.page.head
	}
	if header := useragent.Sign(trip.req.Header, t.userAgent, t.from); header != nil {
		trip.req = trip.try.clone(trip.req)
		trip.req.Header = header
	}
	return trip.permit()
}

// spell makes a clone the request where its host isn't in the one spelling, and finds the host key.
func (trip *trip) spell() {
	req := trip.req
	target, host := hostname.URL(req.URL), hostname.Authority(req.URL.Scheme, req.Host)
	if target != req.URL || host != req.Host {
		trip.req = trip.try.clone(req)
		trip.req.URL = target
		trip.req.Host = host
		trip.subject.target = target
	}
	trip.subject.host = trip.t.cfg.HostKey(trip.req)
}

// permit asks the user's own rules.
func (trip *trip) permit() error {
	s := &trip.subject
	if trip.t.cfg.Refuse == nil || s.kind != kindPage && s.kind != kindRobots {
		return nil
	}
	err := trip.t.cfg.Refuse(trip.req)
	if err == nil {
		return nil
	}
	s.report(evidence.BlockedByRule, func(d *evidence.Decision) { d.Reason = err.Error() })
	return s.fail(StageRule, time.Time{}, disallowed{err})
}

// A disallowed is ErrDisallowed in other words: those of an error that is no rule of robots.txt.
type disallowed struct{ error }

func (d disallowed) Unwrap() []error { return []error{ErrDisallowed, d.error} }

// ask decides by robots.txt whether the URL may be fetched. A URL that may not be takes no slot, no
// page and no wait.
func (trip *trip) ask() error {
	if err := trip.judge(); err != nil {
		return err
	}
	if trip.page.verdict.Allowed {
		return nil
	}
	return trip.page.refusal()
}

// judge finds and records the verdict, and fetches robots.txt where it isn't known.
func (trip *trip) judge() error {
	t, p := trip.t, &trip.page
	p.asked = time.Now()
	if t.robots == nil {
		p.verdict = robots.Verdict{Allowed: true}
		p.record()
		return nil
	}
	entry, ok := t.robots.Hit(trip.req.URL, p.asked)
	if !ok {
		err := trip.foresee() // its fetch has to wait for the host as well
		if err != nil {
			return err
		}
		if entry, err = t.robots.Get(&trip.turn.wait, trip.req.URL); err != nil {
			return trip.noTurn(StageRobots, err)
		}
		p.asked = time.Now()
	}
	p.judge(entry)
	p.record()
	return nil
}

// noTurn records that no turn came, for the request or for its robots.txt, and returns the error
// for that: the budget's, where the turn was refused because it could come no earlier than the
// budget's end.
func (trip *trip) noTurn(stage Stage, err error) error {
	s := &trip.subject
	what := ""
	reason := err
	retryAt := time.Time{}
	if fetch, ok := errors.AsType[*Error](err); ok && stage == StageRobots { // of the request for robots.txt
		what = "no turn to fetch robots.txt: "
		reason = fetch.Err
		retryAt = fetch.RetryAt
	} else if refused, ok := errors.AsType[*hostlimit.Error](err); ok && stage == StageTurn {
		s.news(refused.Restored, refused.StateErr, refused.ByHand)
		reason, retryAt = refused.Err, refused.RetryAt
	} else { // the caller left, or the limiter failed
		return s.giveUp(stage, err, trip.turn.vain)
	}
	if !trip.turn.wait.By.IsZero() && errors.Is(err, context.DeadlineExceeded) {
		if over := trip.charge.outlasts(retryAt); over != nil {
			return over
		}
	}
	s.report(evidence.SlotTimeout, func(d *evidence.Decision) {
		d.Reason = what + reason.Error()
		d.RetryAt = retryAt
		d.Instead = trip.turn.vain.seq
		d.InsteadAt = trip.turn.vain.at
	})
	return s.fail(stage, retryAt, reason)
}

// overtaken gives the turn back where the wait for it was noticeable and robots.txt is another now.
func (trip *trip) overtaken() bool {
	if !trip.turn.late || !trip.outdated() {
		trip.turn.floor = trip.page.floor
		return false
	}
	trip.turn.leave("robots.txt changed during the wait")
	return true
}

// outdated judges by a newer robots.txt, where one came in since the verdict. It reports whether
// that forbids the request or asks for a longer delay, or the Visit-time is over.
func (trip *trip) outdated() bool {
	p, now := &trip.page, time.Now()
	if p.entry == nil {
		return false
	}
	if entry, ok := trip.t.robots.Peek(trip.req.URL); ok && entry != p.entry {
		p.asked = now
		p.judge(entry)
	}
	return !p.verdict.Allowed || p.floor > trip.turn.floor || opens(p.hours(), now).After(now)
}

// recheck is called with a start that came late, when the connection was at hand. It refuses that
// after the budget's end and, if the request has waited for it, where what holds now forbids it.
func (trip *trip) recheck(start time.Time, waited bool) error {
	end, _, err := trip.charge.deadline()
	if err == nil && !end.IsZero() && !start.Before(end) {
		err = trip.charge.outlasts(start)
	}
	if err != nil || !waited {
		return err
	}
	if err = trip.permit(); err != nil || !trip.outdated() {
		return err
	}
	if trip.page.record(); !trip.page.verdict.Allowed {
		return trip.page.refusal()
	}
	return trip.subject.fail(StageTurn, start, fmt.Errorf("robots.txt changed during the wait: %w", ErrBusy))
}

// waitTurn reserves a page, and waits for a slot on the host and for the host's start time. A wait
// that is known to outlast the budget's time isn't begun.
func (trip *trip) waitTurn() error {
	turn, hours := &trip.turn, trip.page.hours()
	turn.floor = trip.page.floor
	for {
		if err := turn.visit(hours, trip.t.maxWait); err != nil {
			return trip.noTurn(StageTurn, err)
		}
		if err := trip.foresee(); err != nil {
			return err
		}
		if err := trip.charge.reserve(); err != nil {
			return err
		}
		if err := turn.acquire(trip.t.cfg.Limiter); err != nil {
			return trip.noTurn(StageTurn, err)
		}
		if now := time.Now(); !opens(hours, now).After(now) {
			break
		}
		turn.release() // the site's time to be visited has ended during the wait
	}
	if turn.late = time.Since(trip.page.asked) > time.Millisecond; !turn.late {
		return nil
	}
	err := trip.permit() // the rules may be others by now
	if err == nil {
		err = trip.charge.check(time.Time{}) // other requests have spent meanwhile
	}
	if err != nil {
		turn.release()
	}
	return err
}

// foresee makes the end of the budget's time the deadline of the wait for the turn, so that a turn
// that comes later is refused at once. The first page starts that clock; until then the limiter is
// asked whether the turn can come in time.
func (trip *trip) foresee() error {
	end, running, err := trip.charge.deadline()
	if err != nil {
		return err
	}
	if running {
		trip.turn.wait.By = end
		return nil
	}
	next, err := trip.t.cfg.Limiter.Next(trip.subject.ctx, trip.subject.host, trip.page.floor)
	if err != nil {
		return trip.noTurn(StageTurn, err)
	}
	return trip.charge.check(next)
}

// send calls Base with the request, and returns the result. An err is our own refusal: the start
// that the request needed once it had its connection wasn't to be had.
func (trip *trip) send() (resp *http.Response, failure, err error) {
	payment := trip.charge.spend()
	s := &trip.subject
	ctx := &trip.try.ctx
	sent := trip.req
	if sent != &trip.try.request {
		sent = trip.try.clone(sent)
	}
	trip.try.body.Watch(sent)
	ctx.open()
	resp, failure = trip.roundTrip(sent)
	ctx.close(failure == nil)
	if resp != nil && resp.Request == sent {
		resp.Request = trip.req
	}
	if failure != nil && ctx.excess.Load() {
		failure = errOpened
	}
	if trip.held = nil; resp != nil && resp.Body != nil {
		trip.held = resp.Body
	}
	switch {
	case ctx.refused != nil:
		if ctx.sent {
			trip.learn(nil, context.Canceled) // of what was sent before the connection was lost
		} else {
			trip.charge.page = payment // nothing has reached the site
			s.tally.Starts.Add(-1)
			trip.turn.vain, trip.turn.start = trip.turn.start.givenUp(), start{}
		}
		if ctx.unused != (givenUp{}) {
			trip.turn.recordVain(trip.turn.vain)
			trip.turn.recordVain(ctx.unused)
			return nil, nil, ctx.refused
		}
		return nil, nil, trip.noTurn(StageTurn, ctx.refused)
	case resp == nil && failure == nil:
		failure = fmt.Errorf("politeness: Base (%T) returned neither a response nor an error", trip.t.cfg.Base)
	}
	return resp, failure, nil
}

// roundTrip calls Base. While that goes on only Ring records anything.
func (trip *trip) roundTrip(req *http.Request) (*http.Response, error) {
	if trip.subject.recorder != nil {
		trip.subject.text() // for Ring
		defer trip.t.slow.Begin(&trip.slow, trip).End()
	}
	return trip.t.cfg.Base.RoundTrip(req)
}

// Ring implements alarm.Ringer: it records that an answer is waited for.
func (trip *trip) Ring() {
	if trip.try.ctx.mu.TryLock() { // otherwise a new start is
		trip.try.ctx.mu.Unlock()
		trip.turn.recordWait(waitCause{hold: "answer", why: "for an answer"})
	}
}

// learn reports the answer to the host's state: it blocks, slows down, or clears. Without an answer
// the attempt has ended.
func (trip *trip) learn(resp *http.Response, err error) {
	s := &trip.subject
	a := &trip.answer
	start := &trip.turn.start
	*a = answer{latency: time.Since(start.Start)}
	if n := int(trip.try.ctx.opened.Load()); n > 1 {
		a.opened = n
	}
	now := start.Start.Add(a.latency) // Since and Add cost half as much as Now
	outcome := hostlimit.Outcome{Err: err}
	if err == nil {
		defer rethrow(a.read(resp, trip.t.cfg.IsRefusal, s.kind, &outcome)) // once the host's state knows of the answer
	} else if cause := trip.turn.wait.Err(); cause != nil {
		// The caller left, which says nothing about the host, whatever Base made of it; or a crawl did.
		outcome.Err = s.call.failure(cause)
		if timeout := context.Cause(s.ctx); s.kind == kindRobots && errors.Is(timeout, context.DeadlineExceeded) {
			outcome.Err = timeout // of robotscache: the host hasn't answered
		}
	} else if faults.Callers(trip.req, &trip.try.body, err) {
		outcome.Err = context.Canceled // nor does what the caller got wrong
		s.call.excuse()
	}
	s.tally.Answer(outcome.Status, a.latency, now)
	if !outcome.Left() {
		s.tally.HostAnswered(s.host, outcome.Refused != "" || tally.Refused(outcome.Status))
	}
	outcome.Latency, outcome.Aside, outcome.Resource = a.latency, s.kind == kindRobots, weburl.Hash(trip.req.URL)
	effect, set := trip.turn.lease.Observe(outcome), now
	a.effect = effect
	if s.kind == kindPage {
		s.call.affect(effect)
	}
	if effect.Blocked {
		set = time.Now() // a start just before Observe doesn't count as a start during the block
	}
	trip.turn.recordStart()
	a.recordEffect(s, outcome, effect, set)
	s.news(nil, effect.StateErr, nil)
	if err == nil {
		return
	}
	defer s.report(evidence.Failed, func(d *evidence.Decision) {
		d.Time = now
		d.Seq = start.Seq
		d.Start = start.Start
		d.Latency = a.latency
		d.Duration = a.latency
		d.Err, d.Left, d.Connections = err.Error(), outcome.Left(), a.opened
	})
	defer trip.try.ctx.Cancel(context.Canceled)
	trip.turn.release()
}

// handOver passes on what Base returned, an error as it is. The slot is held until the response's
// body ends.
func (trip *trip) handOver(resp *http.Response, err error) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	empty := bodiless(trip.req, resp)
	if err := trip.guard(resp, empty); err != nil {
		if trip.held != nil {
			trip.held.Close() // before the slot is free
			trip.held = nil
		}
		trip.ended(trip.turn.giveLease(), 0, err)
		return nil, err
	}
	trip.held = nil
	if resp.Request == trip.req {
		resp.Request = trip.original
	}
	if head := trip.page.head; head != nil && (resp.Request == nil || resp.Request == trip.original) {
		// DirectivesOf and PreferencesOf find their way back through the response's request.
		resp.Request = trip.req.WithContext(context.WithValue(trip.subject.ctx, (*pagehead.Head)(nil), head))
	}
	trip.charge.markRedirect(resp, trip.original)
	if empty {
		trip.ended(trip.turn.giveLease(), 0, nil)
		return resp, nil
	}
	b := &trip.body
	if b.ReadCloser != nil { // of the answer to an earlier try
		b = new(body)
	}
	b.ReadCloser, b.lease, b.reader = resp.Body, trip.turn.giveLease(), trip
	trip.answer.handed = true
	if trip.subject.kind == kindPage && success(resp.StatusCode) {
		b.limit = trip.t.cfg.Response.MaxBytes
	}
	resp.Body = b.wrap()
	return resp, nil
}

// guard decides by the headers of a page that was served. empty says that it has nothing else.
func (trip *trip) guard(resp *http.Response, empty bool) error {
	if trip.subject.kind != kindPage || !success(resp.StatusCode) {
		return nil
	}
	if err := trip.t.cfg.Response.check(resp, trip.subject.method, empty); err != nil {
		return trip.reject(StageResponse, err)
	}
	return trip.page.readHeader(resp, trip.t.product)
}

// take implements bodyReader. Bytes are taken from the budget after the read and not before it:
// those that a slow server is yet to send are no other reader's loss.
func (trip *trip) take(piece []byte, end bool) (n int, err error) {
	n, err = trip.charge.take(len(piece))
	headEnds, refused := trip.page.readBody(piece[:n], end && err == nil, trip.answer.status)
	switch {
	case refused != nil && headEnds:
		return 0, refused
	case refused != nil:
		return n, refused
	case err != nil:
		return n, trip.charge.exceeded(StageBody, err)
	}
	return n, nil
}

// refuse implements bodyReader.
func (trip *trip) refuse(reason error) error { return trip.reject(StageBody, reason) }

// reject records and returns the refusal of a response.
func (trip *trip) reject(stage Stage, err error) error {
	s, a := &trip.subject, &trip.answer
	s.report(evidence.ResponseRejected, func(d *evidence.Decision) {
		d.Status, d.ContentType, d.Reason = a.status, first(a.header, "Content-Type"), err.Error()
	})
	return s.fail(stage, time.Time{}, err)
}

// ended implements bodyReader: it releases the lease and records the end of the exchange. The end
// is stamped before the slot is free, or the log would show one request too many in flight.
func (trip *trip) ended(lease hostlimit.Lease, read int64, err error) {
	s, start := &trip.subject, &trip.turn.start
	var now time.Time
	if s.recorder != nil {
		now = start.Start.Add(time.Since(start.Start))
	}
	expired := false
	defer func() { // whatever the limiter does
		defer trip.try.ctx.Cancel(context.Canceled)
		trip.answer.recordEnd(s, &trip.page, start, read, err, now)
		if expired {
			s.report(evidence.LeaseExpired, func(d *evidence.Decision) {
				s.recorder.NameLease(d, hostlimit.TakenBack{Seq: start.Seq})
				d.Time, d.Reason = now, "the body was held for longer than LeaseTTL; its slot had been taken back"
			})
		}
	}()
	expired = lease.Release()
}
