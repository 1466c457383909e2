package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// logged returns what f writes to the standard logger.
func logged(f func()) string {
	var out strings.Builder
	log.SetOutput(&out)
	defer log.SetOutput(os.Stderr)
	f()
	return out.String()
}

// TestSummaryNamesFirstErrors: the first error of each outcome, without what a server has put into
// it.
func TestSummaryNamesFirstErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", page("a page")).Handle("/drop", politenesstest.Drop())
		r.crawl.Workers = 1
		r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
			if p.URL == "https://example.com/" {
				return nil
			}
			return fmt.Errorf("database is \x1b[31mlocked\nby %s", p.URL)
		}
		s := r.run(t.Context(), t, "https://example.com/", "https://example.com/1", "https://example.com/2", "https://example.com/drop", "mailto:x")
		for _, want := range []string{
			`2 visit failed (database is \x1b[31mlocked\nby https://example.com/1), `, "1 failed (", `1 invalid (crawl: "mailto:x": scheme "mailto" is neither http nor https) in `,
		} {
			if !strings.Contains(s.String(), want) {
				t.Errorf("summary: %s\nwant in it: %s", s, want)
			}
		}
	})
}

// TestPanicsAreReported with their stacks, as net/http does, and end no crawl.
func TestPanicsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", page("a page"))
		r.crawl.Visit = func(context.Context, *crawl.Page) error { panic("no such table") }
		r.crawl.Progress = func(crawl.Progress) { panic("no terminal") }
		r.crawl.Discover = listed(func(context.Context, string) []crawl.Request { panic("no sitemap") })
		var s crawl.Summary
		text := logged(func() { s = r.run(t.Context(), t, "https://example.com/a") })
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.VisitFailed: 1})
		for _, want := range []string{
			"crawl: panic in Visit of https://example.com/a: no such table\ngoroutine ", "crawl: panic in Progress: no terminal\n",
			"crawl: panic in Discover of https://example.com/a: no sitemap\n", "report_test.go:",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in the log:\n%s", want, text)
			}
		}
		if !strings.Contains(s.String(), "1 visit failed (crawl: panic in Visit of https://example.com/a: no such table)") {
			t.Errorf("summary: %s", s)
		}
	})
}

// TestClientLeadsToTheTransport: a Client that sends requests beside the Transport ends the crawl
// at its first answer. One that answers from a cache, or wraps the Transport, doesn't.
func TestClientLeadsToTheTransport(t *testing.T) {
	web := func() *politenesstest.Web {
		web := politenesstest.NewWeb()
		web.Site("https://example.com").Robots("User-agent: *\nDisallow: /no\n").Handle("/", page(`<a href="/no">no</a><a href="/yes">yes</a>`))
		return web
	}
	for name, tt := range map[string]struct {
		client func(t *testing.T, own *politeness.Transport, web *politenesstest.Web) http.RoundTripper
		ends   bool
		seen   int
	}{
		"its own": {func(_ *testing.T, own *politeness.Transport, _ *politenesstest.Web) http.RoundTripper { return own }, false, 2},
		"wrapped": {func(_ *testing.T, own *politeness.Transport, _ *politenesstest.Web) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) { return own.RoundTrip(req.Clone(req.Context())) })
		}, false, 2},
		"cached": {func(_ *testing.T, own *politeness.Transport, _ *politenesstest.Web) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if req.URL.Path != "/" {
					return own.RoundTrip(req)
				}
				w := httptest.NewRecorder()
				page(`<a href="/no">no</a><a href="/yes">yes</a>`)(w, req)
				return w.Result(), nil
			})
		}, false, 1},
		"beside it": {func(_ *testing.T, _ *politeness.Transport, web *politenesstest.Web) http.RoundTripper { return web }, true, 1},
		"beside it, without a trace": {func(_ *testing.T, _ *politeness.Transport, web *politenesstest.Web) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				return web.RoundTrip(req.Clone(context.Background()))
			})
		}, true, 1},
		"another Transport": {func(t *testing.T, _ *politeness.Transport, web *politenesstest.Web) http.RoundTripper {
			other, err := politeness.New(politeness.Config{UserAgent: userAgent, Base: web})
			if err != nil {
				t.Fatal(err)
			}
			return other
		}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := web()
				transport, err := politeness.New(politeness.Config{
					UserAgent: userAgent, Base: web, Evidence: evidence.Func(func(_ context.Context, d evidence.Decision) {
						if d.Type == evidence.Failed {
							t.Errorf("recorded: %v", d)
						}
					}),
				})
				if err != nil {
					t.Fatal(err)
				}
				var visited int
				c, err := crawl.New(crawl.Config{
					Transport: transport, Follow: crawl.SameHost, Workers: 1,
					Client: &http.Client{Transport: tt.client(t, transport, web)},
					Visit:  func(context.Context, *crawl.Page) error { visited++; return nil },
				})
				if err != nil {
					t.Fatal(err)
				}
				summary, err := c.Run(t.Context(), "https://example.com/")
				if ends := err != nil && strings.Contains(err.Error(), "Config.Client"); ends != tt.ends || err != nil && !ends {
					t.Errorf("Run returned %v: %v", err, summary)
				}
				if tt.ends && (!errors.Is(err, summary.Stopped) || summary.Outcomes[crawl.Left] != 1) {
					t.Errorf("stopped: %v", summary)
				}
				pages := 0
				for _, req := range web.Requests() {
					if !strings.HasSuffix(req.URL, "/robots.txt") {
						pages++
					}
				}
				if pages != tt.seen {
					t.Errorf("the site has seen %v", web.Requests())
				}
			})
		})
	}
}

// TestRate is that of the pages since the Progress before.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.politeness.Hosts.Delay = hostlimit.Delay{Min: 100 * time.Millisecond, Max: 100 * time.Millisecond, Adaptive: hostlimit.Fixed}
		r.Site("https://example.com").Handle("/", page(""))
		calls := 0
		r.crawl.Progress = func(p crawl.Progress) {
			if calls++; p.Rate < 8 || p.Rate > 13 {
				t.Errorf("%v after %v", p.Rate, p.Elapsed)
			}
		}
		r.run(t.Context(), t, numbered("example.com", 55)...)
		if calls < 6 {
			t.Errorf("%d calls", calls)
		}
	})
}

// TestProgressNamesEveryHostThatWaits, and what for, also behind pages in flight.
func TestProgressNamesEveryHostThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.politeness.Hosts.Concurrency = 2
		slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(40 * time.Second) })
		refuse := politenesstest.Status(http.StatusTooManyRequests, "Retry-After", "30")
		r.Site("https://refused.example").Handle("/0", page("")).Handle("/1", slow).Handle("/2", politenesstest.InTurn(refuse, page("")))
		r.Site("https://patient.example").Robots("User-agent: *\nCrawl-delay: 20\n").Handle("/", page(""))
		r.Site("https://full.example").Handle("/0", page("")).Handle("/", slow)
		r.Site("https://asleep.example").Handle("/0", politenesstest.InTurn(
			politenesstest.Status(http.StatusServiceUnavailable), politenesstest.Status(http.StatusServiceUnavailable), page("")))
		r.Site("https://down.example").Down(errors.New("no route"))
		r.Site("https://new.example").Latency(20 * time.Second)
		var waits map[string]string
		var line strings.Builder
		show := crawl.ProgressLine(&line)
		began := time.Now()
		r.crawl.Progress = func(p crawl.Progress) {
			show(p)
			var first time.Time
			for w := range p.Waiting {
				if !w.Until.IsZero() && (first.IsZero() || w.Until.Before(first)) {
					first = w.Until
				}
			}
			if !p.NextAt.Equal(first) {
				t.Errorf("the next host is %s, at %v, and the first one may be asked at %v", p.Next, p.NextAt, first)
			}
			if d := time.Since(began); d < 5*time.Second || d > 6*time.Second {
				return
			}
			waits = map[string]string{}
			for w := range p.Waiting {
				if waits[w.Host] != "" {
					t.Errorf("%s twice", w.Host)
				}
				until := "-"
				if !w.Until.IsZero() {
					until = w.Until.Sub(began).Round(10 * time.Second).String()
				}
				waits[w.Host] = until + " " + w.Why
			}
		}
		var urls []string
		for _, host := range []string{"refused", "patient", "full", "new"} {
			urls = append(urls, numbered(host+".example", 4)...)
		}
		r.run(t.Context(), t, append(urls, "https://asleep.example/0", "https://down.example/")...)
		for host, want := range map[string]string{
			"refused": "30s it has answered 429", "patient": "20s its delay between requests", "full": "- its 2 pages in flight",
			"asleep": "10s it has answered 503", "down": "5m0s ", "new": "- its robots.txt",
		} {
			if got := waits[host+".example"]; !strings.HasPrefix(got, want) {
				t.Errorf("%s: waits for %q, want %q", host, got, want)
			}
		}
		if len(waits) != 6 || !strings.Contains(line.String(), "in flight on 6 hosts, 0.0 MB, 10s; 6 hosts wait, the first: asleep.example (it has answered 503, until ") {
			t.Errorf("%v\n%s", waits, line.String())
		}
	})
}
