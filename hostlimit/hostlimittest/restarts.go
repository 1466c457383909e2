package hostlimittest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

// RunRestarts tests limiters that share their state, such as memory.Limiters with one
// hostlimit.Config.Store. A process ends at any step, and another begins. Each call of newLimiter
// is one process, and the earlier ones are gone with their leases. The parameter in is that of
// RunIn, and nil means real time.
func RunRestarts(t *testing.T, in func(*testing.T, func(*testing.T)), newLimiter New) {
	if in == nil {
		in = func(t *testing.T, scenario func(*testing.T)) { scenario(t) }
	}
	for _, s := range restarts {
		for cut := range s.steps + 1 {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T) {
					defer func() {
						if t.Failed() {
							t.Logf("the first process ended after %d steps; promise: %s", cut, s.promise)
						}
					}()
					l := &life{scene: &scene{T: t, newLimiter: newLimiter}, cut: cut}
					l.use(s.cfg)
					s.run(l)
				})
			})
		}
	}
	t.Run("BlockByHandOutlivesTheProcess", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T) { handOutlives(&scene{T: t, newLimiter: newLimiter}) })
	})
}

var restarts = []struct {
	name    string
	steps   int // that run takes
	cfg     hostlimit.Config
	run     func(*life)
	promise string
}{
	{
		"BlockAndCounterOutliveTheProcess", 13,
		hostlimit.Config{Delay: unpaced, LeaseTTL: 10 * tick, Backoff: backoff.Doubling{Start: 2 * tick}},
		refusedTwice,
		"No request starts into a block, and refusals go on being counted, whichever process saw the first.",
	},
	{
		"LongBlockOutlivesTheProcess", 4,
		hostlimit.Config{Delay: unpaced},
		longBlock,
		"A block holds until its end, and Next and the refusal of a turn say when that is.",
	},
	{
		"FarStartOutlivesTheProcess", 3,
		hostlimit.Config{Delay: hostlimit.Delay{Min: 2 * age, Adaptive: hostlimit.Fixed, Ceiling: 2 * age}},
		farStart,
		"The gap to a start of an earlier process is kept, where it is longer than a minute.",
	},
	{
		"FarFloorOutlivesTheProcess", 3,
		hostlimit.Config{Delay: unpaced},
		farFloor,
		"So is one that is as long as the floor of the start, whatever the floor of the next request.",
	},
	{
		"ProcessesArePacedAsOne", 5,
		hostlimit.Config{Delay: hostlimit.Delay{Min: 8 * tick, Max: 8 * tick, Adaptive: hostlimit.Fixed}},
		nearStarts,
		"So is a gap of a minute and less: at the latest, the first start of a process comes the gap after its New.",
	},
	{
		"GapFromTheEndOutlivesTheProcess", 4,
		hostlimit.Config{
			Concurrency: 1,
			Delay:       hostlimit.Delay{Min: 2 * age, Adaptive: hostlimit.Fixed, Ceiling: 2 * age, FromEnd: true},
		},
		gapFromTheEnd,
		"With FromEnd the gap counts from the Release, if there was one.",
	},
}

// A life is a scene in which the process ends after some steps.
type life struct {
	*scene
	cut   int
	turns []*turn // of the present process
}

// step ends the process if it is time to.
func (l *life) step() {
	l.cut--
	if l.cut == -1 {
		l.limiter = l.newLimiter(l, l.cfg)
		l.turns = nil
	}
}

// took takes a turn.
func (l *life) took(floor time.Duration) *turn {
	l.Helper()
	l.step()
	t := l.takeKey(l.key, floor)
	l.turns = append(l.turns, t)
	return t
}

// held reports whether t belongs to the present process.
func (l *life) held(t *turn) bool {
	for _, o := range l.turns {
		if o == t {
			return true
		}
	}
	return false
}

// release ends t, unless its process has ended.
func (l *life) release(t *turn) {
	l.step()
	if l.held(t) {
		t.lease.Release()
	}
	l.step()
}

// notBefore checks that no request starts before at.
func (l *life) notBefore(at time.Time, floor time.Duration) {
	l.Helper()
	if n, err := l.limiter.Next(l.Context(), l.key, floor); err != nil || n.Before(at) {
		l.Errorf("Next is %v before the time that was owed (%v)", at.Sub(n), err)
	}
	ctx, cancel := context.WithTimeout(l.Context(), skew)
	defer cancel()
	_, err := l.limiter.Acquire(ctx, l.key, floor)
	var refused *hostlimit.Error
	if !errors.As(err, &refused) || refused.RetryAt.Before(at) {
		l.Errorf("a turn at once: %v; owed until %v", err, at)
	}
}

func refusedTwice(l *life) {
	var until time.Time
	for n := 1; n <= 2; n++ {
		for observed := false; !observed; {
			t := l.took(0)
			if t.Start.Before(until) {
				l.Fatalf("started %v before the end of the block", until.Sub(t.Start))
			}
			l.step()
			if !l.held(t) {
				continue // the process ended before the response came
			}
			e := t.lease.Observe(hostlimit.Outcome{Status: 429})
			observed = true
			if !e.Blocked || e.Refusals != n {
				l.Fatalf("refusal %d: %+v", n, e)
			}
			until = e.Until
			l.release(t)
		}
	}
	for served := false; !served; {
		t := l.took(0)
		if t.Start.Before(until) || !t.Probe {
			l.Fatalf("started %v after the end of the block, as a probe: %v", t.Start.Sub(until), t.Probe)
		}
		l.step()
		if !l.held(t) {
			continue
		}
		if e := t.lease.Observe(hostlimit.Outcome{Status: 200}); !e.Cleared {
			l.Fatalf("success: %+v", e)
		}
		served = true
		l.release(t)
	}
	t := l.took(0)
	if t.Probe {
		l.Error("a success of an earlier process cleared nothing")
	}
	l.step()
}

func longBlock(l *life) {
	t := l.took(0)
	e := t.lease.Observe(hostlimit.Outcome{Status: 503, RetryAfter: age})
	l.step()
	l.notBefore(e.Until, 0)
	l.step()
	l.notBefore(e.Until, 0)
	l.step()
	l.notBefore(e.Until, age)
}

func farStart(l *life) {
	t := l.took(0)
	l.step()
	l.notBefore(t.Start.Add(2*age), 0)
	l.step()
	l.notBefore(t.Start.Add(2*age), 0)
}

func farFloor(l *life) {
	t := l.took(2 * age)
	l.step()
	l.notBefore(t.Start.Add(2*age), 0)
	l.step()
	l.notBefore(t.Start.Add(2*age), age)
}

func nearStarts(l *life) {
	gap := l.cfg.Delay.Min
	last := l.took(0).Start
	for range 2 {
		l.step()
		t := l.took(0)
		if t.Start.Sub(last) < gap {
			l.Errorf("started %v after the start before, want %v", t.Start.Sub(last), gap)
		}
		last = t.Start
		t.lease.Release()
	}
}

func gapFromTheEnd(l *life) {
	t := l.took(0)
	at := t.Start
	l.step()
	if l.held(t) {
		t.lease.Observe(hostlimit.Outcome{Status: 200})
		time.Sleep(60 * tick) // longer than a saved start may be late
		at = time.Now()
		t.lease.Release()
		time.Sleep(60 * tick) // a limiter that is shared may hear of the end a little later
	}
	l.step()
	l.notBefore(at.Add(2*age), 0)
	l.step()
	l.notBefore(at.Add(2*age), 0)
}
