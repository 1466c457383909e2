package hostlimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Adaptive says what moves the delay of a key: the refusals of its host (Learned, which
// is the zero value), or its response times (Squared, Proportional, Slower, Throttle), so that a
// host that grows slow is asked less often. Longest joins several; Fixed is none.
//
// A longer delay holds at once, a shorter one from the next start on. Answers of status 400 and
// more, and exchanges without an answer, never lower a delay: a host that fails fast isn't asked
// faster. One without an answer counts with the time that it took, also where the caller's own
// timeout ended it, but a 5xx or none only from the second in a row on: one that a server has held
// up says nothing about its pages. The result stays within Delay.Min and Delay.Ceiling.
//
// Adaptive values are comparable and print as the Go expressions that make them.
type Adaptive struct {
	set      formulas
	factor   float64 // of proportional
	slowed   float64 // factor of slower
	parallel float64 // target of throttle
}

// formulas is a set of bits. The zero one learns from refusals; the bit unlearned switches that
// off.
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

	// Learned finds the rate that a host allows, and costs nothing where none refuses. A 429, or a 5xx
	// or none where the refused page is served later, makes the delay at least one and a half times as
	// long, a ban twice. A page that is served 20 s after that, or after the last such step, makes it
	// 2 % shorter, and more after five steps without a refusal.
	Learned Adaptive

	// Squared waits the square of the last response time in seconds: 250 ms after
	// half a second, 9 s after three.
	Squared = Adaptive{set: unlearned | squared}
)

// Proportional moves the delay half the way to f times the last response time at each answer, for
// crawls that ask a slow host less often. Heritrix waits 5 times that.
func Proportional(f float64) Adaptive { return Adaptive{set: unlearned | proportional, factor: f} }

// Slower is Proportional for what is slower than usual: a host that always takes long keeps all its
// slots busy. A time counts in part from one and a half times the usual one on, and whole from
// three times on. The usual one begins with the first page served, and each page moves it: an
// eighth of the way down, or a 256th of the way up.
func Slower(f float64) Adaptive { return Adaptive{set: unlearned | slower, slowed: f} }

// Throttle aims at target requests at once in the mean, as Scrapy's AutoThrottle does: t =
// latency/target; the new delay is max(t, (old+t)/2), so it rises at once and comes down by halves.
func Throttle(target float64) Adaptive { return Adaptive{set: unlearned | throttle, parallel: target} }

// Longest waits as long as a or b says, whichever is longer: Longest(Learned,
// Proportional(1)) learns from refusals and follows the response times. Delays by response
// times that move from the old one, such as Throttle, move from the longest of them.
// Of two formulas of one kind the one with the longer delay is kept.
func Longest(a, b Adaptive) Adaptive {
	return Adaptive{
		set:      a.set&b.set&unlearned | (a.set|b.set)&byLatency,
		factor:   max(a.factor, b.factor),
		slowed:   max(a.slowed, b.slowed),
		parallel: cmp.Or(min(a.parallel, b.parallel), max(a.parallel, b.parallel)), // 0: there is none
	}
}

// Learns reports whether refusals move the delay.
func (a Adaptive) Learns() bool { return a.set&unlearned == 0 }

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

// Move returns what o does to the delay by response times, whatever that was before, where pages
// usually take that long: the delay is at least atOnce and, unless halfway is negative, at least
// half the way from the old one to halfway; with raise it gets no shorter. Both are nanoseconds, as
// float64, which holds every product of durations. moves is false for an outcome that leaves the
// delay alone. It is for Limiters that keep the delay elsewhere; others use Delay.Adapt.
func (a Adaptive) Move(usual time.Duration, o *Outcome) (atOnce, halfway float64, raise, moves bool) {
	answered := o.Status > 0
	gaveUp := !answered && (o.Err == nil || errors.Is(o.Err, context.Canceled))
	if a.set&byLatency == 0 || gaveUp {
		return 0, 0, false, false
	}
	latency := max(0, float64(o.Latency))
	halfway = -1                         // no formula moves the delay half the way
	raise = !answered || o.Status >= 400 // a host that fails fast isn't asked faster
	if a.set&squared != 0 {
		atOnce = latency * (latency / float64(time.Second))
	}
	if a.set&proportional != 0 {
		halfway = latency * a.factor
	}
	if a.set&slower != 0 {
		// Nothing counts up to one and a half times the usual time, all from three times on.
		above := 2*latency - 3*float64(o.Usual(usual))
		halfway = max(halfway, a.slowed*min(latency, max(0, above)))
	}
	if a.set&throttle != 0 {
		t := latency / a.parallel
		atOnce = max(atOnce, t)
		halfway = max(halfway, t)
	}
	return atOnce, halfway, raise, true
}

// Usual returns how long pages of a key usually take to be answered, after o, where they usually
// took that long before; 0: not known. See Slower.
func (o *Outcome) Usual(before time.Duration) time.Duration {
	longer := o.Latency - before
	switch {
	case o.Status/100 != 2, o.Aside, o.Latency < 0: // no page, or no time
		return before
	case before == 0:
		return o.Latency
	case longer < 0:
		return before + longer/8
	}
	return before + longer/256 // slowly: a host that grows slow isn't soon as usual
}

// Adapt returns the delay by response times after o, where it was old before and pages of the key
// usually took that long.
func (d Delay) Adapt(old, usual time.Duration, o Outcome) time.Duration {
	atOnce, halfway, raise, moves := d.Adaptive.Move(usual, &o)
	if d.Adaptive.set&byLatency == 0 {
		return 0 // old is of other limits
	}
	if !moves {
		return old
	}
	next := atOnce
	if halfway >= 0 {
		next = max(next, (float64(max(old, d.Min))+halfway)/2)
	}
	adapted := d.Ceiling
	if next < float64(d.Ceiling) { // only a delay in range is rounded, so nothing overflows
		adapted = max(d.Min, time.Duration(next))
	}
	if raise {
		adapted = max(adapted, old)
	}
	return adapted
}

// Draw returns a delay in [Min, Max], picked at random.
func (d Delay) Draw() time.Duration {
	return d.Min + time.Duration(rand.Uint64N(uint64(d.Max-d.Min)+1)) // Max-Min+1 may not fit into an int64
}
