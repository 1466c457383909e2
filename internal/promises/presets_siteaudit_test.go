package promises_test

// The acceptance tests of SiteAudit, a site audit with proof, in the words of its
// owner's description.

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/politenesstest"
)

func siteAudit() politeness.Config { return politeness.SiteAudit(agent) }

// everywhere answers every path.
func everywhere(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "page") }

// Budget 200 pages, with a warning before the end.
func TestSiteAuditBudgetIs200PagesWithAWarningBeforeTheEnd(t *testing.T) {
	acceptance(t, siteAudit, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(everywhere))
		var group sync.WaitGroup
		refusals := make([]int, 20)
		for i := range refusals {
			group.Go(func() {
				for page := range 15 { // 300 in all
					_, err := b.get(fmt.Sprintf("https://example.com/%d/%d", i, page))
					if errors.Is(err, politeness.ErrBusy) {
						b.Errorf("a slot was waited for in vain: %v", err)
					}
					if errors.Is(err, politeness.ErrBudget) {
						refusals[i]++
					}
				}
			})
		}
		group.Wait()
		if n := len(b.starts()); n != 200 {
			b.Errorf("%d pages fetched, want 200", n)
		}
		refused := 0
		for _, n := range refusals {
			refused += n
		}
		if refused != 100 {
			b.Errorf("%d refusals, want 100", refused)
		}
		warning := b.one(evidence.BudgetWarning)
		if warning.Limit != budget.Pages || warning.Used != 160 || warning.Max != 200 {
			b.Errorf("warning %+v, want one at 160 of 200 pages", warning)
		}
		if d := b.log.Decisions(evidence.BudgetExceeded)[0]; d.Limit != budget.Pages || d.Used != 200 || d.Max != 200 {
			b.Errorf("record %+v", d)
		}
		b.web.Check(b, politenesstest.Rules{Delay: 200 * time.Millisecond, Concurrency: 2})
	})
}

// Budget 60 minutes, with a warning before the end.
func TestSiteAuditBudgetIs60MinutesWithAWarningBeforeTheEnd(t *testing.T) {
	acceptance(t, siteAudit, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 60\n").Handle("/", http.HandlerFunc(everywhere))
		var err error
		for i := 0; err == nil; i++ {
			_, err = b.get(fmt.Sprintf("https://example.com/%d", i))
		}
		refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
		starts := b.starts()
		if took := starts[len(starts)-1].Sub(starts[0]); !within(took, 58*time.Minute, 60*time.Minute-1) {
			b.Errorf("the last page started %v after the first, want just under 60 minutes", took)
		}
		warning := b.one(evidence.BudgetWarning)
		if warning.Limit != budget.Time || warning.Used != 48*60 || warning.Max != 60*60 {
			b.Errorf("warning %+v, want one at 48 of 60 minutes", warning)
		}
		if d := b.one(evidence.BudgetExceeded); d.Limit != budget.Time {
			b.Errorf("record %+v", d)
		}
	})
}

// MAX_PAGES, MAX_SCAN_TIME_MINUTES, USER_AGENT from the environment.
func TestSiteAuditReadsItsBudgetAndItsNameFromTheEnvironment(t *testing.T) {
	const name = "EnvAudit/2.0 (audit@example.org)"
	setenv(t, map[string]string{"MAX_PAGES": "3", "MAX_SCAN_TIME_MINUTES": "5", "USER_AGENT": name})
	fromEnv := func() politeness.Config {
		c, err := siteAudit().WithEnv()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	acceptance(t, fromEnv, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(everywhere))
		for i := range 3 {
			b.mustGet(fmt.Sprintf("https://example.com/%d", i), 200)
		}
		_, err := b.get("https://example.com/4")
		refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
		for _, r := range b.web.Requests() {
			if r.Header.Get("User-Agent") != name {
				b.Errorf("%s was asked for as %q", r.URL, r.Header.Get("User-Agent"))
			}
		}
		b.one(evidence.BudgetWarning) // the warning stays
	})
	acceptance(t, fromEnv, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 140\n").Handle("/", http.HandlerFunc(everywhere))
		b.mustGet("https://example.com/1", 200)
		b.mustGet("https://example.com/2", 200)
		_, err := b.get("https://example.com/3")
		refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
	})
}

// 2 per host, slot timeout 10 s.
func TestSiteAuditTakesTwoPerHostAndWaits10sForASlot(t *testing.T) {
	acceptance(t, siteAudit, func(b *bubble) {
		b.site.Handle("/slow", slow(30*time.Second)).Page("/other", "page")
		b.web.Site("https://other.example").Page("/", "page")
		b.know()
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() { b.mustGet("https://example.com/slow", 200) })
		}
		time.Sleep(2 * time.Second)
		asked := time.Now()
		_, err := b.get("https://example.com/other")
		refused(b.T, err, politeness.StageTurn, politeness.ErrBusy)
		if waited := time.Since(asked); waited != 10*time.Second {
			b.Errorf("gave up after %v, want 10 s", waited)
		}
		if d := b.one(evidence.SlotTimeout); !strings.HasPrefix(d.Reason, "timeout waiting for host concurrency slot") || d.RetryAt.IsZero() {
			b.Errorf("record %+v", d)
		}
		b.mustGet("https://other.example/", 200) // another host has slots of its own
		group.Wait()
		b.mustGet("https://example.com/other", 200)
	})
}

// Slots that expire after 300 s.
func TestSiteAuditSlotsExpireAfter300s(t *testing.T) {
	acceptance(t, siteAudit, func(b *bubble) {
		b.site.Page("/", "page")
		b.know()
		forgotten := make([]*http.Response, 2)
		for i := range forgotten {
			resp, err := b.client.Get("https://example.com/")
			if err != nil {
				b.Fatal(err)
			}
			forgotten[i] = resp // nobody closes its body for now
		}
		taken := time.Now()
		time.Sleep(298 * time.Second)
		b.mustGet("https://example.com/", 200) // waits for less than 10 s
		if held := time.Since(taken); !within(held, 299*time.Second, 301*time.Second) {
			b.Errorf("the first slot was taken back after %v, want 300 s", held)
		}
		if n := len(b.log.Decisions(evidence.LeaseExpired)); n == 0 {
			b.Errorf("nobody was told: %s", b.types())
		}
		b.log.Reset()
		for _, resp := range forgotten {
			resp.Body.Close()
		}
		if d := b.one(evidence.LeaseExpired); d.Seq != 2 || !strings.Contains(d.Reason, "LeaseTTL") { // nobody wanted the other slot
			b.Errorf("the end of a body that is late, on record: %+v", d)
		}
	})
}

// Random delay of 200 to 500 ms ...
func TestSiteAuditDelayIsRandomFrom200To500ms(t *testing.T) {
	acceptance(t, siteAudit, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(everywhere))
		for i := range 180 {
			b.mustGet(fmt.Sprintf("https://example.com/%d", i), 200)
		}
		gaps := b.gaps()
		for _, gap := range gaps {
			if !within(gap, 200*time.Millisecond, 500*time.Millisecond) {
				b.Fatalf("a gap of %v", gap)
			}
		}
		// 180 draws leave a tenth of the range empty at either end once in 80 million runs.
		if least, most := slices.Min(gaps), slices.Max(gaps); least > 230*time.Millisecond || most < 470*time.Millisecond {
			b.Errorf("gaps of %v to %v only: not random over 200 to 500 ms", least, most)
		}
	})
}

// ... or the robots crawl-delay.
func TestSiteAuditDelayIsTheCrawlDelayOfRobots(t *testing.T) {
	acceptance(t, siteAudit, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 2\n").Handle("/", http.HandlerFunc(everywhere))
		for i := range 10 {
			b.mustGet(fmt.Sprintf("https://example.com/%d", i), 200)
		}
		for i, gap := range b.gaps() {
			if gap != 2*time.Second {
				b.Errorf("gap %d is %v, want 2 s", i, gap)
			}
		}
	})
}

// Evidence robots_allowed or blocked_by_robots with matched rule, crawl-delay, timestamp.
func TestSiteAuditEvidenceHasMatchedRuleCrawlDelayAndTimestamp(t *testing.T) {
	acceptance(t, siteAudit, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /admin\nAllow: /admin/help\nCrawl-delay: 1.5\n").Page("/admin/help", "help")
		b.mustGet("https://example.com/admin/help", 200)
		_, err := b.get("https://example.com/admin/users")
		refused(b.T, err, politeness.StageRobots, politeness.ErrDisallowed)
		for _, test := range []struct {
			record  evidence.Decision
			allowed bool
			rule    string
		}{
			{b.one(evidence.RobotsAllowed), true, "Allow: /admin/help"},
			{b.one(evidence.BlockedByRobots), false, "Disallow: /admin"},
		} {
			d := test.record
			if d.Allowed != test.allowed || d.MatchedRule != test.rule || d.CrawlDelay != 1500*time.Millisecond || d.Confidence != "" {
				b.Errorf("record %+v, want %q", d, test.rule)
			}
			if d.Time.Before(b.began) || d.Time.After(time.Now()) {
				b.Errorf("%s is stamped %v", d.Type, d.Time)
			}
		}
	})
}

// robots unreachable: allowed, recorded with low confidence.
func TestSiteAuditRobotsUnreachableIsAllowedWithLowConfidence(t *testing.T) {
	for name, breakRobots := range map[string]func(*politenesstest.Site){
		"503":           func(s *politenesstest.Site) { s.RobotsStatus(503) },
		"429":           func(s *politenesstest.Site) { s.RobotsStatus(429) },
		"network error": func(s *politenesstest.Site) { s.Handle("/robots.txt", politenesstest.Drop()) },
	} {
		t.Run(name, func(t *testing.T) {
			acceptance(t, siteAudit, func(b *bubble) {
				breakRobots(b.site)
				b.site.Page("/page", "page")
				b.mustGet("https://example.com/page", 200)
				if d := b.one(evidence.RobotsAllowed); !d.Allowed || d.Confidence != "low" || d.Reason == "" {
					b.Errorf("record %+v, want low confidence and a reason", d)
				}
				b.one(evidence.RobotsUnreachable)
			})
		})
	}
	acceptance(t, siteAudit, func(b *bubble) {
		b.site.Down(syscall.ECONNREFUSED)
		_, err := b.get("https://example.com/page")
		failed(b.T, err, syscall.ECONNREFUSED)
	})
}

// URL discovery: robots parsed with the crawler's own agent, falling back to `*`;
// sitemap URLs filtered: of /, /page, /admin, /api/users under Disallow: /admin,
// Disallow: /api the first two remain.
func TestSiteAuditDiscoveryFiltersSitemapURLs(t *testing.T) {
	const rules = "Disallow: /admin\nDisallow: /api\nSitemap: https://example.com/sitemap.xml\n"
	sitemap := []string{"https://example.com/", "https://example.com/page", "https://example.com/admin", "https://example.com/api/users"}
	for name, robots := range map[string]string{
		"falling back to *": "User-agent: *\n" + rules,
		"its own agent":     "User-agent: *\nDisallow: /\n\nUser-agent: AuditBot\n" + rules,
		"others' groups":    "User-agent: OtherBot\nDisallow: /\n\nUser-agent: *\n" + rules,
	} {
		t.Run(name, func(t *testing.T) {
			acceptance(t, siteAudit, func(b *bubble) {
				b.site.Robots(robots)
				sitemaps, err := b.t.Sitemaps(b.Context(), "https://example.com/")
				if err != nil || !slices.Equal(sitemaps, []string{"https://example.com/sitemap.xml"}) {
					b.Errorf("sitemaps %q, %v", sitemaps, err)
				}
				got, err := b.t.Filter(b.Context(), sitemap)
				if err != nil || !slices.Equal(got, sitemap[:2]) {
					b.Errorf("remaining: %q, %v; want %q", got, err, sitemap[:2])
				}
				if n := len(b.log.Decisions(evidence.BlockedByRobots)); n != 2 {
					b.Errorf("%d records blocked_by_robots, want 2", n)
				}
				if got := b.asked(); len(got) != 1 {
					b.Errorf("asked for %q, want robots.txt once", got)
				}
			})
		})
	}
}

// The flow of a fetch: budget, slot 1/2, delay, robots, evidence, fetch, slot back.
func TestSiteAuditSlotsAreNumberedAndGivenBack(t *testing.T) {
	acceptance(t, siteAudit, func(b *bubble) {
		b.site.Handle("/", slow(2*time.Second))
		b.know()
		var group sync.WaitGroup
		for i := range 6 {
			group.Go(func() { b.mustGet(fmt.Sprintf("https://example.com/%d", i), 200) })
		}
		group.Wait()
		var slots []string
		for _, d := range b.log.Decisions(evidence.Started) {
			if !d.RobotsTxt {
				slots = append(slots, fmt.Sprintf("%d/%d", d.Slot, d.Slots))
			}
		}
		if got := strings.Join(slots[:2], " "); got != "1/2 2/2" || slices.Contains(slots, "3/2") {
			b.Errorf("slots %q", slots)
		}
		b.web.Check(b, politenesstest.Rules{Concurrency: 2, Delay: 200 * time.Millisecond})
	})
}

// Agents match partially both ways: exact, the User-Agent holds the rule's name, the rule's name holds
// ours, then *.
func TestSiteAuditAgentsMatchPartiallyBothWays(t *testing.T) {
	const others = "User-agent: OtherBot\nDisallow: /\n"
	groups := []struct{ agent, path string }{{"auditbot", "/exact"}, {"Audit", "/part"}, {"AuditBot-Images", "/whole"}, {"*", "/star"}}
	for i, want := range groups { // each is the best of what follows it
		acceptance(t, siteAudit, func(b *bubble) {
			robots := others
			for _, g := range slices.Backward(groups[i:]) {
				robots += "User-agent: " + g.agent + "\nDisallow: " + g.path + "\n"
			}
			b.site.Robots(robots).Handle("/", http.HandlerFunc(everywhere))
			for _, g := range groups {
				v, err := b.t.Check(b.Context(), "https://example.com"+g.path)
				if err != nil || v.Allowed != (g.path != want.path) || v.Group != want.agent {
					b.Errorf("%s of\n%s: %+v, %v; want what the group %s says", g.path, robots, v, err, want.agent)
				}
			}
		})
	}
}
