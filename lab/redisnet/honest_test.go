package redisnet_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/internal/redistest"
	"github.com/go-politeness/politeness/internal/soak"
	"github.com/go-politeness/politeness/lab/servers"
	"github.com/go-politeness/politeness/redis/redislimit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A call is one request as its site saw it.
type call struct {
	host         string
	came, left   time.Time // left is when its body was closed, so that the answer was known; zero: not yet
	blockedUntil time.Time // what the answer asked for
}

// sites answer at random and keep a log of their own.
type sites struct {
	mu    sync.Mutex
	rnd   *rand.Rand
	calls []*call
}

func (s *sites) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	c := &call{host: req.URL.Host, came: time.Now()}
	s.calls = append(s.calls, c)
	wait, kind := time.Duration(s.rnd.IntN(100))*time.Millisecond, s.rnd.IntN(25)
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.left.IsZero() {
			c.left = time.Now()
		}
	}
	select {
	case <-time.After(wait):
	case <-req.Context().Done():
		leave()
		return nil, req.Context().Err()
	}
	resp := &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: req}
	resp.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	text, asked := "page", 0
	switch {
	case req.URL.Path == "/robots.txt":
		text = "User-agent: *\nDisallow: /private\n"
	case kind == 0:
		leave()
		return nil, errors.New("connection reset")
	case kind == 1:
		resp.StatusCode, asked = http.StatusTooManyRequests, 1
	case kind == 2:
		resp.StatusCode, asked = http.StatusServiceUnavailable, 1
	case kind == 3:
		resp.StatusCode = []int{500, 404, 403, 408}[wait%4]
	}
	if asked > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(asked))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.blockedUntil = time.Now().Add(time.Duration(asked) * time.Second)
	resp.Body = &body{strings.NewReader(text), leave}
	return resp, nil
}

type body struct {
	io.Reader
	leave func()
}

func (b *body) Close() error { b.leave(); return nil }

// atRest is how much later than it was stamped a request may reach its site, where timers are exact.
const atRest = 50 * time.Millisecond

// breaches says what the sites had to suffer for sure, where they were promised a gap and slots, and a
// request reached its site at most late after it was stamped.
func (s *sites) breaches(gap time.Duration, slots int, late time.Duration) (found []string) {
	slices.SortFunc(s.calls, func(a, b *call) int { return a.came.Compare(b.came) })
	for i, c := range s.calls {
		inside, last := 1, (*call)(nil)
		for _, o := range s.calls[:i] {
			if o.host != c.host {
				continue
			}
			last = o
			if o.left.IsZero() || o.left.After(c.came.Add(late)) {
				inside++
			}
			if !o.left.IsZero() && c.came.After(o.left.Add(late)) && c.came.Before(o.blockedUntil.Add(-late)) {
				found = append(found, fmt.Sprintf("%s: %v before the end of a block", c.host, o.blockedUntil.Sub(c.came)))
			}
		}
		if last != nil && c.came.Sub(last.came) < gap-late {
			found = append(found, fmt.Sprintf("%s: %v after the request before", c.host, c.came.Sub(last.came)))
		}
		if inside > slots {
			found = append(found, fmt.Sprintf("%s: %d at once", c.host, inside))
		}
	}
	return found
}

// A rude limiter promises one thing and does another.
type rude struct {
	*redislimit.Limiter
	promised hostlimit.Config
}

func (r rude) Config() hostlimit.Config { return r.promised }

// A fleet is what some processes do that share a server.
type fleet struct {
	web      *sites
	late     time.Duration // how much later than it was stamped a request may have reached its site
	promised hostlimit.Config
	what     string
	logs     []*bytes.Buffer
}

// crawlAsFleet crawls as the seed says, and calls midway when about half of it is done.
func crawlAsFleet(t *testing.T, addr string, seed uint64, honest bool, midway func()) *fleet {
	rnd := rand.New(rand.NewPCG(seed, 7))
	f := &fleet{web: &sites{rnd: rand.New(rand.NewPCG(seed, 9))}}
	f.promised = hostlimit.Config{
		Concurrency: 1 + rnd.IntN(3),
		Delay:       hostlimit.Delay{Min: time.Duration(150+rnd.IntN(150)) * time.Millisecond},
	}
	switch rnd.IntN(4) {
	case 0:
		f.promised.Delay.Max = 2 * f.promised.Delay.Min
	case 1:
		f.promised.Delay.Adaptive = []hostlimit.Adaptive{hostlimit.Squared, hostlimit.Proportional(3), hostlimit.Throttle(0.4)}[rnd.IntN(3)]
	}
	kept := f.promised
	if !honest {
		switch rnd.IntN(4) {
		case 0:
			kept.Delay.Min /= 3
		case 1:
			kept.Concurrency += 2
		}
	}
	f.what = fmt.Sprintf("seed %d: promised %+v, kept %v, %d", seed, f.promised, kept.Delay.Min, kept.Concurrency)
	prefix := fmt.Sprintf("honest:%s:%d:", t.Name(), seed)
	timers := servers.WatchTimers()
	var closing []func() error
	var wg sync.WaitGroup
	for i := range 1 + rnd.IntN(3) {
		client := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: 500 * time.Millisecond})
		limiter, err := redislimit.New(redislimit.Config{Client: client, Prefix: prefix, Limits: kept})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		log := logtest.New(t, &out, evidence.LogConfig{Chained: true})
		f.logs = append(f.logs, &out)
		transport, err := politeness.New(politeness.Config{
			UserAgent: fmt.Sprintf("Bot%d/1.0 (bot@example.com)", i), Base: f.web, Evidence: log, Limiter: rude{limiter, f.promised},
			Robots: robotscache.Config{RecordText: true}, Retry: politeness.Retry{Max: rnd.IntN(2)},
		})
		if err != nil {
			t.Fatal(err)
		}
		closing = append(closing, func() error {
			_ = limiter.Close() // a server that was away needn't be told all in time
			return client.Close()
		}, log.Close)
		for range 1 + rnd.IntN(3) {
			mine := rand.New(rand.NewPCG(rnd.Uint64(), 3))
			wg.Go(func() {
				for range 4 + mine.IntN(8) {
					url := []string{"https://a.example", "https://b.example"}[mine.IntN(2)] + []string{"/a", "/b?c=1", "/private/x"}[mine.IntN(3)]
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
					if err != nil {
						t.Error(err)
					}
					if resp, err := (&http.Client{Transport: transport}).Do(req); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}
			})
		}
	}
	midway()
	wg.Wait()
	_, worst := timers()
	f.late = atRest + worst
	for _, done := range closing {
		if err := done(); err != nil {
			t.Error(err)
		}
	}
	return f
}

// judge checks that the judge of the fleet's logs finds a breach where the sites saw one, and only
// there.
func (f *fleet) judge(t *testing.T, honest bool) {
	t.Helper()
	var logs []io.Reader
	for _, log := range f.logs {
		logs = append(logs, log)
	}
	report, err := audit.Check(logs...)
	if err != nil {
		t.Fatal(err)
	}
	breaches := f.web.breaches(f.promised.Delay.Min, f.promised.Concurrency, f.late)
	ok := len(report.Violations) == 0
	switch {
	case honest && len(breaches) > 0:
		t.Errorf("%s\nan honest fleet: %v", f.what, breaches[:min(4, len(breaches))])
	case honest && !ok:
		t.Errorf("%s\nan honest fleet, the judge says %v", f.what, report.Violations[:min(4, len(report.Violations))])
	case len(breaches) > 0 && ok && report.OK():
		t.Errorf("%s\nthe sites saw %d breaches, the judge none: %v", f.what, len(breaches), breaches[:min(4, len(breaches))])
	}
}

// TestNoHonestFleetIsBroken: the same as of one process, in real time, of up to three processes on
// one server.
func TestNoHonestFleetIsBroken(t *testing.T) {
	server := redistest.New(t)
	var wg sync.WaitGroup
	room := make(chan struct{}, 16)
	for seed := range uint64(soak.Size(16, 64, 320)) {
		wg.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			honest := seed%4 != 0
			crawlAsFleet(t, server.Addr, seed, honest, func() {}).judge(t, honest)
		})
	}
	wg.Wait()
}

// TestAFleetIsHonestAfterAStaleDump: the server is killed in mid-crawl, and comes back with what it
// knew some time before.
func TestAFleetIsHonestAfterAStaleDump(t *testing.T) {
	for seed := range uint64(soak.Size(2, 4, 16)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			server := redistest.New(t)
			client := redis.NewClient(&redis.Options{Addr: server.Addr})
			defer client.Close()
			crawlAsFleet(t, server.Addr, seed, true, func() {
				time.Sleep(2500 * time.Millisecond)
				if err := client.Save(t.Context()).Err(); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				server.Kill()
				if err := server.Start(); err != nil {
					t.Error(err)
				}
			}).judge(t, true)
		})
	}
}
