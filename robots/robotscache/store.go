package robotscache

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/go-politeness/politeness/internal/printable"
)

// A Store keeps raw robots.txt beyond the life of a Cache, so that a crawl that is resumed needn't
// fetch them all again, and shares them with other processes. The Cache loads a record when it
// knows nothing of an origin, or only what is out of date. It saves one after each answer of an
// origin: a 2xx, the 304 that confirms it, or a 4xx or 3xx by which there are no rules. While an
// origin is unreachable, the Cache saves the last record again with Until and Reason: the last good
// copy isn't lost, and not every run of a crawler asks the origin.
//
// A Store never harms the crawl: a record that can't be loaded counts as none, and errors are only
// reported, as Event.StoreErr. Its methods are called from many goroutines, one at a time for an
// origin, while callers wait for that origin. ctx is done when all of them have left. [Dir] is the
// Store on disk; package redisrobots shares one on Redis.
type Store interface {
	// Load returns the record that was saved for origin, such as "https://example.com". ok is
	// false if there is no usable one; err is for the user.
	Load(ctx context.Context, origin string) (r Record, ok bool, err error)

	// Save replaces the record of origin, wholly or not at all. It must not keep r.Body.
	Save(ctx context.Context, origin string, r Record) error

	// Lock returns when no other process is fetching origin's robots.txt, and keeps others from it
	// until unlock is called, or until this process is dead, which the Store finds out by itself.
	// The Cache loads once more then, and fetches only if that record isn't fresh. After an error
	// it fetches without the lock. A Store may return at once; then several processes may fetch at
	// a time.
	Lock(ctx context.Context, origin string) (unlock func(), err error)
}

// A Record is the last answer of an origin, and until when the origin is unreachable since. A 2xx
// is of use until 30 days after Fetched, any other until 24 hours after it.
type Record struct {
	URL          string        `json:"url"`                    // that the answer came from, redirects followed
	Status       int           `json:"status"`                 // 2xx, 3xx or 4xx; 0: no answer is known, and Until is set
	Body         []byte        `json:"body,omitempty"`         // of a 2xx, after decompression, at most MaxBody
	ETag         string        `json:"etag,omitempty"`         // for If-None-Match; empty: none
	LastModified string        `json:"lastModified,omitempty"` // for If-Modified-Since; empty: none
	Fetched      time.Time     `json:"fetched"`                // when it was fetched, or confirmed by a 304
	MaxAge       time.Duration `json:"maxAge,omitempty"`       // lifetime that the server gave, within [5 min, 24 h]; 0: none
	Until        time.Time     `json:"until,omitzero"`         // when an origin that is unreachable is asked again; zero: it answered
	Reason       string        `json:"reason,omitempty"`       // why it is unreachable
}

// maxSkew is by how much the clock of the process that saved a record may be ahead of ours.
const maxSkew = time.Minute

// check returns an error that says what is wrong with r, nil if nothing is.
func (r *Record) check(now time.Time) error {
	switch {
	case r.Status == 0 && !r.Until.IsZero():
	case unreachable(&answer{status: r.Status}) != "":
		return fmt.Errorf("status %d", r.Status)
	case len(r.Body) > MaxBody:
		return fmt.Errorf("body of %d bytes", len(r.Body))
	case now.Sub(r.Fetched) < -maxSkew:
		return fmt.Errorf("fetched in the future, at %v", r.Fetched)
	case r.MaxAge != 0 && (r.MaxAge < minTTL || r.MaxAge > maxTTL):
		return fmt.Errorf("lifetime %v", r.MaxAge)
	}
	return nil
}

// expired reports whether an answer of that age is of no use any more.
func (r *Record) expired(age time.Duration) bool {
	if r.Status/100 == 2 {
		return age >= maxStale
	}
	return age >= maxTTL
}

// load returns the state of f's origin that the Store has or, if that brings nothing new, prev,
// this process's own. It sets f.state to a fresh one. It reports the state of the Store that it
// returns, a fresh one with storeErr, and lets other callers use it while f asks for a newer one.
func (c *Cache) load(f *fetch, prev *state, storeErr error) (*state, error) {
	s, e, err := c.restore(f, prev != nil)
	if s == nil || prev != nil && !s.fresh() && !s.outdates(prev) {
		return prev, err
	}
	if s.fresh() {
		f.state, e.StoreErr = s, storeErr
	}
	c.report(f.ctx, e)
	f.memory.mu.Lock()
	defer f.memory.mu.Unlock()
	if f.ctx.Err() == nil && s.usable(time.Now()) {
		f.memory.add(f.origin, s)
	}
	return s, err
}

// outdates reports whether s, which the Store has, comes from a later answer than prev, by more
// than clocks differ. If prev comes from none, only a copy is of use.
func (s *state) outdates(prev *state) bool {
	known := prev.at
	if prev.copy != nil {
		known = prev.copy.at
	}
	return known == 0 && s.copy != nil || known != 0 && s.at-known > moment(maxSkew)
}

// restore loads the state of f's origin from the Store, fresh or not, and the Event to report. It
// returns nil if there is none. hasPrev reports whether this process had a state already.
func (c *Cache) restore(f *fetch, hasPrev bool) (*state, Event, error) {
	r, ok, err := c.cfg.Store.Load(f.ctx, f.origin.String())
	if err != nil || !ok {
		return nil, Event{}, err
	}
	now := time.Now()
	if err := r.check(now); err != nil {
		return nil, Event{}, fmt.Errorf("robotscache: record of %s: %w", f.origin, err)
	}
	age := max(now.Sub(r.Fetched), 0)
	at := now.Add(-age) // with the monotonic clock's reading
	// A clock that was set back must not make the wait longer than an origin may ask for.
	wait, most := r.Until.Sub(now.Round(0)), max(c.cfg.DenyTTL, maxTTL)
	if wait > most && hasPrev {
		wait = 0 // this process has waited
	}
	wait = min(wait, most)
	if r.expired(age) {
		r = Record{URL: r.URL, Until: r.Until, Reason: r.Reason}
	}
	s := &state{at: momentOf(at)}
	s.Expires = at.Add(c.ttl(r.MaxAge))
	e := Event{
		Origin: f.origin.String(), URL: r.URL, Status: r.Status, Start: at,
		TTL: s.Expires.Sub(at), Until: s.Expires, Restored: true,
	}
	switch {
	case r.Status/100 == 2:
		v := validators{redirected(f.origin, r.URL), validator(r.ETag), validator(r.LastModified)}
		s.use(newCopy(c.textOf(r.Body, v), s.at, r.MaxAge, v))
		e.describe(s.copy)
		if c.cfg.RecordText {
			e.Text = string(r.Body)
		}
	case r.Status == 0 && wait <= 0:
		return nil, Event{}, nil
	default:
		s.Rules = c.allowAll
	}
	if wait > 0 {
		s.Rules, s.text = nil, nil
		e.Status = 0
		e.Bytes = 0
		e.SHA256 = ""
		e.Text = ""
		c.fallback(s, &e, printable.Clipped(r.Reason, maxErrorText), nil, now, now.Add(wait))
	}
	return s, e, nil
}

// save saves the answer of f's origin or, while that is unreachable, the last answer again with the
// time until then.
func (c *Cache) save(f *fetch, a *answer, now time.Time) (err error) {
	s, key := f.state, f.origin.String()
	old, ok := Record{}, false
	if s.Err != nil || a.status == http.StatusNotModified {
		if old, ok, err = c.cfg.Store.Load(f.ctx, key); err != nil {
			return err // the last answer stays in the Store
		}
	}
	r := Record{URL: a.url, Status: a.status, Fetched: now}
	switch {
	case s.Err != nil:
		if r.Status = 0; ok && old.check(now) == nil {
			r = old
		}
		r.Until, r.Reason = s.Expires, s.Reason
	case s.copy == nil:
		r.MaxAge, _ = lifetime(a.header)
	default:
		r.ETag, r.LastModified = s.copy.validators.etag, s.copy.validators.lastModified
		r.Body, r.MaxAge = a.body, s.copy.maxAge
	}
	if s.Err == nil && a.status == http.StatusNotModified {
		// The body isn't in memory any more. If the Store has lost it too, there is nothing to
		// confirm.
		if !ok || sha256.Sum256(old.Body) != s.copy.text.sum {
			return nil
		}
		r.Status, r.Body = old.Status, old.Body
	}
	return c.cfg.Store.Save(f.ctx, key, r)
}
