package hostlimittest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

func gaps(s *scene) {
	s.use(hostlimit.Config{Delay: paced, Concurrency: 3})
	s.crowd(8, func(i int) {
		for range 3 {
			t := s.take()
			time.Sleep(time.Duration(i) * tick / 4)
			s.answer(t, 200, 0)
		}
	})
	s.audit()
}

func randomDelay(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: tick / 2, Max: tick}})
	var seen []time.Duration
	for range 12 {
		t := s.take()
		if t.Delay < tick/2 || t.Delay > tick {
			s.Errorf("delay %v, want %v to %v", t.Delay, tick/2, tick)
		}
		seen = append(seen, t.Delay)
		s.answer(t, 200, 0)
	}
	for _, d := range seen {
		if d != seen[0] {
			s.audit()
			return
		}
	}
	s.Errorf("the random delay is always %v", seen[0])
}

func floors(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	for _, floor := range []time.Duration{0, 3 * tick, 0, 0, tick, 2 * tick} {
		s.answer(s.takeKey(s.key, floor), 200, 0)
	}
	s.audit()
}

func negativeFloor(s *scene) {
	s.use(hostlimit.Config{Delay: paced})
	s.done(s.takeKey(s.key, math.MinInt64))
	s.done(s.takeKey(s.key, -1))
	s.audit()
}

func unknownFloor(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	for _, c := range []struct {
		floor, last time.Duration // last: the gap to the start before, and to the next one
	}{
		{hostlimit.FloorUnknown, 0},
		{3 * tick, 3 * tick},
		{hostlimit.FloorUnknown, 3 * tick},
		{hostlimit.FloorUnknown, 3 * tick},
		{tick, tick},
		{hostlimit.FloorUnknown, tick},
	} {
		t := s.takeKey(s.key, c.floor)
		t.floor = c.last // for the audit
		s.answer(t, 200, 0)
	}
	s.audit()
}

func slots(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 3})
	var flying atomic.Int32
	s.crowd(12, func(int) {
		for range 3 {
			t := s.take()
			if n := flying.Add(1); n > 3 || t.Slots != 3 {
				s.Errorf("%d in flight, %d slots, want 3", n, t.Slots)
			}
			time.Sleep(tick / 8)
			flying.Add(-1)
			s.answer(t, 200, 0)
		}
	})
	s.audit()
}

func firstCome(s *scene) {
	s.insist(func() (fault string) {
		s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1})
		holder := s.take()
		var order []int
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				t := s.take()
				order = append(order, i) // one slot: no other goroutine is here
				s.done(t)
			})
			s.settle(5 * tick)
		}
		s.done(holder)
		wg.Wait()
		s.audit()
		s.book = nil
		if fmt.Sprint(order) != "[0 1 2 3 4 5]" {
			return fmt.Sprintf("requests that came one after the other started in the order %v", order)
		}
		return ""
	})
}

func releaseTwice(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1})
	first := s.take()
	s.done(first)
	second := s.take()
	s.crowd(4, func(int) { first.lease.Release() })
	ctx, cancel := context.WithTimeout(s.Context(), 2*tick)
	defer cancel()
	if _, err := s.try(ctx, s.key, 0); !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("with the slot held: %v, want the context's error", err)
	}
	s.done(second)
	s.audit()
}

func cancelled(s *scene) {
	s.use(hostlimit.Config{Delay: paced, Concurrency: 1})
	holder := s.take()
	ctx, cancel := context.WithCancel(s.Context())
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if _, err := s.try(ctx, s.key, age); !errors.Is(err, context.Canceled) {
				s.Errorf("cancelled: %v", err)
			}
		})
	}
	time.Sleep(tick)
	wg.Go(func() { s.done(s.take()) })
	time.Sleep(tick)
	cancel()
	s.done(holder)
	wg.Wait()
	s.whole = true // if a turn were lost, the numbers would have a hole
	s.audit()
}

func doneContext(s *scene) {
	s.use(hostlimit.Config{Delay: paced})
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := s.limiter.Acquire(ctx, s.key, 0); !errors.Is(err, context.Canceled) {
		s.Errorf("Acquire: %v", err)
	}
	if _, err := s.limiter.Next(ctx, s.key, 0); !errors.Is(err, context.Canceled) {
		s.Errorf("Next: %v", err)
	}
	s.done(s.take())
	s.audit()
}

// refused checks a refusal that must not have been waited for.
func (s *scene) refused(err error, begin, retryAt time.Time, kinds ...error) {
	s.Helper()
	var e *hostlimit.Error
	if !errors.As(err, &e) {
		s.Fatalf("error %v, want an *Error", err)
	}
	for _, kind := range kinds {
		if !errors.Is(err, kind) {
			s.Errorf("error %v, want one that is %v", err, kind)
		}
	}
	if e.Key == "" || e.RetryAt.Before(retryAt) || e.RetryAt.After(retryAt.Add(age/2)) {
		s.Errorf("error of %q, RetryAt %v, want about %v", e.Key, e.RetryAt, retryAt)
	}
	if d := time.Since(begin); d > age/2 {
		s.Errorf("refused after %v, want at once", d)
	}
}

func deadline(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	first := s.takeKey(s.key, age)
	s.done(first)
	begin := time.Now()
	ctx, cancel := context.WithTimeout(s.Context(), age/2)
	defer cancel()
	_, err := s.try(ctx, s.key, 0)
	s.refused(err, begin, first.Start.Add(first.Delay), hostlimit.ErrBusy, context.DeadlineExceeded)
}

func maxWait(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, MaxWait: age / 2})
	first := s.takeKey(s.key, age)
	s.done(first)
	later, cancel := context.WithTimeout(s.Context(), time.Hour)
	defer cancel()
	for _, ctx := range []context.Context{s.Context(), later} {
		begin := time.Now()
		_, err := s.try(ctx, s.key, 0)
		s.refused(err, begin, first.Start.Add(first.Delay), hostlimit.ErrBusy)
		if errors.Is(err, context.DeadlineExceeded) {
			s.Error("refused by the context's deadline, which is later or none")
		}
	}
}

func maxWaitSlot(s *scene) {
	const most = 20 * tick
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1, MaxWait: most})
	holder := s.insistent()
	begin := time.Now()
	_, err := s.try(s.Context(), s.key, 0)
	if d := time.Since(begin); !errors.Is(err, hostlimit.ErrBusy) || d < most {
		s.Errorf("after %v: %v, want ErrBusy after %v", d, err, most)
	}
	s.done(holder)
	s.done(s.insistent())
	s.audit()
}

func slotTimeout(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, SlotTimeout: 3 * tick})
	a := s.insistent()
	b := s.insistent()
	begin := time.Now()
	_, err := s.try(s.Context(), s.key, 0)
	if d := time.Since(begin); !errors.Is(err, hostlimit.ErrBusy) || d < 3*tick {
		s.Errorf("after %v: %v, want ErrBusy after %v", d, err, 3*tick)
	} else {
		for _, part := range []string{"timeout waiting for host concurrency slot", s.key, "2", "bodies"} {
			if !strings.Contains(err.Error(), part) {
				s.Errorf("the error reads %q, without %q", err, part)
			}
		}
		var e *hostlimit.Error
		if !errors.As(err, &e) || !e.RetryAt.After(begin) {
			s.Errorf("timed out at %v: %#v, want a RetryAt", time.Now(), err)
		}
	}
	s.done(a)
	s.done(b)
	s.done(s.insistent())
	s.audit()
}

func slotTimeoutPacing(s *scene) {
	const timeout = 24 * tick
	s.insist(func() (fault string) {
		s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: timeout + tick}, Concurrency: 1, SlotTimeout: timeout})
		var mu sync.Mutex
		var refused error
		var held time.Duration // the longest that a request held the slot
		s.crowd(3, func(int) {
			t, err := s.try(s.Context(), s.key, 0)
			if err == nil {
				time.Sleep(tick)
				s.answer(t, 200, 0)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				refused = err
			} else {
				held = max(held, time.Since(t.Start))
			}
		})
		s.audit()
		if refused != nil && held < timeout/2 {
			return fmt.Sprintf("paced by more than SlotTimeout: %v", refused)
		}
		return ""
	})
}

func leaked(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, LeaseTTL: 5 * tick})
	a := s.take()
	b := s.take()
	c := s.take()
	reported := append(b.TakenBack, c.TakenBack...)
	tooEarly := c.Start.Before(a.Start.Add(5 * tick))
	if len(reported) == 0 || reported[0].Key != s.key || tooEarly {
		s.Errorf("started %v after the leaked turn, taken back: %v", c.Start.Sub(a.Start), reported)
	}
	s.crowd(4, func(int) { a.lease.Release() })
	if !a.lease.Release() {
		s.Error("the leaked lease doesn't say that it has expired")
	}
	s.done(b)
	if s.done(c) && time.Since(c.Start) < 5*tick {
		s.Error("a lease has expired before its time")
	}
	s.done(s.take())
	s.audit()
}

func adaptive(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: tick / 4, Adaptive: hostlimit.Squared, Ceiling: 5 * tick}})
	answer := func(status int, latency time.Duration) {
		t := s.take()
		t.lease.Observe(hostlimit.Outcome{Status: status, Latency: latency})
		s.done(t)
	}
	delay := func(want time.Duration) {
		s.Helper()
		t := s.take()
		if t.Delay != want {
			s.Errorf("delay %v, want %v", t.Delay, want)
		}
		s.done(t)
	}
	delay(tick / 4)
	answer(200, 200*time.Millisecond)
	delay(40 * time.Millisecond)
	answer(503, time.Millisecond) // a quick error doesn't lower it
	answer(404, time.Millisecond)
	delay(40 * time.Millisecond)
	answer(200, time.Minute)
	delay(5 * tick)
	answer(200, time.Millisecond)
	delay(tick / 4)
	s.audit()
}

func override(s *scene) {
	slow := newKey()
	s.use(hostlimit.Config{Delay: unpaced, Override: func(key string) (hostlimit.Limits, bool) {
		return hostlimit.Limits{Concurrency: 5, Delay: hostlimit.Delay{Min: 2 * tick}}, key == slow
	}})
	for range 3 {
		t := s.takeKey(slow, 0)
		if t.Slots != 5 || t.Delay != 2*tick {
			s.Errorf("%d slots, delay %v", t.Slots, t.Delay)
		}
		s.done(t)
		if t := s.take(); t.Slots != 2 || t.Delay != 0 {
			s.Errorf("a key without override: %d slots, delay %v", t.Slots, t.Delay)
		} else {
			s.done(t)
		}
	}
	s.audit()
}

func independent(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	s.answer(s.take(), 429, age)
	other := newKey()
	if t := s.takeKey(other, 0); t.Probe || t.WaitBlock != 0 {
		s.Errorf("another key's block is felt: %+v", t.Grant)
	}
	s.audit()
}

func maxInFlight(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, MaxInFlight: 3})
	var flying atomic.Int32
	keys := []string{newKey(), newKey(), newKey(), newKey(), newKey()}
	s.crowd(20, func(i int) {
		for range 2 {
			t := s.takeKey(keys[i%5], 0)
			if n := flying.Add(1); n > 3 {
				s.Errorf("%d requests in flight, want 3 at most", n)
			}
			time.Sleep(tick / 8)
			flying.Add(-1)
			s.answer(t, 200, 0)
		}
	})
	s.audit()
}

func perSite(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, PerSite: 3})
	domain := newKey()
	var flying atomic.Int32
	s.crowd(20, func(i int) {
		for range 2 {
			t := s.takeKey(fmt.Sprintf("n%d.%s:%d", i%3, domain, 8000+i%5), 0)
			if n := flying.Add(1); n > 3 {
				s.Errorf("%d requests in flight on a site, want 3 at most", n)
			}
			time.Sleep(tick / 8)
			flying.Add(-1)
			s.answer(t, 200, 0)
		}
	})
	for i := range 3 {
		defer s.done(s.takeKey(fmt.Sprintf("n%d.%s", i, domain), 0))
	}
	s.done(s.takeKey(newKey(), 0)) // another site isn't affected
	s.audit()
}

func blockedPlace(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, MaxInFlight: 1})
	s.answer(s.take(), 429, age)
	ctx, cancel := context.WithCancel(s.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := s.try(ctx, s.key, 0); !errors.Is(err, context.Canceled) {
				s.Errorf("on the blocked key: %v", err)
			}
		})
	}
	for range 3 {
		time.Sleep(tick / 2)
		s.done(s.takeKey(newKey(), 0))
	}
	cancel()
	wg.Wait()
	s.audit()
}

func next(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: age}})
	if n := s.next(age); n.After(time.Now().Add(age / 2)) {
		s.Errorf("next start on a new key is %v", n)
	}
	t := s.take()
	for range 3 { // Next takes no turn
		if n := s.next(0); n.Before(t.Start.Add(age)) || n.After(t.Start.Add(age+age/2)) {
			s.Errorf("next start is %v, want %v", n, t.Start.Add(age))
		}
	}
	if n := s.next(2 * age); n.Before(t.Start.Add(2 * age)) {
		s.Errorf("next start is %v, want %v", n, t.Start.Add(2*age))
	}
	e := s.answer(t, 429, 3*age)
	if n := s.next(0); n.Before(e.Until) {
		s.Errorf("next start is %v, blocked until %v", n, e.Until)
	}
}
