//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package statedir

import (
	"errors"
	"os"
	"syscall"
)

// LocksEnd reports whether the lock on a file ends with the process that holds it.
const LocksEnd = true

// ReadsLock reports whether files must be read under the lock. Here a file that is
// open can be replaced, and its readers go on reading the old one.
const ReadsLock = false

// LockFile takes the lock on file, or returns ErrLocked at once. It ends with the process; others
// may read the file, and write to it without the lock.
func LockFile(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrLocked
		default:
			return os.NewSyscallError("flock", err)
		}
	}
}

// UnlockFile gives the lock back. Closing the file does that as well, but not while a child process
// that hasn't reached its exec yet holds the file open.
func UnlockFile(file *os.File) { _ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }

// openShared opens the file called name, which it makes if need be. Others may remove it meanwhile.
func openShared(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}
