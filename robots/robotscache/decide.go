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
// takes to ask again. It is immutable, except for the field moved.
type known struct {
	Entry
	origin origin
	at     moment // when the origin last said so; zero if it is unreachable and no copy of its rules holds
	good   *good  // last good copy, in force or not; nil if there is none
	goodAt moment // when that was fetched or confirmed

	// Guarded by the shard's lock.
	older, newer *known // in its list
	moved        uint64 // when it came to the front of its list
	size         uint8  // class of size
	uses         uint8  // times that it was moved, up to maxUses
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
	text         *text
	maxAge       time.Duration
	url          string // where it came from, if redirects led elsewhere
	etag         string
	lastModified string
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
	k := &known{origin: o, at: momentOf(now)}
	if prev != nil {
		k.good, k.goodAt = prev.good, prev.goodAt
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
		k.good = c.shards.texts.alike(k.good.confirmed(a.header))
		k.Rules, k.text, k.goodAt = k.good.text.rules, k.good.text, k.at
		e.Revalidated = true
		e.TTL = c.ttl(k.good.maxAge)

	case a.status/100 == 2:
		var g good
		g.note(a.header)
		k.good = c.compile(o, a.url, a.body, g)
		k.Rules, k.text, k.goodAt = k.good.text.rules, k.good.text, k.at
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
	if k.good != nil && k.goodAt.since(now) >= maxStale {
		k.good = nil // too old to be served, or to be asked about
	}
	k.Reason, k.Err, k.at = why, &unreachableError{why, cause}, 0
	switch {
	case c.cfg.ServeStale && k.good != nil:
		k.Rules, k.text, k.Stale, k.at = k.good.text.rules, k.good.text, true, k.goodAt
		if end := now.Add(maxStale - k.goodAt.since(now)); end.Before(until) {
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

// compile makes g a good copy of a body: the rules for our crawler, without the text. They are
// shared by all origins of the same text.
func (c *Cache) compile(o origin, url string, body []byte, g good) *good {
	sum := sha256.Sum256(body)
	x := c.shards.texts.find(sum)
	if x == nil {
		file := robots.ParseWith(body, robots.Options{LenientAgents: c.cfg.LenientAgents})
		x = &text{rules: file.Agent(c.client.Products...), sitemaps: sitemapsOf(file), sum: sum, size: int64(len(body))}
	}
	g.text = x
	if url != o.robotsURL().String() {
		g.url = url
	}
	return c.shards.texts.alike(&g)
}

// confirmed is g after a 304 with header h, which says anew what it says at all
// (RFC 9111, section 3.2).
func (g *good) confirmed(h http.Header) *good {
	again := *g
	again.note(h)
	return &again
}

// note keeps what h says of the copy's lifetime and of how to ask again.
func (g *good) note(h http.Header) {
	if maxAge, ok := lifetime(h); ok {
		g.maxAge = maxAge
	}
	if v := h.Get("ETag"); v != "" {
		g.etag = validator(v)
	}
	if v := h.Get("Last-Modified"); v != "" {
		g.lastModified = validator(v)
	}
}

// ttl is for how long an answer is used: as the server said, or TTL.
func (c *Cache) ttl(maxAge time.Duration) time.Duration {
	if maxAge != 0 {
		return maxAge
	}
	return c.cfg.TTL
}
