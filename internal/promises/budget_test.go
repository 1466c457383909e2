package promises_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
)

// A budget shared by several Transports is one budget, and exact under 1,000 goroutines.
func TestBudgetSharedByTransportsIsExactUnder1000Goroutines(t *testing.T) {
	const limit, goroutines = 250, 1000
	virtually(t, politeness.Config{}, func(b *bubble) {
		spent := budget.New(budget.Limits{Pages: limit, PagesPerHost: 200, WarnAt: 0.8})
		var clients [4]*http.Client
		for i := range clients {
			hosts, err := memory.New(hostlimit.Config{Concurrency: 1000, Delay: hostlimit.Delay{DangerouslyNone: true}})
			if err != nil {
				b.Fatal(err)
			}
			tr, err := politeness.New(politeness.Config{UserAgent: agent, Base: b.web, Limiter: hosts, Budget: spent, Evidence: b.log})
			if err != nil {
				b.Fatal(err)
			}
			clients[i] = &http.Client{Transport: tr}
		}
		b.web.Site("https://other.example").Handle("/", http.HandlerFunc(everywhere))
		b.site.Handle("/", http.HandlerFunc(everywhere))
		var fetched, refusals atomic.Int64
		var group sync.WaitGroup
		for i := range goroutines {
			group.Go(func() {
				origin := "https://example.com"
				if i%2 == 1 {
					origin = "https://other.example"
				}
				switch _, err := fetch(b.Context(), clients[i%len(clients)], fmt.Sprintf("%s/%d", origin, i)); {
				case err == nil:
					fetched.Add(1)
				case errors.Is(err, politeness.ErrBudget):
					refusals.Add(1)
				default:
					b.Error(err)
				}
			})
		}
		group.Wait()
		if fetched.Load() != limit || refusals.Load() != goroutines-limit {
			b.Errorf("%d fetched and %d refused, want %d and %d", fetched.Load(), refusals.Load(), limit, goroutines-limit)
		}
		perHost := make(map[string]int)
		for _, r := range b.web.Requests() {
			if !strings.HasSuffix(r.URL, "/robots.txt") {
				perHost[r.URL[:len("https://example.com")]]++
			}
		}
		for host, n := range perHost {
			if n > 200 {
				b.Errorf("%s: %d pages, want 200 at most", host, n)
			}
		}
		warned := 0
		for _, d := range b.log.Decisions(evidence.BudgetWarning) {
			if d.Limit == budget.Pages {
				warned++
			}
		}
		if warned != 1 {
			b.Errorf("%d warnings of the pages, want one", warned)
		}
	})
}

// The error says who, what, and how much.
func TestBudgetErrorSaysWhoWhatAndHowMuch(t *testing.T) {
	virtually(t, politeness.Config{Budget: budget.New(budget.Limits{PagesPerHost: 1})}, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(everywhere))
		b.mustGet("https://example.com/1", 200)
		_, err := b.get("https://example.com/2")
		e := refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
		var be *budget.Error
		if !errors.As(err, &be) || be.Limit != budget.PagesPerHost || be.Host != "example.com" || be.Used != 1 || be.Max != 1 || be.Over() != 1 {
			b.Errorf("error %+v", be)
		}
		for _, want := range []string{"example.com", "pages of example.com", "1 of 1", "1 over"} {
			if !strings.Contains(e.Error(), want) {
				b.Errorf("%q doesn't say %q", e.Error(), want)
			}
		}
		b.web.Site("https://other.example").Handle("/", http.HandlerFunc(everywhere))
		b.mustGet("https://other.example/", 200)
	})
}

// A wait that is cancelled, a disallowed URL and a request that was refused for its
// turn cost no page.
func TestOnlyWhatIsSentCostsAPage(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		spent := budget.New(budget.Limits{Pages: 1})
		hosts, err := memory.New(hostlimit.Config{MaxWait: 2 * time.Second})
		if err != nil {
			b.Fatal(err)
		}
		tr, err := politeness.New(politeness.Config{UserAgent: agent, Base: b.web, Limiter: hosts, Budget: spent})
		if err != nil {
			b.Fatal(err)
		}
		b.client.Transport = tr
		b.site.Robots("User-agent: *\nDisallow: /no\nCrawl-delay: 10\n").Page("/", "page")
		_, err = b.get("https://example.com/no")
		refused(b.T, err, politeness.StageRobots, politeness.ErrDisallowed)
		_, err = b.get("https://example.com/") // robots.txt was a start
		refused(b.T, err, politeness.StageTurn, politeness.ErrBusy)
		if u, _ := spent.Usage(b.Context()); u.Pages != 0 {
			b.Errorf("%d pages spent on nothing", u.Pages)
		}
		time.Sleep(10 * time.Second)
		b.mustGet("https://example.com/", 200)
		if u, _ := spent.Usage(b.Context()); u.Pages != 1 {
			b.Errorf("%d pages spent, want 1", u.Pages)
		}
	})
}

// A wait that would outlast the time limit isn't begun and costs no page, a start
// at once is had: by a limiter that can be tried, and by one that can only be asked.
func TestWaitThatOutlastsTheBudgetCostsNoPage(t *testing.T) {
	for name, wrap := range map[string]func(hostlimit.Limiter) hostlimit.Limiter{
		"tried": func(l hostlimit.Limiter) hostlimit.Limiter { return l.(*limiterMadeOnFirstUse).memory() },
		"asked": func(l hostlimit.Limiter) hostlimit.Limiter { return listsNothing{l} },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, politeness.Config{}, func(b *bubble) {
				spent := budget.New(budget.Limits{Pages: 10, Duration: 100 * time.Second})
				tr, err := politeness.New(politeness.Config{
					UserAgent: agent, Base: b.web, Budget: spent, Evidence: b.log,
					Limiter: wrap(limiter(b.T, hostlimit.Config{Delay: hostlimit.Delay{Min: 40 * time.Second}})),
				})
				if err != nil {
					b.Fatal(err)
				}
				b.client.Transport = tr
				b.site.Handle("/", http.HandlerFunc(everywhere))
				b.mustGet("https://example.com/1", 200) // 40 s after robots.txt
				b.mustGet("https://example.com/2", 200) // 80 s into the budget's time
				begin := time.Now()
				_, err = b.get("https://example.com/3") // would start at 120 s
				refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
				if d := time.Since(begin); d != 0 {
					b.Errorf("refused after %v", d)
				}

				ctx, cancel := context.WithCancel(b.Context())
				cancel()
				if _, err := fetch(ctx, b.client, "https://example.com/4"); !errors.Is(err, context.Canceled) {
					b.Errorf("after the caller left: %v", err)
				}
				if u, _ := spent.Usage(b.Context()); u.Pages != 2 {
					b.Errorf("%d pages spent, want 2", u.Pages)
				}
				if n := len(b.log.Decisions(evidence.Started)); n != 3 {
					b.Errorf("%d starts, want robots.txt and two pages", n)
				}
			})
		})
	}
}

// What is refused before it is sent starts no clock.
func TestRefusedRequestStartsNoClock(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		spent := budget.New(budget.Limits{Duration: time.Hour, Pages: 10, WarnAt: 0.1})
		hosts, err := memory.New(hostlimit.Config{})
		if err != nil {
			b.Fatal(err)
		}
		tr := mustNew(b.T, politeness.Config{UserAgent: agent, Base: b.web, Limiter: hosts, Budget: spent, Evidence: b.log, DangerouslyIgnoreRobots: true})
		b.client.Transport = tr
		lease, err := hosts.Acquire(b.Context(), "example.com", 0)
		if err != nil {
			b.Fatal(err)
		}
		lease.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 2 * time.Hour})
		lease.Release()
		_, err = b.get("https://example.com/")
		refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
		if u, _ := spent.Usage(b.Context()); !u.Started.IsZero() {
			b.Errorf("the clock runs: %+v", u)
		}
		if n := len(b.log.Decisions(evidence.BudgetWarning)); n != 0 {
			b.Errorf("%d warnings for nothing", n)
		}
	})
}

// A hop is part of its navigation once; who sends it again pays for it.
func TestHopThatIsSentAgainIsAPage(t *testing.T) {
	virtually(t, politeness.Config{Budget: budget.New(budget.Limits{Pages: 2})}, func(b *bubble) {
		b.site.Handle("/go", http.RedirectHandler("/end", http.StatusFound)).Page("/end", "page")
		resp, err := b.client.Get("https://example.com/go")
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
		for i := range 3 {
			again, err := b.client.Do(resp.Request.Clone(b.Context()))
			if i == 0 && err != nil {
				b.Fatalf("the second page: %v", err)
			}
			if i == 0 {
				again.Body.Close()
				continue
			}
			refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
		}
	})
}

// The bytes may be spent while a request waits for its slot, or by its own first try.
func TestNothingIsSentAfterTheBytesAreSpent(t *testing.T) {
	virtually(t, politeness.Config{Budget: budget.New(budget.Limits{Bytes: 100}), Limiter: limiter(t, hostlimit.Config{Concurrency: 1})}, func(b *bubble) {
		b.site.Page("/a", strings.Repeat("x", 200)).Page("/b", "b").Page("/robots.txt", "")
		resp, err := b.client.Get("https://example.com/a")
		if err != nil {
			b.Fatal(err)
		}
		waiting := make(chan error)
		go func() {
			_, err := b.get("https://example.com/b")
			waiting <- err
		}()
		time.Sleep(time.Second)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		refused(b.T, <-waiting, politeness.StageBudget, politeness.ErrBudget)
		if left := b.log.Decisions(evidence.Failed); len(left) != 0 {
			b.Errorf("beside the refusal: %+v", left)
		}
	})
	virtually(t, politeness.Config{Budget: budget.New(budget.Limits{Bytes: 10}), Retry: politeness.Retry{Max: 3}}, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, strings.Repeat("x", 100))
		}))
		_, err := b.get("https://example.com/")
		refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
		if n := len(b.asked()); n != 2 {
			b.Errorf("asked %q, want robots.txt and one try", b.asked())
		}
	})
}

// A reader that waits for a slow server has no bytes, and holds none.
func TestReaderThatWaitsHoldsNoBytes(t *testing.T) {
	cfg := politeness.Config{
		Budget:  budget.New(budget.Limits{Bytes: 50_000}),
		Limiter: limiter(t, hostlimit.Config{Concurrency: 10, Delay: hostlimit.Delay{Min: time.Millisecond}}),
	}
	virtually(t, cfg, func(b *bubble) {
		b.site.Handle("/slow", politenesstest.Drip("x", 10, time.Second))
		var group sync.WaitGroup
		for range 8 { // with 32 KiB to read into each
			group.Go(func() {
				if _, err := b.get("https://example.com/slow"); err != nil {
					b.Error(err)
				}
			})
		}
		group.Wait()
	})
}

// robots.txt has to wait for its host too, and nobody waits for it in vain.
func TestWaitForRobotsThatOutlastsTheBudgetIsNotBegun(t *testing.T) {
	cfg := politeness.SiteAudit(agent)
	cfg.HostKey = politeness.BySite
	virtually(t, cfg, func(b *bubble) {
		b.site.Handle("/x", politenesstest.Status(429, "Retry-After", "7200"))
		b.web.Site("https://www.example.com").Page("/", "page")
		b.mustGet("https://example.com/x", 429)
		began := time.Now()
		_, err := b.get("https://www.example.com/")
		refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
		if d := time.Since(began); d != 0 {
			b.Errorf("refused after %v", d)
		}
	})
}

// A budgetThatTakesTime is one on another machine that answers slowly.
type budgetThatTakesTime struct {
	*budget.Memory
	slow bool
}

func (s *budgetThatTakesTime) Check(ctx context.Context, host string, start time.Time) error {
	if s.slow {
		time.Sleep(10 * time.Second)
	}
	return s.Memory.Check(ctx, host, start)
}

// The verdict is found by what holds after the budget has answered.
func TestVerdictComesAfterASlowBudget(t *testing.T) {
	spent := &budgetThatTakesTime{Memory: budget.New(budget.Limits{Pages: 100})}
	virtually(t, politeness.Config{Budget: spent}, func(b *bubble) {
		b.site.Page("/1", "page").Page("/2", "page")
		b.mustGet("https://example.com/1", 200)
		time.Sleep(time.Hour - 5*time.Second) // robots.txt is kept for an hour
		spent.slow = true
		b.mustGet("https://example.com/2", 200)
		if got := b.asked(); len(got) != 4 {
			b.Errorf("asked %q, want robots.txt twice", got)
		}
	})
}

// A hop that was refused before it was sent is still paid for.
func TestHopThatWasRefusedIsStillPaidFor(t *testing.T) {
	cfg := politeness.Config{Budget: budget.New(budget.Limits{Pages: 1}), Limiter: limiter(t, hostlimit.Config{MaxWait: time.Second, Delay: hostlimit.Delay{Min: 5 * time.Second}})}
	virtually(t, cfg, func(b *bubble) {
		b.client.Transport = clientThatComesBack{b.t}
		b.site.Handle("/go", http.RedirectHandler("/end", http.StatusFound)).Page("/end", "page")
		time.Sleep(time.Second)
		b.mustGet("https://example.com/go", 200)
	})
}

// A clientThatComesBack does so when it is told to.
type clientThatComesBack struct{ next http.RoundTripper }

func (p clientThatComesBack) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := p.next.RoundTrip(req)
	var e *politeness.Error
	for errors.As(err, &e) && !e.RetryAt.IsZero() {
		time.Sleep(time.Until(e.RetryAt))
		resp, err = p.next.RoundTrip(req)
	}
	return resp, err
}

// A budget that is renewed each day: the log says so, and is honest.
func TestBudgetIsRenewedEachDay(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		var text bytes.Buffer
		log := evidence.JSONLines(&text)
		tr, err := politeness.New(politeness.Config{
			UserAgent: agent, Base: b.web, Evidence: log, Spend: budget.Limits{Pages: 3, WarnAt: 0.5, Every: 24 * time.Hour},
		})
		if err != nil {
			b.Fatal(err)
		}
		b.site.Handle("/", http.HandlerFunc(everywhere))
		client := &http.Client{Transport: tr}
		for range 3 {
			var fetched, refused int
			for i := range 5 {
				switch _, err := fetch(b.Context(), client, fmt.Sprintf("https://example.com/%d", i)); {
				case err == nil:
					fetched++
				case errors.Is(err, politeness.ErrBudget):
					refused++
				default:
					b.Error(err)
				}
			}
			_, err := fetch(b.Context(), client, "https://example.com/")
			if e, ok := errors.AsType[*politeness.Error](err); !ok || e.RetryAt != time.Now().UTC().Truncate(24*time.Hour).Add(24*time.Hour) {
				b.Errorf("the budget's renewal isn't in %v", err)
			}
			if fetched != 3 || refused != 2 {
				b.Errorf("%d pages a day, %d refused", fetched, refused)
			}
			time.Sleep(24 * time.Hour)
		}
		if err := log.Close(); err != nil {
			b.Fatal(err)
		}
		if !strings.Contains(text.String(), `"max":3,"every":86400`) {
			b.Errorf("no record says that the limit is for a day:\n%s", &text)
		}
		if report, err := audit.Check(&text); err != nil || !report.OK() {
			b.Errorf("%v, %v", report, err)
		}
	})
}

// A budgetElsewhere is on another machine: it gives ten bytes at a time, and can be out of reach.
type budgetElsewhere struct {
	*budget.Memory
	lost error
}

func (e *budgetElsewhere) Check(ctx context.Context, host string, start time.Time) error {
	if e.lost != nil {
		return e.lost
	}
	return e.Memory.Check(ctx, host, start)
}

func (e *budgetElsewhere) Usage(ctx context.Context) (budget.Usage, error) {
	u, _ := e.Memory.Usage(ctx)
	return u, e.lost
}

func (e *budgetElsewhere) TakeBytes(ctx context.Context, n int64) (int64, []budget.Warning, error) {
	return e.Memory.TakeBytes(ctx, min(n, 10))
}

// Bytes that are given in pieces are each taken once; a budget that can't be asked refuses, and its
// reason is on record.
func TestBudgetElsewhere(t *testing.T) {
	spent := &budgetElsewhere{Memory: budget.New(budget.Limits{Bytes: 1000})}
	virtually(t, politeness.Config{Budget: spent, DangerouslyIgnoreRobots: true}, func(b *bubble) {
		b.site.Page("/", strings.Repeat("x", 25))
		b.mustGet("https://example.com/", 200)
		if u, _ := spent.Usage(b.Context()); u.Bytes != 25 {
			b.Errorf("%d bytes spent, want 25", u.Bytes)
		}
		spent.lost = errors.New("connection refused")
		_, err := b.get("https://example.com/")
		refused(b.T, err, politeness.StageBudget, spent.lost)
		if d := b.one(evidence.Failed); d.Err != "connection refused" || d.URL != "https://example.com/" {
			b.Errorf("%+v", d)
		}
		if s := b.t.Status(b.Context()); s.BudgetError != "connection refused" {
			b.Errorf("the status doesn't say it: %q", s.BudgetError)
		}
	})
}

// A budget that somebody makes anew has another end, for whoever comes after the first that learns it.
func TestBudgetThatIsMadeAnew(t *testing.T) {
	limits := budget.Limits{Duration: time.Minute}
	spent := &budgetElsewhere{Memory: budget.New(limits)}
	virtually(t, politeness.Config{Budget: spent, DangerouslyIgnoreRobots: true, Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: 10 * time.Second}}}, func(b *bubble) {
		b.site.Page("/", "page")
		b.mustGet("https://example.com/", 200)
		b.mustGet("https://example.com/", 200)
		time.Sleep(time.Hour)
		spent.Memory = budget.New(limits)
		b.mustGet("https://example.com/", 200) // needn't wait
		_, err := b.get("https://example.com/")
		refused(b.T, err, politeness.StageTurn, politeness.ErrBusy)
		b.mustGet("https://example.com/", 200)
	})
}

// TestAPageIsGivenBackInItsOwnWindowOnly: its request waits across midnight for the end of a block,
// and its caller leaves long after.
func TestAPageIsGivenBackInItsOwnWindowOnly(t *testing.T) {
	b := budget.New(budget.Limits{Pages: 2, Every: 24 * time.Hour})
	cfg := politeness.Config{DangerouslyIgnoreRobots: true, Budget: b, Hosts: hostlimit.Config{MaxWait: 12 * time.Hour}}
	virtually(t, cfg, func(bb *bubble) {
		bb.site.Page("/", "page")
		bb.web.Site("https://busy.example").Handle("/", politenesstest.Status(429, "Retry-After", "25200"))
		time.Sleep(22 * time.Hour)
		if status, err := bb.get("https://busy.example/"); status != 429 {
			bb.Fatal(status, err)
		}
		ctx, leave := context.WithCancel(bb.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = fetch(ctx, bb.client, "https://busy.example/") })
		time.Sleep(3 * time.Hour)
		bb.mustGet("https://example.com/", 200)
		bb.mustGet("https://example.com/", 200)
		time.Sleep(2 * time.Hour)
		leave()
		wg.Wait()
		_, err := bb.get("https://example.com/")
		refused(bb.T, err, politeness.StageBudget, politeness.ErrBudget)
	})
}

// A timedBudget gives no bytes: its own calls take too long.
type timedBudget struct{ *budget.Memory }

func (timedBudget) TakeBytes(context.Context, int64) (int64, []budget.Warning, error) {
	return 0, nil, fmt.Errorf("budget: %w", context.DeadlineExceeded)
}

// TestABudgetThatFailsWhileABodyIsReadIsARefusal, and no caller that left: with and without a
// Timeout of the client.
func TestABudgetThatFailsWhileABodyIsReadIsARefusal(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Hour} {
		cfg := politeness.Config{DangerouslyIgnoreRobots: true, Budget: timedBudget{budget.New(budget.Limits{Bytes: 100})}}
		virtually(t, cfg, func(b *bubble) {
			b.site.Page("/", "page")
			b.client.Timeout = timeout
			_, err := b.get("https://example.com/")
			refused(b.T, err, politeness.StageBody, context.DeadlineExceeded)
		})
	}
}

// A route sends the requests of each host through a Transport of its own.
type route map[string]http.RoundTripper

func (r route) RoundTrip(req *http.Request) (*http.Response, error) {
	return r[req.URL.Host].RoundTrip(req)
}

// TestARedirectFromAnotherBudgetIsAPage: what one budget has paid for is no page of another.
func TestARedirectFromAnotherBudgetIsAPage(t *testing.T) {
	virtually(t, politeness.Config{DangerouslyIgnoreRobots: true, Spend: budget.Limits{Pages: 100}}, func(b *bubble) {
		other := mustNew(b.T, politeness.Config{UserAgent: agent, Base: b.web, DangerouslyIgnoreRobots: true, Spend: budget.Limits{Pages: 1}})
		b.site.Handle("/", http.RedirectHandler("https://other.example/", http.StatusFound))
		b.web.Site("https://other.example").Page("/", "page")
		client := &http.Client{Transport: route{"example.com": b.t, "other.example": other}}
		var pages int
		for range 5 {
			switch _, err := fetch(b.Context(), client, "https://example.com/"); {
			case err == nil:
				pages++
			case !errors.Is(err, politeness.ErrBudget):
				b.Error(err)
			}
		}
		if pages != 1 {
			b.Errorf("%d pages of a budget of 1", pages)
		}
	})
}
