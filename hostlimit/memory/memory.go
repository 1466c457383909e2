// Package memory is the limiter of one process: a [hostlimit.Limiter] without a server. Use it
// through politeness.New, which makes one, or by itself to pace work on many keys.
//
// A file has one concern: host.go what a key owes, queue.go who waits and what is in flight,
// lease.go one turn, places.go MaxInFlight, keep.go the debt in a Store, control.go what an
// operator does, shard.go where hosts are kept.
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

// A Limiter paces the requests of one process, with less than two hundred bytes per idle host. It
// starts no goroutine: time passes in the callers' own, so there is nothing to close, and
// everything works in a testing/synctest bubble. It is safe for concurrent use and must not be
// copied.
//
// Stamps are taken from the monotonic clock, counted from the time of day of the first use. So the
// gaps between them are exact, also where the machine's clock was set in between.
type Limiter struct {
	rules         *rules.Rules
	config        hostlimit.Config
	id            string
	began         sync.Once
	base          time.Time     // of the first use
	made          time.Time     // by New
	born          time.Duration // made, or when this process took the Store if that was later; 0 or less
	seed          maphash.Seed
	shards        []shard
	hostsPerShard int
	hours         rules.Hours
	slotTimeout   time.Duration // never: MaxWait bounds the wait for a slot
	leaseTTL      time.Duration
	maxWait       time.Duration
	forgive       time.Duration // after the end of a block, when its refusals are forgotten
	places        *places       // nil without MaxInFlight
	drain         drain
}

const (
	mostShards = 64 // a power of two, as every number of shards: see Limiter.shard
	leastHosts = 64 // of a shard, fewer of which would be a poor sample for evict
)

// New returns a Limiter with the rules of c. The error names every field that is wrong.
func New(c hostlimit.Config) (*Limiter, error) {
	r, err := rules.New(c)
	if err != nil {
		return nil, err
	}
	full := r.Config()
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
		m.places = &places{max: full.MaxInFlight, ttl: full.LeaseTTL, due: rules.Never}
	}
	return m, nil
}

// Config implements Limiter: it returns the Config that New received.
func (m *Limiter) Config() hostlimit.Config { return m.config }

// ID implements Limiter: limiter is a random number, process is empty.
func (m *Limiter) ID(context.Context) (limiter, process string) { return m.id, "" }

// now counts from the first use: a Limiter that was made outside of a synctest bubble, perhaps as
// part of a preset, works inside of one.
func (m *Limiter) now() time.Duration {
	m.began.Do(m.begin) // not in New, which may have run in another bubble
	return time.Since(m.base)
}

// begin begins the count of now.
func (m *Limiter) begin() {
	m.base = time.Now()
	if store, ok := m.config.Store.(interface{ Since() time.Time }); ok {
		m.made = laterOf(m.made, store.Since()) // another process had it before
	}
	// If New ran in another bubble, or the clock was set since, the shorter time is right or safe.
	byWall := m.base.Round(0).Sub(m.made.Round(0))
	m.born = -max(0, min(m.base.Sub(m.made), byWall))
}

// open returns the earliest time from t on that is in Config.Windows. Those are times of the clock
// on the wall, which may have been set since the first use.
func (m *Limiter) open(t time.Duration) time.Duration {
	if len(m.hours) == 0 || t == rules.Never {
		return t
	}
	return rules.Add(t, m.hours.Wait(m.wall(t)))
}

// closes returns a time before which Config.Windows stop no request; never if they don't stop any.
func (m *Limiter) closes(now time.Duration) time.Duration {
	if left := m.hours.Left(m.wall(now)); left > 0 {
		return rules.Add(now, left)
	}
	return rules.Never
}

// wall returns t by the clock on the wall as it is set now; at returns it as it was at the first
// use.
func (m *Limiter) wall(t time.Duration) time.Time { return time.Now().Add(t - m.now()) }

// shard returns the shard of key.
func (m *Limiter) shard(key string) *shard {
	return &m.shards[maphash.String(m.seed, key)&uint64(len(m.shards)-1)]
}

// Acquire implements Limiter. If ctx is cancelled before the request may start, the error is
// ctx.Err() itself. If the deadline of ctx is known to come first, the turn is refused: at once, or
// in the queue when a block, a slow answer or a long random delay makes the deadline impossible, or
// when it passes there. It is an error, too, if Override returns limits that make no sense.
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
	} else if err != nil {
		m.handOut() // a granted turn has found the places as they were
	}
	if err != nil {
		m.payLater(ctx, h, lim, floor)
		sh.addNews(h, err)
		return nil, err
	}
	return l, nil
}

// enter is the arrival of a request: it gets a lease, joins the queue, or is refused. Places may
// become free: call handOut afterwards.
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
			return a.grant(lim, floor, now, c.watcher), nil, nil
		}
	}
	w := sh.newWaiter(c, lim, floor, now)
	prev := a.behind(w)
	w.planned = a.bound(now, lim, floor, prev)
	if w.planned > w.latest { // no wait helps
		if a.queue.First == nil {
			a.leaveLine() // waitCause may have joined it
		}
		return nil, nil, &hostlimit.Error{
			Key:     key,
			RetryAt: m.at(w.planned),
			Err:     m.rules.TooLate(w.byContext, a.blocked(w.latest)),
			ByHand:  h.act(),
		}
	}
	a.join(w, prev, now)
	if a.queue.Last != w { // w has priority over others, which start later now
		a.refuseLate(now)
	}
	return nil, w, nil
}

// Next implements Limiter. It counts the queue ahead with the smallest delays that there can be,
// and nothing without a known end, such as a slot that is held. An unknown key can start now.
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
