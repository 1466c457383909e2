package kit

import (
	"fmt"
	"math"
	"time"
)

// Adaptive is a hostlimit.Adaptive.
type Adaptive struct {
	kind   adaptiveKind
	factor float64
}

type adaptiveKind uint8

const (
	fixed adaptiveKind = iota
	squared
	proportional
	throttle
)

// Squared waits the square of the last response time in seconds.
var Squared = Adaptive{kind: squared}

// Proportional waits f times the last response time.
func Proportional(f float64) Adaptive { return Adaptive{proportional, f} }

// Throttle aims at target requests at once in the mean.
func Throttle(target float64) Adaptive { return Adaptive{throttle, target} }

// String returns the Go expression that makes a.
func (a Adaptive) String() string {
	switch a.kind {
	case squared:
		return "Squared"
	case proportional:
		return fmt.Sprintf("Proportional(%v)", a.factor)
	case throttle:
		return fmt.Sprintf("Throttle(%v)", a.factor)
	}
	return "none"
}

func (a Adaptive) validate() error {
	if a.kind >= proportional && !(a.factor > 0 && a.factor <= math.MaxFloat64) {
		return fmt.Errorf("%v: want a positive number", a)
	}
	return nil
}

// next is the delay after an answer that took latency, within [least, most].
// It computes in float64, which holds every product of durations, and rounds only what is in
// range, so nothing overflows.
func (a Adaptive) next(old, latency, least, most time.Duration) time.Duration {
	l := max(0, float64(latency))
	var d float64
	switch a.kind {
	case fixed:
		return 0
	case squared:
		d = l * (l / float64(time.Second))
	case proportional:
		d = l * a.factor
	case throttle:
		t := l / a.factor
		d = max(t, (max(float64(old), float64(least))+t)/2)
	}
	if d >= float64(most) {
		return most
	}
	return max(least, time.Duration(d))
}
