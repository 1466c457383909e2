package memory_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

func TestRefusalsCountOnAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		cfg := hostlimit.Config{Store: store, Backoff: backoff.Refusals{Policy: backoff.Doubling{Start: 2 * time.Hour}, Forgive: 100 * time.Hour}, MaxWait: 100 * time.Hour}
		for n, length := range []time.Duration{2 * time.Hour, 4 * time.Hour, 8 * time.Hour} {
			_, e := run(t, cfg).fetch(refusal)
			if e.Refusals != n+1 || time.Until(e.Until) != length {
				t.Errorf("refusal %d: %+v", n+1, e)
			}
			if d := store.debt(); d.Refusals != n+1 || !d.BlockedUntil.Equal(e.Until) || d.Cause != "status 429" || !d.BlockedAt.Equal(time.Now()) {
				t.Errorf("kept: %+v", d)
			}
		}
		// A success clears, and leaves nothing behind but what was learned.
		if _, e := run(t, cfg).fetch(ok); !e.Cleared {
			t.Errorf("success: %+v", e)
		}
		if d := store.debt(); d != (hostlimit.Debt{Delay: d.Delay}) || d.Delay == 0 {
			t.Errorf("kept after a success: %+v", d)
		}
	})
}

// TestABanGoesOnAcrossRestarts: the next process knows that it is one, and that what it has taught is
// to be eased slowly.
func TestABanGoesOnAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, forbidden := hostlimit.Config{Store: hostlimit.Dir(t.TempDir())}, hostlimit.Outcome{Status: 403}
		p := run(t, cfg)
		for range 6 {
			p.fetch(forbidden)
		}
		if _, e := run(t, cfg).fetch(forbidden); time.Until(e.Until) != 2*time.Minute || e.Kind != "ban" || e.Row != 2 {
			t.Errorf("the next one: %+v, for %v", e, time.Until(e.Until))
		}
		run(t, cfg).fetch(ok)
		p = run(t, cfg)
		learned := func() time.Duration {
			for h, err := range p.List(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				return h.Learned
			}
			return 0
		}
		p.fetch(ok)
		taught := learned()
		for range 9 { // three minutes
			time.Sleep(20 * time.Second)
			p.fetch(ok)
		}
		if eased := learned(); taught == 0 || eased != taught-taught/100*2 {
			t.Errorf("from %v to %v in three minutes", taught, eased)
		}
	})
}

// TestAnOutageGoesOnAcrossRestarts: it isn't taken for refusals such as 429.
func TestAnOutageGoesOnAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := hostlimit.Config{Store: new(mapStore), MaxWait: 24 * time.Hour}
		for n := 1; n <= 20; n++ {
			want := min(backoff.Fibonacci{}.Delay(n), 5*time.Minute)
			if further := n - 15; further > 0 { // 5 min was refused twice
				want = min(5*time.Minute<<further, 4*time.Hour)
			}
			if _, e := run(t, cfg).fetch(hostlimit.Outcome{Status: 500}); time.Until(e.Until) != want || e.Kind != "unsure" || e.Row != n {
				t.Errorf("number %d: %+v, for %v, want %v", n, e, time.Until(e.Until), want)
			}
		}
	})
}

// TestProcessesSeeEachOthersBlocks within ten seconds of use, and their ends as well.
func TestProcessesSeeEachOthersBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hostlimit.Dir(t.TempDir())
		cfg := hostlimit.Config{Store: store, MaxWait: 100 * time.Hour}
		a, b := run(t, cfg), run(t, cfg)
		a.fetch(ok)
		b.fetch(ok)
		time.Sleep(time.Second)
		_, e := a.fetch(hostlimit.Outcome{Status: 429, RetryAfter: 3 * time.Hour})
		time.Sleep(9 * time.Second)
		begin := time.Now()
		l, g := b.start(0)
		if g.Start.Before(e.Until) || g.Start.Sub(e.Until) > time.Second || !g.Probe || g.WaitBlock < 2*time.Hour {
			t.Errorf("started %v after the end of the block: %+v", g.Start.Sub(e.Until), g)
		}
		if r := g.Restored; r == nil || r.Cause != "status 429" || !r.BlockedUntil.Equal(e.Until) || begin.Sub(r.BlockedAt) != 9*time.Second {
			t.Errorf("restored: %+v", r)
		}
		// The success of one lifts it for the other, who doesn't set it again.
		if e := l.Observe(ok); !e.Cleared {
			t.Errorf("success: %+v", e)
		}
		l.Release()
		time.Sleep(10 * time.Second)
		if g, _ := a.fetch(ok); g.Probe || g.Restored != nil {
			t.Errorf("after the success of another: %+v", g)
		}
		if d, _ := store.Update(t.Context(), storedKey, func(d hostlimit.Debt) hostlimit.Debt { return d }); d.Refusals != 0 || !d.BlockedUntil.IsZero() {
			t.Errorf("set again: %+v", d)
		}
	})
}

// TestClockSetBackBlocksNoLonger than MaxRetryAfter, or than the block was to be, from the time of
// loading.
func TestClockSetBackBlocksNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name    string
			debt    hostlimit.Debt
			longest time.Duration
		}{
			{"by a day", hostlimit.Debt{BlockedUntil: time.Now().Add(25 * time.Hour), BlockedAt: time.Now().Add(24 * time.Hour), Refusals: 1}, 24 * time.Hour},
			{"by years", hostlimit.Debt{BlockedUntil: time.Now().Add(1e5 * time.Hour), Refusals: 1}, 24 * time.Hour},
			{"a long block", hostlimit.Debt{BlockedUntil: time.Now().Add(1e5 * time.Hour), BlockedAt: time.Now().Add(1e5*time.Hour - 28*time.Hour), Refusals: 1}, 28 * time.Hour},
			{"a start", hostlimit.Debt{NextStart: time.Now().Add(1e5 * time.Hour)}, 24 * time.Hour},
		} {
			store := &mapStore{debts: map[string]hostlimit.Debt{storedKey: c.debt}}
			p := run(t, hostlimit.Config{Store: store, MaxWait: 1e6 * time.Hour})
			if n := p.next(); n < c.longest || n > c.longest+time.Second {
				t.Errorf("set back %s: next in %v, want %v", c.name, n, c.longest)
			}
			time.Sleep(c.longest / 2)
			if n := p.next(); n > c.longest/2+time.Second {
				t.Errorf("set back %s: next in %v after half the time", c.name, n)
			}
			p.fetch(ok)
		}
	})
}

// TestClockSetForwardEndsBlocksEarly, and what is over is removed.
func TestClockSetForwardEndsBlocksEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yesterday := time.Now().Add(-24 * time.Hour)
		store := &mapStore{debts: map[string]hostlimit.Debt{storedKey: {
			BlockedUntil: yesterday, BlockedAt: yesterday.Add(-time.Hour), Refusals: 3, Cause: "status 429", NextStart: yesterday,
		}}}
		p := run(t, hostlimit.Config{Store: store})
		if g, e := p.fetch(refusal); g.Probe || g.Restored != nil || e.Refusals != 1 {
			t.Errorf("%+v, %+v", g, e)
		}
		store.debts[storedKey] = hostlimit.Debt{NextStart: yesterday}
		run(t, hostlimit.Config{Store: store}).next()
		if len(store.debts) != 0 {
			t.Errorf("what owes nothing stays: %+v", store.debts)
		}
	})
}

// TestCounterOfAnEndedBlockIsKept until it is forgiven.
func TestCounterOfAnEndedBlockIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for after, want := range map[time.Duration]int{29 * time.Minute: 4, 31 * time.Minute: 1} {
			end := time.Now().Add(-after)
			store := &mapStore{debts: map[string]hostlimit.Debt{storedKey: {BlockedUntil: end, Refusals: 3}}}
			p := run(t, hostlimit.Config{Store: store})
			if _, e := p.fetch(refusal); e.Refusals != want {
				t.Errorf("%v after the block: %d refusals, want %d", after, e.Refusals, want)
			}
		}
	})
}

// TestRequestsInFlightDontLiftTheBlocksOfOthers: they started before it was known, and none of them is the
// probe that the others wait for after its end.
func TestRequestsInFlightDontLiftTheBlocksOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		cfg := hostlimit.Config{Store: store, Concurrency: 3, MaxWait: 10 * time.Hour, LeaseTTL: 10 * time.Hour}
		a, b := run(t, cfg), run(t, cfg)
		a.fetch(refusal)
		time.Sleep(2 * time.Second)
		probe, g := b.start(0)
		if !g.Probe {
			t.Fatalf("%+v", g)
		}
		time.Sleep(10 * time.Second)
		a.fetch(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		if n := b.next(); n < 59*time.Minute {
			t.Fatalf("next in %v", n)
		}
		begin := time.Now()
		second, g := b.start(0)
		if took := time.Since(begin); !g.Probe || took < 59*time.Minute || took > 61*time.Minute {
			t.Errorf("after %v: %+v", took, g)
		}
		if e := probe.Observe(ok); e.Cleared || e.Refusals != 2 {
			t.Errorf("a success of before the block: %+v", e)
		}
		if e := second.Observe(ok); !e.Cleared {
			t.Errorf("the probe's success: %+v", e)
		}
	})
}

// TestRefusalDuringAnUpdate isn't overwritten by what that Update brings.
func TestRefusalDuringAnUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{takes: time.Second}
		p := run(t, hostlimit.Config{Store: store, MaxWait: 10 * time.Hour})
		l, _ := p.start(0)
		time.Sleep(11 * time.Second)
		store.debts = map[string]hostlimit.Debt{storedKey: {BlockedUntil: time.Now().Add(time.Hour), Refusals: 2, Cause: "status 503"}}
		go p.Next(context.Background(), storedKey, 0) //nolint:errcheck // it only reads
		time.Sleep(time.Second / 2)
		l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 3 * time.Hour})
		if n := p.next(); n < 3*time.Hour-time.Minute {
			t.Errorf("next in %v", n)
		}
		if d := store.debt(); time.Until(d.BlockedUntil) < 3*time.Hour-time.Minute || d.Refusals != 2 {
			t.Errorf("kept %+v", d)
		}
	})
}

// TestBlockByHandReachesOtherProcesses within ten seconds of use, those who wait there included.
func TestBlockByHandReachesOtherProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := hostlimit.Config{Store: hostlimit.Dir(t.TempDir()), Concurrency: 1, MaxWait: 100 * time.Hour}
		a, b := run(t, cfg), run(t, cfg)
		a.fetch(ok)
		held, _ := b.start(0)
		refused := make(chan error)
		go func() {
			_, err := b.Acquire(t.Context(), storedKey, 0)
			refused <- err
		}()
		synctest.Wait()
		until := time.Now().Add(time.Hour)
		if err := a.Block(t.Context(), storedKey, until, "the owner has called"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		_, err := b.Acquire(t.Context(), storedKey, 0) // looks at the Store
		var e *hostlimit.Error
		if !errors.As(err, &e) || !errors.Is(err, hostlimit.ErrBlocked) || !strings.Contains(err.Error(), "by hand: the owner has called") || e.RetryAt.Before(until) {
			t.Errorf("one that comes: %v", err)
		}
		var waited *hostlimit.Error
		if err := <-refused; !errors.Is(err, hostlimit.ErrBlocked) || !errors.As(err, &waited) {
			t.Fatalf("one that waited: %v", err)
		}
		// Whoever has asked the Store is told, and both do now.
		if r := cmp.Or(e.Restored, waited.Restored); r == nil || r.Cause != "by hand: the owner has called" || e.Restored != nil && waited.Restored != nil {
			t.Errorf("restored: %+v and %+v", e.Restored, waited.Restored)
		}
		held.Release()
		if err := a.Clear(t.Context(), storedKey); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if g, _ := b.fetch(ok); g.Probe {
			t.Errorf("after Clear: %+v", g)
		}
	})
}

// TestNoAnswerElsewhereLiftsABlockByHand: not the success of another process that doesn't know of
// the block yet.
func TestNoAnswerElsewhereLiftsABlockByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := hostlimit.Config{Store: new(mapStore), MaxWait: 10 * time.Hour}
		a, b := run(t, cfg), run(t, cfg)
		a.fetch(refusal)
		time.Sleep(2 * time.Second)
		b.next() // reads the Store: the next request probes
		if err := a.Block(t.Context(), storedKey, time.Now().Add(time.Hour), "stop"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		b.fetch(ok)
		time.Sleep(10 * time.Second)
		if a, b := a.next(), b.next(); a < 50*time.Minute || b < 50*time.Minute {
			t.Errorf("next in %v and %v", a, b)
		}
	})
}

// TestBlockByHandHoldsWithoutItsStore, and says that it won't survive the process.
func TestBlockByHandHoldsWithoutItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{err: errors.New("disk full")}
		p := run(t, hostlimit.Config{Store: store})
		for range 2 {
			if err := p.Block(t.Context(), storedKey, time.Now().Add(time.Hour), "stop"); !errors.Is(err, store.err) {
				t.Errorf("Block: %v", err)
			}
		}
		if _, err := p.Acquire(t.Context(), storedKey, 0); !errors.Is(err, hostlimit.ErrBlocked) {
			t.Errorf("Acquire: %v", err)
		}
		if err := p.Clear(t.Context(), storedKey); !errors.Is(err, store.err) {
			t.Errorf("Clear: %v", err)
		}
		p.fetch(ok)
	})
}

// TestRequestsInFlightDontLiftALongerBlockOfOthers: it may count no further refusal.
func TestRequestsInFlightDontLiftALongerBlockOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		b := run(t, hostlimit.Config{Store: store, Concurrency: 3, MaxWait: 10 * time.Hour, LeaseTTL: 10 * time.Hour})
		b.fetch(refusal)
		time.Sleep(2 * time.Second)
		probe, g := b.start(0)
		if !g.Probe {
			t.Fatalf("%+v", g)
		}
		time.Sleep(11 * time.Second)
		// An answer to a request from before has lengthened the block elsewhere.
		d := store.debts[storedKey]
		d.BlockedAt, d.BlockedUntil = time.Now().Round(0).UTC(), time.Now().Add(time.Hour).Round(0).UTC()
		store.debts[storedKey] = d
		if n := b.next(); n < 59*time.Minute {
			t.Fatalf("next in %v", n)
		}
		if e := probe.Observe(ok); e.Cleared {
			t.Errorf("a success of before the block: %+v", e)
		}
		if n := b.next(); n < 59*time.Minute {
			t.Errorf("then the next may come in %v", n)
		}
	})
}

// TestARefusalCountsAfterOthersHaveCleared the block: their success says nothing about the answer to a
// request that was on its way.
func TestARefusalCountsAfterOthersHaveCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		b := run(t, hostlimit.Config{Store: store})
		b.fetch(refusal)
		time.Sleep(2 * time.Second)
		probe, g := b.start(0)
		if !g.Probe {
			t.Fatalf("%+v", g)
		}
		time.Sleep(11 * time.Second)
		delete(store.debts, storedKey)
		if n := b.next(); n != 0 {
			t.Fatalf("next in %v", n)
		}
		if e := probe.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Minute}); !e.Blocked || e.Refusals != 1 {
			t.Errorf("a refusal: %+v", e)
		}
		if n := b.next(); n != time.Minute {
			t.Errorf("the next may come in %v", n)
		}
	})
}

// TestTheCauseOfABlockIsKept: the next run says of it what this one says.
func TestTheCauseOfABlockIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, o := range map[string]hostlimit.Outcome{
			"status 429":    {Status: 429, RetryAfter: time.Hour},
			"status 503":    {Status: 503, RetryAfter: time.Hour},
			"status 999":    {Status: 999, RetryAfter: time.Hour},
			"network error": {Err: errors.New("connection refused")},
			"rate limit":    {Status: 200, Reset: time.Hour},
			"refused":       {Status: 200, Refused: "a challenge", RetryAfter: time.Hour},
		} {
			cfg := hostlimit.Config{
				Store:   new(mapStore),
				Backoff: backoff.Refusals{Policy: backoff.Doubling{}, Network: true, Statuses: []int{999}},
			}
			p := run(t, cfg)
			p.fetch(o)
			again := run(t, cfg)
			again.next() // reads what is kept
			for _, p := range []process{p, again} {
				for st, err := range p.List(t.Context()) {
					if err != nil || st.BlockedBy != want {
						t.Errorf("blocked by %q, want %q; %v", st.BlockedBy, want, err)
					}
				}
			}
		}
	})
}

// TestABlockByHandThatWasLiftedLeavesNothing: the block that another process has set since is the host's.
func TestABlockByHandThatWasLiftedLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		cfg := hostlimit.Config{Store: store, MaxWait: 10 * time.Hour}
		a, b := run(t, cfg), run(t, cfg)
		a.fetch(refusal)
		if err := a.Block(t.Context(), storedKey, time.Now().Add(10*time.Second), "maintenance"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		la, _ := a.start(0)
		lb, _ := b.start(0)
		lb.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		if e := la.Observe(ok); !e.Cleared {
			t.Fatalf("the success of a probe: %+v", e)
		}
		if d := store.debt(); d.Cause != "status 429" || time.Until(d.BlockedUntil) != time.Hour {
			t.Errorf("kept %+v", d)
		}
		if n := a.next(); n < time.Hour {
			t.Errorf("next in %v", n)
		}
	})
}

// TestLargerCounterHolds also where the block that ends later is ours.
func TestLargerCounterHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		p := run(t, hostlimit.Config{Store: store})
		l, _ := p.start(0)
		now := time.Now().Round(0).UTC()
		store.debts = map[string]hostlimit.Debt{storedKey: {Refusals: 4, BlockedAt: now, BlockedUntil: now.Add(time.Minute)}}
		l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		l.Release()
		if d := store.debt(); d.Refusals != 4 || !d.BlockedUntil.Equal(now.Add(time.Hour)) {
			t.Errorf("kept %+v", d)
		}
		for st, err := range p.List(t.Context()) {
			if err != nil || st.Refusals != 4 || !st.BlockedUntil.Equal(now.Add(time.Hour)) {
				t.Errorf("%+v, %v", st, err)
			}
		}
	})
}

// TestALateRefusalByAForgottenKeyIsKept as any other.
func TestALateRefusalByAForgottenKeyIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		p := run(t, hostlimit.Config{Store: store, MaxHosts: 10})
		l, _ := p.start(0)
		time.Sleep(6 * time.Minute)
		p.fetch(ok) // takes it back
		for i := range 100 {
			other, err := p.Acquire(t.Context(), fmt.Sprint("other-", i), 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := other.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			other.Release()
			time.Sleep(time.Minute)
		}
		for st, err := range p.List(t.Context()) {
			if err != nil || st.Key == storedKey {
				t.Fatal("the key isn't forgotten", err)
			}
		}
		l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		if until := store.debt().BlockedUntil; time.Until(until) != time.Hour || !l.Release() {
			t.Errorf("kept until %v", until)
		}
	})
}

// TestBlockByHandKnowsTheKeysOwnLimits: a delay that others have learned is taken over as Override has it.
func TestBlockByHandKnowsTheKeysOwnLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := hostlimit.Limits{Delay: hostlimit.Delay{Min: time.Second, Ceiling: 5 * time.Second}}
		store := &mapStore{debts: map[string]hostlimit.Debt{storedKey: {Delay: 50 * time.Second}}}
		p := run(t, hostlimit.Config{Store: store, Override: func(string) (hostlimit.Limits, bool) { return own, true }})
		if err := p.Block(t.Context(), storedKey, time.Now().Add(time.Second), "maintenance"); err != nil {
			t.Fatal(err)
		}
		for st, err := range p.List(t.Context()) {
			if err != nil || st.Learned != 5*time.Second {
				t.Errorf("%+v, %v", st, err)
			}
		}
	})
}

// TestBlockByHandWhereOverrideMakesNoSense holds and is kept: only a turn needs the limits.
func TestBlockByHandWhereOverrideMakesNoSense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{debts: map[string]hostlimit.Debt{storedKey: {Delay: time.Second}}}
		p := run(t, hostlimit.Config{Store: store, Override: func(string) (hostlimit.Limits, bool) { return hostlimit.Limits{Concurrency: -1}, true }})
		until := time.Now().Add(time.Hour).Round(0).UTC()
		if err := p.Block(t.Context(), storedKey, until, "maintenance"); err != nil {
			t.Fatal(err)
		}
		if d := store.debt(); !d.BlockedUntil.Equal(until) {
			t.Errorf("kept %+v", d)
		}
		if err := p.Clear(t.Context(), storedKey); err != nil || store.debt() != (hostlimit.Debt{Delay: time.Second}) {
			t.Errorf("cleared: %+v, %v", store.debt(), err)
		}
	})
}

// TestASuccessLiftsNothingThatCameAfterItsStart: the refusal of another process holds although the
// probe was answered later.
func TestASuccessLiftsNothingThatCameAfterItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(mapStore)
		cfg := hostlimit.Config{Store: store, MaxWait: 10 * time.Hour}
		a, b := run(t, cfg), run(t, cfg)
		lb, _ := b.start(0)
		a.fetch(refusal)
		time.Sleep(2 * time.Second)
		probe, g := a.start(0)
		if !g.Probe {
			t.Fatalf("%+v", g)
		}
		time.Sleep(time.Second)
		lb.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		time.Sleep(time.Second)
		if e := probe.Observe(ok); !e.Cleared {
			t.Fatalf("the success of a probe: %+v", e)
		}
		for i, p := range []process{a, b, run(t, cfg)} {
			if n := p.next(); n < time.Hour-2*time.Second {
				t.Errorf("process %d: the next may come in %v", i, n)
			}
		}
	})
}

// TestAClearingComesAfterItsBlock, and a block after the last clearing, although the clock was set
// back in between.
func TestAClearingComesAfterItsBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().Round(0).UTC()
		store := &mapStore{debts: map[string]hostlimit.Debt{storedKey: {
			BlockedUntil: now.Add(2 * time.Hour), BlockedAt: now.Add(time.Hour), Refusals: 3, Cause: "status 429",
		}}}
		cfg := hostlimit.Config{Store: store, Delay: hostlimit.Delay{Adaptive: hostlimit.Fixed}}
		p := run(t, cfg)
		if err := p.Clear(t.Context(), storedKey); err != nil || len(store.debts) != 0 {
			t.Errorf("cleared: %+v, %v", store.debts, err)
		}
		if _, e := p.fetch(refusal); e.Refusals != 1 || store.debt().Refusals != 1 {
			t.Errorf("refused: %+v, kept %+v", e, store.debt())
		}
	})
}
