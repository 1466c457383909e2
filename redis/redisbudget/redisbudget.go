// Package redisbudget is a [budget.Budget] that many processes spend together
// through one Redis or Valkey.
//
//	b, err := redisbudget.New(redisbudget.Config{
//		Client: redis.NewClient(&redis.Options{Addr: "localhost:6379"}),
//		Name:   "crawl-2026-11-21",
//		Limits: budget.Limits{Pages: 50_000, WarnAt: 0.8},
//	})
//
// A limit of N is never passed unless the server loses data (see below). The price is that a limit
// may be reached early. To ask seldom, a process takes pages and bytes in chunks. Chunks shrink as
// the budget nears its end. A process that spends nothing for about a second gives back its unspent
// pages and bytes. It also does so at Close. So a process may be refused while another one still
// has a few in hand, and a process that is killed takes its chunk along. A chunk is at most 8
// pages, or more if the process spends more in two seconds. For an hour after a process was killed,
// chunks are smaller. They have half the size after one kill, and an eighth after seven. A warning
// may come early as well, by the chunks of other processes.
//
// # When the server loses data
//
// A server that comes back from an old dump or empty, and a replica that takes over without the
// last writes, has forgotten a part of the sum. A Budget sees that by the server's run_id and by a
// counter of calls. Nothing is granted for seven seconds then. Reserve and TakeBytes wait, and
// chunks in hand can be spent. Meanwhile each process sends the server the counts that it has seen
// last. For that each process calls once a second until Close, and remembers how much each of its
// hosts has spent. If a budget is new to the server, nothing is granted for the first two seconds.
// The server can't learn what it granted in its last second to processes that were then killed, or
// were cut off for those seven seconds. Then a limit may be passed by these grants. Keep the
// server's data (appendonly yes). With replicas, set min-replicas-to-write, since two concurrent
// masters would grant twice. If the server forbids INFO, a process sees a loss of data by the
// counter alone.
//
// A call that arrives late, or twice, counts once or not at all. Each call has a number, and a time
// by the server's clock after which it isn't accepted.
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

	// Prefix of all keys, by default "politeness:". It must not contain braces.
	Prefix string

	// Name of the budget. Processes that use the same Name, Prefix and server spend the same
	// budget. Required. A budget is spent once, so a new crawl takes a new name, unless
	// Limits.Every is set. It must not contain braces.
	Name string

	// Limits, the same for every process. The windows of Limits.Every are those of the server's
	// clock. The server returns an error to a process with another Every.
	Limits budget.Limits

	// Processes is about how many processes there are, by default 10. It decides the size of
	// chunks, not how much may be spent.
	Processes int
}

const (
	// beat is the time between two calls of a process that has nothing to ask for.
	beat = time.Second

	// quietNew is how long nothing is granted when the budget is new to the server: processes that
	// know it call within a beat.
	quietNew = 2 * time.Second

	// quietLost is how long nothing is granted after the server has lost data: longer than a call
	// that finds a dead connection takes (5 s by the client's defaults) and a beat.
	quietLost = 7 * time.Second

	// lostAfter is how long a process that wasn't closed is silent before it counts as lost, its
	// chunk with it.
	lostAfter = 10 * time.Second

	// lostFor is how long after its last call a lost process makes chunks smaller.
	lostFor = time.Hour

	// closing bounds the time that Close calls the server.
	closing = 3 * time.Second

	// keepFor is how long the server keeps a budget after its last use, or longer if
	// Limits.Duration or Limits.Every is longer.
	keepFor = 30 * 24 * time.Hour

	firstPages, mostPages = 8, 1 << 14         // sizes of chunks
	firstBytes, mostBytes = 64 << 10, 64 << 20 // in bytes
)

// ErrClosed is returned by methods of a Budget after Close.
var ErrClosed = errors.New("redisbudget: budget is closed")

// A ServerError is returned if the server gave no response that can be used. Nothing was spent.
type ServerError struct {
	Name string // of the budget
	Err  error  // of the client, or about the response
}

// Error names the budget.
func (e *ServerError) Error() string { return fmt.Sprintf("redisbudget: %s: %v", e.Name, e.Err) }

// Unwrap returns Err.
func (e *ServerError) Unwrap() error { return e.Err }

// Temporary reports true, because the budget can be asked again.
func (e *ServerError) Temporary() bool { return true }

// A Budget is a budget.Budget on a server. It is safe for concurrent use. From its first call on it
// owns a timer, and calls the server once a second. Close ends that.
type Budget struct {
	client    redis.UniversalClient
	name      string
	limits    budget.Limits
	every     time.Duration
	lostAfter time.Duration // the constant, but for tests
	lostFor   time.Duration // the constant, but for tests
	processes int           // Config.Processes
	keys      []string      // KEYS of take.lua
	proc      string        // name of this process on the server
	calling   chan struct{} // holds a token while a call is under way
	alive     context.Context
	end       context.CancelFunc // of alive: the timer's calls

	mu          sync.Mutex // never held across a wait
	closed      bool
	seq         int64    // number of the last request
	pending     *request // the one without a reply yet, which is sent again as it was; nil: none
	state       state
	divisor     int64 // of chunks: 1, and 1 more for each lost process, 8 at most
	clock       clock
	quietUntil  time.Time // nothing is granted until then
	resend      []string  // hosts whose counts the server may have lost
	resendEpoch int64     // epoch of these counts, or a later one
	pages       chunk
	bytes       chunk
	hosts       map[string]*chunk // only with PagesPerHost
	started     time.Time         // first page or byte of any process; zero: none is known
	used        time.Time         // when this process last spent or got something
	warnings    []budget.Warning  // not returned yet
	timeAsked   bool              // a call was answered after the time limit's share WarnAt had passed
	stats       Stats
	timer       *time.Timer
	timerCalls  sync.WaitGroup // goroutines of the timer
}

var _ budget.Budget = (*Budget)(nil)

// A chunk is the part of a limit that the server has granted to this process.
type chunk struct {
	unspent int64     // granted to this process
	want    int64     // size of the last request for it; 0: there was none
	total   int64     // granted to all processes, by the last reply
	asked   time.Time // when want was set
}

// chunkTime returns how long a chunk should last: the more processes were lost, the shorter.
func (b *Budget) chunkTime() time.Duration { return beat / time.Duration(max(b.divisor, 1)) }

// grow returns the size of the next chunk: twice that of the last one if that was spent in less
// than brief, else half of it, within first and most.
func (c *chunk) grow(now time.Time, brief time.Duration, first, most int64) int64 {
	switch {
	case c.want == 0:
		c.want = first
	case now.Sub(c.asked) < brief:
		c.want = min(2*c.want, most)
	default:
		c.want = max(c.want/2, first)
	}
	c.asked = now
	return c.want
}

// isSpent reports whether by the last reply nothing of the limit most is left for this process.
func (c *chunk) isSpent(most int64) bool { return c.unspent == 0 && c.total >= most }

// New returns a Budget, or all problems of c together. It doesn't wait for the server.
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
	proc := strings.ToLower(rand.Text()[:12])
	b := &Budget{
		client:    c.Client,
		name:      c.Name,
		limits:    c.Limits,
		every:     c.Limits.Every,
		lostAfter: lostAfter,
		lostFor:   lostFor,
		processes: c.Processes,
		keys:      []string{key, key + ":hosts", key + ":last:" + proc},
		proc:      proc,
		calling:   make(chan struct{}, 1),
	}
	b.alive, b.end = context.WithCancel(context.Background())
	if c.Limits.PagesPerHost > 0 {
		b.hosts = make(map[string]*chunk)
	}
	return b, nil
}

// Limits reports the limits that b was made with.
func (b *Budget) Limits() budget.Limits { return b.limits }

// Close gives back the rest of this process's chunk, and returns a [*ServerError] if it couldn't.
// On a server that is silent it takes as long as two reads that time out, 6 s by the client's
// defaults. Only the first call does anything.
func (b *Budget) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	if b.timer != nil && b.timer.Stop() {
		b.timerCalls.Done()
	}
	b.mu.Unlock()
	b.end()
	b.timerCalls.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	if err := b.lock(ctx); err != nil {
		return &ServerError{b.name, err}
	}
	defer func() { <-b.calling }()
	if _, err := b.catchUp(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	r := b.request("", 0, false)
	r.bye = true
	r.giveBack(b)
	known := b.state.id != ""
	b.mu.Unlock()
	if !known {
		return nil
	}
	if err := b.do(ctx, r); err != nil && r.gives() {
		return err
	}
	return nil
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

// Check implements [budget.Budget]. It asks the server when this process has nothing in hand, and
// takes a chunk then. In the seconds after a loss of data, in which nothing is granted, it returns
// nil.
func (b *Budget) Check(ctx context.Context, host string, start time.Time) error {
	return b.withPage(ctx, host, start, false)
}

// Reserve implements [budget.Budget]. In the seconds after a loss of data it waits.
func (b *Budget) Reserve(ctx context.Context, host string) ([]budget.Warning, error) {
	if err := b.withPage(ctx, host, time.Time{}, true); err != nil {
		return nil, err
	}
	return b.takeWarnings(), nil
}

// withPage gets a page of host from the server unless one is in hand, and spends it if spend is
// set.
func (b *Budget) withPage(ctx context.Context, host string, start time.Time, spend bool) error {
	for asked := false; ; asked = true {
		b.mu.Lock()
		now := time.Now()
		spent, err := b.spendPage(host, now, start, spend)
		over := b.windowOver(now)
		granted := asked && !over // by the last reply, of this window
		if granted && err == nil && !spent {
			err = b.exceeded(host)
		}
		quiet := b.quietUntil.Sub(now)
		b.mu.Unlock()
		if err != nil || spent {
			return err
		}
		// A call that granted nothing has shown that nothing is granted for now.
		isQuiet := asked && !over && quiet > 0
		if isQuiet && !spend {
			return nil // for Check that is no refusal
		}
		if isQuiet {
			if err := b.wait(ctx, quiet); err != nil {
				return err
			}
		}
		if err := b.ask(ctx, host, 0, spend); err != nil {
			return err
		}
	}
}

// spendPage reports whether a page of host is in hand, and spends it if spend is set. It returns an
// error if there can be none. The caller holds mu.
func (b *Budget) spendPage(host string, now, start time.Time, spend bool) (ok bool, err error) {
	if b.closed {
		return false, ErrClosed
	}
	if b.windowOver(now) {
		return false, nil
	}
	if err := b.timeError(now, start); err != nil {
		return false, err
	}
	askFirst := spend && b.owesCall(now)
	if askFirst || !b.inHand(host, 0) {
		return false, nil
	}
	if spend {
		b.pages.unspent--
		if b.hosts != nil {
			b.host(host).unspent--
		}
		b.used = now
	}
	return true, nil
}

// owesCall reports whether a page that is in hand is spent only after a call: the first one starts
// the clock of all processes, and one after the share WarnAt of the time asks for the warning,
// which one process gets. The caller holds mu.
func (b *Budget) owesCall(now time.Time) bool {
	return b.started.IsZero() || !b.timeAsked && b.timeDue(now)
}

// exceeded returns an error if by the last reply nothing is left for host. The caller holds mu.
func (b *Budget) exceeded(host string) error {
	limits := &b.limits
	switch {
	case b.bytesGone():
		return &budget.Error{Limit: budget.Bytes, Used: limits.Bytes, Want: 1, Max: limits.Bytes}
	case limits.Pages > 0 && b.pages.isSpent(limits.Pages):
		return &budget.Error{Limit: budget.Pages, Used: limits.Pages, Want: 1, Max: limits.Pages}
	case b.hosts != nil && b.host(host).isSpent(limits.PagesPerHost):
		return &budget.Error{
			Limit: budget.PagesPerHost,
			Host:  host,
			Used:  limits.PagesPerHost,
			Want:  1,
			Max:   limits.PagesPerHost,
		}
	}
	return nil
}

// wait waits while nothing is granted.
func (b *Budget) wait(ctx context.Context, quiet time.Duration) error {
	b.mu.Lock()
	b.stats.Waited++
	b.mu.Unlock()
	timer := time.NewTimer(min(quiet, beat)) // others may end it, or make it longer
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		err := fmt.Errorf("nothing is granted until all processes had time to report what they have spent: %w", ctx.Err())
		return &ServerError{b.name, err}
	}
}

// windowOver reports whether the window may be over, and with it what is in hand. The caller holds
// mu.
func (b *Budget) windowOver(now time.Time) bool {
	if b.every <= 0 || b.state.id == "" {
		return false
	}
	end := (b.state.window + 1) * b.every.Microseconds()
	return b.clock.latest(now) >= end
}

// renew begins a window. The caller holds mu.
func (b *Budget) renew() {
	b.pages.unspent = 0
	b.bytes.unspent = 0
	clear(b.hosts)
	b.resend = nil
	b.started = time.Time{}
	b.timeAsked = false
}

// Window implements [budget.Budget], by the server's clock.
func (b *Budget) Window() time.Time {
	if b.every <= 0 {
		return time.Time{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.UnixMicro(b.state.window * b.every.Microseconds()).UTC()
}

// bytesGone reports whether by the last reply no byte is left.
func (b *Budget) bytesGone() bool {
	return b.limits.Bytes > 0 && b.bytes.isSpent(b.limits.Bytes)
}

// timeError returns an error if a start at that time comes after the time limit.
func (b *Budget) timeError(now, start time.Time) error {
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
		Limit: budget.Time,
		Used:  used,
		Want:  int64((elapsed+ahead)/time.Second) - used,
		Max:   int64(b.limits.Duration / time.Second),
	}
}

// Refund implements [budget.Budget]. The next Reserve of this process takes the page, or the page
// goes back to the shared budget.
func (b *Budget) Refund(_ context.Context, host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.windowOver(time.Now()) {
		return
	}
	b.pages.unspent++
	if b.hosts != nil {
		b.host(host).unspent++
	}
}

// TakeBytes implements [budget.Budget]. Taking nothing always succeeds. While nothing is granted it
// waits. Like Reserve it returns the warnings that no call has returned yet, also beside an error.
func (b *Budget) TakeBytes(ctx context.Context, n int64) (int64, []budget.Warning, error) {
	taken, err := b.spendBytes(ctx, n)
	return taken, b.takeWarnings(), err
}

// spendBytes spends up to n of the bytes that are in hand, and gets some from the server if none
// is.
func (b *Budget) spendBytes(ctx context.Context, n int64) (int64, error) {
	if n <= 0 {
		return 0, nil
	}
	for asked := false; ; asked = true {
		taken, quiet, err := b.takeInHand(n, asked)
		if err != nil || taken > 0 {
			return taken, err
		}
		if asked && quiet > 0 {
			if err := b.wait(ctx, quiet); err != nil {
				return 0, err
			}
		}
		if err := b.ask(ctx, "", n, true); err != nil {
			return 0, err
		}
	}
}

// takeInHand spends up to n of the bytes that are in hand. If none is, it returns for how long
// nothing is granted or, after a call, an error if none is left.
func (b *Budget) takeInHand(n int64, asked bool) (taken int64, quiet time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	switch {
	case b.closed:
		return 0, 0, ErrClosed
	case b.windowOver(now):
		return 0, 0, nil // the next call grants bytes of the new window
	case b.bytes.unspent > 0 && !b.started.IsZero():
		taken = min(n, b.bytes.unspent)
		b.bytes.unspent -= taken
		b.used = now
		return taken, 0, nil
	case asked && b.bytesGone():
		return 0, 0, &budget.Error{Limit: budget.Bytes, Used: b.limits.Bytes, Want: n, Max: b.limits.Bytes}
	}
	return 0, b.quietUntil.Sub(now), nil
}

// Usage implements [budget.Budget]. The chunks of other processes count as spent.
func (b *Budget) Usage(ctx context.Context) (budget.Usage, error) {
	if err := b.lock(ctx); err != nil {
		return budget.Usage{}, err
	}
	defer func() { <-b.calling }()
	if _, err := b.catchUp(ctx); err != nil {
		return budget.Usage{}, err
	}
	b.mu.Lock()
	r := b.request("", 0, false)
	b.mu.Unlock()
	if err := b.do(ctx, r); err != nil {
		return budget.Usage{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	u := budget.Usage{
		Limits:  b.limits,
		Pages:   b.pages.total - b.pages.unspent,
		Bytes:   b.bytes.total - b.bytes.unspent,
		Started: b.started,
	}
	if !b.started.IsZero() {
		u.Elapsed = time.Since(b.started)
	}
	return u, nil
}

// Stats are a Budget's figures since New. Which limit has refused is in evidence, or in the
// *budget.Error.
type Stats struct {
	Calls  int64         // that were answered
	Took   time.Duration // by all of these together
	Failed int64         // calls without a response
	Late   int64         // calls that arrived too late, and were sent again
	Losses int64         // how often the server had lost data, as far as this process saw
	Waited int64         // how often a page or bytes waited because nothing was granted, a second at most each time
}

// Stats returns the figures of this moment. Use it for metrics.
func (b *Budget) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// takeWarnings returns the warnings that no call has returned yet.
func (b *Budget) takeWarnings() []budget.Warning {
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

// watch calls the server within a beat. The caller holds mu.
func (b *Budget) watch() {
	if b.timer != nil || b.closed {
		return
	}
	b.timerCalls.Add(1)
	b.timer = time.AfterFunc(beat, func() {
		defer b.timerCalls.Done()
		b.call()
	})
}

// call sends the server the counts that it may have lost, gives back what wasn't used of late, and
// reads what other processes have spent.
func (b *Budget) call() {
	if b.lock(b.alive) != nil {
		return
	}
	defer func() {
		<-b.calling
		b.mu.Lock()
		b.timer = nil
		b.watch()
		b.mu.Unlock()
	}()
	// Others wait for the right to call, perhaps on a network that is better by now.
	ctx, cancel := context.WithTimeout(b.alive, onTheWay)
	defer cancel()
	asked, _ := b.catchUp(ctx) // the next call repeats a failed one
	if asked {
		return
	}
	b.mu.Lock()
	r := b.request("", 0, false)
	if time.Since(b.used) >= beat/2 {
		r.giveBack(b)
	}
	b.mu.Unlock()
	_ = b.do(ctx, r)
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func number(v any) int64 {
	n, _ := strconv.ParseInt(text(v), 10, 64) // take.lua writes nothing else
	return n
}
