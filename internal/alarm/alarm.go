// Package alarm calls what goes on for too long: one timer for any number of exchanges, none of
// which costs an allocation.
package alarm

import (
	"sync"
	"time"

	"github.com/go-politeness/politeness/internal/list"
)

// A Clock rings alarms After their beginning. All of its alarms are set for the same time, so they
// stand in the order in which they ring. A single timer runs, that of the alarm which was the first
// when it was started; it isn't stopped when that is unset. Set After before the first use.
type Clock struct {
	After time.Duration

	mu  sync.Mutex
	set list.List[Alarm, *Alarm]
	due time.Time // of the timer; zero: none runs
}

// An Alarm is set by Clock.Begin. Its zero value is ready; it must not be copied.
type Alarm struct {
	list.Linked[Alarm]
	clock *Clock
	ring  Ringer
	at    time.Time
	rung  chan struct{} // closed when Ring has returned; nil: it hasn't been called
}

// A Ringer is called once when an alarm rings, in a goroutine of its own.
type Ringer interface{ Ring() }

// Begin sets a, which isn't set. Call End on what it returns when that which is watched has ended.
func (c *Clock) Begin(a *Alarm, r Ringer) *Alarm {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	a.clock = c
	a.ring = r
	a.at = now.Add(c.After)
	a.rung = nil
	c.set.Insert(a, c.set.Last)
	// A timer that is due may have to wait for a processor. One that is off by more than After is of
	// another bubble of testing/synctest.
	if now.Sub(c.due).Abs() > c.After {
		c.arm(now)
	}
	return a
}

// End unsets a. If it rings, End returns when Ring has.
func (a *Alarm) End() {
	a.clock.mu.Lock()
	rung := a.rung
	if rung == nil {
		a.clock.set.Remove(a)
	}
	a.clock.mu.Unlock()
	if rung != nil {
		<-rung
	}
}

// arm starts the timer for the first alarm.
func (c *Clock) arm(now time.Time) {
	due := c.set.First.at
	c.due = due
	time.AfterFunc(due.Sub(now), func() { c.tick(due) })
}

// tick rings what is due, and starts the timer for the rest. It is called by the timer that is due
// at due; one that came so late that another was started does nothing.
func (c *Clock) tick(due time.Time) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.due.Equal(due) {
		return
	}
	for a := c.set.First; a != nil && !a.at.After(now); a = c.set.First {
		c.set.Remove(a)
		a.rung = make(chan struct{})
		go func() {
			defer close(a.rung)
			a.ring.Ring()
		}()
	}
	c.due = time.Time{}
	if c.set.First != nil {
		c.arm(now)
	}
}
