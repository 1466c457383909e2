// Package statedir keeps small files below one directory: one file for each key, replaced as a
// whole, so that a reader sees the old one or the new one and a crash leaves one of them. It is
// what the stores of hostlimit and robotscache have in common.
//
//	PATH/3f/3f0c…a2     the file of a key: the SHA-256 of the key in hex
//	PATH/3f/lock        held while a file of that directory is changed
//	PATH/3f/….tmp       a file on its way, or left by a crash
//
// Names are lower-case hex, so file systems that ignore case confuse none; the
// 256 directories keep each of them small. Directories are 0700 and files 0600.
package statedir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// abandoned is the age from which a temporary file counts as left by a crash.
	abandoned = time.Hour
	// maxLockWait bounds the wait for a lock whose holder was stopped while it held it.
	maxLockWait = 10 * time.Second
	// poll is the mean time between two tries at a lock. It is short, because the
	// lock is free only for moments while others use it again and again.
	poll = time.Millisecond
)

// A Dir is a directory of files. It is safe for concurrent use, by other processes too.
type Dir struct {
	path  string
	fs    FS
	swept [256]atomic.Int64 // Unix time at which each directory was last freed of abandoned files
}

// New returns the Dir at path. The directory is made when the first file is.
func New(path string, fs FS) *Dir { return &Dir{path: path, fs: fs} }

// File is the name of the file that belongs to key.
func (d *Dir) File(key string) string {
	sum := sha256.Sum256([]byte(key))
	name := hex.EncodeToString(sum[:])
	return filepath.Join(d.path, name[:2], name)
}

// Read returns what is in the file called name, but no more than limit bytes of
// it. A file that isn't there is an error that matches fs.ErrNotExist.
func (d *Dir) Read(name string, limit int64) ([]byte, error) { return d.fs.Read(name, limit) }

// Replace makes data the contents of the file called name. After an error the file is what it was.
// With sync the data is on the disk before the file takes its place, so that a power cut leaves the
// old one or the new one too; without, it may leave an empty one.
func (d *Dir) Replace(name string, data []byte, sync bool) error {
	dir := filepath.Dir(name)
	temp, err := d.fs.CreateTemp(dir, "*.tmp")
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.fs.MkdirAll(dir); err != nil {
			return err
		}
		temp, err = d.fs.CreateTemp(dir, "*.tmp")
	}
	if err != nil {
		return fmt.Errorf("for %s: %w", name, err)
	}
	_, err = temp.Write(data)
	if err == nil && sync {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = d.fs.Rename(temp.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("for %s: %w", name, errors.Join(err, d.fs.Remove(temp.Name())))
	}
	d.sweep(dir)
	return nil
}

// Remove removes the file called name, which need not be there.
func (d *Dir) Remove(name string) error {
	if err := d.fs.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweep removes the abandoned files of a directory, once in a while. Those that
// it can't remove harm nothing, and are tried again.
func (d *Dir) sweep(dir string) {
	bucket, err := hex.DecodeString(filepath.Base(dir))
	if err != nil || len(bucket) != 1 {
		return
	}
	now, last := time.Now(), &d.swept[bucket[0]]
	if before := last.Load(); now.Sub(time.Unix(before, 0)) < abandoned || !last.CompareAndSwap(before, now.Unix()) {
		return
	}
	entries, _ := d.fs.ReadDir(dir) // as many as can be read
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".tmp") {
			continue
		}
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > abandoned {
			_ = d.fs.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// Lock takes the lock of the directory that the file called name lies in, which is made if need be.
// It holds over goroutines and processes, and ends with its process. Lock waits as long as ctx
// allows, 10 s at most; a lock that is free is taken even if ctx is done.
//
// It asks again and again, because a system call that waits could neither be
// cancelled nor be seen by a testing/synctest bubble.
func (d *Dir) Lock(ctx context.Context, name string) (unlock func(), err error) {
	lock := filepath.Join(filepath.Dir(name), "lock")
	begin := time.Now()
	for {
		unlock, err := d.fs.TryLock(lock)
		if errors.Is(err, fs.ErrNotExist) {
			if err := d.fs.MkdirAll(filepath.Dir(lock)); err != nil {
				return nil, err
			}
			unlock, err = d.fs.TryLock(lock)
		}
		if !errors.Is(err, ErrLocked) {
			return unlock, err
		}
		if waited := time.Since(begin); waited >= maxLockWait {
			return nil, fmt.Errorf("%s: %w after %v", lock, err, waited.Round(time.Second))
		}
		timer := time.NewTimer(poll/2 + rand.N(poll))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%s: %w: %w", lock, err, ctx.Err())
		}
	}
}

// Seal puts a first line before data: magic, which names the format and its
// version, and a checksum of what follows.
func Seal(magic string, data []byte) []byte {
	sealed := fmt.Appendf(make([]byte, 0, len(magic)+2*sha256.Size+2+len(data)), "%s %x\n", magic, sha256.Sum256(data))
	return append(sealed, data...)
}

// Unseal returns what was sealed, or an error where a byte of it has changed.
func Unseal(magic string, sealed []byte) ([]byte, error) {
	first, data, whole := bytes.Cut(sealed, []byte{'\n'})
	sum, ok := strings.CutPrefix(string(first), magic+" ")
	if !ok || !whole {
		return nil, fmt.Errorf("not a file of the format %q", magic)
	}
	if fmt.Sprintf("%x", sha256.Sum256(data)) != sum {
		return nil, errors.New("damaged: its checksum is wrong")
	}
	return data, nil
}
