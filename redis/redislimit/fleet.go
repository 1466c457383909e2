package redislimit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-politeness/politeness/redis/internal/contexts"
	"github.com/go-politeness/politeness/redis/redislimit/internal/clock"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// A Fleet is the server's list of the processes that share it. Use it to see which processes are
// alive.
type Fleet struct {
	PausedUntil time.Time // end of the pause, zero if there is none
	Processes   []Process // by name, those that have called the server in the last hour, and haven't been closed
}

// A Process is one of a [Fleet].
type Process struct {
	ID   string // on the server, and in evidence
	Name string // Config.Name
	// Promises are the limits of the process as text. Those of all processes of a fleet should be
	// the same.
	Promises string
	// Seen is the time since its last sign of life. A live process shows one every two seconds
	// while it waits for a host, or knows something of one.
	Seen time.Duration
}

// longestPause bounds a pause, so that a forgotten one ends.
const longestPause = 7 * 24 * time.Hour

// Pause lets no process of the fleet start a request for d, at most a week, and 0 ends a pause.
// Requests in flight continue. Waiting ones keep waiting, or fail if that is too long. Use it
// before work on the server, or to stop a whole fleet. A process that can't reach the server and
// continues by itself (FailLocal) doesn't get it, and a server that loses its data forgets it.
// Requests that were granted just before may still start for a fraction of a second. Pause waits
// for most of that time.
func (l *Limiter) Pause(ctx context.Context, d time.Duration) error {
	if d < 0 || d > longestPause {
		return fmt.Errorf("redislimit: Pause: %v is no time from 0 to %v", d, longestPause)
	}
	// Each partition has a pause of its own, as a call can't write two.
	for _, p := range l.parts {
		pause := op{h: &host{l: l, p: p}, request: &wire.Pause{Length: wire.MicrosOf(d)}}
		if err := l.do(ctx, pause, func(reply) {}); err != nil {
			return err
		}
	}
	// Requests that were let go just before start within their window or not at all.
	return contexts.Sleep(ctx, min(d, horizon+clock.MaxGuard))
}

// Fleet asks the server for the processes that share it.
func (l *Limiter) Fleet(ctx context.Context) (Fleet, error) {
	var fleet Fleet
	found := make(map[string]Process)
	for _, p := range l.parts {
		err := l.do(ctx, op{h: &host{l: l, p: p}, request: new(wire.GetFleet)}, func(r reply) {
			answer := r.answer.(*wire.Fleet)
			if answer.Paused > r.server {
				fleet.PausedUntil = l.base.Add(p.clock.Surely(answer.Paused, r.received))
			}
			for _, member := range answer.Processes {
				one := Process{
					ID:       member.ID,
					Name:     member.Name,
					Promises: member.Promise,
					Seen:     max((r.server - member.Seen).Duration(), 0),
				}
				other, met := found[one.ID] // by a call to another partition
				if !met || one.Seen < other.Seen {
					found[one.ID] = one
				}
			}
		})
		if err != nil {
			return Fleet{}, err
		}
	}
	fleet.Processes = slices.SortedFunc(maps.Values(found), func(a, b Process) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return fleet, nil
}
