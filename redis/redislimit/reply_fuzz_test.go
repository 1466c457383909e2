package redislimit

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tinylib/msgp/msgp"

	"github.com/go-politeness/politeness/hostlimit"
)

// answering is a hook that answers every script, of which it gets the payload, itself; nothing is dialed.
type answering func(payload string) any

func (answering) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nothing is dialed") }
}

func (a answering) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		if c, ok := cmd.(*redis.Cmd); ok {
			payload, _ := cmd.Args()[len(cmd.Args())-1].(string)
			c.SetVal(a(payload))
		}
		return nil
	}
}

func (answering) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return errors.New("nothing is piped") }
}

// FuzzReplies holds that no answer of a server, one of another version of step.lua for instance,
// panics or keeps a caller for longer than its context.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{})
	turn := func(values ...any) { f.Add([]byte(pack(values...))) }
	turn("GO")
	turn("GO", time.Now().UnixMicro(), int64(1<<40), 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, "", 0)
	turn("GO", int64(-1<<62), int64(1<<62), int64(-1<<62), -1, -1, 7, int64(1<<62), 0, 1, -5, 1.5, 1e300, 0, 0, 0, int64(1<<62), []any{}, 0)
	turn("WAIT", 0, 1, "b", int64(1<<62), 5)
	turn("AT", 1e300, "b", int64(1<<62))
	turn("LATE", int64(-1<<62), "d", 3)
	turn("ERR", "key: of the wrong type")
	f.Add([]byte("\xdd\xff\xff\xff\xff\x01"))
	f.Add([]byte("\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x01"))
	f.Fuzz(func(t *testing.T, noise []byte) {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		defer client.Close()
		client.AddHook(answering(func(payload string) any {
			var call any
			if list := parse(payload); list != nil {
				head, _ := list[0].([]any)
				call = head[len(head)-1]
			}
			head := pack(time.Now().UnixMicro(), "run", false, 1, false, call)
			return string(msgp.AppendArrayHeader(nil, replyHead+1)) + head[1:] + string(noise)
		}))
		l, err := New(Config{Client: client, Limits: hostlimit.Config{MaxWait: time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		_, _ = l.Next(ctx, "example.com", 0)
		lease, err := l.Acquire(ctx, "example.com", 0)
		if err != nil {
			return
		}
		if _, err := lease.Start(ctx); err == nil {
			lease.Observe(hostlimit.Outcome{Status: 429})
		}
		lease.Release()
	})
}
