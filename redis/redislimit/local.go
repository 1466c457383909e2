package redislimit

import (
	"context"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/contexts"
)

// noticed is how long it takes until the server has noticed that a process doesn't come any more,
// and the others leave it its share of the rate.
const noticed = 2500 * time.Millisecond

// An outage is a time without the server under FailLocal. Its Memory has this process's share, and
// what is known of a host as the debt of a Store: so the rules are those of hostlimit, and what it
// saves is what the server is told afterwards.
type outage struct {
	l     *Limiter
	hosts *hostlimit.Memory
}

func (l *Limiter) newOutage() *outage {
	out, limits := &outage{l: l}, share(l.conf.Limits, l.conf.Processes)
	limits.Store = out
	hosts, err := hostlimit.New(limits)
	if err != nil {
		panic(err) // New has checked it
	}
	out.hosts = hosts
	return out
}

// Update implements [hostlimit.Store] for the Memory of o.
func (o *outage) Update(_ context.Context, key string, change func(hostlimit.Debt) hostlimit.Debt) (hostlimit.Debt, error) {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	h := o.l.host(key)
	now := o.l.now()
	wall := time.Now()
	if h.debtOf != o { // later calls return the same, whatever the two clocks do
		s := &h.refusals
		h.debtOf, h.debt = o, hostlimit.Debt{Refusals: s.Row, Unsure: s.Unsure, Bans: s.Bans, Cause: s.Cause, Delay: times(s.Learned, o.l.conf.Processes)}
		if s.Until > now || h.debt.InARow() > 0 {
			h.debt.BlockedUntil, h.debt.BlockedAt = wall.Add(s.Until-now), wall
		}
	}
	was := h.debt
	if h.debt = change(was); h.debt != was {
		h.take(h.debt, now, wall)
		if h.p.down == nil { // the answer comes after the outage
			h.restore(now, true)
		}
	}
	return h.debt, nil
}

// take makes h owe what a Memory without the server has saved.
func (h *host) take(d hostlimit.Debt, now time.Duration, wall time.Time) {
	s := hostlimit.Refusals{Row: d.Refusals, Unsure: d.Unsure, Bans: d.Bans, Alone: d.InARow() > 0, Cause: d.Cause, Learned: d.Delay / time.Duration(h.l.conf.Processes)}
	if !d.BlockedUntil.IsZero() {
		s.Until = now + d.BlockedUntil.Sub(wall)
	}
	h.raise(s.Learned)
	_, later := h.p.clock.bounds(now)
	h.refusals = s
	h.until = 0
	h.earliest = s.Until
	h.version = max(h.version+1, int64((now+later)/time.Microsecond))
	if s.Blocks(now) {
		h.blocked = now
		h.refuseLate()
	}
}

// acquireLocal takes a turn from this process's share. It returns to the server as
// soon as that is back.
func (l *Limiter) acquireLocal(ctx context.Context, limits *hostlimit.Limits, key string, floor time.Duration) (hostlimit.Lease, error) {
	c := l.caller(ctx)
	for {
		out := l.outageOf(key)
		if out == nil {
			return l.Acquire(ctx, key, floor)
		}
		l.mu.Lock()
		now, over := l.now(), l.partition(key).over
		wait, blocked := l.host(key).gate(now)
		l.mu.Unlock()
		if now+wait > c.limit {
			return nil, l.refused(&hostlimit.Error{Key: key, RetryAt: l.base.Add(now + wait), Err: l.rules.TooLate(c.byContext, blocked)})
		}
		var shared contexts.Wait
		shared.Under(ctx, over.Done(), nil)
		var inner hostlimit.Lease
		err := contexts.Sleep(&shared, wait)
		if err == nil && wait <= 0 { // else it looks again
			inner, err = out.hosts.Acquire(&shared, key, times(floor, l.conf.Processes))
		}
		shared.End()
		if err != nil && (over.Err() == nil || ctx.Err() != nil) {
			return nil, l.refused(err)
		}
		if inner != nil {
			if t := l.lendLocal(over, key, limits, inner, now-c.arrived); t != nil {
				return t, nil
			}
			inner.Release() // the server is back, and decides; or others have taken the last place
		}
	}
}

// outageOf returns what paces the requests for key; nil: the server, or nothing starts any more.
func (l *Limiter) outageOf(key string) *outage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if over := l.partition(key).over; over == nil || over.Err() != nil {
		return nil
	}
	return l.outage
}

// looking is the time between two looks at what has no known end.
const looking = 20 * time.Millisecond

// gate returns how long a start without the server must wait for what its Memory doesn't know: for
// what the server granted, for a block that a request of before has met, and for a place in
// MaxInFlight. The caller holds mu.
func (h *host) gate(now time.Duration) (wait time.Duration, blocked bool) {
	at, blocked := h.first()
	// Until noticed those that can reach the server may not have left this process its share.
	wait = max(at, h.p.heard+noticed) - now
	if h.l.isFull() {
		wait = max(wait, looking)
	}
	for _, t := range h.leases {
		if !t.alone {
			wait = max(wait, looking)
		}
	}
	return wait, blocked
}

// lendLocal books a turn that this process gave itself, so that the server hears of it when it is
// back; nil if it is back, or there is no place in MaxInFlight.
func (l *Limiter) lendLocal(over context.Context, key string, limits *hostlimit.Limits, inner hostlimit.Lease, waited time.Duration) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if over.Err() != nil || l.isFull() {
		return nil
	}
	h, now := l.host(key), l.now()
	t := &lease{l: l, h: h, id: l.newID(), limits: limits, phase: held, local: inner, alone: true, holds: true, began: now, renewed: now, waited: [3]time.Duration{delay: waited}}
	l.inFlight++
	h.leases[t.id] = t
	return t
}

// share divides the limits by the number of processes.
func share(c hostlimit.Config, processes int) hostlimit.Config {
	all := shareOf(hostlimit.Limits{Concurrency: c.Concurrency, Delay: c.Delay}.WithDefaults(), processes)
	c.Concurrency, c.Delay = all.Concurrency, all.Delay
	c.MaxInFlight, c.Store = 0, nil // the Limiter counts, and keeps
	if override := c.Override; override != nil {
		c.Override = func(key string) (hostlimit.Limits, bool) {
			l, ok := override(key)
			return shareOf(l, processes), ok
		}
	}
	return c
}

// shareOf returns the part of l that is left to one of n processes: n times the delays and one n-th
// of the slots, at least one. Zero fields, which Override leaves to the Config, stay zero.
func shareOf(l hostlimit.Limits, n int) hostlimit.Limits {
	if l.Concurrency > 0 {
		l.Concurrency = max(1, l.Concurrency/n)
	}
	if d := &l.Delay; *d != (hostlimit.Delay{}) {
		*d = d.WithDefaults()
		d.Min, d.Max, d.Ceiling = times(d.Min, n), times(d.Max, n), times(d.Ceiling, n)
	}
	return l
}

// times returns n times d, and at most longest.
func times(d time.Duration, n int) time.Duration {
	if d > longest/time.Duration(n) {
		return longest
	}
	return d * time.Duration(n)
}
