package robotscache

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A stopwatch measures one fetch, and cancels it at its limit. It stands still while a hop waits
// for its turn, which isn't the origin's doing.
type stopwatch struct {
	mu      sync.Mutex
	timer   *time.Timer
	left    time.Duration // until the limit, at since
	since   time.Time     // when it last started; zero while it stands still
	spent   time.Duration // before since
	hop     int           // number of the hop, from 1
	start   time.Time     // when the first hop was sent
	waiting int           // calls of Queue whose sent hasn't been called

	redirects int // that the present hop follows; it is set before the hop
}

// A timeoutError ends a fetch that took longer than Config.Timeout.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("robotscache: no complete robots.txt within %v", e.after)
}
func (e *timeoutError) Timeout() bool        { return true }
func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// startStopwatch returns a running stopwatch that calls cancel at limit.
func startStopwatch(limit time.Duration, cancel context.CancelCauseFunc) *stopwatch {
	now := time.Now()
	// A timer, since no pause could move the deadline of a context.
	w := &stopwatch{left: limit, since: now, start: now}
	w.timer = time.AfterFunc(limit, func() { cancel(&timeoutError{limit}) })
	return w
}

// nextHop counts a hop that begins.
func (w *stopwatch) nextHop() {
	w.mu.Lock()
	w.hop++
	w.mu.Unlock()
}

// pause stops w until as many calls of resume.
func (w *stopwatch) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting++
	if w.waiting != 1 {
		return // a transport that sends one hop twice may wait twice at a time
	}
	w.timer.Stop()
	ran := time.Since(w.since)
	w.left -= ran
	w.spent += ran
	w.since = time.Time{}
}

// resume ends one pause.
func (w *stopwatch) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting--
	if w.waiting != 0 {
		return
	}
	w.since = time.Now()
	w.timer.Reset(w.left)
	// The first hop is sent after its wait, not when it began to wait.
	if w.hop == 1 {
		w.start = w.since
	}
}

// stop ends w. It returns when the first hop was sent, and the time of the fetch without the waits
// for the host.
func (w *stopwatch) stop() (start time.Time, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	took = w.spent
	if !w.since.IsZero() { // it doesn't stand still
		took += time.Since(w.since)
	}
	w.waiting = 1 << 30 // a late resume doesn't set the timer again
	return w.start, took
}
