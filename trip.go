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
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/internal/alarm"
	"github.com/go-politeness/politeness/internal/caching"
	"github.com/go-politeness/politeness/internal/contexts"
	"github.com/go-politeness/politeness/internal/faults"
	"github.com/go-politeness/politeness/internal/hostname"
	"github.com/go-politeness/politeness/internal/pagehead"
	"github.com/go-politeness/politeness/internal/tally"
	"github.com/go-politeness/politeness/internal/useragent"
	"github.com/go-politeness/politeness/internal/weburl"
	"github.com/go-politeness/politeness/robots"
)

// A trip is one request on its way through the stages, in one allocation. It has four values,
// which don't refer to it, and the fields that its methods, the stages, pass on to each other. end
// gives back all that the trip holds.
type trip struct {
	t       *Transport
	over    *over // the base that sends; nil: Config.Base
	subject subject
	page    page
	charge  charge
	turn    turn
	answer  answer

	original *http.Request // the caller's
	req      *http.Request // request for Config.Refuse: original, or the request of the try
	// held is closed by end: the body of req until that is sent, then the body of the response
	// until that is handed over. May be nil.
	held io.Closer

	schedule cenkalti.BackOff // waits between the tries; nil before the first of them
	try      *try
	first    try
	retrying bool        // the response of the try is discarded, as a further one follows
	rival    *rival      // that asks the host too; nil: none was found
	slow     alarm.Alarm // rings when Base takes longer than a second
	stay     stayKey     // of a response that stays open without a slot
	body     body        // of the response that is handed over
	open     *body       // body of the response that was handed over last, nearly always that one
}

// A try is a request that is sent. Base may keep it after it has returned, so each try has a
// separate one.
type try struct {
	ctx     sendContext
	request http.Request
	body    faults.Body // of request
}

// begin takes charge of req: its body is closed unless it is sent.
func (t *Transport) begin(req *http.Request, k kind, over *over) *trip {
	ctx := req.Context()
	//lint:ignore SA1019 http.Client's Timeout sets it, and so do old callers
	left := req.Cancel //nolint:staticcheck // the same
	trip := &trip{t: t, over: over, original: req, req: req}
	if exchange := t.exchangeOf(req, k); exchange != nil {
		trip.turn.exchange = exchange
		ctx = exchange
		left = nil // the exchange ends with it
	}
	s := &trip.subject
	*s = subject{
		tally:  &t.tally,
		ctx:    ctx,
		call:   callOf(ctx),
		waits:  &trip.turn.wait,
		kind:   k,
		method: req.Method,
		target: req.URL,

		revisits: isRevisit(req.Header),
	}
	trip.page.subject = s
	trip.page.purposes = t.cfg.Purposes
	trip.charge.subject = s
	trip.charge.end = &t.budgetEnd
	trip.turn.subject = s
	trip.turn.wait.turn = &trip.turn
	trip.turn.open = &t.open
	var leave <-chan struct{}
	switch k {
	case kindPage:
		s.recorder = t.recorder
		s.due = contexts.Due(ctx)
		s.attempt = 1
		s.deadEnds = t.deadEnds
		s.origin = req
		trip.charge.budget = t.cfg.Budget
		// Without Config.Retry net/http may resend as it likes, and each resend takes a start.
		if t.cfg.Retry.Max > 0 {
			trip.turn.maxSent = 1 + t.cfg.Retry.Max
		}
		// Other requests may wait for a robots.txt as well, so only pages are left by Call.Until.
		leave = s.call.reach(t)
	case kindRobots:
		s.recorder = t.recorder
		s.attempt = 1
	case kindInquiry:
		s.recorder = t.recorder
	case kindForecast:
		// A frontier asks again and again, so nothing of it is recorded.
		trip.charge.budget = t.cfg.Budget
	}
	trip.turn.wait.Under(ctx, left, leave)
	s.gone = ctx.Err() != nil
	// A RoundTripper closes the body also of a request that it refuses.
	if req.Body != nil {
		trip.held = req.Body
	}
	trip.newTry(&trip.first)
	return trip
}

// end gives back all that the trip still holds: the lease, a body that is open and the reservation,
// each even if a function of the user panics. After handOver the trip holds nothing, or the
// response's body holds the slot.
func (trip *trip) end() {
	// The body is read after the waits have ended. From here on, only the caller's own context shows
	// that the caller has left.
	trip.subject.waits = trip.subject.ctx
	if trip.answer.handed {
		defer trip.watchBody() // at last: from then on other goroutines may end the body
	} else {
		defer trip.turn.exchange.End()
	}
	defer trip.turn.wait.End()
	defer func() {
		if trip.held != nil {
			trip.held.Close()
		}
	}()
	defer trip.charge.refund()
	if trip.turn.lease == nil {
		// Either nothing was sent, or the try has ended, or the body holds the lease and continues.
		if !trip.answer.handed {
			trip.try.ctx.Cancel(context.Canceled)
		}
		return
	}
	// The lease is still here: Base or a function of the user has panicked, or Base wasn't called.
	trip.try.ctx.close(false)
	defer trip.try.ctx.Cancel(context.Canceled)
	if trip.answer.status == 0 {
		trip.turn.leave("given up before it was sent")
		return
	}
	// A response came, and the panic was behind it: the exchange has a start and an end on record.
	trip.turn.recordStart()
	trip.ended(trip.turn.giveLease(), 0, errors.New("given up before it was handed over"))
}

// watchBody lets the body's slot be released if nobody uses the body. A connection whose protocol
// was switched doesn't end with its request's context.
func (trip *trip) watchBody() {
	b := trip.open
	_, writes := b.ReadCloser.(io.Writer)
	if !writes && !b.done.Load() {
		b.open = &trip.t.open
		b.open.add(b, trip.subject.host)
	}
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
	t := trip.t
	s := &trip.subject
	s.id = t.trips.Add(1)
	if err := weburl.Check(s.target); err != nil {
		s.url = weburl.Redacted(s.target)
		// A request without a URL has nothing to be on record by.
		if s.url != "" && !s.call.isProbe() {
			s.host = s.target.Host
			_ = s.giveUp(StageRequest, err, givenUp{})
		}
		refusal := &Error{Stage: StageRequest, URL: s.url, Err: err}
		s.remember(refusal)
		return refusal
	}
	if err := trip.over.usable(); err != nil {
		return &Error{Stage: StageRequest, URL: weburl.Redacted(s.target), Err: err}
	}
	trip.spell()
	// http.Client links each request to the redirect that it follows.
	for r := trip.req.Response; r != nil && r.Request != nil; r = r.Request.Response {
		s.redirects++
	}
	trip.charge.follow(trip.req)
	readsHead := t.cfg.Response.CheckIndexing || len(t.cfg.Purposes) > 0
	if s.kind == kindPage && readsHead {
		trip.page.head = new(pagehead.Head)
		trip.try.ctx.head = trip.page.head
	}
	// The request is cloned only if it needs other headers: the caller's is never changed.
	if header := useragent.Sign(trip.req.Header, t.userAgent, t.from); header != nil {
		trip.req = trip.try.clone(trip.req)
		trip.req.Header = header
	}
	if err := trip.permit(); err != nil {
		return err
	}
	return trip.isRepeated()
}

// spell makes a clone the request if its host has another spelling, and finds the host key.
func (trip *trip) spell() {
	req := trip.req
	target := hostname.URL(req.URL)
	host := hostname.Authority(req.URL.Scheme, req.Host)
	// A host in another spelling can make net/http open hundreds of connections a second.
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
	// An inquiry sends nothing that the rules could refuse.
	if trip.t.cfg.Refuse == nil || s.kind == kindInquiry {
		return nil
	}
	err := trip.t.cfg.Refuse(trip.req)
	if err == nil {
		return nil
	}
	s.report(evidence.BlockedByRule, func(d *evidence.Decision) { d.Reason = err.Error() })
	return s.fail(StageRule, time.Time{}, disallowed{err})
}

// A disallowed is ErrDisallowed with the text of an error that doesn't come from robots.txt.
type disallowed struct{ error }

func (d disallowed) Unwrap() []error { return []error{ErrDisallowed, d.error} }

// ask decides by robots.txt whether the URL may be fetched. A disallowed URL takes no slot and no
// page, and doesn't wait.
func (trip *trip) ask() error {
	if err := trip.judge(); err != nil {
		return err
	}
	if trip.page.verdict.Allowed {
		return nil
	}
	return trip.page.refusal()
}

// judge finds and records the verdict. It fetches robots.txt if that isn't known.
func (trip *trip) judge() error {
	t := trip.t
	p := &trip.page
	p.asked = time.Now()
	// An auditor wants a verdict for each page, also if robots.txt is ignored.
	if t.robots == nil {
		trip.turn.blind = true // the limiter may have a crawl-delay from another Transport
		p.verdict = robots.Verdict{Allowed: true}
		p.record()
		return nil
	}
	entry, ok := t.robots.Hit(trip.req.URL, p.asked)
	if !ok {
		// The fetch of robots.txt has to wait for the host as the page has.
		err := trip.foresee()
		if err != nil {
			return err
		}
		entry, err = t.robots.Get(trip.fetchContext(), trip.req.URL)
		if err != nil {
			return trip.noTurn(StageRobots, err)
		}
		// The verdict is by the copy that has just come. overtaken counts its age from here.
		p.asked = time.Now()
	}
	p.judge(entry)
	p.record()
	return nil
}

// fetchContext returns the context by which robots.txt is fetched.
func (trip *trip) fetchContext() context.Context {
	if trip.over == nil {
		return &trip.turn.wait
	}
	return context.WithValue(&trip.turn.wait, fetchOver{}, trip.over)
}

// noTurn records that the request, or the one for its robots.txt, couldn't start, and returns the
// error. This is the budget's error if the start would come after the budget's end.
func (trip *trip) noTurn(stage Stage, err error) error {
	s := &trip.subject
	what := ""
	var reason error
	var retryAt time.Time
	if fetch, ok := errors.AsType[*Error](err); ok && stage == StageRobots { // of the request for robots.txt
		what = "robots.txt can't be fetched yet: "
		reason = fetch.Err
		retryAt = fetch.RetryAt
	} else if refused, ok := errors.AsType[*hostlimit.Error](err); ok && stage == StageTurn {
		s.news(refused.Restored, refused.StateErr, refused.ByHand)
		reason = refused.Err
		retryAt = refused.RetryAt
	} else { // the caller left, or the limiter failed
		err = trip.giveUpTurn(stage, err)
		trip.logOnce(err)
		return err
	}
	// The wait's deadline may be the end of the budget's time: then the budget has refused the turn.
	if !trip.turn.wait.By.IsZero() && errors.Is(err, context.DeadlineExceeded) {
		if over := trip.charge.outlasts(retryAt); over != nil {
			return over
		}
	}
	reason = trip.inVain(stage, reason)
	s.report(evidence.SlotTimeout, func(d *evidence.Decision) {
		d.Reason = what + reason.Error()
		d.RetryAt = retryAt
		d.Instead = trip.turn.vain.seq
		d.InsteadAt = trip.turn.vain.at
		if in, ok := errors.AsType[*inVainError](reason); ok {
			d.Hold = in.hold
		}
	})
	refusal := s.fail(stage, retryAt, reason)
	trip.logOnce(refusal)
	return refusal
}

// giveUpTurn records that the wait for a turn, or for robots.txt, has ended with err, and returns
// the error for that.
func (trip *trip) giveUpTurn(stage Stage, err error) error {
	s := &trip.subject
	// The error of a deadline that has passed during the wait is the context's own.
	if s.kind == kindPage && errors.Is(s.waits.Err(), context.DeadlineExceeded) {
		err = trip.inVain(stage, err)
	}
	return s.giveUp(stage, err, trip.turn.vain)
}

// overtaken gives the turn back if robots.txt has changed during a noticeable wait.
func (trip *trip) overtaken() bool {
	if !trip.turn.late || !trip.outdated() {
		// The record of the start names the crawl-delay of the newer robots.txt, which isn't longer.
		trip.turn.floor = trip.page.floor
		return false
	}
	trip.turn.leave("robots.txt changed during the wait")
	return true
}

// outdated decides again if a newer robots.txt has come since the verdict. It reports whether that
// forbids the request or asks for a longer delay, or whether the Visit-time is over.
func (trip *trip) outdated() bool {
	p := &trip.page
	now := time.Now()
	if p.entry == nil { // robots.txt is ignored
		return false
	}
	// Peek asks for no fetch: a copy that has expired meanwhile is renewed by the next request.
	if entry, ok := trip.t.robots.Peek(trip.req.URL); ok && entry != p.entry {
		p.asked = now
		p.judge(entry)
	}
	return !p.verdict.Allowed || p.floor > trip.turn.floor || opens(p.hours(), now).After(now)
}

// recheck is called with a start that came late, because the connection did. It refuses a start
// after the budget's end. If the request has waited, it also refuses if the present rules forbid
// it.
func (trip *trip) recheck(start time.Time, waited bool) error {
	end, _, err := trip.charge.deadline()
	if err == nil && !end.IsZero() && !start.Before(end) {
		err = trip.charge.outlasts(start)
	}
	// Without a wait, the rules and robots.txt were checked just before.
	if err != nil || !waited {
		return err
	}
	err = trip.permit()
	if err != nil || !trip.outdated() {
		return err
	}
	trip.page.record()
	if !trip.page.verdict.Allowed {
		return trip.page.refusal()
	}
	// A longer delay, or the end of the Visit-time: the next request waits for that.
	return trip.subject.fail(StageTurn, start, fmt.Errorf("robots.txt changed during the wait: %w", ErrBusy))
}

// waitTurn reserves a page, and waits for a slot on the host and for the host's start time. A wait
// that is known to outlast the budget's time isn't begun.
func (trip *trip) waitTurn() error {
	turn := &trip.turn
	hours := trip.page.hours()
	turn.floor = trip.page.floor
	if err := trip.admitsUpgrade(); err != nil {
		return trip.noTurn(StageTurn, err)
	}
	for {
		// The wait for the Visit-time may take hours, and holds no page of the budget.
		if err := turn.visit(hours, trip.t.maxWait); err != nil {
			return trip.noTurn(StageTurn, err)
		}
		if err := trip.foresee(); err != nil {
			return err
		}
		// The page is reserved before the wait, and refunded unless it is sent. Counting at the
		// start would let more requests queue than the budget has pages for.
		if err := trip.charge.reserve(); err != nil {
			return err
		}
		if err := turn.acquire(trip.t.cfg.Limiter); err != nil {
			return trip.noTurn(StageTurn, err)
		}
		if now := time.Now(); !opens(hours, now).After(now) {
			break
		}
		// The site's time to be visited has ended during the wait: another one begins.
		turn.release()
	}
	// Without a wait, the verdict and the rules are from a moment ago.
	turn.late = time.Since(trip.page.asked) > time.Millisecond
	if !turn.late {
		return nil
	}
	// During the wait the user's rules may have changed, and other requests have spent.
	err := trip.permit()
	if err == nil {
		err = trip.charge.check(time.Time{})
	}
	if err != nil {
		turn.release()
	}
	return err
}

// foresee makes the end of the budget's time the deadline of the wait for the turn. So a request
// that would start later is refused immediately.
func (trip *trip) foresee() error {
	end, running, err := trip.charge.deadline()
	if err != nil {
		return err
	}
	trip.turn.wait.By = trip.lastStart()
	if running {
		trip.turn.wait.By = earlier(trip.turn.wait.By, end)
		return nil
	}
	// The budget's clock hasn't started, and the next reserved page would start it. So the limiter is
	// asked first whether the request can start in time.
	next, err := trip.t.cfg.Limiter.Next(trip.subject.ctx, trip.subject.host, trip.page.floor)
	if err != nil {
		return trip.noTurn(StageTurn, err)
	}
	return trip.charge.check(next)
}

// lastStart returns the last time at which the host's usual response still comes before the
// deadline of the caller's context. The site would answer a later request for nothing. It is zero
// without such a deadline. A request that needs no wait is sent anyway, so that a host that has
// become faster is noticed.
func (trip *trip) lastStart() time.Time {
	s := &trip.subject
	deadline, ok := s.ctx.Deadline()
	if !ok || s.kind != kindPage {
		return time.Time{}
	}
	return deadline.Add(-s.tally.Host(s.host).Latency)
}

// earlier returns the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// A result is the result of Base: a response, or the failure.
type result struct {
	resp    *http.Response
	failure error
}

// send calls Base with the request. The error is our refusal, because there was no start for the
// request once it had its connection.
func (trip *trip) send() (result, error) {
	paid := trip.charge.spend()
	ctx := &trip.try.ctx
	// The request that is sent has the try's own context, with the hook for the connection.
	sent := trip.req
	if sent != &trip.try.request {
		sent = trip.try.clone(sent)
	}
	trip.try.body.Watch(sent)
	if trip.turn.exchange != nil {
		//lint:ignore SA1019 the context of the try ends with it, but for http.Client's timer
		sent.Cancel = nil //nolint:staticcheck // the same
		trip.turn.exchange.Start()
	}
	ctx.open()
	r := trip.callBase(sent)
	ctx.close(r.failure == nil)
	// A response names the request that the caller made, as net/http's does.
	if r.resp != nil && r.resp.Request == sent {
		r.resp.Request = trip.req
	}
	// Base reports that its context was cancelled, which getConn did.
	if r.failure != nil && ctx.excess.Load() {
		r.failure = opened(r.failure)
	}
	// Base has closed the request's body, or will.
	trip.held = nil
	if r.resp != nil && r.resp.Body != nil {
		trip.held = r.resp.Body
	}
	if err := ctx.guard.err(); err != nil {
		trip.learn(result{failure: context.Canceled}) // the start counts: the site may have seen a connection
		return result{}, trip.subject.fail(StageRule, time.Time{}, err)
	}
	if ctx.refused.err != nil {
		return result{}, trip.startRefused(ctx.refused, paid)
	}
	if r.resp == nil && r.failure == nil {
		base := baseOf(trip.t, trip.over)
		r.failure = fmt.Errorf("politeness: Base (%T) returned neither a response nor an error", base)
	}
	return r, nil
}

// startRefused returns the error of a request that got a connection but no start for it. paid is
// the previous payment for its page.
func (trip *trip) startRefused(refused refusedStart, paid payment) error {
	turn := &trip.turn
	if trip.try.ctx.sent {
		// A request sent before the connection was lost may have reached the site. So its start
		// counts, and ends here.
		trip.learn(result{failure: context.Canceled})
	} else {
		// Nothing has reached the site: the page isn't spent, and the start's number isn't used.
		trip.charge.page = paid
		trip.subject.tally.Starts.Add(-1)
		turn.vain = turn.start.givenUp()
		turn.start = start{}
	}
	if refused.unused != (givenUp{}) {
		// There was a start, and recheck has recorded why it isn't used. Only its number, and that
		// of the start before, need a record.
		turn.recordVain(turn.vain)
		turn.recordVain(refused.unused)
		return refused.err
	}
	return trip.noTurn(StageTurn, refused.err)
}

// callBase calls Base. While that continues only Ring records anything.
func (trip *trip) callBase(req *http.Request) result {
	if trip.subject.recorder != nil {
		trip.subject.text() // for Ring
		defer trip.t.slow.Begin(&trip.slow, trip).End()
	}
	base := baseOf(trip.t, trip.over)
	if trip.subject.kind == kindRobots && trip.t.cfg.RobotsBase != nil {
		base = trip.t.cfg.RobotsBase
	}
	resp, err := base.RoundTrip(req) //nolint:bodyclose // end closes it until it is handed over
	return result{resp: resp, failure: trip.turn.exchange.Cause(err)}
}

// Ring implements alarm.Ringer: it records that a response is waited for.
func (trip *trip) Ring() {
	if trip.try.ctx.mu.TryLock() { // else the request waits for a new start, not for its answer
		trip.try.ctx.mu.Unlock()
		trip.turn.recordWait(waitCause{hold: "answer", why: "for an answer"})
	}
}

// learn reports the response to the host's state: it blocks, slows down, or clears. Without a
// response the attempt has ended.
func (trip *trip) learn(r result) {
	s := &trip.subject
	a := &trip.answer
	start := &trip.turn.start
	*a = answer{latency: time.Since(start.Start)}
	if n := int(trip.try.ctx.opened.Load()); n > 1 {
		a.opened = n
	}
	now := start.Start.Add(a.latency) // Since and Add cost half as much as Now
	var outcome hostlimit.Outcome
	if r.failure == nil {
		thrown := a.read(r.resp, trip.t.cfg.IsRefusal, s.kind, &outcome)
		defer rethrow(thrown) // once the host's state knows of the response
		if !trip.isAsked(r.resp) {
			outcome.RetryAfter = 0
		}
	} else {
		outcome.Err = trip.blame(r.failure)
	}
	s.tally.Answer(outcome.Status, a.latency, now)
	// An exchange that the caller has ended is no response of the host.
	if !rules.Left(&outcome) {
		latency := a.latency
		if r.failure != nil {
			latency = 0
		}
		s.tally.HostAnswered(s.host, outcome.Refused != "" || tally.Refused(outcome.Status), latency)
	}
	outcome.Latency = a.latency
	// Hosts serve robots.txt even if they refuse pages, so its success lifts no block.
	outcome.Aside = s.kind == kindRobots
	trip.describeQuestion(&outcome)
	a.page = outcome.Page
	a.conditional = outcome.Conditional
	a.effect = trip.turn.lease.Observe(outcome)
	if s.kind == kindPage {
		s.call.affect(a.effect)
		if r.failure == nil && s.call != nil {
			s.call.answer(answered{subject: s, answer: *a, lease: trip.turn.lease, outcome: outcome})
		}
	}
	set := now
	if a.effect.Blocked {
		set = time.Now() // a start just before Observe doesn't count as a start during the block
	}
	trip.turn.recordStart()
	if trip.rival != nil {
		trip.t.warnOf(trip.rival, s)
		trip.rival = nil
	}
	a.recordEffect(s, outcome, set)
	s.news(nil, a.effect.StateErr, nil)
	if r.failure == nil {
		return
	}
	// The slot is free before a slow sink is called. The record has the time of the failure.
	defer s.report(evidence.Failed, func(d *evidence.Decision) {
		d.Time = now
		d.Seq = start.Seq
		d.Start = start.Start
		d.Latency = a.latency
		d.Duration = a.latency
		d.Err = r.failure.Error()
		d.Left = rules.Left(&outcome)
		d.Connections = a.opened
	})
	defer trip.try.ctx.Cancel(context.Canceled)
	trip.turn.release()
}

// isAsked reports whether a Retry-After of resp, which isn't a refusal, is about the request's
// host. In a redirect it is about the target's host.
func (trip *trip) isAsked(resp *http.Response) bool {
	if resp.StatusCode/100 != 3 || first(resp.Header, "Retry-After") == "" {
		return true
	}
	target, err := resp.Location()
	if err != nil {
		return true // not a valid target, so nothing is followed
	}
	next := &http.Request{Method: http.MethodGet, URL: hostname.URL(target), Host: target.Host}
	return trip.t.cfg.HostKey(next) == trip.subject.host
}

// describeQuestion sets the fields of o that describe the request. Without them, a response to one
// kind of request would count for another.
func (trip *trip) describeQuestion(o *hostlimit.Outcome) {
	req := trip.req
	o.Method = req.Method
	o.Conditional = caching.IsConditional(req.Header)
	o.Page = trip.subject.kind == kindPage && trip.subject.call.isJudged()
	o.Resource = weburl.Hash(req.URL)
	isGet := o.Method == "" || o.Method == http.MethodGet
	if !isGet {
		for i := range len(o.Method) {
			o.Resource = (o.Resource ^ uint64(o.Method[i])) * hashPrime
		}
	}
	if o.Conditional {
		o.Resource = (o.Resource ^ 1) * hashPrime
	}
	o.Resource = max(o.Resource, 1)
}

// hashPrime is the factor of FNV-1a, by which weburl.Hash mixes the parts of a URL.
const hashPrime = 1099511628211

// isRevisit reports whether a request with the header h asks for a page only if it has changed.
func isRevisit(h http.Header) bool {
	return len(h["If-None-Match"]) > 0 || len(h["If-Modified-Since"]) > 0
}

// rethrow continues with a panic that was recovered elsewhere; nil: there was none.
func rethrow(thrown any) {
	if thrown != nil {
		panic(thrown)
	}
}

// blame returns the failure for the host's state. A failure that the caller caused says nothing
// about the host.
func (trip *trip) blame(failure error) error {
	s := &trip.subject
	if cause := trip.turn.wait.Err(); cause != nil {
		// The caller left, or its crawl ended, even if Base returned another error. The deadline
		// of a fetch of robots.txt is robotscache's own: the host hasn't answered in time.
		timeout := context.Cause(s.ctx)
		if s.kind == kindRobots && errors.Is(timeout, context.DeadlineExceeded) {
			return timeout
		}
		return s.call.meaning(cause)
	}
	if faults.Callers(trip.req, &trip.try.body, failure) {
		s.call.excuse()
		return context.Canceled
	}
	return failure
}

// handOver returns the result of Base, an error unchanged. The slot is held until the response's
// body ends.
func (trip *trip) handOver(r result) (*http.Response, error) {
	if r.failure != nil {
		return nil, r.failure
	}
	resp := r.resp
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
	// DirectivesOf and PreferencesOf find the page by the response's request, unless Base has set
	// another one.
	isOurs := resp.Request == nil || resp.Request == trip.original
	if head := trip.page.head; head != nil && isOurs {
		ctx := context.WithValue(trip.original.Context(), (*pagehead.Head)(nil), head)
		resp.Request = trip.req.WithContext(ctx)
	}
	trip.charge.markRedirect(resp, trip.original, trip.turn.exchange.Length())
	if empty {
		trip.ended(trip.turn.giveLease(), 0, nil)
		return resp, nil
	}
	b := &trip.body
	if b.ReadCloser != nil { // of the response to an earlier try
		b = new(body)
	}
	b.ReadCloser = resp.Body
	b.lease = trip.stayOpen(resp, trip.turn.giveLease())
	b.reader = trip
	b.length = resp.ContentLength
	b.ctx = &trip.try.ctx
	trip.open = b
	trip.answer.handed = true // end leaves the try's context to the body
	// Config.Response is for pages that were served. robotscache has a separate limit.
	if trip.subject.kind == kindPage && success(resp.StatusCode) {
		b.limit = trip.t.cfg.Response.MaxBytes
	}
	if b.isShort() && isBuffered(resp.Body, b.length) {
		b.readAhead()
	}
	if b.isForgettable() {
		return b.guard(resp), nil
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

// take implements bodyReader. Bytes are taken from the budget only after the read. So bytes that a
// slow server hasn't sent yet are left for other readers.
func (trip *trip) take(piece []byte, end bool) (n int, err error) {
	n, err = trip.charge.take(len(piece))
	headEnds, refused := trip.page.readBody(piece[:n], end && err == nil, trip.answer.status)
	switch {
	case refused != nil && headEnds:
		// The piece with the end of the head may have text of the page behind it.
		return 0, refused
	case refused != nil:
		// A page without a head may state its wish anywhere, so the error replaces io.EOF.
		return n, refused
	case err != nil:
		return n, trip.charge.exceeded(StageBody, err)
	}
	return n, nil
}

// cause implements bodyReader.
func (trip *trip) cause(err error) error { return trip.turn.exchange.Cause(err) }

// refuse implements bodyReader.
func (trip *trip) refuse(reason error) error { return trip.reject(StageBody, reason) }

// reject records and returns the refusal of a response.
func (trip *trip) reject(stage Stage, err error) error {
	s := &trip.subject
	a := &trip.answer
	s.report(evidence.ResponseRejected, func(d *evidence.Decision) {
		d.Status = a.status
		d.ContentType = first(a.header, "Content-Type")
		d.Reason = err.Error()
	})
	return s.fail(stage, time.Time{}, err)
}

// ended implements bodyReader: it releases the lease and records the end of the exchange. The end
// is stamped before the slot is free, or the log would show one request too many in flight.
func (trip *trip) ended(lease hostlimit.Lease, read int64, err error) {
	s := &trip.subject
	start := &trip.turn.start
	var now time.Time
	if s.recorder != nil {
		now = start.Start.Add(time.Since(start.Start))
	}
	expired := false
	if trip.retrying {
		trip.turn.exchange.Pause() // until the next try starts
	} else {
		defer trip.turn.exchange.End()
	}
	defer func() { // even if the limiter panics
		defer trip.closeStay()
		defer trip.try.ctx.Cancel(context.Canceled)
		trip.answer.recordEnd(s, &trip.page, start, read, err, now)
		if expired {
			s.report(evidence.LeaseExpired, func(d *evidence.Decision) {
				s.recorder.NameLease(d, hostlimit.TakenBack{Seq: start.Seq})
				d.Time = now
				d.Reason = "the body was open for longer than LeaseTTL, so its slot was taken back"
			})
		}
	}()
	expired = lease.Release()
}
