package promises_test

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// crowd makes n Transports of cfg, and lets each fetch a page of its own at the same time.
func (b *bubble) crowd(cfg politeness.Config, n int) {
	b.Helper()
	var group sync.WaitGroup
	for range n {
		tr := mustNew(b.T, cfg)
		group.Go(func() {
			if status, err := fetch(b.Context(), &http.Client{Transport: tr}, "https://example.com/"); err != nil || status != 200 {
				b.Errorf("status %d, error %v", status, err)
			}
		})
	}
	group.Wait()
}

// fetches returns how often the web was asked for a robots.txt.
func (b *bubble) fetches() (n int) {
	for _, url := range b.asked() {
		if strings.HasSuffix(url, "/robots.txt") {
			n++
		}
	}
	return n
}

func TestTransportsThatShareALimiterFetchOneRobotsTxt(t *testing.T) {
	for name, prepare := range map[string]func(b *bubble){
		"at once":             func(*bubble) {},
		"after another":       func(b *bubble) { b.mustGet("https://example.com/", http.StatusOK) },
		"slow":                func(b *bubble) { b.site.Latency(3 * time.Second) },
		"after a collection":  func(b *bubble) { b.mustGet("https://example.com/", http.StatusOK); runtime.GC(); runtime.GC() },
		"when it is outdated": func(b *bubble) { b.mustGet("https://example.com/", http.StatusOK); time.Sleep(3 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, politeness.Config{}, func(b *bubble) {
				b.site.Robots("User-agent: *\nCrawl-delay: 2\n").Page("/", "page")
				prepare(b)
				b.crowd(politeness.Config{UserAgent: agent, Base: b.web, Limiter: b.t.Limiter()}, 31)
				want := 1
				if name == "when it is outdated" {
					want = 2
				}
				if got := b.fetches(); got != want {
					b.Errorf("robots.txt was fetched %d times, want %d", got, want)
				}
				b.mustBePolite(2 * time.Second)
			})
		})
	}
}

// A program that makes a Transport for each request drops it with the answer. The limiter has what
// they have found.
func TestTransportsOneAfterTheOtherFetchOneRobotsTxt(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 2\n").Page("/", "page")
		for range 5 {
			b.crowd(politeness.Config{UserAgent: agent, Base: b.web, Limiter: b.t.Limiter()}, 1)
			runtime.GC()
			runtime.GC()
		}
		if got := b.fetches(); got != 1 {
			b.Errorf("robots.txt was fetched %d times", got)
		}
		b.mustBePolite(2 * time.Second)
	})
}

// A program that makes a Transport with state for each request makes a Store for each, too.
func TestTransportsWithOneStateFetchOneRobotsTxt(t *testing.T) {
	dir := t.TempDir()
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 2\n").Page("/", "page")
		cfg := politeness.Config{UserAgent: agent, Base: b.web}.WithState(dir)
		hosts, err := memory.New(cfg.Hosts)
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for range 31 {
			own := politeness.Config{UserAgent: agent, Base: b.web}.WithState(dir)
			own.Hosts = hostlimit.Config{}
			own.Limiter = hosts
			client := &http.Client{Transport: mustNew(b.T, own)}
			group.Go(func() {
				if status, err := fetch(b.Context(), client, "https://example.com/"); err != nil || status != 200 {
					b.Errorf("status %d, error %v", status, err)
				}
			})
		}
		group.Wait()
		if got := b.fetches(); got != 1 {
			b.Errorf("robots.txt was fetched %d times", got)
		}
	})
}

// What one Transport may fetch is no matter of another name's rules or settings.
func TestTransportsOfOtherRulesFetchTheirOwnRobotsTxt(t *testing.T) {
	for name, other := range map[string]politeness.Config{
		"another name":   {UserAgent: "OtherBot/1.0 (+https://example.com/bot)"},
		"other settings": {UserAgent: agent, Robots: robotscache.Config{LenientAgents: true}},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, politeness.Config{}, func(b *bubble) {
				b.site.Robots("User-agent: AuditBot\nCrawl-delay: 2\n\nUser-agent: OtherBot\nCrawl-delay: 2\n").Page("/", "page")
				b.mustGet("https://example.com/", http.StatusOK)
				other.Base = b.web
				other.Limiter = b.t.Limiter()
				b.crowd(other, 3)
				if got := b.fetches(); got != 2 {
					b.Errorf("robots.txt was fetched %d times, want once for each", got)
				}
				b.mustBePolite(2 * time.Second)
			})
		})
	}
}

// A crawl-delay that one Transport has learned holds for all that share its limiter, and for their
// fetches of robots.txt, also if there is no page that it could have told the limiter by.
func TestACrawlDelayHoldsWhoeverLearnedIt(t *testing.T) {
	for name, c := range map[string]struct {
		robots string
		other  politeness.Config
		first  string // URL that the Transport of the bubble asks for
	}{
		"no page allowed":     {"User-agent: *\nDisallow: /\nCrawl-delay: 2\n", politeness.Config{UserAgent: "OtherBot/1.0 (bot@example.com)"}, "https://example.com/"},
		"robots.txt ignored":  {"User-agent: *\nCrawl-delay: 2\n", politeness.Config{UserAgent: agent, DangerouslyIgnoreRobots: true}, "https://example.com/"},
		"of the other scheme": {"User-agent: *\nCrawl-delay: 2\n", politeness.Config{UserAgent: agent}, "http://example.com/"},
		"of other settings":   {"User-agent: *\nCrawl-delay: 2\n", politeness.Config{UserAgent: agent, Robots: robotscache.Config{DenyTTL: time.Minute}}, "https://example.com/"},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, politeness.Config{}, func(b *bubble) {
				b.site.Robots(c.robots).Page("/", "page")
				b.web.Site("http://example.com").Robots(c.robots).Page("/", "page")
				_, _ = b.get(c.first)
				c.other.Base = b.web
				c.other.Limiter = b.t.Limiter()
				for range 3 {
					_, _ = fetch(b.Context(), &http.Client{Transport: mustNew(b.T, c.other)}, "https://example.com/")
				}
				if n := len(b.asked()); n < 2 {
					b.Errorf("%d requests", n)
				}
				b.mustBePolite(2 * time.Second)
			})
		})
	}
}

// What Transports share is gone with their limiter.
func TestNothingKeepsALimiterAlive(t *testing.T) {
	var gone atomic.Int32
	for range 10 {
		hosts, err := memory.New(hostlimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		store := &robotsStore{}
		runtime.AddCleanup(hosts, func(*atomic.Int32) { gone.Add(1) }, nil)
		runtime.AddCleanup(store, func(*atomic.Int32) { gone.Add(1) }, nil)
		mustNew(t, politeness.Config{UserAgent: agent, Limiter: hosts, Robots: robotscache.Config{Store: store}})
	}
	for range 100 {
		if gone.Load() == 20 {
			return
		}
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d of 20 limiters and caches are gone", gone.Load())
}

// A robotsStore has nothing.
type robotsStore struct{ _ int }

func (*robotsStore) Load(context.Context, string) (r robotscache.Record, ok bool, err error) {
	return r, false, nil
}
func (*robotsStore) Save(context.Context, string, robotscache.Record) error { return nil }
func (*robotsStore) Lock(context.Context, string) (func(), error)           { return func() {}, nil }

// Each Transport's own log holds the robots.txt by which it has decided, and proves itself.
func TestASharedRobotsTxtIsOnRecordForEachTransport(t *testing.T) {
	for name, site := range map[string]func(s *politenesstest.Site){
		"rules":       func(s *politenesstest.Site) { s.Robots("User-agent: *\nCrawl-delay: 2\n") },
		"none":        func(s *politenesstest.Site) { s.RobotsStatus(http.StatusNotFound) },
		"unreachable": func(s *politenesstest.Site) { s.RobotsStatus(http.StatusServiceUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := politenesstest.NewWeb()
				site(web.Site("https://example.com").Page("/", "page"))
				var log strings.Builder
				lines := evidence.JSONLines(&log)
				cfg := politeness.Config{
					UserAgent: agent,
					Base:      web,
					Limiter:   limiter(t, hostlimit.Config{}),
					Robots:    robotscache.Config{RecordText: true},
					Evidence:  lines,
				}
				var statuses []politeness.Status
				for range 3 {
					tr := mustNew(t, cfg)
					_, _ = fetch(t.Context(), &http.Client{Transport: tr}, "https://example.com/")
					_, _ = fetch(t.Context(), &http.Client{Transport: tr}, "https://example.com/")
					statuses = append(statuses, tr.Status(t.Context()))
				}
				if err := lines.Close(); err != nil {
					t.Fatal(err)
				}
				report, err := audit.Check(strings.NewReader(log.String()))
				if err != nil || !report.OK() || report.Promise("verdicts right").Open > 0 {
					t.Errorf("error %v, %s\n%s", err, report, log.String())
				}
				// Each of them says once which robots.txt it has.
				if n := strings.Count(log.String(), `"restored":true`); n != 2 {
					t.Errorf("%d records of a robots.txt that another Transport has fetched, want 2", n)
				}
				for _, s := range statuses {
					if down := len(s.Unreachable) == 1; down != (name == "unreachable") {
						t.Errorf("unreachable in the status: %+v", s.Unreachable)
					}
				}
			})
		})
	}
}

// A Transport with an Evidence that panics or blocks holds up nobody but its own requests.
func TestASharedRobotsTxtIsReportedUnderNoLock(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /x\n").Page("/", "page")
		b.mustGet("https://example.com/", http.StatusOK)
		release := make(chan struct{})
		slow := mustNew(b.T, politeness.Config{
			UserAgent: agent,
			Base:      b.web,
			Limiter:   b.t.Limiter(),
			Evidence: evidence.Func(func(_ context.Context, d evidence.Decision) {
				if d.Type == evidence.RobotsFetched {
					<-release
				}
			}),
		})
		done := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := fetch(b.Context(), &http.Client{Transport: slow}, "https://example.com/")
				done <- err
			}()
		}
		synctest.Wait()
		b.mustGet("https://example.com/", http.StatusOK) // isn't held up
		b.crowd(politeness.Config{UserAgent: agent, Base: b.web, Limiter: b.t.Limiter()}, 2)
		close(release)
		for range 2 {
			if err := <-done; err != nil {
				b.Error(err)
			}
		}
	})
}
