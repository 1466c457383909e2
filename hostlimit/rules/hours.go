package rules

import (
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

const day = 24 * time.Hour

// Hours are the Windows of a Config. Without Hours, requests may start at any time.
type Hours []hostlimit.Window

// openFor returns how long w is still open at a time of day; 0 if it is closed.
func openFor(w hostlimit.Window, at time.Duration) time.Duration {
	length := w.To - w.From
	if length < 0 { // it spans midnight
		length += day
	}
	return max(0, length-span(w.From, at))
}

// span returns how long it is from one time of the day to another, which may be on the next day.
func span(from, to time.Duration) time.Duration { return (to - from + day) % day }

// timeOfDay counts from midnight UTC.
func timeOfDay(t time.Time) time.Duration { return t.Sub(t.Truncate(day)) }

// Left returns for how long the window that is open at t stays open. It returns 0 if no window is
// open.
func (h Hours) Left(t time.Time) (left time.Duration) {
	for _, w := range h {
		left = max(left, openFor(w, timeOfDay(t)))
	}
	return left
}

// Wait returns how long after t a window is open.
func (h Hours) Wait(t time.Time) time.Duration {
	if len(h) == 0 || h.Left(t) > 0 {
		return 0
	}
	wait := day // the longest: every window opens once a day
	for _, w := range h {
		wait = min(wait, span(timeOfDay(t), w.From))
	}
	return wait
}

// Closed returns for how long of the time d after t no window is open.
func (h Hours) Closed(t time.Time, d time.Duration) (closed time.Duration) {
	if len(h) == 0 {
		return 0
	}
	for d > 0 { // one step is a closed time and the window after it
		wait := min(h.Wait(t), d)
		closed += wait
		step := wait + h.Left(t.Add(wait))
		t = t.Add(step)
		d -= step
	}
	return closed
}
