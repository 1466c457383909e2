package promises_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/publicnet"
)

func TestRetryTakesATurnForEachTryAndOnePage(t *testing.T) {
	spent := budget.New(budget.Limits{Pages: 1})
	cfg := politeness.Config{Retry: politeness.Retry{Max: 5}, Budget: spent}
	virtually(t, cfg, func(b *bubble) {
		b.site.Page("/", "page").Sequence("/", 503, 500, 429, 200)
		b.mustGet("https://example.com/", 200)
		retried := b.log.Decisions(evidence.Retried)
		if len(retried) != 3 || retried[0].Status != 503 || retried[1].Status != 500 || retried[2].Status != 429 {
			b.Errorf("records of tries: %+v, want three", retried)
		}
		if n := len(b.log.Decisions(evidence.RobotsAllowed)); n != 4 {
			b.Errorf("robots.txt was asked %d times, want once a try", n)
		}
		if u, _ := spent.Usage(b.Context()); u.Pages != 1 {
			b.Errorf("%d pages spent, want 1", u.Pages)
		}
		if v := b.web.Violations(politenesstest.Rules{Delay: 200 * time.Millisecond, Concurrency: 2}); len(v) > 0 {
			b.Errorf("violations: %v", v)
		}
	})
}

func TestRetryHandsTheLastResponseOverWhenTriesRunOut(t *testing.T) {
	virtually(t, politeness.Config{Retry: politeness.Retry{Max: 2}}, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, "broken")
		}))
		resp, err := b.client.Get("https://example.com/")
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || string(text) != "broken" || resp.StatusCode != http.StatusBadGateway {
			b.Errorf("status %d, body %q, %v", resp.StatusCode, text, err)
		}
		if n := len(b.asked()); n != 4 { // robots.txt and three tries
			b.Errorf("%d requests", n)
		}
	})
}

func TestRetryWaitsForRetryAfterWhenLonger(t *testing.T) {
	cfg := politeness.Config{Retry: politeness.Retry{Max: 1, Backoff: func() cenkalti.BackOff { return backoff.Fibonacci{}.BackOff() }}}
	virtually(t, cfg, func(b *bubble) {
		var asked atomic.Int64
		b.site.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) == 1 {
				w.Header().Set("Retry-After", "40")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		b.mustGet("https://example.com/", 200)
		r := b.web.Requests()
		if gap := r[2].Start.Sub(r[1].End); gap < 40*time.Second || gap > 41*time.Second {
			b.Errorf("second try after %v, want 40s", gap)
		}
	})
}

// Of several Retry-After, as of two servers one behind the other, the longest counts, in the block
// and in the log.
func TestTheLongestRetryAfterCounts(t *testing.T) {
	for _, values := range [][]string{{"0", "600"}, {"600", "0"}, {"soon", "600"}, {"", "600", "1.5"}} {
		virtually(t, politeness.Config{DangerouslyIgnoreRobots: true}, func(b *bubble) {
			b.site.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Retry-After"] = values
				w.WriteHeader(http.StatusTooManyRequests)
			}))
			b.mustGet("https://example.com/", 429)
			if d := b.one(evidence.HostBlocked); d.RetryAfter != "600" || d.Until.Sub(d.Time).Round(time.Second) != 10*time.Minute {
				b.Errorf("%q: blocked until %v by %q", values, d.Until.Sub(d.Time), d.RetryAfter)
			}
			if d := b.one(evidence.Fetched); d.RetryAfter != "600" {
				b.Errorf("%q: fetched with %q", values, d.RetryAfter)
			}
		})
	}
}

// TestNoAnswerHasNoHeaders: a try without an answer is recorded without what the try before it was
// answered.
func TestNoAnswerHasNoHeaders(t *testing.T) {
	cfg := politeness.Config{
		Retry:                   politeness.Retry{Max: 1},
		DangerouslyIgnoreRobots: true,
		Hosts:                   hostlimit.Config{Backoff: backoff.Refusals{Network: true}},
	}
	virtually(t, cfg, func(b *bubble) {
		var asked atomic.Int64
		b.site.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) == 1 {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			panic(http.ErrAbortHandler)
		}))
		if _, err := b.get("https://example.com/"); err == nil {
			b.Error("no error")
		}
		if d := b.last(evidence.HostBlocked); d.Status != 0 || d.RetryAfter != "" || d.ServerDate != "" {
			b.Errorf("status %d, Retry-After %q, Date %q", d.Status, d.RetryAfter, d.ServerDate)
		}
	})
}

func TestRetryHoldsNoSlotWhileItWaits(t *testing.T) {
	cfg := politeness.Config{
		Retry:   politeness.Retry{Max: 1, Backoff: func() cenkalti.BackOff { return cenkalti.NewConstantBackOff(time.Minute) }},
		Limiter: limiter(t, hostlimit.Config{Concurrency: 1}),
	}
	virtually(t, cfg, func(b *bubble) {
		b.site.Sequence("/flaky", 500, 200).Page("/other", "page")
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.mustGet("https://example.com/flaky", 200)
		}()
		time.Sleep(10 * time.Second)
		b.mustGet("https://example.com/other", 200)
		if b.elapsed() > 11*time.Second {
			b.Errorf("the other request waited until %v", b.elapsed())
		}
		<-done
	})
}

// TestTheRefusedPageAsksAgainFirst, before those that wait already: it tells the host's trouble from
// its own.
func TestTheRefusedPageAsksAgainFirst(t *testing.T) {
	cfg := politeness.Config{
		DangerouslyIgnoreRobots: true, Retry: politeness.Retry{Max: 1},
		Hosts: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: 100 * time.Millisecond}},
	}
	virtually(t, cfg, func(b *bubble) {
		b.site.Page("/", "page").Handle("/refused", politenesstest.InTurn(politenesstest.Status(http.StatusServiceUnavailable), politenesstest.Text("page")))
		ended := make(chan error)
		get := func(path string) {
			_, err := b.get("https://example.com/" + path)
			ended <- err
		}
		go get("refused")
		synctest.Wait()
		for range 20 {
			go get("")
		}
		for range 21 {
			if err := <-ended; err != nil {
				b.Error(err)
			}
		}
		for i, d := range b.log.Decisions(evidence.Started) {
			if refused := strings.HasSuffix(d.URL, "/refused"); refused != (i < 2) {
				b.Errorf("start %d is that of %s", i+1, d.URL)
			}
		}
	})
}

func TestRetryOnlyWhatMayBeSentAgain(t *testing.T) {
	rewindable := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("body")), nil }
	for _, test := range []struct {
		method  string
		getBody func() (io.ReadCloser, error)
		status  int
		tries   int
	}{
		{http.MethodGet, nil, 500, 3},
		{http.MethodHead, nil, 500, 3},
		{http.MethodPut, rewindable, 500, 3},
		{http.MethodDelete, rewindable, 500, 3},
		{http.MethodPut, nil, 500, 1},
		{http.MethodPost, rewindable, 500, 1},
		{http.MethodPatch, rewindable, 500, 1},
		{http.MethodGet, nil, 404, 1},
		{http.MethodGet, nil, 403, 1},
		{http.MethodGet, nil, 429, 3},
	} {
		t.Run(fmt.Sprintf("%s %d %t", test.method, test.status, test.getBody != nil), func(t *testing.T) {
			virtually(t, politeness.Config{Retry: politeness.Retry{Max: 2}}, func(b *bubble) {
				var bodies []string
				b.site.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					text, _ := io.ReadAll(r.Body)
					bodies = append(bodies, string(text))
					w.WriteHeader(test.status)
				}))
				req, err := http.NewRequestWithContext(b.Context(), test.method, "https://example.com/", nil)
				if err != nil {
					b.Fatal(err)
				}
				if test.method != http.MethodGet && test.method != http.MethodHead {
					req.Body, req.ContentLength = io.NopCloser(strings.NewReader("body")), 4
				}
				req.GetBody = test.getBody
				resp, err := b.client.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
				if len(bodies) != test.tries {
					b.Fatalf("%d tries, want %d", len(bodies), test.tries)
				}
				for _, text := range bodies {
					if req.Body != nil && text != "body" {
						b.Errorf("a try sent %q", text)
					}
				}
			})
		})
	}
}

func TestRetryAfterNetworkErrors(t *testing.T) {
	cfg := politeness.Config{Retry: politeness.Retry{Max: 3}, DangerouslyIgnoreRobots: true}
	virtually(t, cfg, func(b *bubble) {
		b.site.Down(syscall.ECONNREFUSED)
		_, err := b.get("https://example.com/")
		failed(b.T, err, syscall.ECONNREFUSED)
		if n := len(b.log.Decisions(evidence.Failed)); n != 4 {
			b.Errorf("%d tries, want 4: %s", n, b.types())
		}
		for _, d := range b.log.Decisions(evidence.Retried) {
			if !strings.Contains(d.Err, "connection refused") || d.Status != 0 {
				b.Errorf("why it is tried again: %+v", d)
			}
		}
	})
}

func TestRetryStopsWhenTheCallerLeaves(t *testing.T) {
	virtually(t, politeness.Config{Retry: politeness.Retry{Max: 50}}, func(b *bubble) {
		b.site.Sequence("/", 500)
		ctx, cancel := context.WithCancel(b.Context())
		time.AfterFunc(5*time.Second, cancel)
		_, err := fetch(ctx, b.client, "https://example.com/")
		if !errors.Is(err, context.Canceled) || b.elapsed() != 5*time.Second {
			b.Errorf("%v after %v", err, b.elapsed())
		}
	})
}

func TestRetryThatCantMeetTheDeadlineHandsTheResponseOver(t *testing.T) {
	virtually(t, politeness.Config{Retry: politeness.Retry{Max: 50}}, func(b *bubble) {
		b.site.Sequence("/", 500)
		ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
		defer cancel()
		status, err := fetch(ctx, b.client, "https://example.com/")
		if err != nil || status != 500 {
			b.Errorf("status %d, %v", status, err)
		}
	})
}

func TestRetryAsksRobotsAgain(t *testing.T) {
	virtually(t, politeness.Config{
		Hosts: hostlimit.Config{MaxWait: 24 * time.Hour},
		Retry: politeness.Retry{Max: 5, Backoff: func() cenkalti.BackOff { return cenkalti.NewConstantBackOff(2 * time.Hour) }},
	}, func(b *bubble) {
		b.site.Robots("User-agent: *\nAllow: /\n").Sequence("/", 500)
		time.AfterFunc(time.Hour, func() { b.site.Robots("User-agent: *\nDisallow: /\n") })
		_, err := b.get("https://example.com/")
		refused(b.T, err, politeness.StageRobots, politeness.ErrDisallowed)
	})
}

// TestAPrivateAddressIsNotTriedAgain: the next try would meet it again, and so says the first
// error. It is no robots.txt that can't be had, and isn't remembered as one.
func TestAPrivateAddressIsNotTriedAgain(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	dialsItself := &http.Transport{DialContext: new(net.Dialer).DialContext}
	for _, ignore := range []bool{true, false} {
		for _, base := range []*http.Transport{nil, dialsItself} {
			var log evidence.Recorder
			tr := mustNew(t, politeness.Config{
				UserAgent: agent, Base: publicnet.Transport(base), Evidence: &log,
				Retry: politeness.Retry{Max: 1}, DangerouslyIgnoreRobots: ignore,
			})
			_, err := fetch(t.Context(), &http.Client{Transport: tr}, server.URL)
			if !errors.Is(err, publicnet.ErrPrivate) || errors.Is(err, politeness.ErrUnreachable) || errors.Is(err, politeness.ErrDisallowed) {
				t.Errorf("ignoring robots.txt %v: %v", ignore, err)
			}
			if n := len(log.Decisions(evidence.Retried)); n != 0 {
				t.Errorf("ignoring robots.txt %v: tried again", ignore)
			}
			report, err := audit.Check(bytes.NewReader(logtest.Write(t, log.Decisions())))
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range report.Hosts {
				if h.Answers != 0 || h.RefusalShare != 0 {
					t.Errorf("ignoring robots.txt %v: our own refusal counts as the host's: %+v", ignore, h)
				}
			}
			if n := len(log.Decisions(evidence.RobotsUnreachable)); n != 0 {
				t.Errorf("robots.txt is unreachable, says the evidence: %+v", log.Decisions())
			}
			s := tr.Status(t.Context())
			if len(s.Unreachable) > 0 || s.Robots != nil && s.Robots.Origins > 0 || !ignore && s.Refusals["not a public address"] != 1 {
				t.Errorf("ignoring robots.txt %v: status %+v", ignore, s)
			}
		}
	}
}

// TestARobotsTxtThatRedirectsToAPrivateAddressIsRemembered: it is the site's own doing, which isn't
// asked about for each page.
func TestARobotsTxtThatRedirectsToAPrivateAddressIsRemembered(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.web.Site("http://10.0.0.1").Down(fmt.Errorf("10.0.0.1 is private: %w", publicnet.ErrPrivate))
		b.site.Handle("/robots.txt", http.RedirectHandler("http://10.0.0.1/robots.txt", http.StatusFound))
		for range 3 {
			_, err := b.get("https://example.com/")
			refused(b.T, err, politeness.StageRobots, politeness.ErrUnreachable)
			if !errors.Is(err, publicnet.ErrPrivate) {
				b.Errorf("%v, want the reason", err)
			}
		}
		if n := len(b.web.Requests()); n != 2 {
			b.Errorf("%d requests, want one for robots.txt and its redirect", n)
		}
	})
}

// TestWhatTheCallerGotWrongSaysNothingAboutTheHost: neither a pause nor a block comes of it.
func TestWhatTheCallerGotWrongSaysNothingAboutTheHost(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer site.Close()
	limits := hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}}
	tr := mustNew(t, politeness.Config{UserAgent: agent, Base: http.DefaultTransport, Hosts: limits, DangerouslyIgnoreRobots: true})
	post := func(body io.Reader) *http.Request {
		req, err := http.NewRequest(http.MethodPost, site.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	for name, wrong := range map[string]func() *http.Request{
		"header": func() *http.Request { r := post(nil); r.Header.Set("X", "a\nb"); return r },
		"method": func() *http.Request { r := post(nil); r.Method = "a b"; return r },
		"longer": func() *http.Request { r := post(strings.NewReader("12345")); r.ContentLength = 3; return r },
		"failing": func() *http.Request {
			return post(io.MultiReader(strings.NewReader("123"), iotest.ErrReader(errors.New("no more"))))
		},
	} {
		for range 6 {
			if resp, err := tr.RoundTrip(wrong()); err == nil {
				resp.Body.Close()
				t.Errorf("%s: no error", name)
			}
		}
		for st, err := range tr.Limiter().List(t.Context()) {
			if err != nil || st.Refusals != 0 || !st.BlockedUntil.IsZero() {
				t.Fatalf("%s: %+v, %v", name, st, err)
			}
		}
	}
}
