package redislimit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-politeness/politeness/internal/contexts"
)

// A Fleet is what the server knows of the processes that share it.
type Fleet struct {
	PausedUntil time.Time // end of the pause; zero: there is none
	Processes   []Process // by name; those that have called the server in the last hour, and haven't been closed
}

// A Process is one of a [Fleet].
type Process struct {
	ID   string // which the server calls it by
	Name string // Config.Name
	// Promises are the limits of the process, as "Concurrency 2; Delay.Min 1s; ..."; those of all
	// processes of a fleet should be the same.
	Promises string
	Seen     time.Duration // since its last sign of life; a live one shows one every two seconds while it waits for a host, or knows something of one
}

// longestPause bounds a pause, so that nobody has to look for one that was forgotten.
const longestPause = 7 * 24 * time.Hour

// Pause lets no process of the fleet start a request for d, at most a week, and 0 ends a pause.
// Those in flight go on; who waits goes on waiting, or is refused where that is too long. Use it
// before work on the server, or where a whole fleet must stop at once. A process that can't reach
// the server and goes on by itself (FailLocal) doesn't hear of it, and a server that loses its data
// forgets it. Requests that were let go just before may still start for a fraction of a second,
// most of which Pause waits for.
func (l *Limiter) Pause(ctx context.Context, d time.Duration) error {
	if d < 0 || d > longestPause {
		return fmt.Errorf("redislimit: Pause: %v is no time from 0 to %v", d, longestPause)
	}
	for _, p := range l.parts {
		err := l.do(ctx, op{name: "pause", h: &host{l: l, p: p}, args: []any{micros(d)}}, func(reply) {})
		if err != nil {
			return err
		}
	}
	// Requests that were let go just before start within their window or not at all.
	return contexts.Sleep(ctx, min(d, horizon+maxGuard))
}

// Fleet asks the server for the processes that share it.
func (l *Limiter) Fleet(ctx context.Context) (f Fleet, err error) {
	found := map[string]Process{}
	for _, p := range l.parts {
		err := l.do(ctx, op{name: "fleet", h: &host{l: l, p: p}}, func(r reply) {
			if until := number(r.answer[0]); until > r.server {
				f.PausedUntil = l.base.Add(p.clock.surely(until, r.received))
			}
			for _, v := range r.answer[1:] {
				fields, _ := v.([]any)
				if len(fields) != 4 {
					continue // none
				}
				one := Process{ID: text(fields[0]), Name: text(fields[1]), Promises: text(fields[3]), Seen: max(duration(r.server-number(fields[2])), 0)}
				if other, ok := found[one.ID]; !ok || one.Seen < other.Seen {
					found[one.ID] = one
				}
			}
		})
		if err != nil {
			return Fleet{}, err
		}
	}
	f.Processes = slices.SortedFunc(maps.Values(found), func(a, b Process) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return f, nil
}
