package politenesstest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/politenesstest"
)

// A script is a crawl as it happens: what starts when, and for how long it stays open.
type script struct {
	t     *testing.T
	web   *politenesstest.Web
	began time.Time
	wg    sync.WaitGroup
}

func newScript(t *testing.T) *script {
	return &script{t: t, web: politenesstest.NewWeb(), began: time.Now()}
}

// fetch starts a request at a time since the script's begin and reads its body.
func (s *script) fetch(at time.Duration, rawURL string, header ...string) *script {
	return s.hold(at, 0, rawURL, header...)
}

// hold starts a request at a time since the script's begin and reads its body after a while.
func (s *script) hold(at, open time.Duration, rawURL string, header ...string) *script {
	if !strings.Contains(rawURL, "://") {
		rawURL = site + rawURL
	}
	s.wg.Go(func() {
		time.Sleep(time.Until(s.began.Add(at)))
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, rawURL, nil)
		if err != nil {
			s.t.Error(err)
			return
		}
		req.Header.Set("User-Agent", "AuditBot/1.0 (+https://example.com/bot)")
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := s.web.RoundTrip(req)
		if err != nil {
			return
		}
		time.Sleep(open)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	})
	return s
}

// do calls f at a time since the script's begin.
func (s *script) do(at time.Duration, f func()) *script {
	s.wg.Go(func() {
		time.Sleep(time.Until(s.began.Add(at)))
		f()
	})
	return s
}

const (
	ms     = time.Millisecond
	second = time.Second
)

func TestViolations(t *testing.T) {
	type rules = politenesstest.Rules
	tests := []struct {
		name  string
		rules rules
		play  func(*script, *politenesstest.Site)
		want  []string // "kind request earlier", by number
	}{
		// Gaps.
		{"gaps kept", rules{Delay: second}, func(s *script, _ *politenesstest.Site) {
			s.fetch(0, "/1").fetch(second, "/2").fetch(2*second, "/3")
		}, nil},
		{"gap too short", rules{Delay: second}, func(s *script, _ *politenesstest.Site) {
			s.fetch(0, "/1").fetch(second, "/2").fetch(1999*ms, "/3").fetch(2999*ms, "/4")
		}, []string{"gap 3 2"}},
		{"starts at once", rules{Delay: second}, func(s *script, _ *politenesstest.Site) {
			s.fetch(0, "/1").fetch(0, "/2")
		}, []string{"gap 2 1"}},
		{"no delay asked", rules{}, func(s *script, _ *politenesstest.Site) {
			s.fetch(0, "/1").fetch(0, "/2")
		}, nil},
		{"slack", rules{Delay: second, Slack: 5 * ms}, func(s *script, _ *politenesstest.Site) {
			s.fetch(0, "/1").fetch(995*ms, "/2").fetch(995*ms+994*ms, "/3")
		}, []string{"gap 3 2"}},
		{"robots.txt counts in gaps", rules{Delay: second}, func(s *script, _ *politenesstest.Site) {
			s.fetch(0, "/robots.txt").fetch(999*ms, "/1")
		}, []string{"gap 2 1"}},
		{"other hosts don't", rules{Delay: second}, func(s *script, _ *politenesstest.Site) {
			s.fetch(0, "/1").fetch(1*ms, "https://b.example/").fetch(2*ms, "https://a.example:8443/")
		}, nil},
		{"schemes share a host", rules{Delay: second}, func(s *script, _ *politenesstest.Site) {
			s.fetch(0, "/1").fetch(1*ms, "http://a.example/")
		}, []string{"gap 2 1"}},
		{"host key", rules{Delay: second, HostKey: func(*http.Request) string { return "all" }}, func(s *script, _ *politenesstest.Site) {
			s.fetch(0, "/1").fetch(1*ms, "https://b.example/")
		}, []string{"gap 2 1"}},

		// Crawl-delay.
		{"crawl-delay", rules{Delay: ms}, func(s *script, a *politenesstest.Site) {
			a.Robots("User-agent: *\nCrawl-delay: 2\n")
			s.fetch(0, "/robots.txt").fetch(2*second, "/1").fetch(4*second, "/2").fetch(5999*ms, "/3")
		}, []string{"gap 4 3"}},
		{"crawl-delay after robots.txt", rules{}, func(s *script, a *politenesstest.Site) {
			a.Robots("User-agent: *\nCrawl-delay: 2\n").Latency(100 * ms)
			s.fetch(0, "/robots.txt").fetch(second, "/1")
		}, []string{"gap 2 1"}},
		{"crawl-delay isn't known before", rules{}, func(s *script, a *politenesstest.Site) {
			a.Robots("User-agent: *\nCrawl-delay: 20\n")
			s.web.Site("http://a.example").Handle("/robots.txt", http.RedirectHandler(site+"/robots.txt", http.StatusMovedPermanently))
			s.fetch(0, "http://a.example/robots.txt").fetch(second, "/robots.txt").fetch(22*second, "http://a.example/1")
		}, nil},
		{"crawl-delay not asked for", rules{}, func(s *script, a *politenesstest.Site) {
			a.Robots("User-agent: *\nCrawl-delay: 2\n")
			s.fetch(0, "/1").fetch(second, "/2")
		}, []string{"gap 2 1"}},
		{"crawl-delay of another agent", rules{}, func(s *script, a *politenesstest.Site) {
			a.Robots("User-agent: AuditBot\nCrawl-delay: 1\nAllow: /\n\nUser-agent: other\nCrawl-delay: 9\nAllow: /\n")
			s.fetch(0, "/robots.txt").fetch(second, "/1").fetch(2*second, "/2", "User-Agent", "Other/2.0")
		}, []string{"gap 3 2"}},
		{"crawl-delay that grows binds from the second start", rules{}, func(s *script, a *politenesstest.Site) {
			a.Robots("User-agent: *\nCrawl-delay: 1\n")
			s.do(2500*ms, func() { a.Robots("User-agent: *\nCrawl-delay: 5\n") })
			s.fetch(0, "/robots.txt").fetch(second, "/1").fetch(2*second, "/2").
				fetch(3*second, "/robots.txt").fetch(4*second, "/3").fetch(8*second, "/4").fetch(13*second, "/5")
		}, []string{"gap 6 5"}},
		{"ignored", rules{IgnoreRobots: true}, func(s *script, a *politenesstest.Site) {
			a.Robots("User-agent: *\nCrawl-delay: 2\nDisallow: /\n")
			s.fetch(0, "/robots.txt").fetch(second, "/1")
		}, nil},

		// Concurrency.
		{"two at once", rules{Concurrency: 2}, func(s *script, _ *politenesstest.Site) {
			s.hold(0, 10*second, "/1").hold(1*second, 2*second, "/2").hold(3001*ms, second, "/3")
		}, nil},
		{"three at once", rules{Concurrency: 2}, func(s *script, _ *politenesstest.Site) {
			s.hold(0, 10*second, "/1").hold(1*second, 2*second, "/2").hold(2999*ms, second, "/3")
		}, []string{"concurrency 3 1"}},
		{"latency holds the slot", rules{Concurrency: 1}, func(s *script, a *politenesstest.Site) {
			a.Latency(second)
			s.fetch(0, "/1").fetch(999*ms, "/2").fetch(3*second, "/3")
		}, []string{"concurrency 2 1"}},
		{"failures end", rules{Concurrency: 1}, func(s *script, a *politenesstest.Site) {
			a.Down(syscall.ECONNRESET)
			s.fetch(0, "/1").fetch(second, "/2").fetch(2*ms, "https://unknown.example").fetch(3*ms, "https://unknown.example")
		}, nil},

		// Blocks.
		{"into a block", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(429, "Retry-After", "3")).Page("/2", "")
			s.fetch(0, "/1").fetch(ms, "/2").fetch(2999*ms, "/robots.txt").fetch(3*second, "/2")
		}, []string{"block 2 1", "block 3 1"}},
		{"in flight when the block was set", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Slow(second, politenesstest.Status(429, "Retry-After", "3")))
			s.fetch(0, "/1").fetch(999*ms, "/2").fetch(second, "/3").fetch(1001*ms, "/4").fetch(4*second, "/5")
		}, []string{"block 4 1"}},
		{"the longest block", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Slow(2*ms, politenesstest.Status(429, "Retry-After", "9"))).
				Handle("/2", politenesstest.Status(429, "Retry-After", "2"))
			s.fetch(0, "/1").fetch(ms, "/2").fetch(second, "/3").fetch(9*second, "/3").fetch(9002*ms, "/3")
		}, []string{"block 3 1", "block 4 1"}},
		{"a date by the server's clock", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(429, "Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT", "Date", "Fri, 31 Dec 1999 23:59:49 GMT"))
			s.fetch(0, "/1").fetch(9*second, "/2").fetch(10*second, "/3")
		}, []string{"block 2 1"}},
		{"a huge number", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(429, "Retry-After", "1180591620717411303424")) // 2^70
			s.fetch(0, "/1").fetch(24*time.Hour, "/2")
		}, []string{"block 2 1"}},
		{"no time named", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.InTurn(
				politenesstest.Status(429), politenesstest.Status(429, "Retry-After", "later"), politenesstest.Status(429, "Retry-After", "-1"),
				politenesstest.Status(429, "Retry-After", "soon"), politenesstest.Status(429, "Retry-After", " ")))
			for i := range 6 {
				s.fetch(time.Duration(i)*second, "/1")
			}
		}, nil},
		{"503 is one", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(503, "Retry-After", "3"))
			s.fetch(0, "/1").fetch(second, "/2")
		}, []string{"block 2 1"}},
		{"403, 404 and 999 are, too", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(403, "Retry-After", "3")).Handle("/3", politenesstest.Status(404, "Retry-After", "3"))
			a.Handle("/5", politenesstest.Status(999, "Retry-After", "3"))
			s.fetch(0, "/1").fetch(second, "/2").fetch(10*second, "/3").fetch(11*second, "/4").fetch(20*second, "/5").fetch(21*second, "/6")
		}, []string{"block 2 1", "block 4 3", "block 6 5"}},
		{"after a challenge one starts alone", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(503, "cf-mitigated", "challenge")).Handle("/2", politenesstest.Status(200, "x-amzn-waf-action", "captcha"))
			a.Handle("/3", politenesstest.Status(403, "x-datadome", "protected"))
			s.fetch(0, "/1").fetch(10*ms, "/2").fetch(20*ms, "/3").fetch(30*ms, "/4") // it has named no time
		}, nil},
		{"a page is none", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(200, "Retry-After", "3"))
			s.fetch(0, "/1").fetch(second, "/2")
		}, nil},
		{"unless others are named", rules{Refusals: []int{429}}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(404, "Retry-After", "3"))
			s.fetch(0, "/1").fetch(second, "/2")
		}, nil},
		{"unless it is said to be one", rules{Refusals: []int{429, 503}}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(503, "Retry-After", "3"))
			s.fetch(0, "/1").fetch(second, "/2")
		}, []string{"block 2 1"}},
		{"a rest", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(503))
			s.fetch(0, "/1").fetch(999*ms, "/2").fetch(2*second, "/3")
		}, []string{"block 2 1"}},
		{"a rest that is over", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(500))
			s.fetch(0, "/1").fetch(second, "/2")
		}, nil},
		{"a rest as long as the rules say", rules{Rest: time.Minute}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Drop())
			s.fetch(0, "/1").fetch(time.Minute-1, "/2").fetch(time.Minute, "/3")
		}, []string{"block 2 1"}},
		{"no rest", rules{Rest: -1}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(503))
			s.fetch(0, "/1").fetch(ms, "/1").fetch(2*ms, "/3")
		}, nil},
		{"longer by the number in a row", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/", politenesstest.Status(503))
			s.fetch(0, "/1").fetch(second, "/2").fetch(2*second, "/3").fetch(4*second, "/4").fetch(7*second-1, "/5")
		}, []string{"block 5 4"}},
		{"and that many before a success don't count", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/", politenesstest.Status(503)).Page("/ok", "page")
			s.fetch(0, "/1").fetch(second, "/2").fetch(2*second, "/3").fetch(4*second, "/ok").fetch(5*second, "/5").fetch(6*second, "/6")
		}, nil},
		{"of a client that left", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Slow(time.Hour, politenesstest.Text("page")))
			s.hold(0, 0, "/1").fetch(ms, "/3")
		}, nil},
		{"one that was on its way", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(503)).Handle("/2", politenesstest.Slow(3*second, politenesstest.Status(503)))
			s.fetch(0, "/2").fetch(ms, "/1").fetch(3500*ms, "/3")
		}, nil},
		{"one that started in the instant of the answer", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Slow(200*ms, politenesstest.Status(503))).Page("/2", "page")
			s.fetch(0, "/1").do(200*ms, func() {
				synctest.Wait() // the answer comes first
				s.fetch(200*ms, "/2")
			}).fetch(1200*ms, "/1").fetch(1500*ms, "/3")
		}, nil},
		{"two at once after a rest", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(503)).Handle("/2", politenesstest.Slow(second, politenesstest.Text("page")))
			s.fetch(0, "/1").fetch(2*second, "/2").fetch(2500*ms, "/3").fetch(3*second, "/4")
		}, []string{"block 3 1"}},
		{"the page that was refused, once more", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(503)).Page("/2", "page")
			s.fetch(0, "/1").fetch(second, "/1").fetch(1100*ms, "/2").fetch(2*second, "/1").fetch(2100*ms, "/2")
		}, nil},
		{"and another time", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/1", politenesstest.Status(503))
			s.fetch(0, "/1").fetch(second, "/1").fetch(1100*ms, "/1").fetch(1200*ms, "/1")
		}, []string{"block 4 3"}},
		{"five that are forbidden, and one at a time", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/", politenesstest.Status(403)).Handle("/6", politenesstest.Slow(100*ms, politenesstest.Text("page"))).Page("/7", "page")
			for i := range 5 {
				s.fetch(time.Duration(i)*ms, fmt.Sprint("/", i))
			}
			s.fetch(6*ms, "/6").fetch(7*ms, "/7").fetch(200*ms, "/8")
		}, []string{"block 7 5"}},
		{"and a ban", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/", politenesstest.Status(403)).Page("/7", "page")
			for i := range 6 {
				s.fetch(time.Duration(i)*ms, fmt.Sprint("/", i))
			}
			s.fetch(59*second, "/7").fetch(59*second+ms, "/8")
		}, []string{"block 7 6"}},
		{"and a longer one", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/", politenesstest.Status(403))
			for i := range 6 {
				s.fetch(time.Duration(i)*ms, fmt.Sprint("/", i))
			}
			s.fetch(60*second+5*ms, "/7").fetch(180*second+4*ms, "/8")
		}, []string{"block 8 7"}},
		{"storm", rules{}, func(s *script, a *politenesstest.Site) {
			s.do(second, func() { a.Storm(10 * second) })
			s.fetch(0, "/1").fetch(2*second, "/2").fetch(3*second, "/3").fetch(11*second, "/4")
		}, []string{"block 3 2"}},

		// Robots.
		{"disallowed", rules{}, func(s *script, a *politenesstest.Site) {
			a.Robots("User-agent: *\nDisallow: /private\n")
			s.fetch(0, "/robots.txt").fetch(second, "/private?x").fetch(2*second, "/public")
		}, []string{"disallowed 2 1"}},
		{"never asked", rules{}, func(s *script, a *politenesstest.Site) {
			a.Robots("User-agent: *\nDisallow: /private\n")
			s.fetch(0, "/private").fetch(ms, "/public")
		}, []string{"disallowed 1 0"}},
		{"its own group", rules{}, func(s *script, a *politenesstest.Site) {
			a.Robots("User-agent: auditbot\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n")
			s.fetch(0, "/robots.txt").fetch(second, "/a").fetch(2*second, "/b").fetch(3*second, "/b", "User-Agent", "")
		}, []string{"disallowed 2 1", "disallowed 4 1"}},
		{"the agent of the rules", rules{Agent: "Other"}, func(s *script, a *politenesstest.Site) {
			a.Robots("User-agent: auditbot\nDisallow: /a\n\nUser-agent: other\nDisallow: /b\n")
			s.fetch(0, "/robots.txt").fetch(second, "/a").fetch(2*second, "/b")
		}, []string{"disallowed 3 1"}},
		{"as fetched, not as served", rules{}, func(s *script, a *politenesstest.Site) {
			a.Robots("")
			s.do(2*second, func() { a.Robots("User-agent: *\nDisallow: /\n") })
			s.fetch(0, "/robots.txt").fetch(second, "/1").fetch(3*second, "/2").
				fetch(4*second, "/robots.txt").fetch(5*second, "/3")
		}, []string{"disallowed 5 4"}},
		{"known when it has been read", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/robots.txt", politenesstest.Text("User-agent: *\nDisallow: /\n"))
			s.hold(0, 2*second, "/robots.txt").fetch(second, "/1").fetch(3*second, "/2")
		}, []string{"disallowed 3 1"}},
		{"for a day", rules{}, func(s *script, a *politenesstest.Site) {
			a.Robots("")
			s.do(2*second, func() { a.Robots("User-agent: *\nDisallow: /\n") })
			s.fetch(0, "/robots.txt").fetch(24*time.Hour, "/1").fetch(24*time.Hour+second, "/2")
		}, []string{"disallowed 3 1"}},
		{"for as long as the rules say", rules{RobotsMaxAge: time.Minute}, func(s *script, a *politenesstest.Site) {
			a.Robots("")
			s.do(2*second, func() { a.Robots("User-agent: *\nDisallow: /\n") })
			s.fetch(0, "/robots.txt").fetch(time.Minute, "/1").fetch(time.Minute+1, "/2")
		}, []string{"disallowed 3 1"}},
		{"404 allows all, also instead of a file", rules{}, func(s *script, a *politenesstest.Site) {
			a.Robots("User-agent: *\nDisallow: /\n")
			s.do(2*second, func() { a.RobotsStatus(404) })
			s.fetch(0, "/robots.txt").fetch(second, "/1").fetch(3*second, "/robots.txt").fetch(4*second, "/1")
		}, []string{"disallowed 2 1"}},
		{"503 denies", rules{}, func(s *script, a *politenesstest.Site) {
			a.RobotsStatus(503)
			s.fetch(0, "/robots.txt").fetch(second, "/1")
		}, []string{"disallowed 2 1"}},
		{"unless the crawler fails open", rules{AllowUnreachable: true}, func(s *script, a *politenesstest.Site) {
			a.RobotsStatus(503)
			s.fetch(0, "/1").fetch(second, "/robots.txt").fetch(2*second, "/1")
		}, nil},
		{"503 denies those who never asked", rules{}, func(s *script, a *politenesstest.Site) {
			a.RobotsStatus(503)
			s.fetch(0, "/1")
		}, []string{"disallowed 1 0"}},
		{"a network error denies", rules{}, func(s *script, a *politenesstest.Site) {
			a.Sequence("/robots.txt", 200).Handle("/robots.txt", politenesstest.InTurn(politenesstest.Drop(), politenesstest.Text("")))
			s.fetch(0, "/robots.txt").fetch(second, "/1").fetch(2*second, "/robots.txt").fetch(3*second, "/1")
		}, []string{"disallowed 2 1"}},
		{"unreachable, with a copy", rules{}, func(s *script, a *politenesstest.Site) {
			a.Robots("User-agent: *\nDisallow: /private\n")
			s.do(2*second, func() { a.RobotsStatus(503) })
			s.fetch(0, "/robots.txt").fetch(3*second, "/robots.txt").
				fetch(4*second, "/public").fetch(25*time.Hour, "/public").fetch(26*time.Hour, "/private").
				fetch(31*24*time.Hour, "/public")
		}, []string{"disallowed 5 2", "disallowed 6 2"}},
		{"304 renews", rules{RobotsMaxAge: time.Minute}, func(s *script, a *politenesstest.Site) {
			a.Robots("User-agent: *\nDisallow: /private\n")
			s.do(61*second, func() { a.Robots("User-agent: *\nDisallow: /\n") })
			s.fetch(0, "/robots.txt").fetch(time.Minute, "/robots.txt", "If-Modified-Since", "Sat, 01 Jan 2000 00:00:00 GMT").
				fetch(119*second, "/public").fetch(2*time.Minute, "/private")
		}, []string{"disallowed 4 2"}},
		{"redirects bind the first origin", rules{}, func(s *script, a *politenesstest.Site) {
			a.Handle("/robots.txt", http.RedirectHandler("https://b.example/rules", http.StatusFound))
			s.web.Site("https://b.example").Page("/rules", "User-agent: *\nDisallow: /private\nDisallow: /rules\n")
			s.fetch(0, "/robots.txt").fetch(second, "https://b.example/rules").
				fetch(2*second, "/private").fetch(3*second, "https://b.example/private")
		}, []string{"disallowed 3 1"}},
		{"too many redirects", rules{}, func(s *script, a *politenesstest.Site) {
			for i := range 6 {
				a.Handle(fmt.Sprintf("/%d", i), http.RedirectHandler(fmt.Sprintf("/%d", i+1), http.StatusFound))
			}
			a.Handle("/robots.txt", http.RedirectHandler("/1", http.StatusFound)).Page("/6", "User-agent: *\nDisallow: /\n")
			s.fetch(0, "/robots.txt")
			for i := 1; i <= 5; i++ {
				s.fetch(time.Duration(i)*second, fmt.Sprintf("/%d", i))
			}
			s.fetch(9*second, "/page")
		}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t)
				test.play(s, s.web.Site(site))
				s.wg.Wait()
				var got []string
				for _, v := range s.web.Violations(test.rules) {
					got = append(got, fmt.Sprintf("%s %d %d", v.Kind, v.Request.Seq, v.Earlier.Seq))
				}
				if strings.Join(got, ", ") != strings.Join(test.want, ", ") {
					t.Errorf("found %q, want %q\n%v", got, test.want, s.web.Violations(test.rules))
				}
			})
		})
	}
}

// A client that cancels a request and starts the next one at once has had one at a time.
func TestCancelledRequestFreesItsPlaceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site(site).Latency(time.Minute)
		client := &http.Client{Transport: web, Timeout: time.Second}
		for range 20 {
			if _, err := client.Get(site); err == nil {
				t.Fatal("no timeout")
			}
		}
		web.Check(t, politenesstest.Rules{Concurrency: 1, Delay: time.Second})
	})
}

func TestViolationsAreReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t)
		s.web.Site(site).Robots("User-agent: *\nCrawl-delay: 2\nDisallow: /private\n").
			Handle("/busy", politenesstest.Status(429, "Retry-After", "3"))
		s.fetch(0, "/robots.txt").hold(2*second, 8*second, "/a").fetch(3200*ms, "/b").
			hold(6*second, 2*second, "/private").fetch(11*second, "/busy").fetch(13*second, "/c")
		s.web.Site("https://b.example").Robots("User-agent: *\nDisallow: /\n")
		s.fetch(20*second, "https://b.example/")
		s.wg.Wait()
		want := []string{
			`gap: request 3 (GET https://a.example/b at 3.2s) started 1.2s after request 2 (GET https://a.example/a at 2s): at least 2s apart by https://a.example/robots.txt`,
			`concurrency: request 3 (GET https://a.example/b at 3.2s) started during request 2 (GET https://a.example/a at 2s): 1 in flight already, at most 1 allowed`,
			`disallowed: request 4 (GET https://a.example/private at 6s): "Disallow: /private" in line 3 of https://a.example/robots.txt, for *; its robots.txt was last asked for by request 1 (GET https://a.example/robots.txt at 0s)`,
			`concurrency: request 4 (GET https://a.example/private at 6s) started during request 2 (GET https://a.example/a at 2s): 1 in flight already, at most 1 allowed`,
			`block: request 6 (GET https://a.example/c at 13s) started 2s after the answer to request 5 (GET https://a.example/busy at 11s): 429 with Retry-After: 3`,
			`disallowed: request 7 (GET https://b.example/ at 20s): "Disallow: /" in line 2 of https://b.example/robots.txt, for *; its robots.txt was never asked for`,
		}
		var got []string
		for _, v := range s.web.Violations(politenesstest.Rules{Concurrency: 1}) {
			got = append(got, v.String())
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// A recordingTB is a testing.TB that keeps the errors that it is told.
type recordingTB struct {
	testing.TB
	lines []string
}

func (r *recordingTB) Helper() {}
func (r *recordingTB) Errorf(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t)
		s.web.Site(site).Page("/", "home")
		for range 14 {
			s.fetch(0, "/")
		}
		s.wg.Wait()
		var r recordingTB
		s.web.Check(&r, politenesstest.Rules{})
		if len(r.lines) != 0 {
			t.Errorf("polite, but: %q", r.lines)
		}
		s.web.Check(&r, politenesstest.Rules{Delay: time.Second})
		if len(r.lines) != 1 {
			t.Fatalf("%d errors, want one: %q", len(r.lines), r.lines)
		}
		lines := strings.Split(r.lines[0], "\n")
		if len(lines) != 12 || lines[0] != "14 requests, 13 violations:" || !strings.Contains(lines[1], "gap: request 2 (") || lines[11] != "\tand 3 more" {
			t.Errorf("message\n%s", r.lines[0])
		}
	})
}

// A crawler that has asked for robots.txt and not read it knows nothing of it: the site's own
// rules bind.
func TestRobotsThatWasNotReadAllowsNothing(t *testing.T) {
	const rules = "User-agent: *\nDisallow: /private\nDisallow: /robots.txt?\n"
	ask := func(method, path string, read int64, header ...string) func(t *testing.T, web *politenesstest.Web) {
		return func(t *testing.T, web *politenesstest.Web) {
			req, err := http.NewRequestWithContext(t.Context(), method, site+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(header); i += 2 {
				req.Header.Set(header[i], header[i+1])
			}
			resp, err := web.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.CopyN(io.Discard, resp.Body, read)
			resp.Body.Close()
		}
	}
	for name, test := range map[string]struct {
		ask  func(*testing.T, *politenesstest.Web)
		want int // violations, that of the page included
	}{
		"HEAD":           {ask(http.MethodHead, "/robots.txt", 0), 1},
		"closed at once": {ask(http.MethodGet, "/robots.txt", 0), 1},
		"read in part":   {ask(http.MethodGet, "/robots.txt", 20), 1},
		"a range of it":  {ask(http.MethodGet, "/robots.txt", 1000, "Range", "bytes=0-5"), 1},
		"another file":   {ask(http.MethodGet, "/robots.txt?x", 1000), 2},
		"to the byte":    {ask(http.MethodGet, "/robots.txt", int64(len(rules))), 1},
		"to its end":     {ask(http.MethodGet, "/robots.txt", 1000), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := politenesstest.NewWeb()
				web.Site(site).Robots(rules).Handle("/", politenesstest.Text("page"))
				test.ask(t, web)
				time.Sleep(time.Second)
				ask(http.MethodGet, "/private", 1000)(t, web)
				got := web.Violations(politenesstest.Rules{})
				for _, v := range got {
					if v.Kind != politenesstest.Disallowed {
						t.Error(v)
					}
				}
				if len(got) != test.want {
					t.Errorf("%d violations, want %d: %v", len(got), test.want, got)
				}
			})
		})
	}
}

// A redirect of robots.txt may be spelled in many ways.
func TestRedirectOfRobotsIsFollowedHoweverItIsSpelled(t *testing.T) {
	for _, location := range []string{
		"https://Other.example/r.txt", "https://other.example:443/r.txt", "https://other.example/r.txt#f", "https://u:p@other.example/r.txt",
	} {
		synctest.Test(t, func(t *testing.T) {
			web := politenesstest.NewWeb()
			web.Site(site).Handle("/robots.txt", politenesstest.Status(302, "Location", location)).Page("/private", "page")
			web.Site("https://other.example").Robots("User-agent: *\nDisallow: /\n").Handle("/r.txt", politenesstest.Text("User-agent: *\nDisallow: /private\n"))
			for _, url := range []string{site + "/robots.txt", "https://other.example/r.txt", site + "/private"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := web.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			if got := web.Violations(politenesstest.Rules{}); len(got) != 1 || got[0].Request.URL != site+"/private" {
				t.Errorf("%s: %v, want the page only", location, got)
			}
		})
	}
}

// A host has one site, however its name is spelled.
func TestSpellingsOfAHostAreOneHost(t *testing.T) {
	for origin, url := range map[string]string{
		"https://a.example": "https://A.example.:0443/x", "https://[::1]:8080": "https://[0:0::1]:08080/x",
	} {
		web := politenesstest.NewWeb()
		web.Site(origin).Page("/x", "page")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := web.RoundTrip(req)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		resp.Body.Close()
	}
}

// Answers to requests in flight together round one end of a block up to seconds of
// their own. One that asks for more than that is heard.
func TestRefusalsInFlightTogether(t *testing.T) {
	for more, want := range map[string]int{"20": 0, "60": 1} {
		synctest.Test(t, func(t *testing.T) {
			s := newScript(t)
			s.web.Site(site).
				Handle("/1", politenesstest.Slow(time.Second, politenesstest.Status(429, "Retry-After", "20"))).
				Handle("/2", politenesstest.Slow(1500*time.Millisecond, politenesstest.Status(429, "Retry-After", more))).
				Page("/3", "page")
			s.fetch(0, "/1").fetch(0, "/2").fetch(21*time.Second+time.Millisecond, "/3").wg.Wait()
			if got := s.web.Violations(politenesstest.Rules{}); len(got) != want {
				t.Errorf("Retry-After %s: %v", more, got)
			}
		})
	}
}
