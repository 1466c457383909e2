package robots_test

import (
	"math"
	"testing"
	"time"

	"github.com/go-politeness/politeness/robots"
)

func agentRules(lines string) *robots.Rules {
	return robots.Parse([]byte("User-agent: *\n" + lines + "\nDisallow: /x")).Agent("FooBot")
}

func TestCrawlDelay(t *testing.T) {
	for _, c := range []struct {
		lines string
		want  time.Duration
		ok    bool
	}{
		{"", 0, false},
		{"Crawl-delay: 10", 10 * time.Second, true},
		{"crawl-DELAY:1", time.Second, true},
		{"Crawldelay: 1", time.Second, true},
		{"Crawl-delay 3", 3 * time.Second, true},
		{"Crawl-delay: 0", 0, true},
		{"Crawl-delay: .5", 500 * time.Millisecond, true},
		{"Crawl-delay: 5.", 5 * time.Second, true},
		{"Crawl-delay: 1.25 # s", 1250 * time.Millisecond, true},
		{"Crawl-delay: 0.0000000019", 1, true},
		{"Crawl-delay: 86400", 24 * time.Hour, true},
		{"Crawl-delay: 99999999999999999999999", 100 * 365 * 24 * time.Hour, true},
		{"Crawl-delay: 3153600000.5", 100 * 365 * 24 * time.Hour, true},
		{"Crawl-delay:", 0, false},
		{"Crawl-delay: .", 0, false},
		{"Crawl-delay: -1", 0, false},
		{"Crawl-delay: +1", 0, false},
		{"Crawl-delay: NaN", 0, false},
		{"Crawl-delay: Inf", 0, false},
		{"Crawl-delay: 1e3", 0, false},
		{"Crawl-delay: 0x10", 0, false},
		{"Crawl-delay: 10s", 0, false},
		{"Crawl-delay: 10 s", 0, false},
		{"Crawl-delay: 1,5", 0, false},
		{"Crawl-delay: 1.2.3", 0, false},
		{"Crawl-delay: 2\nCrawl-delay: 5\nCrawl-delay: 1\nCrawl-delay: x", 5 * time.Second, true},
		{"Crawl-delays: 2", 0, false},
	} {
		if got, ok := agentRules(c.lines).CrawlDelay(); got != c.want || ok != c.ok {
			t.Errorf("%q: got %v, %v, want %v, %v", c.lines, got, ok, c.want, c.ok)
		}
	}
}

// The delay is that of the crawler's groups, not of others.
func TestCrawlDelayOfGroups(t *testing.T) {
	body := []byte("Crawl-delay: 99\nUser-agent: *\nCrawl-delay: 10\n\nUser-agent: Late\nCrawl-delay: 2\nDisallow: /x\n\nUser-agent: Other\nDisallow: /\nCrawl-delay: 3\nUser-agent: late\nAllow: /\nCrawl-delay: 4")
	for agent, want := range map[string]time.Duration{
		"FooBot": 10 * time.Second, // shares the rules of Late, and what stands beside them
		"Late":   4 * time.Second,  // the longest of its groups; what was said before it was named isn't meant for it
		"Other":  3 * time.Second,
	} {
		if got, _ := robots.Parse(body).Agent(agent).CrawlDelay(); got != want {
			t.Errorf("%s: got %v, want %v", agent, got, want)
		}
	}
}

// A Crawl-delay closes no group for Google, whose crawlers don't read it. So agents share their
// rules, and none of them waits as another one is asked to.
func TestAnotherAgentsCrawlDelayIsNotOurs(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		body     string
		bot, all time.Duration // of Bot, and of a crawler that isn't named
	}{
		{"User-agent: Bot\nCrawl-delay: 1\nUser-agent: *\nCrawl-delay: 30", 1 * s, 30 * s},
		{"User-agent: *\nCrawl-delay: 30\nUser-agent: Bot\nCrawl-delay: 1", 1 * s, 30 * s},
		{"User-agent: Bot\nCrawl-delay: 1\n\n# all\nUser-agent: *\nCrawl-delay: 30\nDisallow: /x", 1 * s, 30 * s},
		{"User-agent: Bot\n\n# ours\nUser-agent: *\n\n# both\nCrawl-delay: 5", 5 * s, 5 * s},
		{"User-agent: Bot\nUser-agent: *\nDisallow: /x\nCrawl-delay: 5", 5 * s, 5 * s},
		{"User-agent: Bot\nSitemap: /s\nUser-agent: *\nCrawl-delay: 5", 0, 5 * s},
		{"User-agent: Bot\nnonsense\nUser-agent: *\nCrawl-delay: 5", 0, 5 * s},
		{"User-agent: Bot\nCrawl-delay: 2\nDisallow: /x\nCrawl-delay: 7\nUser-agent: *\nCrawl-delay: 5", 7 * s, 5 * s},
		{"User-agent: Bot\nRequest-rate: 1/9\nUser-agent: *\nRequest-rate: 1/60", 9 * s, 60 * s},
	} {
		f := robots.Parse([]byte(c.body))
		now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		if bot, all := f.Agent("Bot").Floor(now), f.Agent("Other").Floor(now); bot != c.bot || all != c.all {
			t.Errorf("%q: Bot %v, others %v; want %v, %v", c.body, bot, all, c.bot, c.all)
		}
	}
	f := robots.Parse([]byte("User-agent: Bot\nVisit-time: 0100-0200\nUser-agent: *\nVisit-time: 0300-0400\nDisallow: /x"))
	if w := f.Agent("Bot").VisitTime(); len(w) != 1 || w[0].From != time.Hour {
		t.Errorf("Bot is to come in %v", w)
	}
	if f.Agent("Bot").Test("/x").Allowed {
		t.Error("Bot shares the rules of the group, as Google reads it")
	}
}

func TestRequestRate(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		lines string
		at    time.Time
		want  time.Duration // Gap; 0: none
	}{
		{"", noon, 0},
		{"Request-rate: 1/5", noon, 5 * time.Second},
		{"Request-rate: 1/5s", noon, 5 * time.Second},
		{"request-rate: 1/10m", noon, 10 * time.Minute},
		{"Request-rate: 30/1h", noon, 2 * time.Minute},
		{"Request-rate: 2/1D", noon, 12 * time.Hour},
		{"Request-rate: 3/10", noon, 10*time.Second/3 + 1},
		{"Request-rate: 1/5 0600-1300", noon, 5 * time.Second},
		{"Request-rate: 1/5 1200-1201", noon, 5 * time.Second},
		{"Request-rate: 1/5 1100-1200", noon, 0},
		{"Request-rate: 1/5\t2300-1201", noon, 5 * time.Second},
		{"Request-rate: 1/5 2300-1200", noon, 0},
		{"Request-rate: 1/5 0000-2400", noon, 5 * time.Second},
		{"Request-rate: 1/5 0900-0900", noon, 5 * time.Second},
		{"Request-rate: 1/5 1100-1300", noon.In(time.FixedZone("", 5*3600)), 5 * time.Second},
		{"Request-rate: 1/5\nRequest-rate: 1/7\nRequest-rate: 1/60 0000-0600", noon, 7 * time.Second},
		{"Request-rate: 1/99999999999999999999d", noon, 100 * 365 * 24 * time.Hour},
		{"Request-rate: 99999999999999999999999/1", noon, 1},
		{"Request-rate: 0/5", noon, 0},
		{"Request-rate: 1/0", noon, 0},
		{"Request-rate: 1", noon, 0},
		{"Request-rate: /5", noon, 0},
		{"Request-rate: 1/", noon, 0},
		{"Request-rate: -1/5", noon, 0},
		{"Request-rate: 1/5w", noon, 0},
		{"Request-rate: 1/5 06-13", noon, 0},
		{"Request-rate: 1/5 0600", noon, 0},
		{"Request-rate: 1/5 0660-1300", noon, 0},
		{"Request-rate: 1/5 0600-2401", noon, 0},
	} {
		r := agentRules(c.lines)
		rate, ok := r.RequestRate(c.at)
		if rate.Gap() != c.want || ok != (c.want > 0) {
			t.Errorf("%q: got %+v, %v, want %v", c.lines, rate, ok, c.want)
		}
		if got := r.Floor(c.at); got != c.want {
			t.Errorf("%q: Floor is %v, want %v", c.lines, got, c.want)
		}
	}
	rates := agentRules("Request-rate: 1/5\nRequest-rate: 2/1m 0600-0845").RequestRates()
	want := []robots.Rate{
		{Requests: 1, Per: 5 * time.Second, Line: 2},
		{Requests: 2, Per: time.Minute, Window: robots.Window{From: 6 * time.Hour, To: 8*time.Hour + 45*time.Minute}, Line: 3},
	}
	if len(rates) != 2 || rates[0] != want[0] || rates[1] != want[1] {
		t.Errorf("got %+v, want %+v", rates, want)
	}
	equal := agentRules("Request-rate: 1/9 0000-0600\nRequest-rate: 1/5\nRequest-rate: 2/10\nRequest-rate: 1/5")
	if rate, _ := equal.RequestRate(noon); rate.Line != 3 {
		t.Errorf("of rates that are as strict: got %+v", rate)
	}
	if gap := (robots.Rate{}).Gap(); gap != 0 {
		t.Errorf("the zero Rate has a gap of %v", gap)
	}
}

// The floor is the longer of crawl-delay and request-rate.
func TestFloor(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	r := agentRules("Crawl-delay: 10\nRequest-rate: 1/5\nRequest-rate: 1/1m 1800-0600")
	if got := r.Floor(noon); got != 10*time.Second {
		t.Errorf("at noon: %v", got)
	}
	if got := r.Floor(noon.Add(8 * time.Hour)); got != time.Minute {
		t.Errorf("at night: %v", got)
	}
	if got := new(robots.Rules).Floor(noon); got != 0 {
		t.Errorf("zero Rules: %v", got)
	}
	if d := agentRules("Crawl-delay: 1e400").Floor(noon); d < 0 || d == math.MaxInt64 {
		t.Errorf("overflow: %v", d)
	}
}

func TestVisitTime(t *testing.T) {
	r := agentRules("Visit-time: 0600-0845\nVisit-time: 2300-0100\nVisit-time: night")
	windows := r.VisitTime()
	if len(windows) != 2 {
		t.Fatalf("got %v", windows)
	}
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		window int
		at     time.Duration
		next   time.Duration
	}{
		{0, 0, 6 * time.Hour},
		{0, 6 * time.Hour, 6 * time.Hour},
		{0, 8*time.Hour + 44*time.Minute, 8*time.Hour + 44*time.Minute},
		{0, 8*time.Hour + 45*time.Minute, 30 * time.Hour},
		{0, 6*time.Hour - 1, 6 * time.Hour},
		{0, 5*time.Hour + 59*time.Minute + 30*time.Second + 5, 6 * time.Hour},
		{0, 8*time.Hour + 44*time.Minute + 59*time.Second + 999_999_999, 8*time.Hour + 44*time.Minute + 59*time.Second + 999_999_999},
		{1, 0, 0},
		{1, time.Hour, 23 * time.Hour},
		{1, 23*time.Hour + 1, 23*time.Hour + 1},
	} {
		w := windows[c.window]
		if got := w.Next(day.Add(c.at)); !got.Equal(day.Add(c.next)) {
			t.Errorf("%v: next at or after %v is %v", w, c.at, got.Sub(day))
		}
		if got := w.Contains(day.Add(c.at)); got != (c.at == c.next) {
			t.Errorf("%v: Contains(%v) is %v", w, c.at, got)
		}
	}
	if len(agentRules("").VisitTime()) != 0 {
		t.Error("windows out of nothing")
	}
}

// Whatever is read as a window, the next moment within it is within it.
func TestNextIsWithinTheWindow(t *testing.T) {
	start := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	clocks := []string{"0000", "0001", "0600", "1200", "2359", "2400"}
	for _, from := range clocks {
		for _, to := range clocks {
			windows := agentRules("Visit-time: " + from + "-" + to).VisitTime()
			if len(windows) != 1 {
				t.Fatalf("%s-%s: got %v", from, to, windows)
			}
			w := windows[0]
			for at := start; at.Before(start.Add(24 * time.Hour)); at = at.Add(17 * time.Minute) {
				if next := w.Next(at); !w.Contains(next) || next.Before(at) || next.Sub(at) >= 24*time.Hour {
					t.Errorf("%s-%s: next at or after %v is %v", from, to, at, next)
				}
			}
		}
	}
}
