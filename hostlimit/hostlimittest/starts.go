package hostlimittest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// acquire takes a lease of the scene's key that hasn't started, and ends the test if there is none.
func (s *scene) acquire() hostlimit.Lease {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), stuck)
	defer cancel()
	l, err := s.limiter.Acquire(ctx, s.key, 0)
	if err != nil {
		s.Fatalf("no turn on %s: %v", s.key, err)
	}
	return l
}

// again starts a turn once more. Its stamp from before is void: the book forgets it.
func (s *scene) again(t *turn) {
	s.Helper()
	called := time.Now()
	ctx, cancel := context.WithTimeout(s.Context(), stuck)
	defer cancel()
	g, err := t.lease.Start(ctx)
	if err != nil {
		s.Fatalf("a further Start: %v", err)
	}
	if g.Start.Before(called) || g.Start.After(time.Now()) {
		s.Errorf("start stamped %v, outside of a Start that began %v", g.Start, called)
	}
	if g.Seq <= t.Seq {
		s.Errorf("a further Start has number %d, the one before %d", g.Seq, t.Seq)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Grant = g
}

func releaseUnstarted(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: age}})
	for range 3 {
		called := time.Now()
		l := s.acquire()
		if n := s.next(0); n.Before(called.Add(age)) {
			s.Errorf("a turn is had at %v, and the next start is %v: the turn may still start", called, n)
		}
		if l.Release() {
			s.Error("a lease that was held for a moment has expired")
		}
	}
	begin := time.Now()
	t := s.take()
	if time.Since(begin) > age/2 || t.WaitDelay > age/2 {
		s.Errorf("after turns that never started, a start waited %v", t.WaitDelay)
	}
	// The gap after the previous start still applies.
	s.done(t)
	ctx, cancel := context.WithTimeout(s.Context(), age/2)
	defer cancel()
	if _, err := s.try(ctx, s.key, 0); !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("within the delay of a start: %v", err)
	}
}

func numbersWithoutHoles(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	for range 4 {
		s.acquire().Release()
		s.done(s.take())
		s.acquire().Release()
	}
	s.whole = true
	s.audit()
}

func startAgain(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: age}})
	t := s.take()
	time.Sleep(2 * tick)
	for range 3 {
		s.again(t) // it doesn't wait for its own delay
		time.Sleep(tick)
	}
	if n := s.next(0); n.Before(t.Start.Add(age)) {
		s.Errorf("started again at %v, with a delay of %v; next start %v", t.Start, age, n)
	}
	s.done(t)
	if n := s.next(0); n.Before(t.Start.Add(age)) {
		s.Errorf("released, started last at %v, with a delay of %v; next start %v", t.Start, age, n)
	}
}

func startAgainGap(s *scene) {
	s.use(hostlimit.Config{Delay: paced, Concurrency: 3})
	a := s.take()
	b := s.take()
	s.again(a)
	if gap := a.Start.Sub(b.Start); gap < tick {
		s.Errorf("started again %v after the start of another", gap)
	}
	s.crowd(5, func(i int) {
		for range 2 {
			t := s.take()
			for range i % 3 {
				time.Sleep(tick / 4)
				s.again(t)
			}
			s.answer(t, 200, 0)
		}
	})
	s.done(a)
	s.done(b)
	s.audit()
}

func startIntoBlock(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 3})
	a := s.take()
	b := s.take()
	l := s.acquire()
	e := s.answer(a, 429, 4*tick)
	var wg sync.WaitGroup
	started := func(g hostlimit.Grant, err error) {
		switch {
		case err != nil:
			s.Errorf("Start after a block was set: %v", err)
		case g.Start.Before(e.Until):
			s.Errorf("started %v, blocked until %v", g.Start, e.Until)
		}
	}
	wg.Go(func() {
		defer s.done(b)
		g, err := b.lease.Start(s.Context())
		started(g, err)
		b.lease.Observe(hostlimit.Outcome{Status: 200})
	})
	wg.Go(func() {
		defer l.Release()
		g, err := l.Start(s.Context())
		started(g, err)
		l.Observe(hostlimit.Outcome{Status: 200})
	})
	wg.Wait()
}

func startRefused(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 3})
	a := s.take()
	b := s.take()
	c := s.take()
	begin := time.Now()
	s.answer(a, 429, age)
	ctx, cancel := context.WithTimeout(s.Context(), age/2)
	defer cancel()
	_, err := b.lease.Start(ctx)
	s.refused(err, begin, begin.Add(age), hostlimit.ErrBlocked, context.DeadlineExceeded)
	ctx, cancel = context.WithCancel(s.Context())
	defer time.AfterFunc(tick, cancel).Stop()
	if _, err := c.lease.Start(ctx); !errors.Is(err, context.Canceled) {
		s.Errorf("a Start that was cancelled in a block: %v", err)
	}
	s.done(b)
	s.done(c)
	if _, err := c.lease.Start(s.Context()); err == nil {
		s.Error("a lease starts after its Release")
	}
}

// renewed sees that a lease which is in use keeps its slot. A machine so busy that Renew
// came late proves nothing.
func renewed(s *scene) {
	const ttl = 20 * tick
	s.insist(func() (fault string) {
		s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1, LeaseTTL: ttl})
		t := s.take()
		var late time.Duration // the longest time without a Renew
		last := t.Start
		other := make(chan error, 1)
		ctx, cancel := context.WithTimeout(s.Context(), 3*ttl)
		defer cancel()
		go func() {
			l, err := s.limiter.Acquire(ctx, s.key, 0)
			if err == nil {
				l.Release()
			}
			other <- err
		}()
		var err error
		for waiting := true; waiting; {
			select {
			case err = <-other:
				waiting = false
			case <-time.After(tick):
			}
			now := time.Now()
			late = max(late, now.Sub(last))
			last = now
			t.lease.Renew()
		}
		if expired := s.done(t); (err == nil || expired) && late < ttl/2 {
			return "a lease that is renewed loses its slot after LeaseTTL"
		}
		return ""
	})
}

func config(s *scene) {
	want := hostlimit.Config{
		Concurrency: 3,
		MaxInFlight: 7,
		SlotTimeout: time.Minute,
		LeaseTTL:    age,
		MaxWait:     2 * age,
		MaxHosts:    100,
		Delay:       hostlimit.Delay{Min: tick, Max: 2 * tick, Adaptive: hostlimit.Squared, Ceiling: age},
		Windows:     []hostlimit.Window{{From: age, To: 3 * age}, {From: 22 * age, To: 2 * age}},
	}
	s.use(want)
	config := s.limiter.Config()
	got := hostlimit.Config{
		Concurrency: config.Concurrency,
		MaxInFlight: config.MaxInFlight,
		SlotTimeout: config.SlotTimeout,
		LeaseTTL:    config.LeaseTTL,
		MaxWait:     config.MaxWait,
		MaxHosts:    config.MaxHosts,
		Delay:       config.Delay,
		Windows:     slices.Clone(config.Windows),
	}
	if !reflect.DeepEqual(got, want) {
		s.Errorf("made of %+v, returns %+v", want, got)
	}
}
