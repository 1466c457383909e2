package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bartventer/httpcache"
	_ "github.com/bartventer/httpcache/store/memcache" // registers memcache://
)

// fresh is how long a page without caching headers stays fresh, unless FETCH_CACHE_TTL_SEC sets
// another time.
const fresh = 15 * time.Minute

// stale is how long after that the old copy is shown while it is revalidated.
const stale = 15 * time.Minute

// ttlFromEnv returns FETCH_CACHE_TTL_SEC, or fresh if it isn't set.
func ttlFromEnv() (time.Duration, error) {
	value := os.Getenv("FETCH_CACHE_TTL_SEC")
	if value == "" {
		return fresh, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > 365*24*3600 {
		return 0, fmt.Errorf("environment variable FETCH_CACHE_TTL_SEC=%q is not a number of seconds "+
			"from 1 to a year, 31536000", value)
	}
	return time.Duration(n) * time.Second, nil
}

// cached puts a cache (RFC 9111) around a polite Transport: cache outside, politeness inside. A
// page in the cache costs no turn and no page of the budget. A request of the cache, also one that
// revalidates, waits for its turn. Pages are kept in dir; empty: in memory.
//
// The age of a page counts from when it was asked for, so a page that had to wait for a long block
// is requested again earlier.
func cached(polite http.RoundTripper, dir string, ttl time.Duration) (http.RoundTripper, error) {
	dsn := "memcache://"
	if dir != "" {
		var err error
		dsn, err = openPages(dir)
		if err != nil {
			return nil, err
		}
	}
	return &shared{
		cache:   httpcache.NewTransport(dsn, httpcache.WithUpstream(policy{polite, ttl})),
		flights: make(map[string]*flight),
	}, nil
}

// shared fetches a page once for all who ask for it meanwhile, and shows old copies while it
// revalidates them (RFC 5861, section 3). The cache could do the latter as well, but not while
// the copy that it revalidates is being read.
type shared struct {
	cache http.RoundTripper

	mu      sync.Mutex
	flights map[string]*flight // by URL and headers
}

// A flight is a fetch that is under way.
type flight struct {
	cancel  context.CancelFunc
	waiting int           // callers, and one more for a revalidation, which nobody waits for
	done    chan struct{} // closed when resp, body and err are set
	resp    *http.Response
	body    []byte
	err     error
}

// RoundTrip answers from the cache if that has a copy which may be shown.
func (s *shared) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || req.Body != nil || req.Header.Get("Cache-Control") != "" {
		return s.cache.RoundTrip(req)
	}
	peek := req.Clone(req.Context())
	peek.Header.Set("Cache-Control", "only-if-cached")
	resp, err := s.cache.RoundTrip(peek)
	if err != nil {
		return nil, err
	}
	hasCopy := resp.StatusCode != http.StatusGatewayTimeout
	isHit := resp.Header.Get(httpcache.CacheStatusHeader) == "HIT"
	if hasCopy && !isHit {
		return resp, nil // a copy that needs a revalidation was revalidated
	}
	age, _ := strconv.Atoi(resp.Header.Get("Age"))
	past := time.Duration(age)*time.Second - lifetime(resp.Header)
	switch {
	case !hasCopy:
	case past < 0:
		return resp, nil
	case past < seconds(resp.Header.Get(window)):
		resp.Header.Set(httpcache.CacheStatusHeader, "STALE")
		s.revalidate(req)
		return resp, nil
	}
	resp.Body.Close()
	return s.fetch(req)
}

// fetch waits for the flight of req's page, its own or one that is under way.
func (s *shared) fetch(req *http.Request) (*http.Response, error) {
	key, f := s.join(req)
	select {
	case <-f.done:
	case <-req.Context().Done():
		s.leave(key, f)
		return nil, req.Context().Err()
	}
	if f.err != nil {
		return nil, f.err
	}
	resp := *f.resp
	resp.Header = f.resp.Header.Clone()
	resp.Request = req
	resp.Body = io.NopCloser(bytes.NewReader(f.body))
	return &resp, nil
}

// revalidate asks for req's page in the background, unless that is under way already. It waits for
// its turn, however long that takes; the caller has the old copy by then.
func (s *shared) revalidate(req *http.Request) {
	s.mu.Lock()
	_, underWay := s.flights[key(req)]
	s.mu.Unlock()
	if !underWay {
		s.join(req) // and never leave: so this flight is never cancelled
	}
}

// join returns the flight of req's page, which ends when all who joined it have left.
func (s *shared) join(req *http.Request) (string, *flight) {
	key := key(req)
	s.mu.Lock()
	defer s.mu.Unlock()
	underWay, ok := s.flights[key]
	if ok {
		underWay.waiting++
		return key, underWay
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context())) // the caller may be gone before others
	f := &flight{cancel: cancel, waiting: 1, done: make(chan struct{})}
	s.flights[key] = f
	req = req.Clone(ctx)
	go func() {
		defer cancel()
		f.resp, f.err = s.cache.RoundTrip(req) //nolint:bodyclose // it is closed three lines below, where there is one
		if f.err == nil {
			f.body, f.err = io.ReadAll(f.resp.Body)
			f.resp.Body.Close()
		}
		s.mu.Lock()
		s.forget(key, f)
		s.mu.Unlock()
		close(f.done)
	}()
	return key, f
}

// leave cancels f if nobody else waits for it. Later callers get a new flight.
func (s *shared) leave(key string, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.waiting--
	if f.waiting == 0 {
		s.forget(key, f)
		f.cancel()
	}
}

// forget removes f, that of key, under s.mu.
func (s *shared) forget(key string, f *flight) {
	if s.flights[key] == f {
		delete(s.flights, key)
	}
}

// key names a page: its URL, and the headers by which servers choose what they send.
func key(req *http.Request) string {
	var b strings.Builder
	b.WriteString(req.URL.String() + "\n")
	_ = req.Header.Write(&b) // sorted; a Builder takes everything
	return b.String()
}

// window holds for how many seconds an old copy may be shown. It takes the place of the directive,
// which the cache would follow itself.
const window = "X-Stale-While-Revalidate"

// policy sets how long pages stay fresh in the cache: by Cache-Control or Expires, or else for ttl.
type policy struct {
	next http.RoundTripper
	ttl  time.Duration
}

// RoundTrip reads the whole body, as the cache will: the slot on the host is free
// before the cache sees the response, whatever becomes of it there.
func (p policy) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := p.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	h := resp.Header
	// After a 304 without caching headers, those of the page still apply.
	says := h.Get("Cache-Control") != "" || h.Get("Expires") != ""
	if resp.StatusCode == http.StatusOK || (resp.StatusCode == http.StatusNotModified && says) {
		complete(h, p.ttl)
	}
	return resp, nil
}

// complete adds to Cache-Control that the response stays fresh for ttl, if nothing else is stated.
func complete(h http.Header, ttl time.Duration) {
	var keep []string
	show := stale
	silent := h.Get("Expires") == ""
	for _, d := range directives(h) {
		name, value, _ := strings.Cut(d, "=")
		switch strings.ToLower(name) {
		case "stale-while-revalidate":
			show = seconds(value)
			continue
		case "no-store", "no-cache":
			show = 0
			silent = false
		case "must-revalidate":
			show = 0
		case "max-age":
			silent = false
		}
		keep = append(keep, d)
	}
	if silent {
		keep = append(keep, "max-age="+strconv.Itoa(int(ttl.Seconds())))
	}
	if len(keep) > 0 {
		h.Set("Cache-Control", strings.Join(keep, ", "))
	}
	h.Set(window, strconv.Itoa(int(show.Seconds())))
}

// lifetime is how long a response is fresh (RFC 9111, section 4.2.1).
func lifetime(h http.Header) time.Duration {
	for _, d := range directives(h) {
		name, value, _ := strings.Cut(d, "=")
		if strings.EqualFold(name, "max-age") {
			return seconds(value)
		}
	}
	expires, err := http.ParseTime(h.Get("Expires"))
	if err != nil {
		return 0
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return expires.Sub(date)
}

// directives returns the directives of Cache-Control.
func directives(h http.Header) []string {
	var all []string
	for _, line := range h.Values("Cache-Control") {
		for d := range strings.SplitSeq(line, ",") {
			trimmed := strings.TrimSpace(d)
			if trimmed != "" {
				all = append(all, trimmed)
			}
		}
	}
	return all
}

// seconds reads a number of seconds, a year at most. It returns 0 if there is no number.
func seconds(s string) time.Duration {
	n, err := strconv.ParseInt(strings.Trim(s, `"`), 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(min(max(n, 0), 365*24*3600)) * time.Second
}
