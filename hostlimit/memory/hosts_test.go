package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

func TestBlocksAreNeverForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none, MaxHosts: 1000, MaxWait: time.Minute})
		n := 30_000
		if os.Getenv("POLITENESS_LONG") != "" {
			n = 100_000
		}
		for i := range n {
			l := acquire(t, m, fmt.Sprint("host-", i), 0)
			l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
			l.Release()
		}
		time.Sleep(10 * time.Minute) // nothing but the blocks is owed
		for i := range n {
			acquire(t, m, fmt.Sprint("new-", i), 0).Release()
		}
		for i := range n {
			if _, err := m.Acquire(t.Context(), fmt.Sprint("host-", i), 0); !errors.Is(err, hostlimit.ErrBlocked) {
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
			if e := l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour + time.Duration(i)*time.Second}); e.Refusals != 1 {
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
		m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second, Adaptive: hostlimit.Squared}, Override: func(key string) (hostlimit.Limits, bool) {
			return hostlimit.Limits{Concurrency: 5}, key == "slow"
		}})
		begin := time.Now()
		l := acquire(t, m, "slow", 0)
		l.Observe(hostlimit.Outcome{Status: 200, Latency: 3 * time.Second})
		acquire(t, m, "crawl-delay", 5*time.Second).Release()
		b := acquire(t, m, "blocked", 0)
		b.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		b.Release()
		acquire(t, m, "waited-for", 0).Release()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		go func() { _, _ = m.Acquire(ctx, "waited-for", 7*time.Second) }()
		synctest.Wait()
		want := map[string]hostlimit.HostState{
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

// TestListLeavesNobodyOut, and tells since when a key could start.
func TestListLeavesNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 129
		m := mustNew(t, hostlimit.Config{MaxHosts: 1, Delay: hostlimit.Delay{Min: 2 * time.Minute}}) // in one shard
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

func TestHostStateTellsWhatHoldsAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A bubble begins at midnight.
		m := mustNew(t, hostlimit.Config{
			Delay: hostlimit.Delay{Min: time.Second}, MaxWait: 24 * time.Hour,
			Windows: []hostlimit.Window{{From: 22 * time.Hour, To: time.Hour}},
		})
		begin := time.Now()
		state := func() hostlimit.HostState {
			t.Helper()
			for st, err := range m.List(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				return st
			}
			return hostlimit.HostState{}
		}
		l := acquire(t, m, "a", 0)
		l.Observe(hostlimit.Outcome{Status: 200, Reset: time.Minute})
		l.Release()
		if st := state(); st.BlockedBy != "rate limit" || !st.BlockedUntil.Equal(begin.Add(time.Minute)) || st.Refusals != 0 || st.Learned != 0 {
			t.Errorf("with nothing left: %+v", st)
		}
		l = acquire(t, m, "a", 0)
		l.Observe(hostlimit.Outcome{Status: 200, Refused: "a challenge", RetryAfter: time.Second})
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

// states yields the state of every key.
func states(tb testing.TB, m *Limiter) iter.Seq[hostlimit.HostState] {
	return func(yield func(hostlimit.HostState) bool) {
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
		m := mustNew(t, hostlimit.Config{Delay: none, MaxHosts: 120, MaxWait: time.Minute})
		var ends []time.Time
		for i := range 60 {
			for j := range 5 {
				acquire(t, m, fmt.Sprint("idle-", i, "-", j), 0).Release()
				time.Sleep(time.Minute) // nothing is owed any more
			}
			l := acquire(t, m, fmt.Sprint("blocked-", i), 0)
			stay := 20*time.Hour + time.Duration(i)*time.Second
			l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: stay})
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
		// Half of the hosts are blocked. One time in a hundred all of a sample are, and one more host
		// is kept until the next sample.
		if kept < 120 || kept > 125 {
			t.Errorf("%d hosts are kept, MaxHosts is 120", kept)
		}
	})
}

// TestHostStateTellsHowLongASlotIsSilent, which Renew and an answer's body end.
func TestHostStateTellsHowLongASlotIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none})
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
		m := mustNew(t, hostlimit.Config{Delay: none, LeaseTTL: time.Minute, SlotTimeout: 20 * time.Second})
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
			if want := "all 2 are in use, one for 1m11s;"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}()
		time.Sleep(19 * time.Second)
		for st := range states(t, m) {
			if want := "2 of 2 slots are in use, one for 1m10s by a request"; st.Key == "a" && st.Why != want {
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
		holds := func(m *Limiter, want string) {
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
			m := mustNew(t, hostlimit.Config{MaxWait: time.Hour})
			var had hostlimit.Lease
			if inStart {
				var err error
				if had, err = m.Acquire(t.Context(), "a", time.Minute); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
			}
			l := acquire(t, m, "a", time.Minute)
			l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 2 * time.Second})
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

		m := mustNew(t, hostlimit.Config{Concurrency: 1, Delay: none, MaxWait: time.Hour})
		l := acquire(t, m, "a", 0)
		l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 2 * time.Second})
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

// TestMaxHostsAreKept, neither more of those that owe nothing nor fewer.
func TestMaxHostsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100
		m := mustNew(t, hostlimit.Config{Delay: none, MaxHosts: most})
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

// TestAnIdleHostTakes190Bytes at most, beside its name.
func TestAnIdleHostTakes190Bytes(t *testing.T) {
	const n = 30_000
	keys := names(n)
	heap := func() uint64 {
		var st runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&st)
		return st.HeapAlloc
	}
	before := heap()
	m := mustNew(t, hostlimit.Config{Delay: none})
	for _, key := range keys {
		acquire(t, m, key, 0).Release()
	}
	if each := (int(heap())-int(before))/n - len(keys[0]); each > 190 {
		t.Errorf("%d bytes", each)
	}
	runtime.KeepAlive(m)
	runtime.KeepAlive(keys)
}

// TestMaxHostsHoldsFromTheBeginning: a host that owes nothing isn't kept because the limiter is young.
func TestMaxHostsHoldsFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Delay: none, MaxHosts: 100})
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
		for name, o := range map[string]hostlimit.Outcome{
			"a refusal":          {Status: 429, RetryAfter: time.Hour},
			"a spent limit":      {Status: 200, Reset: time.Hour},
			"a success":          {Status: 200},
			"no response at all": {Err: errors.New("connection refused")},
		} {
			m := mustNew(t, hostlimit.Config{Delay: none, MaxHosts: 10})
			l, usual := acquire(t, m, "a", 0), acquire(t, m, "a", 0)
			time.Sleep(time.Hour) // they expire
			acquire(t, m, "a", 0).Release()
			if e := usual.Observe(hostlimit.Outcome{Status: 200}); e != (hostlimit.Effect{}) {
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
		m := mustNew(t, hostlimit.Config{Delay: none, MaxHosts: 10, Store: hostlimit.Dir(t.TempDir())})
		late := acquire(t, m, "a", 0)
		time.Sleep(time.Hour) // it expires
		acquire(t, m, "a", 0).Release()
		for i := range 100 {
			acquire(t, m, fmt.Sprint("other-", i), 0).Release()
			time.Sleep(time.Minute)
		}
		late.Observe(hostlimit.Outcome{Status: 200})
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
