package robotscache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	at     time.Time // when the origin last said so; zero if it is unreachable and no copy of its rules holds
	good   *good     // last good copy, in force or not; nil if there is none
	moved  uint64    // when it came to the front of its shard; guarded by the shard's lock
}

// good is the last good copy of a robots.txt: a 2xx answer, or one that a 304
// confirmed since.
type good struct {
	rules        *robots.Rules
	sitemaps     []string
	at           time.Time // when it was fetched or confirmed
	maxAge       time.Duration
	url          string // where it came from, if redirects led elsewhere
	etag         string
	lastModified string
	sum          [sha256.Size]byte
	size         int64
}

// usable reports whether k may be used past Expires while it is asked again.
func (k *known) usable(now time.Time) bool {
	return !k.at.IsZero() && now.Sub(k.at) < maxTTL
}

// answered reports whether k is what the origin said, not what holds in its silence.
func (k *known) answered() bool { return !k.Denied && !k.Stale && k.Confidence == "" }

// decide is what an answer means, as RFC 9309, section 2.3.1, and where that
// leaves room, Google: the one place where statuses become rules.
func (c *Cache) decide(o origin, prev *known, a *answer, now time.Time) (*known, Event) {
	k := &known{origin: o, at: now}
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
		k.good = k.good.confirmed(a.header, now)
		k.Rules, k.Sitemaps = k.good.rules, k.good.sitemaps
		e.Revalidated = true
		e.TTL = c.ttl(k.good.maxAge)

	case a.status/100 == 2:
		k.good = c.compile(o, a.url, a.header, a.body, now)
		k.Rules, k.Sitemaps = k.good.rules, k.good.sitemaps
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
	e.Bytes, e.SHA256 = g.size, hex.EncodeToString(g.sum[:])
}

// until is when an unreachable origin is asked again: after DenyTTL, or when it
// asked to be, at most a day from now.
func until(now time.Time, denyTTL time.Duration, a *answer) time.Time {
	wish, _ := backoff.RetryAfter(a.header.Get("Retry-After"), a.header.Get("Date"), now)
	return now.Add(max(denyTTL, min(wish, maxTTL)))
}

// survive fills k with what holds while the origin is unreachable: the last good
// copy where the user wants it served, or else nothing, or everything.
func (c *Cache) survive(k *known, e *Event, why string, cause error, now, until time.Time) {
	if k.good != nil && now.Sub(k.good.at) >= maxStale {
		k.good = nil // too old to be served, or to be asked about
	}
	k.Reason, k.Err, k.at = why, &unreachableError{why, cause}, time.Time{}
	switch {
	case c.cfg.ServeStale && k.good != nil:
		k.Rules, k.Sitemaps, k.Stale, k.at = k.good.rules, k.good.sitemaps, true, k.good.at
		if end := k.good.at.Add(maxStale); end.Before(until) {
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

// compile makes a good copy of a body: the rules for our crawler, without the text.
func (c *Cache) compile(o origin, url string, h http.Header, body []byte, at time.Time) *good {
	file := robots.ParseWith(body, robots.Options{LenientAgents: c.cfg.LenientAgents})
	g := &good{
		rules:    file.Agent(c.client.Products...),
		sitemaps: slices.Clip(file.Sitemaps()),
		at:       at,
		sum:      sha256.Sum256(body),
		size:     int64(len(body)),
	}
	if url != o.robotsURL().String() {
		g.url = url
	}
	g.note(h)
	return g
}

// confirmed is g after a 304 with header h, which says anew what it says at all
// (RFC 9111, section 3.2).
func (g *good) confirmed(h http.Header, at time.Time) *good {
	again := *g
	again.at = at
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
