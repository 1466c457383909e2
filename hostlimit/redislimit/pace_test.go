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

// TestAGapIsLongerByAWindowAtMost: it counts from the end of the window in which a request may start,
// and windows are short where processes start in time.
func TestAGapIsLongerByAWindowAtMost(t *testing.T) {
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
			if over := mean - c.delay; over > 2*firstLate {
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
