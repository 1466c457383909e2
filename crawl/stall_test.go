package crawl_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
)

// errRefusedConnection is what a dial returns where nothing listens.
var errRefusedConnection = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

// TestOnePageStopsNoHost: beside a page that takes a minute the second slot of its host goes on,
// also where another page is refused, and where the slow page is the first one.
func TestOnePageStopsNoHost(t *testing.T) {
	slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) })
	for _, tt := range []struct {
		name    string
		slow    string
		refused bool
		within  time.Duration // between two starts
	}{
		{"the first page is slow", "/0", false, time.Second},
		{"the second page is slow", "/1", false, time.Second},
		{"and the third refused", "/1", true, 5 * time.Second},
		{"the first slow and the third refused", "/0", true, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.politeness.Hosts = hostlimit.Config{
					Concurrency: 2, Delay: hostlimit.Delay{Min: 100 * time.Millisecond, Adaptive: hostlimit.Fixed},
				}
				site := r.Site("https://example.com").Handle("/", page("")).Handle(tt.slow, slow)
				if tt.refused {
					site.Handle("/3", politenesstest.InTurn(politenesstest.Status(http.StatusTooManyRequests, "Retry-After", "4"), page("")))
				}
				s := r.run(t.Context(), t, numbered("example.com", 40)...)
				wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 40})
				var last time.Time
				for i, req := range r.Requests() {
					if gap := req.Start.Sub(last); i > 0 && gap > tt.within {
						t.Errorf("%v came %v after the one before", req, gap)
					}
					last = req.Start
				}
				r.Check(t, politenesstest.Rules{Delay: 100 * time.Millisecond, Concurrency: 2, Refusals: []int{429, 503}})
			})
		})
	}
}

// TestDeadHostsKeepNobody: a crawl is over when only hosts are left that don't answer, and one
// whose connections are refused is asked twice.
func TestDeadHostsKeepNobody(t *testing.T) {
	noRoute := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
	var timeout net.Error = &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	for _, tt := range []struct {
		name   string
		err    error
		pages  int           // of another host, a minute apart
		took   time.Duration // about
		asked  int
		status int
	}{
		{"refused", errRefusedConnection, 1, 0, 1, 0},
		{"refused, while another goes on", errRefusedConnection, 30, 29 * time.Minute, 2, 0},
		{"refused, with one try", errRefusedConnection, 30, 29 * time.Minute, 1, 0},
		{"silent", timeout, 1, 5 * time.Minute, 2, 0},
		{"no route", noRoute, 1, 5 * time.Minute, 2, 0},
		{"silent, while another goes on", timeout, 30, 29 * time.Minute, 5, 0},
		{"answers 503", nil, 1, 20 * time.Minute, 5, http.StatusServiceUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.Site("https://alive.example").Robots("User-agent: *\nCrawl-delay: 60\n").Handle("/", page(""))
				if strings.Contains(tt.name, "one try") {
					r.crawl.Tries = 1
				}
				dead := r.Site("https://dead.example")
				if tt.err != nil {
					dead.Down(tt.err)
				} else {
					dead.RobotsStatus(tt.status)
				}
				var errs []error
				r.crawl.Done = func(res crawl.Result) {
					if res.Outcome == crawl.Unreachable {
						errs = append(errs, res.Err)
					}
				}
				s := r.run(t.Context(), t, append(numbered("dead.example", 40), numbered("alive.example", tt.pages)...)...)
				wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: tt.pages, crawl.Unreachable: 40})
				if s.Elapsed < tt.took || s.Elapsed > tt.took+2*time.Minute || s.Stopped != nil {
					t.Errorf("took %v, want about %v: %v", s.Elapsed, tt.took, s)
				}
				asked := 0
				for _, req := range r.Requests() {
					if strings.HasPrefix(req.URL, "https://dead.example") {
						asked++
					}
				}
				if asked != tt.asked {
					t.Errorf("asked %d times, want %d", asked, tt.asked)
				}
				for _, err := range errs {
					if tt.err != nil && !errors.Is(err, tt.err) {
						t.Fatalf("the result doesn't say why: %v", err)
					}
				}
			})
		})
	}
}

// TestDiscoverKeepsDeadHosts: while a call of Discover may find pages, dead hosts are asked again.
func TestDiscoverKeepsDeadHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://alive.example").Handle("/", page(""))
		r.Site("https://dead.example").Down(errRefusedConnection)
		r.crawl.Discover = listed(func(_ context.Context, url string) []crawl.Request {
			if strings.HasPrefix(url, "https://alive.") {
				time.Sleep(10 * time.Minute)
			}
			return nil
		})
		wantOutcomes(t, r.run(t.Context(), t, "https://alive.example/", "https://dead.example/"), map[crawl.Outcome]int{crawl.Visited: 1, crawl.Unreachable: 1})
		if n := len(r.Requests()); n != 4 {
			t.Errorf("%d requests, want 4: two pages of robots.txt, one page, and the second try", n)
		}
	})
}

// TestProbeParksNothing: while a host that has refused is asked by one request, slowly, its other
// slots take no connection from other hosts.
func TestProbeParksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.politeness.Hosts = hostlimit.Config{
			Concurrency: 2, MaxInFlight: 2, Delay: hostlimit.Delay{Min: 100 * time.Millisecond, Adaptive: hostlimit.Fixed},
		}
		slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(30 * time.Second) })
		refuse := politenesstest.InTurn(politenesstest.Status(http.StatusTooManyRequests, "Retry-After", "2"), slow)
		r.Site("https://refuses.example").Handle("/", refuse)
		r.Site("https://answers.example").Handle("/", page(""))
		r.run(t.Context(), t, append(numbered("refuses.example", 4), numbered("answers.example", 200)...)...)
		var last time.Time
		for _, req := range r.Requests() {
			if strings.HasPrefix(req.URL, "https://answers.example") {
				if gap := req.Start.Sub(last); !last.IsZero() && gap > time.Second {
					t.Errorf("%v came %v after the one before", req, gap)
				}
				last = req.Start
			}
		}
	})
}

// TestHostThatComesBackIsAlive, also where its first page isn't answered.
func TestHostThatComesBackIsAlive(t *testing.T) {
	for name, first := range map[string]http.Handler{
		"dropped": politenesstest.Drop(), "refused": politenesstest.InTurn(politenesstest.Status(http.StatusServiceUnavailable), page("")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.Site("https://alive.example").Robots("User-agent: *\nCrawl-delay: 60\n").Handle("/", page(""))
				back := r.Site("https://back.example").Robots("User-agent: *\nCrawl-delay: 200\n").Handle("/", page("")).Handle("/0", first)
				back.Down(errRefusedConnection)
				time.AfterFunc(4*time.Minute, func() { back.Down(nil) })
				s := r.run(t.Context(), t, append(numbered("back.example", 3), numbered("alive.example", 7)...)...)
				if want := map[bool]int{true: 9, false: 10}[name == "dropped"]; s.Visited() != want {
					t.Errorf("%d visited, want %d: %v", s.Visited(), want, s)
				}
			})
		})
	}
}

// TestDeadHostsWaitWhileTheQueueIsOpen: while other processes may add URLs, a host that doesn't
// answer is asked again as in any crawl that goes on, and what it has then is visited. Once they
// can't any more it keeps nobody.
func TestDeadHostsWaitWhileTheQueueIsOpen(t *testing.T) {
	var silent net.Error = &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	for _, tt := range []struct {
		name string
		open time.Duration // that the Queue is
		want crawl.Outcome
	}{
		{"others go on", 30 * time.Minute, crawl.Visited},
		{"others have ended", 8 * time.Minute, crawl.Unreachable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				q := &shared{store: newStore()}
				q.store.open = true
				r.crawl.Queue = q
				back := r.Site("https://back.example").Handle("/", page(""))
				back.Down(silent)
				time.AfterFunc(12*time.Minute, func() { back.Down(nil) })
				time.AfterFunc(tt.open, func() {
					q.mu.Lock()
					defer q.mu.Unlock()
					q.store.open = false
				})
				s := r.run(t.Context(), t, numbered("back.example", 2)...)
				wantOutcomes(t, s, map[crawl.Outcome]int{tt.want: 2})
				if s.Elapsed < tt.open || s.Elapsed > tt.open+time.Minute {
					t.Errorf("the crawl took %v, and its Queue was open for %v", s.Elapsed, tt.open)
				}
			})
		})
	}
}

// TestASlowRefusalLosesNoPage: a page that is refused after 18 s doesn't take the place of another
// one, which was refused meanwhile and waits for its next try.
func TestASlowRefusalLosesNoPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.politeness.Hosts = hostlimit.Config{
			Concurrency: 2, Delay: hostlimit.Delay{Min: 100 * time.Millisecond, Adaptive: hostlimit.Fixed},
		}
		r.Site("https://example.com").Robots("User-agent: *\nCrawl-delay: 5\n").
			Handle("/g", politenesstest.Slow(time.Second, page(""))).
			Handle("/e", politenesstest.Slow(18*time.Second, politenesstest.Status(504))).Handle("/u", politenesstest.Status(500))
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		s := r.run(ctx, t, "https://example.com/g", "https://example.com/e", "https://example.com/u")
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 3})
		if s.Stopped != nil {
			t.Error(s)
		}
	})
}

// TestAServedPageThatIsFarOffHoldsNothingUp: where the page that would tell whose trouble a refusal
// is can't be asked for within Patience, the refused page doesn't wait for it. It is left, as a
// person has blocked the host.
func TestAServedPageThatIsFarOffHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		hosts, err := memory.New(r.politeness.Hosts)
		if err != nil {
			t.Fatal(err)
		}
		r.politeness.Hosts, r.politeness.Limiter = hostlimit.Config{}, hosts
		n := 0
		r.Site("https://example.com").Handle("/good", page("")).Handle("/u", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if n++; n == 2 {
				if err := hosts.Block(req.Context(), "example.com", time.Now().Add(48*time.Hour), "its owner has called"); err != nil {
					t.Error(err)
				}
			}
			w.WriteHeader(http.StatusInternalServerError)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 96*time.Hour)
		defer cancel()
		s := r.run(ctx, t, "https://example.com/good", "https://example.com/u")
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 1, crawl.Left: 1})
		if s.Elapsed > time.Minute || !errors.Is(s.Stopped, hostlimit.ErrBlocked) {
			t.Error(s)
		}
	})
}
