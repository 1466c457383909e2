package redislimit

import (
	"context"
	"errors"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// Next implements [hostlimit.Limiter]. It costs a round trip.
func (l *Limiter) Next(ctx context.Context, key string, floor time.Duration) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	limits, err := l.rules.Limits(key)
	if err != nil {
		return time.Time{}, err
	}
	for {
		at, err := l.peek(ctx, key, floor, limits)
		switch {
		case err == nil, ctx.Err() != nil:
			return at, err
		case isStale(err):
			continue
		case l.alone && errors.Is(err, ErrUnavailable):
			return l.nextLocal(ctx, key, floor)
		}
		return at, err
	}
}

// peek asks the server for the earliest start.
func (l *Limiter) peek(ctx context.Context, key string, floor time.Duration, limits *hostlimit.Limits) (time.Time, error) {
	type answer struct {
		at  time.Time
		err error
	}
	answered := make(chan answer, 1)
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return time.Time{}, ErrClosed
	}
	h := l.host(key)
	least := max(limits.Delay.Min, floor)
	ahead := time.Duration(max(0, len(h.waiters)-1)) * least // one or two of them are on the server
	h.p.add(op{
		name: "peek", h: h, args: []any{micros(max(floor, 0)), limits.Concurrency, micros(least)},
		done: func(reply []any, at heard, err error) {
			if err != nil {
				answered <- answer{err: err}
				return
			}
			h.blockedUntil(number(reply[1]), at)
			next := max(h.p.clock.surely(number(reply[0]), at.received)+ahead, h.refusals.Until, at.received)
			answered <- answer{at: l.base.Add(next)}
		},
	})
	h.p.flush()
	l.mu.Unlock()
	select {
	case a := <-answered:
		if a.err != nil && !isStale(a.err) {
			return time.Time{}, unavailable(key, a.err)
		}
		return a.at, a.err
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}
