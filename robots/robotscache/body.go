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

// MaxBody is how many bytes of a robots.txt count, after decompression: 500 KiB, the least that RFC
// 9309, section 2.5, asks for, and what Google reads. The rest is ignored, and so is the line that
// the limit cuts in two: half a path is another rule than the site's.
const MaxBody = 500 << 10

// maxCompressed bounds how many bytes of a compressed body are read, as they may decompress to
// nothing without end.
const maxCompressed = MaxBody + 64<<10

// maxDrain is how many bytes of an unused body are read, so that its connection can be used again.
const maxDrain = 2 << 10

// readBody returns at most MaxBody bytes of a body. It returns an error if the body ends early:
// half a file would allow what its other half forbids.
func readBody(ctx context.Context, resp *http.Response) ([]byte, error) {
	raw := &rawBody{ctx: ctx, r: resp.Body}
	decoded, err := decode(raw, resp)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(decoded, MaxBody+1)) // one more byte, to see whether it is cut
	if err != nil {
		return nil, err
	}
	// net/http reports a body that is shorter than announced; other transports may not.
	if raw.ended && !resp.Uncompressed && raw.n < resp.ContentLength {
		return nil, io.ErrUnexpectedEOF
	}
	if len(body) > MaxBody {
		// Without a line end before the limit nothing is left.
		body = body[:min(bytes.LastIndexAny(body, "\r\n")+1, MaxBody)]
	}
	return body, nil
}

// decode undoes the content coding that the transport left on the body.
func decode(raw io.Reader, resp *http.Response) (io.Reader, error) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header.Values("Content-Encoding"), ",")))
	switch {
	case resp.Uncompressed, coding == "", coding == "identity":
		return raw, nil
	case coding != "gzip" && coding != "x-gzip" && coding != "deflate":
		return nil, fmt.Errorf("content coding %.200q was not asked for", coding)
	}
	buffered := bufio.NewReader(io.LimitReader(raw, maxCompressed))
	head, err := buffered.Peek(2)
	switch {
	case len(head) == 0 && errors.Is(err, io.EOF):
		return buffered, nil // the body is empty
	case coding != "deflate":
		return gzip.NewReader(buffered)
	case isZlib(head):
		return zlib.NewReader(buffered)
	}
	// deflate is zlib, and many servers omit its header (RFC 9110, section 8.4.1.2).
	return flate.NewReader(buffered), nil
}

// isZlib reports whether a body that begins with head has the header of zlib (RFC 1950, section
// 2.2): method 8, and a check by which both bytes are a multiple of 31.
func isZlib(head []byte) bool {
	if len(head) < 2 || head[0]&0x0f != 8 {
		return false
	}
	return (int(head[0])<<8|int(head[1]))%31 == 0
}

// A rawBody reads a body before it is decoded. It ends when ctx is done, even if the body's Read
// ignores that.
type rawBody struct {
	ctx   context.Context
	r     io.Reader
	n     int64 // bytes read
	ended bool  // r has returned io.EOF
}

func (b *rawBody) Read(p []byte) (int, error) {
	if err := context.Cause(b.ctx); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p)
	b.n += int64(n)
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}
