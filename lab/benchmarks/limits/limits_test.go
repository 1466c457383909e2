package limits

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

func (s *stackOf) turn(ctx context.Context, host string) {
	if err := s.Turn(ctx, host); err != nil {
		s.b.Fatal(err)
	}
}

// A stackOf is a Stack whose errors end the benchmark.
type stackOf struct {
	Stack
	b *testing.B
}

func newStack(b *testing.B, i int) *stackOf {
	b.Helper()
	s, err := Stacks[i].New()
	if err != nil {
		b.Fatal(err)
	}
	return &stackOf{s, b}
}

func BenchmarkOneHost(b *testing.B) {
	for i := range Stacks {
		b.Run(Stacks[i].Name, func(b *testing.B) {
			st := newStack(b, i)
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
			made := make([]*stackOf, len(Stacks))
			for i := range Stacks {
				made[i] = newStack(b, i)
				for _, k := range keys {
					made[i].turn(ctx, k)
				}
			}
			runtime.GC()
			const round = 2000
			times := make([][]time.Duration, len(Stacks))
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
			for i := range Stacks {
				slices.Sort(times[i])
				b.ReportMetric(float64(times[i][len(times[i])/2].Nanoseconds())/round, Stacks[i].Name+"-ns")
			}
			b.ReportMetric(0, "ns/op") // of all together: says nothing
		})
	}
}

const million = 1_000_000

func names() []string {
	s := make([]string, million)
	for i := range s {
		s[i] = Name(i)
	}
	return s
}

// BenchmarkMillionHosts takes turns at random over a million known hosts, and
// reports what they cost: bytes for each beyond its name, and the time of a
// garbage collection.
func BenchmarkMillionHosts(b *testing.B) {
	for i := range Stacks {
		b.Run(Stacks[i].Name, func(b *testing.B) {
			keys := names()
			ctx := b.Context()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			st := newStack(b, i)
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
			if i == 0 {
				perHost -= float64(len(keys[0]))
			}
			b.ReportMetric(perHost, "B/host")
			b.ReportMetric(float64(gc.Microseconds())/1000, "gc-ms")
		})
	}
}
