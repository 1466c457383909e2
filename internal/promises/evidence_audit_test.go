package promises_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// crawlLog crawls a web with everything in it that a log can hold, and returns the log.
func crawlLog(t *testing.T) string {
	t.Helper()
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		for i := range 5 {
			site := web.Site(fmt.Sprintf("https://%d.example", i))
			site.Robots("User-agent: *\nDisallow: /private\nCrawl-delay: 1\n").Latency(700 * time.Millisecond)
			site.Page("/a", "a").Page("/b", "b").Sequence("/flaky", 500, 200).Handle("/go", http.RedirectHandler("/a", http.StatusFound))
			site.Handle("/trap", http.RedirectHandler("/private", http.StatusFound))
		}
		web.Site("https://3.example").Handle("/busy", politenesstest.InTurn(politenesstest.Status(429, "Retry-After", "20"), politenesstest.Text("ok")))
		web.Site("https://4.example").RobotsStatus(503)
		sink := logtest.New(t, &log, evidence.LogConfig{Chained: true})
		hosts, err := memory.New(hostlimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		tr, err := politeness.New(politeness.Config{
			UserAgent: agent, Base: web, Evidence: sink, Limiter: hosts,
			Robots: robotscache.Config{RecordText: true},
			Retry:  politeness.Retry{Max: 2},
			Budget: budget.New(budget.Limits{Pages: 25, WarnAt: 0.5}),
		})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: tr}
		_, _ = fetch(t.Context(), client, "https://3.example/busy") // 429, and 200 later
		var group sync.WaitGroup
		for i := range 5 {
			for _, path := range []string{"/a", "/private", "/busy", "/flaky", "/go", "/trap", "/b", "/a?x=1"} {
				group.Go(func() {
					_, _ = fetch(t.Context(), client, fmt.Sprintf("https://%d.example%s", i, path))
				})
			}
		}
		group.Wait()
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
		if v := web.Violations(politenesstest.Rules{Concurrency: 2}); len(v) > 0 {
			t.Errorf("violations on the web: %v", v)
		}
	})
	return log.String()
}

func TestLogOfACrawlProvesItself(t *testing.T) {
	log := crawlLog(t)
	report, err := audit.Check(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Violations) > 0 {
		t.Errorf("violations in an honest log: %v\n%s", report.Violations, report)
	}
	for _, typ := range []evidence.Type{
		evidence.RobotsAllowed, evidence.BlockedByRobots, evidence.RobotsFetched, evidence.RobotsUnreachable, evidence.Started,
		evidence.Fetched, evidence.Retried, evidence.HostBlocked, evidence.HostCleared, evidence.BudgetWarning, evidence.BudgetExceeded,
	} {
		if !strings.Contains(log, `"type":"`+string(typ)+`"`) {
			t.Errorf("the crawl made no %s", typ)
		}
	}
}

func TestFlippedVerdictIsFoundByTheRobotsTextInTheLog(t *testing.T) {
	lines := strings.Split(crawlLog(t), "\n")
	for i, line := range lines {
		// Without the chain, so that only what is said gives it away.
		line, _, _ = strings.Cut(line, `,"chain"`)
		if strings.Contains(line, `"blocked_by_robots"`) && strings.Contains(line, "Disallow: /private") {
			line = strings.NewReplacer(`"blocked_by_robots"`, `"robots_allowed"`, `"allowed":false`, `"allowed":true`, "Disallow: /private", "", `"line":2,`, "").Replace(line)
		}
		lines[i] = line
	}
	report, err := audit.Check(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Violations) == 0 {
		t.Errorf("not found:\n%s", report)
	}
}

// A limiter that learnsLate takes its time to learn from an answer.
type learnsLate struct{ *memory.Limiter }

type leaseLearnsLate struct{ hostlimit.Lease }

func (l learnsLate) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	lease, err := l.Limiter.Acquire(ctx, key, floor)
	if err != nil {
		return nil, err
	}
	return leaseLearnsLate{lease}, nil
}

func (l leaseLearnsLate) Observe(o hostlimit.Outcome) hostlimit.Effect {
	time.Sleep(time.Second)
	return l.Lease.Observe(o)
}

// Whoever starts between an answer and the block that it sets hasn't started into it.
func TestStartJustBeforeABlockIsNoViolation(t *testing.T) {
	for _, status := range []int{429, 302} {
		t.Run(fmt.Sprint(status), func(t *testing.T) { startJustBeforeABlock(t, status) })
	}
}

func startJustBeforeABlock(t *testing.T, status int) {
	var log bytes.Buffer
	virtually(t, politeness.Config{}, func(b *bubble) {
		sink := evidence.JSONLines(&log)
		hosts, err := memory.New(hostlimit.Config{
			Delay: hostlimit.Delay{Min: 500 * time.Millisecond}, Backoff: backoff.Refusals{Statuses: []int{302}},
		})
		if err != nil {
			b.Fatal(err)
		}
		b.client.Transport = mustNew(b.T, politeness.Config{
			UserAgent: agent, Base: b.web, Evidence: sink, Limiter: learnsLate{hosts}, DangerouslyIgnoreRobots: true,
		})
		b.site.Handle("/", politenesstest.InTurn(politenesstest.Status(status, "Retry-After", "60"), politenesstest.Text("page")))
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() { _, _ = b.get("https://example.com/") })
		}
		group.Wait()
		if err := sink.Close(); err != nil {
			b.Fatal(err)
		}
	})
	report, err := audit.Check(&log)
	if err != nil || !report.OK() || report.Hosts[0].Blocks == 0 {
		t.Errorf("%v, %v", report, err)
	}
}

// proof crawls virtually with an evidence log and returns what the audit says of it.
func proof(t *testing.T, crawl func(b *bubble, cfg politeness.Config)) *audit.Report {
	t.Helper()
	var log bytes.Buffer
	virtually(t, politeness.Config{}, func(b *bubble) {
		sink := evidence.JSONLines(&log)
		crawl(b, politeness.Config{UserAgent: agent, Base: b.web, Evidence: sink, Robots: robotscache.Config{RecordText: true}})
		if err := sink.Close(); err != nil {
			b.Fatal(err)
		}
	})
	report, err := audit.Check(&log)
	if err != nil || !report.OK() {
		t.Errorf("%v, %v", report.Violations, err)
	}
	return report
}

func TestVerdictOfALenientGroupIsNoViolation(t *testing.T) {
	report := proof(t, func(b *bubble, cfg politeness.Config) {
		b.site.Robots("User-agent: Audit*\nDisallow: /private\n")
		cfg.Robots.LenientAgents = true
		b.client.Transport = mustNew(b.T, cfg)
		if _, err := b.get("https://example.com/private"); err == nil {
			b.Error("the group doesn't hold")
		}
	})
	if report.Promise("verdicts right").Proved != 1 || report.Promise("verdicts right").Open != 0 {
		t.Errorf("%+v", report.Promises)
	}
}

// A crawler of patterns alone obeys no group that names it in part.
func TestVerdictOfAPatternIsNoViolation(t *testing.T) {
	report := proof(t, func(b *bubble, cfg politeness.Config) {
		b.site.Robots("User-agent: Audit\nDisallow: /\n\nUser-agent: Audit*\nDisallow: /private\n").Page("/", "page")
		cfg.Robots.AgentPatterns = true
		b.client.Transport = mustNew(b.T, cfg)
		b.mustGet("https://example.com/", 200)
		if _, err := b.get("https://example.com/private"); err == nil {
			b.Error("the pattern doesn't hold")
		}
		b.web.Site("https://part.example").Robots("User-agent: Audit\nDisallow: /\n").Page("/", "page")
		b.mustGet("https://part.example/", 200)
	})
	if report.Promise("verdicts right").Proved != 3 || report.Promise("verdicts right").Open != 0 {
		t.Errorf("%+v", report.Promises)
	}
}

func TestVerdictOnAURLInAURLIsNoViolation(t *testing.T) {
	proof(t, func(b *bubble, cfg politeness.Config) {
		b.site.Robots("User-agent: *\nDisallow: /*@\n")
		b.client.Transport = mustNew(b.T, cfg)
		if _, err := b.get("https://example.com/go?u=https://me@b.example/"); err == nil {
			b.Error("the rule doesn't hold")
		}
	})
}

func TestVerdictOnAnInternationalHostIsDecidedAgain(t *testing.T) {
	report := proof(t, func(b *bubble, cfg politeness.Config) {
		b.web.Site("https://müller.example").Robots("User-agent: *\nDisallow: /private\n").Page("/", "")
		b.client.Transport = mustNew(b.T, cfg)
		for _, host := range []string{"müller.example", "xn--mller-kva.example."} {
			if _, err := b.get("https://" + host + "/private"); err == nil {
				b.Error(host + ": the rule doesn't hold")
			}
		}
	})
	if report.Promise("verdicts right").Proved != 2 || report.Promise("verdicts right").Open != 0 {
		t.Errorf("%+v", report.Promises)
	}
}

// Each of several Transports goes on with the robots.txt that it has until that is out
// of date, however often others have fetched it since.
func TestRobotsTxtThatChangesUnderSeveralTransportsIsNoViolation(t *testing.T) {
	for n := 1; n <= 4; n++ {
		proof(t, func(b *bubble, cfg politeness.Config) {
			b.site.Robots("User-agent: *\nAllow: /\n").Page("/x", "")
			hosts, err := memory.New(hostlimit.Config{})
			if err != nil {
				b.Fatal(err)
			}
			cfg.Limiter = hosts
			began := time.Now()
			at := func(minute int) { time.Sleep(time.Until(began.Add(time.Duration(minute) * time.Minute))) }
			transports := make([]*politeness.Transport, n)
			for i := range transports {
				transports[i] = mustNew(b.T, cfg)
				at(10 * i)
				_, _ = fetch(b.Context(), &http.Client{Transport: transports[i]}, "https://example.com/x")
			}
			at(55)
			b.site.Robots("User-agent: *\nDisallow: /x\n")
			for i, tr := range transports[:n-1] {
				at(61 + 10*i)
				_, _ = fetch(b.Context(), &http.Client{Transport: tr}, "https://example.com/x")
			}
			// The last one's copy is an hour old at the minute 60+10(n-1).
			_, _ = fetch(b.Context(), &http.Client{Transport: transports[n-1]}, "https://example.com/x")
		})
	}
}

// Transports number their trips each by itself.
func TestCrawlersOfSeveralNamesInOneLogAreToldApart(t *testing.T) {
	proof(t, func(b *bubble, cfg politeness.Config) {
		b.site.Robots("User-agent: OtherBot\nDisallow: /\n").Page("/x", "").Latency(time.Second)
		hosts, err := memory.New(hostlimit.Config{})
		if err != nil {
			b.Fatal(err)
		}
		cfg.Limiter = hosts
		var group sync.WaitGroup
		for _, name := range []string{agent, "OtherBot/1.0 (+https://example.com/bot; bot@example.com)"} {
			cfg.UserAgent = name
			client := &http.Client{Transport: mustNew(b.T, cfg)}
			group.Go(func() {
				for range 3 {
					_, _ = fetch(b.Context(), client, "https://example.com/x")
					time.Sleep(10 * time.Second)
				}
			})
		}
		group.Wait()
	})
}

// Who finds a longer crawl-delay after the wait gives the turn back, and hasn't broken it.
func TestTurnGivenBackForALongerCrawlDelayIsNoViolation(t *testing.T) {
	given := 0
	for range 20 { // who comes first is up to the scheduler
		given += turnsGivenBack(t)
	}
	if given == 0 {
		t.Error("no turn was given back")
	}
}

func turnsGivenBack(t *testing.T) (given int) {
	t.Helper()
	proof(t, func(b *bubble, cfg politeness.Config) {
		b.site.Robots("").Page("/x", "").Latency(3 * time.Second)
		hosts, err := memory.New(hostlimit.Config{Concurrency: 9, Delay: hostlimit.Delay{Min: time.Second, Max: time.Second}})
		if err != nil {
			b.Fatal(err)
		}
		var kept evidence.Recorder
		cfg.Limiter, cfg.Robots.TTL, cfg.Evidence = hosts, 5*time.Minute, evidence.Multi(cfg.Evidence, &kept)
		b.client.Transport = mustNew(b.T, cfg)
		_, _ = b.get("https://example.com/x")
		time.Sleep(6 * time.Minute)
		b.site.Robots("User-agent: *\nCrawl-delay: 60\n")
		var group sync.WaitGroup
		for range 12 {
			group.Go(func() { _, _ = b.get("https://example.com/x") })
		}
		group.Wait()
		for _, d := range kept.Decisions(evidence.Failed) {
			if d.Reason == "robots.txt changed during the wait" {
				given++
			}
		}
	})
	return given
}
