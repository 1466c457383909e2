// Package share divides the limits of a fleet by the number of its processes.
package share

import (
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// Longest bounds a wait, and a block by an operator: sums with it don't overflow.
const Longest = 20 * 365 * 24 * time.Hour

// Config divides the limits of c by the number of processes.
func Config(c hostlimit.Config, processes int) hostlimit.Config {
	whole := hostlimit.Limits{Concurrency: c.Concurrency, Delay: c.Delay}.WithDefaults()
	part := Limits(whole, processes)
	c.Concurrency = part.Concurrency
	c.Delay = part.Delay
	c.MaxInFlight = 0 // the Limiter counts
	c.Store = nil     // and saves
	override := c.Override
	if override != nil {
		c.Override = func(key string) (hostlimit.Limits, bool) {
			limits, ok := override(key)
			return Limits(limits, processes), ok
		}
	}
	return c
}

// Limits returns the part of l that is left to one of n processes: n times the delays and one n-th
// of the slots, at least one. Zero fields, which Override leaves to the Config, stay zero.
func Limits(l hostlimit.Limits, n int) hostlimit.Limits {
	if l.Concurrency > 0 {
		l.Concurrency = max(1, l.Concurrency/n)
	}
	if l.Delay != (hostlimit.Delay{}) {
		d := hostlimit.Limits{Delay: l.Delay}.WithDefaults().Delay
		d.Min = Times(d.Min, n)
		d.Max = Times(d.Max, n)
		d.Ceiling = Times(d.Ceiling, n)
		l.Delay = d
	}
	return l
}

// Times returns n times d, and at most Longest.
func Times(d time.Duration, n int) time.Duration {
	if d > Longest/time.Duration(n) {
		return Longest
	}
	return d * time.Duration(n)
}
