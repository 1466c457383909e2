// Package redislimit is a [hostlimit.Limiter] that many processes share through
// one Redis or Valkey: together they are as polite as one.
//
//	hosts, err := redislimit.New(redislimit.Config{
//		Client: redis.NewClient(&redis.Options{Addr: "localhost:6379"}),
//	})
//	if err != nil {
//		return err
//	}
//	defer hosts.Close()
//	transport, err := politeness.New(politeness.Config{UserAgent: ua, Limiter: hosts})
//
// What a key promises is what [hostlimit] promises, for all processes together that use the same
// server and Prefix: no two starts closer than the delay in force, no more than Concurrency in
// flight, and a refusal seen by one holds all. Give all of them the same Limits.
//
// # Time
//
// Only the server's clock decides, for Limits.Windows as well. Each process bounds it on its own
// monotonic clock, and starts a request only while it can prove that the server's clock is within
// the window that the server granted. So wall clocks may be wrong by hours, and a paused process
// doesn't start early.
//
// # Failure
//
// While the server can't be reached nothing starts, and Acquire returns a *hostlimit.Error that
// wraps a [*ServerError] ([FailClosed]); or each process goes on by itself at its share of the rate
// ([FailLocal]). When the server has lost its data, its clock was stepped, or it is new, nothing
// starts for a quarantine, in which all processes tell it again what they hold: the ReadTimeout of
// Config.Client and a second, at least 2 s. A process that shows no sign of life for 10 s has lost
// its slots. docs/many-machines-reference.md has what survives what, and how.
//
// The server should run with maxmemory-policy noeviction: an evicted key is a forgotten debt.
// [Limiter.Check] looks for that, and more.
//
// # For operators
//
// Block, Clear and List act on the whole fleet, [Limiter.Pause] stops it, and [Limiter.Fleet] tells
// who is in it. The command politeness-fleet does the same from a shell.
package redislimit

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
)

// Config of a Limiter.
type Config struct {
	// Client talks to the server: a *redis.Client (single, or failover through
	// Sentinel) or a *redis.ClusterClient. Required. The Limiter doesn't close it.
	// Its timeouts and retries are how long an Acquire waits for a server that doesn't answer.
	Client redis.UniversalClient

	// Prefix of all keys and channels, so that several fleets can share a server;
	// "": "politeness:". It must not contain braces, which are hash tags.
	Prefix string

	// Name of this process, for people who look at the fleet; "": the machine's name and the
	// process's number.
	Name string

	// Limits as for one process; they hold for all processes together. Of MaxInFlight each has its
	// part, at least one, if Processes says how many there are; without it MaxInFlight bounds the
	// requests of this process. MaxHosts bounds the hosts of [FailLocal], and those without debts
	// whose starts are numbered on: keys on the server expire when nothing is owed. Store keeps what
	// the server may lose; processes may share one or have one each.
	Limits hostlimit.Config

	// Failure says what happens while the server can't be reached.
	Failure Failure

	// Processes is the largest number of processes that share the limits; 0: it isn't known. It
	// divides MaxInFlight. FailLocal requires it: what it says is divided by it.
	Processes int

	// OnFailure, if not nil, is called once when the server is lost, when it is back, and when
	// another process has other limits or another database; a place to record it as evidence. It is
	// called from one of the Limiter's goroutines and must be quick.
	OnFailure func(Event)

	// Operator says that this Limiter is a tool's, which starts no request: it counts as no process
	// of the fleet, and its Limits are compared with nobody's.
	Operator bool
}

// Times of the design.
const (
	defaultPrefix = "politeness:"

	longWait = time.Second // a longer wait is reported to its Watcher

	heartbeat = 500 * time.Millisecond

	// A process that gives no sign of life for so long has lost its slots.
	dead = 10 * time.Second

	// A process asks to be let go this long before its start time, so that no call is
	// on the critical path.
	early = 8 * time.Millisecond

	// A turn is let go at most a horizon ahead: that is how long a block that is
	// set meanwhile can't stop it. It leaves room for starts that moved since they were reserved.
	horizon = 20 * time.Millisecond

	// A reserved start that isn't claimed this long after its time lapses.
	claim = time.Second

	// Releases wait this long for another call that can take them along.
	linger = time.Millisecond

	clusterPartitions = 64
)

// ErrClosed is returned by methods of a Limiter after Close.
var ErrClosed = errors.New("redislimit: limiter is closed")

// A Limiter is a hostlimit.Limiter on a server. It is safe for concurrent use.
// It owns a subscription and a heartbeat; Close ends both.
type Limiter struct {
	conf     Config        // with every default but those of Limits
	script   *redis.Script // step, but for tests that set the server's clock
	server   string
	cluster  bool
	rules    *hostlimit.Rules
	complete hostlimit.Config // limits with every default; MaxInFlight is the share of this process
	alone    bool             // FailLocal

	hours      []any // Windows, for step.lua
	quarantine time.Duration
	patience   time.Duration // how long a call may take
	dead       time.Duration
	base       time.Time // origin of all times of this process
	proc       string    // names this process on the server, and in evidence
	promise    string    // what all processes should have in common, see hello.go
	ctx        context.Context
	cancel     context.CancelFunc
	open       context.Context // done when nothing starts any more, after Drain or Close
	drain      context.CancelFunc
	wg         sync.WaitGroup // every goroutine
	ended      chan struct{}  // closed when all have, after Close

	mu           sync.Mutex // never held across a wait
	closed       bool
	id           string                         // what the server calls all that is under the prefix; "": it wasn't asked yet
	numbers      *simplelru.LRU[string, uint64] // host.seq of hosts that were forgotten
	seq          uint64
	number       int64 // of the last call; it begins anywhere, as others may share the client
	parts        []*partition
	hosts        map[string]*host
	asked        map[string]*lease // those that the server may push to, by lease id
	pubsub       *redis.PubSub
	listening    bool          // the subscription is up
	subscribedAt time.Duration // a call that was sent before says nothing about it
	inFlight     int
	line         []*lease          // for a place in MaxInFlight
	down         int               // partitions whose server can't be reached
	allCalled    time.Duration     // when all partitions were called after a loss of data
	outage       *outage           // with FailLocal, while there are any
	stats        Stats             // without what is of the moment
	events       []Event           // to be told, outside of mu
	helloed      time.Duration     // when this process said hello last; 0: not yet
	echoed       time.Duration     // when its own hello came back last
	others       map[string]string // processes that differ, by id, since helloed
	before       map[string]string // those of the time before
}

// New returns a Limiter, or all problems of c at once. It doesn't wait for the server.
func New(c Config) (*Limiter, error) {
	return newLimiter(c, -1, time.Now())
}

// quarantineOf is how long nothing starts after a loss of data: long enough for every live process,
// one that waits in vain for a reply as well, to reconnect and to tell what it holds.
func quarantineOf(patience time.Duration) time.Duration {
	return max(2*time.Second, patience+2*heartbeat)
}

// newLimiter is New with the parts that tests replace: the length of the quarantine, negative for
// that of the client's timeouts, and base, the origin of this process's clock.
func newLimiter(c Config, quarantine time.Duration, base time.Time) (*Limiter, error) {
	l, err := idleLimiter(c, quarantine, base)
	if err != nil {
		return nil, err
	}
	l.wg.Go(l.listen)
	l.wg.Go(l.beat)
	if l.conf.Limits.Store != nil {
		l.wg.Go(l.keepAll)
	}
	return l, nil
}

// idleLimiter is newLimiter without its goroutines.
func idleLimiter(c Config, quarantine time.Duration, base time.Time) (*Limiter, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("redislimit: "+format, args...)) }

	partitions := 1
	server := ""
	patience := time.Duration(0)
	switch client := c.Client.(type) {
	case nil:
		bad("Client: is required")
	case *redis.Client:
		server, patience = client.Options().Addr, client.Options().ReadTimeout
	case *redis.ClusterClient:
		partitions, server, patience = clusterPartitions, strings.Join(client.Options().Addrs, ","), client.Options().ReadTimeout
	default:
		bad("Client: a %T can't keep a script and its messages together; use *redis.Client or *redis.ClusterClient", client)
	}
	if strings.ContainsAny(c.Prefix, "{}") {
		bad("Prefix: %q contains a brace", c.Prefix)
	}
	rules, err := c.Limits.Rules()
	if err != nil {
		bad("Limits: %w", err)
	}
	switch {
	case c.Failure != FailClosed && c.Failure != FailLocal:
		bad("Failure: %d is neither FailClosed nor FailLocal", c.Failure)
	case c.Processes < 0:
		bad("Processes: %d is negative", c.Processes)
	case c.Failure == FailLocal && c.Processes == 0:
		bad("Processes: FailLocal requires the number of processes")
	case c.Failure == FailLocal && err == nil:
		if _, err := share(c.Limits, c.Processes).Rules(); err != nil {
			bad("Limits, divided by Processes: %w", err)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	complete := rules.Config()
	if complete.MaxInFlight > 0 && c.Processes > 0 {
		complete.MaxInFlight = max(1, complete.MaxInFlight/c.Processes)
	}

	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	if c.Name == "" {
		machine, _ := os.Hostname() // without a name the number is left
		c.Name = machine + ":" + strconv.Itoa(os.Getpid())
	}
	if patience <= 0 {
		patience = 3 * time.Second // there is none
	}
	if patience = min(max(patience, heartbeat), 10*time.Second); quarantine < 0 {
		quarantine = quarantineOf(patience)
	}
	l := &Limiter{
		conf:       c,
		script:     step,
		server:     server,
		cluster:    partitions > 1,
		rules:      rules,
		complete:   complete,
		alone:      c.Failure == FailLocal,
		quarantine: quarantine,
		patience:   patience,
		dead:       dead,
		base:       base,
		ended:      make(chan struct{}),
		proc:       strings.ToLower(rand.Text()[:12]),
		number:     mathrand.Int64N(1 << 52), // step.lua computes in float64
		hosts:      make(map[string]*host),
		asked:      make(map[string]*lease),
		others:     make(map[string]string),
		stats:      Stats{Refused: make(map[string]uint64)},
		promise:    promise(c, complete, rules.Backoff()),
	}
	l.conf.Processes = max(c.Processes, 1)
	for _, w := range complete.Windows {
		l.hours = append(l.hours, []any{w.From.Microseconds(), w.To.Microseconds()})
	}
	l.numbers, _ = simplelru.NewLRU[string, uint64](complete.MaxHosts, nil) // fails for sizes below 1
	for i := range partitions {
		l.parts = append(l.parts, &partition{l: l, tag: "{" + strconv.Itoa(i) + "}", guard: guard{late: firstLate}})
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.open, l.drain = context.WithCancel(l.ctx)
	return l, nil
}

// Close is [Limiter.Shutdown] with a second to tell the server.
func (l *Limiter) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return l.Shutdown(ctx)
}

// Shutdown refuses all waiters, tells the server what it doesn't know yet, and ends all goroutines
// of l. Slots of requests in flight stay taken until their leases are released, which then calls
// the server from the caller's goroutine, or for 10 s. It returns ctx's error if the server doesn't
// answer in time; what it couldn't be told it finds out by itself, as after a crash. Only the first
// call does anything but wait.
func (l *Limiter) Shutdown(ctx context.Context) error {
	l.mu.Lock()
	if first := !l.closed; first {
		for _, h := range l.hosts {
			for _, w := range slices.Clone(h.waiters) {
				w.refuse(ErrClosed)
			}
		}
		for _, p := range l.parts {
			p.flush()
		}
		l.closed = true
		l.unsubscribe()
		l.cancel()
		go func() {
			defer close(l.ended)
			l.wg.Wait()
			for _, p := range l.parts {
				l.wg.Go(p.last) // turns that were on the way
			}
			l.wg.Wait()
		}()
	}
	l.mu.Unlock()
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("redislimit: server %s wasn't told all in time: %w", l.server, ctx.Err())
	}
}

// Config implements [hostlimit.Limiter]: it returns the Limits that l was made of.
func (l *Limiter) Config() hostlimit.Config { return l.conf.Limits }

// ID implements [hostlimit.Limiter]: limiter is kept on the server, under the Prefix, and process
// is of l alone.
func (l *Limiter) ID(ctx context.Context) (limiter, process string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.patience)
	defer cancel()
	o := op{name: "limiter", h: &host{l: l, p: l.parts[0]}, build: func(time.Duration) []any {
		return []any{cmp.Or(l.id, strings.ToLower(rand.Text()[:16]))}
	}}
	_ = l.do(ctx, o, func(r reply) { l.id = text(r.answer[0]) }) // without an answer it is what it was
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id, l.proc
}

// Acquire implements [hostlimit.Limiter].
func (l *Limiter) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limits, err := l.rules.Limits(key)
	if err != nil {
		return nil, err
	}
	t := &lease{l: l, caller: l.caller(ctx), limits: limits, floor: max(floor, 0), wake: make(chan struct{}, 1)}
	if l.conf.Limits.Store != nil {
		if err := l.recall(ctx, key, limits); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	err = l.closes(key)
	if down := l.partition(key).down; err == nil && down != nil {
		err = unavailable(key, down) // the heartbeat finds out when the server is back
	} else if err == nil {
		t.h = l.host(key)
		t.draw()
		t.join()
		t.h.refuseLate()
	}
	l.mu.Unlock()
	if err == nil {
		err = t.wait(ctx)
	}
	if err == nil {
		return t, nil
	}
	if l.outageOf(key) != nil && errors.Is(err, ErrUnavailable) {
		return l.acquireLocal(ctx, limits, key, floor)
	}
	return nil, l.refused(err)
}

// closes is why nothing starts any more; nil: it does.
func (l *Limiter) closes(key string) error {
	switch {
	case l.closed:
		return ErrClosed
	case l.open.Err() != nil:
		return drained(key)
	}
	return nil
}

// Next implements [hostlimit.Limiter]. It costs a round trip.
func (l *Limiter) Next(ctx context.Context, key string, floor time.Duration) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	limits, err := l.rules.Limits(key)
	if err != nil {
		return time.Time{}, err
	}
	h, least := l.known(key), max(limits.Delay.Min, floor)
	var at time.Duration
	err = l.do(ctx, op{name: "peek", h: h, args: []any{micros(max(floor, 0)), limits.Concurrency, micros(least)}}, func(r reply) {
		h.learn(newHostInfo(r.answer[1:]), r)
		ahead := time.Duration(max(0, len(h.waiters)-1)) * least // one or two of them are on the server
		at = max(h.p.clock.surely(number(r.answer[0]), r.received)+ahead, h.refusals.Until, r.received)
	})
	out := l.outageOf(key)
	switch {
	case err == nil:
		return l.base.Add(at), nil
	case ctx.Err() != nil || errors.Is(err, ErrClosed):
		return time.Time{}, err
	case out == nil:
		return time.Time{}, unavailable(key, err)
	}
	l.mu.Lock()
	wait, _ := l.host(key).gate(l.now())
	l.mu.Unlock()
	gate := time.Now().Add(wait)
	next, err := out.hosts.Next(ctx, key, times(floor, l.conf.Processes))
	if next.Before(gate) {
		next = gate
	}
	return next, err
}
