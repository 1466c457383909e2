package memory_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"

	"github.com/go-politeness/politeness/hostlimit/memory"
)

func Example() {
	limiter, err := memory.New(hostlimit.Config{Delay: hostlimit.Delay{Min: 20 * time.Millisecond}})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	var last time.Time
	for range 3 {
		lease, err := limiter.Acquire(ctx, "example.com", 0)
		if err != nil {
			panic(err)
		}
		grant, err := lease.Start(ctx)
		if err != nil {
			panic(err)
		}
		fmt.Println(last.IsZero() || grant.Start.Sub(last) >= 20*time.Millisecond)
		last = grant.Start
		// ... send the request, then say what the host answered:
		lease.Observe(hostlimit.Outcome{Status: 200, Latency: time.Millisecond})
		// ... read the body, then give the slot back:
		lease.Release()
	}
	// Output:
	// true
	// true
	// true
}

// A frontier would rather come back later than wait: MaxWait refuses at once, and the
// error says when.
func ExampleConfig_maxWait() {
	limiter, err := memory.New(hostlimit.Config{
		MaxWait: time.Second,
		Backoff: backoff.Refusals{Statuses: []int{503}},
	})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	lease, err := limiter.Acquire(ctx, "example.com", 0)
	if err != nil {
		panic(err)
	}
	if _, err := lease.Start(ctx); err != nil {
		panic(err)
	}
	lease.Observe(hostlimit.Outcome{Status: 503, RetryAfter: time.Hour})
	lease.Release()

	_, err = limiter.Acquire(ctx, "example.com", 0)
	var refused *hostlimit.Error
	if errors.As(err, &refused) {
		fmt.Println(errors.Is(err, hostlimit.ErrBlocked), time.Until(refused.RetryAt).Round(time.Hour))
	}
	// Output: true 1h0m0s
}

func ExampleLimiter_List() {
	limiter, err := memory.New(hostlimit.Config{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	lease, err := limiter.Acquire(ctx, "example.com", 5*time.Second)
	if err != nil {
		panic(err)
	}
	if _, err := lease.Start(ctx); err != nil {
		panic(err)
	}
	for host, err := range limiter.List(ctx) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %d of %d slots, every %v by %s\n", host.Key, host.InFlight, host.Slots, host.Delay, host.DelaySource)
	}
	lease.Release()
	// Output: example.com: 1 of 2 slots, every 5s by crawl-delay
}

// A person stops a crawl of one host, and lets it go on.
func ExampleLimiter_Block() {
	limiter, err := memory.New(hostlimit.Config{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	if err := limiter.Block(ctx, "example.com", time.Now().Add(time.Hour), "the owner has called"); err != nil {
		panic(err)
	}
	_, err = limiter.Acquire(ctx, "example.com", 0)
	fmt.Println(err, errors.Is(err, hostlimit.ErrBlocked))

	if err := limiter.Clear(ctx, "example.com"); err != nil {
		panic(err)
	}
	lease, err := limiter.Acquire(ctx, "example.com", 0)
	if err != nil {
		panic(err)
	}
	lease.Release()
	// Output: hostlimit: example.com: host blocked by hand: the owner has called true
}

// Before the process ends, what is in flight may come to its end.
func ExampleLimiter_Drain() {
	limiter, err := memory.New(hostlimit.Config{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	fmt.Println(limiter.Drain(ctx))
	_, err = limiter.Acquire(ctx, "example.com", 0)
	fmt.Println(errors.Is(err, hostlimit.ErrDraining))
	// Output:
	// <nil>
	// true
}
