// Package hostlimittest tests an implementation of [hostlimit.Limiter] against the promises of a
// Limiter.
//
//	func TestPromises(t *testing.T) {
//		hostlimittest.Run(t, func(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter {
//			l, err := mylimiter.New(cfg)
//			if err != nil {
//				t.Fatal(err)
//			}
//			t.Cleanup(l.Close)
//			return l
//		})
//	}
//
// The scenarios need no particular clock. They run in real time within seconds, with delays of tens
// of milliseconds. They fail on starts that are too close, on too many requests in flight, on
// starts into a block, and on wrong reports of the limiter, but never because something is slow. So
// they don't flake on a busy machine. A scenario that fails prints the promise that it tests. A
// request that hasn't started after a minute fails its scenario. A Limiter that waits on channels
// and timers only can run in virtual time as well, see [RunIn].
//
// Grant.Start is compared with time.Now, so it is to be a stamp of this process,
// or of a clock that is as good.
package hostlimittest

import (
	"slices"
	"testing"

	"github.com/go-politeness/politeness/hostlimit"
)

// A New returns a fresh Limiter for cfg. It fails t if it can't. It closes the Limiter by
// t.Cleanup, if that is needed. Limiters of one test may share a store, because no two scenarios
// use the same key.
type New = func(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter

// Run runs every scenario as a parallel subtest of t, in real time. Call it in the tests of your
// own limiter.
func Run(t *testing.T, newLimiter New) {
	RunIn(t, func(t *testing.T, scenario func(*testing.T)) { scenario(t) }, newLimiter)
}

// RunIn is Run, except that each scenario is called by in, which has the signature of
// synctest.Test. Call hostlimittest.RunIn(t, synctest.Test, newLimiter) to run in virtual time.
func RunIn(t *testing.T, in func(*testing.T, func(*testing.T)), newLimiter New) {
	for _, s := range slices.Concat(scenarios, controls) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T) {
				defer func() {
					if t.Failed() {
						t.Logf("promise: %s", s.promise)
					}
				}()
				s.run(&scene{T: t, newLimiter: newLimiter})
			})
		})
	}
}

// A scenario is one test, with a separate Limiter.
type scenario struct {
	name    string
	run     func(*scene)
	promise string
}
