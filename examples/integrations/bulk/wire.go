package main

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-politeness/politeness/examples/internal/reach"
	"github.com/go-politeness/politeness/publicnet"
)

// base returns the transport that speaks HTTP, by the flags.
func (b *bulk) base() http.RoundTripper {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSHandshakeTimeout:   b.timeout,
		ResponseHeaderTimeout: b.timeout,
		DisableKeepAlives:     !b.keepAlive,
		DisableCompression:    true, // see decompressor
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   b.perHost,
		IdleConnTimeout:       90 * time.Second,
	}
	if b.proxy != nil {
		t.Proxy = http.ProxyURL(b.proxy)
	}
	if !b.ownMachine {
		t = publicnet.Transport(t) // links must not lead into the user's own network
	}
	var rt http.RoundTripper = exchangeTimeout{t, b.timeout}
	if b.compression {
		rt = decompressor{rt}
	}
	return rt
}

// ownMachine reports whether a URL names an address of the user's own.
func ownMachine(urls []string) bool { return reach.OwnMachine(urls) }

// errTimeout is the server's fault, not the caller's, so the request is repeated.
var errTimeout = errors.New("the server took too long")

// An exchangeTimeout bounds an exchange from its start to the end of the body.
// http.Client.Timeout would count the time waited for a turn as well.
type exchangeTimeout struct {
	next    http.RoundTripper
	timeout time.Duration
}

func (t exchangeTimeout) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(req.Context(), t.timeout, errTimeout)
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		if context.Cause(ctx) == errTimeout { //nolint:errorlint // the cause itself
			err = errTimeout
		}
		return nil, err
	}
	resp.Request = req
	resp.Body = cancelBody{resp.Body, cancel}
	return resp, nil
}

type cancelBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b cancelBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// A decompressor asks for gzip and deflate, and undoes them. It stands below the Transport, so that
// the limit of bytes counts decompressed bytes: a small response may hold gigabytes.
type decompressor struct{ next http.RoundTripper }

func (d decompressor) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Accept-Encoding") != "" || req.Header.Get("Range") != "" {
		return d.next.RoundTrip(req)
	}
	asked := req.Clone(req.Context())
	asked.Header.Set("Accept-Encoding", "gzip, deflate")
	resp, err := d.next.RoundTrip(asked)
	if err != nil {
		return nil, err
	}
	resp.Request = req
	encoding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding")))
	isPacked := encoding == "gzip" || encoding == "x-gzip" || encoding == "deflate"
	if resp.ContentLength == 0 || !isPacked {
		return resp, nil
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength = -1
	resp.Uncompressed = true
	resp.Body = &inflating{ReadCloser: resp.Body, gzip: encoding != "deflate"}
	return resp, nil
}

// An inflating body is decompressed as it is read.
type inflating struct {
	io.ReadCloser
	gzip  bool
	plain io.Reader // nil: nothing was read
	err   error
}

func (b *inflating) Read(p []byte) (int, error) {
	if b.plain == nil && b.err == nil {
		b.plain, b.err = b.open()
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.plain.Read(p)
}

// open begins to decompress. By RFC 9110, section 8.4.1.2, deflate is zlib's format; some servers
// send the bare stream that is inside of it.
func (b *inflating) open() (io.Reader, error) {
	in := bufio.NewReader(b.ReadCloser)
	head, err := in.Peek(2)
	switch {
	case len(head) == 0:
		return nil, err // an empty body, of HEAD for instance
	case b.gzip:
		return gzip.NewReader(in)
	case isZlib(head):
		return zlib.NewReader(in)
	}
	return flate.NewReader(in), nil
}

// isZlib reports whether head begins a stream of zlib (RFC 1950, section 2.2).
func isZlib(head []byte) bool {
	return len(head) == 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0
}
