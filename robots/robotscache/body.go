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
	"slices"
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

// codings are the content codings that exist (RFC 9110, section 8.4.1, and its registry). Those
// that are false are neither asked for nor undone.
var codings = map[string]bool{
	"gzip":         true,
	"x-gzip":       true,
	"deflate":      true,
	"aes128gcm":    false,
	"br":           false,
	"compress":     false,
	"dcb":          false,
	"dcz":          false,
	"exi":          false,
	"pack200-gzip": false,
	"x-compress":   false,
	"zstd":         false,
}

// decode undoes the content codings that the transport left on the body. A word that names no
// coding, such as "none" or "utf-8", is none. Whether a body is gzip is known by its first two
// bytes, whatever the header says.
func decode(raw io.Reader, resp *http.Response) (io.Reader, error) {
	// One more byte than counts shows that a body is cut.
	body := bufio.NewReader(io.LimitReader(raw, maxCompressed))
	if resp.Uncompressed { // the header is that of the body before
		return gunzip(body)
	}
	words := strings.Split(strings.ToLower(strings.Join(resp.Header.Values("Content-Encoding"), ",")), ",")
	unknown := ""
	for _, word := range slices.Backward(words) { // the last one was applied last
		word = strings.TrimSpace(word)
		isOurs, isCoding := codings[word]
		switch {
		case isCoding && !isOurs:
			return nil, fmt.Errorf("content coding %.200q was not asked for", word)
		case word == "deflate":
			inflated, err := inflate(body)
			if err != nil {
				return nil, err
			}
			body = inflated
		case isCoding:
			unzipped, err := gunzip(body)
			if err != nil {
				return nil, err
			}
			if unzipped == body {
				unknown = word // the body doesn't bear it out
			}
			body = unzipped
		case word != "" && word != "identity":
			unknown = word
		}
	}
	unzipped, err := gunzip(body)
	if err != nil {
		return nil, err
	}
	if unknown != "" && isBinary(unzipped) {
		return nil, fmt.Errorf("content coding %.200q is not that of the body, which is no text", unknown)
	}
	return unzipped, nil
}

// gunzip returns body without its coding, if it begins as gzip does (RFC 1952, section 2.3.1).
func gunzip(body *bufio.Reader) (*bufio.Reader, error) {
	if !isGzip(body) {
		return body, nil
	}
	plain, err := gzip.NewReader(body)
	if err != nil {
		return nil, err
	}
	plain.Multistream(false)
	return bufio.NewReader(io.LimitReader(&members{body: body, plain: plain}, maxCompressed)), nil
}

// isGzip reports whether the rest of body begins as gzip does.
func isGzip(body *bufio.Reader) bool {
	head, _ := body.Peek(2)
	return string(head) == "\x1f\x8b"
}

// members reads the members of a gzip file. What follows the last one and is none, such as line
// ends or zeros, is ignored, as browsers do.
type members struct {
	body  *bufio.Reader
	plain *gzip.Reader
}

func (m *members) Read(p []byte) (int, error) {
	n, err := m.plain.Read(p)
	if !errors.Is(err, io.EOF) || !isGzip(m.body) {
		return n, err
	}
	if err := m.plain.Reset(m.body); err != nil {
		return n, err
	}
	m.plain.Multistream(false)
	return n, nil
}

// inflate returns body without deflate. It is zlib, and many servers omit its header (RFC 9110,
// section 8.4.1.2).
func inflate(body *bufio.Reader) (*bufio.Reader, error) {
	head, err := body.Peek(2)
	if len(head) == 0 && errors.Is(err, io.EOF) {
		return body, nil // the body is empty
	}
	var plain io.Reader = flate.NewReader(body)
	if isZlib(head) {
		plain, err = zlib.NewReader(body)
		if err != nil {
			return nil, err
		}
	}
	return bufio.NewReader(io.LimitReader(plain, maxCompressed)), nil
}

// isBinary reports whether a body is no text, by the bytes that no text has (the MIME Sniffing
// standard, section 3). Text in UTF-16 begins with a byte order mark.
func isBinary(body *bufio.Reader) bool {
	head, _ := body.Peek(1024)
	if bytes.HasPrefix(head, []byte("\xfe\xff")) || bytes.HasPrefix(head, []byte("\xff\xfe")) {
		return false
	}
	return bytes.ContainsFunc(head, func(r rune) bool {
		return r <= 0x08 || r == 0x0b || (r >= 0x0e && r <= 0x1a) || (r >= 0x1c && r <= 0x1f)
	})
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
