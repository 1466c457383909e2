package evidence

import (
	"testing"
	"time"
)

func TestClockKeepsDistances(t *testing.T) {
	base := time.Now()
	var c clock
	c.set(base)
	// A wall clock that is set back by an hour moves nothing.
	c.anchors[0].wall = base.Round(0).Add(time.Hour)
	first := c.read(base.Add(time.Second))
	c.set(base.Add(2 * time.Second))
	if d := c.read(base.Add(3 * time.Second)).Sub(first); d != 2*time.Second {
		t.Errorf("2s became %v", d)
	}
}

func TestClockFollowsJumpsForward(t *testing.T) {
	base := time.Now()
	var c clock
	c.set(base)
	// The computer slept for an hour, which the monotonic clock hasn't seen.
	c.anchors[0].wall = base.Round(0).Add(-time.Hour)
	before := c.read(base.Add(time.Second))
	c.set(base.Add(2 * time.Second))
	if got, want := c.read(base.Add(3*time.Second)), base.Round(0).Add(3*time.Second); !got.Equal(want) {
		t.Errorf("after the jump %v is %v", want, got)
	}
	if again := c.read(base.Add(time.Second)); !again.Equal(before) {
		t.Errorf("an instant before the jump moved from %v to %v", before, again)
	}
}

func TestClockLeavesTimesWithoutMonotonicReading(t *testing.T) {
	var c clock
	c.set(time.Now())
	for _, at := range []time.Time{{}, time.Date(2020, 1, 2, 3, 4, 5, 6, time.UTC), time.Now().Round(0)} {
		if got := c.read(at); !got.Equal(at) {
			t.Errorf("%v became %v", at, got)
		}
	}
}
