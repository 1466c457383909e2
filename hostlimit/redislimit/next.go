package redislimit

import (
	"context"
	"time"
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
	least := max(limits.Min, floor)
	ahead := time.Duration(max(0, len(h.waiters)-1)) * least // one or two of them are on the server
	h.p.add(op{
		name: "peek", h: h, args: []any{micros(max(floor, 0)), limits.Slots, micros(least)},
		done: func(reply []any, at heard, err error) {
			if err != nil {
				answered <- answer{err: err}
				return
			}
			next := max(h.p.clock.surely(number(reply[0]), at.received)+ahead, h.until, at.received)
			answered <- answer{at: l.base.Add(next)}
		},
	})
	h.p.flush()
	l.mu.Unlock()
	select {
	case a := <-answered:
		if a.err != nil && l.alone {
			return l.nextLocal(ctx, key, floor)
		}
		if a.err != nil {
			return time.Time{}, unavailable(key, a.err)
		}
		return a.at, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}
