package robotscache

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/internal/printable"
	"github.com/go-politeness/politeness/robots"
)

// A state is everything that the cache keeps of one origin: the Entry for callers, and values for
// the next fetch. It is immutable.
type state struct {
	Entry
	at   moment    // of the response that the rules come from; zero without one, while unreachable
	copy *goodCopy // the last one, in force or not; nil if there is none
}

// A goodCopy is the part of a 2xx answer, or of the 304 that confirmed it last, that is kept.
type goodCopy struct {
	text       *text
	at         moment        // of the response
	maxAge     time.Duration // lifetime that the server gave; 0: none
	validators *validators   // &text.validators if they are equal
}

// validators make a request conditional on a copy.
type validators struct {
	url          string // of the copy if a redirect led there, else empty
	etag         string
	lastModified string
}

// A moment is a time by the monotonic clock: nanoseconds since the process began, never 0.
type moment int64

var epoch = time.Now()

func momentOf(t time.Time) moment { return cmp.Or(moment(t.Sub(epoch)), 1) }

// since returns how long before now m was.
func (m moment) since(now time.Time) time.Duration { return now.Sub(epoch) - time.Duration(m) }

// fresh reports whether s is there and not out of date.
func (s *state) fresh() bool { return s != nil && time.Until(s.Expires) > 0 }

// usable reports whether callers may use s past Expires while a fetch is under way.
func (s *state) usable(now time.Time) bool {
	return s.at != 0 && s.at.since(now) < maxTTL
}

// decide returns the state that a response of o leads to after prev, which is nil if there was
// none, and the Event to report. It is the one place where statuses become rules: RFC 9309, section
// 2.3.1, and where that leaves room, Google.
func (c *Cache) decide(o origin, prev *state, reply *answer, now time.Time) (*state, Event) {
	next := &state{at: momentOf(now)}
	if prev != nil {
		// The copy outlives an outage, since a 304 or ServeStale may put it in force again.
		next.copy = prev.copy
	}
	event := Event{
		Origin:   o.String(),
		URL:      reply.url,
		Status:   reply.status,
		Hops:     reply.hops,
		Start:    reply.start,
		Duration: reply.took,
	}
	reason := unreachable(reply)
	if reason != "" {
		c.fallback(next, &event, now, outage{
			reason: reason,
			cause:  reply.err,
			silent: reply.isSilent(),
			until:  retryAt(now, c.cfg.DenyTTL, reply),
		})
		return next, event
	}
	next.status = int16(reply.status)
	maxAge, hasMaxAge := lifetime(reply.header)
	switch {
	case reply.status == http.StatusNotModified:
		old := next.copy // never nil: a 304 that wasn't asked for is an outage
		if !hasMaxAge {
			// Header lines that a 304 lacks are those of the copy (RFC 9111, section 4.3.4).
			maxAge = old.maxAge
		}
		next.use(newCopy(old.text, next.at, maxAge, old.validators.update(reply.header)))
		next.status = http.StatusOK // that of the copy
		event.Revalidated = true

	case reply.status/100 == 2:
		v := validators{url: redirected(o, reply.url)}.update(reply.header)
		next.use(newCopy(c.textOf(reply.body, v), next.at, maxAge, v))
		if c.cfg.RecordText {
			event.Text = string(reply.body)
		}

	default: // there are no rules (RFC 9309, section 2.3.1.3)
		// An old copy isn't in force later either: the site has taken it back.
		next.copy = nil
		next.Rules = c.allowAll
	}
	event.describe(next.copy)
	event.TTL = c.ttl(maxAge)
	next.Expires = now.Add(event.TTL)
	event.Until = next.Expires
	return next, event
}

// A server can make a transport's error long, and each origin keeps one.
const (
	maxErrorText = 200     // bytes of it that a Reason quotes
	maxCause     = 2 << 10 // bytes of the text of one that Entry.Err wraps
)

// unreachable returns why the origin of a is unreachable, "" if it isn't.
func unreachable(a *answer) string {
	switch {
	case a.err != nil:
		return a.failure()
	case a.status == http.StatusTooManyRequests:
		// RFC 9309 makes no exception of it. Google does: it is about our rate, not robots.txt.
		return "status 429"
	case a.status == http.StatusNotModified && !a.conditional:
		return "status 304, which was not asked for" // there may be no copy that it confirms
	case a.status == http.StatusAccepted:
		// The file isn't there yet, or it is a firewall's challenge, as AWS WAF sends it.
		return "status 202, which is no robots.txt"
	case a.status < 200 || a.status > 499:
		return "status " + strconv.Itoa(a.status)
	}
	return ""
}

// failure returns why a response isn't complete.
func (a *answer) failure() string {
	clipped := printable.Clipped(a.err.Error(), maxErrorText)
	// The timeout comes first: it may have broken the body, or kept a hop from being sent.
	var timeout *timeoutError
	if errors.As(a.err, &timeout) {
		return fmt.Sprintf("no complete response within %v", timeout.after)
	}
	if a.status != 0 {
		return fmt.Sprintf("status %d with a broken body: %s", a.status, clipped)
	}
	var lookup *net.DNSError
	if errors.As(a.err, &lookup) && lookup.IsNotFound {
		return "no address for the name " + printable.Clipped(lookup.Name, maxErrorText)
	}
	var refused *RefusedError
	if errors.As(a.err, &refused) {
		return "not sent: " + printable.Clipped(refused.Final, maxErrorText)
	}
	return "network: " + clipped
}

// isSilent reports whether the request was sent, and no server has answered it.
func (a *answer) isSilent() bool {
	var refused *RefusedError
	return a.err != nil && a.status == 0 && !errors.As(a.err, &refused)
}

// An unreachableError is Entry.Err. It wraps the error that the fetch failed with, nil after a
// status such as 503, without the parts that a server can make large.
type unreachableError struct {
	reason string
	cause  error
	size   int64 // of cause, about
	silent bool  // no server has answered
}

func newUnreachableError(out outage) *unreachableError {
	cause := out.cause
	var verify *tls.CertificateVerificationError
	if errors.As(cause, &verify) {
		// The original has the server's certificates, many KB, and x509's errors have one as well.
		text := printable.Clipped(fmt.Sprint(verify.Err), maxErrorText)
		cause = &tls.CertificateVerificationError{Err: errors.New(text)}
	}
	e := &unreachableError{reason: out.reason, silent: out.silent}
	if cause == nil {
		return e
	}
	length := len(cause.Error())
	if length <= maxCause { // a longer one quotes a malformed response
		e.cause = cause
		e.size = rounded(length) + 128 // about that much for the values that it wraps
	}
	return e
}

func (e *unreachableError) Error() string { return e.reason }

// Is reports ErrNoAnswer.
func (e *unreachableError) Is(target error) bool { return e.silent && target == ErrNoAnswer }

func (e *unreachableError) Unwrap() error { return e.cause }

// describe sets e's fields of the copy in force to those of g, which is nil for none.
func (e *Event) describe(g *goodCopy) {
	if g != nil {
		e.Bytes = g.text.size
		e.SHA256 = hex.EncodeToString(g.text.sum[:])
	}
}

// retryAt returns when an unreachable origin is asked again: after DenyTTL or Retry-After, at most
// a day from now.
func retryAt(now time.Time, denyTTL time.Duration, a *answer) time.Time {
	var longest time.Duration
	for _, value := range a.header["Retry-After"] {
		// A value that can't be read is 0: DenyTTL applies.
		d, _ := backoff.RetryAfter(value, a.header.Get("Date"), now)
		longest = max(longest, d)
	}
	return now.Add(max(denyTTL, min(longest, maxTTL)))
}

// An outage is a time in which an origin is unreachable.
type outage struct {
	reason string
	cause  error     // of reason; nil: a status, or not known any more
	silent bool      // no server has answered
	until  time.Time // when the origin is asked again
}

// fallback sets next and event to the rules that hold from now on, during an outage: those of the
// last good copy with ServeStale, or else of OnUnreachable.
func (c *Cache) fallback(next *state, event *Event, now time.Time, out outage) {
	if next.copy != nil && next.copy.at.since(now) >= maxStale {
		next.copy = nil // neither served nor asked about any more
	}
	next.Reason = out.reason
	next.Err = newUnreachableError(out)
	next.at = 0
	next.status = 0
	next.Expires = out.until
	switch {
	case c.cfg.ServeStale && next.copy != nil:
		next.use(next.copy)
		next.Stale = true
		next.at = next.copy.at
		// A copy that becomes too old meanwhile isn't served up to the end of the outage.
		tooOld := now.Add(maxStale - next.copy.at.since(now))
		if tooOld.Before(next.Expires) {
			next.Expires = tooOld
		}
		event.describe(next.copy)
	case c.cfg.OnUnreachable == Allow:
		next.Rules = c.allowAll
		next.Confidence = "low"
	default:
		next.Rules = c.denyAll
		next.Denied = true
	}
	event.Unreachable = true
	event.Stale = next.Stale
	event.Reason = out.reason
	event.TTL = next.Expires.Sub(now)
	event.Until = next.Expires
}

// use puts the rules of g in force.
func (s *state) use(g *goodCopy) {
	s.copy = g
	s.Rules = g.text.rules
	s.text = g.text
}

// textOf returns the text of body: the one that other origins share, or a new one with v.
func (c *Cache) textOf(body []byte, v validators) *text {
	// Many origins serve the same file, such as the one that their software comes with.
	sum := sha256.Sum256(body)
	shared := c.memory.text(sum)
	if shared != nil {
		return shared
	}
	file := robots.ParseWith(body, robots.Options{
		AgentPatterns: c.cfg.AgentPatterns,
		LenientAgents: c.cfg.LenientAgents,
	})
	t := &text{
		rules:      file.Agent(c.client.Products...),
		sitemaps:   strings.Clone(strings.Join(file.Sitemaps(), "\n")),
		sum:        sum,
		size:       int64(len(body)),
		validators: v,
	}
	if c.cfg.keepsText() {
		t.body = string(body)
	}
	hex.Encode(t.name[:], sum[:4])
	return t
}

func newCopy(t *text, at moment, maxAge time.Duration, v validators) *goodCopy {
	g := &goodCopy{
		text:       t,
		at:         at,
		maxAge:     maxAge,
		validators: &t.validators,
	}
	if v != t.validators {
		g.validators = &v // another origin serves the text with another ETag
	}
	return g
}

// redirected returns url if it isn't that of o's robots.txt, else "".
func redirected(o origin, url string) string {
	if url == o.robotsURL().String() {
		return ""
	}
	return url
}

// update returns v with the validators of a response's header h in place of its own (RFC 9111,
// section 3.2).
func (v validators) update(h http.Header) validators {
	// One that the response lacks is still that of the copy which it confirms.
	etag := h.Get("ETag")
	if etag != "" {
		v.etag = validator(etag)
	}
	lastModified := h.Get("Last-Modified")
	if lastModified != "" {
		v.lastModified = validator(lastModified)
	}
	return v
}

// ttl returns how long a response is used. maxAge is the lifetime that the server gave, or 0.
func (c *Cache) ttl(maxAge time.Duration) time.Duration {
	return min(cmp.Or(maxAge, c.cfg.TTL), c.longest)
}
