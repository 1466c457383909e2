package politeness

import (
	"io"
	"net/http"
	"sync/atomic"

	"github.com/go-politeness/politeness/hostlimit"
)

// A body is a response's body on its way to the caller. It holds the slot of its host
// until EOF, Close or a failed read, whichever comes first.
type body struct {
	io.ReadCloser // the base transport's
	lease         hostlimit.Lease
	watcher       watcher
	limit         int64 // most bytes that the caller may read; 0: unlimited
	read          atomic.Int64
	done          atomic.Bool
	over          error // result of the read that ended the reading, and of every later one
}

// A watcher is what a body reports to: a trip.
type watcher interface {
	// spend is told of each piece that was read, and returns how many of its bytes the
	// caller may have, and why no more.
	spend(piece []byte) (n int, err error)
	// whole is told that the body has come to its end, and returns an error to take the place of
	// that, if any.
	whole() error
	// tooLarge returns the error for a body that is longer than limit.
	tooLarge(limit int64) error
	// ended gives the slot back and reports the end, with the number of bytes that the
	// caller has read; err is what ended the reading, nil for Close.
	ended(lease hostlimit.Lease, read int64, err error)
}

// newBody wraps raw. What a switched connection (101) can do beside reading, the wrapper can too.
func newBody(b *body) io.ReadCloser {
	w, ok := b.ReadCloser.(io.Writer)
	if !ok {
		return b
	}
	if _, ok := w.(closeWriter); ok {
		return struct {
			*body
			io.Writer
			closeWriter
		}{b, w, w.(closeWriter)}
	}
	return struct {
		*body
		io.Writer
	}{b, w}
}

// A closeWriter can end its writing side alone, as a TCP connection can.
type closeWriter interface{ CloseWrite() error }

// Read reads from the body and counts what it reads.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.over != nil:
		return 0, b.over
	case b.done.Load():
		return 0, http.ErrBodyReadAfterClose
	case len(p) == 0:
		return 0, nil
	}
	if b.limit > 0 {
		left := b.limit - b.read.Load()
		if left <= 0 {
			return 0, b.beyond(p[:1])
		}
		p = p[:min(int64(len(p)), left)]
	}
	b.lease.Renew() // a lease that other machines see must be told from a dead one
	got, err := b.ReadCloser.Read(p)
	n, refusal := b.watcher.spend(p[:got])
	b.read.Add(int64(n))
	if refusal == nil && err == io.EOF { // a Reader's end is io.EOF itself
		refusal = b.watcher.whole()
	}
	if refusal != nil {
		clear(p[n:got])
		return n, b.cut(refusal)
	}
	if err != nil {
		b.over = err
		b.finish(err)
	}
	return n, err
}

// Close closes the body and gives the slot back.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.finish(nil)
	return err
}

// emptyReads is how often a reader may return nothing, as in package bufio.
const emptyReads = 100

// beyond ends the reading at the limit: with the body's own end if that is here, since
// a limit of n bytes lets a body of n bytes pass. It reads into one, a single byte.
func (b *body) beyond(one []byte) error {
	n, err := 0, error(nil)
	for range emptyReads {
		if n, err = b.ReadCloser.Read(one); n > 0 || err != nil {
			break
		}
	}
	if n == 0 && err == io.EOF { //nolint:errorlint // the same
		if refusal := b.watcher.whole(); refusal != nil {
			return b.cut(refusal)
		}
	}
	if n == 0 && err != nil { // the end, or what broke the body before the limit did
		b.over = err
		b.finish(err)
		return err
	}
	clear(one)
	return b.cut(b.watcher.tooLarge(b.limit))
}

// cut ends the reading with err, and returns it: the rest isn't read.
func (b *body) cut(err error) error {
	b.over = err
	b.ReadCloser.Close()
	b.finish(err)
	return err
}

// finish gives the slot back and reports the end of the body, once.
func (b *body) finish(err error) {
	if !b.done.Swap(true) {
		b.watcher.ended(b.lease, b.read.Load(), err)
	}
}
