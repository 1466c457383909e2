package redislimit

import (
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// TestEachProcessHasItsPartOfMaxInFlight, at least one; without it there is no bound.
func TestEachProcessHasItsPartOfMaxInFlight(t *testing.T) {
	client := impatient(t, "localhost:1")
	for _, c := range []struct{ all, processes, want int }{
		{7, 0, 7}, {7, 1, 7}, {7, 3, 2}, {2, 3, 1}, {0, 3, 0},
	} {
		l, err := idleLimiter(Config{Client: client, Processes: c.processes, Limits: hostlimit.Config{MaxInFlight: c.all}}, -1, time.Now())
		if err != nil || l.limits.MaxInFlight != c.want {
			t.Errorf("MaxInFlight %d, %d processes: %d, %v", c.all, c.processes, l.limits.MaxInFlight, err)
		}
	}
}
