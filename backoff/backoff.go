// Package backoff computes how long to stay away from a host that refused. It has [Fibonacci]
// steps, a [Doubling] slowdown, and the wait that the host itself asks for in a Retry-After header
// ([RetryAfter]). [Refusals] adds the responses that count as a refusal.
//
// A [Policy] is a function of the number of refusals in a row, so one value serves any number of
// hosts. For a retry loop that goes step by step, BackOff makes a [Steps] of it, which has the
// methods of the BackOff interface of github.com/cenkalti/backoff/v4.
package backoff

import (
	"math"
	"time"
)

// A Policy gives the time to stay away after the n-th refusal in a row, n from 1. [Fibonacci],
// [Doubling] and [Refusals] implement it. You can implement your own. Delay must be safe for
// concurrent use and quick, because limiters call it under a lock.
type Policy interface {
	Delay(attempt int) time.Duration
}

// Steps walks through a Policy. The first NextBackOff is Delay(1), the second is Delay(2). It never
// gives up by itself. Limit it by backoff.WithMaxRetries or WithContext of
// github.com/cenkalti/backoff/v4, whose BackOff interface it satisfies. A Steps serves one retry
// loop and is not safe for concurrent use.
type Steps struct {
	policy  Policy
	attempt int
}

// NextBackOff returns the time to stay away before the next try.
func (s *Steps) NextBackOff() time.Duration {
	if s.attempt < math.MaxInt {
		s.attempt++
	}
	return s.policy.Delay(s.attempt)
}

// Reset starts again at the first step. Call it after a success.
func (s *Steps) Reset() { s.attempt = 0 }
