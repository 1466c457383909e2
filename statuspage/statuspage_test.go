package statuspage_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
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
	"github.com/go-politeness/politeness/statuspage"
)

const agent = "StatusBot/1.0 (+https://example.com/bot; bot@example.com)"

func newTransport(t *testing.T, cfg politeness.Config) *politeness.Transport {
	t.Helper()
	tr, err := politeness.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// get sends a GET of url and returns the response without having read its body.
func get(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// read fetches url wholly.
func read(ctx context.Context, client *http.Client, url string) error {
	resp, err := get(ctx, client, url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func statusOf(t *testing.T, h http.Handler, url, accept string) (string, *httptest.ResponseRecorder) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	r.Host = "localhost:6060"
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Body.String(), w
}

// TestHandlerServesExpectedHostsOnly: a stranger's name that resolves to this machine gets
// nothing, and no answer can be framed or read by another page.
func TestHandlerServesExpectedHostsOnly(t *testing.T) {
	tr := newTransport(t, politeness.Config{UserAgent: agent, Base: politenesstest.NewWeb()})
	handler := statuspage.Handler(tr, "crawler.internal")
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

func TestThePageOfNothing(t *testing.T) {
	tr := newTransport(t, politeness.Config{UserAgent: agent, Base: politenesstest.NewWeb()})
	page, w := statusOf(t, statuspage.Handler(tr), "/", "text/html")
	if got := w.Header().Get("Content-Type"); got != "text/html; charset=utf-8" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%v", w.Header())
	}
	for _, want := range []string{"delay of the host<dd>0", "No host is known yet", "Nothing was sent yet", "There were none", "No response yet", "No host has requests"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page doesn't say %q", want)
		}
	}
	page, _ = statusOf(t, statuspage.Handler(tr), "/?host=%3Cscript%3E", "text/html")
	if strings.Contains(page, "value=\"<script>") || !strings.Contains(page, "No host at work has &#34;&lt;script&gt;&#34;") {
		t.Errorf("a search for what isn't there:\n%s", page)
	}
}

// TestHandlerShowsACrawl in each format.
func TestHandlerShowsACrawl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://example.com").Robots("User-agent: *\nDisallow: /private\nCrawl-delay: 7\n").Page("/", "page").Page("/held", "page")
		web.Site("https://busy.example").Handle("/", politenesstest.Status(429, "Retry-After", "100"))
		web.Site("https://down.example").Handle("/robots.txt", politenesstest.Status(503))
		web.Site("https://closed.example").Robots("User-agent: *\nVisit-time: 0030-0100\n").Page("/", "page")
		tr := newTransport(t, politeness.Config{
			UserAgent: agent, Base: web, Hosts: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Second}},
			Budget: budget.New(budget.Limits{Pages: 10, PagesPerHost: 5, Duration: time.Hour}),
			Evidence: evidence.Func(func(_ context.Context, d evidence.Decision) {
				if d.Type == evidence.BlockedByRule {
					panic("disk full")
				}
			}),
			Refuse: func(r *http.Request) error {
				if r.URL.Path == "/login" {
					return errors.New("no logins")
				}
				return nil
			},
		})
		client := &http.Client{Transport: tr}
		if err := read(t.Context(), client, "https://busy.example/"); err != nil {
			t.Fatal(err)
		}
		for _, url := range []string{"https://example.com/private", "https://example.com/login", "https://down.example/"} {
			if err := read(t.Context(), client, url); err == nil {
				t.Errorf("%s was fetched", url)
			}
		}
		held, err := get(t.Context(), client, "https://example.com/held")
		if err != nil {
			t.Fatal(err)
		}
		defer held.Body.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		defer waiting.Wait()
		defer cancel()
		for _, url := range []string{"https://example.com/", "https://example.com/", "https://busy.example/", "https://closed.example/"} {
			waiting.Go(func() { _ = read(ctx, client, url) })
		}
		time.Sleep(90 * time.Second)
		synctest.Wait()

		handler := statuspage.Handler(tr)
		page, _ := statusOf(t, handler, "/", "text/html")
		for _, want := range []string{
			"busy.example", "429", "7 s crawl-delay", "5 of 10 pages", "at most 5 pages of a host", "1 of 1", "Evidence is lost", "disk full",
			"is its body closed?", "https://down.example", "not fetched", "Visit-time of robots.txt<dd>1", "1 of 1 slots are in use", "own rule",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("the page doesn't show %q:\n%s", want, page)
			}
		}

		text, w := statusOf(t, handler, "/?format=json", "")
		var s politeness.Status
		if err := json.Unmarshal([]byte(text), &s); err != nil || w.Header().Get("Content-Type") != "application/json" {
			t.Fatal(err, w.Header())
		}
		if len(s.Hosts) != 4 || s.Hosts[0].Key != "busy.example" || s.Waiting["slot"] != 2 || s.Budget.Limits.Pages != 10 || len(s.Unreachable) != 1 {
			t.Errorf("as JSON: %s", text)
		}
		if byAccept, _ := statusOf(t, handler, "/", "application/json"); byAccept != text {
			t.Errorf("by Accept:\n%s", byAccept)
		}
		if one, _ := statusOf(t, handler, "/?format=json&host=busy", ""); !strings.Contains(one, `"busy.example"`) || strings.Contains(one, `"example.com"`) {
			t.Errorf("?host=busy shows %s", one)
		}

		metrics, w := statusOf(t, handler, "/?format=prometheus", "")
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
			t.Error(w.Header())
		}
		for _, want := range []string{
			"# TYPE politeness_starts_total counter\npoliteness_starts_total 6\n", "politeness_waiting{hold=\"slot\"} 2\n",
			"politeness_refusals_total{reason=\"own rule\"} 1\n", "politeness_answers_total{class=\"2xx\"} 3\n",
			"politeness_hosts{state=\"blocked\"} 2\n", "politeness_refusing_hosts 0\n", "politeness_unreachable_origins 1\n", "politeness_suspected_leaks 1\n", "politeness_evidence_lost 1\n",
		} {
			if !strings.Contains(metrics, want) {
				t.Errorf("%q is missing in\n%s", want, metrics)
			}
		}
		lineOf := regexp.MustCompile(`^(# (HELP|TYPE) politeness_\w+ .+|politeness_\w+(\{\w+="[^"]*"\})? [0-9.e+-]+)$`)
		for line := range strings.Lines(metrics) {
			if !lineOf.MatchString(strings.TrimSuffix(line, "\n")) {
				t.Errorf("not of the format: %q", line)
			}
		}
	})
}

func TestHandlerIsReadOnly(t *testing.T) {
	handler := statuspage.Handler(newTransport(t, politeness.Config{UserAgent: agent, Base: politenesstest.NewWeb()}))
	for _, c := range []struct {
		method, target string
		want           int
	}{
		{http.MethodPost, "/", http.StatusMethodNotAllowed},
		{http.MethodGet, "/?format=xml", http.StatusBadRequest},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, "http://localhost"+c.target, nil))
		if w.Code != c.want {
			t.Errorf("%s %s: status %d", c.method, c.target, w.Code)
		}
	}
}
