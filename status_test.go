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
		if len(s.Hosts) != 3 || s.Known != 3 || s.Hosts[0].Host != "busy.example" || s.Hosts[1].Host != "quiet.example" || s.Hosts[2].Host != "example.com" {
			b.Fatalf("status %s", text)
		}
		busy, open := s.Hosts[0], s.Hosts[2]
		if busy.BlockedUntil == nil || busy.Refusals != 1 || !strings.Contains(busy.BlockedBy, "429") {
			b.Errorf("blocked host %+v", busy)
		}
		if open.SlotsUsed != 1 || open.Slots != 2 || open.Delay != 7 || open.DelaySource != "crawl-delay" || !open.NextStart.After(s.Time) {
			b.Errorf("host with an open body %+v", open)
		}
		if s.Budget.Pages != 5 || s.Budget.MaxPages != 10 || s.Budget.MaxSeconds != 3600 || s.Robots.Origins != 3 || s.Robots.Fetched != 3 {
			b.Errorf("budget %+v, robots %+v", s.Budget, s.Robots)
		}
		if byAccept, _ := statusOf(b.T, handler, "/", "application/json"); byAccept != text {
			b.Errorf("by Accept:\n%s", byAccept)
		}
		if one, _ := statusOf(b.T, handler, "/?format=json&host=busy", ""); strings.Contains(one, "example.com\"") {
			b.Errorf("?host=busy shows %s", one)
		}
		page, _ := statusOf(b.T, handler, "/", "text/html")
		for _, want := range []string{"busy.example", "429", "7 s crawl-delay", "5 of 10 pages", "at most 5 pages of a host", "1 of 2", "with a free slot"} {
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
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodPost, "http://localhost/", nil))
		if w.Code != http.StatusMethodNotAllowed {
			b.Errorf("POST: status %d", w.Code)
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
			"Cross-Origin-Resource-Policy": "same-origin",
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
		for _, url := range []string{"https://example.com/", "https://example.com/", "https://busy.example/", "https://closed.example/"} {
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
		if want := map[string]int{"slot": 2, "block": 1, "visit-time": 1}; !maps.Equal(s.Waiting, want) {
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
	})
}

func TestStatusOfNothing(t *testing.T) {
	tr := mustNew(t, politeness.Config{UserAgent: agent, Base: politenesstest.NewWeb()})
	page, _ := statusOf(t, politeness.StatusHandler(tr), "/", "text/html")
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
