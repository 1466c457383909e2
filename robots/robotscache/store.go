package robotscache

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-politeness/politeness/internal/printable"
)

// A Store keeps raw robots.txt beyond the life of a Cache, so that a crawl which is resumed need
// not fetch them all again, and shares it with other processes. The Cache asks it when it knows
// nothing of an origin or what it knows is out of date, and saves a record after each answer of an
// origin: a 2xx, the 304 that confirms it, or a 4xx. Where an origin is unreachable, the record
// that is there is saved again with Until and Reason, so that the last good copy isn't lost and the
// origin isn't asked by each run of a crawler.
//
// A Store never harms the crawl: a record that can't be loaded is as good as
// none, and errors are only reported, as Event.StoreErr. Its methods are called
// from many goroutines, one at a time for an origin, and while callers wait for
// that origin. ctx is done when all of them have left. [Dir] is the Store on disk; package
// redisrobots shares one on Redis.
type Store interface {
	// Load returns what was saved for origin, such as "https://example.com". ok is
	// false if there is nothing usable; err is for what the user should know.
	Load(ctx context.Context, origin string) (r Record, ok bool, err error)

	// Save replaces what was saved for origin, wholly or not at all. It must not keep r.Body.
	Save(ctx context.Context, origin string, r Record) error

	// Lock returns when no other process is fetching origin's robots.txt, and keeps others from it
	// until unlock is called; or until this process is dead, which the Store finds out by itself.
	// The Cache loads once more then, and fetches only if what it finds isn't fresh. Without the
	// lock, at an error, it fetches all the same. A Store that doesn't mind several fetches at a
	// time returns at once.
	Lock(ctx context.Context, origin string) (unlock func(), err error)
}

// A Record is the last answer of an origin, and for how long the origin is unreachable since. A 2xx
// is of use until 30 days after Fetched, a 4xx until 24 hours after it.
type Record struct {
	URL          string        // where it came from, redirects followed
	Status       int           // 2xx or 4xx; 0: no answer is known, and Until is set
	Body         []byte        // of a 2xx, after decompression, at most MaxBody
	ETag         string        // to ask by, if there is one
	LastModified string        // to ask by, if there is one
	Fetched      time.Time     // when it was fetched, or confirmed by a 304
	MaxAge       time.Duration // lifetime that the server gave, within [5 min, 24 h]; 0: none
	Until        time.Time     // when an origin that is unreachable is asked again; zero: it answered
	Reason       string        // why it is unreachable
}

// maxSkew is by how much the clock of the process that saved a record may be ahead of ours.
const maxSkew = time.Minute

// check says what is wrong with a record, however it came about.
func (r *Record) check(now time.Time) error {
	switch {
	case r.Status == 0 && !r.Until.IsZero():
	case r.Status/100 != 2 && (r.Status/100 != 4 || r.Status == http.StatusTooManyRequests):
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

// expired reports whether nothing can be done any more with a record of that age.
func (r *Record) expired(age time.Duration) bool {
	if r.Status/100 == 2 {
		return age >= maxStale
	}
	return age >= maxTTL
}

// consult asks the store what it has of the flight's origin. It returns prev, or else what is
// stored: rules that are fresh, which nobody need fetch, or a copy to ask about, or to survive on.
// Where a fetch is needed it waits until no other process is at it, and keeps others from it until
// unlock is called.
func (c *Cache) consult(f *flight, prev *known) (k *known, unlock func(), err error) {
	unlock = func() {}
	if prev == nil {
		var e Event
		prev, e, err = c.restore(f, false)
		if prev != nil {
			c.restoredAs(f, &e)
			switch now := time.Now(); {
			case now.Before(prev.Expires):
				return prev, unlock, err
			case prev.usable(now):
				c.offer(f, prev)
			}
		}
	}
	release, lockErr := c.cfg.Store.Lock(f.ctx, f.origin.String())
	if lockErr != nil {
		return prev, unlock, errors.Join(err, lockErr)
	}
	keep := false
	defer func() {
		if !keep { // the store or Observe has panicked
			release()
		}
	}()
	// Another process may have asked while this one waited.
	if k, e, _ := c.restore(f, prev != nil); k != nil && time.Now().Before(k.Expires) {
		c.restoredAs(f, &e)
		prev, err = k, nil
	}
	keep = true
	return prev, release, err
}

// restoredAs tells of a copy that the store gave.
func (c *Cache) restoredAs(f *flight, e *Event) {
	c.count(e)
	c.observe(f.ctx, *e)
}

// restore loads what the store has of the flight's origin: rules, fresh or not, or that the origin
// isn't to be asked yet. met tells that this process knows of the origin already.
func (c *Cache) restore(f *flight, met bool) (*known, Event, error) {
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
	// A clock that was set back makes nobody wait for longer than an origin may ask for.
	wait, most := r.Until.Sub(now.Round(0)), max(c.cfg.DenyTTL, maxTTL)
	if wait > most && met {
		wait = 0 // this process has waited
	}
	wait = min(wait, most)
	if r.expired(age) {
		r = Record{URL: r.URL, Until: r.Until, Reason: r.Reason} // the answer is of no use any more
	}
	k := &known{at: momentOf(at)}
	k.Expires = at.Add(c.ttl(r.MaxAge))
	e := Event{
		Origin: f.origin.String(), URL: r.URL, Status: r.Status, Start: at,
		TTL: k.Expires.Sub(at), Until: k.Expires, Restored: true,
	}
	switch {
	case r.Status/100 == 2:
		k.good = c.compile(r.Body, k.at, r.MaxAge, validators{
			elsewhere(f.origin, r.URL), validator(r.ETag), validator(r.LastModified),
		})
		k.Rules, k.text = k.good.text.rules, k.good.text
		e.describe(k.good)
		if c.cfg.RecordText {
			e.Text = string(r.Body)
		}
	case r.Status == 0 && wait <= 0:
		return nil, Event{}, nil
	default:
		k.Rules = c.allowAll
	}
	if wait > 0 {
		k.Rules, k.text = nil, nil
		e.Status, e.Bytes, e.SHA256, e.Text = 0, 0, "", ""
		c.survive(k, &e, printable.Clipped(r.Reason, longestCause), nil, now, now.Add(wait))
		if k.Stale {
			e.describe(k.good)
		}
	}
	return k, e, nil
}

// offer lets others use k while the flight asks again.
func (c *Cache) offer(f *flight, k *known) {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	if !f.left {
		c.memory.add(f.origin, k)
	}
}

// save keeps what the origin answered.
func (c *Cache) save(f *flight, k *known, a *answer, now time.Time) error {
	r := Record{URL: a.url, Status: a.status, Fetched: now}
	if k.good == nil {
		r.MaxAge, _ = lifetime(a.header)
	} else {
		r.ETag, r.LastModified, r.MaxAge = k.good.validators.etag, k.good.validators.lastModified, k.good.maxAge
		r.Body = a.body
	}
	if a.status == http.StatusNotModified {
		// The body isn't in memory any more. If the store has lost it too, there is
		// nothing to confirm.
		old, ok, err := c.cfg.Store.Load(f.ctx, f.origin.String())
		if err != nil || !ok || sha256.Sum256(old.Body) != k.good.text.sum {
			return err
		}
		r.Status, r.Body = old.Status, old.Body
	}
	return c.cfg.Store.Save(f.ctx, f.origin.String(), r)
}

// saveSilence keeps that the origin is unreachable, beside what it answered before.
func (c *Cache) saveSilence(f *flight, k *known, a *answer, now time.Time) error {
	r, ok, err := c.cfg.Store.Load(f.ctx, f.origin.String())
	if err != nil || !ok || r.check(now) != nil {
		r = Record{URL: a.url, Fetched: now}
	}
	r.Until, r.Reason = k.Expires, k.Reason
	return c.cfg.Store.Save(f.ctx, f.origin.String(), r)
}
