package crawl

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/internal/caching"
	"github.com/go-politeness/politeness/internal/contexts"
	"github.com/go-politeness/politeness/internal/printable"
	"github.com/go-politeness/politeness/internal/weburl"
	"github.com/go-politeness/politeness/publicnet"
	"github.com/go-politeness/politeness/revisit"
)

const (
	maxHops = 10                   // redirects
	soon    = 2 * time.Millisecond // a turn that is worth waiting for

	// A page comes back after a refusal if no other response shows whether only this page fails.
	// The time until then doubles with each try, doublings times at most.
	retryAfter = 10 * time.Second
	doublings  = 6
)

// ask fetches robots.txt of a new host, or else the URL of fl, if the host may be asked now. It
// runs in a separate goroutine, and sends one event that ends the flight.
func (r *run) ask(fl *flight) {
	growStack()
	var end event = endedFlight{fl: fl, outcome: Failed, err: errGone} // unless step returns
	defer func() { r.events <- end }()
	last, err := guardedValue("the Transport, asked for "+fl.request.URL, func() (event, error) {
		return r.step(fl), nil
	})
	if err != nil { // a panic
		last = endedFlight{fl: fl, outcome: Failed, err: err}
	}
	end = last
}

// step takes the next step for the URL of fl. It returns the end of the flight.
func (r *run) step(fl *flight) event {
	if fl.first {
		return r.contact(fl)
	}
	if at := r.early(fl); !at.IsZero() {
		return earlyFlight{fl: fl, earliest: at}
	}
	end := r.checkTurn(fl)
	if end != nil {
		return end
	}
	return r.exchange(fl)
}

// An endedFlight has led to no page.
type endedFlight struct {
	fl      *flight
	outcome Outcome
	err     error
	took    time.Duration // 0: there was no exchange
}

func (e endedFlight) apply(r *run) {
	r.frontier.finish(e.fl, e.took)
	r.failed(e.fl, e.outcome, e.err)
}

// contact fetches robots.txt of a host that is new.
func (r *run) contact(fl *flight) event {
	url := fl.request.URL
	_, err := r.c.cfg.Transport.Next(r.starts, url)
	// Check asks neither the budget nor the user's rules. If the budget is spent, Check would wait.
	// If a rule refuses the host, robots.txt isn't fetched either.
	if errors.Is(err, politeness.ErrBudget) || byRule(err) != nil {
		return r.exchange(fl)
	}
	began := time.Now()
	_, err = r.c.cfg.Transport.Check(r.starts, url)
	if at := retryAt(err); !at.IsZero() {
		fl.hand = r.handBlock(fl, at)
	}
	return gotRobots{fl: fl, began: began, took: time.Since(began), err: err}
}

// A gotRobots is the end of a flight that has tried to fetch robots.txt.
type gotRobots struct {
	fl    *flight
	began time.Time
	took  time.Duration
	err   error
}

func (e gotRobots) apply(r *run) {
	h := e.fl.h
	h.robotsAsked = true
	if e.took > soon { // else it came from a cache, most likely, and Next knows when the host may be asked
		h.at = e.began.Add(h.gap)
	}
	r.frontier.finish(e.fl, e.took)
	if at := retryAt(e.err); !at.IsZero() {
		h.robotsAsked = false // there was no turn for it
		r.putOff(e.fl, at, e.err)
		return
	}
	// With robots.txt, or with a refusal that RoundTrip repeats for each URL, its pages are next.
	r.putBack(e.fl)
	if r.revisits() && r.c.cfg.Discover != nil {
		r.addSources(e.fl)
		return
	}
	r.discover(e.fl)
}

// putBack puts the URL of fl back.
func (r *run) putBack(fl *flight) {
	s := &fl.h.refusals
	switch {
	case fl.good: // it has stayed in refusals
		r.frontier.put(fl.h)
	case r.stopped:
		r.done(Result{Request: fl.request, Outcome: Left}, nil)
	case fl.again && s.again.URL == "":
		s.again = fl.request
		r.frontier.put(fl.h)
	default: // also if another page has become refusals.again meanwhile
		r.frontier.back(fl.h, fl.request)
	}
}

// checkTurn reports to the run if the host may be asked now, and returns nil. Otherwise it returns
// the end of the flight.
func (r *run) checkTurn(fl *flight) event {
	var forecast contexts.Forecast
	at, err := r.c.cfg.Transport.Next(contexts.WithForecast(r.starts, &forecast), fl.request.URL)
	owns, lost := r.owns(fl.h.key) // Next took long, or the process was stopped meanwhile
	now := time.Now()
	switch {
	case !owns:
		return lostHost{fl: fl, err: lost}
	case err != nil:
		at = retryAt(err)
		if at.IsZero() {
			return nil // RoundTrip refuses the request as well, and records that
		}
	case at.Sub(now) <= soon:
		r.events <- startedFlight{fl: fl, at: now}
		return nil
	case forecast.Closed:
		err = errClosed
	}
	fl.hand = r.handBlock(fl, at)
	return delayedFlight{fl: fl, at: at, err: err}
}

// errClosed is why a host waits until the next Visit-time of its robots.txt.
var errClosed = errors.New("outside of the Visit-time of its robots.txt")

// A startedFlight sends its request now.
type startedFlight struct {
	fl *flight
	at time.Time
}

func (e startedFlight) apply(r *run) { r.frontier.started(e.fl, e.at) }

// A lostHost is the end of a flight whose host another process has. err is that of owns.
type lostHost struct {
	fl  *flight
	err error
}

func (e lostHost) apply(r *run) { r.leave(e.fl, e.err) }

// A delayedFlight is the end of a flight whose host may not be asked before at.
type delayedFlight struct {
	fl  *flight
	at  time.Time
	err error // nil: its delay, or a block
}

func (e delayedFlight) apply(r *run) {
	r.frontier.finish(e.fl, 0)
	r.putOff(e.fl, e.at, e.err)
}

// retryAt returns the time from which the Transport, which has refused a request with err, would
// send it. It is zero if the time isn't known. It is also zero if the budget has refused, because
// no crawl waits for a renewal. If the budget couldn't be reached, it is in a second.
func retryAt(err error) (at time.Time) {
	refused, ok := errors.AsType[*politeness.Error](err)
	if !ok || errors.Is(err, politeness.ErrBudget) {
		return at
	}
	if refused.Stage == politeness.StageBudget { // but not ErrBudget: its store didn't answer
		return time.Now().Add(time.Second)
	}
	return refused.RetryAt
}

// putOff sends nothing to the host of fl until at. The reason is err or, if that is nil, the host's
// delay or a block. If this happens too often, or at is too far away, the URL is given up. If one
// of the user's own rules is the reason, the URL is set aside.
func (r *run) putOff(fl *flight, at time.Time, err error) {
	h := fl.h
	now := time.Now()
	outcome := Refused
	isOver := false
	tooFar := at.Sub(now) > r.c.cfg.Patience
	rule := byRule(err)
	switch {
	case rule != nil: // goes before ErrUnreachable, which is the result if a rule refuses robots.txt
		r.setAside(fl, asideByRule(rule))
		return
	case fl.hand != "" && tooFar:
		r.setAllAside(fl, asideByHand(fl.hand))
		return
	case fl.hand != "":
		h.refusals.pause(at)
	case errors.Is(err, politeness.ErrUnreachable):
		outcome = Unreachable
		isOver = h.bar(fl.request.URL, at, err, r.c.cfg.Tries)
	}
	if !r.stopped && (isOver || tooFar || forGood(err)) {
		h.at = now // the other URLs of its origin have this outcome, too
		r.noPage(fl, outcome, err)
		return
	}
	if outcome == Unreachable && !r.stopped && r.letOthersGo(fl, at) {
		return
	}
	// If the host has several slots, another flight may have learned of a later time. If at has
	// passed already, the host would be asked again and again without a pause.
	h.at = slices.MaxFunc([]time.Time{h.at, at, now.Add(soon)}, time.Time.Compare)
	h.explain(err)
	r.putBack(fl)
}

// explain sets why h waits: for err or, if that is nil, after a refusal or for its delay.
func (h *host) explain(err error) {
	switch {
	case err != nil:
		h.why = reasonOf(err)
	case h.refusals.alone():
		h.why = h.refusals.String()
	default:
		h.why = ""
	}
}

// reasonOf returns the text of err for a line of Progress, which has the host and the time already.
func reasonOf(err error) string {
	var refused *politeness.Error
	if errors.As(err, &refused) && refused.Err != nil {
		const most = 200 // of a text that a site may have written
		return printable.Clipped(refused.Err.Error(), most)
	}
	return err.Error()
}

// forGood reports whether err is of a host that can't be reached the next time either.
func forGood(err error) bool {
	var name *net.DNSError
	if errors.As(err, &name) && name.IsNotFound {
		return true
	}
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate) || errors.Is(err, publicnet.ErrPrivate)
}

// exchange asks for the URL of fl, and reads the response.
func (r *run) exchange(fl *flight) event {
	page := newPage(fl)
	if r.revisits() {
		page.recall = new(recall)
	}
	var end event
	defer func() {
		// The run visits the page of a gotPage and releases it then. No other end needs the page.
		// It isn't needed either if the goroutine ends before there is an end.
		if _, ok := end.(gotPage); !ok {
			page.release()
		}
	}()
	page.began = time.Now()
	err := guarded("the request for "+page.FinalURL, func() error { return r.get(page) })
	page.ended = time.Now()
	end = r.landed(fl, page, err)
	return end
}

// newPage returns a page for the response to fl.
func newPage(fl *flight) *Page {
	return &Page{
		URL:      cmp.Or(fl.request.Via, fl.request.URL),
		FinalURL: fl.request.URL,
		Depth:    fl.request.Depth,
		Data:     fl.request.Data,
		request:  fl.request,
		good:     fl.good,
		again:    fl.again,
		told:     fl.told,
		doubt:    fl.doubt,
		sparse:   fl.sparse,
		release:  func() {},
	}
}

// landed returns the end of the flight fl after its exchange, with the error err.
func (r *run) landed(fl *flight, page *Page, err error) event {
	took := page.ended.Sub(page.began)
	refused, _ := errors.AsType[*politeness.Error](err)
	hadRobots := refused == nil || slices.Contains(afterRobots, refused.Stage)
	fl.alive = hadRobots && !page.excused

	at := retryAt(err)
	switch {
	case byRule(err) != nil:
		return heldFlight{fl: fl, rule: byRule(err)}
	case !at.IsZero():
		fl.hand = r.handBlock(fl, at)
		return delayedFlight{fl: fl, at: at, err: err}
	case errors.Is(err, errNoRoom):
		return repeatedFlight{fl: fl, took: took}
	case err == nil && !fl.good && !fl.request.cookie && r.wantsCookie(page):
		fl.request.cookie = true // a redirect to itself is followed only once, or it might never end
		return repeatedFlight{fl: fl, took: took}
	case err == nil:
		return gotPage{fl: fl, page: page, took: took}
	case refused == nil && page.unanswered(err):
		page.err = err
		return gotPage{fl: fl, page: page, took: took}
	case page.broken:
		page.err = err
		page.forgetResponse()
		return gotPage{fl: fl, page: page, took: took}
	}
	outcome := outcomeOf(err, refused)
	if page.excused && r.starts.Err() != nil {
		outcome = Left // it was waiting when the crawl ended
	}
	return endedFlight{fl: fl, outcome: outcome, err: err, took: took}
}

// unanswered reports whether the host hasn't answered, with the error err of the Client, though it
// was asked and might answer the next time.
func (p *Page) unanswered(err error) bool {
	if !p.sent || p.Response != nil {
		return false
	}
	return !p.late && !p.excused && !forGood(err)
}

// breakOff notes that err has ended the body of p, if the host has done so. If a page that was
// served before ends so too, the host refuses. Its limiter can't know, because the status was a
// good one.
func (p *Page) breakOff(ctx context.Context, err error) {
	_, isOurs := errors.AsType[*politeness.Error](err)
	if isOurs || errors.Is(err, errNoRoom) || ctx.Err() != nil || p.cached {
		return
	}
	p.broken = true
	if p.good {
		p.banned = true
		p.call.Ban("the body of a page that it has served before breaks off")
	}
}

// forgetResponse makes p a page without a response.
func (p *Page) forgetResponse() {
	p.Response = nil
	p.Body = nil
	p.release()
	p.release = func() {}
}

// A repeatedFlight is the end of a flight whose URL is fetched once more.
type repeatedFlight struct {
	fl   *flight
	took time.Duration
}

func (e repeatedFlight) apply(r *run) {
	r.frontier.finish(e.fl, e.took)
	r.putBack(e.fl)
}

// afterRobots are the stages of requests whose robots.txt was fetched.
var afterRobots = []politeness.Stage{politeness.StageTurn, politeness.StageResponse, politeness.StageBody}

// failed ends a request without a page. If the budget is spent, or the crawl would be impolite, the
// crawl ends. A host that can't be asked within the budget's time waits until that is over.
func (r *run) failed(fl *flight, outcome Outcome, err error) {
	switch {
	case errors.Is(err, errBeside):
		r.abort(err)
		outcome = Left
	case errors.Is(err, hostlimit.ErrDraining): // an operator has stopped all further starts
		r.stop(err)
		outcome = Left
	case outcome == OverBudget && r.stopped:
		outcome = Left
	case outcome == OverBudget:
		var over *budget.Error
		errors.As(err, &over)
		switch {
		case over == nil || over.Limit == budget.PagesPerHost: // other hosts have pages left
		case over.Limit == budget.Time && over.Want > 0:
			r.waitForBudget(fl, over, err)
			return
		default:
			r.stop(err)
			outcome = Left
		}
	}
	if r.late.Err() != nil {
		outcome = Left // the end of Grace has broken it off
	}
	r.noPage(fl, outcome, err)
}

// waitForBudget puts the URL of fl back until the budget's time is over, because its host can't be
// asked before. Other hosts can, and an operator may lift the block.
func (r *run) waitForBudget(fl *flight, over *budget.Error, err error) {
	h := fl.h
	h.tooLate = err
	h.why = reasonOf(err)
	left := time.Duration(over.Max-over.Used+1) * time.Second // both are rounded down
	h.at = time.Now().Add(left)
	r.putBack(fl)
}

// noPage ends the URL of fl, for which there is no page. If the page was served before, the next
// URL shows whether the host refuses.
func (r *run) noPage(fl *flight, outcome Outcome, err error) {
	if fl.good {
		fl.h.refusals.loseGood(fl.request)
	} else {
		r.done(Result{Request: fl.request, Outcome: outcome, Err: err}, nil)
	}
	r.settle(fl.h)
	r.frontier.put(fl.h)
}

// get fetches a page.
func (r *run) get(page *Page) error {
	ctx, cancel := context.WithTimeout(r.late, r.c.cfg.Timeout)
	defer cancel()
	call := &politeness.Call{
		Until: r.starts.Done(),   // a wait ends with the crawl, an exchange Grace after it
		Once:  r.c.cfg.Tries > 1, // the crawl repeats it, and continues with other hosts until then
		// If responses in a row are no pages, the crawl fetches a page that was served before as a
		// check.
		Judges: true,
		Proof:  page.good,
	}
	ctx = politeness.WithCall(ctx, call)
	req, err := r.newRequest(ctx, page)
	if err != nil {
		return err
	}
	page.method = req.Method
	page.otherMethod = req.Method != "" && req.Method != http.MethodGet
	if r.revisits() {
		req = r.condition(page, req)
	}
	page.partial = caching.IsConditional(req.Header)
	page.sent = true
	resp, err := r.c.client.Do(req)
	if err != nil {
		page.late = r.c.cfg.Tries == 1 && ctx.Err() != nil
		page.excused = call.Excused()
		return err
	}
	page.Response = resp
	page.call = call
	page.refused = call.Refused()
	defer func() {
		resp.Body.Close()
		resp.Body = http.NoBody
	}()
	// The first answer proves whether the Client leads to the Transport.
	page.cached = !call.Reached(r.c.cfg.Transport)
	if !r.leads.Load() {
		if page.cached && !r.probe(ctx) {
			return errBeside
		}
		r.leads.Store(true)
	}
	if err := page.decode(req.Header.Get("Accept-Encoding") != "", r.c.cfg.MaxBody); err != nil {
		return err
	}
	if err := r.readBody(ctx, page); err != nil {
		page.breakOff(ctx, err)
		return err
	}
	page.saying = r.sayingOf(page)
	if page.told != (saying{}) && page.saying == page.told {
		page.refuse("its text is that of a page for which Visit has returned ErrRefused")
		page.toldAlike = true
	}
	if why := page.banOf(call.Effect()); why != "" {
		page.refused = why
		page.banned = true
		call.Ban(why)
	}
	if page.sparse != ordinary && kindOf(page) == page.sparse {
		page.limited = true
		page.refuse("it limits requests by such responses: it has served a page later that it refused so")
	}
	return nil
}

// banOf returns why the answer to a page that was served before is a ban which the host's limiter
// doesn't know of; empty if it is none. effect is that of the answer on the limiter.
func (p *Page) banOf(effect hostlimit.Effect) string {
	isKnown := p.refused != "" || effect.Blocked
	switch {
	case !p.good || isKnown:
		return ""
	case p.doubt != (saying{}) && isWall(p, p.doubt):
		return "it answers all pages alike, even one that it has served before"
	case meaningOf(p) == rules.Forbidden && p.sparse != forbids: // of a host that limits so it is no ban
		return "it refuses a page that it has served before"
	}
	return ""
}

// refuse reports to the host's limiter that the page is a refusal, unless the Transport has taken
// it for one already. The limiter may be on a server.
func (p *Page) refuse(why string) {
	if p.refused != "" {
		return
	}
	p.refused = why
	p.call.Refuse(why)
}

// newRequest returns the request for a page, as the functions of the Config want it.
func (r *run) newRequest(ctx context.Context, page *Page) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page.FinalURL, http.NoBody)
	if err != nil {
		return nil, err
	}
	if r.c.cfg.Known != nil {
		known, err := r.c.cfg.Known(ctx, page.FinalURL)
		if err == nil && known == (Validators{}) && page.URL != page.FinalURL {
			known, err = r.c.cfg.Known(ctx, page.URL)
		}
		if err != nil {
			return nil, err
		}
		if known.ETag != "" {
			req.Header.Set("If-None-Match", known.ETag)
		}
		if known.LastModified != "" {
			req.Header.Set("If-Modified-Since", known.LastModified)
		}
	}
	if r.c.cfg.Prepare != nil {
		before := *req.URL
		if err := r.c.cfg.Prepare(page.request, req); err != nil {
			return nil, err
		}
		if req.URL == nil || *req.URL != before {
			return nil, errOtherURL
		}
	}
	if page.good {
		req.Header.Set("Cache-Control", "no-cache") // a response from a cache proves nothing about the host
	}
	return req, nil
}

// errOtherURL is why a request isn't sent.
var errOtherURL = errors.New("crawl: Config.Prepare has changed the URL of the request: set Request.URL by Config.Take")

// errBeside is why a crawl ends that would be impolite.
var errBeside = errors.New("crawl: Config.Client sends requests past Config.Transport, " +
	"or without their contexts: nothing would pace them")

// probe reports whether the Client leads to the Transport although a response hasn't come from
// there, but from a cache.
func (r *run) probe(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return r.c.cfg.Transport.IsReachedBy(ctx, r.c.client.Transport)
}

// errNoRoom is the reason for another try if a large body found no room within Config.Timeout.
var errNoRoom = errors.New("crawl: no room for a large body")

// readBody reads the body of a page, up to MaxBody, and takes room for it until the page has been
// visited.
func (r *run) readBody(ctx context.Context, p *Page) error {
	limit := r.c.cfg.MaxBody
	from := p.Response.Body
	held := &share{room: r.room}
	p.release = held.release
	header := sizeOf(p.Response.Header)
	announced := p.Response.ContentLength // -1: it isn't announced
	var body []byte
	var err error
	for size := int64(freeBytes); err == nil && int64(len(body)) < limit; size = 2 * max(size, freeBytes) {
		// Room is taken as the body comes, because a site may announce bytes that it never sends.
		if int64(len(body)) < announced && announced < size {
			size = announced
		}
		size = min(size, limit)
		if held.grow(ctx, header+size) != nil {
			return errNoRoom
		}
		body, err = readUpTo(from, body, int(size))
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	n := int64(len(body))
	// The wait was too long for the rest of the body. The page isn't to blame, so it has another
	// exchange, with its whole Timeout.
	if err != nil && held.waited && ctx.Err() != nil {
		return errNoRoom
	}
	// A body of exactly limit bytes isn't truncated: only a further byte shows that.
	if err == nil && n == limit {
		more, _ := io.ReadFull(from, make([]byte, 1))
		p.Truncated = more > 0
	}
	p.Body = body
	p.Truncated = p.Truncated || p.cut && !endsHTML(p.Body)
	return err
}

// readUpTo appends to body, from the reader from, until it has the length size. It allocates no
// more than that. The error is that of from, io.EOF included.
func readUpTo(from io.Reader, body []byte, size int) ([]byte, error) {
	const least = 4 << 10
	for len(body) < size {
		if len(body) == cap(body) {
			longer := make([]byte, len(body), min(max(2*len(body), least), size))
			copy(longer, body)
			body = longer
		}
		n, err := from.Read(body[len(body):min(cap(body), size)])
		body = body[:len(body)+n]
		if err != nil {
			return body, err
		}
	}
	return body, nil
}

// outcomeOf returns the outcome of a URL with the error err. refused is the *politeness.Error in
// it, or nil.
func outcomeOf(err error, refused *politeness.Error) Outcome {
	switch {
	case refused == nil:
		return Failed
	case errors.Is(err, politeness.ErrBudget):
		return OverBudget
	case errors.Is(err, politeness.ErrUnreachable):
		return Unreachable
	case errors.Is(err, politeness.ErrDisallowed), errors.Is(err, politeness.ErrReserved):
		return Disallowed
	case errors.Is(err, politeness.ErrTooLarge), errors.Is(err, politeness.ErrContentType):
		return Rejected
	case errors.Is(err, politeness.ErrBusy), errors.Is(err, politeness.ErrBlocked):
		return Refused
	}
	return Failed
}

// visit finds the links of a page and calls Visit, unless the page leads elsewhere. A page that
// leads elsewhere has the outcome of that even if Follow panics for its target. err is then the
// panic.
func (r *run) visit(p *Page) (Outcome, error) {
	p.outcome = VisitFailed
	err := guarded("Visit of "+p.FinalURL, func() error { return r.turnOrVisit(p) })
	return p.outcome, err
}

// turnOrVisit is visit without its guard. It sets p.outcome, which is VisitFailed so far.
func (r *run) turnOrVisit(p *Page) error {
	if to := weburl.Location(p.Response); to != "" {
		p.outcome = Redirected
		r.learn(p)
		r.turnTo(p, to, Link{Element: "redirect"})
		return nil
	}
	r.read(p)
	if err := r.late.Err(); err != nil { // the page may have been read in part
		p.outcome = Left
		return err
	}
	r.learn(p)
	if r.givesWay(p) {
		p.outcome = NotCanonical
		r.turnTo(p, p.Canonical, Link{URL: p.Canonical, Element: "link", Rel: "canonical"})
		return nil
	}
	if p.Change == revisit.Same {
		p.outcome = Unchanged
		return nil
	}
	if c := p.recall; c != nil && p.Response.StatusCode == http.StatusNotModified && !c.conditional && !c.ownTerms {
		p.outcome = Failed
		return errUnasked
	}
	if err := r.c.cfg.Visit(r.late, p); err != nil {
		return err
	}
	p.outcome = Visited
	return nil
}

// givesWay reports whether the page isn't visited because its canonical URL is visited instead.
// That URL doesn't give way in turn. Otherwise two pages that name each other would both be lost.
func (r *run) givesWay(p *Page) bool {
	if !r.c.cfg.Canonical || p.Canonical == "" || p.Canonical == p.FinalURL {
		return false
	}
	if p.request.Via != "" {
		return false // the canonical URL may redirect here
	}
	if p.FinalURL == "https"+strings.TrimPrefix(p.Canonical, "http") {
		return false // many sites redirect http to https
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.canonical.Contains(p.FinalURL) {
		return false
	}
	r.canonical.Add(p.Canonical, true)
	return true
}
