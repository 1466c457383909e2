package promises_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

var errShutdown = errors.New("the process is shut down")

// Whoever leaves gets the very error that net/http would return, wherever the request was: others
// compare it by ==. No *Error is around it, and the record says at which stage that was.
func TestWhoeverLeavesGetsTheCauseItself(t *testing.T) {
	for _, test := range []struct {
		name   string
		site   func(b *bubble)
		within string // Reason of the record
	}{
		{"while robots.txt is fetched", func(b *bubble) {
			b.site.Handle("/robots.txt", politenesstest.Slow(time.Minute, politenesstest.Text("")))
		}, "robots"},
		{"in its turn", func(b *bubble) {
			b.site.Robots("User-agent: *\nCrawl-delay: 60\n")
			b.mustGet("https://example.com/", 200)
		}, "turn"},
		{"between two tries", func(b *bubble) { b.site.Handle("/", politenesstest.Status(503)) }, "turn"},
		{"while the answer is waited for", func(b *bubble) {
			b.mustGet("https://example.com/", 200)
			b.site.Handle("/", politenesstest.Slow(time.Minute, politenesstest.Text("page")))
		}, ""},
	} {
		for by, leave := range map[string]func(*http.Request) (*http.Request, error){
			"a context with a cause": func(r *http.Request) (*http.Request, error) {
				ctx, cancel := context.WithCancelCause(r.Context())
				time.AfterFunc(10*time.Second, func() { cancel(errShutdown) })
				return r.WithContext(ctx), errShutdown
			},
			"a context": func(r *http.Request) (*http.Request, error) {
				ctx, cancel := context.WithCancel(r.Context())
				time.AfterFunc(10*time.Second, cancel)
				return r.WithContext(ctx), context.Canceled
			},
			"Request.Cancel": func(r *http.Request) (*http.Request, error) {
				gone := make(chan struct{})
				time.AfterFunc(10*time.Second, func() { close(gone) })
				r.Cancel = gone //nolint:staticcheck // old callers do
				return r, context.Canceled
			},
		} {
			t.Run(test.name+" by "+by, func(t *testing.T) {
				if test.within == "" && by == "Request.Cancel" {
					t.Log("what Base makes of it is Base's")
					return
				}
				virtually(t, politeness.Config{Retry: politeness.Retry{Max: 9}}, func(b *bubble) {
					b.site.Page("/", "page")
					test.site(b)
					req, want := leave(httptest.NewRequest(http.MethodGet, "https://example.com/", nil).WithContext(b.Context()))
					begin := time.Now()
					_, err := b.t.RoundTrip(req)
					if err != want { //nolint:errorlint // identity is the promise
						b.Errorf("%T %v, want %v itself", err, err, want)
					}
					if took := time.Since(begin); took != 10*time.Second {
						b.Errorf("after %v", took)
					}
					ended := b.log.Decisions(evidence.Failed)
					if !slices.ContainsFunc(ended, func(d evidence.Decision) bool { return strings.Contains(d.Reason, test.within) }) {
						b.Errorf("on record: %+v, want the stage %q", ended, test.within)
					}
					// A second request that has left before it is made gets it at once.
					if _, err = b.t.RoundTrip(req); err != want { //nolint:errorlint // identity is the promise
						b.Errorf("who had left: %T %v, want %v itself", err, err, want)
					}
				})
			})
		}
	}
}

// After a switch of protocols the body is the connection: libraries of WebSockets ask it for what
// they need by type.
func TestSwitchedBodyStaysAConnection(t *testing.T) {
	for name, test := range map[string]struct {
		body          func(net.Conn) io.ReadCloser
		conn, halfway bool
	}{
		"a ReadWriteCloser": {func(c net.Conn) io.ReadCloser { return struct{ io.ReadWriteCloser }{c} }, false, false},
		"one that closes its writing": {func(c net.Conn) io.ReadCloser {
			return struct {
				io.ReadWriteCloser
				halfCloser
			}{c, halfCloser{}}
		}, false, true},
		"a net.Conn": {func(c net.Conn) io.ReadCloser { return c }, true, false},
		"a net.Conn that closes its writing": {func(c net.Conn) io.ReadCloser {
			return struct {
				net.Conn
				halfCloser
			}{c, halfCloser{}}
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			hosts, err := memory.New(hostlimit.Config{})
			if err != nil {
				t.Fatal(err)
			}
			polite, err := politeness.New(politeness.Config{
				UserAgent: agent, DangerouslyIgnoreRobots: true, Limiter: hosts, Upgrades: -1,
				Base: roundTripFunc(func(r *http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: http.StatusSwitchingProtocols, Header: http.Header{}, Body: test.body(ours), Request: r}, nil
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			req := httptest.NewRequest(http.MethodGet, "https://example.com/", nil)
			req.Header.Set("Upgrade", "websocket")
			resp, err := polite.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := resp.Body.(io.ReadWriteCloser); !ok {
				t.Errorf("%T doesn't write", resp.Body)
			}
			conn, ok := resp.Body.(net.Conn)
			if ok != test.conn {
				t.Errorf("%T: a net.Conn: %t, want %t", resp.Body, ok, test.conn)
			}
			if ok && (conn.RemoteAddr() != ours.RemoteAddr() || conn.SetDeadline(time.Time{}) != nil) {
				t.Error("it isn't Base's")
			}
			if _, ok := resp.Body.(interface{ CloseWrite() error }); ok != test.halfway {
				t.Errorf("%T: closes its writing: %t, want %t", resp.Body, ok, test.halfway)
			}
			inFlight := func() int { return polite.Status(t.Context()).Hosts[0].InFlight }
			if ok {
				_ = conn.SetReadDeadline(time.Now())
				if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("after the deadline: %v", err)
				}
				_ = conn.SetReadDeadline(time.Time{})
				go func() { _, _ = io.WriteString(theirs, "pong") }()
				got := make([]byte, 4)
				if _, err := io.ReadFull(conn, got); string(got) != "pong" {
					t.Errorf("after the deadline was lifted: %q, %v", got, err)
				}
			}
			if n := inFlight(); n != 1 {
				t.Errorf("%d slots while it is open", n)
			}
			resp.Body.Close()
			if n := inFlight(); n != 0 {
				t.Errorf("%d slots after Close", n)
			}
		})
	}
}

type halfCloser struct{}

func (halfCloser) CloseWrite() error { return nil }

// TestASilentRobotsTxtIsTheHostsDoing: Config.Robots.Timeout ends its fetch, whose caller still
// waits. It pauses the host as any request without an answer does.
func TestASilentRobotsTxtIsTheHostsDoing(t *testing.T) {
	virtually(t, politeness.Config{Robots: robotscache.Config{Timeout: 30 * time.Second, OnUnreachable: robotscache.Allow}}, func(b *bubble) {
		b.site.Handle("/robots.txt", slow(time.Hour)).Page("/", "page")
		b.mustGet("https://example.com/", 200)
		if d := b.one(evidence.Failed); d.Left || !d.RobotsTxt {
			b.Errorf("no caller has left: %+v", d)
		}
		if d := b.log.Decisions(evidence.HostBlocked); len(d) != 1 || !d[0].RobotsTxt {
			b.Errorf("%+v", d)
		}
		ctx, leave := context.WithTimeout(b.Context(), time.Second)
		defer leave()
		b.web.Site("https://other.example").Handle("/robots.txt", slow(time.Hour))
		_, _ = fetch(ctx, b.client, "https://other.example/")
		time.Sleep(time.Second) // the fetch has a goroutine of its own
		leftIt := func(d evidence.Decision) bool { return d.Host == "other.example" && d.RobotsTxt && d.Left }
		if failed := b.log.Decisions(evidence.Failed); !slices.ContainsFunc(failed, leftIt) {
			b.Errorf("the only caller has left: %+v", failed)
		}
		time.Sleep(2 * time.Hour) // until the handlers are done
	})
}

// A registrar counts the contexts that are made from it and haven't ended.
type registrar struct {
	context.Context
	done chan struct{}
	made atomic.Int64
}

func (r *registrar) Done() <-chan struct{} { return r.done }

func (r *registrar) AfterFunc(func()) func() bool {
	r.made.Add(1)
	return func() bool { r.made.Add(-1); return true }
}

// TestARefusedRequestLeavesNothingWithItsCallersContext, whatever asks for Done on the way.
func TestARefusedRequestLeavesNothingWithItsCallersContext(t *testing.T) {
	for name, cfg := range map[string]politeness.Config{
		"rule":   {Refuse: func(req *http.Request) error { _ = req.Context().Done(); return errors.New("no") }},
		"robots": {Refuse: func(req *http.Request) error { _ = req.Context().Done(); return nil }},
		"sent":   {Refuse: func(req *http.Request) error { _ = req.Context().Done(); return nil }, DangerouslyIgnoreRobots: true},
	} {
		virtually(t, cfg, func(b *bubble) {
			b.site.Robots("User-agent: *\nDisallow: /\n").Page("/", "page")
			ctx := &registrar{Context: context.Background(), done: make(chan struct{})}
			_, err := fetch(ctx, &http.Client{Transport: b.t}, "https://example.com/")
			if n := ctx.made.Load(); n != 0 || (err == nil) != (name == "sent") {
				b.Errorf("%s: %d contexts; %v", name, n, err)
			}
		})
	}
}
