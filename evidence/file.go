package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// OpenFile returns a Log that appends to the named file, which it makes if need be, for the user's
// eyes only (mode 0600). Use it rather than JSONLines where a crawler is started more than once:
// half a line, which a process that was killed may have left behind, is taken away, a [Signed] log
// goes on with the tree that the file has, and a [Chained] one names the hash of the log before it,
// so that an auditor finds a log that was taken out. A file that isn't a log is an error, and stays
// as it is.
//
// Close closes the file too. One process at a time may append to a file.
func OpenFile(name string, options ...Option) (*Log, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	l := JSONLines(file, options...)
	l.file = file
	if err = l.misuse; err == nil {
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
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // such as /dev/stdout
		return nil
	}
	begin := make([]byte, len(recordBegins))
	if n, err := file.ReadAt(begin, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	} else if !bytes.HasPrefix([]byte(recordBegins), begin[:n]) {
		return errors.New("not a log: it doesn't begin with a record")
	}
	size, err := wholeLines(file, info.Size())
	if err != nil {
		return err
	}
	if l.signer != nil {
		if err := l.signer.resume(file, size); err != nil {
			return err
		}
	}
	if l.chain != nil {
		if l.after, err = lastHash(file, size); err != nil {
			return err
		}
	}
	if size == info.Size() {
		return nil
	}
	return file.Truncate(size)
}

// recordBegins is what each record begins with.
const recordBegins = `{"type":"`

// block is how much of a file is read at once, backwards.
const block = 64 << 10

// wholeLines returns how much of the first size bytes of file are whole lines.
func wholeLines(file io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, block)
	for size > 0 {
		from := max(0, size-block)
		b := buf[:size-from]
		if _, err := file.ReadAt(b, from); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
		size = from
	}
	return 0, nil
}

// lastLine returns the last of the lines of file that begins with prefix, and where it begins; nil
// and 0 if there is none. The file consists of whole lines of that size in all.
func lastLine(file io.ReaderAt, size int64, prefix []byte) (from int64, line []byte, err error) {
	if size == 0 {
		return 0, nil, nil
	}
	buf := make([]byte, block+1+len(prefix))
	for end := size; end > 0; {
		// The blocks overlap, so that each line's beginning, with the line end before it, is in one.
		at := max(0, end-block)
		b := buf[:min(int64(len(buf)), size-at)]
		if _, err := file.ReadAt(b, at); err != nil {
			return 0, nil, err
		}
		i := bytes.LastIndex(b, append([]byte{'\n'}, prefix...))
		if i < 0 && at == 0 && bytes.HasPrefix(b, prefix) {
			i = -1
		} else if i < 0 {
			end = at
			continue
		}
		from = at + int64(i) + 1
		r := bufio.NewReader(io.NewSectionReader(file, from, size-from))
		line, err = r.ReadBytes('\n')
		return from, bytes.TrimRight(line, "\r\n"), err
	}
	return 0, nil, nil
}

// eachLine calls f for each line of r that isn't blank, without its end.
func eachLine(r io.Reader, f func(line []byte)) error {
	in := bufio.NewReaderSize(r, block)
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		line := part
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, part...)
			continue
		}
		if len(long) > 0 {
			long = append(long, part...)
			line, long = long, long[:0]
		}
		if line = bytes.TrimRight(line, "\r\n"); len(bytes.TrimSpace(line)) > 0 {
			f(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// lastHash returns the last hash of the last log in the first size bytes of file, which are whole
// lines, "" where that log isn't chained.
func lastHash(file io.ReaderAt, size int64) (string, error) {
	for range chainEvery {
		if size == 0 {
			break
		}
		from, err := wholeLines(file, size-1)
		if err != nil {
			return "", err
		}
		line := make([]byte, size-from)
		if _, err := file.ReadAt(line, from); err != nil {
			return "", err
		}
		var e Entry
		if err := e.UnmarshalJSON(bytes.TrimSpace(line)); err != nil || e.Hash != "" || e.N <= 1 {
			return e.Hash, nil //nolint:nilerr // what isn't a record has no hash
		}
		size = from
	}
	return "", nil
}
