package redislimit

import (
	"math"
	"testing"
	"time"
)

// TestNumbersOfTheServerAreRoundedUp, as a gap may only grow by it; what step.lua can't have computed is
// nothing.
func TestNumbersOfTheServerAreRoundedUp(t *testing.T) {
	for _, c := range []struct {
		v    any
		want int64
	}{
		{int64(-3), -3},
		{uint64(3), 3},
		{float32(1.5), 2},
		{1.25, 2},
		{-1.25, -1},
		{0.0, 0},
		{float64(1<<53 - 1), 1<<53 - 1},
		{float64(1 << 53), 0},
		{-float64(1 << 53), 0},
		{1e300, 0},
		{math.Inf(-1), 0},
		{math.NaN(), 0},
		{"3", 0},
		{nil, 0},
		{true, 0},
	} {
		if got := number(c.v); got != c.want {
			t.Errorf("number(%v) = %d, want %d", c.v, got, c.want)
		}
	}
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, 2000: 2, 2001: 3, -2001: -2, math.MaxInt64: 1 << 52} {
		if got := micros(d); got != want {
			t.Errorf("micros(%d) = %d, want %d", d, got, want)
		}
	}
}
