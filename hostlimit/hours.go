package hostlimit

import (
	"fmt"
	"time"
)

const day = 24 * time.Hour

// A Window is a part of the day, counted from midnight UTC. From is in it, To isn't. One
// whose From is later than its To spans midnight: {22 * time.Hour, 6 * time.Hour} is the night.
type Window struct{ From, To time.Duration }

func (w Window) validate() error {
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

// hours are the windows in which requests may start; without one they may at any time.
type hours []Window

// timeOfDay counts from midnight UTC.
func timeOfDay(t time.Time) time.Duration { return t.Sub(t.Truncate(day)) }

// left returns for how long requests may start from t on, at least; 0 if they may not.
func (h hours) left(t time.Time) (left time.Duration) {
	for _, w := range h {
		left = max(left, w.left(timeOfDay(t)))
	}
	return left
}

// wait returns how long after t the next request may start.
func (h hours) wait(t time.Time) time.Duration {
	if len(h) == 0 || h.left(t) > 0 {
		return 0
	}
	wait := day
	for _, w := range h {
		wait = min(wait, (w.From-timeOfDay(t)+day)%day)
	}
	return wait
}

// closed returns for how long of the time d after t no request may start.
func (h hours) closed(t time.Time, d time.Duration) (closed time.Duration) {
	if len(h) == 0 {
		return 0
	}
	for d > 0 {
		wait := min(h.wait(t), d)
		closed += wait
		step := wait + h.left(t.Add(wait))
		t, d = t.Add(step), d-step
	}
	return closed
}
