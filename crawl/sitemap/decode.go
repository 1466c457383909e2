package sitemap

import (
	"bufio"
	"bytes"
	"io"

	"golang.org/x/net/html/charset"
)

// decode returns the text of r in UTF-8 and without a byte order mark, where that mark says that it
// is UTF-8 or UTF-16. Without one the bytes stay as they are: the protocol asks for UTF-8.
func decode(r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	mark, _ := b.Peek(3)
	if bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = b.Discard(3)
		return b
	}
	for start, label := range map[string]string{"\xfe\xff": "utf-16be", "\xff\xfe": "utf-16le"} {
		if bytes.HasPrefix(mark, []byte(start)) {
			_, _ = b.Discard(2)
			text, _ := charset.NewReaderLabel(label, b) // both labels are the standard's
			return text
		}
	}
	return b
}
