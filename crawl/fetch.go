package crawl

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/printable"
	"github.com/go-politeness/politeness/internal/waits"
	"github.com/go-politeness/politeness/publicnet"
)

const (
	maxHops    = 10                   // redirects
	retryAfter = 10 * time.Second     // after a refusal of which nothing tells whether it is the page's own; it doubles,
	doublings  = 6                    // so often at most
	soon       = 2 * time.Millisecond // a turn that is worth waiting for
)

// ask asks for robots.txt of a new host, or else for the URL of fl, if the host may be asked now.
// It runs in a goroutine of its own.
func (r *run) ask(fl *flight) {
	err := errGone
	defer func() {
		if !fl.finished {
			r.events <- func() {
				r.frontier.finish(fl, 0)
				r.failed(fl, Failed, err)
			}
		}
	}()
	err = guarded("the Transport, asked for "+fl.request.URL, func() error {
		switch {
		case fl.first:
			r.contact(fl)
		case r.isTurn(fl):
			r.exchange(fl)
		}
		return nil
	})
}

// contact fetches robots.txt of a host that is new, and puts the URL of fl back.
func (r *run) contact(fl *flight) {
	if _, err := r.c.cfg.Transport.Next(r.ctx, fl.request.URL); errors.Is(err, politeness.ErrBudget) {
		r.exchange(fl) // Check knows no budget: it would wait
		return
	}
	began := time.Now()
	_, err := r.c.cfg.Transport.Check(r.ctx, fl.request.URL)
	took := time.Since(began)
	fl.finished = true
	r.events <- func() {
		fl.h.robotsAsked = true
		if took > soon { // else it came from a cache, most likely, and Next knows when the host may be asked
			fl.h.at = began.Add(fl.h.gap)
		}
		r.frontier.finish(fl, took)
		if at := retryAt(err); !at.IsZero() {
			fl.h.robotsAsked = false // there was no turn for it
			r.putOff(fl, at, err)
			return
		}
		r.putBack(fl)
		r.discover(fl)
	}
}

// discover calls Config.Discover for the host of fl, once.
func (r *run) discover(fl *flight) {
	key := fl.h.key
	if _, called := r.discovered[key]; called || r.c.cfg.Discover == nil || r.stopped {
		return
	}
	r.discovered[key] = fl.request.URL
	r.seeking++
	go func() {
		var found []Request
		defer func() {
			r.events <- func() {
				r.seeking--
				for _, req := range found {
					req.Depth = max(1, req.Depth) // a start URL may redirect anywhere, see turnTo
					_ = r.accept(req)             // it is counted
				}
				if r.ctx.Err() != nil {
					return // it may have been cut off, see over
				}
				r.discovered[key] = ""
				if res, ok := r.held[key]; ok {
					delete(r.held, key)
					r.work.done = append(r.work.done, res)
				}
			}
		}()
		_ = guarded("Discover of "+fl.request.URL, func() error { // a panic finds nothing
			found = r.c.cfg.Discover(r.ctx, fl.request.URL)
			return nil
		})
	}()
}

// putBack puts the URL of fl back.
func (r *run) putBack(fl *flight) {
	switch {
	case fl.good:
		r.frontier.put(fl.h)
	case r.stopped:
		r.done(Result{Request: fl.request, Outcome: Left}, nil)
	case fl.again && fl.h.refusals.again.URL == "":
		fl.h.refusals.again = fl.request
		r.frontier.put(fl.h)
	default:
		r.frontier.back(fl.h, fl.request)
	}
}

// isTurn reports whether the host may be asked now. If not, it puts the URL back.
func (r *run) isTurn(fl *flight) bool {
	at, err := r.c.cfg.Transport.Next(r.ctx, fl.request.URL)
	owns, lost := r.owns(fl.h.key) // Next took long, or the process was stopped meanwhile
	now := time.Now()
	switch {
	case !owns:
		fl.finished = true
		r.events <- func() { r.leave(fl, lost) }
		return false
	case err == nil && at.Sub(now) <= soon:
		r.events <- func() { r.frontier.started(fl, now) }
		return true
	case err != nil:
		if at = retryAt(err); at.IsZero() {
			return true // RoundTrip refuses the request as well, and records that
		}
	}
	fl.finished = true
	r.events <- func() {
		r.frontier.finish(fl, 0)
		r.putOff(fl, at, err)
	}
	return false
}

// retryAt returns when the Transport, which has refused a request with err, would take it; zero:
// not known, or the budget has refused it: no crawl waits until that is renewed. A budget that
// couldn't be asked is asked again in a second.
func retryAt(err error) (at time.Time) {
	refused := (*politeness.Error)(nil)
	switch {
	case !errors.As(err, &refused), errors.Is(err, politeness.ErrBudget):
		return at
	case refused.Stage == politeness.StageBudget:
		return time.Now().Add(time.Second)
	}
	return refused.RetryAt
}

// putOff leaves the host of fl alone until at: because of err or, where that is nil, because of its
// delay or a block. The URL is given up where that happens too often, or at is too far off.
func (r *run) putOff(fl *flight, at time.Time, err error) {
	h := fl.h
	now := time.Now()
	outcome := Refused
	tries := r.c.cfg.Tries
	if rule := byRule(err); rule != nil {
		outcome, err = Disallowed, rule // not that its robots.txt can't be had, which is the consequence
	} else if errors.Is(err, politeness.ErrUnreachable) {
		outcome = Unreachable
		if !at.Equal(h.robotsAt) { // else other pages have waited for the same fetch
			h.unreachable++
		}
		h.robotsAt = at
		refused := errors.Is(err, syscall.ECONNREFUSED)
		if refused {
			tries = min(tries, 2)
		}
		h.dead = refused || h.unreachable > 1 && isSilent(err)
	}
	if (h.unreachable >= tries || forGood(err) || at.Sub(now) > r.c.cfg.Patience) && !r.stopped {
		h.at = now // its other URLs have the same outcome
		r.noPage(fl, outcome, err)
		return
	}
	h.at = slices.MaxFunc([]time.Time{h.at, at, now.Add(soon)}, time.Time.Compare)
	switch {
	case err != nil:
		h.why = err.Error()
	case h.refusals.alone():
		h.why = h.refusals.String()
	default:
		h.why = ""
	}
	r.putBack(fl)
}

// isSilent reports whether err is that of the network, or of a server that takes too long.
func isSilent(err error) bool {
	var refused *politeness.Error
	var network net.Error
	return errors.As(err, &refused) && (errors.As(refused.Err, &network) || refused.Timeout())
}

// giveUpDead gives the URLs of dead hosts up, if no others are left: nothing but their next try
// would keep the crawl. Where all that are left can't be asked within the budget's time, the crawl
// ends. While the Queue is open it goes on in any case.
func (r *run) giveUpDead(now time.Time) {
	if r.stopped || r.open || r.underWay() {
		return
	}
	sooner := make(map[*host]time.Time)
	var tooLate error
	for _, h := range r.frontier.hosts {
		switch {
		case h.tooLate != nil:
			tooLate = h.tooLate
		case h.dead, h.refusals.dead(now):
			sooner[h] = now
		default:
			return
		}
	}
	if tooLate != nil && len(sooner) == 0 {
		r.stop(tooLate)
		return
	}
	for h := range sooner {
		h.unreachable = r.c.cfg.Tries
		if !h.dead {
			h.close()
		}
	}
	r.frontier.moveUp(sooner)
}

// forGood reports whether err is of a host that can't be reached the next time either.
func forGood(err error) bool {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &name) && name.IsNotFound || errors.As(err, &certificate) ||
		errors.Is(err, publicnet.ErrPrivate) || byRule(err) != nil
}

// byRule returns the refusal by Config.Refuse of the Transport that is behind err, nil if none is.
// It refuses robots.txt as well, so err may be ErrUnreachable.
func byRule(err error) *politeness.Error {
	for refused := (*politeness.Error)(nil); errors.As(err, &refused); err = refused.Err {
		if refused.Stage == politeness.StageRule {
			return refused
		}
	}
	return nil
}

// exchange asks for the URL of fl, reads the answer and has it visited.
func (r *run) exchange(fl *flight) {
	began := time.Now()
	page := &Page{
		URL: cmp.Or(fl.request.Via, fl.request.URL), FinalURL: fl.request.URL, Depth: fl.request.Depth,
		request: fl.request, good: fl.good, again: fl.again, release: func() {},
	}
	ended := true
	defer func() {
		if ended { // else it is visited
			page.release()
		}
	}()
	err := guarded("the request for "+page.FinalURL, func() error { return r.get(page) })
	page.began, page.ended = began, time.Now()
	took := page.ended.Sub(began)
	var refused *politeness.Error
	errors.As(err, &refused)
	fl.finished, fl.alive = true, !page.excused && (refused == nil || slices.Contains(afterRobots, refused.Stage))

	switch at := retryAt(err); {
	case !at.IsZero():
		r.events <- func() {
			r.frontier.finish(fl, 0)
			r.putOff(fl, at, err)
		}
		return
	case errors.Is(err, errNoRoom), err == nil && !fl.good && !fl.request.cookie && r.wantsCookie(page):
		r.events <- func() {
			fl.request.cookie = fl.request.cookie || err == nil
			r.frontier.finish(fl, took)
			r.putBack(fl)
		}
		return
	case err != nil && refused == nil && page.sent && page.Response == nil && !page.late && !page.excused && !forGood(err):
		page.err = err
	case err != nil:
		outcome := outcomeOf(err, refused)
		if page.excused && r.ctx.Err() != nil {
			outcome = Left // it was waiting when the crawl ended
		}
		r.events <- func() {
			r.frontier.finish(fl, took)
			r.failed(fl, outcome, err)
		}
		return
	}
	ended = false
	r.events <- func() {
		r.frontier.finish(fl, took)
		r.answered(fl, page)
	}
}

// afterRobots are the stages of requests whose robots.txt was had.
var afterRobots = []politeness.Stage{politeness.StageTurn, politeness.StageResponse, politeness.StageBody}

// errGone is the error of a page for which a function of the Config has ended the goroutine, as
// testing.T.FailNow does.
var errGone = errors.New("crawl: a function of the Config has called runtime.Goexit")

// failed ends a request without a page. Where nothing is left to spend, or the crawl would be
// impolite, it ends. A host that can't be asked within the budget's time waits until that is over.
func (r *run) failed(fl *flight, outcome Outcome, err error) {
	var over *budget.Error
	switch {
	case errors.Is(err, errBeside):
		r.abort(err)
		outcome = Left
	case errors.Is(err, hostlimit.ErrDraining): // a person has ended what is to come
		r.stop(err)
		outcome = Left
	case outcome != OverBudget:
	case r.stopped:
		outcome = Left
	case !errors.As(err, &over) || over.Limit == budget.PagesPerHost:
	case over.Limit == budget.Time && over.Want > 0:
		fl.h.tooLate, fl.h.why = err, err.Error()
		fl.h.at = time.Now().Add(time.Duration(over.Max-over.Used+1) * time.Second) // both are rounded down
		r.putBack(fl)
		return
	default:
		r.stop(err)
		outcome = Left
	}
	if r.late.Err() != nil {
		outcome = Left
	}
	r.noPage(fl, outcome, err)
}

// noPage ends the URL of fl, for which there is no page. Where it is that of a page that was served
// before, the next URL tells.
func (r *run) noPage(fl *flight, outcome Outcome, err error) {
	if fl.good {
		fl.h.refusals.good = Request{}
	} else {
		r.done(Result{Request: fl.request, Outcome: outcome, Err: err}, nil)
	}
	r.settle(fl.h)
	r.frontier.put(fl.h)
}

// get fetches a page.
func (r *run) get(p *Page) error {
	ctx, cancel := context.WithTimeout(r.late, r.c.cfg.Timeout)
	defer cancel()
	ctx = waits.Until(ctx, r.ctx.Done())
	if r.c.cfg.Tries > 1 {
		waits.Once(ctx)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.FinalURL, http.NoBody)
	if err != nil {
		return err
	}
	if known := r.c.cfg.Known; known != nil {
		v, err := known(ctx, p.FinalURL)
		if err != nil {
			return err
		}
		if v.ETag != "" {
			req.Header.Set("If-None-Match", v.ETag)
		}
		if v.LastModified != "" {
			req.Header.Set("If-Modified-Since", v.LastModified)
		}
	}
	if prepare := r.c.cfg.Prepare; prepare != nil {
		if err := prepare(p.request, req); err != nil {
			return err
		}
	}
	if p.good {
		req.Header.Set("Cache-Control", "no-cache") // a cache knows nothing of the host
	}
	reached := waits.Expect(ctx, r.c.cfg.Transport)
	p.sent = true
	resp, err := r.c.client.Do(req)
	if err != nil {
		p.late = r.c.cfg.Tries == 1 && ctx.Err() != nil
		p.excused = waits.IsExcused(ctx)
		return err
	}
	p.Response = resp
	defer func() {
		resp.Body.Close()
		resp.Body = http.NoBody
	}()
	if !r.leads.Load() {
		if !reached() && !r.probe(ctx) {
			return errBeside
		}
		r.leads.Store(true)
	}
	return r.readBody(ctx, p)
}

// errBeside is why a crawl ends that would be impolite.
var errBeside = errors.New("crawl: Config.Client sends requests past Config.Transport, or without their contexts: nothing would pace them")

// probe reports whether the Client leads to the Transport although an answer hasn't come from
// there, but from a cache. It sends a request that no cache knows, and that can't reach a site.
func (r *run) probe(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	ctx, reached := waits.Probe(ctx, r.c.cfg.Transport)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "politeness://probe.invalid/probe", http.NoBody)
	if err != nil {
		return false
	}
	if resp, err := r.c.client.Transport.RoundTrip(req); err == nil {
		resp.Body.Close()
	}
	return reached()
}

// Every page may use smallBody bytes of memory. A longer one takes room for the longest body.
const (
	smallBody   = 256 << 10
	largeBodies = 256 << 20 // all together
)

// errNoRoom is why a page is asked for again whose large body found no room within Config.Timeout.
var errNoRoom = errors.New("crawl: no room for a large body")

// readBody reads the body of a page, up to MaxBody. A large one takes its whole room at once, until
// the page has been visited: bodies that each have a part of theirs would wait for each other.
func (r *run) readBody(ctx context.Context, p *Page) error {
	limit, from := r.c.cfg.MaxBody, p.Response.Body
	var body bytes.Buffer
	if n := p.Response.ContentLength; n > 0 {
		body.Grow(int(min(n, limit, smallBody)) + bytes.MinRead)
	}
	n, err := body.ReadFrom(io.LimitReader(from, min(limit, smallBody)))
	if err == nil && n == smallBody && n < limit {
		room := min(limit, largeBodies)
		free := r.room.TryAcquire(room)
		if !free && r.room.Acquire(ctx, room) != nil {
			return errNoRoom
		}
		p.release = func() { r.room.Release(room) }
		n, err = body.ReadFrom(io.LimitReader(from, limit-smallBody))
		n += smallBody
		if !free && ctx.Err() != nil { // the wait was too long for the rest of the body
			return errNoRoom
		}
	}
	if err == nil && n == limit {
		more, _ := io.ReadFull(from, make([]byte, 1))
		p.Truncated = more > 0
	}
	p.Body = body.Bytes()
	return err
}

// outcomeOf returns the outcome of a URL with the error err; refused is the *politeness.Error in
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

// visit finds the links of a page and calls Visit, unless the page leads elsewhere.
func (r *run) visit(p *Page) (outcome Outcome, err error) {
	outcome = VisitFailed
	err = guarded("Visit of "+p.FinalURL, func() error {
		if to := location(p.Response); to != "" {
			outcome = Redirected
			r.turnTo(p, to, Link{Element: "redirect"})
			return nil
		}
		r.read(p)
		if r.givesWay(p) {
			outcome = NotCanonical
			r.turnTo(p, p.Canonical, Link{URL: p.Canonical, Element: "link", Rel: "canonical"})
			return nil
		}
		if err := r.c.cfg.Visit(r.late, p); err != nil {
			return err
		}
		outcome = Visited
		return nil
	})
	return outcome, err
}

// givesWay reports whether the page isn't visited, since its canonical URL is. That one doesn't
// give way to another then, or two pages that name each other would both be lost.
func (r *run) givesWay(p *Page) bool {
	if !r.c.cfg.Canonical || p.Canonical == "" || p.Canonical == p.FinalURL || p.request.Via != "" ||
		p.FinalURL == "https"+strings.TrimPrefix(p.Canonical, "http") { // many sites redirect the other one here
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.canonical[p.FinalURL] {
		return false
	}
	r.canonical[p.Canonical] = true
	return true
}

// guarded calls f. A panic of f is its error, and is reported with its stack, as one of a handler
// of net/http is; what names f.
func guarded(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("crawl: panic in %s: %v", what, p)
			log.Printf("%s\n%s", printable.Text(err.Error()), debug.Stack()) //nolint:forbidigo // as net/http does
		}
	}()
	return f()
}
