// Package cputime measures what a computation costs, for tests that bound that. A busy machine
// makes it last longer. The time of the processor hardly changes.
package cputime

import "time"

// Of returns the time of the processor that the process uses while f runs: that of other goroutines
// counts, too. On systems that don't tell it, Of returns how long f runs.
func Of(f func()) time.Duration {
	began := used()
	f()
	return used() - began
}
