package hostlimittest

import (
	"context"
	"errors"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

func formulas(s *scene) {
	const us, ms = time.Microsecond, time.Millisecond
	for _, c := range []struct {
		adaptive hostlimit.Adaptive
		answers  [][3]time.Duration // status, latency, and the delay afterwards
	}{
		{hostlimit.Proportional(0.5), [][3]time.Duration{
			{200, 155 * ms, 41250 * us}, {503, ms, 41250 * us}, {404, 156 * ms, 59625 * us}, {200, 20750 * us, 35 * ms}, {200, age, 60 * ms},
		}},
		{hostlimit.Longest(hostlimit.Squared, hostlimit.Proportional(0.5)), [][3]time.Duration{
			{200, 200 * ms, 52500 * us}, {200, 15 * ms, 30 * ms}, {200, age, 60 * ms},
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
			if t.Delay < a[2] || t.Delay >= a[2]+time.Microsecond { // a limiter may count in them
				s.Errorf("%v: after %d in %v the delay is %v, want %v", c.adaptive, a[0], a[1], t.Delay, a[2])
			}
			s.done(t)
		}
		s.audit()
	}
}

func slowAnswer(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: tick, Adaptive: hostlimit.Throttle(1), Ceiling: 2 * age}})
	t := s.take()
	t.lease.Observe(hostlimit.Outcome{Status: 200, Latency: age})
	s.done(t)
	if n := s.next(0); n.Before(t.Start.Add(age)) {
		s.Errorf("an answer made the delay %v, and the next start is %v after the last", age, n.Sub(t.Start))
	}
}

func slowRefuses(s *scene) {
	// Nobody's turn comes before the answer does, however busy the machine is.
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: age / 32, Adaptive: hostlimit.Throttle(1), Ceiling: age}})
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

func inARow(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Doubling{Start: age}})
	say := func(o hostlimit.Outcome) hostlimit.Effect {
		t := s.take()
		defer s.done(t)
		return t.lease.Observe(o)
	}
	failures := []hostlimit.Outcome{{Status: 403}, {Status: 500}, {Status: 451}, {Err: errors.New("connection refused")}, {Status: 401}}
	for _, served := range []int{404, 200, 301, 410} {
		for _, o := range failures[:4] {
			if e := say(o); e != (hostlimit.Effect{}) {
				s.Errorf("fewer than five failures did %+v", e)
			}
		}
		if e := say(hostlimit.Outcome{Status: served}); e != (hostlimit.Effect{}) {
			s.Errorf("status %d after four failures did %+v", served, e)
		}
	}
	for i, o := range failures {
		say(hostlimit.Outcome{Status: 407})
		say(hostlimit.Outcome{Err: context.Canceled})
		say(hostlimit.Outcome{Status: 200, Aside: true})
		if e := say(o); e.Blocked != (i == 4) || e.Refusals != i/4 {
			s.Errorf("failure %d in a row did %+v", i+1, e)
		}
	}
	if n := s.next(0); n.Before(time.Now().Add(age / 2)) {
		s.Errorf("after five failures in a row the next start is %v", n)
	}
	s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Refusals{InARow: 2}})
	say(hostlimit.Outcome{Status: 403})
	if e := say(hostlimit.Outcome{Status: 403}); !e.Blocked {
		s.Errorf("the second of InARow 2 did %+v", e)
	}
	s.audit()
}

func probeFails(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Doubling{Start: tick}})
	s.answer(s.take(), 429, 0)
	for i, status := range []int{403, 451} {
		t := s.take()
		if e := s.answer(t, status, 0); !t.Probe || !e.Blocked || e.Refusals != i+2 || e.Until.Before(t.Start.Add(tick<<(i+1))) {
			s.Errorf("probe %v, status %d: %+v", t.Probe, status, e)
		}
	}
	t := s.take()
	if e := s.answer(t, 404, 0); !t.Probe || !e.Cleared || e.Refusals != 0 {
		s.Errorf("probe %v, status 404: %+v", t.Probe, e)
	}
	s.audit()
}

func unable(s *scene) {
	for _, c := range []struct {
		outcome hostlimit.Outcome
		policy  bool
	}{
		{hostlimit.Outcome{Status: 403}, true},
		{hostlimit.Outcome{Status: 401}, true},
		{hostlimit.Outcome{Status: 402}, true},
		{hostlimit.Outcome{Status: 451}, true},
		{hostlimit.Outcome{Status: 500}, false},
		{hostlimit.Outcome{Status: 408}, false},
		{hostlimit.Outcome{Status: 425}, false},
		{hostlimit.Outcome{Err: errors.New("connection reset")}, false},
	} {
		s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Refusals{Policy: backoff.Doubling{Start: age}, InARow: 1}})
		t := s.take()
		e := t.lease.Observe(c.outcome)
		s.done(t)
		if long := e.Until.After(t.Start.Add(age / 2)); !e.Blocked || e.Refusals != 1 || e.Until.Before(t.Start.Add(time.Second)) || long != c.policy {
			s.Errorf("%+v did %+v", c.outcome, e)
		}
	}
}

func reset(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 3, Backoff: backoff.Refusals{MaxRetryAfter: age}})
	say := func(t *turn, o hostlimit.Outcome) hostlimit.Effect {
		defer s.done(t)
		return t.lease.Observe(o)
	}
	late := s.take()
	t := s.take()
	e := say(t, hostlimit.Outcome{Status: 200, Reset: skew})
	if !e.Blocked || e.Refusals != 0 || e.Until.Before(t.Start.Add(skew)) {
		s.Errorf("a limit that is used up did %+v", e)
	}
	if e := say(late, hostlimit.Outcome{Status: 429}); e.Refusals != 0 {
		s.Errorf("a refusal from before it did %+v", e)
	}
	t = s.take()
	if t.Probe || t.Start.Before(e.Until) {
		s.Errorf("probe %v, started %v, blocked until %v", t.Probe, t.Start, e.Until)
	}
	if e := say(t, hostlimit.Outcome{Status: 200, Reset: age, RetryAfter: tick}); e.Until.After(t.Start.Add(age / 2)) {
		s.Errorf("a limit that is used up, with Retry-After %v, did %+v", tick, e)
	}
	say(s.take(), hostlimit.Outcome{Status: 429, RetryAfter: tick})
	t = s.take()
	if e := say(t, hostlimit.Outcome{Status: 200, Reset: 2 * age}); !t.Probe || !e.Cleared || !e.Blocked || e.Refusals != 0 ||
		e.Until.Before(t.Start.Add(age)) || e.Until.After(t.Start.Add(age+age/2)) {
		s.Errorf("a probe's success with nothing left did %+v", e)
	}
	s.audit()
}

func learned(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: tick}})
	var delays []time.Duration
	refuse := func(effect int) {
		s.Helper()
		t := s.take()
		delays = append(delays, t.Delay)
		if e := s.answer(t, 429, 1); e.Refusals != effect {
			s.Errorf("a refusal did %+v, want the counter at %d", e, effect)
		}
	}
	serve := func() *turn {
		t := s.take()
		delays = append(delays, t.Delay)
		s.answer(t, 200, 0)
		return t
	}
	refuse(1)
	refuse(2)
	refuse(3)
	longer := serve()
	if longer.Delay < tick+tick/2 || longer.DelaySource != "learned" || delays[1] != longer.Delay || delays[2] != longer.Delay {
		s.Errorf("delays around three refusals: %v, by %s", delays, longer.DelaySource)
	}
	for range 19 {
		if t := serve(); t.Delay != longer.Delay {
			s.Errorf("the delay is %v within twenty starts, was %v", t.Delay, longer.Delay)
		}
	}
	// A limiter may count in microseconds.
	if t, want := serve(), longer.Delay*98/100; t.Delay < want-time.Microsecond || t.Delay > want+time.Microsecond {
		s.Errorf("the delay is %v after twenty starts, want 98 %% of %v", t.Delay, longer.Delay)
	}
	s.audit()

	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: tick, Adaptive: hostlimit.Fixed}})
	s.answer(s.take(), 429, 1)
	if t := s.take(); t.Delay != tick || t.DelaySource != "random" {
		s.Errorf("fixed: %v by %q", t.Delay, t.DelaySource)
	}
}

func learnedMean(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: tick / 4}})
	s.answer(s.take(), 429, 1)
	began := time.Now()
	const n = 4
	for range n - 1 {
		time.Sleep(5 * tick)
		s.answer(s.take(), 200, 0)
	}
	least := time.Since(began) / n
	s.answer(s.take(), 429, 1)
	if t := s.take(); t.Delay < least-time.Millisecond {
		s.Errorf("the delay is %v after starts %v apart", t.Delay, least)
	}
	s.audit()
}

func unlearned(s *scene) {
	for _, o := range []hostlimit.Outcome{{Status: 500, RetryAfter: 1}, {Err: errors.New("connection reset"), RetryAfter: 1}} {
		s.use(hostlimit.Config{Delay: paced, Backoff: backoff.Refusals{InARow: 1}})
		t := s.take()
		if e := t.lease.Observe(o); !e.Blocked {
			s.Errorf("%+v did %+v", o, e)
		}
		s.done(t)
		if t := s.take(); t.Delay != tick {
			s.Errorf("%+v makes the delay %v", o, t.Delay)
		}
	}
}

func fromEnd(s *scene) {
	s.use(hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: tick, FromEnd: true}})
	for _, floor := range []time.Duration{0, 3 * tick, 0} {
		t := s.takeKey(s.key, floor)
		time.Sleep(2 * tick)
		s.answer(t, 200, 0)
		ended := time.Now()
		if next := s.takeKey(s.key, floor); next.Start.Before(ended.Add(max(tick, floor) - time.Millisecond)) {
			s.Errorf("floor %v: started %v after the end of the one before", floor, next.Start.Sub(ended))
		} else {
			s.done(next)
		}
	}
	s.audit()
}

func noAnswer(s *scene) {
	s.use(hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: 2 * tick}})
	t := s.take()
	time.Sleep(4 * tick) // a dial, which fails
	t.lease.Observe(hostlimit.Outcome{Err: errors.New("connection refused"), Latency: 4 * tick})
	failed := time.Now()
	s.done(t)
	if next := s.take(); next.Start.Before(failed.Add(2*tick - time.Millisecond)) {
		s.Errorf("started %v after the end of an attempt that had no answer", next.Start.Sub(failed))
	}
}

func windows(s *scene) {
	// Open from two hours from now on, for an hour, and so closed now.
	now := time.Now().UTC()
	from := (now.Sub(now.Truncate(24*age)) + 2*age).Truncate(time.Minute) % (24 * age)
	hours := []hostlimit.Window{{From: from, To: (from + age) % (24 * age)}}
	s.use(hostlimit.Config{Delay: unpaced, Windows: hours, MaxWait: age})
	begin := time.Now()
	open := begin.Add(2*age - time.Minute)
	if n := s.next(0); n.Before(open) || n.After(begin.Add(2*age+time.Minute)) {
		s.Errorf("Next %v at %v, want %v later", n, begin, 2*age)
	}
	_, err := s.try(s.Context(), s.key, 0)
	s.refused(err, begin, open, hostlimit.ErrBlocked)

	// Closed for an hour, two hours from now.
	s.use(hostlimit.Config{Delay: unpaced, Windows: []hostlimit.Window{{From: hours[0].To, To: from}}, MaxWait: age})
	s.done(s.take())
}

func maxWaitDefault(s *scene) {
	s.useAsItIs(hostlimit.Config{Delay: unpaced})
	const year = 365 * 24 * time.Hour
	first := s.takeKey(s.key, year)
	s.done(first)
	begin := time.Now()
	_, err := s.try(s.Context(), s.key, 0)
	s.refused(err, begin, first.Start.Add(year), hostlimit.ErrBusy)
}

func deadlinePasses(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1})
	t := s.take()
	for _, ahead := range []bool{false, true} {
		leave := func() {}
		if ahead {
			leave = s.behind()
		}
		ctx, cancel := context.WithTimeout(s.Context(), 5*tick)
		_, err := s.try(ctx, s.key, 0)
		cancel()
		leave()
		s.refused(err, time.Now(), time.Now().Add(-tick), hostlimit.ErrBusy, context.DeadlineExceeded)
	}
	s.done(t)
	s.audit()
}
