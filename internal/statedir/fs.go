package statedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// An FS is a file system as a Dir uses it: [OS], or in tests one that fails.
// Errors name the file, as those of package os do.
type FS interface {
	Read(name string, limit int64) ([]byte, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	MkdirAll(name string) error
	CreateTemp(dir, pattern string) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// TryLock locks the file called name, which it makes if need be. The error
	// matches ErrLocked where another holds the lock.
	TryLock(name string) (unlock func(), err error)
}

// A File is a file to be written.
type File interface {
	io.WriteCloser
	Name() string
	Sync() error
}

// OS is the file system of the operating system.
type OS struct{}

// ErrLocked says that another goroutine or process holds the lock.
var ErrLocked = errors.New("locked by another update")

// regular returns an error if there is something called name that isn't a regular file. To open a
// pipe may take for ever, and a link may lead anywhere.
func regular(name string) error {
	info, err := os.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s isn't a regular file (%v)", name, info.Mode())
	}
	return nil
}

// Read implements [FS].
func (OS) Read(name string, limit int64) ([]byte, error) {
	if err := regular(name); err != nil {
		return nil, err
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit))
}

// ReadDir implements [FS].
func (OS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// MkdirAll implements [FS].
func (OS) MkdirAll(name string) error { return os.MkdirAll(name, 0o700) }

// CreateTemp implements [FS].
func (OS) CreateTemp(dir, pattern string) (File, error) {
	// Without the nil check a nil *os.File would be a File that isn't nil.
	file, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Rename implements [FS]. Where it can't replace a file that is being read, it waits for a moment.
func (OS) Rename(from, to string) error {
	err := os.Rename(from, to)
	if !ReadsLock { // it can replace any file
		return err
	}
	for wait := time.Millisecond; errors.Is(err, fs.ErrPermission) && wait < 100*time.Millisecond; wait *= 2 {
		time.Sleep(wait) //nolint:forbidigo // 127 ms in all, and a rename has no context
		err = os.Rename(from, to)
	}
	return err
}

// Remove implements [FS].
func (OS) Remove(name string) error { return os.Remove(name) }

// TryLock implements [FS].
func (OS) TryLock(name string) (unlock func(), err error) {
	if err := regular(name); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := LockFile(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return func() {
		UnlockFile(file)
		file.Close()
	}, nil
}
