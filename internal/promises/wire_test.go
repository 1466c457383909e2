package promises_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/soak"
	"github.com/go-politeness/politeness/politenesstest"
)

// A crawlAtTheWire is a polite crawl of one site in virtual time, judged by what the site saw and by
// the log.
type crawlAtTheWire struct {
	t      *testing.T
	site   *politenesstest.Site
	web    *politenesstest.Web
	client *http.Client
	log    bytes.Buffer
	sink   *evidence.Log
}

const wireDelay = 400 * time.Millisecond

func atTheWire(t *testing.T, change func(*politeness.Config)) *crawlAtTheWire {
	t.Helper()
	c := &crawlAtTheWire{t: t, web: politenesstest.NewWeb()}
	c.site = c.web.Site("https://example.com").Robots("User-agent: *\nCrawl-delay: 0.4\n").Handle("/", politenesstest.Text("hello"))
	c.sink = evidence.JSONLines(&c.log)
	cfg := politeness.Config{
		UserAgent: agent, Base: c.web, Evidence: c.sink,
		Hosts: hostlimit.Config{Concurrency: 4, Delay: hostlimit.Delay{Min: 10 * time.Millisecond}},
	}
	if change != nil {
		change(&cfg)
	}
	c.client = &http.Client{Transport: mustNew(t, cfg)}
	return c
}

func (c *crawlAtTheWire) get(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://example.com"+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// judge holds what the site saw against the crawl-delay, without a helper of the library, and has
// the log proved, which must tell of the same requests at the same times.
func (c *crawlAtTheWire) judge() []politenesstest.Request {
	c.t.Helper()
	requests := c.web.Requests()
	for i := 1; i < len(requests); i++ {
		// The first page is asked for before the crawl-delay is known to the limiter's last start.
		if gap := requests[i].Start.Sub(requests[i-1].Start); gap < wireDelay {
			c.t.Errorf("%v reached the site %v after the one before", requests[i], gap)
		}
	}
	if err := c.sink.Close(); err != nil {
		c.t.Error(err)
	}
	report, err := audit.Check(bytes.NewReader(c.log.Bytes()))
	if err != nil || !report.OK() {
		c.t.Errorf("%v\n%s\n%s", err, report, &c.log)
	}
	return requests
}

// starts returns the records of starts.
func (c *crawlAtTheWire) starts() []evidence.LogLine {
	return c.records(evidence.Started, evidence.Resent)
}

// records returns those of the log that are of the types.
func (c *crawlAtTheWire) records(types ...evidence.Type) (found []evidence.LogLine) {
	for line := range bytes.Lines(c.log.Bytes()) {
		var e evidence.LogLine
		if err := e.UnmarshalJSON(line); err != nil {
			c.t.Fatal(err)
		}
		if slices.Contains(types, e.Type) {
			found = append(found, e)
		}
	}
	return found
}

func TestStartsCountAtTheWire(t *testing.T) {
	for _, callers := range []int{1, 4, 64} {
		for _, dial := range []time.Duration{0, 450 * time.Millisecond, 3 * time.Second} {
			t.Run(fmt.Sprintf("%d callers, dial %v", callers, dial), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := atTheWire(t, func(cfg *politeness.Config) { cfg.Hosts.SlotTimeout = time.Hour })
					c.site.Dial(dial)
					var wg sync.WaitGroup
					for i := range callers {
						wg.Go(func() {
							for range 3 {
								if err := c.get(t.Context(), fmt.Sprintf("/%d", i)); err != nil {
									t.Error(err)
								}
							}
						})
					}
					wg.Wait()
					requests, starts := c.judge(), c.starts()
					if len(requests) != 3*callers+1 || len(starts) != len(requests) {
						t.Fatalf("%d requests reached the site, %d starts in the log", len(requests), len(starts))
					}
					for i, s := range starts[1:] {
						j := slices.IndexFunc(requests, func(r politenesstest.Request) bool { return r.Start.Equal(s.Start) })
						if j < 0 {
							t.Errorf("start %d at %v isn't what the site saw", i+2, s.Start)
						}
					}
				})
			})
		}
	}
}

// A cold connection takes nobody's time but its own.
func TestNobodyIsHeldUpByADial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := atTheWire(t, nil)
		if err := c.get(t.Context(), "/warm"); err != nil {
			t.Fatal(err)
		}
		c.site.Dial(time.Hour) // a second connection is never there
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		var hanging error
		c.site.Handle("/slow", politenesstest.Slow(5*time.Second, politenesstest.Text("slow")))
		wg.Go(func() { _ = c.get(ctx, "/slow") }) // holds the warm connection for five seconds
		time.Sleep(time.Second)
		wg.Go(func() { hanging = c.get(ctx, "/second") }) // dials, until the first connection is free
		wg.Wait()
		if hanging != nil {
			t.Error(hanging)
		}
		if took := time.Since(begin); took > 6*time.Second {
			t.Errorf("it took %v", took)
		}
		c.judge()
	})
}

func TestADialThatFailsCountsFromItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := atTheWire(t, nil)
		if err := c.get(t.Context(), "/"); err != nil {
			t.Fatal(err)
		}
		c.site.HangUp().Dial(2 * time.Second).Down(syscall.ECONNREFUSED)
		for range 3 {
			if err := c.get(t.Context(), "/"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Error(err)
			}
		}
		c.site.Down(nil).Dial(0)
		if err := c.get(t.Context(), "/"); err != nil { // the gap counts from the end of the last dial
			t.Error(err)
		}
		c.judge()
	})
}

func TestAResendIsAFurtherStart(t *testing.T) {
	for _, delay := range []time.Duration{time.Second, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := atTheWire(t, func(cfg *politeness.Config) { cfg.Hosts.Delay.Min = delay })
			for range 2 {
				if err := c.get(t.Context(), "/"); err != nil {
					t.Fatal(err)
				}
				c.site.HangUp()
			}
			requests := c.judge()
			if len(requests) < 4 {
				t.Fatalf("%d requests", len(requests))
			}
			if resent := c.records(evidence.Resent); len(resent) == 0 {
				t.Error("no resend in the log")
			}
			// Who looks at the log sees why nothing happens for longer than a second.
			told := slices.DeleteFunc(c.records(evidence.Waiting), func(e evidence.LogLine) bool { return !strings.Contains(e.Reason, "connection was lost") })
			if (delay > time.Second) != (len(told) > 0) {
				t.Errorf("%v: told of %d waits", delay, len(told))
			}
			for _, d := range told {
				if d.Hold != "delay" || d.Delay != delay || d.Until.Sub(d.Time) > delay || d.Until.Sub(d.Time) <= time.Second {
					t.Errorf("%+v", d)
				}
			}
		})
	}
}

// A fetch of robots.txt may take 30 s, in which our own wait for a gap isn't counted.
func TestAWaitAtTheWireIsNotTheOriginsSlowness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := atTheWire(t, func(cfg *politeness.Config) {
			cfg.HostKey = func(*http.Request) string { return "all" }
			cfg.Hosts.Delay.Min = 20 * time.Second
		})
		c.web.Site("https://other.example").Page("/", "page")
		c.site.Dial(25 * time.Second)
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := c.get(t.Context(), "/"); err != nil { // robots.txt has its connection at 25 s, and its start at 40 s
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		wg.Go(func() {
			if _, err := fetch(t.Context(), c.client, "https://other.example/"); err != nil { // its robots.txt starts at 20 s
				t.Error(err)
			}
		})
		wg.Wait()
		c.judge()
	})
}

// While a request dials, the site refuses another one for longer than anybody may wait.
func TestARefusedStartAtTheWireSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := atTheWire(t, func(cfg *politeness.Config) { cfg.Hosts.MaxWait = 30 * time.Second })
		c.site.Handle("/refuses", politenesstest.Slow(2*time.Second, politenesstest.Status(429, "Retry-After", "3600")))
		if err := c.get(t.Context(), "/"); err != nil {
			t.Fatal(err)
		}
		c.site.Dial(4 * time.Second)
		var wg sync.WaitGroup
		wg.Go(func() { _ = c.get(t.Context(), "/refuses") })
		time.Sleep(time.Second)
		err := c.get(t.Context(), "/late")
		wg.Wait()
		var refused *politeness.Error
		if !errors.As(err, &refused) || !errors.Is(err, politeness.ErrBlocked) || time.Until(refused.RetryAt) < 50*time.Minute {
			t.Errorf("%v", err)
		}
		for _, r := range c.judge() {
			if strings.HasSuffix(r.URL, "/late") {
				t.Errorf("%v reached the site", r)
			}
		}
	})
}

// The context of a caller ends while its request has its connection and waits for the gap.
func TestNothingReachesTheSiteFromACallerThatLeftAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := atTheWire(t, func(cfg *politeness.Config) {
			cfg.DangerouslyIgnoreRobots = true
			cfg.Hosts.Delay.Min = 10 * time.Second
		})
		c.site.Dial(12 * time.Second)
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		var left error
		wg.Go(func() { _ = c.get(t.Context(), "/first") }) // on its way at 12 s
		time.Sleep(time.Second)
		wg.Go(func() { left = c.get(ctx, "/left") }) // its turn comes at 10 s, the free connection at 12 s, the gap's end at 22 s
		time.Sleep(14 * time.Second)
		cancel()
		wg.Wait()
		if n := len(c.judge()); n != 1 || !errors.Is(left, context.Canceled) {
			t.Errorf("%d requests reached the site; %v", n, left)
		}
	})
}

func TestACallersOwnTraceGoesOnWorking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := atTheWire(t, nil)
		c.site.Dial(time.Second)
		var hooks []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GetConn:              func(string) { hooks = append(hooks, "get") },
			GotConn:              func(httptrace.GotConnInfo) { hooks = append(hooks, "got") },
			WroteRequest:         func(httptrace.WroteRequestInfo) { hooks = append(hooks, "wrote") },
			GotFirstResponseByte: func() { hooks = append(hooks, "answer") },
		})
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { hooks = append(hooks, "got too") }})
		if err := c.get(ctx, "/"); err != nil {
			t.Fatal(err)
		}
		// robots.txt is fetched for all callers, so it isn't this one's to trace.
		want := []string{"get", "got too", "got", "wrote", "answer"}
		if !slices.Equal(hooks[len(hooks)-len(want):], want) {
			t.Errorf("%q, want %q", hooks, want)
		}
		c.judge()
	})
}

// Connections are slow, hang, fail, race and are lost, callers come and leave, at random: whatever
// reaches the site does so a crawl-delay after everything before it, a dial that failed included.
func TestNoTwoArrivalsAreCloserWhateverConnectionsDo(t *testing.T) {
	for seed := range soak.Seeds(t, 40, 100) {
		r := rand.New(rand.NewPCG(seed, 14)) //nolint:gosec // a test that can be repeated
		callers := 1 << r.IntN(7)
		synctest.Test(t, func(t *testing.T) {
			c := atTheWire(t, func(cfg *politeness.Config) {
				cfg.Hosts.Concurrency = 1 + r.IntN(5)
				cfg.Hosts.MaxWait = time.Minute
				cfg.DangerouslyIgnoreRobots = true
				cfg.Hosts.Delay.Min = wireDelay
				cfg.Hosts.Backoff = backoff.Refusals{InARow: 1000}
			})
			over := make(chan struct{})
			var wg, weather sync.WaitGroup
			weather.Go(func() {
				random := rand.New(rand.NewPCG(seed, 15)) //nolint:gosec // a test that can be repeated
				for {
					select {
					case <-over:
						return
					case <-time.After(time.Duration(random.Int64N(int64(2 * time.Second)))):
					}
					switch random.IntN(6) {
					case 0:
						c.site.Dial(time.Duration(random.Int64N(int64(3 * time.Second))))
					case 1:
						c.site.Dial(time.Hour)
					case 2:
						c.site.HangUp()
					case 3:
						c.site.Down(syscall.ECONNREFUSED)
					default:
						c.site.Down(nil).Dial(time.Duration(random.Int64N(int64(time.Second)))).Latency(time.Duration(random.Int64N(int64(time.Second))))
					}
				}
			})
			for i := range callers {
				patience := time.Duration(1+r.IntN(20)) * time.Second
				wg.Go(func() {
					for range 4 {
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						_ = c.get(ctx, fmt.Sprintf("/%d", i)) // what comes of it is the weather's
						cancel()
					}
				})
			}
			wg.Wait()
			close(over)
			weather.Wait()

			var last, failed time.Time
			for _, q := range c.web.Requests() {
				if errors.Is(q.Err, syscall.ECONNREFUSED) {
					failed = q.Start
					continue
				}
				if failed.After(last) && failed.Before(q.Start) { // at one instant the order isn't known
					last = failed
				}
				// A connection that comes within a millisecond of the start moves nothing.
				if gap := q.Start.Sub(last); gap < wireDelay-time.Millisecond {
					t.Errorf("seed %d, %d callers: %v reached the site %v after what came before", seed, callers, q, gap)
				}
				last = q.Start
			}
			if err := c.sink.Close(); err != nil {
				t.Error(err)
			}
			report, err := audit.Check(bytes.NewReader(c.log.Bytes()))
			if err != nil || !report.OK() {
				t.Errorf("seed %d: %v\n%s", seed, err, report)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// Less than a millisecond is the machine's scheduling.
func TestAConnectionThatIsAMillisecondLateMovesNothing(t *testing.T) {
	for _, late := range []time.Duration{time.Millisecond, time.Millisecond + 1} {
		synctest.Test(t, func(t *testing.T) {
			c := atTheWire(t, func(cfg *politeness.Config) { cfg.DangerouslyIgnoreRobots = true })
			c.site.Dial(late)
			if err := c.get(t.Context(), "/"); err != nil {
				t.Fatal(err)
			}
			c.judge()
			s := c.starts()
			if len(s) != 1 || (s[0].Instead != 0) != (late > time.Millisecond) {
				t.Fatalf("%v late: %+v", late, s)
			}
			if s[0].Instead != 0 && !s[0].InsteadAt.Equal(s[0].Start.Add(-late)) {
				t.Errorf("instead of the start at %v, want %v before %v", s[0].InsteadAt, late, s[0].Start)
			}
		})
	}
}

// A tracesItself is a base with a connection of its own, which it has after a dial, and whose answers
// come whatever the request's context says.
type tracesItself struct {
	net.Conn
	dial    time.Duration
	resends bool // once, as its connection is lost
	fails   error
	linger  []int // what the connection is told
	closed  int   // bodies of answers
	hungUp  int
	hook    func(httptrace.GotConnInfo)
	ctx     context.Context
}

func (b *tracesItself) SetLinger(seconds int) error {
	b.linger = append(b.linger, seconds)
	return nil
}

func (b *tracesItself) Close() error {
	b.hungUp++
	return nil
}

func (b *tracesItself) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(b.dial)
	b.ctx = req.Context()
	b.hook = httptrace.ContextClientTrace(b.ctx).GotConn
	b.hook(httptrace.GotConnInfo{Conn: b})
	if b.resends {
		b.hook(httptrace.GotConnInfo{Conn: b})
	}
	if b.fails != nil {
		return nil, b.fails
	}
	body := struct {
		io.Reader
		io.Closer
	}{strings.NewReader("page"), closeFunc(func() error { b.closed++; return nil })}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body}, nil
}

// What is sent is sent by the system, too, only while somebody waits for its answer: a request that is
// given up while the network is cut doesn't arrive later. An answered one may be said goodbye to.
func TestTheSystemSendsOnlyWhatSomebodyWaitsFor(t *testing.T) {
	for _, fails := range []error{nil, syscall.ECONNRESET} {
		base := &tracesItself{fails: fails}
		tr := mustNew(t, politeness.Config{UserAgent: agent, Base: base, DangerouslyIgnoreRobots: true})
		_, err := fetch(t.Context(), &http.Client{Transport: tr}, "https://example.com/")
		want := []int{0, -1}
		if fails != nil {
			want = []int{0}
		}
		if !errors.Is(err, fails) || !slices.Equal(base.linger, want) || base.hungUp != 0 {
			t.Errorf("%v: told %v, want %v; closed %d times", err, base.linger, want, base.hungUp)
		}
		if base.ctx.Err() == nil {
			t.Errorf("%v: the request's context outlives the exchange", err)
		}
	}
}

// A hook that is called when Base has returned already does nothing, and holds nobody up.
func TestAHookThatIsLateDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, log := &tracesItself{}, &evidence.Recorder{}
		tr := mustNew(t, politeness.Config{UserAgent: agent, Base: base, DangerouslyIgnoreRobots: true, Evidence: log})
		if _, err := fetch(t.Context(), &http.Client{Transport: tr}, "https://example.com/"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		base.hook(httptrace.GotConnInfo{Conn: base})
		if n := len(log.Decisions(evidence.Started, evidence.Resent)); n != 1 || len(base.linger) != 2 || base.hungUp != 0 {
			t.Errorf("%d starts; the connection was told %v and closed %d times", n, base.linger, base.hungUp)
		}
	})
}

// What was sent before a resend was refused has been a start, with an end, and a page.
func TestAResendThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time stands still: a slow machine moves no start
		base, log, spent := &tracesItself{resends: true}, &evidence.Recorder{}, budget.New(budget.Limits{Pages: 9})
		tr := mustNew(t, politeness.Config{
			UserAgent: agent, Base: base, DangerouslyIgnoreRobots: true, Evidence: log, Budget: spent,
			Limiter: &refusesTheSecondStart{Limiter: mustLimiter(t, hostlimit.Config{})},
		})
		_, err := fetch(t.Context(), &http.Client{Transport: tr}, "https://example.com/")
		refused(t, err, politeness.StageTurn, politeness.ErrBlocked)
		starts, ends := log.Decisions(evidence.Started, evidence.Resent), log.Decisions(evidence.Failed, evidence.Fetched)
		if len(starts) != 1 || len(ends) != 1 || ends[0].Seq != starts[0].Seq || !ends[0].Left || len(log.Decisions(evidence.SlotTimeout)) != 1 {
			t.Errorf("starts %+v, ends %+v", starts, ends)
		}
		if u, _ := spent.Usage(t.Context()); u.Pages != 1 || base.hungUp != 1 || base.closed != 1 {
			t.Errorf("%d pages spent; the connection was closed %d times, the body %d times", u.Pages, base.hungUp, base.closed)
		}
	})
}

// A racesConnections is a base that asks for two connections at once, and answers over the first, or
// not at all.
type racesConnections struct {
	second tracesItself
	fails  error
}

func (r *racesConnections) RoundTrip(req *http.Request) (*http.Response, error) {
	hook := httptrace.ContextClientTrace(req.Context()).GotConn
	hook(httptrace.GotConnInfo{})
	go hook(httptrace.GotConnInfo{Conn: &r.second})
	time.Sleep(time.Second)
	if r.fails != nil {
		return nil, r.fails
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("page"))}, nil
}

// A connection that waits for its start when Base has chosen another isn't waited for, nor used, and
// takes nothing from the answer.
func TestAConnectionThatIsNotChosen(t *testing.T) {
	for _, fails := range []error{nil, syscall.ECONNRESET} {
		synctest.Test(t, func(t *testing.T) {
			base, log := &racesConnections{fails: fails}, &evidence.Recorder{}
			tr := mustNew(t, politeness.Config{
				UserAgent: agent, Base: base, DangerouslyIgnoreRobots: true, Evidence: log,
				Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Minute}},
			})
			begin := time.Now()
			_, err := fetch(t.Context(), &http.Client{Transport: tr}, "https://example.com/")
			if !errors.Is(err, fails) || time.Since(begin) != time.Second {
				t.Errorf("%v after %v, want %v after a second", err, time.Since(begin), fails)
			}
			starts, ends := log.Decisions(evidence.Started, evidence.Resent), log.Decisions(evidence.Fetched, evidence.Failed)
			if len(starts) != 1 || len(ends) != 1 || base.second.hungUp != 1 {
				t.Errorf("starts %v, ends %v; the other connection was closed %d times", starts, ends, base.second.hungUp)
			}
		})
	}
}

// A grantsNews is a limiter whose first grant of each turn tells what is to be told once.
type grantsNews struct {
	hostlimit.Limiter
	refuses bool // the start at the wire
}

type leaseWithNews struct {
	hostlimit.Lease
	refuses, started bool
}

func (l grantsNews) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	lease, err := l.Limiter.Acquire(ctx, key, floor)
	return &leaseWithNews{Lease: lease, refuses: l.refuses}, err
}

func (l *leaseWithNews) Start(ctx context.Context) (hostlimit.Grant, error) {
	if l.started && l.refuses {
		return hostlimit.Grant{}, &hostlimit.Error{Err: hostlimit.ErrBlocked}
	}
	g, err := l.Lease.Start(ctx)
	if !l.started {
		l.started = true
		g.TakenBack = []hostlimit.TakenBack{{Key: "leak.example", Seq: 7}}
		g.Restored = &hostlimit.Restored{Debt: hostlimit.Debt{Cause: "status 429", BlockedUntil: time.Now()}, Met: time.Now()}
		g.ByHand = &hostlimit.Debt{ClearedAt: time.Now()}
		g.StateErr = errors.New("no space left")
	}
	return g, err
}

// What a grant tells is on record once, whatever becomes of its start: sent at once, moved at the
// wire, or refused there; a base that answers in spite of that keeps nothing open, and what wasn't
// sent costs no page.
func TestWhatAGrantTellsIsOnRecordOnce(t *testing.T) {
	for _, c := range []struct {
		dial    time.Duration
		refuses bool
	}{{0, false}, {time.Second, false}, {time.Second, true}} {
		synctest.Test(t, func(t *testing.T) {
			base, log, spent := &tracesItself{dial: c.dial}, &evidence.Recorder{}, budget.New(budget.Limits{Pages: 9})
			tr := mustNew(t, politeness.Config{
				UserAgent: agent, Base: base, DangerouslyIgnoreRobots: true, Evidence: log, Budget: spent,
				Limiter: grantsNews{mustLimiter(t, hostlimit.Config{}), c.refuses},
			})
			_, err := fetch(t.Context(), &http.Client{Transport: tr}, "https://example.com/")
			pages := int64(1)
			if c.refuses {
				refused(t, err, politeness.StageTurn, politeness.ErrBlocked)
				pages = 0
			} else if err != nil {
				t.Error(err)
			}
			if u, _ := spent.Usage(t.Context()); u.Pages != pages {
				t.Errorf("%+v: %d pages spent", c, u.Pages)
			}
			if base.closed != 1 || base.hungUp != 1-int(pages) {
				t.Errorf("%+v: the body was closed %d times, the connection %d times", c, base.closed, base.hungUp)
			}
			for _, typ := range []evidence.Type{evidence.LeaseExpired, evidence.HostBlocked, evidence.HostCleared, evidence.StateLost} {
				if d := log.Decisions(typ); len(d) != 1 || typ == evidence.LeaseExpired && d[0].Seq != 7 {
					t.Errorf("%+v: %s: %+v", c, typ, d)
				}
			}
		})
	}
}
