package hostlimit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/backoff"
)

var none = Delay{DangerouslyNone: true}

func TestNewNamesEveryWrongField(t *testing.T) {
	_, err := New(Config{
		Concurrency: -1, MaxInFlight: -1, SlotTimeout: -1, LeaseTTL: -1, MaxWait: -1, MaxHosts: -1,
		Delay:   Delay{Min: -1, Max: -1, Ceiling: -1, Adaptive: Proportional(-1)},
		Backoff: backoff.Refusals{MaxRetryAfter: -1},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{
		"Concurrency", "MaxInFlight", "SlotTimeout", "LeaseTTL", "MaxWait", "MaxHosts",
		"Delay.Min", "Delay.Max", "Delay.Ceiling", "Delay.Adaptive", "Backoff: MaxRetryAfter",
	} {
		if !strings.Contains(err.Error(), field+":") {
			t.Errorf("the error doesn't name %s:\n%v", field, err)
		}
	}
	for _, c := range []Config{
		{Delay: Delay{Min: 2 * time.Second, Max: time.Second}},
		{Delay: Delay{Min: 2 * time.Second, Ceiling: time.Second}},
		{Delay: Delay{Min: 2 * time.Second, DangerouslyNone: true}},
		{Delay: Delay{Adaptive: Throttle(0)}},
		{Delay: Delay{FromEnd: true}},
		{Concurrency: 2, Delay: Delay{FromEnd: true}},
		{Windows: []Window{{From: time.Hour, To: time.Hour}}},
		{Windows: []Window{{From: 24 * time.Hour, To: time.Hour}}},
		{Windows: []Window{{To: 25 * time.Hour}}},
		{Windows: []Window{{From: -1, To: time.Hour}}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("no error for %+v", c)
		}
	}
	for _, p := range []backoff.Policy{(*backoff.Refusals)(nil), (*backoff.Doubling)(nil), (*backoff.Fibonacci)(nil), backoff.Refusals{Policy: (*backoff.Doubling)(nil)}} {
		if _, err := New(Config{Backoff: p}); err == nil || !strings.Contains(err.Error(), "Backoff:") {
			t.Errorf("nil for a policy, as %#v: %v", p, err)
		}
	}
	for _, c := range []Config{{}, {Delay: Delay{Min: time.Hour}}, {Delay: Delay{Max: time.Microsecond}}, {Delay: Delay{DangerouslyNone: true, Adaptive: Squared}}} {
		if _, err := New(c); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestNanosecondsAreRefused: who writes Delay{Min: 5} means seconds.
func TestNanosecondsAreRefused(t *testing.T) {
	for want, d := range map[string]Delay{
		"Delay.Min: 5ns are nanoseconds: did you mean 5s?":      {Min: 5},
		"Delay.Max: 10ns are nanoseconds: did you mean 10s?":    {Min: 5, Max: 10},
		"Delay.Ceiling: 60ns are nanoseconds: did you mean 60s": {Ceiling: 60},
	} {
		if _, err := New(Config{Delay: d}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", d, err, want)
		}
		m := mustNew(t, Config{Override: func(string) (Limits, bool) { return Limits{Delay: d}, true }})
		if _, err := m.Acquire(t.Context(), "a", 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v by Override: %v, want %q", d, err, want)
		}
	}
}

func TestOverrideWithoutSenseIsAnError(t *testing.T) {
	m := mustNew(t, Config{
		Concurrency: 1, Delay: Delay{FromEnd: true},
		Override: func(key string) (Limits, bool) { return Limits{Concurrency: len(key) * 2}, true },
	})
	if _, err := m.Acquire(t.Context(), "a", 0); err == nil || !strings.Contains(err.Error(), "FromEnd") {
		t.Errorf("Acquire with two slots, from the end: %v", err)
	}
	m = mustNew(t, Config{Override: func(string) (Limits, bool) { return Limits{Concurrency: -1}, true }})
	if _, err := m.Acquire(t.Context(), "a", 0); err == nil || !strings.Contains(err.Error(), "Concurrency") {
		t.Errorf("Acquire: %v", err)
	}
	if _, err := m.Next(t.Context(), "a", 0); err == nil {
		t.Error("Next: no error")
	}
}

// TestDelayMayBeOfAnyLength: also one whose range is all there is.
func TestDelayMayBeOfAnyLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		longest := Delay{Max: math.MaxInt64}
		for _, c := range []Config{
			{Delay: longest},
			{Override: func(string) (Limits, bool) { return Limits{Delay: longest}, true }},
		} {
			m := mustNew(t, c)
			l := acquire(t, m, "a", 0)
			if g := l.Grant; g.Delay < 0 {
				t.Errorf("%+v", g)
			}
			if _, err := m.Next(t.Context(), "a", 0); err != nil {
				t.Error(err)
			}
			l.Release()
		}
	})
}

func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{})
		for range 50 {
			l := acquire(t, m, "a", 0)
			if g := l.Grant; g.Slots != 2 || g.Delay < 200*time.Millisecond || g.Delay > 500*time.Millisecond {
				t.Fatalf("%+v", g)
			}
			l.Release()
		}
		// A slot is waited for until the leases expire: nothing but MaxWait bounds that.
		acquire(t, m, "a", 0)
		acquire(t, m, "a", 0)
		begin := time.Now()
		l := acquire(t, m, "a", 0)
		if d := time.Since(begin); d < 299*time.Second || d > 300*time.Second || len(l.TakenBack) == 0 {
			t.Errorf("after %v: %+v", d, l.Grant)
		}
		l.Release()
		acquire(t, m, "b", 2*time.Hour).Release()
		begin = time.Now()
		_, err := m.Acquire(t.Context(), "b", 0)
		var e *Error
		if !errors.As(err, &e) || time.Since(begin) != 0 || e.RetryAt.Before(begin.Add(time.Hour)) {
			t.Errorf("a wait of more than an hour: %v", err)
		}
	})
}

// Crawl-delay 2 with a hundred goroutines takes 198 s, and none of them times out.
func TestCrawlDelayNeverTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{})
		begin := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				l := acquire(t, m, "a", 2*time.Second)
				time.Sleep(300 * time.Millisecond)
				l.Release()
			})
		}
		wg.Wait()
		if d := time.Since(begin); d != 198*time.Second+300*time.Millisecond {
			t.Errorf("took %v", d)
		}
	})
}

func TestAStartAtTheDeadlineIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: Delay{Min: time.Minute}})
		acquire(t, m, "a", 0).Release()
		for _, c := range []struct {
			timeout time.Duration
			ok      bool
		}{{time.Minute, false}, {time.Minute + 1, true}} {
			ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
			begin := time.Now()
			l, err := m.Acquire(ctx, "a", 0)
			cancel()
			if took := time.Since(begin); (err == nil) != c.ok || took > 0 != c.ok {
				t.Errorf("timeout %v: %v after %v", c.timeout, err, took)
			}
			if l != nil {
				l.Release()
			}
		}
	})
}

// waits has a request for a with a timeout wait in the queue, and tells how long it was
// there.
func waits(t *testing.T, wg *sync.WaitGroup, m *Memory, timeout time.Duration, ended func(time.Duration, error)) {
	wg.Go(func() {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		l, err := m.Acquire(ctx, "a", 0)
		if err == nil {
			_, err = l.Start(ctx)
			l.Release()
		}
		ended(time.Since(begin), err)
	})
	synctest.Wait()
}

func TestADeadlineThatAnAnswerMakesImpossibleIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: Delay{Min: time.Second, Adaptive: Throttle(1)}})
		l := acquire(t, m, "a", 0)
		var wg sync.WaitGroup
		waits(t, &wg, m, time.Hour, func(_ time.Duration, err error) {
			if err != nil {
				t.Errorf("the head: %v", err)
			}
		})
		waits(t, &wg, m, 20*time.Second, func(d time.Duration, err error) {
			if d != 500*time.Millisecond || !errors.Is(err, ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after %v: %v", d, err)
			}
		})
		time.Sleep(500 * time.Millisecond)
		l.Observe(Outcome{Status: 200, Latency: 30 * time.Second})
		l.Release()
		wg.Wait()
	})
}

// TestAWaitOfMaxWaitIsNotTooLong, though it became so long in the queue; a longer one is refused then.
func TestAWaitOfMaxWaitIsNotTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{MaxWait: 10 * time.Second, Delay: Delay{Min: time.Second, Adaptive: Proportional(1)}})
		l := acquire(t, m, "a", 0)
		var wg sync.WaitGroup
		waits(t, &wg, m, time.Hour, func(d time.Duration, err error) {
			if d != 10*time.Second || err != nil {
				t.Errorf("the head after %v: %v", d, err)
			}
		})
		waits(t, &wg, m, time.Hour, func(d time.Duration, err error) {
			if d != 0 || !errors.Is(err, ErrBusy) {
				t.Errorf("behind it after %v: %v", d, err)
			}
		})
		l.Observe(Outcome{Status: 200, Latency: 19 * time.Second}) // half the way to it
		l.Release()
		wg.Wait()
	})
}

func TestADeadlineThatADrawnDelayMakesImpossibleIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := time.Second
		m := mustNew(t, Config{MaxWait: math.MaxInt64, Override: func(string) (Limits, bool) {
			return Limits{Delay: Delay{Min: time.Second, Max: most}}, true
		}})
		acquire(t, m, "a", 0).Release()
		most = math.MaxInt64 / 2 // to draw less than an hour is one case in a million
		var wg sync.WaitGroup
		waits(t, &wg, m, time.Hour, func(d time.Duration, err error) {
			if d != time.Second || err != nil {
				t.Errorf("the first, after %v: %v", d, err)
			}
		})
		leave, gone := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := m.Acquire(leave, "a", 0); !errors.Is(err, context.Canceled) {
				t.Errorf("the head: %v", err)
			}
		})
		synctest.Wait()
		waits(t, &wg, m, time.Minute, func(d time.Duration, err error) {
			if d != time.Second || !errors.Is(err, ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("behind the head, after %v: %v", d, err)
			}
		})
		time.Sleep(2 * time.Hour)
		gone()
		wg.Wait()
	})
}

func TestForgivenAfterQuietTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: none, Backoff: backoff.Refusals{Forgive: time.Hour}})
		refuse := func() Effect {
			l := acquire(t, m, "a", 0)
			defer l.Release()
			return l.Observe(Outcome{Status: 429})
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
			t.Errorf("while a probe has no answer, after the quiet time: %+v", l.Grant)
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
		m := mustNew(t, Config{Delay: none, Backoff: backoff.Fibonacci{Unit: time.Second, Cap: time.Second}})
		for n := range 300 {
			l := acquire(t, m, "a", 0)
			if e := l.Observe(Outcome{Status: 429}); e.Refusals != min(n+1, 255) {
				t.Errorf("refusal %d is told as the %d.", n+1, e.Refusals)
			}
			l.Release()
		}
	})
}

// Who waits for the answer of a probe goes on once the block is forgiven.
func TestForgivenWhileAProbeIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: none, Backoff: backoff.Refusals{Forgive: time.Minute}})
		l := acquire(t, m, "a", 0)
		l.Observe(Outcome{Status: 429})
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

// A place that was handed to a waiter who leaves at the same moment goes on.
func TestPlaceOfALeavingWaiterGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: none, MaxInFlight: 1})
		first := acquire(t, m, "a", 0)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := m.Acquire(ctx, "b", 0); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		wg.Go(func() { acquire(t, m, "c", 0).Release() })
		synctest.Wait()
		first.Release()
		cancel()
		wg.Wait()
		if m.places.taken != 0 || m.places.line.First != nil {
			t.Errorf("%d places are lost", m.places.taken)
		}
	})
}

// Places go round over the hosts, whoever has the longer queue.
func TestPlacesGoRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: none, MaxInFlight: 1, Concurrency: 1, SlotTimeout: time.Hour})
		var order []string
		var wg sync.WaitGroup
		first := acquire(t, m, "first", 0)
		for _, k := range []string{"big", "big", "big", "big", "small", "big", "tiny", "small"} {
			wg.Go(func() {
				l := acquire(t, m, k, 0)
				order = append(order, k)
				time.Sleep(time.Second)
				l.Release()
			})
			synctest.Wait()
		}
		first.Release()
		wg.Wait()
		if got := fmt.Sprint(order); got != "[big small tiny big small big big big]" {
			t.Errorf("order %v", got)
		}
	})
}

// A leak on a key that nobody asks for any more is told by the next start of another.
func TestALeakThatHoldsAPlaceIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: none, MaxInFlight: 2, LeaseTTL: 5 * time.Second})
		leaked := []turn{acquire(t, m, "leaky", 0), acquire(t, m, "leaky", 0)}
		for i, key := range []string{"a", "b", "leaky"} {
			l := acquire(t, m, key, 0)
			want := "[]"
			if i == 0 {
				want = "[{leaky 1 } {leaky 2 }]"
			}
			if told := fmt.Sprint(l.TakenBack); told != want {
				t.Errorf("%s: taken back: %v, want %v", key, told, want)
			}
			l.Release()
		}
		for _, l := range leaked {
			if !l.Release() {
				t.Error("the leaked lease doesn't say that it has expired")
			}
		}
		// Whoever waits for the key tells it as without MaxInFlight.
		acquire(t, m, "leaky", 0)
		acquire(t, m, "leaky", 0)
		if l := acquire(t, m, "leaky", 0); fmt.Sprint(l.TakenBack) != "[{leaky 4 } {leaky 5 }]" {
			t.Errorf("%+v", l.Grant)
		}
	})
}

// TestLeaksOfAllPlacesEndOneAfterTheOther, also where all who wait look while the place has been
// handed to one of them, who hasn't taken it yet.
func TestLeaksOfAllPlacesEndOneAfterTheOther(t *testing.T) {
	for range 20 { // who looks first is chance
		synctest.Test(t, func(t *testing.T) {
			const ttl = 5 * time.Second
			m := mustNew(t, Config{Delay: none, MaxInFlight: 1, LeaseTTL: ttl})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			begin := time.Now()
			if _, err := m.Acquire(ctx, "first", 0); err != nil {
				t.Fatal(err)
			}
			starts := make(chan time.Duration, 2)
			for i := range cap(starts) {
				go func() {
					_, _ = m.Acquire(ctx, fmt.Sprint(i), 0)
					starts <- time.Since(begin)
				}()
			}
			for n := range cap(starts) {
				if got, want := <-starts, time.Duration(n+1)*ttl; got != want {
					t.Fatalf("the place of leak %d is free after %v, want %v", n+1, got, want)
				}
			}
		})
	}
}

// TestOfTheLeaksOfAKey255AreTold, however many there are.
func TestOfTheLeaksOfAKey255AreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []int{255, 256} {
			m := mustNew(t, Config{Delay: none, Concurrency: n, LeaseTTL: time.Minute})
			for range n {
				acquire(t, m, "a", 0)
			}
			time.Sleep(time.Minute)
			if told := acquire(t, m, "a", 0).TakenBack; len(told) != 255 || told[254].Seq != 255 {
				t.Errorf("of %d leases that were taken back %d are told", n, len(told))
			}
		}
	})
}

// Release is safe to call from any goroutine, also while the lease waits in Start.
func TestReleaseEndsAStartThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: none, Concurrency: 3})
		first, second, third := acquire(t, m, "a", 0), acquire(t, m, "a", 0), acquire(t, m, "a", 0)
		first.Observe(Outcome{Status: 429, RetryAfter: time.Hour})
		first.Release()
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := second.lease.Start(t.Context()); !errors.Is(err, ErrBusy) || time.Since(began) != time.Minute {
				t.Errorf("released while it waited: %v after %v", err, time.Since(began))
			}
		})
		synctest.Wait()
		wg.Go(func() {
			g, err := third.lease.Start(t.Context())
			if err != nil || !g.Probe || time.Since(began) != time.Hour {
				t.Errorf("behind it: %+v, %v after %v", g, err, time.Since(began))
			}
			third.Release()
		})
		time.Sleep(time.Minute)
		second.Release()
		wg.Wait()
		for st := range states(t, m) {
			if st.InFlight != 0 || st.Waiters != 0 {
				t.Errorf("in the end: %+v", st)
			}
		}
	})
}

// TestAnEndShortensNoGap: an attempt without an answer is counted from its end, but a start since then
// may be owed a longer gap.
func TestAnEndShortensNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: Delay{Min: time.Second, Max: time.Second, Adaptive: Fixed}, Concurrency: 3})
		began := time.Now()
		first := acquire(t, m, "a", 0)
		second := acquire(t, m, "a", 10*time.Second) // starts after 10 s, and is owed as much
		time.Sleep(time.Second)
		first.Observe(Outcome{Err: errors.New("connection reset")})
		first.Release()
		third := acquire(t, m, "a", 0)
		if at := third.Start.Sub(began); at != 20*time.Second {
			t.Errorf("started after %v", at)
		}
		second.Release()
		third.Release()
	})
}

// TestWhatNeverStartedOwesNothing, whether it was given up in Start or before it.
func TestWhatNeverStartedOwesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: Delay{Min: time.Minute}})
		begin := time.Now()
		gone, leave := context.WithCancel(t.Context())
		leave()
		var leases []Lease
		for range 2 {
			l, err := m.Acquire(t.Context(), "a", 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Start(gone); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			leases = append(leases, l)
		}
		leases[1].Release()
		if l := acquire(t, m, "a", 0); l.Start.After(begin) {
			t.Errorf("started after %v", l.Start.Sub(begin))
		}
	})
}

// TestAnEndCountsBeforeAStartOfTheSameInstant, which the request may yet give up for a later one.
func TestAnEndCountsBeforeAStartOfTheSameInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: Delay{Min: 10 * time.Second}})
		first := acquire(t, m, "a", 0)
		second := acquire(t, m, "a", 0)
		ended := time.Now()
		first.Observe(Outcome{Err: errors.New("connection reset")})
		first.Release()
		if g, err := second.lease.Start(t.Context()); err != nil || g.Start.Sub(ended) != 10*time.Second {
			t.Errorf("started anew %v after the end; %v", g.Start.Sub(ended), err)
		}
		second.Release()
	})
}

// TestAnEndIsOwedTheGapInForce: one that a slow answer has made longer, whatever was answered since.
func TestAnEndIsOwedTheGapInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: Delay{Min: time.Second, Adaptive: Squared}, Concurrency: 3})
		slow, quick, last := acquire(t, m, "a", 0), acquire(t, m, "a", 0), acquire(t, m, "a", 0)
		slow.Observe(Outcome{Status: 200, Latency: 4 * time.Second})
		quick.Observe(Outcome{Status: 200, Latency: 100 * time.Millisecond})
		time.Sleep(time.Second)
		last.Observe(Outcome{Err: errors.New("connection reset")})
		ended := time.Now()
		last.Release()
		next := acquire(t, m, "a", 0)
		if gap := next.Start.Sub(ended); gap != 16*time.Second {
			t.Errorf("the next one starts %v after the end", gap)
		}
		for _, l := range []turn{slow, quick, next} {
			l.Release()
		}
	})
}

// TestWhoWaitsComesWhenAStartIsOwedLess than its booking was: a quicker answer has come meanwhile.
func TestWhoWaitsComesWhenAStartIsOwedLess(t *testing.T) {
	for _, others := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			m := mustNew(t, Config{Delay: Delay{Min: time.Second, Adaptive: Squared}, Concurrency: 4})
			slow, quick := acquire(t, m, "a", 0), acquire(t, m, "a", 0)
			booked, err := m.Acquire(t.Context(), "a", 0)
			if err != nil {
				t.Fatal(err)
			}
			next := make(chan turn)
			for range others {
				go func() { next <- acquire(t, m, "a", 0) }()
			}
			slow.Observe(Outcome{Status: 200, Latency: 4 * time.Second})
			synctest.Wait()
			quick.Observe(Outcome{Status: 200, Latency: 100 * time.Millisecond})
			time.Sleep(3 * time.Second)
			start, err := booked.Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for range others {
				got := <-next
				if gap := got.Start.Sub(start.Start); gap != time.Second {
					t.Errorf("the next one starts %v after a start that is owed 1s", gap)
				}
				got.Release()
			}
			for _, l := range []interface{ Release() bool }{slow, quick, booked} {
				l.Release()
			}
		})
	}
}

// TestAnEndAtTheInstantOfAStartIsOwedTheLongerGap of the two.
func TestAnEndAtTheInstantOfAStartIsOwedTheLongerGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: Delay{Min: time.Second, Adaptive: Fixed}, Concurrency: 3})
		first := acquire(t, m, "a", 5*time.Second)
		time.Sleep(10 * time.Second)
		second := acquire(t, m, "a", 0)
		first.Observe(Outcome{Err: errors.New("connection reset")})
		first.Release()
		if next := acquire(t, m, "a", 0); next.Start.Sub(second.Start) != 5*time.Second {
			t.Errorf("the next one starts %v after both", next.Start.Sub(second.Start))
		}
	})
}

func TestBlocksAreNeverForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: none, MaxHosts: 1000, MaxWait: time.Minute})
		n := 30_000
		if os.Getenv("POLITENESS_LONG") != "" {
			n = 100_000
		}
		for i := range n {
			l := acquire(t, m, fmt.Sprint("host-", i), 0)
			l.Observe(Outcome{Status: 429, RetryAfter: time.Hour})
			l.Release()
		}
		time.Sleep(10 * time.Minute) // nothing but the blocks is owed
		for i := range n {
			acquire(t, m, fmt.Sprint("new-", i), 0).Release()
		}
		for i := range n {
			if _, err := m.Acquire(t.Context(), fmt.Sprint("host-", i), 0); !errors.Is(err, ErrBlocked) {
				t.Fatalf("host %d: %v", i, err)
			}
		}
		time.Sleep(2 * time.Hour) // paid and forgiven
		for i := range n / 2 {
			acquire(t, m, fmt.Sprint("other-", i), 0).Release()
			time.Sleep(500 * time.Millisecond) // each is remembered for a while
		}
		kept := 0
		for range states(t, m) {
			kept++
		}
		if kept > 1100 { // room is looked for in samples
			t.Errorf("%d idle hosts are kept, MaxHosts is 1000", kept)
		}
		for i := range m.shards {
			kept -= len(m.shards[i].hosts)
		}
		if kept != 0 {
			t.Errorf("%d hosts are listed that aren't known (if negative, not listed)", kept)
		}
		// What was blocked before has left nothing behind for others.
		for i := range 1000 {
			l := acquire(t, m, fmt.Sprint("later-", i), 0)
			if e := l.Observe(Outcome{Status: 429, RetryAfter: time.Hour + time.Duration(i)*time.Second}); e.Refusals != 1 {
				t.Errorf("host %d: %+v", i, e)
			}
			l.Release()
		}
		for i := range 1000 {
			at, err := m.Next(t.Context(), fmt.Sprint("later-", i), 0)
			if want := time.Hour + time.Duration(i)*time.Second; err != nil || time.Until(at) != want {
				t.Fatalf("host %d is blocked for %v, want %v; %v", i, time.Until(at), want, err)
			}
		}
	})
}

func TestHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: Delay{Min: time.Second, Adaptive: Squared}, Override: func(key string) (Limits, bool) {
			return Limits{Concurrency: 5}, key == "slow"
		}})
		begin := time.Now()
		l := acquire(t, m, "slow", 0)
		l.Observe(Outcome{Status: 200, Latency: 3 * time.Second})
		acquire(t, m, "crawl-delay", 5*time.Second).Release()
		b := acquire(t, m, "blocked", 0)
		b.Observe(Outcome{Status: 429, RetryAfter: time.Hour})
		b.Release()
		acquire(t, m, "waited-for", 0).Release()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		go func() { _, _ = m.Acquire(ctx, "waited-for", 7*time.Second) }()
		synctest.Wait()
		want := map[string]HostState{
			"waited-for":  {Key: "waited-for", Starts: 1, Slots: 2, Waiters: 1, Next: begin.Add(7 * time.Second), Delay: 7 * time.Second, DelaySource: "crawl-delay", Hold: "delay", Why: "crawl-delay of 7s"},
			"slow":        {Key: "slow", Starts: 1, InFlight: 1, Slots: 5, Next: begin.Add(9 * time.Second), Delay: 9 * time.Second, DelaySource: "adaptive", Adaptive: 9 * time.Second},
			"crawl-delay": {Key: "crawl-delay", Starts: 1, Slots: 2, Next: begin.Add(5 * time.Second), Delay: 5 * time.Second, DelaySource: "crawl-delay"},
			"blocked": {
				Key: "blocked", Starts: 1, Slots: 2, Next: begin.Add(time.Hour), BlockedUntil: begin.Add(time.Hour), BlockedBy: "status 429", Refusals: 1,
				Delay: time.Second, DelaySource: "random", Adaptive: time.Second,
			},
		}
		for st := range states(t, m) {
			w := want[st.Key]
			if !st.Next.Equal(w.Next) || !st.BlockedUntil.Equal(w.BlockedUntil) {
				t.Errorf("%s: next %v, blocked until %v", st.Key, st.Next, st.BlockedUntil)
			}
			st.Next, st.BlockedUntil = w.Next, w.BlockedUntil
			if st != w {
				t.Errorf("%+v, want %+v", st, w)
			}
			delete(want, st.Key)
		}
		if len(want) > 0 {
			t.Errorf("not listed: %v", want)
		}
		for range states(t, m) {
			break
		}
	})
}

// TestTheFloorIsNamedWhereItIsLonger than the delay in force, in what List says of who waits.
func TestTheFloorIsNamedWhereItIsLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for floor, want := range map[time.Duration]string{2 * time.Second: "random", 2*time.Second + 1: "crawl-delay"} {
			m := mustNew(t, Config{Delay: Delay{Min: 2 * time.Second}})
			acquire(t, m, "a", 0).Release()
			ctx, leave := context.WithCancel(t.Context())
			go func() { _, _ = m.Acquire(ctx, "a", floor) }()
			synctest.Wait()
			for st := range states(t, m) {
				if st.DelaySource != want || st.Delay != floor {
					t.Errorf("%+v, want %s", st, want)
				}
			}
			leave()
			synctest.Wait()
		}
	})
}

// TestListLeavesNobodyOut, and tells since when a key could start.
func TestListLeavesNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 129
		m := mustNew(t, Config{MaxHosts: 1, Delay: Delay{Min: 2 * time.Minute}}) // in one shard
		begin := time.Now()
		for i := range n {
			acquire(t, m, fmt.Sprint(i), 0).Release()
		}
		time.Sleep(time.Hour)
		listed := map[string]bool{}
		for st := range states(t, m) {
			if listed[st.Key] = true; !st.Next.Equal(begin.Add(2 * time.Minute)) {
				t.Errorf("%s could start at %v", st.Key, st.Next)
			}
		}
		if len(listed) != n {
			t.Errorf("%d keys of %d are listed", len(listed), n)
		}
	})
}

// TestNothingIsLost lets goroutines do everything at once in real time, and finds
// every slot, place and turn given back.
func TestNothingIsLost(t *testing.T) {
	m := mustNew(t, Config{
		Delay: Delay{Max: 200 * time.Microsecond}, Concurrency: 3, MaxInFlight: 5, MaxHosts: 3,
		SlotTimeout: 3 * time.Millisecond, LeaseTTL: 20 * time.Millisecond,
		Backoff: backoff.Fibonacci{Unit: 100 * time.Microsecond, Cap: time.Millisecond},
	})
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(5000))*time.Microsecond)
				l, err := m.Acquire(ctx, fmt.Sprint("host-", r.IntN(8)), time.Duration(r.IntN(100))*time.Microsecond)
				cancel()
				if err != nil {
					continue
				}
				for range r.IntN(3) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(5000))*time.Microsecond)
					_, _ = l.Start(ctx)
					cancel()
				}
				if r.IntN(8) > 0 {
					l.Observe(Outcome{Status: []int{200, 429, 500}[r.IntN(3)]})
				}
				switch r.IntN(50) {
				case 0: // leaked
				case 1:
					wg.Go(func() { l.Release() })
					fallthrough
				default:
					l.Release()
				}
			}
		})
	}
	wg.Wait()
	time.Sleep(25 * time.Millisecond)
	m.sweep()
	if m.places.taken != 0 || m.places.line.First != nil {
		t.Errorf("%d places are lost", m.places.taken)
	}
	for st := range states(t, m) {
		if st.InFlight != 0 || st.Waiters != 0 {
			t.Errorf("%+v", st)
		}
	}
}

// A leaked slot that expires while a block holds the queue is free: the slot clock
// begins anew.
func TestSlotClockStopsWhenALeakExpiresInABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: none, Concurrency: 1, LeaseTTL: 10 * time.Second, SlotTimeout: 8 * time.Second})
		l := acquire(t, m, "a", 0)
		l.Observe(Outcome{Status: 429, RetryAfter: 13 * time.Second}) // and leaks
		time.Sleep(6 * time.Second)
		var wg sync.WaitGroup
		wg.Go(func() {
			probe := acquire(t, m, "a", 0) // at 13 s
			time.Sleep(5 * time.Second)
			probe.Observe(Outcome{Status: 200})
			probe.Release()
		})
		synctest.Wait()
		// In the queue since 6 s; the slot is held until 10 s, and from 13 s to 18 s.
		acquire(t, m, "a", 0).Release()
		wg.Wait()
	})
}

func TestHostStateTellsWhatHoldsAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A bubble begins at midnight.
		m := mustNew(t, Config{
			Delay: Delay{Min: time.Second}, MaxWait: 24 * time.Hour,
			Windows: []Window{{From: 22 * time.Hour, To: time.Hour}},
		})
		begin := time.Now()
		state := func() HostState {
			t.Helper()
			for st, err := range m.List(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				return st
			}
			return HostState{}
		}
		l := acquire(t, m, "a", 0)
		l.Observe(Outcome{Status: 200, Reset: time.Minute})
		l.Release()
		if st := state(); st.BlockedBy != "rate limit" || !st.BlockedUntil.Equal(begin.Add(time.Minute)) || st.Refusals != 0 || st.Learned != 0 {
			t.Errorf("with nothing left: %+v", st)
		}
		l = acquire(t, m, "a", 0)
		l.Observe(Outcome{Status: 200, Refused: "a challenge", RetryAfter: time.Second})
		l.Release()
		if st := state(); st.BlockedBy != "refused" || st.Refusals != 1 || st.Learned < 1500*time.Millisecond || st.Delay != st.Learned || st.DelaySource != "learned" {
			t.Errorf("refused: %+v", st)
		}
		acquire(t, m, "a", 0).Release()
		time.Sleep(time.Hour)
		if st := state(); st.BlockedBy != "hours" || !st.BlockedUntil.Equal(begin.Add(22*time.Hour)) || !st.Next.Equal(st.BlockedUntil) {
			t.Errorf("at one o'clock: %+v", st)
		}
		called := time.Now()
		l = acquire(t, m, "a", 0)
		if !l.Start.Equal(begin.Add(22*time.Hour)) || l.WaitBlock != l.Start.Sub(called) {
			t.Errorf("started %v after midnight, after a wait of %v", l.Start.Sub(begin), l.WaitBlock)
		}
		l.Release()
	})
}

// TestEveryRefusalSaysWhenToComeBack: also where nobody can know.
func TestEveryRefusalSaysWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			cfg     Config
			timeout time.Duration
			want    time.Duration // from the refusal on
		}{
			"SlotTimeout, as long again":       {Config{SlotTimeout: 10 * time.Second}, time.Hour, 10 * time.Second},
			"SlotTimeout, or a lease's end":    {Config{SlotTimeout: 200 * time.Second}, time.Hour, 100 * time.Second},
			"MaxWait":                          {Config{MaxWait: 20 * time.Second}, time.Hour, 20 * time.Second},
			"a deadline that passes":           {Config{}, 30 * time.Second, 30 * time.Second},
			"a deadline before SlotTimeout":    {Config{SlotTimeout: time.Minute}, 5 * time.Second, 5 * time.Second},
			"a gap that isn't over until then": {Config{SlotTimeout: time.Second, Delay: Delay{Min: time.Minute}}, time.Hour, 59 * time.Second},
		} {
			c.cfg.Concurrency = 1
			m := mustNew(t, c.cfg)
			acquire(t, m, "b", 0).Release()
			time.Sleep(time.Second)
			l := acquire(t, m, "a", 0)
			ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
			_, err := m.Acquire(ctx, "a", 0)
			cancel()
			var e *Error
			if !errors.As(err, &e) || time.Until(e.RetryAt) != c.want || !errors.Is(err, ErrBusy) {
				t.Errorf("%s: %v, to come back in %v, want %v", name, err, time.Until(e.RetryAt), c.want)
			}
			l.Release()
			if _, err := l.lease.Start(t.Context()); !errors.As(err, &e) || !e.RetryAt.Equal(time.Now()) {
				t.Errorf("a Start after Release: %#v", err)
			}
		}
	})
}

// states yields the state of every key.
func states(tb testing.TB, m *Memory) iter.Seq[HostState] {
	return func(yield func(HostState) bool) {
		for st, err := range m.List(tb.Context()) {
			if err != nil {
				tb.Fatal(err)
			}
			if !yield(st) {
				return
			}
		}
	}
}

// TestBlocksOutliveTheirNeighbours: keys that owe nothing are forgotten from between those that do.
func TestBlocksOutliveTheirNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: none, MaxHosts: 120, MaxWait: time.Minute})
		var ends []time.Time
		for i := range 60 {
			for j := range 5 {
				acquire(t, m, fmt.Sprint("idle-", i, "-", j), 0).Release()
				time.Sleep(time.Minute) // nothing is owed any more
			}
			l := acquire(t, m, fmt.Sprint("blocked-", i), 0)
			stay := 20*time.Hour + time.Duration(i)*time.Second
			l.Observe(Outcome{Status: 429, RetryAfter: stay})
			ends = append(ends, time.Now().Add(stay))
			l.Release()
			for j, end := range ends {
				if at, err := m.Next(t.Context(), fmt.Sprint("blocked-", j), 0); err != nil || !at.Equal(end) {
					t.Fatalf("after %d hosts, host %d may be asked at %v, want %v; %v", i, j, at, end, err)
				}
			}
		}
		kept := 0
		for range states(t, m) {
			kept++
		}
		if kept != 120 {
			t.Errorf("%d hosts are kept, MaxHosts is 120", kept)
		}
	})
}

// TestHostStateTellsHowLongASlotIsSilent, which Renew and an answer's body end.
func TestHostStateTellsHowLongASlotIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: none})
		time.Sleep(time.Hour)
		first, second := acquire(t, m, "a", 0), acquire(t, m, "a", 0)
		for _, want := range []time.Duration{90 * time.Second, 30 * time.Second, 0} {
			time.Sleep(want)
			for st := range states(t, m) {
				if st.Silent != want || st.Probing {
					t.Errorf("%+v, want it silent for %v", st, want)
				}
			}
			first.lease.Renew()
			second.lease.Renew()
		}
		time.Sleep(time.Second)
		first.lease.Renew()
		for st := range states(t, m) {
			if st.Silent != time.Second {
				t.Errorf("one of two was silent for %v, want 1s", st.Silent)
			}
		}
	})
}

// TestWhoHoldsASlotTheLongest is told to those who wait for it, whoever was heard of last.
func TestWhoHoldsASlotTheLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: none, LeaseTTL: time.Minute, SlotTimeout: 20 * time.Second})
		acquire(t, m, "b", 0).Release()
		time.Sleep(time.Hour)
		first := acquire(t, m, "a", 0)
		time.Sleep(10 * time.Second)
		second := acquire(t, m, "a", 0)
		time.Sleep(40 * time.Second)
		second.lease.Renew()
		time.Sleep(time.Second)
		first.lease.Renew()
		go func() {
			_, err := m.Acquire(t.Context(), "a", 0)
			if want := "all 2 are held, one for 1m11s;"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}()
		time.Sleep(19 * time.Second)
		for st := range states(t, m) {
			if want := "2 of 2 slots are held, one for 1m10s by a request"; st.Key == "a" && st.Why != want {
				t.Errorf("%q, want %q", st.Why, want)
			}
		}
		time.Sleep(2 * time.Second)
		first.Release()
		second.Release()
	})
}

// TestWhatHoldsAKeyAfterABlock is what the next request waits for: the gap, if that is longer than
// the block was, and not an answer of a probe, which nobody has sent yet.
func TestWhatHoldsAKeyAfterABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holds := func(m *Memory, want string) {
			t.Helper()
			synctest.Wait()
			for st := range states(t, m) {
				if st.Hold != want || st.Waiters != 1 {
					t.Errorf("%+v, want %s", st, want)
				}
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		for _, inStart := range []bool{false, true} {
			m := mustNew(t, Config{MaxWait: time.Hour})
			var had Lease
			if inStart {
				var err error
				if had, err = m.Acquire(t.Context(), "a", time.Minute); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
			}
			l := acquire(t, m, "a", time.Minute)
			l.Observe(Outcome{Status: 429, RetryAfter: 2 * time.Second})
			l.Release()
			go func() {
				if inStart {
					_, _ = had.Start(ctx)
				} else {
					_, _ = m.Acquire(ctx, "a", time.Minute)
				}
			}()
			time.Sleep(time.Second)
			holds(m, "block")
			time.Sleep(2 * time.Second)
			holds(m, "delay")
		}

		m := mustNew(t, Config{Concurrency: 1, Delay: none, MaxWait: time.Hour})
		l := acquire(t, m, "a", 0)
		l.Observe(Outcome{Status: 429, RetryAfter: 2 * time.Second})
		l.Release()
		acquire(t, m, "a", 0) // the probe
		go func() { _, _ = m.Acquire(ctx, "a", 0) }()
		holds(m, "probe")
		if err := m.Clear(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		holds(m, "slot")
	})
}

// A listener is a Watcher that keeps what it is told.
type listener struct{ waits []Wait }

func (l *listener) Waits(w Wait)   { l.waits = append(l.waits, w) }
func (l *listener) String() string { return "GET /" }

// TestAWaitOfASecondIsNotTold: one that is known to be longer is, at once.
func TestAWaitOfASecondIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for gap, want := range map[time.Duration]int{time.Second: 0, time.Second + 1: 1} {
			m := mustNew(t, Config{Delay: Delay{Min: gap}})
			acquire(t, m, "a", 0).Release()
			l := new(listener)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				lease, err := m.Acquire(context.WithValue(t.Context(), (*Watcher)(nil), l), "a", 0)
				if err != nil {
					t.Error(err)
					return
				}
				lease.Release()
			}()
			synctest.Wait()
			if len(l.waits) != want {
				t.Errorf("told of a wait of %v: %+v", gap, l.waits)
			}
			if <-ended; len(l.waits) != want {
				t.Errorf("told of a wait of %v, after it: %+v", gap, l.waits)
			}
		}
	})
}

// TestAThousandAheadAreCounted, and it is told of no more.
func TestAThousandAheadAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: Delay{Min: 2 * time.Second}})
		acquire(t, m, "a", 0).Release()
		ctx, leave := context.WithCancel(t.Context())
		for ahead := range 1003 {
			l := new(listener)
			go func() { _, _ = m.Acquire(context.WithValue(ctx, (*Watcher)(nil), l), "a", 0) }()
			synctest.Wait()
			if len(l.waits) != 1 || l.waits[0].Ahead != min(ahead, 1000) {
				t.Errorf("behind %d others it is told: %+v", ahead, l.waits)
			}
		}
		leave()
	})
}

// TestAWaitIsTold in a sentence, with times of two digits or so.
func TestAWaitIsTold(t *testing.T) {
	for _, c := range []struct {
		w    Wait
		want string
	}{
		{Wait{Hold: "delay", Cause: "random", Delay: 1260 * time.Millisecond}, "random delay of 1.3s"},
		{Wait{Hold: "delay", Cause: "crawl-delay", Delay: 9940 * time.Millisecond, Ahead: 1}, "crawl-delay of 9.9s, 1 request ahead"},
		{Wait{Hold: "delay", Cause: "random", Delay: 10 * time.Second}, "random delay of 10s"},
		{Wait{Hold: "delay", Cause: "learned", Delay: 10*time.Second + 260*time.Millisecond, Ahead: 2}, "learned delay of 10s, 2 requests ahead"},
		{Wait{Hold: "delay", Delay: 90 * time.Second}, "delay of 1m30s"},
		{Wait{Hold: "block", Cause: "status 429"}, "blocked (status 429)"},
		{Wait{Hold: "probe"}, "the first request after a block has no answer yet"},
		{Wait{Hold: "slot", Held: 2, Slots: 2, HeldFor: 12400 * time.Millisecond}, "2 of 2 slots are held, one for 12s by a request"},
		{Wait{Hold: "slot", Held: 1, Slots: 1, HeldBy: "GET /", HeldFor: time.Second}, "1 of 1 slots are held, one for 1s by GET /"},
		{Wait{Hold: "place"}, "every place of MaxInFlight is taken by requests to other hosts"},
	} {
		if got := c.w.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestLeftIsTheCallersOwnEnd(t *testing.T) {
	for _, c := range []struct {
		o    Outcome
		left bool
	}{
		{Outcome{}, false},
		{Outcome{Status: 200, Err: context.Canceled}, false},
		{Outcome{Err: context.Canceled}, true},
		{Outcome{Err: fmt.Errorf("get: %w", context.DeadlineExceeded)}, true},
		{Outcome{Err: errors.New("connection refused")}, false},
	} {
		if c.o.Left() != c.left {
			t.Errorf("%+v: Left is %v", c.o, !c.left)
		}
	}
}

// TestMaxHostsAreKept, neither more of those that owe nothing nor fewer.
func TestMaxHostsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100
		m := mustNew(t, Config{Delay: none, MaxHosts: most})
		for i := range 3 * most {
			acquire(t, m, fmt.Sprint(i), 0).Release()
			kept := 0
			for range states(t, m) {
				kept++
			}
			if want := min(i+1, most); kept != want {
				t.Errorf("after %d hosts %d are kept, want %d", i+1, kept, want)
			}
			time.Sleep(2 * time.Minute) // each is remembered for a while
		}
	})
}

// TestAnIdleHostTakes170Bytes at most, beside its name.
func TestAnIdleHostTakes170Bytes(t *testing.T) {
	const n = 30_000
	keys := names(n)
	heap := func() uint64 {
		var st runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&st)
		return st.HeapAlloc
	}
	before := heap()
	m := mustNew(t, Config{Delay: none})
	for _, key := range keys {
		acquire(t, m, key, 0).Release()
	}
	if each := (int(heap())-int(before))/n - len(keys[0]); each > 170 {
		t.Errorf("%d bytes", each)
	}
	runtime.KeepAlive(m)
	runtime.KeepAlive(keys)
}

// TestMaxHostsHoldsFromTheBeginning: a host that owes nothing isn't kept because the limiter is young.
func TestMaxHostsHoldsFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: none, MaxHosts: 100})
		for i := range 10 {
			for j := range 50 {
				acquire(t, m, fmt.Sprint(i, "-", j), 0).Release()
			}
			time.Sleep(2 * time.Minute) // each is remembered for a while
		}
		kept := 0
		for range states(t, m) {
			kept++
		}
		if kept > 150 {
			t.Errorf("%d idle hosts are kept, MaxHosts is 100", kept)
		}
	})
}

// TestALateAnswerCountsForAForgottenKey: what a host asks for holds, however late it is understood.
func TestALateAnswerCountsForAForgottenKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, o := range map[string]Outcome{
			"a refusal":        {Status: 429, RetryAfter: time.Hour},
			"a spent limit":    {Status: 200, Reset: time.Hour},
			"a success":        {Status: 200},
			"no answer at all": {Err: errors.New("connection refused")},
		} {
			m := mustNew(t, Config{Delay: none, MaxHosts: 10})
			l, usual := acquire(t, m, "a", 0), acquire(t, m, "a", 0)
			time.Sleep(time.Hour) // they expire
			acquire(t, m, "a", 0).Release()
			if e := usual.Observe(Outcome{Status: 200}); e != (Effect{}) {
				t.Errorf("a success while the key is known: %+v", e)
			}
			for i := range 100 {
				acquire(t, m, fmt.Sprint("other-", i), 0).Release()
				time.Sleep(time.Minute)
			}
			known := func() bool {
				for st := range states(t, m) {
					if st.Key == "a" {
						return true
					}
				}
				return false
			}
			if known() {
				t.Fatal("the key isn't forgotten")
			}
			e := l.Observe(o)
			at, err := m.Next(t.Context(), "a", 0)
			blocks := o.RetryAfter+o.Reset > 0 || o.Status == 0
			length := time.Hour
			if o.Status == 0 {
				length = time.Second
			}
			if known() != blocks {
				t.Errorf("%s: the key is known: %v", name, !blocks)
			}
			if wait := time.Until(at); err != nil || e.Blocked != blocks || wait > 0 != blocks || blocks && wait != length {
				t.Errorf("%s: %+v, the next may come in %v; %v", name, e, wait, err)
			}
		}
	})
}

// TestALateReleaseOfAForgottenKeyLeavesNothing behind of what was known of its debt.
func TestALateReleaseOfAForgottenKeyLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: none, MaxHosts: 10, Store: Dir(t.TempDir())})
		late := acquire(t, m, "a", 0)
		time.Sleep(time.Hour) // it expires
		acquire(t, m, "a", 0).Release()
		for i := range 100 {
			acquire(t, m, fmt.Sprint("other-", i), 0).Release()
			time.Sleep(time.Minute)
		}
		late.Observe(Outcome{Status: 200})
		if !late.Release() {
			t.Error("the lease hasn't expired")
		}
		for st := range states(t, m) {
			if st.Key == "a" {
				t.Errorf("the key is known again: %+v", st)
			}
		}
	})
}

// TestDrainTakesBackLeasesThatAreNeverReleased, when they are due, whatever else was in flight.
func TestDrainTakesBackLeasesThatAreNeverReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{MaxHosts: 1})
		acquire(t, m, "b", 0).Release()
		time.Sleep(time.Hour)
		b := acquire(t, m, "b", 0)
		acquire(t, m, "a", 0) // and its body is never closed
		b.Release()
		time.Sleep(time.Minute)
		begin := time.Now()
		if err := m.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != 4*time.Minute {
			t.Errorf("it took %v, and LeaseTTL is over in 4m0s", took)
		}
	})
}

// TestDrainReturnsWithTheLastRequest, at once.
func TestDrainReturnsWithTheLastRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{})
		for i := range 3 {
			l := acquire(t, m, fmt.Sprint(i), 0)
			time.AfterFunc(time.Duration(i+1)*time.Second, func() { l.Release() })
		}
		begin := time.Now()
		if err := m.Drain(t.Context()); err != nil || time.Since(begin) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}

// TestABlockByHandIsOverAtItsEnd, at that very instant: a request starts, and nothing is left to clear.
func TestABlockByHandIsOverAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Delay: none})
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
		m := mustNew(t, Config{Delay: none})
		for _, o := range []Outcome{{Status: 429, RetryAfter: time.Minute}, {Status: 200, Reset: time.Minute}, {Status: 200}} {
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
		m := mustNew(t, Config{Delay: Delay{Min: time.Second}})
		answer := func(status int) (learned time.Duration) {
			l := acquire(t, m, "a", 0)
			l.Observe(Outcome{Status: status, RetryAfter: time.Second})
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
		m := mustNew(t, Config{Delay: none})
		first, second := acquire(t, m, "a", 0), acquire(t, m, "a", 0)
		first.Observe(Outcome{Status: 429, RetryAfter: time.Second})
		time.Sleep(time.Minute)
		if e := second.Observe(Outcome{Status: 429}); e.Blocked || e.Refusals != 1 || !e.Until.IsZero() {
			t.Errorf("%+v", e)
		}
		first.Release()
		second.Release()
	})
}

// TestOfTellsTheLimitsOfAKey with nothing left to a default, and as a start of the key finds them.
func TestOfTellsTheLimitsOfAKey(t *testing.T) {
	const ms, s, minute = time.Millisecond, time.Second, time.Minute
	unpaced := Delay{DangerouslyNone: true, Ceiling: minute}
	override := func(l Limits) func(string) (Limits, bool) {
		return func(key string) (Limits, bool) { return l, key == "a" }
	}
	for _, c := range []struct {
		c    Config
		want Limits
	}{
		{Config{}, Limits{2, Delay{Min: 200 * ms, Max: 500 * ms, Ceiling: minute}}},
		{Config{Concurrency: 7, Delay: Delay{Min: s}}, Limits{7, Delay{Min: s, Max: s, Ceiling: minute}}},
		{Config{Delay: Delay{Max: s}}, Limits{2, Delay{Max: s, Ceiling: minute}}},
		{Config{Delay: Delay{Min: s, Max: 2 * s}}, Limits{2, Delay{Min: s, Max: 2 * s, Ceiling: minute}}},
		{Config{Delay: none}, Limits{2, unpaced}},
		{Config{Override: override(Limits{Concurrency: 1})}, Limits{1, Delay{Min: 200 * ms, Max: 500 * ms, Ceiling: minute}}},
		{Config{Concurrency: 3, Override: override(Limits{Delay: Delay{Min: s}})}, Limits{3, Delay{Min: s, Max: s, Ceiling: minute}}},
		{Config{Delay: Delay{Min: s}, Override: override(Limits{Concurrency: 4, Delay: none})}, Limits{4, unpaced}},
		{Config{Delay: Delay{Min: s}, Override: override(Limits{})}, Limits{2, Delay{Min: s, Max: s, Ceiling: minute}}},
	} {
		if got := c.c.Of("a"); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.c, got, c.want)
		}
		m := mustNew(t, c.c)
		l := acquire(t, m, "a", 0)
		if l.Slots != c.want.Concurrency || l.Delay < c.want.Delay.Min || l.Delay > c.want.Delay.Max {
			t.Errorf("%+v: a start had %d slots and a delay of %v", c.c, l.Slots, l.Delay)
		}
		l.Release()
	}
	c := Config{Concurrency: 3, Delay: none, Override: override(Limits{Concurrency: 1})}
	if got := c.Of("b"); got != (Limits{3, unpaced}) {
		t.Errorf("a key that Override says nothing of: %+v", got)
	}
}

// TestBlockByHandOfAnyLength: until the end of the calendar, say.
func TestBlockByHandOfAnyLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const year = 365 * 24 * time.Hour
		m := mustNew(t, Config{})
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
