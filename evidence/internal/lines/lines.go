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

// RecordBegins is what each record begins with.
const RecordBegins = `{"type":"`

// A Reader reads lines of any length in bounded memory.
type Reader struct {
	in  *bufio.Reader
	err error // what stopped All

	// Whole tells whether the line that All has yielded last has an end.
	Whole bool
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(r, 64<<10)} }

// All yields each line that isn't blank, without its end, behind its number from 1. Of a line
// longer than 16 MiB it yields the beginning, which is no record then. A line holds until the next
// one. All stops where reading fails: see Err.
func (r *Reader) All() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		var long []byte // a line that is longer than the buffer of in
		for line := 1; ; line++ {
			text, err := r.in.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) {
				long = append(long[:0], text...)
				for errors.Is(err, bufio.ErrBufferFull) {
					text, err = r.in.ReadSlice('\n')
					// The rest of a line that is too long is read, and dropped.
					long = append(long, text[:min(len(text), maxLine-len(long))]...)
				}
				text = long
			}
			r.Whole = bytes.HasSuffix(text, []byte("\n"))
			text = bytes.TrimRight(text, "\r\n")
			blank := len(bytes.TrimSpace(text)) == 0
			if !blank && !yield(line, text) {
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
