//go:build !race

// See model_random_test.go.

package redislimit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"

	"github.com/go-politeness/politeness/internal/soak"
)

// TestAFleetLearnsAsAMemory gives the same answers, in virtual time, to a Memory and to a fleet of
// two processes, each answer to either: what they do is the same, but for the milliseconds by which
// one comes after the other.
func TestAFleetLearnsAsAMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "14")
	limits := hostlimit.Config{
		Concurrency: 1, Delay: hostlimit.Delay{Min: 200 * time.Millisecond, Max: 200 * time.Millisecond}, MaxWait: 24 * time.Hour,
	}
	for seed := range soak.Seeds(t, 4, 60) {
		w.reset()
		w.t = t
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(30, seed))
			memory, err := memory.New(limits)
			if err != nil {
				t.Fatal(err)
			}
			fleet := []*Limiter{w.settled(limits), w.settled(limits)}
			var last uint64 // page that was refused last
			mood := 0
			for n := range 150 {
				o := hostlimit.Outcome{Status: 200, Resource: 1 + r.Uint64N(12)}
				if last > 0 && r.IntN(2) == 0 {
					o.Resource = last
				}
				if r.IntN(15) == 0 {
					mood = r.IntN(5)
				}
				switch {
				case r.IntN(40) == 0:
					o.Status, o.RetryAfter = 429, time.Duration(r.IntN(3))*time.Second
				case r.IntN(40) == 0:
					o.Reset = 3 * time.Second
				case r.IntN(40) == 0:
					o.Status = 407
				case o.Resource <= 2: // pages in trouble of their own
					o.Status = 500
				case mood == 1 && r.IntN(3) > 0, r.IntN(20) == 0:
					o.Status = 503
				case mood == 2 && r.IntN(4) > 0:
					o.Status = 403
				}
				if last = 0; o.Status == 503 {
					last = o.Resource
				}
				var lasted [2]string
				var delays, blocks [2]time.Duration
				for i, l := range []hostlimit.Limiter{memory, fleet[r.IntN(2)]} {
					lease, err := l.Acquire(context.Background(), "b.example", 0)
					if err != nil {
						t.Fatal(err)
					}
					g, err := lease.Start(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					e, now := lease.Observe(o), time.Now()
					lease.Release()
					delays[i] = g.Delay
					blocks[i] = max(0, e.Until.Sub(now))
					lasted[i] = fmt.Sprintf("probe %t by %s, blocked %t, cleared %t, own %t, refusals %d",
						g.Probe, g.DelaySource, e.Blocked, e.Cleared, e.Own, e.Refusals)
				}
				// A step by which a delay gets shorter may come one success later.
				far := delays[0] - delays[1]
				// A block may be a half of the row before, and lasts for the milliseconds that each of that was longer.
				apart := blocks[0] - blocks[1]
				if lasted[0] != lasted[1] || far.Abs() > delays[0]/5 || apart.Abs() > 50*time.Millisecond+blocks[0]/50 {
					t.Fatalf("seed %d, answer %d: %+v\nMemory: %s for %v, delay %v\nfleet:  %s for %v, delay %v",
						seed, n, o, lasted[0], blocks[0], delays[0], lasted[1], blocks[1], delays[1])
				}
				time.Sleep(time.Second + time.Duration(r.Int64N(int64(2*time.Second)))) // all is told
			}
			for _, l := range fleet {
				_ = l.Close()
				_ = l.conf.Client.Close()
			}
			time.Sleep(5 * time.Second)
		})
		if t.Failed() {
			return
		}
	}
}
