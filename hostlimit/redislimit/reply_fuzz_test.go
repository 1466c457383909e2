package redislimit

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
)

// answering is a hook that answers every script itself; nothing is dialed.
type answering func() any

func (answering) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nothing is dialed") }
}

func (a answering) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		if c, ok := cmd.(*redis.Cmd); ok {
			c.SetVal(a())
		}
		return nil
	}
}

func (answering) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return errors.New("nothing is piped") }
}

// values makes what a server could answer out of noise.
func values(noise *[]byte, depth int) []any {
	words := []string{"GO", "AT", "WAIT", "PROBE", "LATE", "b", "d", "", "\x00", "1e9"}
	next := func() (b byte) {
		if len(*noise) > 0 {
			b, *noise = (*noise)[0], (*noise)[1:]
		}
		return b
	}
	var all []any
	for range next() % 24 {
		switch kind := next(); kind % 5 {
		case 0:
			all = append(all, int64(int8(next()))<<(next()%64))
		case 1:
			all = append(all, words[int(next())%len(words)])
		case 2:
			all = append(all, strconv.FormatInt(int64(int8(next()))<<(next()%64), 10))
		case 3:
			all = append(all, nil)
		case 4:
			if depth > 0 {
				all = append(all, values(noise, depth-1))
			}
		}
	}
	return all
}

// FuzzReplies holds that no answer of a server, one of another version of step.lua for instance,
// panics or keeps a caller for longer than its context.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x01\x00"))                                             // GO, and nothing else
	f.Add([]byte("\x11\x01\x00" + strings.Repeat("\x02\x01\x00", 16)))        // a turn
	f.Add([]byte("\x06\x01\x02\x02\x01\x01\x00\x00\x3f\x01\x05\x02\x7f\x3e")) // WAIT
	f.Add([]byte("\x03\x01\x04\x02\x01\x3e\x01\x05"))                         // LATE
	f.Fuzz(func(t *testing.T, noise []byte) {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		defer client.Close()
		client.AddHook(answering(func() any {
			rest := noise
			return []any{time.Now().UnixMicro(), "run", "0", values(&rest, 1)}
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
