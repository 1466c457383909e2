package redislimit

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/redistest"
)

// TestSentinelsStarveNobody lets three real Sentinels replace a master that was killed, and then one
// that goes on as a replica because a person wants it so. Every process starts requests again, on
// whichever server is the master then, and nothing starts too early or on a slot that is taken.
func TestSentinelsStarveNobody(t *testing.T) {
	t.Parallel()
	const delay = 20 * time.Millisecond
	master := ownServer(t)
	host, port, _ := net.SplitHostPort(master.Addr)
	for range 2 {
		ownServer(t, "--replicaof", host, port)
	}
	sentinels, err := redistest.RunSentinels(master, 3)
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	var asked []*redis.SentinelClient
	for _, s := range sentinels {
		t.Cleanup(s.Close)
		addrs = append(addrs, s.Addr)
		client := redis.NewSentinelClient(&redis.Options{Addr: s.Addr})
		t.Cleanup(func() { _ = client.Close() })
		asked = append(asked, client)
	}
	ready := func(replicas int) func() bool {
		return func() bool {
			others, err := asked[0].Sentinels(t.Context(), redistest.SentinelName).Result()
			known, err2 := asked[0].Replicas(t.Context(), redistest.SentinelName).Result()
			up := 0
			for _, r := range known {
				if r["master-link-status"] == "ok" && r["flags"] == "slave" {
					up++
				}
			}
			return err == nil && err2 == nil && len(others) == len(addrs)-1 && up >= replicas
		}
	}
	eventually(t, time.Minute, "the Sentinels know each other and the replicas", ready(2))

	var fleet []*Limiter
	for range 4 {
		client := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: redistest.SentinelName, SentinelAddrs: addrs, ReadTimeout: time.Second,
		})
		t.Cleanup(func() { _ = client.Close() })
		l, err := newLimiter(Config{Client: client, Limits: hostlimit.Config{
			Concurrency: 1, Delay: hostlimit.Delay{Min: delay, Adaptive: hostlimit.Fixed},
		}}, 0, born())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		l.mu.Lock()
		l.quarantine = quarantineOf(l.patience)
		l.mu.Unlock()
		fleet = append(fleet, l)
	}
	var mu sync.Mutex
	var starts []time.Time
	last, longest := make([]time.Time, len(fleet)), make([]time.Duration, len(fleet))
	flying := 0
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for i, l := range fleet {
		wg.Go(func() {
			for ctx.Err() == nil {
				lease, err := l.Acquire(ctx, "a.example", 0)
				if err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				if g, err := lease.Start(ctx); err == nil {
					mu.Lock()
					starts = append(starts, g.Start)
					if !last[i].IsZero() {
						longest[i] = max(longest[i], g.Start.Sub(last[i]))
					}
					last[i] = g.Start
					if flying++; flying > 1 {
						t.Errorf("%d requests on one slot", flying)
					}
					mu.Unlock()
					time.Sleep(delay / 4)
					lease.Observe(hostlimit.Outcome{Status: 200})
					mu.Lock()
					flying--
					mu.Unlock()
				}
				lease.Release()
			}
		})
	}
	everybody := func(after time.Time) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return !slices.ContainsFunc(last, func(at time.Time) bool { return !at.After(after) })
		}
	}
	// current is the master that all Sentinels name, "" while they differ.
	current := func() (master string) {
		for _, s := range asked {
			addr, err := s.GetMasterAddrByName(t.Context(), redistest.SentinelName).Result()
			if err != nil || master != "" && net.JoinHostPort(addr[0], addr[1]) != master {
				return ""
			}
			master = net.JoinHostPort(addr[0], addr[1])
		}
		return master
	}
	eventually(t, time.Minute, "everybody starts requests", everybody(time.Now()))
	for _, fault := range []struct {
		name string
		does func()
	}{
		{"a killed master", master.Kill},
		{"a planned failover", func() {
			eventually(t, time.Minute, "a replica that follows", ready(1))
			eventually(t, time.Minute, "the Sentinel agrees", func() bool {
				return asked[0].Failover(t.Context(), redistest.SentinelName).Err() == nil
			})
		}},
	} {
		mu.Lock()
		clear(longest)
		mu.Unlock()
		before := current()
		began := time.Now()
		fault.does()
		eventually(t, time.Minute, fault.name+": another master", func() bool {
			now := current()
			return now != "" && now != before
		})
		promoted := time.Now()
		// Until then those that haven't heard of it may start on the old one.
		eventually(t, time.Minute, fault.name+": everybody starts again", everybody(promoted.Add(3*time.Second)))
		mu.Lock()
		t.Logf("%s: another master after %v; silence of each process, at most %v", fault.name, promoted.Sub(began), longest)
		mu.Unlock()
	}
	stop()
	wg.Wait()
	slices.SortFunc(starts, time.Time.Compare)
	for i, at := range starts[1:] {
		if gap := at.Sub(starts[i]); gap < delay {
			t.Errorf("start %d came %v after the one before", i+1, gap)
		}
	}
}
