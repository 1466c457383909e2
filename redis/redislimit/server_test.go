package redislimit

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/redistest"
)

// quarantine is that of a hasty client.
const quarantine = 2 * time.Second

// shared is the server of the tests that don't harm it.
var shared *redistest.Server

func TestMain(m *testing.M) {
	if work := os.Getenv(workerEnv); work != "" {
		worker(work)
		return
	}
	// These tests wait more than they compute.
	wide := max(6, runtime.GOMAXPROCS(0))
	if err := flag.Set("test.parallel", strconv.Itoa(wide)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	redistest.Main(m, &shared)
}

// born is the origin of the clock of a process that has run for an hour: a time that is counted from
// there isn't taken for one that is counted from now.
func born() time.Time { return time.Now().Add(-time.Hour) }

// ownServer starts a server for one test.
func ownServer(t *testing.T, args ...string) *redistest.Server {
	t.Helper()
	return redistest.New(t, args...)
}

// patience is that of a client which waits for longer than Shutdown and a busy machine together.
const patience = 30 * time.Second

// hasty is that of a client which gives up calls, and of those of the workers.
const hasty = time.Second

func newClient(t testing.TB, s *redistest.Server) *redis.Client {
	t.Helper()
	return clientWith(t, s, patience)
}

func clientWith(t testing.TB, s *redistest.Server, timeout time.Duration) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr, ReadTimeout: timeout})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// newTest returns a Limiter on keys of its own, without the quarantine of a first use.
func newTest(t testing.TB, s *redistest.Server, limits hostlimit.Config) *Limiter {
	t.Helper()
	return newFleet(t, s, Config{Limits: limits}, 1)[0]
}

// newFleet returns n Limiters as of n processes, which wait for an answer as long as a busy machine
// takes. Hooks are for their clients, one each: a client that is in use takes none.
func newFleet(t testing.TB, s *redistest.Server, c Config, n int, hooks ...redis.Hook) []*Limiter {
	t.Helper()
	return fleetWith(t, s, c, n, patience, hooks)
}

// hastyFleet is newFleet for tests of calls that are given up.
func hastyFleet(t testing.TB, s *redistest.Server, c Config, n int, hooks ...redis.Hook) []*Limiter {
	t.Helper()
	return fleetWith(t, s, c, n, hasty, hooks)
}

func fleetWith(t testing.TB, s *redistest.Server, c Config, n int, timeout time.Duration, hooks []redis.Hook) []*Limiter {
	t.Helper()
	c.Prefix = "test:" + t.Name() + fmt.Sprint(time.Now().UnixNano()) + ":"
	var fleet []*Limiter
	for i := range n {
		client := clientWith(t, s, timeout)
		if i < len(hooks) {
			client.AddHook(hooks[i])
		}
		c.Client = client
		l, err := newLimiter(c, 0, born())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		fleet = append(fleet, l)
	}
	return fleet
}
