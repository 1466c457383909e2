package hostlimittest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

func blockHolds(s *scene) {
	s.use(hostlimit.Config{Delay: paced, Concurrency: 1})
	first := s.take() // the others wait for its slot until there is a block
	var until atomic.Pointer[time.Time]
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			t := s.take()
			if u := until.Load(); u == nil || t.Start.Before(*u) {
				s.Errorf("started %v, blocked until %v", t.Start, u)
			}
			s.answer(t, 200, 0)
		})
	}
	before := time.Now()
	e := first.lease.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 8 * tick})
	if !e.Blocked || e.Refusals != 1 || e.Cleared || e.Until.Before(before.Add(8*tick)) {
		s.Errorf("effect %+v, want a block for %v", e, 8*tick)
	}
	until.Store(&e.Until)
	s.done(first)
	wg.Wait()
	s.audit()
}

func blockRefuses(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1})
	first := s.take()
	begin := time.Now()
	var wg sync.WaitGroup
	for range 3 { // they are in the queue, or come during the block: both are refused
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(s.Context(), age/2)
			defer cancel()
			t, err := s.try(ctx, s.key, 0)
			if err == nil {
				s.done(t)
				s.Error("started into the block")
				return
			}
			s.refused(err, begin, begin.Add(age), hostlimit.ErrBlocked, context.DeadlineExceeded)
		})
	}
	s.answer(first, 429, age)
	wg.Wait()
}

// probe lets the probe take its time: no other request may start before its answer.
func probe(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	s.answer(s.take(), 429, 2*tick)
	var mu sync.Mutex
	var answered time.Time
	s.crowd(6, func(int) {
		t := s.take()
		if t.Probe {
			time.Sleep(3 * tick)
			mu.Lock()
			answered = time.Now()
			mu.Unlock()
			if e := s.answer(t, 200, 0); !e.Cleared || e.Refusals != 0 || !e.Until.IsZero() {
				s.Errorf("effect of the probe's success: %+v", e)
			}
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if answered.IsZero() || t.Start.Before(answered) {
			s.Errorf("started %v, the probe was answered %v", t.Start, answered)
		}
		s.answer(t, 200, 0)
	})
	s.audit()
}

func probePasses(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	s.answer(s.take(), 429, tick)
	for i, end := range []func(*turn){
		func(t *turn) { s.done(t) },           // no response
		func(t *turn) { s.answer(t, 407, 0) }, // a response that says nothing
		func(t *turn) { // the caller left
			t.lease.Observe(hostlimit.Outcome{Err: context.Canceled})
			s.done(t)
		},
	} {
		t := s.take()
		if !t.Probe {
			s.Errorf("request %d after the block is no probe", i+1)
		}
		end(t)
	}
	t := s.take()
	if e := s.answer(t, 404, 0); !t.Probe || !e.Cleared {
		s.Errorf("probe %v, effect %+v", t.Probe, e)
	}
	if t := s.take(); t.Probe {
		s.Error("a probe after a success")
	}
	s.audit()
}

func probeRefused(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Doubling{Start: 2 * tick}})
	for i := range 3 {
		t := s.take()
		if t.Probe != (i > 0) {
			s.Errorf("request %d: probe %v", i+1, t.Probe)
		}
		before := time.Now()
		e := s.answer(t, 429, 0)
		if stay := 2 * tick << i; e.Refusals != i+1 || !e.Blocked || e.Until.Before(before.Add(stay)) {
			s.Errorf("refusal %d at %v: %+v, want a block of %v", i+1, before, e, stay)
		}
		if s.cfg.Backoff.Delay(i+1) != 2*tick<<i {
			s.Fatal("the policy isn't what the scenario thinks")
		}
		if next, err := s.limiter.Next(s.Context(), s.key, 0); err != nil || next.Before(e.Until) {
			s.Errorf("next %v, %v; blocked until %v", next, err, e.Until)
		}
	}
	t := s.take()
	s.answer(t, 200, 0)
	if e := s.answer(s.take(), 429, 0); e.Refusals != 1 {
		s.Errorf("%d refusals in a row after a success, want 1", e.Refusals)
	}
	s.audit()
}

func earlierRefusal(s *scene) {
	var d *turn
	var second hostlimit.Effect
	s.insist(func() (fault string) {
		s.use(hostlimit.Config{Delay: unpaced, Concurrency: 4})
		a := s.take()
		b := s.take()
		c := s.take()
		d = s.take()
		stay := tick << (2 * s.tries) // the third answer comes before the end of the second block
		first := s.answer(a, 429, 4*stay)
		second = s.answer(b, 429, 12*stay)
		if !second.Blocked || second.Refusals != 1 || !second.Until.After(first.Until) {
			s.Errorf("a second refusal, of which the block is longer, did %+v after %+v", second, first)
		}
		third := s.answer(c, 429, stay)
		if third.Blocked || third.Refusals != 1 || !third.Until.Equal(second.Until) {
			s.done(d)
			return fmt.Sprintf("a third refusal, of which the block is shorter, did %+v after %+v", third, second)
		}
		return ""
	})
	t := s.take()
	if !t.Probe || t.Start.Before(second.Until) {
		s.Errorf("probe %v, started %v, blocked until %v", t.Probe, t.Start, second.Until)
	}
	s.answer(t, 200, 0)
	// The block is lifted now. The late refusal still counts as part of the block, but its
	// Retry-After is obeyed.
	at := time.Now()
	e := s.answer(d, 429, 12*tick)
	if !e.Blocked || e.Refusals != 0 || e.Until.Before(at.Add(4*tick)) {
		s.Errorf("a refusal from before the block, which has been lifted, did %+v", e)
	}
	t = s.take()
	if t.Probe || t.Start.Before(e.Until) {
		s.Errorf("probe %v, started %v, blocked until %v", t.Probe, t.Start, e.Until)
	}
	s.done(t)
	s.audit()
}

func earlierSuccess(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, MaxWait: age / 2})
	a := s.take()
	b := s.take()
	begin := time.Now()
	first := s.answer(a, 429, age)
	if e := s.answer(b, 200, 0); e.Cleared || e.Refusals != 1 || !e.Until.Equal(first.Until) {
		s.Errorf("a success from before the block did %+v after %+v", e, first)
	}
	_, err := s.try(s.Context(), s.key, 0)
	s.refused(err, begin, first.Until, hostlimit.ErrBlocked)
}

func whatCounts(s *scene) {
	failure := errors.New("connection refused")
	deadline := fmt.Errorf("get: %w", context.DeadlineExceeded)
	for _, c := range []struct {
		name    string
		policy  backoff.Policy
		outcome hostlimit.Outcome
		blocks  bool
	}{
		{"429", nil, hostlimit.Outcome{Status: 429}, true},
		{"503 by default", nil, hostlimit.Outcome{Status: 503}, true},
		{"503 with Retry-After by default", nil, hostlimit.Outcome{Status: 503, RetryAfter: age}, true},
		{"200 that is none", nil, hostlimit.Outcome{Status: 200, Refused: "a challenge"}, true},
		{"a challenge aside", nil, hostlimit.Outcome{Status: 403, Refused: "a challenge", Aside: true}, true},
		{"403 by default", nil, hostlimit.Outcome{Status: 403}, false},
		{"503", backoff.Refusals{Statuses: []int{403, 503}}, hostlimit.Outcome{Status: 503}, true},
		{"403", backoff.Refusals{Statuses: []int{403, 503}}, hostlimit.Outcome{Status: 403}, true},
		{"525", backoff.Refusals{Statuses: backoff.Range(520, 530)}, hostlimit.Outcome{Status: 525}, true},
		{"531", backoff.Refusals{Statuses: backoff.Range(520, 530)}, hostlimit.Outcome{Status: 531}, true},
		{"429 beside others", backoff.Refusals{Statuses: []int{403}}, hostlimit.Outcome{Status: 429}, true},
		{"network by default", nil, hostlimit.Outcome{Err: failure}, true},
		{"network", backoff.Refusals{Network: true}, hostlimit.Outcome{Err: failure}, true},
		{"cancelled", backoff.Refusals{Network: true}, hostlimit.Outcome{Err: context.Canceled}, false},
		{"deadline", backoff.Refusals{Network: true}, hostlimit.Outcome{Err: deadline}, false},
		{"nothing", backoff.Refusals{Network: true}, hostlimit.Outcome{}, false},
		{"odd status", nil, hostlimit.Outcome{Status: 99999}, false},
		{"negative status", nil, hostlimit.Outcome{Status: -429}, false},
	} {
		s.use(hostlimit.Config{Delay: unpaced, Backoff: c.policy})
		t := s.take()
		e := t.lease.Observe(c.outcome)
		counted := e.Refusals > 0
		if e.Blocked != c.blocks || counted != c.blocks || e.Until.IsZero() == c.blocks || e.Cleared {
			s.Errorf("%s: effect %+v, want a block: %v", c.name, e, c.blocks)
		}
		s.done(t)
	}
}

func retryAfterCap(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Refusals{MaxRetryAfter: age}})
	t := s.take()
	before := time.Now()
	e := s.answer(t, 429, math.MaxInt64)
	if e.Until.Before(before.Add(age)) || e.Until.After(time.Now().Add(age+age/2)) {
		s.Errorf("blocked at %v until %v, want %v", before, e.Until, age)
	}
}

func lateObserve(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	t := s.take()
	s.done(t)
	if e := t.lease.Observe(hostlimit.Outcome{Status: 429, RetryAfter: age}); e != (hostlimit.Effect{}) {
		s.Errorf("Observe after Release did %+v", e)
	}
	t = s.take()
	t.lease.Observe(hostlimit.Outcome{Status: 200})
	if e := t.lease.Observe(hostlimit.Outcome{Status: 429, RetryAfter: age}); e != (hostlimit.Effect{}) {
		s.Errorf("a second Observe did %+v", e)
	}
	s.done(t)
	s.done(s.take())
	s.audit()
}

// storm has a host refuse for a while from its first answer on: it must not get more refused
// requests than were in flight at the first refusal, and one for each end of a block.
func storm(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 4})
	var mu sync.Mutex
	var over time.Time
	type block struct{ seen, until time.Time }
	var blocks []block
	refusals := 0
	s.crowd(16, func(int) {
		for served := 0; served < 2; {
			t := s.take()
			time.Sleep(tick / 4)
			mu.Lock()
			if over.IsZero() {
				over = time.Now().Add(15 * tick)
			}
			isOver := time.Now().After(over)
			mu.Unlock()
			if isOver {
				s.answer(t, 200, 0)
				served++
				continue
			}
			e := t.lease.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 3 * tick})
			mu.Lock()
			refusals++
			if e.Blocked {
				blocks = append(blocks, block{time.Now(), e.Until})
			}
			mu.Unlock()
			s.done(t)
		}
	})
	if most := 4 + len(blocks) - 1; refusals > most || len(blocks) == 0 {
		s.Errorf("%d refused requests in %d blocks, want at most %d", refusals, len(blocks), most)
	}
	for _, t := range s.book {
		for _, b := range blocks {
			if t.Start.After(b.seen) && t.Start.Before(b.until) {
				s.Errorf("started %v, into the block from %v to %v", t.Start, b.seen, b.until)
			}
		}
	}
	s.audit()
}

// refusedLate ends a turn with a success, and then revises the success into a refusal.
func (s *scene) refusedLate(t *turn, banned bool) hostlimit.Effect {
	s.Helper()
	success := hostlimit.Outcome{Status: 200}
	if e := t.lease.Observe(success); e.Blocked {
		s.Errorf("a success has blocked the key: %+v", e)
	}
	s.done(t)
	success.Refused = "a captcha"
	success.Banned = banned
	return t.lease.Revise(success)
}

func foundLate(s *scene) {
	policy := backoff.Doubling{Start: 2 * tick}
	s.use(hostlimit.Config{Delay: unpaced, Backoff: policy})
	for n := 1; n <= 4; n++ {
		t := s.take()
		if t.Probe != (n > 1) {
			s.Errorf("start %d: probe %v", n, t.Probe)
		}
		before := time.Now()
		e := s.refusedLate(t, false)
		length := policy.Delay(n)
		if !e.Blocked || e.Kind != "refused" || e.Row != n || e.Refusals != n || e.Until.Before(before.Add(length)) {
			s.Errorf("refusal %d found late: %+v, want a block for %v", n, e, length)
		}
		if next := s.next(0); next.Before(e.Until.Add(-tick)) {
			s.Errorf("refusal %d found late: the next start may come %v before the end", n, e.Until.Sub(next))
		}
	}
	t := s.take()
	if e := s.answer(t, 200, 0); !e.Cleared {
		s.Errorf("a success that stays one: %+v", e)
	}
	before := time.Now()
	e := s.refusedLate(s.take(), true)
	if e.Kind != "ban" || e.Row != 1 || e.Until.Before(before.Add(time.Minute)) {
		s.Errorf("a ban found late: %+v, want a block for a minute", e)
	}
	s.audit()
}

func foundLateBeside(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 2})
	first := s.take()
	second := s.take()
	e := s.refusedLate(first, false)
	also := s.refusedLate(second, false)
	if !e.Blocked || also.Row != 0 || also.Refusals != 1 {
		s.Errorf("two refusals found late, in flight together: %+v and %+v", e, also)
	}
}

func revisedOnce(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	t := s.take()
	refusal := hostlimit.Outcome{Status: 200, Refused: "a captcha"}
	if e := t.lease.Revise(refusal); e != (hostlimit.Effect{}) {
		s.Errorf("before Observe: %+v", e)
	}
	t.lease.Observe(hostlimit.Outcome{Status: 200})
	if e := t.lease.Revise(hostlimit.Outcome{Status: 200}); e != (hostlimit.Effect{}) {
		s.Errorf("without a reason: %+v", e)
	}
	if e := t.lease.Revise(refusal); !e.Blocked {
		s.Errorf("after Observe: %+v", e)
	}
	if e := t.lease.Revise(refusal); e != (hostlimit.Effect{}) {
		s.Errorf("twice: %+v", e)
	}
	s.done(t)
}

func retryAfterAnywhere(s *scene) {
	for _, c := range []struct {
		outcome hostlimit.Outcome
		blocks  bool
	}{
		{hostlimit.Outcome{Status: 403}, true},
		{hostlimit.Outcome{Status: 404}, true},
		{hostlimit.Outcome{Status: 413}, true},
		{hostlimit.Outcome{Status: 420}, true},
		{hostlimit.Outcome{Status: 999}, true},
		{hostlimit.Outcome{Status: 303}, true},
		{hostlimit.Outcome{Status: 200}, false},
		{hostlimit.Outcome{Status: 204}, false},
	} {
		s.use(hostlimit.Config{Delay: unpaced})
		t := s.take()
		c.outcome.RetryAfter = age
		e := t.lease.Observe(c.outcome)
		isLong := e.Until.After(t.Start.Add(age / 2))
		if e.Blocked != c.blocks || isLong != c.blocks || e.Refusals != 0 {
			s.Errorf("%d with Retry-After: %+v, want a block: %v", c.outcome.Status, e, c.blocks)
		}
		s.done(t)
	}
}
