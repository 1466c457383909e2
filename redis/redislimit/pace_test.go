package redislimit

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/redislimit/internal/clock"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// TestAGapIsNoLongerByItsWindow where processes start in time: it counts from the start, not from the
// end of the window in which a request may start.
func TestAGapIsNoLongerByItsWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "11")
	for name, c := range map[string]struct {
		processes int
		delay     time.Duration
		page      time.Duration // how long one takes
	}{
		"20 ms, one process":                {1, 20 * time.Millisecond, 5 * time.Millisecond},
		"100 ms, one process":               {1, 100 * time.Millisecond, 5 * time.Millisecond},
		"100 ms, two processes":             {2, 100 * time.Millisecond, 5 * time.Millisecond},
		"100 ms, two processes, slow pages": {2, 100 * time.Millisecond, 150 * time.Millisecond},
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
						w.fetch(context.Background(), fleet[i%len(fleet)], c.page, hostlimit.Outcome{Status: 200}, false)
					}
				})
			}
			wg.Wait()
			starts := slices.SortedFunc(slices.Values(w.starts), func(a, b modelStart) int { return int(a.at - b.at) })
			mean := (starts[len(starts)-1].at - starts[0].at) / time.Duration(len(starts)-1)
			if over := mean - c.delay; over > clock.FirstLate/4 {
				t.Errorf("%s: %v more than the delay, on average", name, over)
			}
			w.end(name, 2, fleet...)
		})
	}
}

// TestAFleetTakesTurns: of processes with as many requests each, none starts more than another.
func TestAFleetTakesTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "8")
	w.reset()
	w.t = t
	synctest.Test(t, func(t *testing.T) {
		limits := hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: 20 * time.Millisecond, Adaptive: hostlimit.Fixed}}
		var fleet []*Limiter
		for range 8 {
			fleet = append(fleet, w.settled(limits))
		}
		w.starts = nil
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(6*time.Second, cancel) // a deadline would have turns refused that come after it
		var wg sync.WaitGroup
		for i := range 2 * len(fleet) {
			wg.Go(func() {
				for ctx.Err() == nil {
					w.fetch(ctx, fleet[i/2], time.Millisecond, hostlimit.Outcome{Status: 200}, false)
				}
			})
		}
		wg.Wait()
		starts := make([]int, len(fleet))
		for _, s := range w.starts {
			starts[slices.Index(fleet, s.by)]++
		}
		if slices.Max(starts)-slices.Min(starts) > 2 || slices.Min(starts) < 30 {
			t.Errorf("starts of each process: %v", starts)
		}
		w.end("turns", 2, fleet...)
	})
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

// TestAWindowEndsWithItsStart once the server hears of that, and in no other case.
func TestAWindowEndsWithItsStart(t *testing.T) {
	s := newStage(t, hostlimit.Config{Concurrency: 3})
	l := &hostlimit.Limits{Delay: hostlimit.Delay{Ceiling: time.Minute}}
	const delay, seq = 1_000_000, 1
	for name, c := range map[string]struct {
		run   func(h *host, by int64)
		moves bool
	}{
		"the start is told": {func(h *host, by int64) { s.run(h, &wire.Started{ID: "p.1", Seq: seq, Number: 7, By: wire.Micros(by)}) }, true},
		"told twice": {func(h *host, by int64) {
			s.run(h, &wire.Started{ID: "p.1", Seq: seq, Number: 7, By: wire.Micros(by)})
			s.run(h, &wire.Started{ID: "p.1", Seq: seq, Number: 7, By: wire.Micros(by)})
		}, true},
		"the release tells it": {func(h *host, by int64) {
			s.run(h, &wire.Release{ID: "p.1", Slots: 3, Started: seq, Stamp: wire.Micros(by), By: wire.Micros(by)})
		}, true},
		"a turn of before": {func(h *host, by int64) {
			s.run(h, &wire.Started{ID: "p.1", Seq: seq - 1, Number: 7, By: wire.Micros(by)})
		}, false},
		"of a lease that isn't the last": {func(h *host, by int64) {
			s.set(h, "lo", "p.2")
			s.run(h, &wire.Started{ID: "p.1", Seq: seq, Number: 7, By: wire.Micros(by)})
		}, false},
		"the gap counts from an end": {func(h *host, by int64) {
			s.write(h, "p.1", s.get(h, "v"), 0, true, delay)
			s.run(h, &wire.Started{ID: "p.1", Seq: seq, Number: 7, By: wire.Micros(by)})
		}, false},
		"the turn is given back unused": {func(h *host, by int64) {
			s.run(h, &wire.Release{ID: "p.1", Slots: 3, Undone: true, By: wire.Micros(by)})
		}, false},
		"the window is over by then": {func(h *host, by int64) {
			s.run(h, &wire.Started{ID: "p.1", Seq: seq, Number: 7, By: wire.Micros(by + 60_000_000)})
		}, false},
		"something else moved what is owed": {func(h *host, by int64) {
			s.run(h, &wire.Restore{Next: 5_000_000, Last: 2_000_000})
			s.run(h, &wire.Started{ID: "p.1", Seq: seq, Number: 7, By: wire.Micros(by)})
		}, false},
	} {
		h := s.host()
		_, turn := s.take(h, "p.1", seq, delay, l)
		start, guard := int64(turn.At), int64(turn.Guard)
		by := start + guard/4
		c.run(h, by)
		switch last, next := s.get(h, "l"), s.get(h, "a"); {
		case c.moves && (last != by || next != by+delay):
			t.Errorf("%s: the start counts as one at %d us after its time, the next one comes %d us after that", name, last-start, next-last)
		case !c.moves && last != 0 && (last < start+guard || next < start+guard+delay):
			t.Errorf("%s: the start counts as one at %d us after its time, though its window ends at %d", name, last-start, guard)
		}
	}
}
