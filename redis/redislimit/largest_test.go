package redislimit

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// TestTheLargestNumbersAreNoLimits: sums with them don't overflow.
func TestTheLargestNumbersAreNoLimits(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(c *hostlimit.Config){
		"MaxWait":     func(c *hostlimit.Config) { c.MaxWait = math.MaxInt64 },
		"SlotTimeout": func(c *hostlimit.Config) { c.SlotTimeout = math.MaxInt64 },
		"LeaseTTL":    func(c *hostlimit.Config) { c.LeaseTTL = math.MaxInt64 },
		"MaxInFlight": func(c *hostlimit.Config) { c.MaxInFlight = math.MaxInt },
		"PerSite":     func(c *hostlimit.Config) { c.PerSite = math.MaxInt },
		"MaxHosts":    func(c *hostlimit.Config) { c.MaxHosts = math.MaxInt },
		"Concurrency": func(c *hostlimit.Config) { c.Concurrency = math.MaxInt32; c.PerSite = math.MaxInt32 },
		"Ceiling":     func(c *hostlimit.Config) { c.Delay.Ceiling = math.MaxInt64 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: 10 * time.Millisecond}}
			set(&limits)
			fleet := newFleet(t, shared, Config{Limits: limits}, 2)
			for i := range 6 {
				l := fleet[i%2]
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				lease, err := l.Acquire(ctx, "a.example", 0)
				if err != nil {
					t.Fatal(i, err)
				}
				if _, err := lease.Start(ctx); err != nil {
					t.Fatal(i, err)
				}
				cancel()
				answer := hostlimit.Outcome{Status: 200}
				if i == 2 {
					answer = hostlimit.Outcome{Status: 429, RetryAfter: 50 * time.Millisecond}
				}
				lease.Observe(answer)
				if i == 3 { // what it knows is told after a loss
					l.mu.Lock()
					l.parts[0].restore(true)
					n := len(l.hosts["a.example"].restoreLeases(l.now()))
					l.mu.Unlock()
					if n != 1 {
						t.Errorf("%d leases are restored", n)
					}
				}
				if lease.Release() {
					t.Error("a lease has expired")
				}
			}
		})
	}
}
