package promises_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
)

// An countsCloseIdle is a Base with connections to close.
type countsCloseIdle struct {
	http.RoundTripper
	closed int
}

func (i *countsCloseIdle) CloseIdleConnections() { i.closed++ }

func TestClientClosesTheIdleConnectionsOfBase(t *testing.T) {
	base := &countsCloseIdle{}
	transport, err := politeness.New(politeness.Config{UserAgent: agent, Base: base})
	if err != nil {
		t.Fatal(err)
	}
	(&http.Client{Transport: transport}).CloseIdleConnections()
	if base.closed != 1 {
		t.Errorf("closed %d times", base.closed)
	}
}

// A header map can hold any spelling of a name, and http.Transport sends them all.
func TestEveryRequestIsSentAsTheCrawlerHoweverUserAgentIsSpelled(t *testing.T) {
	for _, header := range []http.Header{
		nil,
		{"User-Agent": {"Mozilla/5.0"}},
		{"user-agent": {"Mozilla/5.0"}},
		{"User-Agent": {agent}, "USER-AGENT": {"Mozilla/5.0"}},
		{"User-Agent": {agent, "Mozilla/5.0"}},
	} {
		virtually(t, politeness.Config{}, func(b *bubble) {
			b.site.Page("/", "page")
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "https://example.com/", nil)
			if err != nil {
				b.Fatal(err)
			}
			req.Header = header
			resp, err := b.t.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
			for _, r := range b.web.Requests() {
				for name, values := range r.Header {
					if strings.EqualFold(name, "User-Agent") && (len(values) != 1 || values[0] != agent) {
						b.Errorf("%s asked for with %q: %s: %q", r.URL, header, name, values)
					}
				}
			}
		})
	}
}

// What http.Transport can do is not in the way of politeness, nor the other way round.
func TestHTTP2WithAStreamedBodyEarlyHintsAndTrailers(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			fmt.Fprint(w, "User-agent: *\nDisallow: /no\n")
			return
		}
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-End")
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("X-End", "bye")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	transport, err := politeness.New(politeness.Config{UserAgent: agent, Base: server.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	var hints atomic.Int32
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error { hints.Add(1); return nil },
	})
	streamed := io.MultiReader(strings.NewReader("in "), strings.NewReader("pieces"))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, streamed)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || string(got) != "in pieces" {
		t.Errorf("body %q, %v", got, err)
	}
	if resp.ProtoMajor != 2 || hints.Load() != 1 || resp.Trailer.Get("X-End") != "bye" {
		t.Errorf("%s, %d early hints, trailers %v", resp.Proto, hints.Load(), resp.Trailer)
	}
}

// Whoever leaves gives back page, place and body, and does so at once.
func TestCallerMayLeaveAtEveryStage(t *testing.T) {
	for _, c := range []struct {
		name  string
		at    func(b *bubble)
		after time.Duration
		sent  bool
	}{
		{"robots.txt", func(b *bubble) { b.site.Latency(20 * time.Second) }, time.Second, false},
		{"delay", func(b *bubble) { b.site.Robots("User-agent: *\nCrawl-delay: 30\n") }, 10 * time.Second, false},
		{"block", func(b *bubble) {
			b.site.Handle("/busy", politenesstest.Status(429, "Retry-After", "60"))
			b.mustGet("https://example.com/busy", 429)
		}, 5 * time.Second, false},
		{"slot", func(b *bubble) {
			b.site.Handle("/slow", politenesstest.Slow(8*time.Second, politenesstest.Text("slow")))
			for range 2 {
				go func() { _, _ = b.get("https://example.com/slow") }()
			}
			time.Sleep(2 * time.Second)
		}, time.Second, false},
		{"send", func(b *bubble) {
			b.site.Handle("/page", politenesstest.Slow(time.Minute, politenesstest.Text("slow")))
		}, 20 * time.Second, true},
		{"body", func(b *bubble) {
			b.site.Handle("/page", politenesstest.Drip("drop", 100, time.Second))
		}, 20 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			spent := budget.New(budget.Limits{Pages: 100})
			virtually(t, politeness.Config{Budget: spent}, func(b *bubble) {
				b.site.Page("/page", "page").Page("/next", "next")
				c.at(b)
				ctx, leave := context.WithCancel(b.Context())
				time.AfterFunc(c.after, leave)
				body := &closes{Reader: strings.NewReader("body")}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com/page", body)
				if err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				resp, err := b.t.RoundTrip(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if d := time.Since(began); !errors.Is(err, context.Canceled) || d != c.after {
					b.Errorf("%v after %v, want the cancellation after %v", err, d, c.after)
				}
				synctest.Wait()
				if body.n.Load() == 0 {
					b.Error("the request's body is open")
				}
				b.site.Latency(0)
				time.Sleep(time.Minute)
				b.mustGet("https://example.com/next", 200)

				sent, page := int64(0), false
				for _, url := range b.asked() {
					if !strings.HasSuffix(url, "/robots.txt") {
						sent++
					}
					page = page || strings.HasSuffix(url, "/page")
				}
				if u, _ := spent.Usage(b.Context()); u.Pages != sent || page != c.sent {
					b.Errorf("%d pages spent, %d sent: %q", u.Pages, sent, b.asked())
				}
				b.web.Check(b.T, politenesstest.Rules{Delay: 200 * time.Millisecond, Concurrency: 2})
			})
		})
	}
}

// A closes counts how often it was closed.
type closes struct {
	io.Reader
	n atomic.Int32
}

func (c *closes) Close() error { c.n.Add(1); return nil }

// http and https of a host have each a robots.txt, and one pace: also where one of
// the two is asked for anew.
func TestRobotsIsAskedForAnewAtTheCrawlDelayOfItsOldCopy(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		plain := b.web.Site("http://example.com").Robots("User-agent: *\nCrawl-delay: 30\n").Page("/", "plain")
		b.site.Page("/", "secure")
		b.mustGet("http://example.com/", 200)
		b.mustGet("https://example.com/", 200)
		time.Sleep(61 * time.Minute)
		b.mustGet("https://example.com/", 200)
		plain.Page("/new", "new")
		b.mustGet("http://example.com/new", 200)
		starts := b.log.Decisions(evidence.Started)
		for i, d := range starts[1:] {
			if gap := d.Start.Sub(starts[i].Start); strings.HasPrefix(d.URL, "http:") && gap < 30*time.Second {
				b.Errorf("%s started %v after %s", d.URL, gap, starts[i].URL)
			}
		}
		b.web.Check(b.T, politenesstest.Rules{Delay: 200 * time.Millisecond, Concurrency: 2})
	})
}

// HTTP/2 has a value of its own for no body. It has no type to refuse, and holds no slot.
func TestAnswerWithoutABodyIsOneOverHTTP2Too(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %t", h2), func(t *testing.T) {
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path == "/204" {
					w.WriteHeader(http.StatusNoContent)
				}
			}))
			srv.EnableHTTP2 = h2
			srv.StartTLS()
			defer srv.Close()
			hosts, err := memory.New(hostlimit.Config{Concurrency: 1, SlotTimeout: time.Minute, Delay: hostlimit.Delay{DangerouslyNone: true}})
			if err != nil {
				t.Fatal(err)
			}
			tr := mustNew(t, politeness.Config{
				UserAgent: agent, Base: srv.Client().Transport, Limiter: hosts, DangerouslyIgnoreRobots: true,
				Response: politeness.ResponseLimits{Accept: []string{"text/*"}},
			})
			for _, c := range [][2]string{{http.MethodGet, "/204"}, {http.MethodGet, "/empty"}, {http.MethodHead, "/head"}} {
				req, err := http.NewRequestWithContext(t.Context(), c[0], srv.URL+c[1], nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := tr.RoundTrip(req)
				if err != nil || resp.Body != http.NoBody {
					t.Errorf("%s: %v", c, err)
				}
				for st, err := range hosts.List(t.Context()) {
					if err != nil || st.InFlight != 0 {
						t.Errorf("%s: a slot is held: %+v", c, st)
					}
				}
			}
		})
	}
}

// A URL whose path stands elsewhere than rules look for it is refused.
func TestURLThatHidesItsPathIsRefused(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		for _, u := range []*url.URL{
			{Scheme: "https", Host: "example.com", Opaque: "//user:secret@example.com/admin"},
			{Scheme: "https", Host: "example.com", Opaque: "admin"},
			{Scheme: "https", Host: "example.com", Path: "admin"},
		} {
			_, err := b.t.RoundTrip(&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}})
			if e := refused(b.T, err, politeness.StageRequest, nil); strings.Contains(e.Error()+e.URL, "secret") {
				b.Error(e)
			}
		}
		b.site.Page("/%41", "page")
		if _, err := b.t.RoundTrip(&http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: "example.com", Opaque: "/%41"}, Header: http.Header{}}); err != nil {
			b.Errorf("a path spelled by hand: %v", err)
		}
	})
}
