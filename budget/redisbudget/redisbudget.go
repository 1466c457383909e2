// Package redisbudget is a [budget.Budget] that many processes spend together
// through one Redis or Valkey.
//
//	b, err := redisbudget.New(redisbudget.Config{
//		Client: redis.NewClient(&redis.Options{Addr: "localhost:6379"}),
//		Name:   "crawl-2026-11-21",
//		Limits: budget.Limits{Pages: 50_000, WarnAt: 0.8},
//	})
//
// A limit of N is reached at N and never passed. To ask seldom, a process takes
// pages and bytes in chunks, which shrink as the budget nears its end, and gives
// back what it hasn't spent for a second, and at Close. So a process may
// be refused while another one still has a few in hand, and a process that is killed
// takes its chunk along: a limit may then be reached early, never late. By the same
// reason a warning may come early, by what other processes have in hand.
//
// Let the server keep its data (appendonly yes). When it loses them, the counters come back as far
// as live processes have seen them; what was granted after that to a process
// that was killed is granted again.
package redisbudget

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/budget"
)

// Config of a Budget.
type Config struct {
	// Client talks to the server. Required. The Budget doesn't close it.
	Client redis.UniversalClient

	// Prefix of all keys; "": "politeness:". It must not contain braces.
	Prefix string

	// Name of the budget: processes that use the same Name, Prefix and server spend
	// the same budget. Required. A budget is spent once, so a new crawl takes a new name.
	// It must not contain braces.
	Name string

	// Limits, the same for every process.
	Limits budget.Limits

	// Processes is about how many processes there are; 0: 10. It decides the size
	// of chunks, not how much may be spent.
	Processes int
}

const (
	// What isn't spent for so long is given back.
	idle = time.Second

	// A budget is forgotten so long after its last use, or after Limits.Duration if that is longer.
	keep = 30 * 24 * time.Hour

	firstPages, mostPages = 8, 1 << 14
	firstBytes, mostBytes = 64 << 10, 64 << 20
)

// ErrClosed is returned by methods of a Budget after Close.
var ErrClosed = errors.New("redisbudget: budget is closed")

// A ServerError says that the server could not be asked. Nothing was spent.
type ServerError struct {
	Name string // of the budget
	Err  error  // what the client said
}

// Error names the budget.
func (e *ServerError) Error() string { return fmt.Sprintf("redisbudget: %s: %v", e.Name, e.Err) }

// Unwrap returns what the client said.
func (e *ServerError) Unwrap() error { return e.Err }

// Temporary reports true: the budget can be asked again.
func (e *ServerError) Temporary() bool { return true }

// A Budget is a budget.Budget on a server. It is safe for concurrent use. It
// owns a timer while it has something in hand; Close ends that.
type Budget struct {
	client redis.UniversalClient
	name   string
	limits budget.Limits
	parts  int
	keys   []string
	proc   string
	asking chan struct{} // holds a token while a call is under way

	mu        sync.Mutex // never held across a wait
	closed    bool
	seq       int64
	pending   *request // whose reply is not known: it is asked again as it was
	id        string
	pages     chunk
	bytes     chunk
	hosts     map[string]*chunk // only with PagesPerHost
	started   time.Time         // zero: not that we know
	used      time.Time         // when something in hand was last spent
	warnings  []budget.Warning  // not told yet
	timeAsked bool              // the server was asked since the time limit is nearly reached
	timer     *time.Timer       // running while there is something in hand
	returns   sync.WaitGroup    // goroutines of the timer
}

var _ budget.Budget = (*Budget)(nil)

// A chunk is what this process has in hand of a limit.
type chunk struct {
	hand  int64 // granted, not spent
	want  int64 // how much to ask for next time
	total int64 // granted to all, as last heard
	asked time.Time
}

// grow asks for more next time if the last grant was soon spent, else for less.
func (c *chunk) grow(now time.Time, first, most int64) int64 {
	switch {
	case c.want == 0:
		c.want = first
	case now.Sub(c.asked) < idle:
		c.want = min(2*c.want, most)
	default:
		c.want = max(c.want/2, first)
	}
	c.asked = now
	return c.want
}

// New returns a Budget, or all problems of c at once. It doesn't wait for the server.
func New(c Config) (*Budget, error) {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("redisbudget: Client: is required"))
	}
	if c.Name == "" {
		errs = append(errs, errors.New("redisbudget: Name: is required"))
	}
	for _, f := range []struct{ name, value string }{{"Prefix", c.Prefix}, {"Name", c.Name}} {
		if strings.ContainsAny(f.value, "{}") {
			errs = append(errs, fmt.Errorf("redisbudget: %s: %q contains a brace", f.name, f.value))
		}
	}
	if c.Processes < 0 {
		errs = append(errs, fmt.Errorf("redisbudget: Processes: %d is negative", c.Processes))
	}
	if err := c.Limits.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("redisbudget: Limits: %w", err))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if c.Prefix == "" {
		c.Prefix = "politeness:"
	}
	if c.Processes == 0 {
		c.Processes = 10
	}
	key := c.Prefix + "{budget:" + c.Name + "}"
	b := &Budget{
		client: c.Client,
		name:   c.Name,
		limits: c.Limits,
		parts:  c.Processes,
		keys:   []string{key, key + ":hosts"},
		proc:   strings.ToLower(rand.Text()[:12]),
		asking: make(chan struct{}, 1),
	}
	if c.Limits.PagesPerHost > 0 {
		b.hosts = make(map[string]*chunk)
	}
	return b, nil
}

// Limits reports the limits that b was made with.
func (b *Budget) Limits() budget.Limits { return b.limits }

// Close gives back what this process has in hand, and returns a [*ServerError] if it
// couldn't. Only the first call does anything.
func (b *Budget) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	if b.timer != nil && b.timer.Stop() {
		b.returns.Done()
	}
	b.mu.Unlock()
	b.returns.Wait()
	b.asking <- struct{}{}
	defer func() { <-b.asking }()
	if _, err := b.settle(context.Background()); err != nil {
		return err
	}
	b.mu.Lock()
	r := b.request("", 0, false)
	r.giveBack(b)
	b.mu.Unlock()
	if !r.gives() {
		return nil
	}
	return b.do(context.Background(), r)
}

// host returns the chunk of a host.
func (b *Budget) host(name string) *chunk {
	h := b.hosts[name]
	if h == nil {
		h = new(chunk)
		b.hosts[strings.Clone(name)] = h
	}
	return h
}

// Check implements [budget.Budget]. It asks the server when this process has nothing in
// hand, and takes a chunk then.
func (b *Budget) Check(ctx context.Context, host string, start time.Time) error {
	return b.withPage(ctx, host, start, false)
}

// Reserve implements [budget.Budget].
func (b *Budget) Reserve(ctx context.Context, host string) ([]budget.Warning, error) {
	if err := b.withPage(ctx, host, time.Time{}, true); err != nil {
		return nil, err
	}
	return b.told(), nil
}

// withPage sees to it that there is a page of host in hand, and spends it if spend.
func (b *Budget) withPage(ctx context.Context, host string, start time.Time, spend bool) error {
	for asked := false; ; asked = true {
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			return ErrClosed
		}
		now := time.Now()
		if err := b.late(now, start); err != nil {
			b.mu.Unlock()
			return err
		}
		byHost := new(chunk)
		byHost.hand = 1
		if b.hosts != nil {
			byHost = b.host(host)
		}
		known := !spend || !b.started.IsZero() && (b.timeAsked || !b.timeDue(now))
		switch {
		case b.pages.hand > 0 && byHost.hand > 0 && known && !b.bytesGone():
			if spend {
				b.pages.hand--
				if b.hosts != nil {
					byHost.hand--
				}
				b.used = now
			}
			b.mu.Unlock()
			return nil
		case asked && b.bytesGone():
			err := &budget.Error{Limit: budget.Bytes, Used: b.limits.Bytes, Want: 1, Max: b.limits.Bytes}
			b.mu.Unlock()
			return err
		case asked && b.pages.hand == 0 && b.limits.Pages > 0 && b.pages.total >= b.limits.Pages:
			err := &budget.Error{Limit: budget.Pages, Used: b.pages.total, Want: 1, Max: b.limits.Pages}
			b.mu.Unlock()
			return err
		case asked && byHost.hand == 0 && byHost.total >= b.limits.PagesPerHost && b.hosts != nil:
			err := &budget.Error{Limit: budget.PagesPerHost, Host: host, Used: byHost.total, Want: 1, Max: b.limits.PagesPerHost}
			b.mu.Unlock()
			return err
		}
		b.mu.Unlock()
		if err := b.ask(ctx, host, 0, spend); err != nil {
			return err
		}
	}
}

// bytesGone reports whether no byte is left, as last heard.
func (b *Budget) bytesGone() bool {
	return b.limits.Bytes > 0 && b.bytes.hand == 0 && b.bytes.total >= b.limits.Bytes
}

// late returns an error if a start at that time comes after the time limit.
func (b *Budget) late(now, start time.Time) error {
	if b.limits.Duration <= 0 {
		return nil
	}
	var elapsed time.Duration
	if !b.started.IsZero() {
		elapsed = now.Sub(b.started)
	}
	ahead := min(max(start.Sub(now), 0), math.MaxInt64-elapsed)
	if start.IsZero() {
		ahead = 0
	}
	if elapsed+ahead < b.limits.Duration {
		return nil
	}
	used := int64(elapsed / time.Second)
	return &budget.Error{
		Limit: budget.Time, Used: used, Want: int64((elapsed+ahead)/time.Second) - used, Max: int64(b.limits.Duration / time.Second),
	}
}

// Refund implements [budget.Budget]. The page goes to the next one of this process, or back to all.
func (b *Budget) Refund(_ context.Context, host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pages.hand++
	if b.hosts != nil {
		b.host(host).hand++
	}
	b.watch()
}

// TakeBytes implements [budget.Budget]. Taking nothing always succeeds.
func (b *Budget) TakeBytes(ctx context.Context, n int64) (int64, error) {
	if n <= 0 {
		return 0, nil
	}
	for asked := false; ; asked = true {
		b.mu.Lock()
		switch {
		case b.closed:
			b.mu.Unlock()
			return 0, ErrClosed
		case b.bytes.hand > 0 && !b.started.IsZero():
			n = min(n, b.bytes.hand)
			b.bytes.hand -= n
			b.used = time.Now()
			b.mu.Unlock()
			return n, nil
		case asked && b.bytesGone():
			err := &budget.Error{Limit: budget.Bytes, Used: b.bytes.total, Want: n, Max: b.limits.Bytes}
			b.mu.Unlock()
			return 0, err
		}
		b.mu.Unlock()
		if err := b.ask(ctx, "", n, true); err != nil {
			return 0, err
		}
	}
}

// SettleBytes implements [budget.Budget].
func (b *Budget) SettleBytes(_ context.Context, taken, read int64) []budget.Warning {
	b.mu.Lock()
	b.bytes.hand += max(taken-max(read, 0), 0)
	b.watch()
	b.mu.Unlock()
	return b.told()
}

// Usage implements [budget.Budget]. What other processes have in hand counts as spent.
func (b *Budget) Usage(ctx context.Context) (budget.Usage, error) {
	if err := b.lock(ctx); err != nil {
		return budget.Usage{}, err
	}
	defer func() { <-b.asking }()
	if _, err := b.settle(ctx); err != nil {
		return budget.Usage{}, err
	}
	b.mu.Lock()
	r := b.request("", 0, false)
	b.mu.Unlock()
	r.wantPages, r.wantBytes = 0, 0
	if err := b.do(ctx, r); err != nil {
		return budget.Usage{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	u := budget.Usage{Limits: b.limits, Pages: b.pages.total - b.pages.hand, Bytes: b.bytes.total - b.bytes.hand, Started: b.started}
	if !b.started.IsZero() {
		u.Elapsed = time.Since(b.started)
	}
	return u, nil
}

// told returns the warnings that nobody has been told.
func (b *Budget) told() []budget.Warning {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.warnings
	b.warnings = nil
	return w
}

// warnAt returns the smallest use of limit that warns, 0 for none.
func (b *Budget) warnAt(limit int64) int64 {
	if limit <= 0 || b.limits.WarnAt <= 0 {
		return 0
	}
	at := b.limits.WarnAt * float64(limit)
	at *= 1 - 1e-12 // 0.07 * 100 is a little above 7, and must warn at 7
	return min(max(int64(math.Ceil(at)), 1), limit)
}

// warnTime is when the time limit warns, after the start; 0 for never.
func (b *Budget) warnTime() time.Duration {
	return time.Duration(b.limits.WarnAt * float64(b.limits.Duration))
}

func (b *Budget) timeDue(now time.Time) bool {
	at := b.warnTime()
	return at > 0 && !b.started.IsZero() && now.Sub(b.started) >= at
}

// watch gives back what stays in hand. The caller holds mu.
func (b *Budget) watch() {
	if b.timer != nil || b.closed {
		return
	}
	b.returns.Add(1)
	b.timer = time.AfterFunc(idle, func() {
		defer b.returns.Done()
		b.returnIdle()
	})
}

func (b *Budget) returnIdle() {
	b.asking <- struct{}{}
	defer func() { <-b.asking }()
	b.mu.Lock()
	b.timer = nil
	if b.closed {
		b.mu.Unlock()
		return
	}
	if time.Since(b.used) < idle/2 || b.pending != nil {
		b.watch()
		b.mu.Unlock()
		return
	}
	r := b.request("", 0, false)
	r.giveBack(b)
	b.mu.Unlock()
	if r.gives() {
		_ = b.do(context.Background(), r) // if it fails it is asked again
	}
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func number(v any) int64 {
	n, _ := strconv.ParseInt(text(v), 10, 64) // take.lua writes nothing else
	return n
}
