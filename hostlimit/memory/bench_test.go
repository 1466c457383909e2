package memory

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

var unpaced = hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}, MaxHosts: 4_000_000}

func BenchmarkOneHost(b *testing.B) {
	m := mustNew(b, unpaced)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		l, err := m.Acquire(ctx, "www.example.com", 0)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := l.Start(ctx); err != nil {
			b.Fatal(err)
		}
		l.Observe(hostlimit.Outcome{Status: 200, Latency: time.Millisecond})
		l.Release()
	}
}

func names(n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprintf("www.site-%07d.example", i)
	}
	return s
}

func BenchmarkMillionHosts(b *testing.B) {
	const n = 1_000_000
	keys := names(n)
	m := mustNew(b, unpaced)
	ctx := b.Context()
	for _, k := range keys {
		l, _ := m.Acquire(ctx, k, 0)
		_, _ = l.Start(ctx)
		l.Release()
	}
	r := rand.New(rand.NewPCG(1, 2))
	runtime.GC()
	b.ReportAllocs()
	for b.Loop() {
		l, err := m.Acquire(ctx, keys[r.IntN(n)], 0)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := l.Start(ctx); err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
}

func BenchmarkIdleHosts(b *testing.B) {
	const n = 1_000_000
	keys := names(n)
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m := mustNew(b, unpaced)
		for _, k := range keys {
			l, _ := m.Acquire(b.Context(), k, 0)
			_, _ = l.Start(b.Context())
			l.Release()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		begin := time.Now()
		runtime.GC()
		gc := time.Since(begin)
		runtime.KeepAlive(m)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n-float64(len(keys[0])), "B/host")
		b.ReportMetric(float64(gc.Milliseconds()), "gc-ms")
	}
}
