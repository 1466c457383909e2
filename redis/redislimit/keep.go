package redislimit

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/contexts"
)

// The server keeps what hosts are owed. Limits.Store is for the day on which the server loses that
// while no process lives that could restore it: each process saves blocks, refusals and learned
// delays, and sends them to the server when it first uses a host.
//
//	when                                  what
//	the first Acquire of a host           reads the Store, and sends its debt to the server (recall)
//	Observe, Block, Clear                 save what they have changed before they return
//	a heartbeat                           saves what other processes have changed, or an Update couldn't
//
// The server merges the debts of all processes, so what is saved replaces the debt in the Store. It
// takes nothing from the Store for a host whose block was lifted since (field k of step.lua). The
// fields of a host are guarded by the Limiter's mu, but Store.Update is never called under it.

const (
	easing   = time.Minute      // between two Updates for a delay that has only become shorter
	retrying = 10 * time.Second // after an Update that failed
)

// unsaved reports whether the Store lacks something of h. The end of a block moves a little as the
// server's clock becomes known better.
func (h *host) unsaved(now time.Duration) bool {
	if h.l.conf.Limits.Store == nil {
		return false
	}
	is, was := h.owing(), &h.saved
	return is.Row != was.Row || is.Unsure != was.Unsure || is.Bans != was.Bans || (is.Until-was.Until).Abs() > time.Second && max(is.Until, was.Until) > now ||
		is.Until > now && is.Cause != was.Cause || is.Learned > was.Learned || is.Learned < was.Learned && now-h.savedAt >= easing
}

// owing returns what the Store is to have of h, also what the server may not know yet.
func (h *host) owing() hostlimit.Refusals {
	is := h.refusals
	for _, c := range h.changes {
		if c.will.Until > is.Until {
			is = c.will
		}
	}
	return is
}

// claim returns the host of key when no other call of the Store for it is under way. Its caller
// holds mu then, and empties h.storing when its call is over. The error is that of ctx.
func (l *Limiter) claim(ctx context.Context, key string) (*host, error) {
	h := l.known(key)
	select {
	case h.storing <- struct{}{}:
		l.mu.Lock()
		return h, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// update calls Limits.Store, of which a panic is an error.
func (l *Limiter) update(ctx context.Context, key string, change func(hostlimit.Debt) hostlimit.Debt) (_ hostlimit.Debt, err error) {
	s := l.conf.Limits.Store
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("redislimit: panic in Update of %T: %v", s, p)
		}
	}()
	return s.Update(ctx, key, change)
}

// save saves what the Store lacks of key. It returns the error of the Store.
func (l *Limiter) save(ctx context.Context, key string) error {
	if l.conf.Limits.Store == nil {
		return nil
	}
	h, err := l.claim(ctx, key)
	if err != nil {
		return err
	}
	defer func() { <-h.storing }()
	now, wall, is, due := l.now(), time.Now(), h.owing(), h.unsaved(l.now())
	l.mu.Unlock()
	if !due {
		return nil
	}
	_, err = l.update(ctx, key, func(d hostlimit.Debt) hostlimit.Debt {
		d.BlockedUntil = time.Time{}
		d.BlockedAt = time.Time{}
		d.Cause = ""
		d.Delay = is.Learned
		d.Slow = is.Slow
		d.Refusals = is.Row
		d.Unsure = is.Unsure
		d.Bans = is.Bans
		if is.Until > now || d.InARow() > 0 {
			d.BlockedUntil, d.BlockedAt = wall.Add(is.Until-now).Round(0).UTC(), wall.Round(0).UTC()
			d.Cause = strings.ToValidUTF8(is.Cause, "\uFFFD")
		}
		return d
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.retryAt = now + retrying; err == nil {
		h.saved = is
		h.savedAt = now
		h.retryAt = 0
	}
	return err
}

// keepAll saves what other processes have changed, at each heartbeat.
func (l *Limiter) keepAll() {
	for last := false; !last; {
		last = contexts.Sleep(l.ctx, heartbeat) != nil
		var unsaved []*host
		l.mu.Lock()
		for _, h := range l.hosts {
			if now := l.now(); h.unsaved(now) && (last || now >= h.retryAt) {
				unsaved = append(unsaved, h)
			}
		}
		l.mu.Unlock()
		for _, h := range unsaved {
			if err := l.save(context.WithoutCancel(l.ctx), h.key); err != nil {
				l.mu.Lock()
				h.stateErr = err
				l.mu.Unlock()
			}
		}
	}
}

// recall reads the debt of key from the Store, if that wasn't done yet, and sends it to the server
// if that can be reached. Its error is that of ctx.
func (l *Limiter) recall(ctx context.Context, key string, limits *hostlimit.Limits) error {
	h, err := l.claim(ctx, key)
	if err != nil {
		return err
	}
	defer func() { <-h.storing }()
	known := h.recalled || l.closed || l.now() < h.retryAt
	l.mu.Unlock()
	if known {
		return nil
	}
	debt, err := l.update(ctx, key, func(d hostlimit.Debt) hostlimit.Debt { return d })
	left := ctx.Err()
	l.mu.Lock()
	owed := left == nil && err == nil && h.recall(debt, limits)
	if err != nil {
		h.stateErr, h.retryAt = err, l.now()+retrying
	}
	is, tell := h.saved, owed && h.p.down == nil
	l.mu.Unlock()
	if tell {
		err := l.do(ctx, op{
			name: "recall", h: h,
			build: func(now time.Duration) []any {
				return []any{micros(is.Until - now), is.Cause, is.Row, micros(is.Learned)}
			},
		}, func(r reply) {
			h.learn(newHostInfo(r.answer), r)
			if h.refusals.Until <= r.received {
				h.restored = nil // it was lifted since
			}
		})
		owed = err != nil // the next Acquire sends it
	}
	left = ctx.Err()
	l.mu.Lock()
	h.recalled = left == nil && err == nil && !owed
	l.mu.Unlock()
	return left
}

// recall takes in d, the debt of a Store, and reports whether there is anything to send to the
// server.
func (h *host) recall(d hostlimit.Debt, limits *hostlimit.Limits) bool {
	now, wall := h.l.now(), time.Now()
	d = h.l.rules.Owed(d, wall)
	is := hostlimit.Refusals{Row: min(max(d.InARow(), 0), math.MaxUint8), Cause: d.Cause}
	if !d.BlockedUntil.IsZero() {
		is.Until = now + min(d.BlockedUntil.Sub(wall), longest)
	}
	if limits.Delay.Adaptive.Learns() {
		is.Learned = min(max(d.Delay, 0), limits.Delay.Ceiling)
	}
	h.saved, h.savedAt = is, now
	if is == (hostlimit.Refusals{}) {
		return false
	}
	s := &h.refusals
	if is.Until > max(s.Until, now) {
		s.Until = is.Until
		h.until = 0
		h.earliest = is.Until
		s.Cause = is.Cause
		h.blocked = now
		h.restored = &hostlimit.Restored{Debt: d, Met: h.l.base.Add(now)}
	}
	s.Row = max(s.Row, is.Row)
	s.Alone = s.Alone || is.Row > 0
	s.Learned = max(s.Learned, is.Learned)
	h.version = -1
	return true
}
