package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bartventer/httpcache"
	_ "github.com/bartventer/httpcache/store/memcache" // registers memcache://
)

const (
	// fresh is how long a page holds that says nothing of caches itself.
	fresh = 15 * time.Minute
	// stale is for how long after that the old copy is shown while it is revalidated.
	stale = 15 * time.Minute
)

// cached puts a cache (RFC 9111) around a polite Transport: cache outside,
// politeness inside. What the cache has costs no turn and no page; what it has to
// ask for, revalidations included, waits for its turn.
//
// The age of a page counts from when it was asked for, so one that had to wait for
// a long block is asked for again the sooner.
func cached(polite http.RoundTripper) http.RoundTripper {
	return &staleWhileRevalidate{
		cache: httpcache.NewTransport("memcache://", httpcache.WithUpstream(policy{polite})),
		busy:  make(map[string]struct{}),
	}
}

// A staleWhileRevalidate shows old copies while it revalidates them (RFC 5861,
// section 3), each URL once at a time. The cache could do that as well, but not
// while the copy that it revalidates is being read.
type staleWhileRevalidate struct {
	cache http.RoundTripper

	mu   sync.Mutex
	busy map[string]struct{} // URLs that are being revalidated
}

// RoundTrip answers from the cache if that has a copy which may be shown.
func (s *staleWhileRevalidate) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || req.Header.Get("Cache-Control") != "" {
		return s.cache.RoundTrip(req)
	}
	peek := req.Clone(req.Context())
	peek.Header.Set("Cache-Control", "only-if-cached")
	resp, err := s.cache.RoundTrip(peek)
	if err != nil || resp.Header.Get(httpcache.CacheStatusHeader) != "HIT" && resp.StatusCode != http.StatusGatewayTimeout {
		return resp, err // a copy that must not be shown unasked was asked about
	}
	age, _ := strconv.Atoi(resp.Header.Get("Age"))
	past := time.Duration(age)*time.Second - lifetime(resp.Header)
	switch {
	case resp.StatusCode == http.StatusGatewayTimeout: // there is no copy
	case past < 0:
		return resp, nil
	case past < seconds(resp.Header.Get(window)):
		resp.Header.Set(httpcache.CacheStatusHeader, "STALE")
		s.revalidate(req)
		return resp, nil
	}
	resp.Body.Close()
	return s.cache.RoundTrip(req)
}

// revalidate asks for req's URL in the background, unless that is under way already. It waits
// for its turn, however long that takes; the caller has the old copy by then.
func (s *staleWhileRevalidate) revalidate(req *http.Request) {
	key := req.URL.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.busy[key]; ok {
		return
	}
	s.busy[key] = struct{}{}
	go func() {
		// The caller may be gone long before.
		if resp, err := s.cache.RoundTrip(req.Clone(context.WithoutCancel(req.Context()))); err == nil {
			resp.Body.Close()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, key)
	}()
}

// window holds for how many seconds an old copy may be shown. It takes the place of the directive,
// which the cache would follow itself.
const window = "X-Stale-While-Revalidate"

// policy tells the cache how long pages hold: as Cache-Control or Expires say, else
// for 15 minutes.
type policy struct{ next http.RoundTripper }

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
	// A 304 that says nothing leaves what the page said.
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNotModified && h.Get("Cache-Control")+h.Get("Expires") != "" {
		complete(h)
	}
	return resp, nil
}

// complete says by Cache-Control what the response left open.
func complete(h http.Header) {
	var keep []string
	show, silent := stale, h.Get("Expires") == ""
	for _, d := range directives(h) {
		switch name, value, _ := strings.Cut(d, "="); strings.ToLower(name) {
		case "stale-while-revalidate":
			show = seconds(value)
			continue
		case "no-store", "no-cache":
			show, silent = 0, false
		case "must-revalidate":
			show = 0
		case "max-age":
			silent = false
		}
		keep = append(keep, d)
	}
	if silent {
		keep = append(keep, "max-age="+strconv.Itoa(int(fresh.Seconds())))
	}
	if len(keep) > 0 {
		h.Set("Cache-Control", strings.Join(keep, ", "))
	}
	h.Set(window, strconv.Itoa(int(show.Seconds())))
}

// lifetime is how long a response is fresh (RFC 9111, section 4.2.1).
func lifetime(h http.Header) time.Duration {
	for _, d := range directives(h) {
		if name, value, _ := strings.Cut(d, "="); strings.EqualFold(name, "max-age") {
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

// directives returns what Cache-Control says, one by one.
func directives(h http.Header) []string {
	var all []string
	for _, line := range h.Values("Cache-Control") {
		for d := range strings.SplitSeq(line, ",") {
			if d = strings.TrimSpace(d); d != "" {
				all = append(all, d)
			}
		}
	}
	return all
}

// seconds reads a number of seconds: 0 where it can't be read, a year at most.
func seconds(s string) time.Duration {
	n, err := strconv.ParseInt(strings.Trim(s, `"`), 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(min(max(n, 0), 365*24*3600)) * time.Second
}
