package politeness

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A Call carries data about one request between a crawler and its Transport. You need it only for a
// crawler of your own that decides when to request a URL again, or that finds refusals in bodies.
// The crawler sets the fields before it sends the request, and calls the methods afterwards.
// Package crawl uses it for each page. Put it into the context of the request with WithCall, and
// make another one for the next request. Methods are safe for concurrent use.
type Call struct {
	// Until ends the waits for the host, and for further tries, when it is closed. A request that
	// was sent by then gets its response, so a crawl that ends starts nothing more and loses no
	// response. RoundTrip then returns context.Canceled. If Until is nil, only the context ends the
	// waits.
	Until <-chan struct{}

	// Once is true if the caller repeats a failed request itself. The Transport doesn't, even if
	// Config.Retry is set. The context's deadline is then the time that the host has for a
	// response. If the deadline passes, the host is treated as a host that doesn't respond, and
	// gets a short block. The default is false. Then a deadline that passes has no effect on the
	// host.
	Once bool

	// Set Judges if your crawler itself finds out whether a host has banned it. Such a crawler
	// compares the responses. If several in a row are errors, it requests again a page that the host
	// has served before. If Judges is true, each 400, 405 or 409 to a GET counts as a 403 does (see
	// hostlimit.Outcome). The default is false. Then these statuses show only that the request is
	// wrong, as in an API, and have no effect on the host.
	Judges bool

	// Proof is true if the page was served before, and is asked for only to see whether its host
	// serves again. Evidence records this. So an audit doesn't take the request for a needless
	// second fetch of the page. The default is false.
	Proof bool

	probe bool // the request is to reach a Transport and no site, and isn't recorded

	mu        sync.Mutex
	transport *Transport // the last that the request has reached
	excused   bool
	effect    hostlimit.Effect
	answered  *answered // nil: no response came
}

// answered is the last answer to the request of a Call, whose host's state can still be revised.
type answered struct {
	subject *subject
	answer  answer
	lease   hostlimit.Lease
	outcome hostlimit.Outcome
}

type callKey struct{}

// WithCall returns a context with c. Use it as the context of the one request that c is for.
func WithCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// callOf returns the Call of ctx, nil if it has none.
func callOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

// Reached reports whether the request has reached t. It hasn't if a cache in front of t has
// responded, or if the client's transport doesn't pass its requests to t. In the second case
// nothing paces the crawl. Check it after the first request of a crawl. To find out before a crawl,
// call IsReachedBy.
func (c *Call) Reached(t *Transport) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transport == t
}

// Excused reports whether the request has failed for a reason that isn't the host's. Until or the
// context have ended its wait, or the request itself couldn't be sent. Don't count such a request
// as a try.
func (c *Call) Excused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.excused
}

// Effect tells what the last response did to the host. If the request failed without a response, it
// tells what the failure did. The effect says if the host is blocked and until when, if a block was
// lifted, and if only this page fails. It is zero if nothing was sent. Use it to decide when to
// send the next request to the host.
func (c *Call) Effect() hostlimit.Effect {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.effect
}

// Refused returns the reason if something besides the status showed that the last response was a
// refusal. The reason is the error of Config.IsRefusal, or the header field of a challenge. See
// Challenged. It is empty if only the status counted, or no response came. Use it to tell a
// challenge from a page.
func (c *Call) Refused() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered == nil {
		return ""
	}
	return c.answered.answer.hints.Refused
}

// Refuse reports a refusal that only the body of the response shows. Examples are a captcha with
// status 200, and a page that asks for a pause. The host is blocked as by Config.IsRefusal. This is
// so even if the response has just ended a block. Refuse returns the effect. Evidence records the
// block with the argument why, which is text for people. It must not be empty.
//
// Call it once, after the response has come, before or after its body ends. It does nothing and
// returns the zero Effect if no response came, or after another Refuse or Ban of the request.
func (c *Call) Refuse(why string) hostlimit.Effect { return c.revise(why, false) }

// Ban reports that the host responds to all pages alike, even to a page that it served before. It
// is Refuse with another block. The block lasts a minute, twice as long with each further ban in a
// row, and the delay afterwards is longer.
func (c *Call) Ban(why string) hostlimit.Effect { return c.revise(why, true) }

// revise reports to the host's state that the last answer is a refusal.
func (c *Call) revise(why string, banned bool) hostlimit.Effect {
	c.mu.Lock()
	last := c.answered
	c.answered = nil
	c.mu.Unlock()
	if last == nil || why == "" {
		return hostlimit.Effect{}
	}
	effect := last.revise(why, banned)
	c.affect(effect)
	return effect
}

// revise reports to the host's state that the response is a refusal, and records the block.
func (l *answered) revise(why string, banned bool) hostlimit.Effect {
	outcome := l.outcome
	outcome.Refused = why
	outcome.Banned = banned
	effect := l.lease.Revise(outcome)
	l.answer.effect = effect
	l.answer.hints.Refused = why
	l.answer.revised = true
	l.answer.recordEffect(l.subject, outcome, time.Now())
	l.subject.news(nil, effect.StateErr, nil)
	return effect
}

// answer notes the response to the request, for Refuse and Ban. The caller checks that c isn't nil.
// Otherwise last would be allocated for each request, also for those without a Call.
func (c *Call) answer(last answered) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = &last
}

// reach notes that the request has reached t. It returns Until. c may be nil, as in all methods
// below.
func (c *Call) reach(t *Transport) <-chan struct{} {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.transport = t
	return c.Until
}

// excuse notes that the request has failed for a reason that says nothing about its host.
func (c *Call) excuse() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.excused = true
}

// affect stores the effect of a response on the host.
func (c *Call) affect(effect hostlimit.Effect) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.effect = effect
}

func (c *Call) isJudged() bool { return c != nil && c.Judges }

func (c *Call) isOnce() bool { return c != nil && c.Once }

func (c *Call) isProbe() bool { return c != nil && c.probe }

// meaning returns the error that the host's state gets for cause, the error of the request's
// context: see Once.
func (c *Call) meaning(cause error) error {
	// A context's own error says nothing about a host; a timeout of the network does.
	if c.isOnce() && errors.Is(cause, context.DeadlineExceeded) {
		return os.ErrDeadlineExceeded
	}
	return cause
}

// IsReachedBy reports whether the requests that rt sends reach t. There may be transports in
// between. If the requests of a crawler don't reach its Transport, nothing paces the crawler.
// IsReachedBy sends one request by rt. No cache can serve it, and t neither records it nor sends it
// on. Call it before a crawl, if the user sets both the client and the Transport.
func (t *Transport) IsReachedBy(ctx context.Context, rt http.RoundTripper) bool {
	call := &Call{probe: true}
	const nowhere = "politeness://probe.invalid/probe"
	req, err := http.NewRequestWithContext(WithCall(ctx, call), http.MethodGet, nowhere, http.NoBody)
	if err != nil {
		return false
	}
	// Its scheme is refused by t, and by net/http if rt leads past t. Neither error matters here.
	if resp, err := rt.RoundTrip(req); err == nil {
		resp.Body.Close()
	}
	return call.Reached(t)
}
