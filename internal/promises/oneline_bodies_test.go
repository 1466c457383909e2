package promises_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// A program that was written without politeness forgets a body on some path. A slot ends with what
// it is for: with the request's context, with a short body that has been read ahead, and with a body
// that was dropped. LeaseTTL is the last resort.

// endless is a page of unknown length that is sent until the request ends.
var endless = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		_, _ = io.WriteString(w, "more ")
		w.(http.Flusher).Flush()
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
		}
	}
})

// ofLength is h with a Content-Length.
func ofLength(n string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", n)
		h.ServeHTTP(w, r)
	})
}

// open asks for a page and leaves its body open.
func open(ctx context.Context, t *testing.T, client *http.Client, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func TestASlotEndsWithTheRequestsContext(t *testing.T) {
	cause := errors.New("left")
	for name, bound := range map[string]func(ctx context.Context, c *http.Client) (context.Context, context.CancelFunc){
		"a deadline": func(ctx context.Context, _ *http.Client) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 30*time.Second)
		},
		"a cancel": func(ctx context.Context, _ *http.Client) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(30*time.Second, func() { cancel(cause) })
			return ctx, func() { cancel(nil) }
		},
		"http.Client.Timeout": func(ctx context.Context, c *http.Client) (context.Context, context.CancelFunc) {
			c.Timeout = 30 * time.Second
			return ctx, func() {}
		},
	} {
		for _, early := range []bool{false, true} { // whether a request waits when the context ends
			virtually(t, politeness.Config{Hosts: hostlimit.Config{Concurrency: 1, SlotTimeout: time.Hour}}, func(b *bubble) {
				b.site.Handle("/endless", endless).Page("/", "page")
				b.know()
				ctx, cancel := bound(b.Context(), b.client)
				defer cancel()
				began := time.Now()
				held := open(ctx, b.T, b.client, "https://example.com/endless")
				b.client.Timeout = 0
				if !early {
					time.Sleep(time.Minute)
				}
				asked := time.Now()
				b.mustGet("https://example.com/", 200)
				want := time.Duration(0)
				if early {
					want = 30*time.Second - asked.Sub(began)
				}
				if took := time.Since(asked); took < want || took > want+2*time.Second {
					b.Errorf("%s: the next page came after %v, want %v", name, took, want)
				}
				// The site has seen the end before the next request.
				b.web.Check(b, politenesstest.Rules{Concurrency: 1})
				if _, err := io.ReadAll(held.Body); err == nil {
					b.Errorf("%s: the body of a request that has ended is read", name)
				}
				held.Body.Close()
				if d := b.log.Decisions(evidence.LeaseExpired); len(d) > 0 {
					b.Errorf("%s: %+v", name, d)
				}
			})
		}
	}
}

// collect collects what was dropped, and waits for the cleanups.
func collect() {
	for range 3 {
		runtime.GC()
		done := make(chan struct{})
		runtime.AddCleanup(new(*int), func(done chan struct{}) { close(done) }, done)
		runtime.GC()
		select {
		case <-done:
		case <-time.After(10 * time.Second): // real time: it is called outside of bubbles
		}
	}
}

// TestADroppedBodyGivesItsSlotBack at the next collection.
func TestADroppedBodyGivesItsSlotBack(t *testing.T) {
	for name, page := range map[string]http.Handler{"of unknown length": endless, "of known length": politenesstest.Text("page"), "large": politenesstest.Text(strings.Repeat("x", 1<<20))} {
		var b *bubble
		collected := make(chan struct{})
		dropped := make(chan struct{})
		go func() {
			<-dropped
			collect()
			close(collected)
		}()
		synctest.Test(t, func(t *testing.T) {
			b = newBubble(t, politeness.Config{Hosts: hostlimit.Config{SlotTimeout: time.Hour}})
			b.site.Handle("/dropped", page).Page("/", "page")
			b.know()
			for range 2 {
				drop(b)
			}
			close(dropped)
			<-collected // not by virtual time
			asked := time.Now()
			b.mustGet("https://example.com/", 200)
			if took := time.Since(asked); took > 2*time.Second {
				t.Errorf("%s: the next page came after %v", name, took)
			}
			b.web.Check(b, politenesstest.Rules{Concurrency: 2})
			for _, d := range b.log.Decisions(evidence.Fetched) {
				if strings.HasSuffix(d.URL, "/dropped") && !strings.Contains(d.Err, "dropped") {
					t.Errorf("%s: on record %+v", name, d)
				}
			}
			if d := b.log.Decisions(evidence.LeaseExpired); len(d) > 0 {
				t.Errorf("%s: %+v", name, d)
			}
			time.Sleep(time.Hour)
		})
	}
}

// drop asks for a page, and forgets its body.
//
//go:noinline
func drop(b *bubble) { open(b.Context(), b.T, b.client, "https://example.com/dropped") }

// TestAShortBodyIsReadAheadForAWaiter whatever its Base, and the caller reads it all the same.
func TestAShortBodyIsReadAheadForAWaiter(t *testing.T) {
	virtually(t, politeness.Config{Hosts: hostlimit.Config{Concurrency: 1, SlotTimeout: time.Hour}}, func(b *bubble) {
		b.site.Handle("/", politenesstest.Slow(time.Second, politenesstest.Text(strings.Repeat("page ", 3000))))
		b.know()
		began := time.Now()
		var pages sync.WaitGroup
		all := make(chan *http.Response, 5)
		for range 5 {
			pages.Go(func() { all <- open(b.Context(), b.T, b.client, "https://example.com/") })
		}
		pages.Wait()
		if took := time.Since(began); took > 10*time.Second {
			b.Errorf("five pages that nobody closes came after %v", took)
		}
		for range 5 {
			resp := <-all
			text, err := io.ReadAll(resp.Body)
			if err != nil || string(text) != strings.Repeat("page ", 3000) {
				b.Errorf("%d bytes, %v", len(text), err)
			}
			if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				b.Errorf("after the end: %d, %v", n, err)
			}
			resp.Body.Close()
		}
		b.web.Check(b, politenesstest.Rules{Concurrency: 1})
	})
}

// TestASlotIsFreeWhenTheSiteHasNoticed that the body's exchange was closed: a second later.
func TestASlotIsFreeWhenTheSiteHasNoticed(t *testing.T) {
	virtually(t, politeness.Config{
		Hosts: hostlimit.Config{
			Concurrency: 1, SlotTimeout: time.Hour, Delay: hostlimit.Delay{DangerouslyNone: true},
		},
	}, func(b *bubble) {
		b.site.Handle("/stalls", ofLength("50", politenesstest.Drip("12345", 10, time.Minute))).Page("/", "page")
		b.know()
		b.client.Timeout = 10 * time.Second // from the start of each
		b.site.Latency(time.Second)
		var second sync.WaitGroup
		time.AfterFunc(time.Second/2, func() {
			second.Go(func() { b.mustGet("https://example.com/", 200) })
		})
		open(b.Context(), b.T, b.client, "https://example.com/stalls")
		second.Wait()
		starts := b.log.Decisions(evidence.Started)
		if gap := starts[len(starts)-1].Time.Sub(starts[len(starts)-2].Time); gap != 11*time.Second {
			b.Errorf("the next request starts %v after one that ends after 10s", gap)
		}
	})
}

// TestABodyThatIsReadAheadKeepsItsLimits: what would have refused the caller's read does.
func TestABodyThatIsReadAheadKeepsItsLimits(t *testing.T) {
	virtually(t, politeness.Config{
		Hosts: hostlimit.Config{Concurrency: 1, SlotTimeout: time.Hour}, DangerouslyIgnoreRobots: true,
		Spend: budget.Limits{Bytes: 1200},
	}, func(b *bubble) {
		b.site.Handle("/", ofLength("5000", politenesstest.Drip(strings.Repeat("page ", 100), 10, time.Second))).Page("/small", "page")
		time.AfterFunc(time.Second/2, func() { _, _ = b.get("https://example.com/small") })
		b.site.Latency(time.Second)
		resp := open(b.Context(), b.T, b.client, "https://example.com/")
		time.Sleep(time.Minute)
		text, err := io.ReadAll(resp.Body)
		if len(text) != 1200 || !errors.Is(err, politeness.ErrBudget) {
			b.Errorf("%d bytes, %v", len(text), err)
		}
		if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, politeness.ErrBudget) {
			b.Errorf("once more: %v", err)
		}
		resp.Body.Close()
		if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
			b.Error("it is read after Close")
		}
	})
}

// serveMany is a real server with pages of several kinds, and counts what it has in flight.
func serveMany(c *counting) http.Handler {
	return c.count(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := strings.TrimRight(r.URL.Path, "0123456789"); path {
		case "/short":
			_, _ = io.WriteString(w, "short")
		case "/missing":
			http.NotFound(w, r)
		case "/busy":
			if c.served.Load() < 4 { // robots.txt and two tries
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, "try again")
			}
		case "/stalls":
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "s")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/endless":
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, strings.Repeat("more ", 1000))
				w.(http.Flusher).Flush()
				select {
				case <-time.After(10 * time.Millisecond):
				case <-r.Context().Done():
				}
			}
		}
	}))
}

// TestForgottenBodiesHoldNoHost of a real server, which decides how many requests it has in flight.
func TestForgottenBodiesHoldNoHost(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		for _, path := range []string{"/short", "/missing", "/endless", "/stalls"} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %t", path, http2), func(t *testing.T) {
				t.Parallel()
				var count counting
				server, base := startServer(t, serveMany(&count), http2)
				client := &http.Client{Transport: mustNew(t, politeness.Config{
					UserAgent: agent, Base: base,
					Hosts: hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}, SlotTimeout: time.Hour},
				})}
				if path == "/stalls" {
					client.Timeout = time.Second // the site's own time
				}
				began := time.Now()
				for i := range 8 {
					forget(t, client, fmt.Sprintf("%s%s%d", server.URL, path, i))
					if path == "/endless" {
						go collect()
					}
				}
				if took := time.Since(began); took > 100*time.Second {
					t.Errorf("8 pages came after %v", took)
				}
				if n := count.most.Load(); n > 2 {
					t.Errorf("%d in flight, want 2", n)
				}
			})
		}
	}
}

// TestARetryLoopThatClosesNoBodyHasItsPage, as libraries do that try again after a 5xx.
func TestARetryLoopThatClosesNoBodyHasItsPage(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		var count counting
		server, base := startServer(t, serveMany(&count), http2)
		client := &http.Client{Transport: mustNew(t, politeness.Config{UserAgent: agent, Base: base})}
		began := time.Now()
		status := 0
		for range 3 {
			status = open(t.Context(), t, client, server.URL+"/busy").StatusCode
		}
		if took := time.Since(began); status != 200 || took > time.Minute {
			t.Errorf("HTTP/2 %t: status %d after %v", http2, status, took)
		}
	}
}

//go:noinline
func forget(t *testing.T, client *http.Client, url string) { open(t.Context(), t, client, url) }

// TestASiteThatStallsInItsBodyStallsNoRoundTrip, though a request waits for its slot.
func TestASiteThatStallsInItsBodyStallsNoRoundTrip(t *testing.T) {
	virtually(t, politeness.Config{Hosts: hostlimit.Config{Concurrency: 1, SlotTimeout: time.Hour}}, func(b *bubble) {
		b.site.Handle("/stalls", ofLength("50", politenesstest.Drip("12345", 10, time.Minute))).Page("/", "page")
		b.know()
		var second sync.WaitGroup
		second.Go(func() {
			time.Sleep(time.Millisecond)
			b.mustGet("https://example.com/", 200)
		})
		began := time.Now()
		resp := open(b.Context(), b.T, b.client, "https://example.com/stalls")
		if took := time.Since(began); took > time.Second {
			b.Errorf("the headers came after %v", took)
		}
		text, err := io.ReadAll(resp.Body)
		if len(text) != 50 || err != nil {
			b.Errorf("%q, %v", text, err)
		}
		resp.Body.Close()
		second.Wait()
		b.web.Check(b, politenesstest.Rules{Concurrency: 1})
	})
}
