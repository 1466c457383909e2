// Package lines reads logs line by line, of a bounded length.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// maxLine is the longest line that is read: a robots.txt of 500 KiB in which each byte is escaped,
// and more.
const maxLine = 16 << 20

// A Reader reads lines of any length in bounded memory.
type Reader struct {
	in  *bufio.Reader
	buf []byte // holds lines that are longer than the Reader's buffer
	err error  // what stopped All

	// Whole tells whether the line that All has yielded last has an end.
	Whole bool
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(r, 64<<10)} }

// Next returns the next line with its end. Of a line longer than 16 MiB it returns the beginning,
// which is no record then. The line holds until the next call.
func (r *Reader) Next() ([]byte, error) {
	part, err := r.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return part, err
	}
	r.buf = r.buf[:0]
	for {
		if len(r.buf) < maxLine {
			r.buf = append(r.buf, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return r.buf, err
		}
		part, err = r.in.ReadSlice('\n')
	}
}

// All yields each line that isn't blank, without its end, behind its number from 1. It stops where
// reading fails: see Err.
func (r *Reader) All() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for line := 1; ; line++ {
			text, err := r.Next()
			r.Whole = bytes.HasSuffix(text, []byte("\n"))
			if text = bytes.TrimRight(text, "\r\n"); len(bytes.TrimSpace(text)) > 0 && !yield(line, text) {
				return
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					r.err = fmt.Errorf("evidence: after line %d: %w", line, err)
				}
				return
			}
		}
	}
}

// Err returns the error that stopped All, nil at the end of what was read.
func (r *Reader) Err() error { return r.err }

// Count returns "1 record", "2 records".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
