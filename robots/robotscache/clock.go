package robotscache

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A clock measures one fetch, and ends it when its time is up. It stands still while a hop waits
// for its turn: that wait is ours and says nothing about the origin.
type clock struct {
	mu      sync.Mutex
	timer   *time.Timer
	left    time.Duration // when it last stopped
	since   time.Time     // when it last went on; zero while it stands still
	spent   time.Duration // before since
	hop     int           // from 1
	start   time.Time     // when the first hop was let go
	waiting int           // Queue calls without their sent
}

// A timeoutError ends a fetch that took longer than Config.Timeout.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("robotscache: no complete robots.txt within %v", e.after)
}
func (e *timeoutError) Timeout() bool        { return true }
func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// startClock starts a clock that cancels when limit is over.
func startClock(limit time.Duration, cancel context.CancelCauseFunc) *clock {
	now := time.Now()
	c := &clock{left: limit, since: now, start: now}
	c.timer = time.AfterFunc(limit, func() { cancel(&timeoutError{limit}) })
	return c
}

// nextHop tells that another hop begins.
func (c *clock) nextHop() {
	c.mu.Lock()
	c.hop++
	c.mu.Unlock()
}

func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting++; c.waiting == 1 {
		c.timer.Stop()
		ran := time.Since(c.since)
		c.left, c.spent, c.since = c.left-ran, c.spent+ran, time.Time{}
	}
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting--; c.waiting == 0 {
		c.since = time.Now()
		c.timer.Reset(c.left)
		if c.hop == 1 {
			c.start = c.since
		}
	}
}

// stop ends the clock, and returns when the first hop was let go and how long the
// fetch took, waits for a turn left out.
func (c *clock) stop() (start time.Time, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	took = c.spent
	if !c.since.IsZero() {
		took += time.Since(c.since)
	}
	c.waiting = 1 << 30 // a late sent must not set the timer again
	return c.start, took
}
