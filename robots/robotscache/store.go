package robotscache

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/go-politeness/politeness/internal/printable"
)

// A Store keeps raw robots.txt beyond the life of a Cache, so that a resumed crawl needn't fetch
// them all again. It also shares them with other processes. The Cache loads a record when it knows
// nothing of an origin, or its state is out of date. It saves one after each response of an origin,
// such as a 2xx, the 304 that confirms it, or a 4xx or 3xx by which there are no rules. While an
// origin is unreachable, the Cache saves the last record again with Until and Reason. So the last
// good copy isn't lost, and not every run of a crawler asks the origin.
//
// A Store never harms the crawl. A record that can't be loaded counts as none, and errors are only
// reported, as Event.StoreErr. Its methods are called from many goroutines, one at a time for an
// origin, while callers wait for that origin. ctx is done when all of them have left. [Dir] is the
// Store on disk. Package redisrobots shares one on Redis.
type Store interface {
	// Load returns the record that was saved for origin, such as "https://example.com". The result
	// ok is false if there is no usable one, and err is for the user.
	Load(ctx context.Context, origin string) (r Record, ok bool, err error)

	// Save replaces the record of origin, wholly or not at all. It must not keep r.Body.
	Save(ctx context.Context, origin string, r Record) error

	// Lock returns when no other process is fetching origin's robots.txt, and keeps others from it
	// until unlock is called, or until this process is dead, which the Store finds out by itself. When
	// Lock has returned, the Cache loads the record once more, and fetches only if the record isn't
	// fresh. After an error it fetches without the lock. A Store may return immediately. Then several
	// processes may fetch at the same time.
	Lock(ctx context.Context, origin string) (unlock func(), err error)
}

// A Record is the last response of an origin that could be used. If the origin has become
// unreachable since then, the Record also says until when. A 2xx is of use until 30 days after
// Fetched, any other until 24 hours after it.
type Record struct {
	// URL is that of the response, redirects followed.
	URL string `json:"url"`

	// Status is 2xx, 3xx or 4xx. If it is 0, no response is known, and Until is set.
	Status int `json:"status"`

	// Body is that of a 2xx, after decompression, at most MaxBody.
	Body []byte `json:"body,omitempty"`

	// ETag and LastModified are for If-None-Match and If-Modified-Since. They are empty if there
	// are none.
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`

	// Fetched is when the response was fetched, or confirmed by a 304.
	Fetched time.Time `json:"fetched"`

	// MaxAge is the lifetime that the server gave, within [5 min, 24 h]. It is 0 if there is none.
	MaxAge time.Duration `json:"maxAge,omitempty"`

	// Until is when an origin that is unreachable is asked again, and Reason is why it is
	// unreachable. It is zero if the origin has responded.
	Until  time.Time `json:"until,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

// maxSkew is by how much the clock of the process that saved a record may be ahead of ours.
const maxSkew = time.Minute

// check returns an error if r can't be used.
func (r *Record) check(now time.Time) error {
	switch {
	case r.Status == 0 && !r.Until.IsZero():
		// An outage without a response before it. Nothing else in r is used.
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

// expired reports whether a response of that age is of no use any more.
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
	s, event, err := c.restore(f, prev != nil)
	if s == nil {
		return prev, err
	}
	s.by = c.number
	isNews := prev == nil || s.fresh() || s.outdates(prev)
	if !isNews {
		return prev, err
	}
	if s.fresh() {
		f.state = s
		event.StoreErr = storeErr // else it is reported with the fetch that follows
	}
	c.report(f.ctx, event)
	f.memory.mu.Lock()
	defer f.memory.mu.Unlock()
	// A fetch that all callers have left must not write over the state of a later one.
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
	if known == 0 {
		return s.copy != nil
	}
	return s.at-known > moment(maxSkew)
}

// restore loads the state of f's origin from the Store, fresh or not, and the Event to report. It
// returns nil if there is none. hasPrev reports whether this process had a state already.
func (c *Cache) restore(f *fetch, hasPrev bool) (*state, Event, error) {
	record, ok, err := c.cfg.Store.Load(f.ctx, f.origin.String())
	if err != nil || !ok {
		return nil, Event{}, err
	}
	now := time.Now()
	if err := record.check(now); err != nil {
		return nil, Event{}, fmt.Errorf("robotscache: record of %s: %w", f.origin, err)
	}
	age := max(now.Sub(record.Fetched), 0)
	if record.expired(age) {
		// An outage outlives the response before it.
		record = Record{URL: record.URL, Until: record.Until, Reason: record.Reason}
	}
	wait := c.waitOf(&record, now, hasPrev)
	if record.Status == 0 && wait <= 0 {
		return nil, Event{}, nil
	}
	s, event := c.fromRecord(f.origin, &record, now.Add(-age))
	if wait > 0 {
		s.Rules = nil
		s.text = nil
		// The Event reports the copy only if it is in force: fallback describes it then.
		event.Status = 0
		event.Bytes = 0
		event.SHA256 = ""
		event.Text = ""
		c.fallback(s, &event, now, outage{
			reason: printable.Clipped(record.Reason, maxErrorText),
			until:  now.Add(wait),
		})
	}
	return s, event, nil
}

// waitOf returns for how long from now on r's origin isn't asked again, since it is unreachable.
func (c *Cache) waitOf(r *Record, now time.Time, hasPrev bool) time.Duration {
	// By the wall clock alone, which other processes share with this one.
	wait := r.Until.Sub(now.Round(0))
	// A clock that was set back must not make the wait longer than an origin may ask for.
	most := max(c.cfg.DenyTTL, maxTTL)
	if wait > most && hasPrev {
		return 0 // this process has waited
	}
	return min(wait, most)
}

// fromRecord returns the state of o by the response in r, which came at a time by the monotonic
// clock, and the Event to report.
func (c *Cache) fromRecord(o origin, r *Record, at time.Time) (*state, Event) {
	next := &state{at: momentOf(at)}
	next.Expires = at.Add(c.ttl(r.MaxAge))
	event := Event{
		Origin:   o.String(),
		URL:      r.URL,
		Status:   r.Status,
		Start:    at,
		TTL:      next.Expires.Sub(at),
		Until:    next.Expires,
		Restored: true,
	}
	next.status = int16(r.Status)
	if r.Status/100 != 2 {
		next.Rules = c.allowAll
		return next, event
	}
	v := validators{
		url:          redirected(o, r.URL),
		etag:         validator(r.ETag),
		lastModified: validator(r.LastModified),
	}
	next.use(newCopy(c.textOf(r.Body, v), next.at, r.MaxAge, v))
	event.describe(next.copy)
	if c.cfg.RecordText {
		event.Text = string(r.Body)
	}
	return next, event
}

// save saves the response of f's origin or, while that is unreachable, the last answer again with
// the time until then.
func (c *Cache) save(f *fetch, reply *answer, now time.Time) error {
	next := f.state
	isOutage := next.Err != nil
	isConfirmed := !isOutage && reply.status == http.StatusNotModified
	var last Record
	var known bool
	if isOutage || isConfirmed {
		var err error
		last, known, err = c.cfg.Store.Load(f.ctx, f.origin.String())
		if err != nil {
			return err // the last answer stays in the Store
		}
	}
	record := Record{
		URL:     reply.url,
		Status:  reply.status,
		Fetched: now,
	}
	switch {
	case isOutage:
		record.Status = 0
		if known && last.check(now) == nil {
			record = last
		}
		record.Until = next.Expires
		record.Reason = next.Reason
	case next.copy == nil:
		record.MaxAge, _ = lifetime(reply.header)
	default:
		record.Body = reply.body
		record.ETag = next.copy.validators.etag
		record.LastModified = next.copy.validators.lastModified
		record.MaxAge = next.copy.maxAge
	}
	if isConfirmed {
		// The body isn't in memory any more. If the Store has lost it too, there is nothing to
		// confirm.
		if !known || sha256.Sum256(last.Body) != next.copy.text.sum {
			return nil
		}
		record.Status = last.Status
		record.Body = last.Body
	}
	return c.cfg.Store.Save(f.ctx, f.origin.String(), record)
}
