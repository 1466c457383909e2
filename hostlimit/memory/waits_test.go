package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/internal/contexts"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// Crawl-delay 2 with a hundred goroutines takes 198 s, and none of them times out.
func TestCrawlDelayNeverTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{})
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
		m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Minute}})
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
func waits(t *testing.T, wg *sync.WaitGroup, m *Limiter, timeout time.Duration, ended func(time.Duration, error)) {
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
		m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second, Adaptive: hostlimit.Throttle(1)}})
		l := acquire(t, m, "a", 0)
		var wg sync.WaitGroup
		waits(t, &wg, m, time.Hour, func(_ time.Duration, err error) {
			if err != nil {
				t.Errorf("the head: %v", err)
			}
		})
		waits(t, &wg, m, 20*time.Second, func(d time.Duration, err error) {
			if d != 500*time.Millisecond || !errors.Is(err, hostlimit.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after %v: %v", d, err)
			}
		})
		time.Sleep(500 * time.Millisecond)
		l.Observe(hostlimit.Outcome{Status: 200, Latency: 30 * time.Second})
		l.Release()
		wg.Wait()
	})
}

// TestAWaitOfMaxWaitIsNotTooLong, though it became so long in the queue; a longer one is refused then.
func TestAWaitOfMaxWaitIsNotTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{MaxWait: 10 * time.Second, Delay: hostlimit.Delay{Min: time.Second, Adaptive: hostlimit.Proportional(1)}})
		l := acquire(t, m, "a", 0)
		var wg sync.WaitGroup
		waits(t, &wg, m, time.Hour, func(d time.Duration, err error) {
			if d != 10*time.Second || err != nil {
				t.Errorf("the head after %v: %v", d, err)
			}
		})
		waits(t, &wg, m, time.Hour, func(d time.Duration, err error) {
			if d != 0 || !errors.Is(err, hostlimit.ErrBusy) {
				t.Errorf("behind it after %v: %v", d, err)
			}
		})
		l.Observe(hostlimit.Outcome{Status: 200, Latency: 19 * time.Second}) // half the way to it
		l.Release()
		wg.Wait()
	})
}

func TestADeadlineThatADrawnDelayMakesImpossibleIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := time.Second
		m := mustNew(t, hostlimit.Config{MaxWait: math.MaxInt64, Override: func(string) (hostlimit.Limits, bool) {
			return hostlimit.Limits{Delay: hostlimit.Delay{Min: time.Second, Max: most}}, true
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
			if d != time.Second || !errors.Is(err, hostlimit.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("behind the head, after %v: %v", d, err)
			}
		})
		time.Sleep(2 * time.Hour)
		gone()
		wg.Wait()
	})
}

// TestWhoWaitsComesWhenAStartIsOwedLess than its booking was: a quicker answer has come meanwhile.
func TestWhoWaitsComesWhenAStartIsOwedLess(t *testing.T) {
	for _, others := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second, Adaptive: hostlimit.Squared}, Concurrency: 4})
			slow, quick := acquire(t, m, "a", 0), acquire(t, m, "a", 0)
			booked, err := m.Acquire(t.Context(), "a", 0)
			if err != nil {
				t.Fatal(err)
			}
			next := make(chan turn)
			for range others {
				go func() { next <- acquire(t, m, "a", 0) }()
			}
			slow.Observe(hostlimit.Outcome{Status: 200, Latency: 4 * time.Second})
			synctest.Wait()
			quick.Observe(hostlimit.Outcome{Status: 200, Latency: 100 * time.Millisecond})
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

// TestTheFloorIsNamedWhereItIsLonger than the delay in force, in what List says of who waits.
func TestTheFloorIsNamedWhereItIsLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for floor, want := range map[time.Duration]string{2 * time.Second: "random", 2*time.Second + 1: "crawl-delay"} {
			m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: 2 * time.Second}})
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

// TestEveryRefusalSaysWhenToComeBack: also where nobody can know.
func TestEveryRefusalSaysWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			cfg     hostlimit.Config
			timeout time.Duration
			want    time.Duration // from the refusal on
		}{
			"SlotTimeout, as long again":       {hostlimit.Config{SlotTimeout: 10 * time.Second}, time.Hour, 10 * time.Second},
			"SlotTimeout, or a lease's end":    {hostlimit.Config{SlotTimeout: 200 * time.Second}, time.Hour, 100 * time.Second},
			"MaxWait":                          {hostlimit.Config{MaxWait: 20 * time.Second}, time.Hour, 20 * time.Second},
			"a deadline that passes":           {hostlimit.Config{}, 30 * time.Second, 30 * time.Second},
			"a deadline before SlotTimeout":    {hostlimit.Config{SlotTimeout: time.Minute}, 5 * time.Second, 5 * time.Second},
			"a gap that isn't over until then": {hostlimit.Config{SlotTimeout: time.Second, Delay: hostlimit.Delay{Min: time.Minute}}, time.Hour, 59 * time.Second},
		} {
			c.cfg.Concurrency = 1
			m := mustNew(t, c.cfg)
			acquire(t, m, "b", 0).Release()
			time.Sleep(time.Second)
			l := acquire(t, m, "a", 0)
			ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
			_, err := m.Acquire(ctx, "a", 0)
			cancel()
			var e *hostlimit.Error
			if !errors.As(err, &e) || time.Until(e.RetryAt) != c.want || !errors.Is(err, hostlimit.ErrBusy) {
				t.Errorf("%s: %v, to come back in %v, want %v", name, err, time.Until(e.RetryAt), c.want)
			}
			l.Release()
			if _, err := l.lease.Start(t.Context()); !errors.As(err, &e) || !e.RetryAt.Equal(time.Now()) {
				t.Errorf("a Start after Release: %#v", err)
			}
		}
	})
}

// A listener is a Watcher that keeps what it is told.
type listener struct{ waits []hostlimit.Wait }

func (l *listener) Waits(w hostlimit.Wait) { l.waits = append(l.waits, w) }
func (l *listener) String() string         { return "GET /" }

// TestAWaitOfASecondIsNotTold: one that is known to be longer is, at once.
func TestAWaitOfASecondIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for gap, want := range map[time.Duration]int{time.Second: 0, time.Second + 1: 1} {
			m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: gap}})
			acquire(t, m, "a", 0).Release()
			l := new(listener)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				lease, err := m.Acquire(context.WithValue(t.Context(), (*hostlimit.Watcher)(nil), l), "a", 0)
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
		m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: 2 * time.Second}})
		acquire(t, m, "a", 0).Release()
		ctx, leave := context.WithCancel(t.Context())
		for ahead := range 1003 {
			l := new(listener)
			go func() { _, _ = m.Acquire(context.WithValue(ctx, (*hostlimit.Watcher)(nil), l), "a", 0) }()
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
		w    hostlimit.Wait
		want string
	}{
		{hostlimit.Wait{Hold: "delay", Cause: "random", Delay: 1260 * time.Millisecond}, "delay of 1.3s"},
		{hostlimit.Wait{Hold: "delay", Cause: "crawl-delay", Delay: 9940 * time.Millisecond, Ahead: 1}, "crawl-delay of 9.9s, 1 request ahead"},
		{hostlimit.Wait{Hold: "delay", Cause: "random", Delay: 10 * time.Second}, "delay of 10s"},
		{hostlimit.Wait{Hold: "delay", Cause: "learned", Delay: 10*time.Second + 260*time.Millisecond, Ahead: 2}, "learned delay of 10s, 2 requests ahead"},
		{hostlimit.Wait{Hold: "delay", Delay: 90 * time.Second}, "delay of 1m30s"},
		{hostlimit.Wait{Hold: "block", Cause: "status 429"}, "blocked (status 429)"},
		{hostlimit.Wait{Hold: "probe"}, "the first request after a block has no response yet"},
		{hostlimit.Wait{Hold: "slot", Held: 2, Slots: 2, HeldFor: 12400 * time.Millisecond}, "2 of 2 slots are in use, one for 12s by a request"},
		{hostlimit.Wait{Hold: "slot", Held: 1, Slots: 1, HeldBy: "GET /", HeldFor: time.Second}, "1 of 1 slots are in use, one for 1s by GET /"},
		{hostlimit.Wait{Hold: "place"}, "every place of MaxInFlight is taken by requests to other hosts"},
	} {
		if got := c.w.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestLeftIsTheCallersOwnEnd(t *testing.T) {
	for _, c := range []struct {
		o    hostlimit.Outcome
		left bool
	}{
		{hostlimit.Outcome{}, false},
		{hostlimit.Outcome{Status: 200, Err: context.Canceled}, false},
		{hostlimit.Outcome{Err: context.Canceled}, true},
		{hostlimit.Outcome{Err: fmt.Errorf("get: %w", context.DeadlineExceeded)}, true},
		{hostlimit.Outcome{Err: errors.New("connection refused")}, false},
	} {
		if rules.Left(&c.o) != c.left {
			t.Errorf("%+v: Left is %v", c.o, !c.left)
		}
	}
}

// TestADeadlineWithoutDoneIsKept while a request waits for a slot: at the head of the queue, and
// behind one that may wait for longer.
func TestADeadlineWithoutDoneIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none, Concurrency: 1})
		held := acquire(t, m, "a", 0)
		refused := func() {
			t.Helper()
			began := time.Now()
			_, err := m.Acquire(&contexts.Wait{Context: t.Context(), By: began.Add(10 * time.Second)}, "a", 0)
			var e *hostlimit.Error
			if !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, hostlimit.ErrBusy) || time.Since(began) > 11*time.Second {
				t.Errorf("after %v: %v", time.Since(began), err)
			} else if again := time.Until(e.RetryAt); again < 9*time.Second || again > 11*time.Second {
				t.Errorf("to come back in %v, want as long as it has waited", again)
			}
		}
		refused()
		head := make(chan struct{})
		go func() {
			defer close(head)
			acquire(t, m, "a", 0).Release()
		}()
		synctest.Wait()
		refused()
		held.Release()
		<-head
	})
}
