package sitemap

import (
	"bufio"
	"bytes"
	"io"
	"regexp"
	"strings"

	"golang.org/x/net/html/charset"
)

// decode returns the text of r in UTF-8, without the byte order marks and the white space that it
// begins with. Its encoding is that of a byte order mark, else the one that XML declares. Without
// either the bytes stay as they are: the protocol asks for UTF-8.
func decode(r io.Reader) *bufio.Reader {
	raw := bufio.NewReader(r)
	start, _ := raw.Peek(2)
	label, isWide := wide[string(start)]
	if isWide {
		text, _ := charset.NewReaderLabel(label, raw) // both labels are the standard's
		in := bufio.NewReader(text)
		skipBlanks(in)
		return in
	}
	isMarked := skipBlanks(raw)
	label = declared(raw)
	if isMarked || label == "" {
		return raw
	}
	text, err := charset.NewReaderLabel(label, raw)
	if err != nil {
		return raw // the label names no encoding
	}
	return bufio.NewReader(text)
}

// wide are the first two bytes of a text in UTF-16: a byte order mark, or the "<" of XML.
var wide = map[string]string{
	"\xfe\xff": "utf-16be",
	"\xff\xfe": "utf-16le",
	"\x00<":    "utf-16be",
	"<\x00":    "utf-16le",
}

const byteOrderMark = "\xef\xbb\xbf"

// skipBlanks reads the white space and the byte order marks that in begins with: files that
// programs put together have several. It reports whether there was a mark.
func skipBlanks(in *bufio.Reader) (isMarked bool) {
	for {
		start, _ := in.Peek(len(byteOrderMark))
		skipped := 0
		switch {
		case string(start) == byteOrderMark:
			isMarked = true
			skipped = len(byteOrderMark)
		case len(start) > 0 && strings.IndexByte(" \t\r\n", start[0]) >= 0:
			skipped = 1
		default:
			return isMarked
		}
		_, _ = in.Discard(skipped)
	}
}

var declaration = regexp.MustCompile(`^<\?xml\s[^>]*?\bencoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["']`)

// declared returns the encoding that an XML declaration names; empty: none but UTF-8. In a text
// whose declaration could be read by its bytes, UTF-16 is UTF-8.
func declared(in *bufio.Reader) string {
	start, _ := in.Peek(256)
	match := declaration.FindSubmatch(start)
	if match == nil {
		return ""
	}
	label := string(bytes.ToLower(match[1]))
	if label == "utf-8" || label == "utf8" || strings.HasPrefix(label, "utf-16") {
		return ""
	}
	return label
}
