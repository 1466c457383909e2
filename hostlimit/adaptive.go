package hostlimit

import (
	"fmt"
	"math"
	"time"
)

// Adaptive moves the delay of a key with the response times of its host, so
// that a host that grows slow is asked less often. The zero value doesn't.
// Slower answers raise the delay at once, quicker ones lower it from the next
// start on, and answers of status 400 and more never lower it: a host that
// fails fast isn't asked faster. The result stays within Delay.Min and
// Delay.Ceiling.
//
// Adaptive values are comparable and print as what they are.
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

// Squared waits the square of the last response time in seconds: 250 ms after
// half a second, 9 s after three.
var Squared = Adaptive{kind: squared}

// Proportional waits f times the last response time, as Heritrix does with a
// factor of 5.
func Proportional(f float64) Adaptive { return Adaptive{proportional, f} }

// Throttle aims at target requests at once in the mean, as Scrapy's AutoThrottle
// does: t = latency/target; the new delay is max(t, (old+t)/2), so it rises at
// once and comes down by halves.
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
func (a Adaptive) next(old, latency time.Duration, least, most int64) int64 {
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
	return max(least, int64(d))
}
