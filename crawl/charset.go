package crawl

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"

	"github.com/go-politeness/politeness/internal/mediatype"
	"github.com/go-politeness/politeness/internal/weblink"
)

// text returns the text of the page in UTF-8, and a function that encodes the query of a link as
// browsers do, in the encoding of the page (https://url.spec.whatwg.org, section 4.4).
func (p *Page) text(kind mediatype.Page) (text io.Reader, query func(string) string) {
	name := encodingOf(p.Body, kind)
	query = func(raw string) string { return raw }
	if name == "utf-8" {
		return bytes.NewReader(p.Body), query
	}
	e, _ := charset.Lookup(name)            // it knows all names of encodingOf
	if !strings.HasPrefix(name, "utf-16") { // whose queries are in UTF-8
		encoder := e.NewEncoder()
		query = func(raw string) string { return inEncoding(raw, encoder.String) }
	}
	return e.NewDecoder().Reader(bytes.NewReader(p.Body)), query
}

// byteOrderMarks are those that begin a text in UTF-8 or UTF-16.
var byteOrderMarks = []string{"\xef\xbb\xbf", "\xfe\xff", "\xff\xfe"}

// encodingOf returns the name of the encoding of a page: that of a byte order mark, of its
// Content-Type, of its XML declaration or its <meta>, or else that of its bytes (HTML, section
// 13.2.3.2).
func encodingOf(body []byte, kind mediatype.Page) string {
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return "utf-8"
	case bytes.HasPrefix(body, []byte("\xfe\xff")), bytes.HasPrefix(body, []byte("\x00<")):
		if name := encodingNamed(kind.Charset); name != "" && body[0] == 0 {
			return name // no mark, so the header decides
		}
		return "utf-16be"
	case bytes.HasPrefix(body, []byte("\xff\xfe")), bytes.HasPrefix(body, []byte("<\x00")):
		if name := encodingNamed(kind.Charset); name != "" && body[0] == '<' {
			return name
		}
		return "utf-16le"
	}
	if name := encodingNamed(kind.Charset); name != "" {
		return name
	}
	if name := encodingNamed(declared(body)); name != "" {
		return inBytes(name)
	}
	if isUTF8(kind.Type) {
		return "utf-8"
	}
	if markup, isPage := weblink.MarkupOf(kind.Type); isPage && markup == weblink.HTML {
		if name := prescan(body); name != "" {
			return inBytes(name)
		}
	}
	whole := withoutPart(body)
	if utf8.Valid(whole) && utf8.RuneCount(whole) < len(whole) {
		return "utf-8"
	}
	return "windows-1252"
}

// isUTF8 reports whether a text of this media type is in UTF-8 if nothing else is stated: XML (XML
// 1.0, section 4.3.3) and JSON (RFC 8259, section 8.1).
func isUTF8(mediaType string) bool {
	_, sub, _ := strings.Cut(mediaType, "/")
	sub = sub[strings.LastIndexByte(sub, '+')+1:]
	return sub == "xml" || sub == "json"
}

// withoutPart returns a text without the part of a character at its end: a body may be cut there.
func withoutPart(text []byte) []byte {
	for i := len(text) - 1; i >= 0 && i > len(text)-utf8.UTFMax; i-- {
		if !utf8.RuneStart(text[i]) {
			continue
		}
		if !utf8.FullRune(text[i:]) {
			return text[:i]
		}
		break
	}
	return text
}

// encodingNamed returns the name of the encoding with a label; empty: there is none.
func encodingNamed(label string) string {
	if label == "" {
		return ""
	}
	_, name := charset.Lookup(label)
	return name
}

// inBytes returns the encoding of a page that declares this one in bytes of ASCII: not UTF-16.
func inBytes(name string) string {
	switch {
	case strings.HasPrefix(name, "utf-16"):
		return "utf-8"
	case name == "x-user-defined":
		return "windows-1252"
	}
	return name
}

// xmlDeclaration matches an XML declaration with an encoding (XML 1.0, section 2.8).
var xmlDeclaration = regexp.MustCompile(`^<\?xml\s[^>]*?\sencoding\s*=\s*["']\s*([A-Za-z0-9._:-]+)\s*["']`)

// declared returns the label of the encoding in the XML declaration of a page; empty: there is
// none.
func declared(body []byte) string {
	groups := xmlDeclaration.FindSubmatch(body[:min(len(body), 1024)])
	if groups == nil {
		return ""
	}
	return string(groups[1])
}

// maxPrescan is how much of a page is searched for the <meta> that names its encoding. The HTML
// standard asks for 1,024 bytes. Chromium reads on to the end of the head.
const maxPrescan = 64 << 10

// charsetWord is in each <meta> that names an encoding.
var charsetWord = regexp.MustCompile(`(?i)charset`)

// prescan returns the name of the encoding that a <meta> in the head of a page names; empty: there
// is none.
func prescan(body []byte) string {
	head := body[:min(len(body), maxPrescan)]
	if !charsetWord.Match(head) {
		return ""
	}
	z := html.NewTokenizer(bytes.NewReader(head))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return ""
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			if string(name) == "body" {
				return ""
			}
			if string(name) == "noscript" {
				z.NextIsNotRawText()
			}
			if string(name) != "meta" {
				continue
			}
			if name := encodingNamed(metaCharset(z)); name != "" {
				return name
			}
		}
	}
}

// metaCharset returns the label of the encoding that the <meta> that z is at names; empty: it names
// none.
func metaCharset(z *html.Tokenizer) string {
	var label, content string
	isPragma := false
	for more := true; more; {
		var name, value []byte
		name, value, more = z.TagAttr()
		switch string(name) {
		case "charset":
			label = string(value)
		case "content":
			content = string(value)
		case "http-equiv":
			isPragma = strings.EqualFold(string(value), "content-type")
		}
	}
	if label != "" || !isPragma {
		return label
	}
	groups := metaContent.FindStringSubmatch(content)
	if groups == nil {
		return ""
	}
	return groups[1] + groups[2] + groups[3] // two of them are empty
}

// metaContent matches the content of a <meta http-equiv="content-type"> with a charset, which is in
// one of the groups (HTML, section 2.6.6).
var metaContent = regexp.MustCompile(`(?i)charset\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;"']+))`)

// inEncoding escapes the non-ASCII characters of a query as bytes of the encoding of encode, which
// is of package charset. A character that the encoding doesn't have is written as "&#20320;".
func inEncoding(raw string, encode func(string) (string, error)) string {
	var b strings.Builder
	for _, char := range raw {
		if char < utf8.RuneSelf {
			b.WriteRune(char)
			continue
		}
		code, _ := encode(string(char)) // no error: each rune is encoded, if need be as "&#20320;"
		for i := range len(code) {
			fmt.Fprintf(&b, "%%%02X", code[i])
		}
	}
	return b.String()
}
