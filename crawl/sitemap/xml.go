package sitemap

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-politeness/politeness/internal/weblink"
)

// The XML of sitemaps is read by a scanner of our own: encoding/xml keeps every open element and
// every text, so a stranger's file decides how much memory it takes. It also stops at the first "&"
// that isn't escaped, and sitemaps are full of these. This scanner only keeps its depth, the open
// entry and the text of one field.

// readXML reads the entries of a file in XML.
func (p *parser) readXML() error {
	for {
		b, err := p.in.ReadByte()
		if err != nil {
			return p.endXML(err)
		}
		switch b {
		case '<':
			err = p.markup()
		case '&':
			p.reference()
		default:
			p.hasContent = p.hasContent || p.depth == 1 && b > ' '
			p.addText(b)
		}
		if err != nil {
			return err
		}
	}
}

// endXML returns what a file is that ends with the given error of its reader.
func (p *parser) endXML(err error) error {
	isEnd := p.depth == 0 && errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
	switch {
	case !isEnd:
		return unreadable(err)
	case p.kind.item == "": // no element at all
		return errFormat
	case p.hasContent && p.entries+p.noURL.n+p.undefined.n == 0:
		return errNothing
	}
	return nil
}

// addText adds bytes to the open field's text, if a field is open.
func (p *parser) addText(b ...byte) {
	if p.field != "" && p.depth == p.fieldDepth {
		p.add(b...)
	}
}

// reference reads what follows a "&".
func (p *parser) reference() {
	ahead, _ := p.in.Peek(maxReference)
	character, length, defined := referenced(ahead)
	_, _ = p.in.Discard(length)
	p.addText(character...)
	if defined || p.field == "" || p.depth != p.fieldDepth {
		return
	}
	switch p.field { // its URL isn't the one that the site means
	case "loc", "link", p.item.name:
		p.item.undefined = true
	case "guid":
		p.item.guidUndefined = true
	}
}

const maxReference = len("CounterClockwiseContourIntegral;") // the longest name in HTML

// isName reports whether b is a name in XML, but for letters outside of ASCII.
var isName = regexp.MustCompile(`^[A-Za-z_:][A-Za-z0-9_:.-]*$`).Match

// referenced returns what a "&" and the length bytes after it stand for: one of XML's own entities
// or a character by its number. In front of anything else "&" stands for itself; defined is false
// where that is the name of an entity, also of one that the file itself declares.
func referenced(after []byte) (character []byte, length int, defined bool) {
	name, _, found := bytes.Cut(after[:min(len(after), maxReference)], []byte(";"))
	if !found {
		return []byte("&"), 0, true
	}
	r, known := entities[string(name)]
	if number, ok := bytes.CutPrefix(name, []byte("#")); ok {
		r, known = numbered(string(number))
	}
	if !known {
		return []byte("&"), 0, !isName(name)
	}
	return utf8.AppendRune(nil, r), len(name) + 1, true
}

// entities are XML's own.
var entities = map[string]rune{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\''}

// numbered returns the character of a number, such as "65" or "x41".
func numbered(number string) (r rune, ok bool) {
	base := 10
	hex, isHex := strings.CutPrefix(number, "x")
	if isHex {
		number = hex
		base = 16
	}
	n, err := strconv.ParseUint(number, base, 31)
	return rune(n), err == nil
}

// markup reads what follows a "<".
func (p *parser) markup() error {
	const cdata = "![CDATA["
	ahead, _ := p.in.Peek(len(cdata))
	var first byte
	if len(ahead) > 0 {
		first = ahead[0]
	}
	switch {
	case bytes.HasPrefix(ahead, []byte("!--")):
		_, _ = p.in.Discard(3)
		return p.skipPast("-->")
	case string(ahead) == cdata:
		_, _ = p.in.Discard(len(cdata))
		return p.cdata()
	case first == '!':
		return p.doctype()
	case first == '?':
		return p.skipPast("?>")
	case first == '/', first == '_', 'a' <= first|0x20 && first|0x20 <= 'z', first >= utf8.RuneSelf:
		return p.tag()
	}
	p.addText('<')
	return nil
}

// skipPast reads up to and including the first end.
func (p *parser) skipPast(end string) error {
	var window []byte
	for string(window) != end {
		b, err := p.in.ReadByte()
		if err != nil {
			return unreadable(err)
		}
		if len(window) == len(end) {
			window = append(window[:0], window[1:]...)
		}
		window = append(window, b)
	}
	return nil
}

// cdata reads up to and including "]]>". All before that is text.
func (p *parser) cdata() error {
	brackets := 0 // that were read, and that may be the end: two at most
	for {
		b, err := p.in.ReadByte()
		if err != nil {
			return unreadable(err)
		}
		switch {
		case b == ']' && brackets < 2:
			brackets++
		case b == ']':
			p.addText(b)
		case b == '>' && brackets == 2:
			return nil
		default:
			p.addText([]byte("]]")[:brackets]...)
			p.addText(b)
			brackets = 0
		}
	}
}

// doctype reads past a declaration and whatever it declares in brackets.
func (p *parser) doctype() error {
	brackets := 0
	for {
		b, err := p.in.ReadByte()
		if err != nil {
			return unreadable(err)
		}
		switch {
		case b == '[':
			brackets++
		case b == ']':
			brackets--
		case b == '>' && brackets <= 0:
			return nil
		}
	}
}

// tag reads a start tag or an end tag after its "<".
func (p *parser) tag() error {
	const most = 2 * maxLoc // of its bytes that are kept
	text := p.tagText[:0]
	var quote byte // that the value here is in
	for {
		b, err := p.in.ReadByte()
		if err != nil {
			return unreadable(err)
		}
		switch {
		case quote != 0:
			if b == quote {
				quote = 0
			}
		case b == '"' || b == '\'':
			quote = b
		case b == '>':
			p.tagText = text
			return p.act(string(text))
		}
		if len(text) < most {
			text = append(text, b)
		}
	}
}

// act opens or closes an element, given what is between "<" and ">".
func (p *parser) act(tag string) error {
	tag, ends := strings.CutPrefix(tag, "/")
	tag, empty := strings.CutSuffix(tag, "/")
	name := tag
	attributes := ""
	space := strings.IndexAny(tag, " \t\r\n")
	if space >= 0 {
		name = tag[:space]
		attributes = tag[space:]
	}
	local := name[strings.LastIndexByte(name, ':')+1:]
	prefix := name[:len(name)-len(local)]
	if !ends {
		if err := p.start(prefix, local, attributes); err != nil {
			return err
		}
	}
	if ends || empty {
		return p.end(prefix, local)
	}
	return nil
}

// start opens an element.
func (p *parser) start(prefix, local, attributes string) error {
	p.depth++
	if p.kind.item == "" {
		return p.startRoot(prefix, local, attributes)
	}
	p.hasContent = true
	isItem := local == p.kind.item || local == p.kind.sibling && p.depth <= p.itemLevel()
	switch {
	case isItem && prefix == p.prefix:
		return p.startItem(local, attributes)
	case p.itemDepth == 0:
		if p.kind.feed && local == "channel" {
			p.base = based(p.base, attributes)
		}
	case p.depth != p.itemDepth+1 || p.itemField(prefix, local) == nil:
	case local == "link" && p.startLink(attributes):
	case local == "guid" && isFalse(attributes, "isPermaLink"):
	default:
		p.takeOwn() // and the beginning of a field that wasn't closed
		p.field = local
		p.fieldDepth = p.depth
	}
	return nil
}

// itemLevel is the depth at which the items of a well-formed file are.
func (p *parser) itemLevel() int {
	if p.kind.feed {
		return 3 // in a channel
	}
	return 2
}

// startRoot opens the first element, by which the kind of the file is known.
func (p *parser) startRoot(prefix, local, attributes string) error {
	p.kind = kinds[local]
	if p.kind.item == "" {
		return errFormat
	}
	p.base = based(p.base, attributes)
	p.prefix = prefix
	if local == "RDF" { // of another namespace than its items
		p.prefix = ""
	}
	return nil
}

// startItem opens an item. One that isn't closed ends here.
func (p *parser) startItem(local, attributes string) error {
	err := p.endItem()
	p.item.name = local
	p.item.base = based(p.base, attributes)
	if p.kind.feed {
		about, defined := attribute(attributes, "rdf:about") // of RSS 1.0
		p.item.guid = about
		p.item.guidUndefined = !defined
	}
	p.itemDepth = p.depth
	if !p.kind.feed { // its text is the URL, if it has no loc
		p.field = local
		p.fieldDepth = p.depth
	}
	return err
}

// takeOwn takes the text so far. That of an item itself is its URL, unless another one is known.
func (p *parser) takeOwn() {
	text := strings.TrimSpace(p.taken())
	if p.field == p.item.name && p.item.loc == "" {
		p.item.loc = text
	}
}

// startLink opens a link whose URL is an attribute, as those of Atom, and reports true; false: it
// has none. An entry has other links, such as to its comments. Of several to the page itself the
// first one counts, and one to HTML before those to other types.
func (p *parser) startLink(attributes string) bool {
	href, defined := attribute(attributes, "href")
	if href == "" {
		return false
	}
	rel, _ := attribute(attributes, "rel")
	rel = strings.TrimPrefix(rel, "http://www.iana.org/assignments/relation/")
	if rel != "" && rel != "alternate" {
		return true
	}
	mediaType, _ := attribute(attributes, "type")
	isHTML := mediaType == "" || strings.Contains(strings.ToLower(mediaType), "html")
	if p.item.loc != "" && (p.item.isHTML || !isHTML) {
		return true
	}
	p.item.base = based(p.item.base, attributes)
	p.item.loc = href
	p.item.isHTML = isHTML
	p.item.undefined = !defined
	return true
}

// based returns the base of the relative URLs in an element: that of its attribute xml:base, else
// the one outside of it.
func based(outer *weblink.URL, attributes string) *weblink.URL {
	ref, defined := attribute(attributes, "xml:base")
	if ref == "" || !defined {
		return outer
	}
	base, err := weblink.ParseURL(outer, ref)
	if err != nil {
		return outer
	}
	return &base
}

// isFalse reports whether the attribute of that name is "false".
func isFalse(attributes, name string) bool {
	value, _ := attribute(attributes, name)
	return strings.EqualFold(strings.TrimSpace(value), "false")
}

// end closes an element.
func (p *parser) end(prefix, local string) error {
	if p.field != "" && p.depth == p.fieldDepth {
		field := p.itemField(prefix, local)
		if field != nil && local == p.field {
			*field = p.taken()
		}
		if p.field != p.item.name {
			p.field = ""
		}
	}
	p.depth = max(p.depth-1, 0)
	if local == p.item.name && prefix == p.prefix {
		return p.endItem()
	}
	return nil
}

// endItem yields the item that is open, if one is.
func (p *parser) endItem() error {
	if p.itemDepth == 0 {
		return nil
	}
	p.takeOwn()
	it := p.item
	p.item = item{}
	p.itemDepth = 0
	p.field = ""
	return p.emit(it)
}

// itemField returns where the text of an element belongs that is directly in an item, or nil.
func (p *parser) itemField(prefix, local string) *string {
	if p.kind.feed {
		switch prefix + local {
		case p.prefix + "link":
			return &p.item.loc
		case p.prefix + "guid":
			return &p.item.guid
		case p.prefix + "pubDate", "dc:date", p.prefix + "updated", p.prefix + "modified":
			return &p.item.lastMod
		}
		return nil
	}
	if prefix != p.prefix {
		return nil
	}
	switch local {
	case "loc":
		return &p.item.loc
	case "lastmod":
		return &p.item.lastMod
	case "changefreq":
		return &p.item.changeFreq
	case "priority":
		return &p.item.priority
	}
	return nil
}

// attribute returns the value of the attribute of that name, with its references resolved; defined
// is false where one is of an entity that XML doesn't define.
func attribute(attributes, name string) (value string, defined bool) {
	for {
		this, rest, found := strings.Cut(attributes, "=")
		rest = strings.TrimLeft(rest, " \t\r\n")
		if !found || rest == "" {
			return "", true
		}
		value, attributes, found = strings.Cut(rest[1:], rest[:1]) // rest[0] is a quote
		if !found {
			return "", true
		}
		if strings.TrimSpace(this) == name {
			return resolve(value)
		}
	}
}

// resolve replaces references by what they stand for, see attribute.
func resolve(value string) (text string, defined bool) {
	var b strings.Builder
	defined = true
	for {
		before, after, found := strings.Cut(value, "&")
		b.WriteString(before)
		if !found {
			return b.String(), defined
		}
		character, length, known := referenced([]byte(after))
		b.Write(character)
		value = after[length:]
		defined = defined && known
	}
}
