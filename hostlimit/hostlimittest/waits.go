package hostlimittest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// longWait is the length from which on a wait is reported: see [hostlimit.Watcher].
const longWait = time.Second

func priorities(s *scene) {
	s.insist(func() (fault string) {
		s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1})
		holder := s.take()
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		wait := func(name, priority int) {
			wg.Go(func() {
				t, err := s.try(hostlimit.WithPriority(s.Context(), priority), s.key, 0)
				if err != nil {
					s.Error(err)
					return
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				s.done(t)
			})
			s.settle(tick / 4) // one after the other
		}
		for i := range 64 {
			wait(i, 0)
		}
		wait(100, 7)
		wait(101, -1)
		wait(102, 7)
		wait(103, 8)
		wait(104, 0)
		s.done(holder)
		wg.Wait()
		want := []int{103, 100, 102}
		for i := range 64 {
			want = append(want, i)
		}
		want = append(want, 104, 101)
		if !slices.Equal(order, want) {
			return fmt.Sprintf("requests started in the order %v, want %v", order, want)
		}
		return ""
	})
}

func overrides(s *scene) {
	var slow atomic.Bool
	slowly := hostlimit.Limits{Delay: hostlimit.Delay{Min: age, Adaptive: hostlimit.Fixed, Ceiling: age}}
	s.use(hostlimit.Config{
		Delay:    hostlimit.Delay{Min: 2 * tick, Adaptive: hostlimit.Fixed},
		Override: func(string) (hostlimit.Limits, bool) { return slowly, slow.Load() },
	})
	ctx, cancel := context.WithCancel(s.Context())
	var wg sync.WaitGroup
	var late atomic.Int64
	var changed time.Time
	for range 40 {
		wg.Go(func() {
			t, err := s.try(ctx, s.key, 0)
			if err != nil {
				return
			}
			if slow.Load() && t.Start.After(changed) {
				late.Add(1)
				if t.Delay < age {
					s.Errorf("started after the limits had changed, with the delay of before, %v", t.Delay)
				}
			}
			s.done(t)
		})
	}
	time.Sleep(9 * tick)
	changed = time.Now()
	slow.Store(true)
	time.Sleep(20 * tick)
	if n := late.Load(); n > 1 {
		s.Errorf("%d requests started after the delay had become %v", n, age)
	}
	cancel()
	wg.Wait()
}

// A listener is a Watcher.
type listener struct {
	name  string
	waits chan hostlimit.Wait
}

func listen(name string) *listener { return &listener{name, make(chan hostlimit.Wait, 10)} }

func (l *listener) Waits(w hostlimit.Wait) { l.waits <- w }
func (l *listener) String() string         { return l.name }

func (s *scene) as(l *listener) context.Context {
	return context.WithValue(s.Context(), (*hostlimit.Watcher)(nil), l)
}

// heard waits for the one Wait that l receives while its request waits. The request then leaves.
func (s *scene) heard(l *listener) (w hostlimit.Wait, after time.Duration) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.as(l))
	begin := time.Now()
	ended := make(chan error)
	go func() {
		t, err := s.try(ctx, s.key, 0)
		if err == nil {
			s.done(t)
		}
		ended <- err
	}()
	select {
	case w = <-l.waits:
	case err := <-ended: // after a minute at the latest
		s.Fatalf("told of nothing, and the turn: %v", err)
	}
	after = time.Since(begin)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		s.Errorf("the request that left: %v", err)
	}
	if len(l.waits) > 0 {
		s.Errorf("told twice: %+v", <-l.waits)
	}
	if w.Key != s.key || w.Since.Before(begin.Add(-tick)) || w.Since.After(begin.Add(after)) || w.String() == "" {
		s.Errorf("told of %+v, began %v", w, begin)
	}
	return w, after
}

func tellsWaits(s *scene) {
	tellsDelay(s)
	tellsSlotAndBlock(s)

	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 2})
	s.answer(s.take(), 429, 1)
	t, err := s.try(s.as(listen("the probe")), s.key, 0)
	if err != nil || !t.Probe {
		s.Fatal(t, err)
	}
	if w, _ := s.heard(listen("waits")); w.Hold != "probe" || w.HeldBy != "the probe" || w.HeldFor == 0 {
		s.Errorf("for a probe: %+v", w)
	}
	s.done(t)

	s.use(hostlimit.Config{Delay: unpaced, MaxInFlight: 1})
	other := s.takeKey(newKey(), 0)
	if w, _ := s.heard(listen("waits")); w.Hold != "place" {
		s.Errorf("for a place: %+v", w)
	}
	s.done(other)
}

func tellsDelay(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: age, Ceiling: age}})
	t, err := s.try(s.as(listen("the first")), s.key, 0)
	if err != nil {
		s.Fatal(err)
	}
	w, after := s.heard(listen("waits"))
	off := w.Until.Sub(t.Start.Add(t.Delay)).Abs()
	if w.Hold != "delay" || w.Delay != t.Delay || w.Cause != t.DelaySource || off > tick {
		s.Errorf("for the delay: %+v", w)
	}
	if w.Held != 1 || w.HeldBy != "" || w.HeldFor != 0 {
		s.Errorf("for the delay, beside a request in flight: %+v", w)
	}
	if after > age/2 {
		s.Errorf("told after %v of a wait that is long from its beginning", after)
	}
	s.done(t)
	leave := s.behind()
	if w, _ := s.heard(listen("waits")); w.Ahead != 1 || w.Until.Before(t.Start.Add(2*age-tick)) {
		s.Errorf("behind another: %+v", w)
	}
	leave()
}

func tellsSlotAndBlock(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1})
	t, err := s.try(s.as(listen("the holder")), s.key, 0)
	if err != nil {
		s.Fatal(err)
	}
	w, after := s.heard(listen("waits"))
	if w.Hold != "slot" || w.Slots != 1 || w.Held != 1 || !w.Until.IsZero() {
		s.Errorf("for a slot: %+v", w)
	}
	if w.HeldBy != "the holder" || w.HeldFor < longWait || after < longWait {
		s.Errorf("for a slot, after %v: %+v", after, w)
	}
	if !strings.Contains(w.String(), "the holder") {
		s.Errorf("for a slot: %q", w)
	}
	begin := time.Now()
	s.answer(t, 429, age)
	w, _ = s.heard(listen("waits"))
	if w.Hold != "block" || w.Cause != "status 429" || w.Until.Before(begin.Add(age)) {
		s.Errorf("for a block: %+v", w)
	}
}

func tellsNothing(s *scene) {
	s.use(hostlimit.Config{Delay: paced})
	l := listen("waits")
	for range 3 {
		begin := time.Now()
		t, err := s.try(s.as(l), s.key, 0)
		if err != nil {
			s.Fatal(err)
		}
		s.done(t)
		if time.Since(begin) > longWait {
			return // the machine was busy
		}
	}
	if len(l.waits) > 0 {
		s.Errorf("told of %+v", <-l.waits)
	}
}
