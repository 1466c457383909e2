package promises_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
)

// With MaxInFlight a body that is never closed holds up all hosts: who gets its place
// says whose it was.
func TestABodyThatIsNeverClosedIsReportedByAnotherHostsRequest(t *testing.T) {
	hosts, err := memory.New(hostlimit.Config{MaxInFlight: 1})
	if err != nil {
		t.Fatal(err)
	}
	virtually(t, politeness.Config{Limiter: hosts}, func(b *bubble) {
		b.site.Page("/", "page")
		b.web.Site("https://other.example").Page("/", "page").Dial(time.Second / 2) // so that a start moves
		b.know()
		b.mustGet("https://other.example/", 200)
		forgotten, err := b.client.Get("https://example.com/")
		if err != nil {
			b.Fatal(err)
		}
		asked := time.Now()
		b.mustGet("https://other.example/", 200)
		if d := time.Since(asked); !within(d, 299*time.Second, 301*time.Second) {
			b.Errorf("the place was taken back after %v, want 300 s", d)
		}
		b.mustGet("https://other.example/", 200)
		if d := b.one(evidence.LeaseExpired); d.Seq != 2 || d.Host != "example.com" || d.URL != "" || d.Reason == "" {
			b.Errorf("%+v", d)
		}
		forgotten.Body.Close()

		var log bytes.Buffer
		lines := evidence.JSONLines(&log)
		for _, d := range b.log.Decisions() {
			lines.Record(b.Context(), d)
		}
		if err := lines.Close(); err != nil {
			b.Fatal(err)
		}
		if report, err := audit.Check(&log); err != nil || !report.OK() {
			b.Errorf("%v, %v", report, err)
		}
	})
}

// keptContext is a limiter that keeps the context of the last turn, as one does that makes contexts
// from it.
type keptContext struct {
	hostlimit.Limiter
	ctx context.Context
}

func (k *keptContext) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	k.ctx = ctx
	ctx.Done()
	return k.Limiter.Acquire(ctx, key, floor)
}

// TestAContextThatIsDoneSaysWhy: package context panics where one that is done has no error.
func TestAContextThatIsDoneSaysWhy(t *testing.T) {
	memory, err := memory.New(hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(http.NotFoundHandler())
	defer site.Close()
	kept := &keptContext{Limiter: memory}
	transport, err := politeness.New(politeness.Config{UserAgent: "TestBot/1.0 (+https://example.com/bot)", Limiter: kept})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, site.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Cancel = make(chan struct{}) //nolint:staticcheck // http.Client's Timeout sets it, and so do old callers
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if <-kept.ctx.Done(); kept.ctx.Err() == nil {
		t.Error("the context of a turn is done, and doesn't say why")
	}
}

// TestWhoLeavesTakesNothingFromOthers: a crawl that ends leaves its own waits, and not the fetch of a
// robots.txt that another request waits for, too.
func TestWhoLeavesTakesNothingFromOthers(t *testing.T) {
	cfg := politeness.Config{
		HostKey: func(*http.Request) string { return "all" }, Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: 20 * time.Second}},
	}
	virtually(t, cfg, func(b *bubble) {
		b.site.Page("/", "page")
		b.web.Site("https://other.example").Page("/", "page")
		b.mustGet("https://other.example/", 200)
		ends := make(chan struct{})
		var wg sync.WaitGroup
		begin := time.Now()
		wg.Go(func() {
			_, err := fetch(politeness.WithCall(b.Context(), &politeness.Call{Until: ends}), b.client, "https://example.com/")
			failed(b.T, err, context.Canceled)
			if took := time.Since(begin); took != 10*time.Second {
				b.Errorf("left after %v, want 10 s", took)
			}
		})
		time.Sleep(time.Second)
		wg.Go(func() { b.mustGet("https://example.com/", 200) })
		time.Sleep(9 * time.Second)
		close(ends)
		wg.Wait()
		if d := b.one(evidence.Failed); d.URL != "https://example.com/" || d.Err == "" {
			b.Errorf("who left, on record: %+v", d)
		}
		if took := time.Since(begin); took != 40*time.Second {
			b.Errorf("robots.txt and page came after %v, want 40 s", took)
		}
		_, err := fetch(politeness.WithCall(b.Context(), &politeness.Call{Until: ends}), b.client, "https://example.com/")
		failed(b.T, err, context.Canceled)
		if took := time.Since(begin); took != 40*time.Second {
			b.Errorf("after the crawl's end it waited for %v", took-40*time.Second)
		}
	})
}

// refusesStarts is a limiter whose turns come, and may not be started any more.
type refusesStarts struct{ hostlimit.Limiter }

type leaseWithoutStart struct{ hostlimit.Lease }

func (l refusesStarts) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	lease, err := l.Limiter.Acquire(ctx, key, floor)
	return leaseWithoutStart{lease}, err
}

func (leaseWithoutStart) Start(context.Context) (hostlimit.Grant, error) {
	return hostlimit.Grant{}, &hostlimit.Error{Err: hostlimit.ErrBlocked}
}

// TestAStartThatIsRefusedIsOneRefusal: one record, and the turn is given back.
func TestAStartThatIsRefusedIsOneRefusal(t *testing.T) {
	virtually(t, politeness.Config{Limiter: refusesStarts{limiter(t, hostlimit.Config{Concurrency: 1})}, DangerouslyIgnoreRobots: true}, func(b *bubble) {
		for range 2 {
			b.log.Reset()
			_, err := b.get("https://example.com/")
			refused(b.T, err, politeness.StageTurn, politeness.ErrBlocked)
			b.one(evidence.SlotTimeout)
			if d := b.log.Decisions(evidence.Started, evidence.Failed); len(d) != 0 || len(b.asked()) != 0 || b.elapsed() != 0 {
				b.Errorf("after %v, beside the refusal: %+v", b.elapsed(), d)
			}
		}
	})
}
