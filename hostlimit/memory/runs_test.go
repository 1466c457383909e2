package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A case of TestRunsArePacedAsOne.
type pacedCase struct {
	name  string
	delay hostlimit.Delay
	floor time.Duration
	// first is the answer to the request of the first process, after its latency.
	first hostlimit.Outcome
	gap   time.Duration // that the next process owes to the start before, or with FromEnd to its end
	most  time.Duration // longest gap
}

// TestRunsArePacedAsOne: a process that begins when the one before ends, also by a kill, starts no
// request closer to the last one than the delay in force, and waits no longer than two delays.
func TestRunsArePacedAsOne(t *testing.T) {
	fixed := func(d time.Duration) hostlimit.Delay {
		return hostlimit.Delay{Min: d, Max: d, Adaptive: hostlimit.Fixed}
	}
	fromEnd := fixed(3 * time.Second)
	fromEnd.FromEnd = true
	none := hostlimit.Delay{DangerouslyNone: true, Adaptive: hostlimit.Fixed}
	squared := hostlimit.Delay{Min: time.Second, Max: time.Second, Adaptive: hostlimit.Squared}
	slow := hostlimit.Outcome{Status: 200, Latency: 4 * time.Second}
	for _, c := range []pacedCase{
		{"Min and Max", hostlimit.Delay{Min: time.Second, Max: 5 * time.Second, Adaptive: hostlimit.Fixed}, 0, ok, 5 * time.Second, 10 * time.Second},
		{"a fifth of a second", fixed(200 * time.Millisecond), 0, ok, 200 * time.Millisecond, 400 * time.Millisecond},
		{"crawl-delay", none, 2 * time.Second, ok, 2 * time.Second, 4 * time.Second},
		{"half a minute", none, 30 * time.Second, ok, 30 * time.Second, time.Minute},
		{"a minute", fixed(time.Minute), 0, ok, time.Minute, 2 * time.Minute},
		{"more than a minute", fixed(61 * time.Second), 0, ok, 61 * time.Second, 122 * time.Second},
		{"an hour", none, time.Hour, ok, time.Hour, time.Hour + 2*time.Second},
		{"from the end", fromEnd, 0, slow, 3 * time.Second, 6 * time.Second},
		{"adaptive", squared, 0, slow, 16 * time.Second, 32 * time.Second},
		{"learned", hostlimit.Delay{Min: time.Second, Max: time.Second}, 0, refusal, 1500 * time.Millisecond, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, killed := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) { c.run(t, killed) })
			}
		})
	}
}

// run is six processes, one after the other.
func (c *pacedCase) run(t *testing.T, killed bool) {
	store := new(mapStore)
	cfg := hostlimit.Config{Store: store, Delay: c.delay, MaxWait: 3 * time.Hour, Concurrency: 1}
	var last time.Time
	for i := range 6 {
		p := run(t, cfg)
		l, g := p.start(c.floor)
		if gap := g.Start.Sub(last); i > 0 && (gap < c.gap || gap > c.most) {
			t.Errorf("process %d: %v after the one before", i, gap)
		}
		last = g.Start
		answer := ok
		if i == 0 || c.first != refusal {
			answer = c.first
		}
		time.Sleep(answer.Latency)
		if c.delay.FromEnd {
			last = time.Now()
		}
		l.Observe(answer)
		if i == 0 && answer == refusal {
			last = time.Now() // the block of a second is over before the delay
		}
		if !killed {
			l.Release()
		}
	}
}

// TestAHostThatIsNewInALongRunPaysNothing: the delay counts from New, not from the first use.
func TestAHostThatIsNewInALongRunPaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, hostlimit.Config{Store: new(mapStore)})
		time.Sleep(10 * time.Second)
		begin := time.Now()
		if _, g := p.start(10 * time.Second); g.Start != begin {
			t.Errorf("waited for %v", g.Start.Sub(begin))
		}
		other, err := p.Acquire(t.Context(), "other", 15*time.Second)
		if err != nil || time.Since(begin) != 5*time.Second {
			t.Errorf("15 s after New: waited for %v, %v", time.Since(begin), err)
		}
		other.Release()
	})
}

// TestWithoutAStoreNothingIsPaid: no earlier process is known of.
func TestWithoutAStoreNothingIsPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, hostlimit.Config{})
		begin := time.Now()
		if _, g := p.start(time.Minute); g.Start != begin {
			t.Errorf("waited for %v", g.Start.Sub(begin))
		}
	})
}

// TestShortRunsGetOn: processes that end before the delay is over pay it together.
func TestShortRunsGetOn(t *testing.T) {
	for _, byNext := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store := new(mapStore)
			starts := 0
			for range 20 { // each minute, for 10 s
				p := run(t, hostlimit.Config{Store: store})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				next, err := p.Next(ctx, storedKey, 30*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				deadline, _ := ctx.Deadline()
				if byNext && next.After(deadline) {
					cancel()
					time.Sleep(time.Minute)
					continue
				}
				l, err := p.Acquire(ctx, storedKey, 30*time.Second)
				if err == nil {
					if _, err := l.Start(ctx); err != nil {
						t.Error(err)
					}
					l.Release()
					starts++
				} else if !errors.Is(err, hostlimit.ErrBusy) {
					t.Error(err)
				}
				cancel()
				time.Sleep(time.Minute)
			}
			if starts != 10 {
				t.Errorf("by Next %v: %d starts of 20 runs", byNext, starts)
			}
			if len(store.debts) > 1 {
				t.Errorf("kept: %+v", store.debts)
			}
		})
	}
}

// TestAShortGapAfterAFarOneIsPaid: a next start that is over says nothing about a later start.
func TestAShortGapAfterAFarOneIsPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		cfg := hostlimit.Config{Store: store, MaxWait: 3 * time.Hour}
		p := run(t, cfg)
		l, _ := p.start(90 * time.Second)
		l.Release()
		l, g := p.start(2 * time.Second) // the crawl-delay has become shorter
		l.Release()
		if len(store.debts) != 0 {
			t.Errorf("kept after a start with a short gap: %+v", store.debts)
		}
		_, next := run(t, cfg).start(2 * time.Second)
		if gap := next.Start.Sub(g.Start); gap < 2*time.Second {
			t.Errorf("the next process starts after %v", gap)
		}
	})
}

// TestPacedRunsKeepNoFile: a process that pays its delay costs the Store no write, unless response
// times have made the delay longer than Delay.Max; then a few.
func TestPacedRunsKeepNoFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		for range 3 {
			p := run(t, hostlimit.Config{Store: store})
			for range 100 {
				l, _ := p.start(2 * time.Second)
				l.Observe(ok)
				l.Release()
			}
		}
		if store.writes != 0 || len(store.debts) != 0 {
			t.Errorf("%d writes, %+v", store.writes, store.debts)
		}
		p := run(t, hostlimit.Config{Store: store, Delay: hostlimit.Delay{Adaptive: hostlimit.Proportional(1)}})
		for i := range 1000 {
			l, _ := p.start(0)
			latency := time.Second + time.Duration(i%10)*100*time.Millisecond
			time.Sleep(latency)
			l.Observe(hostlimit.Outcome{Status: 200, Latency: latency})
			l.Release()
		}
		if store.writes > 5 {
			t.Errorf("%d writes for 1000 answers after about 1.5 s", store.writes)
		}
	})
}

// TestADelayByResponseTimesIsForgotten once the host is quick again.
func TestADelayByResponseTimesIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		cfg := hostlimit.Config{Store: store, Delay: hostlimit.Delay{Adaptive: hostlimit.Squared}}
		p := run(t, cfg)
		p.fetch(hostlimit.Outcome{Status: 200, Latency: 3 * time.Second})
		if d := store.debt(); d.Adaptive < 9*time.Second || d.Adaptive > 18*time.Second {
			t.Errorf("kept: %+v", d)
		}
		p = run(t, cfg)
		for range 30 {
			p.fetch(hostlimit.Outcome{Status: 200, Latency: 10 * time.Millisecond})
			time.Sleep(11 * time.Second)
		}
		if len(store.debts) != 0 {
			t.Errorf("kept of a quick host: %+v", store.debts)
		}
	})
}

// A laterClock is a Store as a process has it whose clock is ahead of the bubble's.
type laterClock struct {
	hostlimit.Store
	by time.Duration
}

func (s laterClock) Update(
	ctx context.Context, key string, change func(hostlimit.Debt) hostlimit.Debt,
) (hostlimit.Debt, error) {
	d, err := s.Store.Update(ctx, key, func(d hostlimit.Debt) hostlimit.Debt {
		return moved(change(moved(d, -s.by)), s.by)
	})
	return moved(d, -s.by), err
}

// moved returns d with all its times later by the given duration.
func moved(d hostlimit.Debt, by time.Duration) hostlimit.Debt {
	for _, t := range []*time.Time{&d.BlockedUntil, &d.BlockedAt, &d.ClearedAt, &d.FreedAt, &d.NextStart} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	return d
}

// TestRunsArePacedWhereTheClockIsSetBack between two processes, or forward: a gap that isn't kept
// counts from New, whatever the clock says. One that is kept ends later by as much as the clock was
// set back.
func TestRunsArePacedWhereTheClockIsSetBack(t *testing.T) {
	for _, back := range []time.Duration{-time.Minute, time.Second, time.Hour} {
		for _, delay := range []time.Duration{200 * time.Millisecond, 2 * time.Second, 30 * time.Second, time.Minute, 10 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				store := new(mapStore)
				none := hostlimit.Delay{DangerouslyNone: true, Adaptive: hostlimit.Fixed}
				cfg := hostlimit.Config{Store: laterClock{store, back}, Delay: none, MaxWait: 3 * time.Hour}
				l, first := run(t, cfg).start(delay)
				l.Observe(ok)
				l.Release()
				time.Sleep(10 * time.Millisecond)
				cfg.Store = store
				l, second := run(t, cfg).start(delay)
				l.Release()
				gap := second.Start.Sub(first.Start)
				least := delay
				most := 2 * delay
				if delay > time.Minute { // kept
					least += min(back, 0)
					most = delay + max(back, 0) + 2*time.Second
				}
				if gap < least || gap > most {
					t.Errorf("clock set back by %v, delay %v: gap %v", back, delay, gap)
				}
			})
		}
	}
}
