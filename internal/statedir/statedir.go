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
	"os"
	"path/filepath"
	"runtime"
	"strconv"
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
	// maxClaim bounds the wait for a claim, and slowPoll the time between two tries at it.
	maxClaim = 30 * time.Second
	slowPoll = 50 * time.Millisecond
)

// A Dir is a directory of files. It is safe for concurrent use, by other processes too.
type Dir struct {
	path  string
	fs    FS
	swept [256]atomic.Int64 // Unix time at which each directory was last freed of abandoned files

	looked  atomic.Bool           // exposed was set once
	exposed atomic.Pointer[error] // that others may write here, until warning returns it
}

// New returns the Dir at path. The directory is made when the first file is.
func New(path string, fs FS) *Dir { return &Dir{path: path, fs: fs} }

// Check makes the directory at path, and returns an error if no file can be made in it or in one of
// those below it, as far as these are there. An empty path is none.
func Check(path string, below ...string) error {
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("nothing can be kept in %s: %w", path, err)
	}
	for _, dir := range append([]string{""}, below...) {
		dir = filepath.Join(path, dir)
		temp, err := os.CreateTemp(dir, "*.tmp")
		if dir != path && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(temp.Close(), os.Remove(temp.Name()))
		}
		if err != nil {
			return fmt.Errorf("nothing can be kept in %s: %w", dir, err)
		}
	}
	return nil
}

// look notes if others may write to the file called name or to a directory that it lies in: they
// can lift blocks and change robots.txt.
func (d *Dir) look(name string) {
	if d.looked.Load() || runtime.GOOS == "windows" { // where the mode says nothing
		return
	}
	for _, n := range [...]string{name, filepath.Dir(name), d.path, filepath.Dir(d.path)} {
		info, err := os.Stat(n) // of a link itself the mode says nothing, and Read refuses a file that is one
		if err != nil {
			continue
		}
		// In a sticky directory, such as /tmp, others can't replace a file.
		writable := info.Mode()&(0o002|fs.ModeSticky) == 0o002
		if !writable || !d.looked.CompareAndSwap(false, true) {
			continue
		}
		err = fmt.Errorf("others may write to %s (%v), and so change what this crawler keeps: chmod o-w",
			n, info.Mode())
		d.exposed.Store(&err)
	}
}

// warning returns what look has noted, once.
func (d *Dir) warning() error {
	if err := d.exposed.Swap(nil); err != nil {
		return *err
	}
	return nil
}

// File is the name of the file that belongs to key.
func (d *Dir) File(key string) string {
	sum := sha256.Sum256([]byte(key))
	name := hex.EncodeToString(sum[:])
	return filepath.Join(d.path, name[:2], name)
}

// Read returns what is in the file called name, but no more than limit bytes of
// it. A file that isn't there is an error that matches fs.ErrNotExist. That others may write to the
// file, or to the directory, is an error once.
func (d *Dir) Read(name string, limit int64) ([]byte, error) {
	data, err := d.fs.Read(name, limit)
	if err == nil {
		d.look(name)
		err = d.warning()
	}
	return data, err
}

// Replace makes data the contents of the file called name. After an error the file is what it was.
// With sync the data is on the disk before the file takes its place, so that a power cut leaves the
// old one or the new one too; without, it may leave an empty one.
func (d *Dir) Replace(name string, data []byte, sync bool) error {
	dir := filepath.Dir(name)
	temp, err := d.fs.CreateTemp(dir, "*.tmp")
	if errors.Is(err, fs.ErrNotExist) { // it is the first file of its directory
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
	now := time.Now()
	last := &d.swept[bucket[0]]
	before := last.Load()
	if now.Sub(time.Unix(before, 0)) < abandoned {
		return
	}
	if !last.CompareAndSwap(before, now.Unix()) { // another goroutine sweeps it
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
		unlock, err := d.tryLock(lock)
		if !errors.Is(err, ErrLocked) {
			return unlock, err
		}
		waited := time.Since(begin)
		if waited >= maxLockWait {
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

// Claim returns when no other process or goroutine has claimed the file called name, and claims it
// until release is called or the process ends. It waits as long as ctx allows, 30 s at most, and
// returns without the claim then, or where there can be none: the file itself isn't locked.
func (d *Dir) Claim(ctx context.Context, name string) (release func()) {
	lock := name + ".lock.tmp" // left by a crash, it is swept
	begin := time.Now()
	for wait := poll; ; wait = min(2*wait, slowPoll) {
		unlock, err := d.tryLock(lock)
		switch {
		case err == nil:
			return func() {
				_ = d.fs.Remove(lock) // who has opened it finds the new file instead of the claim
				unlock()
			}
		case !errors.Is(err, ErrLocked) || time.Since(begin) >= maxClaim:
			return func() {}
		}
		timer := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return func() {}
		}
	}
}

// tryLock takes a lock, and makes the directory that its file lies in if need be.
func (d *Dir) tryLock(lock string) (unlock func(), err error) {
	unlock, err = d.fs.TryLock(lock)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.fs.MkdirAll(filepath.Dir(lock)); err != nil {
			return nil, err
		}
		unlock, err = d.fs.TryLock(lock)
	}
	return unlock, err
}

// Seal puts a first line before data: magic, which names the format and its
// version, and a checksum of what follows.
func Seal(magic string, data []byte) []byte {
	sealed := fmt.Appendf(make([]byte, 0, len(magic)+2*sha256.Size+2+len(data)), "%s %x\n", magic, sha256.Sum256(data))
	return append(sealed, data...)
}

// otherFormat returns the error of a file that begins with the line first instead of magic.
func otherFormat(magic, first string) error {
	name, version, _ := strings.Cut(magic, " ")
	fields := strings.Fields(first)
	if len(fields) < 2 || fields[0] != name {
		return fmt.Errorf("not a file of the format %q", magic)
	}
	ours, _ := strconv.Atoi(version)
	theirs, err := strconv.Atoi(fields[1])
	if err != nil || theirs == ours {
		return fmt.Errorf("not a file of the format %q", magic)
	}
	age := "an older"
	if theirs > ours {
		age = "a later"
	}
	return versionError{fmt.Errorf("made by %s version of this library (format %s %d, this one has %d): begun anew",
		age, name, theirs, ours)}
}

// A versionError is the error of a file that another version of this library has made.
type versionError struct{ error }

// Unseal returns what was sealed, or an error where a byte of it has changed.
func Unseal(magic string, sealed []byte) ([]byte, error) {
	first, data, whole := bytes.Cut(sealed, []byte{'\n'})
	sum, ok := strings.CutPrefix(string(first), magic+" ")
	if !ok || !whole {
		return nil, otherFormat(magic, string(first))
	}
	if fmt.Sprintf("%x", sha256.Sum256(data)) != sum {
		return nil, errors.New("damaged: its checksum is wrong")
	}
	return data, nil
}
