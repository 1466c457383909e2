package memory

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/backoff"

	"github.com/go-politeness/politeness/hostlimit"
)

func TestForgivenAfterQuietTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none, Backoff: backoff.Refusals{Forgive: time.Hour}})
		refuse := func() hostlimit.Effect {
			l := acquire(t, m, "a", 0)
			defer l.Release()
			return l.Observe(hostlimit.Outcome{Status: 429})
		}
		refuse()
		time.Sleep(30 * time.Minute)
		if e := refuse(); e.Refusals != 2 {
			t.Errorf("after half the quiet time: %+v", e)
		}
		time.Sleep(time.Hour + time.Second) // the block took 1 s
		for st := range states(t, m) {
			if st.Refusals != 0 || !st.BlockedUntil.IsZero() {
				t.Errorf("forgiven, but listed as %+v", st)
			}
		}
		if l := acquire(t, m, "a", 0); l.Grant.Probe {
			t.Error("a probe after the block was forgiven")
		} else {
			l.Release()
		}
		if e := refuse(); e.Refusals != 1 {
			t.Errorf("after the quiet time: %+v", e)
		}

		time.Sleep(time.Second)
		probe := acquire(t, m, "a", 0)
		for range 60 {
			probe.lease.Renew()
			time.Sleep(time.Minute)
		}
		if l := acquire(t, m, "a", 0); l.Probe || time.Since(l.Start) > 0 {
			t.Errorf("while a probe has no response, after the quiet time: %+v", l.Grant)
		}
		ctx, leave := context.WithCancel(t.Context())
		go func() { _, _ = m.Acquire(ctx, "a", 0) }()
		synctest.Wait()
		for st := range states(t, m) {
			if st.Hold != "slot" {
				t.Errorf("%+v, want it to wait for a slot", st)
			}
		}
		leave()
		synctest.Wait()
		probe.Release()
	})
}

// TestRefusalsAreCountedUpTo255, and not from the beginning again.
func TestRefusalsAreCountedUpTo255(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none, Backoff: backoff.Fibonacci{Unit: time.Second, Cap: time.Second}})
		for n := range 300 {
			l := acquire(t, m, "a", 0)
			if e := l.Observe(hostlimit.Outcome{Status: 429}); e.Refusals != min(n+1, 255) {
				t.Errorf("refusal %d is told as the %d.", n+1, e.Refusals)
			}
			l.Release()
		}
	})
}

// Who waits for the answer of a probe goes on once the block is forgiven.
func TestForgivenWhileAProbeIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none, Backoff: backoff.Refusals{Forgive: time.Minute}})
		l := acquire(t, m, "a", 0)
		l.Observe(hostlimit.Outcome{Status: 429})
		l.Release()
		probe := acquire(t, m, "a", 0)
		defer probe.Release()
		out := time.Now()
		l = acquire(t, m, "a", 0)
		defer l.Release()
		if waited := time.Since(out); !probe.Grant.Probe || l.Grant.Probe || waited != time.Minute {
			t.Errorf("started %v after the probe %+v", waited, probe.Grant)
		}
	})
}

// TestABlockByHandIsOverAtItsEnd, at that very instant: a request starts, and nothing is left to clear.
func TestABlockByHandIsOverAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none})
		if err := m.Block(t.Context(), "a", time.Now().Add(time.Minute), "maintenance"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for st := range states(t, m) {
			if !st.BlockedUntil.IsZero() || st.BlockedBy != "" {
				t.Errorf("listed as %+v", st)
			}
		}
		l := acquire(t, m, "a", 0)
		if l.ByHand == nil {
			t.Error("the block isn't told of")
		}
		l.Release()
		if err := m.Clear(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		l = acquire(t, m, "a", 0)
		if l.ByHand != nil {
			t.Errorf("cleared: %+v", l.ByHand)
		}
		l.Release()
	})
}

// TestClearAfterABlock forgets its refusals, and is told where there was something to forget.
func TestClearAfterABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none})
		for _, o := range []hostlimit.Outcome{{Status: 429, RetryAfter: time.Minute}, {Status: 200, Reset: time.Minute}, {Status: 200}} {
			l := acquire(t, m, "a", 0)
			l.Observe(o)
			l.Release()
			time.Sleep(time.Hour / 4)
			if err := m.Clear(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			l = acquire(t, m, "a", 0)
			if told := l.ByHand != nil; l.Probe || told != (o.Status == 429) {
				t.Errorf("%+v: then %+v", o, l.Grant)
			}
			l.Release()
		}
	})
}

// TestADelayIsEased by 2 % each 20 s in which a page is served, and faster the longer nothing refuses.
func TestADelayIsEased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second}})
		answer := func(status int) (learned time.Duration) {
			l := acquire(t, m, "a", 0)
			l.Observe(hostlimit.Outcome{Status: status, RetryAfter: time.Second})
			l.Release()
			for st := range states(t, m) {
				learned = st.Learned
			}
			return learned
		}
		want := answer(429)
		if want != 1500*time.Millisecond {
			t.Fatalf("taught %v", want)
		}
		for step := range 12 {
			time.Sleep(20 * time.Second)
			percent := []int64{2, 4, 8}[step/5]
			if want = time.Duration(int64(want) * (100 - percent) / 100); want <= time.Second {
				want = 0
			}
			for range 3 { // once in 20 s
				if d := answer(200); (d - want).Abs() > time.Microsecond {
					t.Fatalf("after %d steps: %v, want %v", step+1, d, want)
				}
			}
		}
	})
}

// TestALateRefusalThatAsksForNothing adds nothing to the block that was set since its request started.
func TestALateRefusalThatAsksForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none})
		first, second := acquire(t, m, "a", 0), acquire(t, m, "a", 0)
		first.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Second})
		time.Sleep(time.Minute)
		if e := second.Observe(hostlimit.Outcome{Status: 429}); e.Blocked || e.Refusals != 1 || !e.Until.IsZero() {
			t.Errorf("%+v", e)
		}
		first.Release()
		second.Release()
	})
}

// TestBlockByHandOfAnyLength: until the end of the calendar, say.
func TestBlockByHandOfAnyLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const year = 365 * 24 * time.Hour
		m := mustNew(t, hostlimit.Config{})
		time.Sleep(time.Hour)
		for until, least := range map[time.Time]time.Duration{
			time.Now().Add(time.Second):                   time.Second,
			time.Now().Add(50 * year):                     50 * year,
			time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC):   100 * year,
			time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC):  100 * year,
			time.Date(999999, 1, 1, 0, 0, 0, 0, time.UTC): 100 * year,
		} {
			key := until.String()
			if err := m.Block(t.Context(), key, until, "maintenance"); err != nil {
				t.Fatal(err)
			}
			if at, err := m.Next(t.Context(), key, 0); err != nil || time.Until(at) != least {
				t.Errorf("until %v: the next may come in %v, want %v; %v", until, time.Until(at), least, err)
			}
		}
	})
}
