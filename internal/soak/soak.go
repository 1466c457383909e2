// Package soak decides how long random tests go on. Tests have three lengths: a fixed short part, a
// fixed long one with POLITENESS_LONG=1 (every target of make sets it), and, with a duration in
// POLITENESS_SOAK (make soak sets it), what fits into that, from a random seed.
package soak

import (
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// Names of environment variables. seedEnv holds a seed, which repeats one round.
const (
	longEnv = "POLITENESS_LONG"
	soakEnv = "POLITENESS_SOAK"
	seedEnv = "POLITENESS_SEED"
)

// Size returns one of its arguments, by the length that the tests have.
func Size(short, long, soak int) int {
	switch {
	case os.Getenv(soakEnv) != "":
		return soak
	case os.Getenv(longEnv) != "":
		return long
	}
	return short
}

// Share returns the duration in POLITENESS_SOAK; 0 if it isn't set.
func Share(t testing.TB) time.Duration {
	s := os.Getenv(soakEnv)
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		t.Fatalf("%s=%s is no duration", soakEnv, s)
	}
	return d
}

// Over returns a func that reports whether Share has passed, in real time, since this call. It may
// be called in virtual time. Without POLITENESS_SOAK it always returns false.
func Over(t testing.TB) func() bool {
	share := Share(t)
	if share == 0 {
		return func() bool { return false }
	}
	over := new(atomic.Bool)
	timer := time.AfterFunc(share, func() { over.Store(true) })
	t.Cleanup(func() { timer.Stop() })
	return over.Load
}

// Seeds yields a seed for each round of a random test: 1 to short, or to long, or random ones for
// as long as Share. It ends after a round that fails, and logs how to repeat it.
func Seeds(t testing.TB, short, long int) iter.Seq[uint64] {
	t.Helper()
	return func(yield func(uint64) bool) {
		share := Share(t)
		first, last := seedRange(t, short, long, share)
		begun := time.Now()
		seed := first
		defer func() { // also when the round ends the goroutine
			switch {
			case t.Failed():
				t.Logf("%s=%d repeats this round", seedEnv, seed)
			case share > 0:
				t.Logf("soak: %d rounds from seed %d", seed-first, first)
			}
		}()
		for ; seed <= last && (share == 0 || seed == first || time.Since(begun) < share); seed++ {
			if !yield(seed) || t.Failed() {
				return
			}
		}
	}
}

// seedRange returns the first and the last seed: one alone if POLITENESS_SEED is set, a random one
// and all after it within a share, or else 1 to short or long.
func seedRange(t testing.TB, short, long int, share time.Duration) (first, last uint64) {
	t.Helper()
	s := os.Getenv(seedEnv)
	if s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("%s=%s is no seed", seedEnv, s)
		}
		return seed, seed
	}
	if share > 0 {
		return rand.Uint64N(1 << 48), math.MaxUint64
	}
	return 1, uint64(Size(short, long, 0))
}
