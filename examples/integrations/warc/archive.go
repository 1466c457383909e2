package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/nlnwa/gowarc/v2"
)

// An archive is a Base that writes each exchange to WARC files: a request and a response record,
// with the bytes as they were on the connection.
type archive struct {
	base  *http.Transport
	files *gowarc.WarcFileWriter

	mu    sync.Mutex
	count int
	err   error // the first one
}

// newArchive returns an archive of what is sent over connections as base opens them.
func newArchive(base *http.Transport, files *gowarc.WarcFileWriter) *archive {
	a := &archive{base: base.Clone(), files: files}
	a.base.Proxy = nil // a tunnel through it would hide what goes over the wire
	dial := base.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	a.base.Protocols = new(http.Protocols)
	a.base.Protocols.SetHTTP1(true)
	a.base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		socket, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &wire{Conn: socket, socket: socket}, nil
	}
	a.base.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		socket, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		config := base.TLSClientConfig.Clone()
		if config == nil {
			config = new(tls.Config)
		}
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(address)
		}
		config.NextProtos = []string{"http/1.1"}
		secure := tls.Client(socket, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			socket.Close()
			return nil, err
		}
		return &wire{Conn: secure, socket: socket}, nil
	}
	return a
}

// RoundTrip implements http.RoundTripper.
func (a *archive) RoundTrip(req *http.Request) (*http.Response, error) {
	var last lastWire
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { last.begin(info.Conn, req) },
	})
	resp, err := a.base.RoundTrip(req.WithContext(ctx))
	if err != nil || last.wire == nil {
		return resp, err // without a response there is nothing to keep
	}
	e := last.wire.current()
	if resp.Body == http.NoBody {
		a.keep(last.wire.end(e), false)
		return resp, nil
	}
	resp.Body = &kept{ReadCloser: resp.Body, a: a, wire: last.wire, exchange: e}
	return resp, nil
}

// A lastWire is the connection of a request: net/http may need a second one, if the first was dead.
type lastWire struct{ wire *wire }

func (l *lastWire) begin(conn net.Conn, req *http.Request) {
	l.wire, _ = conn.(*wire)
	if l.wire != nil {
		l.wire.begin(req)
	}
}

// CloseIdleConnections closes those of the transport below.
func (a *archive) CloseIdleConnections() { a.base.CloseIdleConnections() }

// lost returns the error by which exchanges aren't in the archive, if any.
func (a *archive) lost() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// written returns the number of exchanges in the archive.
func (a *archive) written() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

// keep writes an exchange. truncated means that the response wasn't read to its end.
func (a *archive) keep(e *exchange, truncated bool) {
	err := a.write(e, truncated)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count++
	if err != nil && a.err == nil {
		a.err = err
	}
}

func (a *archive) write(e *exchange, truncated bool) error {
	var records []gowarc.WarcRecord
	for _, part := range []struct {
		builder gowarc.WarcRecordBuilder
		message string
	}{{e.response, "response"}, {e.request, "request"}} {
		part.builder.AddWarcHeader(gowarc.WarcTargetURI, e.url)
		part.builder.AddWarcHeaderTime(gowarc.WarcDate, e.began)
		part.builder.AddWarcHeader(gowarc.ContentType, "application/http;msgtype="+part.message)
		if e.ip != "" {
			part.builder.AddWarcHeader(gowarc.WarcIPAddress, e.ip)
		}
		if truncated && part.message == "response" {
			part.builder.AddWarcHeader(gowarc.WarcTruncated, "length")
		}
		record, _, err := part.builder.Build()
		if err != nil {
			return errors.Join(e.err, err)
		}
		records = append(records, record)
	}
	for _, written := range a.files.Write(records...) {
		e.err = errors.Join(e.err, written.Err)
	}
	for _, record := range records {
		e.err = errors.Join(e.err, record.Close())
	}
	return e.err
}

// A kept is a body whose exchange is written when it has been read, or given up.
type kept struct {
	io.ReadCloser
	a        *archive
	wire     *wire
	exchange *exchange
	done     bool
}

// Read implements io.Reader.
func (k *kept) Read(p []byte) (int, error) {
	n, err := k.ReadCloser.Read(p)
	if err != nil {
		k.end(err != io.EOF)
	}
	return n, err
}

// Close implements io.Closer.
func (k *kept) Close() error {
	err := k.ReadCloser.Close()
	k.end(true)
	return err
}

func (k *kept) end(truncated bool) {
	if !k.done {
		k.done = true
		k.a.keep(k.wire.end(k.exchange), truncated)
	}
}

// An exchange is a request and its response, as bytes.
type exchange struct {
	url      string
	ip       string
	began    time.Time // first byte of the request
	request  gowarc.WarcRecordBuilder
	response gowarc.WarcRecordBuilder
	head     []byte // of the response, until it is known that its status is final
	isFinal  bool
	err      error
}

// answer takes bytes of the response. Answers that come before the final one, such as 103 Early
// Hints, aren't kept: a record has one, and readers take the first for it.
func (e *exchange) answer(p []byte) {
	if e.isFinal {
		e.write(p)
		return
	}
	e.head = append(e.head, p...)
	for {
		end := endOfHeader(e.head)
		if end < 0 {
			return // more comes; net/http bounds the header
		}
		if !isInterim(e.head) {
			break
		}
		e.head = e.head[end:]
	}
	e.finish()
}

// finish keeps the bytes that were held back.
func (e *exchange) finish() {
	e.isFinal = true
	if len(e.head) > 0 {
		e.write(e.head)
	}
	e.head = nil
}

func (e *exchange) write(p []byte) {
	_, lost := e.response.Write(p)
	if lost != nil {
		e.err = lost
	}
}

// endOfHeader returns the length of the header at the beginning of text, with its empty line; -1 if
// it isn't whole.
func endOfHeader(text []byte) int {
	for at := 0; ; {
		line := bytes.IndexByte(text[at:], '\n')
		if line < 0 {
			return -1
		}
		content := bytes.TrimSuffix(text[at:at+line], []byte("\r"))
		at += line + 1
		if len(content) == 0 {
			return at
		}
	}
}

// isInterim reports whether the answer at the beginning of text is followed by another one. 101
// Switching Protocols is final.
func isInterim(text []byte) bool {
	_, status, _ := bytes.Cut(text, []byte(" "))
	status = bytes.TrimLeft(status, " ")
	return len(status) > 3 && status[0] == '1' && !bytes.HasPrefix(status, []byte("101"))
}

// A wire is a connection that hands what passes over it to the exchange that is under way. Without
// pipelining, which net/http doesn't do, there is one at a time.
type wire struct {
	net.Conn
	socket net.Conn // of Conn, below TLS

	mu  sync.Mutex
	now *exchange
}

// begin makes the exchange of req that which is under way.
func (w *wire) begin(req *http.Request) {
	u := *req.URL
	u.User = nil
	u.Fragment = ""
	e := &exchange{
		url:      u.String(),
		request:  gowarc.NewRecordBuilder(gowarc.Request),
		response: gowarc.NewRecordBuilder(gowarc.Response),
	}
	if address, ok := w.RemoteAddr().(*net.TCPAddr); ok {
		e.ip = address.IP.String()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = e
}

func (w *wire) current() *exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// end ends the exchange e and returns it.
func (w *wire) end(e *exchange) *exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == e {
		w.now = nil
	}
	e.finish()
	return e
}

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil || w.now.began.IsZero() || n == 0 {
		return n, err
	}
	w.now.answer(p[:n])
	return n, err
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	w.keepRequest(p)
	return w.Conn.Write(p)
}

func (w *wire) keepRequest(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil {
		return
	}
	if w.now.began.IsZero() {
		w.now.began = time.Now().UTC()
	}
	_, lost := w.now.request.Write(p)
	if lost != nil {
		w.now.err = lost
	}
}

// SetLinger lets politeness reset the connection of a request that is given up.
func (w *wire) SetLinger(seconds int) error {
	if tcp, ok := w.socket.(*net.TCPConn); ok {
		return tcp.SetLinger(seconds)
	}
	return nil
}
