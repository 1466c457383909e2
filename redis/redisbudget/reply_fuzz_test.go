package redisbudget

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/budget"
)

// answering is a hook that answers every script itself; nothing is dialed.
type answering func() []any

func (answering) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nothing is dialed") }
}

func (a answering) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		if c, ok := cmd.(*redis.Cmd); ok {
			c.SetVal(append(a(), fmt.Sprint(cmd.Args()[7])+fmt.Sprint(cmd.Args()[8])))
		}
		return nil
	}
}

func (answering) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return errors.New("nothing is piped") }
}

// FuzzReplies holds that no answer of a server, one of another version of take.lua for instance,
// panics or keeps a caller for longer than its context.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x0e\x00\x01\x40\x00\x01\x00\x01\x00\x00\x00\x00\x00\x02\x00\x02\x00\x02\x00\x05\x00\x05\x00\x05\x00\x01\x41"))
	f.Add([]byte("\x01\x02\x3f\x01\x3f\x81"))
	f.Add([]byte("\x00\x0e\x3f\x01\x40\x3f\x01\x3f\x01\x3f\x7f\x3f\x00\x3f\x02\x3f\x02\x3f\x02\x3f\x85\x3f\x05\x3f\x05\x3f\x01\x41"))
	f.Add([]byte("\x09\x00\x01\x00\x02\x00\x02\x00\x02\x00\x02\x00\x05\x00\x05\x00\x05\x00\x01\x00"))
	f.Add([]byte("\x09\x3f\x01\x3f\x81\x3f\x01\x3f\x01\x3f\x01\x3f\x81\x3f\x01\x3f\x81\x3f\x01"))
	f.Fuzz(func(t *testing.T, noise []byte) {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		defer client.Close()
		client.AddHook(answering(func() []any {
			rest := noise
			next := func() (b byte) {
				if len(rest) > 0 {
					b, rest = rest[0], rest[1:]
				}
				return b
			}
			reply := []any{[]any{"ok", "late", "old", nil}[next()%4]}
			for range next() % 20 {
				if shift := next(); shift < 64 {
					reply = append(reply, strconv.FormatInt(int64(int8(next()))<<shift, 10))
				} else {
					reply = append(reply, []any{nil, "pbht", int64(next()), ""}[shift%4])
				}
			}
			return reply
		}))
		limits := budget.Limits{Pages: 10, PagesPerHost: 5, Bytes: 100, Duration: time.Hour, WarnAt: 0.5}
		if len(noise)%2 == 1 {
			limits.Duration, limits.Every = 0, time.Hour
		}
		b, err := New(Config{Client: client, Name: "fuzz", Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		for range 3 {
			if _, err := b.Reserve(ctx, "example.com"); err == nil {
				b.Refund(ctx, "example.com")
			}
			if n, _, err := b.TakeBytes(ctx, 10); n < 0 || n > 10 || err == nil && n == 0 {
				t.Errorf("%d of 10 bytes, %v", n, err)
			}
		}
		_, _ = b.Usage(ctx)
		_ = b.Check(ctx, "example.com", time.Now())
	})
}
