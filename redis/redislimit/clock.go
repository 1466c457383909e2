package redislimit

import (
	"time"

	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// drift is how much two clocks may differ in speed.
const drift = 200e-6

// slewed is the largest slip of a clock that is being slewed; a larger one was a step.
const slewed = 20 * time.Millisecond

// A serverClock bounds the server's clock on this process's monotonic clock. A reply that carries
// the server's time T, to a call that was sent at t0 and answered at t1, proves that T was between
// the two; all such proofs together keep the bounds narrower than any round trip. The wall clock of
// this process is not consulted.
//
// Times of the server are microseconds, as in step.lua; times of this process
// are durations since the limiter was made.
type serverClock struct {
	known  bool
	at     time.Duration // when the bounds were drawn; they widen with drift
	lo, hi time.Duration // bounds of server time minus monotonic time
}

// bounds returns the bounds of server time minus monotonic time at now.
func (c *serverClock) bounds(now time.Duration) (lo, hi time.Duration) {
	// Either clock may have been slow since, so both bounds move apart.
	widen := time.Duration(drift * float64(now-c.at))
	return c.lo - widen, c.hi + widen
}

// learn narrows the bounds: the server's clock showed us microseconds between sent and received. It
// returns by how much that contradicts the bounds: zero unless the server's clock was stepped or
// slewed, or another server answered.
func (c *serverClock) learn(sent, received time.Duration, us wire.Micros) (slip time.Duration) {
	// The reply was made after sent and before received. Its time is cut to a microsecond, so the
	// clock may have shown almost one more.
	shown := time.Duration(us) * time.Microsecond
	lo := shown - received
	hi := shown + time.Microsecond - sent
	if c.known {
		oldLo, oldHi := c.bounds(received)
		switch {
		case lo > oldHi:
			slip = lo - oldHi
		case hi < oldLo:
			slip = hi - oldLo
		default:
			// Both proofs hold. With a slip, only the new one does.
			lo = max(lo, oldLo)
			hi = min(hi, oldHi)
		}
	}
	c.known = true
	c.at = received
	c.lo = lo
	c.hi = hi
	return slip
}

// surely returns the monotonic time from which the server's clock surely shows at least us.
func (c *serverClock) surely(us wire.Micros, now time.Duration) time.Duration {
	lo, _ := c.bounds(now)
	return time.Duration(us)*time.Microsecond - lo
}

// earliest returns the monotonic time before which the server's clock surely doesn't show us.
func (c *serverClock) earliest(us wire.Micros, now time.Duration) time.Duration {
	_, hi := c.bounds(now)
	return time.Duration(us)*time.Microsecond - hi
}

// uncertainty returns the width of the bounds.
func (c *serverClock) uncertainty(now time.Duration) time.Duration {
	if !c.known {
		return maxGuard
	}
	lo, hi := c.bounds(now)
	return hi - lo
}

// The smallest and largest guard. A guard of 50 ms is a machine so loaded that nothing else helps.
const (
	minGuard = 300 * time.Microsecond
	maxGuard = 50 * time.Millisecond

	// firstLate is the expected lateness before any was seen.
	firstLate = 1500 * time.Microsecond

	// mostDoubled bounds how often misses in a row double a guard.
	mostDoubled = 6
)

// A guard is how late after its start time a request may still start: the
// server leaves that much room on top of a delay until it has the start. A start that comes
// later asks again. The guard follows the lateness that this process sees, near its
// 90th percentile: a larger one slows every host down, a smaller one costs calls.
type guard struct {
	late   time.Duration
	misses int // starts that came too late, in a row
}

// saw moves the guard by a start that was noticed so late.
func (g *guard) saw(late time.Duration) {
	// One long stall proves nothing about the next start.
	late = min(max(late, 0), 2*g.late+time.Millisecond)
	// Up eight times as fast as down, which ends near the 90th percentile.
	if late > g.late {
		g.late += (late - g.late) / 8
	} else {
		g.late -= (g.late - late) / 64
	}
	g.late = min(g.late, maxGuard)
}

// allow returns the guard for the next start, while the server's clock is known up to uncertainty.
// The uncertainty and the misses keep a guard from being shorter than this process can keep to.
func (g *guard) allow(uncertainty time.Duration) time.Duration {
	d := max(g.late+g.late/4, minGuard) + min(uncertainty, maxGuard)
	return min(d<<min(g.misses, mostDoubled), 10*maxGuard)
}

// now is the time on this process's monotonic clock.
func (l *Limiter) now() time.Duration { return time.Since(l.base) }
