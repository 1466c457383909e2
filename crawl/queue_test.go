package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
)

// TestQueueGoesOn: a crawl that is killed at any instant goes on where it ended, and so does one
// that was cancelled, without asking twice for what it has done.
func TestQueueGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		q, asked := newStore(), make(map[string]int)
		for round := range 100 {
			r := newRig()
			r.crawl.Follow, r.crawl.MaxURLs = crawl.SameHost, 64 // few hosts at once
			r.politeness.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
				w := httptest.NewRecorder()
				if path := req.URL.Path; path != "/robots.txt" {
					r.mu.Lock()
					asked[req.URL.String()]++
					r.mu.Unlock()
					if len(path) < 5 {
						page(fmt.Sprintf(`<a href="%sa"><a href="%sb">`, path, path))(w, req)
					}
					fmt.Fprint(w, path) // no two pages say the same
				}
				return w.Result(), nil
			})
			r.crawl.Queue = q
			ctx, cancel := context.WithCancel(t.Context())
			stop := time.AfterFunc(time.Duration(rnd.IntN(3000))*time.Millisecond, cancel)
			var urls []string
			if round == 0 {
				for i := range 10 {
					urls = append(urls, fmt.Sprintf("http://h%d.example/", i))
				}
			}
			s := r.run(ctx, t, urls...)
			stop.Stop()
			cancel()
			if round%2 == 1 {
				q.reopen() // as after a kill: what is lent waits again
			}
			if ctx.Err() == nil || s.Outcomes[crawl.Left] == 0 && s.Visited() == 0 {
				break
			}
		}
		if len(asked) != 10*31 {
			t.Errorf("%d pages, want %d", len(asked), 10*31)
		}
		for url, n := range asked {
			if n != 1 {
				t.Errorf("%s asked for %d times", url, n)
			}
		}
	})
}

// TestQueueErrorEndsTheCrawl: and is returned. What was found isn't counted as known then, and the
// page that has led to it isn't done.
func TestQueueErrorEndsTheCrawl(t *testing.T) {
	for _, later := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			full := errors.New("disk full")
			q := newStore()
			r := newRig()
			r.Site("https://example.com").Handle("/", page(`<a href="/a">a</a>`))
			transport := mustTransport(t, r.politeness)
			visit := func(context.Context, *crawl.Page) error {
				q.err = full
				return nil
			}
			if !later {
				q.err = full
			}
			c, err := crawl.New(crawl.Config{Transport: transport, Queue: q, Visit: visit, Follow: crawl.SameHost})
			if err != nil {
				t.Fatal(err)
			}
			summary, err := c.Run(t.Context(), "https://example.com/")
			if !errors.Is(err, full) {
				t.Errorf("Run returned %v", err)
			}
			if n := summary.Outcomes[crawl.Duplicate]; n != 0 {
				t.Errorf("%d URLs that the queue hasn't taken in are counted as duplicates", n)
			}
		})
	}
}

// TestDiscoverOutlivesAStop: where a crawl is stopped, or killed, before Discover has returned, the
// next one calls it again: the URL of the call isn't done before what Discover has found is added.
func TestDiscoverOutlivesAStop(t *testing.T) {
	for _, slow := range []bool{false, true} { // the page comes before the crawl is stopped, or within Grace
		synctest.Test(t, func(t *testing.T) {
			q := &timedStore{store: newStore()}
			var visits int
			for _, lasts := range []time.Duration{90 * time.Second, time.Hour} {
				r := newRig()
				root := page("")
				if slow {
					root = politenesstest.Slow(95*time.Second, root).ServeHTTP
				}
				r.Site("https://a.example").Handle("/", root).Handle("/listed", page(""))
				r.Site("https://b.example").Robots("User-agent: *\nCrawl-delay: 60\n").Handle("/", page(""))
				r.crawl.Queue = q
				var found time.Time
				r.crawl.Discover = listed(func(ctx context.Context, url string) []crawl.Request {
					switch {
					case !strings.HasPrefix(url, "https://a."):
						return nil
					case lasts < time.Hour: // a large sitemap
						<-ctx.Done()
						return nil
					}
					time.Sleep(10 * time.Minute)
					found = time.Now()
					return []crawl.Request{{URL: "https://a.example/listed"}}
				})
				told := 0
				r.crawl.Done = func(res crawl.Result) {
					if res.URL == "https://a.example/" && res.Outcome == crawl.Visited {
						told++
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), lasts)
				r.run(ctx, t, append(numbered("b.example", 5), "https://a.example/")...)
				cancel()
				if visits = len(r.visited); told != 1 {
					t.Errorf("Done was called %d times", told)
				}
				if q.at.Before(found) {
					t.Errorf("the URL was done %v before Discover had returned", found.Sub(q.at))
				}
			}
			if visits == 0 || q.states["https://a.example/listed"] != done {
				t.Errorf("%d visits, and what the sitemap lists is lost", visits)
			}
		})
	}
}

// A timedStore notes when a.example/ was done.
type timedStore struct {
	*store
	at time.Time
}

func (s *timedStore) Done(ctx context.Context, results []crawl.Result) error {
	for _, r := range results {
		if r.URL == "https://a.example/" && r.Outcome != crawl.Left {
			s.at = time.Now()
		}
	}
	return s.store.Done(ctx, results)
}

// TestQueueFilledByOthers: what another program adds while the crawl runs is crawled, too.
func TestQueueFilledByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, q := newRig(), newStore()
		r.Site("https://a.example").Handle("/", page(""))
		r.Site("https://b.example").Handle("/", page(""))
		r.crawl.Queue = q
		r.crawl.Visit = func(ctx context.Context, p *crawl.Page) error {
			if p.URL == "https://a.example/" {
				time.Sleep(10 * time.Second) // the Queue has nothing to do
				_, _, err := q.Add(ctx, []crawl.Request{{URL: "https://b.example/", Host: "b.example"}})
				return err
			}
			return nil
		}
		wantOutcomes(t, r.run(t.Context(), t, "https://a.example/"), map[crawl.Outcome]int{crawl.Visited: 2})
		if q.asked != 3 { // at the beginning, and at each end
			t.Errorf("the Queue was asked for hosts %d times", q.asked)
		}
	})
}

// TestRoomForOneHostIsUsed: hosts that wait for long leave little room for others, and that is used
// all the same.
func TestRoomForOneHostIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, q := newRig(), newStore()
		var urls []string
		for i := range 3 {
			host := fmt.Sprintf("slow%d.example", i)
			r.Site("http://"+host).Robots("User-agent: *\nCrawl-delay: 3000\n").Handle("/", page(""))
			urls = append(urls, numbered(host, 2)...)
		}
		for i := range 20 {
			host := fmt.Sprintf("quick%d.example", i)
			r.Site("https://"+host).Handle("/", page(""))
			urls = append(urls, "https://"+host+"/")
		}
		for i, u := range urls[:6] {
			urls[i] = "http" + u[len("https"):]
		}
		r.crawl.Queue, r.crawl.MaxURLs = q, 4*16 // of four hosts at a time
		quick := 0
		began := time.Now()
		r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
			if p.FinalURL[:5] == "https" && time.Since(began) < 10*time.Minute {
				quick++
			}
			return nil
		}
		r.crawl.Workers = 1
		r.crawl.Progress = func(p crawl.Progress) {
			if p.Hosts > 4 {
				t.Errorf("%d hosts at a time", p.Hosts)
			}
		}
		r.run(t.Context(), t, urls...)
		if quick != 20 {
			t.Errorf("%d of 20 quick hosts were crawled within ten minutes", quick)
		}
	})
}

// TestRoomIsUsedOnceHalfOfItIsFree: a crawl of many hosts with a page each doesn't wait for the next
// second.
func TestRoomIsUsedOnceHalfOfItIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.crawl.Queue, r.crawl.MaxURLs = newStore(), 20*16 // of 20 hosts at a time
		var urls []string
		for i := range 300 {
			urls = append(urls, fmt.Sprintf("https://h%d.example/", i))
			r.Site(urls[i]).Handle("/", page(""))
		}
		r.Site("https://slow.example").Handle("/", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) }))
		began := time.Now()
		r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
			if took := time.Since(began); took > 7*time.Second && p.URL != "https://slow.example/" {
				t.Errorf("%s was visited after %v", p.URL, took)
			}
			return nil
		}
		wantOutcomes(t, r.run(t.Context(), t, append([]string{"https://slow.example/"}, urls...)...), map[crawl.Outcome]int{crawl.Visited: 301})
	})
}

// TestOpenQueueIsAskedEachSecond: a crawl goes on while others may add to its Queue, and ends when
// they can't any more.
func TestOpenQueueIsAskedEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		q := &shared{store: newStore()}
		q.store.open = true
		for i := range 3 {
			r.Site(fmt.Sprintf("https://h%d.example", i)).Handle("/", page(""))
		}
		r.crawl.Queue = q
		began := time.Now()
		for i := 1; i < 3; i++ {
			time.AfterFunc(time.Duration(i)*time.Minute, func() {
				q.mu.Lock()
				defer q.mu.Unlock()
				host := fmt.Sprintf("h%d.example", i)
				_, _, _ = q.store.Add(t.Context(), []crawl.Request{{URL: "https://" + host + "/", Host: host}})
				q.store.open = i < 2
			})
		}
		s := r.run(t.Context(), t, "https://h0.example/")
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 3})
		if took := time.Since(began); took < 2*time.Minute || took > 2*time.Minute+3*time.Second {
			t.Errorf("the crawl took %v", took)
		}
		if q.store.asked < 100 {
			t.Errorf("the Queue was asked for hosts %d times in two minutes", q.store.asked)
		}
	})
}

// TestQueueHearsOfTheCrawlUntilItsEnd, while it is open, or where hosts belong to this process:
// what is in flight is still this process's.
func TestQueueHearsOfTheCrawlUntilItsEnd(t *testing.T) {
	for _, open := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			q := &shared{store: newStore()}
			q.store.open = open
			r.Site("https://h0.example").Handle("/", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(8 * time.Second) }))
			r.crawl.Queue = q
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			s := r.run(ctx, t, "https://h0.example/")
			wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 1})
			if q.store.asked < 8 || q.places != 0 {
				t.Errorf("open %v: the Queue was asked %d times in eight seconds, the last time for %d hosts", open, q.store.asked, q.places)
			}
		})
	}
}

// TestLostHostIsLeftAlone: once another process has a host, nothing of it is asked for, what was
// lent is given back, and the crawl goes on with the others.
func TestLostHostIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		q := &shared{store: newStore(), lost: map[string]bool{}}
		urls := numbered("a.example", 10)
		r.Site("https://a.example").Handle("/", page(""))
		for i := range 30 {
			host := fmt.Sprintf("b%d.example", i)
			r.Site("https://"+host).Handle("/", page(""))
			urls = append(urls, numbered(host, 10)...)
		}
		r.crawl.Queue = q
		r.politeness.Hosts.Delay.Min = 10 * time.Second
		began := time.Now()
		time.AfterFunc(35*time.Second, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.lost["a.example"] = true
		})
		var told []crawl.Result
		r.crawl.Done = func(res crawl.Result) { told = append(told, res) }
		s := r.run(t.Context(), t, urls...)
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 303})
		if len(told) != 303 {
			t.Errorf("Done has received %d results", len(told))
		}
		for url, st := range q.store.states {
			if want := done; st != want && (url[:17] != "https://a.example" || st != waiting) {
				t.Errorf("%s is %s", url, st)
			}
		}
		if at := q.back.Sub(began); at < 35*time.Second || at > 37*time.Second {
			t.Errorf("the host's URLs were given back %v after the beginning", at)
		}
	})
}

// TestHostIsLostWhileItIsDue: a host that another process takes while it waits for a connection is
// left alone, and taken up again once it is this process's again.
func TestHostIsLostWhileItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		q := &shared{store: newStore(), lost: map[string]bool{}}
		slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(30 * time.Second) })
		r.Site("https://slow.example").Handle("/", slow)
		site := r.Site("https://a.example").Handle("/", page(""))
		for i := range 4 {
			site.Handle(fmt.Sprintf("/%d", i), page(""))
		}
		r.crawl.Queue = q
		r.politeness.Hosts.MaxInFlight, r.politeness.Hosts.Concurrency = 1, 1
		set := func(lost, open bool) func() {
			return func() {
				q.mu.Lock()
				defer q.mu.Unlock()
				q.lost["a.example"], q.store.open = lost, open
			}
		}
		for i := range 12 { // some of these moments are within a slow page
			at := time.Duration(5+15*i) * time.Second
			time.AfterFunc(at, set(true, true))
			time.AfterFunc(at+6*time.Second, set(false, false))
		}
		s := r.run(t.Context(), t, append(numbered("slow.example", 6), numbered("a.example", 4)...)...)
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 10})
	})
}

// TestHostsComeAndGo: hosts are lost to other processes and come back at any moment, while pages are
// slow and refused. Each page is had in the end.
func TestHostsComeAndGo(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			r := newRig()
			q := &shared{store: newStore(), lost: map[string]bool{}}
			q.store.open = true
			r.crawl.Queue = q
			r.politeness.Hosts.MaxInFlight, r.politeness.Hosts.Concurrency = 1+rnd.IntN(3), 1+rnd.IntN(2)
			var urls []string
			for h := range 5 {
				host := fmt.Sprintf("h%d.example", h)
				site := r.Site("https://" + host)
				for i := range 6 {
					answer := page("")
					switch rnd.IntN(4) {
					case 0:
						took := time.Duration(rnd.IntN(20)) * time.Second
						answer = func(http.ResponseWriter, *http.Request) { time.Sleep(took) }
					case 1:
						answer = politenesstest.InTurn(politenesstest.Status(http.StatusTooManyRequests, "Retry-After", "7"), page("")).ServeHTTP
					}
					site.Handle(fmt.Sprintf("/%d", i), answer)
				}
				urls = append(urls, numbered(host, 6)...)
			}
			for range 40 {
				host, lost := fmt.Sprintf("h%d.example", rnd.IntN(5)), rnd.IntN(2) == 0
				time.AfterFunc(time.Duration(rnd.IntN(60_000))*time.Millisecond, func() {
					q.mu.Lock()
					defer q.mu.Unlock()
					q.lost[host] = lost
				})
			}
			time.AfterFunc(2*time.Minute, func() {
				q.mu.Lock()
				defer q.mu.Unlock()
				clear(q.lost)
				q.store.open = false
			})
			r.run(t.Context(), t, urls...)
			for url, st := range q.store.states {
				if st != done {
					t.Errorf("seed %d: %s is %s", seed, url, st)
				}
			}
		})
	}
}

// TestHostLostWhileItsTurnIsAskedForIsLeftAlone: a process that was stopped then asks nothing of it
// when it goes on.
func TestHostLostWhileItsTurnIsAskedForIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		q := &shared{store: newStore(), lost: map[string]bool{}}
		q.store.open = true
		r.Site("https://a.example").Handle("/0", page(""))
		r.crawl.Queue = q
		memory, err := memory.New(r.politeness.Hosts)
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		r.politeness.Hosts = hostlimit.Config{}
		r.politeness.Limiter = slowNext{memory, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			asked++
			q.lost["a.example"] = asked > 1 // the first time for robots.txt
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wantOutcomes(t, r.run(ctx, t, "https://a.example/0"), map[crawl.Outcome]int{})
		if st := q.store.states["https://a.example/0"]; st != waiting {
			t.Errorf("the URL is %s", st)
		}
	})
}

// slowNext stands for a process that is stopped while it asks for a turn.
type slowNext struct {
	hostlimit.Limiter
	meanwhile func()
}

func (l slowNext) Next(ctx context.Context, key string, floor time.Duration) (time.Time, error) {
	l.meanwhile()
	return l.Limiter.Next(ctx, key, floor)
}

// A shared Queue is used by others, too.
type shared struct {
	mu     sync.Mutex
	store  *store
	lost   map[string]bool
	back   time.Time // when a URL was given back
	places int       // n of the last call of Hosts
}

func (q *shared) Add(ctx context.Context, reqs []crawl.Request) (added, noRoom int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.store.Add(ctx, reqs)
}

func (q *shared) Take(ctx context.Context, hosts []string, n int) (taken []crawl.Request, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, host := range hosts {
		if !q.lost[host] {
			some, _ := q.store.Take(ctx, []string{host}, n)
			taken = append(taken, some...)
		}
	}
	return taken, nil
}

func (q *shared) Done(ctx context.Context, results []crawl.Result) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range results {
		if r.Outcome == crawl.Left {
			q.back = time.Now()
		}
	}
	return q.store.Done(ctx, results)
}

func (q *shared) Hosts(ctx context.Context, n int) (hosts []string, open bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.places = n
	all, open, err := q.store.Hosts(ctx, n)
	for _, host := range all {
		if !q.lost[host] {
			hosts = append(hosts, host)
		}
	}
	return hosts, open, err
}

// Owns implements crawl.Owner.
func (q *shared) Owns(host string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.lost[host]
}

// A store is a Queue that survives its crawl.
type store struct {
	states map[string]state
	reqs   []crawl.Request
	err    error
	open   bool // for Hosts
	asked  int  // number of calls of Hosts
	inside atomic.Int32
}

type state string

const (
	waiting state = "waiting"
	lent    state = "lent"
	done    state = "done"
)

func newStore() *store { return &store{states: make(map[string]state)} }

// enter fails when a method is called during another one, or for nothing.
func (s *store) enter(n int) func() {
	if s.inside.Add(1) != 1 {
		panic("two methods of a Queue are called at once")
	}
	if n == 0 {
		panic("a method of a Queue is called for nothing")
	}
	runtime.Gosched()
	return func() { s.inside.Add(-1) }
}

func (s *store) Add(_ context.Context, reqs []crawl.Request) (added, noRoom int, err error) {
	defer s.enter(len(reqs))()
	for _, r := range reqs {
		if s.states[r.URL] == "" {
			s.states[r.URL] = waiting
			s.reqs = append(s.reqs, r)
			added++
		}
	}
	return added, 0, s.err
}

func (s *store) Take(_ context.Context, hosts []string, n int) (taken []crawl.Request, err error) {
	defer s.enter(len(hosts))()
	for _, host := range hosts {
		left := n
		for _, r := range s.reqs {
			if left > 0 && r.Host == host && s.states[r.URL] == waiting {
				s.states[r.URL] = lent
				taken = append(taken, r)
				left--
			}
		}
	}
	return taken, s.err
}

func (s *store) Done(_ context.Context, results []crawl.Result) error {
	defer s.enter(len(results))()
	if s.err != nil {
		panic("Done is called after an error: what a page has led to may be lost")
	}
	for _, r := range results {
		if s.states[r.Request.URL] != lent {
			panic(r.Request.URL + " is done, and wasn't lent")
		}
		s.states[r.Request.URL] = done
		if r.Outcome == crawl.Left {
			s.states[r.Request.URL] = waiting
		}
	}
	return nil
}

func (s *store) Hosts(_ context.Context, n int) (hosts []string, open bool, err error) {
	defer s.enter(1)()
	s.asked++
	atWork := make(map[string]bool)
	for _, r := range s.reqs {
		if s.states[r.URL] == lent {
			atWork[r.Host] = true
		}
	}
	for _, r := range s.reqs {
		if s.states[r.URL] == waiting && !atWork[r.Host] && !slices.Contains(hosts, r.Host) && len(hosts) < n {
			hosts = append(hosts, r.Host)
		}
	}
	return hosts, s.open, s.err
}

// reopen makes wait what is lent.
func (s *store) reopen() {
	for url, st := range s.states {
		if st == lent {
			s.states[url] = waiting
		}
	}
}
