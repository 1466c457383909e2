package promises_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A mine makes functions panic: each at its first call, and at every seventh from then on.
type mine struct {
	mu    sync.Mutex
	calm  bool
	calls map[string]int
	blown map[string]int
}

func (m *mine) may(name string) {
	m.mu.Lock()
	n := m.calls[name]
	m.calls[name]++
	blow := !m.calm && n%7 == 0
	if blow {
		m.blown[name]++
	}
	m.mu.Unlock()
	if blow {
		panic("boom: " + name)
	}
}

// rest ends the panics. A fetch of robots.txt may go on when its callers have left.
func (m *mine) rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calm = true
}

// total returns the number of panics.
func (m *mine) total() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, blown := range m.blown {
		n += blown
	}
	return n
}

// caught calls f, which may panic in a mine alone.
func caught(t *testing.T, f func()) {
	defer func() {
		if p := recover(); p != nil && !strings.HasPrefix(fmt.Sprint(p), "boom: ") {
			t.Errorf("panic %v\n%s", p, debug.Stack()) // a fault of ours
		}
	}()
	f()
}

// A mined limiter, with mined leases. What gives back does that before it panics.
type minedLimiter struct {
	hostlimit.Limiter
	mine *mine
}

func (l minedLimiter) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	l.mine.may("Limiter.Acquire")
	lease, err := l.Limiter.Acquire(ctx, key, floor)
	if err != nil {
		return nil, err
	}
	return minedLease{lease, l.mine}, nil
}

func (l minedLimiter) Next(ctx context.Context, key string, floor time.Duration) (time.Time, error) {
	l.mine.may("Limiter.Next")
	return l.Limiter.Next(ctx, key, floor)
}

func (l minedLimiter) ID(ctx context.Context) (limiter, process string) {
	l.mine.may("Limiter.ID")
	return l.Limiter.ID(ctx)
}

type minedLease struct {
	hostlimit.Lease
	mine *mine
}

func (l minedLease) Start(ctx context.Context) (hostlimit.Grant, error) {
	l.mine.may("Lease.Start")
	return l.Lease.Start(ctx)
}

func (l minedLease) Observe(o hostlimit.Outcome) hostlimit.Effect {
	if o.Status == 200 { // else it would hide a block
		l.mine.may("Lease.Observe")
	}
	return l.Lease.Observe(o)
}
func (l minedLease) Renew() { l.Lease.Renew(); l.mine.may("Lease.Renew") }
func (l minedLease) Release() bool {
	expired := l.Lease.Release()
	l.mine.may("Lease.Release")
	return expired
}

// A mined budget.
type minedBudget struct {
	budget.Budget
	mine *mine
}

func (b minedBudget) Check(ctx context.Context, host string, start time.Time) error {
	b.mine.may("Budget.Check")
	return b.Budget.Check(ctx, host, start)
}

func (b minedBudget) Reserve(ctx context.Context, host string) ([]budget.Warning, error) {
	b.mine.may("Budget.Reserve")
	return b.Budget.Reserve(ctx, host)
}

func (b minedBudget) Refund(ctx context.Context, host string) {
	b.Budget.Refund(ctx, host)
	b.mine.may("Budget.Refund")
}

func (b minedBudget) TakeBytes(ctx context.Context, n int64) (int64, []budget.Warning, error) {
	b.mine.may("Budget.TakeBytes")
	taken, warnings, err := b.Budget.TakeBytes(ctx, n)
	b.mine.may("Budget.TakeBytes, spent")
	return taken, warnings, err
}

func (b minedBudget) Usage(ctx context.Context) (budget.Usage, error) {
	b.mine.may("Budget.Usage")
	return b.Budget.Usage(ctx)
}

// Mined stores.
type minedDebts struct {
	hostlimit.Store
	mine *mine
}

func (s minedDebts) Update(ctx context.Context, key string, change func(hostlimit.Debt) hostlimit.Debt) (hostlimit.Debt, error) {
	s.mine.may("hostlimit.Store.Update")
	return s.Store.Update(ctx, key, change)
}

type minedRobots struct {
	robotscache.Store
	mine *mine
}

func (s minedRobots) Load(ctx context.Context, origin string) (robotscache.Record, bool, error) {
	s.mine.may("robotscache.Store.Load")
	return s.Store.Load(ctx, origin)
}

func (s minedRobots) Save(ctx context.Context, origin string, r robotscache.Record) error {
	s.mine.may("robotscache.Store.Save")
	return s.Store.Save(ctx, origin, r)
}

func (s minedRobots) Lock(ctx context.Context, origin string) (func(), error) {
	s.mine.may("robotscache.Store.Lock")
	unlock, err := s.Store.Lock(ctx, origin)
	if err != nil {
		return nil, err
	}
	return func() { unlock(); s.mine.may("robotscache unlock") }, nil
}

// A mined Base, which counts the bodies that are open.
type minedBase struct {
	http.RoundTripper
	mine *mine
	open *atomic.Int64
}

func (b minedBase) RoundTrip(req *http.Request) (*http.Response, error) {
	b.mine.may("Base.RoundTrip")
	resp, err := b.RoundTripper.RoundTrip(req)
	if err == nil {
		resp.Body = b.body("response", resp.Body)
	}
	return resp, err
}

func (b minedBase) body(of string, r io.ReadCloser) io.ReadCloser {
	b.open.Add(1)
	return &minedBody{ReadCloser: r, mine: b.mine, of: of, closed: sync.OnceFunc(func() { b.open.Add(-1) })}
}

type minedBody struct {
	io.ReadCloser
	mine   *mine
	of     string
	closed func()
}

func (b *minedBody) Read(p []byte) (int, error) {
	b.mine.may(b.of + ".Body.Read")
	return b.ReadCloser.Read(p)
}

func (b *minedBody) Close() error {
	b.closed()
	err := b.ReadCloser.Close()
	b.mine.may(b.of + ".Body.Close")
	return err
}

type minedPolicy struct{ mine *mine }

func (p minedPolicy) Delay(int) time.Duration { p.mine.may("backoff.Policy"); return time.Second }

type minedBackOff struct {
	cenkalti.BackOff
	mine *mine
}

func (b minedBackOff) NextBackOff() time.Duration {
	b.mine.may("BackOff.NextBackOff")
	return b.BackOff.NextBackOff()
}
func (b minedBackOff) Reset() { b.mine.may("BackOff.Reset"); b.BackOff.Reset() }

type minedContext struct {
	context.Context
	mine *mine
}

func (c minedContext) Value(key any) any { c.mine.may("Context.Value"); return c.Context.Value(key) }
func (c minedContext) Err() error        { c.mine.may("Context.Err"); return c.Context.Err() }
func (c minedContext) Deadline() (time.Time, bool) {
	c.mine.may("Context.Deadline")
	return c.Context.Deadline()
}

// TestAThousandPanics: every function of the user's panics, each many times, in the requests of one
// Transport and one limiter. None costs a slot, a place, a page of the budget, a body or a goroutine,
// all hosts go on, and the log that says what happened holds before the audit.
func TestAThousandPanics(t *testing.T) {
	t.Run("in all functions at once", func(t *testing.T) { panics(t, 4000, false) })
	t.Run("of a request's context", func(t *testing.T) { panics(t, 400, true) })
}

func panics(t *testing.T, requests int, contexts bool) {
	var log bytes.Buffer
	mine := &mine{calls: map[string]int{}, blown: map[string]int{}}
	synctest.Test(t, func(t *testing.T) {
		hosts := []string{"a.example", "b.example", "c.example", "d.example"}
		web := politenesstest.NewWeb()
		for _, host := range hosts {
			web.Site("https://"+host).Robots("User-agent: *\nCrawl-delay: 0.1\nDisallow: /no\n").
				Handle("/page", politenesstest.Text(strings.Repeat("page ", 1000))).
				Handle("/429", politenesstest.Status(429)).
				Handle("/503", politenesstest.InTurn(politenesstest.Status(503), politenesstest.Text("page"))).
				Handle("/png", politenesstest.Status(200, "Content-Type", "image/png"))
		}
		var open atomic.Int64
		base := minedBase{web, mine, &open}
		limits := hostlimit.Config{
			Concurrency: 2, MaxInFlight: 5, MaxWait: 100 * time.Hour, Delay: hostlimit.Delay{Min: 100 * time.Millisecond},
			Backoff:  minedPolicy{mine},
			Store:    minedDebts{hostlimit.Dir(t.TempDir()), mine},
			Override: func(string) (hostlimit.Limits, bool) { mine.may("Override"); return hostlimit.Limits{}, false },
		}
		memory, err := memory.New(limits)
		if err != nil {
			t.Fatal(err)
		}
		spent := budget.New(budget.Limits{Pages: 1 << 40})
		sink, records := evidence.JSONLines(&log), evidence.Recorder{}
		cfg := politeness.Config{
			UserAgent: agent, Base: base, Limiter: minedLimiter{memory, mine}, Budget: minedBudget{spent, mine},
			Evidence: evidence.Multi(evidence.Func(func(context.Context, evidence.Decision) { mine.may("Evidence") }), sink, &records),
			Robots: robotscache.Config{
				RecordText: true, DenyTTL: time.Second, TTL: time.Minute, Store: minedRobots{robotscache.Dir(t.TempDir()), mine},
			},
			HostKey:   func(req *http.Request) string { mine.may("HostKey"); return req.URL.Host },
			Refuse:    func(*http.Request) error { mine.may("Refuse"); return nil },
			IsRefusal: func(*http.Response) error { mine.may("IsRefusal"); return nil },
			Retry: politeness.Retry{Max: 2, Backoff: func() cenkalti.BackOff {
				mine.may("Retry.Backoff")
				return minedBackOff{cenkalti.NewConstantBackOff(time.Second), mine}
			}},
			Response: politeness.ResponseLimits{Reject: []string{"image/*"}},
		}
		tr := mustNew(t, cfg)
		paths := []string{"/page", "/503", "/png", "/429", "/page", "/no"}
		var all sync.WaitGroup
		for i := range requests {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%5+1)*20*time.Minute)
				defer cancel()
				if contexts {
					ctx = minedContext{ctx, mine}
				}
				url := "https://" + hosts[i%len(hosts)] + paths[i%len(paths)]
				caught(t, func() {
					req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, nil)
					if err != nil {
						t.Fatal(err)
					}
					if !contexts { // RoundTrip asks the context before it takes charge of the body
						body := func() io.ReadCloser { return base.body("request", io.NopCloser(strings.NewReader("body"))) }
						req.Body, req.GetBody = body(), func() (io.ReadCloser, error) { mine.may("GetBody"); return body(), nil }
					}
					resp, err := tr.RoundTrip(req)
					if err != nil {
						return
					}
					defer resp.Body.Close()
					_, _ = io.Copy(io.Discard, resp.Body)
				})
				if i%20 == 0 {
					caught(t, func() { _, _ = tr.Next(ctx, url) })
					caught(t, func() { _, _ = tr.Check(ctx, url) })
					caught(t, func() { _, _ = tr.Filter(ctx, []string{url, "https://c.example/", "https://d.example/"}) })
					caught(t, func() { tr.Status(ctx) })
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		all.Wait()
		mine.rest()
		if n := open.Load(); n != 0 {
			t.Errorf("%d bodies are open", n)
		}
		for s, err := range memory.List(t.Context()) {
			if err != nil || s.InFlight != 0 || s.Waiters != 0 {
				t.Errorf("afterwards: %+v, %v", s, err)
			}
		}
		// Every slot and every place can still be had, at once.
		time.Sleep(time.Hour)
		var held []hostlimit.Lease
		for i := range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			lease, err := memory.Acquire(ctx, []string{"a.example", "b.example", "c.example", "d.example", "a.example"}[i], 0)
			if err != nil {
				t.Fatalf("place %d: %v", i+1, err)
			}
			held = append(held, lease)
		}
		for _, lease := range held {
			lease.Release()
		}
		for _, host := range hosts {
			if status, err := fetch(t.Context(), &http.Client{Transport: tr}, "https://"+host+"/page"); err != nil || status != 200 {
				t.Errorf("%s: status %d, %v", host, status, err)
			}
		}
		if err := sink.Close(); err != nil {
			t.Error(err)
		}
		// A page is spent where a request was sent, and nowhere else.
		sent := map[uint64]bool{}
		for _, d := range records.Decisions(evidence.Started) {
			if !d.RobotsTxt {
				sent[d.Trip] = true
			}
		}
		if usage, _ := spent.Usage(t.Context()); int(usage.Pages) != len(sent) {
			t.Errorf("%d pages are spent, %d were sent", usage.Pages, len(sent))
		}
	})
	report, err := audit.Check(&log)
	if err != nil || !report.OK() {
		t.Errorf("%v, %v", report.Violations, err)
	}
	if !contexts && mine.total() < 1000 {
		t.Errorf("%d panics", mine.total())
	}
	for _, name := range slices.Sorted(maps.Keys(mine.calls)) {
		if mine.blown[name] == 0 && !contexts {
			t.Errorf("%s never panicked", name)
		}
	}
	t.Log(mine.total(), "panics:", mine.blown)
}
