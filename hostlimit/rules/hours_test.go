package rules

import (
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// TestHours asks at what time of the day the next request may start, and for how long of two days none.
func TestHours(t *testing.T) {
	const h = time.Hour
	midnight := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		windows          Hours
		at, wait, closed time.Duration // closed of the next two days
	}{
		{nil, h, 0, 0},
		{Hours{window(0, 24*h)}, 5 * h, 0, 0},
		{Hours{window(9*h, 17*h)}, 8 * h, h, 32 * h},
		{Hours{window(9*h, 17*h)}, 9*h - 90*time.Second - 5, 90*time.Second + 5, 32 * h},
		{Hours{window(9*h, 17*h)}, 9 * h, 0, 32 * h},
		{Hours{window(9*h, 17*h)}, 17*h - 1, 0, 32 * h},
		{Hours{window(9*h, 17*h)}, 17 * h, 16 * h, 32 * h},
		{Hours{window(22*h, 6*h)}, 5 * h, 0, 32 * h},
		{Hours{window(22*h, 6*h)}, 12 * h, 10 * h, 32 * h},
		{Hours{window(22*h, 6*h)}, 23 * h, 0, 32 * h},
		{Hours{window(22*h, 0)}, 23 * h, 0, 44 * h},
		{Hours{window(1*h, 2*h), window(13*h, 14*h), window(13*h, 15*h)}, 12 * h, h, 42 * h},
		{Hours{window(0, 1)}, 1, 24*h - 1, 48*h - 2},
	} {
		at := midnight.Add(c.at).In(time.FixedZone("", 3600))
		if got := c.windows.Wait(at); got != c.wait {
			t.Errorf("%v at %v: open in %v, want %v", c.windows, c.at, got, c.wait)
		}
		if got := c.windows.Closed(at, 48*h); got != c.closed {
			t.Errorf("%v from %v: closed for %v of two days, want %v", c.windows, c.at, got, c.closed)
		}
	}
}

func window(from, to time.Duration) hostlimit.Window { return hostlimit.Window{From: from, To: to} }
