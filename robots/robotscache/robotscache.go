// Package robotscache knows the robots.txt of every origin a crawler meets: it fetches, keeps,
// revalidates and survives them, as RFC 9309 says and, where that leaves room, as Google does.
//
// politeness.New makes a Cache of its own. Use this package by itself where
// requests are sent in another way:
//
//	cache, err := robotscache.New(robotscache.Config{}, robotscache.Client{
//		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
//	})
//	entry, err := cache.Get(ctx, u)
//	if err == nil && !entry.Denied && entry.Rules.Test(u.RequestURI()).Allowed {
//		// fetch u
//	}
//
// # What an answer means
//
//	2xx                                 its body is parsed, whatever it is: HTML holds no rules
//	304                                 the copy that was asked about holds again
//	301 302 303 307 308                 followed, five times; the rules bind the first origin
//	other 3xx, a sixth redirect, 4xx    there are no rules; everything may be fetched
//	429, 5xx, any other status          unreachable
//	no response, or half a body         unreachable: what is missing could forbid
//
// A redirect that has no Location, or leads to what isn't http or https or to a URL of more than
// 8 KiB, counts as "other 3xx". A coding that wasn't asked for and isn't gzip or deflate counts as
// half a body. An ETag or Last-Modified of more than 1 KiB, or one that isn't printable ASCII, isn't
// asked by.
//
// While an origin is unreachable nothing is fetched from it, for DenyTTL or for
// as long as it asks by Retry-After (at most 24 h); then it is asked again. See
// [Config] for ServeStale and OnUnreachable.
//
// # Who waits
//
// An origin is asked by one request at a time, a flight, that all callers share
// and each can leave. A flight has a goroutine, which ends with it: when its
// answer is there, or when the last caller leaves, which cancels it; a transport
// that ignores its context keeps that goroutine, and nobody else. New starts none.
//
// The caller who finds rules to be out of date fetches them anew, in its own call; all others go on
// with the old ones until they are 24 h old. From then on, and where nothing was known, they wait.
package robotscache

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/robots"
)

// Config says how long robots.txt is kept, and what holds when it can't be had.
// The zero value is RFC 9309.
type Config struct {
	// TTL is how long an answer is used before it is asked for again, at most 24 h (RFC 9309,
	// section 2.4). A Cache-Control of the server has precedence: its max-age, less Age, within [5
	// min, 24 h]; no-cache and no-store mean 5 min. 0: 1 h.
	TTL time.Duration

	// DenyTTL is how long an unreachable origin isn't asked again, unless its
	// Retry-After is longer. 0: 5 min.
	DenyTTL time.Duration

	// OnUnreachable says what may be fetched meanwhile. Zero: Deny, nothing.
	OnUnreachable Unreachable

	// ServeStale lets the last good copy, a 2xx, hold while the origin is unreachable, until 30
	// days after it was fetched or confirmed (RFC 9309, section 2.3.1.4). It goes before
	// OnUnreachable. An origin that had no robots.txt has no copy.
	ServeStale bool

	// Timeout ends a fetch: all hops and their bodies, waits for a turn left out if
	// the transport calls Queue. The origin is unreachable then. 0: 30 s.
	Timeout time.Duration

	// MaxBytes bounds the memory of the cache, in bytes. Beyond it the least recently used origins
	// are evicted; one that is met again is read from the Store, or else fetched anew. An origin
	// costs about 350 bytes, or 430 with an ETag of its own, and a robots.txt about as much as those
	// of its rules that hold for the crawler, at most 1.2 times its length and 3 KB. Origins that
	// serve the same text, to the byte, share it. 0: 256 MB, enough for 700,000 origins most of whose
	// files are alike, or for some 280,000 usual ones of which no two are.
	MaxBytes int64

	// Store keeps robots.txt across restarts, and what MaxBytes has no room for. Nil: memory
	// only, where rules are kept compiled and without the text.
	Store Store

	// LenientAgents is robots.Options.LenientAgents.
	LenientAgents bool

	// RecordText makes Event.Text hold the body, for evidence that can be proved again.
	RecordText bool
}

// Unreachable says what holds while robots.txt can't be had (429, 5xx, network errors).
type Unreachable int

// What holds while robots.txt can't be had.
const (
	Deny  Unreachable = iota // nothing may be fetched (RFC 9309, section 2.3.1.4)
	Allow                    // everything may be fetched, with low confidence
)

// Client is what the cache fetches with, and for whom.
type Client struct {
	// UserAgent is sent with each fetch. Required.
	UserAgent string

	// Products are the product tokens that choose the group, as in
	// robots.File.Agent. Empty: the one of UserAgent.
	Products []string

	// Transport sends one hop; redirects are not its business. It is expected to
	// take a turn on the hop's host, see Queue, and to return a *RefusedError if it
	// gets none. It must obey the request's context, as any RoundTripper, and so
	// must the bodies of its responses. Nil: http.DefaultTransport, which takes none.
	Transport http.RoundTripper

	// Observe is told of every fetch, and of every copy that the Store gave, before anybody sees
	// what came of it. It is called in the flight's goroutine, under no lock, with a context that
	// has the values of the caller who started the fetch. A fetch that everybody left, or that was
	// refused, decided nothing and is not told. Nil: nobody.
	Observe func(context.Context, Event)
}

// A RefusedError is returned by Client.Transport when the hop was never sent (no turn, no budget):
// it says nothing about the origin, so callers get Err and nothing is cached.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return "robotscache: not sent: " + e.Err.Error() }

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// An Event tells of one fetch of robots.txt, or of one copy from the Store.
type Event struct {
	Origin   string        // "https://example.com"
	URL      string        // where the answer came from, or should have: redirects followed
	Status   int           // of the last hop; 0: no response
	Bytes    int64         // of the copy in force, after decompression; 0: none
	Hops     int           // redirects followed
	Start    time.Time     // when the first hop was let go; of a restored copy, when it was fetched
	Duration time.Duration // from then on, later waits for a turn left out
	TTL      time.Duration // for how long it is used
	SHA256   string        // hex, of the copy in force; empty: none
	Text     string        // the copy in force as parsed, with Config.RecordText, when it is read: not at a 304, not of a stale one
	Until    time.Time     // when it is asked again

	Revalidated bool // 304
	Restored    bool // no fetch: the Store had it. It may be out of date, and is asked for again then
	Unreachable bool
	Stale       bool   // unreachable, and the last good copy is used
	Reason      string // why unreachable

	StoreErr error // what went wrong with the Store; it changes nothing
}

// An Entry is what is known of one origin. It is immutable.
type Entry struct {
	Rules      *robots.Rules // never nil; they allow nothing if Denied
	Denied     bool          // unreachable, and OnUnreachable is Deny: nothing may be fetched until Expires
	Stale      bool          // unreachable, and Rules are the last good copy's
	Confidence string        // "low" where unreachable and OnUnreachable is Allow; else ""
	Reason     string        // why Denied, Stale or low
	Err        error         // Reason as an error, which wraps what the fetch failed with; nil where Reason is empty
	Expires    time.Time     // when it is asked again
	text       *text         // that Rules are of; nil for none
}

// Sitemaps returns the Sitemap lines of the robots.txt in force, as written.
func (e *Entry) Sitemaps() []string {
	if e.text == nil || e.text.sitemaps == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(e.text.sitemaps, "\n"), "\n")
}

// SHA256 returns the hash of the robots.txt in force, in hex; "" where there is none.
func (e *Entry) SHA256() string {
	if e.text == nil {
		return ""
	}
	return hex.EncodeToString(e.text.sum[:])
}

// A Cache knows the robots.txt of many origins. It is safe for concurrent use, and needs no Close.
type Cache struct {
	cfg    Config
	client Client
	memory *memory

	allowAll, denyAll *robots.Rules

	fetched, revalidated, unreachable, restored atomic.Int64
}

// New returns a Cache that knows nothing yet. The error joins all problems of cfg
// and cl, each naming its field.
func New(cfg Config, cl Client) (*Cache, error) {
	if err := errors.Join(cfg.Validate(), cl.validate()); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	if cl.Transport == nil {
		cl.Transport = http.DefaultTransport
	}
	cl.Products = slices.Clone(cl.Products)
	if len(cl.Products) == 0 {
		cl.Products = []string{robots.ProductToken(cl.UserAgent)}
	}
	return &Cache{
		cfg:      cfg,
		client:   cl,
		memory:   newMemory(cfg.MaxBytes),
		allowAll: robots.Parse(nil).Agent(cl.Products...),
		denyAll:  robots.Parse([]byte("User-agent: *\nDisallow: /\n")).Agent(cl.Products...),
	}, nil
}

// WithDefaults returns cfg with every field that is zero set to what its zero means. New does the
// same; use WithDefaults to show or record what holds.
func (cfg Config) WithDefaults() Config {
	cfg.TTL = cmp.Or(cfg.TTL, time.Hour)
	cfg.DenyTTL = cmp.Or(cfg.DenyTTL, 5*time.Minute)
	cfg.Timeout = cmp.Or(cfg.Timeout, 30*time.Second)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 256<<20)
	return cfg
}

// Validate reports all problems of cfg at once, each naming its field. New does the same; use
// Validate where a Config is checked before the Client is known.
func (cfg Config) Validate() error {
	var errs []error
	bad := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("robotscache: Config.%s: %v %s", field, value, want))
	}
	if cfg.TTL < 0 || cfg.TTL > maxTTL {
		bad("TTL", cfg.TTL, "is not within 0 and 24 h")
	}
	if cfg.DenyTTL < 0 {
		bad("DenyTTL", cfg.DenyTTL, "is negative")
	}
	if cfg.OnUnreachable != Deny && cfg.OnUnreachable != Allow {
		bad("OnUnreachable", int(cfg.OnUnreachable), "is neither Deny nor Allow")
	}
	if cfg.Timeout < 0 {
		bad("Timeout", cfg.Timeout, "is negative")
	}
	if cfg.MaxBytes < 0 {
		bad("MaxBytes", cfg.MaxBytes, "is negative")
	}
	return errors.Join(errs...)
}

func (cl *Client) validate() error {
	var errs []error
	if strings.ContainsFunc(cl.UserAgent, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		errs = append(errs, fmt.Errorf("robotscache: Client.UserAgent: %q holds a control character", cl.UserAgent))
	}
	if robots.ProductToken(cl.UserAgent) == "" {
		errs = append(errs, fmt.Errorf("robotscache: Client.UserAgent: %q doesn't begin with a product token, such as ExampleBot/1.0", cl.UserAgent))
	}
	if slices.Contains(cl.Products, "") {
		errs = append(errs, errors.New("robotscache: Client.Products: a token is empty"))
	}
	return errors.Join(errs...)
}

// Get returns what is known of u's origin, and waits while its robots.txt is fetched if that is
// needed. What the origin answers, or that it doesn't, is never an error, but an Entry. The error
// is that of ctx, of a URL that isn't http or https, or of a transport that refused to send.
//
// A hit allocates nothing, and starts nothing. A panic of the transport, of the
// Store or of Observe panics here, for the caller who started the fetch; the
// others who waited for it fetch anew. If that caller has left, nobody hears of it.
func (c *Cache) Get(ctx context.Context, u *url.URL) (*Entry, error) {
	o, err := originOf(u)
	if err != nil {
		return nil, err
	}
	if k := c.memory.use(o); k != nil && time.Until(k.Expires) > 0 {
		return &k.Entry, nil
	}
	return c.wait(ctx, o)
}

// Hit is Get where nothing has to be waited for: it returns what is known of u's
// origin if that is fresh at the given time. It is for callers who have just read
// the clock, which costs as much as half a hit, and go on to Get otherwise.
func (c *Cache) Hit(u *url.URL, now time.Time) (*Entry, bool) {
	o, err := originOf(u)
	if err != nil {
		return nil, false
	}
	if k := c.memory.use(o); k != nil && k.Expires.After(now) {
		return &k.Entry, true
	}
	return nil, false
}

// Peek returns what is known of u's origin if that is fresh. It never waits, and
// doesn't count as a use.
func (c *Cache) Peek(u *url.URL) (*Entry, bool) {
	o, err := originOf(u)
	if err != nil {
		return nil, false
	}
	if k := c.memory.peek(o); k != nil && time.Until(k.Expires) > 0 {
		return &k.Entry, true
	}
	return nil, false
}

// PeekStale is Peek for what may be out of date. It is for pacing what asks
// robots.txt itself anew: the crawl-delay of the old copy is the best that is known
// of the origin until then. Ask Get what may be fetched.
func (c *Cache) PeekStale(u *url.URL) (*Entry, bool) {
	o, err := originOf(u)
	if err != nil {
		return nil, false
	}
	switch k := c.memory.peek(o); {
	case k == nil:
		return nil, false
	case k.Denied && k.good != nil:
		e := k.Entry // unreachable, and its own rules have no delay
		e.Rules, e.text = k.good.text.rules, k.good.text
		return &e, true
	default:
		return &k.Entry, true
	}
}

// Len returns how many origins are known, out of date or not.
func (c *Cache) Len() int {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	return c.memory.known.Len()
}

// Stats are a Cache's figures, for a status page. Hits are not counted: that
// would cost more than a hit does.
type Stats struct {
	Origins     int   // known now
	InFlight    int   // being asked now
	Fetched     int64 // answers since New: 2xx, or that there are no rules
	Revalidated int64 // 304 since New
	Unreachable int64 // fetches since New that found an origin unreachable
	Restored    int64 // copies loaded from the Store since New
	Bytes       int64 // memory that is used now, about
	MaxBytes    int64 // memory that may be used
	Evicted     int64 // origins forgotten since New, for want of room
}

// Snapshot returns the figures of this moment.
func (c *Cache) Snapshot() Stats {
	m := c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	return Stats{
		Origins:     m.known.Len(),
		InFlight:    len(m.flights),
		Fetched:     c.fetched.Load(),
		Revalidated: c.revalidated.Load(),
		Unreachable: c.unreachable.Load(),
		Restored:    c.restored.Load(),
		Bytes:       m.bytes,
		MaxBytes:    m.max,
		Evicted:     m.evicted,
	}
}

func (c *Cache) count(e *Event) {
	switch {
	case e.Restored:
		c.restored.Add(1)
	case e.Unreachable:
		c.unreachable.Add(1)
	case e.Revalidated:
		c.revalidated.Add(1)
	default:
		c.fetched.Add(1)
	}
}
