package evidence

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
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
	if by := c.set(base.Add(2 * time.Second)); by != time.Hour {
		t.Errorf("jumped by %v", by)
	}
	if by := c.set(base.Add(2 * time.Second)); by != 0 {
		t.Errorf("jumped by %v once more", by)
	}
	if got, want := c.read(base.Add(3*time.Second)), base.Round(0).Add(3*time.Second); got.Sub(want).Abs() > time.Millisecond {
		t.Errorf("after the jump %v is %v", want, got)
	}
	if again := c.read(base.Add(time.Second)); !again.Equal(before) {
		t.Errorf("an instant before the jump moved from %v to %v", before, again)
	}
}

// TestClockKeepsInstantsWhereRecordsOvertakeEachOther at a jump: a start is named once more by the start after it
// (Decision.Prev), by the same time.
func TestClockKeepsInstantsWhereRecordsOvertakeEachOther(t *testing.T) {
	base := time.Now()
	var c clock
	c.set(base)
	c.anchors[0].wall = base.Round(0).Add(-time.Hour)
	c.set(base.Add(2 * time.Second))
	start := base.Add(1500 * time.Millisecond)
	before := c.read(start)
	if by := c.set(base.Add(time.Second)); by != 0 { // that of a record which was begun earlier, and waited
		t.Errorf("jumped by %v once more", by)
	}
	if again := c.read(start); !again.Equal(before) {
		t.Errorf("a start moved from %v to %v", before, again)
	}
}

// TestClocksOfAProcessAgree, but where the wall clock was set before one of them began.
func TestClocksOfAProcessAgree(t *testing.T) {
	var early clock
	early.set(time.Now())
	synctest.Test(t, func(t *testing.T) { // whose clock is another one
		var c clock
		c.set(time.Now())
		time.Sleep(time.Hour)
		if now := time.Now(); !c.read(now).Equal(now) {
			t.Errorf("%v became %v", now, c.read(now))
		}
	})
	time.Sleep(time.Millisecond)
	var late clock
	late.set(time.Now())
	now := time.Now()
	if a, b := early.read(now), late.read(now); !a.Equal(b) {
		t.Errorf("%v and %v", a, b)
	}
	for _, by := range []time.Duration{-time.Hour, -time.Second / 2, time.Second / 2, time.Hour} { // the wall clock is set
		before := shared.wall
		shared.wall = before.Add(-by)
		var c clock
		now := time.Now()
		c.set(now)
		want := now.Round(0)
		if by.Abs() < time.Second {
			want = want.Add(-by)
		}
		if got := c.read(now); got.Sub(want).Abs() > time.Millisecond {
			t.Errorf("set by %v: %v became %v", by, now, got)
		}
		if by.Abs() < time.Second {
			shared.wall = before
		}
	}
}

func TestClockFollowsJumpsOfMoreThanASecond(t *testing.T) {
	base := time.Now()
	for by, want := range map[time.Duration]time.Duration{time.Second: 0, time.Second + 1: time.Second + 1} {
		var c clock
		c.set(base)
		c.anchors[0].wall = base.Round(0).Add(-by)
		if got := c.set(base.Add(time.Minute)); got != want {
			t.Errorf("a jump by %v was followed by %v", by, got)
		}
	}
}

// TestALogTellsOfAJump once: who reads it knows that the crawl's own clock stood still.
func TestALogTellsOfAJump(t *testing.T) {
	var out bytes.Buffer
	l := JSONLines(&out)
	for range 3 {
		l.Record(t.Context(), Decision{Type: Retried, Time: time.Now(), Allowed: true})
		if len(l.clock.anchors) == 1 {
			l.clock.anchors[0].wall = l.clock.anchors[0].wall.Add(-time.Hour)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var told []time.Duration
	for line := range bytes.Lines(out.Bytes()) {
		var e LogLine
		if err := e.UnmarshalJSON(line); err != nil {
			t.Fatal(err)
		}
		told = append(told, e.Jumped.Round(time.Minute))
	}
	if !slices.Equal(told, []time.Duration{0, time.Hour, 0}) {
		t.Errorf("jumped by %v", told)
	}
}

// TestALogReadsAllStampsByOneClock: the stamp of one start stands in several fields, and in the
// records of several starts.
func TestALogReadsAllStampsByOneClock(t *testing.T) {
	var out bytes.Buffer
	l := JSONLines(&out)
	l.Record(t.Context(), Decision{Type: Retried, Time: time.Now()})
	l.clock.anchors[0].wall = l.clock.anchors[0].wall.Add(time.Minute) // the wall clock was set back since
	var d Decision
	stamp, fields := time.Now(), reflect.ValueOf(&d).Elem()
	for i := range fields.NumField() {
		if fields.Field(i).Type() == reflect.TypeFor[time.Time]() {
			fields.Field(i).Set(reflect.ValueOf(stamp))
		}
	}
	l.Record(t.Context(), d)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var got Decision
	if err := got.UnmarshalJSON(bytes.Split(out.Bytes(), []byte("\n"))[1]); err != nil {
		t.Fatal(err)
	}
	fields = reflect.ValueOf(got)
	for i := range fields.NumField() {
		if at, ok := fields.Field(i).Interface().(time.Time); ok && !at.Equal(got.Time) {
			t.Errorf("%s is %v, Time %v", fields.Type().Field(i).Name, at, got.Time)
		}
	}
}

func TestClockLeavesTimesWithoutMonotonicReading(t *testing.T) {
	var c clock
	c.set(time.Now())
	c.anchors[0].wall = c.anchors[0].wall.Add(time.Hour)
	for _, at := range []time.Time{{}, time.Date(2020, 1, 2, 3, 4, 5, 6, time.UTC), time.Now().Round(0)} {
		if got := c.read(at); !got.Equal(at) {
			t.Errorf("%v became %v", at, got)
		}
	}
}
