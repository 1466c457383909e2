package politeness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/list"
)

// A body is a response's body on its way to the caller. It holds the slot of its host until EOF,
// Close or a failed read, whichever comes first, or until openBodies finds that nobody uses the
// body. A net.Conn can be read again after its read deadline.
type body struct {
	io.ReadCloser // Base's
	lease         hostlimit.Lease
	reader        bodyReader
	length        int64           // of the whole body; -1: not known
	ctx           context.Context // of the exchange: when it ends, the connection is closed
	open          *openBodies     // nil: b isn't one of them
	limit         int64           // most bytes that the caller may read; 0: unlimited
	read          atomic.Int64    // bytes that were read, also ahead
	done          atomic.Bool     // the slot is released
	closed        atomic.Bool     // by the caller
	dropped       atomic.Bool     // the caller has dropped the body, and can't close it any more

	reads  atomic.Int32  // which goroutine reads; it alone uses the fields down to thrown
	gone   atomic.Bool   // leave was called
	isRead chan struct{} // closed when readAhead has ended
	over   error         // result of the read that ended the reading, and of every later one
	unread []byte        // what was read ahead, and not by the caller yet
	thrown any           // panic during the reading ahead, which the caller gets

	// Guarded by open.mu.
	list.Linked[body]             // in open.bodies
	listed            bool        // the body is in open.bodies
	seen              bool        // a sweep has found it
	leaving           bool        // leave was called
	ahead             bool        // readAhead was called
	unwatch           func() bool // ends the watch for the end of ctx; nil: there is none
}

// The states of body.reads.
const (
	nobodyReads int32 = iota
	callerReads
	readsAhead
	isLeft // closed by leave
)

// A sentinel is the caller's handle of a body that the caller may forget. Nothing else refers to
// the sentinel. If the caller drops it, the next garbage collection marks the body as dropped.
//
// net/http keeps its response for the trailers behind the body. So the caller gets a copy, and only
// this copy refers to the sentinel.
type sentinel struct {
	*body
	theirs *http.Response // Base's
	ours   *http.Response // the caller's
}

// guard returns a copy of resp, whose body is b behind a sentinel.
func (b *body) guard(resp *http.Response) *http.Response {
	ours := *resp
	s := &sentinel{body: b, theirs: resp, ours: &ours}
	ours.Body = s
	// A cleanup runs outside of every bubble of testing/synctest, and in the one goroutine of all
	// cleanups of the process. So it only sets the mark.
	runtime.AddCleanup(s, func(dropped *atomic.Bool) { dropped.Store(true) }, &b.dropped)
	return &ours
}

// Read implements io.Reader.
func (s *sentinel) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if err == io.EOF { //nolint:errorlint // a Reader's end is io.EOF itself
		s.ours.Trailer = s.theirs.Trailer // it is complete now
	}
	runtime.KeepAlive(s) // s counts as used until here, also if the site is slow
	return n, err
}

// Close implements io.Closer.
func (s *sentinel) Close() error { return s.body.Close() }

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
// writes, and may be a net.Conn. Then the result writes too, and is one.
func (b *body) wrap() io.ReadCloser {
	type closeWriter interface{ CloseWrite() error }
	type below struct{ net.Conn } // embedded more deeply than b, so b's Read and Close count
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

// isForgettable reports whether b's slot would be lost if the caller dropped b. The slot isn't lost
// if b has been read ahead, or will be once a request waits. A length of 0 comes from a
// RoundTripper that has the body in memory and sets no length.
func (b *body) isForgettable() bool {
	_, writes := b.ReadCloser.(io.Writer)
	return !writes && !b.done.Load() && b.length != 0 && !(b.isShort() && b.isOnItsWay())
}

// isShort reports whether b may be read ahead.
func (b *body) isShort() bool { return b.length > 0 && b.length <= readAheadMost }

// isOnItsWay reports whether b is a body of net/http: its site has sent it, or will soon.
func (b *body) isOnItsWay() bool {
	t := reflect.TypeOf(b.ReadCloser)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() == "net/http"
}

// Read reads from the body, or what was read of it ahead.
func (b *body) Read(p []byte) (int, error) {
	claimed := b.reads.CompareAndSwap(nobodyReads, callerReads)
	if !claimed && b.reads.Load() == readsAhead {
		<-b.isRead // as long as the caller would have waited for the site
		claimed = b.reads.CompareAndSwap(nobodyReads, callerReads)
	}
	if claimed {
		defer b.stopReading()
	} else if b.reads.Load() == isLeft {
		return 0, b.pastEnd()
	}
	if b.unread != nil && b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(b.unread) > 0 {
		n := copy(p, b.unread)
		b.unread = b.unread[n:]
		return n, nil
	}
	rethrow(b.thrown)
	return b.receive(p)
}

// receive reads from Base's body and counts the bytes.
func (b *body) receive(p []byte) (int, error) {
	switch {
	case b.over != nil:
		return 0, b.over
	case b.done.Load():
		return 0, b.pastEnd() // the slot is another request's by now
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
	// A body that breaks off ends, too. Its reader may use the bytes that have come.
	ends := err != nil && !b.isReadable(err) && got <= within
	n, refusal := b.reader.take(p[:min(got, within)], ends)
	b.read.Add(int64(n))
	if refusal == nil && got > within {
		refusal = b.reader.refuse(fmt.Errorf("%w: more than %d bytes", ErrTooLarge, b.limit))
	}
	if refusal != nil {
		clear(p[n:got]) // a caller that looks behind n must not find refused bytes
		return n, b.cut(refusal)
	}
	if err != nil && !b.isReadable(err) {
		err = b.reader.cause(err)
		b.over = err
		if b.reads.Load() == readsAhead && b.ctx.Err() != nil {
			b.settle(err) // this process has closed the connection, while a request waits for the slot
		} else {
			b.finish(err)
		}
	}
	return n, err
}

// pastEnd returns the error of a read from a body whose slot is released.
func (b *body) pastEnd() error {
	if err := context.Cause(b.ctx); err != nil && !b.closed.Load() {
		return err // the caller hasn't closed it: the end of the context has
	}
	return http.ErrBodyReadAfterClose
}

// isReadable reports whether the body can be read again after err. A net.Conn can after its read
// deadline has passed.
func (b *body) isReadable(err error) bool {
	_, isConn := b.ReadCloser.(net.Conn)
	return isConn && errors.Is(err, os.ErrDeadlineExceeded)
}

// Close closes the body and releases the lease.
func (b *body) Close() error {
	b.closed.Store(true)
	defer b.finish(nil)
	return b.ReadCloser.Close()
}

// leave closes a body that nobody uses, and releases the lease. If the body is being read, it waits
// for the end of that read, which the end of the context ends too.
func (b *body) leave(why error) {
	b.gone.Store(true)
	if b.reads.CompareAndSwap(nobodyReads, isLeft) {
		defer b.settle(why) // even if Close panics
		b.ReadCloser.Close()
	}
}

// settles is how long a site has to notice that an exchange was closed.
const settles = time.Second

// settle releases the lease after the site has probably noticed that the exchange was closed. The
// site counts the requests in flight itself, and the next request takes the slot immediately.
func (b *body) settle(why error) {
	time.AfterFunc(settles, func() { b.finish(why) })
}

// stopReading ends a read. A body that was left meanwhile is closed now.
func (b *body) stopReading() {
	b.reads.Store(nobodyReads)
	if b.gone.Load() {
		b.leave(errForgoing)
	}
}

// readBeside is readAhead in a separate goroutine. The caller may have the body already, and may
// be reading it.
func (b *body) readBeside() {
	b.isRead = make(chan struct{})
	if b.reads.CompareAndSwap(nobodyReads, readsAhead) {
		defer close(b.isRead)
		defer b.stopReading()
		b.readAhead()
	}
}

// readAhead reads the rest of a short body into memory, which releases the lease at its end.
func (b *body) readAhead() {
	defer func() { b.thrown = recover() }()
	rest := make([]byte, b.length-b.read.Load()+1)
	for n := 0; n < len(rest) && !b.done.Load(); {
		some, err := b.receive(rest[n:])
		n += some
		b.unread = rest[:n]
		if err != nil {
			return // the caller gets it at its last read
		}
	}
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
		if b.open != nil {
			b.open.remove(b)
		}
		b.reader.ended(b.lease, b.read.Load(), err)
	}
}
