package redislimit

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/vmihailenco/msgpack/v5"

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
	answer := func(fields map[string]any) {
		raw, err := msgpack.Marshal(fields)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	const huge = int64(1 << 62)
	host := map[string]any{"next": huge, "block": -huge, "single": true, "version": 7, "rest": "x", "since": 1.5}
	answer(map[string]any{"kind": "go"})
	answer(map[string]any{"kind": "go", "at": time.Now().UnixMicro(), "guard": int64(1 << 40), "slots": 1, "host": host})
	answer(map[string]any{"kind": "go", "at": -huge, "guard": huge, "delay": -huge, "slots": -1, "prev": huge, "host": host})
	answer(map[string]any{"kind": "wait", "place": huge, "why": "b", "full": huge, "expiry": 5, "first": -huge})
	answer(map[string]any{"kind": "at", "at": 1e300, "why": "b"})
	answer(map[string]any{"kind": "late", "at": -huge, "why": "d", "host": host})
	answer(map[string]any{"kind": "ok", "at": huge, "host": host})
	answer(map[string]any{"kind": "stored", "latest": huge, "host": host})
	answer(map[string]any{"kind": "broken", "err": "key: of the wrong type"})
	f.Add([]byte("\xdd\xff\xff\xff\xff\x01"))
	f.Add([]byte("\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x01"))
	f.Fuzz(func(t *testing.T, noise []byte) {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		defer client.Close()
		client.AddHook(answering(func(payload string) any {
			var call map[string]any
			_ = msgpack.Unmarshal([]byte(payload), &call)
			head := packed(t, map[string]any{"now": time.Now().UnixMicro(), "gen": "run", "call": call["call"], "listeners": 1})
			return "\x85" + head[1:] + "\xa7answers\x91" + string(noise)
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
