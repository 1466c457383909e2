package redislimit

import (
	"syscall"
	"time"
)

// nap sleeps for d, or less: a signal ends it.
func nap(d time.Duration) {
	rest := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&rest, nil) // EINTR; the caller looks at the clock
}
