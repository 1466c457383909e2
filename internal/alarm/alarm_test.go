package alarm

import (
	"testing"
	"testing/synctest"
	"time"
)

type ringer struct {
	began time.Time
	after []time.Duration
	takes time.Duration
}

func (r *ringer) Ring() {
	r.after = append(r.after, time.Since(r.began))
	time.Sleep(r.takes)
}

// TestRingsOnceOnTime what goes on for too long, and nothing else; in the bubbles of several tests.
func TestRingsOnceOnTime(t *testing.T) {
	c := &Clock{After: time.Second}
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			for i := range 30 {
				go func() {
					begin := time.Duration(i) * 100 * time.Millisecond
					lasts := time.Duration(i%4) * 600 * time.Millisecond
					time.Sleep(begin)
					r := &ringer{began: time.Now()}
					var a Alarm
					c.Begin(&a, r)
					time.Sleep(lasts)
					a.End()
					time.Sleep(10 * time.Second)
					if rings := lasts > time.Second; rings != (len(r.after) == 1) || rings && r.after[0] != time.Second {
						t.Errorf("number %d lasted %v: rang after %v", i, lasts, r.after)
					}
				}()
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
		})
	}
}

// TestEndWaitsForRing: what rings may read what its owner changes after End.
func TestEndWaitsForRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Clock{After: time.Second}
		slow, quick := &ringer{began: time.Now(), takes: time.Hour}, &ringer{began: time.Now()}
		var a, b Alarm
		c.Begin(&a, slow)
		c.Begin(&b, quick)
		time.Sleep(2 * time.Second)
		b.End()
		if took := time.Since(quick.began); took != 2*time.Second || len(quick.after) != 1 {
			t.Errorf("a slow one held up another: %v, %v", took, quick.after)
		}
		a.End()
		if took := time.Since(slow.began); took != time.Hour+time.Second {
			t.Errorf("End returned after %v", took)
		}
	})
}

// TestCostsNoAllocation once the timer runs.
func TestCostsNoAllocation(t *testing.T) {
	c := &Clock{After: time.Minute}
	var a Alarm
	r := &ringer{}
	if n := testing.AllocsPerRun(1000, func() { c.Begin(&a, r).End() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestOneTimerHoweverLate the timer is called: an exchange that begins before doesn't start another,
// but after more than After, and then the late one does nothing.
func TestOneTimerHoweverLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, late := range []time.Duration{0, time.Millisecond, time.Second, 2 * time.Second} {
			c := &Clock{After: time.Second}
			var a, b Alarm
			rings := &ringer{began: time.Now()}
			c.Begin(&a, &ringer{})
			c.due = time.Now().Add(-late)
			was := c.due
			c.Begin(&b, rings)
			if started := !c.due.Equal(was); started != (late > time.Second) {
				t.Errorf("late by %v: another timer was started: %t", late, started)
			}
			a.End()
			running := c.due
			c.tick(running.Add(-time.Millisecond))
			if !c.due.Equal(running) {
				t.Errorf("late by %v: a timer that was given up started another", late)
			}
			c.tick(running)
			time.Sleep(2 * time.Second)
			b.End()
			if len(rings.after) != 1 || rings.after[0] != time.Second {
				t.Errorf("late by %v: rang after %v", late, rings.after)
			}
		}
	})
}
