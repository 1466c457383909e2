package politeness_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
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
	virtually(t, politeness.Config{Retry: politeness.Retry{Max: 1}}, func(b *bubble) {
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
		Retry: politeness.Retry{Max: 3, Backoff: func() cenkalti.BackOff { return cenkalti.NewConstantBackOff(time.Second) }},
		Hosts: limiter(t, hostlimit.Config{}),
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
		Hosts: limiter(t, hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}}),
		Retry: politeness.Retry{Max: 20, Backoff: func() cenkalti.BackOff { return &cenkalti.ZeroBackOff{} }},
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
			_, _ = w.Write(make([]byte, 10_000))
		}))
		b.know()
		resp, err := b.client.Get("https://example.com/")
		if err != nil {
			b.Fatal(err)
		}
		requests := b.web.Requests()[1:]
		for i, r := range requests {
			if last := i == len(requests)-1; last != r.End.IsZero() || !last && r.Bytes != 10_000 {
				b.Errorf("try %d: ended %v, %d bytes read", i+1, r.End, r.Bytes)
			}
		}
		if body, err := io.ReadAll(resp.Body); err != nil || len(body) != 10_000 {
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
		if n := b.web.Requests()[1].Bytes; n > 64<<10 {
			b.Errorf("%d bytes of it were read", n)
		}
	})
}
