package crawl_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
)

// TestLimits: of depth, pages, pages of a host, and URLs in memory.
func TestLimits(t *testing.T) {
	trap := func(w http.ResponseWriter, r *http.Request) { // a calendar: each page links to two new ones
		page(fmt.Sprintf(`<a href="%sa/">next</a> <a href="%sb/">next</a>`, r.URL.Path, r.URL.Path))(w, r)
	}
	for _, tt := range []struct {
		name  string
		limit func(*crawl.Config)
		want  map[crawl.Outcome]int
		hosts int
	}{
		{"depth", func(c *crawl.Config) { c.MaxDepth = 2 }, map[crawl.Outcome]int{crawl.Visited: 7, crawl.TooDeep: 8}, 1},
		{"start URLs only", func(c *crawl.Config) { c.MaxDepth = -1 }, map[crawl.Outcome]int{crawl.Visited: 1, crawl.TooDeep: 2}, 1},
		{"pages", func(c *crawl.Config) { c.MaxPages = 9 }, map[crawl.Outcome]int{crawl.Visited: 9, crawl.Left: 10}, 1},
		{"pages, of many hosts at once", func(c *crawl.Config) { c.MaxPages = 9 }, map[crawl.Outcome]int{crawl.Visited: 9, crawl.Left: 29}, 20},
		{"pages of two hosts", func(c *crawl.Config) { c.MaxPagesPerHost = 5 }, map[crawl.Outcome]int{crawl.Visited: 10, crawl.EnoughOfHost: 12}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.crawl.Follow = crawl.SameHost
				tt.limit(&r.crawl)
				var urls []string
				for i := range tt.hosts {
					urls = append(urls, fmt.Sprintf("https://trap%d.example", i))
					r.Site(urls[i]).Handle("/", http.HandlerFunc(trap))
				}
				wantOutcomes(t, r.run(t.Context(), t, urls...), tt.want)
			})
		})
	}
}

// TestAHostWithInvalidLimitsEndsTheCrawlOfIt, not the crawl: Override has returned a negative number of
// slots for it.
func TestAHostWithInvalidLimitsEndsTheCrawlOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.politeness.Hosts.Override = func(key string) (hostlimit.Limits, bool) {
			return hostlimit.Limits{Concurrency: -1}, key == "wrong.example"
		}
		r.Site("https://wrong.example").Page("/", "a page")
		r.Site("https://right.example").Page("/", "a page")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		s := r.run(ctx, t, "https://wrong.example/", "https://right.example/")
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 1, crawl.Failed: 1})
		if err := s.Errors[crawl.Failed]; s.Stopped != nil || err == nil || !strings.Contains(err.Error(), "Concurrency") {
			t.Errorf("stopped: %v, failed: %v", s.Stopped, err)
		}
	})
}

// TestTheLargestNumbersAreNoLimits: sums and products with them don't overflow.
func TestTheLargestNumbersAreNoLimits(t *testing.T) {
	for name, set := range map[string]func(c *crawl.Config){
		"Workers":         func(c *crawl.Config) { c.Workers = math.MaxInt },
		"MaxDepth":        func(c *crawl.Config) { c.MaxDepth = math.MaxInt },
		"MaxPages":        func(c *crawl.Config) { c.MaxPages = math.MaxInt },
		"MaxPagesPerHost": func(c *crawl.Config) { c.MaxPagesPerHost = math.MaxInt },
		"MaxURLs":         func(c *crawl.Config) { c.MaxURLs = math.MaxInt },
		"MaxBody":         func(c *crawl.Config) { c.MaxBody = math.MaxInt64 },
		"MaxHeld":         func(c *crawl.Config) { c.MaxHeld = math.MaxInt64 },
		"Timeout":         func(c *crawl.Config) { c.Timeout = math.MaxInt64 },
		"Grace":           func(c *crawl.Config) { c.Grace = math.MaxInt64 },
		"Patience":        func(c *crawl.Config) { c.Patience = math.MaxInt64 },
		"Tries":           func(c *crawl.Config) { c.Tries = math.MaxInt },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.crawl.Follow = crawl.SameHost
				set(&r.crawl)
				fill := strings.Repeat("<!-- "+strings.Repeat("a", 100)+" -->", 2000)
				r.Site("https://a.example").Handle("/", page(`<a href="/1">1</a> <a href="/2">2</a>`+fill)).
					Handle("/1", page("one")).
					Handle("/2", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Content-Encoding", "gzip, gzip")
						w.Header().Set("Content-Type", "text/html")
						_, _ = w.Write(gzipped(gzipped([]byte(fill + `<a href="/3">3</a>`))))
					})).
					Handle("/3", page("three"))
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				wantOutcomes(t, r.run(ctx, t, "https://a.example/"), map[crawl.Outcome]int{crawl.Visited: 4})
			})
		})
	}
}

// gzipped returns text in gzip, which doesn't make it shorter.
func gzipped(text []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.NoCompression)
	_, _ = w.Write(text)
	_ = w.Close()
	return out.Bytes()
}

// TestHeldPageIsNotOneTooMany: a page that was held until nothing is left to tell a ban from it isn't
// visited while as many pages are under way as MaxPages allows.
func TestHeldPageIsNotOneTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://a.example").Handle("/0", politenesstest.Slow(5*time.Second, politenesstest.Status(http.StatusNotFound))).
			Handle("/1", politenesstest.Status(http.StatusForbidden))
		r.Site("https://b.example").Robots("User-agent: *\nCrawl-delay: 1\n").Handle("/", politenesstest.Slow(time.Minute, page("")))
		r.crawl.MaxPages = 3
		s := r.run(t.Context(), t, append(numbered("a.example", 2), numbered("b.example", 2)...)...)
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 3, crawl.Left: 1})
	})
}

// TestWildcardDomain: a domain that answers for any name, and links to ever more of them, fills
// MaxURLs and no more.
func TestWildcardDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		names := 0
		r.politeness.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			if req.URL.Path != "/robots.txt" {
				r.mu.Lock()
				var links strings.Builder
				for range 50 {
					names++
					fmt.Fprintf(&links, `<a href="http://n%d.example/">n</a>`, names)
				}
				r.mu.Unlock()
				page(links.String())(w, req)
			}
			return w.Result(), nil
		})
		r.crawl.Follow, r.crawl.MaxURLs, r.crawl.MaxPages = crawl.Everywhere, 500, 1000
		s := r.run(t.Context(), t, "http://n0.example/")
		if s.Visited() != 1000 || s.Outcomes[crawl.Left] > 500 || s.Outcomes[crawl.NoRoom] < 40_000 {
			t.Errorf("summary: %v", s)
		}
	})
}

// TestManyLinks: a page with 100,000 links costs what its first 10,000 cost.
func TestManyLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.crawl.Follow, r.crawl.MaxDepth, r.crawl.MaxBody = crawl.Everywhere, -1, 100<<20
		var body strings.Builder
		for i := range 100_000 {
			fmt.Fprintf(&body, "<a href=/%d>", i)
		}
		r.Site("https://example.com").Handle("/", page(body.String()))
		wantOutcomes(t, r.run(t.Context(), t, "https://example.com/"), map[crawl.Outcome]int{crawl.Visited: 1, crawl.TooMany: 90_000, crawl.TooDeep: 10_000})
	})
}

// TestMaxBody: what is longer is cut off there, and Truncated, whether or not its length is
// announced. Bodies above 256 KiB are had one after the other where MaxBody is more than the room for all.
func TestMaxBody(t *testing.T) {
	const small = 256 << 10
	for _, limit := range []int{1000, small, small + 1000, 256 << 20} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.crawl.MaxBody = int64(limit)
				r.politeness.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
					w := httptest.NewRecorder()
					var n int
					_, err := fmt.Sscanf(req.URL.Path, "/%d", &n)
					_, _ = w.Write(make([]byte, n))
					resp := w.Result()
					if resp.ContentLength = -1; req.URL.RawQuery != "" && err == nil {
						resp.ContentLength = int64(n)
					}
					return resp, nil
				})
				var urls []string
				for _, n := range []int{0, 999, 1000, 1001, small - 1, small, small + 1, small + 999, small + 1000, small + 1001, 2*small + 1000} {
					urls = append(urls, fmt.Sprintf("https://a%d.example/%d", n, n), fmt.Sprintf("https://b%d.example/%d?announced", n, n))
				}
				var large, most atomic.Int32
				r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
					var n int
					_, _ = fmt.Sscanf(p.FinalURL[len("https://a"):], "%d", &n)
					if len(p.Body) != min(n, limit) || p.Truncated != (n > limit) {
						t.Errorf("%s: %d bytes, truncated %v", p.URL, len(p.Body), p.Truncated)
					}
					if n > small {
						most.Store(max(most.Load(), large.Add(1)))
						defer large.Add(-1)
					}
					time.Sleep(time.Second)
					return nil
				}
				s := r.run(t.Context(), t, urls...)
				if wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: len(urls)}); s.Elapsed > 15*time.Second {
					t.Errorf("took %v: small bodies waited for room", s.Elapsed)
				}
				if one := most.Load() == 1; one != (limit == 256<<20) {
					t.Errorf("%d large bodies at once", most.Load())
				}
			})
		})
	}
}

// TestEnoughOfALargeHost: more of its URLs wait in the queue than are at hand when it is enough.
func TestEnoughOfALargeHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		site := r.Site("https://example.com")
		urls := numbered("example.com", 60)
		for i := range urls {
			site.Handle(fmt.Sprintf("/%d", i), page("page"))
		}
		r.politeness.Hosts.Concurrency = 8
		r.crawl.MaxPagesPerHost = 9
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		wantOutcomes(t, r.run(ctx, t, urls...), map[crawl.Outcome]int{crawl.Visited: 9, crawl.EnoughOfHost: 51})
	})
}

// TestBudgetEndsTheCrawl: what is left when nothing is left to spend waits for the next crawl.
func TestBudgetEndsTheCrawl(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spend budget.Limits
		want  map[crawl.Outcome]int
	}{
		{"pages", budget.Limits{Pages: 7}, map[crawl.Outcome]int{crawl.Visited: 7, crawl.Left: 13}},
		{"pages of each day", budget.Limits{Pages: 7, Every: 24 * time.Hour}, map[crawl.Outcome]int{crawl.Visited: 7, crawl.Left: 13}},
		{"time of a patient host", budget.Limits{Duration: 20 * time.Second}, map[crawl.Outcome]int{crawl.Visited: 10, crawl.Left: 10}},
		{"time", budget.Limits{Duration: 450 * time.Millisecond}, map[crawl.Outcome]int{crawl.Visited: 10, crawl.Left: 10}},
		{"pages of a host", budget.Limits{PagesPerHost: 3}, map[crawl.Outcome]int{crawl.Visited: 6, crawl.OverBudget: 14}},
		{"pages of a host each day", budget.Limits{PagesPerHost: 3, Every: 24 * time.Hour}, map[crawl.Outcome]int{crawl.Visited: 6, crawl.OverBudget: 14}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.politeness.Spend = tt.spend
				var urls []string
				for i := range 10 {
					urls = append(urls, fmt.Sprintf("https://a.example/%d", i), fmt.Sprintf("https://b.example/%d", i))
				}
				rules := ""
				if tt.spend.Duration > time.Second {
					rules = "User-agent: *\nCrawl-delay: 30\n"
				}
				r.Site("https://a.example").Robots(rules).Handle("/", page(""))
				r.Site("https://b.example").Handle("/", page(""))
				s := r.run(t.Context(), t, urls...)
				wantOutcomes(t, s, tt.want)
				if (s.Stopped != nil) != (s.Outcomes[crawl.Left] > 0) || s.Stopped != nil && !errors.Is(s.Stopped, politeness.ErrBudget) {
					t.Errorf("stopped: %v", s.Stopped)
				}
			})
		})
	}
}

// TestNextRunFetchesWhatTimeHasCutOff: a host that can't be asked within the budget's time is left
// for the next run of the Queue. The crawl goes on with the others, and doesn't wait for it.
func TestNextRunFetchesWhatTimeHasCutOff(t *testing.T) {
	for name, block := range map[string]func(*politenesstest.Site, *memory.Limiter) error{
		"paced": func(s *politenesstest.Site, _ *memory.Limiter) error {
			s.Robots("User-agent: *\nCrawl-delay: 1200\n")
			return nil
		},
		"has answered 429": func(s *politenesstest.Site, _ *memory.Limiter) error {
			s.Handle("/0", politenesstest.InTurn(politenesstest.Status(http.StatusTooManyRequests, "Retry-After", "1200"), page("")))
			return nil
		},
		"blocked before": func(_ *politenesstest.Site, hosts *memory.Limiter) error {
			return hosts.Block(t.Context(), "a.example", time.Now().Add(20*time.Minute), "a while")
		},
		"blocked for longer than MaxWait": func(_ *politenesstest.Site, hosts *memory.Limiter) error {
			return hosts.Block(t.Context(), "a.example", time.Now().Add(2*time.Hour), "a while")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newStore()
				r := newRig()
				r.crawl.Queue = q
				a := r.Site("https://a.example").Handle("/", page(""))
				r.Site("https://b.example").Handle("/", page(""))
				hosts, err := memory.New(r.politeness.Hosts)
				if err != nil {
					t.Fatal(err)
				}
				if err := block(a, hosts); err != nil {
					t.Fatal(err)
				}
				r.politeness.Hosts, r.politeness.Limiter = hostlimit.Config{}, hosts
				r.politeness.Spend.Duration = 10 * time.Minute
				s := r.run(t.Context(), t, append(numbered("a.example", 20), numbered("b.example", 40)...)...)
				if s.Visited() < 40 || s.Visited() > 41 || s.Outcomes[crawl.OverBudget] > 0 || !errors.Is(s.Stopped, politeness.ErrBudget) {
					t.Errorf("first run: %v", s)
				}
				if s.Elapsed > time.Minute {
					t.Errorf("the first run took %v", s.Elapsed)
				}
				first := s.Visited()
				r.politeness.Spend.Duration = 0
				s = r.run(t.Context(), t)
				wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 60 - first})
			})
		})
	}
}

// An awayBudget can't be asked until a time, as one whose server is away.
type awayBudget struct {
	budget.Budget
	until time.Time
}

func (b awayBudget) Check(ctx context.Context, host string, start time.Time) error {
	if time.Now().Before(b.until) {
		return errors.New("the server is away")
	}
	return b.Budget.Check(ctx, host, start)
}

// TestBudgetThatCantBeAskedIsWaitedFor: while its server is away nothing starts, and no URL is lost.
func TestBudgetThatCantBeAskedIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", page(""))
		r.politeness.Budget = awayBudget{budget.New(budget.Limits{Pages: 30}), time.Now().Add(time.Minute)}
		s := r.run(t.Context(), t, numbered("example.com", 20)...)
		if wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 20}); s.Elapsed < time.Minute || s.Elapsed > 65*time.Second {
			t.Errorf("the crawl took %v", s.Elapsed)
		}
	})
}

// TestLargePagesWaitForSlowVisits: where visits take long, pages for whose bodies there is no room
// come later. None fails.
func TestLargePagesWaitForSlowVisits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.crawl.Visit = func(context.Context, *crawl.Page) error {
			time.Sleep(10 * time.Minute)
			return nil
		}
		var urls []string
		for i := range 30 {
			urls = append(urls, fmt.Sprintf("https://h%d.example/", i))
			r.Site(urls[i]).Handle("/", politenesstest.Bytes(300<<10))
		}
		s := r.run(t.Context(), t, urls...)
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 30})
		if n := len(r.Requests()); n > 2*30+5*5 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestADeadlineIsACrawlsTime: Run ends as soon as nothing can start before the deadline of its
// context, as it does for the budget's time, and says what it has left and until when that waits.
func TestADeadlineIsACrawlsTime(t *testing.T) {
	byHand := func(ctx context.Context, t *testing.T, r *rig) {
		hosts, err := memory.New(r.politeness.Hosts)
		if err != nil {
			t.Fatal(err)
		}
		if err := hosts.Block(ctx, "slow.example", time.Now().Add(time.Hour), "the owner has called"); err != nil {
			t.Fatal(err)
		}
		r.politeness.Hosts, r.politeness.Limiter = hostlimit.Config{}, hosts
	}
	robotsTxt := func(text string) func(context.Context, *testing.T, *rig) {
		return func(_ context.Context, _ *testing.T, r *rig) { r.Site("https://slow.example").Robots(text) }
	}
	answers := func(status int, headers ...string) func(context.Context, *testing.T, *rig) {
		return func(_ context.Context, _ *testing.T, r *rig) {
			r.Site("https://slow.example").Handle("/", politenesstest.Status(status, headers...))
		}
	}
	for name, tt := range map[string]struct {
		set  func(context.Context, *testing.T, *rig)
		left int
		why  string
	}{
		"429 with Retry-After": {answers(429, "Retry-After", "3600"), 3, "it has answered 429"},
		"503 with Retry-After": {answers(503, "Retry-After", "3600"), 3, "it has answered 503"},
		"block by hand":        {byHand, 3, "the owner has called"},
		"crawl-delay":          {robotsTxt("User-agent: *\nCrawl-delay: 600\n"), 3, "delay"},
		"visit-time":           {robotsTxt("User-agent: *\nVisit-time: 0300-0400\n"), 3, "outside of the Visit-time of its robots.txt"},
		"robots.txt can't be fetched": {func(_ context.Context, _ *testing.T, r *rig) {
			r.Site("https://slow.example").Handle("/robots.txt", politenesstest.Status(503))
		}, 3, "robots.txt"},
		"robots.txt says 429, an hour": {func(_ context.Context, _ *testing.T, r *rig) {
			r.Site("https://slow.example").Handle("/robots.txt", politenesstest.Status(429, "Retry-After", "3600"))
		}, 3, ""},
		"server that is gone": {func(_ context.Context, _ *testing.T, r *rig) {
			r.Site("https://slow.example").Handle("/", politenesstest.Drop())
		}, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				quick := r.Site("https://quick.example")
				for i := range 5 {
					quick.Handle(fmt.Sprintf("/%d", i), page("page"))
				}
				tt.set(t.Context(), t, r)
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
				defer cancel()
				urls := append(numbered("quick.example", 5), numbered("slow.example", 3)...)
				summary := r.run(ctx, t, urls...)
				if got := summary.Outcomes[crawl.Left]; got != tt.left {
					t.Errorf("%d left, want %d", got, tt.left)
				}
				// Tries of a server that is gone take some of the time.
				if summary.Elapsed > 225*time.Second {
					t.Errorf("ended after %v", summary.Elapsed)
				}
				if !errors.Is(summary.Stopped, context.DeadlineExceeded) {
					t.Errorf("stopped: %v", summary.Stopped)
				}
				if text := fmt.Sprint(summary.Stopped); !strings.Contains(text, "slow.example") || !strings.Contains(text, tt.why) {
					t.Errorf("stopped: %q, want the host and %q", text, tt.why)
				}
			})
		})
	}
}

// TestADeadlineBeforeAPageIsTriedAgain: a page that was refused, the last of its host, comes back
// after a while that the deadline of the context doesn't leave.
func TestADeadlineBeforeAPageIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", politenesstest.Status(http.StatusServiceUnavailable))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		summary := r.run(ctx, t, "https://example.com/")
		wantOutcomes(t, summary, map[crawl.Outcome]int{crawl.Left: 1})
		if summary.Elapsed > 9*time.Second || !errors.Is(summary.Stopped, context.DeadlineExceeded) {
			t.Errorf("ended after %v: %v", summary.Elapsed, summary.Stopped)
		}
	})
}

// TestPatienceIsNotWaitedOut: a host whose next try comes when it has refused for longer than
// Patience keeps no crawl until then.
func TestPatienceIsNotWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", politenesstest.Status(http.StatusTooManyRequests, "Retry-After", "3600"))
		r.crawl.Patience = 90 * time.Minute
		summary := r.run(t.Context(), t, numbered("example.com", 3)...)
		wantOutcomes(t, summary, map[crawl.Outcome]int{crawl.Refused: 3})
		if summary.Elapsed > 61*time.Minute {
			t.Errorf("ended after %v, the host was asked for the last time after an hour", summary.Elapsed)
		}
	})
}

// TestARenewalAfterTheDeadline: a budget that is renewed later than the deadline of the context ends
// the crawl when it is spent.
func TestARenewalAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/0", page("page")).Handle("/1", page("page")).Handle("/2", page("page"))
		r.politeness.Spend = budget.Limits{Pages: 2, Every: time.Hour}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		summary := r.run(ctx, t, numbered("example.com", 3)...)
		wantOutcomes(t, summary, map[crawl.Outcome]int{crawl.Visited: 2, crawl.Left: 1})
		if summary.Elapsed > time.Second {
			t.Errorf("ended after %v", summary.Elapsed)
		}
		if text := fmt.Sprint(summary.Stopped); !strings.Contains(text, "retry at 2000-01-01T01:00:00Z") {
			t.Errorf("stopped: %q, want when the budget is renewed", text)
		}
	})
}

// TestRunGivesBackABudget: what a run has taken of a budget that is kept, and hasn't spent, is there
// for the next one.
func TestRunGivesBackABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		visited := 0
		for run := range 12 {
			r := newRig()
			pages(r.Site("https://example.com"), 1000)
			r.politeness.Spend = budget.Limits{Pages: 600, Every: 24 * time.Hour}
			r.politeness = r.politeness.WithState(dir)
			r.crawl.MaxPages = 61
			s := r.run(t.Context(), t, numbered("example.com", 1000)[61*run:]...)
			visited += s.Visited()
		}
		if visited != 600 {
			t.Errorf("%d pages, want 600", visited)
		}
	})
}
