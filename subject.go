package politeness

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/hostname"
)

// A kind says what a request is for, and so which stages it passes.
type kind uint8

const (
	kindPage     kind = iota // caller's request: it passes every stage
	kindRobots               // hop of a fetch of robots.txt: it spends no budget and isn't repeated
	kindInquiry              // question of Check or Sitemaps: the verdict is recorded, nothing is sent
	kindForecast             // question of Next: nothing is recorded, nothing is sent
)

// A subject is a request as its records and errors name it.
type subject struct {
	recorder  *recorder // nil: nothing is recorded
	tally     *tally
	ctx       context.Context // the caller's
	kind      kind
	method    string
	target    *url.URL
	url       string // text of target; text makes it when it is first needed
	host      string // key of slots, delays and blocks
	id        uint64 // number of the request in evidence
	attempt   int    // number of the try, from 1; 0 where nothing is sent
	redirects int    // redirects of this navigation before this request
}

// fail counts a refusal of the request, and returns its error.
func (s *subject) fail(stage Stage, retryAt time.Time, err error) *Error {
	if s.kind == kindPage {
		s.tally.refuse(stage, err)
	}
	return &Error{Stage: stage, Host: s.host, URL: s.text(), RetryAt: retryAt, Err: err}
}

// report records a decision about the request, if anything is recorded: fill sets what the type
// holds beside the request. What is recorded of every request calls describe instead, which
// allocates nothing.
func (s *subject) report(typ evidence.Type, fill func(d *evidence.Decision)) {
	if s.recorder == nil {
		return
	}
	var d evidence.Decision
	s.describe(&d, typ, time.Now())
	fill(&d)
	s.recorder.pass(s.ctx, &d)
}

// failed records that the request ended before its start.
func (s *subject) failed(err error) {
	s.report(evidence.Failed, func(d *evidence.Decision) {
		d.Reason, d.Err = "ended before its start", err.Error()
	})
}

// news records what the limiter has reported of the host, once: see recorder.state. lost is why its
// state couldn't be read or kept.
func (s *subject) news(restored *hostlimit.Restored, lost error, act *hostlimit.Debt) {
	s.recorder.state(s.ctx, s.host, restored, act)
	if s.recorder.newLoss(lost) {
		s.report(evidence.StateLost, func(d *evidence.Decision) { d.Allowed, d.Reason = true, lost.Error() })
	}
}

// describe sets what each record about the request holds.
func (s *subject) describe(d *evidence.Decision, typ evidence.Type, now time.Time) {
	d.Type, d.Time = typ, now
	d.Trip, d.Attempt, d.Redirects, d.RobotsTxt = s.id, s.attempt, s.redirects, s.kind == kindRobots
	d.Method, d.URL, d.Host = s.method, s.text(), s.host
}

// text returns the URL without userinfo.
func (s *subject) text() string {
	if s.url == "" {
		s.url = urlText(s.target)
	}
	return s.url
}

// path returns the path and query of the URL as they are sent, to which robots.txt applies. That is
// URL.RequestURI, and also the end of the text, which records need anyway. OPTIONS * is about the
// whole site, and stands as /* there.
func (s *subject) path() string {
	if s.recorder == nil && s.target.Path != "*" {
		return s.target.RequestURI()
	}
	_, rest, _ := strings.Cut(s.text(), "://")
	return rest[strings.IndexByte(rest, '/'):]
}

// urlText returns u without userinfo and fragment, in one allocation. A name that isn't ASCII is
// shown as it is sent, in punycode: a name that mixes scripts looks like another one.
func urlText(u *url.URL) string {
	if u.Opaque != "" {
		target := u.RequestURI()
		switch {
		case strings.HasPrefix(u.Opaque, "//"): // has the scheme
		case strings.HasPrefix(u.Opaque, "/"):
			target = u.Scheme + "://" + hostname.ASCII(u.Host) + target
		default: // can't be requested, but userinfo is only found behind a scheme
			target = u.Scheme + ":" + target
		}
		return target
	}
	path := u.EscapedPath()
	if !strings.HasPrefix(path, "/") { // empty, or the asterisk of OPTIONS
		path = "/" + path
	}
	if u.ForceQuery || u.RawQuery != "" {
		return u.Scheme + "://" + hostname.ASCII(u.Host) + path + "?" + u.RawQuery
	}
	return u.Scheme + "://" + hostname.ASCII(u.Host) + path
}

// redact is urlText for URLs that may lack anything.
func redact(u *url.URL) string {
	if u == nil {
		return ""
	}
	return clip(evidence.RedactURL(urlText(u)))
}
