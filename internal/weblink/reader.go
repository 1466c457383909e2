package weblink

import (
	"bytes"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// A Reader reads the tags and the text of a page as browsers do: like html.Tokenizer, with the
// rules of the HTML standard's parser for what a tokenizer doesn't know (sections 13.2.4 to
// 13.2.6).
//
//   - In SVG and MathML a start tag that ends with "/>" is a whole element, <title> and the like hold
//     no raw text, and there are CDATA sections. HTML begins again in elements such as
//     <foreignObject>, and with a tag such as <div>, which breaks out.
//   - What is in a <template> isn't part of the page.
//   - The head ends where something begins that can't be in it.
//   - XHTML is XML: "/>" ends each element, no text is raw, and namespaces say which elements are
//     those of HTML, whatever prefix they have.
//
// It builds no tree: the time grows with the length of the page alone, and memory with the longest
// token.
type Reader struct {
	z        *html.Tokenizer
	isXML    bool
	isStrict bool // XML: an element without a namespace isn't one of HTML, as the page declares some
	hasRoot  bool // XML: the outermost element has begun
	isOther  bool // XML: that element isn't one of HTML, so the document is no page

	name       atom.Atom
	nameText   []byte
	names      names
	attributes []Attribute
	collected  bool // attributes are those of the tag that z is at

	// HTML: the open elements from the outermost one of SVG or MathML on. XHTML: all.
	open     []element
	beyond   int         // number of open elements for which there was no room
	around   [256]uint32 // number of open elements of HTML around open, by slot of their names
	tops     []int
	beyondT  int  // number of open templates for which there was no room
	raw      bool // the next text is that of an element with raw text
	noscript int  // number of open noscript elements, of HTML
	hidden   int  // XHTML: number of open elements whose text isn't shown
	headOver bool

	// XML: the prefixes of the open elements' namespaces, from the outermost one on.
	prefixes []prefix
}

// Markup says how a page is read.
type Markup uint8

// HTML is read as HTML. XHTML is read as XML, whose elements are those of HTML if the outermost one
// declares no namespace. XML is a page if its outermost element has the namespace of HTML.
const (
	HTML Markup = iota
	XHTML
	XML
)

// MarkupOf returns how a page of a media type is read, and whether it may be a page at all.
// mediaType is in lower case and without parameters. Without a type browsers show a page, if it
// looks like one.
func MarkupOf(mediaType string) (m Markup, isPage bool) {
	switch mediaType {
	case "", "text/html":
		return HTML, true
	case "application/xhtml+xml", "application/vnd.wap.xhtml+xml":
		return XHTML, true
	case "application/xml", "text/xml":
		return XML, true
	}
	return XML, strings.HasSuffix(mediaType, "+xml") // RFC 7303, section 4.2
}

// names says in which vocabulary a tag is.
type names uint8

const (
	inHTML names = iota
	inSVG
	inMathML
	inXLink
	inNone // no namespace, or another one
)

// namespaces are those of XML that are known here.
var namespaces = map[string]names{
	"http://www.w3.org/1999/xhtml":       inHTML,
	"http://www.w3.org/2000/svg":         inSVG,
	"http://www.w3.org/1998/Math/MathML": inMathML,
	"http://www.w3.org/1999/xlink":       inXLink,
}

// A prefix of names stands for a namespace.
type prefix struct {
	hash  uint32 // of the prefix; that of "" is of names without one
	names names
}

// An element is open.
type element struct {
	hash   uint32 // of its name
	names  names
	isHTML bool // what it contains is HTML: an integration point
	isText bool // it is one for all but two tags of MathML
	isEach bool // it is one for <svg>
	hides  bool // XHTML: its text isn't shown

	prefixes int // XML: the number of Reader.prefixes around the element
}

// maxOpen is the number of open elements that are remembered, as browsers have such a bound: 512 in
// Chromium. The time of an end tag is in proportion to it.
const maxOpen = 256

// maxPrefixes is the number of prefixes that are remembered. One beyond it has no namespace.
const maxPrefixes = 256

// An Attribute is one of a tag. It is valid until Next is called.
type Attribute struct{ Name, Value []byte }

// NewReader returns a Reader of a page in UTF-8.
func NewReader(page io.Reader, m Markup) *Reader {
	r := &Reader{
		z:        html.NewTokenizer(page),
		isXML:    m != HTML,
		isStrict: m == XML,
	}
	r.z.AllowCDATA(r.isXML)
	return r
}

// Next reads up to the next start tag, end tag or text. It returns html.StartTagToken also for one
// that ends itself, and html.ErrorToken at the end of the page, or where it can't be read. That is
// at the beginning of an XML document that is no page.
func (r *Reader) Next() html.TokenType {
	for !r.isOther {
		kind := r.z.Next()
		r.collected = false
		switch kind {
		case html.ErrorToken:
			return kind
		case html.StartTagToken, html.SelfClosingTagToken:
			r.start(kind == html.SelfClosingTagToken)
			if r.isOther {
				return html.ErrorToken
			}
			return html.StartTagToken
		case html.EndTagToken:
			r.end()
			return kind
		case html.TextToken:
			return kind
		}
	}
	return html.ErrorToken
}

// IsPage reports whether nothing read so far shows that the document is XML of another kind.
func (r *Reader) IsPage() bool { return !r.isOther }

// Name returns the name of the tag, without a prefix of XML; 0: it is none that HTML knows.
func (r *Reader) Name() atom.Atom { return r.name }

// IsHTML reports whether the tag is one of HTML, and part of the page: not in a <template>.
func (r *Reader) IsHTML() bool { return r.names == inHTML && !r.InTemplate() }

// IsSVG reports whether the tag is one of SVG, and part of the page.
func (r *Reader) IsSVG() bool { return r.names == inSVG && !r.InTemplate() }

// InTemplate reports whether the token is in a <template>, so that it isn't part of the page.
func (r *Reader) InTemplate() bool { return len(r.tops)+r.beyondT > 0 }

// InHead reports whether the head of the page isn't over.
func (r *Reader) InHead() bool { return !r.headOver }

// Attributes returns those of the start tag, with their names in lower case. Of two with one name
// the first counts. An attribute of XLink has the prefix "xlink:", whichever XML has declared.
func (r *Reader) Attributes() []Attribute {
	if r.collected {
		return r.attributes
	}
	r.collected = true
	r.attributes = r.attributes[:0]
	for {
		name, value, more := r.z.TagAttr()
		if len(name) > 0 {
			r.attributes = append(r.attributes, Attribute{name, value})
		}
		if !more {
			break
		}
	}
	return r.attributes
}

// attribute returns the value of an attribute of the start tag.
func (r *Reader) attribute(name string) (value string, ok bool) {
	for _, a := range r.Attributes() {
		if string(a.Name) == name {
			return string(a.Value), true
		}
	}
	return "", false
}

// Text returns the text of a text token until Next is called; empty: it isn't shown, as that of a
// script. Line ends are as written.
func (r *Reader) Text() []byte {
	isHidden := r.InTemplate() || r.noscript > 0 || r.hidden > 0
	if isHidden || r.raw && r.name != atom.Title && r.name != atom.Textarea && r.name != atom.Xmp {
		return nil
	}
	text := r.z.Raw()
	isPlain := len(text) > 0 && text[0] != '<' && bytes.IndexByte(text, '&') < 0
	if !isPlain { // it has references, or is a CDATA section
		text = r.z.Text()
	}
	if !r.headOver && !r.raw && !r.isXML && hasLetters(text) {
		r.headOver = true
	}
	return text
}

// readName returns the name of the tag in lower case, which begins at an index of its text, with
// its prefix. Unlike Tokenizer.TagName it allocates nothing.
func (r *Reader) readName(at int) []byte {
	r.nameText = r.nameText[:0]
	for _, c := range r.z.Raw()[at:] {
		if c == '/' || c == '>' || isSpace(c) {
			break
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		r.nameText = append(r.nameText, c)
	}
	local := r.nameText
	if r.isXML {
		_, local = cutPrefix(r.nameText)
	}
	r.name = atom.Lookup(local)
	return r.nameText
}

// cutPrefix returns the parts of a name of XML; prefix is empty if it has none.
func cutPrefix(name []byte) (prefix, local []byte) {
	i := bytes.IndexByte(name, ':')
	if i < 0 {
		return nil, name
	}
	return name[:i], name[i+1:]
}

// isSpace reports whether c is white space in HTML.
func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }

// hasLetters reports whether a text is more than white space.
func hasLetters(text []byte) bool {
	for _, c := range text {
		if !isSpace(c) {
			return true
		}
	}
	return false
}

// start reads the start tag that z is at.
func (r *Reader) start(isWhole bool) {
	name := r.readName(len("<"))
	r.raw = false
	switch {
	case r.isXML:
		r.startXML(name, isWhole)
	case r.isForeign(name) && !r.breaksOut():
		r.startForeign(name, isWhole)
	default:
		r.startHTML(name, isWhole)
	}
	if !r.isXML {
		r.z.AllowCDATA(r.top().names != inHTML)
	}
	if !r.headOver && r.names == inHTML && !r.InTemplate() && r.noscript == 0 && !inHead[r.name] {
		r.headOver = true
	}
}

// inHead are the elements that don't end the head of a page.
var inHead = map[atom.Atom]bool{
	atom.Base: true, atom.Basefont: true, atom.Bgsound: true, atom.Head: true, atom.Html: true,
	atom.Link: true, atom.Meta: true, atom.Noframes: true, atom.Noscript: true, atom.Script: true,
	atom.Style: true, atom.Template: true, atom.Title: true,
}

// top returns the innermost open element that is remembered; the zero value is one of HTML.
func (r *Reader) top() element {
	if len(r.open) == 0 {
		return element{}
	}
	return r.open[len(r.open)-1]
}

// isForeign reports whether a start tag is read by the rules for SVG and MathML.
func (r *Reader) isForeign(name []byte) bool {
	top := r.top()
	switch {
	case top.names == inHTML, top.isHTML:
		return false
	case top.isText:
		return string(name) == "mglyph" || string(name) == "malignmark"
	case top.isEach:
		return r.name != atom.Svg
	}
	return true
}

// breaksOut ends the open elements of SVG and MathML, and reports true, if the start tag is one of
// HTML that can't be in them.
func (r *Reader) breaksOut() bool {
	isFont := false
	if r.name == atom.Font {
		_, hasColor := r.attribute("color")
		_, hasFace := r.attribute("face")
		_, hasSize := r.attribute("size")
		isFont = hasColor || hasFace || hasSize
	}
	if !isFont && !breakouts[r.name] {
		return false
	}
	r.breakOut()
	return true
}

// breakOut ends the elements of SVG and MathML up to one that contains HTML.
func (r *Reader) breakOut() {
	for {
		top := r.top()
		if top.names == inHTML || top.isHTML || top.isText {
			return
		}
		r.pop(len(r.open) - 1)
	}
}

// breakouts are the start tags that end SVG and MathML (HTML, section 13.2.6.5).
var breakouts = map[atom.Atom]bool{
	atom.B: true, atom.Big: true, atom.Blockquote: true, atom.Body: true, atom.Br: true,
	atom.Center: true, atom.Code: true, atom.Dd: true, atom.Div: true, atom.Dl: true,
	atom.Dt: true, atom.Em: true, atom.Embed: true, atom.H1: true, atom.H2: true, atom.H3: true,
	atom.H4: true, atom.H5: true, atom.H6: true, atom.Head: true, atom.Hr: true, atom.I: true,
	atom.Img: true, atom.Li: true, atom.Listing: true, atom.Menu: true, atom.Meta: true,
	atom.Nobr: true, atom.Ol: true, atom.P: true, atom.Pre: true, atom.Ruby: true, atom.S: true,
	atom.Small: true, atom.Span: true, atom.Strong: true, atom.Strike: true, atom.Sub: true,
	atom.Sup: true, atom.Table: true, atom.Tt: true, atom.U: true, atom.Ul: true, atom.Var: true,
}

// startForeign reads a start tag of SVG or MathML.
func (r *Reader) startForeign(name []byte, isWhole bool) {
	r.z.NextIsNotRawText()
	r.names = r.top().names
	if isWhole {
		return
	}
	e := element{hash: hashOf(name), names: r.names}
	switch {
	case r.names == inSVG:
		e.isHTML = r.name == atom.Title || r.name == atom.Desc || string(name) == "foreignobject"
	case string(name) == "annotation-xml":
		encoding, _ := r.attribute("encoding")
		e.isHTML = equalFold(encoding, "text/html") || equalFold(encoding, "application/xhtml+xml")
		e.isEach = !e.isHTML
	default:
		e.isText = textPoints[string(name)]
	}
	r.push(e)
}

// textPoints are the elements of MathML that contain HTML.
var textPoints = map[string]bool{"mi": true, "mo": true, "mn": true, "ms": true, "mtext": true}

// startHTML reads a start tag of HTML.
func (r *Reader) startHTML(name []byte, isWhole bool) {
	r.names = inHTML
	switch r.name {
	case atom.Svg, atom.Math:
		r.names = inSVG
		if r.name == atom.Math {
			r.names = inMathML
		}
		if !isWhole {
			r.push(element{hash: hashOf(name), names: r.names})
		}
		return
	case atom.Noscript, atom.Noframes: // they are for readers like this one
		r.z.NextIsNotRawText()
		if r.name == atom.Noscript {
			r.noscript++
		}
	case atom.Script, atom.Style, atom.Title, atom.Textarea, atom.Iframe, atom.Xmp, atom.Noembed, atom.Plaintext:
		r.raw = true
	case atom.Template:
		r.startTemplate()
		return
	}
	switch hash := hashOf(name); {
	case len(r.open) == 0:
		r.around[slot(hash)]++
	case !voids[r.name]:
		r.push(element{hash: hash})
	}
}

// startTemplate opens a <template>. That of a shadow root is part of the page.
func (r *Reader) startTemplate() {
	mode, _ := r.attribute("shadowrootmode")
	switch {
	case equalFold(mode, "open"), equalFold(mode, "closed"):
	case len(r.tops) == maxOpen:
		r.beyondT++
	default:
		r.tops = append(r.tops, len(r.open))
	}
}

// voids are the elements without an end tag.
var voids = map[atom.Atom]bool{
	atom.Area: true, atom.Base: true, atom.Basefont: true, atom.Bgsound: true, atom.Br: true,
	atom.Col: true, atom.Embed: true, atom.Frame: true, atom.Hr: true, atom.Img: true,
	atom.Image: true, atom.Input: true, atom.Keygen: true, atom.Link: true, atom.Meta: true,
	atom.Param: true, atom.Source: true, atom.Track: true, atom.Wbr: true,
}

// startXML reads a start tag of XML.
func (r *Reader) startXML(name []byte, isWhole bool) {
	r.z.NextIsNotRawText()
	around := len(r.prefixes)
	for _, a := range r.Attributes() {
		r.declare(a)
	}
	r.names = r.namesOf(name)
	if !r.hasRoot {
		r.hasRoot = true
		r.isOther = r.isStrict && r.names != inHTML
		before, _ := cutPrefix(name)
		_, isDeclared := r.declared(before)
		r.isStrict = r.isStrict || isDeclared
	}
	for i, a := range r.attributes {
		r.attributes[i].Name = r.spelled(a.Name)
	}
	if isWhole {
		r.prefixes = r.prefixes[:around]
		return
	}
	if r.names == inHTML && r.name == atom.Template {
		r.startTemplate()
	}
	r.push(element{
		hash:     hashOf(name),
		names:    r.names,
		hides:    r.name == atom.Script || r.name == atom.Style || r.name == atom.Noscript,
		prefixes: around,
	})
}

// declare reads an attribute that may declare a prefix.
func (r *Reader) declare(a Attribute) {
	declares, name := cutPrefix(a.Name)
	if declares == nil { // the namespace of names without a prefix
		declares = name
		name = nil
	}
	if string(declares) != "xmlns" || len(r.prefixes) == maxPrefixes {
		return
	}
	in, ok := namespaces[string(a.Value)]
	if !ok {
		in = inNone
	}
	r.prefixes = append(r.prefixes, prefix{hash: hashOf(name), names: in})
}

// namesOf returns the namespace of an element's name.
func (r *Reader) namesOf(name []byte) names {
	before, _ := cutPrefix(name)
	in, ok := r.declared(before)
	switch {
	case ok:
		return in
	case before == nil && !r.isStrict: // nothing is declared, but its type says XHTML
		return inHTML
	}
	return inNone
}

// declared returns the namespace that a prefix stands for.
func (r *Reader) declared(name []byte) (in names, ok bool) {
	hash := hashOf(name)
	for i := len(r.prefixes) - 1; i >= 0; i-- {
		if r.prefixes[i].hash == hash {
			return r.prefixes[i].names, true
		}
	}
	return inNone, false
}

// spelled returns the name of an attribute, with the usual prefix if it is one of XLink.
func (r *Reader) spelled(name []byte) []byte {
	before, local := cutPrefix(name)
	if before == nil || string(before) == "xlink" {
		return name
	}
	in, _ := r.declared(before)
	if in != inXLink {
		return name
	}
	return append([]byte("xlink:"), local...)
}

// push opens an element.
func (r *Reader) push(e element) {
	if len(r.open) == maxOpen {
		r.beyond++
		r.prefixes = r.prefixes[:e.prefixes] // its end isn't noticed
		return
	}
	r.open = append(r.open, e)
	if e.hides {
		r.hidden++
	}
}

// pop ends the open elements from i on.
func (r *Reader) pop(i int) {
	for _, e := range r.open[i:] {
		if e.hides {
			r.hidden--
		}
	}
	if i < len(r.open) {
		r.prefixes = r.prefixes[:r.open[i].prefixes]
	}
	r.open = r.open[:i]
	r.beyond = 0
}

// end reads the end tag that z is at.
func (r *Reader) end() {
	name := r.readName(len("</"))
	r.raw = false
	r.names = r.top().names
	if r.top().isHTML || r.top().isText {
		r.names = inHTML // unless it ends this element, which no caller looks at
	}
	if r.isXML {
		r.names = r.namesOf(name)
	}
	if r.name == atom.Noscript && r.names == inHTML {
		r.noscript = max(r.noscript-1, 0)
	}
	isTemplate := r.name == atom.Template && (!r.isXML || r.names == inHTML)
	switch {
	case isTemplate && r.endTemplate():
	case r.beyond > 0:
		r.beyond--
	default:
		r.endElement(name)
	}
	if !r.isXML {
		r.z.AllowCDATA(r.top().names != inHTML)
	}
}

// endTemplate ends the innermost <template>, and what is open in it. It reports whether one was.
func (r *Reader) endTemplate() bool {
	switch {
	case r.beyondT > 0:
		r.beyondT--
	case len(r.tops) == 0:
		return false
	default:
		last := len(r.tops) - 1
		r.pop(min(r.tops[last], len(r.open)))
		r.tops = r.tops[:last]
	}
	return true
}

// endElement ends the innermost open element of the name, and what is open in it.
func (r *Reader) endElement(name []byte) {
	isBreakout := r.name == atom.Br || r.name == atom.P
	if isBreakout && !r.isXML && r.top().names != inHTML {
		r.breakOut()
		return
	}
	hash := hashOf(name)
	if len(r.open) == 0 && r.around[slot(hash)] > 0 {
		r.around[slot(hash)]--
		return
	}
	wasHTML := false
	for i := len(r.open) - 1; i >= 0; i-- {
		e := r.open[i]
		// An end tag of HTML ends nothing outside of the HTML that it is in.
		if wasHTML && e.names != inHTML && !r.isXML {
			return
		}
		if e.hash == hash {
			r.pop(i)
			return
		}
		wasHTML = wasHTML || e.names == inHTML
	}
	if !wasHTML && !r.isXML && r.around[slot(hash)] > 0 { // an element around the SVG ends, which ends with it
		r.pop(0)
		r.around[slot(hash)]--
	}
}

// slot returns the index in Reader.around for the hash of a name.
func slot(hash uint32) uint8 { return uint8(hash ^ hash>>8 ^ hash>>16 ^ hash>>24) }

// hashOf returns a hash of the name of an element, FNV-1a.
func hashOf(name []byte) uint32 {
	h := uint32(2166136261)
	for _, c := range name {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}

// equalFold reports whether s is lower, which is in lower case, but for the case of its letters.
func equalFold(s, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
