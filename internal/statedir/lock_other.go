//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package statedir

import (
	"os"
	"sync"
)

// LocksEnd reports whether the lock on a file ends with the process that holds it. Here there is
// none between processes.
const LocksEnd = false

// ReadsLock reports whether files must be read under the lock.
const ReadsLock = false

// locked holds the names of the files that are locked. These systems have no lock that ends with
// its process and tells goroutines apart, so it holds within the process only.
var locked sync.Map

// LockFile takes the lock on file, or returns ErrLocked at once.
func LockFile(file *os.File) error {
	_, taken := locked.LoadOrStore(file.Name(), true)
	if taken {
		return ErrLocked
	}
	return nil
}

// UnlockFile gives the lock back.
func UnlockFile(file *os.File) { locked.Delete(file.Name()) }

// openShared opens the file called name, which it makes if need be.
func openShared(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}
