package promises_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/hostlimit/sitekey"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// TestPolicyOpensTheLog: it says what was promised, defaults included, before any other record, and
// every record names the Transport; what moved the host stands in fetched.
func TestPolicyOpensTheLog(t *testing.T) {
	cfg := politeness.Config{
		Hosts: hostlimit.Config{
			Concurrency: 3, Backoff: backoff.Refusals{Statuses: []int{403, 520, 521, 522}, InARow: 4},
			Override: func(key string) (hostlimit.Limits, bool) { return hostlimit.Limits{Concurrency: 1}, true },
		},
		Spend: budget.Limits{Pages: 7},
	}
	virtually(t, cfg, func(b *bubble) {
		b.site.Handle("/busy", politenesstest.Status(429, "Retry-After", "9"))
		b.mustGet("https://example.com/busy", 429)
		all := b.log.Decisions()
		p := all[0].Policy
		if all[0].Type != evidence.PolicyStated || p == nil || len(p.ID) != 11 || len(p.Limiter) != 16 {
			b.Fatalf("%+v", all[0])
		}
		want := evidence.Policy{
			ID: p.ID, Limiter: p.Limiter, UserAgent: agent, Product: "AuditBot", Slots: 3, PerSite: 16, SiteList: sitekey.List(), DelayMin: 200 * time.Millisecond, DelayMax: 500 * time.Millisecond, Adaptive: "Learned",
			Ceiling: time.Minute, Overrides: true, LeaseTTL: 5 * time.Minute, Upgrades: 16, MaxWait: time.Hour, HostKey: "host", Backoff: "fibonacci",
			BackoffStep: time.Second, BackoffCap: 10 * time.Minute, Statuses: "403,520-522", InARow: 4, MaxRetryAfter: 24 * time.Hour,
			Forgive: 30 * time.Minute, Robots: "obeyed", RobotsTTL: time.Hour, DenyTTL: 5 * time.Minute, Unreachable: "deny", Pages: 7,
		}
		if *p != want {
			b.Errorf("\n got %+v\nwant %+v", *p, want)
		}
		own := 0
		for _, d := range all {
			if d.Transport != p.ID[:6] {
				b.Errorf("%s by %q", d.Type, d.Transport)
			}
			if d.Type == evidence.PolicyStated && d.Host == "example.com" && d.Policy.Slots == 1 && d.Seq == 1 {
				own++
			}
		}
		if own != 1 {
			b.Errorf("the host's own limits are on record %d times", own)
		}
		if fetched := b.log.Decisions(evidence.Fetched); fetched[len(fetched)-1].RetryAfter != "9" {
			b.Errorf("%+v", fetched)
		}
	})
}

// A siteless limiter doesn't know PerSite, as one of a user's own.
type siteless struct{ *memory.Limiter }

func (siteless) Config() hostlimit.Config { return hostlimit.Config{} }

// TestPolicyPromisesSitesOfWhoBoundsThem: a Limiter that says nothing of PerSite bounds no site.
func TestPolicyPromisesSitesOfWhoBoundsThem(t *testing.T) {
	limiter, err := memory.New(hostlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limiter hostlimit.Limiter
		perSite int
	}{{nil, 16}, {limiter, 16}, {siteless{limiter}, 0}} {
		log := &evidence.Recorder{}
		cfg := politeness.Config{UserAgent: agent, Limiter: c.limiter, Evidence: log, Base: politenesstest.NewWeb()}
		_, _ = mustNew(t, cfg).RoundTrip(httptest.NewRequest(http.MethodPost, "https://example.com/", http.NoBody))
		p := log.Decisions(evidence.PolicyStated)[0].Policy
		if p.PerSite != c.perSite || (p.SiteList != "") != (c.perSite > 0) {
			t.Errorf("%T: %d in flight on a site, by the list %q, want %d", c.limiter, p.PerSite, p.SiteList, c.perSite)
		}
	}
}

// TestPolicyStatesWhatIsConfigured: no default where something else holds.
func TestPolicyStatesWhatIsConfigured(t *testing.T) {
	refusals := &backoff.Refusals{
		Policy:   backoff.Doubling{Start: time.Minute, Cap: time.Hour, Jitter: [2]float64{0.1, 0.2}},
		Statuses: []int{520, 403, 520, 404, 521, 999}, Network: true, AtLeast: true, InARow: 9, MaxRetryAfter: time.Hour, Forgive: time.Minute,
	}
	cfg := politeness.Config{
		UserAgent: agent, From: "bot@example.com", HostKey: politeness.BySite, Purposes: []robots.Purpose{robots.Train, robots.Search},
		Refuse: politeness.Anonymous, IsRefusal: func(*http.Response) error { return nil }, Retry: politeness.Retry{Max: 4},
		Robots: robotscache.Config{
			TTL: time.Minute, DenyTTL: 2 * time.Minute, OnUnreachable: robotscache.Allow, ServeStale: true, AgentPatterns: true, LenientAgents: true, RecordText: true,
		},
		Hosts: hostlimit.Config{
			Concurrency: 1, MaxInFlight: 8, PerSite: 5, SlotTimeout: 3 * time.Second, LeaseTTL: 4 * time.Second, MaxWait: 5 * time.Second, Backoff: refusals,
			Delay: hostlimit.Delay{Min: 2 * time.Minute, Max: 3 * time.Minute, Adaptive: hostlimit.Fixed, FromEnd: true},
		},
		Spend: budget.Limits{Pages: 1, PagesPerHost: 2, Bytes: 3, Duration: time.Second}, Upgrades: 7, Streams: 8,
	}
	states := func(cfg politeness.Config) evidence.Policy {
		t.Helper()
		log := &evidence.Recorder{}
		cfg.Evidence, cfg.Base = log, politenesstest.NewWeb()
		_, _ = mustNew(t, cfg).RoundTrip(httptest.NewRequest(http.MethodPost, "https://example.com/", http.NoBody))
		p := *log.Decisions(evidence.PolicyStated)[0].Policy
		p.ID, p.Limiter = "", ""
		return p
	}
	want := evidence.Policy{
		UserAgent: agent, From: "bot@example.com", Product: "AuditBot", HostKey: "site", Purposes: "train, search", OwnRules: true, OwnRefused: true,
		Slots: 1, MaxInFlight: 8, PerSite: 5, SiteList: sitekey.List(), SlotTimeout: 3 * time.Second, LeaseTTL: 4 * time.Second, MaxWait: 5 * time.Second,
		DelayMin: 2 * time.Minute, DelayMax: 3 * time.Minute, Adaptive: "Fixed", Ceiling: 2 * time.Minute, FromEnd: true,
		Backoff: "doubling", BackoffStep: time.Minute, BackoffCap: time.Hour, JitterMin: 0.1, JitterMax: 0.2,
		Statuses: "403-404,520-521,999", Network: true, AtLeast: true, InARow: 9, MaxRetryAfter: time.Hour, Forgive: time.Minute,
		Pages: 1, PagesPerHost: 2, Bytes: 3, MaxTime: time.Second, Retries: 4, Upgrades: 7, Streams: 8,
		Robots: "obeyed", RobotsTTL: time.Minute, DenyTTL: 2 * time.Minute, Unreachable: "allow", ServeStale: true, Lenient: true, Patterns: true, RobotsText: true,
	}
	if got := states(cfg); got != want {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}

	cfg.Hosts.PerSite = -1 // no bound, so no promise
	want.PerSite = 0
	want.SiteList = ""
	cfg.DangerouslyIgnoreRobots, cfg.HostKey = true, func(*http.Request) string { return "all" }
	cfg.Hosts.Delay, cfg.Hosts.Backoff = hostlimit.Delay{DangerouslyNone: true}, backoff.Doubling{}
	want.Robots, want.RobotsTTL, want.DenyTTL, want.Unreachable, want.ServeStale, want.Lenient, want.Patterns, want.RobotsText = "ignored", 0, 0, "", false, false, false, false
	want.HostKey, want.DelayMin, want.DelayMax, want.Adaptive, want.Ceiling, want.FromEnd = "own", 0, 0, "Learned", time.Minute, false
	want.BackoffStep, want.BackoffCap, want.JitterMin, want.JitterMax = 15*time.Minute, 24*time.Hour, 0, 0
	want.Statuses, want.Network, want.AtLeast, want.InARow, want.MaxRetryAfter, want.Forgive = "", false, false, 5, 24*time.Hour, 30*time.Minute
	if got := states(cfg); got != want {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	cfg.Hosts.Backoff = anHour{}
	if got := states(cfg); got.Backoff != "own" || got.BackoffStep != 0 {
		t.Errorf("%+v", got)
	}
	cfg.Hosts.Backoff = backoff.Fibonacci{}
	if got := states(cfg); got.Backoff != "fibonacci" || got.BackoffStep != time.Second || got.BackoffCap != 10*time.Minute {
		t.Errorf("%+v", got)
	}
}

// anHour is a policy of somebody's own.
type anHour struct{}

func (anHour) Delay(int) time.Duration { return time.Hour }

// TestOwnLimitsOfAHostAreOnRecordWhereTheyChange, and not again at each start.
func TestOwnLimitsOfAHostAreOnRecordWhereTheyChange(t *testing.T) {
	own, limited := hostlimit.Limits{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Second}}, false
	cfg := politeness.Config{DangerouslyIgnoreRobots: true, Hosts: hostlimit.Config{
		Concurrency: 3, Override: func(string) (hostlimit.Limits, bool) { return own, limited },
	}}
	virtually(t, cfg, func(b *bubble) {
		b.site.Page("/", "page")
		b.web.Site("https://other.example").Page("/", "page")
		for _, now := range []int{0, 1, 1, 2, 2, 0, 0} {
			own.Concurrency, limited = now, now > 0
			b.mustGet("https://example.com/", 200)
			b.mustGet("https://other.example/", 200)
		}
		var told []string
		for _, d := range b.log.Decisions(evidence.PolicyStated)[1:] {
			told = append(told, fmt.Sprintf("%s %d: %d slots, %v", d.Host, d.Seq, d.Policy.Slots, d.Policy.DelayMin))
		}
		want := []string{
			"example.com 2: 1 slots, 1s", "other.example 2: 1 slots, 1s", "example.com 4: 2 slots, 1s", "other.example 4: 2 slots, 1s",
			"example.com 6: 3 slots, 200ms", "other.example 6: 3 slots, 200ms",
		}
		if !slices.Equal(told, want) {
			b.Errorf("told %q, want %q", told, want)
		}
	})
}

// TestNothingIsRecordedBeforeThePolicy, also where the sink takes its time and requests begin at once.
func TestNothingIsRecordedBeforeThePolicy(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		var mu sync.Mutex
		var types []evidence.Type
		client := &http.Client{Transport: mustNew(b.T, politeness.Config{
			UserAgent: agent, Base: b.web, DangerouslyIgnoreRobots: true,
			Evidence: evidence.Func(func(_ context.Context, d evidence.Decision) {
				if d.Type == evidence.PolicyStated {
					time.Sleep(time.Second)
				}
				mu.Lock()
				defer mu.Unlock()
				types = append(types, d.Type)
			}),
		})}
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() { _, _ = fetch(b.Context(), client, fmt.Sprintf("https://%d.example/", i)) })
		}
		wg.Wait()
		if len(types) < 4 || types[0] != evidence.PolicyStated || slices.Contains(types[1:], evidence.PolicyStated) {
			b.Errorf("recorded %v", types)
		}
	})
}
