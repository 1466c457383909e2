package robotscache

import (
	"context"
	"errors"
	"net/url"

	"github.com/go-politeness/politeness/hostlimit/sitekey"
)

// maxDepth is the number of fetches that may wait for one that a redirect to another site needs.
// Two are enough for a site that has moved twice.
const maxDepth = 2

// An offLimitsError keeps a redirect from being followed. It has no text of the other site, because
// that could be long.
type offLimitsError struct {
	to     string // origin
	reason string
	cause  error // nil: the rules forbid it
}

func (e *offLimitsError) Error() string { return "the redirect to " + e.to + ": " + e.reason }

func (e *offLimitsError) Unwrap() error { return e.cause }

// mayFollow returns an error if the redirect of f's robots.txt to target isn't followed. An
// attacker could redirect many names to a costly page of a stranger. So the other site's robots.txt
// is fetched first, and must allow target. Its Crawl-delay applies from then on.
func (c *Cache) mayFollow(ctx context.Context, f *fetch, target *url.URL) error {
	to, err := originOf(target)
	if err != nil {
		return err // redirect has made target, so there is none
	}
	if sitekey.Of(to.host) == sitekey.Of(f.origin.host) {
		return nil // the owner of both leads to the file
	}
	s, err := c.rulesFor(ctx, f, to)
	if err != nil {
		return err
	}
	if s.Denied {
		return final(to, "its own robots.txt is needed first, and is unreachable: "+s.Reason, s.Err)
	}
	if !s.Rules.TestReadings(target.RequestURI()).Allowed {
		return final(to, "its own robots.txt forbids the URL", nil)
	}
	return nil
}

// final returns the refusal to ask the site of to.
func final(to origin, reason string, cause error) *RefusedError {
	err := &offLimitsError{to: to.String(), reason: reason, cause: cause}
	return &RefusedError{Err: err, Final: err.Error()}
}

// rulesFor returns the state of to, which the fetch f waits for.
func (c *Cache) rulesFor(ctx context.Context, f *fetch, to origin) (*state, error) {
	s := c.memory.use(to)
	if s.fresh() {
		return s, nil
	}
	if f.depth >= maxDepth {
		return nil, final(to, "it comes after redirects to other sites", nil)
	}
	if !f.awaits(to) {
		return nil, final(to, "that site's robots.txt redirects back", nil)
	}
	defer f.awaitsNone()
	s, err := c.wait(f.deadline(ctx), to)
	if err == nil {
		return s, nil
	}
	// The end of this fetch, for which the other one was given up, is no refusal.
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	var refused *RefusedError
	if errors.As(err, &refused) {
		return nil, refused
	}
	return nil, &RefusedError{Err: err}
}

// awaits notes that f waits for the robots.txt of to. It reports false, and notes nothing, if that
// robots.txt waits for the one of f.
func (f *fetch) awaits(to origin) bool {
	m := f.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	for next := to; next != f.origin; {
		other := m.fetches[next]
		if other == nil || other.needs == (origin{}) {
			f.needs = to
			return true
		}
		next = other.needs
	}
	return false
}

// awaitsNone ends what awaits has noted.
func (f *fetch) awaitsNone() {
	f.memory.mu.Lock()
	defer f.memory.mu.Unlock()
	f.needs = origin{}
}

// deadline returns ctx with the latest deadline of f's callers, if all of them have one. Callers
// that come from now on are late.
func (f *fetch) deadline(ctx context.Context) context.Context {
	f.memory.mu.Lock()
	defer f.memory.mu.Unlock()
	f.queued = true
	if f.noDeadline {
		return ctx
	}
	return queueContext{ctx, f.latest}
}
