// Package memory is the limiter of one process, a [hostlimit.Limiter] without a server. Use it
// through politeness.New, which makes one, or by itself to pace work on many keys.
//
// A file has one concern, and uses those below it in this list:
//
//	memory.go   New, Acquire and Next
//	control.go  the acts of an operator; list.go: the states of hosts, for a status page
//	lease.go    one turn, from Start to Release
//	keep.go     the delays and blocks of a key, kept in Config.Store
//	runs.go     the pace over processes that follow each other
//	wait.go     the wait of a request in the queue of its key
//	watch.go    why a request waits
//	queue.go    who waits and what is in flight: pure steps, with the table of states
//	shard.go    where hosts are kept
//	host.go     what a key owes: pure steps
//	places.go   MaxInFlight and PerSite
//	clock.go    the clock of a Limiter
//	state.go    all structs, with who owns what
package memory

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

const (
	mostShards = 64 // a power of two, as every number of shards: see Limiter.shard
	leastHosts = 64 // of a shard, fewer of which would be a poor sample for evict
)

// New returns a Limiter with the rules of c. The error names every field that is wrong. Use it to
// share a limiter between Transports.
func New(c hostlimit.Config) (*Limiter, error) {
	r, err := rules.New(c)
	if err != nil {
		return nil, err
	}
	full := r.Config()
	c.PerSite = full.PerSite // as Config promises
	m := &Limiter{
		rules:       r,
		config:      c,
		made:        time.Now(),
		hours:       r.Hours(),
		id:          fmt.Sprintf("%016x", rand.Uint64()),
		seed:        maphash.MakeSeed(),
		slotTimeout: cmp.Or(c.SlotTimeout, rules.Never),
		leaseTTL:    full.LeaseTTL,
		maxWait:     full.MaxWait,
		forgive:     r.Backoff().Forgive,
	}
	n := mostShards // so that requests to different hosts hardly ever wait for one lock
	for n > 1 && full.MaxHosts/n < leastHosts {
		n /= 2
	}
	m.shards = make([]shard, n)
	for i := range m.shards {
		m.shards[i].m = m
		m.shards[i].hosts = make(map[string]*host)
	}
	m.hostsPerShard = full.MaxHosts / n
	if full.MaxInFlight > 0 {
		m.places = &places{mu: new(sync.Mutex), max: full.MaxInFlight, ttl: full.LeaseTTL, due: rules.Never}
	}
	if full.PerSite > 0 {
		m.sites = newSites(full.PerSite, full.LeaseTTL)
	}
	return m, nil
}

// Config implements Limiter. It returns the Config that New received, with the PerSite in force.
func (m *Limiter) Config() hostlimit.Config { return m.config }

// ID implements Limiter. The limiter is a random number, and the process is empty.
func (m *Limiter) ID(context.Context) (limiter, process string) { return m.id, "" }

// Acquire implements Limiter. If ctx is cancelled before the request may start, the error is
// ctx.Err() itself. If the request can't start before the deadline of ctx, it fails as soon as that
// is known. That may be immediately, or later in the queue because of a block, a slow response or a
// long random delay. It is an error, too, if Override returns limits that make no sense.
func (m *Limiter) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	// The context, Override and the Store are code of the user's: they are called under no lock.
	c := callerOf(ctx)
	if c.err != nil {
		return nil, c.err
	}
	lim, err := m.rules.Limits(key)
	if err != nil {
		return nil, err
	}
	h, err := m.load(ctx, key, lim, toUse)
	if err != nil {
		return nil, err
	}
	m.pay(h, lim, floor)
	sh := m.shard(key)
	l, w, err := sh.enter(&c, key, lim, floor)
	if w != nil {
		l, err = w.wait(ctx, key)
	}
	if err != nil {
		m.payLater(ctx, h, lim, floor)
		sh.addNews(h, err)
		return nil, err
	}
	return l, nil
}

// enter is the arrival of a request: it gets a lease, joins the queue, or is refused.
func (sh *shard) enter(c *caller, key string, lim *hostlimit.Limits, floor time.Duration) (*lease, *waiter, error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	m := sh.m
	now := m.now()
	h := sh.get(key, now)
	floor = h.known(floor)
	a := sh.active(h)
	defer sh.free(a) // the turn may be refused
	a.refresh(now)
	if err := sh.stop(h, now); err != nil {
		return nil, nil, err
	}
	if a.queue.First == nil { // nearly always
		if why, _ := a.waitCause(lim, floor, now, nil); why == free {
			return a.grant(lim, floor, now, c.name), nil, nil
		}
	}
	w := sh.newWaiter(c, lim, floor, now)
	prev := a.behind(w)
	w.planned = a.bound(now, lim, floor, prev)
	if w.planned > w.latest { // the start would come too late
		if a.queue.First == nil {
			a.leavePlaces() // waitCause may have joined a line
		}
		return nil, nil, &hostlimit.Error{
			Key:     key,
			RetryAt: m.at(w.planned),
			Err:     m.rules.TooLate(w.byContext, a.blocked(w.latest)),
			ByHand:  h.act(),
		}
	}
	a.join(w, prev, now)
	if a.queue.Last != w { // w has gone ahead of others by its priority, and they start later now
		a.refuseLate(now)
	}
	return nil, w, nil
}

// Next implements Limiter. For each request ahead in the queue it counts the shortest possible
// delay. It ignores waits with an unknown end, such as for a slot in use. An unknown key can start
// now.
func (m *Limiter) Next(ctx context.Context, key string, floor time.Duration) (time.Time, error) {
	c := callerOf(ctx)
	if c.err != nil {
		return time.Time{}, c.err
	}
	lim, err := m.rules.Limits(key)
	if err != nil {
		return time.Time{}, err
	}
	h, err := m.load(ctx, key, lim, toUse)
	if err != nil {
		return time.Time{}, err
	}
	m.pay(h, lim, floor)
	next := m.shard(key).next(key, lim, max(0, floor), c.priority)
	if !c.deadline.IsZero() && next.After(c.deadline) {
		m.payLater(ctx, h, lim, floor)
	}
	return next, nil
}

// next is Next for the key as this process knows it.
func (sh *shard) next(key string, lim *hostlimit.Limits, floor time.Duration, priority int) time.Time {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	m := sh.m
	now := m.now()
	h := sh.hosts[key]
	if h == nil { // a question makes no host known
		return m.at(m.open(now))
	}
	sh.forgive(h, now)
	a := h.active
	if a == nil { // no request is in flight, and none waits
		return m.at(m.open(h.first(now, floor)))
	}
	prev := a.behind(&waiter{priority: priority})
	return m.at(a.bound(now, lim, floor, prev))
}
