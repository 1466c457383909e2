package redislimit

import (
	"syscall"
	"time"
)

// nap sleeps for d, or less where a signal comes: timers of Go wake up to a millisecond late.
func nap(d time.Duration) {
	rest := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&rest, nil)
}
