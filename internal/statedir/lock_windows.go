package statedir

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// ReadsLock reports whether files must be read under the lock. Here a file that
// somebody reads can't be replaced.
const ReadsLock = true

var (
	kernel32     = syscall.NewLazyDLL("kernel32.dll")
	lockFileEx   = kernel32.NewProc("LockFileEx")
	unlockFileEx = kernel32.NewProc("UnlockFileEx")
)

const (
	lockfileFailImmediately = 1
	lockfileExclusiveLock   = 2

	errorLockViolation syscall.Errno = 33

	allBytes = 0xffffffff // low and high half of the length of a range
)

// lockFile takes the lock on file, or returns ErrLocked at once.
func lockFile(file *os.File) error {
	ok, _, err := lockFileEx.Call(file.Fd(), lockfileExclusiveLock|lockfileFailImmediately, 0,
		allBytes, allBytes, uintptr(unsafe.Pointer(new(syscall.Overlapped))))
	switch {
	case ok != 0:
		return nil
	case errors.Is(err, errorLockViolation) || errors.Is(err, syscall.ERROR_IO_PENDING):
		return ErrLocked
	}
	return os.NewSyscallError("LockFileEx", err)
}

func unlockFile(file *os.File) {
	_, _, _ = unlockFileEx.Call(file.Fd(), 0, allBytes, allBytes, uintptr(unsafe.Pointer(new(syscall.Overlapped))))
}
