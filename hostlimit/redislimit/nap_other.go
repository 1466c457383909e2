//go:build !linux

package redislimit

import "time"

// nap leaves the rest of a wait to the timer.
func nap(time.Duration) {}
