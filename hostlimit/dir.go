package hostlimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/go-politeness/politeness/internal/statedir"
)

// Dir returns a Store that keeps one file for each key that is owed something, below path. path is
// made when the first debt is kept; an empty one is the current directory.
//
// A file is replaced as a whole, and removed once its key is owed nothing: kill -9, a full disk or
// a power cut leave the old debt or the new one. A power cut may undo the last updates. A damaged
// file is reported once, by the error of the Update that reads it; that Update goes on from the
// zero Debt and writes the file anew. A file that can't be read for another reason, such as its
// permissions, is left alone.
//
// Processes may share a directory: an update is made under a lock on a file beside it, which ends
// with its process; reading takes no lock. Update waits for the lock as long as ctx allows, 10 s at
// most, and keeps a debt even if ctx is done when the lock is free.
//
// On NFS the lock holds between machines if the server keeps locks and the mount uses them, as
// NFSv4 does by default. On a mount with nolock or local_lock=flock two machines that change a key
// at the same moment may lose one of the changes, never more; a file that another machine has just
// made may be seen as late as the mount's attribute cache allows. Many machines are better served
// by redislimit. On AIX, Solaris, Plan 9 and WebAssembly the lock holds within one process only,
// with the same consequence. On Windows reading takes the lock too.
func Dir(path string) Store { return &dirStore{statedir.New(path, statedir.OS{})} }

// A dirStore is a Store in a directory.
type dirStore struct{ dir *statedir.Dir }

const (
	debtFormat  = "hostlimit 1" // and the version of debtFile
	maxDebtFile = 64 << 10
)

// A debtFile is the second line of a file, as JSON. The first one seals it.
type debtFile struct {
	Key string `json:"key"`
	Debt
	Delay string `json:"delay,omitzero"` // as time.Duration prints it
}

// Update implements [Store].
func (s *dirStore) Update(ctx context.Context, key string, change func(Debt) Debt) (Debt, error) {
	debt, err := s.update(ctx, key, change)
	if err != nil {
		err = fmt.Errorf("hostlimit: state of %q: %w", key, err)
	}
	return debt, err
}

func (s *dirStore) update(ctx context.Context, key string, change func(Debt) Debt) (Debt, error) {
	// First without the lock: a read needs none, and a change is found ready when
	// the lock is there.
	file := s.dir.File(key)
	old, err := s.read(file, key)
	debt := change(old).portable()
	if !statedir.ReadsLock && done(old, debt, err) {
		return debt, err
	}
	unlock, lockErr := s.dir.Lock(ctx, file)
	if lockErr != nil {
		return debt, errors.Join(err, lockErr)
	}
	defer unlock()
	seen := old
	if old, err = s.read(file, key); old != seen {
		debt = change(old).portable()
	}
	if done(old, debt, err) {
		return debt, err
	}
	return debt, errors.Join(err, s.write(file, key, debt))
}

// done reports whether the file stays as it is: because it holds that debt, or because it may hold
// another that can't be read. One that can't be understood is replaced.
func done(old, debt Debt, readErr error) bool {
	if readErr != nil {
		return !errors.As(readErr, new(*damage))
	}
	return old == debt
}

// A damage is an error of a file that can't be understood.
type damage struct {
	file string
	err  error
}

func (d *damage) Error() string {
	return fmt.Sprintf("%s can't be understood, so the key starts anew as one that is owed nothing: %v", d.file, d.err)
}

func (d *damage) Unwrap() error { return d.err }

// read returns the debt that is in a file, zero if there is none.
func (s *dirStore) read(file, key string) (Debt, error) {
	data, err := s.dir.Read(file, maxDebtFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Debt{}, nil
	} else if err != nil {
		return Debt{}, err
	}
	d, err := decodeDebt(data, key)
	if err != nil {
		return Debt{}, &damage{file, err}
	}
	return d, nil
}

// write puts a debt in the place of the one in a file.
func (s *dirStore) write(file, key string, d Debt) error {
	if d == (Debt{}) {
		return s.dir.Remove(file)
	}
	data, err := encodeDebt(key, d)
	if err != nil {
		return fmt.Errorf("for %s: %w", file, err)
	}
	return s.dir.Replace(file, data, true)
}

// encodeDebt writes a file.
func encodeDebt(key string, d Debt) ([]byte, error) {
	f := debtFile{Key: text(key), Debt: d}
	if d.Delay != 0 {
		f.Delay = d.Delay.String()
	}
	line, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	data := statedir.Seal(debtFormat, append(line, '\n'))
	if len(data) > maxDebtFile {
		return nil, fmt.Errorf("a debt of %d bytes, more than %d", len(data), maxDebtFile)
	}
	return data, nil
}

// decodeDebt reads a file that should hold the debt of key.
func decodeDebt(data []byte, key string) (Debt, error) {
	line, err := statedir.Unseal(debtFormat, data)
	if err != nil {
		return Debt{}, err
	}
	var f debtFile
	if err := json.Unmarshal(line, &f); err != nil {
		return Debt{}, err
	}
	if f.Key != text(key) {
		return Debt{}, fmt.Errorf("it is the state of %.100q", f.Key)
	}
	if f.Delay != "" {
		if f.Debt.Delay, err = time.ParseDuration(f.Delay); err != nil {
			return Debt{}, err
		}
	}
	return f.portable(), nil
}
