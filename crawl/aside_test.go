package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
)

// A switchable is a rule of the user's own that refuses hosts, or nothing.
type switchable struct {
	mu    sync.Mutex
	hosts map[string]string // why, by host
}

func (s *switchable) set(host, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hosts == nil {
		s.hosts = make(map[string]string)
	}
	s.hosts[host] = why
}

func (s *switchable) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts = nil
}

func (s *switchable) refuse(req *http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why, ok := s.hosts[req.URL.Host]; ok {
		return errors.New(why)
	}
	return nil
}

// pages serves n pages under the URLs that numbered returns.
func pages(site *politenesstest.Site, n int) {
	for i := range n {
		site.Handle(fmt.Sprintf("/%d", i), page("page"))
	}
}

// TestARuleIsNoEndOfAURL: what one's own rule refuses is left, with its reason, and waits in the Queue
// for the next run, which fetches it once the rule lets it pass. The host isn't asked for anything.
func TestARuleIsNoEndOfAURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newStore()
		var rule switchable
		rule.set("listed.example", "the owner has asked us to")
		for round := range 2 {
			r := newRig()
			pages(r.Site("https://listed.example"), 50)
			pages(r.Site("https://example.com"), 5)
			r.politeness.Refuse = rule.refuse
			r.crawl.Queue = q
			left := make(map[string]error)
			r.crawl.Done = func(res crawl.Result) {
				if res.Outcome == crawl.Left {
					left[res.URL] = res.Err
				}
			}
			if round == 1 {
				rule.clear()
				wantOutcomes(t, r.run(t.Context(), t), map[crawl.Outcome]int{crawl.Visited: 50})
				continue
			}
			s := r.run(t.Context(), t, append(numbered("listed.example", 50), numbered("example.com", 5)...)...)
			wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 5, crawl.Left: 50})
			if s.Rules["the owner has asked us to"] != 50 || !strings.Contains(s.String(), "50 left (by own rules: 50 the owner has asked us to)") {
				t.Errorf("rules %v of %v", s.Rules, s)
			}
			if !errors.Is(s.Stopped, politeness.ErrDisallowed) {
				t.Errorf("stopped: %v", s.Stopped)
			}
			if len(left) != 50 || !strings.Contains(fmt.Sprint(left["https://listed.example/7"]), "the owner has asked us to") {
				t.Errorf("%d URLs are reported as left: %v", len(left), left["https://listed.example/7"])
			}
			for _, req := range r.Requests() {
				if strings.Contains(req.URL, "listed.example") {
					t.Errorf("asked: %v", req)
				}
			}
			for _, url := range numbered("listed.example", 50) {
				if q.states[url] != waiting {
					t.Fatalf("%s is %s", url, q.states[url])
				}
			}
		}
	})
}

// TestARuleThatEndsDuringACrawl: a host that was on one's own list for a while loses no page, and
// is asked within a minute of the end of that, or at the end of the crawl.
func TestARuleThatEndsDuringACrawl(t *testing.T) {
	for name, tt := range map[string]struct {
		others int // pages of another host
		lifted time.Duration
	}{
		"another host goes on":      {3000, 130 * time.Second},
		"lifted before the end":     {200, 15 * time.Second},
		"lifted after the first":    {200, 3 * time.Second},
		"no other host, never held": {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				pages(r.Site("https://listed.example"), 123)
				pages(r.Site("https://example.com"), tt.others)
				var rule switchable
				r.politeness.Refuse = rule.refuse
				time.AfterFunc(2*time.Second, func() {
					if tt.lifted > 0 {
						rule.set("listed.example", "for a while")
					}
				})
				time.AfterFunc(tt.lifted, rule.clear)
				var last time.Time
				r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
					if strings.HasPrefix(p.URL, "https://listed.example") {
						last = time.Now()
					}
					return nil
				}
				began := time.Now()
				s := r.run(t.Context(), t, append(numbered("listed.example", 123), numbered("example.com", tt.others)...)...)
				wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 123 + tt.others})
				if took := last.Sub(began); took > tt.lifted+80*time.Second {
					t.Errorf("the last page came after %v, the list was empty after %v", took, tt.lifted)
				}
				if len(s.Rules) != 0 || s.Stopped != nil {
					t.Errorf("rules %v, stopped: %v", s.Rules, s.Stopped)
				}
			})
		})
	}
}

// TestARefusedURLCostsNoPace: the URLs of a host that one's own rule lets pass aren't held up by
// those that it refuses.
func TestARefusedURLCostsNoPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		site := r.Site("https://example.com")
		var urls []string
		for i := range 500 {
			urls = append(urls, fmt.Sprintf("https://example.com/private/%d", i))
		}
		pages(site, 10)
		urls = append(urls, numbered("example.com", 10)...)
		r.politeness.Hosts.Delay.Min = 10 * time.Second
		r.politeness.Hosts.Delay.Max = 10 * time.Second
		r.politeness.Refuse = func(req *http.Request) error {
			if strings.HasPrefix(req.URL.Path, "/private/") {
				return errors.New("a rule")
			}
			return nil
		}
		s := r.run(t.Context(), t, urls...)
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 10, crawl.Left: 500})
		if s.Elapsed > 105*time.Second { // robots.txt and ten pages
			t.Errorf("took %v", s.Elapsed)
		}
	})
}

// TestTheRuleIsAskedOnceMoreBeforeTheEnd, and no more than that: neither a rule that refuses what a
// question without headers shows as allowed, nor a robots.txt that leads to a host of the list, keeps
// the crawl, or has the host asked again and again.
func TestTheRuleIsAskedOnceMoreBeforeTheEnd(t *testing.T) {
	for name, set := range map[string]func(r *rig){
		"by a header": func(r *rig) {
			r.crawl.Prepare = func(_ crawl.Request, req *http.Request) error {
				req.Header.Set("X-Team", "ours")
				return nil
			}
			r.politeness.Refuse = func(req *http.Request) error {
				if req.Header.Get("X-Team") != "" {
					return errors.New("a rule about headers")
				}
				return nil
			}
		},
		"robots.txt leads to a listed host": func(r *rig) {
			r.Site("https://example.com").Handle("/robots.txt", politenesstest.Status(302, "Location", "https://listed.example/robots.txt"))
			r.politeness.Refuse = func(req *http.Request) error {
				if req.URL.Host == "listed.example" {
					return errors.New("a rule about hosts")
				}
				return nil
			}
		},
		"robots.txt itself": func(r *rig) {
			r.politeness.Refuse = func(req *http.Request) error {
				if req.URL.Path == "/robots.txt" {
					return errors.New("a rule about robots.txt")
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				pages(r.Site("https://example.com"), 20)
				set(r)
				s := r.run(t.Context(), t, numbered("example.com", 20)...)
				wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Left: 20})
				if s.Elapsed > 10*time.Second {
					t.Errorf("took %v", s.Elapsed)
				}
				if n := len(r.Requests()); n > 2 {
					t.Errorf("%d requests: %v", n, r.Requests())
				}
			})
		})
	}
}

// TestEachRefusalIsOnRecordOnce: questions whether a rule still refuses a URL aren't.
func TestEachRefusalIsOnRecordOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		pages(r.Site("https://example.com"), 3000)
		var rule switchable
		rule.set("listed.example", "a rule")
		r.politeness.Refuse = rule.refuse
		var log evidence.Recorder
		r.politeness.Evidence = &log
		s := r.run(t.Context(), t, append(numbered("listed.example", 20), numbered("example.com", 3000)...)...)
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 3000, crawl.Left: 20})
		if n := len(log.Decisions(evidence.BlockedByRule)); n != 20 {
			t.Errorf("%d records for 20 URLs in %v", n, s.Elapsed)
		}
	})
}

// TestRefusedURLsAreBounded: a lasting Queue keeps those that are more than MaxURLs.
func TestRefusedURLsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		q := newStore()
		r.crawl.Queue = q
		r.crawl.MaxURLs = 64
		pages(r.Site("https://example.com"), 100)
		var rule switchable
		rule.set("listed.example", "a rule")
		r.politeness.Refuse = rule.refuse
		most := 0
		r.crawl.Visit = func(context.Context, *crawl.Page) error { return nil }
		r.crawl.Progress = func(p crawl.Progress) { most = max(most, p.Rules["a rule"]-p.Outcomes[crawl.Left]) }
		s := r.run(t.Context(), t, append(numbered("listed.example", 500), numbered("example.com", 100)...)...)
		if s.Visited() != 100 || s.Outcomes[crawl.Left] < 64 || s.Outcomes[crawl.Left] > 100 {
			t.Errorf("%v", s)
		}
		if most > 64 {
			t.Errorf("%d URLs are set aside", most)
		}
		for _, url := range numbered("listed.example", 500) {
			if q.states[url] != waiting {
				t.Fatalf("%s is %s", url, q.states[url])
			}
		}
	})
}

// TestALongBlockByHandIsNoEndOfAURL: one that ends later than Patience. Its URLs are left, and are
// asked for when it is lifted.
func TestALongBlockByHandIsNoEndOfAURL(t *testing.T) {
	for name, lifted := range map[string]bool{"lifted": true, "not lifted": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				pages(r.Site("https://blocked.example"), 40)
				pages(r.Site("https://example.com"), 3000)
				hosts, err := memory.New(r.politeness.Hosts)
				if err != nil {
					t.Fatal(err)
				}
				r.politeness.Hosts, r.politeness.Limiter = hostlimit.Config{}, hosts
				time.AfterFunc(2*time.Second, func() {
					_ = hosts.Block(context.Background(), "blocked.example", time.Now().Add(72*time.Hour), "the owner has called")
				})
				if lifted {
					time.AfterFunc(100*time.Second, func() { _ = hosts.Clear(context.Background(), "blocked.example") })
				}
				s := r.run(t.Context(), t, append(numbered("blocked.example", 40), numbered("example.com", 3000)...)...)
				left := s.Outcomes[crawl.Left]
				if (left > 0) == lifted || s.Visited()+left != 3040 || s.Outcomes[crawl.Refused] > 0 {
					t.Errorf("%v", s)
				}
				if s.Rules["by hand: the owner has called"] != left || s.Elapsed > time.Hour {
					t.Errorf("%v: %v", s, s.Rules)
				}
			})
		})
	}
}

// TestABlockByHandUsesUpNoPatience: a host that has refused and was blocked by hand then isn't given
// up for the time of that block.
func TestABlockByHandUsesUpNoPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		var asked atomic.Int32
		r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) == 1 {
				w.Header().Set("Retry-After", "600")
				w.WriteHeader(http.StatusTooManyRequests)
			}
		}))
		hosts, err := memory.New(r.politeness.Hosts)
		if err != nil {
			t.Fatal(err)
		}
		r.politeness.Hosts, r.politeness.Limiter = hostlimit.Config{}, hosts
		r.crawl.Patience = time.Hour
		time.AfterFunc(9*time.Minute, func() {
			_ = hosts.Block(context.Background(), "example.com", time.Now().Add(55*time.Minute), "maintenance")
		})
		wantOutcomes(t, r.run(t.Context(), t, numbered("example.com", 3)...), map[crawl.Outcome]int{crawl.Visited: 3})
	})
}

// TestProcessesDontWaitForEachOthersRules: while a Queue is shared, a process whose URLs are all
// refused by its own rules ends, although others have such URLs, too.
func TestProcessesDontWaitForEachOthersRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		shared := newStore()
		shared.open = true
		var mu sync.Mutex
		for i := range 2 {
			all.Go(func() {
				r := newRig()
				var rule switchable
				rule.set("a.example", "a rule")
				rule.set("b.example", "a rule")
				r.politeness.Refuse = rule.refuse
				r.crawl.Queue = &locked{store: shared, mu: &mu}
				s := r.run(t.Context(), t, numbered([]string{"a.example", "b.example"}[i], 30)...)
				if s.Elapsed > 5*time.Minute || s.Outcomes[crawl.Disallowed] > 0 {
					t.Errorf("%v", s)
				}
			})
		}
		all.Wait()
		for url, state := range shared.states {
			if state != waiting {
				t.Errorf("%s is %s", url, state)
			}
		}
	})
}

// locked is a store that several crawls share.
type locked struct {
	*store
	mu *sync.Mutex
}

func (l *locked) Add(ctx context.Context, reqs []crawl.Request) (int, int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store.Add(ctx, reqs)
}

func (l *locked) Take(ctx context.Context, hosts []string, n int) ([]crawl.Request, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store.Take(ctx, hosts, n)
}

func (l *locked) Done(ctx context.Context, results []crawl.Result) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store.Done(ctx, results)
}

func (l *locked) Hosts(ctx context.Context, n int) ([]string, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store.Hosts(ctx, n)
}
