package promises_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

func TestCheckDecidesWithoutFetching(t *testing.T) {
	virtually(t, politeness.Config{Budget: budget.New(budget.Limits{Pages: 1})}, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /admin\n")
		for url, want := range map[string]bool{"https://example.com/admin": false, "https://example.com/page": true} {
			v, err := b.t.Check(b.Context(), url)
			if err != nil || v.Allowed != want {
				b.Errorf("Check(%s) = %+v, %v; want %t", url, v, err, want)
			}
		}
		if got := b.asked(); len(got) != 1 {
			b.Errorf("asked for %q, want robots.txt only", got)
		}
		b.one(evidence.RobotsAllowed)
		if d := b.one(evidence.BlockedByRobots); d.MatchedRule != "Disallow: /admin" || d.Line != 2 {
			b.Errorf("record %+v", d)
		}
	})
}

func TestCheckSaysWhyWhenRobotsCantBeHad(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Sequence("/robots.txt", 503)
		v, err := b.t.Check(b.Context(), "https://example.com/")
		if err != nil || v.Allowed || !strings.Contains(v.Reason, "503") {
			b.Errorf("verdict %+v, %v", v, err)
		}
	})
}

// What is out of date decides nothing, and a verdict is stamped when it is found.
func TestCheckAsksAnewWhenRobotsIsOutOfDate(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /private\n")
		for _, wait := range []time.Duration{0, time.Minute, 2 * time.Hour, 48 * time.Hour} {
			time.Sleep(wait)
			if v, err := b.t.Check(b.Context(), "https://example.com/private"); err != nil || v.Allowed {
				b.Errorf("verdict %+v, error %v", v, err)
			}
			verdicts := b.log.Decisions(evidence.BlockedByRobots)
			if last := verdicts[len(verdicts)-1]; !last.Time.Equal(time.Now()) {
				b.Errorf("stamped %v, want %v", last.Time, time.Now())
			}
		}
		if n := len(b.web.Requests()); n != 3 {
			b.Errorf("robots.txt was asked %d times, want 3", n)
		}
	})
}

// TestQuestionsReadURLsAsBrowsersDo, and as a crawl asks for them.
func TestQuestionsReadURLsAsBrowsersDo(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /50%25-off\nDisallow: /private\n")
		for _, raw := range []string{
			"https://example.com/50%-off", "https:///example.com/private", `https:\\example.com\private`, " https://example.com/pri\nvate ",
			"https:/example.com/private", "https:example.com/private", "https://example%2ecom/private",
		} {
			v, err := b.t.Check(b.Context(), raw)
			if err != nil || v.Allowed {
				b.Errorf("Check(%q): %+v, %v", raw, v, err)
			}
			allowed, err := b.t.Filter(b.Context(), []string{raw})
			if err != nil || len(allowed) > 0 {
				b.Errorf("Filter(%q): %q, %v", raw, allowed, err)
			}
			key, err := b.t.HostKey(raw)
			if err != nil || key != "example.com" {
				b.Errorf("HostKey(%q): %q, %v", raw, key, err)
			}
			_, err = b.t.Next(b.Context(), raw)
			if !errors.Is(err, politeness.ErrDisallowed) {
				b.Errorf("Next(%q): %v", raw, err)
			}
		}
		allowed, err := b.t.Filter(b.Context(), []string{"https://example.com/100%", "https://example.com/50%-off"})
		if err != nil || !slices.Equal(allowed, []string{"https://example.com/100%"}) {
			b.Errorf("%q, %v", allowed, err)
		}
		if got := b.asked(); len(got) != 1 {
			b.Errorf("asked for %q, want robots.txt only", got)
		}
	})
}

func TestErrorsHoldNoUserinfo(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		_, err := b.t.Check(b.Context(), "https://user:secret@example.com:bad/x")
		if e := refused(b.T, err, politeness.StageRequest, nil); e.URL != "example.com:bad/x" {
			b.Errorf("the error is about %q", e.URL)
		}
		_, err = b.t.Check(b.Context(), "https://example.com:bad/x")
		if e := refused(b.T, err, politeness.StageRequest, nil); e.URL != "https://example.com:bad/x" || strings.Contains(err.Error(), "https:") {
			b.Errorf("the error is about %q, and says %q", e.URL, err)
		}
		for _, raw := range []string{
			"https://user:secret@example.com:bad/", "https:user:secret@example.com:bad", "https://us er:secret@[::1/",
			"https://user:secret/x@example.com/", ":secret@", "https://secret:p@/", "ftp://user:secret@example.com/",
		} {
			_, err := b.t.Check(b.Context(), raw)
			var e *politeness.Error
			if !errors.As(err, &e) || strings.Contains(err.Error()+e.URL, "secret") {
				b.Errorf("%s: %#v", raw, err)
			}
		}
	})
}

func TestFilterKeepsWhatIsAllowedInOrder(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /admin\nDisallow: /api\n")
		b.web.Site("https://other.example").Robots("User-agent: *\nDisallow: /\nAllow: /$\n")
		got, err := b.t.Filter(b.Context(), []string{
			"https://example.com/", "https://other.example/x", "https://example.com/page", "https://example.com/admin",
			"https://other.example/", "https://example.com/api/users", "ftp://example.com/", "::", "https://example.com/page?x=1",
		})
		want := []string{"https://example.com/", "https://example.com/page", "https://other.example/", "https://example.com/page?x=1"}
		if !slices.Equal(got, want) {
			b.Errorf("got %q, want %q", got, want)
		}
		for _, text := range []string{"ftp://example.com/: politeness: request: ", "::: politeness: request: ", "missing protocol scheme"} {
			if err == nil || !strings.Contains(err.Error(), text) {
				b.Errorf("error %v, want one that says %q", err, text)
			}
		}
		refused(b.T, err, politeness.StageRequest, nil)
	})
}

// TestFilterTellsUnreachableFromDisallowed: URLs are not lost because robots.txt can't be had now.
func TestFilterTellsUnreachableFromDisallowed(t *testing.T) {
	for fallback, want := range map[robotscache.Unreachable]int{robotscache.Deny: 1, robotscache.Allow: 2} {
		virtually(t, politeness.Config{Robots: robotscache.Config{OnUnreachable: fallback}}, func(b *bubble) {
			b.site.RobotsStatus(503)
			b.web.Site("https://other.example").Robots("User-agent: *\nDisallow: /a\n")
			got, err := b.t.Filter(b.Context(), []string{"https://example.com/", "https://other.example/a", "https://other.example/b"})
			if len(got) != want || errors.Is(err, politeness.ErrUnreachable) != (want == 1) {
				b.Errorf("fallback %v: %q, %v", fallback, got, err)
			}
		})
	}
}

func TestSitemapsOfTheOrigin(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("Sitemap: https://example.com/a.xml\nUser-agent: *\nDisallow: /\nSitemap: https://cdn.example/b.xml\n")
		got, err := b.t.Sitemaps(b.Context(), "https://example.com/any")
		if want := []string{"https://example.com/a.xml", "https://cdn.example/b.xml"}; err != nil || !slices.Equal(got, want) {
			b.Errorf("got %q, %v; want %q", got, err, want)
		}
	})
}

func TestSitemapsOfAnUnreachableRobotsAreNotNone(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.RobotsStatus(503)
		_, err := b.t.Sitemaps(b.Context(), "https://example.com/")
		e := refused(b.T, err, politeness.StageRobots, politeness.ErrDisallowed)
		if in := time.Until(e.RetryAt); in != 5*time.Minute {
			b.Errorf("RetryAt in %v", in)
		}
	})
}

func TestNextIsRefusedWhereTheBudgetsTimeEndsFirst(t *testing.T) {
	virtually(t, politeness.Config{Budget: budget.New(budget.Limits{Duration: time.Minute})}, func(b *bubble) {
		b.site.Handle("/", politenesstest.Status(429, "Retry-After", "50")).Handle("/long", politenesstest.Status(429, "Retry-After", "60"))
		b.mustGet("https://example.com/", 429)
		if at, err := b.t.Next(b.Context(), "https://example.com/"); err != nil || time.Until(at) != 50*time.Second {
			b.Errorf("in %v, %v; want 50s", time.Until(at), err)
		}
		b.mustGet("https://example.com/long", 429)
		_, err := b.t.Next(b.Context(), "https://example.com/")
		refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
	})
}

func TestNextTellsWhenAndNeverBlocks(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 30\nDisallow: /no\n").Page("/", "page")
		next := func(url string) time.Duration {
			b.Helper()
			before := time.Now()
			at, err := b.t.Next(b.Context(), url)
			if err != nil {
				b.Fatal(err)
			}
			if !time.Now().Equal(before) {
				b.Errorf("Next(%s) took %v", url, time.Since(before))
			}
			return max(0, at.Sub(before))
		}
		if d := next("https://example.com/"); d != 0 {
			b.Errorf("unknown host: in %v", d)
		}
		if len(b.asked()) != 0 {
			b.Errorf("Next asked for %q", b.asked())
		}
		b.mustGet("https://example.com/", 200)
		if d := next("https://example.com/"); d != 30*time.Second {
			b.Errorf("after a start: in %v, want 30s", d)
		}
		_, err := b.t.Next(b.Context(), "https://example.com/no")
		refused(b.T, err, politeness.StageRobots, politeness.ErrDisallowed)
		if n := len(b.log.Decisions(evidence.BlockedByRobots)); n != 0 {
			b.Errorf("Next made %d records", n)
		}
	})
}

func TestNextIsRefusedWithRetryAtBeyondMaxWait(t *testing.T) {
	virtually(t, politeness.Config{Limiter: limiter(t, hostlimit.Config{MaxWait: 10 * time.Second})}, func(b *bubble) {
		b.site.Sequence("/", 429)
		b.site.Robots("User-agent: *\nCrawl-delay: 60\n")
		if _, err := b.t.Check(b.Context(), "https://example.com/"); err != nil {
			b.Fatal(err)
		}
		_, err := b.get("https://example.com/")
		e := refused(b.T, err, politeness.StageTurn, politeness.ErrBusy)
		if in := time.Until(e.RetryAt); in < 50*time.Second || in > time.Minute {
			b.Errorf("RetryAt in %v", in)
		}
	})
}

// One request for robots.txt, however many want the origin, and each may leave.
func TestWaitersForRobotsCanLeave(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nAllow: /\n").Latency(20 * time.Second)
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				ctx := b.Context()
				if i%2 == 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Second)
					defer cancel()
				}
				_, err := b.t.Check(ctx, "https://example.com/")
				if left := errors.Is(err, context.DeadlineExceeded); left != (i%2 == 0) {
					b.Errorf("waiter %d: %v", i, err)
				}
			})
		}
		group.Wait()
		if n := len(b.asked()); n != 1 {
			b.Errorf("%d requests for robots.txt", n)
		}
	})
}

// A list of many origins isn't asked about all at once.
func TestFilterAsksSixteenOriginsAtOnce(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		var urls []string
		for i := range 50 {
			origin := fmt.Sprintf("https://%d.example", i)
			b.web.Site(origin).Latency(time.Second)
			urls = append(urls, origin+"/")
		}
		got, err := b.t.Filter(b.Context(), urls)
		if n := mostAtOnce(b.web.Requests()); err != nil || !slices.Equal(got, urls) || n != 16 {
			b.Errorf("%d allowed, %v; %d at once", len(got), err, n)
		}
	})
}
