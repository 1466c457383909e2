package crawl_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
)

// TestABarredOriginHoldsUpNoOther: a site is had at once although each second link of its pages leads
// to an origin that can't be reached. The links to that origin are given up as they are where all of a
// host can't be reached.
func TestABarredOriginHoldsUpNoOther(t *testing.T) {
	const pages = 100
	noTLS := tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}
	for name, tt := range map[string]struct {
		lives, barred string
		err           error // nil: robots.txt has status 503
		bySite        bool
		start         []string
	}{
		"no TLS":               {lives: "http://example.com", barred: "https://example.com", err: noTLS},
		"no server of TLS":     {lives: "http://example.com", barred: "https://example.com", err: errRefusedConnection},
		"no server of http":    {lives: "https://example.com", barred: "http://example.com", err: errRefusedConnection},
		"another error":        {lives: "https://example.com", barred: "http://example.com", err: errors.New("reset")},
		"status 503":           {lives: "https://example.com", barred: "http://example.com"},
		"a name of the site":   {lives: "https://www.example.com", barred: "https://old.example.com", err: errRefusedConnection, bySite: true},
		"a name with no TLS":   {lives: "https://www.example.com", barred: "https://old.example.com", err: noTLS, bySite: true},
		"the barred one first": {lives: "http://example.com", barred: "https://example.com", err: noTLS, start: []string{"https://example.com/"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.crawl.Follow = crawl.Everywhere
				if tt.bySite {
					r.politeness.HostKey = politeness.BySite
				}
				var asked atomic.Int64
				r.politeness.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
					if req.URL.Scheme+"://"+req.URL.Host == tt.barred {
						asked.Add(1)
						if tt.err != nil {
							return nil, tt.err
						}
					}
					return r.Web.RoundTrip(req)
				})
				r.Site(tt.barred).RobotsStatus(http.StatusServiceUnavailable)
				r.Site(tt.lives).Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					var b strings.Builder
					if req.URL.Path == "/" {
						for i := range pages {
							fmt.Fprintf(&b, "<a href=%s/p/%d>x</a><a href=%s/p/%d>x</a>", tt.barred, i, tt.lives, i)
						}
					}
					ownPage(b.String())(w, req)
				}))
				began := time.Now()
				var last time.Duration
				r.crawl.Done = func(r crawl.Result) {
					if r.Outcome == crawl.Visited {
						last = time.Since(began)
					}
				}
				s := r.run(t.Context(), t, append(tt.start, tt.lives+"/")...)
				gone := pages + len(tt.start)
				wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: pages + 1, crawl.Unreachable: gone})
				if last > time.Minute {
					t.Errorf("the last page was visited after %v", last)
				}
				if s.Elapsed > time.Hour || asked.Load() > 40 {
					t.Errorf("the crawl took %v, and asked the barred origin %d times", s.Elapsed, asked.Load())
				}
				t.Logf("the last page after %v, the end after %v; %d requests to the barred origin", last, s.Elapsed, asked.Load())
			})
		})
	}
}

// TestABarredOriginComesBack: the URLs of an origin whose robots.txt can't be fetched for a while are
// fetched later.
func TestABarredOriginComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.crawl.Follow = crawl.Everywhere
		began := time.Now()
		r.politeness.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Scheme == "https" && time.Since(began) < 7*time.Minute {
				return nil, errors.New("reset")
			}
			return r.Web.RoundTrip(req)
		})
		var b strings.Builder
		const pages = 40
		for i := range pages {
			fmt.Fprintf(&b, "<a href=https://example.com/p/%d>x</a><a href=/p/%d>x</a>", i, i)
		}
		r.Site("https://example.com").Handle("/", ownPage(""))
		r.Site("http://example.com").Handle("/", ownPage(b.String()))
		s := r.run(t.Context(), t, "http://example.com/")
		if s.Visited() != 2*pages+1 || s.Elapsed > 20*time.Minute {
			t.Errorf("%v", s)
		}
	})
}

// TestManyBarredOrigins: a site has names without end that can't be reached. Its own pages are had all
// the same, as many as are wanted, and the crawl ends.
func TestManyBarredOrigins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			names = 600
			pages = 60
			most  = 50
		)
		r := newRig()
		r.crawl.Follow = crawl.Everywhere
		r.crawl.MaxPagesPerHost = most
		r.politeness.HostKey = politeness.BySite
		r.politeness.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host != "www.example.com" {
				return nil, errors.New("reset")
			}
			return r.Web.RoundTrip(req)
		})
		var b strings.Builder
		for i := range names {
			fmt.Fprintf(&b, "<a href=https://n%d.example.com/>x</a>", i)
			if i < pages {
				fmt.Fprintf(&b, "<a href=/p/%s>x</a>", letter(fmt.Sprint(i)))
			}
		}
		r.Site("https://www.example.com").Handle("/", ownPage(b.String()))
		began := time.Now()
		var last time.Duration
		r.crawl.Done = func(r crawl.Result) {
			if r.Outcome == crawl.Visited {
				last = time.Since(began)
			}
		}
		s := r.run(t.Context(), t, "https://www.example.com/")
		if s.Visited() != most || last > 10*time.Minute {
			t.Errorf("the last page came after %v: %v", last, s)
		}
		t.Logf("the last page came after %v: %v", last, s)
	})
}

// TestABarredOriginIsAskedNoMoreWhileItsHostIsBlocked: a page of the living origin waits for the end of
// a block, and is the last one. Meanwhile the crawl asks nothing.
func TestABarredOriginIsAskedNoMoreWhileItsHostIsBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.crawl.Follow = crawl.Everywhere
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const most = 100
		checks := 0 // of requests that may start, by the user's own rule
		r.politeness.Refuse = func(*http.Request) error {
			checks++
			if checks == most {
				t.Errorf("a request was checked %d times", most)
				cancel()
			}
			return nil
		}
		r.politeness.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Scheme == "https" {
				return nil, errRefusedConnection
			}
			return r.Web.RoundTrip(req)
		})
		isRefused := true
		r.Site("http://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/last" && isRefused {
				isRefused = false
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			ownPage("<a href=https://example.com/x>x</a><a href=/last>x</a>")(w, req)
		}))
		s := r.run(ctx, t, "http://example.com/")
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 2, crawl.Unreachable: 1, crawl.Duplicate: 2})
	})
}

// TestSleepersOfOneHostStarveNoOther: a host has thousands of links to an origin that can't be
// reached. All these requests sleep. Another host with such links is had at once all the same.
func TestSleepersOfOneHostStarveNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			lists = 4
			each  = 3000 // links to the barred origin
			pages = 100
			slow  = 20 * time.Second // by then the requests of the first host sleep
		)
		r := newRig()
		r.crawl.Follow = crawl.SameHost
		r.politeness.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Scheme == "https" {
				return nil, errors.New("reset")
			}
			return r.Web.RoundTrip(req)
		})
		began := time.Now()
		var last time.Duration // of the other host
		r.crawl.Done = func(r crawl.Result) {
			if r.Outcome == crawl.Visited && r.Host == "b.example" {
				last = time.Since(began)
			}
		}
		r.Site("http://a.example").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			var b strings.Builder
			if req.URL.Path == "/" {
				for i := range lists {
					fmt.Fprintf(&b, "<a href=/list/%d>x</a>", i)
				}
			}
			for i := range each {
				if !strings.HasPrefix(req.URL.Path, "/list/") {
					break
				}
				fmt.Fprintf(&b, "<a href=https://a.example%s/%d>x</a>", req.URL.Path, i)
			}
			ownPage(b.String())(w, req)
		}))
		r.Site("http://b.example").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			var b strings.Builder
			if req.URL.Path == "/" {
				time.Sleep(slow)
				for i := range pages {
					fmt.Fprintf(&b, "<a href=https://b.example/p/%d>x</a><a href=/p/%d>x</a>", i, i)
				}
			}
			ownPage(b.String())(w, req)
		}))
		s := r.run(t.Context(), t, "http://a.example/", "http://b.example/")
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 2 + lists + pages, crawl.Unreachable: lists*each + pages})
		if last > 3*time.Minute { // alone it takes two: its first page is slow
			t.Errorf("the last page of the other host came after %v", last)
		}
		t.Logf("the last page of the other host came after %v", last)
	})
}
