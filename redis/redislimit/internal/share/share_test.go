package share

import (
	"math"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

func TestShareOfTheLimits(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		own  hostlimit.Limits
		n    int
		want hostlimit.Limits
	}{
		{hostlimit.Limits{}.WithDefaults(), 2, hostlimit.Limits{Concurrency: 1, Delay: hostlimit.Delay{Min: 400 * ms, Max: time.Second, Ceiling: 2 * time.Minute}}},
		{hostlimit.Limits{Concurrency: 7}.WithDefaults(), 3, hostlimit.Limits{Concurrency: 2, Delay: hostlimit.Delay{Min: 600 * ms, Max: 1500 * ms, Ceiling: 3 * time.Minute}}},
		{hostlimit.Limits{Concurrency: 2, Delay: hostlimit.Delay{Min: 2 * time.Minute}}.WithDefaults(), 4, hostlimit.Limits{Concurrency: 1, Delay: hostlimit.Delay{Min: 8 * time.Minute, Max: 8 * time.Minute, Ceiling: 8 * time.Minute}}},
		{hostlimit.Limits{Delay: hostlimit.Delay{DangerouslyNone: true}}.WithDefaults(), 4, hostlimit.Limits{Concurrency: 1, Delay: hostlimit.Delay{DangerouslyNone: true, Ceiling: 4 * time.Minute}}},
		{hostlimit.Limits{}, 4, hostlimit.Limits{}},
		{hostlimit.Limits{Concurrency: 8}, 4, hostlimit.Limits{Concurrency: 2}},
		{hostlimit.Limits{Concurrency: -1}, 4, hostlimit.Limits{Concurrency: -1}},
		{hostlimit.Limits{Delay: hostlimit.Delay{Min: math.MaxInt64}}, 4, hostlimit.Limits{Concurrency: 0, Delay: hostlimit.Delay{Min: Longest, Max: Longest, Ceiling: Longest}}},
	} {
		if got := Limits(c.own, c.n); got != c.want {
			t.Errorf("a share of %d of %+v: %+v, want %+v", c.n, c.own, got, c.want)
		}
	}
}

func TestTimesStopsAtTheLongest(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		n    int
		want time.Duration
	}{
		{5, 3, 15},
		{1 << 60, 2, Longest},
		{Longest / 7, 7, Longest / 7 * 7},
		{Longest/3 + 1, 3, Longest},
		{math.MaxInt64, math.MaxInt32, Longest},
	} {
		if got := Times(c.d, c.n); got != c.want {
			t.Errorf("%d times %d is %d, want %d", c.n, c.d, got, c.want)
		}
	}
}
