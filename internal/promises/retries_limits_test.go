package promises_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
)

// A host may ask for any time. Nobody is held for years by it, nor does anybody
// come back earlier than asked: the answer is handed over.
func TestRetryHandsTheResponseOverWhenRetryAfterIsTooLong(t *testing.T) {
	for _, retryAfter := range []string{"86401", "9223372036854775807", "1180591620717411303424", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		t.Run(retryAfter, func(t *testing.T) {
			virtually(t, politeness.Config{Retry: politeness.Retry{Max: 3}}, func(b *bubble) {
				b.site.Handle("/", politenesstest.Status(503, "Retry-After", retryAfter))
				b.mustGet("https://example.com/", 503)
				if b.elapsed() > time.Minute || len(b.starts()) != 1 {
					b.Errorf("%d tries in %v", len(b.starts()), b.elapsed())
				}
			})
		})
	}
	patient := hostlimit.Config{MaxWait: 24 * time.Hour}
	virtually(t, politeness.Config{Hosts: patient, Retry: politeness.Retry{Max: 1}}, func(b *bubble) {
		b.site.Handle("/", politenesstest.InTurn(politenesstest.Status(503, "Retry-After", "86400"), politenesstest.Text("page")))
		b.mustGet("https://example.com/", 200)
	})
}

// A wait that ends after the budget's time would end in a refusal, with the answer thrown away.
func TestRetryThatTheBudgetsTimeRulesOutHandsTheResponseOver(t *testing.T) {
	cfg := politeness.Config{Retry: politeness.Retry{Max: 3, Backoff: func() cenkalti.BackOff { return cenkalti.NewConstantBackOff(2 * time.Minute) }}}
	virtually(t, cfg, func(b *bubble) {
		cfg.Base, cfg.Evidence, cfg.UserAgent = b.web, b.log, agent
		cfg.Budget = budget.New(budget.Limits{Duration: 5 * time.Minute, Pages: 1})
		tr, err := politeness.New(cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.client.Transport = tr
		b.site.Handle("/", politenesstest.Status(503))
		b.mustGet("https://example.com/", 503)
		if n := len(b.starts()); n != 3 || b.elapsed() > 5*time.Minute {
			b.Errorf("%d tries in %v, want 3 in less than 5 minutes", n, b.elapsed())
		}
		if n := len(b.log.Decisions(evidence.BudgetExceeded)); n != 0 {
			b.Errorf("%d records budget_exceeded, though nothing was refused", n)
		}
	})
}

// A block that others have set may last longer than the schedule's wait.
func TestRetryThatABlockRulesOutHandsTheResponseOver(t *testing.T) {
	cfg := politeness.Config{
		Retry:   politeness.Retry{Max: 3, Backoff: func() cenkalti.BackOff { return cenkalti.NewConstantBackOff(time.Second) }},
		Limiter: limiter(t, hostlimit.Config{}),
	}
	virtually(t, cfg, func(b *bubble) {
		b.site.Handle("/", politenesstest.Slow(2*time.Second, politenesstest.Status(503)))
		b.site.Handle("/busy", politenesstest.Status(429, "Retry-After", "60"))
		b.know()
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(time.Second)
			ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
			defer cancel()
			if status, err := fetch(ctx, b.client, "https://example.com/busy"); err != nil || status != 429 {
				b.Errorf("the busy page: status %d, %v", status, err)
			}
		}()
		ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
		defer cancel()
		status, err := fetch(ctx, b.client, "https://example.com/")
		if err != nil || status != 503 || b.elapsed() > 5*time.Second {
			b.Errorf("status %d, %v after %v; want the 503 at once", status, err, b.elapsed())
		}
		<-done
	})
}

// A server may answer before it has read the body. Whoever still writes the first
// try must not see the second one's.
func TestRetryLeavesTheRequestOfTheTryBeforeAlone(t *testing.T) {
	t.Parallel() // it waits in real time
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case asked.Add(1) < 4:
			w.WriteHeader(http.StatusServiceUnavailable) // with the body unread
		default:
			n, _ := io.Copy(io.Discard, r.Body)
			if n != 4<<20 {
				t.Errorf("the last try brought %d bytes", n)
			}
		}
	}))
	defer server.Close()
	tr, err := politeness.New(politeness.Config{
		UserAgent: agent, Base: server.Client().Transport,
		Limiter: limiter(t, hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}}),
		Retry:   politeness.Retry{Max: 20, Backoff: func() cenkalti.BackOff { return &cenkalti.ZeroBackOff{} }},
	})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL, bytes.NewReader(make([]byte, 4<<20)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// Every response that nobody sees is drained and closed, the last one is the
// caller's.
func TestRetryDrainsAndClosesEveryDiscardedResponse(t *testing.T) {
	virtually(t, politeness.Config{Retry: politeness.Retry{Max: 3}}, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write(make([]byte, 64<<10)) // the longest that is read
		}))
		b.know()
		resp, err := b.client.Get("https://example.com/")
		if err != nil {
			b.Fatal(err)
		}
		requests := b.web.Requests()[1:]
		for i, r := range requests {
			if last := i == len(requests)-1; last != r.End.IsZero() || !last && r.Bytes != 64<<10 {
				b.Errorf("try %d: ended %v, %d bytes read", i+1, r.End, r.Bytes)
			}
		}
		if body, err := io.ReadAll(resp.Body); err != nil || len(body) != 64<<10 {
			b.Errorf("the last response: %d bytes, %v", len(body), err)
		}
		resp.Body.Close()
	})
}

// A discarded body without end is cut, not read.
func TestRetryCutsADiscardedBodyThatIsLong(t *testing.T) {
	virtually(t, politeness.Config{Retry: politeness.Retry{Max: 1}}, func(b *bubble) {
		b.site.Handle("/", politenesstest.InTurn(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			for chunk := make([]byte, 32<<10); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}), politenesstest.Text("page")))
		b.know()
		b.mustGet("https://example.com/", 200)
		if n := b.web.Requests()[1].Bytes; n > 64<<10+1 {
			b.Errorf("%d bytes of it were read", n)
		}
	})
}

// MaxWait is for a frontier that must not block: no try waits for longer.
func TestRetryWaitsNoLongerThanMaxWait(t *testing.T) {
	hosts, err := memory.New(hostlimit.Config{MaxWait: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	virtually(t, politeness.Config{Retry: politeness.Retry{Max: 5}, Limiter: hosts}, func(b *bubble) {
		b.site.Handle("/", politenesstest.Status(429, "Retry-After", "3600"))
		b.mustGet("https://example.com/", 429)
		if b.elapsed() > time.Minute {
			b.Errorf("handed over after %v", b.elapsed())
		}
	})
}

// dripping503 answers 503 with a body that comes byte by byte.
func dripping503(gap time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		politenesstest.Drip("x", 1000, gap).ServeHTTP(w, req)
	})
}

// A discarded body that drips is cut: its slot is somebody else's turn.
func TestDiscardedBodyThatDripsIsCut(t *testing.T) {
	virtually(t, politeness.Config{Retry: politeness.Retry{Max: 1}}, func(b *bubble) {
		b.site.Handle("/", politenesstest.InTurn(dripping503(10*time.Second), politenesstest.Text("page")))
		b.mustGet("https://example.com/", 200)
		if b.elapsed() > time.Minute {
			b.Errorf("answered after %v", b.elapsed())
		}
	})
}

// Each try is judged anew, by the URL that was asked for: a base that rewrites it,
// which no RoundTripper should, harms nobody.
func TestTriesAfterABaseThatRewritesTheURL(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Handle("/", politenesstest.InTurn(politenesstest.Status(503), politenesstest.Text("page")))
		tr := mustNew(b.T, politeness.Config{UserAgent: agent, Base: rewritesURLs{b.web}, Evidence: b.log, Retry: politeness.Retry{Max: 2}})
		req := httptest.NewRequest(http.MethodGet, "https://a.co/x", nil)
		resp, err := tr.RoundTrip(req)
		if err != nil || resp.StatusCode != 200 {
			b.Fatalf("%v, %v", resp, err)
		}
		resp.Body.Close()
	})
}

type rewritesURLs struct{ next http.RoundTripper }

func (r rewritesURLs) RoundTrip(req *http.Request) (*http.Response, error) {
	req.URL.Scheme, req.URL.Host = "https", "example.com"
	return r.next.RoundTrip(req)
}

// Nothing ends without a record: neither what can't be asked, nor what can't be
// sent again, nor what its caller gives up between two tries.
func TestEveryRefusalIsOnRecord(t *testing.T) {
	cfg := politeness.Config{Retry: politeness.Retry{Max: 2, Backoff: func() cenkalti.BackOff { return cenkalti.NewConstantBackOff(time.Hour) }}}
	virtually(t, cfg, func(b *bubble) {
		b.site.Handle("/", politenesstest.Status(503)).Handle("/away", http.RedirectHandler("ftp://user:secret@example.com/file", http.StatusFound))
		last := func(stage politeness.Stage, err error, want string) {
			b.Helper()
			refused(b.T, err, stage, nil)
			all := b.log.Decisions()
			if d := all[len(all)-1]; d.Type != evidence.Failed || !strings.Contains(d.Err, want) || d.Trip == 0 || strings.Contains(d.URL+d.Err, "secret") {
				b.Errorf("last record %+v, want a failure: %s", d, want)
			}
		}
		_, err := b.get("ftp://example.com/")
		last(politeness.StageRequest, err, "ftp")
		if d := b.one(evidence.Failed); d.Host != "example.com" {
			b.Errorf("on record without its host: %+v", d)
		}
		_, err = b.get("https://example.com/away")
		last(politeness.StageRequest, err, "ftp")

		req := httptest.NewRequest(http.MethodPut, "https://example.com/", strings.NewReader("x"))
		req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
		_, err = b.t.RoundTrip(req)
		last(politeness.StageRequest, err, "gone")

		ctx, cancel := context.WithTimeout(b.Context(), 90*time.Minute)
		defer cancel()
		left := httptest.NewRequest(http.MethodGet, "https://example.com/", nil).WithContext(ctx)
		time.AfterFunc(time.Minute, cancel)
		_, err = b.t.RoundTrip(left)
		failed(b.T, err, context.Canceled)
		if d := b.log.Decisions(evidence.Failed); !strings.HasSuffix(d[len(d)-1].Reason, string(politeness.StageTurn)) {
			b.Errorf("on record: %+v", d[len(d)-1])
		}
	})
}

// Where the host's own block lasts for longer than MaxWait, a try would be refused:
// the answer at hand is worth more.
func TestRetryThatTheHostsBlockRulesOutHandsTheResponseOver(t *testing.T) {
	hosts, err := memory.New(hostlimit.Config{MaxWait: time.Minute, Backoff: backoff.Doubling{Start: 15 * time.Minute, Cap: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	virtually(t, politeness.Config{Retry: politeness.Retry{Max: 3}, Limiter: hosts}, func(b *bubble) {
		b.site.Handle("/", politenesstest.Status(429))
		b.mustGet("https://example.com/", 429)
		if n := len(b.log.Decisions(evidence.Retried)); n != 0 {
			b.Errorf("%d records of tries that there weren't", n)
		}
	})
}

// What is done with a discarded answer is a part of the wait.
func TestRetryStartsWhenItWasSaidTo(t *testing.T) {
	cfg := politeness.Config{Retry: politeness.Retry{Max: 1, Backoff: func() cenkalti.BackOff { return cenkalti.NewConstantBackOff(6 * time.Second) }}}
	virtually(t, cfg, func(b *bubble) {
		b.site.Handle("/", politenesstest.InTurn(dripping503(4*time.Second), politenesstest.Text("page")))
		b.mustGet("https://example.com/", 200)
		starts := b.starts()
		if said := b.one(evidence.Retried).RetryAt; len(starts) != 2 || !starts[1].Equal(said) {
			b.Errorf("started %v, said %v", starts, said)
		}
	})
}

// A try may wait for just as long as a turn, and then for a turn.
func TestRetryWaitsForAsLongAsMaxWait(t *testing.T) {
	const maxWait = 30 * time.Second
	for _, c := range []struct {
		retryAfter string
		block      time.Duration // by the policy; the try itself waits for a second
		status     int
	}{
		{"30", 0, 200},
		{"31", 0, 429},
		{"", time.Second + maxWait, 200},
		{"", time.Second + maxWait + 1, 429},
	} {
		cfg := politeness.Config{Retry: politeness.Retry{Max: 1}, Hosts: hostlimit.Config{MaxWait: maxWait, Backoff: backoff.Fibonacci{Unit: c.block}}}
		virtually(t, cfg, func(b *bubble) {
			b.site.Handle("/", politenesstest.InTurn(politenesstest.Status(429, "Retry-After", c.retryAfter), politenesstest.Text("page")))
			b.know()
			if status, err := b.get("https://example.com/"); err != nil || status != c.status {
				b.Errorf("Retry-After %q, a block of %v: status %d, %v", c.retryAfter, c.block, status, err)
			}
		})
	}
}

// A further try that gives its turn back before it starts says nothing of the start of the try before.
func TestATryThatIsOvertakenHasNoStart(t *testing.T) {
	cfg := politeness.Config{
		Retry: politeness.Retry{Max: 1}, Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: 40 * time.Minute}},
		HostKey: func(req *http.Request) string { return req.URL.Path }, // robots.txt needn't wait for the page
	}
	virtually(t, cfg, func(b *bubble) {
		b.site.Robots("User-agent: *\n").Handle("/", politenesstest.Status(503))
		b.know()
		time.Sleep(30 * time.Minute)
		time.AfterFunc(31*time.Minute, func() {
			b.site.Robots("User-agent: *\nDisallow: /\n")
			_, _ = b.t.Check(b.Context(), "https://example.com/") // robots.txt is out of date by now
		})
		_, err := b.get("https://example.com/") // tries after 30 and 70 minutes
		refused(b.T, err, politeness.StageRobots, politeness.ErrDisallowed)
		pages := 0
		for _, d := range b.log.Decisions(evidence.Started) {
			if !d.RobotsTxt {
				pages++
			}
		}
		if d := b.one(evidence.Failed); d.Seq != 0 || !d.Start.IsZero() || d.Attempt != 2 || pages != 1 {
			b.Errorf("%d starts of pages on record, and %+v", pages, d)
		}
	})
}

// TestResendsOfNetHTTPCountAsTries: a site that ends each kept connection sees no more requests for
// a page than Max allows, whoever repeats them.
func TestResendsOfNetHTTPCountAsTries(t *testing.T) {
	for name, test := range map[string]struct {
		max    int
		served int // answers before the connection is ended
		want   int
	}{
		"five":              {5, 1, 6},
		"two":               {2, 1, 3},
		"none":              {0, 1, 1},
		"connections stand": {5, 100, 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := 0
				base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
					conn, theirs := net.Pipe()
					go endConnection(theirs, test.served, &seen)
					return conn, nil
				}}
				defer base.CloseIdleConnections()
				tr := mustNew(t, politeness.Config{
					UserAgent: agent, Base: base, DangerouslyIgnoreRobots: true, Retry: politeness.Retry{Max: test.max},
				})
				_, err := fetch(t.Context(), &http.Client{Transport: tr}, "http://example.com/")
				if seen != test.want {
					t.Errorf("the site saw %d requests, want %d (%v)", seen, test.want, err)
				}
			})
		})
	}
}

// endConnection answers that many requests with 503, and ends the connection at the next one.
func endConnection(conn net.Conn, served int, seen *int) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for n := 0; ; n++ {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		if *seen++; n == served {
			return
		}
		fmt.Fprint(conn, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
	}
}

// TestSecondTryGoesFirst also where its priority is the highest there is.
func TestSecondTryGoesFirst(t *testing.T) {
	for _, priority := range []int{0, 1, math.MaxInt} {
		virtually(t, politeness.Config{
			Retry: politeness.Retry{Max: 1}, DangerouslyIgnoreRobots: true,
			Hosts: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Second}},
		}, func(b *bubble) {
			b.site.Handle("/urgent", politenesstest.InTurn(politenesstest.Slow(time.Second, politenesstest.Status(500)), politenesstest.Text("page")))
			b.site.Page("/other", "page")
			go func() {
				_, _ = fetch(hostlimit.WithPriority(b.Context(), priority), b.client, "https://example.com/urgent")
			}()
			time.Sleep(time.Millisecond)
			for range 5 {
				go func() { _, _ = b.get("https://example.com/other") }()
			}
			time.Sleep(time.Minute)
			if asked := b.asked(); len(asked) != 7 || !strings.HasSuffix(asked[1], "/urgent") {
				b.Errorf("priority %d: %v", priority, asked)
			}
		})
	}
}
