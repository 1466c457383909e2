package redislimit

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/hostlimittest"
	"github.com/go-politeness/politeness/internal/redistest"
)

// sharing makes each Limiter of a test a process of one fleet. Those before go on living, and what
// they are calling the server for, such as a Release, is there before the next one begins.
func sharing(t *testing.T, s *redistest.Server) hostlimittest.New {
	prefix := "test:" + t.Name() + fmt.Sprint(time.Now().UnixNano()) + ":"
	var before sync.Map // the last Limiter of each test
	return func(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter {
		if l, ok := before.Load(t); ok {
			answered(t, l.(*Limiter))
		}
		l, err := newLimiter(Config{Client: newClient(t, s), Prefix: prefix, Limits: cfg}, 0, born())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		before.Store(t, l)
		return l
	}
}

// answered waits until a process has nothing to tell that can't wait, and all its calls are answered.
func answered(t testing.TB, l *Limiter) {
	t.Helper()
	p := l.parts[0]
	eventually(t, 10*time.Second, "the calls of a process are answered", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return p.timer == nil && p.sent.underWay == 0
	})
}

func TestPromises(t *testing.T) {
	hostlimittest.Run(t, func(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter {
		return newTest(t, shared, cfg)
	})
}

// TestRestarts lets processes end at any step: what they owe is on the server.
func TestRestarts(t *testing.T) { hostlimittest.RunRestarts(t, nil, sharing(t, shared)) }
