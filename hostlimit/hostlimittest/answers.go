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
			{200, 155 * ms, 41250 * us},
			{503, ms, 41250 * us},
			{404, 156 * ms, 59625 * us},
			{200, 20750 * us, 35 * ms},
			{200, age, 60 * ms},
		}},
		{hostlimit.Longest(hostlimit.Squared, hostlimit.Proportional(0.5)), [][3]time.Duration{
			{200, 200 * ms, 52500 * us}, {200, 15 * ms, 30 * ms}, {200, age, 60 * ms},
		}},
		{hostlimit.Slower(1), [][3]time.Duration{ // before the first page no time is usual, then 16 ms are
			{404, 20 * ms, 12500 * us},
			{200, 16 * ms, 12500 * us / 2},
			{200, 24 * ms, 5 * ms},
			{404, 50 * ms, 27500 * us},
			{200, age, 60 * ms},
		}},
		{hostlimit.Throttle(2), [][3]time.Duration{
			{200, 80 * ms, 40 * ms},
			{200, 40 * ms, 30 * ms},
			{404, ms, 30 * ms},
			{500, 100 * ms, 30 * ms}, // the time of the first 5xx in a row doesn't count
			{500, 100 * ms, 50 * ms},
			{200, age, 60 * ms},
		}},
	} {
		s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: 5 * ms, Adaptive: c.adaptive, Ceiling: 60 * ms}})
		for _, a := range c.answers {
			t := s.take()
			t.lease.Observe(hostlimit.Outcome{Status: int(a[0]), Latency: a[1]})
			s.done(t)
			t = s.take()
			if t.Delay < a[2] || t.Delay >= a[2]+time.Microsecond { // a limiter may count in microseconds
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
	// The delay is so long that no turn comes before the response, even on a busy machine.
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
		policy := backoff.Refusals{Policy: backoff.Doubling{Start: age}, AtLeast: atLeast}
		s.use(hostlimit.Config{Delay: unpaced, Backoff: policy})
		t := s.take()
		e := s.answer(t, 429, tick)
		if e.Until.After(t.Start.Add(age/2)) != atLeast {
			s.Errorf("AtLeast %v: Retry-After %v beside the policy's %v blocks until %v", atLeast, tick, age, e.Until)
		}
	}
	// A refusal with Retry-After counts as any other.
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

// forbidden has four answers in a row that may be a ban, each time with a success after them, and
// then five: the request after these shows whether it is one.
func forbidden(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Fibonacci{}})
	say := func(o hostlimit.Outcome) (*turn, hostlimit.Effect) {
		t := s.take()
		defer s.done(t)
		return t, t.lease.Observe(o)
	}
	statuses := []int{403, 401, 451, 420, 999} // the last two are no words of HTTP
	for _, served := range []int{404, 200, 301, 410} {
		for _, status := range append(statuses[:4:4], served) {
			if _, e := say(hostlimit.Outcome{Status: status}); e != (hostlimit.Effect{}) {
				s.Errorf("status %d, one of fewer than five, did %+v", status, e)
			}
		}
	}
	five := func() {
		s.Helper()
		for i, status := range statuses {
			say(hostlimit.Outcome{Status: 407})
			say(hostlimit.Outcome{Status: 405})
			say(hostlimit.Outcome{Status: 501, Method: "HEAD"})
			say(hostlimit.Outcome{Err: context.Canceled})
			say(hostlimit.Outcome{Status: 200, Aside: true})
			if t, e := say(hostlimit.Outcome{Status: status}); e != (hostlimit.Effect{}) || t.Probe {
				s.Errorf("number %d in a row did %+v", i+1, e)
			}
		}
	}
	five()
	if t, e := say(hostlimit.Outcome{Status: 200}); !t.Probe || !e.Cleared || e.Refusals != 0 {
		s.Errorf("a page that is served after five: probe %v, %+v", t.Probe, e)
	}
	five()
	t, e := say(hostlimit.Outcome{Status: 403})
	inTime := !e.Until.Before(t.Start.Add(time.Minute)) && !e.Until.After(time.Now().Add(age/2))
	if !t.Probe || !e.Blocked || e.Refusals != 1 || !inTime {
		s.Errorf("a page that is refused after five: probe %v, %+v", t.Probe, e)
	}
	if n := s.next(0); n.Before(t.Start.Add(time.Minute)) {
		s.Errorf("after a ban the next start is %v", n)
	}
	s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Refusals{InARow: 1, Policy: backoff.Doubling{Start: age}}})
	say(hostlimit.Outcome{Status: 403})
	if t, e := say(hostlimit.Outcome{Status: 403}); !e.Blocked || e.Until.Before(t.Start.Add(age)) {
		s.Errorf("the second of InARow 1 did %+v", e)
	}
	s.audit()
}

// unsure has a page refused, asked again, and another page asked after it.
func unsure(s *scene) {
	failure := hostlimit.Outcome{Err: errors.New("connection reset")}
	for _, o := range []hostlimit.Outcome{{Status: 503}, {Status: 500}, {Status: 408}, {Status: 425}, failure} {
		s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Doubling{Start: age}})
		t := s.take()
		o.Resource = 1
		e := t.lease.Observe(o)
		s.done(t)
		forASecond := !e.Until.Before(t.Start.Add(time.Second)) && !e.Until.After(time.Now().Add(time.Second))
		if !e.Blocked || e.Refusals != 1 || !forASecond {
			s.Errorf("%+v did %+v", o, e)
		}
	}
	for _, served := range []bool{true, false} {
		s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Doubling{Start: age}})
		say := func(status int, resource uint64) (*turn, hostlimit.Effect) {
			t := s.take()
			defer s.done(t)
			return t, t.lease.Observe(hostlimit.Outcome{Status: status, Resource: resource})
		}
		say(503, 1)
		if t, e := say(503, 1); !t.Probe || e.Blocked || e.Own || e.Refusals != 1 {
			s.Errorf("a page that is refused again: probe %v, %+v", t.Probe, e)
		}
		if !served {
			t, e := say(503, 2)
			tooShort := e.Until.Before(t.Start.Add(2 * time.Second))
			if !t.Probe || !e.Blocked || e.Refusals != 3 || tooShort {
				s.Errorf("another page that is refused after it: probe %v, %+v", t.Probe, e)
			}
			continue
		}
		if t, e := say(200, 2); !t.Probe || !e.Cleared {
			s.Errorf("another page that is served after it: probe %v, %+v", t.Probe, e)
		}
		if t, e := say(503, 1); t.Probe || e != (hostlimit.Effect{Own: true}) {
			s.Errorf("a page with a trouble of its own, once more: probe %v, %+v", t.Probe, e)
		}
	}
	s.audit()
}

func probeFails(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Doubling{Start: tick}})
	s.answer(s.take(), 429, 0)
	for i, status := range []int{403, 451} {
		t := s.take()
		e := s.answer(t, status, 0)
		tooShort := e.Until.Before(t.Start.Add(tick << (i + 1)))
		if !t.Probe || !e.Blocked || e.Refusals != i+2 || tooShort {
			s.Errorf("probe %v, status %d: %+v", t.Probe, status, e)
		}
	}
	t := s.take()
	if e := s.answer(t, 404, 0); !t.Probe || !e.Cleared || e.Refusals != 0 {
		s.Errorf("probe %v, status 404: %+v", t.Probe, e)
	}
	s.audit()
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
	if e := say(t, hostlimit.Outcome{Status: 404, Reset: age, RetryAfter: tick}); e.Until.After(t.Start.Add(age / 2)) {
		s.Errorf("a limit that is used up, with Retry-After %v, did %+v", tick, e)
	}
	say(s.take(), hostlimit.Outcome{Status: 429, RetryAfter: tick})
	t = s.take()
	e = say(t, hostlimit.Outcome{Status: 200, Reset: 2 * age})
	capped := !e.Until.Before(t.Start.Add(age)) && !e.Until.After(t.Start.Add(age+age/2))
	cleared := t.Probe && e.Cleared && e.Refusals == 0
	if !cleared || !e.Blocked || !capped {
		s.Errorf("a probe's success with nothing left did %+v", e)
	}
	s.audit()
}

func learned(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: tick}})
	serve := func() *turn {
		t := s.take()
		s.answer(t, 200, 0)
		return t
	}
	var delays []time.Duration
	for n := 1; n <= 3; n++ {
		t := s.take()
		delays = append(delays, t.Delay)
		if e := s.answer(t, 429, 1); e.Refusals != n {
			s.Errorf("a refusal did %+v, want the counter at %d", e, n)
		}
	}
	longer := serve()
	isLearned := longer.Delay >= tick+tick/2 && longer.DelaySource == "learned"
	if !isLearned || delays[1] != longer.Delay || delays[2] != longer.Delay {
		delays = append(delays, longer.Delay)
		s.Errorf("delays around three refusals: %v, by %s", delays, longer.DelaySource)
	}
	for range 5 {
		if t := serve(); t.Delay != longer.Delay {
			s.Errorf("the delay is %v right after the refusals, was %v", t.Delay, longer.Delay)
		}
	}
	s.audit()

	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: tick, Adaptive: hostlimit.Fixed}})
	s.answer(s.take(), 429, 1)
	if t := s.take(); t.Delay != tick || t.DelaySource != "random" {
		s.Errorf("fixed: %v by %q", t.Delay, t.DelaySource)
	}
}

func learnedMean(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: tick / 2}})
	s.answer(s.take(), 429, 1)
	began := time.Now()
	var longest time.Duration
	const pages = 3
	for range pages {
		time.Sleep(2 * tick)
		t := s.take()
		longest = 4 * t.Delay
		s.answer(t, 200, 0)
	}
	least := min(time.Since(began)/pages, longest)
	s.answer(s.take(), 429, 1)
	if t := s.take(); t.Delay < least-time.Millisecond || t.Delay > longest {
		s.Errorf("the delay is %v after a page each %v", t.Delay, least)
	}
	s.audit()
}

func unlearned(s *scene) {
	for _, o := range []hostlimit.Outcome{
		{Status: 500},
		{Err: errors.New("connection reset")},
		{Status: 503, RetryAfter: 1},
		{Status: 403},
	} {
		s.use(hostlimit.Config{Delay: paced})
		t := s.take()
		t.lease.Observe(o)
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
		s.Errorf("started %v after the end of an attempt that had no response", next.Start.Sub(failed))
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
