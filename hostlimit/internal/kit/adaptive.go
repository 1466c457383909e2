package kit

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Adaptive is a hostlimit.Adaptive: a set of formulas, of which the longest delay holds.
type Adaptive struct {
	set      formulas
	factor   float64 // of proportional
	parallel float64 // target of throttle
}

// formulas is a set of bits. The zero one learns from refusals, so that bit says that
// an Adaptive doesn't.
type formulas uint8

const (
	unlearned formulas = 1 << iota
	squared
	proportional
	throttle

	byLatency = squared | proportional | throttle
)

var (
	// Fixed doesn't move a delay.
	Fixed = Adaptive{set: unlearned}
	// Learned moves a delay with the refusals of its host.
	Learned Adaptive
	// Squared waits the square of the last response time in seconds.
	Squared = Adaptive{set: unlearned | squared}
)

// Proportional moves half the way to f times the last response time.
func Proportional(f float64) Adaptive { return Adaptive{set: unlearned | proportional, factor: f} }

// Throttle aims at target requests at once in the mean.
func Throttle(target float64) Adaptive { return Adaptive{set: unlearned | throttle, parallel: target} }

// Longest joins the formulas of a and b. Of two of one kind, the same one is always the longer.
func Longest(a, b Adaptive) Adaptive {
	l := Adaptive{
		set:      a.set&b.set&unlearned | (a.set|b.set)&byLatency,
		factor:   cmp.Or(a.factor, b.factor),
		parallel: cmp.Or(a.parallel, b.parallel),
	}
	if a.set&b.set&proportional != 0 {
		l.factor = max(a.factor, b.factor)
	}
	if a.set&b.set&throttle != 0 {
		l.parallel = min(a.parallel, b.parallel)
	}
	return l
}

// Learns reports whether the delay is moved by refusals.
func (a Adaptive) Learns() bool { return a.set&unlearned == 0 }

// parts returns the Go expressions of the formulas of a.
func (a Adaptive) parts() (parts []string) {
	if a.Learns() {
		parts = append(parts, "Learned")
	}
	if a.set&squared != 0 {
		parts = append(parts, "Squared")
	}
	if a.set&proportional != 0 {
		parts = append(parts, fmt.Sprintf("Proportional(%v)", a.factor))
	}
	if a.set&throttle != 0 {
		parts = append(parts, fmt.Sprintf("Throttle(%v)", a.parallel))
	}
	if len(parts) == 0 {
		return []string{"Fixed"}
	}
	return parts
}

// Text returns a as a file of overrides has it: "learned+proportional(1)".
func (a Adaptive) Text() string {
	parts := a.parts()
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(part, "e+", "e") // an exponent, where a plus would end the part
	}
	return strings.ToLower(strings.Join(parts, "+"))
}

// ParseAdaptive reads what Text writes.
func ParseAdaptive(s string) (Adaptive, error) {
	var all Adaptive
	for i, part := range strings.Split(strings.ToLower(s), "+") {
		var a Adaptive
		name, argument, _ := strings.Cut(strings.TrimSuffix(part, ")"), "(")
		number, err := strconv.ParseFloat(argument, 64)
		switch {
		case part == "fixed":
			a = Fixed
		case part == "learned":
			a = Learned
		case part == "squared":
			a = Squared
		case name == "proportional" && err == nil:
			a = Proportional(number)
		case name == "throttle" && err == nil:
			a = Throttle(number)
		default:
			return Adaptive{}, fmt.Errorf("%q is none of fixed, learned, squared, proportional(2), throttle(2)", part)
		}
		if i > 0 {
			a = Longest(all, a)
		}
		all = a
	}
	return all, all.validate()
}

// String returns the Go expression that makes a.
func (a Adaptive) String() string {
	parts := a.parts()
	s := parts[len(parts)-1]
	for i := len(parts) - 2; i >= 0; i-- {
		s = fmt.Sprintf("Longest(%s, %s)", parts[i], s)
	}
	return s
}

func (a Adaptive) validate() error {
	bad := func(f formulas, parameter float64) bool {
		return a.set&f != 0 && !(parameter > 0 && parameter <= math.MaxFloat64)
	}
	if bad(proportional, a.factor) || bad(throttle, a.parallel) {
		return fmt.Errorf("%v: want a positive number", a)
	}
	return nil
}

// Calm is the number of starts without a refusal after which a learned delay gets shorter.
const Calm = 20

// Learn returns the delay that the first refusal of a series teaches: one and a half
// times the delay in force, or the mean gap of the starts since the last block, where that
// is longer. since is the time since then (since the first start, where there was no
// block), starts the number of starts in it.
func (l *Limits) Learn(inForce, since time.Duration, starts int64) time.Duration {
	d := min(max(inForce, l.Min), l.Ceiling)
	d += min(d/2, l.Ceiling-d)
	if starts > 0 {
		d = max(d, since/time.Duration(starts))
	}
	return min(d, l.Ceiling)
}

// Ease returns the learned delay after Calm starts without a refusal: 2 % less, and 0
// (nothing is left of it) at Min.
func (l *Limits) Ease(learned time.Duration) time.Duration {
	if learned -= learned / 50; learned > max(l.Min, 50) { // below that 2 % are nothing
		return learned
	}
	return 0
}

// A Move is what an exchange does to a delay by response times, whatever that was before.
// It counts in nanoseconds, and in float64, which holds every product of durations.
type Move struct {
	AtOnce  float64 // the delay is at least that long,
	Halfway float64 // and at least half the way to that, from what it was; negative: there is no such
	Raise   bool    // and it gets no shorter
}

// Move returns what o does to the delay by response times, and whether it does anything.
// Errors and answers of status 400 and more never lower it: a host that fails fast isn't asked
// faster. An exchange without an answer counts with the time that it took, also where the
// caller's timeout ended it; one that the caller cancelled doesn't.
func (a Adaptive) Move(o *Outcome) (m Move, moves bool) {
	answered := o.Status > 0
	if a.set&byLatency == 0 || !answered && (o.Err == nil || cancelled(o.Err)) {
		return Move{}, false
	}
	latency := max(0, float64(o.Latency))
	m = Move{Halfway: -1, Raise: !answered || o.Status >= 400}
	if a.set&squared != 0 {
		m.AtOnce = latency * (latency / float64(time.Second))
	}
	if a.set&proportional != 0 {
		m.Halfway = latency * a.factor
	}
	if a.set&throttle != 0 {
		t := latency / a.parallel
		m.AtOnce, m.Halfway = max(m.AtOnce, t), max(m.Halfway, t)
	}
	return m, true
}

// from is the delay after m where it was old, within [least, most]. It rounds only what is in
// range, so nothing overflows.
func (m Move) from(old, least, most time.Duration) time.Duration {
	d := m.AtOnce
	if m.Halfway >= 0 {
		d = max(d, (float64(max(old, least))+m.Halfway)/2)
	}
	next := most
	if d < float64(most) {
		next = max(least, time.Duration(d))
	}
	if m.Raise {
		next = max(next, old)
	}
	return next
}

// Adapt returns the delay by response times after o, where it was old.
func (l *Limits) Adapt(old time.Duration, o Outcome) time.Duration {
	if l.Adaptive.set&byLatency == 0 {
		return old // the way of most, which is inlined
	}
	return l.adapt(old, &o)
}

func (l *Limits) adapt(old time.Duration, o *Outcome) time.Duration {
	if m, moves := l.Adaptive.Move(o); moves {
		return m.from(old, l.Min, l.Ceiling)
	}
	return old
}
