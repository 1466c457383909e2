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

	farBehind = 1 << 30 // high half of the offset of the byte that is locked: those of the file may be read
)

// LockFile takes the lock on file, or returns ErrLocked at once.
func LockFile(file *os.File) error {
	ok, _, err := lockFileEx.Call(file.Fd(), lockfileExclusiveLock|lockfileFailImmediately, 0,
		1, 0, uintptr(unsafe.Pointer(&syscall.Overlapped{OffsetHigh: farBehind})))
	switch {
	case ok != 0:
		return nil
	case errors.Is(err, errorLockViolation) || errors.Is(err, syscall.ERROR_IO_PENDING):
		return ErrLocked
	}
	return os.NewSyscallError("LockFileEx", err)
}

// UnlockFile gives the lock back.
func UnlockFile(file *os.File) {
	_, _, _ = unlockFileEx.Call(file.Fd(), 0, 1, 0, uintptr(unsafe.Pointer(&syscall.Overlapped{OffsetHigh: farBehind})))
}
