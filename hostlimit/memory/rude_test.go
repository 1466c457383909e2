package memory_test

import (
	"context"
	"iter"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/hostlimittest"
)

// A rude limiter is a Memory with one bad habit. What is nil is as the Memory has it.
type rude struct {
	hostlimit.Limiter
	floor   func(time.Duration) time.Duration
	context func(context.Context) context.Context
	start   func(hostlimit.Lease, context.Context) (hostlimit.Grant, error)
	observe func(hostlimit.Outcome) hostlimit.Outcome
	effect  func(hostlimit.Effect) hostlimit.Effect
	release func(hostlimit.Lease) bool
	next    func(context.Context, string, time.Duration) (time.Time, error)
	block   func(context.Context, string, time.Time, string) error
	clear   func(context.Context, string) error
	drain   func(context.Context) error
	state   func(context.Context, string) (hostlimit.HostState, error)
	list    func(context.Context) iter.Seq2[hostlimit.HostState, error]
	config  func() hostlimit.Config
}

func (r *rude) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	if r.context != nil {
		ctx = r.context(ctx)
	}
	if r.floor != nil {
		floor = r.floor(floor)
	}
	l, err := r.Limiter.Acquire(ctx, key, floor)
	if err != nil {
		return nil, err
	}
	return &rudeLease{Lease: l, r: r}, nil
}

func (r *rude) Next(ctx context.Context, key string, floor time.Duration) (time.Time, error) {
	if r.next != nil {
		return r.next(ctx, key, floor)
	}
	return r.Limiter.Next(ctx, key, floor)
}

func (r *rude) Block(ctx context.Context, key string, until time.Time, why string) error {
	if r.block != nil {
		return r.block(ctx, key, until, why)
	}
	return r.Limiter.Block(ctx, key, until, why)
}

func (r *rude) Clear(ctx context.Context, key string) error {
	if r.clear != nil {
		return r.clear(ctx, key)
	}
	return r.Limiter.Clear(ctx, key)
}

func (r *rude) Drain(ctx context.Context) error {
	if r.drain != nil {
		return r.drain(ctx)
	}
	return r.Limiter.Drain(ctx)
}

func (r *rude) State(ctx context.Context, key string) (hostlimit.HostState, error) {
	if r.state != nil {
		return r.state(ctx, key)
	}
	return r.Limiter.State(ctx, key)
}

func (r *rude) List(ctx context.Context) iter.Seq2[hostlimit.HostState, error] {
	if r.list != nil {
		return r.list(ctx)
	}
	return r.Limiter.List(ctx)
}

func (r *rude) Config() hostlimit.Config {
	if r.config != nil {
		return r.config()
	}
	return r.Limiter.Config()
}

type rudeLease struct {
	hostlimit.Lease
	r *rude
}

func (l *rudeLease) Start(ctx context.Context) (hostlimit.Grant, error) {
	if l.r.context != nil {
		ctx = l.r.context(ctx)
	}
	if l.r.start != nil {
		return l.r.start(l.Lease, ctx)
	}
	return l.Lease.Start(ctx)
}

func (l *rudeLease) Observe(o hostlimit.Outcome) hostlimit.Effect {
	if l.r.observe != nil {
		o = l.r.observe(o)
	}
	e := l.Lease.Observe(o)
	if l.r.effect != nil {
		e = l.r.effect(e)
	}
	return e
}

func (l *rudeLease) Release() bool {
	if l.r.release != nil {
		return l.r.release(l.Lease)
	}
	return l.Lease.Release()
}

// with returns a New whose Memory is made of a changed Config.
func with(change func(*hostlimit.Config)) hostlimittest.New {
	return func(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter {
		told := cfg
		change(&cfg)
		m := newMemory(t, cfg)
		told = mustConfig(t, told)
		return &rude{Limiter: m, config: func() hostlimit.Config { return told }}
	}
}

// mustConfig is what a Memory says that it was made of.
func mustConfig(t testing.TB, cfg hostlimit.Config) hostlimit.Config {
	return newMemory(t, cfg).Config()
}

// wrapped returns a New whose Memory has a habit.
func wrapped(habit func(r *rude)) hostlimittest.New {
	return func(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter {
		r := &rude{Limiter: newMemory(t, cfg)}
		habit(r)
		return r
	}
}

// outcomes returns a New that hears of other answers.
func outcomes(change func(*hostlimit.Outcome)) hostlimittest.New {
	return wrapped(func(r *rude) {
		r.observe = func(o hostlimit.Outcome) hostlimit.Outcome { change(&o); return o }
	})
}

var rudeLimiters = map[string]hostlimittest.New{
	"a tenth too early":        with(func(c *hostlimit.Config) { c.Delay.Min -= c.Delay.Min / 10; c.Delay.Max = c.Delay.Min }),
	"one slot more":            with(func(c *hostlimit.Config) { c.Concurrency = max(c.Concurrency, 2) + 1 }),
	"waits for ever":           with(func(c *hostlimit.Config) { c.MaxWait = 100 * time.Hour }),
	"waits for slots for ever": with(func(c *hostlimit.Config) { c.SlotTimeout = 0 }),
	"leases never expire":      with(func(c *hostlimit.Config) { c.LeaseTTL = 100 * time.Hour }),
	"no bound over all hosts":  with(func(c *hostlimit.Config) { c.MaxInFlight = 0 }),
	"at any hour":              with(func(c *hostlimit.Config) { c.Windows = nil }),
	"no limits of single hosts": with(func(c *hostlimit.Config) {
		c.Override = nil
	}),
	"the delay counts from the start": with(func(c *hostlimit.Config) { c.Delay.FromEnd = false }),
	"a policy of its own":             with(func(c *hostlimit.Config) { c.Backoff = nil }),
	"no crawl-delay":                  wrapped(func(r *rude) { r.floor = func(time.Duration) time.Duration { return 0 } }),
	"no priorities": wrapped(func(r *rude) {
		r.context = func(ctx context.Context) context.Context { return hostlimit.WithPriority(ctx, 0) }
	}),
	"deaf to answers": outcomes(func(o *hostlimit.Outcome) { o.Status, o.RetryAfter, o.Reset, o.Refused, o.Err = 200, 0, 0, "", nil }),
	"no Retry-After":  outcomes(func(o *hostlimit.Outcome) { o.RetryAfter = 0 }),
	"half a Retry-After": outcomes(func(o *hostlimit.Outcome) {
		o.RetryAfter /= 2
	}),
	"no reset":            outcomes(func(o *hostlimit.Outcome) { o.Reset = 0 }),
	"no refusal in words": outcomes(func(o *hostlimit.Outcome) { o.Refused = "" }),
	"errors are answers": outcomes(func(o *hostlimit.Outcome) {
		if o.Err != nil {
			o.Status, o.Err = 200, nil
		}
	}),
	"5xx is a success": outcomes(func(o *hostlimit.Outcome) {
		if o.Status >= 500 {
			o.Status = 200
		}
	}),
	"404 is a failure": outcomes(func(o *hostlimit.Outcome) {
		if o.Status == 404 {
			o.Status = 500
		}
	}),
	"tells of no effect":              wrapped(func(r *rude) { r.effect = func(hostlimit.Effect) hostlimit.Effect { return hostlimit.Effect{} } }),
	"slots are never free":            wrapped(func(r *rude) { r.release = func(hostlimit.Lease) bool { return false } }),
	"expired leases are told as live": wrapped(func(r *rude) { r.release = func(l hostlimit.Lease) bool { l.Release(); return false } }),
	"always now": wrapped(func(r *rude) {
		r.next = func(context.Context, string, time.Duration) (time.Time, error) { return time.Now(), nil }
	}),
	"no block by hand": wrapped(func(r *rude) { r.block = func(context.Context, string, time.Time, string) error { return nil } }),
	"no clearing":      wrapped(func(r *rude) { r.clear = func(context.Context, string) error { return nil } }),
	"no draining":      wrapped(func(r *rude) { r.drain = func(context.Context) error { return nil } }),
	"an empty list": wrapped(func(r *rude) {
		r.list = func(context.Context) iter.Seq2[hostlimit.HostState, error] {
			return func(func(hostlimit.HostState, error) bool) {}
		}
	}),
	"every state is unknown": wrapped(func(r *rude) {
		r.state = func(_ context.Context, key string) (hostlimit.HostState, error) {
			return hostlimit.HostState{Key: key, Slots: r.Config().WithDefaults().Concurrency}, nil
		}
	}),
	"a look makes hosts known": wrapped(func(r *rude) {
		r.state = func(ctx context.Context, key string) (hostlimit.HostState, error) {
			if l, err := r.Limiter.Acquire(ctx, key, 0); err == nil {
				l.Release()
			}
			return r.Limiter.State(ctx, key)
		}
	}),
	"one number for all": wrapped(func(r *rude) {
		r.start = func(l hostlimit.Lease, ctx context.Context) (hostlimit.Grant, error) {
			g, err := l.Start(ctx)
			g.Seq = 1
			return g, err
		}
	}),
	"stamps of before": wrapped(func(r *rude) {
		r.start = func(l hostlimit.Lease, ctx context.Context) (hostlimit.Grant, error) {
			g, err := l.Start(ctx)
			g.Start = g.Start.Add(-time.Second)
			return g, err
		}
	}),
	"each of two for itself": func(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter {
		return &taken{Limiter: newMemory(t, cfg), other: newMemory(t, cfg)}
	},
}

// taken sends every second request through a limiter that knows nothing of the first one's.
type taken struct {
	hostlimit.Limiter
	other hostlimit.Limiter
	n     atomic.Int64
}

func (l *taken) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	if l.n.Add(1)%2 == 0 {
		return l.other.Acquire(ctx, key, floor)
	}
	return l.Limiter.Acquire(ctx, key, floor)
}

const rudeEnv = "HOSTLIMIT_TEST_RUDE"

// TestConformanceCatchesRudeLimiters: a suite that everything passes would be worth nothing. Each
// limiter is tried in a process of its own, where the suite has to fail.
func TestConformanceCatchesRudeLimiters(t *testing.T) {
	if name := os.Getenv(rudeEnv); name != "" {
		hostlimittest.RunIn(t, synctest.Test, rudeLimiters[name])
		return
	}
	t.Run("but those without a habit", func(t *testing.T) {
		hostlimittest.RunIn(t, synctest.Test, with(func(*hostlimit.Config) {}))
		hostlimittest.RunIn(t, synctest.Test, outcomes(func(*hostlimit.Outcome) {}))
	})
	suite := t.Name()
	for name := range rudeLimiters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+suite+"$", "-test.timeout=1m")
			cmd.Env = append(os.Environ(), rudeEnv+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+suite+"/") || strings.Contains(string(out), "panic: ") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
