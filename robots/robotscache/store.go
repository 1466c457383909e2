package robotscache

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"
)

// A Store keeps raw robots.txt beyond the life of a Cache, so that a crawl which
// is resumed need not fetch them all again. The Cache loads a record when it
// knows nothing of an origin, and saves one after each answer of an origin: a
// 2xx, the 304 that confirms it, or a 4xx. What an origin failed to answer isn't
// saved, so the last good copy is never lost that way.
//
// A Store never harms the crawl: a record that can't be loaded is as good as
// none, and errors are only reported, as Event.StoreErr. Its methods are called
// from many goroutines, one at a time for an origin, and while callers wait for
// that origin. ctx is done when all of them have left. [Dir] is the Store on disk.
type Store interface {
	// Load returns what was saved for origin, such as "https://example.com". ok is
	// false if there is nothing usable; err is for what the user should know.
	Load(ctx context.Context, origin string) (r Record, ok bool, err error)

	// Save replaces what was saved for origin, wholly or not at all. It must not
	// keep r.Body.
	Save(ctx context.Context, origin string, r Record) error
}

// A Record is one answer of an origin.
type Record struct {
	URL          string        // where it came from, redirects followed
	Status       int           // 2xx or 4xx
	Body         []byte        // of a 2xx, after decompression, at most MaxBody
	ETag         string        // to ask by, if there is one
	LastModified string        // to ask by, if there is one
	Fetched      time.Time     // when it was fetched, or confirmed by a 304
	MaxAge       time.Duration // lifetime that the server gave, within [5 min, 24 h]; 0: none
}

// check says what is wrong with a record, however it came about.
func (r *Record) check(now time.Time) error {
	age := now.Sub(r.Fetched)
	switch {
	case r.Status/100 != 2 && (r.Status/100 != 4 || r.Status == http.StatusTooManyRequests):
		return fmt.Errorf("status %d", r.Status)
	case len(r.Body) > MaxBody:
		return fmt.Errorf("body of %d bytes", len(r.Body))
	case age < 0:
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

// restore loads what the store has of the flight's origin: rules that are fresh,
// or a copy to ask about, or to survive on.
func (c *Cache) restore(f *flight) (*known, error) {
	r, ok, err := c.cfg.Store.Load(f.ctx, f.origin.String())
	if err != nil || !ok {
		return nil, err
	}
	now := time.Now()
	if err := r.check(now); err != nil {
		return nil, fmt.Errorf("robotscache: record of %s: %w", f.origin, err)
	}
	age := now.Sub(r.Fetched)
	if r.expired(age) {
		return nil, nil
	}
	at := now.Add(-age) // with the monotonic clock's reading
	k := &known{origin: f.origin, at: momentOf(at)}
	k.Expires = at.Add(c.ttl(r.MaxAge))
	e := Event{
		Origin: f.origin.String(), URL: r.URL, Status: r.Status, Start: at,
		TTL: k.Expires.Sub(at), Until: k.Expires, Restored: true,
	}
	if r.Status/100 == 2 {
		k.good = c.compile(f.origin, r.URL, r.Body, good{
			maxAge: r.MaxAge, etag: validator(r.ETag), lastModified: validator(r.LastModified),
		})
		k.Rules, k.text, k.goodAt = k.good.text.rules, k.good.text, k.at
		e.describe(k.good)
		if c.cfg.RecordText {
			e.Text = string(r.Body)
		}
	} else {
		k.Rules = c.allowAll
	}
	c.count(&e)
	c.observe(f.ctx, e)
	return k, nil
}

// offer lets others use k while the flight asks again.
func (c *Cache) offer(f *flight, k *known) {
	f.shard.mu.Lock()
	if !f.left {
		c.shards.add(f.shard, f.key, k)
	}
	f.shard.mu.Unlock()
	c.shards.evict(f.shard)
}

// save keeps what the origin answered.
func (c *Cache) save(f *flight, k *known, a *answer, now time.Time) error {
	r := Record{URL: a.url, Status: a.status, Fetched: now}
	if k.good == nil {
		r.MaxAge, _ = lifetime(a.header)
	} else {
		r.ETag, r.LastModified, r.MaxAge = k.good.etag, k.good.lastModified, k.good.maxAge
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
