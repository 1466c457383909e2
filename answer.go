package politeness

import (
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/hints"
	"github.com/go-politeness/politeness/internal/caching"
)

// An answer is the result of a try: a response's headers, or none.
type answer struct {
	latency time.Duration // from the start to the headers, or to the failure
	opened  int           // connections that the try has opened, if more than one
	status  int           // 0: no response
	header  http.Header
	hints   hints.Hints
	quota   time.Duration    // until the rate limit that is used up is reset; 0: no rate limit counts
	effect  hostlimit.Effect // change of the host's state by the response
	// The kind of request, because some statuses are about the request: see hostlimit.Outcome.
	page        bool
	conditional bool

	revised bool // the effect is that of a refusal which Call.Refuse or Call.Ban has reported
	handed  bool // the caller has its body, which ends the try
}

// read makes a the response resp, and o the outcome for the host, from its status and headers.
// refused, which is Config.IsRefusal or nil, is called for pages. If refused panics, thrown is the
// value of the panic, and status and headers still count.
func (a *answer) read(
	resp *http.Response, refused func(*http.Response) error, k kind, o *hostlimit.Outcome,
) (thrown any) {
	defer func() { thrown = recover() }()
	a.status = resp.StatusCode
	a.header = resp.Header
	a.hints, *o = hints.Read(resp)
	a.quota = o.Reset
	// robotscache decides about a robots.txt. refused is for pages only.
	if refused == nil || k != kindPage {
		return nil
	}
	if err := refused(resp); err != nil {
		o.Refused = err.Error()
		a.hints.Refused = o.Refused
	}
	return nil
}

// describe adds to a record the headers that may move the host's state.
func (a *answer) describe(d *evidence.Decision) {
	d.ServerDate = first(a.header, "Date")
	d.RetryAfter = a.hints.RetryAfter
	d.NoDate = a.status != 0 && d.ServerDate == ""
	d.RateLimit = a.hints.RateLimit
	d.Quota = a.quota
	d.Refused = a.hints.Refused
	// Only a 4xx may be about the request.
	if a.status/100 == 4 {
		d.Page = a.page
		d.Conditional = a.conditional
	}
}

// recordEffect records that the outcome has blocked or cleared the host at the given time.
func (a *answer) recordEffect(s *subject, outcome hostlimit.Outcome, at time.Time) {
	effect := a.effect
	if !effect.Blocked && !effect.Cleared {
		return
	}
	s.report(evidence.HostBlocked, func(d *evidence.Decision) {
		d.Time = at
		d.Status = outcome.Status
		d.Kind = effect.Kind
		d.Refusals = effect.Row
		d.Late = a.revised
		a.describe(d)
		if effect.Blocked {
			d.Until = effect.Until
			d.RetryAt = effect.Until
			d.Reason = blockedBy(outcome, effect.Until.Sub(at))
		} else {
			d.Type = evidence.HostCleared
			d.Allowed = true
		}
	})
}

// recordEnd records the end of the exchange that began with start: after a response, read bytes of
// its body and err, which ended the reading.
func (a *answer) recordEnd(s *subject, p *page, start *start, read int64, err error, now time.Time) {
	if s.recorder == nil {
		return
	}
	// By now the <meta> elements of the page were read, as far as the caller has read the body.
	p.recordDirectives(now)
	var d evidence.Decision
	s.describe(&d, evidence.Fetched, now)
	d.Allowed = true
	d.Status = a.status
	d.Bytes = read
	d.Seq = start.Seq
	d.Start = start.Start
	d.Latency = a.latency
	d.Duration = now.Sub(start.Start)
	d.ContentType = first(a.header, "Content-Type")
	d.ETag = first(a.header, "Etag")
	d.LastModified = first(a.header, "Last-Modified")
	fresh, _ := caching.Lifetime(a.header)
	d.Fresh = min(fresh, longestFresh)
	a.describe(&d)
	d.Connections = a.opened
	d.Location = evidence.RedactURL(first(a.header, "Location"))
	if success(a.status) {
		p.describe(&d, p.preferences())
	}
	if err != nil && err != io.EOF { //nolint:errorlint // a Reader's end is io.EOF itself
		d.Err = err.Error()
	}
	s.recorder.Pass(s.ctx, &d)
}

// longestFresh is the longest time for which a record calls a response fresh: a site that states
// more than a month means "for ever", as for a file whose name changes with its content.
const longestFresh = 30 * 24 * time.Hour

// blockedBy returns the rule that decided the length of a block.
func blockedBy(o hostlimit.Outcome, length time.Duration) string {
	by := "by the backoff policy"
	// The block is as long as the longer of the two waits that the host asks for, to within a
	// second.
	longest := length - time.Second
	switch {
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

// success reports whether status is one of a page that the site has served.
func success(status int) bool { return status/100 == 2 }

// bodiless reports whether resp ended with its headers, so that nothing is left to be read or
// closed. A ContentLength of 0 isn't enough: many a RoundTripper leaves it unset, and in HTTP/2
// trailers may follow.
func bodiless(req *http.Request, resp *http.Response) bool {
	if resp.Body == nil || resp.Body == http.NoBody {
		return true
	}
	// A server may switch protocols only if it was asked to (RFC 9110, section 7.8), and the
	// body of such a response would outlive the request's context.
	if resp.StatusCode == http.StatusSwitchingProtocols && first(req.Header, "Upgrade") == "" {
		resp.Body.Close()
		resp.Body = http.NoBody
		return true
	}
	// For a response without a body, net/http's HTTP/2 has a body whose type has no fields.
	announcesNone := resp.ContentLength == 0 || req.Method == http.MethodHead
	if resp.ProtoMajor == 2 && announcesNone && reflect.TypeOf(resp.Body).Size() == 0 {
		resp.Body = http.NoBody
		return true
	}
	return false
}

// first is Header.Get for a name that is canonical already.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}
