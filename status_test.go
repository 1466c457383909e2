package politeness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
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
)

func statusOf(t *testing.T, h http.Handler, url, accept string) (string, *httptest.ResponseRecorder) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	r.Host = "localhost:6060"
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Body.String(), w
}

func TestStatusShowsHostsInForceBudgetAndCache(t *testing.T) {
	cfg := politeness.Config{Budget: budget.New(budget.Limits{Pages: 10, PagesPerHost: 5, Duration: time.Hour})}
	virtually(t, cfg, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 7\n").Page("/", "page")
		b.web.Site("https://busy.example").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "100")
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		b.web.Site("https://quiet.example").Page("/", "page")
		b.mustGet("https://quiet.example/", 200)
		for _, host := range []string{"https://idle1.example/", "https://idle2.example/", "https://idle3.example/"} {
			b.web.Site(host)
			b.mustGet(host, 404)
		}
		time.Sleep(time.Minute)
		b.mustGet("https://busy.example/", 429)
		resp, err := b.client.Get("https://example.com/")
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		for range 2 { // both slots are taken, the delay is over
			held, err := b.client.Get("https://quiet.example/")
			if err != nil {
				b.Fatal(err)
			}
			defer held.Body.Close()
		}
		time.Sleep(time.Second)

		handler := politeness.StatusHandler(b.t)
		text, w := statusOf(b.T, handler, "/?format=json", "")
		var s politeness.StatusPage
		if err := json.Unmarshal([]byte(text), &s); err != nil || w.Header().Get("Content-Type") != "application/json" {
			b.Fatal(err, w.Header())
		}
		if want := map[string]int{"blocked": 1, "in flight": 2, "idle": 3}; !maps.Equal(s.HostsBy, want) {
			b.Errorf("hosts by state: %v, want %v", s.HostsBy, want)
		}
		if len(s.Hosts) != 3 || s.Known != 6 || s.Hosts[0].Host != "busy.example" || s.Hosts[1].Host != "quiet.example" || s.Hosts[2].Host != "example.com" {
			b.Fatalf("status %s", text)
		}
		busy, open := s.Hosts[0], s.Hosts[2]
		if busy.BlockedUntil == nil || busy.Refusals != 1 || !strings.Contains(busy.BlockedBy, "429") {
			b.Errorf("blocked host %+v", busy)
		}
		if open.SlotsUsed != 1 || open.Slots != 2 || open.Delay != 7 || open.DelaySource != "crawl-delay" || !open.NextStart.After(s.Time) {
			b.Errorf("host with an open body %+v", open)
		}
		if s.Budget.Pages != 8 || s.Budget.MaxPages != 10 || s.Budget.MaxSeconds != 3600 || s.Robots.Origins != 6 || s.Robots.Fetched != 6 {
			b.Errorf("budget %+v, robots %+v", s.Budget, s.Robots)
		}
		if byAccept, _ := statusOf(b.T, handler, "/", "application/json"); byAccept != text {
			b.Errorf("by Accept:\n%s", byAccept)
		}
		if one, _ := statusOf(b.T, handler, "/?format=json&host=busy", ""); strings.Contains(one, "example.com\"") {
			b.Errorf("?host=busy shows %s", one)
		}
		page, _ := statusOf(b.T, handler, "/", "text/html")
		for _, want := range []string{"busy.example", "429", "7 s crawl-delay", "8 of 10 pages", "at most 5 pages of a host", "1 of 2", "with a free slot"} {
			if !strings.Contains(page, want) {
				b.Errorf("the page doesn't show %q:\n%s", want, page)
			}
		}
	})
}

func TestStatusIsReadOnlyAndBounded(t *testing.T) {
	virtually(t, politeness.Config{DangerouslyIgnoreRobots: true}, func(b *bubble) {
		for i := range 2500 {
			host := fmt.Sprintf("https://%04d.example", i)
			b.web.Site(host).Page("/", "page")
			resp, err := b.client.Get(host + "/")
			if err != nil {
				b.Fatal(err)
			}
			defer resp.Body.Close()
		}
		handler := politeness.StatusHandler(b.t)
		text, _ := statusOf(b.T, handler, "/?format=json", "")
		var s politeness.StatusPage
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			b.Fatal(err)
		}
		if len(s.Hosts) != 1000 || s.Omitted != 1500 || s.Known != 2500 {
			b.Errorf("%d hosts, %d omitted, %d known", len(s.Hosts), s.Omitted, s.Known)
		}
		for _, c := range []struct {
			method, target string
			want           int
		}{
			{http.MethodPost, "/", http.StatusMethodNotAllowed},
			{http.MethodGet, "/?format=xml", http.StatusBadRequest},
		} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), c.method, "http://localhost"+c.target, nil))
			if w.Code != c.want {
				b.Errorf("%s %s: status %d", c.method, c.target, w.Code)
			}
		}
	})
}

// TestStatusIsDocumented: the guide names each member of the JSON.
func TestStatusIsDocumented(t *testing.T) {
	text, err := os.ReadFile("docs/steering.md")
	if err != nil {
		t.Fatal(err)
	}
	_, guide, _ := strings.Cut(string(text), "## The status as JSON")
	var check func(of reflect.Type)
	check = func(of reflect.Type) {
		switch {
		case of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice:
			check(of.Elem())
			return
		case of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]():
			return
		}
		for field := range of.Fields() {
			check(field.Type)
			want, omitted := strings.CutSuffix(field.Tag.Get("json"), ",omitempty")
			if want = "`" + want + "`"; omitted {
				want += "*"
			}
			if !strings.Contains(guide, want) {
				t.Errorf("the guide has no %s of %s", want, of)
			}
		}
	}
	check(reflect.TypeFor[politeness.StatusPage]())
}

// listsNothing is a limiter whose server can't be asked.
type listsNothing struct{ hostlimit.Limiter }

func (listsNothing) List(context.Context) iter.Seq2[hostlimit.HostState, error] {
	return func(yield func(hostlimit.HostState, error) bool) {
		yield(hostlimit.HostState{}, errors.New("no answer"))
	}
}

func TestStatusSaysWhyItListsNoHosts(t *testing.T) {
	virtually(t, politeness.Config{Hosts: listsNothing{limiter(t, hostlimit.Config{})}}, func(b *bubble) {
		text, _ := statusOf(b.T, politeness.StatusHandler(b.t), "/", "text/html")
		if !strings.Contains(text, "politeness_test.listsNothing") || !strings.Contains(text, "no answer") {
			b.Errorf("the page doesn't say whose hosts are missing:\n%s", text)
		}
	})
}

// TestStatusIsServedToExpectedHostsOnly: a stranger's name that resolves to this machine gets
// nothing, and no answer can be framed or read by another page.
func TestStatusIsServedToExpectedHostsOnly(t *testing.T) {
	tr := mustNew(t, politeness.Config{UserAgent: agent, Base: politenesstest.NewWeb()})
	handler := politeness.StatusHandler(tr, "crawler.internal")
	for host, served := range map[string]bool{
		"localhost": true, "LOCALHOST:6060": true, "localhost.": true, "127.0.0.1:6060": true, "[::1]:6060": true, "[::1]": true,
		"192.0.2.1": true, "crawler.internal": true, "Crawler.Internal:80": true,
		"": false, "evil.example": false, "evil.example:6060": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"crawler.internal.evil.example": false, "[::1].evil.example": false, "evil.example:127.0.0.1": false, "localhost@evil.example": false,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if (w.Code == http.StatusOK) != served || !served && (w.Code != http.StatusMisdirectedRequest || strings.Contains(w.Body.String(), agent)) {
			t.Errorf("%q: %d %q", host, w.Code, w.Body)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": "frame-ancestors 'none'", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
			"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Referrer-Policy": "no-referrer",
		} {
			if got := w.Header().Get(name); !strings.Contains(got, want) {
				t.Errorf("%q: %s: %q", host, name, got)
			}
		}
	}
}

// TestStatusTellsWhatWaitsAndWhy, and everything else that a person asks: in JSON, for Prometheus and
// on the page.
func TestStatusTellsWhatWaitsAndWhy(t *testing.T) {
	lost := evidence.Func(func(_ context.Context, d evidence.Decision) {
		if d.Type == evidence.BlockedByRule {
			panic("disk full")
		}
	})
	cfg := politeness.Config{Limits: hostlimit.Config{Concurrency: 1}}
	virtually(t, cfg, func(b *bubble) {
		tr := mustNew(b.T, politeness.Config{
			UserAgent: agent, Base: b.web, Evidence: lost, Limits: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Second}},
			Refuse: func(r *http.Request) error {
				if r.URL.Path == "/login" {
					return errors.New("no logins")
				}
				return nil
			},
		})
		b.client.Transport = tr
		b.site.Robots("User-agent: *\nDisallow: /private\n").Page("/", "page").Page("/held", "page")
		b.web.Site("https://busy.example").Handle("/", politenesstest.Status(429, "Retry-After", "100"))
		b.web.Site("https://down.example").Handle("/robots.txt", politenesstest.Status(503))
		b.web.Site("https://closed.example").Robots("User-agent: *\nVisit-time: 0030-0100\n").Page("/", "page")
		b.mustGet("https://busy.example/", 429)
		for _, url := range []string{"https://example.com/private", "https://example.com/login", "https://down.example/"} {
			if _, err := b.get(url); err == nil {
				b.Errorf("%s was fetched", url)
			}
		}
		held, err := b.client.Get("https://example.com/held")
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		for _, url := range []string{"https://example.com/", "https://example.com/", "https://busy.example/", "https://closed.example/", "https://closed.example/"} {
			wg.Go(func() {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
				if err != nil {
					b.Error(err)
					return
				}
				if resp, err := b.client.Do(req); err == nil {
					resp.Body.Close()
				}
			})
		}
		time.Sleep(90 * time.Second)
		synctest.Wait()

		handler := politeness.StatusHandler(tr)
		text, _ := statusOf(b.T, handler, "/?format=json", "")
		var s politeness.StatusPage
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			b.Fatal(err)
		}
		if want := map[string]int{"slot": 2, "block": 1, "visit-time": 2}; !maps.Equal(s.Waiting, want) {
			b.Errorf("waiting: %v, want %v", s.Waiting, want)
		}
		if want := map[string]int64{"robots.txt": 1, "own rule": 1, "robots.txt unreachable": 1}; !maps.Equal(s.Refusals, want) {
			b.Errorf("refusals: %v, want %v", s.Refusals, want)
		}
		// robots.txt of four hosts, of which two have none, and three pages.
		if want := map[string]int64{"2xx": 3, "4xx": 2, "5xx": 1}; !maps.Equal(s.Answers, want) || s.Starts != 6 {
			b.Errorf("%d starts, answers: %v, want %v", s.Starts, s.Answers, want)
		}
		if len(s.Down) != 1 || s.Down[0].Origin != "https://down.example" || s.Down[0].Reason == "" || s.Down[0].Fallback || !s.Down[0].Until.After(s.Time) {
			b.Errorf("unreachable: %+v", s.Down)
		}
		if !strings.Contains(s.Lost, "disk full") || len(s.Latency) == 0 || s.Latency[0].Answers == 0 {
			b.Errorf("lost %q, latency %+v", s.Lost, s.Latency)
		}
		for _, h := range s.Hosts {
			if h.Host == "example.com" && (!h.Leak || h.SilentBy != "https://example.com/held" || h.Hold != "slot" ||
				!strings.Contains(h.Why, "1 of 1 slots are held, one for 1m30s")) {
				b.Errorf("with an open body: %+v", h)
			}
		}
		metrics, w := statusOf(b.T, handler, "/?format=prometheus", "")
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
			b.Error(w.Header())
		}
		for _, want := range []string{
			"# TYPE politeness_starts_total counter\npoliteness_starts_total 6\n", "politeness_waiting{hold=\"slot\"} 2\n",
			"politeness_refusals_total{reason=\"own rule\"} 1\n", "politeness_answers_total{class=\"2xx\"} 3\n",
			"politeness_hosts{state=\"blocked\"} 1\n", "politeness_unreachable_origins 1\n", "politeness_suspected_leaks 1\n", "politeness_evidence_lost 1\n",
		} {
			if !strings.Contains(metrics, want) {
				b.Errorf("%q is missing in\n%s", want, metrics)
			}
		}
		lineOf := regexp.MustCompile(`^(# (HELP|TYPE) politeness_\w+ .+|politeness_\w+(\{\w+="[^"]*"\})? [0-9.e+-]+)$`)
		for line := range strings.Lines(metrics) {
			if !lineOf.MatchString(strings.TrimSuffix(line, "\n")) {
				b.Errorf("not of the format: %q", line)
			}
		}
		page, _ := statusOf(b.T, handler, "/", "text/html")
		for _, want := range []string{
			"Evidence is lost", "disk full", "is its body closed?", "https://down.example", "nothing is fetched", "visit-time",
			"1 of 1 slots are held", "own rule",
		} {
			if !strings.Contains(page, want) {
				b.Errorf("the page doesn't show %q", want)
			}
		}
		cancel()
		wg.Wait()
		held.Body.Close()
		var left politeness.StatusPage
		text, _ = statusOf(b.T, handler, "/?format=json", "")
		if err := json.Unmarshal([]byte(text), &left); err != nil || len(left.Waiting) != 0 {
			b.Errorf("after all have left: %v, %v", left.Waiting, err)
		}
	})
}

func TestStatusOfNothing(t *testing.T) {
	tr := mustNew(t, politeness.Config{UserAgent: agent, Base: politenesstest.NewWeb()})
	page, w := statusOf(t, politeness.StatusHandler(tr), "/", "text/html")
	if got := w.Header().Get("Content-Type"); got != "text/html; charset=utf-8" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%v", w.Header())
	}
	for _, want := range []string{"Nothing waits", "No host is known yet", "Nothing was sent yet", "Nothing was refused", "No answer yet", "No host is held"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page doesn't say %q", want)
		}
	}
	page, _ = statusOf(t, politeness.StatusHandler(tr), "/?host=%3Cscript%3E", "text/html")
	if strings.Contains(page, "value=\"<script>") || !strings.Contains(page, "No host in force has &#34;&lt;script&gt;&#34;") {
		t.Errorf("a search for what isn't there:\n%s", page)
	}
}

// TestStatusPageShowsEachFigure: what the JSON knows, a person sees, with its unit and its colour, and
// what there is none of isn't shown.
func TestStatusPageShowsEachFigure(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 30, 20, 0, time.UTC)
	minute := func(ago int) time.Time { return at.Truncate(time.Minute).Add(-time.Duration(ago) * time.Minute) }
	until := at.Add(time.Hour)
	host := func(name string, change func(*politeness.StatusHost)) politeness.StatusHost {
		h := politeness.StatusHost{Host: name, Slots: 2, NextStart: at}
		change(&h)
		return h
	}
	for _, c := range []struct {
		name          string
		page          politeness.StatusPage
		shows, hushes []string
	}{
		{
			"everything",
			politeness.StatusPage{
				Starts: 12, Answers: map[string]int64{"2xx": 7, "4xx": 9, "5xx": 0}, Omitted: 3, Known: 40,
				Budget: &politeness.StatusBudget{
					Pages: 5, MaxPages: 10, PagesPerHost: 4, Bytes: 80, MaxBytes: 100, Seconds: 120, MaxSeconds: 100, Error: "no answer",
				},
				Robots: &politeness.StatusRobots{Origins: 1, InFlight: 2, Fetched: 3, Revalidated: 4, Unreachable: 5},
				Latency: []politeness.StatusMinute{
					{Time: minute(2), Answers: 1, Mean: 0.001}, {Time: minute(1), Answers: 30, Mean: 2}, {Time: minute(0), Answers: 4, Mean: 0.5},
				},
				Down: []politeness.StatusDown{
					{Origin: "https://a.example", Until: at.Add(90 * time.Second)}, {Origin: "https://b.example", Until: at, Fallback: true},
				},
				Hosts: []politeness.StatusHost{
					host("blocked.example", func(h *politeness.StatusHost) {
						h.BlockedUntil, h.BlockedBy, h.Refusals = &until, "status 429", 2
					}),
					host("by.hand.example", func(h *politeness.StatusHost) { h.BlockedUntil, h.BlockedBy = &until, "by hand" }),
					host("probed.example", func(h *politeness.StatusHost) { h.Refusals = 3 }),
					host("full.example", func(h *politeness.StatusHost) { h.SlotsUsed = 2 }),
					host("waits.example", func(h *politeness.StatusHost) {
						h.SlotsUsed, h.Why, h.NextStart, h.Delay, h.DelaySource = 2, "for the delay", at.Add(time.Second), 7, "crawl-delay"
					}),
					host("leaks.example", func(h *politeness.StatusHost) { h.SlotsUsed, h.Leak, h.Silent, h.SilentBy = 1, true, 61.2, "https://x" }),
					host("leaks.too.example", func(h *politeness.StatusHost) { h.Leak, h.Silent = true, 60 }),
				},
			},
			[]string{
				`<dt class="">starts<dd>12<dt class="amber">4xx<dd>9<dt class="">2xx<dd>7</dl>`,
				`5 of 10 pages (50 %)</div><div class="bar"><i style="width:50.0%">`,
				`80 of 100 bytes (80 %)</div><div class="bar near"><i style="width:80.0%">`,
				`120 of 100 seconds (120 %)</div><div class="bar over"><i style="width:100.0%">`,
				"at most 4 pages of a host", "The budget can't be asked: no answer",
				"unchanged<dd>4",
				"500ms in the mean of the last minute, 2 s at most",
				"<rect x=57 y=29.0 width=0.9 height=1.0><title>12:28: 1ms, 1 answers", "<rect x=58 y=0.0 width=0.9 height=30.0><title>12:29: 2 s, 30 answers",
				"<rect x=59 y=22.5 width=0.9 height=7.5><title>12:30: 500ms, 4 answers",
				">in 1m30s<td data-name=meanwhile><span class=red>nothing is fetched", ">now<td data-name=meanwhile><span class=amber>fetched all the same",
				"10 of 40 known hosts; 3 of them are left out",
				"blocked: status 429 (refusal 2 in a row), until 2026-03-01T13:30:20Z", "blocked: by hand, until", "the next request is a probe (refusal 3 in a row)",
				`full.example<td class=n data-name=slots>2 of 2<td class=n data-name=waiting>0<td class=n data-name="next start">with a free slot`, "every slot is held",
				`next start">in 1 s<td class=n data-name=delay>7 s crawl-delay<td data-name="what holds it"><span><span class="">for the delay</span></span>`,
				"a slot held for 1m1s without a sign of life by https://x: is", "a slot held for 1m0s without a sign of life: is",
			},
			nil,
		},
		{
			"little",
			politeness.StatusPage{
				Known: 1, Budget: &politeness.StatusBudget{Pages: 5}, Robots: &politeness.StatusRobots{},
				Latency: []politeness.StatusMinute{{Time: minute(59), Answers: 1}},
				Hosts:   []politeness.StatusHost{host("idle.example", func(h *politeness.StatusHost) { h.SlotsUsed = 1 })},
			},
			[]string{
				"1 of 1 known host<", "<div>5 pages</div>", "<rect x=0 y=29.0", "0s in the mean", `next start">now<`,
				`data-name="what holds it"><span></span>`, "Nothing was sent yet",
			},
			[]string{"at most 0", "can't be asked", "class=\"bar", "no room", "left out", "in a row", "sign of life", "robots.txt can't be had"},
		},
		{
			"just at the limit",
			politeness.StatusPage{Budget: &politeness.StatusBudget{Pages: 100, MaxPages: 100, Bytes: 79, MaxBytes: 100, Seconds: 1}},
			[]string{`class="bar over"><i style="width:100.0%">`, `class="bar"><i style="width:79.0%">`, "0 of 0 known hosts", "It is ignored"},
			nil,
		},
	} {
		c.page.Time = at
		html := politeness.HTMLOf(&c.page, "")
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
	s := politeness.StatusPage{
		Starts: 123456789, Latency: []politeness.StatusMinute{{Answers: 1, Mean: 4}, {Answers: 3, Mean: 0.5}},
		Hosts:  []politeness.StatusHost{{Leak: true}, {}, {Leak: true}},
		Budget: &politeness.StatusBudget{Pages: 12, MaxPages: 200, Seconds: 1.5},
		Robots: &politeness.StatusRobots{Origins: 17},
	}
	text := politeness.PrometheusOf(&s)
	for _, want := range []string{
		"politeness_starts_total 1.23456789e+08\n", "politeness_latency_mean_seconds 1.375\n", "politeness_suspected_leaks 2\n", "politeness_evidence_lost 0\n",
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
	if text = politeness.PrometheusOf(&politeness.StatusPage{}); !strings.Contains(text, "politeness_latency_mean_seconds 0\n") ||
		strings.Contains(text, "robots_") || strings.Contains(text, "budget_") {
		t.Errorf("of nothing:\n%s", text)
	}
}

// TestLatenciesAreThoseOfTheLastHour: each minute for an hour, and no longer.
func TestLatenciesAreThoseOfTheLastHour(t *testing.T) {
	virtually(t, politeness.Config{DangerouslyIgnoreRobots: true}, func(b *bubble) {
		b.site.Handle("/", politenesstest.Slow(2*time.Second, politenesstest.Text("page"))).Handle("/odd", politenesstest.Status(999))
		minutes := func() []politeness.StatusMinute {
			var s politeness.StatusPage
			text, _ := statusOf(b.T, politeness.StatusHandler(b.t), "/?format=json", "")
			if err := json.Unmarshal([]byte(text), &s); err != nil {
				b.Fatal(err)
			}
			for class, n := range s.Answers {
				if class != "2xx" && (class != "9xx" && class != "none" || n != 1) {
					b.Errorf("%d answers %s", n, class)
				}
			}
			return s.Latency
		}
		for range 90 { // an answer in each minute, two in the first of them
			b.mustGet("https://example.com/", 200)
			if b.elapsed() < time.Minute {
				b.mustGet("https://example.com/", 200)
			}
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		}
		now := time.Now()
		got := minutes()
		if len(got) != 59 || !got[0].Time.Equal(now.Add(-59*time.Minute)) || !got[58].Time.Equal(now.Add(-time.Minute)) {
			b.Errorf("%d minutes at the begin of one: %+v", len(got), got)
		}
		b.mustGet("https://example.com/", 200)
		b.mustGet("https://example.com/odd", 999)
		_, err := b.get("https://nowhere.example/")
		failed(b.T, err, nil)
		if got = minutes(); len(got) != 60 || got[59].Answers != 2 || got[59].Mean != 1 || got[0].Answers != 1 || got[0].Mean != 2 {
			b.Errorf("%d minutes, the last %+v", len(got), got[len(got)-1])
		}
		time.Sleep(59 * time.Minute)
		if got = minutes(); len(got) != 1 {
			b.Errorf("an hour later: %+v", got)
		}
		time.Sleep(time.Minute)
		if got = minutes(); len(got) != 0 {
			b.Errorf("a minute later: %+v", got)
		}
	})
}

// TestStatusTellsOfAVisitTime where that is what a host in force is left alone for, and not where somebody
// waits for its slot.
func TestStatusTellsOfAVisitTime(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		virtually(t, politeness.Config{Limits: hostlimit.Config{Concurrency: 1}}, func(b *bubble) {
			b.site.Robots("User-agent: *\nVisit-time: 0000-0001\nVisit-time: 0030-0100\n").Page("/", "page")
			held, err := b.client.Get("https://example.com/")
			if err != nil {
				b.Fatal(err)
			}
			defer held.Body.Close()
			ctx, cancel := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			if wanted {
				wg.Go(func() { _, _ = fetch(ctx, b.client, "https://example.com/") }) // waits for the slot
			}
			time.Sleep(3 * time.Minute)
			for range 2 {
				wg.Go(func() { _, _ = fetch(ctx, b.client, "https://example.com/") })
			}
			synctest.Wait()
			var s politeness.StatusPage
			text, _ := statusOf(b.T, politeness.StatusHandler(b.t), "/?format=json", "")
			if err := json.Unmarshal([]byte(text), &s); err != nil || len(s.Hosts) != 1 || s.Waiting["visit-time"] != 2 {
				b.Fatalf("%v: %s", err, text)
			}
			h := s.Hosts[0]
			if !wanted && (h.Hold != "visit-time" || h.Waiters != 2 || !h.NextStart.Equal(b.began.Add(30*time.Minute)) || h.Why == "") ||
				wanted && (h.Hold != "slot" || h.Waiters != 1) {
				b.Errorf("somebody waits for its slot: %t: %+v", wanted, h)
			}
			cancel()
			wg.Wait()
		})
	}
}
