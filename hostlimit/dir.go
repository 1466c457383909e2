package hostlimit

import (
	"context"
	"fmt"
	"time"

	"github.com/go-politeness/politeness/internal/statedir"
)

// Dir returns a Store that keeps one file for each key with state, below path. The directory is
// made when the first state is saved. An empty path is the current directory.
//
// A file is replaced as a whole, and removed once its key has no state. After kill -9, a full disk
// or a power cut, the file has the old state or the new one. A power cut may undo the last updates.
// A damaged file is reported once, by the error of the Update that reads it. That Update continues
// from the zero Debt and writes the file anew. A file that can't be read for another reason, such
// as its permissions, is left alone.
//
// Processes may share a directory, but not the delays. politeness.New takes a lock on the file
// "lock" of the directory, whose first line is the id of the state. It reports another process that
// has the lock (politeness.Config.StateWait). An update holds a lock on a file beside the state. If
// the process ends, the lock ends too. Reading takes no lock. Update waits for the lock until ctx
// is done, at most 10 s. If the lock is free, Update keeps the debt even if ctx is done already.
//
// On NFS the lock holds between machines if the server keeps locks and the mount uses them, as
// NFSv4 does by default. If a mount has nolock or local_lock=flock, and two machines change a key
// at the same moment, one of the changes may be lost. Nothing else is lost. A file that another
// machine has just made may be seen as late as the mount's attribute cache allows. Many machines
// are better served by redislimit. On AIX, Solaris, Plan 9 and WebAssembly the lock holds within
// one process only. Then a change by another process may be lost in the same way. On Windows
// reading takes the lock too.
func Dir(path string) Store { return &dirStore{debtsIn(statedir.New(path, statedir.OS{}))} }

func debtsIn(dir *statedir.Dir) statedir.Values[debtFile] {
	return statedir.Values[debtFile]{Dir: dir, Format: "hostlimit 2", Zero: "has no state to keep"}
}

// A dirStore is a Store in a directory.
type dirStore struct{ debts statedir.Values[debtFile] }

// Hold takes the lock of the directory for this process: see Store.
func (s *dirStore) Hold(ctx context.Context) (id, by string, err error) {
	held, err := s.debts.Dir.Hold(ctx)
	if err != nil {
		err = fmt.Errorf("hostlimit: lock of the state: %w", err)
	}
	return held.ID, held.By, err
}

// Since returns when this process took the lock of the directory; zero: it hasn't.
func (s *dirStore) Since() time.Time { return s.debts.Dir.HeldSince() }

// Update implements [Store].
func (s *dirStore) Update(ctx context.Context, key string, change func(Debt) Debt) (Debt, error) {
	f, err := s.debts.Update(ctx, key, func(f debtFile) debtFile { return fileOf(change(f.debt())) })
	if err != nil {
		err = fmt.Errorf("hostlimit: state of %q: %w", key, err)
	}
	return f.debt(), err
}

// A debtFile is the content of a file, which has one Debt.
type debtFile struct {
	Debt
	Delay    statedir.Duration `json:"delay,omitzero"`    // instead of Debt.Delay
	Adaptive statedir.Duration `json:"adaptive,omitzero"` // instead of Debt.Adaptive
}

func fileOf(d Debt) debtFile {
	delay := statedir.Duration(d.Delay)
	adaptive := statedir.Duration(d.Adaptive)
	// In the form in which they are read, so that an unchanged debt isn't written.
	d.Delay = 0
	d.Adaptive = 0
	return debtFile{d.portable(), delay, adaptive}
}

func (f debtFile) debt() Debt {
	f.Debt.Delay = time.Duration(f.Delay)
	f.Debt.Adaptive = time.Duration(f.Adaptive)
	return f.portable()
}
