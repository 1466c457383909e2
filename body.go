package politeness

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/go-politeness/politeness/hostlimit"
)

// A body is a response's body on its way to the caller. It holds the slot of its host until EOF,
// Close or a failed read, whichever comes first. A net.Conn goes on after a deadline for its reads.
type body struct {
	io.ReadCloser // Base's
	lease         hostlimit.Lease
	reader        bodyReader
	limit         int64 // most bytes that the caller may read; 0: unlimited
	read          atomic.Int64
	done          atomic.Bool
	over          error // result of the read that ended the reading, and of every later one
}

// A bodyReader is called while a body is read.
type bodyReader interface {
	// take is called with the result of each read: a piece of the body, and whether the body ends
	// behind it. It returns how many of the bytes go to the caller, and an error that ends the
	// reading there.
	take(piece []byte, end bool) (n int, err error)
	// refuse reports that the body is cut for the given reason, and returns the error that the
	// caller gets.
	refuse(reason error) error
	// cause returns the error that the caller gets for one of Base's.
	cause(err error) error
	// ended is called once, at the end of the reading, with the number of bytes that the caller
	// has read. It releases lease. err ended the reading. It is nil for Close.
	ended(lease hostlimit.Lease, read int64, err error)
}

// wrap returns b as the Body of a response. After a switch of protocols (101) Base's body also
// writes, and may be a net.Conn; so does and is the result.
func (b *body) wrap() io.ReadCloser {
	type closeWriter interface{ CloseWrite() error }
	type below struct{ net.Conn } // whose Read and Close are deeper than b's
	// A caller finds the body's further methods by a type assertion, so the result has those
	// methods of Base's body, and no others.
	switch w := b.ReadCloser.(type) {
	case interface {
		net.Conn
		closeWriter
	}:
		return struct {
			*body
			below
			closeWriter
		}{b, below{w}, w}
	case net.Conn:
		return struct {
			*body
			below
		}{b, below{w}}
	case interface {
		io.Writer
		closeWriter
	}:
		return struct {
			*body
			io.Writer
			closeWriter
		}{b, w, w}
	case io.Writer:
		return struct {
			*body
			io.Writer
		}{b, w}
	}
	return b
}

// Read reads from the body and counts the bytes.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.over != nil:
		return 0, b.over
	case b.done.Load():
		return 0, http.ErrBodyReadAfterClose // the slot is another request's by now
	case len(p) == 0:
		return 0, nil
	}
	within := len(p) // bytes that the limit leaves
	left := b.limit - b.read.Load()
	if b.limit > 0 && left < int64(within) {
		within = int(left)
		p = p[:within+1] // one byte more shows whether the body ends at the limit
	}
	b.lease.Renew() // shows other machines that the process is alive
	got, err := b.ReadCloser.Read(p)
	// The budget and the page see each piece before the caller does.
	n, refusal := b.reader.take(p[:min(got, within)], err == io.EOF && got <= within)
	b.read.Add(int64(n))
	if refusal == nil && got > within {
		refusal = b.reader.refuse(fmt.Errorf("%w: more than %d bytes", ErrTooLarge, b.limit))
	}
	if refusal != nil {
		clear(p[n:got]) // a caller that looks behind n must not find refused bytes
		return n, b.cut(refusal)
	}
	if err != nil && !b.goesOn(err) {
		err = b.reader.cause(err)
		b.over = err
		b.finish(err)
	}
	return n, err
}

// goesOn reports whether the body may be read again after err, as a net.Conn may whose deadline for
// reads has passed.
func (b *body) goesOn(err error) bool {
	_, isConn := b.ReadCloser.(net.Conn)
	return isConn && errors.Is(err, os.ErrDeadlineExceeded)
}

// Close closes the body and releases the lease.
func (b *body) Close() error {
	defer b.finish(nil)
	return b.ReadCloser.Close()
}

// cut ends the reading with err and returns it. The rest isn't read.
func (b *body) cut(err error) error {
	b.over = err
	defer b.finish(err)
	b.ReadCloser.Close()
	return err
}

// finish calls ended, once.
func (b *body) finish(err error) {
	// A body may be closed while it is read, and more than once.
	if !b.done.Swap(true) {
		b.reader.ended(b.lease, b.read.Load(), err)
	}
}
