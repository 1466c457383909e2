package robotscache

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// caches numbers the Caches of the process.
var caches atomic.Uint32

// Share returns a Cache with the Config of c. It shares copies and fetches with c, and sends by cl.
// Use it if several transports ask the same hosts for one crawler: between them they fetch one
// robots.txt. A fetch is sent, and reported, by the Cache whose caller came first. Each other Cache
// reports the copy to its own Observe, as an Event with Shared, when it first uses it. Without
// Config.RecordText such an Event has no Text.
//
// The error joins all problems of cl. Client.Products, which choose the rules, must be those of c.
func (c *Cache) Share(cl Client) (*Cache, error) {
	err := cl.validate()
	if err != nil {
		return nil, err
	}
	cl = cl.withDefaults()
	if !slices.Equal(cl.Products, c.client.Products) {
		return nil, errors.New("robotscache: Client.Products: others than those of the Cache that is shared")
	}
	return &Cache{
		cfg:      c.cfg,
		longest:  c.longest,
		client:   cl,
		memory:   c.memory,
		number:   caches.Add(1),
		allowAll: c.allowAll,
		denyAll:  c.denyAll,
	}, nil
}

// maxMeetings bounds the copies of which a Cache remembers that it has reported them. One that it
// has forgotten is reported again.
const maxMeetings = 4096

// meetings are the copies of other Caches that one has reported.
type meetings struct {
	mu   sync.Mutex
	last *simplelru.LRU[origin, *meeting] // nil before the first
}

// A meeting is the report of the copy of one origin.
type meeting struct {
	expires time.Time     // of the copy
	done    chan struct{} // closed once it is reported; nil afterwards
}

// hasMet reports whether s, the state of u's origin, needs no report by c.
func (c *Cache) hasMet(u *url.URL, s *state) bool {
	if s.by == c.number || c.client.Observe == nil {
		return true
	}
	o, err := originOf(u)
	if err != nil {
		return false
	}
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	m := c.shared.find(o, s)
	return m != nil && m.done == nil
}

// find returns the meeting of s, nil if there is none. The caller holds k.mu.
func (k *meetings) find(o origin, s *state) *meeting {
	if k.last == nil {
		k.last, _ = simplelru.NewLRU[origin, *meeting](maxMeetings, nil) // the size isn't negative
	}
	m, _ := k.last.Get(o)
	if m == nil || !m.expires.Equal(s.Expires) {
		return nil
	}
	return m
}

// meet reports s, the state of o, unless c has done so. It returns once it is reported, or with the
// error of ctx.
func (c *Cache) meet(ctx context.Context, o origin, s *state) error {
	if s.by == c.number || c.client.Observe == nil {
		return nil
	}
	k := &c.shared
	k.mu.Lock()
	m := k.find(o, s)
	if m != nil {
		done := m.done
		k.mu.Unlock()
		return await(ctx, done)
	}
	m = &meeting{expires: s.Expires, done: make(chan struct{})}
	o.host = strings.Clone(o.host) // which may be a part of the URL's text
	k.last.Add(o, m)
	k.mu.Unlock()
	defer func() { // even if Observe panics
		k.mu.Lock()
		defer k.mu.Unlock()
		close(m.done)
		m.done = nil
	}()
	c.client.Observe(ctx, c.sharedEvent(o, s))
	return nil
}

// await returns when done is closed, or with the error of ctx. If done is nil, it returns
// immediately.
func await(ctx context.Context, done <-chan struct{}) error {
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sharedEvent returns the Event of s, the state of o, which another Cache has fetched.
func (c *Cache) sharedEvent(o origin, s *state) Event {
	now := time.Now()
	e := Event{
		Origin:      o.String(),
		URL:         o.robotsURL().String(),
		Status:      int(s.status),
		Start:       now,
		Until:       s.Expires,
		Shared:      true,
		Unreachable: s.Err != nil,
		Stale:       s.Stale,
		Reason:      s.Reason,
	}
	if s.at != 0 {
		e.Start = now.Add(-s.at.since(now))
	}
	e.TTL = s.Expires.Sub(e.Start)
	if s.text == nil {
		return e
	}
	e.describe(s.copy)
	if url := s.copy.validators.url; url != "" {
		e.URL = url // a redirect led there
	}
	// The text of a stale copy is on record since that was new.
	if c.cfg.RecordText && !s.Stale {
		e.Text = s.text.body
	}
	return e
}
