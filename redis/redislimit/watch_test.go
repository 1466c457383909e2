package redislimit

import (
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

type waitSeen struct {
	hostlimit.Wait
	told int
}

func (w *waitSeen) String() string         { return "somebody" }
func (w *waitSeen) Waits(n hostlimit.Wait) { w.Wait, w.told = n, w.told+1 }

// TestAWaitIsToldAfterASecond, or as soon as it is known to take longer, and once.
func TestAWaitIsToldAfterASecond(t *testing.T) {
	l := idle(t, Config{})
	const arrived = 5 * time.Second
	for _, c := range []struct {
		now, planned time.Duration
		phase        phase
		told         bool
	}{
		{now: arrived, planned: arrived + longWait},
		{now: arrived, planned: arrived + longWait + 1, told: true},
		{now: arrived + longWait - 1},
		{now: arrived + longWait, told: true},
		{now: arrived + longWait, phase: inLine, told: true},
		{now: arrived + longWait, phase: asking},
		{now: arrived + longWait, phase: granted},
		{now: arrived + longWait, phase: held},
	} {
		h, seen := l.host("a.example"), new(waitSeen)
		w := &lease{l: l, h: h, phase: c.phase, wait: wait{planned: c.planned, caller: caller{arrived: arrived}}}
		if tell, again := w.notice(c.now); tell != nil || again != 0 {
			t.Errorf("%+v, and nobody is to be told: told %t, again at %v", c, tell != nil, again)
		}
		w.limits, w.wait.watcher = mustLimits(t, l, h.key), seen
		h.waiters = []*lease{w}
		tell, again := w.notice(c.now)
		if (tell != nil) != c.told || !c.told && again != map[bool]time.Duration{true: arrived + longWait}[c.phase == parked] {
			t.Errorf("%+v: told %t, again at %v", c, tell != nil, again)
		}
		if tell == nil {
			continue
		}
		if tell(); seen.told != 1 {
			t.Errorf("%+v: told %d times", c, seen.told)
		}
		if tell, again := w.notice(c.now + time.Hour); tell != nil || again != 0 {
			t.Errorf("%+v: told again", c)
		}
	}
}

// TestAWaitSaysWhatHoldsIt, with all that is known of it at an instant.
func TestAWaitSaysWhatHoldsIt(t *testing.T) {
	const now, arrived = 10 * time.Second, 2 * time.Second
	const gap, least = 3 * time.Second, 500 * time.Millisecond
	var l *Limiter
	at := func(d time.Duration) time.Time { return l.base.Add(d) }
	l = idle(t, Config{Limits: hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: least}}})
	delay := hostlimit.Wait{Hold: "delay", Delay: gap, Cause: "random"}
	until := func(d time.Duration, w hostlimit.Wait) hostlimit.Wait {
		w.Until = at(d)
		return w
	}
	for name, c := range map[string]struct {
		set  func(h *host, first *lease)
		want hostlimit.Wait
	}{
		"no start is known":                {func(*host, *lease) {}, delay},
		"a start that was planned for now": {func(_ *host, t *lease) { t.wait.planned = now }, delay},
		"one a moment later":               {func(_ *host, t *lease) { t.wait.planned = now + 1 }, until(now+1, delay)},
		"the gap to the last start here": {func(h *host, t *lease) {
			h.known.Started, h.known.Last, t.wait.planned = true, 8*time.Second, 11*time.Second
		}, until(11*time.Second, delay)},
		"with the server's guard": {func(h *host, t *lease) {
			h.known.Started, h.known.Last, t.wait.planned = true, 8*time.Second, 12*time.Second-1
		}, until(11*time.Second, delay)},
		"longer than that": {func(h *host, t *lease) {
			h.known.Started, h.known.Last, t.wait.planned = true, 8*time.Second, 12*time.Second
		}, until(12*time.Second, delay)},
		"a gap that others keep": {func(h *host, t *lease) {
			h.known.Started, h.known.Last, t.wait.planned = true, 8*time.Second, 11*time.Second-1
		}, until(11*time.Second-1, delay)},
		"a block":                        {func(h *host, _ *lease) { h.known.Refusals = rules.Refusals{Until: now + 1, Cause: "status 429"} }, hostlimit.Wait{Hold: "block", Cause: "status 429"}},
		"a block that is over":           {func(h *host, _ *lease) { h.known.Refusals = rules.Refusals{Until: now, Cause: "status 429"} }, delay},
		"the hours":                      {func(h *host, _ *lease) { h.wait.opens = now + 1 }, hostlimit.Wait{Hold: "block", Cause: "hours"}},
		"the hours have begun":           {func(h *host, _ *lease) { h.wait.opens = now }, delay},
		"a crawl-delay":                  {func(_ *host, t *lease) { t.floor = gap + 1 }, hostlimit.Wait{Hold: "delay", Delay: gap + 1, Cause: "crawl-delay"}},
		"a crawl-delay that is the gap":  {func(_ *host, t *lease) { t.floor = gap }, delay},
		"a long one":                     {func(_ *host, t *lease) { t.floor = time.Hour }, hostlimit.Wait{Hold: "delay", Delay: time.Hour, Cause: "crawl-delay"}},
		"a place":                        {func(_ *host, t *lease) { t.phase = inLine }, hostlimit.Wait{Hold: "place"}},
		"a probe that somebody else has": {func(_ *host, t *lease) { t.wait.why = "p" }, hostlimit.Wait{Hold: "probe"}},
		"slots of others":                {func(_ *host, t *lease) { t.wait.why = "s" }, hostlimit.Wait{Hold: "slot", Held: 2}},
		"the slot that is held here for longest": {func(h *host, t *lease) {
			t.wait.why, h.leases["1"] = "s", &lease{start: start{began: 4 * time.Second}, wait: wait{caller: t.wait.caller}}
			h.leases["2"], h.leases["3"] = &lease{start: start{began: 5 * time.Second}}, &lease{start: start{began: 6 * time.Second}}
		}, hostlimit.Wait{Hold: "slot", Held: 2, HeldBy: "somebody", HeldFor: 6 * time.Second}},
		"a probe, beside what began before it": {func(h *host, t *lease) {
			t.wait.why, h.leases["1"] = "p", &lease{start: start{began: 4 * time.Second}}
			h.leases["2"] = &lease{start: start{began: 7 * time.Second}, wait: wait{caller: t.wait.caller}, granted: granting{probe: true}}
		}, hostlimit.Wait{Hold: "probe", Held: 2, HeldBy: "somebody", HeldFor: 3 * time.Second}},
	} {
		for ahead := range 2 {
			h, seen := l.host(name), new(waitSeen)
			h.known.Gap, h.known.Source, h.waiters, h.leases = gap, "random", nil, map[string]*lease{}
			for range 2 {
				h.waiters = append(h.waiters, &lease{l: l, h: h, limits: mustLimits(t, l, h.key), wait: wait{caller: caller{arrived: arrived, watcher: seen}}})
			}
			c.set(h, h.waiters[0])
			h.waiters[1].phase, h.waiters[1].floor = h.waiters[0].phase, h.waiters[0].floor
			tell, _ := h.waiters[ahead].notice(now)
			if tell == nil {
				t.Errorf("%s: nothing is told", name)
				continue
			}
			tell()
			want := c.want
			want.Key, want.Since, want.Slots, want.Ahead = name, at(arrived), 2, ahead
			if !want.Until.IsZero() {
				want.Until = want.Until.Add(time.Duration(ahead) * max(least, h.waiters[0].floor))
			}
			if name == "a start that was planned for now" && ahead > 0 {
				want.Until = at(now + least)
			}
			if seen.Wait != want {
				t.Errorf("%s, %d ahead: told %+v, want %+v", name, ahead, seen.Wait, want)
			}
		}
	}
}
