package politenesstest

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	flushAt = 4 << 10  // bytes that a handler writes before they are handed over unflushed
	window  = 64 << 10 // bytes that a handler may be ahead of the reader
)

// errGone is the cause of the end of a handler's context.
var errGone = errors.New("politenesstest: the client has gone")

// A stream is a handler's answer on its way to the reader of the response's
// body: the ResponseWriter at one end, a bounded buffer between, Read at the other.
type stream struct {
	ctx    context.Context // done when the response is no longer read
	method string

	headersOut chan struct{} // closed when status and sent are final
	readable   chan struct{} // holds a token after there was more to read
	writable   chan struct{} // holds a token after there was more room

	mu       sync.Mutex // never held across a wait
	header   http.Header
	sent     http.Header // as of WriteHeader; immutable once headersOut is closed
	status   int         // 0 before WriteHeader
	declared int64       // Content-Length by the handler, -1 if it gave none
	written  int64
	buf      []byte // written and not read
	visible  int    // bytes of buf that are handed over
	out      bool   // headersOut is closed
	over     bool   // the handler has returned
	dropped  bool   // the handler has ended without a response: there will be no headers
	err      error  // how the body ends, once over
}

func newStream(ctx context.Context, method string) *stream {
	return &stream{
		ctx:        ctx,
		method:     method,
		headersOut: make(chan struct{}),
		readable:   make(chan struct{}, 1),
		writable:   make(chan struct{}, 1),
		header:     make(http.Header),
		declared:   -1,
	}
}

// serve runs the handler to its end.
func (s *stream) serve(h http.Handler, r *http.Request) {
	returned := false
	defer func() { // also after runtime.Goexit, by a t.Fatal
		if !returned {
			p := recover()
			//nolint:errorlint // the very value is the convention of net/http
			if p != nil && p != http.ErrAbortHandler {
				panic(p) // a bug of the test, which should see it
			}
		}
		s.finish(returned)
	}()
	h.ServeHTTP((*writer)(s), r)
	returned = true
}

// finish ends the stream: what was written is handed over, or lost if the handler did not return.
func (s *stream) finish(returned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	switch {
	case !returned && s.out:
		s.buf = s.buf[:s.visible]
		s.err = io.ErrUnexpectedEOF
	case !returned:
		s.dropped = true
	default:
		s.err = io.EOF
		s.writeHeader(http.StatusOK)
		if s.declared >= 0 && s.written < s.declared {
			s.err = io.ErrUnexpectedEOF
		}
		// As net/http does for a short answer, whose length is known before its headers are sent.
		hasBody := bodyAllowedFor(s.status) && (s.method != http.MethodHead || s.written > 0)
		if hasBody && !s.out && s.declared < 0 {
			s.sent.Set("Content-Length", strconv.FormatInt(s.written, 10))
		}
		s.handOver()
	}
	signal(s.readable)
	if !s.out {
		s.out = true
		close(s.headersOut)
	}
}

// awaitHeaders waits until status and sent are final.
func (s *stream) awaitHeaders() error {
	select {
	case <-s.headersOut:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped {
		return io.EOF // what http.Transport reports when a server hangs up without a response
	}
	return nil
}

// writeHeader fixes status and headers, if they aren't.
func (s *stream) writeHeader(status int) {
	if s.status != 0 {
		return
	}
	s.status = status
	s.sent = s.header.Clone()
	if n, err := strconv.ParseInt(s.sent.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		s.declared = n
	} else {
		s.sent.Del("Content-Length")
	}
}

// handOver lets the reader have what has been written, the headers first.
func (s *stream) handOver() {
	if !s.out {
		s.writeHeader(http.StatusOK)
		_, typed := s.sent["Content-Type"]
		if !typed && len(s.buf) > 0 {
			s.sent.Set("Content-Type", http.DetectContentType(s.buf))
		}
		_, dated := s.sent["Date"]
		if !dated {
			s.sent.Set("Date", time.Now().UTC().Format(http.TimeFormat))
		}
		maps.DeleteFunc(s.sent, func(_ string, v []string) bool { return len(v) == 0 }) // nil suppresses a header
		s.out = true
		close(s.headersOut)
	}
	s.visible = len(s.buf)
	signal(s.readable)
}

// write takes what fits of p, and reports how much.
func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeHeader(http.StatusOK)
	switch {
	case s.ctx.Err() != nil:
		return 0, context.Cause(s.ctx)
	case !bodyAllowedFor(s.status):
		return 0, http.ErrBodyNotAllowed
	case s.declared >= 0 && s.written+int64(len(p)) > s.declared:
		return 0, http.ErrContentLength
	}
	n := min(len(p), window-len(s.buf))
	s.buf = append(s.buf, p[:n]...)
	s.written += int64(n)
	if len(s.buf)-s.visible >= flushAt || n < len(p) {
		s.handOver()
	}
	return n, nil
}

// read moves what there is into p. It reports zero and no error if the handler
// has not said more yet.
func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.visible == 0 {
		if s.over {
			return 0, s.err
		}
		return 0, nil
	}
	n := copy(p, s.buf[:s.visible])
	s.buf = append(s.buf[:0], s.buf[n:]...)
	s.visible -= n
	signal(s.writable)
	return n, nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// bodyAllowedFor reports whether a response of status may have a body (RFC 9110, section 6.4.1).
func bodyAllowedFor(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// A writer is the handler's end of a stream: an http.ResponseWriter and http.Flusher.
type writer stream

func (w *writer) Header() http.Header { return w.header }

// WriteHeader ignores informational statuses, and every call but the first.
func (w *writer) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic("politenesstest: invalid status " + strconv.Itoa(status))
	}
	if status < 200 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	(*stream)(w).writeHeader(status)
}

// Write waits while the reader is too far behind.
func (w *writer) Write(p []byte) (int, error) {
	for written := 0; ; {
		n, err := (*stream)(w).write(p[written:])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
		select {
		case <-w.writable:
		case <-w.ctx.Done():
			return written, context.Cause(w.ctx)
		}
	}
}

// Flush hands over what has been written, the headers at least.
func (w *writer) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	(*stream)(w).handOver()
}

// A responseBody is the client's end of a stream.
type responseBody struct {
	*exchange
	stream *stream
	cancel context.CancelCauseFunc

	mu   sync.Mutex // never held across a wait
	left int64      // of the Content-Length; negative if there is none
	err  error      // of every further Read
}

// Read reports the end together with the last bytes if Content-Length shows which they are, as
// http.Transport does.
func (b *responseBody) Read(p []byte) (int, error) {
	for {
		n, err := b.next(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		select {
		case <-b.stream.readable:
		case <-b.stream.ctx.Done():
		}
	}
}

// next reads what there is now.
func (b *responseBody) next(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	ctx := b.req.Context()
	if ctx.Err() != nil {
		return 0, b.finish(context.Cause(ctx))
	}
	n, err := b.stream.read(p)
	b.read(p[:n])
	if b.left >= 0 {
		b.left -= int64(n)
		if b.left == 0 {
			err = io.EOF
		}
	}
	if err != nil {
		return n, b.finish(err)
	}
	return n, nil
}

// Close ends the exchange.
func (b *responseBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		_ = b.finish(http.ErrBodyReadAfterClose)
	}
	return nil
}

// finish ends the exchange, with err for every further Read.
func (b *responseBody) finish(err error) error {
	b.err = err
	if err == io.EOF { //nolint:errorlint // made here, never wrapped
		b.exchange.readWhole()
	}
	b.cancel(errGone)
	if err == io.EOF || err == http.ErrBodyReadAfterClose { //nolint:errorlint // made here, never wrapped
		b.end(nil)
	} else {
		b.end(err)
	}
	return err
}
