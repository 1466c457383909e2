package politeness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/contexts"
	"github.com/go-politeness/politeness/internal/recorder"
	"github.com/go-politeness/politeness/internal/tally"
	"github.com/go-politeness/politeness/internal/weburl"
)

// A kind is the kind of a request, which decides the stages that it passes.
type kind uint8

const (
	kindPage     kind = iota // caller's request: it passes every stage
	kindRobots               // hop of a fetch of robots.txt: it spends no budget and isn't repeated
	kindInquiry              // question of Check or Sitemaps: the verdict is recorded, nothing is sent
	kindForecast             // question of Next: nothing is recorded, nothing is sent
)

// A subject is a request as its records and errors name it.
type subject struct {
	recorder  *recorder.Recorder // nil: nothing is recorded
	tally     *tally.Tally
	ctx       context.Context // the caller's
	call      *Call           // of ctx; may be nil
	waits     context.Context // bounds every wait before the request is sent: ends with ctx, or earlier
	gone      bool            // ctx had ended before the request was made: it has waited for nothing
	kind      kind
	method    string
	target    *url.URL
	url       string        // text of target; text makes it when it is first needed
	host      string        // key of slots, delays and blocks
	id        uint64        // number of the request in evidence
	attempt   int           // number of the try, from 1; 0 if nothing is sent
	redirects int           // redirects of this navigation before this request
	from      uint64        // id of the request whose redirect led here, if this Transport has sent it; 0: none
	deadEnds  *deadEnds     // nil: the request isn't the caller's
	origin    *http.Request // the caller's
	due       time.Time     // when the page became due, by WithDue; zero: not known
	revisits  bool          // the request asks for the page only if it has changed
	window    time.Time     // beginning of the budget's window in which the page was reserved; zero: it isn't renewed
}

// fail counts a refusal of the request, and returns its error. A caller that has left gets the
// cause of its context, as net/http returns it. If a deadline has passed, the error is our refusal,
// which wraps the cause.
func (s *subject) fail(stage Stage, retryAt time.Time, err error) error {
	// A fetch of robots.txt that is refused counts as the refusal of the page that waits for it.
	if s.kind == kindPage {
		s.tally.Refuse(reasonOf(stage, err))
	}
	// An error of another kind, which came just before the caller left, stays a refusal.
	if cause := context.Cause(s.waits); cause != nil && (contexts.Left(err) || errors.Is(err, cause)) {
		s.call.excuse()
		isDeadline := errors.Is(s.waits.Err(), context.DeadlineExceeded)
		if s.gone || s.kind == kindRobots || !isDeadline {
			return cause
		}
		err = wrapping(err, cause)
	}
	refusal := &Error{Stage: stage, Host: s.host, URL: s.text(), RetryAt: retryAt, Err: err}
	s.remember(refusal)
	return refusal
}

// wrapping returns err, or an error around it that wraps the cause of a deadline, too.
func wrapping(err, cause error) error {
	if !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w (%w)", err, context.DeadlineExceeded)
	}
	return err
}

// giveUp records that the request ended before its start, and returns the error. instead is the
// start that this one was to replace.
func (s *subject) giveUp(stage Stage, err error, instead givenUp) error {
	s.report(evidence.Failed, func(d *evidence.Decision) {
		d.Reason = "ended before its start: " + string(stage)
		d.Err = err.Error()
		d.Instead = instead.seq
		d.InsteadAt = instead.at
	})
	return s.fail(stage, time.Time{}, err)
}

// report records a decision about the request, if anything is recorded. describe sets the fields of
// the request, and fill those of the type. Records of every request call describe instead, which
// allocates nothing.
func (s *subject) report(typ evidence.Type, fill func(d *evidence.Decision)) {
	if s.recorder == nil {
		return
	}
	var d evidence.Decision
	s.describe(&d, typ, time.Now())
	fill(&d)
	s.recorder.Pass(s.ctx, &d)
}

// news records the limiter's reports about the host, once: see recorder.State. lost is why its
// state couldn't be read or kept.
func (s *subject) news(restored *hostlimit.Restored, lost error, act *hostlimit.Debt) {
	s.recorder.State(s.ctx, s.host, restored, act)
	s.lose(lost)
}

// lose reports why state couldn't be read or kept, if err is that. A full disk fails every host:
// one record for each cause is enough.
func (s *subject) lose(lost error) {
	if s.tally.Lost(lost) {
		s.report(evidence.StateLost, func(d *evidence.Decision) {
			d.Allowed = true
			d.Reason = lost.Error()
		})
	}
}

// describe sets the fields that each record about the request has.
func (s *subject) describe(d *evidence.Decision, typ evidence.Type, now time.Time) {
	d.Type = typ
	d.Time = now
	d.Trip = s.id
	d.Attempt = s.attempt
	d.Redirects = s.redirects
	d.RobotsTxt = s.kind == kindRobots
	d.Method = s.method
	d.URL = s.text()
	d.Host = s.host
}

// text returns the URL without userinfo.
func (s *subject) text() string {
	if s.url == "" { // a request of which nothing is recorded never needs it
		s.url = weburl.Text(s.target)
	}
	return s.url
}

// path returns the path and query of the URL as they are sent. robots.txt applies to them. They are
// URL.RequestURI, and also the end of the text, which records need anyway. In the text, OPTIONS *
// is /*, and URL.Opaque is escaped.
func (s *subject) path() string {
	if s.recorder == nil && s.target.Path != "*" && s.target.Opaque == "" {
		return s.target.RequestURI()
	}
	_, rest, _ := strings.Cut(s.text(), "://")
	return rest[strings.IndexByte(rest, '/'):]
}
