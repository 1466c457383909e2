package redislimit

import (
	"context"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/internal/contexts"
	"github.com/go-politeness/politeness/redis/redislimit/internal/share"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

func (l *Limiter) newOutage() *outage {
	out := &outage{l: l}
	limits := share.Config(l.conf.Limits, l.conf.Processes)
	limits.Store = out
	hosts, err := memory.New(limits)
	if err != nil {
		panic(err) // New has checked it
	}
	out.hosts = hosts
	return out
}

// Update implements [hostlimit.Store] for the Memory of o.
func (o *outage) Update(
	_ context.Context, key string, change func(hostlimit.Debt) hostlimit.Debt,
) (hostlimit.Debt, error) {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	h := o.l.host(key)
	now := o.l.now()
	wall := time.Now()
	local := &h.local
	// Later calls return the same times, whatever the two clocks do.
	if local.of != o {
		local.of = o
		local.debt = shareOfDebt(&h.known.Refusals, o.l.conf.Processes, now, wall)
	}
	before := local.debt
	local.debt = change(before)
	if local.debt != before {
		h.owe(local.debt, now, wall)
		if h.p.down == nil { // the server is back, so no other restore follows
			h.restore(now, true)
		}
	}
	return local.debt, nil
}

// shareOfDebt returns the refusals s for one of n processes that go on without the server.
func shareOfDebt(s *rules.Refusals, processes int, now time.Duration, wall time.Time) hostlimit.Debt {
	debt := hostlimit.Debt{
		Refusals: s.Row,
		Unsure:   s.Unsure,
		Bans:     s.Bans,
		Cause:    s.Cause,
		Delay:    share.Times(s.Learned, processes),
	}
	if s.Until > now || rules.InARow(&debt) > 0 {
		debt.BlockedUntil = wall.Add(s.Until - now)
		debt.BlockedAt = wall
	}
	return debt
}

// owe makes d, which a Memory without the server has saved, the debt of h.
func (h *host) owe(d hostlimit.Debt, now time.Duration, wall time.Time) {
	s := rules.Refusals{
		Row:     d.Refusals,
		Unsure:  d.Unsure,
		Bans:    d.Bans,
		Alone:   rules.InARow(&d) > 0,
		Cause:   d.Cause,
		Learned: d.Delay / time.Duration(h.l.conf.Processes),
	}
	if !d.BlockedUntil.IsZero() {
		s.Until = now + d.BlockedUntil.Sub(wall)
	}
	// The gap that is running gets longer too, also for after the outage.
	h.raise(s.Learned)
	_, hi := h.p.clock.Bounds(now)
	h.known.Replace(s, wire.Micros((now+hi)/time.Microsecond))
	if s.Blocks(now) {
		h.known.BlockSeen = now
		h.refuseLate()
	}
}

// acquireLocal takes a turn from this process's share. It returns to the server as
// soon as that is back.
func (l *Limiter) acquireLocal(
	ctx context.Context, limits *hostlimit.Limits, key string, floor time.Duration,
) (hostlimit.Lease, error) {
	caller := l.caller(ctx)
	for {
		out := l.outageOf(key)
		if out == nil { // the server is back
			return l.Acquire(ctx, key, floor)
		}
		l.mu.Lock()
		now := l.now()
		over := l.partition(key).over
		wait, blocked := l.host(key).gate(now)
		l.mu.Unlock()
		// The Memory refuses a turn that comes too late by its own rules. This is about the gate.
		if now+wait > caller.limit {
			late := &hostlimit.Error{
				Key:     key,
				RetryAt: l.base.Add(now + wait),
				Err:     l.rules.TooLate(caller.byContext, blocked),
			}
			return nil, l.refused(late)
		}
		inner, err := out.acquire(ctx, over, key, floor, wait)
		// If only the outage is over, the server gives the turn.
		isBack := over.Err() != nil && ctx.Err() == nil
		if err != nil && !isBack {
			return nil, l.refused(err)
		}
		if inner == nil {
			continue
		}
		t := l.lendLocal(over, key, limits, inner, now-caller.arrived)
		if t != nil {
			return t, nil
		}
		inner.Release() // the server is back, and decides; or others have taken the last place
	}
}

// acquire waits for wait, if that isn't 0, or takes a turn; A nil result, with or without an error,
// means that there is none yet. over ends it like ctx does.
func (o *outage) acquire(
	ctx, over context.Context, key string, floor, wait time.Duration,
) (hostlimit.Lease, error) {
	either, stop := contexts.Either(ctx, over)
	defer stop()
	err := contexts.Sleep(either, wait)
	if err != nil || wait > 0 { // after a sleep the gate is looked at again
		return nil, err
	}
	return o.hosts.Acquire(either, key, share.Times(floor, o.l.conf.Processes))
}

// outageOf returns the outage that paces the requests for key; nil: the server paces them, or
// nothing starts any more.
func (l *Limiter) outageOf(key string) *outage {
	l.mu.Lock()
	defer l.mu.Unlock()
	over := l.partition(key).over
	if over == nil || over.Err() != nil {
		return nil
	}
	return l.down.outage
}

// gate returns how long a start without the server must wait for reasons that its Memory doesn't
// know: a grant of the server, a block that an earlier request has met, and a place in
// MaxInFlight and PerSite. The caller holds mu.
func (h *host) gate(now time.Duration) (wait time.Duration, blocked bool) {
	at, blocked := h.first()
	// Until then, processes that reach the server may still use the share of this one.
	wait = max(at, h.p.sent.heard+noticed) - now
	if h.l.places.isFull(h.site) {
		wait = max(wait, looking)
	}
	for _, t := range h.leases {
		// A turn that the server gave has a slot that the Memory doesn't count.
		if !t.use.unshared {
			wait = max(wait, looking)
		}
	}
	return wait, blocked
}

// lendLocal books a turn that this process gave itself, so that it is reported to the server when
// it is back; nil if it is back, or there is no place in MaxInFlight.
func (l *Limiter) lendLocal(
	over context.Context, key string, limits *hostlimit.Limits, inner hostlimit.Lease, waited time.Duration,
) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if over.Err() != nil {
		return nil
	}
	h := l.host(key)
	if l.places.isFull(h.site) {
		return nil
	}
	now := l.now()
	// It is a lease as after an Acquire, except that a restore reports it to the server.
	t := &lease{
		l:        l,
		h:        h,
		id:       l.newID(),
		limits:   limits,
		phase:    held,
		start:    start{began: now},
		use:      use{waited: spent{delay: waited}, renewed: now, unshared: true},
		hasPlace: true,
		local:    inner,
	}
	l.places.take(h.site)
	h.leases[t.id] = t
	return t
}
