// Package redis compares redis/redislimit with redis_rate, the usual rate
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
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/redistest"
	"github.com/go-politeness/politeness/redis/redislimit"
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

// cpu returns the CPU time that the server has used so far.
func cpu(b *testing.B, client *redis.Client) (sum time.Duration) {
	b.Helper()
	info, err := client.Info(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	return sum
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
	l, err := redislimit.New(redislimit.Config{
		Client: client,
		Limits: hostlimit.Config{Delay: delay, SlotTimeout: time.Hour},
	})
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

// turn takes a turn of host whose page is served. It reports whether there was one.
func turn(b *testing.B, l *redislimit.Limiter, host string) bool {
	lease, err := l.Acquire(context.Background(), host, 0)
	if err != nil {
		b.Error(err)
		return false
	}
	if _, err := lease.Start(context.Background()); err != nil {
		b.Error(err)
	}
	lease.Observe(hostlimit.Outcome{Status: 200})
	lease.Release()
	return true
}

// report tells what the server and the network had to do for each turn.
func report(b *testing.B, client *redis.Client, before time.Duration, count *trips) {
	b.StopTimer()
	time.Sleep(50 * time.Millisecond) // the last releases
	b.ReportMetric(float64(cpu(b, client)-before)/float64(b.N)/1e3, "redis-us/op")
	b.ReportMetric(float64(count.Load())/float64(b.N), "trips/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acquires/s")
}

// callers want turns at a time.
const callers = 64

// bucket is a token bucket as it is written by hand everywhere. It returns for how many microseconds
// to wait before the next try.
var bucket = redis.NewScript(`
	local rate, most = tonumber(ARGV[1]), tonumber(ARGV[2])
	local t = redis.call('TIME')
	local now = t[1] + t[2] / 1000000
	local b = redis.call('HMGET', KEYS[1], 'n', 't')
	local n = math.min(most, (tonumber(b[1]) or most) + (now - (tonumber(b[2]) or now)) * rate)
	local ok = n >= 1
	if ok then n = n - 1 end
	redis.call('HSET', KEYS[1], 'n', n, 't', now)
	redis.call('EXPIRE', KEYS[1], 60)
	return ok and 0 or math.ceil((1 - n) / rate * 1000000)`)

// BenchmarkFree takes turns on hosts that are free: what a limiter costs when it has nothing to do.
func BenchmarkFree(b *testing.B) {
	b.Run("redislimit", func(b *testing.B) {
		client, count := newClient(b)
		l := newLimiter(b, client, hostlimit.Delay{Min: time.Microsecond})
		var n atomic.Int64
		before := cpu(b, client)
		count.Store(0)
		b.SetParallelism(callers / runtime.GOMAXPROCS(0))
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if !turn(b, l, fmt.Sprintf("host-%d.example", n.Add(1)%5000)) {
					return
				}
			}
		})
		report(b, client, before, count)
	})
	free := func(name string, take func(client *redis.Client) func(ctx context.Context, host string) error) {
		b.Run(name, func(b *testing.B) {
			client, count := newClient(b)
			allow := take(client)
			var n atomic.Int64
			before := cpu(b, client)
			count.Store(0)
			b.SetParallelism(callers / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := allow(context.Background(), fmt.Sprintf("host-%d.example", n.Add(1)%5000)); err != nil {
						b.Error(err)
						return
					}
				}
			})
			report(b, client, before, count)
		})
	}
	free("redis_rate", func(client *redis.Client) func(context.Context, string) error {
		l := redis_rate.NewLimiter(client)
		return func(ctx context.Context, host string) error {
			_, err := l.Allow(ctx, host, redis_rate.PerSecond(1e6))
			return err
		}
	})
	free("bucket", func(client *redis.Client) func(context.Context, string) error {
		return func(ctx context.Context, host string) error {
			return bucket.Run(ctx, client, []string{"bucket:" + host}, 1e6, 1e6).Err()
		}
	})
}

// BenchmarkSaturated takes turns on one host that 64 goroutines want: how near to 1/delay the starts
// come, and how many of them, as the callers see it, follow the one before too soon.
func BenchmarkSaturated(b *testing.B) {
	for _, delay := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond} {
		b.Run(delay.String(), func(b *testing.B) { saturated(b, delay) })
	}
}

// saturate has callers take the one host's turns, each after the other, and reports their metrics.
func saturate(b *testing.B, delay time.Duration, count *trips, take func() (release func())) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var mu sync.Mutex
	var first, last time.Time
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
				if first.IsZero() {
					first = now
				} else if now.Sub(last) < delay {
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
	b.ReportMetric(100*float64(delay)*float64(b.N-1)/max(float64(last.Sub(first)), 1), "%rate")
}

func saturated(b *testing.B, delay time.Duration) {
	host := "saturated-" + delay.String() + ".example"
	b.Run("redislimit", func(b *testing.B) {
		client, count := newClient(b)
		l := newLimiter(b, client, hostlimit.Delay{Min: delay})
		saturate(b, delay, count, func() func() {
			lease, err := l.Acquire(context.Background(), host, 0)
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
	// Those who are told to come again sleep, and ask again.
	ask := func(name string, take func(client *redis.Client) func() (wait time.Duration, err error)) {
		b.Run(name, func(b *testing.B) {
			client, count := newClient(b)
			try := take(client)
			saturate(b, delay, count, func() func() {
				for {
					wait, err := try()
					if err != nil {
						b.Error(err)
						return func() {}
					}
					if wait <= 0 {
						return func() {}
					}
					time.Sleep(wait)
				}
			})
		})
	}
	ask("redis_rate", func(client *redis.Client) func() (time.Duration, error) {
		l := redis_rate.NewLimiter(client)
		limit := redis_rate.Limit{Rate: 1, Burst: 1, Period: delay}
		return func() (time.Duration, error) {
			r, err := l.Allow(context.Background(), host, limit)
			if err != nil || r.Allowed > 0 {
				return 0, err
			}
			return r.RetryAfter, nil
		}
	})
	ask("bucket", func(client *redis.Client) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			keys := []string{"bucket:" + host}
			us, err := bucket.Run(context.Background(), client, keys, 1/delay.Seconds(), 1).Int64()
			return time.Duration(us) * time.Microsecond, err
		}
	})
}

// BenchmarkWanted takes turns on one host that sixteen limiters want all the time, each with a client
// of its own, as many processes would: what each turn costs the server.
func BenchmarkWanted(b *testing.B) {
	const processes, goroutines = 16, 4
	for _, delay := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond} {
		b.Run(delay.String(), func(b *testing.B) {
			var limiters []*redislimit.Limiter
			var client *redis.Client
			count := new(trips)
			for range processes {
				client, _ = newClient(b)
				client.AddHook(count)
				limiters = append(limiters, newLimiter(b, client, hostlimit.Delay{Min: delay}))
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			count.Store(0)
			before := cpu(b, client)
			b.ResetTimer()
			began := time.Now()
			var wg sync.WaitGroup
			for i := range processes * goroutines {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if !turn(b, limiters[i%processes], "wanted-"+delay.String()+".example") {
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(100*float64(delay)*float64(b.N-1)/float64(time.Since(began)), "%rate")
			report(b, client, before, count)
		})
	}
}
