package evidence

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/internal/statedir"
)

// OpenFile returns a Log that appends to the named file, which it makes if need be, for the user's
// eyes only (mode 0600). Use it rather than JSONLines where a crawler is started more than once:
// half a line, which a process that was killed may have left behind, is taken away, a signed log goes
// on with the tree that the file has, and a chained one names the hash of the log before it, so that
// an auditor finds a log that was taken out. A file that isn't a log is an error, and stays
// as it is.
//
// Close closes the file too. One Log at a time may append to a file: a second one is an error while
// the first is open, in this process or another, on file systems that have locks.
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

// resume goes on with what stands in file.
func (l *Log) resume(file *os.File) error {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() { // such as /dev/stdout
		return err
	}
	if errors.Is(statedir.LockFile(file), statedir.ErrLocked) {
		return errors.New("another Log appends to the file: close that first, or give each process a file of its own")
	}
	size, from := info.Size(), int64(0)
	in := lines.NewReader(io.NewSectionReader(file, 0, size))
	for _, line := range in.All() { // the first one, which is of a Log or half a line
		var e LogLine
		half, n := !in.Whole && !json.Valid(line), min(len(line), len(lines.RecordBegins))
		if string(line[:n]) != lines.RecordBegins[:n] || !half && (e.UnmarshalJSON(line) != nil || e.N == 0) {
			return errors.New("not a log: it doesn't begin with a record")
		}
		break
	}
	var checkpoint []byte // the last one, which begins at from
	n := 0
	hashed := l.chain == nil
	signed := l.signer == nil
	err = backwards(file, size, func(at int64, line []byte) bool {
		if line[len(line)-1] != '\n' { // half a line
			size = at
			return true
		}
		if n++; !hashed { // one of the last lines of a chained log has a hash
			var e LogLine
			err := e.UnmarshalJSON(line)
			hashed = err != nil || e.Hash != "" || e.N <= 1 || n == chainEvery
			l.own.After = e.Hash
		}
		if !signed && bytes.HasPrefix(line, []byte(lines.RecordBegins+string(Checkpoint)+`"`)) {
			from = at
			checkpoint = line
			signed = true
		}
		return !hashed || !signed
	})
	if err = cmp.Or(in.Err(), err); err == nil && l.signer != nil {
		err = l.signer.resume(file, size, from, checkpoint)
	}
	if err != nil {
		return err
	}
	return file.Truncate(size)
}

// block is how much of a file is read at once, backwards.
const block = 64 << 10

// backwards calls f for each line of the first size bytes of file, with its end, and with where it
// begins: the last one first, as long as f returns true.
func backwards(file io.ReaderAt, size int64, f func(from int64, line []byte) bool) error {
	var rest []byte // the end of a line whose beginning isn't read yet
	for at := size; at > 0; {
		n := min(at, max(block, int64(len(rest)))) // so that a long line is copied a few times only
		at -= n
		buf := make([]byte, n, n+int64(len(rest)))
		if _, err := file.ReadAt(buf, at); err != nil {
			return err
		}
		for rest = append(buf, rest...); len(rest) > 0; {
			i := bytes.LastIndexByte(rest[:len(rest)-1], '\n') + 1
			if i == 0 && at > 0 {
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
