// Package redislimit is a [hostlimit.Limiter] that many processes share through one Redis or
// Valkey. Together they are as polite as one.
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
// The promises of [hostlimit] for a key hold for all processes together that use the same server
// and Prefix. No two starts are closer than the delay in force, no more than Concurrency are in
// flight, and a refusal seen by one stops all. Give all of them the same Limits.
//
// # Time
//
// Only the server's clock decides, for Limits.Windows as well. Each process computes bounds for the
// server's time with its own monotonic clock. It starts a request only while these bounds prove
// that the server's clock is within the window that the server granted. So wall clocks may be wrong
// by hours, and a paused process doesn't start early.
//
// # Failure
//
// While the server can't be reached nothing starts, and Acquire returns a *hostlimit.Error that
// wraps a [*ServerError] ([FailClosed]). With [FailLocal], each process continues by itself at its
// share of the rate. When the server has lost its data, its clock was stepped, or it is new,
// nothing starts for a quarantine, in which all processes restore their state. It lasts the
// ReadTimeout of Config.Client and a second, at least 2 s. A process that shows no sign of life for
// 10 s has lost its slots. docs/many-machines-reference.md has what survives what, and how.
//
// The server should run with maxmemory-policy noeviction. If it evicts a key, the fleet forgets
// that host's state. [Limiter.Check] looks for that, and more.
//
// # For operators
//
// Block, Clear and List act on the whole fleet, [Limiter.Pause] stops it, and [Limiter.Fleet] lists
// its processes. The command politeness-fleet does the same from a shell.
package redislimit

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/redislimit/internal/clock"
	"github.com/go-politeness/politeness/redis/redislimit/internal/share"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// New returns a Limiter, or all problems of c together. It doesn't wait for the server.
func New(c Config) (*Limiter, error) {
	return newLimiter(c, -1, time.Now())
}

// quarantineOf is how long nothing starts after a loss of data: long enough for every live process,
// one that waits in vain for a reply as well, to reconnect and to restore what it holds.
func quarantineOf(patience time.Duration) time.Duration {
	return max(leastQuarantine, patience+2*heartbeat)
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
	setup, err := newSetup(c)
	if err != nil {
		return nil, err
	}
	setup.base = base
	setup.quarantine = quarantine
	if quarantine < 0 {
		setup.quarantine = quarantineOf(setup.patience)
	}
	l := &Limiter{
		setup:    setup,
		lifetime: lifetime{ended: make(chan struct{})},
		asked:    make(map[string]*lease),
		hosts:    make(map[string]*host),
		numbers:  numbers{calls: mathrand.Int64N(exact)},
		places: places{
			most:    setup.limits.MaxInFlight,
			perSite: setup.limits.PerSite,
			bySite:  make(map[string]int),
		},
		peers: peers{differ: make(map[string]string)},
		stats: Stats{Refused: make(map[string]uint64)},
	}
	l.numbers.starts, _ = simplelru.NewLRU[string, uint64](l.limits.MaxHosts, nil) // fails for sizes below 1
	partitions := 1
	if l.cluster {
		partitions = clusterPartitions
	}
	// The keys of a script must be on one node of a cluster: its hosts are spread over so many
	// tags.
	for i := range partitions {
		tag := "{" + strconv.Itoa(i) + "}"
		l.parts = append(l.parts, &partition{l: l, tag: tag, guard: clock.Guard{Late: clock.FirstLate}})
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.open, l.drain = context.WithCancel(l.ctx)
	return l, nil
}

// newSetup checks c, and computes everything that follows from it.
func newSetup(c Config) (setup, error) {
	var found problems
	set := setup{
		conf:       c,
		script:     step,
		failsLocal: c.Failure == FailLocal,
		deadAfter:  deadAfter,
		proc:       strings.ToLower(rand.Text()[:12]),
	}
	set.useClient(c.Client, &found)
	if strings.ContainsAny(c.Prefix, "{}") {
		found.add("Prefix: %q contains a brace", c.Prefix)
	}
	compiled, err := rules.New(c.Limits)
	if err != nil {
		found.add("Limits: %w", err)
	}
	switch {
	case c.Failure != FailClosed && c.Failure != FailLocal:
		found.add("Failure: %d is neither FailClosed nor FailLocal", c.Failure)
	case c.Processes < 0:
		found.add("Processes: %d is negative", c.Processes)
	case set.failsLocal && c.Processes == 0:
		found.add("Processes: FailLocal requires the number of processes")
	case set.failsLocal && err == nil:
		// Here, because newOutage has no caller who could get the error.
		if _, err := rules.New(share.Config(c.Limits, c.Processes)); err != nil {
			found.add("Limits, divided by Processes: %w", err)
		}
	}
	if len(found) > 0 {
		return setup{}, errors.Join(found...)
	}

	set.rules = compiled
	set.limits = compiled.Config()
	set.conf.Limits.PerSite = set.limits.PerSite // as hostlimit.Limiter.Config promises
	// No call covers all hosts, so each process bounds its own requests.
	if set.limits.MaxInFlight > 0 && c.Processes > 0 {
		set.limits.MaxInFlight = max(1, set.limits.MaxInFlight/c.Processes)
	}
	for _, w := range set.limits.Windows {
		set.windows = append(set.windows, wire.Hours{From: wire.MicrosOf(w.From), To: wire.MicrosOf(w.To)})
	}
	set.promise = promise(c, set.limits, compiled.Backoff())
	set.conf.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	set.conf.Processes = max(c.Processes, 1) // delays and slots are divided by it
	if c.Name == "" {
		machine, _ := os.Hostname() // without a name the number is left
		set.conf.Name = machine + ":" + strconv.Itoa(os.Getpid())
	}
	return set, nil
}

// useClient reads the options of client.
func (s *setup) useClient(client redis.UniversalClient, found *problems) {
	timeout := time.Duration(0)
	switch client := client.(type) {
	case nil:
		found.add("Client: is required")
	case *redis.Client:
		s.server = client.Options().Addr
		timeout = client.Options().ReadTimeout
	case *redis.ClusterClient:
		s.cluster = true
		s.server = strings.Join(client.Options().Addrs, ",")
		timeout = client.Options().ReadTimeout
	default:
		found.add("Client: a %T can't keep a script and its messages together; "+
			"use *redis.Client or *redis.ClusterClient", client)
	}
	if timeout <= 0 {
		timeout = defaultPatience // the client would wait without end
	}
	s.patience = min(max(timeout, heartbeat), mostPatience)
}

// problems are the problems of a Config.
type problems []error

func (p *problems) add(format string, args ...any) {
	*p = append(*p, fmt.Errorf("redislimit: "+format, args...))
}

// Close is [Limiter.Shutdown] with a second to reach the server.
func (l *Limiter) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return l.Shutdown(ctx)
}

// Shutdown refuses all waiters, sends the server everything that it doesn't have yet, and ends all
// goroutines of l. Slots of requests in flight stay taken until their leases are released, or for
// 10 s at most. After Shutdown, Release calls the server from the caller's goroutine. Shutdown
// returns ctx's error if the server doesn't respond in time. Then the server finds out by itself,
// as after a crash. Only the first call does anything but wait.
func (l *Limiter) Shutdown(ctx context.Context) error {
	l.mu.Lock()
	if !l.closed {
		l.shut()
	}
	l.mu.Unlock()
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("redislimit: server %s wasn't told all in time: %w", l.server, ctx.Err())
	}
}

// shut is the first Shutdown, without its wait. The caller holds mu.
func (l *Limiter) shut() {
	l.refuseAll(func(string) error { return ErrClosed })
	// Before closed is set, which stops all calls but the last.
	for _, p := range l.parts {
		p.flush()
	}
	l.closed = true
	l.unsubscribe()
	l.cancel()
	go func() {
		defer close(l.ended)
		l.wg.Wait()
		// A reply of a call that was under way may have left operations, such as the release of a
		// turn.
		for _, p := range l.parts {
			l.wg.Go(p.last)
		}
		l.wg.Wait()
	}()
}

// Config implements [hostlimit.Limiter]. It returns the Limits that l was made of.
func (l *Limiter) Config() hostlimit.Config { return l.conf.Limits }

// ID implements [hostlimit.Limiter]. The name limiter is kept on the server, under the Prefix, and
// process is of l alone.
func (l *Limiter) ID(ctx context.Context) (limiter, process string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.patience)
	defer cancel()
	o := op{
		h: &host{l: l, p: l.parts[0]},
		build: func(time.Duration) wire.Request {
			return &wire.GetName{Text: cmp.Or(l.id, strings.ToLower(rand.Text()[:16]))}
		},
	}
	// The server keeps the first name that it gets, so the response may be that of another process.
	_ = l.do(ctx, o, func(r reply) { l.id = r.answer.(*wire.Name).Text }) // without a response it stays as it is
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id, l.proc
}

// Acquire implements [hostlimit.Limiter].
func (l *Limiter) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limits, err := l.rules.Limits(key) // may call Override
	if err != nil {
		return nil, err
	}
	t := &lease{
		l:      l,
		limits: limits,
		floor:  max(floor, 0),
		blind:  floor < 0,
		wait:   wait{caller: l.caller(ctx), wake: make(chan struct{}, 1)},
	}
	// The server must have a debt of the Store before it gives a turn.
	if l.conf.Limits.Store != nil {
		if err := l.recall(ctx, key, limits); err != nil {
			return nil, err
		}
	}
	err = l.enter(t, key)
	if err == nil {
		err = t.await(ctx)
	}
	if err == nil {
		return t, nil
	}
	// Under FailLocal the server may be lost while the request waits, too.
	if errors.Is(err, ErrUnavailable) && l.outageOf(key) != nil {
		return l.acquireLocal(ctx, limits, key, floor)
	}
	return nil, l.refused(err)
}

// enter makes t wait for a turn of key, or returns why it can't get one.
func (l *Limiter) enter(t *lease, key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.closes(key); err != nil {
		return err
	}
	down := l.partition(key).down
	if down != nil {
		return unavailable(key, down) // the heartbeat finds out when the server is back
	}
	t.h = l.host(key)
	t.draw()
	t.join()
	t.h.refuseLate() // if it is known to be too late, no call is needed
	return nil
}

// closes returns the error of a start after Close or Drain; nil: neither was called.
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
	f := forecast{h: l.lookUp(key), least: max(limits.Delay.Min, floor)}
	peek := op{
		h: f.h,
		request: &wire.Peek{
			Floor: wire.MicrosOf(max(floor, 0)),
			Slots: limits.Concurrency,
			Least: wire.MicrosOf(f.least),
		},
	}
	err = l.do(ctx, peek, f.answered)
	out := l.outageOf(key)
	switch {
	case err == nil:
		return l.base.Add(f.at), nil
	case ctx.Err() != nil || errors.Is(err, ErrClosed):
		return time.Time{}, err
	case out == nil:
		return time.Time{}, unavailable(key, err)
	}
	// This process paces itself: by its Memory, and by the gate in front of that.
	l.mu.Lock()
	wait, _ := l.host(key).gate(l.now())
	l.mu.Unlock()
	gate := time.Now().Add(wait)
	next, err := out.hosts.Next(ctx, key, share.Times(floor, l.conf.Processes))
	if next.Before(gate) {
		next = gate
	}
	return next, err
}

// A forecast is the reply to peek.
type forecast struct {
	h     *host
	least time.Duration // smallest gap
	at    time.Duration // start of a request that came now
}

func (f *forecast) answered(r reply) {
	h := f.h
	peeked := r.answer.(*wire.Peeked)
	h.learn(peeked.Host, r)
	// One of the waiters here is on the server as well, maybe two.
	ahead := time.Duration(max(0, len(h.waiters)-1)) * f.least
	start := h.p.clock.Surely(peeked.At, r.received)
	f.at = max(start+ahead, h.known.Refusals.Until, r.received)
}
