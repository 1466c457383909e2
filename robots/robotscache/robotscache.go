// Package robotscache keeps robots.txt per origin: fetches, caches, revalidates, survives.
package robotscache

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/go-politeness/politeness/robots"
)

// Config says how long robots.txt is kept, and what holds when it can't be had. Zero: RFC 9309.
type Config struct {
	TTL           time.Duration // 0: 1 h; Cache-Control max-age moves it within [5 min, 24 h]
	DenyTTL       time.Duration // 0: 5 min
	OnUnreachable Unreachable   // zero: Deny
	ServeStale    bool          // use the last good copy for up to 30 days while the origin is unreachable
	Timeout       time.Duration // for one fetch, hops included; 0: 30 s
	MaxOrigins    int           // 0: 100,000
	Store         Store         // nil: memory only
	LenientAgents bool          // robots.Options.LenientAgents
	RecordText    bool          // whether Event.Text holds the body, for evidence that can be re-proved
}

// Unreachable says what holds while robots.txt can't be had (429, 5xx, network errors).
type Unreachable int

const (
	Deny  Unreachable = iota // nothing may be fetched
	Allow                    // everything may be fetched, with low confidence
)

// Client is what the cache fetches with, and for whom.
type Client struct {
	UserAgent string                       // sent with each fetch
	Products  []string                     // product tokens that choose the group, in order of preference
	Transport http.RoundTripper            // one hop; expected to take a turn on the hop's host
	Observe   func(context.Context, Event) // told of every fetch; nil: nobody
}

// A RefusedError is returned by Client.Transport when the hop was never sent (no
// turn, no budget): it says nothing about the origin, so callers get Err and nothing is cached.
type RefusedError struct{ Err error }

// An Event tells of one fetch of robots.txt.
type Event struct {
	Origin      string // "https://example.com"
	URL         string // final URL
	Status      int
	Bytes       int64 // after decompression
	Hops        int
	Start       time.Time
	Duration    time.Duration
	TTL         time.Duration
	SHA256      string // hex, of the body as parsed
	Text        string // with Config.RecordText
	Revalidated bool   // 304
	Unreachable bool
	Stale       bool      // unreachable, and the last good copy is used
	Reason      string    // why unreachable
	Until       time.Time // when it is asked again
}

// An Entry is what is known of one origin. It is immutable.
type Entry struct {
	Rules      *robots.Rules // never nil
	Sitemaps   []string
	Denied     bool      // unreachable, and OnUnreachable is Deny: nothing may be fetched until Expires
	Confidence string    // "low" where unreachable and OnUnreachable is Allow; else ""
	Reason     string    // why Denied or low
	Expires    time.Time // when it is asked again
}

// Store keeps raw robots.txt across restarts.
type Store interface{}

// Cache is safe for concurrent use.
type Cache struct{}

// New returns a cache; all problems of cfg at once.
func New(cfg Config, c Client) (*Cache, error) { return &Cache{}, nil }

// Get returns the entry of u's origin, fetching robots.txt when needed.
func (c *Cache) Get(ctx context.Context, u *url.URL) (*Entry, error) { return &Entry{}, nil }

// Peek returns the entry of u's origin if it is cached and fresh.
func (c *Cache) Peek(u *url.URL) (*Entry, bool) { return nil, false }
