// Package backoff says how long to stay away from a host that refused:
// Fibonacci, doubling slowdown, Retry-After.
package backoff

import "time"

// A Policy gives the time to stay away after the n-th refusal in a row, n from 1.
// Fibonacci, Doubling and Refusals implement it.
type Policy interface {
	Delay(attempt int) time.Duration
}

// Fibonacci stays away 1, 1, 2, 3, 5, 8, 13... units, at most Cap.
type Fibonacci struct {
	Unit time.Duration // 0: 1 s
	Cap  time.Duration // 0: 10 min
}

// Doubling stays away Start, 2 Start, 4 Start..., at most Cap, plus jitter.
type Doubling struct {
	Start  time.Duration // 0: 15 min
	Cap    time.Duration // 0: 24 h
	Jitter [2]float64    // least and most share that is added at random; zero: none
}

// Refusals is a Policy that also says what counts as a refusal. A Policy that is
// not Refusals counts status 429 only.
type Refusals struct {
	Policy        Policy        // nil: Fibonacci{}
	Statuses      []int         // statuses that count beside 429, such as 403, 503, 420, 509, 520-530
	Network       bool          // whether an attempt without a response counts
	MaxRetryAfter time.Duration // cap on Retry-After; 0: 24 h
	Forgive       time.Duration // quiet time after a block's end that resets the counter; 0: 30 min
}
