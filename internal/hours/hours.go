// Package hours knows parts of a day, in which something may happen.
package hours

import (
	"fmt"
	"time"
)

const day = 24 * time.Hour

// A Window is a part of the day, counted from midnight UTC. From is in it, To isn't. One whose From
// is later than its To spans midnight.
type Window struct{ From, To time.Duration }

// Validate returns an error if w isn't a part of a day.
func (w Window) Validate() error {
	if w.From < 0 || w.From >= day || w.To < 0 || w.To > day || w.From == w.To {
		return fmt.Errorf("from %v to %v: want two different times of a day", w.From, w.To)
	}
	return nil
}

// left returns how long w is still open at a time of day; 0 if it is closed.
func (w Window) left(at time.Duration) time.Duration {
	length := w.To - w.From
	if length < 0 { // it spans midnight
		length += day
	}
	return max(0, length-(at-w.From+day)%day)
}

// Hours are the windows in which something may happen; without one it may at any time.
type Hours []Window

// timeOfDay counts from midnight UTC.
func timeOfDay(t time.Time) time.Duration { return t.Sub(t.Truncate(day)) }

// Left returns for how long the window that is open at t stays open; 0 if none is.
func (h Hours) Left(t time.Time) (left time.Duration) {
	for _, w := range h {
		left = max(left, w.left(timeOfDay(t)))
	}
	return left
}

// Wait returns how long after t a window is open.
func (h Hours) Wait(t time.Time) time.Duration {
	if len(h) == 0 || h.Left(t) > 0 {
		return 0
	}
	wait := day
	for _, w := range h {
		wait = min(wait, (w.From-timeOfDay(t)+day)%day)
	}
	return wait
}

// Closed returns for how long of the time d after t no window is open.
func (h Hours) Closed(t time.Time, d time.Duration) (closed time.Duration) {
	if len(h) == 0 {
		return 0
	}
	for d > 0 {
		wait := min(h.Wait(t), d)
		closed += wait
		step := wait + h.Left(t.Add(wait))
		t, d = t.Add(step), d-step
	}
	return closed
}
