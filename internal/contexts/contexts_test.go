package contexts_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/internal/contexts"
)

type key struct{}

// TestCancelable: whatever is asked of it first, a Cancelable is what context.WithCancelCause makes.
func TestCancelable(t *testing.T) {
	cause := errors.New("refused")
	parent := context.WithValue(t.Context(), key{}, 1)
	for _, asked := range []bool{false, true} {
		c := &contexts.Cancelable{Context: parent}
		var child context.Context = c
		if asked {
			var cancel context.CancelFunc
			child, cancel = context.WithCancel(c)
			defer cancel()
		}
		if c.Err() != nil || child.Err() != nil || c.Value(key{}) != 1 {
			t.Errorf("at first: %v, %v, value %v", c.Err(), child.Err(), c.Value(key{}))
		}
		c.Cancel(cause)
		c.Cancel(errors.New("late"))
		<-child.Done()
		<-c.Done()
		if !errors.Is(c.Err(), context.Canceled) || !errors.Is(child.Err(), context.Canceled) || c.Value(key{}) != 1 {
			t.Errorf("at last: %v, %v, value %v", c.Err(), child.Err(), c.Value(key{}))
		}
		if asked && !errors.Is(context.Cause(child), cause) || !errors.Is(context.Cause(c), cause) {
			t.Errorf("causes %v and %v, want %v", context.Cause(child), context.Cause(c), cause)
		}
	}
}

// TestCancelableStaysCanceled, with its cause, whatever its parent becomes and whether Done is called.
func TestCancelableStaysCanceled(t *testing.T) {
	refused := errors.New("refused")
	for _, done := range []bool{false, true} {
		parent, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		c := &contexts.Cancelable{Context: parent}
		c.Cancel(refused)
		if early := (&contexts.Cancelable{Context: parent}); early.Err() == nil {
			early.Cancel(refused)
			if !errors.Is(context.Cause(early), refused) {
				t.Errorf("cause %v before Done is called", context.Cause(early))
			}
		}
		<-parent.Done()
		if done {
			<-c.Done()
		}
		if err, cause := c.Err(), context.Cause(c); !errors.Is(err, context.Canceled) || !errors.Is(cause, refused) {
			t.Errorf("Done called: %t: %v, cause %v", done, err, cause)
		}
	}
}

// TestCancelableFollowsItsParent without a goroutine: synctest waits for those.
func TestCancelableFollowsItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("left")
		parent, cancel := context.WithCancelCause(t.Context())
		c, idle := &contexts.Cancelable{Context: parent}, &contexts.Cancelable{Context: parent}
		child, stop := context.WithTimeout(c, time.Hour)
		defer stop()
		cancel(cause)
		if child.Err() == nil || !errors.Is(context.Cause(child), cause) || idle.Err() == nil || !errors.Is(context.Cause(idle), cause) {
			t.Errorf("%v, cause %v; idle %v, cause %v", child.Err(), context.Cause(child), idle.Err(), context.Cause(idle))
		}
		c.Cancel(context.Canceled)
	})
}

func BenchmarkCancelable(b *testing.B) {
	for _, asked := range []bool{false, true} {
		name := "unasked"
		if asked {
			name = "asked for Done"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c := &contexts.Cancelable{Context: b.Context()}
				if asked {
					_, cancel := context.WithCancel(c)
					cancel()
				}
				c.Cancel(context.Canceled)
			}
		})
	}
}

// TestWait ends with its request, with each of its channels, and with End, and has the earlier of two
// deadlines.
func TestWait(t *testing.T) {
	for _, c := range []struct {
		name                        string
		request, first, second, end bool // what ends it
		channels                    bool // that don't end it, too
	}{
		{name: "nothing", channels: true},
		{name: "the request", request: true},
		{name: "the request of one with channels", request: true, channels: true},
		{name: "the first channel", first: true},
		{name: "the second channel", second: true, channels: true},
		{name: "End", end: true, channels: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var first, second chan struct{}
			if c.channels || c.first {
				first = make(chan struct{})
			}
			if c.second {
				second = make(chan struct{})
			}
			var w contexts.Wait
			w.Under(ctx, first, second)
			time.AfterFunc(time.Second, func() {
				switch {
				case c.request:
					cancel()
				case c.first:
					close(first)
				case c.second:
					close(second)
				case c.end:
					w.End()
				}
			})
			begin, done := time.Now(), c.name != "nothing"
			err := contexts.Sleep(&w, time.Minute)
			if (err != nil) != done || (w.Err() != nil) != done || done && time.Since(begin) != time.Second {
				t.Errorf("%s: %v after %v, then %v", c.name, err, time.Since(begin), w.Err())
			}
			w.End()
		})
	}

	soon, late := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), soon)
	defer cancel()
	for _, c := range []struct{ by, want time.Time }{{time.Time{}, soon}, {late, soon}, {soon.Add(-1), soon.Add(-1)}} {
		var w contexts.Wait
		w.Under(ctx, nil, nil)
		w.By = c.by
		if got, ok := w.Deadline(); !ok || !got.Equal(c.want) {
			t.Errorf("by %v: %v, %t", c.by, got, ok)
		}
	}
}
