package promises_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

func TestPipelineOrderIsBudgetRobotsTurnSendLearnHandOver(t *testing.T) {
	cfg := politeness.Config{Budget: budget.New(budget.Limits{Pages: 1, WarnAt: 0.8})}
	virtually(t, cfg, func(b *bubble) {
		b.site.Robots("User-agent: *\nAllow: /public\nCrawl-delay: 2\n").Page("/public", "hello")
		b.mustGet("https://example.com/public", 200)
		want := "policy started fetched robots_fetched robots_allowed budget_warning waiting started fetched"
		if got := b.types(); got != want {
			b.Errorf("records\n%s, want\n%s", got, want)
		}
		_, err := b.get("https://example.com/public")
		refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
		if got := b.types(); got != want+" budget_exceeded" {
			b.Errorf("records\n%s, want\n%s", got, want+" budget_exceeded")
		}
		started := b.log.Decisions(evidence.Started)[1]
		if started.Slot != 1 || started.Slots != 2 || started.WaitDelay <= 0 || started.Delay < 2*time.Second || started.Seq != 2 {
			b.Errorf("turn: %+v", started)
		}
		for _, d := range b.log.Decisions(evidence.Started, evidence.Fetched) {
			if d.Attempt != 1 {
				b.Errorf("attempt %d: %+v", d.Attempt, d)
			}
		}
		if fetched := b.log.Decisions(evidence.Fetched)[1]; fetched.Bytes != 5 || fetched.Status != 200 || fetched.Trip != started.Trip {
			b.Errorf("exchange: %+v", fetched)
		}
	})
}

func TestDisallowedURLTakesNoSlotNoPageNoWait(t *testing.T) {
	spent := budget.New(budget.Limits{Pages: 10})
	virtually(t, politeness.Config{Budget: spent}, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /private\nCrawl-delay: 60\n").Page("/private", "secret")
		_, err := b.t.Check(b.Context(), "https://example.com/")
		if err != nil {
			b.Fatal(err)
		}
		before := time.Now()
		for range 5 {
			_, err := b.get("https://example.com/private")
			e := refused(b.T, err, politeness.StageRobots, politeness.ErrDisallowed)
			if !strings.Contains(e.Error(), "Disallow: /private") || !strings.Contains(e.Error(), "line 2") {
				b.Errorf("error doesn't name the rule and its line: %v", e)
			}
		}
		if waited := time.Since(before); waited != 0 {
			b.Errorf("waited %v", waited)
		}
		if u, _ := spent.Usage(b.Context()); u.Pages != 0 {
			b.Errorf("%d pages spent", u.Pages)
		}
		if got := b.asked(); len(got) != 1 {
			b.Errorf("asked for %q, want robots.txt only", got)
		}
		if d := b.log.Decisions(evidence.BlockedByRobots)[0]; d.Allowed || d.MatchedRule != "Disallow: /private" || d.Line != 2 {
			b.Errorf("record %+v", d)
		}
	})
}

func TestRedirectToDisallowedPathIsRefusedAtTheHop(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /private\n").Handle("/go", http.RedirectHandler("/private", http.StatusFound))
		b.site.Page("/private", "secret")
		_, err := b.get("https://example.com/go")
		refused(b.T, err, politeness.StageRobots, politeness.ErrDisallowed)
		for _, url := range b.asked() {
			if strings.HasSuffix(url, "/private") {
				b.Errorf("%s was fetched", url)
			}
		}
	})
}

func TestRedirectsAcrossHostsAreCheckedAndPacedAtEachHost(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 3\n").Handle("/go", http.RedirectHandler("https://other.example/b", http.StatusFound))
		other := b.web.Site("https://other.example")
		other.Robots("User-agent: *\nCrawl-delay: 5\nDisallow: /no\n").Handle("/b", http.RedirectHandler("/c", http.StatusFound)).Page("/c", "here")
		b.site.Handle("/no", http.RedirectHandler("https://other.example/no", http.StatusFound))
		b.mustGet("https://example.com/go", 200)
		_, err := b.get("https://example.com/no")
		refused(b.T, err, politeness.StageRobots, politeness.ErrDisallowed)
		if v := b.web.Violations(politenesstest.Rules{Agent: "AuditBot"}); len(v) > 0 {
			b.Errorf("violations: %v", v)
		}
		want := "https://example.com/robots.txt https://example.com/go https://other.example/robots.txt https://other.example/b https://other.example/c https://example.com/no"
		if got := strings.Join(b.asked(), " "); got != want {
			b.Errorf("asked\n%s, want\n%s", got, want)
		}
	})
}

func TestChainOfHopsIsOnePage(t *testing.T) {
	spent := budget.New(budget.Limits{Pages: 1})
	virtually(t, politeness.Config{Budget: spent}, func(b *bubble) {
		b.site.Handle("/1", http.RedirectHandler("/2", http.StatusFound)).Handle("/2", http.RedirectHandler("/3", http.StatusFound)).Page("/3", "here")
		b.mustGet("https://example.com/1", 200)
		if u, _ := spent.Usage(b.Context()); u.Pages != 1 {
			b.Errorf("%d pages spent, want 1", u.Pages)
		}
		last := b.log.Decisions(evidence.Fetched)
		if d := last[len(last)-1]; d.Redirects != 2 || !strings.HasSuffix(d.URL, "/3") {
			b.Errorf("last record %+v, want 2 redirects to /3", d)
		}
		_, err := b.get("https://example.com/3")
		refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)

		silent, err := politeness.New(politeness.Config{UserAgent: agent, Base: b.web, Budget: budget.New(budget.Limits{Pages: 1})})
		if err != nil {
			b.Fatal(err)
		}
		if status, err := fetch(b.Context(), &http.Client{Transport: silent}, "https://example.com/1"); err != nil || status != 200 {
			b.Errorf("without evidence: status %d, %v", status, err)
		}
		recording, err := politeness.New(politeness.Config{UserAgent: agent, Base: b.web, Evidence: b.log})
		if err != nil {
			b.Fatal(err)
		}
		if status, err := fetch(b.Context(), &http.Client{Transport: recording}, "https://example.com/1"); err != nil || status != 200 {
			b.Errorf("without a budget: status %d, %v", status, err)
		}
		if d := b.last(evidence.Fetched); d.Redirects != 2 {
			b.Errorf("last record without a budget %+v, want 2 redirects", d)
		}
	})
}

func TestDefaultIsTwoPerHost200To500msApartAndSlotTimeoutEndsAWait(t *testing.T) {
	virtually(t, politeness.Config{Hosts: hostlimit.Config{SlotTimeout: 10 * time.Second}}, func(b *bubble) {
		b.site.Handle("/", slow(time.Minute))
		if _, err := b.t.Check(b.Context(), "https://example.com/"); err != nil {
			b.Fatal(err)
		}
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() { b.mustGet("https://example.com/", 200) })
		}
		time.Sleep(2 * time.Second)
		asked := time.Now()
		_, err := b.get("https://example.com/")
		e := refused(b.T, err, politeness.StageTurn, politeness.ErrBusy)
		if waited := time.Since(asked); waited != 10*time.Second {
			b.Errorf("refused after %v, want 10s", waited)
		}
		if !strings.Contains(err.Error(), "timeout waiting for host concurrency slot") || !e.Timeout() {
			b.Errorf("error %v, Timeout %t", err, e.Timeout())
		}
		var te interface{ Timeout() bool }
		if !errors.As(err, &te) || !te.Timeout() {
			b.Error("http.Client's error doesn't report the timeout")
		}
		group.Wait()
		b.one(evidence.SlotTimeout)
		r := b.web.Requests()
		if gap := r[2].Start.Sub(r[1].Start); gap < 200*time.Millisecond || gap > 500*time.Millisecond {
			b.Errorf("gap %v, want 200 to 500 ms", gap)
		}
	})
}

func TestCrawlDelayHoldsFromAnyNumberOfGoroutines(t *testing.T) {
	for _, goroutines := range []int{1, 2, 10, 200} {
		t.Run(fmt.Sprint(goroutines), func(t *testing.T) {
			virtually(t, politeness.Config{}, func(b *bubble) {
				b.site.Robots("User-agent: *\nCrawl-delay: 2\n").Latency(300 * time.Millisecond)
				pages := max(10, goroutines)
				for i := range pages {
					b.site.Page(fmt.Sprintf("/%d", i), "page")
				}
				var group sync.WaitGroup
				var next atomic.Int64
				for range goroutines {
					group.Go(func() {
						for i := next.Add(1); int(i) <= pages; i = next.Add(1) {
							b.mustGet(fmt.Sprintf("https://example.com/%d", i-1), 200)
						}
					})
				}
				group.Wait()
				if v := b.web.Violations(politenesstest.Rules{Delay: 2 * time.Second, Concurrency: 2, Agent: "AuditBot"}); len(v) > 0 {
					b.Fatalf("%d violations, the first: %v", len(v), v[0])
				}
				if took, least := b.elapsed(), time.Duration(pages-1)*2*time.Second; took < least {
					b.Errorf("%d pages took %v, want at least %v", pages, took, least)
				}
			})
		})
	}
}

func TestOne429HoldsAllRequestsOfTheHost(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Handle("/busy", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		b.site.Page("/a", "a").Page("/b", "b").Page("/c", "c")
		b.web.Site("https://other.example").Page("/", "other")
		if _, err := b.t.Check(b.Context(), "https://example.com/"); err != nil {
			b.Fatal(err)
		}
		var group sync.WaitGroup
		group.Go(func() { b.mustGet("https://example.com/busy", 429) }) // the response is handed over as it is
		synctest.Wait()
		for _, path := range []string{"/a", "/b", "/c"} {
			group.Go(func() { b.mustGet("https://example.com"+path, 200) })
		}
		synctest.Wait()
		b.mustGet("https://other.example/", 200) // isn't held
		if since := b.elapsed(); since > time.Second {
			b.Errorf("the other host waited for %v", since)
		}
		group.Wait()
		var refusedAt time.Time
		for _, r := range b.web.Requests() {
			if strings.HasSuffix(r.URL, "/busy") {
				refusedAt = r.End
			}
		}
		for _, r := range b.web.Requests() {
			if strings.HasPrefix(r.URL, "https://example.com/") && r.Start.After(refusedAt) && r.Start.Sub(refusedAt) < 3*time.Second {
				b.Errorf("%s started %v after the 429", r.URL, r.Start.Sub(refusedAt))
			}
		}
		if v := b.web.Violations(politenesstest.Rules{Concurrency: 2}); len(v) > 0 {
			b.Errorf("violations: %v", v)
		}
		if d := b.one(evidence.HostBlocked); d.Status != 429 || d.Until.Sub(refusedAt) != 3*time.Second {
			b.Errorf("record %+v", d)
		}
		b.one(evidence.HostCleared)
	})
}

func TestRobots404AllowsAll(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Page("/any", "page")
		b.mustGet("https://example.com/any", 200)
	})
}

func TestRobots503DeniesForFiveMinutesThenIsAskedAgain(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Page("/", "page").Sequence("/robots.txt", 503, 200)
		for range 3 {
			_, err := b.get("https://example.com/")
			e := refused(b.T, err, politeness.StageRobots, politeness.ErrDisallowed)
			if in := e.RetryAt.Sub(b.began).Round(time.Second); in != 5*time.Minute {
				b.Errorf("RetryAt in %v, want 5 min", in)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(90 * time.Second)
		if _, err := b.get("https://example.com/"); err == nil {
			b.Error("fetched before the 5 minutes were over")
		}
		time.Sleep(time.Minute)
		b.mustGet("https://example.com/", 200)
		if got := b.asked(); len(got) != 3 {
			b.Errorf("asked for %q, want robots.txt twice and the page", got)
		}
		b.one(evidence.RobotsUnreachable)
		if d := b.log.Decisions(evidence.BlockedByRobots); len(d) != 4 || d[0].RetryAt.Sub(b.began).Round(time.Second) != 5*time.Minute || d[0].Reason == "" {
			b.Errorf("denials on record: %+v", d)
		}
	})
}

func TestGroupOfTheProductTokenDecidesNotTheStar(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /\n\nUser-agent: auditbot\nDisallow: /private\n").Page("/", "page").Page("/private", "no")
		b.mustGet("https://example.com/", 200)
		_, err := b.get("https://example.com/private")
		refused(b.T, err, politeness.StageRobots, politeness.ErrDisallowed)
	})
}

func TestEvidenceIsTheJSONOfTheAuditWorld(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nAllow: /public\nDisallow: /page/private\nCrawl-delay: 2\n").Page("/public/1", "page")
		b.mustGet("https://user:secret@example.com/public/1", 200)
		text, err := json.Marshal(b.one(evidence.RobotsAllowed))
		if err != nil {
			b.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(text, &got); err != nil {
			b.Fatal(err)
		}
		for key, want := range map[string]any{
			"type": "robots_allowed", "url": "https://example.com/public/1", "host": "example.com", "allowed": true,
			"matchedRule": "Allow: /public", "line": 2.0, "crawlDelay": 2.0,
		} {
			if got[key] != want {
				b.Errorf("%s: %v, want %v in %s", key, got[key], want, text)
			}
		}
		if _, err := time.Parse(time.RFC3339, fmt.Sprint(got["timestamp"])); err != nil {
			b.Error(err)
		}
	})
}

// TestEvidenceSaysWhereAnAnswerHasNoDate: without one, nobody can compare the clocks.
func TestEvidenceSaysWhereAnAnswerHasNoDate(t *testing.T) {
	virtually(t, politeness.Config{DangerouslyIgnoreRobots: true}, func(b *bubble) {
		const date = "Mon, 02 Nov 2026 00:00:00 GMT"
		b.site.Handle("/dated", politenesstest.Status(http.StatusOK, "Date", date)).Handle("/undated", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header()["Date"] = nil })).
			Handle("/gone", politenesstest.Drop())
		b.mustGet("https://example.com/dated", http.StatusOK)
		if d := b.last(evidence.Fetched); d.NoDate || d.ServerDate != date {
			b.Errorf("with a date: %+v", d)
		}
		b.mustGet("https://example.com/undated", http.StatusOK)
		if d := b.last(evidence.Fetched); !d.NoDate || d.ServerDate != "" {
			b.Errorf("without: %+v", d)
		}
		if _, err := b.get("https://example.com/gone"); err == nil {
			b.Error("no error")
		}
		if d := b.last(evidence.Failed); d.NoDate {
			b.Errorf("without a response: %+v", d)
		}
	})
}

func TestRobotsFetchCarriesNoCredentialsAndCostsNoBudget(t *testing.T) {
	spent := budget.New(budget.Limits{Pages: 1})
	virtually(t, politeness.Config{Budget: spent}, func(b *bubble) {
		b.site.Robots("User-agent: *\nAllow: /\n").Page("/", "page")
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "https://user:secret@example.com/", nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{"Authorization", "Cookie", "Referer"} {
			req.Header.Set(name, "secret")
		}
		resp, err := b.client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
		r := b.web.Requests()[0]
		for name, values := range r.Header {
			if strings.Contains(strings.Join(values, ""), "secret") {
				b.Errorf("robots.txt was fetched with %s: %s", name, values)
			}
		}
		if r.Header.Get("User-Agent") != agent {
			b.Errorf("robots.txt was fetched as %q", r.Header.Get("User-Agent"))
		}
	})
}

func TestSlotIsHeldUntilTheBodyEnds(t *testing.T) {
	for _, end := range []struct {
		name string
		do   func(io.ReadCloser)
	}{
		{"read to EOF", func(body io.ReadCloser) { _, _ = io.Copy(io.Discard, body) }},
		{"closed", func(body io.ReadCloser) { body.Close() }},
		{"closed twice", func(body io.ReadCloser) { body.Close(); body.Close() }},
	} {
		t.Run(end.name, func(t *testing.T) {
			virtually(t, politeness.Config{Limiter: limiter(t, hostlimit.Config{Concurrency: 1, SlotTimeout: 10 * time.Second})}, func(b *bubble) {
				b.site.Page("/", "page")
				resp, err := b.client.Get("https://example.com/")
				if err != nil {
					b.Fatal(err)
				}
				if _, err := b.get("https://example.com/"); !errors.Is(err, politeness.ErrBusy) {
					b.Fatalf("with the body open: %v, want ErrBusy", err)
				}
				end.do(resp.Body)
				b.mustGet("https://example.com/", 200)
			})
		})
	}
}

// A basePanicsOnce panics at its first request.
type basePanicsOnce struct {
	http.RoundTripper
	calls atomic.Int64
}

func (p *basePanicsOnce) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.calls.Add(1) == 1 {
		panic("base")
	}
	return p.RoundTripper.RoundTrip(req)
}

func TestPanicInBaseGivesTheSlotBack(t *testing.T) {
	for _, ignored := range []bool{true, false} { // with robots.txt, its fetch is what panics
		synctest.Test(t, func(t *testing.T) {
			web, log := politenesstest.NewWeb(), &evidence.Recorder{}
			web.Site("https://example.com").Page("/", "page")
			tr := mustNew(t, politeness.Config{
				UserAgent: agent, Base: &basePanicsOnce{RoundTripper: web}, Evidence: log,
				DangerouslyIgnoreRobots: ignored, Limiter: limiter(t, hostlimit.Config{Concurrency: 1}),
			})
			client := &http.Client{Transport: tr}
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic didn't reach the caller")
					}
				}()
				_, _ = fetch(t.Context(), client, "https://example.com/")
			}()
			if status, err := fetch(t.Context(), client, "https://example.com/"); err != nil || status != 200 {
				t.Errorf("after the panic: status %d, %v", status, err)
			}
			// The start that led to nothing is on record, and has an end.
			started, failed := log.Decisions(evidence.Started), log.Decisions(evidence.Failed)
			if len(failed) != 1 || failed[0].Seq != 1 || !failed[0].Start.Equal(started[0].Start) || failed[0].Reason == "" || failed[0].RobotsTxt == ignored {
				t.Errorf("on record: %+v, %+v", started, failed)
			}
		})
	}
}

func TestCancelledWaiterGivesItsPageBack(t *testing.T) {
	spent := budget.New(budget.Limits{Pages: 2})
	virtually(t, politeness.Config{Budget: spent}, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 10\n").Page("/", "page")
		ctx, cancel := context.WithCancel(b.Context())
		time.AfterFunc(3*time.Second, cancel)
		_, err := fetch(ctx, b.client, "https://example.com/")
		failed(b.T, err, context.Canceled)
		if u, _ := spent.Usage(b.Context()); u.Pages != 0 {
			b.Errorf("%d pages spent", u.Pages)
		}
		b.mustGet("https://example.com/", 200)
	})
}

func TestWaitPastTheDeadlineFailsEarlyAndTyped(t *testing.T) {
	virtually(t, politeness.Config{Timeouts: politeness.FromCall}, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 60\n").Page("/", "page")
		b.mustGet("https://example.com/", 200)
		b.client.Timeout = 5 * time.Second
		asked := time.Now()
		_, err := b.get("https://example.com/")
		e := refused(b.T, err, politeness.StageTurn, context.DeadlineExceeded)
		if !errors.Is(err, politeness.ErrBusy) || !e.Timeout() {
			b.Errorf("error %v", err)
		}
		if waited := time.Since(asked); waited != 0 {
			b.Errorf("failed after %v, want at once", waited)
		}
		if in := e.RetryAt.Sub(asked); in < 59*time.Second || in > time.Minute {
			b.Errorf("RetryAt in %v", in)
		}
	})
}

func TestNewReportsAllProblemsAtOnce(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  politeness.Config
		want []string
	}{
		{"no User-Agent", politeness.Config{}, []string{"UserAgent"}},
		{"no contact", politeness.Config{UserAgent: "AuditBot/1.0"}, []string{"UserAgent", "contact"}},
		{"no product", politeness.Config{UserAgent: "(bot@example.com)"}, []string{"UserAgent", "product"}},
		{"line break", politeness.Config{UserAgent: agent + "\r\nX: y"}, []string{"UserAgent", "control"}},
		{
			"everything",
			politeness.Config{
				From:  "nobody",
				Retry: politeness.Retry{Max: -1},
				Response: politeness.ResponseLimits{
					MaxBytes: -1, Accept: []string{"text", "/html", "text/*", "text/"}, Reject: []string{"*/html", "a b/c", "a/b/c"},
				},
				Budget: budget.New(budget.Limits{Pages: -1, Duration: -1}),
			},
			[]string{
				"Config.UserAgent", "Config.From", "Config.Retry", "Max", "Config.Response", "MaxBytes", "Accept[0]", "Accept[1]", "Accept[3]",
				"Reject[0]", "Reject[1]", "Reject[2]",
				"Config.Budget", "Pages", "Duration",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := politeness.New(test.cfg)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error doesn't name %s:\n%v", want, err)
				}
			}
		})
	}
}

// One request finds robots.txt out of date and asks again; the others queue by
// the old copy. None of them may start against the new one.
func TestNoPageFetchedThatTheRulesInForceAtItsStartDisallow(t *testing.T) {
	for name, change := range map[string]func(*politenesstest.Site){
		"disallowed":    func(s *politenesstest.Site) { s.Robots("User-agent: *\nDisallow: /private\n") },
		"unreachable":   func(s *politenesstest.Site) { s.RobotsStatus(503) },
		"longer delay":  func(s *politenesstest.Site) { s.Robots("User-agent: *\nCrawl-delay: 30\n") },
		"closed":        func(s *politenesstest.Site) { s.Robots("User-agent: *\nVisit-time: 0300-0400\n") },
		"shorter delay": func(s *politenesstest.Site) { s.Robots("User-agent: *\nAllow: /\n") },
		"the same":      func(s *politenesstest.Site) { s.Robots("User-agent: *\nCrawl-delay: 1\n# since 2026\n") },
	} {
		t.Run(name, func(t *testing.T) {
			spent := budget.New(budget.Limits{Pages: 100})
			virtually(t, politeness.Config{Budget: spent}, func(b *bubble) {
				b.site.Robots("User-agent: *\nCrawl-delay: 1\n").Latency(100*time.Millisecond).Page("/0", "0").Page("/private", "secret").Page("/1", "1")
				b.mustGet("https://example.com/0", 200)
				change(b.site)
				time.Sleep(61 * time.Minute)
				var group sync.WaitGroup
				group.Go(func() { _, _ = b.get("https://example.com/1") })
				time.Sleep(time.Millisecond)
				for range 3 {
					group.Go(func() { _, _ = b.get("https://example.com/private") })
				}
				group.Wait()
				if v := b.web.Violations(politenesstest.Rules{Concurrency: 2}); len(v) > 0 {
					b.Errorf("%d violations, the first: %v", len(v), v[0])
				}
				// Who has a turn gives it back only where the new robots.txt asks for more.
				for _, url := range b.asked()[3:] {
					if name == "closed" && strings.HasSuffix(url, "/private") {
						b.Errorf("%s was asked for outside of the Visit-time", url)
					}
				}
				for _, d := range b.log.Decisions(evidence.Failed) {
					if name == "shorter delay" || name == "the same" || d.Reason != "robots.txt changed during the wait" {
						b.Errorf("given up: %+v", d)
					}
				}
				sent := int64(0)
				for _, url := range b.asked() {
					if !strings.HasSuffix(url, "/robots.txt") {
						sent++
					}
				}
				if u, _ := spent.Usage(b.Context()); u.Pages != sent {
					b.Errorf("%d pages spent, %d sent", u.Pages, sent)
				}
			})
		})
	}
}

func TestSlowSinkBringsNoTwoSendsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		site := web.Site("https://example.com").Latency(50 * time.Millisecond)
		var records atomic.Int64
		tr, err := politeness.New(politeness.Config{
			UserAgent: agent, Base: web,
			Evidence: evidence.Func(func(context.Context, evidence.Decision) {
				if records.Add(1)%3 == 0 {
					time.Sleep(time.Duration(records.Load()) * 7 * time.Millisecond)
				}
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: tr}
		var group sync.WaitGroup
		for i := range 40 {
			site.Page(fmt.Sprintf("/%d", i), "page")
			group.Go(func() { _, _ = fetch(t.Context(), client, fmt.Sprintf("https://example.com/%d", i)) })
		}
		group.Wait()
		if v := web.Violations(politenesstest.Rules{Delay: 200 * time.Millisecond, Concurrency: 2}); len(v) > 0 {
			t.Errorf("%d violations, the first: %v", len(v), v[0])
		}
	})
}
