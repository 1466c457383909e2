package hostlimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Adaptive is the formula that changes the delay of a key. Learned, the zero value, follows the
// refusals of the host. Squared, Proportional, Slower and Throttle follow its response times, so
// that a slow host gets fewer requests. Longest joins several formulas. Fixed never changes the
// delay.
//
// A longer delay applies immediately, a shorter one from the next start on. A response of status
// 400 or more, or no response, never shortens a delay, so that a host that fails fast doesn't get
// requests faster. An unsure response, such as a 5xx or none, counts only if there was a refusal or
// another unsure response since the last success. Otherwise only that request may have been slow.
// An exchange that the caller's own timeout ended always counts. If there is no response, the time
// until the failure counts. The result stays within Delay.Min and Delay.Ceiling.
//
// Adaptive values are comparable and print as the Go expressions that make them.
type Adaptive struct {
	set      formulas
	factor   float64 // of proportional
	slowed   float64 // factor of slower
	parallel float64 // target of throttle
}

// formulas is a set of bits. Zero learns from refusals. The bit unlearned switches that off.
type formulas uint8

const (
	unlearned formulas = 1 << iota
	squared
	proportional
	slower
	throttle

	byLatency = squared | proportional | slower | throttle
)

var (
	// Fixed leaves the delay as it is. For hosts whose rate is agreed upon.
	Fixed = Adaptive{set: unlearned}

	// Learned finds the rate that a host allows, and costs nothing if the host never refuses. The
	// delay changes in these ways:
	//
	//   - A 429 makes the delay at least one and a half times as long. A 5xx, or no response, does
	//     so too if the same page is served later.
	//   - A ban makes the delay two to four times as long.
	//   - If a page is served 20 s or more after the last change of the delay, the delay gets 2 %
	//     shorter. After a ban it takes 3 min instead of 20 s. Every five such steps without a
	//     refusal double the step, up to 16 %, but not after a ban.
	Learned Adaptive

	// Squared waits the square of the last response time in seconds, for example 250 ms after half
	// a second, and 9 s after three. Use it to be far gentler to a slow host than to a fast one.
	Squared = Adaptive{set: unlearned | squared}
)

// Proportional adapts the delay to the response time. Use it to send fewer requests to a slow host.
// Each response moves the delay half the way to f times the response time. Heritrix uses 5 for f.
func Proportional(f float64) Adaptive { return Adaptive{set: unlearned | proportional, factor: f} }

// Slower is Proportional for responses that are slower than usual. Use it for many hosts of which
// some are slow by nature. The delay of a host that is always slow doesn't grow, so all its slots
// stay in use. A response of up to one and a half times the usual time doesn't count. Of a response
// of three times the usual time or more, the whole time counts. Between the two, twice the response
// time less three times the usual time counts. The usual time begins with the first page served. A
// faster page moves the usual time down by an eighth of the difference. A slower page moves it up
// by a 256th of the difference.
func Slower(f float64) Adaptive { return Adaptive{set: unlearned | slower, slowed: f} }

// Throttle aims at a mean of target concurrent requests, as Scrapy's AutoThrottle does. With t =
// latency/target the new delay is max(t, (old+t)/2). So it rises immediately and comes down by
// halves. Use it for a crawler that had AutoThrottle before.
func Throttle(target float64) Adaptive { return Adaptive{set: unlearned | throttle, parallel: target} }

// Longest takes the longer delay of a and b. For example, Longest(Learned, Proportional(1)) learns
// from refusals and follows the response times. Some formulas, such as Throttle, compute the new
// delay from the old one. In Longest all formulas of response times have the same old delay, which
// is the longest of their last results. If a and b are of one kind, Longest keeps the formula with
// the longer delay. Use it to combine two formulas.
func Longest(a, b Adaptive) Adaptive {
	return Adaptive{
		set:      a.set&b.set&unlearned | (a.set|b.set)&byLatency,
		factor:   max(a.factor, b.factor),
		slowed:   max(a.slowed, b.slowed),
		parallel: cmp.Or(min(a.parallel, b.parallel), max(a.parallel, b.parallel)), // 0: there is none
	}
}

// Learns reports whether refusals move the delay. It is for implementers of Limiter.
func (a Adaptive) Learns() bool { return a.set&unlearned == 0 }

// ByLatency reports whether response times move the delay. It is for implementers of Limiter.
func (a Adaptive) ByLatency() bool { return a.set&byLatency != 0 }

// String returns the Go expression that makes a.
func (a Adaptive) String() string {
	var parts []string
	if a.set&throttle != 0 {
		parts = append(parts, fmt.Sprintf("Throttle(%v)", a.parallel))
	}
	if a.set&slower != 0 {
		parts = append(parts, fmt.Sprintf("Slower(%v)", a.slowed))
	}
	if a.set&proportional != 0 {
		parts = append(parts, fmt.Sprintf("Proportional(%v)", a.factor))
	}
	if a.set&squared != 0 {
		parts = append(parts, "Squared")
	}
	if a.Learns() {
		parts = append(parts, "Learned")
	}
	if len(parts) == 0 {
		return "Fixed"
	}
	s := parts[0]
	for _, part := range parts[1:] {
		s = fmt.Sprintf("Longest(%s, %s)", part, s)
	}
	return s
}

func (a Adaptive) validate() error {
	bad := func(f formulas, parameter float64) bool {
		return a.set&f != 0 && !(parameter > 0 && parameter <= math.MaxFloat64)
	}
	if bad(proportional, a.factor) || bad(slower, a.slowed) || bad(throttle, a.parallel) {
		return fmt.Errorf("%v: want a positive number", a)
	}
	return nil
}

// Move returns the effect of o on the delay by response times. The argument usual is the time that
// a page of the key usually takes, o included (rules.Usual). The new delay is at least atOnce. If
// halfway isn't negative, it is also at least half the way from the old delay to halfway. If raise
// is true, the delay gets no shorter. The results atOnce and halfway are nanoseconds. They are
// float64, because a product of durations may be too large for a Duration. If the outcome leaves
// the delay alone, moves is false.
//
// It is for a Limiter that changes the delay elsewhere, such as in a script on a server. Others use
// rules.Adapt.
func (a Adaptive) Move(usual time.Duration, o *Outcome) (atOnce, halfway float64, raise, moves bool) {
	answered := o.Status > 0
	gaveUp := !answered && (o.Err == nil || errors.Is(o.Err, context.Canceled))
	if a.set&byLatency == 0 || gaveUp {
		return 0, 0, false, false
	}
	latency := max(0, float64(o.Latency))
	halfway = -1                         // -1: no formula wants the delay to move halfway to its result
	raise = !answered || o.Status >= 400 // a host that fails fast isn't asked faster
	if a.set&squared != 0 {
		atOnce = latency * (latency / float64(time.Second))
	}
	if a.set&proportional != 0 {
		halfway = latency * a.factor
	}
	if a.set&slower != 0 {
		// Up to 1.5 times the usual time, nothing of latency counts. From three times on, all of it
		// does.
		above := 2*latency - 3*float64(usual)
		halfway = max(halfway, a.slowed*min(latency, max(0, above)))
	}
	if a.set&throttle != 0 {
		t := latency / a.parallel
		atOnce = max(atOnce, t)
		halfway = max(halfway, t)
	}
	return atOnce, halfway, raise, true
}
