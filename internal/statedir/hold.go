package statedir

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// idPrefix begins the file "lock" of the directory itself. The process that uses the directory has
// locked that file until it ends. The first line is the id of the directory, and stays. The second
// line is for people: it describes the process.
//
//	state 1 5be0c2a7d3f19e46
//	process 4711 (politeness) on host1, since 2026-11-28T10:41:19Z
const idPrefix = "state 1 "

const (
	maxHoldFile = 4 << 10                // of the file "lock", in bytes
	holdPoll    = 50 * time.Millisecond  // between two tries at the lock of another process
	holdWritten = 500 * time.Millisecond // in which the process that has the lock writes the file
)

// A Hold is the result of Dir.Hold.
type Hold struct {
	ID string // of the directory: 64 random bits in hex, the same for all processes and all runs
	// By describes the other process that uses the directory; empty: there is none, and this
	// process holds the lock from now on until it ends.
	By string
}

// holds has the locks of directories that this process holds, by path. They end with the process:
// all Transports of a process share them.
var holds = struct {
	sync.Mutex
	held map[string]heldLock
}{held: make(map[string]heldLock)}

// A heldLock is the file of a lock that this process holds.
type heldLock struct {
	*os.File
	since time.Time
}

// HeldSince returns when this process took the lock of the directory; zero: it doesn't hold it.
func (d *Dir) HeldSince() time.Time {
	path, err := filepath.Abs(d.path)
	if err != nil {
		return time.Time{}
	}
	holds.Lock()
	defer holds.Unlock()
	return holds.held[filepath.Join(path, "lock")].since
}

// Hold takes the lock of the directory for this process, and returns the id of the directory. The
// first Hold makes the directory and its id. While another process holds the lock, Hold waits
// until ctx is done, and returns who holds it then. Systems without a lock that ends with its
// process (lock_other.go) know no other process.
func (d *Dir) Hold(ctx context.Context) (Hold, error) {
	path, err := filepath.Abs(d.path)
	if err != nil {
		return Hold{}, err
	}
	if err := d.fs.MkdirAll(path); err != nil {
		return Hold{}, err
	}
	name := filepath.Join(path, "lock")
	for {
		c, err := hold(name)
		if err != nil || c.By == "" || !pause(ctx, holdPoll) {
			return c, err
		}
	}
}

// pause waits for d, and reports whether ctx still stands then.
func pause(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// hold tries once to take the lock in the file called name, unless this process has it.
func hold(name string) (Hold, error) {
	holds.Lock()
	defer holds.Unlock()
	forgetRemoved()
	if held, ok := holds.held[name]; ok {
		id, _, err := readHold(held.File)
		return Hold{ID: id}, err
	}
	if err := regular(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return Hold{}, err
	}
	file, err := openShared(name)
	if err != nil {
		return Hold{}, err
	}
	err = LockFile(file)
	if errors.Is(err, ErrLocked) {
		defer file.Close()
		return otherHold(file)
	}
	if err != nil {
		file.Close()
		return Hold{}, err
	}
	id, err := writeHold(file)
	if err != nil {
		UnlockFile(file)
		file.Close()
		return Hold{}, err
	}
	holds.held[name] = heldLock{file, time.Now()}
	return Hold{ID: id}, nil
}

// forgetRemoved closes the locks whose files were removed since: a directory of the same name is
// another one.
func forgetRemoved() {
	for name, file := range holds.held {
		ours, err := file.Stat()
		now, nowErr := os.Stat(name)
		if err == nil && nowErr == nil && os.SameFile(ours, now) {
			continue
		}
		UnlockFile(file.File)
		file.Close()
		delete(holds.held, name)
	}
}

// otherHold returns the Hold in file, which another process has locked. That process may be about
// to write it.
func otherHold(file *os.File) (Hold, error) {
	begin := time.Now()
	for {
		id, holder, err := readHold(file)
		isWhole := id != "" && holder != ""
		if err != nil || isWhole || time.Since(begin) > holdWritten {
			return Hold{ID: id, By: cmp.Or(holder, "a process that isn't known")}, err
		}
		time.Sleep(poll) //nolint:forbidigo // half a second in all, in a race of two processes
	}
}

// readHold returns the two lines of file.
func readHold(file *os.File) (id, holder string, err error) {
	data, err := io.ReadAll(io.NewSectionReader(file, 0, maxHoldFile))
	if err != nil {
		return "", "", err
	}
	first, rest, ok := strings.Cut(string(data), "\n")
	fields := strings.Split(first, " ") // of a later version too, whose id stays
	isID := len(fields) == 3 && fields[0] == "state" && len(fields[2]) == 16
	if !ok || !isID {
		return "", "", nil
	}
	id = fields[2]
	holder, ok = strings.CutSuffix(rest, "\n")
	if !ok {
		holder = "" // it is being written
	}
	return id, holder, nil
}

// writeHold writes this process into file, and an id if there is none.
func writeHold(file *os.File) (id string, err error) {
	id, _, err = readHold(file)
	if err != nil {
		return "", err
	}
	if id == "" {
		id = fmt.Sprintf("%016x", rand.Uint64())
		if err := file.Truncate(0); err != nil {
			return "", err
		}
		if _, err := file.WriteAt([]byte(idPrefix+id+"\n"), 0); err != nil {
			return "", err
		}
		if err := file.Sync(); err != nil {
			return "", err
		}
	}
	end, err := endOfFirst(file)
	if err != nil {
		return "", err
	}
	if err := file.Truncate(end); err != nil {
		return "", err
	}
	_, err = file.WriteAt([]byte(process()+"\n"), end)
	return id, err
}

// endOfFirst returns the offset of the second line of file.
func endOfFirst(file *os.File) (int64, error) {
	line, err := bufio.NewReader(io.NewSectionReader(file, 0, maxHoldFile)).ReadString('\n')
	return int64(len(line)), err
}

// process describes this process.
func process() string {
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	program := filepath.Base(os.Args[0])
	since := time.Now().UTC().Format(time.RFC3339)
	text := fmt.Sprintf("process %d (%s) on %s, since %s", os.Getpid(), program, host, since)
	return strings.ReplaceAll(Text(text), "\n", " ")
}
