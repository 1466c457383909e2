package robotscache

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// MaxBody is how much of a robots.txt counts, after decompression: 500 KiB, the least that RFC
// 9309, section 2.5, asks for, and what Google reads. What comes after is ignored, and so is the
// line that the limit cuts in two: half a path is a rule that nobody wrote.
const MaxBody = 500 << 10

// maxWire bounds what is read of a compressed body, since compressed bytes can
// be made to unpack to nothing for ever.
const maxWire = MaxBody + 64<<10

// maxSlurp is how much of a body that doesn't matter is read, so that its
// connection can be used again.
const maxSlurp = 2 << 10

// readBody returns what counts of a body, and an error where it isn't whole: half
// a file would allow what its other half forbids.
func readBody(ctx context.Context, resp *http.Response) ([]byte, error) {
	wire := &wireReader{ctx: ctx, r: resp.Body}
	decoded, err := decode(wire, resp)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(decoded, MaxBody+1)) // one more tells whether it was cut
	if err != nil {
		return nil, err
	}
	if wire.ended && !resp.Uncompressed && wire.n < resp.ContentLength {
		return nil, io.ErrUnexpectedEOF
	}
	if len(body) > MaxBody {
		body = body[:min(bytes.LastIndexAny(body, "\r\n")+1, MaxBody)]
	}
	return body, nil
}

// decode undoes the content coding that Base left on the body.
func decode(wire io.Reader, resp *http.Response) (io.Reader, error) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header.Values("Content-Encoding"), ",")))
	if resp.Uncompressed {
		coding = ""
	}
	switch coding {
	case "", "identity":
		return wire, nil
	case "gzip", "x-gzip":
		buffered := bufio.NewReader(io.LimitReader(wire, maxWire))
		if _, err := buffered.Peek(1); errors.Is(err, io.EOF) {
			return buffered, nil // nothing was compressed
		}
		return gzip.NewReader(buffered)
	case "deflate": // means zlib, and many send it bare (RFC 9110, section 8.4.1.2)
		buffered := bufio.NewReader(io.LimitReader(wire, maxWire))
		head, err := buffered.Peek(2)
		switch {
		case len(head) == 0 && errors.Is(err, io.EOF):
			return buffered, nil
		case len(head) == 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0:
			return zlib.NewReader(buffered)
		}
		return flate.NewReader(buffered), nil
	}
	return nil, fmt.Errorf("content coding %.200q was not asked for", coding)
}

// A wireReader reads a body as it was sent, and stops when ctx is done even if the body doesn't.
type wireReader struct {
	ctx   context.Context
	r     io.Reader
	n     int64
	ended bool // the body's own end was seen
}

func (w *wireReader) Read(p []byte) (int, error) {
	if err := context.Cause(w.ctx); err != nil {
		return 0, err
	}
	n, err := w.r.Read(p)
	w.n += int64(n)
	w.ended = w.ended || errors.Is(err, io.EOF)
	return n, err
}
