package promises_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// A program that was written without politeness has a Timeout on its http.Client that is meant for
// an exchange. None of its pages is lost to the queue.

// getAll fetches n pages at once and returns the errors.
func (b *bubble) getAll(n int) []error {
	errs := make([]error, n)
	var pages sync.WaitGroup
	for i := range n {
		pages.Go(func() { _, errs[i] = b.get(fmt.Sprintf("https://example.com/%d", i)) })
	}
	pages.Wait()
	return errs
}

func TestClientTimeoutCountsFromTheStart(t *testing.T) {
	// After a slow dial a request waits for its start once more, with its connection at hand.
	for dial, answer := range map[time.Duration]time.Duration{0: 900 * time.Millisecond, 450 * time.Millisecond: 500 * time.Millisecond} {
		virtually(t, politeness.Config{Hosts: hostlimit.Config{Concurrency: 4, SlotTimeout: time.Hour}}, func(b *bubble) {
			b.site.Robots("User-agent: *\nCrawl-delay: 1\n").Dial(dial)
			b.site.Handle("/", politenesstest.Slow(answer, politenesstest.Text("page")))
			b.client.Timeout = time.Second
			if err := errors.Join(b.getAll(20)...); err != nil {
				b.Errorf("dial %v: %v", dial, err)
			}
			b.web.Check(b, politenesstest.Rules{Delay: time.Second, Concurrency: 4})
		})
	}
}

// TestClientTimeoutCutsWhatHangs its length after the start, wherever that hangs.
func TestClientTimeoutCutsWhatHangs(t *testing.T) {
	stalls := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "the beginning")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	for name, handler := range map[string]http.Handler{"headers": slow(time.Hour), "the body": stalls} {
		for _, hop := range []bool{false, true} {
			for _, tries := range []int{0, 2} {
				virtually(t, politeness.Config{Retry: politeness.Retry{Max: tries}}, func(b *bubble) {
					b.site.Robots("User-agent: *\nCrawl-delay: 7\n").Page("/page", "page")
					b.site.Handle("/hangs", handler).Handle("/hop", http.RedirectHandler("/hangs", http.StatusFound))
					b.mustGet("https://example.com/page", 200)
					b.client.Timeout = 2 * time.Second
					url, start := "https://example.com/hangs", 7*time.Second
					if hop {
						url, start = "https://example.com/hop", 14*time.Second
					}
					began := time.Now()
					_, err := b.get(url)
					var timeout net.Error
					if took := time.Since(began); !errors.As(err, &timeout) || !timeout.Timeout() || took != start+2*time.Second {
						b.Errorf("%s, by a redirect: %t: %v after %v, want %v", name, hop, err, took, start+2*time.Second)
					}
					time.Sleep(2 * time.Hour)
					for _, st := range b.t.Status(b.Context()).Hosts {
						if st.InFlight != 0 {
							b.Errorf("%s: a slot is held: %+v", name, st)
						}
					}
				})
			}
		}
	}
}

// TestEachRedirectHasTheLengthOfTheTimeout, though it starts after the deadline.
func TestEachRedirectHasTheLengthOfTheTimeout(t *testing.T) {
	for name, cfg := range map[string]politeness.Config{"": {}, "without evidence": {}} {
		virtually(t, cfg, func(b *bubble) {
			if name != "" {
				b.t = mustNew(b.T, politeness.Config{UserAgent: agent, Base: b.web})
				b.client.Transport = b.t
			}
			b.site.Robots("User-agent: *\nCrawl-delay: 5\n").Handle("/end", politenesstest.Slow(900*time.Millisecond, politenesstest.Text("page")))
			for i, next := range []string{"/1", "/2", "/3", "/end"} {
				b.site.Handle(fmt.Sprintf("/%d", i), http.RedirectHandler(next, http.StatusFound))
			}
			b.client.Timeout = time.Second
			b.mustGet("https://example.com/0", 200)
		})
	}
}

// TestTheCallerStillEndsAWaitAtOnce, before Client.Timeout and after it, and a deadline of its context.
func TestTheCallerStillEndsAWaitAtOnce(t *testing.T) {
	for _, within := range []time.Duration{time.Second, time.Minute} {
		virtually(t, politeness.Config{}, func(b *bubble) {
			b.site.Robots("User-agent: *\nCrawl-delay: 600\n").Page("/", "page")
			b.mustGet("https://example.com/", 200)
			b.client.Timeout = 10 * time.Second
			for name, bound := range map[string]func(ctx context.Context) (context.Context, context.CancelFunc){
				"cancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancel(ctx)
					time.AfterFunc(within, cancel)
					return ctx, cancel
				},
				"values above": func(ctx context.Context) (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancel(ctx)
					time.AfterFunc(within, cancel)
					return context.WithValue(ctx, (*bubble)(nil), b), cancel
				},
			} {
				ctx, cancel := bound(b.Context())
				began := time.Now()
				_, err := fetch(ctx, b.client, "https://example.com/")
				cancel()
				if took := time.Since(began); err == nil || took != within {
					b.Errorf("%s: %v after %v, want %v", name, err, took, within)
				}
			}
			// A deadline that is known to be too early ends a wait before that begins.
			ctx, cancel := context.WithTimeout(b.Context(), within)
			defer cancel()
			began := time.Now()
			_, err := fetch(ctx, b.client, "https://example.com/")
			if took := time.Since(began); err == nil || took > within+100*time.Millisecond {
				b.Errorf("a deadline: %v after %v, want %v", err, took, within)
			}
		})
	}
}

// TestWaitOfAClientWithATimeoutIsBoundedByMaxWait.
func TestWaitOfAClientWithATimeoutIsBoundedByMaxWait(t *testing.T) {
	virtually(t, politeness.Config{Hosts: hostlimit.Config{MaxWait: time.Minute, SlotTimeout: time.Hour, Concurrency: 1}}, func(b *bubble) {
		b.site.Page("/", "page").Handle("/long", politenesstest.Slow(time.Hour, politenesstest.Text("page")))
		b.know()
		ctx, leave := context.WithCancel(b.Context())
		go func() { _, _ = fetch(ctx, &http.Client{Transport: b.t}, "https://example.com/long") }()
		time.Sleep(time.Second)
		b.client.Timeout = time.Second
		began := time.Now()
		_, err := b.get("https://example.com/")
		if took := time.Since(began); err == nil || took != time.Minute || !strings.Contains(err.Error(), "MaxWait") {
			b.Errorf("%v after %v", err, took)
		}
		leave()
		time.Sleep(2 * time.Hour)
	})
}

// TestRequestCancelUnderATimeoutGivesNetHTTPsError while the body is read, as tests of net/http want.
func TestRequestCancelUnderATimeoutGivesNetHTTPsError(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		requestCancelUnderATimeout(t, http2)
	}
}

func requestCancelUnderATimeout(t *testing.T, http2 bool) {
	t.Helper()
	release := make(chan struct{})
	server, base := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page" {
			w.(http.Flusher).Flush()
			<-release
		}
	}), http2)
	defer close(release)
	var errs []error
	for _, rt := range []http.RoundTripper{base, mustNew(t, politeness.Config{UserAgent: agent, Base: base})} {
		canceled := make(chan struct{})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/page", nil)
		if err != nil {
			t.Fatal(err)
		}
		//lint:ignore SA1019 this is about what is deprecated
		req.Cancel = canceled //nolint:staticcheck // the same
		resp, err := (&http.Client{Transport: rt, Timeout: time.Hour}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		close(canceled)
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		errs = append(errs, err)
	}
	if errs[0] == nil || errs[0] != errs[1] { //nolint:errorlint // the very error
		t.Errorf("HTTP/2 %t: %v, want %v", http2, errs[1], errs[0])
	}
}

// TestFromCallIsNetHTTPs: with FromCall the wait uses Client.Timeout up.
func TestFromCallIsNetHTTPs(t *testing.T) {
	virtually(t, politeness.Config{Timeouts: politeness.FromCall}, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 1\n").Page("/", "page")
		b.know()
		b.client.Timeout = 2500 * time.Millisecond
		errs := slices.DeleteFunc(b.getAll(20), func(err error) bool { return err == nil })
		if len(errs) != 18 {
			b.Errorf("%d pages were refused, want all that start after 2.5 s: 18", len(errs))
		}
	})
	_, err := politeness.New(politeness.Config{UserAgent: agent, Timeouts: 7})
	if err == nil || !strings.Contains(err.Error(), "Config.Timeouts: ") {
		t.Error(err)
	}
}

// TestTheTimeoutSaysNothingAboutTheHost: an exchange that it ends is the caller's doing.
func TestTheTimeoutSaysNothingAboutTheHost(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Page("/", "page").Handle("/hangs", slow(time.Minute))
		b.know()
		b.client.Timeout = time.Second
		if _, err := b.get("https://example.com/hangs"); err == nil {
			b.Error("it came")
		}
		if d := b.one(evidence.Failed); !d.Left {
			b.Errorf("%+v", d)
		}
		if d := b.log.Decisions(evidence.HostBlocked); len(d) > 0 {
			b.Errorf("the host is blocked: %+v", d)
		}
		time.Sleep(time.Hour)
	})
}

// TestNoStartIsWastedShortlyBeforeADeadline: a start after which the host has less time for an answer
// than it usually takes isn't made, and is refused before the wait.
func TestNoStartIsWastedShortlyBeforeADeadline(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 10\n").Handle("/", politenesstest.Slow(3*time.Second, politenesstest.Text("page")))
		for range 20 { // robots.txt comes at once, and counts too
			b.mustGet("https://example.com/", 200)
		}
		for _, c := range []struct {
			bound time.Duration
			after time.Duration // that the last start is over
			sent  bool
		}{{9500 * time.Millisecond, 0, false}, {11 * time.Second, 0, true}, {2 * time.Second, time.Minute, true}} {
			b.mustGet("https://example.com/", 200)
			time.Sleep(c.after)
			ctx, cancel := context.WithTimeout(b.Context(), c.bound)
			asked, began := len(b.asked()), time.Now()
			_, err := fetch(ctx, b.client, "https://example.com/")
			cancel()
			if c.sent != (len(b.asked()) > asked) {
				b.Errorf("%v: sent: %t, %v", c.bound, !c.sent, err)
			}
			if !c.sent {
				e := refused(b.T, err, politeness.StageTurn, context.DeadlineExceeded)
				if took := time.Since(began); took != 0 || !e.Timeout() || !errors.Is(err, politeness.ErrBusy) {
					b.Errorf("%v after %v", err, took)
				}
			}
			time.Sleep(time.Minute)
		}
	})
}

// A counting server says by its own count how many requests it has in flight at most.
type counting struct {
	inFlight, most, served atomic.Int64
}

func (c *counting) count(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := c.inFlight.Add(1); n > c.most.Load() {
			c.most.Store(n)
		}
		defer c.inFlight.Add(-1)
		c.served.Add(1)
		h.ServeHTTP(w, r)
	})
}

// startServer starts a server over HTTP/1 or HTTP/2, and returns a Base for it.
func startServer(t *testing.T, h http.Handler, http2 bool) (*httptest.Server, *http.Transport) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = http2
	if http2 {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	base := server.Client().Transport.(*http.Transport)
	t.Cleanup(base.CloseIdleConnections)
	return server, base
}

// TestNoPageOfARealServerIsLostToTheTimeout: the queue is longer than Client.Timeout.
func TestNoPageOfARealServerIsLostToTheTimeout(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %t", http2), func(t *testing.T) {
			t.Parallel()
			var count counting
			server, base := startServer(t, count.count(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					return
				}
				_, _ = io.WriteString(w, strings.Repeat("page ", 10_000))
			})), http2)
			client := &http.Client{Timeout: 2 * time.Second, Transport: mustNew(t, politeness.Config{
				UserAgent: agent, Base: base,
				Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: 150 * time.Millisecond, Max: 150 * time.Millisecond}},
			})}
			var pages sync.WaitGroup
			for i := range 20 {
				pages.Go(func() {
					if status, err := fetch(t.Context(), client, fmt.Sprintf("%s/%d", server.URL, i)); err != nil || status != 200 {
						t.Errorf("page %d: %d, %v", i, status, err)
					}
				})
			}
			pages.Wait()
			if n := count.served.Load(); n != 21 || count.most.Load() > 2 {
				t.Errorf("%d requests, %d in flight at most; want 21 with robots.txt, 2", n, count.most.Load())
			}
		})
	}
}
