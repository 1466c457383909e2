package robotscache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const userAgent = "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)"

// A rig is a Cache with a function as its transport. It records requests and events.
type rig struct {
	*Cache
	answer func(*http.Request) (*http.Response, error)

	mu       sync.Mutex
	requests []*http.Request
	events   []Event
	open     int // bodies not closed yet
}

func newRig(t testing.TB, cfg Config, answer func(*http.Request) (*http.Response, error)) *rig {
	t.Helper()
	r := &rig{answer: answer}
	r.Cache = newCache(t, cfg, Client{UserAgent: userAgent, Transport: r, Observe: r.observe})
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.open != 0 {
			t.Errorf("%d bodies were never closed", r.open)
		}
	})
	return r
}

func newCache(t testing.TB, cfg Config, cl Client) *Cache {
	t.Helper()
	c, err := New(cfg, cl)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (r *rig) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.requests = append(r.requests, req)
	answer := r.answer
	r.mu.Unlock()
	resp, err := answer(req)
	if resp != nil && resp.Body != nil {
		r.mu.Lock()
		r.open++
		r.mu.Unlock()
		resp.Body = &countedBody{ReadCloser: resp.Body, closed: func() {
			r.mu.Lock()
			r.open--
			r.mu.Unlock()
		}}
	}
	return resp, err
}

func (r *rig) observe(_ context.Context, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// sent returns the URLs of all requests.
func (r *rig) sent() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var urls []string
	for _, req := range r.requests {
		urls = append(urls, req.URL.String())
	}
	return urls
}

func (r *rig) last() *http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests[len(r.requests)-1]
}

func (r *rig) event(t testing.TB) Event {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) == 0 {
		t.Fatal("no event")
	}
	return r.events[len(r.events)-1]
}

func (r *rig) get(t testing.TB, rawURL string) *Entry {
	t.Helper()
	e, err := r.Get(t.Context(), parse(t, rawURL))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

type countedBody struct {
	io.ReadCloser
	once   sync.Once
	closed func()
}

func (b *countedBody) Close() error {
	b.once.Do(b.closed)
	return b.ReadCloser.Close()
}

func parse(t testing.TB, rawURL string) *url.URL {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// reply makes a response; header is alternately names and values.
func reply(status int, body string, header ...string) *http.Response {
	h := make(http.Header)
	for pair := range slices.Chunk(header, 2) {
		h.Add(pair[0], pair[1])
	}
	return &http.Response{
		StatusCode: status, Header: h, ContentLength: int64(len(body)),
		Body: io.NopCloser(strings.NewReader(body)),
	}
}

// always returns a function that gives every request the same answer.
func always(status int, body string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return reply(status, body, header...), nil }
}

// after is always with a delay of d, which ends early with the request's context.
func after(d time.Duration, status int, body string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		if err := pass(req.Context(), d); err != nil {
			return nil, err
		}
		return reply(status, body, header...), nil
	}
}

// pass lets d pass, unless ctx is done before.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// counts returns c's Snapshot without bytes.
func counts(c *Cache) Stats {
	s := c.Snapshot()
	s.Bytes = 0
	s.MaxBytes = 0
	return s
}

var errNetwork = errors.New("connection refused")

func broken(*http.Request) (*http.Response, error) { return nil, errNetwork }

// bubble runs f in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func allowed(e *Entry, target string) bool { return !e.Denied && e.Rules.Test(target).Allowed }

const (
	site    = "https://example.com"
	private = "User-agent: *\nDisallow: /private\nSitemap: https://example.com/sitemap.xml\n"
)

func sum(body string) string {
	s := sha256.Sum256([]byte(body))
	return hex.EncodeToString(s[:])
}
