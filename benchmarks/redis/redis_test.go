// Package redis compares hostlimit/redislimit with redis_rate, the usual rate
// limiter on Redis, on the same server. They don't do the same: redis_rate
// counts a rate and knows no slots, no blocks and no queue.
//
//	go test -bench . -benchtime 3s
package redis

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/redislimit"
	"github.com/go-politeness/politeness/internal/redistest"
)

var addr string

func TestMain(m *testing.M) {
	flag.Parse()
	server, err := redistest.Run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	addr = server.Addr
	code := m.Run()
	server.Close()
	os.Exit(code)
}

// trips counts round trips.
type trips struct{ atomic.Int64 }

func (c *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.Add(1)
		return next(ctx, cmd)
	}
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.Add(1)
		return next(ctx, cmds)
	}
}

func newClient(b *testing.B) (*redis.Client, *trips) {
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64})
	b.Cleanup(func() { _ = client.Close() })
	count := new(trips)
	client.AddHook(count)
	return client, count
}

// newLimiter returns a limiter that is ready: the quarantine of a new server is over.
func newLimiter(b *testing.B, client *redis.Client, delay hostlimit.Delay) *redislimit.Limiter {
	l, err := redislimit.New(redislimit.Config{Client: client, Limits: hostlimit.Config{Delay: delay, SlotTimeout: time.Hour}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	lease, err := l.Acquire(context.Background(), "warm.example", 0)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := lease.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	lease.Release()
	return l
}

// BenchmarkFree takes turns on hosts that are free: what a limiter costs when it has nothing to do.
func BenchmarkFree(b *testing.B) {
	b.Run("redislimit", func(b *testing.B) {
		client, count := newClient(b)
		l := newLimiter(b, client, hostlimit.Delay{Min: time.Microsecond})
		var n atomic.Int64
		count.Store(0)
		b.SetParallelism(8)
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				lease, err := l.Acquire(context.Background(), fmt.Sprintf("host-%d.example", n.Add(1)%5000), 0)
				if err != nil {
					b.Error(err)
					return
				}
				if _, err := lease.Start(context.Background()); err != nil {
					b.Error(err)
				}
				lease.Observe(hostlimit.Outcome{Status: 200})
				lease.Release()
			}
		})
		b.ReportMetric(float64(count.Load())/float64(b.N), "trips/op")
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acquires/s")
	})
	b.Run("redis_rate", func(b *testing.B) {
		client, count := newClient(b)
		l := redis_rate.NewLimiter(client)
		var n atomic.Int64
		b.SetParallelism(8)
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := l.Allow(context.Background(), fmt.Sprintf("host-%d.example", n.Add(1)%5000), redis_rate.PerSecond(1e6)); err != nil {
					b.Error(err)
					return
				}
			}
		})
		b.ReportMetric(float64(count.Load())/float64(b.N), "trips/op")
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acquires/s")
	})
}

// BenchmarkSaturated takes turns on one host that 64 goroutines want, 20 ms apart.
func BenchmarkSaturated(b *testing.B) {
	const delay, callers = 20 * time.Millisecond, 64
	run := func(b *testing.B, count *trips, take func() func()) {
		var left atomic.Int64
		left.Store(int64(b.N))
		var mu sync.Mutex
		var last time.Time
		short := 0
		count.Store(0)
		b.ResetTimer()
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					release := take()
					mu.Lock()
					now := time.Now()
					if now.Sub(last) < delay {
						short++
					}
					last = now
					mu.Unlock()
					release()
				}
			})
		}
		wg.Wait()
		b.ReportMetric(float64(count.Load())/float64(b.N), "trips/op")
		b.ReportMetric(100*float64(short)/float64(b.N), "%short")
		b.ReportMetric(100*float64(delay)*float64(b.N)/float64(b.Elapsed()), "%rate")
	}
	b.Run("redislimit", func(b *testing.B) {
		client, count := newClient(b)
		l := newLimiter(b, client, hostlimit.Delay{Min: delay})
		run(b, count, func() func() {
			lease, err := l.Acquire(context.Background(), "saturated.example", 0)
			if err != nil {
				b.Error(err)
				return func() {}
			}
			if _, err := lease.Start(context.Background()); err != nil {
				b.Error(err)
			}
			return func() { lease.Release() }
		})
	})
	b.Run("redis_rate", func(b *testing.B) {
		client, count := newClient(b)
		l := redis_rate.NewLimiter(client)
		limit := redis_rate.Limit{Rate: 1, Burst: 1, Period: delay}
		run(b, count, func() func() {
			for {
				r, err := l.Allow(context.Background(), "saturated.example", limit)
				if err != nil {
					b.Error(err)
					return func() {}
				}
				if r.Allowed > 0 {
					return func() {}
				}
				time.Sleep(r.RetryAfter)
			}
		})
	})
}
