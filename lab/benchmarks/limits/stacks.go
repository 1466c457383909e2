// Package limits takes turns on hosts from this project's limiter and from two usual alternatives.
// One is a sync.Map of x/time/rate limiters, each with a channel semaphore. The other is a sync.Map
// of limiters with bulkhead of failsafe-go.
//
//	go test -bench . ./limits
//
// Every stack uses a delay of a nanosecond. So it does all its accounting, and nothing ever waits.
package limits

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"golang.org/x/time/rate"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
)

const gap = time.Microsecond

// A Stack knows hosts.
type Stack interface {
	// Turn takes a turn on a host and gives it back.
	Turn(ctx context.Context, host string) error
}

// Stacks are this project's limiter, first, and the others.
var Stacks = []struct {
	Name string
	New  func() (Stack, error)
}{
	{"politeness", newOurs},
	{"sync.Map+rate+chan", func() (Stack, error) { return new(diy), nil }},
	{"failsafe-go", func() (Stack, error) { return new(failsafe), nil }},
}

type ours struct{ *memory.Limiter }

func newOurs() (Stack, error) {
	m, err := memory.New(hostlimit.Config{Delay: hostlimit.Delay{Min: gap}, MaxHosts: 4_000_000})
	return ours{m}, err
}

func (s ours) Turn(ctx context.Context, host string) error {
	l, err := s.Acquire(ctx, host, 0)
	if err != nil {
		return err
	}
	_, err = l.Start(ctx)
	l.Release()
	return err
}

// diy is the stack that most crawlers in Go have.
type diy struct{ hosts sync.Map }

type diyHost struct {
	slots   chan struct{}
	limiter *rate.Limiter
}

func (s *diy) Turn(ctx context.Context, host string) error {
	v, ok := s.hosts.Load(host)
	if !ok {
		v, _ = s.hosts.LoadOrStore(host, &diyHost{make(chan struct{}, 2), rate.NewLimiter(rate.Every(gap), 1)})
	}
	h := v.(*diyHost)
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-h.slots }()
	return h.limiter.Wait(ctx)
}

type failsafe struct{ hosts sync.Map }

type failsafeHost struct {
	slots   bulkhead.Bulkhead[any]
	limiter ratelimiter.RateLimiter[any]
}

func (s *failsafe) Turn(ctx context.Context, host string) error {
	v, ok := s.hosts.Load(host)
	if !ok {
		v, _ = s.hosts.LoadOrStore(host, &failsafeHost{
			slots:   bulkhead.New[any](2),
			limiter: ratelimiter.NewSmoothWithMaxRate[any](gap),
		})
	}
	h := v.(*failsafeHost)
	if err := h.slots.AcquirePermit(ctx); err != nil {
		return err
	}
	defer h.slots.ReleasePermit()
	return h.limiter.AcquirePermit(ctx)
}

// Name returns the name of the i-th host: 24 bytes.
func Name(i int) string { return fmt.Sprintf("www.site-%07d.example", i) }
