// Package coding decodes the bodies of responses (RFC 9110, section 8.4.1) as browsers do, which
// forgive what servers get wrong: bytes behind the data, a trailer that is missing or wrong,
// "deflate" with and without the header of zlib, "x-gzip", and several codings one after the other.
package coding

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strings"
)

// maxLayers is the largest number of codings of one body.
const maxLayers = 4

// Of returns the codings of a body in the order in which they were applied, in lower case and
// without "identity". They are none if the transport has decoded the body.
func Of(header http.Header) []string {
	var codings []string
	for _, field := range header["Content-Encoding"] {
		for name := range strings.SplitSeq(strings.ToLower(field), ",") {
			name = strings.Trim(name, " \t")
			if name != "" && name != "identity" {
				codings = append(codings, name)
			}
		}
	}
	return codings
}

// NewReader returns a reader of the decoded body. Of what each coding is decoded to, and of raw,
// most bytes are read: a body may decompress to nothing without end. The error is that of codings
// that can't be decoded, or of data that isn't in its coding at all. Read returns
// io.ErrUnexpectedEOF if the data ends early, the error of raw if it has one, and gzip.ErrChecksum
// behind data that isn't what was packed: see Forgiving. An empty body is none of any coding.
func NewReader(raw io.Reader, codings []string, most int64) (io.Reader, error) {
	if len(codings) > maxLayers {
		return nil, fmt.Errorf("%d content codings, of which %d at most are decoded", len(codings), maxLayers)
	}
	for _, name := range slices.Backward(codings) {
		buffered := bufio.NewReader(&limited{r: raw, n: most})
		head, err := buffered.Peek(2)
		if len(head) == 0 && errors.Is(err, io.EOF) {
			return buffered, nil
		}
		if len(head) == 0 {
			return nil, err
		}
		var decoder io.Reader
		switch name {
		case "gzip", "x-gzip":
			decoder, err = newGzip(buffered)
		case "deflate":
			decoder, err = newDeflate(buffered, head)
		default:
			// A word that names no coding, such as "none" or "utf-8", is none if the body is a text.
			if isCoding(name) || isBinary(buffered) {
				return nil, fmt.Errorf("content coding %.200q was not asked for", name)
			}
			decoder = buffered
		}
		if err != nil {
			return nil, err
		}
		raw = &layer{Reader: decoder, packed: buffered}
	}
	return raw, nil
}

// isCoding reports whether a word names a coding of the registry (RFC 9110, section 8.4.1) that
// isn't undone.
func isCoding(name string) bool {
	switch name {
	case "aes128gcm", "br", "compress", "dcb", "dcz", "exi", "pack200-gzip", "x-compress", "zstd":
		return true
	}
	return false
}

// isBinary reports whether a body has bytes that no text has (MIME Sniffing, section 3).
func isBinary(body *bufio.Reader) bool {
	head, _ := body.Peek(1024)
	return bytes.ContainsFunc(head, func(r rune) bool {
		return r <= 0x08 || r == 0x0b || r >= 0x0e && r <= 0x1a || r >= 0x1c && r <= 0x1f
	})
}

// A layer is a body that is decoded. Behind its data it reads packed to the end, whose error may be
// that of the whole body.
type layer struct {
	io.Reader
	packed io.Reader
}

func (l *layer) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	isEnd := errors.Is(err, io.EOF) || errors.Is(err, gzip.ErrChecksum)
	if !isEnd {
		return n, err
	}
	// A body that the network has cut off is an error, though its data may have come whole: the data
	// of other members may be missing.
	_, behind := io.Copy(io.Discard, l.packed)
	if behind != nil && !errors.Is(behind, errTooMuch) {
		return n, behind
	}
	return n, err
}

// errTooMuch is the end of a body that is read up to its bound.
var errTooMuch = errors.New("the body is longer than its decoding may be")

// A limited reads n bytes of r. Its error stays: a decoder may take the first one for an end.
type limited struct {
	r   io.Reader
	n   int64
	err error // of r
}

func (l *limited) Read(p []byte) (int, error) {
	switch {
	case l.err != nil:
		return 0, l.err
	case l.n <= 0:
		return 0, errTooMuch
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.n)])
	l.n -= int64(n)
	l.err = err
	return n, err
}

// newDeflate returns a reader of "deflate", which is zlib. Many servers omit its header (RFC 9110,
// section 8.4.1.2).
func newDeflate(r *bufio.Reader, head []byte) (io.Reader, error) {
	// RFC 1950, section 2.2: method 8, and a check by which both bytes are a multiple of 31.
	isZlib := len(head) == 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0
	if !isZlib {
		return flate.NewReader(r), nil
	}
	_, err := r.Discard(len(head))
	if err != nil {
		return nil, err
	}
	return &zlibReader{r: r, data: flate.NewReader(r), sum: adler32.New()}, nil
}

// A zlibReader reads zlib (RFC 1950) behind its header. Without a whole checksum it is good.
type zlibReader struct {
	r    *bufio.Reader
	data io.Reader
	sum  hash.Hash32 // of the data so far
}

func (z *zlibReader) Read(p []byte) (int, error) {
	n, err := z.data.Read(p)
	_, _ = z.sum.Write(p[:n]) // never fails
	if n > 0 || !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if errors.Is(err, io.EOF) {
			err = nil // the end comes with the next Read
		}
		return n, err
	}
	checksum, _ := z.r.Peek(4)
	if len(checksum) == 4 && binary.BigEndian.Uint32(checksum) != z.sum.Sum32() {
		return 0, gzip.ErrChecksum
	}
	return 0, io.EOF
}

// A gzipReader reads gzip (RFC 1952), member by member. A member without a whole trailer is good.
type gzipReader struct {
	r    *bufio.Reader
	data io.ReadCloser // of the member
	sum  uint32        // of its data so far
}

func newGzip(r *bufio.Reader) (*gzipReader, error) {
	g := &gzipReader{r: r}
	if err := g.readHeader(); err != nil {
		return nil, err
	}
	g.data = flate.NewReader(r)
	return g, nil
}

func (g *gzipReader) Read(p []byte) (int, error) {
	for {
		n, err := g.data.Read(p)
		g.sum = crc32.Update(g.sum, crc32.IEEETable, p[:n])
		isEnd := errors.Is(err, io.EOF)
		if n > 0 && isEnd {
			return n, nil // the end comes with the next Read
		}
		if n > 0 || !isEnd {
			return n, err
		}
		if err := g.nextMember(); err != nil {
			return 0, err
		}
	}
}

// nextMember reads the trailer of a member and the header of the next one. It returns io.EOF if no
// other one follows: what stands there isn't data.
func (g *gzipReader) nextMember() error {
	var trailer [8]byte
	_, err := io.ReadFull(g.r, trailer[:])
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return io.EOF
	case err != nil:
		return err
	case binary.LittleEndian.Uint32(trailer[:]) != g.sum:
		return gzip.ErrChecksum
	}
	next, err := g.r.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(next) < 3 || next[0] != 0x1f || next[1] != 0x8b || next[2] != 8 {
		return io.EOF
	}
	err = g.readHeader()
	if errors.Is(err, gzip.ErrHeader) {
		return io.EOF
	}
	if err != nil {
		return err
	}
	g.sum = 0
	return g.data.(flate.Resetter).Reset(g.r, nil)
}

// Bits of the flags in a header (RFC 1952, section 2.3.1).
const (
	hasCheck   = 1 << 1
	hasExtra   = 1 << 2
	hasName    = 1 << 3
	hasComment = 1 << 4
)

// readHeader reads the header of a member.
func (g *gzipReader) readHeader() error {
	var head [10]byte
	_, err := io.ReadFull(g.r, head[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || head[0] != 0x1f || head[1] != 0x8b || head[2] != 8 {
		return gzip.ErrHeader
	}
	if err != nil {
		return err
	}
	flags := head[3]
	if flags&hasExtra != 0 {
		if _, err := io.ReadFull(g.r, head[:2]); err != nil {
			return gzip.ErrHeader
		}
		if _, err := g.r.Discard(int(head[0]) | int(head[1])<<8); err != nil {
			return gzip.ErrHeader
		}
	}
	for _, text := range []byte{hasName, hasComment} {
		if flags&text == 0 {
			continue
		}
		if err := g.skipText(); err != nil {
			return err
		}
	}
	if flags&hasCheck != 0 {
		if _, err := g.r.Discard(2); err != nil {
			return gzip.ErrHeader
		}
	}
	return nil
}

// skipText reads past a text that ends with a NUL.
func (g *gzipReader) skipText() error {
	for {
		b, err := g.r.ReadByte()
		if err != nil {
			return gzip.ErrHeader
		}
		if b == 0 {
			return nil
		}
	}
}

// Forgiving returns a reader of a decoded body, without the errors of gzip behind data that has
// come whole: some bytes that are no data, as the transport's decoder reports them, and, with
// checksum, a wrong checksum.
func Forgiving(r io.Reader, checksum bool) io.Reader { return &forgiving{r: r, checksum: checksum} }

type forgiving struct {
	r        io.Reader
	checksum bool
	hasRead  bool
}

func (f *forgiving) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	f.hasRead = f.hasRead || n > 0
	isForgiven := errors.Is(err, gzip.ErrHeader) || f.checksum && errors.Is(err, gzip.ErrChecksum)
	if f.hasRead && isForgiven { // else the body is no gzip at all
		err = io.EOF
	}
	return n, err
}
