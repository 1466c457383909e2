//go:build unix

package cputime

import (
	"syscall"
	"time"
)

// used returns the time of the processor that the process has used.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // its arguments are always valid
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
