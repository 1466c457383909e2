package hostlimittest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// stamps checks that a request which wakes late has a late stamp, not the planned one.
func stamps(s *scene) {
	s.use(hostlimit.Config{Delay: paced})
	before := s.take()
	s.done(before)
	allPlanned := true // each stamp is that of the plan
	late := false      // a request has woken after its stamp
	for range 8 {
		t := s.take()
		back := time.Now()
		s.done(t)
		allPlanned = allPlanned && t.Start.Sub(before.Start) == before.Delay
		late = late || back.After(t.Start)
		before = t
	}
	if allPlanned && late {
		s.Error("starts are stamped with the times for which they were planned")
	}
	s.audit()
}

// newcomer comes at the very moment at which it gives back the slot that another waits for.
func newcomer(s *scene) {
	s.insist(func() (fault string) {
		s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1})
		holder := s.take()
		var waited uint64
		var wg sync.WaitGroup
		wg.Go(func() {
			t := s.take()
			waited = t.Seq
			s.done(t)
		})
		s.settle(5 * tick)
		s.done(holder)
		t := s.take()
		s.done(t)
		wg.Wait()
		if waited > t.Seq {
			return "a request that had just come started before one that waited"
		}
		return ""
	})
}

func leavers(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: age}})
	s.done(s.take())
	want := s.next(0)
	ctx, cancel := context.WithCancel(s.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := s.try(ctx, s.key, 0); !errors.Is(err, context.Canceled) {
				s.Errorf("cancelled: %v", err)
			}
		})
	}
	time.Sleep(10 * tick)
	cancel()
	wg.Wait()
	begin := time.Now()
	hurried, cancel := context.WithTimeout(s.Context(), age/2)
	defer cancel()
	_, err := s.try(hurried, s.key, 0)
	s.refused(err, begin, want.Add(-tick), hostlimit.ErrBusy)
	n := s.next(0)
	for range 50 { // a limiter on another machine may hear of it a moment later
		if !n.After(want.Add(5 * tick)) {
			return
		}
		time.Sleep(tick)
		n = s.next(0)
	}
	s.Errorf("the next start was %v; now that others have left it is %v", want, n)
}

func refusedNumber(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: 4 * tick}})
	s.done(s.take())
	for range 3 {
		ctx, cancel := context.WithTimeout(s.Context(), tick)
		if t, err := s.try(ctx, s.key, 0); err == nil {
			s.done(t)
		}
		cancel()
	}
	s.done(s.take())
	s.whole = true
	s.audit()
}

func deadlineQueue(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: age}})
	first := s.take()
	s.done(first)
	s.insist(func() (fault string) {
		defer s.behind()()
		begin := time.Now()
		ctx, cancel := context.WithTimeout(s.Context(), age+age/2)
		defer cancel()
		// At the head of the queue it would be in time.
		defer time.AfterFunc(20*tick, cancel).Stop()
		_, err := s.try(ctx, s.key, 0)
		if errors.Is(err, context.Canceled) {
			return "a deadline that the queue makes impossible is waited for"
		}
		s.refused(err, begin, first.Start.Add(2*age), hostlimit.ErrBusy, context.DeadlineExceeded)
		return ""
	})
}

func blockBehind(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1})
	first := s.take()
	defer s.behind()()
	begin := time.Now()
	refused := s.hurries(age / 2)
	s.answer(first, 429, age)
	s.refused(<-refused, begin, begin.Add(age), hostlimit.ErrBlocked, context.DeadlineExceeded)
}

func goesRound(s *scene) {
	s.insist(func() (fault string) {
		s.use(hostlimit.Config{Delay: unpaced, MaxInFlight: 1})
		holder := s.takeKey(newKey(), 0)
		var order string
		var wg sync.WaitGroup
		crowd := func(n int, name string) {
			key := newKey()
			for range n {
				wg.Go(func() {
					t := s.takeKey(key, 0)
					order += name // one place: no other goroutine is here
					s.settle(tick / 4)
					s.done(t)
				})
			}
			s.settle(5 * tick)
		}
		crowd(5, "a")
		crowd(3, "b")
		s.done(holder)
		wg.Wait()
		if len(order) < 4 || strings.Count(order[:4], "a") != 2 {
			return fmt.Sprintf("two keys got the one place in the order %s", order)
		}
		return ""
	})
}

// debts has more hosts than MaxHosts.
func debts(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, MaxHosts: 1})
	counted := newKey()
	slow := newKey()
	blocked := newKey()
	s.answer(s.takeKey(counted, 0), 429, 1) // the block is over, the counter stays
	start := s.takeKey(slow, age)
	s.done(start)
	e := s.answer(s.takeKey(blocked, 0), 429, age)
	for range 200 {
		s.done(s.takeKey(newKey(), 0))
	}
	s.key = blocked
	if n := s.next(0); n.Before(e.Until) {
		s.Errorf("blocked until %v, next start %v", e.Until, n)
	}
	s.key = slow
	if n := s.next(0); n.Before(start.Start.Add(age)) {
		s.Errorf("started %v with a delay of %v, next start %v", start.Start, age, n)
	}
	t := s.takeKey(counted, 0)
	if e := s.answer(t, 429, 0); !t.Probe || e.Refusals != 2 {
		s.Errorf("the second refusal: probe %v, %+v", t.Probe, e)
	}
	s.audit()
}
