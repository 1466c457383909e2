package politeness_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
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
		var s politeness.Status
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
		for _, want := range []string{"busy.example", "429", "7.000 s", "crawl-delay", "5 of 10 pages", "at most 5 pages of a host", "1 of 2", "with a free slot"} {
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
		var s politeness.Status
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

// listsNothing is a limiter that keeps its state to itself, as one on Redis does.
type listsNothing struct{ hostlimit.Limiter }

func TestStatusSaysWhyItListsNoHosts(t *testing.T) {
	virtually(t, politeness.Config{Hosts: listsNothing{limiter(t, hostlimit.Config{})}}, func(b *bubble) {
		text, _ := statusOf(b.T, politeness.StatusHandler(b.t), "/", "text/html")
		if !strings.Contains(text, "politeness_test.listsNothing") {
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
