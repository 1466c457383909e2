package promises_test

// The acceptance tests of Conservative, a research crawler's policy, in the words
// of its owner's description. The cache around it is shown in examples/integrations/conservative.

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/politenesstest"
)

func conservative() politeness.Config { return politeness.Conservative(agent) }

// 3 s per host unless crawl-delay.
func TestConservativeWaits3sPerHostUnlessCrawlDelay(t *testing.T) {
	const latency = 200 * time.Millisecond
	for _, test := range []struct {
		robots string
		gap    time.Duration
	}{
		{"", 3 * time.Second},
		{"User-agent: *\nCrawl-delay: 7.5\n", 7500 * time.Millisecond},
		{"User-agent: *\nCrawl-delay: 1\n", 3 * time.Second}, // what is shorter changes nothing
	} {
		acceptance(t, conservative, func(b *bubble) {
			b.site.Robots(test.robots).Handle("/", http.HandlerFunc(everywhere)).Latency(latency)
			var group sync.WaitGroup
			for i := range 4 {
				group.Go(func() { b.mustGet(fmt.Sprintf("https://example.com/%d", i), 200) })
			}
			group.Wait()
			for _, gap := range b.gaps() {
				if gap != latency+test.gap {
					b.Errorf("robots.txt %q: a gap of %v, want %v from the end of one to the start of the next", test.robots, gap, test.gap)
				}
			}
			b.web.Check(b, politenesstest.Rules{Delay: 3 * time.Second, Concurrency: 1})
		})
	}
}

// UA with product, version and mail address, refused otherwise.
func TestConservativeRefusesAUserAgentWithoutProductVersionAndMailAddress(t *testing.T) {
	for ua, ok := range map[string]bool{
		"ResearchBot/1.0 (+https://example.edu/bot; bot@example.edu)": true,
		"ResearchBot/1.0 bot@example.edu":                             true,
		"ResearchBot/v2 (mailto:bot@example.edu)":                     true,
		"Mozilla/5.0 (compatible; ResearchBot/1.0; bot@example.edu)":  true,
		"ResearchBot/1.0 (+https://example.edu/bot)":                  false, // no mail address
		"ResearchBot/1.0 (+https://user@example.edu/bot)":             false,
		"ResearchBot/1.0 (+https://example.edu/@research.bot)":        false,
		"ResearchBot/1.0 (bot@example)":                               false,
		"ResearchBot (bot@example.edu)":                               false, // no version
		"ResearchBot/beta (bot@example.edu)":                          false,
		"Mozilla/5.0 (compatible; ResearchBot; bot@example.edu)":      false,
		"(bot@example.edu)":                                           false, // no product
		"bot@example.edu":                                             false,
		"":                                                            false,
	} {
		_, err := politeness.New(politeness.Conservative(ua))
		if ok && err != nil {
			t.Errorf("%q: %v", ua, err)
		}
		if !ok && (err == nil || !strings.Contains(err.Error(), "UserAgent")) {
			t.Errorf("%q: error %v, want one that names UserAgent", ua, err)
		}
	}
}

// robots TTL 1 h ...: an hour is one, also where the server would have it longer.
func TestConservativeAsksForRobotsEachHour(t *testing.T) {
	acceptance(t, conservative, func(b *bubble) {
		fetches := 0
		b.site.Page("/", "page").Handle("/robots.txt", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fetches++
			w.Header().Set("Cache-Control", "max-age=86400")
		}))
		b.mustGet("https://example.com/", 200)
		time.Sleep(59 * time.Minute)
		b.mustGet("https://example.com/", 200)
		if fetches != 1 {
			b.Errorf("robots.txt was fetched %d times in 59 minutes", fetches)
		}
		time.Sleep(2 * time.Minute)
		b.mustGet("https://example.com/", 200)
		if fetches != 2 {
			b.Errorf("robots.txt was fetched %d times in 61 minutes", fetches)
		}
	})
}

// ... with ETag and Last-Modified.
func TestConservativeRevalidatesRobotsAfterOneHour(t *testing.T) {
	acceptance(t, conservative, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /private\n").Page("/", "page")
		for range 4 {
			b.mustGet("https://example.com/", 200)
			time.Sleep(25 * time.Minute)
		}
		var fetches []politenesstest.Request
		for _, r := range b.web.Requests() {
			if strings.HasSuffix(r.URL, "/robots.txt") {
				fetches = append(fetches, r)
			}
		}
		if len(fetches) != 2 {
			b.Fatalf("%d fetches of robots.txt in 75 minutes, want 2", len(fetches))
		}
		if after := fetches[1].Start.Sub(fetches[0].Start); !within(after, time.Hour, 80*time.Minute) {
			b.Errorf("asked again after %v", after)
		}
		h := fetches[1].Header
		if h.Get("If-None-Match") != fetches[0].Response.Get("ETag") || h.Get("If-Modified-Since") != fetches[0].Response.Get("Last-Modified") {
			b.Errorf("asked again with %v", h)
		}
		if fetches[1].Status != http.StatusNotModified {
			b.Errorf("status %d, want 304", fetches[1].Status)
		}
		b.one(evidence.RobotsRevalidated)
	})
}

// 5 min deny on 5xx.
func TestConservativeDeniesFor5MinutesWhenRobotsAnswers5xx(t *testing.T) {
	acceptance(t, conservative, func(b *bubble) {
		b.site.RobotsStatus(502).Page("/", "page")
		_, err := b.get("https://example.com/")
		e := refused(b.T, err, politeness.StageRobots, politeness.ErrDisallowed)
		if in := e.RetryAt.Sub(b.began); !within(in, 5*time.Minute, 5*time.Minute+time.Second) {
			b.Errorf("to come back in %v, want 5 min", in)
		}
		b.site.Robots("User-agent: *\nAllow: /\n")
		time.Sleep(5*time.Minute - time.Second)
		_, err = b.get("https://example.com/")
		refused(b.T, err, politeness.StageRobots, politeness.ErrDisallowed)
		time.Sleep(2 * time.Second)
		b.mustGet("https://example.com/", 200)
	})
}

// 404 allows.
func TestConservativeAllowsWhenRobotsAnswers404(t *testing.T) {
	acceptance(t, conservative, func(b *bubble) {
		b.site.RobotsStatus(404).Page("/any/page", "page")
		b.mustGet("https://example.com/any/page", 200)
	})
}

// 403 and 429 slow a host down for 15 minutes, doubling on repeats to 24 h, with
// 10 to 20 % jitter.
func TestConservativeSlowsAHostDownFor15MinutesDoublingTo24h(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusTooManyRequests} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			acceptance(t, patient(conservative), func(b *bubble) {
				b.site.Handle("/", politenesstest.Status(status))
				for range 9 {
					b.mustGet("https://example.com/page", status)
				}
				starts := b.starts()
				step := 15 * time.Minute
				for i := 1; i < len(starts); i++ {
					// After an hour robots.txt is asked first, which takes a turn of three seconds.
					if gap := starts[i].Sub(starts[i-1]); !within(gap, step+step/10, step+step/5+3*time.Second) {
						b.Errorf("slowdown %d is %v, want %v and 10 to 20 %% of it", i, gap, step)
					}
					step = min(2*step, 24*time.Hour)
				}
				if n := len(b.log.Decisions(evidence.HostBlocked)); n != 9 {
					b.Errorf("%d records host_blocked, want 9", n)
				}
			})
		})
	}
}

// A crawler that comes back hours after a slowdown, and is refused again, is
// refused on repeat.
func TestConservativeDoublesForARepeatHoursLater(t *testing.T) {
	acceptance(t, conservative, func(b *bubble) {
		b.site.Handle("/", politenesstest.Status(http.StatusForbidden))
		b.mustGet("https://example.com/", http.StatusForbidden)
		time.Sleep(8 * time.Hour)
		b.mustGet("https://example.com/", http.StatusForbidden)
		d := b.log.Decisions(evidence.HostBlocked)[1]
		if step := d.Until.Sub(d.Time); d.Refusals != 2 || !within(step, 33*time.Minute, 36*time.Minute) {
			b.Errorf("record %+v, want 30 minutes and 10 to 20 %% of it", d)
		}
	})
}

// A Retry-After lengthens a slowdown and never shortens it.
func TestConservativeSlowdownIsNeverShortenedByRetryAfter(t *testing.T) {
	for retryAfter, want := range map[string][2]time.Duration{
		"5":     {15*time.Minute + 90*time.Second, 18 * time.Minute},
		"soon":  {15*time.Minute + 90*time.Second, 18 * time.Minute},
		"36000": {10 * time.Hour, 10 * time.Hour},
	} {
		acceptance(t, patient(conservative), func(b *bubble) {
			b.site.Handle("/", politenesstest.Status(http.StatusTooManyRequests, "Retry-After", retryAfter))
			b.mustGet("https://example.com/1", http.StatusTooManyRequests)
			b.mustGet("https://example.com/2", http.StatusTooManyRequests)
			starts := b.starts()
			if gap := starts[1].Sub(starts[0]); !within(gap, want[0], want[1]) {
				b.Errorf("Retry-After: %s: a slowdown of %v, want %v to %v", retryAfter, gap, want[0], want[1])
			}
			if d := b.log.Decisions(evidence.HostBlocked)[0]; (d.Reason == "by Retry-After") != (retryAfter == "36000") {
				b.Errorf("Retry-After: %s: record %+v", retryAfter, d)
			}
		})
	}
}

// The jitter is random, so that crawlers don't come back together.
func TestConservativeJitterIsRandom(t *testing.T) {
	seen := map[time.Duration]bool{}
	acceptance(t, conservative, func(b *bubble) {
		for i := range 20 {
			site := fmt.Sprintf("https://%d.example", i)
			b.web.Site(site).Handle("/", politenesstest.Status(http.StatusForbidden))
			b.mustGet(site+"/", http.StatusForbidden)
		}
		for _, d := range b.log.Decisions(evidence.HostBlocked) {
			seen[d.Until.Sub(d.Time)] = true
		}
	})
	if len(seen) < 19 {
		t.Errorf("20 hosts were slowed down for %d different times", len(seen))
	}
}

// Any other answer ends the slowdown, and the next refusal begins anew.
func TestConservativeForgivesAHostThatAnswersAgain(t *testing.T) {
	acceptance(t, conservative, func(b *bubble) {
		b.site.Page("/", "page").Sequence("/", 403, 429, 200, 403, 200)
		for _, status := range []int{403, 429, 200, 403, 200} {
			b.mustGet("https://example.com/", status)
		}
		starts := b.starts()
		for i, step := range []time.Duration{15 * time.Minute, 30 * time.Minute, 0, 15 * time.Minute} {
			gap := starts[i+1].Sub(starts[i])
			if step == 0 && gap != 3*time.Second || step > 0 && !within(gap, step+step/10, step+step/5) {
				b.Errorf("gap %d is %v", i, gap)
			}
		}
	})
}

// ROBOTS_* environment variables.
func TestConservativeReadsTheRobotsVariables(t *testing.T) {
	setenv(t, map[string]string{"ROBOTS_TTL_SECONDS": "600", "ROBOTS_DENY_TTL_SECONDS": "30", "ROBOTS_DEFAULT_DELAY_SECONDS": "10"})
	fromEnv := func() politeness.Config {
		c, err := conservative().WithEnv()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	acceptance(t, fromEnv, func(b *bubble) {
		b.site.Page("/", "page").RobotsStatus(503)
		_, err := b.get("https://example.com/")
		refused(b.T, err, politeness.StageRobots, politeness.ErrDisallowed)
		b.site.Robots("User-agent: *\nAllow: /\n")
		time.Sleep(30 * time.Second)
		b.mustGet("https://example.com/", 200)
		b.mustGet("https://example.com/", 200)
		if gaps := b.gaps(); gaps[len(gaps)-1] != 10*time.Second {
			b.Errorf("gaps %v, want 10 s at the end", gaps)
		}
		time.Sleep(11 * time.Minute)
		b.mustGet("https://example.com/", 200)
		b.one(evidence.RobotsRevalidated)
		// The rest of the policy stays.
		b.site.Handle("/no", politenesstest.Status(http.StatusForbidden))
		b.mustGet("https://example.com/no", http.StatusForbidden)
		if d := b.last(evidence.HostBlocked); d.Until.Sub(d.Time) < 15*time.Minute {
			b.Errorf("record %+v", d)
		}
	})
}

// Logs hold metadata only, never a body.
func TestConservativeLogsHoldMetadataOnlyNeverABody(t *testing.T) {
	const body, robots = "the body of the page", "the text of robots.txt"
	var lines, text bytes.Buffer
	log := evidence.JSONLines(&lines)
	acceptance(t, conservative, func(b *bubble) {
		sinks := evidence.Multi(log, evidence.Slog(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))))
		cfg := conservative()
		cfg.Base, cfg.Evidence = b.web, sinks
		tr, err := politeness.New(cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.client.Transport = tr
		b.site.Robots("# "+robots+"\nUser-agent: *\nDisallow: /private\n").Page("/page", body)
		b.site.Handle("/error", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Set-Cookie", "session="+body)
			http.Error(w, body, http.StatusForbidden)
		}))
		b.mustGet("https://example.com/page", 200)
		b.mustGet("https://example.com/error", 403)
		_, _ = b.get("https://example.com/private")
		if err := log.Close(); err != nil {
			b.Error(err)
		}
	})
	for name, written := range map[string]string{"JSON Lines": lines.String(), "slog": text.String()} {
		if !strings.Contains(written, "https://example.com/page") || !strings.Contains(written, string(evidence.HostBlocked)) {
			t.Errorf("%s doesn't tell of the crawl:\n%s", name, written)
		}
		if strings.Contains(written, body) || strings.Contains(written, robots) {
			t.Errorf("%s holds a body:\n%s", name, written)
		}
	}
}

// Public pages only: anything but GET and HEAD is refused, and any request that
// carries credentials.
func TestConservativeFetchesPublicPagesOnly(t *testing.T) {
	acceptance(t, conservative, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(everywhere))
		send := func(method, url string, header ...string) error {
			req, err := http.NewRequestWithContext(b.Context(), method, url, nil)
			if err != nil {
				b.Fatal(err)
			}
			for _, name := range header {
				req.Header.Set(name, "secret")
			}
			resp, err := b.client.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if err := send(method, "https://example.com/"); err != nil {
				b.Errorf("%s: %v", method, err)
			}
		}
		before := len(b.web.Requests())
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, "SEARCH"} {
			refused(b.T, send(method, "https://example.com/"), politeness.StageRule, politeness.ErrDisallowed)
		}
		for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie"} {
			refused(b.T, send(http.MethodGet, "https://example.com/", name), politeness.StageRule, politeness.ErrDisallowed)
		}
		refused(b.T, send(http.MethodGet, "https://user:secret@example.com/"), politeness.StageRule, politeness.ErrDisallowed)
		if n := len(b.web.Requests()) - before; n != 0 {
			b.Errorf("%d requests were sent", n)
		}
		records := b.log.Decisions(evidence.BlockedByRule)
		if len(records) != 10 {
			b.Errorf("%d records blocked_by_rule, want 10", len(records))
		}
		for _, d := range records {
			if d.Reason == "" || strings.Contains(d.Reason+d.URL, "secret") {
				b.Errorf("record %+v", d)
			}
		}
	})
}
