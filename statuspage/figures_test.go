package statuspage

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

func htmlOf(t *testing.T, s *politeness.Status) string {
	t.Helper()
	var page bytes.Buffer
	if err := writeHTML(&page, s, ""); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// TestAHostKeepsItsRow while its requests wait and end. Only a block moves it, to the top.
func TestAHostKeepsItsRow(t *testing.T) {
	rows := func(change func(hosts []politeness.HostStatus)) string {
		var hosts []politeness.HostStatus
		for _, name := range []string{"b.example", "a.example", "d.example", "c.example"} {
			hosts = append(hosts, politeness.HostStatus{HostState: hostlimit.HostState{Key: name, Slots: 2}})
		}
		change(hosts)
		html := htmlOf(t, &politeness.Status{Hosts: hosts})
		return strings.Join(regexp.MustCompile(`[a-d]\.example`).FindAllString(html, -1), " ")
	}
	for want, change := range map[string]func(hosts []politeness.HostStatus){
		"a.example b.example c.example d.example": func(hosts []politeness.HostStatus) { hosts[2].Waiters = 7 },
		"d.example a.example b.example c.example": func(hosts []politeness.HostStatus) { hosts[2].BlockedUntil = time.Now() },
	} {
		if got := rows(change); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func prometheusOf(s *politeness.Status) string {
	var page bytes.Buffer
	writePrometheus(&page, s)
	return page.String()
}

// TestThePageShowsEachFigure: what the JSON knows, a person sees, with its unit and its colour, and
// what there is none of isn't shown.
func TestThePageShowsEachFigure(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 30, 20, 0, time.UTC)
	minute := func(ago int) time.Time { return at.Truncate(time.Minute).Add(-time.Duration(ago) * time.Minute) }
	until := at.Add(time.Hour)
	host := func(name string, change func(*politeness.HostStatus)) politeness.HostStatus {
		h := politeness.HostStatus{HostState: hostlimit.HostState{Key: name, Slots: 2, Next: at}}
		change(&h)
		return h
	}
	for _, c := range []struct {
		name          string
		page          politeness.Status
		shows, hushes []string
	}{
		{
			"everything",
			politeness.Status{
				Crawls: []politeness.CrawlStatus{
					{
						Began: at.Add(-2 * time.Hour), Visited: 12345, Left: 678, PerMinute: 58.4, InFlight: 2, Hosts: 3,
						Outcomes: map[string]int{"visited": 12345, "disallowed": 9},
					},
					{Began: at.Add(-2 * time.Hour), Ended: at.Add(-time.Minute), Visited: 1, Left: -1, Stopped: "the end"},
				},
				Starts: 12, Answers: map[string]int64{"2xx": 7, "4xx": 9, "5xx": 0}, Omitted: 3, Known: 40,
				Budget: &budget.Usage{
					Pages: 5, Bytes: 80, Elapsed: 2 * time.Minute,
					Limits: budget.Limits{Pages: 10, PagesPerHost: 4, Bytes: 100, Duration: 100 * time.Second},
				},
				BudgetError: "no response",
				Robots:      &robotscache.Stats{Origins: 1, InFlight: 2, Fetched: 3, Revalidated: 4, Unreachable: 5},
				Latency: []politeness.MinuteStatus{
					{Time: minute(2), Answers: 1, Mean: 0.001}, {Time: minute(1), Answers: 30, Mean: 2}, {Time: minute(0), Answers: 4, Mean: 0.5},
				},
				Unreachable: []politeness.UnreachableStatus{
					{Origin: "https://a.example", Reason: "status 503", Until: at.Add(90 * time.Second)}, {Origin: "https://b.example", Until: at, Fallback: true},
				},
				Hosts: []politeness.HostStatus{
					host("blocked.example", func(h *politeness.HostStatus) {
						h.BlockedUntil, h.BlockedBy, h.Refusals = until, "status 429", 2
					}),
					host("by.hand.example", func(h *politeness.HostStatus) { h.BlockedUntil, h.BlockedBy = until, "by hand" }),
					host("restarted.example", func(h *politeness.HostStatus) {
						h.BlockedUntil, h.BlockedBy, h.Learned = until, "status 429", 525*time.Millisecond
					}),
					host("a.example", func(h *politeness.HostStatus) { h.Refusals = 1 }), // by its robots.txt
					host("b.example", func(*politeness.HostStatus) {}),
					host("paced.example", func(h *politeness.HostStatus) {
						h.Next, h.Delay, h.DelaySource = at.Add(time.Second), 2*time.Second, "random"
					}),
					host("probed.example", func(h *politeness.HostStatus) { h.Refusals = 3 }),
					host("full.example", func(h *politeness.HostStatus) { h.InFlight = 2 }),
					host("waits.example", func(h *politeness.HostStatus) {
						h.InFlight, h.Why, h.Next, h.Delay, h.DelaySource = 2, "for the delay", at.Add(time.Second), 7*time.Second, "crawl-delay"
					}),
					host("leaks.example", func(h *politeness.HostStatus) {
						h.InFlight, h.Leak, h.Silent, h.SilentBy = 1, true, 61200*time.Millisecond, "https://x"
					}),
					host("leaks.all.example", func(h *politeness.HostStatus) {
						h.InFlight, h.Leak, h.Silent, h.SilentBy = 2, true, time.Minute, "https://y"
						h.Hold, h.Why = "slot", "2 of 2 slots are in use, one for 1m0s by https://y"
					}),
					host("refuses.example", func(h *politeness.HostStatus) { h.Answers, h.Refused = 1200, 372 }),
					host("hardly.refuses.example", func(h *politeness.HostStatus) { h.Answers, h.Refused = 1210, 121 }),
					host("knows.little.example", func(h *politeness.HostStatus) { h.Answers, h.Refused = 9, 9 }),
					host("knows.enough.example", func(h *politeness.HostStatus) { h.Answers, h.Refused = 10, 8 }),
					host("leaks.too.example", func(h *politeness.HostStatus) { h.Leak, h.Silent = true, time.Minute }),
				},
			},
			[]string{
				`<dt class="">requests sent<dd>12<dt class="">2xx<dd>7<dt class="quiet">3xx<dd>0<dt class="amber">4xx<dd>9<dt class="quiet">5xx<dd>0<`,
				"<span>2 s</span><span>0</span>", "<span>1 h ago</span><span>30 min ago</span><span>now</span>",
				`<h2>Crawl, for 2 h 0 min</h2><dl><dt class="">pages visited<dd>12,345<dt class="">URLs left<dd>678<dt class="">pages a minute<dd>58<`,
				`hosts with URLs<dd>3<dt class="quiet">disallowed<dd>9</dl>`,
				`<h2>Crawl, ended after 1 h 59 min</h2><dl><dt class="">pages visited<dd>1<dt class="">URLs left<dd>not known</dl><p class=note>the end</p>`,
				`5 of 10 pages (50 %)</div><div class="bar"><i style="width:50.0%">`,
				`80 bytes of 100 bytes (80 %)</div><div class="bar near"><i style="width:80.0%">`,
				`2 min 0 s of 1 min 40 s (120 %)</div><div class="bar over"><i style="width:100.0%">`,
				"at most 4 pages of a host", "The budget can't be asked: no response",
				"unchanged<dd>4",
				"500 ms on average in the last minute, 2 s in the slowest",
				"<rect x=57 y=29.0 width=0.9 height=1.0><title>12:28: 1 ms, 1 response<", "<rect x=58 y=0.0 width=0.9 height=30.0><title>12:29: 2 s, 30 responses<",
				"<rect x=59 y=22.5 width=0.9 height=7.5><title>12:30: 500 ms, 4 responses<",
				">in 1 min 30 s<td data-name=pages><span class=red>not fetched", ">now<td data-name=pages><span class=amber>fetched without it",
				`restarted.example<td class=n data-name=slots>0 of 2<td class=n data-name=waiting>0<td class=n data-name="next start">now<td class=n data-name=delay>525 ms learned<`,
				`a.example<td class=n data-name=slots>0 of 2<td class=n data-name=waiting>0<td class=n data-name="next start">in 1 min 30 s<td class=n data-name=delay>0 s<td data-name="reason"><span><span class="red">robots.txt can&#39;t be fetched: status 503<`,
				`b.example<td class=n data-name=slots>0 of 2<td class=n data-name=waiting>0<td class=n data-name="next start">now<td class=n data-name=delay>0 s<td data-name="reason"><span></span>`,
				`next start">in 1 s<td class=n data-name=delay>2 s<td data-name="reason"><span><span class="quiet">its delay runs<`,
				"A crawl starts a request when its host is due, so none waits.",
				"19 of 40 known hosts. 3 of them are left out",
				"blocked: status 429 (refusal 2 in a row), until 2026-03-01 13:30:20 UTC", "blocked: by hand, until", "was blocked (refusal 3 in a row): one request finds out whether the host serves again",
				`full.example<td class=n data-name=slots>2 of 2<td class=n data-name=waiting>0<td class=n data-name="next start">with a free slot`, "every slot is in use",
				`next start">in 1 s<td class=n data-name=delay>7 s crawl-delay<td data-name="reason"><span><span class="">for the delay</span></span>`,
				`refuses.example<td class=n data-name=slots>0 of 2`, `<span class="amber">31 % of 1,200 responses were refusals</span></span>`, ">80 % of 10 responses were refusals<",
				"a slot in use for 1 min 1 s without a sign of life by https://x: is", "a slot in use for 1 min 0 s without a sign of life: is",
			},
			[]string{"one for 1m0s", "of 1,210 responses", "of 9 responses"},
		},
		{
			"little",
			politeness.Status{
				Known: 1, Budget: &budget.Usage{Pages: 5}, Robots: &robotscache.Stats{},
				Latency: []politeness.MinuteStatus{{Time: minute(59), Answers: 1}},
				Hosts:   []politeness.HostStatus{host("idle.example", func(h *politeness.HostStatus) { h.InFlight = 1 })},
			},
			[]string{
				"1 of 1 known host<", "<div>5 pages</div>", "<rect x=0 y=29.0", "0 s on average", `next start">now<`,
				`data-name="reason"><span></span>`, "Nothing was sent yet",
			},
			[]string{"at most 0", "can't be asked", "class=\"bar", "no room", "left out", "in a row", "sign of life", "robots.txt can't be fetched"},
		},
		{
			"just at the limit",
			politeness.Status{Budget: &budget.Usage{
				Pages: 100, Bytes: 79, Elapsed: time.Second, Limits: budget.Limits{Pages: 100, Bytes: 100},
			}},
			[]string{`class="bar over"><i style="width:100.0%">`, `class="bar"><i style="width:79.0%">`, "0 of 0 known hosts", "robots.txt is ignored"},
			nil,
		},
	} {
		c.page.Time = at
		html := htmlOf(t, &c.page)
		_, html, _ = strings.Cut(html, "<main id=live>")
		html, _, _ = strings.Cut(html, "</main>")
		for _, want := range c.shows {
			if !strings.Contains(html, want) {
				t.Errorf("%s: the page doesn't show %q:\n%s", c.name, want, html)
			}
		}
		for _, not := range c.hushes {
			if strings.Contains(html, not) {
				t.Errorf("%s: the page shows %q:\n%s", c.name, not, html)
			}
		}
	}
}

// TestMetricsAreTheFigures: numbers in full, the mean of all answers, and no limit where there is none.
func TestMetricsAreTheFigures(t *testing.T) {
	s := politeness.Status{
		Starts: 123456789, Latency: []politeness.MinuteStatus{{Answers: 1, Mean: 4}, {Answers: 3, Mean: 0.5}},
		Hosts:  []politeness.HostStatus{{Leak: true}, {Answers: 10, Refused: 2}, {Leak: true}, {Answers: 10, Refused: 1}},
		Budget: &budget.Usage{Pages: 12, Elapsed: 1500 * time.Millisecond, Limits: budget.Limits{Pages: 200}},
		Robots: &robotscache.Stats{Origins: 17},
	}
	text := prometheusOf(&s)
	for _, want := range []string{
		"politeness_starts_total 1.23456789e+08\n", "politeness_latency_mean_seconds 1.375\n", "politeness_suspected_leaks 2\n", "politeness_refusing_hosts 1\n", "politeness_evidence_lost 0\n",
		`politeness_budget_used{of="pages"} 12` + "\n", `politeness_budget_used{of="seconds"} 1.5` + "\n", `politeness_budget_limit{of="pages"} 200` + "\n",
		"politeness_robots_origins 17\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, `budget_limit{of="bytes"}`) {
		t.Errorf("a limit that there isn't:\n%s", text)
	}
	if text = prometheusOf(&politeness.Status{}); !strings.Contains(text, "politeness_latency_mean_seconds 0\n") ||
		strings.Contains(text, "robots_") || strings.Contains(text, "budget_") {
		t.Errorf("of nothing:\n%s", text)
	}
}

// TestThePageEscapes what servers, robots.txt and people say.
func TestThePageEscapes(t *testing.T) {
	const evil = "<b>\"'\x1b[2J\u202e"
	html := htmlOf(t, &politeness.Status{
		UserAgent: evil, Unlisted: evil, Lost: evil, Warning: evil, Starts: 1, Answers: map[string]int64{evil: 1}, Waiting: map[string]int{evil: 1},
		Crawls:      []politeness.CrawlStatus{{Outcomes: map[string]int{evil: 1}, Stopped: evil}},
		Refusals:    map[string]int64{evil: 1},
		HostsBy:     map[string]int{evil: 1},
		Known:       1,
		Budget:      &budget.Usage{},
		BudgetError: evil,
		Unreachable: []politeness.UnreachableStatus{{Origin: evil, Reason: evil}},
		Hosts: []politeness.HostStatus{
			{HostState: hostlimit.HostState{Key: evil, Why: evil, DelaySource: evil, SilentBy: evil}, Leak: true},
			{HostState: hostlimit.HostState{Key: evil, BlockedUntil: time.Now(), BlockedBy: evil, Refusals: 1}},
		},
	})
	if n := strings.Count(html, "&lt;b&gt;&#34;&#39;"); n != 19 {
		t.Errorf("it is shown %d times", n)
	}
	if strings.Contains(html, "<b>") || strings.ContainsAny(html, "\x1b\u202e") || !strings.Contains(html, "(first refusal)") {
		t.Errorf("not escaped:\n%s", html)
	}
}
