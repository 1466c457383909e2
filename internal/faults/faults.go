// Package faults finds the requests that had no answer by their caller's fault.
package faults

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"

	"github.com/go-politeness/politeness/publicnet"
)

// Sendable reports whether net/http sends req: its errors for what it refuses have no type.
func Sendable(req *http.Request) bool {
	host, err := httpguts.PunycodeHostPort(cmp.Or(req.Host, req.URL.Host))
	switch {
	case !httpguts.ValidHeaderFieldName(cmp.Or(req.Method, "GET")),
		!fields(req.Header), !fields(req.Trailer),
		err != nil, !httpguts.ValidHostHeader(host),
		strings.ContainsFunc(req.URL.RequestURI(), func(c rune) bool { return c < ' ' || c == 0x7f }),
		req.ContentLength != 0 && req.Body == nil:
		return false
	}
	for name := range req.Trailer {
		switch http.CanonicalHeaderKey(name) {
		case "Content-Length", "Trailer", "Transfer-Encoding":
			return false
		}
	}
	return true
}

// fields reports whether net/http sends h.
func fields(h http.Header) bool {
	for name, values := range h {
		if !httpguts.ValidHeaderFieldName(name) ||
			slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return false
		}
	}
	return true
}

// hopByHop reports whether h has fields that HTTP/2 doesn't send (RFC 9113, section 8.2.2).
func hopByHop(h http.Header) bool {
	return !hasOnly(h["Upgrade"], "") ||
		!hasOnly(h["Transfer-Encoding"], "", "chunked") ||
		!hasOnly(h["Connection"], "", "close", "keep-alive")
}

// hasOnly reports whether there is no value, or one of those allowed.
func hasOnly(values []string, allowed ...string) bool {
	switch len(values) {
	case 0:
		return true
	case 1:
		return slices.Contains(allowed, strings.ToLower(values[0]))
	}
	return false
}

// tooLarge is what HTTP/2 returns for a header that is larger than the server has said it reads.
// That error is in an internal package.
const tooLarge = "request header list larger than peer's advertised limit"

// large reports whether h is larger than what servers read. They may just cut the connection then.
func large(h http.Header) bool {
	size := 0
	for name, values := range h {
		for _, v := range values {
			size += len(name) + len(v) + 32 // as HTTP/2 counts (RFC 9113, section 6.5.2)
		}
	}
	return size > http.DefaultMaxHeaderBytes
}

// Callers reports whether err, of a try of req without an answer, is the caller's own: what
// net/http refuses, an address that publicnet refuses, a header that is too large, or the body.
func Callers(req *http.Request, body *Body, err error) bool {
	switch {
	case !Sendable(req), hopByHop(req.Header), large(req.Header):
		return true
	case errors.Is(err, publicnet.ErrPrivate):
		return true
	case body.faulty.Load():
		return true
	}
	return strings.Contains(err.Error(), tooLarge)
}

// Permanent reports whether a further try would end with err as well.
func Permanent(err error) bool {
	var name *net.DNSError
	if errors.As(err, &name) && name.IsNotFound {
		return true
	}
	var address *net.AddrError
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &address) || errors.As(err, &certificate) {
		return true
	}
	return errors.Is(err, publicnet.ErrPrivate) ||
		errors.Is(err, http.ErrSchemeMismatch) ||
		errors.Is(err, context.Canceled)
}

// A Body is the body of a request, and notes whether that is why the request couldn't be sent: the
// reader fails, or isn't as long as Request.ContentLength says.
type Body struct {
	io.ReadCloser
	length int64 // 0, -1: not known
	read   atomic.Int64
	closed atomic.Bool // what a read returns from here on is of the closing
	faulty atomic.Bool
}

// Watch makes b the body of req, where that has one. One in memory stays as it is, since net/http
// sends it with its header in one packet, and its length is known.
func (b *Body) Watch(req *http.Request) {
	if req.Body == nil || req.Body == http.NoBody {
		return
	}
	if m := inMemory(req.Body); m != nil {
		b.faulty.Store(req.ContentLength > 0 && int64(m.Len()) != req.ContentLength)
		return
	}
	b.ReadCloser = req.Body
	b.length = req.ContentLength
	req.Body = b
}

// nopCloser and nopCloserWriterTo are the types that io.NopCloser returns; Field 0 is what they
// close.
var (
	nopCloser         = reflect.TypeOf(io.NopCloser(nil))
	nopCloserWriterTo = reflect.TypeOf(io.NopCloser(new(bytes.Buffer)))
)

// inMemory returns the reader in memory that r is or closes, or nil.
func inMemory(r any) interface{ Len() int } {
	v := reflect.ValueOf(r)
	if v.Type() == nopCloser || v.Type() == nopCloserWriterTo {
		r = v.Field(0).Interface()
	}
	switch m := r.(type) {
	case *bytes.Buffer:
		return m
	case *bytes.Reader:
		return m
	case *strings.Reader:
		return m
	}
	return nil
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	read := b.read.Add(int64(n))
	// Once Base closes the body, a read fails by that, and not by the caller's fault.
	if b.isWrong(read, err) && !b.closed.Load() {
		b.faulty.Store(true)
	}
	return n, err
}

// isWrong reports whether the body fails with err, or isn't as long as it was said to be, when read
// bytes of it were read.
func (b *Body) isWrong(read int64, err error) bool {
	if err != nil && err != io.EOF { //nolint:errorlint // a Reader's end is io.EOF itself
		return true
	}
	if b.length <= 0 {
		return false
	}
	tooShort := err != nil && read < b.length
	return tooShort || read > b.length
}

// Close implements io.Closer.
func (b *Body) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
}
