package sitemap

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// decode returns the text of r in UTF-8 and without a byte order mark, where that mark says that it
// is UTF-8 or UTF-16. Without one the bytes stay as they are: the protocol asks for UTF-8.
func decode(r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	mark, _ := b.Peek(3)
	switch {
	case bytes.HasPrefix(mark, []byte("\ufeff")):
		_, _ = b.Discard(3)
	case bytes.HasPrefix(mark, []byte{0xfe, 0xff}):
		return &utf16Reader{in: b, order: binary.BigEndian}
	case bytes.HasPrefix(mark, []byte{0xff, 0xfe}):
		return &utf16Reader{in: b, order: binary.LittleEndian}
	}
	return b
}

// A utf16Reader reads UTF-16 as UTF-8.
type utf16Reader struct {
	in    *bufio.Reader
	order binary.ByteOrder
	out   []byte // that wasn't read yet
	room  [utf8.UTFMax]byte
}

func (u *utf16Reader) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(u.out) == 0 {
			r, err := u.unit()
			if err == nil && utf16.IsSurrogate(r) {
				var low rune
				low, err = u.unit()
				r = utf16.DecodeRune(r, low)
			}
			if err != nil {
				return n, err
			}
			if r == '\ufeff' {
				continue // the mark itself
			}
			u.out = utf8.AppendRune(u.room[:0], r)
		}
		copied := copy(p[n:], u.out)
		u.out, n = u.out[copied:], n+copied
	}
	return n, nil
}

func (u *utf16Reader) unit() (rune, error) {
	var b [2]byte
	if _, err := io.ReadFull(u.in, b[:]); err != nil {
		return 0, err
	}
	return rune(u.order.Uint16(b[:])), nil
}
