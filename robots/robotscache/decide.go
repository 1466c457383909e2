package robotscache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/internal/printable"
	"github.com/go-politeness/politeness/robots"
)

// known is what is known of one origin: the Entry that callers see, and what it
// takes to ask again. It is immutable.
type known struct {
	Entry
	at   moment // when the origin last said so; zero if it is unreachable and no copy of its rules holds
	good *good  // last good copy, in force or not; nil if there is none
}

// A moment is a time, by the monotonic clock: nanoseconds since the process began, and never 0.
type moment int64

var epoch = time.Now()

func momentOf(t time.Time) moment {
	if m := moment(t.Sub(epoch)); m != 0 {
		return m
	}
	return 1
}

// since returns how long before now m was.
func (m moment) since(now time.Time) time.Duration { return now.Sub(epoch) - time.Duration(m) }

// good is the last good copy of a robots.txt: a 2xx answer, or one that a 304 confirmed since.
type good struct {
	text       *text
	at         moment // when it was fetched, or confirmed by a 304
	maxAge     time.Duration
	validators *validators // those of text where they are the same
}

// validators are what to ask by whether a copy still holds.
type validators struct {
	url          string // where the copy came from, if redirects led elsewhere
	etag         string
	lastModified string
}

// with returns v as an answer with header h changes it (RFC 9111, section 3.2).
func (v validators) with(h http.Header) validators {
	if value := h.Get("ETag"); value != "" {
		v.etag = validator(value)
	}
	if value := h.Get("Last-Modified"); value != "" {
		v.lastModified = validator(value)
	}
	return v
}

// usable reports whether k may be used past Expires while it is asked again.
func (k *known) usable(now time.Time) bool {
	return k.at != 0 && k.at.since(now) < maxTTL
}

// answered reports whether k is what the origin said, not what holds in its silence.
func (k *known) answered() bool { return !k.Denied && !k.Stale && k.Confidence == "" }

// decide is what an answer means, as RFC 9309, section 2.3.1, and where that
// leaves room, Google: the one place where statuses become rules.
func (c *Cache) decide(o origin, prev *known, a *answer, now time.Time) (*known, Event) {
	k := &known{at: momentOf(now)}
	if prev != nil {
		k.good = prev.good
	}
	e := Event{
		Origin: o.String(), URL: a.url, Status: a.status, Hops: a.hops,
		Start: a.start, Duration: a.took,
	}
	switch why := unreachable(a); {
	case why != "":
		c.survive(k, &e, why, a.err, now, until(now, c.cfg.DenyTTL, a))
		if k.Stale {
			e.describe(k.good)
		}
		return k, e

	case a.status == http.StatusNotModified:
		again := good{text: k.good.text, at: k.at, maxAge: k.good.maxAge}
		if maxAge, ok := lifetime(a.header); ok {
			again.maxAge = maxAge
		}
		again.ask(k.good.validators.with(a.header))
		k.good, k.Rules, k.text = &again, again.text.rules, again.text
		e.Revalidated = true
		e.TTL = c.ttl(k.good.maxAge)

	case a.status/100 == 2:
		maxAge, _ := lifetime(a.header)
		k.good = c.compile(a.body, k.at, maxAge, validators{url: elsewhere(o, a.url)}.with(a.header))
		k.Rules, k.text = k.good.text.rules, k.good.text
		e.TTL = c.ttl(k.good.maxAge)
		if c.cfg.RecordText {
			e.Text = string(a.body)
		}

	default: // unavailable: there are no rules (RFC 9309, section 2.3.1.3)
		k.good, k.Rules = nil, c.allowAll
		maxAge, _ := lifetime(a.header)
		e.TTL = c.ttl(maxAge)
	}
	if k.good != nil {
		e.describe(k.good)
	}
	k.Expires = now.Add(e.TTL)
	e.Until = k.Expires
	return k, e
}

// longestCause bounds how much of an error of the transport is told: a server may have made it.
const longestCause = 200

// unreachable says why a is no answer, or "" if it is one.
func unreachable(a *answer) string {
	switch {
	case a.err != nil:
		var timeout *timeoutError
		if errors.As(a.err, &timeout) {
			return fmt.Sprintf("no complete answer within %v", timeout.after)
		}
		if a.status != 0 {
			return fmt.Sprintf("status %d with a broken body: %s", a.status, printable.Clipped(a.err.Error(), longestCause))
		}
		if name := (*net.DNSError)(nil); errors.As(a.err, &name) && name.IsNotFound {
			return "no address for the name " + printable.Clipped(name.Name, longestCause)
		}
		return "network: " + printable.Clipped(a.err.Error(), longestCause)
	case a.status == http.StatusTooManyRequests:
		return "status 429"
	case a.status == http.StatusNotModified && !a.conditional:
		return "status 304, which was not asked for"
	case a.status < 200 || a.status > 499:
		return "status " + strconv.Itoa(a.status)
	}
	return ""
}

// An unreachableError is why an origin is unreachable, and wraps what the fetch failed
// with; that is nil where the status says it all.
type unreachableError struct {
	why   string
	cause error
}

func (e *unreachableError) Error() string { return e.why }
func (e *unreachableError) Unwrap() error { return e.cause }

// describe tells which copy is in force.
func (e *Event) describe(g *good) {
	e.Bytes, e.SHA256 = g.text.size, hex.EncodeToString(g.text.sum[:])
}

// until is when an unreachable origin is asked again: after DenyTTL, or when it
// asked to be, at most a day from now.
func until(now time.Time, denyTTL time.Duration, a *answer) time.Time {
	var wish time.Duration
	for _, value := range a.header["Retry-After"] { // of several the longest
		d, _ := backoff.RetryAfter(value, a.header.Get("Date"), now)
		wish = max(wish, d)
	}
	return now.Add(max(denyTTL, min(wish, maxTTL)))
}

// survive fills k with what holds while the origin is unreachable: the last good
// copy where the user wants it served, or else nothing, or everything.
func (c *Cache) survive(k *known, e *Event, why string, cause error, now, until time.Time) {
	if k.good != nil && k.good.at.since(now) >= maxStale {
		k.good = nil // too old to be served, or to be asked about
	}
	k.Reason, k.Err, k.at = why, &unreachableError{why, cause}, 0
	switch {
	case c.cfg.ServeStale && k.good != nil:
		k.Rules, k.text, k.Stale, k.at = k.good.text.rules, k.good.text, true, k.good.at
		if end := now.Add(maxStale - k.good.at.since(now)); end.Before(until) {
			until = end
		}
	case c.cfg.OnUnreachable == Allow:
		k.Rules, k.Confidence = c.allowAll, "low"
	default:
		k.Rules, k.Denied = c.denyAll, true
	}
	k.Expires = until
	e.Unreachable, e.Stale, e.Reason = true, k.Stale, why
	e.TTL, e.Until = until.Sub(now), until
}

// compile returns a good copy of body: the rules for our crawler, without the text. They are shared
// by all origins of the same text.
func (c *Cache) compile(body []byte, at moment, maxAge time.Duration, v validators) *good {
	sum := sha256.Sum256(body)
	x := c.memory.text(sum)
	if x == nil {
		file := robots.ParseWith(body, robots.Options{LenientAgents: c.cfg.LenientAgents})
		x = &text{
			rules: file.Agent(c.client.Products...), sitemaps: sitemapsOf(file), validators: v,
			sum: sum, size: int64(len(body)),
		}
	}
	g := &good{text: x, at: at, maxAge: maxAge}
	g.ask(v)
	return g
}

// ask sets g's validators to v.
func (g *good) ask(v validators) {
	if g.validators = &g.text.validators; *g.validators != v {
		g.validators = &v
	}
}

// elsewhere returns url if it isn't that of o's robots.txt.
func elsewhere(o origin, url string) string {
	if url == o.robotsURL().String() {
		return ""
	}
	return url
}

// ttl is for how long an answer is used: as the server said, or TTL.
func (c *Cache) ttl(maxAge time.Duration) time.Duration {
	if maxAge != 0 {
		return maxAge
	}
	return c.cfg.TTL
}
