package redislimit

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/internal/contexts"
	"github.com/go-politeness/politeness/redis/redislimit/internal/share"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// The server keeps the debts of hosts. Limits.Store is for the day on which the server loses them
// while no process lives that could restore them: each process saves blocks, refusals and learned
// delays, and sends them to the server when it first uses a host.
//
//	when                                  action
//	the first Acquire of a host           reads the Store, and sends its debt to the server (recall)
//	Observe, Block, Clear                 save their changes before they return
//	a heartbeat                           saves changes of other processes, and those that failed
//
// The server merges the debts of all processes, so a save replaces the debt in the Store. It
// takes nothing from the Store for a host whose block was lifted since (field k of step.lua). The
// fields of a host are guarded by the Limiter's mu, but Store.Update is never called under it.

// lacks reports whether the Store should get is, because of more than the drift of a clock.
func (k *keeping) lacks(is *rules.Refusals, now time.Duration) bool {
	was := &k.saved
	counts := is.Row != was.Row || is.Unsure != was.Unsure || is.Bans != was.Bans
	// The end of a block moves a little as the server's clock becomes known better.
	moved := (is.Until - was.Until).Abs() > time.Second
	block := moved && max(is.Until, was.Until) > now
	cause := is.Until > now && is.Cause != was.Cause
	// A delay becomes shorter in many small steps. It does no harm if the Store has a longer one.
	eased := is.Learned < was.Learned && now-k.savedAt >= easing
	delay := is.Learned > was.Learned || eased
	return counts || block || cause || delay
}

// done stores the result of an Update with is, which was planned at now.
func (k *keeping) done(is rules.Refusals, now time.Duration, err error) {
	if err != nil {
		k.retryAt = now + retrying
		return
	}
	k.saved = is
	k.savedAt = now
	k.retryAt = 0
}

// unsaved reports whether the Store lacks something of h.
func (h *host) unsaved(now time.Duration) bool {
	if h.l.conf.Limits.Store == nil {
		return false
	}
	is := h.owing()
	return h.keeping.lacks(&is, now)
}

// owing returns the refusals that the Store should have, including those of changes that the server
// may not have yet.
func (h *host) owing() rules.Refusals {
	is := h.known.Refusals
	for _, c := range h.changes {
		if c.will.Until > is.Until {
			is = c.will
		}
	}
	return is
}

// occupyStore returns the host of key when no other call of the Store for it is under way. Its
// caller calls vacateStore when its own is over. The error is that of ctx.
func (l *Limiter) occupyStore(ctx context.Context, key string) (*host, error) {
	h := l.lookUp(key)
	select {
	case h.keeping.busy <- struct{}{}:
		return h, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *host) vacateStore() { <-h.keeping.busy }

// update calls Limits.Store. Its panic is returned as an error.
func (l *Limiter) update(
	ctx context.Context, key string, change func(hostlimit.Debt) hostlimit.Debt,
) (_ hostlimit.Debt, err error) {
	store := l.conf.Limits.Store
	defer func() {
		p := recover()
		if p != nil {
			err = fmt.Errorf("redislimit: panic in Update of %T: %v", store, p)
		}
	}()
	return store.Update(ctx, key, change)
}

// save saves everything of key that the Store lacks. It returns the error of the Store.
func (l *Limiter) save(ctx context.Context, key string) error {
	if l.conf.Limits.Store == nil {
		return nil
	}
	return l.saveIf(ctx, key, (*host).unsaved)
}

// saveIf is save of a host that is due once no other call of the Store for it is under way.
func (l *Limiter) saveIf(ctx context.Context, key string, isDue func(h *host, now time.Duration) bool) error {
	h, err := l.occupyStore(ctx, key)
	if err != nil {
		return err
	}
	defer h.vacateStore()
	// Planned under the lock, saved without: a Store may be slow.
	l.mu.Lock()
	now := l.now()
	wall := time.Now()
	is := h.owing()
	due := isDue(h, now)
	l.mu.Unlock()
	if !due {
		return nil
	}
	_, err = l.update(ctx, key, func(d hostlimit.Debt) hostlimit.Debt { return debtOf(d, &is, now, wall) })
	l.mu.Lock()
	defer l.mu.Unlock()
	h.keeping.done(is, now, err)
	return err
}

// debtOf returns d with the refusals is, at the time now, which is wall on the clock of the wall.
func debtOf(d hostlimit.Debt, is *rules.Refusals, now time.Duration, wall time.Time) hostlimit.Debt {
	d.BlockedUntil = time.Time{}
	d.BlockedAt = time.Time{}
	d.Cause = ""
	d.Delay = is.Learned
	d.Slow = is.Slow
	d.Refusals = is.Row
	d.Unsure = is.Unsure
	d.Bans = is.Bans
	// Refusals whose block is over have its end, from which they are forgiven.
	if is.Until > now || rules.InARow(&d) > 0 {
		d.BlockedUntil = wall.Add(is.Until - now).Round(0).UTC()
		d.BlockedAt = wall.Round(0).UTC()
		d.Cause = strings.ToValidUTF8(is.Cause, "\uFFFD")
	}
	return d
}

// keepAll saves the changes of other processes, at each heartbeat.
func (l *Limiter) keepAll() {
	// The last round is after Close, for changes of the last heartbeat.
	for last := false; !last; {
		last = contexts.Sleep(l.ctx, heartbeat) != nil
		l.keepRound(last)
	}
}

// keepRound saves the hosts of which the Store lacks something, with last also those for which it
// has just failed: after Close there is no later round to leave them to.
func (l *Limiter) keepRound(last bool) {
	// Asked again before the call: one of this process may have failed since the round began.
	isDue := func(h *host, now time.Duration) bool {
		mayRetry := last || now >= h.keeping.retryAt
		return mayRetry && h.unsaved(now)
	}
	for _, h := range l.hostsThat(isDue) {
		if err := l.saveIf(context.WithoutCancel(l.ctx), h.key, isDue); err != nil {
			// No caller gets it, so the next Grant or Error reports it.
			l.mu.Lock()
			h.news.stateErr = err
			l.mu.Unlock()
		}
	}
}

// hostsThat returns the hosts for which is returns true.
func (l *Limiter) hostsThat(is func(h *host, now time.Duration) bool) (hosts []*host) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, h := range l.hosts {
		if is(h, now) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// recall reads the debt of key from the Store, if that wasn't done yet, and sends it to the server
// if that can be reached. Its error is that of ctx.
func (l *Limiter) recall(ctx context.Context, key string, limits *hostlimit.Limits) error {
	h, err := l.occupyStore(ctx, key)
	if err != nil {
		return err
	}
	defer h.vacateStore()
	l.mu.Lock()
	skip := h.keeping.recalled || l.closed || l.now() < h.keeping.retryAt
	l.mu.Unlock()
	if skip {
		return nil
	}
	debt, err := l.update(ctx, key, func(d hostlimit.Debt) hostlimit.Debt { return d })
	ctxErr := ctx.Err()
	l.mu.Lock()
	owed := false // the server lacks the debt
	switch {
	case err != nil:
		h.news.stateErr = err
		h.keeping.retryAt = l.now() + retrying
	case ctxErr == nil: // else the next Acquire reads it again
		owed = h.recall(debt, limits)
	}
	recalled := h.keeping.saved
	reachable := h.p.down == nil
	l.mu.Unlock()
	// A server that is away doesn't hold up FailLocal.
	if owed && reachable {
		owed = l.sendRecalled(ctx, h, &recalled) != nil // the next Acquire sends it
	}
	ctxErr = ctx.Err()
	l.mu.Lock()
	// Otherwise the next Acquire tries again.
	h.keeping.recalled = ctxErr == nil && err == nil && !owed
	l.mu.Unlock()
	return ctxErr
}

// recall stores d, the debt of a Store, and reports whether there is anything to send to the
// server.
func (h *host) recall(d hostlimit.Debt, limits *hostlimit.Limits) bool {
	now := h.l.now()
	wall := time.Now()
	d = h.l.rules.Owed(d, wall)
	// A Store is any code: its numbers are bounded before they are used.
	debt := rules.Refusals{
		Row:   min(max(rules.InARow(&d), 0), math.MaxUint8),
		Cause: d.Cause,
	}
	if !d.BlockedUntil.IsZero() {
		debt.Until = now + min(d.BlockedUntil.Sub(wall), share.Longest)
	}
	// Limits that don't learn any more don't apply an old lesson either.
	if limits.Delay.Adaptive.Learns() {
		debt.Learned = min(max(d.Delay, 0), limits.Delay.Ceiling)
	}
	h.keeping.saved = debt
	h.keeping.savedAt = now
	if debt == (rules.Refusals{}) {
		return false
	}
	if h.known.Recall(debt, now) {
		h.news.restored = &hostlimit.Restored{Debt: d, Met: h.l.base.Add(now)}
	}
	return true
}

// sendRecalled sends debt, which was read from the Store, to the server.
func (l *Limiter) sendRecalled(ctx context.Context, h *host, debt *rules.Refusals) error {
	recall := op{
		h: h,
		build: func(now time.Duration) wire.Request {
			return &wire.Recall{
				Until:   wire.MicrosOf(debt.Until - now),
				Cause:   debt.Cause,
				Row:     debt.Row,
				Learned: wire.MicrosOf(debt.Learned),
			}
		},
	}
	return l.do(ctx, recall, func(r reply) {
		h.learn(r.answer.(*wire.Recalled).Host, r)
		if h.known.Refusals.Until <= r.received {
			h.news.restored = nil // the block was lifted since
		}
	})
}

const (
	easing   = time.Minute      // between two Updates for a delay that has only become shorter
	retrying = 10 * time.Second // after an Update that failed
)
