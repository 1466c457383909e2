// Package robotscache keeps the robots.txt of every origin that a crawler meets: it fetches, caches
// and revalidates them, and bridges outages, as RFC 9309 says and, where that leaves room, as
// Google does.
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
// # Meaning of an answer
//
//	2xx but 202                         its body is parsed, whatever it is: HTML holds no rules
//	304                                 the last good copy holds again
//	301 302 303 307 308                 followed, five times; the rules bind the first origin
//	other 3xx, a sixth redirect, 4xx    there are no rules; everything may be fetched
//	4xx to a condition that we added    asked for once more without it; 404, 410 and 429 apart
//	202, 429, 5xx, any other status     unreachable
//	no response, or half a body         unreachable: the missing half could forbid
//
// A redirect to another site, of another registrable domain, is followed if the robots.txt of the
// host there allows it, which is fetched first. If that forbids the URL, can't be had, or itself
// needs the robots.txt of a fourth site or of the first one, the origin is unreachable.
//
// A redirect counts as "other 3xx" if it has no Location, or leads to a URL that isn't http or
// https or is longer than 8 KiB. A content coding that exists, wasn't asked for and isn't gzip or
// deflate counts as half a body. A word that names no coding is none, and the first two bytes of a
// body say whether it is gzip. If net/http can't undo a coding that the body doesn't have,
// robots.txt is asked for once more without one. An ETag or Last-Modified that is longer than 1
// KiB, or isn't printable ASCII, is ignored.
//
// While an origin is unreachable, nothing is fetched from it, for DenyTTL or for as long as its
// Retry-After asks (at most 24 h); then robots.txt is fetched again. See [Config] for ServeStale
// and OnUnreachable.
//
// # Waiting
//
// An origin's robots.txt is fetched once at a time: all callers share the fetch, and each can leave
// it. A fetch has a goroutine, which ends when the answer is there, or when the last caller leaves,
// which cancels the fetch. A transport that ignores its context blocks that goroutine, and no
// caller. New starts no goroutine.
//
// The caller that finds rules out of date fetches them anew, in its own call. All others use the
// old rules until these are 24 h old. From then on, and where there are no rules yet, they wait.
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
	"unsafe"

	"github.com/go-politeness/politeness/internal/durations"
	"github.com/go-politeness/politeness/robots"
)

// Config sets how long robots.txt is used, and its substitute while it can't be fetched. The zero
// value is RFC 9309.
type Config struct {
	// TTL is how long an answer is used at most before robots.txt is fetched again, up to 24 h (RFC
	// 9309, section 2.4); a server's Cache-Control may ask for less: its max-age, less Age, but not
	// below 5 min, which no-cache and no-store mean. 0: 1 h, or by Cache-Control up to 24 h.
	TTL time.Duration

	// DenyTTL is how long an unreachable origin isn't asked again, unless its
	// Retry-After is longer. 0: 5 min.
	DenyTTL time.Duration

	// OnUnreachable says whether pages may be fetched meanwhile. Zero: Deny, none may.
	OnUnreachable Unreachable

	// ServeStale keeps the last good copy, a 2xx, in force while the origin is unreachable, until 30
	// days after it was fetched or confirmed (RFC 9309, section 2.3.1.4). It has precedence over
	// OnUnreachable. An origin that had no robots.txt has no copy.
	ServeStale bool

	// Timeout bounds a fetch: all hops and their bodies, waits for a turn left out if the transport
	// calls Queue. After it the origin is unreachable. 0: 30 s.
	Timeout time.Duration

	// MaxBytes bounds the memory of the cache, in bytes. Beyond it the least recently used origins are
	// evicted; one that is met again is read from the Store, or else fetched anew. An origin costs
	// about 350 bytes, or 450 with an ETag of its own, and a robots.txt about 1.5 times as much as
	// those of its rules that hold for the crawler, at most three times its length. Origins that serve
	// the same text, to the byte, share it. 0: 256 MB, enough for 700,000 origins most of whose files
	// are alike, or for some 230,000 usual ones of which no two are.
	MaxBytes int64

	// Store keeps robots.txt across restarts, and those that MaxBytes has no room for. Nil: they are
	// kept in memory only, as compiled rules without the text. If a limiter keeps state, set Store
	// too: without it a process doesn't know a crawl-delay before it has fetched robots.txt, so that
	// fetch follows the request of an earlier process after Delay.Max only.
	Store Store

	// AgentPatterns and LenientAgents are those of robots.Options.
	AgentPatterns, LenientAgents bool

	// RecordText makes Event.Text hold the body, for evidence that can be proved again. The body is
	// kept in memory with the rules, and counts as a part of MaxBytes: see Share.
	RecordText bool

	// KeepText keeps the body in memory with the rules, for Entry.Answer, and counts it as a part of
	// MaxBytes. False: it is kept only if RecordText is set.
	KeepText bool
}

// Unreachable says whether pages may be fetched while robots.txt can't be (429, 5xx, network
// errors).
type Unreachable int

// The values of Unreachable.
const (
	Deny  Unreachable = iota // nothing may be fetched (RFC 9309, section 2.3.1.4)
	Allow                    // everything may be fetched, with low confidence
)

// Client is how the cache sends its fetches, and for which crawler.
type Client struct {
	// UserAgent is sent with each fetch. Required.
	UserAgent string

	// Products are the product tokens that choose the group, as in
	// robots.File.Agent. Empty: the one of UserAgent.
	Products []string

	// Transport sends one hop, without following redirects. It should wait for a turn on the hop's
	// host, see Queue, and return a *RefusedError if it gets none. It must obey the request's
	// context, as any RoundTripper, and so must the bodies of its responses. Nil:
	// http.DefaultTransport, which doesn't wait for turns.
	Transport http.RoundTripper

	// Observe is called after every fetch, and for every copy that the Store gave, before a caller
	// gets the result. It is called in the fetch's goroutine, under no lock, with a context that has
	// the values of the caller that started the fetch. It isn't called for a fetch that was refused,
	// or abandoned by all callers. Nil: no calls.
	Observe func(context.Context, Event)
}

// ErrNoAnswer is found by errors.Is in the Err of an Entry if no server has answered the fetch: the
// name has no address, no connection came about, or nothing came back. It isn't found in one that
// another process has kept in the Store.
var ErrNoAnswer = errors.New("robotscache: no server has answered")

// A RefusedError is returned by Client.Transport if it didn't send the hop.
type RefusedError struct {
	Err   error  // without a turn or a budget callers get it, and nothing is cached
	Final string // if not empty, the refusal is for good: the origin is unreachable for this reason
}

func (e *RefusedError) Error() string { return "robotscache: not sent: " + e.Err.Error() }

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// An Event reports one fetch of robots.txt, or one copy from the Store.
type Event struct {
	Origin   string        // "https://example.com"
	URL      string        // of the answer, or of the hop without one: redirects followed
	Status   int           // of the last hop; 0: no response
	Bytes    int64         // of the copy in force, after decompression; 0: none
	Hops     int           // redirects followed
	Start    time.Time     // when the first hop was sent; of a restored copy, when it was fetched
	Duration time.Duration // since Start, later waits for a turn left out
	TTL      time.Duration // how long the result is used
	SHA256   string        // hex, of the copy in force; empty: none
	Text     string        // of a new or restored copy, with Config.RecordText; empty after a 304, and for a stale copy
	Until    time.Time     // when robots.txt is fetched again

	Revalidated bool // 304
	Restored    bool // no fetch: the Store had a copy, which may be out of date and is fetched again then
	Shared      bool // no fetch: another Cache of Share had the copy
	Unreachable bool
	Stale       bool   // unreachable, and the last good copy is used
	Reason      string // why unreachable

	StoreErr error // of the Store; the result is the same without it
}

// An Entry is the robots.txt in force for one origin, or its substitute. It is immutable.
type Entry struct {
	Rules  *robots.Rules // never nil; they allow nothing if Denied
	Denied bool          // unreachable, and OnUnreachable is Deny: nothing may be fetched until Expires
	Stale  bool          // unreachable, and Rules are the last good copy's

	status int16  // of the answer in force; 0: unreachable
	by     uint32 // number of the Cache that has reported it to Observe

	Confidence string    // "low" if unreachable and OnUnreachable is Allow; else ""
	Reason     string    // why Denied, Stale or low
	Expires    time.Time // when robots.txt is fetched again

	// Err is Reason as an error, nil if Reason is empty. It wraps that of the fetch, up to 2 KiB and
	// without certificates.
	Err error

	text *text // of Rules; nil: none
}

// Sitemaps returns the Sitemap lines of the robots.txt in force, as written.
func (e *Entry) Sitemaps() []string {
	if e.text == nil || e.text.sitemaps == "" {
		return nil
	}
	return strings.Split(e.text.sitemaps, "\n")
}

// Answer returns the status and the body of the answer in force, for a program that reads
// robots.txt itself. The body is the part of robots.txt that counts, at most MaxBody. A redirect
// that leads to no robots.txt is a 404. ok is false if the origin is unreachable, or the body isn't
// kept (Config.KeepText).
func (e *Entry) Answer() (status int, body string, ok bool) {
	switch {
	case e.Reason != "" || e.status == 0:
		return 0, "", false
	case e.text != nil:
		return http.StatusOK, e.text.body, int64(len(e.text.body)) == e.text.size
	case e.status/100 == 4:
		return int(e.status), "", true
	}
	return http.StatusNotFound, "", true
}

// SHA256 returns the hash of the robots.txt in force, in hex; "" if there is none.
func (e *Entry) SHA256() string {
	if e.text == nil {
		return ""
	}
	return hex.EncodeToString(e.text.sum[:])
}

// Copy returns the first 8 characters of SHA256.
func (e *Entry) Copy() string {
	if e.text == nil {
		return ""
	}
	return unsafe.String(&e.text.name[0], len(e.text.name)) // which doesn't change
}

// A Cache holds the robots.txt of many origins. It is safe for concurrent use, and needs no Close.
type Cache struct {
	cfg     Config
	longest time.Duration // bound of all that Cache-Control asks for
	client  Client
	memory  *memory
	number  uint32 // tells those apart that share memory
	shared  meetings

	allowAll, denyAll *robots.Rules

	fetched, revalidated, unreachable, restored atomic.Int64
}

// denyAll is a robots.txt, so that a Verdict names group, rule and line as one by a site's does.
const denyAll = "User-agent: *\nDisallow: /\n"

// New returns an empty Cache. The error joins all problems of cfg and cl, each naming its field.
func New(cfg Config, cl Client) (*Cache, error) {
	if err := errors.Join(cfg.Validate(), cl.validate()); err != nil {
		return nil, err
	}
	// A TTL that is set also bounds the lifetimes that servers give; the default doesn't.
	longest := cmp.Or(cfg.TTL, maxTTL)
	cfg = cfg.WithDefaults()
	cl = cl.withDefaults()
	return &Cache{
		cfg:      cfg,
		longest:  longest,
		client:   cl,
		memory:   newMemory(cfg.MaxBytes),
		number:   caches.Add(1),
		allowAll: robots.Parse(nil).Agent(cl.Products...),
		denyAll:  robots.Parse([]byte(denyAll)).Agent(cl.Products...),
	}, nil
}

// WithDefaults returns cfg with every field that is zero set to the meaning of its zero. Use it to
// show or record a Config. To New, a TTL that is set is a bound, also if WithDefaults has set it.
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
	errs := []error{
		durations.Check("robotscache: Config.TTL", cfg.TTL),
		durations.Check("robotscache: Config.DenyTTL", cfg.DenyTTL),
		durations.Check("robotscache: Config.Timeout", cfg.Timeout),
	}
	if cfg.TTL > maxTTL {
		errs = append(errs, fmt.Errorf("robotscache: Config.TTL: %v is longer than 24 h", cfg.TTL))
	}
	if cfg.OnUnreachable != Deny && cfg.OnUnreachable != Allow {
		const text = "robotscache: Config.OnUnreachable: %d is neither Deny nor Allow"
		errs = append(errs, fmt.Errorf(text, int(cfg.OnUnreachable)))
	}
	if cfg.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("robotscache: Config.MaxBytes: %d is negative", cfg.MaxBytes))
	}
	return errors.Join(errs...)
}

// withDefaults returns cl with every field set whose nil has a meaning.
func (cl Client) withDefaults() Client {
	cl.Transport = cmp.Or(cl.Transport, http.DefaultTransport)
	cl.Products = slices.Clone(cl.Products)
	if len(cl.Products) == 0 {
		cl.Products = []string{robots.ProductToken(cl.UserAgent)}
	}
	return cl
}

// keepsText reports whether the bytes of robots.txt are kept in memory.
func (cfg *Config) keepsText() bool { return cfg.RecordText || cfg.KeepText }

func (cl *Client) validate() error {
	var errs []error
	if strings.ContainsFunc(cl.UserAgent, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		errs = append(errs, fmt.Errorf("robotscache: Client.UserAgent: %q holds a control character", cl.UserAgent))
	}
	if robots.ProductToken(cl.UserAgent) == "" {
		const text = "robotscache: Client.UserAgent: %q doesn't begin with a product token, such as ExampleBot/1.0"
		errs = append(errs, fmt.Errorf(text, cl.UserAgent))
	}
	if slices.Contains(cl.Products, "") {
		errs = append(errs, errors.New("robotscache: Client.Products: a token is empty"))
	}
	return errors.Join(errs...)
}

// Get returns the Entry of u's origin. It waits while robots.txt is fetched, if that is needed. An
// origin that is unreachable is no error, but an Entry. The error is that of ctx, of a URL that
// isn't http or https, or of a transport that refused to send.
//
// A hit allocates nothing, and starts no goroutine. A panic of the transport, of the Store or of
// Observe panics in the call that started the fetch, and is lost if that has returned. The other
// callers get the origin's answer; without one they fetch anew.
func (c *Cache) Get(ctx context.Context, u *url.URL) (*Entry, error) {
	o, err := originOf(u)
	if err != nil {
		return nil, err
	}
	s := c.memory.use(o)
	if !s.fresh() {
		s, err = c.wait(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	if err := c.meet(ctx, o, s); err != nil {
		return nil, err
	}
	return &s.Entry, nil
}

// Hit is Get without waiting: it returns the Entry of u's origin if that is fresh at the given
// time, and nothing is left to be reported to Observe. It is for callers that have just read the
// clock, which costs as much as half a hit, and call Get otherwise.
func (c *Cache) Hit(u *url.URL, now time.Time) (*Entry, bool) {
	s := stateOf(u, c.memory.use)
	if s == nil || !s.Expires.After(now) || !c.hasMet(u, s) {
		return nil, false
	}
	return &s.Entry, true
}

// stateOf returns the state of u's origin that get returns, nil if there is none.
func stateOf(u *url.URL, get func(origin) *state) *state {
	o, err := originOf(u)
	if err != nil {
		return nil
	}
	return get(o)
}

// Peek returns the Entry of u's origin if that is fresh. It never waits, and doesn't make the
// origin a recently used one.
func (c *Cache) Peek(u *url.URL) (*Entry, bool) {
	s := stateOf(u, c.memory.peek)
	if !s.fresh() {
		return nil, false
	}
	return &s.Entry, true
}

// PeekStale is Peek for an Entry that may be out of date; one that is Denied has the Rules of the
// last good copy, if there is one. It is for pacing the fetch of robots.txt itself, for which the
// old crawl-delay is the best guess. Call Get before you fetch a page.
func (c *Cache) PeekStale(u *url.URL) (*Entry, bool) {
	s := stateOf(u, c.memory.peek)
	if s == nil {
		return nil, false
	}
	if !s.Denied || s.copy == nil {
		return &s.Entry, true
	}
	// The rules in force have no crawl-delay. Those of the copy do, perhaps.
	e := s.Entry
	e.Rules = s.copy.text.rules
	e.text = s.copy.text
	return &e, true
}

// Stats are a Cache's figures, for a status page. Hits aren't counted: that would cost more than a
// hit does.
type Stats struct {
	Origins     int   `json:"origins"`     // in the cache
	InFlight    int   `json:"inFlight"`    // fetches under way
	Fetched     int64 `json:"fetched"`     // answers since New: 2xx, or that there are no rules
	Revalidated int64 `json:"revalidated"` // 304 since New
	Unreachable int64 `json:"unreachable"` // fetches since New that found an origin unreachable
	Restored    int64 `json:"restored"`    // copies loaded from the Store since New
	Bytes       int64 `json:"bytes"`       // memory in use, about
	MaxBytes    int64 `json:"maxBytes"`    // bound of Bytes
	Evicted     int64 `json:"evicted"`     // origins evicted since New, for want of room
}

// Snapshot returns the current figures.
func (c *Cache) Snapshot() Stats {
	m := c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	return Stats{
		Origins:     m.states.Len(),
		InFlight:    len(m.fetches),
		Fetched:     c.fetched.Load(),
		Revalidated: c.revalidated.Load(),
		Unreachable: c.unreachable.Load(),
		Restored:    c.restored.Load(),
		Bytes:       m.bytes,
		MaxBytes:    m.max,
		Evicted:     m.evicted,
	}
}
