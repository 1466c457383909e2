package promises_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
)

// An hour of a crawl into a host that refuses, in whatever words, is 40 requests at most:
// with the limits of every preset and of the zero value, for one worker and for many.
func TestAnHourOfRefusalsIsFortyRequests(t *testing.T) {
	connection := errors.New("connection refused")
	answers := map[string]func(n int64) hostlimit.Outcome{
		"429":                  func(int64) hostlimit.Outcome { return hostlimit.Outcome{Status: 429} },
		"503 for an hour":      func(int64) hostlimit.Outcome { return hostlimit.Outcome{Status: 503, RetryAfter: time.Hour} },
		"401":                  func(int64) hostlimit.Outcome { return hostlimit.Outcome{Status: 401} },
		"403":                  func(int64) hostlimit.Outcome { return hostlimit.Outcome{Status: 403} },
		"451":                  func(int64) hostlimit.Outcome { return hostlimit.Outcome{Status: 451} },
		"500":                  func(int64) hostlimit.Outcome { return hostlimit.Outcome{Status: 500} },
		"no response":          func(int64) hostlimit.Outcome { return hostlimit.Outcome{Err: connection} },
		"nothing left, 200":    func(int64) hostlimit.Outcome { return hostlimit.Outcome{Status: 200, Reset: time.Hour} },
		"a challenge, 403":     func(int64) hostlimit.Outcome { return hostlimit.Outcome{Status: 403, Refused: "challenge"} },
		"a captcha, 200":       func(int64) hostlimit.Outcome { return hostlimit.Outcome{Status: 200, Refused: "captcha"} },
		"429 and 403 in turn":  func(n int64) hostlimit.Outcome { return hostlimit.Outcome{Status: []int{429, 403}[n%2]} },
		"500 and none in turn": func(n int64) hostlimit.Outcome { return []hostlimit.Outcome{{Status: 500}, {Err: connection}}[n%2] },
		"403 and 429 for 100 s": func(n int64) hostlimit.Outcome {
			return []hostlimit.Outcome{{Status: 403}, {Status: 429, RetryAfter: 100 * time.Second}}[n%2]
		},
		"pages 403, robots fine": func(n int64) hostlimit.Outcome {
			return []hostlimit.Outcome{{Status: 403}, {Status: 200, Aside: true}}[min(n%10, 9)/9]
		},
	}
	limits := map[string]hostlimit.Config{
		"zero": {}, "SiteAudit": siteAudit().Hosts, "Conservative": conservative().Hosts,
		"Bulk": bulk().Hosts, "Responsive": responsive().Hosts,
	}
	for answer, say := range answers {
		most := make(map[string]int64)
		for name, cfg := range limits {
			for _, workers := range []int{1, 16} {
				synctest.Test(t, func(t *testing.T) {
					n := hourOf(t, cfg, workers, say)
					if n > 40 {
						t.Errorf("%s, %d workers, %s: %d requests in an hour", name, workers, answer, n)
					}
					most[name] = max(most[name], n)
				})
			}
		}
		t.Logf("%s: %v", answer, most)
	}
}

// hourOf counts the requests of workers that ask for an hour, and come back when a refused turn says.
func hourOf(t *testing.T, cfg hostlimit.Config, workers int, say func(n int64) hostlimit.Outcome) int64 {
	m, err := memory.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	over := time.Now().Add(time.Hour)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for time.Now().Before(over) {
				l, err := m.Acquire(t.Context(), "example.com", 0)
				if err != nil {
					var refused *hostlimit.Error
					if !errors.As(err, &refused) || !refused.RetryAt.After(time.Now()) {
						t.Errorf("refused at %v: %#v", time.Now(), err)
						return
					}
					time.Sleep(time.Until(refused.RetryAt))
					continue
				}
				if _, err := l.Start(t.Context()); err == nil && time.Now().Before(over) {
					o := say(requests.Add(1) - 1)
					o.Latency = 100 * time.Millisecond
					time.Sleep(o.Latency)
					l.Observe(o)
				}
				l.Release()
			}
		})
	}
	wg.Wait()
	return requests.Load()
}

// The same at the site: a crawler with each preset works for an hour, comes back whenever it is told
// to, and the site counts what it sees, robots.txt included.
func TestAnHourAtASiteThatRefusesIsFortyRequests(t *testing.T) {
	status := politenesstest.Status
	captcha := func(resp *http.Response) error {
		if resp.Header.Get("X-Captcha") != "" {
			return errors.New("a captcha")
		}
		return nil
	}
	for name, site := range map[string]struct {
		page http.Handler
		down error
	}{
		"503 Retry-After":    {page: status(503, "Retry-After", "3600")},
		"a challenge":        {page: status(403, "Cf-Mitigated", "challenge")},
		"403":                {page: status(403)},
		"451":                {page: status(451)},
		"500":                {page: status(500)},
		"connection refused": {down: syscall.ECONNREFUSED},
		"RateLimit":          {page: status(200, "RateLimit", `"p";r=0;t=3600`)},
		"X-RateLimit":        {page: status(200, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "3600")},
		"a captcha":          {page: status(200, "X-Captcha", "1")},
		"429 and 403 in turn": {page: func() http.Handler {
			var n atomic.Int64
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader([]int{429, 403}[n.Add(1)%2]) })
		}()},
	} {
		for preset, cfg := range map[string]politeness.Config{
			"zero": {UserAgent: agent}, "SiteAudit": siteAudit(), "Conservative": conservative(), "Bulk": bulk(), "Responsive": responsive(),
		} {
			for _, workers := range []int{1, 16} {
				cfg.IsRefusal = captcha
				cfg.Spend = budget.Limits{}
				virtually(t, cfg, func(b *bubble) {
					if site.page != nil {
						b.site.Handle("/", site.page)
					}
					b.site.Robots("User-agent: *\nAllow: /\n").Down(site.down)
					b.work(workers, time.Hour)
					if n := len(b.web.Requests()); n > 40 {
						b.Errorf("%s, %d workers, %s: %d requests in an hour", preset, workers, name, n)
					}
				})
			}
		}
	}
}

// work has workers ask for pages, one after the other, until the time is over.
func (b *bubble) work(workers int, d time.Duration) {
	ctx, cancel := context.WithTimeout(b.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, err := fetch(ctx, b.client, "https://example.com/page")
				var refused *politeness.Error
				if errors.As(err, &refused) {
					select {
					case <-time.After(max(time.Until(refused.RetryAt), time.Second)):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	wg.Wait()
}
