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

// A state is everything that the cache keeps of one origin: the Entry that callers get, and what
// the next fetch needs. It is immutable.
type state struct {
	Entry
	at   moment    // of the answer that the rules come from; zero without one, while unreachable
	copy *goodCopy // the last one, in force or not; nil if there is none
}

// A goodCopy is what is kept of a 2xx answer, or of the 304 that confirmed it last.
type goodCopy struct {
	text       *text
	at         moment        // of the answer
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

// decide returns the state that an answer of o leads to after prev, which is nil if there was none,
// and the Event to report. It is the one place where statuses become rules: RFC 9309, section
// 2.3.1, and where that leaves room, Google.
func (c *Cache) decide(o origin, prev *state, a *answer, now time.Time) (*state, Event) {
	s := &state{at: momentOf(now)}
	if prev != nil {
		s.copy = prev.copy
	}
	e := Event{
		Origin: o.String(), URL: a.url, Status: a.status, Hops: a.hops,
		Start: a.start, Duration: a.took,
	}
	maxAge, hasMaxAge := lifetime(a.header)
	switch reason := unreachable(a); {
	case reason != "":
		c.fallback(s, &e, reason, a.err, now, retryAt(now, c.cfg.DenyTTL, a))
		return s, e

	case a.status == http.StatusNotModified:
		old := s.copy
		if !hasMaxAge {
			maxAge = old.maxAge
		}
		s.use(newCopy(old.text, s.at, maxAge, old.validators.update(a.header)))
		e.Revalidated = true

	case a.status/100 == 2:
		v := validators{url: redirected(o, a.url)}.update(a.header)
		s.use(newCopy(c.textOf(a.body, v), s.at, maxAge, v))
		if c.cfg.RecordText {
			e.Text = string(a.body)
		}

	default: // there are no rules (RFC 9309, section 2.3.1.3)
		s.copy, s.Rules = nil, c.allowAll
	}
	e.describe(s.copy)
	e.TTL = c.ttl(maxAge)
	s.Expires = now.Add(e.TTL)
	e.Until = s.Expires
	return s, e
}

// maxErrorText bounds how many bytes of a transport's error, which a server may have made, a Reason
// quotes.
const maxErrorText = 200

// unreachable returns why the origin of a is unreachable, "" if it isn't.
func unreachable(a *answer) string {
	switch {
	case a.err != nil:
		var timeout *timeoutError
		if errors.As(a.err, &timeout) {
			return fmt.Sprintf("no complete answer within %v", timeout.after)
		}
		if a.status != 0 {
			return fmt.Sprintf("status %d with a broken body: %s", a.status, printable.Clipped(a.err.Error(), maxErrorText))
		}
		if name := (*net.DNSError)(nil); errors.As(a.err, &name) && name.IsNotFound {
			return "no address for the name " + printable.Clipped(name.Name, maxErrorText)
		}
		if refused := (*RefusedError)(nil); errors.As(a.err, &refused) {
			return "not sent: " + printable.Clipped(refused.Final, maxErrorText)
		}
		return "network: " + printable.Clipped(a.err.Error(), maxErrorText)
	case a.status == http.StatusTooManyRequests:
		return "status 429"
	case a.status == http.StatusNotModified && !a.conditional:
		return "status 304, which was not asked for"
	case a.status < 200 || a.status > 499:
		return "status " + strconv.Itoa(a.status)
	}
	return ""
}

// An unreachableError is Entry.Err. It wraps the error that the fetch failed with, nil after a
// status such as 503, without what a server can make large.
type unreachableError struct {
	reason string
	cause  error
	size   int64 // of cause, about
}

func newUnreachableError(reason string, cause error) *unreachableError {
	var verify *tls.CertificateVerificationError
	if errors.As(cause, &verify) { // without the certificates
		cause = &tls.CertificateVerificationError{Err: errors.New(printable.Clipped(fmt.Sprint(verify.Err), maxErrorText))}
	}
	e := &unreachableError{reason: reason}
	if cause != nil && len(cause.Error()) <= 2<<10 { // a longer one quotes a malformed response
		e.cause, e.size = cause, rounded(len(cause.Error()))+128
	}
	return e
}

func (e *unreachableError) Error() string { return e.reason }
func (e *unreachableError) Unwrap() error { return e.cause }

// describe sets e's fields of the copy in force to those of g, which is nil for none.
func (e *Event) describe(g *goodCopy) {
	if g != nil {
		e.Bytes, e.SHA256 = g.text.size, hex.EncodeToString(g.text.sum[:])
	}
}

// retryAt returns when an unreachable origin is asked again: after DenyTTL, or when Retry-After
// says, at most a day from now.
func retryAt(now time.Time, denyTTL time.Duration, a *answer) time.Time {
	var longest time.Duration
	for _, value := range a.header["Retry-After"] {
		d, _ := backoff.RetryAfter(value, a.header.Get("Date"), now)
		longest = max(longest, d)
	}
	return now.Add(max(denyTTL, min(longest, maxTTL)))
}

// fallback sets s and e to what holds until the given time, while the origin is unreachable: the
// rules of the last good copy with ServeStale, or else of OnUnreachable.
func (c *Cache) fallback(s *state, e *Event, reason string, cause error, now, until time.Time) {
	if s.copy != nil && s.copy.at.since(now) >= maxStale {
		s.copy = nil // neither served nor asked about any more
	}
	s.Reason, s.Err, s.at = reason, newUnreachableError(reason, cause), 0
	switch {
	case c.cfg.ServeStale && s.copy != nil:
		s.use(s.copy)
		s.Stale, s.at = true, s.copy.at
		if end := now.Add(maxStale - s.copy.at.since(now)); end.Before(until) {
			until = end
		}
		e.describe(s.copy)
	case c.cfg.OnUnreachable == Allow:
		s.Rules, s.Confidence = c.allowAll, "low"
	default:
		s.Rules, s.Denied = c.denyAll, true
	}
	s.Expires = until
	e.Unreachable = true
	e.Stale = s.Stale
	e.Reason = reason
	e.TTL, e.Until = until.Sub(now), until
}

// use puts the rules of g in force.
func (s *state) use(g *goodCopy) {
	s.copy = g
	s.Rules = g.text.rules
	s.text = g.text
}

// textOf returns the text of body: the one that other origins share, or a new one with v.
func (c *Cache) textOf(body []byte, v validators) *text {
	sum := sha256.Sum256(body)
	if t := c.memory.text(sum); t != nil {
		return t
	}
	file := robots.ParseWith(body, robots.Options{AgentPatterns: c.cfg.AgentPatterns, LenientAgents: c.cfg.LenientAgents})
	t := &text{
		rules: file.Agent(c.client.Products...), sitemaps: strings.Clone(strings.Join(file.Sitemaps(), "\n")),
		sum: sum, size: int64(len(body)), validators: v,
	}
	hex.Encode(t.name[:], sum[:4])
	return t
}

func newCopy(t *text, at moment, maxAge time.Duration, v validators) *goodCopy {
	g := &goodCopy{t, at, maxAge, &t.validators}
	if v != t.validators {
		g.validators = &v
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

// update returns v with the validators of an answer's header h in place of its own (RFC 9111,
// section 3.2).
func (v validators) update(h http.Header) validators {
	if value := h.Get("ETag"); value != "" {
		v.etag = validator(value)
	}
	if value := h.Get("Last-Modified"); value != "" {
		v.lastModified = validator(value)
	}
	return v
}

// ttl returns how long an answer is used, where the server gave it maxAge; 0: none.
func (c *Cache) ttl(maxAge time.Duration) time.Duration {
	return min(cmp.Or(maxAge, c.cfg.TTL), c.longest)
}
