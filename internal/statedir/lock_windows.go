package statedir

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// LocksEnd reports whether the lock on a file ends with the process that holds it.
const LocksEnd = true

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

// openShared opens the file called name, which it makes if need be. Others may remove it meanwhile:
// os.OpenFile doesn't allow that here.
func openShared(name string) (*os.File, error) {
	path, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	handle, err := syscall.CreateFile(path,
		syscall.GENERIC_READ|syscall.GENERIC_WRITE,
		syscall.FILE_SHARE_READ|syscall.FILE_SHARE_WRITE|syscall.FILE_SHARE_DELETE,
		nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(handle), name), nil
}
