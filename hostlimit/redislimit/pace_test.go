package redislimit

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// TestAWindowIsNotAddedToTheGap: the gap counts from the moment at which a request has started, which
// the server is told before it lets the next one go, and not from the end of its window.
func TestAWindowIsNotAddedToTheGap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "11")
	for name, c := range map[string]struct {
		processes int
		delay     time.Duration
	}{
		"20 ms, one process":    {1, 20 * time.Millisecond},
		"100 ms, one process":   {1, 100 * time.Millisecond},
		"100 ms, two processes": {2, 100 * time.Millisecond},
	} {
		w.reset()
		w.t = t
		synctest.Test(t, func(t *testing.T) {
			limits := hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: c.delay, Adaptive: hostlimit.Fixed}}
			var fleet []*Limiter
			for range c.processes {
				fleet = append(fleet, w.settled(limits))
			}
			w.starts = nil
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					for range 5 {
						w.fetch(context.Background(), fleet[i%len(fleet)], 5*time.Millisecond, hostlimit.Outcome{Status: 200}, false)
					}
				})
			}
			wg.Wait()
			starts := slices.SortedFunc(slices.Values(w.starts), func(a, b modelStart) int { return int(a.at - b.at) })
			mean := (starts[len(starts)-1].at - starts[0].at) / time.Duration(len(starts)-1)
			if over := mean - c.delay; over > 50*time.Microsecond {
				t.Errorf("%s: %v more than the delay, on average", name, over)
			}
			w.end(name, 2, fleet...)
		})
	}
}

// TestOthersComeWhenAStartIsOwedLess than it was when they asked: a quicker answer has come meanwhile.
func TestOthersComeWhenAStartIsOwedLess(t *testing.T) {
	t.Parallel()
	const delay, long = time.Second, time.Minute
	w := newWorld(t, "13")
	w.reset()
	w.t = t
	synctest.Test(t, func(t *testing.T) {
		limits := hostlimit.Config{Concurrency: 5, Delay: hostlimit.Delay{Min: delay, Ceiling: long, Adaptive: hostlimit.Squared}}
		fleet := []*Limiter{w.settled(limits), w.settled(limits), w.settled(limits)}
		w.starts = nil
		var wg sync.WaitGroup
		fetch := func(l *Limiter, hold time.Duration, o hostlimit.Outcome) {
			wg.Go(func() { w.fetch(context.Background(), l, hold, o, false) })
		}
		fetch(fleet[0], 4*delay, hostlimit.Outcome{Status: 200, Latency: time.Minute})
		fetch(fleet[0], long/2, hostlimit.Outcome{Status: 200, Latency: time.Millisecond})
		time.Sleep(10 * delay) // both have started, and one has been answered
		for _, l := range fleet {
			fetch(l, long, hostlimit.Outcome{Status: 200, Latency: time.Millisecond})
		}
		wg.Wait()
		for i := 3; i < len(w.starts); i++ {
			if gap := w.starts[i].at - w.starts[i-1].at; gap < delay || gap > 2*delay {
				t.Errorf("start %d is %v after one that is owed %v", i, gap, w.starts[i-1].delay)
			}
		}
		w.end("owed less", 5, fleet...)
	})
}

// TestBegunTakesBackNoMoreThanTheWindow: whatever else is owed stays, in whichever order calls arrive.
func TestBegunTakesBackNoMoreThanTheWindow(t *testing.T) {
	s := newStage(t, hostlimit.Config{})
	const id, other = "p.2", "p.1"
	const delay, window = 5_000_000, 900_000
	begun := func(h *host, at int64) { s.run("begun", h, id, 3, at) }
	for name, c := range map[string]struct {
		happen func(h *host, now int64) // to a turn that is let go at now, and starts 1,000 us later
		owed   int64                    // to which the next start is kept from now
	}{
		"told":       {func(h *host, now int64) { begun(h, now+1000) }, delay + 1000},
		"told twice": {func(h *host, now int64) { begun(h, now+1000); begun(h, now+1000) }, delay + 1000},
		"a smaller number is a copy of before": {
			func(h *host, now int64) { s.run("begun", h, id, 2, now+1000) }, delay + window,
		},
		"the start comes first of all": {func(h *host, now int64) { begun(h, now-1000) }, delay},
		"the window is over":           {func(h *host, now int64) { begun(h, now+2*window) }, delay + window},
		"a longer delay, then told": {func(h *host, now int64) {
			s.run("adapt", h, other, 0, 60_000_000, 7_000_000, -1, false)
			begun(h, now+1000)
		}, 7_000_000 + 1000},
		"told, then a longer delay": {func(h *host, now int64) {
			begun(h, now+1000)
			s.run("adapt", h, other, 0, 60_000_000, 7_000_000, -1, false)
		}, 7_000_000 + 1000},
		"another process tells that it owes more": {func(h *host, now int64) {
			s.run("restore", h, false, 8_000_000, -1, -1, "", false, 0, 0, 0, 0, "", 0, 0)
			begun(h, now+1000)
		}, 8_000_000},
		"no answer, and told too late": {func(h *host, now int64) {
			s.write(h, id, 0, 0, true, 0)
			begun(h, now+1000)
		}, delay + window},
		"another start since": {func(h *host, now int64) {
			s.set(h, "lo", "p.3", "l", now+window+delay, "a", now+window+2*delay)
			begun(h, now+1000)
		}, 2*delay + window},
		"the other was without an answer": {func(h *host, now int64) {
			s.write(h, other, 0, 0, true, 0)
			begun(h, now+1000)
		}, 9_000_000},
		"told, then undone": {func(h *host, now int64) {
			begun(h, now+1000)
			s.run("release", h, id, 2, 1, 0, 0, 0)
		}, 0},
	} {
		h := s.host()
		now, _ := s.run("peek", h, 0, 2, 0)
		s.set(h, "l", now+window, "a", now+window+delay, "lo", id, "pl", now-1000, "pa", now, "n", 2,
			"L", []any{
				[]any{other, 1, 9_000_000, 0, 0, 0, 0, now + 60_000_000, now - 10_000_000, 100, 2, ""},
				[]any{id, 3, delay, 0, 0, 0, 0, now + 60_000_000, now, window, 2, ""},
			})
		c.happen(h, now)
		// A call takes less than a tenth of a second.
		if owed := s.get(h, "a") - now; owed < c.owed || owed > c.owed+100_000 {
			t.Errorf("%s: %d us are owed, want %d", name, owed, c.owed)
		}
	}
}

// TestAProcessKeepsItsOwnGap, although the server has lost what the host is owed: somebody has deleted
// the key, or the server has evicted it.
func TestAProcessKeepsItsOwnGap(t *testing.T) {
	t.Parallel()
	const delay = 300 * time.Millisecond
	server := ownServer(t)
	client := newClient(t, server)
	l := newTest(t, server, hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: delay}})
	var last time.Time
	for range 4 {
		turn := acquire(t, l, "a.example", 0)
		if gap := turn.Start.Sub(last); gap < delay {
			t.Errorf("a start %v after the one before", gap)
		}
		last = turn.Start
		if err := client.Del(t.Context(), l.parts[0].hostKey("a.example")).Err(); err != nil {
			t.Fatal(err)
		}
		turn.Observe(hostlimit.Outcome{Status: 200})
		turn.Release()
	}
}
