package promises_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// Apart from its refusals a Transport is invisible: a client sees what it would see
// of Base. Package lab/transparency holds net/http's own tests against that.

// What Base returns as an error is returned untouched, also where it is of a type that
// means something to us.
func TestErrorOfBaseIsReturnedAsItIs(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		for _, theirs := range []error{
			errors.New("broken"),
			&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
			cenkalti.Permanent(errors.New("a type of our own dependency")),
			&politeness.Error{Stage: politeness.StageTurn, Err: politeness.ErrBusy},
			context.DeadlineExceeded,
		} {
			for _, tries := range []int{0, 2} {
				tr := mustNew(b.T, politeness.Config{
					UserAgent: agent, DangerouslyIgnoreRobots: true, Retry: politeness.Retry{Max: tries}, Evidence: b.log,
					Base: answersAlways(func() (*http.Response, error) { return nil, theirs }),
				})
				_, err := tr.RoundTrip(httptest.NewRequest(http.MethodGet, "https://example.com/", nil))
				if err != theirs { //nolint:errorlint // the very value
					b.Errorf("%d tries: got %#v, want %#v", tries, err, theirs)
				}
			}
		}
	})
}

var (
	errNoHost = &net.DNSError{Err: "no such host", Name: "example.com", IsNotFound: true}
	errDial   = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	errTrust  = &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
)

// A robots.txt that can't be had is told from one that disallows, and its cause is
// found, also by those who come later and are denied by what is answersOldRedirects.
func TestRobotsThatCantBeHadKeepsItsCause(t *testing.T) {
	found := func(err error) map[string]bool {
		var (
			dns  *net.DNSError
			op   *net.OpError
			cert *tls.CertificateVerificationError
		)
		return map[string]bool{
			"dns":  errors.As(err, &dns) && dns == errNoHost,
			"dial": errors.As(err, &op) && op == errDial,
			"cert": errors.As(err, &cert) && cert.Error() == errTrust.Error(), // without the certificates
		}
	}
	for name, cause := range map[string]error{"dns": errNoHost, "dial": errDial, "cert": errTrust} {
		for _, stale := range []bool{false, true} {
			virtually(t, politeness.Config{}, func(b *bubble) {
				client := &http.Client{Transport: mustNew(b.T, politeness.Config{
					UserAgent: agent, Base: answersAlways(func() (*http.Response, error) { return nil, fmt.Errorf("by some wrapper: %w", cause) }),
					Robots: robotscache.Config{ServeStale: stale},
				})}
				for range 2 {
					_, err := fetch(b.Context(), client, "https://example.com/")
					e := refused(b.T, err, politeness.StageRobots, politeness.ErrUnreachable)
					// A dead host forbids nothing: a program that leaves out what is disallowed would
					// take it for that.
					isSilent := errors.Is(err, robotscache.ErrNoAnswer)
					if errors.Is(err, politeness.ErrDisallowed) || !isSilent || e.RetryAt.IsZero() {
						b.Errorf("%s: %v is no silence with RetryAt", name, err)
					}
					for kind, ok := range found(err) {
						if ok != (kind == name) {
							b.Errorf("%s: finds the cause %s: %t, in %v", name, kind, ok, err)
						}
					}
				}
			})
		}
	}
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.RobotsStatus(503)
		_, err := b.get("https://example.com/")
		refused(b.T, err, politeness.StageRobots, politeness.ErrUnreachable)
		isDenied := errors.Is(err, politeness.ErrDisallowed) && !errors.Is(err, robotscache.ErrNoAnswer)
		if !strings.Contains(err.Error(), "503") || !isDenied {
			b.Error(err)
		}
	})
	virtually(t, politeness.Config{}, func(b *bubble) {
		cut := &http.Client{Transport: mustNew(b.T, politeness.Config{
			UserAgent: agent,
			Base: answersAlways(func() (*http.Response, error) {
				body := io.NopCloser(io.MultiReader(strings.NewReader("User-agent"), readerThatFails{}))
				return &http.Response{StatusCode: 200, Body: body, Header: http.Header{}}, nil
			}),
		})}
		_, err := fetch(b.Context(), cut, "https://example.com/")
		refused(b.T, err, politeness.StageRobots, politeness.ErrUnreachable)
		if !errors.Is(err, politeness.ErrDisallowed) {
			b.Errorf("half a robots.txt: %v", err)
		}
	})
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /\n")
		if _, err := b.get("https://example.com/"); errors.Is(err, politeness.ErrUnreachable) {
			b.Errorf("a rule: %v", err)
		}
	})
}

// A readerThatFails is a body that breaks.
type readerThatFails struct{}

func (readerThatFails) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Where nothing is denied, ErrUnreachable is no ErrDisallowed.
func TestUnreachableRobotsThatAllowsIsNoDenial(t *testing.T) {
	virtually(t, politeness.Config{Robots: robotscache.Config{OnUnreachable: robotscache.Allow}}, func(b *bubble) {
		b.site.RobotsStatus(503).Page("/", "page")
		b.mustGet("https://example.com/", 200)
		_, err := b.t.Sitemaps(b.Context(), "https://example.com/")
		refused(b.T, err, politeness.StageRobots, politeness.ErrUnreachable)
		if errors.Is(err, politeness.ErrDisallowed) {
			b.Errorf("a denial, though nothing is denied: %v", err)
		}
	})
}

// A switched is the connection of a switched protocol.
type switched struct {
	io.Reader
	wrote strings.Builder
	ended bool
}

func (s *switched) Write(p []byte) (int, error) { return s.wrote.Write(p) }
func (s *switched) Close() error                { return nil }

// A halfClosing can end its writing side alone.
type halfClosing struct{ switched }

func (s *halfClosing) CloseWrite() error { s.ended = true; return nil }

func TestSwitchedConnectionKeepsWhatItCanDo(t *testing.T) {
	get := func(conn io.ReadCloser) io.ReadCloser {
		tr := mustNew(t, politeness.Config{
			UserAgent: agent, DangerouslyIgnoreRobots: true, Limiter: limiter(t, hostlimit.Config{}),
			Base: answersAlways(func() (*http.Response, error) {
				return &http.Response{StatusCode: 101, Header: http.Header{}, Body: conn}, nil
			}),
		})
		req := httptest.NewRequest(http.MethodGet, "https://example.com/", nil)
		req.Header.Set("Upgrade", "ping")
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Body
	}
	conn := &halfClosing{switched{Reader: strings.NewReader("pong")}}
	body := get(conn)
	defer body.Close()
	_, _ = io.WriteString(body.(io.Writer), "ping")
	_ = body.(interface{ CloseWrite() error }).CloseWrite()
	answer, err := io.ReadAll(body)
	if conn.wrote.String() != "ping" || !conn.ended || string(answer) != "pong" || err != nil {
		t.Errorf("wrote %q, ended %t, read %q, %v", conn.wrote.String(), conn.ended, answer, err)
	}
	plain := get(&switched{Reader: strings.NewReader("")})
	defer plain.Close()
	if _, ok := plain.(interface{ CloseWrite() error }); ok {
		t.Error("the body claims a CloseWrite that the connection doesn't have")
	}
}

// Trailers come at the end of a body, of an empty one too.
func TestTrailersOfAnEmptyBody(t *testing.T) {
	for _, declared := range []bool{true, false} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "0")
			if declared {
				w.Header().Set("Trailer", "X-End")
			}
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			w.Header().Set(http.TrailerPrefix+"X-Late", "bye")
			w.Header().Set("X-End", "bye")
		}))
		server.EnableHTTP2 = true
		server.StartTLS()
		defer server.Close()
		trailers := func(rt http.RoundTripper) http.Header {
			resp, err := (&http.Client{Transport: rt}).Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
			return resp.Trailer
		}
		bare := trailers(server.Client().Transport)
		polite := trailers(mustNew(t, politeness.Config{UserAgent: agent, Base: server.Client().Transport, DangerouslyIgnoreRobots: true}))
		if fmt.Sprint(bare) != fmt.Sprint(polite) || len(bare) == 0 {
			t.Errorf("declared %t: trailers %v, without politeness %v", declared, polite, bare)
		}
	}
}

// A cache stores an answer when its body is read to the end.
type readsToTheEnd struct{ ended bool }

func (r *readsToTheEnd) Read([]byte) (int, error) { r.ended = true; return 0, io.EOF }
func (r *readsToTheEnd) Close() error             { return nil }

func TestAnswerWithoutContentIsReadToItsEndByItsReader(t *testing.T) {
	for _, c := range []struct {
		method string
		status int
	}{{http.MethodGet, 204}, {http.MethodGet, 304}, {http.MethodHead, 200}, {http.MethodGet, 200}} {
		body := &readsToTheEnd{}
		hosts, err := memory.New(hostlimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: mustNew(t, politeness.Config{
			UserAgent: agent, DangerouslyIgnoreRobots: true, Limiter: hosts,
			Response: politeness.ResponseLimits{Accept: []string{"text/html"}},
			Base: answersAlways(func() (*http.Response, error) {
				return &http.Response{StatusCode: c.status, ProtoMajor: 1, Header: http.Header{"Content-Type": {"text/html"}}, Body: body}, nil
			}),
		})}
		req, err := http.NewRequestWithContext(t.Context(), c.method, "https://example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if !body.ended {
			t.Errorf("%s, %d: the body was not read", c.method, c.status)
		}
		for st, err := range hosts.List(t.Context()) {
			if err != nil || st.InFlight != 0 {
				t.Errorf("%s, %d: a slot is held: %+v, %v", c.method, c.status, st, err)
			}
		}
	}
}

// A Base that promises a body and has none is at fault, and http.Client says so.
func TestContentLengthWithoutABody(t *testing.T) {
	base := answersAlways(func() (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: 5}, nil
	})
	hosts, err := memory.New(hostlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	polite := mustNew(t, politeness.Config{UserAgent: agent, DangerouslyIgnoreRobots: true, Base: base, Limiter: hosts})
	for _, rt := range []http.RoundTripper{base, polite} {
		resp, err := (&http.Client{Transport: rt}).Get("https://example.com/")
		if err == nil {
			resp.Body.Close()
			t.Errorf("%T: no error", rt)
		}
	}
	for st, err := range hosts.List(t.Context()) {
		if err != nil || st.InFlight != 0 {
			t.Errorf("a slot is held: %+v, %v", st, err)
		}
	}
}

// Request.Cancel is what there was before contexts, and what http.Client's Timeout
// still sets: with FromCall that ends a wait.
func TestRequestCancelEndsEveryWait(t *testing.T) {
	for name, prepare := range map[string]func(b *bubble){
		"robots.txt": func(b *bubble) { b.site.Latency(20 * time.Second) },
		"delay":      func(b *bubble) { b.site.Robots("User-agent: *\nCrawl-delay: 30\n") },
		"block": func(b *bubble) {
			b.site.Handle("/busy", politenesstest.Status(429, "Retry-After", "60"))
			b.mustGet("https://example.com/busy", 429)
		},
		"retry": func(b *bubble) {
			b.site.Handle("/page", politenesstest.Status(503, "Retry-After", "60"))
			b.know()
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, politeness.Config{Retry: politeness.Retry{Max: 1}}, func(b *bubble) {
				b.site.Page("/page", "page")
				prepare(b)
				cancel := make(chan struct{})
				req := httptest.NewRequest(http.MethodGet, "https://example.com/page", nil)
				//lint:ignore SA1019 this is about what is deprecated
				req.Cancel = cancel //nolint:staticcheck // the same
				time.AfterFunc(5*time.Second, func() { close(cancel) })
				began := time.Now()
				_, err := b.t.RoundTrip(req)
				if d := time.Since(began); !errors.Is(err, context.Canceled) || d != 5*time.Second {
					b.Errorf("%v after %v", err, d)
				}
				if n := len(b.log.Decisions(evidence.Failed)); n == 0 {
					b.Error("no record")
				}
			})
		})
	}
	virtually(t, politeness.Config{
		Timeouts: politeness.FromCall, Limiter: limiter(t, hostlimit.Config{Concurrency: 1, SlotTimeout: time.Hour}),
	}, func(b *bubble) {
		b.site.Page("/page", "page")
		held, err := b.client.Get("https://example.com/page")
		if err != nil {
			b.Fatal(err)
		}
		defer held.Body.Close()
		b.client.Timeout = 5 * time.Second
		began := time.Now()
		_, err = b.get("https://example.com/page")
		var timeout net.Error
		if d := time.Since(began); !errors.As(err, &timeout) || !timeout.Timeout() || d != 5*time.Second {
			b.Errorf("http.Client's Timeout: %v after %v", err, d)
		}
	})
}

// What the next try would meet again is final.
func TestRetryDoesNotRepeatWhatCantChange(t *testing.T) {
	ok := http.Header{}
	for name, c := range map[string]struct {
		err    error
		header http.Header
		tries  int
	}{
		"connection refused":    {errDial, ok, 3},
		"connection reset":      {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, ok, 3},
		"end of the connection": {io.EOF, ok, 3},
		"name server busy":      {&net.DNSError{Err: "server misbehaving", IsTemporary: true}, ok, 3},
		"no such host":          {&net.OpError{Op: "dial", Err: errNoHost}, ok, 1},
		"bad certificate":       {errTrust, ok, 1},
		"plain text on TLS":     {http.ErrSchemeMismatch, ok, 1},
		"bad address":           {&net.OpError{Op: "dial", Err: &net.AddrError{Err: "missing port", Addr: "x"}}, ok, 1},
		"refused below":         {&politeness.Error{Err: politeness.ErrDisallowed}, ok, 1},
		"name of a header":      {errors.New("invalid header field name"), http.Header{"a b": {"x"}}, 1},
		"value of a header":     {errors.New("invalid header field value"), http.Header{"A": {"x\n"}}, 1},
	} {
		virtually(t, politeness.Config{}, func(b *bubble) {
			tries := 0
			tr := mustNew(b.T, politeness.Config{
				UserAgent: agent, DangerouslyIgnoreRobots: true, Retry: politeness.Retry{Max: 2},
				Base: answersAlways(func() (*http.Response, error) { tries++; return nil, c.err }),
			})
			req := httptest.NewRequest(http.MethodGet, "https://example.com/", nil)
			req.Header = c.header
			if _, err := tr.RoundTrip(req); !errors.Is(err, c.err) || tries != c.tries {
				b.Errorf("%s: %d tries, want %d; %v", name, tries, c.tries, err)
			}
		})
	}
}

// What is said of an unreachable robots.txt is what is done: in evidence and on the status page.
func TestUnreachableRobotsIsToldAsWhatItMeans(t *testing.T) {
	for _, cfg := range []robotscache.Config{{}, {ServeStale: true}, {OnUnreachable: robotscache.Allow}} {
		virtually(t, politeness.Config{Robots: cfg}, func(b *bubble) {
			b.site.Robots("User-agent: *\n").Page("/", "page")
			b.mustGet("https://example.com/", 200)
			time.Sleep(2 * time.Hour)
			b.site.RobotsStatus(503)
			_, _ = b.get("https://example.com/") // by a stale copy, that is asked for again
			_, err := b.get("https://example.com/")
			d := b.one(evidence.RobotsUnreachable)
			s := b.t.Status(b.Context())
			if len(s.Unreachable) != 1 {
				b.Fatalf("%+v", s.Unreachable)
			}
			if fetched := err == nil; d.Allowed != fetched || s.Unreachable[0].Fallback != fetched || fetched == (cfg == robotscache.Config{}) {
				b.Errorf("%+v: %v; on record %t, on the page %t", cfg, err, d.Allowed, s.Unreachable[0].Fallback)
			}
			b.site.Robots("User-agent: *\n")
			time.Sleep(2 * time.Hour)
			_, _ = b.get("https://example.com/")
			b.mustGet("https://example.com/", 200)
			if s = b.t.Status(b.Context()); s.Unreachable == nil || len(s.Unreachable) != 0 {
				b.Errorf("can be had again: %+v", s.Unreachable)
			}
		})
	}
}

// Where robots.txt was found, if that isn't where it was asked for, is on record.
func TestARobotsThatHasMovedIsOnRecordWithItsPlace(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Handle("/robots.txt", http.RedirectHandler("https://www.example.com/robots.txt", http.StatusMovedPermanently)).Page("/", "page")
		b.web.Site("https://www.example.com").Robots("User-agent: *\n").Page("/", "page")
		b.mustGet("https://example.com/", 200)
		b.mustGet("https://www.example.com/", 200)
		d := b.log.Decisions(evidence.RobotsFetched)
		if len(d) != 2 || d[0].Location != "https://www.example.com/robots.txt" || d[1].Location != "" {
			b.Errorf("%+v", d)
		}
	})
}

// An origin that hangs is unreachable after 30 s, also where its robots.txt had to wait for its turn,
// and where its start has moved at the wire.
func TestRobotsThatHangs(t *testing.T) {
	for _, dial := range []time.Duration{0, time.Second} {
		cfg := politeness.Config{HostKey: func(*http.Request) string { return "all" }, Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Minute}}}
		virtually(t, cfg, func(b *bubble) {
			b.web.Site("https://other.example").Page("/", "page")
			b.site.Handle("/robots.txt", politenesstest.Slow(time.Hour, politenesstest.Text(""))).Dial(dial)
			b.mustGet("https://other.example/", 200)
			begin := time.Now()
			ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
			defer cancel()
			_, err := fetch(ctx, b.client, "https://example.com/")
			if e := refused(b.T, err, politeness.StageRobots, politeness.ErrUnreachable); !e.Timeout() || time.Since(begin) != 90*time.Second {
				b.Errorf("%v after %v, want a timeout after a minute for the turn and 30 s", err, time.Since(begin))
			}
			time.Sleep(2 * time.Hour) // the handler ends
		})
	}
}

// A robots.txt that gets no turn says when to come back, in the error and on record, and isn't taken
// for unreachable.
func TestRobotsWithoutATurn(t *testing.T) {
	cfg := politeness.Config{
		HostKey: func(*http.Request) string { return "all" }, Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Minute}, MaxWait: time.Minute},
	}
	virtually(t, cfg, func(b *bubble) {
		b.web.Site("https://other.example").Page("/", "page")
		b.site.Page("/", "page")
		b.mustGet("https://other.example/", 200)
		waits := make(chan error, 1)
		go func() {
			_, err := b.get("https://other.example/")
			waits <- err
		}()
		time.Sleep(time.Second)
		_, err := b.get("https://example.com/") // its robots.txt would start after two minutes
		e := refused(b.T, err, politeness.StageRobots, politeness.ErrBusy)
		d := b.log.Decisions(evidence.SlotTimeout)[1] // the first is robots.txt's own
		if errors.Is(err, politeness.ErrUnreachable) || !d.RetryAt.Equal(e.RetryAt) || !e.RetryAt.Equal(b.began.Add(3*time.Minute)) ||
			!strings.HasSuffix(err.Error(), "; retry at 2000-01-01T00:03:00Z") || !strings.HasPrefix(d.Reason, "robots.txt can't be fetched yet: ") || d.URL != "https://example.com/" {
			b.Errorf("%v; on record: %+v", err, d)
		}
		if err := <-waits; err != nil {
			b.Error(err)
		}
		time.Sleep(time.Until(e.RetryAt))
		b.mustGet("https://example.com/", 200)
	})
}
