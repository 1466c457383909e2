package redislimit

import (
	"context"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// noticed is how long it takes until the server has noticed that a process doesn't come any more,
// and the others leave it its share of the rate.
const noticed = 2500 * time.Millisecond

// An outage is a time without the server under FailLocal.
type outage struct {
	hosts *hostlimit.Memory // this process's share
	over  context.Context   // done when the server is back
	end   context.CancelFunc
}

func (l *Limiter) newOutage() *outage {
	hosts, err := hostlimit.New(l.share)
	if err != nil {
		panic(err) // New has checked it
	}
	over, end := context.WithCancel(l.ctx)
	return &outage{hosts, over, end}
}

// acquireLocal takes a turn from this process's share. It returns to the server as
// soon as that is back.
func (l *Limiter) acquireLocal(ctx context.Context, limits *hostlimit.Limits, key string, floor time.Duration) (hostlimit.Lease, error) {
	limit, byContext := l.latest(ctx)
	arrived := l.now()
	for {
		l.mu.Lock()
		out := l.outage
		if out == nil || l.closed {
			l.mu.Unlock()
			return l.Acquire(ctx, key, floor)
		}
		h := l.host(key)
		taught := h.refusals.Learned > floor
		g, wait, blocked := h.gate(l.now())
		if limit > 0 && l.now()+wait > limit {
			l.mu.Unlock()
			return nil, &hostlimit.Error{Key: key, RetryAt: time.Now().Add(wait), Err: l.rules.TooLate(byContext, blocked)}
		}
		probe := wait == 0 && g == nil && h.refusals.Alone
		if probe {
			h.probe = make(chan struct{})
		}
		least := max(floor, h.refusals.Learned, 0)
		l.mu.Unlock()

		if wait > 0 || g != nil {
			if err := out.pause(ctx, g, wait); err != nil {
				return nil, err
			}
			continue
		}
		waited := l.now() - arrived
		shared, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(out.over, cancel)
		inner, err := out.hosts.Acquire(shared, key, times(least, l.processes))
		stop()
		cancel()

		l.mu.Lock()
		full := l.full()
		if err == nil && l.outage == out && full == nil {
			t := l.lendLocal(h, limits, inner, probe, waited)
			t.taught = taught
			l.mu.Unlock()
			return t, nil
		}
		if probe {
			h.probed()
		}
		l.mu.Unlock()
		switch {
		case err == nil && full != nil:
			inner.Release() // it is had again once there is a place
			if err := out.pause(ctx, full, 0); err != nil {
				return nil, err
			}
		case err == nil:
			inner.Release() // the server is back, and decides
		case out.over.Err() == nil || ctx.Err() != nil:
			return nil, err
		}
	}
}

// pause waits for g, if it isn't nil, or for d, but not longer than the outage.
func (o *outage) pause(ctx context.Context, g <-chan struct{}, d time.Duration) error {
	var due <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-g:
	case <-due:
	case <-o.over.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// gate says what a start without the server must wait for beside its share: for what the server
// granted to be over, for a block known from before, and then for a probe. The caller holds mu.
func (h *host) gate(now time.Duration) (g <-chan struct{}, wait time.Duration, blocked bool) {
	// Until then those that can reach the server may not have left this process its share.
	if at := h.p.heard + noticed; at > now {
		return nil, at - now, false
	}
	if at := max(h.next, h.refusals.Until, h.presumed); at > now {
		return nil, at - now, at > h.next
	}
	for _, t := range h.leases {
		if !t.alone {
			if h.idle == nil {
				h.idle = make(chan struct{})
			}
			return h.idle, 0, false
		}
	}
	return h.probe, 0, h.probe != nil
}

// probed lets the next one try after a block.
func (h *host) probed() {
	if h.probe != nil {
		close(h.probe)
		h.probe = nil
	}
}

// lendLocal books a turn that this process gave itself, so that the server hears
// of it when it is back.
func (l *Limiter) lendLocal(h *host, limits *hostlimit.Limits, inner hostlimit.Lease, probe bool, waited time.Duration) *localLease {
	now := l.now()
	id, number := l.newID()
	t := &lease{l: l, h: h, id: id, number: number, limits: limits, alone: true, began: now, renewed: now}
	if l.complete.MaxInFlight > 0 {
		l.inFlight++
		t.holds = true
	}
	h.leases[t.id] = t
	return &localLease{lease: t, inner: inner, waited: waited, first: probe, probe: probe}
}

// A localLease is a turn of a process without its server.
type localLease struct {
	lease  *lease
	inner  hostlimit.Lease
	waited time.Duration // before it was the turn of inner
	first  bool          // after a block
	probe  bool          // guarded by mu: others wait for its answer
	taught bool          // the floor is what the host's refusals had taught before
}

// Start implements [hostlimit.Lease].
func (t *localLease) Start(ctx context.Context) (hostlimit.Grant, error) {
	g, err := t.inner.Start(ctx)
	if err != nil {
		return g, err
	}
	l, h := t.lease.l, t.lease.h
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	t.lease.started, t.lease.began, t.lease.renewed = true, now, now
	h.seq++
	t.lease.seq = h.seq
	g.Seq, g.Prev, g.BlockedUntil, g.TakenBack = t.lease.seq, time.Time{}, time.Time{}, nil
	t.lease.granted.delay = g.Delay / time.Duration(l.processes) // what the fleet owes
	if !h.started {
		h.began = now
	}
	h.started, h.last = true, now
	h.next = max(h.next, now+t.lease.granted.delay)
	g.WaitDelay += t.waited
	g.Probe = g.Probe || t.first
	if t.taught && g.DelaySource == "crawl-delay" {
		g.DelaySource = "learned"
	}
	return g, nil
}

// Observe implements [hostlimit.Lease]. It judges o by what the share of this process has seen and
// by what the server said before: so a host that was blocked is probed, and pages that were
// suspected still are. The server is told later.
func (t *localLease) Observe(o hostlimit.Outcome) hostlimit.Effect {
	share := t.inner.Observe(o)
	l, h, limits, r := t.lease.l, t.lease.h, t.lease.limits, t.lease.l.rules
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.lease.observed || t.lease.released {
		return share
	}
	t.lease.observed, t.lease.unanswered = true, o.Status == 0 && r.Meaning(o) != neutral
	defer t.answered()
	now := l.now()
	s := h.refusals
	s.Forgive(r, now)
	s.SetAt = uint64(h.blocked)
	if r.Meaning(o) == serves {
		h.served++
	}
	e := s.Observe(r, o, hostlimit.Turn{
		Now: now, Number: uint64(t.lease.began), Last: uint64(now), Probe: t.probe,
		Delay: &limits.Delay, Gap: t.lease.granted.delay, Since: now - h.began, Served: h.served,
	})
	if s.Lessons != h.refusals.Lessons {
		h.began, h.served = now, 0
		defer h.raise(s.Learned)
	}
	_, later := h.p.clock.bounds(now)
	h.refusals, h.version = s, max(h.version+1, int64((now+later)/time.Microsecond))
	e.Cleared, e.Own = e.Cleared || share.Cleared, e.Own || share.Own
	if e.Blocked = e.Blocked || share.Blocked; e.Blocked {
		h.refusals.Until, h.blocked = max(s.Until, now+time.Until(share.Until)), now
		h.untilTold = h.refusals.Until
		h.weed()
	}
	if h.refusals.Blocks(now) {
		e.Until = l.base.Add(h.refusals.Until)
	}
	return e
}

// answered ends a probe.
func (t *localLease) answered() {
	if t.probe {
		t.probe = false
		t.lease.h.probed()
	}
}

// Renew implements [hostlimit.Lease].
func (t *localLease) Renew() {
	t.inner.Renew()
	t.lease.Renew()
}

// Release implements [hostlimit.Lease].
func (t *localLease) Release() (expired bool) {
	expired = t.inner.Release()
	t.lease.l.mu.Lock()
	t.answered()
	t.lease.l.mu.Unlock()
	t.lease.Release()
	return expired
}

// nextLocal is Next while the server is away.
func (l *Limiter) nextLocal(ctx context.Context, key string, floor time.Duration) (time.Time, error) {
	l.mu.Lock()
	out, h := l.outage, l.host(key)
	at, least := l.base.Add(max(h.next, h.refusals.Until, h.presumed)), max(floor, h.refusals.Learned, 0)
	l.mu.Unlock()
	if out == nil {
		return l.Next(ctx, key, floor)
	}
	next, err := out.hosts.Next(ctx, key, times(least, l.processes))
	if next.Before(at) {
		next = at
	}
	return next, err
}

// share divides the limits by the number of processes.
func share(c hostlimit.Config, processes int) hostlimit.Config {
	all := shareOf(hostlimit.Limits{Concurrency: c.Concurrency, Delay: c.Delay}.WithDefaults(), processes)
	c.Concurrency, c.Delay = all.Concurrency, all.Delay
	c.MaxInFlight = 0 // the Limiter counts
	c.Store = nil     // and keeps
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

// times returns n times d, and at most 73 years.
func times(d time.Duration, n int) time.Duration {
	const longest = time.Duration(1 << 61)
	if d > longest/time.Duration(n) {
		return longest
	}
	return d * time.Duration(n)
}
