package promises_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// TestNoStartAtTheWireAfterTheBudgetsEnd: the connection comes after the end, whether the clock ran
// at the turn or the first page of another request has started it since. So where the start then
// waits for the gap to a page of the same host.
func TestNoStartAtTheWireAfterTheBudgetsEnd(t *testing.T) {
	for _, page := range []struct {
		url           string
		after, before time.Duration
	}{
		{url: "https://example.com/"}, {url: "https://example.com/", before: 9 * time.Second}, {url: "http://slow.example/", after: 9500 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := budget.New(budget.Limits{Duration: 10 * time.Second})
			c := atTheWire(t, func(cfg *politeness.Config) {
				cfg.DangerouslyIgnoreRobots, cfg.Budget, cfg.Hosts.Delay.Min = true, b, 2*time.Second
			})
			c.web.Site("http://slow.example").Handle("/", politenesstest.Text("x"))
			c.web.Site("https://slow.example").Handle("/", politenesstest.Text("x")).Dial(11 * time.Second)
			var wg sync.WaitGroup
			wg.Go(func() {
				time.Sleep(page.after)
				if _, err := fetch(t.Context(), c.client, page.url); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(page.before)
			_, err := fetch(t.Context(), c.client, "https://slow.example/")
			wg.Wait()
			refused(t, err, politeness.StageBudget, politeness.ErrBudget)
			if u, err := b.Usage(t.Context()); u.Pages != 1 {
				t.Errorf("%d pages spent, one was sent; %v", u.Pages, err)
			}
			if n := len(c.judge()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
			vain := c.records(evidence.Failed) // the start of the turn, the one at the wire, and the request
			if len(vain) != 3 || vain[0].Instead == 0 || vain[1].Instead <= vain[0].Instead || vain[2].Instead != 0 {
				t.Errorf("records of starts that weren't used: %+v", vain)
			}
		})
	}
}

// TestARuleThatIsAddedHoldsForWhoWaitsAtTheWire: a request that has its connection waits there for
// the end of a block, and meanwhile the user has found another rule.
func TestARuleThatIsAddedHoldsForWhoWaitsAtTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Bool
		b := budget.New(budget.Limits{Pages: 10})
		c := atTheWire(t, func(cfg *politeness.Config) {
			cfg.DangerouslyIgnoreRobots, cfg.Budget = true, b
			cfg.Hosts.Delay.Min = wireDelay
			cfg.Refuse = func(*http.Request) error {
				if closed.Load() {
					return errors.New("the owner has called")
				}
				return nil
			}
		})
		c.site.Dial(2*time.Second).Handle("/busy", politenesstest.Status(429, "Retry-After", "60"))
		var wg sync.WaitGroup
		wg.Go(func() { _ = c.get(t.Context(), "/busy") })
		time.Sleep(10 * time.Millisecond)
		var err error
		wg.Go(func() { err = c.get(t.Context(), "/x") })
		time.Sleep(30 * time.Second)
		closed.Store(true)
		wg.Wait()
		refused(t, err, politeness.StageRule, politeness.ErrDisallowed)
		if n := len(c.judge()); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
		if u, err := b.Usage(t.Context()); u.Pages != 1 {
			t.Errorf("%d pages spent, one was sent; %v", u.Pages, err)
		}
		closed.Store(false)
		if err := c.get(t.Context(), "/after"); err != nil { // the slot is free again
			t.Error(err)
		}
	})
}

// TestARobotsTxtThatChangesHoldsForWhoWaitsAtTheWire: the newer copy comes in while a request with
// its connection at hand waits for the gap, before it is sent or before it is sent again.
func TestARobotsTxtThatChangesHoldsForWhoWaitsAtTheWire(t *testing.T) {
	for text, sent := range map[string]int{
		"Disallow: /x\n": 0, "Crawl-delay: 100\n": 0, "Visit-time: 0300-0400\n": 0, "Disallow: /y\nCrawl-delay: 5\n": 1,
	} {
		for _, again := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				b := budget.New(budget.Limits{Pages: 10})
				c := atTheWire(t, func(cfg *politeness.Config) {
					cfg.Hosts.Delay.Min, cfg.Budget = 10*time.Second, b
					cfg.Robots = robotscache.Config{TTL: 25 * time.Second}
				})
				c.site.Robots("User-agent: *\nCrawl-delay: 10\n").Handle("/slow", politenesstest.Slow(time.Minute, politenesstest.Text("slow")))
				if err := c.get(t.Context(), "/"); err != nil {
					t.Fatal(err)
				}
				var wg sync.WaitGroup
				lost := 0
				if again {
					c.site.HangUp() // the kept connection is lost under the next request
					lost = 1
				} else {
					wg.Go(func() { _ = c.get(t.Context(), "/slow") }) // and holds it
				}
				time.Sleep(13 * time.Second)
				c.site.Dial(15 * time.Second)
				var err error
				wg.Go(func() { err = c.get(t.Context(), "/x") })
				time.Sleep(3 * time.Second)
				c.site.Robots("User-agent: *\n" + text)
				wg.Go(func() { _ = c.get(t.Context(), "/other") })
				time.Sleep(5 * time.Second)
				c.site.Dial(0)
				wg.Wait()
				n, pages := 0, map[string]bool{}
				for _, r := range c.judge() {
					if strings.HasSuffix(r.URL, "/x") {
						n++
					}
					pages[r.URL] = true
				}
				delete(pages, "https://example.com/robots.txt")
				if n != sent+lost || (err == nil) != (sent == 1) {
					t.Errorf("%q, again %t: %d requests for /x; %v\n%s", text, again, n, err, &c.log)
				}
				if u, err := b.Usage(t.Context()); int(u.Pages) != len(pages) {
					t.Errorf("%q, again %t: %d pages spent, %d sent; %v\n%s", text, again, u.Pages, len(pages), err, &c.log)
				}
			})
		}
	}
}

// TestStatusCountsTheRequestsThatWereSent: a resend is one, and a start that was refused at its
// connection is none.
func TestStatusCountsTheRequestsThatWereSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := atTheWire(t, func(cfg *politeness.Config) {
			cfg.DangerouslyIgnoreRobots, cfg.Spend = true, budget.Limits{Duration: 10 * time.Second}
			cfg.Hosts.Delay.Min = wireDelay
		})
		tr := c.client.Transport.(*politeness.Transport)
		for range 3 {
			if err := c.get(t.Context(), "/"); err != nil {
				t.Fatal(err)
			}
			c.site.HangUp()
		}
		c.web.Site("https://slow.example").Dial(20 * time.Second)
		_, err := fetch(t.Context(), c.client, "https://slow.example/")
		refused(t, err, politeness.StageBudget, politeness.ErrBudget)
		sent := c.judge()
		if n := tr.Status(t.Context()).Starts; int(n) != len(sent) || n != 5 {
			t.Errorf("%d starts, %d requests", n, len(sent))
		}
	})
}
