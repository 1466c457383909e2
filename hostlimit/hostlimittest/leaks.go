package hostlimittest

import (
	"context"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

func leakedPlace(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, MaxInFlight: 1, LeaseTTL: 5 * tick})
	a := s.take()
	b := s.takeKey(newKey(), 0)
	if b.Start.Before(a.Start.Add(5 * tick)) {
		s.Errorf("started %v after the one request that may be in flight", b.Start.Sub(a.Start))
	}
	s.done(a)
	s.done(b)
	s.audit()
}

// leakedOnce releases a lease that has expired: its slot belongs to another lease by then.
func leakedOnce(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, LeaseTTL: 20 * tick})
	a := s.take()
	time.Sleep(15 * tick)
	b := s.take()
	c := s.take()
	s.done(a)
	ctx, cancel := context.WithTimeout(s.Context(), tick)
	defer cancel()
	if d, err := s.try(ctx, s.key, 0); err == nil {
		if d.Start.Before(b.Start.Add(20 * tick)) {
			s.Errorf("three requests in flight, of which none had expired: %+v", d.Grant)
		}
		s.done(d)
	}
	s.done(b)
	s.done(c)
	s.audit()
}

func leakedRefusal(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, LeaseTTL: 5 * tick})
	late := s.take()
	a := s.take()
	b := s.take() // gets the slot of late
	if e := late.lease.Observe(hostlimit.Outcome{Status: 429, RetryAfter: age}); !e.Blocked {
		s.Errorf("the refusal of a request whose lease had expired did %+v", e)
	}
	if !s.done(late) {
		s.Error("a lease whose slot is somebody else's doesn't say that it has expired")
	}
	if n := s.next(0); n.Before(b.Start.Add(age)) {
		s.Errorf("next start is %v, refused until %v", n, b.Start.Add(age))
	}
	s.done(a)
	s.done(b)
	s.audit()
}

func leakedProbe(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, LeaseTTL: 5 * tick})
	s.answer(s.take(), 429, tick)
	a := s.take()
	b := s.take()
	if !a.Probe || !b.Probe || b.Start.Before(a.Start.Add(5*tick)) {
		s.Errorf("after a leaked probe: %+v, then %+v", a.Grant, b.Grant)
	}
	s.answer(b, 200, 0)
	s.audit()
}
