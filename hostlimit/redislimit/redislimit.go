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
//	transport, err := politeness.New(politeness.Config{UserAgent: ua, Hosts: hosts})
//
// What a key promises is what [hostlimit] promises, for all processes together that use the same
// server and Prefix: no two starts closer than the delay in force, no more than Concurrency in
// flight, and a refusal seen by one holds all. Give all of them the same Limits.
//
// # Time
//
// Only the server's clock decides. Each process bounds it on its own monotonic clock, from the
// replies it gets, and starts a request only while it can prove that the server's clock is within
// the small window that the server granted (the guard); a Start that comes later, and one that is
// repeated, asks the server again, and no turn is lost. So wall clocks of the processes may be
// wrong by hours, and a paused process doesn't start early. The guard, a millisecond or so on an
// idle machine, comes on top of each delay.
//
// Hours of Limits.Windows are those of the server's clock.
//
// # Answers
//
// The server counts what hosts answer: failures in a row, refusals in a row, and the starts by
// which a delay is learned are those of all processes, and what one Observe changes holds for all
// of them when it returns. Observe waits for that where an answer may change more than a delay:
// after a refusal, a failure, a limit of which nothing is left, the answer to a probe, and the
// first success after any of them. Any other success is told with the next call of its process, in
// half a second at the latest; so a success ends a row of failures that others have begun since its
// start that much later. Failures in a row are forgotten an hour after the last, and a learned
// delay after a week in which nobody has asked for the host.
//
// # Failure
//
// While the server can't be reached nothing starts, and Acquire returns a *hostlimit.Error that
// wraps a [*ServerError] ([FailClosed]); or each process goes on by itself at its share of the rate
// ([FailLocal]). When the server has lost its data, or has just been put into service, nothing
// starts for 2 s, in which the processes tell it again what they hold: slots, next starts, blocks,
// what they have learned. Only what a process that has ended since then knew is lost. Its requests
// ended with it, and the next start on a host may come early by what is left of the delay after its
// last one beyond those 2 s: less than one delay, once, and nothing where the delay is below 2 s.
//
// A killed process holds its slots until LeaseTTL.
//
// # Numbers
//
// The server numbers a start when it lets it go. A number of which no start came, by a
// turn that was released or that missed its window, is used again, unless a later start of the
// host had been let go by then: that leaves a hole.
//
// The server should run with maxmemory-policy noeviction: an evicted key is a
// forgotten debt. Every key has an expiry later than what it owes.
package redislimit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/internal/kit"
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

	// Limits as for one process. MaxInFlight bounds the requests of this process;
	// all the rest holds for all processes together. MaxHosts has no use here but
	// for [FailLocal]: keys on the server expire when nothing is owed.
	Limits hostlimit.Config

	// Failure says what happens while the server can't be reached.
	Failure Failure

	// Processes is the number of processes that share the limits. FailLocal divides the
	// rate by it, and requires it; FailClosed has no use for it.
	Processes int

	// OnFailure, if not nil, is told when the server is lost and when it is back, once each; a
	// place to record it as evidence. It is called from one of the Limiter's goroutines and must be
	// quick.
	OnFailure func(Event)
}

// Times of the design. Variables, so that tests can do without the waits.
const (
	defaultPrefix = "politeness:"

	// A quarantine after a loss of data is long enough for every live process to
	// reconnect and to tell what it holds, which it does within a heartbeat.
	quarantine = 2 * time.Second
	heartbeat  = 500 * time.Millisecond

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
	client    redis.UniversalClient
	prefix    string
	server    string
	cluster   bool
	limits    hostlimit.Config
	rules     *kit.Rules
	onFailure func(Event)
	alone     bool             // FailLocal
	share     hostlimit.Config // of each process then
	processes int

	hours      string // rules.Hours, for step.lua
	quarantine time.Duration
	base       time.Time // origin of all times of this process
	proc       string    // names this process on the server
	ctx        context.Context
	cancel     context.CancelFunc
	wg         sync.WaitGroup // every goroutine

	mu        sync.Mutex // never held across a wait
	closed    bool
	seq       uint64
	parts     []*partition
	hosts     map[string]*host
	asked     map[string]*waiter // those that the server may push to, by lease id
	listening bool               // the subscription is up
	pubsub    *redis.PubSub
	inFlight  int
	pending   []*waiter // for a place in MaxInFlight
	down      int       // partitions whose server can't be reached
	outage    *outage   // with FailLocal, while there are any
	events    []Event   // to be told, outside of mu
}

// New returns a Limiter, or all problems of c at once. It doesn't wait for the server.
func New(c Config) (*Limiter, error) {
	return newLimiter(c, quarantine, time.Now())
}

// newLimiter is New with the parts that tests replace: base is the origin of this process's clock.
func newLimiter(c Config, quarantine time.Duration, base time.Time) (*Limiter, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("redislimit: "+format, args...)) }

	partitions, server, cluster := 1, "", false
	switch client := c.Client.(type) {
	case nil:
		bad("Client: is required")
	case *redis.Client:
		server = client.Options().Addr
	case *redis.ClusterClient:
		partitions, server, cluster = clusterPartitions, strings.Join(client.Options().Addrs, ","), true
	default:
		bad("Client: a %T can't keep a script and its messages together; use *redis.Client or *redis.ClusterClient", client)
	}
	if strings.ContainsAny(c.Prefix, "{}") {
		bad("Prefix: %q contains a brace", c.Prefix)
	}
	compiled, err := rules(c.Limits)
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
		if _, err := rules(share(c.Limits, c.Processes)); err != nil {
			bad("Limits, divided by Processes: %w", err)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}

	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	l := &Limiter{
		client:     c.Client,
		prefix:     c.Prefix,
		server:     server,
		cluster:    cluster,
		limits:     c.Limits,
		rules:      compiled,
		onFailure:  c.OnFailure,
		alone:      c.Failure == FailLocal,
		processes:  max(c.Processes, 1),
		hours:      hours(compiled.Hours),
		quarantine: quarantine,
		base:       base,
		proc:       strings.ToLower(rand.Text()[:12]),
		hosts:      make(map[string]*host),
		asked:      make(map[string]*waiter),
	}
	for i := range partitions {
		l.parts = append(l.parts, &partition{l: l, tag: "{" + strconv.Itoa(i) + "}", guard: guard{firstLate}})
	}
	if l.alone {
		l.share = share(c.Limits, c.Processes)
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.wg.Go(l.listen)
	l.wg.Go(l.beat)
	return l, nil
}

// Close refuses all waiters, tells the server what it doesn't know yet, and ends all goroutines of
// l. Slots of requests in flight stay taken until their leases are released, which then calls the
// server from the caller's goroutine. Only the first call does anything; Close always returns nil.
func (l *Limiter) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		l.wg.Wait()
		return nil
	}
	for _, h := range l.hosts {
		for _, w := range slices.Clone(h.waiters) {
			w.refuse(ErrClosed)
		}
	}
	for _, p := range l.parts {
		p.flush()
	}
	l.closed = true
	if l.pubsub != nil {
		_ = l.pubsub.Close() // unblocks listen; there is nothing to do about an error
	}
	l.mu.Unlock()
	l.cancel()
	l.wg.Wait()
	for _, p := range l.parts {
		p.last() // turns that were on the way
	}
	return nil
}

// Config implements [hostlimit.Limiter]: it returns the Limits that l was made of.
func (l *Limiter) Config() hostlimit.Config { return l.limits }

// now is the time on this process's monotonic clock.
func (l *Limiter) now() time.Duration { return time.Since(l.base) }

// newID names a lease. It carries what step.lua must know of the lease.
func (l *Limiter) newID(delay, floor time.Duration, fromEnd bool) string {
	l.seq++
	b := make([]byte, 0, 48)
	b = append(b, l.proc...)
	b = strconv.AppendUint(append(b, '.'), l.seq, 10)
	b = strconv.AppendInt(append(b, '.'), micros(delay), 10)
	b = strconv.AppendInt(append(b, '.'), micros(floor), 10)
	if fromEnd {
		b = append(b, 'e')
	}
	return string(b)
}

// hours writes h for step.lua.
func hours(h kit.Hours) string {
	var b strings.Builder
	for _, w := range h {
		fmt.Fprintf(&b, "%d-%d,", w.From.Microseconds(), w.To.Microseconds())
	}
	return b.String()
}

// micros rounds up: a gap may only grow by it.
func micros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return min(us, 1<<50) // 35 years; step.lua computes in float64
}

func (l *Limiter) partition(key string) *partition {
	if len(l.parts) == 1 {
		return l.parts[0]
	}
	f := fnv.New32a()
	_, _ = f.Write([]byte(key)) // never fails
	return l.parts[f.Sum32()%uint32(len(l.parts))]
}
