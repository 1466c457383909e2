package memory

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// TestNoGapIsShortInRealTime runs with more goroutines than processors that want to
// compute: whoever wakes late must not start too close to the next.
func TestNoGapIsShortInRealTime(t *testing.T) {
	stop := make(chan struct{})
	var load, callers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		load.Go(func() {
			for busy := time.Now(); ; {
				select {
				case <-stop:
					return
				default:
				}
				if time.Since(busy) > time.Millisecond {
					runtime.Gosched()
					busy = time.Now()
				}
			}
		})
	}
	m := mustNew(t, hostlimit.Config{Delay: hostlimit.Delay{Min: 2 * time.Millisecond}})
	var mu sync.Mutex
	var grants []hostlimit.Grant
	for range 10 {
		callers.Go(func() {
			for range 8 {
				l := acquire(t, m, "a", 0)
				g := l.Grant
				l.Release()
				mu.Lock()
				grants = append(grants, g)
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	close(stop)
	load.Wait()
	slices.SortFunc(grants, func(a, b hostlimit.Grant) int { return a.Start.Compare(b.Start) })
	for i, g := range grants[1:] {
		if gap := g.Start.Sub(grants[i].Start); gap < 2*time.Millisecond {
			t.Errorf("start %d came %v after the one before", g.Seq, gap)
		}
	}
}

// BenchmarkPace reports the share of the theoretical rate, 1/delay, that 64
// callers of one host get in real time. Timers are late by 0.1 to 1 ms, and
// each lateness moves all later starts: that is what it costs never to start early.
func BenchmarkPace(b *testing.B) {
	for _, c := range []struct {
		delay  time.Duration
		starts int
	}{{20 * time.Millisecond, 100}, {100 * time.Millisecond, 30}, {time.Second, 5}} {
		b.Run(c.delay.String(), func(b *testing.B) {
			for b.Loop() {
				m := mustNew(b, hostlimit.Config{Delay: hostlimit.Delay{Min: c.delay}})
				first := acquire(b, m, "a", 0)
				first.Release()
				turns := make(chan struct{}, c.starts)
				for range c.starts {
					turns <- struct{}{}
				}
				close(turns)
				var wg sync.WaitGroup
				var mu sync.Mutex
				last := first.Grant.Start
				for range 64 {
					wg.Go(func() {
						for range turns {
							l := acquire(b, m, "a", 0)
							l.Release()
							mu.Lock()
							if g := l.Grant; g.Start.After(last) {
								last = g.Start
							}
							mu.Unlock()
						}
					})
				}
				wg.Wait()
				took := last.Sub(first.Grant.Start)
				b.ReportMetric(100*float64(c.delay)*float64(c.starts)/float64(took), "%rate")
			}
		})
	}
}

// BenchmarkWaiters parks 100,000 requests over 10,000 hosts that are paced by 2 s, and
// reports what one costs on top of its goroutine, and how much later than it could
// each of them started.
func BenchmarkWaiters(b *testing.B) {
	const n, hosts, delay = 100_000, 10_000, 2 * time.Second
	keys := names(hosts)
	memory := func() uint64 {
		var st runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&st)
		return st.HeapAlloc
	}
	// The runtime keeps what it allocates for goroutines, so these pay for those
	// that are measured.
	var goroutines sync.WaitGroup
	park := make(chan struct{})
	for range n {
		goroutines.Go(func() { <-park })
	}
	close(park)
	goroutines.Wait()
	for b.Loop() {
		m := mustNew(b, hostlimit.Config{Delay: hostlimit.Delay{Min: delay}, Concurrency: 20})
		starts := make([][]time.Time, hosts)
		for i, k := range keys {
			l := acquire(b, m, k, 0)
			l.Release()
			starts[i] = append(make([]time.Time, 0, 1+n/hosts), l.Grant.Start)
			if i%100 == 0 {
				time.Sleep(delay / (hosts / 100)) // so that the hosts aren't due all at once
			}
		}
		before := memory()
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range n {
			wg.Go(func() {
				l := acquire(b, m, keys[i%hosts], 0)
				l.Release()
				mu.Lock()
				starts[i%hosts] = append(starts[i%hosts], l.Grant.Start)
				mu.Unlock()
			})
		}
		waiting := 0
		cost := memory() - before
		for st := range states(b, m) {
			waiting += st.Waiters
		}
		wg.Wait()
		var late []time.Duration
		for _, s := range starts {
			slices.SortFunc(s, time.Time.Compare)
			for i := range s[2:] { // the first waiter may have come after it was due
				late = append(late, s[i+2].Sub(s[i+1])-delay)
			}
		}
		slices.Sort(late)
		b.ReportMetric(float64(waiting), "waiters")
		b.ReportMetric(float64(cost)/float64(waiting), "B/waiter")
		b.ReportMetric(float64(late[len(late)*99/100].Microseconds())/1000, "late-p99-ms")
		b.ReportMetric(float64(late[0].Microseconds())/1000, "late-min-ms")
	}
}
