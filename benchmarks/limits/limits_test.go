// Package limits compares hostlimit with what people build or take otherwise:
// a sync.Map of x/time/rate limiters with a channel semaphore each, and the
// limiter with bulkhead of failsafe-go, in a sync.Map as well.
//
// Every stack paces by a nanosecond, so that all the accounting is done and
// nobody ever waits. Compare within one run.
package limits

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"golang.org/x/time/rate"

	"github.com/go-politeness/politeness/hostlimit"
)

const gap = time.Nanosecond

// A stack takes a turn on a key and gives it back.
type stack interface {
	turn(ctx context.Context, key string)
}

type ours struct{ *hostlimit.Memory }

func newOurs(b testing.TB) stack {
	m, err := hostlimit.New(hostlimit.Config{Delay: hostlimit.Delay{Min: gap}, MaxHosts: 4_000_000})
	if err != nil {
		b.Fatal(err)
	}
	return ours{m}
}

func (s ours) turn(ctx context.Context, key string) {
	l, err := s.Acquire(ctx, key, 0)
	if err != nil {
		panic(err)
	}
	l.Release()
}

// diy is the stack that most crawlers in Go have.
type diy struct{ hosts sync.Map }

type diyHost struct {
	slots   chan struct{}
	limiter *rate.Limiter
}

func newDIY(testing.TB) stack { return &diy{} }

func (s *diy) turn(ctx context.Context, key string) {
	v, ok := s.hosts.Load(key)
	if !ok {
		v, _ = s.hosts.LoadOrStore(key, &diyHost{make(chan struct{}, 2), rate.NewLimiter(rate.Every(gap), 1)})
	}
	h := v.(*diyHost)
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		panic(ctx.Err())
	}
	if err := h.limiter.Wait(ctx); err != nil {
		panic(err)
	}
	<-h.slots
}

type failsafe struct{ hosts sync.Map }

type failsafeHost struct {
	slots   bulkhead.Bulkhead[any]
	limiter ratelimiter.RateLimiter[any]
}

func newFailsafe(testing.TB) stack { return &failsafe{} }

func (s *failsafe) turn(ctx context.Context, key string) {
	v, ok := s.hosts.Load(key)
	if !ok {
		v, _ = s.hosts.LoadOrStore(key, &failsafeHost{bulkhead.New[any](2), ratelimiter.NewSmoothWithMaxRate[any](gap)})
	}
	h := v.(*failsafeHost)
	if err := h.slots.AcquirePermit(ctx); err != nil {
		panic(err)
	}
	if err := h.limiter.AcquirePermit(ctx); err != nil {
		panic(err)
	}
	h.slots.ReleasePermit()
}

var stacks = []struct {
	name string
	make func(testing.TB) stack
}{
	{"hostlimit", newOurs},
	{"sync.Map+rate+chan", newDIY},
	{"failsafe", newFailsafe},
}

func BenchmarkOneHost(b *testing.B) {
	for _, s := range stacks {
		b.Run(s.name, func(b *testing.B) {
			st := s.make(b)
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				st.turn(ctx, "www.example.com")
			}
		})
	}
}

// BenchmarkRatio takes turns on all stacks in one run, a few thousand on each in
// turn, and compares the medians: so other work on the machine troubles them alike.
func BenchmarkRatio(b *testing.B) {
	for _, hosts := range []int{1, million} {
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			keys := names()[:hosts]
			ctx := b.Context()
			made := make([]stack, len(stacks))
			for i, s := range stacks {
				made[i] = s.make(b)
				for _, k := range keys {
					made[i].turn(ctx, k)
				}
			}
			runtime.GC()
			const round = 2000
			times := make([][]time.Duration, len(stacks))
			r := rand.New(rand.NewPCG(1, 2))
			for b.Loop() {
				for i, s := range made {
					begin := time.Now()
					for range round {
						s.turn(ctx, keys[r.IntN(hosts)])
					}
					times[i] = append(times[i], time.Since(begin))
				}
			}
			for i, s := range stacks {
				slices.Sort(times[i])
				b.ReportMetric(float64(times[i][len(times[i])/2].Nanoseconds())/round, s.name+"-ns")
			}
			b.ReportMetric(0, "ns/op") // of all together: says nothing
		})
	}
}

const million = 1_000_000

func names() []string {
	s := make([]string, million)
	for i := range s {
		s[i] = fmt.Sprintf("www.site-%07d.example", i)
	}
	return s
}

// BenchmarkMillionHosts takes turns at random over a million known hosts, and
// reports what they cost: bytes for each beyond its name, and the time of a
// garbage collection.
func BenchmarkMillionHosts(b *testing.B) {
	for _, s := range stacks {
		b.Run(s.name, func(b *testing.B) {
			keys := names()
			ctx := b.Context()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			st := s.make(b)
			for _, k := range keys {
				st.turn(ctx, k)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			begin := time.Now()
			runtime.GC()
			gc := time.Since(begin)
			r := rand.New(rand.NewPCG(1, 2))
			b.ReportAllocs()
			for b.Loop() {
				st.turn(ctx, keys[r.IntN(million)])
			}
			// The names are shared with keys in the other stacks, and copied in ours.
			perHost := float64(after.HeapAlloc-before.HeapAlloc) / million
			if s.name == "hostlimit" {
				perHost -= float64(len(keys[0]))
			}
			b.ReportMetric(perHost, "B/host")
			b.ReportMetric(float64(gc.Microseconds())/1000, "gc-ms")
		})
	}
}
