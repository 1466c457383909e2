package politeness_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
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
		sink := evidence.JSONLines(&log, evidence.Chained())
		hosts, err := hostlimit.New(hostlimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		tr, err := politeness.New(politeness.Config{
			UserAgent: agent, Base: web, Evidence: sink, Hosts: hosts,
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
	report, err := evidence.Audit(strings.NewReader(log))
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
	report, err := evidence.Audit(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Violations) == 0 {
		t.Errorf("not found:\n%s", report)
	}
}
