package redislimit

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/hostlimittest"
	"github.com/go-politeness/politeness/internal/redistest"
)

// sharing makes each Limiter of a test a process of one fleet. Those before go on living.
func sharing(t *testing.T, s *redistest.Server) hostlimittest.New {
	prefix := "test:" + t.Name() + fmt.Sprint(time.Now().UnixNano()) + ":"
	return func(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter {
		l, err := newLimiter(Config{Client: newClient(t, s), Prefix: prefix, Limits: cfg}, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
}

func TestPromises(t *testing.T) {
	hostlimittest.Run(t, func(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter {
		return newTest(t, shared, cfg)
	})
}

// TestRestarts lets processes end at any step: what they owe is on the server.
func TestRestarts(t *testing.T) { hostlimittest.RunRestarts(t, nil, sharing(t, shared)) }
