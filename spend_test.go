package politeness_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
)

// A budget shared by several Transports is one budget, and exact under 1,000 goroutines.
func TestBudgetSharedByTransportsIsExactUnder1000Goroutines(t *testing.T) {
	const limit, goroutines = 250, 1000
	virtually(t, politeness.Config{}, func(b *bubble) {
		spent := budget.New(budget.Limits{Pages: limit, PagesPerHost: 200, WarnAt: 0.8})
		var clients [4]*http.Client
		for i := range clients {
			hosts, err := hostlimit.New(hostlimit.Config{Concurrency: 1000, Delay: hostlimit.Delay{DangerouslyNone: true}})
			if err != nil {
				b.Fatal(err)
			}
			tr, err := politeness.New(politeness.Config{UserAgent: agent, Base: b.web, Hosts: hosts, Budget: spent, Evidence: b.log})
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
		hosts, err := hostlimit.New(hostlimit.Config{MaxWait: 2 * time.Second})
		if err != nil {
			b.Fatal(err)
		}
		tr, err := politeness.New(politeness.Config{UserAgent: agent, Base: b.web, Hosts: hosts, Budget: spent})
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
		"tried": func(l hostlimit.Limiter) hostlimit.Limiter { return l.(*lazyLimiter).memory() },
		"asked": func(l hostlimit.Limiter) hostlimit.Limiter { return opaque{l} },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, politeness.Config{}, func(b *bubble) {
				spent := budget.New(budget.Limits{Pages: 10, Duration: 100 * time.Second})
				tr, err := politeness.New(politeness.Config{
					UserAgent: agent, Base: b.web, Budget: spent, Evidence: b.log,
					Hosts: wrap(limiter(b.T, hostlimit.Config{Delay: hostlimit.Delay{Min: 40 * time.Second}})),
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
