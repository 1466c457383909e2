package politeness

import (
	"testing"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// TestCachesOfAKinAreBounded also if each Transport brings a Store of its own.
func TestCachesOfAKinAreBounded(t *testing.T) {
	hosts, err := memory.New(hostlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * maxCaches {
		transport, err := New(Config{
			UserAgent: "AuditBot/1.0 (+https://example.com/bot)",
			Limiter:   hosts,
			Robots:    robotscache.Config{Store: &noStore{}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(transport.kin.caches); n > maxCaches {
			t.Fatalf("%d caches", n)
		}
	}
}

// A noStore is never asked.
type noStore struct {
	robotscache.Store
	_ byte // so that no two are the same
}
