package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/internal/statedir"
)

// OpenFile returns a Log that appends to the named file, which it makes if need be, for the user's
// eyes only (mode 0600). Use it instead of JSONLines if a crawler is started more than once. It
// removes half a line of a process that was killed. A signed log continues the tree of the file.
// The file may hold several logs, one for each run. A chained log begins with the last hash of the
// log before it. So an auditor notices if a log was removed. A file that isn't a log is an error,
// and stays as it is.
//
// Close closes the file too. One Log at a time may append to a file. If the file system has locks,
// a second one is an error while the first is open, in this process or another.
func OpenFile(name string, cfg LogConfig) (*Log, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	l, err := NewLog(file, cfg)
	if err == nil {
		l.file = file
		err = l.resume(file)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("evidence: %s: %w", name, err)
	}
	return l, nil
}

// resume continues with the log that stands in file.
func (l *Log) resume(file *os.File) error {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() { // such as /dev/stdout
		return err
	}
	if errors.Is(statedir.LockFile(file), statedir.ErrLocked) {
		return errors.New("another Log appends to the file: close that first, or give each process its own file")
	}
	if err := checkBeginning(file, info.Size()); err != nil {
		return err
	}
	old := ending{
		size:      info.Size(),
		hashKnown: l.chain == nil,  // a log that isn't chained needs no hash,
		treeKnown: l.signer == nil, // and one that isn't signed no checkpoint
	}
	if err := backwards(file, info.Size(), old.take); err != nil {
		return err
	}
	l.own.After = old.hash
	if l.signer != nil {
		if err := l.signer.resume(file, old.size, old.from, old.checkpoint); err != nil {
			return err
		}
	}
	return file.Truncate(old.size)
}

// checkBeginning returns an error if the first line of file is neither of a Log nor the half of
// such a line.
func checkBeginning(file io.ReaderAt, size int64) error {
	in := lines.NewReader(io.NewSectionReader(file, 0, size))
	for _, line := range in.All() {
		if !beginsLog(line, in.Whole) {
			return errors.New("not a log: it doesn't begin with a record")
		}
		break
	}
	return in.Err()
}

// beginsLog reports whether line may be the first one of a log; whole says that it has an end.
func beginsLog(line []byte, whole bool) bool {
	n := min(len(line), len(lines.RecordBegins))
	if string(line[:n]) != lines.RecordBegins[:n] {
		return false
	}
	// A process that was killed during its first write leaves half a line, which resume takes away.
	if !whole && !json.Valid(line) {
		return true
	}
	var l LogLine
	return l.UnmarshalJSON(line) == nil && l.N > 0
}

// An ending holds the state that the next log of a file continues from. It comes from the last
// lines of the log before.
type ending struct {
	size int64 // of the file without half a line at its end

	lines     int    // number of whole lines so far
	hash      string // last hash of a chained log; empty: it isn't chained
	hashKnown bool   // whether hash is final

	checkpoint []byte // line of the last checkpoint; nil: there is none so far
	from       int64  // where that line begins
	treeKnown  bool   // whether checkpoint is final
}

// take takes the line that begins at the given offset, from the last one on backwards. It reports
// whether it needs the line before, too.
func (e *ending) take(at int64, line []byte) bool {
	if line[len(line)-1] != '\n' { // half a line
		e.size = at
		return true
	}
	e.lines++
	if !e.hashKnown {
		var l LogLine
		err := l.UnmarshalJSON(line)
		e.hash = l.Hash
		// In a chained log one of the last chainEvery lines has a hash. Otherwise the log isn't
		// chained. A file whose end isn't a log isn't chained, either.
		e.hashKnown = err != nil || l.Hash != "" || l.N <= 1 || e.lines == chainEvery
	}
	if !e.treeKnown && bytes.HasPrefix(line, []byte(lines.RecordBegins+string(Checkpoint)+`"`)) {
		e.checkpoint = line
		e.from = at
		e.treeKnown = true
	}
	return !e.hashKnown || !e.treeKnown
}

// block is how much of a file is read at once, backwards.
const block = 64 << 10

// backwards calls f for each line of the first size bytes of file, with its end, and with the
// offset at which it begins: the last one first, as long as f returns true.
func backwards(file io.ReaderAt, size int64, f func(from int64, line []byte) bool) error {
	var rest []byte // the end of a line whose beginning isn't read yet
	for at := size; at > 0; {
		n := min(at, max(block, int64(len(rest)))) // so that a long line is copied a few times only
		at -= n
		buf := make([]byte, n, n+int64(len(rest)))
		if _, err := file.ReadAt(buf, at); err != nil {
			return err
		}
		rest = append(buf, rest...)
		for len(rest) > 0 {
			// The last byte is the end of the last line itself.
			i := bytes.LastIndexByte(rest[:len(rest)-1], '\n') + 1
			if i == 0 && at > 0 { // the line may begin before this part
				break
			}
			if !f(at+int64(i), rest[i:]) {
				return nil
			}
			rest = rest[:i]
		}
	}
	return nil
}
