package robotscache

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/go-politeness/politeness/internal/coding"
)

// MaxBody is how many bytes of a robots.txt count, after decompression. It is 500 KiB, the least
// that RFC 9309, section 2.5, asks for, and as many as Google reads. The rest is ignored, and so is
// the line that the limit cuts in two, because half a path is another rule.
const MaxBody = 500 << 10

// maxCompressed bounds how many bytes of a compressed body are read, as they may decompress to
// nothing without end.
const maxCompressed = MaxBody + 64<<10

// maxDrain is how many bytes of an unused body are read, so that its connection can be used again.
const maxDrain = 2 << 10

// readBody returns at most MaxBody bytes of a body. It returns an error if the body ends early,
// because half a file would allow URLs that the other half disallows.
func readBody(ctx context.Context, resp *http.Response) ([]byte, error) {
	raw := &rawBody{ctx: ctx, r: resp.Body}
	decoded, err := decode(raw, resp)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(decoded, MaxBody+1)) // one more byte, to see whether it is cut
	if err == nil {
		err = raw.err // a decoder may have ignored it, as an error behind its data
	}
	if err != nil {
		return nil, err
	}
	// net/http reports a body that is shorter than announced. Other transports may not.
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
	body := bufio.NewReader(raw)
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
			inflated, err := undo(body, word)
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

// gunzip returns body without its coding, if it begins as gzip does (RFC 1952, section 2.3.1). As
// in browsers, its trailer may be missing, and bytes behind it that aren't gzip are ignored.
func gunzip(body *bufio.Reader) (*bufio.Reader, error) {
	head, _ := body.Peek(2)
	if string(head) != "\x1f\x8b" {
		return body, nil
	}
	return undo(body, "gzip")
}

// undo returns body without the coding of that name.
func undo(body *bufio.Reader, name string) (*bufio.Reader, error) {
	plain, err := coding.NewReader(body, []string{name}, maxCompressed)
	if err != nil {
		return nil, err
	}
	return bufio.NewReader(plain), nil
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

// A rawBody reads a body before it is decoded. It ends when ctx is done, even if the body's Read
// ignores that.
type rawBody struct {
	ctx   context.Context
	r     io.Reader
	n     int64 // bytes read
	ended bool  // r has returned io.EOF
	err   error // of r, but for io.EOF
}

func (b *rawBody) Read(p []byte) (int, error) {
	if err := context.Cause(b.ctx); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p)
	b.n += int64(n)
	isEnd := errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
	b.ended = b.ended || isEnd
	if err != nil && !isEnd {
		b.err = err
	}
	return n, err
}
