package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
)

// A lineWriter writes lines of JSON. After an error it writes nothing more: a line may have been
// written in part.
type lineWriter struct {
	mu  sync.Mutex
	out io.Writer
	err error // the first one
}

// write writes a line and returns the first error of all lines.
func (l *lineWriter) write(v any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = writeJSON(l.out, v, "")
	}
	return l.err
}

// writeText writes a line of text, as write does one of JSON.
func (l *lineWriter) writeText(text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		_, l.err = fmt.Fprintln(l.out, text)
	}
	return l.err
}

// lost is the error by which lines were lost, or nil.
func (l *lineWriter) lost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// openLines opens a file of lines of JSON to append to. Half a line of JSON, which a full disk or a
// process that was killed may have left behind, is taken away.
func openLines(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if info, statErr := file.Stat(); statErr == nil && info.Mode().IsRegular() && info.Size() > 0 {
		err = endLines(name, file, info.Size())
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// endLines makes the file end with a whole line. Only the beginning of an object of JSON is taken
// away: other text isn't this command's, and JSON that only lacks its line end may be somebody's
// own.
func endLines(name string, file *os.File, size int64) error {
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	const block = 64 << 10
	var half []byte
	for at := size; at > 0; {
		n := min(at, block)
		at -= n
		piece := make([]byte, n)
		if _, err := in.ReadAt(piece, at); err != nil {
			return err
		}
		i := bytes.LastIndexByte(piece, '\n') + 1
		half = append(piece[i:], half...)
		if i > 0 {
			break
		}
	}
	switch {
	case len(half) == 0:
		return nil
	case json.Valid(half) || half[0] != '{':
		_, err = file.Write([]byte("\n"))
		return err
	}
	return file.Truncate(size - int64(len(half)))
}
