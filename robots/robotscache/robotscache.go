// Package robotscache keeps the robots.txt of every origin that a crawler meets. It fetches, caches
// and revalidates the files, and bridges outages. It follows RFC 9309 and, if that leaves room,
// Google.
//
// politeness.New makes its own Cache. Use this package by itself if requests are sent in another
// way:
//
//	cache, err := robotscache.New(robotscache.Config{}, robotscache.Client{
//		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
//	})
//	entry, err := cache.Get(ctx, u)
//	if err == nil && !entry.Denied && entry.Rules.Test(u.RequestURI()).Allowed {
//		// fetch u
//	}
//
// # Meaning of a response
//
//	2xx but 202                         its body is parsed, whatever it is: HTML holds no rules
//	304                                 the last good copy holds again
//	301 302 303 307 308                 followed, five times; the rules bind the first origin
//	other 3xx, a sixth redirect, 4xx    there are no rules; everything may be fetched
//	4xx to a condition that we added    but 404, 410, 429: robots.txt is requested without it
//	202, 429, 5xx, any other status     unreachable
//	no response, or half a body         unreachable: the missing half could forbid
//
// A redirect to another site, of another registrable domain, is followed only if that host's
// robots.txt, which is fetched first, allows it. The origin is unreachable if that robots.txt
// forbids the URL or can't be fetched. It is also unreachable if these fetches lead back to a site
// that waits for them, or would lead to a fourth site.
//
// A redirect counts as "other 3xx" if it has no Location, or leads to a URL that isn't http or
// https or is longer than 8 KiB. If the body has a registered content coding that we didn't ask
// for, and that isn't gzip or deflate, the origin is unreachable, as with half a body. A
// Content-Encoding that names no coding is ignored. The first two bytes of a body show whether it
// is gzip. If the header names gzip and the body isn't gzip, net/http fails. Then robots.txt is
// requested once more, with Accept-Encoding: identity. An ETag or Last-Modified that is longer than
// 1 KiB, or isn't printable ASCII, is ignored.
//
// While an origin is unreachable, nothing is fetched from it, for DenyTTL or for as long as its
// Retry-After asks (at most 24 h). Then robots.txt is fetched again. See [Config] for ServeStale
// and OnUnreachable.
//
// # Waiting
//
// An origin's robots.txt has one fetch at a time. All callers share the fetch, and each can leave
// it. A fetch has a goroutine, which ends when the response is there, or when the last caller
// leaves, which cancels the fetch. A transport that ignores its context blocks that goroutine, and
// no caller. New starts no goroutine.
//
// The first caller that finds rules out of date starts the fetch, and waits for it. All others use
// the old rules until these are 24 h old. From then on, and if there are no rules yet, they wait.
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
	// TTL is how long a response is used at most before robots.txt is fetched again, up to 24 h (RFC
	// 9309, section 2.4). A server's Cache-Control may shorten it to its max-age less Age, but not
	// below 5 min. no-cache and no-store count as 5 min. If TTL is zero, a response is used for 1 h,
	// and Cache-Control may also lengthen this, up to 24 h.
	TTL time.Duration

	// DenyTTL is how long an unreachable origin isn't asked again, unless its Retry-After is
	// longer. The default is 5 min.
	DenyTTL time.Duration

	// OnUnreachable decides whether pages may be fetched meanwhile. The default is Deny, so that no
	// page is fetched.
	OnUnreachable Unreachable

	// ServeStale keeps the last good copy, a 2xx, in force while the origin is unreachable, until 30
	// days after it was fetched or confirmed (RFC 9309, section 2.3.1.4). It has precedence over
	// OnUnreachable. An origin that had no robots.txt has no copy.
	ServeStale bool

	// Timeout bounds a fetch with all hops and their bodies. Waits for the host don't count if the
	// transport calls Queue. After it the origin is unreachable. The default is 30 s.
	Timeout time.Duration

	// MaxBytes bounds the memory of the cache, in bytes. Beyond it the least recently used origins
	// are evicted. If an evicted origin is met again, its copy is read from the Store, or else
	// fetched anew. An origin costs about 350 bytes, or 450 with its own ETag. A robots.txt costs
	// about 1.5 times the length of its lines for the crawler, and at most three times the length
	// of the file. Origins that serve the same text, to the byte, share it. The default is 256 MB.
	// That is enough for 700,000 origins with mostly equal files, or for some 230,000 with
	// different ones.
	MaxBytes int64

	// Store keeps robots.txt across restarts, and those that MaxBytes has no room for. The default
	// keeps them in memory only, as compiled rules without the text. If a limiter keeps state, set
	// Store too. Without it a process doesn't know a crawl-delay before it has fetched robots.txt.
	// Its first fetch then comes only Delay.Max after the last request of the earlier process, even
	// if the crawl-delay is longer.
	Store Store

	// AgentPatterns and LenientAgents are those of robots.Options.
	AgentPatterns, LenientAgents bool

	// RecordText sets Event.Text to the body, for evidence that can be proved again. The body is
	// kept in memory with the rules, and counts as a part of MaxBytes. See Share.
	RecordText bool

	// KeepText keeps the body in memory with the rules, for Entry.Answer, and counts it as a part
	// of MaxBytes. The default is false, so that it is kept only if RecordText is set.
	KeepText bool
}

// Unreachable decides whether pages may be fetched while robots.txt can't be fetched (429, 5xx,
// network errors). Set it in Config.OnUnreachable.
type Unreachable int

// The values of Unreachable.
const (
	Deny  Unreachable = iota // nothing may be fetched (RFC 9309, section 2.3.1.4)
	Allow                    // everything may be fetched, with low confidence
)

// Client is how the cache sends its fetches, and for which crawler. Pass it to New.
type Client struct {
	// UserAgent is sent with each fetch. Required.
	UserAgent string

	// Products are the product tokens that choose the group, as in robots.File.Agent. The default
	// is the one of UserAgent.
	Products []string

	// Transport sends one hop, without following redirects. It should wait for the hop's host, see
	// Queue, and return a *RefusedError if the hop can't start. It must obey the request's context,
	// as any RoundTripper, and so must the bodies of its responses. The default is
	// http.DefaultTransport, which doesn't wait for hosts.
	Transport http.RoundTripper

	// Observe is called after every fetch, and for every copy that the Store gave, before a caller
	// gets the result. It is called in the fetch's goroutine, under no lock, with a context that
	// has the values of the caller that started the fetch. It isn't called for a fetch that was
	// refused, or abandoned by all callers. If it is nil, there are no calls.
	Observe func(context.Context, Event)
}

// ErrNoAnswer is found by errors.Is in the Err of an Entry if no server has responded to the fetch.
// The name has no address, no connection was made, or nothing came back. It isn't found in an Entry
// that comes from another process's record in the Store.
var ErrNoAnswer = errors.New("robotscache: no server has responded")

// A RefusedError is returned by Client.Transport if it didn't send the hop.
type RefusedError struct {
	Err   error  // if the fetch couldn't start or the budget is spent, callers get it, and nothing is cached
	Final string // if not empty, the origin is unreachable for this reason, and stays so
}

func (e *RefusedError) Error() string { return "robotscache: not sent: " + e.Err.Error() }

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// An Event reports one fetch of robots.txt, or one copy from the Store. Client.Observe gets it.
type Event struct {
	Origin   string        // "https://example.com"
	URL      string        // of the last hop, after all redirects that were followed
	Status   int           // of the last hop, 0 without a response
	Bytes    int64         // of the copy in force, after decompression, 0 if there is none
	Hops     int           // redirects followed
	Start    time.Time     // when the first hop was sent, or when a restored copy was fetched
	Duration time.Duration // since Start, without later waits for the host
	TTL      time.Duration // how long the result is used
	SHA256   string        // hex, of the copy in force, empty if there is none
	Text     string        // of a new or restored copy, with Config.RecordText, empty after a 304 and for a stale copy
	Until    time.Time     // when robots.txt is fetched again

	Revalidated bool // 304
	Restored    bool // the copy is from the Store; if it is out of date, a fetch with its own Event follows
	Shared      bool // no fetch, since another Cache of Share had the copy
	Unreachable bool
	Stale       bool   // unreachable, and the last good copy is used
	Reason      string // why unreachable

	StoreErr error // of the Store, without effect on the result
}

// An Entry is the robots.txt in force for one origin, or its substitute. It is immutable. Cache.Get
// returns it.
type Entry struct {
	Rules  *robots.Rules // never nil, and allow nothing if Denied, except those of PeekStale
	Denied bool          // unreachable, and OnUnreachable is Deny, so that nothing may be fetched until Expires
	Stale  bool          // unreachable, and Rules are the last good copy's

	status int16  // of the response in force; 0: unreachable
	by     uint32 // number of the Cache that has reported it to Observe

	Confidence string    // "low" if unreachable and OnUnreachable is Allow, otherwise empty
	Reason     string    // why Denied, Stale or low
	Expires    time.Time // when robots.txt is fetched again

	// Err is Reason as an error, nil if Reason is empty. It wraps the error of the fetch, whose text
	// is cut at 2 KiB, and whose certificates are removed.
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

// Answer returns the status and the body of the response in force, for a program that reads
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

// SHA256 returns the hash of the robots.txt in force, in hex. It is empty if there is none.
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

// A Cache keeps the robots.txt of many origins. It is safe for concurrent use, and needs no Close.
type Cache struct {
	cfg     Config
	longest time.Duration // bound of all that Cache-Control asks for
	client  Client
	memory  *memory
	number  uint32 // distinguishes the shares of one memory
	shared  meetings

	allowAll, denyAll *robots.Rules

	fetched, revalidated, unreachable, restored atomic.Int64
}

// denyAll is a robots.txt, so that a Verdict names group, rule and line as one by a site's does.
const denyAll = "User-agent: *\nDisallow: /\n"

// New returns an empty Cache. The error joins all problems of cfg and cl, each naming its field.
// Use it for a crawler without a politeness.Transport.
func New(cfg Config, cl Client) (*Cache, error) {
	if err := errors.Join(cfg.Validate(), cl.validate()); err != nil {
		return nil, err
	}
	// A TTL that is set also bounds the lifetimes that servers give. The default doesn't.
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

// WithDefaults returns cfg with the default in each field that is zero. Use it to
// show or record a Config. Don't pass the result to New if TTL was zero. New takes the 1 h as a
// bound, and Cache-Control can't lengthen it any more.
func (cfg Config) WithDefaults() Config {
	cfg.TTL = cmp.Or(cfg.TTL, time.Hour)
	cfg.DenyTTL = cmp.Or(cfg.DenyTTL, 5*time.Minute)
	cfg.Timeout = cmp.Or(cfg.Timeout, 30*time.Second)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 256<<20)
	return cfg
}

// Validate reports all problems of cfg at once, each naming its field. New does the same. Use
// Validate to check a Config before the Client is known.
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

// withDefaults returns cl with the defaults in place of nil fields.
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
		errs = append(errs, fmt.Errorf("robotscache: Client.UserAgent: %q contains a control character", cl.UserAgent))
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
// callers get the origin's response. Without one they fetch again.
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

// Hit is Get without waiting. It returns the Entry of u's origin if that Entry is fresh at the
// given time, and if Observe has had all Events about it. Use it if you have just read the clock,
// because reading it costs half as much as a hit. If ok is false, call Get.
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

// PeekStale is Peek for an Entry that may be out of date. Here an Entry that is Denied has the
// Rules of the last good copy, if there is one. It is for pacing the fetch of robots.txt itself,
// for which the old crawl-delay is the best guess. Call Get before you fetch a page.
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

// Stats are a Cache's figures, for a status page. Hits aren't counted, because that would cost more
// than a hit does.
type Stats struct {
	Origins     int   `json:"origins"`     // in the cache
	InFlight    int   `json:"inFlight"`    // fetches under way
	Fetched     int64 `json:"fetched"`     // responses since New that are 2xx, or that mean no rules
	Revalidated int64 `json:"revalidated"` // 304 since New
	Unreachable int64 `json:"unreachable"` // fetches since New that found an origin unreachable
	Restored    int64 `json:"restored"`    // copies loaded from the Store since New
	Bytes       int64 `json:"bytes"`       // memory in use, about
	MaxBytes    int64 `json:"maxBytes"`    // bound of Bytes
	Evicted     int64 `json:"evicted"`     // origins evicted since New, for want of room
}

// Snapshot returns the current figures. Use it for metrics.
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
