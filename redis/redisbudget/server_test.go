package redisbudget

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/internal/redistest"
)

// shared is the server of the tests that don't harm it.
var shared *redistest.Server

func TestMain(m *testing.M) {
	if work := os.Getenv(workerEnv); work != "" {
		worker(work)
		return
	}
	redistest.Main(m, &shared)
}

func newClient(t testing.TB, s *redistest.Server) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
