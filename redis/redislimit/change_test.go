package redislimit

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// TestWhatAnOutcomeTellsTheServer: only what changes something there, as it was computed, and from what.
func TestWhatAnOutcomeTellsTheServer(t *testing.T) {
	limits := hostlimit.Config{Concurrency: 3, Delay: hostlimit.Delay{Min: 2 * time.Second, Ceiling: time.Minute}}
	// Before the refusals: the lease, how the delay moves, and whether it is a success.
	for name, c := range map[string]struct {
		outcome  hostlimit.Outcome
		adaptive hostlimit.Adaptive
		served   bool
		refusal  bool
		told     bool
	}{
		"a success":                 {outcome: hostlimit.Outcome{Status: 200}, served: true, told: true},
		"a page that isn't there":   {outcome: hostlimit.Outcome{Status: 404}, served: true, told: true},
		"what says nothing":         {outcome: hostlimit.Outcome{Status: 407}},
		"a refusal":                 {outcome: hostlimit.Outcome{Status: 429}, refusal: true, told: true},
		"what moves the delay only": {outcome: hostlimit.Outcome{Status: 407, Latency: 3 * time.Second}, adaptive: hostlimit.Throttle(1), told: true},
	} {
		cfg := limits
		cfg.Delay.Adaptive = c.adaptive
		h := idleHost(t, cfg)
		now := h.l.now()
		h.p.clock.At, h.known.Delay, h.known.ServedSince, h.known.Served, h.known.Version = now, 2*time.Second, now-40*time.Second, 8, 11
		w := h.inFlight(t, now-time.Second)
		wait, e := w.observe(c.outcome)
		if e.Blocked != c.refusal || (wait != nil) != c.refusal || (len(h.p.ops) == 1) != c.told {
			t.Errorf("%s: %+v, to wait for: %t, %d operations", name, e, wait != nil, len(h.p.ops))
		}
		if !c.told {
			continue
		}
		request := h.p.ops[0].request
		if h.p.ops[0].build != nil {
			request = h.p.ops[0].build(now)
		}
		want := &wire.Outcome{ID: w.id, Served: c.served}
		if c.adaptive != (hostlimit.Adaptive{}) {
			want.Adapt = &wire.Adapt{Least: 2_000_000, Most: 60_000_000, AtOnce: 3_000_000, Half: 3_000_000, Longer: true}
		}
		if c.refusal {
			s := wait.effect
			want.Change = &wire.Change{
				Number: 1, Version: 11, Slots: 3, Row: 1, Alone: true, Stay: 1_000_000, Newly: true, Cause: "status 429",
				Learned: 5_000_000, // 8 pages in 40 s
				Taught:  true, Eased: true, Blocked: s.Blocked, Cleared: s.Cleared, EndDelay: 1_000_000,
			}
			got := request.(*wire.Outcome)
			if got.Change == nil || got.Change.Rest == "" {
				t.Fatalf("%s: told %+v", name, got)
			}
			want.Change.Rest = got.Change.Rest
		}
		if !reflect.DeepEqual(request, want) {
			t.Errorf("%s: told %+v, want %+v", name, request, want)
		}
	}
}

// TestAChangeIsComputedAnewOnlyByAnAnswer: the server may have stored it if there was none, and counts
// one that is the same once.
func TestAChangeIsComputedAnewOnlyByAnAnswer(t *testing.T) {
	h := idleHost(t, hostlimit.Config{})
	now := h.l.now()
	h.p.clock.At = now
	c, _ := h.inFlight(t, now-time.Second).observe(hostlimit.Outcome{Status: 429, RetryAfter: 10 * time.Second})
	before := *c.request(now).(*wire.Outcome).Change
	h.known.Version = 7 // by the reply to another call
	h.known.Refusals.Row = 3
	c.answered(reply{fate: lost})
	if again := c.request(now + time.Second).(*wire.Outcome).Change; again.Number != before.Number || again.Version != before.Version || again.Row != 1 || again.Stay != before.Stay-1_000_000 {
		t.Errorf("without an answer: %+v, it was %+v", *again, before)
	}
	if late := c.request(now + time.Minute).(*wire.Outcome).Change; late.Stay != 0 {
		t.Errorf("after the end of its block: %+v", *late)
	}
	report := wire.Report{Version: 8, Until: micros(now - time.Second)}
	c.answered(reply{fate: did, answer: &wire.Changed{Head: wire.Head{Kind: wire.Newer}, Host: report}, received: now})
	if again := c.request(now).(*wire.Outcome).Change; again.Number != before.Number || again.Version != 8 {
		t.Errorf("after the answer that there are newer refusals: %+v", *again)
	}
}

// TestABlockMakesTurnsOfBeforeVoid where it is of an answer to a request that started after the last
// block, and a server that doesn't answer can't say so.
func TestABlockMakesTurnsOfBeforeVoid(t *testing.T) {
	const never = -time.Minute
	for name, c := range map[string]struct {
		status  int
		alone   bool
		earlier time.Duration // block, from the start
		void    bool
	}{
		"a refusal":                     {status: 429, earlier: never, void: true},
		"one after another one's block": {status: 429, earlier: -1, void: true},
		"at the instant of that":        {status: 429, earlier: 0},
		"one of before that":            {status: 429, earlier: 1},
		"one more of a row":             {status: 500, alone: true, earlier: never, void: true},
		"a success":                     {status: 200, earlier: never},
		"a 403":                         {status: 403, earlier: never},
	} {
		h := idleHost(t, hostlimit.Config{})
		w := h.inFlight(t, h.l.now()-time.Second)
		before := w.start.began + c.earlier
		h.known.BlockSeen, h.known.Refusals.Alone, w.granted.probe = before, c.alone, c.alone
		if w.observe(hostlimit.Outcome{Status: c.status}); (h.known.BlockSeen > before) != c.void {
			t.Errorf("%s: turns are void since %v, before since %v", name, h.known.BlockSeen, before)
		}
	}
}

// TestAnAnsweredChangeLetsWaitersAsk where nothing holds them any more, and is told of where a person
// has made it.
func TestAnAnsweredChangeLetsWaitersAsk(t *testing.T) {
	for name, c := range map[string]struct {
		act              act
		will             time.Duration
		blocked, cleared bool
		again, byHand    bool
	}{
		"a refusal":                              {will: later + time.Hour, blocked: true},
		"a refusal that was one of a row":        {will: later + time.Hour, again: true},
		"a success":                              {cleared: true},
		"a person's block":                       {act: 1, blocked: true, byHand: true},
		"a person's block that is there already": {act: 1},
		"a person's clear":                       {act: 2, cleared: true, again: true, byHand: true},
		"of what isn't blocked":                  {act: 2, again: true},
	} {
		h := idleHost(t, hostlimit.Config{})
		waits := h.waiter(t, later)
		waits.phase, waits.wait.next = waiting, later+time.Minute
		c1 := &change{h: h, act: c.act, done: make(chan reply, 1), will: rules.Refusals{Until: c.will}, effect: hostlimit.Effect{Blocked: c.blocked, Cleared: c.cleared}}
		h.changes = []*change{c1}
		c1.answered(reply{received: later, server: micros(later), answer: &wire.Changed{Head: wire.Head{Kind: wire.Stored}}})
		if (waits.wait.next == 1) != c.again || (h.news.byHand != nil) != c.byHand || len(h.changes) > 0 || c1.latest != 0 {
			t.Errorf("%s: waiters ask again: %t; told %+v; %d changes; starts end at %v", name, waits.wait.next == 1, h.news.byHand, len(h.changes), c1.latest)
		}
	}
}

// TestALessonIsOfThePagesSinceTheLast: the delay that a host teaches is that at which it has served.
func TestALessonIsOfThePagesSinceTheLast(t *testing.T) {
	h := idleHost(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second, Max: time.Second}})
	now := h.l.now()
	h.known.ServedSince, h.known.Served = now-10*time.Second, 4
	turn := &lease{l: h.l, h: h, limits: mustLimits(t, h.l, h.key), granted: granting{heard: reply{server: 1}}}
	for name, tt := range map[string]struct {
		outcome hostlimit.Outcome
		before  rules.Refusals
		want    time.Duration
	}{
		"a refusal":                {hostlimit.Outcome{Status: 429}, rules.Refusals{}, 2500 * time.Millisecond},
		"the success after a ban":  {hostlimit.Outcome{Status: 200}, rules.Refusals{Row: 12, Alone: true}, 2 * time.Second},
		"the success after others": {hostlimit.Outcome{Status: 200}, rules.Refusals{Row: 2, Alone: true}, 0},
	} {
		s := tt.before
		turn.change(tt.outcome, tt.outcome.Status == 200).compute(&s, now)
		if s.Learned != tt.want {
			t.Errorf("%s teaches %v, want %v", name, s.Learned, tt.want)
		}
	}
}

// TestALearnedDelayIsEasedInSteps: the next success comes too soon for another one.
func TestALearnedDelayIsEasedInSteps(t *testing.T) {
	s := newStage(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}})
	h := s.host()
	now := s.client.Time(t.Context()).Val().UnixMicro()
	s.set(h, "le", 100_000, "ea", now-hour, "v", now, "rv", now, "R", wire.PackRefusals(&rules.Refusals{Lessons: 1}), "n", 1)
	for i := range 3 {
		turn := acquire(t, s.l, h.key, 0)
		turn.Observe(hostlimit.Outcome{Status: 200})
		turn.Release()
		settle(t, s.l, h.key)
		if d := s.duration(h, "le"); d != 98*time.Millisecond {
			t.Errorf("after success %d the delay is %v", i+1, d)
		}
	}
}

// TestAnAsideMovesTheDelayToo: robots.txt says nothing about refusals, but its response time counts.
func TestAnAsideMovesTheDelayToo(t *testing.T) {
	s := newStage(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond, Adaptive: hostlimit.Proportional(1)}})
	h := s.host()
	turn := acquire(t, s.l, h.key, 0)
	turn.Observe(hostlimit.Outcome{Status: 200, Aside: true, Latency: 2 * time.Second})
	turn.Release()
	if state, err := s.l.State(t.Context(), h.key); err != nil || state.Adaptive < 900*time.Millisecond {
		t.Errorf("after two seconds for robots.txt: %+v, %v", state, err)
	}
}

// TestNextIsBehindThoseWhoWait also where only the first of them have a place on the server.
func TestNextIsBehindThoseWhoWait(t *testing.T) {
	l := newTest(t, shared, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Minute, Max: time.Minute}, MaxWait: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	first := acquire(t, l, "a.example", 0)
	first.Release()
	left := make(chan error)
	for range 4 {
		go func() {
			_, err := l.Acquire(ctx, "a.example", 0)
			left <- err
		}()
	}
	eventually(t, 10*time.Second, "four wait", func() bool { return l.Stats().Waiting == 4 })
	settle(t, l, "a.example")
	if next, err := l.Next(t.Context(), "a.example", 0); err != nil || next.Sub(first.Start) < 4*time.Minute || next.Sub(first.Start) > 7*time.Minute {
		t.Errorf("behind four that wait for a minute each: %v, %v", next.Sub(first.Start), err)
	}
	cancel()
	for range 4 {
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// TestWhoHasATurnWhenAHostIsCheckedAsksAgain: it is one of those of which only one may start. After other
// answers it needn't.
func TestWhoHasATurnWhenAHostIsCheckedAsksAgain(t *testing.T) {
	l := newTest(t, shared, hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: time.Millisecond}})
	for i := range 5 {
		turn := acquire(t, l, "a.example", 0)
		other, err := l.Acquire(t.Context(), "a.example", 0)
		if err != nil {
			t.Fatal(err)
		}
		turn.Observe(hostlimit.Outcome{Status: 403})
		l.mu.Lock()
		_, valid := other.(*lease).window(l.now())
		l.mu.Unlock()
		if g, err := other.Start(t.Context()); err != nil || g.Probe != (i == 4) || valid != (i < 4) {
			t.Errorf("after 403 number %d: a turn of before holds: %t; its start: %+v, %v", i+1, valid, g, err)
		}
		other.Release()
		turn.Release()
	}
}

// TestASuccessIsWaitedForWhereItEndsSomething: a block, or a row of refusals.
func TestASuccessIsWaitedForWhereItEndsSomething(t *testing.T) {
	for name, c := range map[string]struct {
		refusals rules.Refusals
		probe    bool
		waits    bool
	}{
		"nothing":           {rules.Refusals{}, false, false},
		"a learned delay":   {rules.Refusals{Learned: time.Second}, false, false},
		"a row":             {rules.Refusals{Row: 1}, false, true},
		"a row, and a 403":  {rules.Refusals{Row: 1, Forbidden: 1}, false, true},
		"403s":              {rules.Refusals{Forbidden: 2}, false, true},
		"a probe":           {rules.Refusals{Row: 1, Alone: true}, true, true},
		"a probe of nobody": {rules.Refusals{}, true, true},
	} {
		h := idleHost(t, hostlimit.Config{})
		now := h.l.now()
		w := h.inFlight(t, now-time.Second)
		w.granted.probe, h.known.Refusals, h.known.Last = c.probe, c.refusals, now-time.Second
		h.known.Refusals.EasedAt = now
		if wait, _ := w.observe(hostlimit.Outcome{Status: 200}); (wait != nil) != c.waits || len(h.p.ops) != 1 {
			t.Errorf("%s: waits %t, %d operations", name, wait != nil, len(h.p.ops))
		}
		if wait, _ := w.observe(hostlimit.Outcome{Status: 200}); wait != nil || len(h.p.ops) != 1 {
			t.Errorf("%s: a second outcome is told", name)
		}
	}
}

// TestAnActIsReportedOnce: the message to all comes first, and the reply to the call is lost. That to its
// copy says another time.
func TestAnActIsReportedOnce(t *testing.T) {
	h := idleHost(t, hostlimit.Config{})
	h.p.clock.At = h.l.now()
	h.l.OnAct(func(hostlimit.Act) bool { return true })
	now := micros(h.l.now())
	block := wire.Report{Until: now + micros(time.Hour), Version: int64(now)}
	c := &change{h: h, act: blocks, done: make(chan reply, 1), effect: hostlimit.Effect{Blocked: true}}
	h.changes = []*change{c}
	h.l.proclaimed(&wire.Verdict{Key: h.p.hostKey(h.key), Now: now, Act: int(blocks), Host: block})
	c.answered(reply{
		received: h.l.now(),
		server:   now + micros(time.Millisecond),
		answer:   &wire.Changed{Head: wire.Head{Kind: wire.Stored}, Host: block},
	})
	if n := len(h.l.acted); n != 1 {
		t.Errorf("one block is reported %d times", n)
	}
	// The next act is another one.
	h.l.proclaimed(&wire.Verdict{
		Key: h.p.hostKey(h.key), Now: now + micros(time.Second), Act: int(clears), Host: wire.Report{Version: int64(now) + 1},
	})
	if n := len(h.l.acted); n != 2 {
		t.Errorf("a block and its end are reported %d times", n)
	}
}
