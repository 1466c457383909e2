// Package clock knows the clock of a server by its replies, within bounds, and how late after its
// time a request may still start.
package clock

import (
	"time"

	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// drift is how much two clocks may differ in speed.
const drift = 200e-6

// Slewed is the largest slip of a clock that is being slewed; a larger one was a step.
const Slewed = 20 * time.Millisecond

// A Server bounds the server's clock on this process's monotonic clock. A reply that carries
// the server's time T, to a call that was sent at t0 and answered at t1, proves that T was between
// the two; all such proofs together keep the bounds narrower than any round trip. The wall clock of
// this process is not consulted.
//
// Times of the server are microseconds, as in step.lua; times of this process
// are durations since the limiter was made.
type Server struct {
	Known  bool
	At     time.Duration // when the bounds were drawn; they widen with drift
	Lo, Hi time.Duration // bounds of server time minus monotonic time
}

// Bounds returns the bounds of server time minus monotonic time at now.
func (c *Server) Bounds(now time.Duration) (lo, hi time.Duration) {
	// Either clock may have been slow since, so both bounds move apart.
	widen := time.Duration(drift * float64(now-c.At))
	return c.Lo - widen, c.Hi + widen
}

// Learn narrows the bounds: the server's clock showed us microseconds between sent and received. It
// returns by how much that contradicts the bounds: zero unless the server's clock was stepped or
// slewed, or another server answered.
func (c *Server) Learn(sent, received time.Duration, us wire.Micros) (slip time.Duration) {
	// The reply was made after sent and before received. Its time is cut to a microsecond, so the
	// clock may have shown almost one more.
	shown := time.Duration(us) * time.Microsecond
	lo := shown - received
	hi := shown + time.Microsecond - sent
	if c.Known {
		oldLo, oldHi := c.Bounds(received)
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
	c.Known = true
	c.At = received
	c.Lo = lo
	c.Hi = hi
	return slip
}

// Surely returns the monotonic time from which the server's clock surely shows at least us.
func (c *Server) Surely(us wire.Micros, now time.Duration) time.Duration {
	lo, _ := c.Bounds(now)
	return time.Duration(us)*time.Microsecond - lo
}

// Earliest returns the monotonic time before which the server's clock surely doesn't show us.
func (c *Server) Earliest(us wire.Micros, now time.Duration) time.Duration {
	_, hi := c.Bounds(now)
	return time.Duration(us)*time.Microsecond - hi
}

// Uncertainty returns the width of the bounds.
func (c *Server) Uncertainty(now time.Duration) time.Duration {
	if !c.Known {
		return MaxGuard
	}
	lo, hi := c.Bounds(now)
	return hi - lo
}

// The smallest and largest guard. A guard of 50 ms is a machine so loaded that nothing else helps.
const (
	minGuard = 300 * time.Microsecond
	MaxGuard = 50 * time.Millisecond

	// FirstLate is the expected lateness before any was seen.
	FirstLate = 1500 * time.Microsecond

	// mostDoubled bounds how often misses in a row double a guard.
	mostDoubled = 6
)

// A Guard is how late after its start time a request may still start: the
// server leaves that much room on top of a delay until it has the start. A start that comes
// later asks again. The guard follows the lateness that this process sees, near its
// 90th percentile: a larger one slows every host down, a smaller one costs calls.
type Guard struct {
	Late   time.Duration
	Misses int // starts that came too late, in a row
}

// Saw moves the guard by a start that was noticed so late.
func (g *Guard) Saw(late time.Duration) {
	// One long stall proves nothing about the next start.
	late = min(max(late, 0), 2*g.Late+time.Millisecond)
	// Up eight times as fast as down, which ends near the 90th percentile.
	if late > g.Late {
		g.Late += (late - g.Late) / 8
	} else {
		g.Late -= (g.Late - late) / 64
	}
	g.Late = min(g.Late, MaxGuard)
}

// Allow returns the guard for the next start, while the server's clock is known up to uncertainty.
// The uncertainty and the misses keep a guard from being shorter than this process can keep to.
func (g *Guard) Allow(uncertainty time.Duration) time.Duration {
	d := max(g.Late+g.Late/4, minGuard) + min(uncertainty, MaxGuard)
	return min(d<<min(g.Misses, mostDoubled), 10*MaxGuard)
}
