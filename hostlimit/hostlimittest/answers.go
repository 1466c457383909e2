package hostlimittest

import (
	"context"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

func formulas(s *scene) {
	const ms = time.Millisecond
	for _, c := range []struct {
		adaptive hostlimit.Adaptive
		answers  [][3]time.Duration // status, latency, and the delay afterwards
	}{
		{hostlimit.Proportional(0.5), [][3]time.Duration{
			{200, 80 * ms, 40 * ms}, {503, ms, 40 * ms}, {200, 30 * ms, 15 * ms}, {200, ms, 5 * ms}, {200, age, 60 * ms},
		}},
		{hostlimit.Throttle(2), [][3]time.Duration{
			{200, 80 * ms, 40 * ms}, {200, 40 * ms, 30 * ms}, {404, ms, 30 * ms}, {500, 100 * ms, 50 * ms}, {200, age, 60 * ms},
		}},
	} {
		s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: 5 * ms, Adaptive: c.adaptive, Ceiling: 60 * ms}})
		for _, a := range c.answers {
			t := s.take()
			t.lease.Observe(hostlimit.Outcome{Status: int(a[0]), Latency: a[1]})
			s.done(t)
			t = s.take()
			if t.Delay != a[2] {
				s.Errorf("%v: after %d in %v the delay is %v, want %v", c.adaptive, a[0], a[1], t.Delay, a[2])
			}
			s.done(t)
		}
		s.audit()
	}
}

func slowAnswer(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: tick, Adaptive: hostlimit.Proportional(1), Ceiling: 2 * age}})
	t := s.take()
	t.lease.Observe(hostlimit.Outcome{Status: 200, Latency: age})
	s.done(t)
	if n := s.next(0); n.Before(t.Start.Add(age)) {
		s.Errorf("an answer made the delay %v, and the next start is %v after the last", age, n.Sub(t.Start))
	}
}

func slowRefuses(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: 20 * tick, Adaptive: hostlimit.Proportional(1), Ceiling: age}})
	first := s.take()
	defer s.behind()()
	begin := time.Now()
	refused := s.hurries(age / 8)
	first.lease.Observe(hostlimit.Outcome{Status: 200, Latency: age / 4})
	s.done(first)
	s.refused(<-refused, begin, first.Start.Add(age/4), hostlimit.ErrBusy, context.DeadlineExceeded)
}

func retryAfterPolicy(s *scene) {
	for _, atLeast := range []bool{false, true} {
		s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Refusals{Policy: backoff.Doubling{Start: age}, AtLeast: atLeast}})
		t := s.take()
		if e := s.answer(t, 429, tick); e.Until.After(t.Start.Add(age/2)) != atLeast {
			s.Errorf("AtLeast %v: a Retry-After of %v, where the policy says %v, blocks until %v", atLeast, tick, age, e.Until)
		}
	}
	// It counts as any.
	s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Doubling{Start: age}})
	s.answer(s.take(), 429, tick)
	s.answer(s.take(), 429, tick)
	t := s.take()
	if e := s.answer(t, 429, 0); e.Refusals != 3 || e.Until.Before(t.Start.Add(4*age)) {
		s.Errorf("a third refusal, after two with Retry-After: %+v", e)
	}
	s.audit()
}

func forgiven(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Refusals{Forgive: 3 * tick}})
	e := s.answer(s.take(), 429, tick)
	time.Sleep(time.Until(e.Until.Add(8 * tick)))
	t := s.take()
	if e := s.answer(t, 429, 0); t.Probe || e.Refusals != 1 {
		s.Errorf("after the time that forgives: probe %v, %+v", t.Probe, e)
	}
}

func aside(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	s.answer(s.take(), 429, tick)
	t := s.take()
	if e := t.lease.Observe(hostlimit.Outcome{Status: 200, Aside: true}); e.Cleared {
		s.Errorf("a success aside did %+v", e)
	}
	s.done(t)
	t = s.take()
	if e := s.answer(t, 200, 0); !t.Probe || !e.Cleared {
		s.Errorf("probe %v, effect %+v", t.Probe, e)
	}
	s.audit()
}
