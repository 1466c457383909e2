package redislimit

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
)

// A shifter is a hook that gives each call the answer of the one before, while it is on.
type shifter struct {
	on   atomic.Bool
	last atomic.Pointer[string]
}

func (*shifter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *shifter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if c, ok := cmd.(*redis.Cmd); ok && err == nil {
			text, _ := c.Text()
			if before := s.last.Swap(&text); before != nil && s.on.Load() {
				c.SetVal(*before)
			}
		}
		return err
	}
}

func (*shifter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestTheAnswerToAnotherCallIsNoTurn: one that lay on its connection, while the process was stopped for
// instance, and that the next caller reads.
func TestTheAnswerToAnotherCallIsNoTurn(t *testing.T) {
	t.Parallel()
	mixed := new(shifter)
	l := newFleet(t, shared, Config{Limits: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond}}}, 1, mixed)[0]
	for range 20 {
		turn := acquire(t, l, "a.example", 0)
		mixed.on.Store(true)
		if lease, err := l.Acquire(t.Context(), "b.example", 0); err == nil {
			t.Errorf("by the answer to another call there is a turn: %+v", lease)
		} else if !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		mixed.on.Store(false)
		turn.Release()
		eventually(t, 10*time.Second, "turns again", func() bool {
			lease, err := l.Acquire(t.Context(), "c.example", 0)
			if err == nil {
				lease.Release()
			}
			return err == nil
		})
	}
}

// A lateConn gives what nobody has asked for, once, when it is told to.
type lateConn struct {
	net.Conn
	late *atomic.Pointer[string]
}

func (c lateConn) Read(b []byte) (int, error) {
	if s := c.late.Load(); s != nil && len(b) >= len(*s) && c.late.CompareAndSwap(s, nil) {
		return copy(b, *s), nil
	}
	return c.Conn.Read(b)
}

// TestAConnectionThatMixesAnswersUpIsClosed, so that it costs one call and not all that follow.
func TestAConnectionThatMixesAnswersUpIsClosed(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]string{"a text": "$3\r\nold\r\n", "an error": "-ERR old\r\n", "a number": ":1\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stale atomic.Pointer[string]
			client := redis.NewClient(&redis.Options{
				ReadTimeout: time.Second, PoolSize: 1,
				Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
					conn, err := new(net.Dialer).DialContext(ctx, network, shared.Addr)
					return lateConn{conn, &stale}, err
				},
			})
			t.Cleanup(func() { _ = client.Close() })
			l, err := idleLimiter(Config{Client: client, Prefix: "mixed:" + t.Name() + ":", Limits: hostlimit.Config{
				Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond},
			}}, 0, born())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			l.wg.Go(l.beat) // without a subscription, which would read it
			acquire(t, l, "a.example", 0).Release()
			settle(t, l, "a.example")
			stale.Store(&late)
			eventually(t, 20*time.Second, "turns again", func() bool {
				lease, err := l.Acquire(t.Context(), "b.example", 0)
				if err == nil {
					lease.Release()
				}
				return err == nil && stale.Load() == nil
			})
			settle(t, l, "b.example")
			if n := l.Stats().Failed; n > 4 {
				t.Errorf("%d calls have failed", n)
			}
		})
	}
}
