package page

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// crawl fetches pages with a Transport and many goroutines, and returns the log.
func crawl(t *testing.T, cfg politeness.Config, goroutines, pages int, hosts ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	log := logtest.New(t, &out, evidence.LogConfig{Chained: true})
	cfg.UserAgent = "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)"
	cfg.Robots.RecordText = true
	cfg.Evidence = log
	transport, err := politeness.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: transport}
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			for range pages {
				path := []string{"/", "/news", "/private/x", "/moved", "/busy", "/broken", "/private/open"}[rnd.IntN(7)]
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, hosts[rnd.IntN(len(hosts))]+path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := client.Do(req)
				if err != nil {
					continue // refused, and in the log
				}
				if rnd.IntN(4) > 0 {
					_, _ = io.Copy(io.Discard, resp.Body)
				}
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// site builds a host that has a bit of everything.
func site(web *politenesstest.Web, origin string, latency time.Duration, delay string) {
	web.Site(origin).
		Robots("User-agent: *\n"+delay+"Disallow: /private\nAllow: /private/open\n").
		Page("/", "home").Page("/news", "news").Page("/private/open", "open").Page("/private/x", "secret").
		Handle("/moved", http.RedirectHandler("/news", http.StatusMovedPermanently)).
		Handle("/busy", politenesstest.InTurn(
			politenesstest.Text("not yet"), politenesstest.Status(429, "Retry-After", "1"), politenesstest.Text("fine"))).
		Handle("/broken", politenesstest.InTurn(politenesstest.Drop(), politenesstest.Status(503))).
		Latency(latency)
}

func prove(t *testing.T, log []byte) *audit.Report {
	t.Helper()
	report, err := audit.Check(bytes.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() {
		t.Errorf("%s\n%s", report, linesOf(log, report))
	}
	return report
}

// linesOf returns the lines of the first violation.
func linesOf(log []byte, report *audit.Report) string {
	lines := bytes.Split(log, []byte("\n"))
	var out bytes.Buffer
	for _, n := range report.Violations[0].Lines {
		fmt.Fprintf(&out, "%d: %s\n", n, lines[n-1])
	}
	return out.String()
}

// TestRealCrawl proves what a Transport logs, over hours of virtual time.
func TestRealCrawl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		hosts := []string{"https://a.example", "https://b.example", "https://c.example"}
		site(web, hosts[0], 300*time.Millisecond, "Crawl-delay: 2\n")
		site(web, hosts[1], 1500*time.Millisecond, "")
		site(web, hosts[2], 10*time.Millisecond, "Request-rate: 1/3\n")
		log := crawl(t, politeness.Config{
			Base:   web,
			Budget: budget.New(budget.Limits{Pages: 700, WarnAt: 0.8}),
			Retry:  politeness.Retry{Max: 2},
			Robots: robotscache.Config{TTL: 10 * time.Minute},
		}, 12, 100, hosts...)
		report := prove(t, log)
		for _, name := range []string{"delays kept", "allowed by robots.txt", "verdicts right", "budget kept"} {
			if p := report.Promise(name); p.Proved < 500 || p.Open > 0 {
				t.Errorf("not everything was put to the test: %+v", p)
			}
		}
		if report.Promise("blocks kept").Proved == 0 {
			t.Error("no block")
		}
		if _, html, ok := draw(t, log); !ok || len(pageData(t, html).Hosts) != 3 {
			t.Error("the crawl could not be drawn")
		}
	})
}

// TestRealCrawlOnRealClocks proves a crawl as fast as it goes: what is stamped
// when, and logged when, must not look impolite however goroutines are scheduled.
func TestRealCrawlOnRealClocks(t *testing.T) {
	web := politenesstest.NewWeb()
	hosts := []string{"https://a.example", "https://b.example"}
	for _, h := range hosts {
		web.Site(h).Robots("User-agent: *\nDisallow: /private\n").Handle("/", politenesstest.Text("a page"))
	}
	limiter, err := memory.New(hostlimit.Config{Delay: hostlimit.Delay{Min: 200 * time.Microsecond, Max: 300 * time.Microsecond}})
	if err != nil {
		t.Fatal(err)
	}
	report := prove(t, crawl(t, politeness.Config{Base: web, Limiter: limiter}, 16, 50, hosts...))
	if report.Promise("slots kept").Proved < 500 {
		t.Errorf("%d starts", report.Promise("slots kept").Proved)
	}
}

// TestTransportsOfOneLog: each Transport numbers its own starts and trips, so the end of a request
// belongs to the start of the same Transport.
func TestTransportsOfOneLog(t *testing.T) {
	both := make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select { // the two requests meet
		case both <- true:
		case <-both:
		case <-r.Context().Done():
		}
		time.Sleep(50 * time.Millisecond) // both starts are in the log before an end
	}))
	defer server.Close()
	var out bytes.Buffer
	log := logtest.New(t, &out, evidence.LogConfig{Chained: true})
	var wg sync.WaitGroup
	for range 2 {
		transport, err := politeness.New(politeness.Config{
			UserAgent: "ExampleBot/1.0 (+https://example.com/bot)", Evidence: log, DangerouslyIgnoreRobots: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := (&http.Client{Transport: transport}).Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
		})
	}
	wg.Wait()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	_, html, _ := draw(t, out.Bytes())
	h := pageData(t, html).Hosts[0]
	if len(h.Status) != 2 || h.Status[0] != http.StatusOK || h.Status[1] != http.StatusOK {
		t.Errorf("statuses %d, want two of 200", h.Status)
	}
}
