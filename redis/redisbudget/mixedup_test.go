package redisbudget

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/budget"
)

// A shifter is a hook that gives each call the answer of the one before, while it is on.
type shifter struct {
	on   atomic.Bool
	last atomic.Value
}

func (*shifter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *shifter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if c, ok := cmd.(*redis.Cmd); ok && err == nil {
			if before := s.last.Swap(c.Val()); before != nil && s.on.Load() {
				c.SetVal(before)
			}
		}
		return err
	}
}

func (*shifter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestTheAnswerToAnotherCallIsNoPage: one that was left on its connection grants pages a second time.
func TestTheAnswerToAnotherCallIsNoPage(t *testing.T) {
	const pages = 200
	mixed := new(shifter)
	client := redis.NewClient(&redis.Options{Addr: shared.Addr})
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(mixed)
	b, err := New(Config{Client: client, Name: t.Name(), Limits: budget.Limits{Pages: pages}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	granted := 0
	for i := 0; ; i++ {
		mixed.on.Store(i%3 > 0)
		_, err := b.Reserve(t.Context(), "a.example")
		if _, spent := errors.AsType[*budget.Error](err); spent {
			break
		}
		if err == nil {
			granted++
		}
		if granted > pages {
			t.Fatalf("%d of %d pages", granted, pages)
		}
	}
	if granted < pages/2 {
		t.Errorf("%d of %d pages: nothing was tested", granted, pages)
	}
}
