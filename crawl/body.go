package crawl

import (
	"bytes"
	"errors"
	"io"
	"math"

	"github.com/go-politeness/politeness/internal/coding"
)

// decode replaces the body of the page's response by a reader that decodes it, as browsers do. If
// isAsked, Config.Prepare has asked for a coding, and the body stays as it came. The error is about
// a coding that wasn't asked for and can't be decoded.
func (p *Page) decode(isAsked bool, most int64) error {
	resp := p.Response
	codings := coding.Of(resp.Header)
	switch {
	case resp.Uncompressed: // by the transport
		resp.Body = &decodedBody{Reader: coding.Forgiving(resp.Body, true), Closer: resp.Body, page: p}
		return nil
	case isAsked, len(codings) == 0:
		return nil
	}
	raw := &counted{Reader: resp.Body}
	// Between several codings there may be more bytes than in the body.
	const atLeast = 64 << 10
	between := 4*min(most, math.MaxInt64/4-atLeast) + atLeast
	decoded, err := coding.NewReader(raw, codings, between)
	if err != nil {
		return err
	}
	resp.Body = &decodedBody{
		Reader:    coding.Forgiving(decoded, true),
		Closer:    resp.Body,
		page:      p,
		raw:       raw,
		announced: resp.ContentLength,
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength = -1
	resp.Uncompressed = true
	return nil
}

// A decodedBody is a body of which a part counts, if its data ends early.
type decodedBody struct {
	io.Reader
	io.Closer
	page      *Page
	hasRead   bool
	raw       *counted // nil: the transport decodes it
	announced int64    // length of raw; -1: it isn't known
}

func (b *decodedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.hasRead = b.hasRead || n > 0
	// If the network has cut the body, the coding isn't at fault.
	isCut := b.raw != nil && (b.raw.failed || b.raw.n < b.announced)
	if errors.Is(err, io.ErrUnexpectedEOF) && b.hasRead && !isCut {
		b.page.cut = true
		err = io.EOF
	}
	return n, err
}

// A counted counts the bytes that are read, and notes whether they end with an error.
type counted struct {
	io.Reader
	n      int64
	failed bool // Reader has returned another error than io.EOF
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	isEnd := errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
	c.failed = c.failed || err != nil && !isEnd
	return n, err
}

// endsHTML reports whether a text ends as a page of HTML does.
func endsHTML(text []byte) bool {
	const end = "</html>"
	text = bytes.TrimRight(text, " \t\r\n")
	return len(text) >= len(end) && bytes.EqualFold(text[len(text)-len(end):], []byte(end))
}
